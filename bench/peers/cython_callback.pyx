# cython: language_level=3
"""Cython: C functions that call a Python function kept in the module.

`make(signature, function, held)` gives the address of one that relies on the GIL, or takes it. An
exception is printed and the result then 0: that is what `noexcept` functions do.
"""
from libc.stdint cimport int64_t, uintptr_t

cdef object function_d_d, function_d_ddd, function_q_qqq


cdef double held_d_d(double a) noexcept:
    return function_d_d(a)


cdef double held_d_ddd(double a, double b, double c) noexcept:
    return function_d_ddd(a, b, c)


cdef int64_t held_q_qqq(int64_t a, int64_t b, int64_t c) noexcept:
    return function_q_qqq(a, b, c)


cdef double taken_d_d(double a) noexcept with gil:
    return function_d_d(a)


cdef double taken_d_ddd(double a, double b, double c) noexcept with gil:
    return function_d_ddd(a, b, c)


cdef int64_t taken_q_qqq(int64_t a, int64_t b, int64_t c) noexcept with gil:
    return function_q_qqq(a, b, c)


def make(str signature, function, bint held):
    global function_d_d, function_d_ddd, function_q_qqq
    if signature == "d:d":
        function_d_d = function
        return <uintptr_t>held_d_d if held else <uintptr_t>taken_d_d
    if signature == "d:ddd":
        function_d_ddd = function
        return <uintptr_t>held_d_ddd if held else <uintptr_t>taken_d_ddd
    if signature == "q:qqq":
        function_q_qqq = function
        return <uintptr_t>held_q_qqq if held else <uintptr_t>taken_q_qqq
    raise KeyError(signature)
