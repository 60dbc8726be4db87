/* csrc/callable/trampolinebody.h: code shared by all ahead-of-time trampolines: converters of
 * arguments, and the two forms in which Python calls a trampoline.
 *
 * Idea. For each shape, generate_trampolines.py writes a function `call_X(self, args)`. The
 * function converts the arguments, calls the C function of the callable's only entry, and converts
 * the result. The macros here wrap call_X as a built-in method, for f.builtin(...), and as a
 * vectorcall, for f(...). Both forms call call_X directly, as hand-written C would.
 * nc_call_irregular handles keywords and a wrong number of arguments. After the call, call_X reads
 * one word to check whether a Python function left an exception in any thread. */
#pragma once

#include "call/calls.h"
#include "values/pointers.h"

/* ---- arguments ------------------------------------------------------------------------------- */

/* nc_get_X(self, args, i, out): converts argument i. Returns 0 on the fast path, 1 if arbitrary
 * Python code may have run, or -1 with an exception. */
NC_HOT_INLINE int nc_get_d(NcCallable *self, PyObject *const *args, Py_ssize_t i, double *out)
{
    if (NC_LIKELY(PyFloat_CheckExact(args[i]))) {
        *out = PyFloat_AS_DOUBLE(args[i]);
        return 0;
    }
    /* A separate variable, so that the fast path keeps *out in a register. */
    double converted;
    if (nc_convert_double((PyObject *)self, i, args[i], &converted) < 0) {
        return -1;
    }
    *out = converted;
    return 1;
}

NC_HOT_INLINE int nc_get_f(NcCallable *self, PyObject *const *args, Py_ssize_t i, float *out)
{
    double wide = 0.0;
    int status = nc_get_d(self, args, i, &wide);
    if (status < 0) {
        return -1;
    }
    *out = (float)wide;
    if (NC_UNLIKELY(isinf(*out)) && !isinf(wide)) {
        return nc_float_overflow((PyObject *)self, i, 'f');
    }
    return status;
}

/* A small int has one digit of at most 30 bits, so it fits in an int32_t. */
#define NC_GET_INTEGER(code, type, fits)                                                           \
    NC_HOT_INLINE int nc_get_##code(NcCallable *self, PyObject *const *args, Py_ssize_t i,         \
                                    type *out)                                                     \
    {                                                                                              \
        long small;                                                                                \
        if (NC_LIKELY(nc_small_integer(args[i], &small)) && NC_LIKELY(fits)) {                     \
            *out = (type)small;                                                                    \
            return 0;                                                                              \
        }                                                                                          \
        type converted;                                                                            \
        if (nc_convert_integer((PyObject *)self, i, args[i], #code[0], &converted) < 0) {          \
            return -1;                                                                             \
        }                                                                                          \
        *out = converted;                                                                          \
        return 1;                                                                                  \
    }
NC_GET_INTEGER(i, int32_t, 1)
NC_GET_INTEGER(q, int64_t, 1)
NC_GET_INTEGER(Q, uint64_t, small >= 0)

static inline int nc_get_P(NcCallable *self, PyObject *const *args, Py_ssize_t i, NcPointer *out)
{
    return nc_convert_pointer(self, i, args[i], out);
}

/* ---- the outer forms ------------------------------------------------------------------------- */

#define NC_TRAMPOLINE_VECTORCALL(name, count)                                                      \
    static PyObject *vectorcall_##name(PyObject *self, PyObject *const *args, size_t nargsf,       \
                                       PyObject *kwnames)                                          \
    {                                                                                              \
        if (NC_UNLIKELY(PyVectorcall_NARGS(nargsf) != (count) || kwnames != NULL)) {               \
            return nc_call_irregular((NcCallable *)(void *)self, args, nargsf, kwnames);           \
        }                                                                                          \
        return call_##name((NcCallable *)(void *)self, args);                                      \
    }

#define NC_TRAMPOLINE_NOARGS(name, count)                                                          \
    static PyObject *method_##name(PyObject *self, PyObject *Py_UNUSED(none))                      \
    {                                                                                              \
        return call_##name((NcCallable *)(void *)self, NULL);                                      \
    }                                                                                              \
    NC_TRAMPOLINE_VECTORCALL(name, count)

#define NC_TRAMPOLINE_O(name, count)                                                               \
    static PyObject *method_##name(PyObject *self, PyObject *arg)                                  \
    {                                                                                              \
        return call_##name((NcCallable *)(void *)self, &arg);                                      \
    }                                                                                              \
    NC_TRAMPOLINE_VECTORCALL(name, count)

#define NC_TRAMPOLINE_FASTCALL(name, count)                                                        \
    static PyObject *method_##name(PyObject *self, PyObject *const *args, Py_ssize_t nargs)        \
    {                                                                                              \
        if (NC_UNLIKELY(nargs != (count))) {                                                       \
            return nc_call_irregular((NcCallable *)(void *)self, args, (size_t)nargs, NULL);       \
        }                                                                                          \
        return call_##name((NcCallable *)(void *)self, args);                                      \
    }                                                                                              \
    NC_TRAMPOLINE_VECTORCALL(name, count)

/* The callable's target, as a C function of type `result (*)(...)`. */
#define NC_TARGET(self, result, ...) ((result (*)(__VA_ARGS__))(uintptr_t)NC_SINGLE_TARGET(self))
