# cython: cdivision=True
# numerics.pyx: a small numerical library in Cython that takes any callable.
#
# An integrator, a root finder and an ODE stepper. callback.h finds the C function in what Python
# gives: native callables, capsules and LowLevelCallables are called as they are, what else Python
# can call by it. An exception in the callback comes out of the function that Python called. Of
# nativecall, the module needs the headers and the .pxd file when it is built, and nothing when it
# runs.
#
# The second half calls one function in a loop in four ways, to compare how long they take.

from cpython.exc cimport PyErr_Occurred
from cpython.object cimport PyObject
from libc.math cimport NAN, cos, fabs
from libc.stdint cimport uint64_t, uintptr_t

from nativecall cimport (
    NC_CALLBACK_HOLDS_GIL,
    NC_ERRORS_MASK,
    NC_FLAG_NEEDS_GIL,
    NcCallback,
    NcCallbackCall,
    NcCallbackSignature,
    PyCustomSlots_Import,
    nc_callback_enter,
    nc_callback_failed,
    nc_callback_leave,
    nc_callback_prepare,
    nc_callback_release,
    nc_native_function_word,
)

# `noexcept`: such functions set no exception, so Cython need not look for one.
ctypedef double (*Function1)(double) noexcept nogil
ctypedef double (*Function1Data)(double, void *) noexcept nogil
ctypedef double (*Function2)(double, double) noexcept nogil
ctypedef double (*Function2Data)(double, double, void *) noexcept nogil

# What is taken, the best first; and CPython's functions for calls of Python, whose exceptions
# nc_callback_leave keeps.
cdef extern from "nativecall/callback.h":
    """
    static NcCallbackSignature accepted_1[] = {
        NC_CALLBACK_ACCEPT("double (double)"),
        NC_CALLBACK_ACCEPT_WITH_DATA("double (double, void *)")};
    static NcCallbackSignature accepted_2[] = {
        NC_CALLBACK_ACCEPT("double (double, double)"),
        NC_CALLBACK_ACCEPT_WITH_DATA("double (double, double, void *)")};
    """
    NcCallbackSignature accepted_1[2]
    NcCallbackSignature accepted_2[2]
    PyObject *PyObject_CallFunction(PyObject *f, const char *format, ...) noexcept nogil
    double PyFloat_AsDouble(PyObject *value) noexcept nogil
    void Py_XDECREF(PyObject *value) noexcept nogil

# The packed signature, a constant for the C compiler.
cdef extern from "nativecall/signature.h":
    const uint64_t D_D "NATIVECALL_SIG(\"d:d\")"


# ---- the library ---------------------------------------------------------------------------------

cdef double call_python(NcCallback *f, const char *format, double x, double y) noexcept nogil:
    """f(x) or f(x, y) of Python's, by the format "d" or "dd"; NaN once it has failed."""
    cdef NcCallbackCall call
    cdef PyObject *result
    cdef double value = NAN
    if nc_callback_enter(f, &call):
        result = PyObject_CallFunction(call.callable, format, x, y)
        value = PyFloat_AsDouble(result) if result != NULL else NAN
        Py_XDECREF(result)
        if nc_callback_leave(&call) < 0:
            value = NAN
    return value


cdef inline double call_1(NcCallback *f, double x) noexcept nogil:
    if f.function == NULL:
        return call_python(f, "d", x, 0.0)
    if f.matched == 0:
        return (<Function1>f.function)(x)
    return (<Function1Data>f.function)(x, f.user_data)


cdef inline double call_2(NcCallback *f, double t, double y) noexcept nogil:
    if f.function == NULL:
        return call_python(f, "dd", t, y)
    if f.matched == 0:
        return (<Function2>f.function)(t, y)
    return (<Function2Data>f.function)(t, y, f.user_data)


cdef double simpson(NcCallback *f, double a, double b, long n) noexcept nogil:
    cdef double h = (b - a) / (2.0 * n)
    cdef double total = call_1(f, a) + call_1(f, b)
    cdef long i
    for i in range(1, 2 * n):
        if nc_callback_failed(f):
            break
        total += (4.0 if i % 2 == 1 else 2.0) * call_1(f, a + i * h)
    return total * h / 3.0


cdef int bisect(NcCallback *f, double a, double b, double *root) noexcept nogil:
    """0 with the root; -1 when the function has the same sign at both ends."""
    cdef double left = call_1(f, a)
    cdef double right = call_1(f, b)
    cdef double middle
    cdef int i
    if (not nc_callback_failed(f) and left != 0.0 and right != 0.0
            and (left < 0.0) == (right < 0.0)):
        return -1
    for i in range(60):
        if nc_callback_failed(f):
            break
        middle = a + (b - a) / 2.0
        if (call_1(f, middle) < 0.0) == (left < 0.0):
            a = middle
        else:
            b = middle
    root[0] = a + (b - a) / 2.0
    return 0


cdef double runge_kutta(NcCallback *f, double t0, double y, double t1, long n) noexcept nogil:
    cdef double h = (t1 - t0) / n
    cdef double t, k1, k2, k3, k4
    cdef long i
    for i in range(n):
        if nc_callback_failed(f):
            break
        t = t0 + i * h
        k1 = call_2(f, t, y)
        k2 = call_2(f, t + h / 2.0, y + h / 2.0 * k1)
        k3 = call_2(f, t + h / 2.0, y + h / 2.0 * k2)
        k4 = call_2(f, t + h, y + h * k3)
        y += h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    return y


def integrate(f, double a, double b, long n):
    """The integral by Simpson's rule with 2 * n intervals, and whether f was called natively."""
    cdef NcCallback callback
    cdef double value
    nc_callback_prepare(&callback, f, accepted_1, 2, 0)
    native = callback.function != NULL
    with nogil:  # a Python function takes the GIL for each call
        value = simpson(&callback, a, b, n)
    nc_callback_release(&callback)
    return value, native


def find_root(f, double a, double b):
    """A zero between a and b by bisection, and whether f was called natively."""
    cdef NcCallback callback
    cdef double root = 0.0
    nc_callback_prepare(&callback, f, accepted_1, 2, NC_CALLBACK_HOLDS_GIL)
    native = callback.function != NULL
    try:
        if bisect(&callback, a, b, &root) < 0:
            raise ValueError("the function has the same sign at both ends")
    finally:
        nc_callback_release(&callback)
    return root, native


def solve(f, double t0, double y0, double t1, long n):
    """y(t1) for y' = f(t, y) by n Runge-Kutta steps, and whether f was called natively."""
    cdef NcCallback callback
    cdef double value
    nc_callback_prepare(&callback, f, accepted_2, 2, NC_CALLBACK_HOLDS_GIL)
    native = callback.function != NULL
    value = runge_kutta(&callback, t0, y0, t1, n)
    nc_callback_release(&callback)
    return value, native


# A function for other Cython modules: nativecall.wrap makes a callback of it like any other.
cdef api double cosine(double x) noexcept nogil:
    return cos(x)


# ---- four ways to call ---------------------------------------------------------------------------
#
# Each gives the mean of f over n points from -0.5 to 0.5.

def mean_by_pointer(uintptr_t address, long n):
    """A bare C function pointer."""
    cdef Function1 f = <Function1>address
    cdef double total = 0.0
    cdef double step = 1.0 / n
    cdef long i
    with nogil:
        for i in range(n):
            total += f(i * step - 0.5)
    return total / n


cdef int pass_on() except -1:
    """Raise what entries left that ran Python code, of whatever error convention they are."""
    return -1 if PyErr_Occurred() != NULL else 0


def mean_by_lookup(f, long n):
    """A native callable, whose function is looked up for every call."""
    cdef PyObject *borrowed = <PyObject *>f
    cdef Function1 function = NULL
    cdef double total = 0.0
    cdef double step = 1.0 / n
    cdef long i
    PyCustomSlots_Import()
    with nogil:
        for i in range(n):
            function = <Function1>nc_native_function_word(
                borrowed, D_D, NC_FLAG_NEEDS_GIL | NC_ERRORS_MASK)
            if function == NULL:
                break
            total += function(i * step - 0.5)
    if function == NULL:
        raise TypeError(f"no native entry for 'd:d' in {f!r}")
    pass_on()
    return total / n


cdef class Function:
    """The classical way: whoever has a function derives a class, in Cython."""

    cdef double call(self, double x) noexcept nogil:
        return 0.0


cdef class Absolute(Function):
    """fabs as such a class."""

    cdef double call(self, double x) noexcept nogil:
        return fabs(x)


def mean_by_class(Function f not None, long n):
    """A method in the vtable of a cdef class."""
    cdef double total = 0.0
    cdef double step = 1.0 / n
    cdef long i
    with nogil:
        for i in range(n):
            total += f.call(i * step - 0.5)
    return total / n


def mean_by_callback(f, long n):
    """Any callable, prepared once."""
    cdef NcCallback callback
    cdef double total = 0.0
    cdef double step = 1.0 / n
    cdef long i
    nc_callback_prepare(&callback, f, accepted_1, 2, NC_CALLBACK_HOLDS_GIL)
    for i in range(n):
        if nc_callback_failed(&callback):
            break
        total += call_1(&callback, i * step - 0.5)
    nc_callback_release(&callback)
    return total / n
