/* csrc/call/kept.h: keeps alive the functions that C code stores and calls later (`keep=`). Also
 * keeps the handles that are passed with them as user data.
 *
 * Rule. The pointer that C stores is kept alive, with all objects that it needs. Equal functions of
 * one C type share one pointer while they are kept, so that C code can find a stored function by
 * its pointer and remove it. The pointers are kept in a dict that belongs to the process, to a
 * library, or to one of the arguments.
 *
 * A function whose `__hash__` or `__eq__` raises an exception equals only itself.
 *
 * Threads: everything here needs the GIL. The dicts are shared; CPython locks each of them. Threads
 * that keep equal functions at once get the pointer that was stored first. */
#pragma once

#include "layout.h"

/* Converts argument `index`, a function or a handle, and keeps the pointer alive as `cif->keep`
 * specifies. Returns 0, or -1 with an exception. */
int nc_keep_argument(NcCallable *self, const NcCallInterface *cif, PyObject *const *args,
                     Py_ssize_t index, void **address);

/* Like nc_keep_argument, but keeps the pointer in a given dict. `name` and `index` are as for
 * nc_pin_value. */
int nc_keep_in(PyObject *kept, const NcCallInterface *cif, PyObject *name, Py_ssize_t index,
               PyObject *value, void **address);

/* Returns the dict of the library to which an entry's owner belongs. The owner is a Library, a
 * callable, or a tuple or list of owners; a symbol is such a tuple. Returns a borrowed reference,
 * or NULL without an exception if there is no library. */
PyObject *nc_library_kept(PyObject *owner);
