/* csrc/values/aggregates.h: converts structs and strided views for calls.
 *
 * All functions need the GIL. */
#pragma once

#include "pointers.h"

/* Store a value for argument `place` of a call interface in `memory`. A negative `place` means the
 * first argument; messages then begin with `name` itself. *keep is set to a new list of the objects
 * that the value points to, or to NULL. Return 0, or -1 with an exception. Return 1 instead of 0 if
 * arbitrary code may have run. */
int nc_store_value(NcCallInterface *cif, PyObject *name, Py_ssize_t place, PyObject *value,
                   void *memory, PyObject **keep);

/* Store a value for argument `index`, of any type, in `memory`. owner->keep receives the objects
 * that the value points to. `owner` is NULL for a type without pointers. Returns the same values as
 * nc_store_value. */
int nc_store_argument(NcCallInterface *cif, PyObject *name, Py_ssize_t index, PyObject *value,
                      void *memory, NcPointer *owner);

/* Convert an array to a strided view of `ndim` dimensions. `words` has room for the view: 1 + 2 *
 * ndim words. owner->address becomes the view's address, or NULL for None. Returns the same values
 * as nc_store_value. */
int nc_convert_view(NcCallInterface *cif, PyObject *name, Py_ssize_t index, PyObject *value,
                    Py_ssize_t ndim, intptr_t *words, NcPointer *owner);

/* Return whether a view argument takes a value without a conversion; -1 with an exception. */
int nc_is_view(const NcCallInterface *cif, Py_ssize_t index, PyObject *value);
