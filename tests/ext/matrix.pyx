# tests/ext/matrix.pyx: a function that counts its calls, in the boxes that C and Cython have, and
# consumers in Cython and C that call what they are given by a pointer. They hold the GIL, which a
# function of a capsule may need.
#
# Consumers return the sum of f over `count` points, the middles of equal parts of [0, 1].

cimport cython
from cpython.object cimport PyObject
from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport uintptr_t

cimport nativecall as nc

cdef extern from "nativecall/callback.h":
    """
    static NcCallbackSignature matrix_accepted[] = {NC_CALLBACK_ACCEPT("double (double)")};
    static double matrix_sum(double (*f)(double), int count)
    {
        double sum = 0;
        for (int i = 0; i < count; i++) sum += f((i + 0.5) / count);
        return sum;
    }
    """
    nc.NcCallbackSignature matrix_accepted[1]
    double matrix_sum(double (*f)(double) noexcept nogil, int count) noexcept nogil

ctypedef double (*Function)(double) noexcept nogil

cdef long counted = 0
cdef const char *d_d = NULL
nc.nc_signature_intern(b"d:d", &d_d)


cdef api double square(double x) noexcept nogil:
    global counted
    counted += 1
    return x * x


@cython.ufunc
cdef double squares(double x) noexcept nogil:
    return x * x


def address():
    """Of `square`."""
    return <uintptr_t>&square


def sum_address():
    """Of a C function ``double (double (*f)(double), int count)``."""
    return <uintptr_t>&matrix_sum


def calls():
    """How often `square` was called since this was asked last."""
    global counted
    found = counted
    counted = 0
    return found


def by_lookup(f, int count):
    """The sum by the pointer in a call table; LookupError where there is none."""
    cdef Function found = <Function><uintptr_t>nc.nc_native_function(<PyObject *>f, d_d, 0)
    if found == NULL:
        raise LookupError("no entry")
    return matrix_sum(found, count)


def by_callback(f, int count):
    """The sum by callback.h, and whether Python was called for it."""
    cdef nc.NcCallback callback
    nc.nc_callback_prepare(&callback, f, matrix_accepted, 1, nc.NC_CALLBACK_HOLDS_GIL)
    native = callback.function != NULL
    if native:
        sum = matrix_sum(<Function><uintptr_t>callback.function, count)
    else:
        sum = 0.0
        for i in range(count):
            sum += f((i + 0.5) / count)
    nc.nc_callback_release(&callback)
    return sum, not native


def by_capsule(capsule, bytes name, int count):
    """The sum by a capsule of that name."""
    return matrix_sum(<Function>PyCapsule_GetPointer(capsule, name), count)
