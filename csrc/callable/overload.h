/* csrc/callable/overload.h: calls of an overloaded callable, directly and through its built-in
 * view.
 *
 * Threads: everything here needs the GIL. */
#ifndef NC_OVERLOAD_H
#define NC_OVERLOAD_H

#include "layout.h"

PyObject *nc_vectorcall_overloaded(PyObject *self, PyObject *const *args, size_t nargsf,
                                   PyObject *kwnames);
PyObject *nc_method_overloaded(PyObject *self, PyObject *const *args, Py_ssize_t nargs);

/* Releases a callable's dispatcher. `dispatcher` may be NULL. */
void nc_dispatcher_release(NcDispatcher *dispatcher);

#endif
