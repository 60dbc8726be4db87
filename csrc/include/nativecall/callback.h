/* nativecall/callback.h: for C libraries that take callbacks: what is in an object that was passed.
 *
 *     static NcCallbackSignature accepted[] = {
 *         NC_CALLBACK_ACCEPT("double (double)"),
 *         NC_CALLBACK_ACCEPT_WITH_DATA("double (double, void *)"),
 *     };
 *
 *     static double call(double x, void *data)                    what the library calls
 *     {
 *         NcCallback *f = (NcCallback *)data;
 *         NcCallbackCall python;
 *         double y = NAN;
 *         if (f->function != NULL)
 *             return f->matched == 0
 *                        ? NC_CALLBACK_FUNCTION(f, double (*)(double))(x)
 *                        : NC_CALLBACK_FUNCTION(f, double (*)(double, void *))(x, f->user_data);
 *         if (nc_callback_enter(f, &python)) {
 *             PyObject *result = PyObject_CallFunction(python.callable, "d", x);
 *             y = result != NULL ? PyFloat_AsDouble(result) : NAN;
 *             Py_XDECREF(result);
 *             if (nc_callback_leave(&python) < 0) y = NAN;
 *         }
 *         return y;
 *     }
 *
 *     NcCallback f;
 *     if (nc_callback_prepare(&f, obj, accepted, 2, NC_CALLBACK_HOLDS_GIL) < 0) return NULL;
 *     while (... && !nc_callback_failed(&f)) ...                  call(x, &f)
 *     if (nc_callback_release(&f) < 0) return NULL;               raises what the callback raised
 *
 * It needs no package and imports nothing. In this order, each for the first accepted signature:
 *
 *   1. native callables and their built-in views (nativecallable.h)
 *   2. objects whose type has __nativecall_api__ (nativeapi.h); a native callable has it for the
 *      entries that its specialize hook makes
 *   3. capsules, and SciPy's LowLevelCallables, by the capsule's name, a C declaration of the
 *      function (detail/prototype.h)
 *   4. what Python can call: `function` is NULL, and the consumer calls `object` as it likes
 *
 * ValueError: a capsule or LowLevelCallable whose function has another type. TypeError: an object
 * that is none of these. Other boxes (function pointers of ctypes and cffi, Numba's cfuncs, ufuncs)
 * are called by Python here; nativecall.wrap(box) makes native callables of them.
 *
 * User data is the context of the capsule. A function that has some fits only signatures with a
 * place for it; one without gets NULL there.
 *
 * Entries that need the GIL are passed over unless the consumer says NC_CALLBACK_HOLDS_GIL, entries
 * that report failures (NC_ERRORS_MASK) unless it says NC_CALLBACK_CHECKS_ERRORS, or for one
 * convention NC_CALLBACK_CHECKS_ARGUMENT. Such a callable is then called through Python, which does
 * right by both. A capsule's name does not say whether its function needs the GIL or sets
 * exceptions, as `cdef` functions of Cython may that are not noexcept. So it counts as one that
 * needs the GIL. With NC_CALLBACK_TRUSTS_NAMES it counts as one that does not: who passes it
 * vouches for that.
 *
 * Errors. nc_callback_leave() keeps the exception of the call, and from then on enter is 0, so that
 * the consumer returns its sentinel; nc_callback_failed() is one load; release raises the exception
 * again, with its traceback. A native function that runs Python code itself may leave an exception
 * set in the thread; then release is -1 as well, and the exception stays.
 *
 * Nesting. A library without a place for user data finds its callback by nc_callback_current(): the
 * innermost one of this thread that was prepared with NC_CALLBACK_NESTS and is not released.
 *
 * Threads. Call prepare and release with the GIL held; a nested callback is released by the thread
 * that prepared it. Calls in between are free: any thread, several at once, also threads that
 * Python has never seen. Between prepare and release the NcCallback stays where it is. Release
 * comes when the C code has ended. Threads enter Python by PyGILState, so in the main interpreter.
 */
#ifndef NATIVECALL_CALLBACK_H
#define NATIVECALL_CALLBACK_H

#include <Python.h>
#include <errno.h>

#include "nativeapi.h"
#include "nativecallable.h"
#include "detail/compat.h"
#include "detail/prototype.h"

NC_C_BEGIN

/* options: The C code holds the GIL whenever it calls. Without it, nc_callback_enter() takes it. */
#define NC_CALLBACK_HOLDS_GIL 1u
/* nc_callback_current() finds the callback. */
#define NC_CALLBACK_NESTS 2u
/* The C code looks after each call for the failures that flags & NC_ERRORS_MASK names. */
#define NC_CALLBACK_CHECKS_ERRORS 4u
/* The functions of capsules neither need the GIL nor set exceptions. */
#define NC_CALLBACK_TRUSTS_NAMES 8u
/* The C code makes the int that the last argument points to 0 before each call and looks at it
 * after it, in all signatures that it accepts: entries with NC_ERRORS_ARGUMENT are taken, too. */
#define NC_CALLBACK_CHECKS_ARGUMENT 16u
/* The C code does not call Python: what has no function for it is TypeError. */
#define NC_CALLBACK_NATIVE_ONLY 32u

/* Any C function; cast to its type before it is called. */
typedef void (*NcFunction)(void);

/* A signature that a consumer accepts. The array is static: prepare keeps in it what it found. */
typedef struct {
    const char *declaration; /* a C declaration without the function's name */
    int has_user_data;       /* whether one of its arguments is for user data */
    const char *signature;   /* the canonical text; NULL until prepare was called */
    const char *interned;    /* NULL until there are native callables in the process */
} NcCallbackSignature;

/* Initialisers. */
#define NC_CALLBACK_ACCEPT(declaration) {declaration, 0, NULL, NULL}
#define NC_CALLBACK_ACCEPT_WITH_DATA(declaration) {declaration, 1, NULL, NULL}

/* One callback, from prepare to release. */
typedef struct NcCallback {
    NcFunction function; /* of the C type that goes with `matched`; NULL: Python is called */
    void *user_data;     /* what to pass in that signature's argument for it */
    size_t matched;      /* which of the accepted signatures it is */
    uintptr_t flags;     /* NC_FLAG_* and NC_ERRORS_* of the function */
    PyObject *object;    /* what was passed; owned */
    unsigned options;    /* NC_CALLBACK_* */

    /* The rest is for this header only. */
    intptr_t failed;          /* atomic: 0, or NC_FAILED_* */
    PyObject *raised;         /* the exception, if it is NC_FAILED_RAISED */
    struct NcCallback *outer; /* the next one that nc_callback_current() finds */
    PyThreadState *finalizer; /* that shuts Python down, if it did so at prepare; else NULL */
} NcCallback;

/* Why a callback failed. */
#define NC_FAILED_RAISED 1   /* it raised */
#define NC_FAILED_SHUTDOWN 2 /* it was called when Python could not be entered any more */

/* The function as a pointer of the C type that goes with `matched`. */
#define NC_CALLBACK_FUNCTION(callback, type) ((type)(callback)->function)

/* One for each thread and shared object. */
#if defined(NC_MSVC)
static NC_THREAD_LOCAL NcCallback *nc_callback_innermost = NULL;
#else
NC_SHARED_VARIABLE NC_THREAD_LOCAL NcCallback *nc_callback_innermost = NULL;
#endif

/* ---- calls ----------------------------------------------------------------------------------- */

/* Whether to stop: the callback raised, or can no longer run. Any thread, with or without GIL. */
NC_STATIC_INLINE int nc_callback_failed(const NcCallback *callback)
{
    return nc_load_relaxed_intptr(&callback->failed) != 0;
}

/* This thread's innermost callback that nests, or NULL. */
NC_STATIC_INLINE NcCallback *nc_callback_current(void)
{
    return nc_callback_innermost;
}

/* Says why the callback failed, unless that is said already. Whether this was the first reason. */
NC_STATIC_INLINE int nc_callback_fail(NcCallback *callback, intptr_t why)
{
    return nc_exchange_ptr(&callback->failed, NULL, (void *)why);
}

/* One call of Python on behalf of a callback. */
typedef struct {
    PyObject *callable; /* owned */
    NcCallback *callback;
    PyObject *before; /* what the C code had raised, which is put aside */
    PyGILState_STATE gil;
    int error_number; /* errno, which stays as the C code had it */
} NcCallbackCall;

/* Enters Python: 1, and nc_callback_leave() must follow; 0 when the sentinel is to be returned. */
NC_STATIC int nc_callback_enter(NcCallback *callback, NcCallbackCall *call)
{
    const int holds = (callback->options & NC_CALLBACK_HOLDS_GIL) != 0;
    const PyThreadState *thread;
    if (NC_UNLIKELY(nc_callback_failed(callback))) {
        return 0;
    }
    call->error_number = errno;
    call->gil = PyGILState_LOCKED; /* not used without; compilers cannot see that */
    if (!holds) {
        /* While Python shuts down, one thread alone may enter it: it has the GIL, or prepared. */
        if (NC_UNLIKELY(nc_is_finalizing()) &&
            ((thread = PyGILState_GetThisThreadState()) == NULL ||
             (thread != nc_thread_unchecked() && thread != callback->finalizer))) {
            (void)nc_callback_fail(callback, NC_FAILED_SHUTDOWN);
            return 0;
        }
        call->gil = PyGILState_Ensure();
        /* Another thread's call may have failed while this one waited for the GIL. */
        if (NC_UNLIKELY(nc_callback_failed(callback))) {
            PyGILState_Release(call->gil);
            errno = call->error_number;
            return 0;
        }
    }
    call->callback = callback;
    call->callable = Py_NewRef(callback->object);
    call->before = nc_exception_take();
    return 1;
}

/* Leaves Python: 0, or -1 when the call left an exception, which is kept, and the sentinel is to be
 * returned. */
NC_STATIC int nc_callback_leave(NcCallbackCall *call)
{
    NcCallback *callback = call->callback;
    const int failed = PyErr_Occurred() != NULL;
    if (NC_UNLIKELY(failed)) {
        if (nc_callback_fail(callback, NC_FAILED_RAISED)) {
            callback->raised = nc_exception_take();
        } else {
            PyErr_WriteUnraisable(call->callable); /* another thread's came first */
        }
    }
    Py_DECREF(call->callable);
    if (NC_UNLIKELY(call->before != NULL)) {
        nc_exception_put(call->before);
    }
    if ((callback->options & NC_CALLBACK_HOLDS_GIL) == 0) {
        PyGILState_Release(call->gil);
    }
    errno = call->error_number;
    return failed ? -1 : 0;
}

/* ---- prepare --------------------------------------------------------------------------------- */

/* Finds the signature of a declaration, once. The text lives for ever, as the array does. 0, or -1
 * with an exception. */
NC_COLD int nc_callback_read(NcCallbackSignature *accepted)
{
    char *text = (char *)PyMem_Malloc(strlen(accepted->declaration) + 1);
    if (text == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    if (nc_prototype_signature(accepted->declaration, text) != NC_OK) {
        PyErr_Format(PyExc_SystemError,
                     "'%s', which a callback may be, is no declaration of a function, "
                     "\"double (double, void *)\"",
                     accepted->declaration);
        PyMem_Free(text);
        return -1;
    }
    nc_store_release_ptr(&accepted->signature, text);
    return 0;
}

/* What no entry may have; `told`: one whose last argument tells of failures. */
NC_STATIC_INLINE uintptr_t nc_callback_refuses(unsigned options, int told)
{
    const unsigned checks =
        told ? NC_CALLBACK_CHECKS_ERRORS | NC_CALLBACK_CHECKS_ARGUMENT : NC_CALLBACK_CHECKS_ERRORS;
    return ((options & NC_CALLBACK_HOLDS_GIL) != 0 ? 0 : NC_FLAG_NEEDS_GIL) |
           ((options & checks) != 0 ? 0 : NC_ERRORS_MASK);
}

/* Takes an entry whose flags suit: 1, else 0. */
NC_STATIC int nc_callback_take(NcCallback *callback, const PyNativeCallableEntry *entry, size_t i)
{
    const int told = (entry->flags & NC_ERRORS_MASK) == NC_ERRORS_ARGUMENT;
    if (!nc_calltable_flags_suit(entry->flags, nc_callback_refuses(callback->options, told))) {
        return 0;
    }
    callback->function = (NcFunction)(uintptr_t)nc_calltable_funcptr(entry);
    callback->matched = i;
    callback->flags = entry->flags;
    return 1;
}

/* Entries of the object itself. 1, 0 when none fits, or -1 with an exception. */
NC_COLD int nc_callback_from_entries(NcCallback *callback, NcCallbackSignature *accepted,
                                     size_t count)
{
    PyObject *behind = nc_abi_behind(callback->object);
    const PyNativeCallableEntry *entry;
    const NcNativeApi *api;
    const char *interned;
    for (size_t i = 0; i < count; i++) {
        if (accepted[i].interned == NULL) { /* as soon as there is a runtime */
            if (nc_signature_intern(accepted[i].signature, &interned) < 0) {
                return -1;
            }
            nc_store_release_ptr(&accepted[i].interned, interned);
        }
        for (entry = NULL; (entry = nc_native_next(behind, entry)) != NULL;) {
            if (entry->signature == accepted[i].interned && nc_callback_take(callback, entry, i)) {
                return 1;
            }
        }
    }
    if (nc_nativeapi_of(behind, &api) < 0) {
        return -1;
    }
    for (size_t i = 0; api != NULL && i < count; i++) {
        const uintptr_t refuse[2] = {nc_callback_refuses(callback->options, 0),
                                     nc_callback_refuses(callback->options, 1)};
        for (size_t j = 0; j < 2 && (j == 0 || refuse[j] != refuse[0]); j++) {
            if (nc_nativeapi_find(behind, accepted[i].signature, refuse[j], &entry) < 0) {
                return -1;
            }
            if (entry != NULL && nc_callback_take(callback, entry, i)) {
                return 1;
            }
        }
    }
    return 0;
}

/* The function of a capsule: 1, or 0 when it does not fit, and *why not may be told. */
NC_STATIC int nc_callback_from_capsule(NcCallback *callback, PyObject *capsule,
                                       const NcCallbackSignature *accepted, size_t count,
                                       const char **why)
{
    const char *name = PyCapsule_GetName(capsule);
    char text[256];
    size_t i = 0;
    while (name != NULL && i < count && strcmp(name, accepted[i].declaration) != 0) {
        i++;
    }
    /* The same in another spelling is rare. */
    if (i == count && name != NULL && strlen(name) < sizeof text &&
        nc_prototype_signature(name, text) == NC_OK) {
        for (i = 0; i < count && strcmp(text, accepted[i].signature) != 0; i++) {
        }
    }
    if (name == NULL || i == count) {
        return 0;
    }
    callback->user_data = PyCapsule_GetContext(capsule);
    if (callback->user_data != NULL && !accepted[i].has_user_data) {
        *why = " with user data";
        return 0;
    }
    if ((callback->options & (NC_CALLBACK_HOLDS_GIL | NC_CALLBACK_TRUSTS_NAMES)) == 0) {
        *why = ", which may need the GIL, and is called without it";
        return 0;
    }
    callback->function = (NcFunction)(uintptr_t)PyCapsule_GetPointer(capsule, name);
    callback->matched = i;
    return 1;
}

/* The capsule that obj is or, as a LowLevelCallable is a tuple, has in front; NULL: none. */
NC_STATIC_INLINE PyObject *nc_callback_capsule(PyObject *obj)
{
    PyObject *first = obj;
    if (PyTuple_Check(obj) && !PyTuple_CheckExact(obj) && PyTuple_GET_SIZE(obj) > 0) {
        first = PyTuple_GET_ITEM(obj, 0);
    }
    return PyCapsule_CheckExact(first) ? first : NULL;
}

/* Raises the error for an object that none of the accepted signatures fits. */
NC_COLD void nc_callback_refuse(PyObject *obj, PyObject *capsule, const char *why,
                                const NcCallbackSignature *accepted, size_t count)
{
    PyObject *wanted = PyUnicode_FromFormat("'%s'", accepted[0].declaration);
    for (size_t i = 1; wanted != NULL && i < count; i++) {
        PyObject *before = wanted;
        wanted = PyUnicode_FromFormat("%U, '%s'", before, accepted[i].declaration);
        Py_DECREF(before);
    }
    if (wanted == NULL) {
        return;
    }
    if (capsule != NULL) {
        const char *name = PyCapsule_GetName(capsule);
        PyErr_Format(PyExc_ValueError, "the function in %R is '%s'%s; it must be one of %U", obj,
                     name != NULL ? name : "", why, wanted);
    } else {
        PyErr_Format(PyExc_TypeError,
                     PyCallable_Check(obj)
                         ? "no function for %U in %R, and Python functions are not taken here"
                         : "a callback must be a callable, a LowLevelCallable or a capsule with a "
                           "function for %U (got %R)",
                     wanted, obj);
    }
    Py_DECREF(wanted);
}

/* Callbacks that nest are a stack in the frames of their callers, each of which takes its own off
 * again by nc_callback_release. GCC, from 12 on, does not see that. */
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdangling-pointer"
#endif

/* Finds how obj is called by one of the accepted signatures, at least one: 0, and the callback is
 * to be released; or -1 with an exception, and it is not (but may). GIL required. */
NC_STATIC int nc_callback_prepare(NcCallback *callback, PyObject *obj,
                                  NcCallbackSignature *accepted, size_t count, unsigned options)
{
    PyObject *capsule = nc_callback_capsule(obj);
    const char *why = "";
    int found = 0;
    memset(callback, 0, sizeof *callback);
    callback->options = options;
    for (size_t i = 0; i < count; i++) {
        if (nc_load_acquire_ptr(&accepted[i].signature) == NULL &&
            nc_callback_read(&accepted[i]) < 0) {
            return -1;
        }
    }
    callback->object = obj;
    if (capsule != NULL) {
        found = nc_callback_from_capsule(callback, capsule, accepted, count, &why);
    } else {
        found = nc_abi_offers(obj) ? nc_callback_from_entries(callback, accepted, count) : 0;
        if (found == 0) {
            found = (options & NC_CALLBACK_NATIVE_ONLY) == 0 && PyCallable_Check(obj);
        }
    }
    if (found <= 0) {
        callback->object = NULL;
        if (found == 0) {
            nc_callback_refuse(obj, capsule, why, accepted, count);
        }
        return -1;
    }
    Py_INCREF(obj);
    callback->finalizer = NC_UNLIKELY(nc_is_finalizing()) ? PyGILState_GetThisThreadState() : NULL;
    if ((options & NC_CALLBACK_NESTS) != 0) {
        callback->outer = nc_callback_innermost;
        nc_callback_innermost = callback;
    }
    return 0;
}

#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12
#pragma GCC diagnostic pop
#endif

/* ---- release --------------------------------------------------------------------------------- */

/* Ends what prepare began, when the C code has ended: 0; or -1 with an exception, which the
 * callback raised or was set before. The callback's came first: another goes to
 * sys.unraisablehook. GIL required. A second release does nothing. */
NC_STATIC int nc_callback_release(NcCallback *callback)
{
    PyObject *object = callback->object;
    const intptr_t failed = nc_load_acquire_intptr(&callback->failed);
    PyObject *raised;
    if (object == NULL) {
        return PyErr_Occurred() ? -1 : 0;
    }
    for (NcCallback **at = &nc_callback_innermost; *at != NULL; at = &(*at)->outer) {
        if (*at == callback) {
            *at = callback->outer;
            break;
        }
    }
    raised = nc_exception_take();
    if (failed == NC_FAILED_RAISED) {
        if (raised != NULL) {
            nc_exception_put(raised);
            PyErr_WriteUnraisable(object);
        }
        raised = callback->raised;
    }
    memset(callback, 0, sizeof *callback);
    Py_DECREF(object); /* may run Python code */
    if (raised != NULL) {
        nc_exception_put(raised);
    } else if (failed == NC_FAILED_SHUTDOWN) {
        PyErr_SetString(PyExc_RuntimeError, "a callback was called while Python shut down");
    }
    return PyErr_Occurred() ? -1 : 0;
}

NC_C_END

#endif
