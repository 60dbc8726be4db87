/* csrc/platform/gil.h: C code takes the GIL for the package, and gives it back.
 *
 * Which interpreter. Only the main interpreter can import the package. Others may exist all the
 * same: a program, or CPython's own modules, can make subinterpreters, and C code that runs in one
 * can call a function of ours. Its Python code must not run there: from 3.12 on CPython's
 * caches know functions and classes by tags that each interpreter counts for itself, and an
 * exception would be the other interpreter's. So code that takes the GIL for a call asks
 * nc_is_foreign before it runs Python.
 *
 * Threads: any thread may call what is here. */
#ifndef NC_GIL_H
#define NC_GIL_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "compat.h"

/* The main interpreter. Set before all else when the module of the core is loaded. */
extern PyInterpreterState *nc_interpreter;

/* Whether a thread state belongs to another interpreter. */
static inline int nc_is_foreign(const PyThreadState *thread)
{
    return NC_UNLIKELY(thread->interp != nc_interpreter) ? 1 : 0;
}

/* The thread state that this thread has the GIL with. Or NULL, and *own is the state that
 * PyGILState knows of this thread. The answer is right beside subinterpreters too, where
 * PyGILState_Check says yes to every thread.
 *
 * Before 3.12 PyGILState knows one state of a thread alone, which need not be the one that it
 * runs with: C code may have swapped it for another interpreter's. Only the holder's state tells
 * whose it is, and no lock keeps that of another thread. The answer is right all the same: where
 * this thread is the holder, no other thread changes or frees its state. Where another one is,
 * its state has that thread's ident as long as it is the holder, and it lets go of the GIL
 * before it frees the state; so an ident that is read before the same state is found again is
 * the holder's, and one that is not is thrown away. What is left is a read of memory that was
 * just freed, a block of some hundred bytes of malloc's, which stays mapped but where its arena
 * is trimmed between two instructions here. It is done only where there is a subinterpreter (the
 * newest interpreter is the head of CPython's list), in a thread that has a state of its own and
 * does not run with it. */
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

/* How a thread acquired the GIL, which says how it releases it. */
enum {
    NC_GIL_HELD = 0,     /* it had the GIL already */
    NC_GIL_RESTORED = 1, /* it had given up its thread state, or keeps a new one; it gives it up */
    NC_GIL_ENSURED = 2,  /* PyGILState_Ensure made a thread state, which ends */
    NC_GIL_REFUSED = -1, /* it did not acquire the GIL: Python is shutting down */
};

/* Whether this thread is not Python's own, and keeps a thread state that a call has made. */
int nc_thread_is_kept(void);

/* Acquires the GIL, unless this thread has it. The thread state may be foreign. */
int nc_gil_acquire(void);
/* The same for a thread that does not have it; `own` is the state that PyGILState knows of it. */
int nc_gil_acquire_detached(PyThreadState *own);
/* Releases the GIL as it was acquired. Nothing where it was held already. */
void nc_gil_release(int acquired);

#endif
