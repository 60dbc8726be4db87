/* csrc/callable/entries.h: looks up entries of a native callable by signature: `f["d:d"]`, `"d:d"
 * in f`, `f.address("d:d")` and `f.signatures`.
 *
 * Threads: everything here needs the GIL. */
#pragma once

#include "layout.h"

/* Returns a callable that has only the entry of a single, even if entries are added to the single
 * later. The new callable is created on first use. Returns a borrowed reference, or NULL with an
 * exception. */
PyObject *nc_entries_only(NcCallable *self);

/* Returns the single that has the entry with this signature: the callable itself or, if it is
 * overloaded, one of its parts. The signature may be in any spelling; None selects the only entry.
 * Returns a borrowed reference, or NULL with an exception. */
NcCallable *nc_entries_part(NcCallable *self, PyObject *signature);

/* Like nc_entries_part, but searches only existing entries. Returns NULL without an exception if no
 * entry has the signature or the text is not a signature. Returns NULL with an exception if the
 * lookup fails. */
NcCallable *nc_entries_find(NcCallable *self, PyObject *signature);

/* Slots and a getter of the native callable type. */
PyObject *nc_entries_subscript(PyObject *callable, PyObject *signature);
int nc_entries_contains(PyObject *callable, PyObject *signature);
PyObject *nc_entries_signatures(PyObject *callable, void *closure);

/* _entries(): the call table as its readers see it, a list of (text, address, flags). */
PyObject *nc_entries_rows(PyObject *callable, PyObject *none);

/* address(signature=None), METH_FASTCALL | METH_KEYWORDS. */
NcKeywordMethod nc_entries_address;
