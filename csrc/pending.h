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
 * removes it. Marks end with their threads.
 *
 * All need the GIL. */
#ifndef NC_PENDING_H
#define NC_PENDING_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

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

/* Marks the exception that is set in this thread, an object, as left. 0, or -1 where that cannot be
 * done for lack of memory; it stays set in any case. */
int nc_pending_leave(void);

/* Whether the exception that is set in this thread is one that was left. */
int nc_pending_is_left(void);

/* After a call from Python: 1 when this thread has an exception, which the call then fails with. */
int nc_pending_raised(void);

/* For calls that Python code makes: check_pending() raises it; forget_pending(exception) is whether
 * that one was left in this thread, which is then the caller's to raise. */
PyObject *nc_pending_check(PyObject *module, PyObject *none);
PyObject *nc_pending_forget(PyObject *module, PyObject *exception);

#endif
