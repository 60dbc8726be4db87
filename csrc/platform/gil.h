/* csrc/platform/gil.h: acquires and releases the GIL in C code.
 *
 * Subinterpreters. Only the main interpreter can import the package. But a program, or CPython's
 * own modules, can create subinterpreters, and C code that runs in one can call a function of ours.
 * Our Python code must not run there. From 3.12 on, CPython's caches identify functions and classes
 * by tags that each interpreter counts separately, and an exception would belong to the other
 * interpreter. So code that acquires the GIL for a call checks nc_is_foreign before it runs Python
 * code.
 *
 * Threads: any thread may call the functions here. */
#ifndef NC_GIL_H
#define NC_GIL_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "compat.h"

/* The main interpreter. Set first of all when the core's module is loaded. */
extern PyInterpreterState *nc_interpreter;

/* Whether a thread state belongs to another interpreter. */
static inline int nc_is_foreign(const PyThreadState *thread)
{
    return NC_UNLIKELY(thread->interp != nc_interpreter) ? 1 : 0;
}

/* The thread state with which this thread holds the GIL. Or NULL; then *own is this thread's state
 * in PyGILState. The answer is also right with subinterpreters, where PyGILState_Check returns 1
 * for every thread.
 *
 * Before 3.12, PyGILState knows only one state of a thread, which need not be its current one: C
 * code may have switched to another interpreter's. Then only the current state itself tells which
 * thread it belongs to, and no lock keeps another thread's state alive. The answer is still right.
 * If this thread holds the GIL, no other thread changes or frees its state. If another thread holds
 * it, the state has that thread's ident while it is current, and the thread releases the GIL before
 * it frees the state. So the ident is the holder's if the same state is still current after the
 * read; otherwise it is discarded. The only risk is a read of memory that was just freed. That is a
 * malloc block of some hundred bytes, which stays mapped unless its arena is trimmed between two
 * instructions here. The read happens only if a subinterpreter exists: the newest interpreter is
 * the head of CPython's list. It also requires that the thread has a state but does not run with
 * it. */
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

/* How a thread acquired the GIL; it is released accordingly. */
enum {
    NC_GIL_HELD = 0,     /* it held the GIL already */
    NC_GIL_RESTORED = 1, /* it attached its thread state, or a new one that it keeps; release
                            detaches it */
    NC_GIL_ENSURED = 2,  /* PyGILState_Ensure made a thread state; release ends it */
    NC_GIL_REFUSED = -1, /* it did not acquire the GIL: Python is shutting down */
};

/* Whether Python did not start this thread, and it keeps a thread state that a call has made. */
int nc_thread_is_kept(void);

/* Acquires the GIL, unless this thread holds it. The thread state may be foreign. */
int nc_gil_acquire(void);
/* The same for a thread that does not hold it; `own` is its state in PyGILState, or NULL. */
int nc_gil_acquire_detached(PyThreadState *own);
/* Releases the GIL by how it was acquired; does nothing if it was held already. */
void nc_gil_release(int acquired);

#endif
