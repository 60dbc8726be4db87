/* csrc/platform/compat.h: hides differences between CPython versions that affect only the core. The
 * public detail/compat.h hides the other differences, and states the guarantees of both headers. */
#pragma once

#include "nativecall/detail/compat.h"

/* ---- exceptions ------------------------------------------------------------------------------ */

/* Whether an exception is set in a thread. Unlike PyErr_Occurred, works for any thread. */
NC_STATIC_INLINE int nc_thread_has_exception(const PyThreadState *thread)
{
#if PY_VERSION_HEX >= 0x030C0000
    return thread->current_exception != NULL;
#else
    return thread->curexc_type != NULL;
#endif
}

/* The exception that is set in a thread, or NULL; a borrowed reference. Before 3.12, this is the
 * exception's value, or its class if there is no value. The value is certain to be an exception
 * object only if nc_exception_put has set it. */
NC_STATIC_INLINE PyObject *nc_thread_exception(const PyThreadState *thread)
{
#if PY_VERSION_HEX >= 0x030C0000
    return thread->current_exception;
#else
    return thread->curexc_type != NULL && thread->curexc_value == NULL ? thread->curexc_type
                                                                       : thread->curexc_value;
#endif
}

/* ---- threads and the interpreter ------------------------------------------------------------- */

#if PY_VERSION_HEX >= 0x030C0000 && defined(__ELF__)
/* Like Py_AddPendingCall, but if `flags` is 0, any thread may make the pending call. This API is
 * private, but CPython 3.12 to 3.15 export it. The reference is weak, so the core also loads in a
 * Python without it, and then works as in 3.11. */
extern int _PyEval_AddPendingCall(PyInterpreterState *interpreter, int (*function)(void *),
                                  void *argument, int flags) __attribute__((weak));
#define NC_HAS_ANY_THREAD_CALLS (_PyEval_AddPendingCall != NULL)
#define NC_ADD_ANY_THREAD_CALL(function)                                                           \
    _PyEval_AddPendingCall(PyInterpreterState_Main(), (function), NULL, 0)
#else
#define NC_HAS_ANY_THREAD_CALLS 0
#define NC_ADD_ANY_THREAD_CALL(function) ((void)(function), -1)
#endif

/* A module slot for a PyModuleDef_Slot array, from 3.12 on. It lets subinterpreters run the exec
 * slot, which then raises our own error for them. */
#if PY_VERSION_HEX >= 0x030C0000
#define NC_ANY_INTERPRETER_SLOT                                                                    \
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#else
#define NC_ANY_INTERPRETER_SLOT
#endif

/* A module slot: the module does not need the GIL (PEP 703). */
#if defined(Py_GIL_DISABLED)
#define NC_NO_GIL_SLOT {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#else
#define NC_NO_GIL_SLOT
#endif

/* ---- objects --------------------------------------------------------------------------------- */

/* Whether Python classes may export buffers by __buffer__ (PEP 688, 3.12). */
#define NC_HAS_PYTHON_BUFFERS (PY_VERSION_HEX >= 0x030C0000)

/* Whether the collector skips a memoryview that is still exported (3.13). */
#define NC_COLLECTOR_SPARES_MEMORYVIEWS (PY_VERSION_HEX >= 0x030D0000)

/* PyWeakref_GetRef (3.13) without errors: returns a new reference to the object of a weak
 * reference, or NULL without an exception. */
NC_STATIC_INLINE PyObject *nc_weakref_get(PyObject *reference)
{
#if PY_VERSION_HEX >= 0x030D0000
    PyObject *found;
    if (PyWeakref_GetRef(reference, &found) < 0) {
        PyErr_Clear();
    }
    return found;
#else
    PyObject *found = PyWeakref_GetObject(reference);
    return found != Py_None ? Py_XNewRef(found) : NULL;
#endif
}

/* Reads a Python int of at most one digit (30 or 15 bits), the common case, without a call. Returns
 * 0 for other objects. Uses PyUnstable_Long_IsCompact from 3.12 on. */
NC_HOT_INLINE int nc_small_integer(PyObject *value, long *out)
{
    if (!PyLong_CheckExact(value)) {
        return 0;
    }
#if PY_VERSION_HEX >= 0x030C0000
    if (!PyUnstable_Long_IsCompact((PyLongObject *)(void *)value)) {
        return 0;
    }
    *out = (long)PyUnstable_Long_CompactValue((PyLongObject *)(void *)value);
#else
    Py_ssize_t size = Py_SIZE(value);
    if (size < -1 || size > 1) {
        return 0;
    }
    *out = (long)size * (long)((PyLongObject *)(void *)value)->ob_digit[0];
#endif
    return 1;
}

/* Offsets of an int's size and digits; generated code reads both. From 3.12 on, the size is a tag:
 * the low bits contain the sign, and the bits above contain the number of digits. Ints of one digit
 * have tags below 16. */
#if PY_VERSION_HEX >= 0x030C0000
#define NC_INT_IS_TAGGED 1
#define NC_INT_SIZE_OFFSET offsetof(PyLongObject, long_value.lv_tag)
#define NC_INT_DIGIT_OFFSET offsetof(PyLongObject, long_value.ob_digit)
#else
#define NC_INT_IS_TAGGED 0
#define NC_INT_SIZE_OFFSET offsetof(PyVarObject, ob_size)
#define NC_INT_DIGIT_OFFSET offsetof(PyLongObject, ob_digit)
#endif
