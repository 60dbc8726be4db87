/* csrc/trampoline.h: the two outer forms of every ahead-of-time trampoline.
 *
 * Idea. generate_trampolines.py writes, for each shape, `call_X(self, args)`: convert, call through
 * self->target, convert back. The macros here wrap it as a built-in method (what f.builtin calls)
 * and as a vectorcall (what f(...) calls); both are as direct as hand-written C would be.
 * Everything that is not the plain case, keywords or a wrong count, leaves for nc_call_irregular.
 * After the call one word tells whether a Python function left an exception in any thread. */
#ifndef NC_TRAMPOLINE_H
#define NC_TRAMPOLINE_H

#include "convert.h"
#include "jit.h"
#include "pending.h"
#include "pin.h"

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

/* The function that a callable stands for, as a C function of type `result (*)(...)`. */
#define NC_TARGET(self, result, ...)                                                               \
    ((result (*)(__VA_ARGS__))(uintptr_t)nc_load_relaxed_ptr(&(self)->target))

#define NC_FASTCALL(function) ((PyCFunction)(void (*)(void))(function))

#endif
