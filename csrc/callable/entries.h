/* csrc/callable/entries.h: the entries of a native callable by their signatures: `f["d:d"]`,
 * `"d:d" in f`, `f.address("d:d")` and `f.signatures`.
 *
 * Threads: everything here needs the GIL. */
#ifndef NC_ENTRIES_H
#define NC_ENTRIES_H

#include "layout.h"

/* The callable of a single's only entry, which keeps that one alone when there are more: a borrowed
 * reference, made when it is first asked for. NULL with an exception. */
PyObject *nc_entries_only(NcCallable *self);

/* The callable itself, or the part of it, that has the entry of a signature as written, or the only
 * one for None: a borrowed reference. NULL with an exception. */
NcCallable *nc_entries_part(NcCallable *self, PyObject *signature);

/* The same of what is there: NULL where there is none, or no signature; with an exception where
 * that could not be found out. */
NcCallable *nc_entries_find(NcCallable *self, PyObject *signature);

/* The slots and the getter of the type. */
PyObject *nc_entries_subscript(PyObject *callable, PyObject *signature);
int nc_entries_contains(PyObject *callable, PyObject *signature);
PyObject *nc_entries_signatures(PyObject *callable, void *closure);

/* _entries(): those of the call table as readers see them, [(text, address, flags)]. */
PyObject *nc_entries_rows(PyObject *callable, PyObject *none);

/* address(signature=None), METH_FASTCALL | METH_KEYWORDS. */
PyObject *nc_entries_address(PyObject *callable, PyObject *const *args, Py_ssize_t nargs,
                             PyObject *kwnames);

#endif
