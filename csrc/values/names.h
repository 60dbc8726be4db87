/* csrc/values/names.h: names of callables, for error messages.
 *
 * A callable without a given name is named after the symbol at its address. The lookup takes
 * microseconds, so it is done only when needed. Functions that report errors therefore accept the
 * callable itself: `name` is a callable or a str throughout csrc/values/.
 *
 * The functions need the GIL. They release it while they query the loader, which may run code or
 * block. */
#pragma once

#include "layout.h"

/* Return the name of a callable, or NULL with an exception. The reference is borrowed, and valid
 * while the callable lives. Only nc_callable_describe changes the name. */
PyObject *nc_callable_name(NcCallable *self);

/* Raise an exception whose message starts with the callable's name in quotes. Return NULL. */
PyObject *nc_callable_error(NcCallable *self, PyObject *exception, const char *format, ...);

/* Return the address of the field that stores a callable's name. The name is NULL before first
 * use. */
PyObject **nc_callable_name_place(NcCallable *self);

/* Return a str unchanged. For a callable, return nc_callable_name. */
PyObject *nc_name(PyObject *name);

/* Return whether a str has an embedded NUL, which would end it in C. */
static inline int nc_has_null(PyObject *text)
{
    return PyUnicode_FindChar(text, 0, 0, PyUnicode_GET_LENGTH(text), 1) >= 0;
}
