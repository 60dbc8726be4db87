# cython: language_level=3
"""Cython: `cpdef` functions with C argument types that call a pointer kept in the module.

`make(signature, address)` sets the pointer and returns the `cpdef` function of that signature. A
NumPy array is taken as a typed memoryview. Directives are Cython's defaults.
"""
from libc.stdint cimport int64_t, uintptr_t

cdef double (*kernel_d)()
cdef double (*kernel_d_d)(double)
cdef double (*kernel_d_dd)(double, double)
cdef double (*kernel_d_ddd)(double, double, double)
cdef double (*kernel_d_dddd)(double, double, double, double)
cdef int64_t (*kernel_q_qqq)(int64_t, int64_t, int64_t)
cdef double (*kernel_d_Pdq)(double *, int64_t)


cpdef double d():
    return kernel_d()


cpdef double d_d(double a):
    return kernel_d_d(a)


cpdef double d_dd(double a, double b):
    return kernel_d_dd(a, b)


cpdef double d_ddd(double a, double b, double c):
    return kernel_d_ddd(a, b, c)


cpdef double d_dddd(double a, double b, double c, double d):
    return kernel_d_dddd(a, b, c, d)


cpdef int64_t q_qqq(int64_t a, int64_t b, int64_t c):
    return kernel_q_qqq(a, b, c)


cpdef double d_Pdq(double[::1] values, int64_t count):
    return kernel_d_Pdq(&values[0], count)


def make(signature, uintptr_t address):
    global kernel_d, kernel_d_d, kernel_d_dd, kernel_d_ddd, kernel_d_dddd
    global kernel_q_qqq, kernel_d_Pdq
    if signature == "d:":
        kernel_d = <double (*)()>address
        return d
    if signature == "d:d":
        kernel_d_d = <double (*)(double)>address
        return d_d
    if signature == "d:dd":
        kernel_d_dd = <double (*)(double, double)>address
        return d_dd
    if signature == "d:ddd":
        kernel_d_ddd = <double (*)(double, double, double)>address
        return d_ddd
    if signature == "d:dddd":
        kernel_d_dddd = <double (*)(double, double, double, double)>address
        return d_dddd
    if signature == "q:qqq":
        kernel_q_qqq = <int64_t (*)(int64_t, int64_t, int64_t)>address
        return q_qqq
    if signature == "d:&dq":
        kernel_d_Pdq = <double (*)(double *, int64_t)>address
        return d_Pdq
    raise KeyError(f"no kernel with signature '{signature}'")
