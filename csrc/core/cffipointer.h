/* csrc/core/cffipointer.h: functions of cffi that the core uses to make and read pointers, write
 * values and read numbers. Only cffi's wrapper of the core (core.csrc.c) can define them. */
#ifndef NC_CORE_CFFIPOINTER_H
#define NC_CORE_CFFIPOINTER_H

#include <Python.h>

/* An attribute of cffi's module, cached at `place`: a borrowed reference; NULL with an
 * exception. */
PyObject *nc_of_cffi(PyObject **place, const char *name);

/* Makes a cffi pointer of a pointer type. A new reference, or NULL. */
PyObject *nc_cffi_pointer(void *address, PyObject *type);

/* The address in a cffi pointer or array that converts to a pointer type. Returns NULL with an
 * exception if it does not convert, and NULL without an exception if the address is NULL. */
void *nc_cffi_address(PyObject *pointer, PyObject *type);

/* Writes a value as a cffi type: 0, or -1 with an exception. */
int nc_cffi_store(void *memory, PyObject *type, PyObject *value);

/* Reads a cffi number, which may be a long double: 0, or -1 with an exception. */
int nc_cffi_long_double(PyObject *number, long double *out);

#endif
