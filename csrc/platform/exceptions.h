/* csrc/platform/exceptions.h: takes exceptions of Python functions that C code calls to the call
 * from Python that entered C.
 *
 * C gets a sentinel and continues. Meanwhile one of these holds the exception:
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
 * If C code had set an exception before it called, that one is saved, and takes precedence. While
 * an exception is left in the thread, every callback returns its sentinel at once. So does a
 * function whose stash has one.
 *
 * Thread state. The Python call that entered C must check for the exception. Code that checks
 * PyErr_Occurred does so anyway. Trampolines test one word after every call, the number of threads
 * with such an exception (nc_is_left). They call nc_left_raise only if it is not 0. For callers
 * that check nothing, CPython itself is asked to check as soon as the thread runs Python code
 * again.
 *
 * The object in a report is chosen by the reporting code: callable/pycallback.c,
 * nativecall/callback.h.
 *
 * Limits. Python 3.11 can be asked for the main thread only; in other threads, an exception that
 * the caller ignores is raised at a later instruction. From 3.12 on, this also happens if C code
 * runs for more than 2 seconds without the GIL after its last callback; until then other threads
 * run slower.
 *
 * A mark records which exception was left in a thread. It is borrowed, for comparison only. Once
 * that exception is no longer set, for any reason, the mark is void, and the next check removes it.
 *
 * Threads: everything here needs the GIL, which serializes it. */
#ifndef NC_EXCEPTIONS_H
#define NC_EXCEPTIONS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "compat.h"

/* ---- from a Python function to a holder ------------------------------------------------------ */

/* Holds the exception of a Python function that was passed as an argument, in whichever thread it
 * ran. The call that the function was passed to raises it when C returns. Until then, neither the
 * function nor others that were passed to that call run, except destructors: functions that take
 * one pointer and return nothing. Exceptions of other threads that were running one at that moment,
 * and later exceptions, go to sys.unraisablehook. */
typedef struct NcStash {
    PyObject_HEAD
    PyObject *exception;      /* the first one, or NULL */
    unsigned long long order; /* sequence number in the process */
    struct NcStash *first;    /* the first stash of the call, owned; NULL: this one, or unknown */
    char closed;              /* 1 once the call has returned, or if there is none */
    char failed;              /* in the first: 1 once any of the call's stashes has had an
                                 exception */
} NcStash;

/* Whether a function that was passed to the same call has failed, and the call is still running. */
static inline int nc_stash_call_failed(const NcStash *stash)
{
    return (stash->first != NULL ? stash->first : stash)->failed && !stash->closed;
}

extern PyTypeObject NcStash_Type;

/* Whether Python code of this thread waits for C code to return. Makes no frame object: that fails
 * when memory is short. */
static inline int nc_is_called_from_python(void)
{
    return PyEval_GetGlobals() != NULL;
}

/* Places the exception that is set, by the table above: in an open stash; otherwise in the thread
 * state if it `may_leave`; otherwise in a report with `object`, recorded for the C function at
 * `address`. Clears the exception. Returns a new reference to what the caller must leave in the
 * thread, or NULL if there is nothing to leave. */
PyObject *nc_exception_place(NcStash *stash, int may_leave, PyObject *object, const void *address);

/* Sets an exception, whose reference it takes, and marks it as left in this thread. If too many
 * threads have one, it is reported with `object`. */
void nc_exception_leave(PyObject *exception, PyObject *object);

/* Sets RuntimeError, unless an exception is set: C code needs Python in a thread of another
 * interpreter (nc_is_foreign). None of our code may run there, so the exception stays set for the
 * caller of the C code. */
void nc_exception_refuse_foreign(const PyThreadState *thread);

/* For native code that C called, except callbacks: leaves the exception that is set, if any, in the
 * thread state, or reports it with `object`. */
void nc_exception_settle(PyObject *object);

/* ---- reports of C functions ------------------------------------------------------------------ */

/* The number of threads with a C function whose last call there ended with a report. */
extern Py_ssize_t nc_threads_with_reports;

/* Whether the last call of the C function at `address` in this thread ended with a report that was
 * not queried yet. */
int nc_report_taken(const void *address);

/* ---- from a holder to a call ----------------------------------------------------------------- */

/* Closes a stash at the end of the call that its function was passed to. If its exception came
 * before that of *first, or *first is NULL, *first becomes this stash. The later exception goes to
 * sys.unraisablehook. */
void nc_stash_close(NcStash *stash, PyObject **first);
/* Raises the exception of a closed stash and releases `value`. If `first` is NULL, returns
 * `value`. */
PyObject *nc_stash_raise(PyObject *value, PyObject *first);

/* The number of threads with an exception that was left there. */
extern uintptr_t nc_left_count;
/* Sets a second location of that number, for generated code. */
void nc_left_mirror(void **place);

static inline int nc_is_left(void)
{
    return NC_UNLIKELY(nc_left_count != 0) ? 1 : 0;
}

/* Whether an exception was left in this thread. */
int nc_left_here(void);

/* After a call from Python: 1 if this thread has an exception; the call then fails with it. */
int nc_left_raise(void);

/* Readies the types and adds raise_left, the errcheck of functions that we call through ctypes.
 * ctypes checks nothing after it released the GIL, and returning with an exception set is a
 * SystemError, which aborts debug builds of CPython. -1 with an exception. */
int nc_exceptions_ready(PyObject *module);

#endif
