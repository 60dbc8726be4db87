/* nativecall/detail/callbackcalls.h: C functions that call a Python function.
 *
 * A callback function is a C function of one signature which calls the Python callable that its
 * NcCallback (callback.h) holds. The macros in detail/callbackfunctions.h declare them. Here is
 * how one finds its callback, how it gets the GIL, and what happens to an exception.
 *
 * Finding the callback. A callback function with user_data gets the NcCallback there. One without
 * exists NC_CALLBACK_POOL times, each with a slot. A pointer never leads to another's callback:
 *
 *   1. A slot is free (uses 0), has one callback for all threads (uses -1, owners[slot]), or is
 *      used by n scoped callbacks (uses n, no owner). One atomic step leads from each state to the
 *      next, so a callback for all threads is alone with its slot.
 *   2. A callback that only its own thread calls, and only until the function that prepared it
 *      returns (NC_CALLBACK_SCOPED), stands in a list of its thread's. No other thread reads that.
 *   3. In one thread a scoped callback takes a slot that another one there uses only if that one
 *      was prepared outside of the callback function that is running. The C code of the outer one
 *      waits until this function has ended, so the innermost is meant. Recursion has no limit.
 *   4. Release gives the slot back: the C code has ended. It has not when a function of the
 *      callback runs, or a scoped one is released inside of the function that prepared it. Then
 *      calls give the sentinel until a second release, or for a scoped one the end of the callback
 *      function that it was prepared in, even if the NcCallback is gone.
 *
 * Greenlets switch stacks while callback functions run, which breaks 3: no NC_CALLBACK_SCOPED.
 *
 * The GIL. A callback function takes it, unless the consumer holds it. While Python shuts down,
 * other threads get the sentinel, and the callback has failed.
 *
 * Exceptions. The first is kept and raised again by nc_callback_release(); the callback has failed,
 * and its functions give the sentinel without calling Python. Those of calls that are under way in
 * other threads go to sys.unraisablehook. What C had raised before a call is put aside during it.
 *
 * Release in the middle of a call. What a running callback function needs is in an NcCallbackState,
 * which lives until the last one has left it and no list has it any more. */
#ifndef NATIVECALL_CALLBACKCALLS_H
#define NATIVECALL_CALLBACKCALLS_H

#include <Python.h>
#include <errno.h>

#include "compat.h"
#include "core/base.h"

NC_C_BEGIN

#define NC_CALLBACK_POOL 16 /* functions for each signature without user_data */

/* Any C function; cast to its type before it is called. */
typedef void (*NcFunction)(void);

/* ---- atomic steps ---------------------------------------------------------------------------- */

/* Adds to a word, which is what it is afterwards. */
NC_STATIC_INLINE intptr_t nc_add_intptr(intptr_t *address, intptr_t number)
{
#if defined(NC_MSVC)
#if defined(_WIN64)
    return (intptr_t)_InterlockedExchangeAdd64((volatile __int64 *)address, number) + number;
#else
    return (intptr_t)_InterlockedExchangeAdd((volatile long *)address, number) + number;
#endif
#else
    return __atomic_add_fetch(address, number, __ATOMIC_ACQ_REL);
#endif
}

/* Makes a word `wanted` if it is `expected`; whether it was. */
NC_STATIC_INLINE int nc_swap_intptr(intptr_t *address, intptr_t expected, intptr_t wanted)
{
#if defined(NC_MSVC)
    return _InterlockedCompareExchangePointer((void *volatile *)address, (void *)wanted,
                                              (void *)expected) == (void *)expected;
#else
    return __atomic_compare_exchange_n(address, &expected, wanted, 0, __ATOMIC_ACQ_REL,
                                       __ATOMIC_ACQUIRE);
#endif
}

/* ---- what a callback function works with ----------------------------------------------------- */

struct NcCallback;

typedef struct NcCallbackSlots NcCallbackSlots;

/* What the functions of one callback share while any of them runs. Changed with the GIL. */
typedef struct NcCallbackState {
    PyObject *callable;       /* owned, while there are users */
    struct NcCallback *owner; /* NULL once it was released */
    intptr_t users;           /* the owner, and every callback function that runs */
    NcRaised raised;          /* the first exception; set if owner->failed is NC_FAILED_RAISED */

    /* Of one that stands in its thread's list; else slots is NULL. */
    NcCallbackSlots *slots;
    int slot;
    intptr_t depth;                /* of the thread at prepare */
    const void *name;              /* the owner's address, which stays for comparison */
    struct NcCallbackState *outer; /* the next one there */
} NcCallbackState;

/* What a thread knows of callback functions. */
typedef struct {
    intptr_t depth;          /* callback functions that run in it now, one inside the other */
    NcCallbackState *scoped; /* its scoped callbacks that use slots, the innermost first */
} NcCallbackThread;

/* One for each thread and shared object. */
#if defined(NC_MSVC)
static NC_THREAD_LOCAL NcCallbackThread nc_callback_thread = {0, NULL};
#else
NC_SHARED_VARIABLE NC_THREAD_LOCAL NcCallbackThread nc_callback_thread = {0, NULL};
#endif

/* The slots of a pool. */
struct NcCallbackSlots {
    struct NcCallback *owners[NC_CALLBACK_POOL]; /* atomic */
    intptr_t uses[NC_CALLBACK_POOL];             /* atomic; -1: by one callback for all threads */
};

/* The callback functions of one signature, as the macros define them. */
typedef struct {
    const char *signature;       /* signature text */
    int user_data;               /* the index of that argument, -1: none */
    const NcFunction *functions; /* NC_CALLBACK_POOL of them; one where there is user_data */
    NcCallbackSlots *slots;      /* NULL where there is user_data */
} NcCallbackFunction;

/* Why a callback failed. */
#define NC_FAILED_RAISED 1   /* it raised */
#define NC_FAILED_SHUTDOWN 2 /* it was called when Python could not be entered any more */
#define NC_FAILED_RELEASED 3 /* it was released while it ran; release it again at the end */

/* One callback, from prepare to release. It must stay where it is in between. */
typedef struct NcCallback {
    NcFunction function; /* what to call, of the C type of the signature `matched` */
    void *user_data;     /* what to pass in that signature's user_data argument; else NULL */
    size_t matched;      /* which of the accepted signatures it is */
    uintptr_t flags;     /* NC_FLAG_* and NC_ERRORS_* of a native function; else 0 */
    int native;          /* 1: calls run no Python code of ours; 0: it is a callback function */
    unsigned options;    /* NC_CALLBACK_* as given to prepare */
    intptr_t failed;     /* 0, or NC_FAILED_*; atomic: see nc_callback_failed */

    /* The rest is for these headers only. */
    PyObject *object; /* keeps the native function alive; owned; NULL for a callback function */
    NcCallbackState *state;   /* of a callback function until its release; else NULL */
    NcCallbackSlots *slots;   /* the pool of a callback function without user_data; else NULL */
    int slot;                 /* its function's index there */
    NcCallbackThread *thread; /* that prepared it; once it was released while it ran: there */
    intptr_t depth;           /* of that thread then */
    int finalizing;           /* prepared by the thread that shuts Python down, while it did */
} NcCallback;

/* options: The C code holds the GIL whenever it calls. Without it, the callback function takes it,
 * and entries that need it are passed over. */
#define NC_CALLBACK_HOLDS_GIL 1u
/* The C code calls in the thread of prepare alone and only until the function that prepared the
 * callback returns; it is released in that thread, too. Lifts the limit of NC_CALLBACK_POOL
 * callbacks at a time. */
#define NC_CALLBACK_SCOPED 2u
/* The C code looks after each call for the failures that flags & NC_ERRORS_MASK names. Without it,
 * entries that report failures are passed over. */
#define NC_CALLBACK_CHECKS_ERRORS 4u
/* The C code makes the int that the last argument points to 0 before each call and looks at it
 * after it, in all signatures that it accepts: entries with NC_ERRORS_ARGUMENT are taken, too. */
#define NC_CALLBACK_CHECKS_ARGUMENT 16u
/* Functions whose type nothing but a capsule's name tells are passed over; see callback.h. */
#define NC_CALLBACK_DISTRUSTS_NAMES 8u

/* One call of a callback function. */
typedef struct {
    NcCallbackState *state;
    NcCallbackThread *thread;
    NcRaised before; /* what the C code had raised */
    PyGILState_STATE gil;
    int took_gil;
    int error_number; /* errno, which stays as the C code had it */
} NcCallbackCall;

/* This thread's innermost callback of a slot, released or not; NULL: none. */
NC_STATIC_INLINE NcCallbackState *nc_callback_innermost(const NcCallbackSlots *slots, int slot)
{
    NcCallbackState *state = nc_callback_thread.scoped;
    while (state != NULL && (state->slots != slots || state->slot != slot)) {
        state = state->outer;
    }
    return state;
}

/* The callback for which this thread calls a pool's function; NULL once it was released. */
NC_STATIC_INLINE NcCallback *nc_callback_owner(const NcCallbackSlots *slots, int slot)
{
    NcCallback *owner = (NcCallback *)nc_load_acquire_ptr(&slots->owners[slot]);
    if (owner == NULL) {
        const NcCallbackState *state = nc_callback_innermost(slots, slot);
        owner = state != NULL ? state->owner : NULL;
    }
    return owner;
}

/* Whether this thread must not enter Python any more. The one that shuts it down may: it has the
 * GIL (PyGILState_Check is wrong beside subinterpreters), or prepared it when finalizing. */
NC_STATIC_INLINE int nc_callback_is_finalizing(const NcCallback *callback)
{
    return NC_UNLIKELY(nc_is_finalizing()) &&
           (PyGILState_GetThisThreadState() == NULL ||
            (PyGILState_GetThisThreadState() != nc_thread_unchecked() &&
             !(callback->finalizing && callback->thread == &nc_callback_thread)));
}

/* Drops one user; with the GIL. */
NC_STATIC void nc_callback_state_drop(NcCallbackState *state)
{
    if (nc_add_intptr(&state->users, -1) == 0) {
        PyObject *callable = state->callable;
        state->callable = NULL;
        if (state->slots == NULL) {
            PyMem_Free(state);
        }
        Py_DecRef(callable);
    }
}

/* Enters Python on behalf of a callback: 1, or 0 when the sentinel is to be returned. */
NC_STATIC int nc_callback_enter(NcCallback *callback, NcCallbackCall *call)
{
    if (NC_UNLIKELY(callback == NULL || nc_load_acquire_intptr(&callback->failed) != 0)) {
        return 0;
    }
    call->error_number = errno;
    call->took_gil = (callback->options & NC_CALLBACK_HOLDS_GIL) == 0;
    call->gil = PyGILState_LOCKED; /* not used without; compilers cannot see that */
    if (call->took_gil) {
        if (nc_callback_is_finalizing(callback)) {
            (void)nc_swap_intptr(&callback->failed, 0, NC_FAILED_SHUTDOWN);
            return 0;
        }
        call->gil = PyGILState_Ensure();
    }
    call->state = callback->state;
    /* Another thread's call may have failed while this one waited for the GIL. */
    if (NC_UNLIKELY(call->state == NULL || nc_load_acquire_intptr(&callback->failed) != 0)) {
        if (call->took_gil) {
            PyGILState_Release(call->gil);
        }
        errno = call->error_number;
        return 0;
    }
    (void)nc_add_intptr(&call->state->users, 1);
    call->thread = &nc_callback_thread;
    call->thread->depth++;
    nc_raised_take(&call->before);
    return 1;
}

/* Keeps the exception that the call ended with. */
NC_COLD void nc_callback_fail(NcCallbackState *state)
{
    NcCallback *owner;
    if (!PyErr_Occurred()) {
        PyErr_Format(PyExc_SystemError, "the call of %R failed without setting an exception",
                     state->callable);
    }
    owner = state->owner; /* the function's repr may have released it */
    if (owner != NULL && nc_swap_intptr(&owner->failed, 0, NC_FAILED_RAISED)) {
        nc_raised_take(&state->raised);
    } else {
        PyErr_WriteUnraisable(state->callable);
    }
}

/* Leaves Python; `status` is what the call gave. 0, or -1 when the sentinel is to be returned. */
NC_STATIC int nc_callback_leave(NcCallbackCall *call, int status)
{
    if (NC_UNLIKELY(status < 0 || PyErr_Occurred() != NULL)) {
        nc_callback_fail(call->state);
        status = -1;
    }
    call->thread->depth--;
    nc_callback_state_drop(call->state);
    if (NC_UNLIKELY(nc_raised_is_set(&call->before))) {
        nc_raised_restore(&call->before);
    }
    if (call->took_gil) {
        PyGILState_Release(call->gil);
    }
    errno = call->error_number;
    return status;
}

/* ---- slots ----------------------------------------------------------------------------------- */

/* Takes a state off its thread's list, and its use off the slot. */
NC_NOINLINE void nc_callback_unlist(NcCallbackState **link)
{
    NcCallbackState *state = *link;
    *link = state->outer;
    (void)nc_add_intptr(&state->slots->uses[state->slot], -1);
    state->slots = NULL;
    if (state->users == 0) {
        PyMem_Free(state);
    }
}

/* Takes a slot that is free, or with `shared` one that scoped callbacks use. Whether it did. */
NC_STATIC int nc_callback_take(intptr_t *uses, int scoped, int shared)
{
    intptr_t now;
    do {
        now = nc_load_acquire_intptr(uses);
        if (shared ? now <= 0 : now != 0) {
            return 0;
        }
    } while (!nc_swap_intptr(uses, now, scoped ? now + 1 : -1));
    return 1;
}

/* Gives a callback, whose options and state are set, a function of a pool. 0, or -1 with
 * RuntimeError. */
NC_COLD int nc_callback_claim(NcCallback *callback, NcCallbackSlots *slots)
{
    NcCallbackThread *thread = &nc_callback_thread;
    NcCallbackState *state = callback->state;
    int scoped = (callback->options & NC_CALLBACK_SCOPED) != 0;
    int slot = NC_CALLBACK_POOL;
    int shared;
    int kept = 0;
    while (thread->scoped != NULL && thread->scoped->owner == NULL &&
           thread->scoped->depth > thread->depth) {
        nc_callback_unlist(
            &thread->scoped); /* the callback function that it was prepared in has ended */
    }
    for (shared = 0; shared <= scoped && slot == NC_CALLBACK_POOL; shared++) {
        for (slot = 0; slot < NC_CALLBACK_POOL; slot++) {
            const NcCallbackState *inner = shared ? nc_callback_innermost(slots, slot) : NULL;
            if ((inner == NULL || inner->depth < thread->depth) &&
                nc_callback_take(&slots->uses[slot], scoped, shared)) {
                break;
            }
        }
    }
    if (slot < NC_CALLBACK_POOL) {
        callback->slots = slots;
        callback->slot = slot;
        if (scoped) {
            state->slots = slots;
            state->slot = slot;
            state->depth = thread->depth;
            state->name = callback;
            state->outer = thread->scoped;
            thread->scoped = state;
        } else {
            nc_store_release_ptr(&slots->owners[slot], callback);
        }
        return 0;
    }
    for (slot = 0; slot < NC_CALLBACK_POOL; slot++) {
        const NcCallbackState *inner = nc_callback_innermost(slots, slot);
        kept += inner != NULL ? inner->owner == NULL
                              : nc_load_relaxed_intptr(&slots->uses[slot]) < 0 &&
                                    nc_load_relaxed_ptr(&slots->owners[slot]) == NULL;
    }
    PyErr_Format(PyExc_RuntimeError,
                 kept > 0
                     ? "all %d C functions for callbacks of this signature are in use at once, %d "
                       "of them by callbacks that were released while they ran; the C code gives "
                       "these back with a second release"
                     : "all %d C functions for callbacks of this signature are in use at once; the "
                       "C code can lift that limit with a signature that has user_data, or with "
                       "NC_CALLBACK_SCOPED",
                 NC_CALLBACK_POOL, kept);
    return -1;
}

/* Gives the function back; the C code has ended. */
NC_STATIC void nc_callback_give_back(NcCallback *callback)
{
    NcCallbackSlots *slots = callback->slots;
    callback->slots = NULL;
    if (slots != NULL && (callback->options & NC_CALLBACK_SCOPED) != 0) {
        NcCallbackState **link = &callback->thread->scoped;
        while (*link != NULL && !((*link)->name == callback && (*link)->slots == slots &&
                                  (*link)->slot == callback->slot)) {
            link = &(*link)->outer;
        }
        if (*link != NULL) {
            nc_callback_unlist(link);
        }
    } else if (slots != NULL) {
        nc_store_release_ptr(&slots->owners[callback->slot], NULL);
        nc_store_release_intptr(&slots->uses[callback->slot], 0);
    }
}

/* Lets the callback's callback functions lead to it no more. Whether the C code may call them yet,
 * so that the function is not to be given back. */
NC_STATIC int nc_callback_end(NcCallback *callback)
{
    NcCallbackState *state = callback->state;
    int goes_on =
        nc_load_acquire_intptr(&state->users) > 1 ||
        ((callback->options & NC_CALLBACK_SCOPED) != 0 && callback->thread == &nc_callback_thread &&
         callback->depth < nc_callback_thread.depth);
    state->owner = NULL;
    if (goes_on && callback->slots != NULL && state->slots == NULL) {
        nc_store_release_ptr(&callback->slots->owners[callback->slot], NULL);
    }
    if (goes_on && state->slots == NULL) {
        callback->thread = &nc_callback_thread;
    }
    callback->depth = nc_callback_thread.depth;
    return goes_on;
}

NC_C_END

#endif
