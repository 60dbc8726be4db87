/* csrc/call/calls.h: the slow paths of calling a native callable: calls with keywords or a wrong
 * number of arguments, calls through a Python wrapper, and calls that ask a hook for the entry.
 *
 * Threads: everything here needs the GIL. */
#pragma once

#include "layout.h"

/* Returns the index of the argument with a name; -1 without an exception if there is no such
 * argument. Interned strings, which keywords usually are, are compared by address. */
Py_ssize_t nc_argument_named(const NcCallInterface *cif, PyObject *name);

/* Puts keyword arguments in the signature's order, and calls the callable's vectorcall. Raises
 * TypeError for an unknown or repeated name, or a wrong number of arguments. */
PyObject *nc_call_irregular(NcCallable *self, PyObject *const *args, size_t nargsf,
                            PyObject *kwnames);

/* For a single that is called through a Python wrapper: its vectorcall, and the functions of its
 * built-in view. nativecall/_callable/hooks.py creates the wrapper at the first call. */
NcVectorcall nc_vectorcall_wrapper;
PyObject *nc_method_wrapper(PyObject *self, PyObject *const *args, Py_ssize_t nargs);
PyObject *nc_method_wrapper_O(PyObject *self, PyObject *arg);
PyObject *nc_method_wrapper_NOARGS(PyObject *self, PyObject *none);

/* Whether an object is a callable of one entry. */
int nc_is_single(PyObject *object);

/* Asks the callable's hook for an entry. Call this if no entry matches the arguments exactly.
 * Returns a new reference to a callable of one entry. Returns NULL without an exception if the hook
 * creates no entry, or with an exception on failure. */
NcCallable *nc_callable_for_call(NcCallable *self, PyObject *const *args, Py_ssize_t nargs);

/* Asks the callable's hook to put keyword arguments in order, and makes the call. Returns the
 * result, or NULL with an exception. Returns NULL without an exception if there is no hook, or if
 * the hook does not recognize the names. */
PyObject *nc_callable_by_position(NcCallable *self, PyObject *const *args, Py_ssize_t nargs,
                                  PyObject *kwnames);

/* Calls a Python function with the callable as its first argument. */
PyObject *nc_call_with(PyObject *function, PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                       PyObject *kwnames);

/* Raises TypeError: the callable has no entries. */
PyObject *nc_refuse_empty(NcCallable *self);

/* The vectorcall of a callable without entries: calls an entry that the callable's hook creates, or
 * raises. */
NcVectorcall nc_vectorcall_empty;
