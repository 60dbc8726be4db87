/* csrc/object/shortcut.h: Python functions whose usual calls the core does itself.
 *
 * `nativecall.wrap` has many options that are seldom given, and CPython looks every one up in a
 * dict at each call, which takes longer than the making. A Shortcut stands in such a function's
 * place: the call that is usual goes to C code, every other one to the function, with what was
 * passed. To all who look, it is the function: name, doc, annotations and signature are those of
 * the function, which is its `__wrapped__`.
 *
 * Threads: everything here needs the GIL. */
#ifndef NC_SHORTCUT_H
#define NC_SHORTCUT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Does the usual call, with the arguments of a vectorcall: a new reference; NULL with an exception;
 * or NULL without one, and nothing done, where the call is the Python function's. */
typedef PyObject *(*NcUsual)(PyObject *data, PyObject *const *args, Py_ssize_t nargs,
                             PyObject *kwnames);

extern PyTypeObject NcShortcut_Type;

/* A Shortcut to a function of Python's, or to a method of an object; `data`, which may be NULL, is
 * handed to `usual`. NULL with an exception. */
PyObject *nc_shortcut(PyObject *function, NcUsual usual, PyObject *data);

#endif
