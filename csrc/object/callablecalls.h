/* csrc/object/callablecalls.h: the calls of a native callable that no ahead-of-time trampoline
 * takes: through generated code, which the first call asks for; through the fallback; with keywords
 * or a wrong number of arguments.
 *
 * Threads: everything here needs the GIL. */
#ifndef NC_CALLABLECALLS_H
#define NC_CALLABLECALLS_H

#include "layout.h"

/* Gives a single a generated trampoline, of a variadic function where `fixed` is how many arguments
 * that takes at least, else NULL. Threads may race here, for Python code runs: they all get the
 * same trampoline, or the first one's stays. -1 with an exception. */
int nc_callable_generate(NcCallable *self, PyObject *fixed);

/* Whether it is known how a single is called. */
int nc_callable_is_decided(const NcCallable *self);

/* The vectorcall of a single without ahead-of-time code, until it has generated code and where it
 * has none; and the same as built-in views. */
PyObject *nc_vectorcall_fallback(PyObject *self, PyObject *const *args, size_t nargsf,
                                 PyObject *kwnames);
PyObject *nc_method_fallback(PyObject *self, PyObject *const *args, Py_ssize_t nargs);
PyObject *nc_method_fallback_O(PyObject *self, PyObject *arg);
PyObject *nc_method_fallback_NOARGS(PyObject *self, PyObject *none);

/* What the hook of a callable makes for the arguments of a call that no entry takes exactly: a
 * callable of one entry, a new reference. NULL where it makes none, perhaps with an exception. */
NcCallable *nc_callable_for_call(NcCallable *self, PyObject *const *args, Py_ssize_t nargs);

/* A call with keywords, whose order the hook of a callable knows: the result, or NULL with an
 * exception. NULL without one where no hook knows the names. */
PyObject *nc_callable_by_position(NcCallable *self, PyObject *const *args, Py_ssize_t nargs,
                                  PyObject *kwnames);

/* Raises that a callable has no entries. */
PyObject *nc_refuse_empty(NcCallable *self);

/* The vectorcall of a callable without entries: what its hook makes, or an exception. */
PyObject *nc_vectorcall_empty(PyObject *self, PyObject *const *args, size_t nargsf,
                              PyObject *kwnames);

/* Every call that a trampoline does not take: keywords, a wrong number of arguments. */
PyObject *nc_call_irregular(NcCallable *self, PyObject *const *args, size_t nargsf,
                            PyObject *kwnames);

#endif
