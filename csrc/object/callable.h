/* csrc/object/callable.h: what a native callable does: it is made, called, and chooses among its
 * entries. Its structs are in layout.h.
 *
 * Threads: everything here needs the GIL. */
#ifndef NC_CALLABLE_H
#define NC_CALLABLE_H

#include "layout.h"

/* Module-level functions and types; -1 with an exception. */
int nc_callable_ready(PyObject *module);

/* Whether a native callable has one entry, of the function at this address. */
int nc_callable_is_only(PyObject *callable, const void *address);

/* The way of every call that a trampoline does not take: keywords, a wrong number of arguments. */
PyObject *nc_call_irregular(NcCallable *self, PyObject *const *args, size_t nargsf,
                            PyObject *kwnames);

/* What an overloaded callable does when it is called: as itself, and as built-in views that were
 * made while it was overloaded, or while it had one entry of one argument or of none. */
PyObject *nc_vectorcall_overloaded(PyObject *self, PyObject *const *args, size_t nargsf,
                                   PyObject *kwnames);
PyObject *nc_method_overloaded(PyObject *self, PyObject *const *args, Py_ssize_t nargs);
PyObject *nc_method_overloaded_O(PyObject *self, PyObject *arg);
PyObject *nc_method_overloaded_NOARGS(PyObject *self, PyObject *none);
/* match(spec, value): what the first argument of a call spec costs in a choice; -1 when it does not
 * take the value. */
PyObject *nc_match(PyObject *module, PyObject *args);
/* Gives up a callable's dispatcher, or NULL; callables of the same signatures share it. */
void nc_dispatcher_release(NcDispatcher *dispatcher);

#endif
