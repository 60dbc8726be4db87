# cython: language_level=3
"""The programs' glue in Cython: what a user writes by hand for each library and each signature.

The libraries' functions are pointers that `prepare` sets, so that nothing need be linked. Of what
takes no user data there can be one callback at a time.
"""
from libc.stdint cimport int32_t, int64_t, uintptr_t

cdef extern from "stdlib.h":
    void qsort(void *, size_t, size_t, int (*)(const void *, const void *) noexcept)

ctypedef double (*Double)(double) noexcept
ctypedef double (*Slope)(double, double) noexcept

ctypedef struct GslFunction:
    double (*function)(double, void *) noexcept
    void *params

ctypedef struct Bound:
    double at
    double width

cdef double (*kernel_peak)(double, double, double) noexcept
cdef double (*kernel_solve)(Slope, double, double, int64_t) noexcept
cdef Double kernel_d_d
cdef int64_t (*kernel_q_q)(int64_t) noexcept
cdef float (*kernel_f_f)(float) noexcept
cdef int32_t (*kernel_i_i)(int32_t) noexcept
cdef unsigned long (*c_crc32)(unsigned long, const unsigned char *, unsigned int) noexcept
cdef unsigned long (*c_adler32)(unsigned long, const unsigned char *, unsigned int) noexcept
cdef void *(*gsl_integration_workspace_alloc)(size_t) noexcept
cdef int (*gsl_integration_qag)(
    const GslFunction *, double, double, double, double, size_t, int, void *, double *, double *
) noexcept
cdef double (*sqlite3_value_double)(void *) noexcept
cdef void (*sqlite3_result_double)(void *, double) noexcept
cdef void *workspace = NULL


def prepare(str name, uintptr_t address):
    """Set a library's function."""
    global kernel_peak, kernel_solve, kernel_d_d, kernel_q_q, kernel_f_f, kernel_i_i
    global c_crc32, c_adler32, gsl_integration_workspace_alloc, gsl_integration_qag
    global sqlite3_value_double, sqlite3_result_double
    cdef void *found = <void *>address
    if name == "kernel_peak":
        kernel_peak = <double (*)(double, double, double) noexcept>found
    elif name == "kernel_solve":
        kernel_solve = <double (*)(Slope, double, double, int64_t) noexcept>found
    elif name == "kernel_d_d":
        kernel_d_d = <Double>found
    elif name == "kernel_q_q":
        kernel_q_q = <int64_t (*)(int64_t) noexcept>found
    elif name == "kernel_f_f":
        kernel_f_f = <float (*)(float) noexcept>found
    elif name == "kernel_i_i":
        kernel_i_i = <int32_t (*)(int32_t) noexcept>found
    elif name == "crc32":
        c_crc32 = <unsigned long (*)(unsigned long, const unsigned char *, unsigned int) noexcept>found
    elif name == "adler32":
        c_adler32 = <unsigned long (*)(unsigned long, const unsigned char *, unsigned int) noexcept>found
    elif name == "gsl_integration_workspace_alloc":
        gsl_integration_workspace_alloc = <void *(*)(size_t) noexcept>found
    elif name == "gsl_integration_qag":
        gsl_integration_qag = <int (*)(
            const GslFunction *, double, double, double, double, size_t, int, void *, double *,
            double *
        ) noexcept>found
    elif name == "sqlite3_value_double":
        sqlite3_value_double = <double (*)(void *) noexcept>found
    elif name == "sqlite3_result_double":
        sqlite3_result_double = <void (*)(void *, double) noexcept>found
    else:
        raise KeyError(name)


cdef object comparator, equation, in_sql


cdef int compare(const void *x, const void *y) noexcept:
    return comparator((<double *>x)[0], (<double *>y)[0])


def sort(double[::1] values, function):
    """Sort with a comparator of two numbers."""
    global comparator
    comparator = function
    qsort(&values[0], values.shape[0], sizeof(double), compare)


cdef double integrand(double x, void *params) noexcept:
    cdef Bound *bound = <Bound *>params
    return kernel_peak(x, bound.at, bound.width)


def integral(double at, double width, size_t limit):
    """Integrate the peak."""
    global workspace
    cdef Bound bound
    cdef GslFunction function
    cdef double result = 0.0
    cdef double error = 0.0
    if workspace == NULL:
        workspace = gsl_integration_workspace_alloc(limit)
    bound.at = at
    bound.width = width
    function.function = integrand
    function.params = &bound
    gsl_integration_qag(
        &function, -1.0, 1.0, 0.0, 1e-8, limit, 1, workspace, &result, &error
    )
    return result


cdef double slope(double t, double y) noexcept:
    return equation(t, y)


def solve(function, double start, double step, int64_t steps):
    """Solve an equation in Python."""
    global equation
    equation = function
    return kernel_solve(slope, start, step, steps)


def solve_native(uintptr_t function, double start, double step, int64_t steps):
    """Solve an equation whose C function is at an address."""
    return kernel_solve(<Slope>function, start, step, steps)


cdef class Pointer:
    """A function pointer of one signature."""
    cdef Double function

    def __cinit__(self, uintptr_t address):
        self.function = <Double>address

    def __call__(self, double x):
        return self.function(x)


cpdef double d_d(double x):
    return kernel_d_d(x)


cpdef int64_t q_q(int64_t x):
    return kernel_q_q(x)


cpdef float f_f(float x):
    return kernel_f_f(x)


cpdef int32_t i_i(int32_t x):
    return kernel_i_i(x)


cdef void called_by_sql(void *context, int count, void **values) noexcept with gil:
    sqlite3_result_double(context, in_sql(sqlite3_value_double(values[0])))


def sql_function(function):
    """The address of the C function by which SQL calls a Python function."""
    global in_sql
    in_sql = function
    return <uintptr_t>called_by_sql


def crc32(unsigned long crc, bytes buffer not None, unsigned int size):
    return c_crc32(crc, <const unsigned char *>buffer, size)


def adler32(unsigned long adler, bytes buffer not None, unsigned int size):
    return c_adler32(adler, <const unsigned char *>buffer, size)
