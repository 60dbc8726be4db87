/* csrc/values/names.h: names of callables and values in messages.
 *
 * A callable without a given name is named after the symbol at its address. The lookup takes
 * microseconds, so it is done only when needed. Functions that report errors therefore accept the
 * callable itself: `name` is a callable or a str throughout csrc/values/.
 *
 * Threads: functions need the GIL and release it while they query the loader, which may run code or
 * block. */
#ifndef NC_NAMES_H
#define NC_NAMES_H

#include "layout.h"

#include <string.h>

/* Return the name of a callable, a borrowed reference valid as long as the callable, or NULL with
 * an exception. Only nc_callable_describe changes the name. */
PyObject *nc_callable_name(NcCallable *self);

/* Raise an exception whose message starts with the callable's name in quotes. Return NULL. */
PyObject *nc_callable_error(NcCallable *self, PyObject *exception, const char *format, ...);

/* Return where a callable stores its name, which is NULL before first use. */
PyObject **nc_callable_name_place(NcCallable *self);

/* Return the name that `name` (a callable or a str) stands for, as nc_callable_name does. */
PyObject *nc_name(PyObject *name);

/* Return whether a str has an embedded NUL, which would end it in C. */
static inline int nc_has_null(PyObject *text)
{
    Py_ssize_t length = PyUnicode_GET_LENGTH(text);
    return PyUnicode_IS_ASCII(text) ? memchr(PyUnicode_DATA(text), 0, (size_t)length) != NULL
                                    : PyUnicode_FindChar(text, 0, 0, length, 1) >= 0;
}

#endif
