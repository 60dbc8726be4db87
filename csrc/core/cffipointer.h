/* csrc/core/cffipointer.h: what the core has of cffi: its own ways to make and to read a pointer,
 * to write a value and to read a number, which only its wrapper of the core has (core.csrc.c). */
#ifndef NC_CORE_CFFIPOINTER_H
#define NC_CORE_CFFIPOINTER_H

#include <Python.h>

/* What cffi's module has by a name, kept at `place` from the first time on: a borrowed reference;
 * NULL with an exception. */
PyObject *nc_of_cffi(PyObject **place, const char *name);

/* A cffi pointer of a cffi pointer type. A new reference, or NULL. */
PyObject *nc_cffi_pointer(void *address, PyObject *type);

/* The address in a pointer or array of cffi that converts to a cffi pointer type. NULL with an
 * exception where it does not, and without one where that is the address. */
void *nc_cffi_address(PyObject *pointer, PyObject *type);

/* Writes a value as one of a cffi type: 0, or -1 with an exception. */
int nc_cffi_store(void *memory, PyObject *type, PyObject *value);

/* A number of cffi's, which may be a long double. 0, or -1 with an exception. */
int nc_cffi_long_double(PyObject *number, long double *out);

#endif
