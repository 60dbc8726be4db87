/* csrc/values/memory.h: memory of C code as an object with a buffer, for what Python functions that
 * C calls get. Nothing is owned: the memory is the caller's and valid until the function
 * returns. */
#ifndef NC_MEMORY_H
#define NC_MEMORY_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Memory(address, format, itemsize, shape, strides, readonly): strides None is C-contiguous. */
extern PyTypeObject NcMemory_Type;

#endif
