"""Procedures of Fortran: numbers by reference, texts with their lengths, names without ``_``.

The callees are written in Fortran where gfortran is there, and LAPACK's and BLAS' where these are;
the same procedures in C, as a compiler of Fortran would make them, are called everywhere.
"""

import ctypes
import pickle
import shutil
import subprocess
from fractions import Fraction

import pytest

import nativecall as nc

numpy = pytest.importorskip("numpy")

FORTRAN = """
subroutine axpy(n, a, x, y)
  integer, intent(in) :: n
  double precision, intent(in) :: a, x(n)
  double precision, intent(inout) :: y(n)
  y = y + a * x
end subroutine

double precision function trace(n, a, lda)
  integer, intent(in) :: n, lda
  double precision, intent(in) :: a(lda, n)
  integer :: i
  trace = 0
  do i = 1, n
    trace = trace + a(i, i) * 10 ** (i - 1)
  end do
end function

integer function lengths(first, k, second)
  character(len=*), intent(in) :: first, second
  integer, intent(in) :: k
  lengths = k + 100 * len(first) + 10000 * len(second)
end function

subroutine shout(text, changed)
  character(len=*), intent(inout) :: text
  integer, intent(out) :: changed
  integer :: i
  changed = 0
  do i = 1, len(text)
    if (text(i:i) >= 'a' .and. text(i:i) <= 'z') then
      text(i:i) = achar(iachar(text(i:i)) - 32)
      changed = changed + 1
    end if
  end do
end subroutine

subroutine widths(s, d, z, i, j, flag, total)
  real, intent(in) :: s
  double precision, intent(in) :: d
  complex(kind=8), intent(in) :: z
  integer, intent(in) :: i
  integer(kind=8), intent(in) :: j
  logical, intent(in) :: flag
  double precision, intent(out) :: total
  total = s + d + real(z) + aimag(z) + i + j
  if (flag) total = -total
end subroutine
"""
#: What gfortran makes of it.
IN_C = """
#include <complex.h>
#include <stddef.h>
#include <stdint.h>
void axpy_(const int *n, const double *a, const double *x, double *y);
double trace_(const int *n, const double *a, const int *lda);
int lengths_(const char *a, const int *k, const char *b, size_t first, size_t second);
void shout_(char *text, int *changed, size_t length);
void widths_(const float *s, const double *d, const double _Complex *z, const int *i,
             const int64_t *j, const int *flag, double *total);
void axpy_(const int *n, const double *a, const double *x, double *y)
{
    for (int i = 0; i < *n; i++) y[i] += *a * x[i];
}
double trace_(const int *n, const double *a, const int *lda)
{
    double sum = 0, power = 1;
    for (int i = 0; i < *n; i++, power *= 10) sum += a[i + i * *lda] * power;
    return sum;
}
int lengths_(const char *a, const int *k, const char *b, size_t first, size_t second)
{
    (void)a, (void)b;
    return *k + 100 * (int)first + 10000 * (int)second;
}
void shout_(char *text, int *changed, size_t length)
{
    *changed = 0;
    for (size_t i = 0; i < length; i++)
        if (text[i] >= 'a' && text[i] <= 'z') text[i] = (char)(text[i] - 32), ++*changed;
}
void widths_(const float *s, const double *d, const double _Complex *z, const int *i,
             const int64_t *j, const int *flag, double *total)
{
    *total = *s + *d + creal(*z) + cimag(*z) + *i + (double)*j;
    if (*flag) *total = -*total;
}
"""
DECLARED = """
    void axpy_(int *n, double *a, double *x, double *y);
    double trace_(int *n, double *a, int *lda);
    int lengths_(char *first, int *k, char *second);
    void shout_(char *text, int *changed);
    void widths_(float *s, double *d, double _Complex *z, int *i, long long *j, int *flag,
                 double *total);
"""


@pytest.fixture(scope="module", params=["C", "gfortran"])
def compiled(request, builder, tmp_path_factory):
    """The path of a library that has the procedures."""
    if request.param == "C":
        return builder.library(IN_C, "procedures", flags=["-O1", "-std=c11"])
    gfortran = shutil.which("gfortran")
    if gfortran is None:
        pytest.skip("no gfortran")
    folder = tmp_path_factory.mktemp("fortran")
    (folder / "procedures.f90").write_text(FORTRAN)
    command = [gfortran, "-shared", "-fPIC", "-O1", "-o", "procedures.so", "procedures.f90"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "procedures.so"


@pytest.fixture
def lib(compiled):
    return nc.load(compiled, DECLARED, fortran=True)


# -- numbers ---------------------------------------------------------------------------------------


def test_numbers_by_reference_and_arrays(lib):
    x, y = numpy.arange(3.0), numpy.ones(3)
    lib.axpy(3, 2.0, x, y)
    assert y.tolist() == [1.0, 3.0, 5.0]
    lib.axpy(numpy.int32(2), numpy.float64(1.0), x, y)
    assert y.tolist() == [1.0, 4.0, 5.0]
    lib.axpy(n=1, a=Fraction(1, 2), x=1.0, y=y)
    assert y.tolist() == [1.5, 4.0, 5.0]


def test_pointers_are_what_they_always_are(lib):
    ffi = pytest.importorskip("cffi").FFI()
    y = numpy.zeros(2)
    n, a, x = ffi.new("int *", 2), ctypes.c_double(3.0), (ctypes.c_double * 2)(1.0, 2.0)
    lib.axpy(n, a, ctypes.byref(x), y)
    assert y.tolist() == [3.0, 6.0]
    lib.axpy(numpy.array([2], numpy.int32), numpy.array(3.0), x, y)
    assert y.tolist() == [6.0, 12.0]


def test_what_is_written_to_is_memory(lib):
    total = ctypes.c_double()
    lib.widths(0.5, 1, 2 + 3j, True, 2**40, False, total)
    assert total.value == 6.5 + 1 + 2**40
    for written in (numpy.zeros(1), numpy.zeros(())):
        lib.widths(0.5, 1, 2, 3, 4, True, written)
        assert written.item() == -10.5
    lib.widths(0.5, 1, 2, 3, 4, True, 0.0)  # what is written to a number is lost


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((2.5, 1.0, 1.0, 1.0), TypeError, "argument 1 of 'axpy_' must be an integer (got float)"),
        (
            (2**31, 1.0, 1.0, 1.0),
            OverflowError,
            "argument 1 of 'axpy_' is 2147483648, out of range for 'int' "
            "(-2147483648 to 2147483647)",
        ),
        (
            (numpy.int64(2**31), 1.0, 1.0, 1.0),
            OverflowError,
            "argument 1 of 'axpy_' is 2147483648, out of range for 'int' "
            "(-2147483648 to 2147483647)",
        ),
        (
            (1, [1.0], 1.0, 1.0),
            TypeError,
            "argument 2 of 'axpy_' must be a 'double *' pointer: a number, a buffer, or a ctypes "
            "or cffi pointer (got list); numpy.array(values, 'd') makes a buffer from them",
        ),
        (
            (1, 1.0, None, 1.0),
            TypeError,
            "argument 3 of 'axpy_' must be a number or an array, which Fortran takes by reference "
            "(got None); to omit an optional argument, pass a NULL pointer of ctypes or cffi",
        ),
        (
            (1, 1.0, numpy.zeros(2, numpy.float32), 1.0),
            TypeError,
            "argument 3 of 'axpy_' must be a buffer that suits 'double *' (got 'f' elements in "
            "numpy.ndarray); its dtype is float32, astype('float64') of it is a copy that suits",
        ),
    ],
)
def test_what_is_no_number(lib, fails, arguments, error, message):
    with fails(error, message):
        lib.axpy(*arguments)


def test_null_is_passed_where_it_is_meant(lib, compiled):
    y = numpy.ones(1)
    for null in (ctypes.c_void_p(), lib.ffi.NULL):
        assert lib.axpy(0, 1.0, null, y) is None
    with pytest.raises(TypeError, match="argument 2 of 'axpy_' must be a number or an array"):
        lib.axpy.bind(a=None)
    in_c = nc.load(compiled).function("axpy_", "v:&i&d&d&d")
    assert in_c(numpy.zeros(1, numpy.int32), numpy.ones(1), None, y) is None


def test_arrays_are_in_fortran_order(lib, fails):
    square = numpy.arange(9.0).reshape(3, 3)
    assert lib.trace(3, numpy.asfortranarray(square), 3) == 0 + 40 + 800
    with fails(
        ValueError,
        "argument 2 of 'trace_' must be in Fortran order, this numpy.ndarray is in C order; pass "
        'numpy.asfortranarray() of it, or load the function with order="C" or order="A" if C '
        "expects that",
    ):
        lib.trace(3, square, 3)
    any_order = lib.function("trace", order="A")
    assert any_order(3, square, 3) == 840
    assert (lib.trace.entries[0].order, any_order.entries[0].order) == ("F", "A")


def test_numbers_of_pointers_to_others_are_none(compiled, fails):
    """Only pointers to numbers are references to them."""
    lib = nc.load(compiled)
    axpy = lib.function("axpy_", "void (int *, void *, int **, double *)", fortran=True)
    for place, text in ((1, r"void \*"), (2, r"int \*\*")):
        arguments = [1, None, None, None]
        arguments[place] = 5
        with pytest.raises(
            TypeError, match=rf"^argument {place + 1} of 'axpy_' must be a '{text}'"
        ):
            axpy(*arguments)


# -- texts -----------------------------------------------------------------------------------------


def test_lengths_follow_the_arguments(lib):
    assert lib.lengths.signatures == ("i:&b&i&bQQ",)
    assert lib.lengths("abc", 7, b"de") == 20307
    assert lib.lengths(k=1, first="", second=numpy.array([b"abcd", b"ef"])) == 40001
    assert lib.lengths(bytearray(5), 0, numpy.zeros(6, numpy.int8)) == 60500
    assert lib.lengths(None, 0, (ctypes.c_char * 3)()) == 30000
    assert lib.lengths(numpy.bytes_(b"ab"), 0, 65) == 10200


def test_lengths_that_are_declared_are_not_passed(compiled):
    for size in ("size_t", "int", "long"):
        declared = f"int lengths_(const char *, const int *, const char *, {size}, {size});"
        lib = nc.load(compiled, declared, fortran=True)
        assert lib.lengths("abc", 7, "de") == 20307


def test_pointers_tell_their_lengths(lib, fails):
    ffi = pytest.importorskip("cffi").FFI()
    assert lib.lengths(ffi.new("char[4]"), 0, b"") == 400
    wanted = "a text of known length: a str, bytes or an array"
    with pytest.raises(TypeError, match=rf"^argument 1 of 'lengths_' must be {wanted} \(got .*C"):
        lib.lengths(ffi.new("char *"), 0, b"")
    with fails(TypeError, "'lengths_' takes exactly 3 arguments (4 given)"):
        lib.lengths("a", 1, "b", 1)
    with pytest.raises(UnicodeEncodeError):
        lib.lengths("\u00e9", 1, "b")


def test_texts_that_are_written(lib):
    text, changed = bytearray(b"Fortran 90"), ctypes.c_int()
    lib.shout(text, changed)
    assert (text, changed.value) == (b"FORTRAN 90", 6)
    names = numpy.array([b"ab", b"cd"])
    lib.shout(names, changed)
    assert (names.tolist(), changed.value) == ([b"AB", b"cd"], 2)


def test_native_callers_see_the_lengths(lib):
    entry = ctypes.CFUNCTYPE(
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.POINTER(ctypes.c_int),
        ctypes.c_char_p,
        ctypes.c_size_t,
        ctypes.c_size_t,
    )(lib.lengths.address())
    assert entry(b"a", ctypes.byref(ctypes.c_int(3)), b"b", 1, 2) == 20103
    assert lib.lengths.to_ctypes()(None, ctypes.byref(ctypes.c_int(3)), None, 4, 5) == 50403


def test_bound_arguments(lib, fails):
    bound = lib.lengths.bind("abc", 7)
    assert bound.signatures == ("i:&bQQ",)
    assert bound(b"de", 3, 2) == 20307  # what is made of it is a function of C
    with fails(TypeError, "'lengths_' takes 3 arguments, 4 values cannot be bound"):
        lib.lengths.bind("a", 1, "b", 1)
    half = lib.trace.bind(2)
    assert half(numpy.asfortranarray(numpy.ones((2, 2))), 2) == 11


# -- names -----------------------------------------------------------------------------------------


def test_names_without_the_underscore(lib):
    assert lib.axpy is lib.axpy_ is lib.AXPY
    assert lib["trace"] is lib.trace_
    assert not hasattr(lib, "tracer")
    assert lib.function("trace").__name__ == "trace_"


def test_names_that_are_not_declared(compiled, fails):
    lib = nc.load(compiled)
    for name in ("trace", "trace_", "TRACE"):
        trace = lib.function(name, "double (int *, double *, int *)", fortran=True)
        assert trace(1, 5.0, 1) == 5.0
    with pytest.raises(nc.SymbolError, match=r"^no symbol 'trac' in .*; did you mean 'trace_'"):
        lib.function("trac", "double (int *, double *, int *)", fortran=True)
    with pytest.raises(nc.SymbolError, match=r"^no symbol 'trace' in .*; did you mean 'trace_'"):
        lib.function("trace", "double (int *, double *, int *)")


def test_some_procedures_of_a_library(compiled):
    lib = nc.load(compiled, DECLARED, fortran=["trace", "leng*"])
    assert (lib.trace(1, 2.0, 1), lib.lengths("a", 0, "b")) == (2.0, 10100)
    assert not hasattr(lib, "axpy")
    assert lib.axpy_.signatures == ("v:&i&d&d&d",)
    assert not lib.axpy_.entries[0].fortran
    with pytest.raises(TypeError, match=r"^argument 1 of 'axpy_' must be a 'int \*' pointer"):
        lib.axpy_(1, 2.0, 3.0, 4.0)
    assert lib.function("axpy", fortran=True)(1, 2.0, 3.0, 4.0) is None
    one = nc.load(compiled, DECLARED, fortran="trace_")
    assert one.trace(1, 2.0, 1) == 2.0
    assert not hasattr(one, "lengths")


def test_options_by_the_names_of_procedures(compiled):
    lib = nc.load(compiled, DECLARED, fortran=True, check={"trace": lambda found, *_: -found})
    assert lib.trace(1, 2.0, 1) == -2.0
    assert lib.function("trace", fortran=False).signatures == ("d:&i&d&i",)


@pytest.mark.parametrize("given", [5, [1], object()])
def test_what_is_no_choice(compiled, fails, given):
    with fails(
        TypeError,
        f"'fortran' must be True, False, or names or patterns of functions "
        f"(got {type(given[0] if type(given) is list else given).__name__})",
    ):
        nc.load(compiled, DECLARED, fortran=given)


def test_options_are_bool(compiled, fails):
    lib = nc.load(compiled, DECLARED)
    with fails(TypeError, "'fortran' must be True or False (got int)"):
        lib.function("axpy_", fortran=1)


# -- the rest --------------------------------------------------------------------------------------


def test_they_can_be_pickled(lib):
    again = pickle.loads(pickle.dumps(lib))
    assert again.lengths("abc", 7, "de") == 20307
    lengths = pickle.loads(pickle.dumps(lib.lengths))
    assert (lengths("abc", 7, "de"), lengths.signatures) == (20307, lib.lengths.signatures)


def test_wrapped_addresses(compiled, fails):
    lib = nc.load(compiled)
    address = lib.address("lengths_")
    lengths = nc.wrap(address, "int (char *, int *, char *)", fortran=True)
    assert (lengths.signatures, lengths("abc", 7, "de")) == (("i:&b&i&bQQ",), 20307)
    plain = nc.wrap(address, "int (char *, int *, char *, size_t, size_t)")
    assert not plain.entries[0].fortran
    assert nc.wrap(plain, fortran=True)("abc", 7, "de") == 20307
    with pytest.raises(ValueError, match=r"^errors='argument' needs a pointer to an int as the"):
        nc.wrap(address, "void (char *, int *)", fortran=True, errors="argument")


def test_overloads(compiled):
    lib = nc.load(compiled)
    trace = nc.wrap(
        {
            "double (int *, double *, int *)": lib.address("trace_"),
            "int (char *, int *, char *)": lib.address("lengths_"),
        },
        fortran=True,
    )
    assert trace(1, 5.0, 1) == 5.0
    assert trace("abc", 7, "de") == 20307
    assert trace(numpy.int32(2), numpy.ones(4), 2) == 11.0
    with pytest.raises(TypeError, match=r"^no entry of 'function' takes \(list, int, int\)"):
        trace([], 1, 1)


LAPACK = """
    void dgesv_(int *n, int *nrhs, double *a, int *lda, int *ipiv, double *b, int *ldb, int *info);
    void dpotrf_(char *uplo, int *n, double *a, int *lda, int *info);
"""


@pytest.fixture
def lapack():
    try:
        return nc.load("lapack", LAPACK, fortran=True, errors={"dgesv": "argument"})
    except nc.LibraryError as error:
        pytest.skip(str(error))


def test_linear_equations(lapack):
    a, b = numpy.array([[3.0, 1.0], [1.0, 2.0]], order="F"), numpy.array([9.0, 8.0])
    lapack.dgesv(2, 1, a, 2, numpy.zeros(2, numpy.int32), b, 2)
    assert b.tolist() == pytest.approx([2.0, 3.0])
    with pytest.raises(nc.NativeFailure, match=r"^'dgesv_' failed: it set its last argument to 1"):
        lapack.dgesv(2, 1, numpy.zeros((2, 2), order="F"), 2, numpy.zeros(2, numpy.int32), b, 2)
    factor, info = numpy.array([[4.0, 2.0], [2.0, 5.0]], order="F"), ctypes.c_int(-1)
    lapack.dpotrf("L", 2, factor, 2, info)
    assert (info.value, factor[:, 0].tolist(), factor[1, 1]) == (0, [2.0, 1.0], 2.0)


def test_headers_of_lapack():
    try:
        lapack = nc.load("lapack", header="lapack.h", fortran=True)
    except nc.LibraryError as error:
        pytest.skip(str(error))
    a, b, info = numpy.eye(2, order="F") * 2, numpy.ones((2, 1), order="F"), ctypes.c_int()
    lapack.dgetrf(2, 2, a, 2, pivots := numpy.zeros(2, numpy.int32), info)
    lapack.dgetrs("N", 2, 1, a, 2, pivots, b, 2, info)
    assert (info.value, b.ravel().tolist()) == (0, [0.5, 0.5])


def test_a_letter_that_a_procedure_changes_is_a_copy(lib):
    """CPython has one bytes object for each byte, which all of the process shares."""
    changed = numpy.zeros(1, numpy.int32)
    lib.shout("q", changed)
    assert changed[0] == 1
    assert ord(b"qrs"[:1]) == 113
