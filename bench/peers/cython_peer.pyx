# cython: language_level=3
"""Cython: `cpdef` functions with C argument types that call a pointer kept in the module.

`make(signature, address)` sets the pointer and returns the `cpdef` function of that signature.
Directives are Cython's defaults.
"""
from libc.stdint cimport uintptr_t

cdef double (*kernel_d_d)(double)
cdef double (*kernel_d_ddd)(double, double, double)


cpdef double d_d(double a):
    return kernel_d_d(a)


cpdef double d_ddd(double a, double b, double c):
    return kernel_d_ddd(a, b, c)


def make(signature, uintptr_t address):
    global kernel_d_d, kernel_d_ddd
    if signature == "d:d":
        kernel_d_d = <double (*)(double)>address
        return d_d
    if signature == "d:ddd":
        kernel_d_ddd = <double (*)(double, double, double)>address
        return d_ddd
    raise KeyError(f"no kernel with signature '{signature}'")
