/* csrc/core/cffipointer.h: cffi's own way to make a pointer, which only its wrapper of the core has
 * (core.csrc.c). */
#ifndef NC_CORE_CFFIPOINTER_H
#define NC_CORE_CFFIPOINTER_H

#include <Python.h>

/* A cffi pointer of a cffi pointer type. A new reference, or NULL. */
PyObject *nc_cffi_pointer(void *address, PyObject *type);

#endif
