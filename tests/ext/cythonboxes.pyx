"""C functions of all the kinds that a module of Cython's exports."""

cdef double level = 3.0


cdef api double raising(double x):
    if x < 0:
        raise ValueError("negative")
    return x ** 0.5


cpdef api double halved(double x):
    if x < 0:
        raise ValueError("negative")
    return x / 2


cpdef double both(double x, double y=2.0):
    return x * y


cpdef real product(real x, real y):
    return x * y


cdef small typed(small x, color c) noexcept:
    return x + c


cdef double of_pair(pair p) noexcept:
    return p.a + p.b


cdef tight of_tight(tight t) noexcept nogil:
    t.d += t.c
    return t


cdef double at_pair(pair *p) noexcept:
    return p.a - p.b


cdef double of_nested(nested n) noexcept nogil:
    return n.first.a + n.second


cdef double integrate(integrand f, double x, void *data) noexcept:
    return f(x, data)


cdef double view(double[:] x):
    return x[0]


cdef (int, double) two(int x):
    return x, 2.5


cdef double own(Kind kind) noexcept:
    return 1


cdef double valued(Kind kind, double x) noexcept:
    return kind.value + x


cpdef double promised(double x) noexcept nogil:
    return x * 3


cdef int checked(int x) except -1:
    if x < 0:
        raise KeyError(x)
    return x


cdef int checked_freely(int x, int y) except? -1 nogil:
    if x < 0:
        with gil:
            raise KeyError(x)
    return x + y


cdef api object same(object x):
    return x


cdef api double complex turned(double complex z) noexcept:
    return z * 1j


cdef api unsigned long long wide(size_t x, Py_ssize_t y, unsigned char c) noexcept nogil:
    return x + y + c


cdef api const char *text(const char *x) noexcept:
    return x


cdef class Kind:
    def __init__(self, value=0.0):
        self.value = value

    cpdef double method(self, double x):
        return x


def python_only(double x):
    return x


alias = halved
