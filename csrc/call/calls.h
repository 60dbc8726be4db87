/* csrc/call/calls.h: the calls of a native callable that are not the usual ones: with keywords,
 * or with a wrong number of arguments; those that a wrapper makes of others; and those that ask a
 * hook for the entry.
 *
 * Threads: everything here needs the GIL. */
#ifndef NC_CALLS_H
#define NC_CALLS_H

#include "layout.h"

/* Which argument has a name; -1 without an exception for none. Strings that are interned, as those
 * of keywords mostly are, are told by their addresses. */
Py_ssize_t nc_argument_named(const NcCallInterface *cif, PyObject *name);

/* Puts keywords in order and calls on by the callable's vectorcall, or says what is wrong. */
PyObject *nc_call_irregular(NcCallable *self, PyObject *const *args, size_t nargsf,
                            PyObject *kwnames);

/* The vectorcall of a single whose calls Python code makes (nativecall/_callable/hooks.py, which is
 * asked for it at the first one); and the same as built-in views. */
PyObject *nc_vectorcall_wrapper(PyObject *self, PyObject *const *args, size_t nargsf,
                                PyObject *kwnames);
PyObject *nc_method_wrapper(PyObject *self, PyObject *const *args, Py_ssize_t nargs);
PyObject *nc_method_wrapper_O(PyObject *self, PyObject *arg);
PyObject *nc_method_wrapper_NOARGS(PyObject *self, PyObject *none);

/* Whether an object is a callable of one entry. */
int nc_is_single(PyObject *object);

/* What the hook of a callable makes for the arguments of a call that no entry takes exactly: a
 * callable of one entry, a new reference. NULL where it makes none, perhaps with an exception. */
NcCallable *nc_callable_for_call(NcCallable *self, PyObject *const *args, Py_ssize_t nargs);

/* A call with keywords, whose order the hook of a callable knows: the result, or NULL with an
 * exception. NULL without one where no hook knows the names. */
PyObject *nc_callable_by_position(NcCallable *self, PyObject *const *args, Py_ssize_t nargs,
                                  PyObject *kwnames);

/* Calls a Python function with the callable before the arguments of a call. */
PyObject *nc_call_with(PyObject *function, PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                       PyObject *kwnames);

/* Raises that a callable has no entries. */
PyObject *nc_refuse_empty(NcCallable *self);

/* The vectorcall of a callable without entries: what its hook makes, or an exception. */
PyObject *nc_vectorcall_empty(PyObject *self, PyObject *const *args, size_t nargsf,
                              PyObject *kwnames);

#endif
