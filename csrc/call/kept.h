/* csrc/call/kept.h: keeps functions alive that C stores beyond the call that passed them (`keep=`),
 * and handles that are passed with them as user data.
 *
 * Rule. The kept object is the pointer that C got, with everything that the pointer needs. Equal
 * functions of one C type share one pointer while they are kept, so C code can find a function in a
 * list to remove it. The pointers are kept in a dict of the process, of a library's file, or of one
 * of the arguments.
 *
 * A function whose `__hash__` or `__eq__` raises an exception equals only itself.
 *
 * Threads: everything here needs the GIL. */
#ifndef NC_KEPT_H
#define NC_KEPT_H

#include "layout.h"

/* Converts argument `index`, a function or a handle, and keeps the pointer as `cif` says. 0, or -1
 * with an exception. */
int nc_keep_argument(NcCallable *self, const NcCallInterface *cif, PyObject *const *args,
                     Py_ssize_t index, void **address);

/* Like nc_keep_argument, but keeps the pointer in a given dict. `name` and `index` are as for
 * nc_pin_value. */
int nc_keep_in(PyObject *kept, const NcCallInterface *cif, PyObject *name, Py_ssize_t index,
               PyObject *value, void **address);

/* The dict of the library that an entry's owner belongs to. The owner is a symbol, a callable, or
 * several of them. A borrowed reference; NULL without an exception if there is none. */
PyObject *nc_library_kept(PyObject *owner);

#endif
