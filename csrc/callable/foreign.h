/* csrc/callable/foreign.h: a native callable as a foreign callable, the function object of
 * another library: `f.to_ctypes()`, `f.to_cffi()`, `f.to_capsule()` and `f.to_scipy()`.
 *
 * A foreign callable has a callable of one entry with it: the entry as it was when that was made,
 * which owns what it points into. It does not refer to the callable that it came of, unless that is
 * of a class whose objects may own more than a native callable does. So the callable of an entry
 * keeps one of each kind, and an overloaded one SciPy's of all its entries, and no circle comes of
 * it.
 *
 * Guarantees: what is kept is given again only while the entries are those that it was made of, and
 * while it still has its entry: a cffi pointer that was released, and a ctypes pointer whose
 * types were set, have not. The collector sees through what is kept, capsules included.
 *
 * Threads: everything here needs the GIL. */
#ifndef NC_FOREIGN_H
#define NC_FOREIGN_H

#include "layout.h"

/* The methods of the type, METH_FASTCALL | METH_KEYWORDS: (signature=None), and
 * ffi=None, name=None or user_data=None. */
PyObject *nc_foreign_ctypes(PyObject *callable, PyObject *const *args, Py_ssize_t nargs,
                            PyObject *kwnames);
PyObject *nc_foreign_cffi(PyObject *callable, PyObject *const *args, Py_ssize_t nargs,
                          PyObject *kwnames);
PyObject *nc_foreign_capsule(PyObject *callable, PyObject *const *args, Py_ssize_t nargs,
                             PyObject *kwnames);
PyObject *nc_foreign_scipy(PyObject *callable, PyObject *const *args, Py_ssize_t nargs,
                           PyObject *kwnames);

/* `_as_parameter_`: what ctypes passes for a callable that is an argument; one that has no such
 * form, or more than one, an object that raises why when ctypes asks it for the same attribute. */
PyObject *nc_foreign_parameter(PyObject *callable, void *closure);

extern const char nc_doc_to_ctypes[], nc_doc_to_cffi[], nc_doc_to_capsule[], nc_doc_to_scipy[];

/* _alone(signature), METH_O: a callable of the entry as it is now; of the only one for None. */
PyObject *nc_foreign_entry(PyObject *callable, PyObject *signature);

/* Lets go of all that are kept, when the entries or the hook are changed. Others' code may run. */
void nc_foreign_forget(NcCallable *self);

/* For the type's own. */
int nc_foreign_traverse(const NcMore *more, visitproc visit, void *arg);

/* Once, before the first of them; -1 with an exception. */
int nc_foreign_ready(void);

#endif
