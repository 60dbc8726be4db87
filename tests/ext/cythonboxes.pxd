"""What tests/ext/cythonboxes.pyx exports: types of its own, variants, optional arguments."""

ctypedef unsigned short small
ctypedef double (*integrand)(double, void *) noexcept  # a comment
cdef struct pair:
    double a
    int b
ctypedef struct nested:
    pair first
    small second
cdef packed struct tight:
    char c
    double d
cdef enum color:
    RED, GREEN
ctypedef fused real:
    float
    double
    long
cdef class Kind:
    cdef double value
    cpdef double method(self, double x)
cdef double level
cpdef double both(double x, double y=*)
cpdef real product(real x, real y)
cdef small typed(small x, color c) noexcept
cdef double of_pair(pair p) noexcept
cdef tight of_tight(tight t) noexcept nogil
cdef double at_pair(pair *p) noexcept
cdef double of_nested(nested n) noexcept nogil
cdef double integrate(integrand f, double x, void *data) noexcept
cdef double view(double[:] x)
cdef (int, double) two(int x)
cdef double own(Kind kind) noexcept
cdef double valued(Kind kind, double x) noexcept
cpdef double promised(double x) noexcept nogil
cdef int checked(int x) except -1
cdef int checked_freely(int x,
                        int y) except? -1 nogil
