# cython: language_level=3
"""A consumer in Cython that has nothing of ours but one copied file, nativecall_abi.h."""

from cpython.object cimport PyObject
from libc.stdint cimport uintptr_t

cdef extern from "nativecall_abi.h" nogil:
    const uintptr_t NC_FLAG_NEEDS_GIL
    const uintptr_t NC_ERRORS_MASK

    ctypedef struct PyNativeCallableEntry:
        const char *signature
        uintptr_t flags
        void *funcptr

    void *NC_ABI_LOAD(const void *at)
    const char *nc_abi_intern(const char *signature)
    const PyNativeCallableEntry *nc_abi_find(
        PyObject *obj, const char *signature, uintptr_t refuse)

cdef const char *d_d = NULL


def total(f, double x, int n):
    """f(x) + f(x + 1) + ... without the GIL, or None where there is no function."""
    global d_d
    cdef const PyNativeCallableEntry *entry
    cdef PyObject *borrowed = <PyObject *>f
    cdef double found = 0
    cdef int i
    if d_d == NULL:
        d_d = nc_abi_intern("d:d")
    with nogil:
        entry = nc_abi_find(borrowed, d_d, NC_FLAG_NEEDS_GIL | NC_ERRORS_MASK)
        if entry != NULL:
            for i in range(n):
                found += (<double (*)(double) noexcept nogil>NC_ABI_LOAD(&entry.funcptr))(x + i)
    return None if entry == NULL else found
