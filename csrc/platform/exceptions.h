/* csrc/platform/exceptions.h: propagates the exception of a Python callback to the Python call that
 * entered C.
 *
 * The callback returns a sentinel to C, and C continues. Meanwhile, the exception is held as
 * follows:
 *
 *   holder        set by               when                              raised by
 *   ------------  -------------------  --------------------------------  --------------------------
 *   stash         nc_exception_place   the function was passed to a      the end of that call:
 *                                      call as an argument               nc_stash_raise
 *   thread state  nc_exception_leave   otherwise, if Python code waits   the running call
 *                                      in this thread for C to return,   (nc_left_raise), C that
 *                                      or C holds the GIL and calls      checks, or CPython
 *                                      PyErr_Occurred
 *   nothing       a report             otherwise                         not raised: goes to
 *                                                                        sys.unraisablehook
 *
 * If C code had set an exception before it called the function, that exception is saved, and takes
 * precedence. While an exception is left in the thread, every callback returns its sentinel at
 * once. A function whose stash holds an exception also returns its sentinel at once.
 *
 * Thread state. The Python call that entered C must check for the exception. Callers that check
 * PyErr_Occurred do so anyway. Trampolines test one word after every call: the number of threads
 * with such an exception (nc_is_left). They call nc_left_raise only if that number is not 0. For
 * callers that check nothing, CPython is asked to check as soon as the thread runs Python code
 * again.
 *
 * The object in a report is chosen by the reporting code: callable/pycallback.c,
 * nativecall/callback.h.
 *
 * Limits. Python 3.11 can be asked to check only in the main thread. In other threads, an exception
 * that the caller ignores is raised at a later instruction. From 3.12 on, an ignored exception is
 * also raised later if C code runs for more than 2 seconds without the GIL after its last callback.
 * During these 2 seconds, other threads run slower. On free-threaded builds, it is also raised
 * later if another thread checks at the moment when the caller goes on.
 *
 * A mark records which exception was left in a thread. The mark's reference to the exception is
 * borrowed, for comparison only. Once that exception is no longer set, for any reason, the mark is
 * void. The next check in that thread removes the mark, and so does the end of the thread.
 *
 * Threads: everything here needs the GIL. On free-threaded builds, one lock guards the marks, and
 * one guards the stashes of calls that have not returned. Callbacks in other threads read a stash
 * without the lock, atomically. Its `first` never changes once C runs. Reports are per thread. */
#pragma once

#include <Python.h>

#include "compat.h"

/* ---- from a Python function to a holder ------------------------------------------------------ */

/* Holds the exception of a Python function that was passed to a call as an argument. The function
 * may have run in any thread. When C returns, that call raises the exception. Until then, no
 * function that was passed to the call runs, except destructors: functions that take one pointer
 * and return nothing. All later exceptions go to sys.unraisablehook: those of destructors, and of
 * functions that other threads were running already. */
typedef struct NcStash {
    PyObject_HEAD
    PyObject *exception;      /* the first one, or NULL */
    unsigned long long order; /* sequence number in the process */
    struct NcStash *first;    /* the first stash of the call, owned; NULL in that stash itself, and
                                 in a stash that nc_join_pointers has not linked */
    char closed;              /* 1 once the call has returned, or if there is no call */
    char failed;              /* in the first stash: 1 once any stash of the call has had an
                                 exception */
} NcStash;

/* Whether a function that was passed to the same call has failed, and the call is still running. */
static inline int nc_stash_call_failed(const NcStash *stash)
{
    const NcStash *first = stash->first != NULL ? stash->first : stash;
    return __atomic_load_n(&first->failed, __ATOMIC_RELAXED) &&
           !__atomic_load_n(&stash->closed, __ATOMIC_RELAXED);
}

extern PyTypeObject NcStash_Type;

/* Whether Python code of this thread waits for C code to return. Creates no frame object, because
 * allocation may fail. */
static inline int nc_is_called_from_python(void)
{
    return PyEval_GetGlobals() != NULL;
}

/* Clears the exception that is set, and handles it by the table above. If `stash` is open, puts the
 * exception into it. Otherwise, if `may_leave`, returns a new reference, and the caller must leave
 * the exception in the thread. Otherwise reports it with `object`, and records the report for the C
 * function at `address`. Returns NULL if the caller has nothing to leave. */
PyObject *nc_exception_place(NcStash *stash, int may_leave, PyObject *object, const void *address);

/* Sets an exception, and marks it as left in this thread. If too many threads have such an
 * exception, reports it with `object` instead. Steals the reference to the exception. */
void nc_exception_leave(PyObject *exception, PyObject *object);

/* For C code that needs Python in a thread of another interpreter (nc_is_foreign). Sets
 * RuntimeError, unless an exception is already set. Our Python code must not run in that
 * interpreter, so the exception stays set for the caller of the C code. */
void nc_exception_refuse_foreign(const PyThreadState *thread);

/* For native code that C called, except callbacks. If an exception is set, leaves it in the thread
 * state, or reports it with `object`. */
void nc_exception_settle(PyObject *object);

/* ---- reports of C functions ------------------------------------------------------------------ */

/* The number of threads in which the last call of some C function ended with a report. */
extern Py_ssize_t nc_threads_with_reports;

/* Whether the last call of the C function at `address` in this thread ended with a report. Returns
 * 1 only once for each report. */
int nc_report_taken(const void *address);

/* ---- from a holder to a call ----------------------------------------------------------------- */

/* At the end of a call, closes the stash of a function that was passed to the call. *first is the
 * stash with the earliest exception so far, or NULL. If the exception of `stash` is earlier,
 * `stash` replaces *first. Reports the later exception to sys.unraisablehook. */
void nc_stash_close(NcStash *stash, PyObject **first);
/* Raises the exception of the closed stash `first`, and releases `first` and `value`. If `first` is
 * NULL, returns `value`. */
PyObject *nc_stash_raise(PyObject *value, PyObject *first);

/* The number of threads in which an exception was left. Generated code reads it, too. */
extern uintptr_t nc_left_count;

static inline int nc_is_left(void)
{
    return NC_UNLIKELY(nc_load_relaxed_uintptr(&nc_left_count) != 0) ? 1 : 0;
}

/* Whether an exception was left in this thread. */
int nc_left_here(void);

/* After a call from Python: returns 1 if an exception was left in this thread. Then the call must
 * fail with that exception. */
int nc_left_raise(void);

/* Readies the types and adds raise_left, the errcheck of functions that we call through ctypes.
 * ctypes does not check for an exception after a call without the GIL. If ctypes returned with an
 * exception set, CPython would raise SystemError, or abort in a debug build. Returns -1 with an
 * exception on failure. */
int nc_exceptions_ready(PyObject *module);
