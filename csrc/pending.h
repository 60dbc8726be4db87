/* csrc/pending.h: exceptions that Python functions left in their thread for the call from Python
 * that is under way there.
 *
 * Idea. A Python function that C code calls raises; C gets a sentinel and the exception stays set
 * in the thread state. Whoever called the C code from Python must look. Code that checks
 * PyErr_Occurred does so anyway. Trampolines test one word of memory after every call, the number
 * of threads with such an exception (nc_is_pending, csrc/jit.h), and ask nc_pending_raised only
 * where it is not 0. For callers that look at nothing, CPython itself is asked to look as soon as
 * the thread runs Python code again.
 *
 * Limits of that. Python 3.11 can be asked for the main thread only: in others an exception that
 * such a caller overlooks comes out of a later instruction. From 3.12 on, C code that has dropped
 * the GIL and goes on for more than 2 seconds after the last callback that it called is in the same
 * position; until then other threads run slower.
 *
 * A mark says which exception a thread was left with. It is borrowed, for comparison only: once the
 * exception is not set any more, in whatever way it went, the mark is void, and whoever looks next
 * removes it. Marks end with their threads. Where memory is short, one of a few that are kept for
 * that is used.
 *
 * All need the GIL. */
#ifndef NC_PENDING_H
#define NC_PENDING_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* The exception that is set, as an object with its traceback; none is set then. Where making the
 * object fails, it is what that raised. A new reference; NULL when none was set. */
PyObject *nc_exception_take(void);
/* Sets an exception as it was taken, in the place of any other; takes the reference. Neither this
 * nor what follows needs memory. */
void nc_exception_put(PyObject *exception);
/* Reports an exception, which it takes, to sys.unraisablehook with `object`; the one that is set
 * meanwhile stays. */
void nc_exception_report(PyObject *exception, PyObject *object);

/* Whether Python code of this thread waits for the C code to return. Makes no object of its frame:
 * that fails where memory is short. */
static inline int nc_is_called_from_python(void)
{
    return PyEval_GetGlobals() != NULL;
}

/* The exception that is set in a thread, or NULL; borrowed. On Python 3.11 it is its value, which
 * is an object of that class once it was left here. */
static inline PyObject *nc_exception_of(const PyThreadState *thread)
{
#if PY_VERSION_HEX >= 0x030C0000
    return thread->current_exception;
#else
    return thread->curexc_type != NULL && thread->curexc_value == NULL ? thread->curexc_type
                                                                       : thread->curexc_value;
#endif
}

/* Marks the exception that is set in this thread, an object, as left. 0, or -1 where there are more
 * marks than there was memory for; it stays set in any case. */
int nc_pending_leave(void);

/* For C code that cannot return with an exception set: keeps one, which it takes, to be set when
 * somebody looks. 0, or -1 where it could not be kept and was reported with `object`. */
int nc_pending_defer(PyObject *exception, PyObject *object);

/* Whether this thread has an exception that was left or deferred. */
int nc_pending_is_left(void);

/* After a call from Python: 1 when this thread has an exception, which the call then fails with. */
int nc_pending_raised(void);

/* Adds raise_pending, the errcheck of functions that ctypes calls for us. ctypes looks at nothing
 * where it has dropped the GIL, and returning with an exception set is a SystemError, which debug
 * builds of CPython end the process for. */
int nc_pending_ready(PyObject *module);

#endif
