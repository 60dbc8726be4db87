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
 *   3. boxes of other libraries, which the package reads (detail/box.h): LowLevelCallable,
 *      capsules named by a C declaration, function pointers of ctypes and of cffi, Numba's cfuncs,
 *      loops of NumPy's ufuncs, and what nativecall.register_box was given
 *   4. any Python callable, through the callback function of an accepted signature
 *      (detail/callbackfunctions.h); one with user_data is preferred: it needs no slot of the pool
 *
 * A Numba dispatcher is a Python callable here, for which nothing is compiled, unless it is wrapped
 * (nativecall.wrap); so is a ufunc without a loop of the types. What is no such thing, or has none
 * of the signatures and cannot be called by Python, is a TypeError.
 *
 * user_data. A LowLevelCallable with user data fits only signatures that have a place for it, and
 * gets it there. A native function that has that argument but brings no data gets NULL. Functions
 * without the argument do not fit a signature with it: nothing is adapted.
 *
 * Names. A capsule, also the one in a LowLevelCallable, has nothing but its name to tell what its
 * function is, unless nativecall made it, and no name tells whether the function needs the GIL or
 * sets exceptions, but for "PyObject *", which needs it. One that Cython exports may do both: `cdef
 * api double f(double)` sets an exception and returns -1 unless it is noexcept, and crashes without
 * the GIL if it uses Python objects. Here such functions count as needing nothing and reporting
 * nothing, and who passes one vouches for that; but a LowLevelCallable around a function pointer of
 * ctypes is asked for that one's flags. NC_CALLBACK_DISTRUSTS_NAMES passes all of them over.
 *
 * Native entries that report failures (NC_ERRORS_MASK) are passed over unless the consumer says
 * NC_CALLBACK_CHECKS_ERRORS (for one convention NC_CALLBACK_CHECKS_ARGUMENT), entries that need the
 * GIL unless it says NC_CALLBACK_HOLDS_GIL. Such a callable is then called through Python, which
 * does right by both.
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
 * The callback may make the second release itself, and free the NcCallback while it runs, if the C
 * code calls no more. After a release when the C code had ended, a second does nothing.
 *
 * Threads enter Python by PyGILState, so callback functions belong to the main interpreter. */
#ifndef NATIVECALL_CALLBACK_H
#define NATIVECALL_CALLBACK_H

#include "nativeapi.h"
#include "nativecallable.h"
#include "detail/box.h"
#include "detail/callbackfunctions.h"

NC_C_BEGIN

/* One signature that a consumer accepts. The array is the consumer's and static: prepare keeps the
 * canonical and the interned form in it. */
typedef struct {
    const char *signature; /* canonical, but for blanks and the codes "clLnNg" */
    int user_data;         /* the index of the argument that gets it, -1: there is none */
    const NcCallbackFunction *python; /* for Python functions; NULL: none are taken */
    const char *interned;             /* NULL until there are native callables in the process */
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

/* Makes a signature canonical, and interns it as soon as that can be. 0, or -1 with an exception.
 * What is checked are the characters, and that each function in it has one ':'. The canonical form
 * lives for ever, as the array does, once for a signature of the source. */
NC_COLD int nc_callback_intern(NcCallbackSignature *accepted)
{
    const char *at, *interned;
    char *kept, *end;
    int functions = 1;
    if (accepted->python != NULL && accepted->signature == NULL) {
        accepted->signature = accepted->python->signature;
        accepted->user_data = accepted->python->user_data;
    }
    at = accepted->signature;
    kept = end = (char *)PyMem_Malloc(at != NULL ? strlen(at) + 1 : 0);
    if (at == NULL || kept == NULL) {
        PyErr_SetString(at == NULL ? PyExc_SystemError : PyExc_MemoryError,
                        at == NULL ? "nc_callback_prepare was given NULL for a signature" : "");
        return -1;
    }
    for (; *at != '\0'; at++) {
        *end = nc_scalar_spelt(*at);
        functions += (*end == 'X') - (*end == ':');
        if (functions < 0 || strchr(NC_PACKED_COMMON NC_PACKED_RARE ": clLnN", *at) == NULL) {
            break;
        }
        end += *at != ' ';
    }
    *end = '\0';
    if (*at != '\0' || functions != 0) {
        PyErr_Format(PyExc_ValueError,
                     "'%s', which a callback may have, is no signature in canonical form: "
                     "unexpected %s at column %zd",
                     accepted->signature, *at != '\0' ? "character" : "end",
                     (Py_ssize_t)(at - accepted->signature) + 1);
    } else if (strcmp(kept, accepted->signature) != 0) {
        accepted->signature = kept;
        kept = NULL;
    }
    PyMem_Free(kept);
    if (PyErr_Occurred() || nc_signature_intern(accepted->signature, &interned) < 0) {
        return -1;
    }
    nc_store_release_ptr(&accepted->interned, interned);
    return 0;
}

/* The flags that a native entry must not have. */
NC_STATIC_INLINE uintptr_t nc_callback_refuses(unsigned options)
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

/* ---- messages -------------------------------------------------------------------------------- */

/* Appends to a string: "'a', 'b'". 0, or -1 with an exception. */
NC_COLD int nc_message_add(PyObject **message, const char *text, const char *more, const char *why)
{
    PyObject *before = *message;
    *message = before != NULL ? PyUnicode_FromFormat("%U, '%s'%s%s", before, text, more, why)
                              : PyUnicode_FromFormat("'%s'%s%s", text, more, why);
    Py_DecRef(before);
    return *message != NULL ? 0 : -1;
}

/* Why an entry was passed over whatever its signature is: " (...)", or "". */
NC_COLD const char *nc_message_why(const PyNativeCallableEntry *entry, unsigned options, int named)
{
    uintptr_t refused = entry->flags & nc_callback_refuses(options);
    if (NC_ABI_LOAD(&entry->funcptr) == NULL) {
        return " (has no function yet)";
    }
    if (named && (options & NC_CALLBACK_DISTRUSTS_NAMES) != 0) {
        return " (says a capsule's name, which the caller does not trust)";
    }
    if ((refused & NC_FLAG_NEEDS_GIL) != 0 && (refused & NC_ERRORS_MASK) != 0) {
        return " (needs the GIL, which the caller does not hold, and reports failures, which it "
               "does not look for)";
    }
    return (refused & NC_FLAG_NEEDS_GIL) != 0 ? " (needs the GIL, which the caller does not hold)"
           : refused != 0 ? " (reports failures, which the caller does not look for)"
                          : "";
}

/* The signatures that obj or the box that it is offers: a new reference, or NULL with an exception
 * or without any. */
NC_COLD PyObject *nc_message_offers(PyObject *obj, const NcBox *box, unsigned options)
{
    PyObject *message = NULL;
    PyObject *asked = box->native != NULL ? box->native : obj;
    const PyNativeCallableEntry *entry = nc_native_next(asked, NULL);
    const NcNativeApi *api = NULL;
    const int has_table = entry != NULL;
    size_t position = 0;
    if (box->unknown != NULL) {
        return PyUnicode_FromFormat("a function whose signature is unknown (%U)", box->unknown);
    }
    if (!has_table && (nc_nativeapi_of(asked, &api) < 0 || api == NULL || api->entry == NULL)) {
        return NULL;
    }
    for (;; entry = has_table ? nc_native_next(asked, entry) : NULL) {
        if (!has_table && position < NC_NATIVEAPI_MAX_ENTRIES) {
            entry = api->entry(asked, position++);
        }
        if (entry == NULL) {
            return message;
        }
        if (entry->signature != NULL && nc_calltable_flags_suit(entry->flags, 0) &&
            nc_message_add(&message, entry->signature, box->has_user_data ? " with user_data" : "",
                           nc_message_why(entry, options, box->named)) < 0) {
            return NULL;
        }
    }
}

/* Raises TypeError for an object that none of the accepted signatures fits. */
NC_COLD void nc_callback_refuse(PyObject *obj, const NcBox *box,
                                const NcCallbackSignature *accepted, size_t count, unsigned options)
{
    PyObject *wanted = NULL, *offers = NULL;
    char after[64];
    for (size_t i = 0; i < count; i++) {
        after[0] = '\0';
        if (accepted[i].user_data >= 0) {
            PyOS_snprintf(after, sizeof after, " with user_data as argument %d",
                          accepted[i].user_data + 1);
        }
        if (nc_message_add(&wanted, accepted[i].signature, after, "") < 0) {
            return;
        }
    }
    offers = nc_message_offers(obj, box, options);
    if (offers != NULL) {
        PyErr_Format(PyExc_TypeError, "no function for %U in %R; it offers %U", wanted, obj,
                     offers);
    } else if (!PyErr_Occurred()) {
        PyErr_Format(PyExc_TypeError,
                     box->native != NULL || PyCallable_Check(obj)
                         ? "no function for %U in %R; Python functions are not taken here"
                         : "a callback must be a callable, a LowLevelCallable or a capsule with a "
                           "function for %U (got %R)",
                     wanted, obj);
    }
    Py_DecRef(wanted);
    Py_DecRef(offers);
}

/* ---- prepare --------------------------------------------------------------------------------- */

/* Entries that the object itself publishes, or those of the box that it is. 1, 0 when none fits, or
 * -1 with an exception. */
NC_COLD int nc_callback_from_entries(NcCallback *callback, PyObject *obj, const NcBox *box,
                                     const NcCallbackSignature *accepted, size_t count)
{
    uintptr_t refuse = nc_callback_refuses(callback->options);
    PyObject *asked = nc_abi_behind(obj);
    size_t tier, i;
    if (box->named && (callback->options & NC_CALLBACK_DISTRUSTS_NAMES) != 0) {
        return 0;
    }
    for (tier = 1; tier <= 2; tier++) {
        for (i = 0; i < count; i++) {
            const PyNativeCallableEntry *entry = NULL;
            if (box->has_user_data && accepted[i].user_data < 0) {
                continue;
            }
            if (tier == 1) {
                while ((entry = nc_native_next(obj, entry)) != NULL &&
                       (entry->signature != accepted[i].interned ||
                        !nc_callback_suits(entry->flags, callback->options))) {
                }
            } else if (nc_nativeapi_find(asked, accepted[i].signature, refuse, &entry) < 0 ||
                       (entry == NULL && (callback->options & NC_CALLBACK_CHECKS_ARGUMENT) != 0 &&
                        nc_nativeapi_find(asked, accepted[i].signature, refuse & ~NC_ERRORS_MASK,
                                          &entry) < 0)) {
                return -1;
            }
            if (entry != NULL && nc_callback_suits(entry->flags, callback->options)) {
                Py_IncRef(obj);
                callback->object = obj;
                callback->function = (NcFunction)(uintptr_t)nc_calltable_funcptr(entry);
                callback->user_data = box->user_data;
                callback->matched = i;
                callback->flags = entry->flags;
                callback->native = 1;
                return 1;
            }
        }
    }
    return 0;
}

/* A callback function for a Python callable. 1, 0 when no accepted signature has one, -1 with an
 * exception. */
NC_COLD int nc_callback_from_python(NcCallback *callback, PyObject *obj,
                                    const NcCallbackSignature *accepted, size_t count)
{
    NcCallbackState *state;
    size_t chosen = count, i;
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
    Py_IncRef(obj);
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
NC_COLD int nc_callback_prepare(NcCallback *callback, PyObject *obj, NcCallbackSignature *accepted,
                                size_t count, unsigned options)
{
    NcBox box;
    int found;
    size_t i;
    memset(&box, 0, sizeof box);
    memset(callback, 0, sizeof *callback);
    callback->options = options;
    if (obj == NULL || count == 0) {
        PyErr_Format(PyExc_SystemError, "nc_callback_prepare was given %s",
                     obj == NULL ? "NULL for an object" : "no signatures");
        return -1;
    }
    for (i = 0; i < count; i++) {
        if (accepted[i].interned == NULL && nc_callback_intern(&accepted[i]) < 0) {
            return -1;
        }
    }
    found = nc_callback_from_entries(callback, obj, &box, accepted, count);
    if (found == 0 && (found = nc_box_open(obj, &box)) > 0) {
        found = 0;
        for (i = 0; i < count && found == 0; i++) { /* the package may have brought the runtime */
            found = accepted[i].interned == NULL ? nc_callback_intern(&accepted[i]) : 0;
        }
        if (found == 0 && box.native != NULL) {
            found = nc_callback_from_entries(callback, box.native, &box, accepted, count);
        }
    }
    if (found == 0 && PyCallable_Check(obj)) {
        found = nc_callback_from_python(callback, obj, accepted, count);
    }
    if (found == 0) {
        nc_callback_refuse(obj, &box, accepted, count, options);
    }
    nc_box_close(&box);
    return found > 0 ? 0 : -1;
}

/* ---- release --------------------------------------------------------------------------------- */

/* Ends what prepare began: 0; or -1 when the callback failed, and the exception that it raised is
 * raised again. An exception that the C code had raised meanwhile stays, or goes to
 * sys.unraisablehook if there is one of the callback's, which came first. A second release ends
 * what a first one left because the callback ran: RuntimeError, because the C code was stopped, or
 * 0 as long as the callback function goes on in which the first was made. Any other does nothing.
 * GIL required. */
NC_COLD int nc_callback_release(NcCallback *callback)
{
    NcCallbackState *state = callback->state;
    PyObject *object = callback->object;
    intptr_t failed = nc_load_acquire_intptr(&callback->failed);
    int goes_on = state != NULL && nc_callback_end(callback);
    NcRaised raised;
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
    nc_raised_take(&raised);
    if (state != NULL) {
        if (nc_raised_is_set(&state->raised)) {
            if (nc_raised_is_set(&raised)) {
                nc_raised_restore(&raised);
                PyErr_WriteUnraisable(state->callable);
            }
            raised = state->raised;
            memset(&state->raised, 0, sizeof state->raised);
        }
        nc_callback_state_drop(state);
    }
    Py_DecRef(object);
    if (nc_raised_is_set(&raised)) {
        nc_raised_restore(&raised);
        failed |= object != NULL; /* a native function's own */
    } else if (failed == NC_FAILED_SHUTDOWN) {
        PyErr_SetString(PyExc_RuntimeError, "a callback was called while Python shut down");
    } else if (failed == NC_FAILED_RELEASED) {
        PyErr_SetString(PyExc_RuntimeError, "a callback was released while it ran");
    }
    return failed != 0 ? -1 : 0;
}

NC_C_END

#endif
