/* csrc/callable/entries.h: looks up entries of a native callable by signature: `f["d:d"]`, `"d:d"
 * in f`, `f.address("d:d")` and `f.signatures`.
 *
 * Threads: everything here needs the GIL. */
#ifndef NC_ENTRIES_H
#define NC_ENTRIES_H

#include "layout.h"

/* The callable restricted to a single's only entry, even if more are added later: a borrowed
 * reference, made on first use. NULL with an exception. */
PyObject *nc_entries_only(NcCallable *self);

/* The callable itself, or the part of it, that has the entry of a signature as written; for None,
 * the only entry's. A borrowed reference, or NULL with an exception. */
NcCallable *nc_entries_part(NcCallable *self, PyObject *signature);

/* The same, but only among existing entries. Returns NULL without an exception if there is none or
 * the text is not a signature, and NULL with an exception if the lookup failed. */
NcCallable *nc_entries_find(NcCallable *self, PyObject *signature);

/* The slots and the getter of the type. */
PyObject *nc_entries_subscript(PyObject *callable, PyObject *signature);
int nc_entries_contains(PyObject *callable, PyObject *signature);
PyObject *nc_entries_signatures(PyObject *callable, void *closure);

/* _entries(): the entries of the call table, as readers see them: [(text, address, flags)]. */
PyObject *nc_entries_rows(PyObject *callable, PyObject *none);

/* address(signature=None), METH_FASTCALL | METH_KEYWORDS. */
PyObject *nc_entries_address(PyObject *callable, PyObject *const *args, Py_ssize_t nargs,
                             PyObject *kwnames);

#endif
