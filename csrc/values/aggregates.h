/* csrc/values/aggregates.h: converts structs and strided views for calls.
 *
 * All functions need the GIL. */
#ifndef NC_AGGREGATES_H
#define NC_AGGREGATES_H

#include "pointers.h"

/* Store a value for argument `place` of a call interface in `memory`. A negative `place` means the
 * first argument, and that `name` is the whole subject of messages. *keep is a new list of the
 * objects that the value points to, or NULL. Return 0, 1 if arbitrary code may have run, or -1 with
 * an exception. */
int nc_store_value(NcCallInterface *cif, PyObject *name, Py_ssize_t place, PyObject *value,
                   void *memory, PyObject **keep);

/* Store argument `index`, of any type, in `memory`. owner->keep receives the objects that the
 * value points to. `owner` is NULL for a type without pointers. Return as nc_store_value does. */
int nc_store_argument(NcCallInterface *cif, PyObject *name, Py_ssize_t index, PyObject *value,
                      void *memory, NcPointer *owner);

/* Convert a strided view of `ndim` dimensions into `words`, 1 + 2 * ndim words. owner->address
 * points to `words`, or is NULL for None. Return as nc_store_value does. */
int nc_convert_view(NcCallInterface *cif, PyObject *name, Py_ssize_t index, PyObject *value,
                    Py_ssize_t ndim, intptr_t *words, NcPointer *owner);

#endif
