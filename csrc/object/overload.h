/* csrc/object/overload.h: what an overloaded callable does when it is called: as itself, and as
 * built-in views that were made while it was overloaded, or while it had one entry of one argument
 * or of none.
 *
 * Threads: everything here needs the GIL. */
#ifndef NC_OVERLOAD_H
#define NC_OVERLOAD_H

#include "layout.h"

PyObject *nc_vectorcall_overloaded(PyObject *self, PyObject *const *args, size_t nargsf,
                                   PyObject *kwnames);
PyObject *nc_method_overloaded(PyObject *self, PyObject *const *args, Py_ssize_t nargs);
PyObject *nc_method_overloaded_O(PyObject *self, PyObject *arg);
PyObject *nc_method_overloaded_NOARGS(PyObject *self, PyObject *none);

/* Releases a callable's dispatcher, or NULL; callables of the same signatures share it. */
void nc_dispatcher_release(NcDispatcher *dispatcher);

#endif
