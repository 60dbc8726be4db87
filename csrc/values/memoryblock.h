/* csrc/values/memoryblock.h: memory for C values, which keeps the targets of its pointers alive.
 *
 * cffi objects are created over a block, which lives as long as they do. The garbage collector sees
 * what a block keeps, so it can free a struct and a callback that refer to each other.
 *
 * All functions need the GIL. */
#ifndef NC_MEMORYBLOCK_H
#define NC_MEMORYBLOCK_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stddef.h>

typedef struct {
    PyObject_VAR_HEAD PyObject *kept; /* list of the pointers' targets; or NULL */
    max_align_t data[1];
} NcBlock;

/* Zeroed memory and the objects it keeps. */
extern PyTypeObject NcBlock_Type;

/* Return a new block, or NULL with an exception. */
NcBlock *nc_block_new(Py_ssize_t bytes);

#endif
