/* csrc/platform/gil.h: acquires and releases the GIL in C code.
 *
 * Subinterpreters. Only the main interpreter can import the package. But a program, or CPython's
 * modules, can create subinterpreters, and C code in a subinterpreter can call a function of ours.
 * Our Python code must not run in subinterpreters, for two reasons. From 3.12 on, CPython's caches
 * identify functions and classes by tags that each interpreter counts separately. Also, an
 * exception would belong to the other interpreter. So code that acquires the GIL for a call checks
 * nc_is_foreign before it runs Python code.
 *
 * Threads: any thread may call the functions here. */
#pragma once

#include <Python.h>

#include "compat.h"

/* The main interpreter. Set before anything else when the core's module is loaded. */
extern PyInterpreterState *nc_interpreter;

/* Whether a thread state belongs to another interpreter. */
static inline int nc_is_foreign(const PyThreadState *thread)
{
    return NC_UNLIKELY(thread->interp != nc_interpreter) ? 1 : 0;
}

/* Returns the thread state with which this thread holds the GIL. If this thread does not hold the
 * GIL, returns NULL and sets *own to this thread's state in PyGILState. The answer is also right
 * with subinterpreters, where PyGILState_Check returns 1 for every thread.
 *
 * Before 3.12, PyGILState records only one state of each thread. C code may have switched the
 * thread to a state of another interpreter. Then only the ident in the current state shows which
 * thread holds the GIL, and no lock keeps the current state alive if it is another thread's. The
 * answer is still right:
 *
 * - If this thread holds the GIL, no other thread changes or frees the current state.
 * - If another thread holds the GIL, the current state has that thread's ident, and the thread
 *   releases the GIL before it frees the state. So if the same state is still current after the
 *   ident was read, the ident is valid. Otherwise it is discarded.
 *
 * The only risk is a read of memory that was just freed. The memory is a malloc block of some
 * hundred bytes, which stays mapped unless malloc trims the arena between two instructions here.
 * The read requires that this thread has a state in PyGILState, but is not running with that state.
 * It also requires a subinterpreter: without one, the main interpreter is the head of CPython's
 * list, and the function returns before the read. */
NC_STATIC_INLINE PyThreadState *nc_thread_attached(PyThreadState **own)
{
    PyThreadState *state = nc_thread_unchecked();
#if PY_VERSION_HEX >= 0x030C0000
    *own = state != NULL ? state : PyGILState_GetThisThreadState();
#else
    *own = PyGILState_GetThisThreadState();
    if (state != *own &&
        (state == NULL || *own == NULL || PyInterpreterState_Head() == nc_interpreter ||
         __atomic_load_n(&state->thread_id, __ATOMIC_ACQUIRE) != PyThread_get_thread_ident() ||
         nc_thread_unchecked() != state)) {
        return NULL;
    }
#endif
    return state;
}

/* How a thread acquired the GIL, and so how to release it. */
enum {
    NC_GIL_HELD = 0,     /* the thread held the GIL already */
    NC_GIL_RESTORED = 1, /* the thread attached its state, or a new one that it keeps; release
                            detaches the state */
    NC_GIL_ENSURED = 2,  /* PyGILState_Ensure made a thread state; release ends the state */
    NC_GIL_REFUSED = -1, /* the thread did not acquire the GIL: Python is shutting down */
};

/* Whether this thread, which Python did not start, keeps the thread state of an earlier call. */
int nc_thread_is_kept(void);

/* Acquires the GIL, unless this thread holds it. The thread state may be foreign. */
int nc_gil_acquire(void);
/* Like nc_gil_acquire, for a thread that does not hold the GIL. `own` is the thread's state in
 * PyGILState, or NULL. */
int nc_gil_acquire_detached(PyThreadState *own);
/* Releases the GIL. `acquired` is the result of nc_gil_acquire; does nothing for NC_GIL_HELD. */
void nc_gil_release(int acquired);
