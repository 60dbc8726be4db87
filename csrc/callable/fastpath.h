/* csrc/callable/fastpath.h: Python functions whose usual calls the core does itself.
 *
 * `nativecall.wrap` has many options that are seldom given, and CPython looks every one up in a
 * dict at each call, which takes longer than the making. A Shortcut stands in such a function's
 * place: the call that is usual goes to C code, every other one to the function, with what was
 * passed. To all who look, it is the function: name, doc, annotations and signature are those of
 * the function, which is its `__wrapped__`.
 *
 * Threads: everything here needs the GIL. */
#ifndef NC_FASTPATH_H
#define NC_FASTPATH_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Does the usual call, with the Shortcut's data and the arguments of a vectorcall: a new reference;
 * NULL with an exception; or NULL without one, and nothing done, where the call is the Python
 * function's. */
typedef PyObject *(*NcUsual)(PyObject *data, PyObject *const *args, Py_ssize_t nargs,
                             PyObject *kwnames);

extern PyTypeObject NcShortcut_Type;

/* Of `wrap`: the callable of an address (construct.c); no data. */
PyObject *nc_usual_wrap(PyObject *data, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
/* Of `callback`: a Python function as a callable (callable/callbackcallable.c). Its data is a class
 * of native callables, and a dict from signatures as they were written to tuples of a call spec,
 * flags and a CallbackSpec. */
PyObject *nc_usual_callback(PyObject *data, PyObject *const *args, Py_ssize_t nargs,
                            PyObject *kwnames);
/* Of `Library.new` (cffimemory.c). Its data is a dict from types in texts to rows. */
PyObject *nc_usual_new(PyObject *data, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);

#endif
