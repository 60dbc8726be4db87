! Procedures as f2py makes objects of them.
function square(h) result(r)
  real(8), intent(in) :: h
  real(8) :: r
  r = h * h
end function

function single(x) result(r)
  real(4), intent(in) :: x
  real(4) :: r
  r = x * 2
end function

function mixed(n, x, k) result(r)
  integer, intent(in) :: n
  real(8), intent(in) :: x
  integer(8), intent(in) :: k
  real(8) :: r
  r = n + x * k
end function

function count(n) result(r)
  integer, intent(in) :: n
  integer :: r
  r = n + 1
end function

function turn(z, k) result(r)
  complex(8), intent(in) :: z
  integer(2), intent(in) :: k
  complex(8) :: r
  r = z * (0d0, 1d0) ** k
end function

function narrow(z) result(r)
  complex(4), intent(in) :: z
  complex(4) :: r
  r = conjg(z)
end function

function low(k) result(r)
  integer(2), intent(in) :: k
  integer(2) :: r
  r = k - 1_2
end function

subroutine scale(n, x, a)
  integer, intent(in) :: n
  real(8), intent(inout) :: x(n)
  real(8), intent(in) :: a
  x = x * a
end subroutine

subroutine measure(s, n, t)
  character(len=*), intent(in) :: s, t
  integer, intent(out) :: n
  n = 10 * len(s) + len(t)
end subroutine

subroutine words(b, a, n)
  integer(1), intent(in) :: b(2)
  character(len=*), intent(in) :: a(3)
  integer, intent(out) :: n
  n = b(2) + len(a)
end subroutine

function letters(s, k) result(n)
  character(len=*), intent(in) :: s
  integer, intent(in) :: k
  integer :: n
  n = k * len(s)
end function

function apply(f, x) result(r)
  external f
  real(8) :: f, x, r
  r = f(x)
end function
