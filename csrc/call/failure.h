/* csrc/call/failure.h: errno, and results that mean failure, for calls of entries whose flags
 * say so (docs/abi/provide.md, "Flags"). */
#ifndef NC_FAILURE_H
#define NC_FAILURE_H

#include "layout.h"

/* Around a call: sets errno to 0; keeps what it is afterwards for this thread, and returns it. Both
 * may be called without the GIL. */
void nc_errno_clear(void);
int nc_errno_keep(void);

/* Where set_errno() puts what C is to find when the innermost callback of this thread returns; NULL
 * outside of all callbacks. */
extern NC_THREAD_LOCAL int *nc_errno_of_callback;

/* Turns a result that means failure into the exception that is set, or else the one that the error
 * convention (NC_ERRORS_*) makes of it, or of `code`: errno, or what the function wrote to its last
 * argument. Takes the reference to `value`. NULL if that is NULL already. */
PyObject *nc_fail(NcCallable *self, PyObject *value, size_t convention, int code);

/* Raises OverflowError for a dimension that is too long for an integer of the function's; an
 * exception that is set stays. */
void nc_fail_length(NcCallable *self, Py_ssize_t length, int letter);

/* The result of a function that returns a new reference. An exception that it set is not lost, and
 * NULL without one is a failure by the error convention, or one of the function itself. */
PyObject *nc_take_object(PyObject *name, PyObject *result, size_t convention, int code);

/* A new dict: the flags of each error convention by its name. */
PyObject *nc_error_conventions(void);

#endif
