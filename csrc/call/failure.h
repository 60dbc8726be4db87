/* csrc/call/failure.h: saves errno and raises exceptions for failing results, in calls of entries
 * with error flags (docs/abi/provide.md, "Flags"). */
#pragma once

#include "layout.h"

/* Saves errno for this thread after a C call, and returns it. Does not need the GIL. */
int nc_errno_keep(void);

/* Where set_errno() stores the errno that C sees after the innermost callback; NULL outside of
 * callbacks. */
extern NC_THREAD_LOCAL int *nc_errno_of_callback;

/* Handles a failing result. If an exception is set, it propagates. Otherwise, the error convention
 * (NC_ERRORS_*) determines from `value` and `code` whether to raise an exception. `code` is errno,
 * or the int that the function wrote through its last argument. Takes over the reference to
 * `value`. Returns `value` if nothing is raised, otherwise NULL. */
PyObject *nc_fail(NcCallable *self, PyObject *value, size_t convention, int code);

/* Takes the result of a function that returns a new reference. An exception that the function set
 * propagates. If the result is NULL without an exception, raises the exception of the error
 * convention, or SystemError if the convention raises none. */
PyObject *nc_take_object(PyObject *name, PyObject *result, size_t convention, int code);

/* Returns a new dict from the names of error conventions to their flags. */
PyObject *nc_error_conventions(void);
