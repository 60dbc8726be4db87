/* nativecall/callback.h: lets C code accept any callable as a callback, and call its C function
 * directly if it has one.
 *
 *     static NcCallbackSignature accepted[] = {
 *         NC_CALLBACK_ACCEPT("double (double)"),
 *         NC_CALLBACK_ACCEPT_WITH_DATA("double (double, void *)"),
 *     };
 *
 *     static double call(double x, void *data)                    called by the library
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
 *     if (nc_callback_release(&f) < 0) return NULL;               raises the callback's exception
 *
 * The header works without the nativecall package, and imports nothing. nc_callback_prepare()
 * accepts, in this order:
 *
 *   1. native callables and their built-in views (nativecall_abi.h)
 *   2. objects whose type has __nativecall_api__ (nativeapi.h), among them native callables whose
 *      specialize hook creates entries
 *   3. capsules and SciPy's LowLevelCallables; the capsule's name is the C declaration of the
 *      function (detail/prototype.h)
 *   4. any other Python callable: `function` is NULL, and the consumer calls `object` itself
 *
 * Within each kind, the first accepted signature that matches is used. If the function of a capsule
 * or LowLevelCallable has none of the accepted types, prepare raises ValueError. If an object is of
 * none of the four kinds, prepare raises TypeError. Function objects of other libraries (ctypes,
 * cffi, Numba's cfuncs, ufuncs) are called through Python. To call them directly, convert them to
 * native callables with nativecall.wrap().
 *
 * User data is the context of the capsule. A function with user data matches only signatures with a
 * user data argument. A function without user data receives NULL in that argument.
 *
 * Entries that need the GIL are used only with NC_CALLBACK_HOLDS_GIL. Entries that report failures
 * (NC_ERRORS_MASK) are used only with NC_CALLBACK_CHECKS_ERRORS, or, for NC_ERRORS_ARGUMENT, with
 * NC_CALLBACK_CHECKS_ARGUMENT. Otherwise the callable is called through Python, which acquires the
 * GIL and checks for failures. A capsule's name does not state whether its function needs the GIL
 * or sets exceptions. (A Cython `cdef` function without noexcept may set them.) So the function is
 * assumed to need the GIL, unless you set NC_CALLBACK_TRUSTS_NAMES. With this option, the user who
 * passes a capsule must ensure that its function neither needs the GIL nor sets exceptions.
 *
 * Errors. nc_callback_leave() stores the call's exception. From then on nc_callback_enter() returns
 * 0, and your C function must return its sentinel. nc_callback_failed() costs one load. Release
 * raises the exception again, with its traceback. With NC_CALLBACK_HOLDS_GIL, the exception also
 * stays set in the thread that called prepare, so that C code may test PyErr_Occurred(). If a
 * native function itself runs Python code and leaves an exception set in the thread, release also
 * returns -1 and the exception stays set. Your C function may call longjmp, but not between enter
 * and leave.
 *
 * Your own data. Put the NcCallback first in a struct, and cast. If Python would pass more
 * arguments than the function takes, set `function` to NULL: then the object is called.
 *
 * Nesting. If the library passes no user data, call nc_callback_current(). It returns this thread's
 * innermost callback that was prepared with NC_CALLBACK_NESTS and not yet released.
 *
 * Threads. Call prepare and release with the GIL held. Release a nested callback in the thread that
 * prepared it. In between, any number of threads may call the callback at once, including threads
 * unknown to Python. Do not move the NcCallback between prepare and release. Release it after the C
 * code has finished. Threads enter Python through PyGILState, so they always use the main
 * interpreter. */
#ifndef NATIVECALL_CALLBACK_H
#define NATIVECALL_CALLBACK_H

#include <Python.h>
#include <errno.h>

#include "nativeapi.h"
#include "detail/prototype.h"

NC_C_BEGIN

/* Options: the C code holds the GIL at each call. Without this option, nc_callback_enter() acquires
 * the GIL. */
#define NC_CALLBACK_HOLDS_GIL 1u
/* The callback can be nested: nc_callback_current() finds it. */
#define NC_CALLBACK_NESTS 2u
/* After each call the C code checks for failure as flags & NC_ERRORS_MASK specifies. */
#define NC_CALLBACK_CHECKS_ERRORS 4u
/* Functions in capsules neither need the GIL nor set exceptions. */
#define NC_CALLBACK_TRUSTS_NAMES 8u
/* The last argument of every accepted signature is an int *. The C code sets the int to 0 before
 * each call and checks it afterwards. Entries with NC_ERRORS_ARGUMENT are also used. */
#define NC_CALLBACK_CHECKS_ARGUMENT 16u
/* The C code does not call Python: an object without a C function raises TypeError. */
#define NC_CALLBACK_NATIVE_ONLY 32u

/* Any C function; cast it to its type before you call it. */
typedef void (*NcFunction)(void);

/* A signature that a consumer accepts. The array must be static: prepare caches results in it. */
typedef struct {
    const char *declaration; /* a C declaration without the function's name */
    int has_user_data;       /* whether an argument receives user data */
    const char *signature;   /* canonical text; NULL before the first prepare */
    const char *interned;    /* NULL until there is a runtime in the process */
} NcCallbackSignature;

/* Initialisers. */
#define NC_CALLBACK_ACCEPT(declaration) {declaration, 0, NULL, NULL}
#define NC_CALLBACK_ACCEPT_WITH_DATA(declaration) {declaration, 1, NULL, NULL}

/* One callback, from prepare to release. */
typedef struct NcCallback {
    NcFunction function; /* of the C type of signature `matched`; NULL: call Python */
    void *user_data;     /* pass it in the user data argument of signature `matched` */
    size_t matched;      /* index of the accepted signature */
    uintptr_t flags;     /* NC_FLAG_* and NC_ERRORS_* of the function */
    PyObject *object;    /* the object passed; owned */
    unsigned options;    /* NC_CALLBACK_* */

    /* Private to this header. */
    intptr_t failed;          /* atomic: 0, or NC_FAILED_* */
    PyObject *raised;         /* the exception, for NC_FAILED_RAISED */
    struct NcCallback *outer; /* the next outer callback, for nc_callback_current() */
    PyThreadState *thread;    /* that called prepare, with HOLDS_GIL or during shutdown; or NULL */
} NcCallback;

/* Why a callback failed. */
#define NC_FAILED_RAISED 1   /* the Python callable raised an exception */
#define NC_FAILED_SHUTDOWN 2 /* C called it when Python could no longer be entered */

/* The function, cast to the C type of signature `matched`. */
#define NC_CALLBACK_FUNCTION(callback, type) ((type)(callback)->function)

/* The innermost nested callback; one variable per thread and shared library. */
#if defined(NC_MSVC)
static NC_THREAD_LOCAL NcCallback *nc_callback_innermost = NULL;
#else
NC_SHARED_VARIABLE NC_THREAD_LOCAL NcCallback *nc_callback_innermost = NULL;
#endif

/* ---- calls ----------------------------------------------------------------------------------- */

/* Return whether C code should stop, because the callback raised or can no longer run. Any thread;
 * no GIL needed. */
NC_STATIC_INLINE int nc_callback_failed(const NcCallback *callback)
{
    return nc_load_relaxed_intptr(&callback->failed) != 0;
}

/* Return this thread's innermost callback with NC_CALLBACK_NESTS, or NULL. */
NC_STATIC_INLINE NcCallback *nc_callback_current(void)
{
    return nc_callback_innermost;
}

/* Record why the callback failed, unless an earlier reason is recorded. Return whether this reason
 * was the first. */
NC_STATIC_INLINE int nc_callback_fail(NcCallback *callback, intptr_t why)
{
    return nc_exchange_ptr(&callback->failed, NULL, (void *)why);
}

/* One call into Python on behalf of a callback. */
typedef struct {
    PyObject *callable; /* borrowed from the callback */
    NcCallback *callback;
    PyObject *before; /* exception already set by the C code */
    PyGILState_STATE gil;
    int error_number; /* errno, restored for the C code */
} NcCallbackCall;

/* Acquire the GIL for a call. Return 0 if the call must not enter Python. */
NC_NOINLINE int nc_callback_acquire(NcCallback *callback, NcCallbackCall *call)
{
    const PyThreadState *thread;
    /* During shutdown, a thread may enter only if it holds the GIL, or if it called prepare during
     * shutdown. */
    if (NC_UNLIKELY(nc_is_finalizing()) &&
        ((thread = PyGILState_GetThisThreadState()) == NULL ||
         (thread != nc_thread_unchecked() && thread != callback->thread))) {
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
    return 1;
}

/* Enter Python. If this returns 1, call nc_callback_leave(); if 0, return the sentinel. */
NC_STATIC_INLINE int nc_callback_enter(NcCallback *callback, NcCallbackCall *call)
{
    if (NC_UNLIKELY(nc_callback_failed(callback))) {
        return 0;
    }
    call->error_number = errno;
    if ((callback->options & NC_CALLBACK_HOLDS_GIL) == 0 && !nc_callback_acquire(callback, call)) {
        return 0;
    }
    call->callback = callback;
    call->callable = callback->object;
    call->before = nc_exception_take();
    return 1;
}

/* Store the exception of a call. */
NC_COLD void nc_callback_keep(NcCallbackCall *call)
{
    NcCallback *callback = call->callback;
    if (nc_callback_fail(callback, NC_FAILED_RAISED)) {
        callback->raised = nc_exception_take();
        if (call->before == NULL && callback->thread == nc_thread_unchecked()) {
            nc_exception_put(Py_NewRef(callback->raised));
        }
    } else {
        PyErr_WriteUnraisable(call->callable); /* another thread's exception came first */
    }
}

/* Leave Python. Return 0, or -1 if the call raised. After -1, the exception is stored; return the
 * sentinel. */
NC_STATIC_INLINE int nc_callback_leave(NcCallbackCall *call)
{
    const int failed = PyErr_Occurred() != NULL;
    if (NC_UNLIKELY(failed)) {
        nc_callback_keep(call);
    }
    if (NC_UNLIKELY(call->before != NULL)) {
        nc_exception_put(call->before);
    }
    if ((call->callback->options & NC_CALLBACK_HOLDS_GIL) == 0) {
        PyGILState_Release(call->gil);
    }
    errno = call->error_number;
    return failed ? -1 : 0;
}

/* ---- prepare --------------------------------------------------------------------------------- */

/* Parse a declaration into a signature on first use. The text is never freed, because the array is
 * static. Return 0, or -1 with an exception. */
NC_COLD int nc_callback_read(NcCallbackSignature *accepted)
{
    char *text = (char *)PyMem_Malloc(strlen(accepted->declaration) + 1);
    if (text == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    if (nc_prototype_signature(accepted->declaration, text) != NC_OK) {
        PyErr_Format(PyExc_SystemError,
                     "'%s' is not a C function declaration such as \"double (double, void *)\"",
                     accepted->declaration);
        PyMem_Free(text);
        return -1;
    }
    nc_store_release_ptr(&accepted->signature, text);
    return 0;
}

/* Return the flags that an entry must not have. `told` is 1 for an entry with
 * NC_ERRORS_ARGUMENT. */
NC_STATIC_INLINE uintptr_t nc_callback_refuses(unsigned options, int told)
{
    const unsigned checks =
        told ? NC_CALLBACK_CHECKS_ERRORS | NC_CALLBACK_CHECKS_ARGUMENT : NC_CALLBACK_CHECKS_ERRORS;
    return ((options & NC_CALLBACK_HOLDS_GIL) != 0 ? 0 : NC_FLAG_NEEDS_GIL) |
           ((options & checks) != 0 ? 0 : NC_ERRORS_MASK);
}

/* Use an entry if its flags are acceptable. Return whether they are. */
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

/* Try the object's entries. Return 1, 0 if none matches, or -1 with an exception. */
NC_NOINLINE int nc_callback_from_entries(NcCallback *callback, NcCallbackSignature *accepted,
                                         size_t count)
{
    PyObject *behind = nc_abi_behind(callback->object);
    const PyNativeCallableEntry *entry, *first = NULL;
    const char *found;
    for (size_t i = 0; i < count; i++) {
        if (accepted[i].interned == NULL) { /* stays NULL until there is a runtime */
            nc_store_release_ptr(&accepted[i].interned, nc_abi_intern(accepted[i].signature));
        }
        first = i == 0 ? NC_ABI_ENTRIES(behind) : first; /* interning looks for a runtime */
        for (entry = first; (found = (const char *)NC_ABI_LOAD(&entry->signature)); entry++) {
            if (found == accepted[i].interned && nc_callback_take(callback, entry, i)) {
                return 1;
            }
        }
    }
    for (size_t i = 0; i < count; i++) {
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

/* Try the function of a capsule. Return 1, or 0 with a possible reason in *why. */
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
    /* Rare: the same type, spelled differently. */
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
        *why = ", which may need the GIL but would be called without it";
        return 0;
    }
    callback->function = (NcFunction)(uintptr_t)PyCapsule_GetPointer(capsule, name);
    callback->matched = i;
    return 1;
}

/* Return obj if it is a capsule, or the first item of a LowLevelCallable (a tuple), else NULL. */
NC_STATIC_INLINE PyObject *nc_callback_capsule(PyObject *obj)
{
    PyObject *first = obj;
    if (PyTuple_Check(obj) && !PyTuple_CheckExact(obj) && PyTuple_GET_SIZE(obj) > 0) {
        first = PyTuple_GET_ITEM(obj, 0);
    }
    return PyCapsule_CheckExact(first) ? first : NULL;
}

/* Raise the error for an object that matches none of the accepted signatures. */
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
        PyErr_Format(
            PyExc_TypeError,
            PyCallable_Check(obj)
                ? "no native function for %U in %R, and Python functions are not accepted here"
                : "a callback must be a callable, a LowLevelCallable or a capsule with a "
                  "function for %U (got %R)",
            wanted, obj);
    }
    Py_DECREF(wanted);
}

/* Prepare to call obj with one of the accepted signatures. At least one signature is required.
 * Return 0, or -1 with an exception. After 0, you must release the callback. GIL required. */
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
    if ((options & NC_CALLBACK_HOLDS_GIL) != 0 || nc_is_finalizing()) {
        callback->thread = nc_thread_unchecked();
    }
    if ((options & NC_CALLBACK_NESTS) != 0) {
        callback->outer = nc_callback_innermost;
        /* Callbacks form a stack in their callers' frames, and release pops them. GCC does not see
         * that, and would warn about a plain store (-Wdangling-pointer). */
        nc_store_relaxed_ptr(&nc_callback_innermost, callback);
    }
    return 0;
}

/* ---- release --------------------------------------------------------------------------------- */

/* Release a prepared callback after the C code has finished. Return 0, or -1 with an exception that
 * the callback raised or that was already set. If two exist, the exception that was already set
 * goes to sys.unraisablehook. GIL required. A second release does nothing, nor does the release of
 * a callback that is all zeros. */
NC_STATIC int nc_callback_release(NcCallback *callback)
{
    PyObject *object = callback->object;
    const intptr_t failed = nc_load_acquire_intptr(&callback->failed);
    if (object == NULL) {
        return PyErr_Occurred() ? -1 : 0;
    }
    NcCallback *none = NULL; /* a thread's variable is slow to find */
    NcCallback **at = (callback->options & NC_CALLBACK_NESTS) != 0 ? &nc_callback_innermost : &none;
    for (; *at != NULL && *at != callback; at = &(*at)->outer) {
    }
    *at = *at != NULL ? callback->outer : NULL;
    PyObject *raised = nc_exception_take();
    if (failed == NC_FAILED_RAISED) {
        if (raised == callback->raised) {
            Py_XDECREF(raised);
        } else if (raised != NULL) {
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
        PyErr_SetString(PyExc_RuntimeError, "a callback was called during the shutdown of Python");
    }
    return PyErr_Occurred() ? -1 : 0;
}

NC_C_END

#endif
