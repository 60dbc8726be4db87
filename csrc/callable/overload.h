/* csrc/callable/overload.h: calls of an overloaded callable, directly and through its built-in
 * view.
 *
 * Threads: everything here needs the GIL. */
#pragma once

#include "layout.h"

NcVectorcall nc_vectorcall_overloaded;
PyObject *nc_method_overloaded(PyObject *self, PyObject *const *args, Py_ssize_t nargs);

/* Releases a reference to a dispatcher, which may be NULL. */
void nc_dispatcher_release(NcDispatcher *dispatcher);
