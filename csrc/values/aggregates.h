/* csrc/values/aggregates.h: structs and strided views, as arguments and results of calls.
 *
 * All need the GIL. */
#ifndef NC_AGGREGATES_H
#define NC_AGGREGATES_H

#include "pointers.h"

/* A value for argument `place` of a call interface, with a negative place the first one, whose name
 * is then the whole subject of messages. What it leads to is in *keep, a new list, or NULL. 0; 1
 * where that may have run any code; or -1 with an exception. */
int nc_store_value(NcCallInterface *cif, PyObject *name, Py_ssize_t place, PyObject *value,
                   void *memory, PyObject **keep);

/* Argument `index` as a C value of any type in `memory`; what it points to goes to owner->keep.
 * `owner` is NULL for a type without pointers. 0; 1 where that may have run any code; or -1 with an
 * exception. */
int nc_store_argument(NcCallInterface *cif, PyObject *name, Py_ssize_t index, PyObject *value,
                      void *memory, NcPointer *owner);

/* A strided view of `ndim` dimensions: `words` takes 1 + 2 * ndim words and is what owner->address
 * points to, unless it is NULL for None. 0; 1 where that may have run any code; or -1 with an
 * exception. */
int nc_convert_view(const NcCallInterface *cif, PyObject *name, Py_ssize_t index, PyObject *value,
                    Py_ssize_t ndim, intptr_t *words, NcPointer *owner);

#endif
