/* csrc/call/kept.h: functions that C keeps longer than the call that passed them (`keep=`), and
 * the handles of objects beside them, which are user data.
 *
 * Rule. What is kept is the pointer that C was given, with all that this pointer needs. Equal
 * functions of one C type are one pointer as long as they are kept: C code that removes a function
 * from a list finds it. What is kept lies in a dict: of the process, of a library's file, or of the
 * object that one of the arguments is.
 *
 * A function whose own `__hash__` or `__eq__` raises an exception equals itself alone.
 *
 * Threads: with the GIL. */
#ifndef NC_KEPT_H
#define NC_KEPT_H

#include "layout.h"

/* Argument `index` of a call, a function or a handle: the pointer that C gets is kept as `cif`
 * says. 0, or -1 with an exception. */
int nc_keep_argument(NcCallable *self, const NcCallInterface *cif, PyObject *const *args,
                     Py_ssize_t index, void **address);

/* The same in a dict that the caller has. `name` and `index` are as for nc_pin_value. */
int nc_keep_in(PyObject *kept, const NcCallInterface *cif, PyObject *name, Py_ssize_t index,
               PyObject *value, void **address);

/* What the library keeps that an owner of an entry is of: a symbol, a callable, or several. A
 * borrowed dict; NULL without an exception where there is none. */
PyObject *nc_library_kept(PyObject *owner);

#endif
