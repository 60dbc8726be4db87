/* nativecall/callback.h: for C code that takes a callback: any callable as a C function pointer.
 *
 *     NC_CALLBACK_DECLARE(integrand, double, (double), NAN);
 *     NC_CALLBACK_DECLARE_WITH_DATA(integrand_data, double, (double, user_data), NAN);
 *     static NcCallbackSignature accepted[] = {NC_CALLBACK_ACCEPT(integrand),
 *                                              NC_CALLBACK_ACCEPT(integrand_data)};
 *
 *     NcCallback f;
 *     if (nc_callback_prepare(&f, obj, accepted, 2, NC_CALLBACK_HOLDS_GIL) < 0) return NULL;
 *     while (... && !nc_callback_failed(&f))
 *         y = f.matched == 0
 *                 ? NC_CALLBACK_FUNCTION(&f, double (*)(double))(x)
 *                 : NC_CALLBACK_FUNCTION(&f, double (*)(double, void *))(x, f.user_data);
 *     if (nc_callback_release(&f) < 0) return NULL;
 *
 * What is taken, in this order, each for the first accepted signature that it has an entry of:
 *
 *   1. native callables and their built-in views (nativecallable.h)
 *   2. objects whose type has __nativecall_api__ (nativeapi.h), which native callables have for the
 *      entries that their specialize hook makes: a missing one is asked for here
 *   3. boxes of other libraries: LowLevelCallable, capsules named by a C declaration, function
 *      pointers of ctypes and of cffi, Numba's cfuncs (boxes.h); if the package is imported, also
 *      the native callables that it makes of others (nativecall.register_box)
 *   4. any Python callable, through the callback function of an accepted signature
 *   (detail/callbackfunctions.h); one with
 *      user_data is preferred, because it needs no slot of the pool
 *
 * A Numba dispatcher and a NumPy ufunc are Python callables here: nothing is compiled, unless the
 * dispatcher is wrapped (nativecall.wrap).
 * What is no such thing, or has none of the signatures and cannot be called by Python, is a
 * TypeError.
 *
 * user_data. A LowLevelCallable with user data fits only signatures that have a place for it, and
 * gets it there. A native function that has that argument but brings no data gets NULL. Functions
 * without the argument do not fit a signature with it: nothing is adapted.
 *
 * Names. A capsule, also the one in a LowLevelCallable, has nothing but its name to tell what its
 * function is, unless nativecall made it (boxes.h), and no name tells whether the function needs
 * the GIL or sets exceptions, but for "PyObject *", which needs it. One that Cython exports may do
 * both: `cdef api double f(double)` sets an exception and returns -1 unless it is noexcept, and
 * crashes without the GIL if it uses Python objects. Here such functions count as needing nothing
 * and reporting nothing, and who passes one vouches for that; but a LowLevelCallable around a
 * function pointer of ctypes is asked for that one's flags. NC_CALLBACK_DISTRUSTS_NAMES passes all
 * of them over.
 *
 * Native entries that report failures (NC_ERRORS_MASK) are passed over unless the consumer says
 * NC_CALLBACK_CHECKS_ERRORS (for one convention NC_CALLBACK_CHECKS_ARGUMENT), entries that need the GIL unless it says NC_CALLBACK_HOLDS_GIL. Such a
 * callable is then called through Python, which does right by both.
 *
 * Errors. A callback function never returns with an exception set. It keeps the exception and
 * returns its sentinel; nc_callback_failed() is one load; release raises the exception again, with
 * the traceback that it had. So the function that began it all returns NULL. A native function that
 * runs Python code itself (nativecall.callback) may leave an exception set in the thread; then
 * release is -1 as well, and the exception stays.
 *
 * Life. prepare and release hold the GIL. Between them the NcCallback stays where it is, and with
 * it what it was made of. Calls are free from then on: any thread, several at once, also such that
 * Python has never seen, unless an option restricts that (detail/callbackcalls.h). Release comes
 * when the C code has ended, and no other thread can be calling.
 *
 * One release may come earlier: by the callback itself while it runs, or of a scoped callback in
 * any callback function inside of the function that prepared it. What runs ends well,
 * nc_callback_failed() tells the C code to stop, and later calls give the sentinel, until the
 * second release, which says that the C code has ended:
 *
 *   - with user_data, as long as the NcCallback is there: it is freed after the second release
 *   - without, whatever becomes of the NcCallback: no other callback gets the function before the
 *     second release. An NcCallback that is freed without it costs one of the NC_CALLBACK_POOL
 *     functions, for good (a scoped one until the function ends that it was prepared in, if any)
 *
 * The callback may make the second release itself as well, and free the NcCallback while it runs,
 * if the C code calls no more. After a release when the C code had ended, a second does nothing.
 *
 * PyGILState is what threads enter Python by, so callback functions belong to the main
 * interpreter. */
#ifndef NATIVECALL_CALLBACK_H
#define NATIVECALL_CALLBACK_H

#include "detail/boxes.h"
#include "nativeapi.h"
#include "nativecallable.h"
#include "detail/callbackfunctions.h"

NC_C_BEGIN

/* One signature that a consumer accepts. The array is the consumer's and static: prepare keeps the
 * canonical and the interned form in it. */
typedef struct {
    const char *signature; /* signature text, any spelling; see docs/abi/signatures.md */
    int user_data;         /* the index of the argument that gets user_data, -1: there is none */
    const NcCallbackFunction
        *python;          /* for Python functions; NULL: none are taken for this signature */
    const char *interned; /* NULL until there are native callables in the process */
} NcCallbackSignature;

/* Initialisers: a signature with its callback function, and one for native functions only. */
#define NC_CALLBACK_ACCEPT(python) {NULL, -1, &(python), NULL}
#define NC_CALLBACK_ACCEPT_NATIVE(signature, user_data) {signature, user_data, NULL, NULL}

/* The function as a pointer of the C type that goes with `matched`. */
#define NC_CALLBACK_FUNCTION(callback, type) ((type)(callback)->function)

/* Whether to stop: the callback raised, or can no longer run. Any thread, with or without GIL. */
NC_STATIC_INLINE int nc_callback_failed(const NcCallback *callback)
{
    return nc_load_relaxed_intptr(&callback->failed) != 0;
}

/* ---- what is accepted ------------------------------------------------------------------------ */

/* Makes a signature canonical, and interns it as soon as that can be. 0, or -1 with an exception. */
NC_STATIC int nc_callback_intern(NcCallbackSignature *accepted)
{
    NcSignatureText text;
    const char *interned;
    if (accepted->python != NULL && accepted->signature == NULL) {
        accepted->signature = accepted->python->signature;
        accepted->user_data = accepted->python->user_data;
    }
    if (accepted->signature == NULL) {
        PyErr_SetString(PyExc_SystemError, "nc_callback_prepare was given NULL for a signature");
        return -1;
    }
    nc_text_init(&text);
    nc_text_put(&text, accepted->signature);
    if (nc_text_canonical(&text) != NC_OK) {
        PyErr_Format(PyExc_ValueError, "'%s', which a callback may have, is no signature: %s",
                     accepted->signature, nc_status_text(text.status));
        return -1;
    }
    if (nc_signature_intern(text.text, &interned) < 0) {
        return -1;
    }
    if (interned != NULL) {
        accepted->signature = interned;
    } else if (strcmp(accepted->signature, text.text) != 0) {
        /* Kept, as the array is: once for a signature of the source. */
        char *kept = (char *)PyMem_Malloc(text.length + 1);
        if (kept == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        memcpy(kept, text.text, text.length + 1);
        accepted->signature = kept;
    }
    nc_store_release_ptr(&accepted->interned, interned);
    return 0;
}

/* The flags that a native entry must not have. */
NC_STATIC uintptr_t nc_callback_refuses(unsigned options)
{
    return ((options & NC_CALLBACK_HOLDS_GIL) != 0 ? 0 : NC_FLAG_NEEDS_GIL) |
           ((options & NC_CALLBACK_CHECKS_ERRORS) != 0 ? 0 : NC_ERRORS_MASK);
}

/* Whether a native entry may have these flags. */
NC_STATIC int nc_callback_suits(uintptr_t flags, unsigned options)
{
    const int told = (options & NC_CALLBACK_CHECKS_ARGUMENT) != 0 &&
                     (flags & NC_ERRORS_MASK) == NC_ERRORS_ARGUMENT;
    const uintptr_t refuse = nc_callback_refuses(options);
    return nc_calltable_flags_suit(flags, told ? refuse & ~NC_ERRORS_MASK : refuse);
}

/* Whether a box is passed over because nothing but a capsule's name tells what is in it. */
NC_STATIC int nc_callback_distrusts(PyObject *obj, const NcBox *box, unsigned options)
{
    return (options & NC_CALLBACK_DISTRUSTS_NAMES) != 0 && !box->own_entry &&
           (PyCapsule_CheckExact(obj) || PyTuple_Check(obj)); /* LowLevelCallable is a tuple */
}

/* ---- messages -------------------------------------------------------------------------------- */

/* Appends to a string: "'a', 'b'". 0, or -1 with an exception. */
NC_STATIC int nc_message_add(PyObject **message, const char *text, const char *after)
{
    PyObject *longer;
    if (*message == NULL) {
        *message = PyUnicode_FromFormat("'%s'%s", text, after);
    } else {
        longer = PyUnicode_FromFormat("%U, '%s'%s", *message, text, after);
        Py_DECREF(*message);
        *message = longer;
    }
    return *message != NULL ? 0 : -1;
}

/* Why an entry was passed over whatever its signature is: " (...)", or "". */
NC_STATIC const char *nc_message_why(uintptr_t flags, uintptr_t refuse)
{
    int gil = (flags & refuse & NC_FLAG_NEEDS_GIL) != 0;
    int errors = (flags & refuse & NC_ERRORS_MASK) != 0;
    if (gil && errors) {
        return " (needs the GIL, which the caller does not hold, and reports failures, which it "
               "does not look for)";
    }
    return gil      ? " (needs the GIL, which the caller does not hold)"
           : errors ? " (reports failures, which the caller does not look for)"
                    : "";
}

/* The signatures that obj offers: a new reference, or NULL with an exception or without any. */
NC_STATIC PyObject *nc_message_offers(PyObject *obj, const NcBox *box, unsigned options)
{
    PyObject *message = NULL;
    const PyNativeCallableEntry *entry = NULL;
    const NcNativeApi *api = NULL;
    uintptr_t refuse = nc_callback_refuses(options);
    size_t i;
    if (box != NULL) {
        if (box->unknown != NULL) {
            return PyUnicode_FromFormat("a function whose signature is unknown (%s)", box->unknown);
        }
        return PyUnicode_FromFormat(
            "'%s'%s%s", box->signature.text, box->has_user_data ? " with user_data" : "",
            nc_callback_distrusts(obj, box, options)
                ? " (says a capsule's name, which the caller does not trust)"
                : nc_message_why(box->flags, refuse));
    }
    while ((entry = nc_native_next(obj, entry)) != NULL) {
        if (nc_message_add(&message, entry->signature, nc_message_why(entry->flags, refuse)) < 0) {
            return NULL;
        }
    }
    if (message != NULL || nc_nativeapi_of(obj, &api) < 0 || api == NULL || api->entry == NULL) {
        return message;
    }
    for (i = 0; i < NC_NATIVEAPI_MAX_ENTRIES && (entry = api->entry(obj, i)) != NULL; i++) {
        if (entry->signature != NULL && nc_calltable_flags_suit(entry->flags, 0) &&
            nc_message_add(&message, entry->signature,
                           entry->funcptr == NULL ? " (has no function yet)"
                                                  : nc_message_why(entry->flags, refuse)) < 0) {
            return NULL;
        }
    }
    return message;
}

/* Raises TypeError for an object that none of the accepted signatures fits. `native`: the callable
 * that the package makes of it, or NULL. */
NC_COLD void nc_callback_refuse(PyObject *obj, PyObject *native, const NcBox *box,
                                const NcCallbackSignature *accepted, size_t count, unsigned options)
{
    PyObject *wanted = NULL;
    PyObject *offers = NULL;
    char after[64];
    size_t i;
    for (i = 0; i < count; i++) {
        after[0] = '\0';
        if (accepted[i].user_data >= 0) {
            PyOS_snprintf(after, sizeof after, " with user_data as argument %d",
                          accepted[i].user_data + 1);
        }
        if (nc_message_add(&wanted, accepted[i].signature, after) < 0) {
            return;
        }
    }
    offers = nc_message_offers(native != NULL ? native : obj, box, options);
    if (offers != NULL) {
        PyErr_Format(PyExc_TypeError, "no function for %U in %R; it offers %U", wanted, obj,
                     offers);
    } else if (!PyErr_Occurred() && box == NULL && !PyCallable_Check(obj)) {
        PyErr_Format(PyExc_TypeError,
                     "a callback must be a callable, a LowLevelCallable or a capsule with a "
                     "function for %U (got %R)",
                     wanted, obj);
    } else if (!PyErr_Occurred()) {
        PyErr_Format(PyExc_TypeError,
                     "no function for %U in %R; Python functions are not taken here", wanted, obj);
    }
    Py_XDECREF(wanted);
    Py_XDECREF(offers);
}

/* ---- prepare --------------------------------------------------------------------------------- */

/* Makes a native function the callback's. */
NC_STATIC void nc_callback_set_native(NcCallback *callback, PyObject *obj, size_t matched,
                                      void *function, void *user_data, uintptr_t flags)
{
    Py_INCREF(obj);
    callback->object = obj;
    callback->function = (NcFunction)(uintptr_t)function;
    callback->user_data = user_data;
    callback->matched = matched;
    callback->flags = flags;
    callback->native = 1;
}

/* Entries that the object itself publishes. 1, 0 when none fits, or -1 with an exception. */
NC_STATIC int nc_callback_from_entries(NcCallback *callback, PyObject *obj,
                                       const NcCallbackSignature *accepted, size_t count)
{
    uintptr_t refuse = nc_callback_refuses(callback->options);
    PyObject *asked = nc_native_behind(obj);
    const NcNativeApi *api;
    size_t i;
    for (i = 0; i < count; i++) {
        const PyNativeCallableEntry *entry = NULL;
        while ((entry = nc_native_next(obj, entry)) != NULL &&
               (entry->signature != accepted[i].interned ||
                !nc_callback_suits(entry->flags, callback->options))) {
        }
        if (entry != NULL) {
            nc_callback_set_native(callback, obj, i, nc_calltable_funcptr(entry), NULL,
                                   entry->flags);
            return 1;
        }
    }
    if (nc_nativeapi_of(asked, &api) < 0) {
        return -1;
    }
    for (i = 0; api != NULL && i < count; i++) {
        const PyNativeCallableEntry *entry;
        if (nc_nativeapi_find(asked, accepted[i].signature, refuse, &entry) < 0) {
            return -1;
        }
        if (entry == NULL && (callback->options & NC_CALLBACK_CHECKS_ARGUMENT) != 0 &&
            nc_nativeapi_find(asked, accepted[i].signature, refuse & ~NC_ERRORS_MASK, &entry) < 0) {
            return -1;
        }
        if (entry != NULL && nc_callback_suits(entry->flags, callback->options)) {
            nc_callback_set_native(callback, obj, i, nc_calltable_funcptr(entry), NULL,
                                   entry->flags);
            return 1;
        }
    }
    return 0;
}

/* A box's function. 1, 0 when it does not fit, or -1 with an exception. */
NC_STATIC int nc_callback_from_box(NcCallback *callback, PyObject *obj, const NcBox *box,
                                   const NcCallbackSignature *accepted, size_t count)
{
    size_t i;
    if (box->address == NULL) {
        PyErr_Format(PyExc_ValueError, "%R is %s that is NULL", obj, box->kind);
        return -1;
    }
    if (box->unknown != NULL || !nc_callback_suits(box->flags, callback->options) ||
        nc_callback_distrusts(obj, box, callback->options)) {
        return 0;
    }
    for (i = 0; i < count; i++) {
        if (strcmp(box->signature.text, accepted[i].signature) == 0 &&
            (!box->has_user_data || accepted[i].user_data >= 0)) {
            nc_callback_set_native(callback, obj, i, box->address, box->user_data, box->flags);
            return 1;
        }
    }
    return 0;
}

/* A callback function for a Python callable. 1, 0 when no accepted signature has one, -1 with an
 * exception. */
NC_STATIC int nc_callback_from_python(NcCallback *callback, PyObject *obj,
                                      const NcCallbackSignature *accepted, size_t count)
{
    NcCallbackState *state;
    size_t chosen = count;
    size_t i;
    for (i = count; i-- > 0;) {
        const NcCallbackFunction *python = accepted[i].python;
        if (python != NULL &&
            (chosen == count || python->user_data >= 0 || accepted[chosen].python->user_data < 0)) {
            chosen = i;
        }
    }
    if (chosen == count) {
        return 0;
    }
    state = (NcCallbackState *)PyMem_Calloc(1, sizeof *state);
    if (state == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    callback->matched = chosen;
    callback->thread = &nc_callback_thread;
    callback->depth = nc_callback_thread.depth;
    callback->finalizing = nc_is_finalizing();
    Py_INCREF(obj);
    state->callable = obj;
    state->owner = callback;
    state->users = 1;
    callback->state = state;
    if (accepted[chosen].python->user_data >= 0) {
        callback->function = accepted[chosen].python->functions[0];
        callback->user_data = callback;
    } else {
        if (nc_callback_claim(callback, accepted[chosen].python->slots) < 0) {
            callback->state = NULL;
            nc_callback_state_drop(state);
            return -1;
        }
        callback->function = accepted[chosen].python->functions[callback->slot];
    }
    return 1;
}

/* Finds how obj is called by one of the accepted signatures, at least one: 0, and the callback is
 * to be released; or -1 with an exception, and it is not (but may). GIL required. */
NC_STATIC int nc_callback_prepare(NcCallback *callback, PyObject *obj,
                                  NcCallbackSignature *accepted, size_t count, unsigned options)
{
    NcBox box;
    PyObject *native = NULL; /* what the package makes of obj */
    int opened = 0;
    int found;
    size_t i;
    memset(callback, 0, sizeof *callback);
    callback->options = options;
    if (obj == NULL) {
        PyErr_SetString(PyExc_SystemError, "nc_callback_prepare was given NULL for an object");
        return -1;
    }
    if (count == 0) {
        PyErr_SetString(PyExc_SystemError, "nc_callback_prepare was given no signatures");
        return -1;
    }
    for (i = 0; i < count; i++) {
        if (accepted[i].interned == NULL && nc_callback_intern(&accepted[i]) < 0) {
            return -1;
        }
    }
    found = nc_callback_from_entries(callback, obj, accepted, count);
    if (found == 0) {
        opened = nc_box_open(obj, &box);
        found = opened > 0 ? nc_callback_from_box(callback, obj, &box, accepted, count) : opened;
    }
    if (found == 0 && opened == 0 && (found = nc_box_native(obj, &native)) == 0 && native != NULL) {
        found = nc_callback_from_entries(callback, native, accepted, count);
    }
    if (found == 0 && PyCallable_Check(obj)) {
        found = nc_callback_from_python(callback, obj, accepted, count);
    }
    if (found == 0) {
        nc_callback_refuse(obj, native, opened > 0 ? &box : NULL, accepted, count, options);
    }
    Py_XDECREF(native);
    return found > 0 ? 0 : -1;
}

/* ---- release --------------------------------------------------------------------------------- */

/* Ends what prepare began: 0; or -1 when the callback failed, and the exception that it raised is
 * raised again. An exception that the C code had raised meanwhile stays, or goes to
 * sys.unraisablehook if there is one of the callback's, which came first. A second release ends
 * what a first one left because the callback ran: RuntimeError, because the C code was stopped, or
 * 0 as long as the callback function goes on in which the first was made. Any other does nothing.
 * GIL required. */
NC_STATIC int nc_callback_release(NcCallback *callback)
{
    NcCallbackState *state = callback->state;
    PyObject *object = callback->object;
    intptr_t failed = nc_load_acquire_intptr(&callback->failed);
    int goes_on = state != NULL && nc_callback_end(callback);
    int is_native = object != NULL;
    NcRaised raised;
    NcRaised pending;
    memset(&raised, 0, sizeof raised);
    if (failed == NC_FAILED_RELEASED && callback->thread == &nc_callback_thread &&
        callback->depth <= nc_callback_thread.depth) {
        failed = 0;
    }
    if (!goes_on) {
        nc_callback_give_back(callback);
    }
    callback->state = NULL;
    callback->object = NULL;
    nc_store_release_intptr(&callback->failed, goes_on ? NC_FAILED_RELEASED : 0);
    nc_raised_take(&pending);
    if (state != NULL) {
        raised = state->raised;
        memset(&state->raised, 0, sizeof state->raised);
        if (nc_raised_is_set(&raised) && nc_raised_is_set(&pending)) {
            nc_raised_restore(&pending);
            PyErr_WriteUnraisable(state->callable);
            memset(&pending, 0, sizeof pending);
        }
        nc_callback_state_drop(state);
    }
    Py_XDECREF(object);
    if (nc_raised_is_set(&raised)) {
        nc_raised_restore(&raised);
    } else if (nc_raised_is_set(&pending)) {
        nc_raised_restore(&pending);
        failed |= is_native;
    } else if (failed == NC_FAILED_SHUTDOWN) {
        PyErr_SetString(PyExc_RuntimeError, "a callback was called while Python shut down");
    } else if (failed == NC_FAILED_RELEASED) {
        PyErr_SetString(PyExc_RuntimeError, "a callback was released while it ran");
    }
    return failed != 0 ? -1 : 0;
}

NC_C_END

#endif
