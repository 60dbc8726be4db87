/* csrc/values/names.h: what messages call a callable, or a value.
 *
 * A callable that was given no name has the symbol's at its address, which takes microseconds to
 * find, so it is looked for when somebody asks. Functions that report errors are therefore given
 * the callable itself where others have a str: `name`, in all of csrc/values/, is either.
 *
 * Threads: with the GIL, which is free while the loader is asked: it may run code, or wait. */
#ifndef NC_NAMES_H
#define NC_NAMES_H

#include "layout.h"

#include <string.h>

/* The name of a callable, a borrowed reference: it stays as long as the callable, and never changes
 * but by nc_callable_describe. NULL with an exception. */
PyObject *nc_callable_name(NcCallable *self);

/* Raises an exception whose message begins with that name, in quotes. Returns NULL. */
PyObject *nc_callable_error(NcCallable *self, PyObject *exception, const char *format, ...);

/* Where a callable keeps it: NULL there, it was not asked for yet. */
PyObject **nc_callable_name_place(NcCallable *self);

/* The same of `name`, a callable or a str. */
PyObject *nc_name(PyObject *name);

/* Whether a str has a null character, which text in C ends at. */
static inline int nc_has_null(PyObject *text)
{
    Py_ssize_t length = PyUnicode_GET_LENGTH(text);
    return PyUnicode_IS_ASCII(text) ? memchr(PyUnicode_DATA(text), 0, (size_t)length) != NULL
                                    : PyUnicode_FindChar(text, 0, 0, length, 1) >= 0;
}

#endif
