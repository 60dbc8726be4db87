/* csrc/values/memoryblock.h: memory for C values that keeps what pointers in it lead to.
 *
 * cffi's objects are made over a block, which lives as long as they do. The garbage collector sees
 * what it keeps, so that a struct and a callback that refer to each other can go.
 *
 * All with the GIL. */
#ifndef NC_MEMORYBLOCK_H
#define NC_MEMORYBLOCK_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stddef.h>

typedef struct {
    PyObject_VAR_HEAD PyObject *kept; /* list: what pointers in the memory lead to; or NULL */
    max_align_t data[1];
} NcBlock;

/* Zeroed memory with what it keeps. */
extern PyTypeObject NcBlock_Type;

/* A new block; NULL with an exception. */
NcBlock *nc_block_new(Py_ssize_t bytes);

#endif
