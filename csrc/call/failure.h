/* csrc/call/failure.h: errno and failing results, for calls of entries with error flags
 * (docs/abi/provide.md, "Flags"). */
#ifndef NC_FAILURE_H
#define NC_FAILURE_H

#include "layout.h"

/* Used around a call: clears errno before it; afterwards saves errno for this thread, and returns
 * it. Neither needs the GIL. */
void nc_errno_clear(void);
int nc_errno_keep(void);

/* Where set_errno() stores the errno that C sees after the innermost callback; NULL outside of
 * callbacks. */
extern NC_THREAD_LOCAL int *nc_errno_of_callback;

/* Handles a failing result: keeps the exception that is set, or else raises one by the error
 * convention (NC_ERRORS_*) from `value` and `code`. The code is errno, or what the function wrote
 * to its last argument. Takes over `value`, and returns it if nothing is raised; NULL otherwise. */
PyObject *nc_fail(NcCallable *self, PyObject *value, size_t convention, int code);

/* Raises OverflowError for a dimension that does not fit the function's integer. An exception that
 * is already set stays. */
void nc_fail_length(NcCallable *self, Py_ssize_t length, int letter);

/* Takes the result of a function that returns a new reference. An exception that it set propagates.
 * NULL without an exception is a failure by the error convention, or else a SystemError. */
PyObject *nc_take_object(PyObject *name, PyObject *result, size_t convention, int code);

/* A new dict from the names of error conventions to their flags. */
PyObject *nc_error_conventions(void);

#endif
