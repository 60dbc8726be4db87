/* csrc/values/memoryblock.h: blocks of memory for C values. A block keeps the targets of the
 * pointers in its memory alive.
 *
 * A cffi object that uses a block as its memory keeps the block alive. The garbage collector
 * traverses the targets that a block keeps, so it can free a struct and a callback that refer to
 * each other.
 *
 * All functions need the GIL. */
#pragma once

#include <Python.h>

#include <stddef.h>

typedef struct {
    PyObject_VAR_HEAD PyObject *kept; /* list of the kept targets, or NULL */
    max_align_t data[1];
} NcBlock;

/* The type of blocks. */
extern PyTypeObject NcBlock_Type;

/* Return a new block of zeroed memory, or NULL with an exception. */
NcBlock *nc_block_new(Py_ssize_t bytes);
