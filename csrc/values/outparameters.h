/* csrc/values/outparameters.h: the memory of out-parameters, and what Python gets of it
 * (nativecall/_values/outparameters.py).
 *
 * A value that is small lies in the frame of the call. An array of numbers is NumPy's, other items
 * lie in a block. The memory is zero before the call, unless Python passes the value.
 *
 * All with the GIL. */
#ifndef NC_OUTPARAMETERS_H
#define NC_OUTPARAMETERS_H

#include "layout.h"

/* Where an out-parameter is that is not in the frame; this is there in its place, zero at first. */
typedef struct {
    char *address;
    Py_ssize_t length; /* how many items; -1: one value */
    PyObject *owner;   /* the array, or a block (memoryblock.h) */
} NcOutMemory;

static inline NcOutMemory *nc_out_memory(const NcOut *out, char *area)
{
    return (NcOutMemory *)(void *)(area + out->offset);
}

/* Makes the memory of an out-parameter. `length` is how many items an argument says, -1 where none
 * does; `value` what Python passes as argument `index`, or NULL. 0, or -1 with an exception. */
int nc_out_make(NcCallInterface *cif, PyObject *name, NcOut *out, char *area, Py_ssize_t length,
                PyObject *value, Py_ssize_t index);

/* What a call gives: `result` unless it is NULL, and the out-parameters; one alone as it is. A text
 * stays a pointer where `failed` says that C may not have written it. */
PyObject *nc_outs_together(NcCallInterface *cif, PyObject *result, char *area, int failed);

/* Gives up all memory, also what was not made. */
void nc_outs_drop(const NcCallInterface *cif, char *area);

#endif
