/* csrc/platform/exceptions.h: exceptions of Python functions that C code calls, from where they are
 * raised to the call from Python that they belong to.
 *
 * C gets a sentinel and goes on. Meanwhile one of these holds the exception:
 *
 *   holder        set by               when                              raised by
 *   ------------  -------------------  --------------------------------  --------------------------
 *   stash         nc_exception_place   the function was given to a call  the end of that call:
 *                                      as an argument                    nc_stash_raise
 *   thread state  nc_exception_leave   else, where Python code waits in  the call under way
 *                                      this thread for C to return, or   (nc_left_raise), C that
 *                                      C holds the GIL and calls         asks, or CPython
 *                                      PyErr_Occurred
 *   nothing       a report             else                              nobody: it went to
 *                                                                        sys.unraisablehook
 *
 * An exception that C code had set itself before it called is put aside, and is the one
 * that stays. While an exception is left in the thread, every callback returns its sentinel at
 * once, and so does a function whose stash has one.
 *
 * Thread state. The caller of the C code from Python must look. Code that checks PyErr_Occurred
 * does so anyway. Trampolines test one word after every call, the number of threads with such an
 * exception (nc_is_left), and ask nc_left_raise only where it is not 0. For callers that look at
 * nothing, CPython itself is asked to look as soon as the thread runs Python code again.
 *
 * What a report shows as its object is said by who reports: callable/pycallback.c,
 * nativecall/callback.h.
 *
 * Limits of that. Python 3.11 can be asked for the main thread only: in others an exception that
 * such a caller overlooks comes out of a later instruction. From 3.12 on, C code that has dropped
 * the GIL and goes on for more than 2 seconds after the last callback that it called is in the same
 * position; until then other threads run slower.
 *
 * A mark says which exception a thread was left with. It is borrowed, for comparison only: once the
 * exception is not set any more, in whatever way it went, the mark is void, and what looks next
 * removes it.
 *
 * All need the GIL, which is what makes them safe in several threads. */
#ifndef NC_EXCEPTIONS_H
#define NC_EXCEPTIONS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "compat.h"

/* ---- from a Python function to a holder ------------------------------------------------------ */

/* Where a Python function that is an argument leaves the exception that it must not lose, in
 * whichever thread it ran. It is raised when the call returns that the function was passed to;
 * until then neither the function nor others that were passed to that call run, except those that
 * take one pointer and return nothing: C frees memory by these. Exceptions of other threads where
 * one ran at that moment, and those that come after the call, go to sys.unraisablehook. */
typedef struct NcStash {
    PyObject_HEAD
    PyObject *exception;      /* the first one, or NULL */
    unsigned long long order; /* when it came, among all of the process */
    struct NcStash *first;    /* the first of the call's, owned; NULL: this one, or none knows */
    char closed;              /* 1 once the call has returned, or where there is none */
    char failed;              /* of the first: 1 once one of the call's has had an exception */
} NcStash;

/* Whether a function that was passed to the same call has failed, and that goes on. */
static inline int nc_stash_call_failed(const NcStash *stash)
{
    return (stash->first != NULL ? stash->first : stash)->failed && !stash->closed;
}

extern PyTypeObject NcStash_Type;

/* Whether Python code of this thread waits for the C code to return. Makes no object of its frame:
 * that fails where memory is short. */
static inline int nc_is_called_from_python(void)
{
    return PyEval_GetGlobals() != NULL;
}

/* Finds the place for the exception that is set, by the table above: the stash if there is one that
 * is open; the thread state if it `may_leave`; else a report with `object`, which is noted as one
 * of the C function at `address`. None is set afterwards. A new reference to what is to be left in
 * the thread; NULL when it has gone elsewhere. */
PyObject *nc_exception_place(NcStash *stash, int may_leave, PyObject *object, const void *address);

/* Sets an exception, which it takes, and marks it as left in this thread. Where too many threads
 * have one, it is reported with `object`. */
void nc_exception_leave(PyObject *exception, PyObject *object);

/* Sets RuntimeError, unless there is an exception: C code called what needs Python in a thread of
 * another interpreter (nc_is_foreign). Nothing of ours may run there, so the exception stays set in
 * that thread, for whoever called the C code. */
void nc_exception_refuse_foreign(const PyThreadState *thread);

/* For native code that a C caller called, and that is no callback: leaves the exception that is
 * set, if there is one, in the thread state, or reports it with `object`. */
void nc_exception_settle(PyObject *object);

/* ---- reports of C functions ------------------------------------------------------------------ */

/* How many threads have a C function whose last call there ended with a report. */
extern Py_ssize_t nc_threads_with_reports;

/* Whether the last call of the C function at `address` in this thread ended with a report, and this
 * was not asked since. */
int nc_report_taken(const void *address);

/* ---- from a holder to a call ----------------------------------------------------------------- */

/* Closes a stash at the end of the call that its function was passed to. Its exception goes to
 * *first, in a stash, if that is NULL or came later, which then goes to sys.unraisablehook. */
void nc_stash_close(NcStash *stash, PyObject **first);
/* Raises a closed stash and drops `value`; with `first` NULL nothing happens, and value is
 * returned. */
PyObject *nc_stash_raise(PyObject *value, PyObject *first);

/* The number of threads with an exception that was left there. */
extern uintptr_t nc_left_count;
/* A second place for that number, where generated code has it. */
void nc_left_mirror(void **place);

static inline int nc_is_left(void)
{
    return NC_UNLIKELY(nc_left_count != 0) ? 1 : 0;
}

/* Whether this thread has an exception that was left. */
int nc_left_here(void);

/* After a call from Python: 1 when this thread has an exception, which the call then fails with. */
int nc_left_raise(void);

/* Makes the types ready and adds raise_left: the errcheck of functions that ctypes calls for us.
 * ctypes looks at nothing where it has dropped the GIL, and returning with an exception set is a
 * SystemError, which debug builds of CPython end the process for. -1 with an exception. */
int nc_exceptions_ready(PyObject *module);

#endif
