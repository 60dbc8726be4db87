/* csrc/values/outparameters.h: allocates memory for out-parameters, and converts the results to
 * Python (nativecall/_values/outparameters.py).
 *
 * Small values are stored in the frame of the call, arrays of numbers in a NumPy array, and
 * everything else in a block (memoryblock.h). The memory is zeroed before the call, unless Python
 * passes an initial value.
 *
 * All functions need the GIL. */
#pragma once

#include "layout.h"

/* For an out-parameter whose memory is not in the frame, the frame stores this struct. It is zero
 * at first. */
typedef struct {
    char *address;
    Py_ssize_t length; /* number of items; -1: a single value */
    PyObject *owner;   /* the array, or a block (memoryblock.h) */
} NcOutMemory;

static inline NcOutMemory *nc_out_memory(const NcOut *out, char *area)
{
    return (NcOutMemory *)(void *)(area + out->offset);
}

/* Allocate the memory of an out-parameter. `length` is the number of items if another argument
 * gives it, otherwise -1. `value` is what Python passes as argument `index`, or NULL. Return 0, or
 * -1 with an exception. */
int nc_out_make(NcCallInterface *cif, PyObject *name, NcOut *out, char *area, Py_ssize_t length,
                PyObject *value, Py_ssize_t index);

/* Return the result of a call: a tuple of `result` (unless it is NULL) and the out-parameters. A
 * single value is returned without a tuple. If `failed`, pointers to text are not decoded, because
 * C may not have written the text. */
PyObject *nc_outs_together(NcCallInterface *cif, PyObject *result, char *area, int failed);

/* Release the memory of all out-parameters. Some of it may not have been allocated. */
void nc_outs_drop(const NcCallInterface *cif, char *area);
