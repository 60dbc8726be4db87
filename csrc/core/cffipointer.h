/* csrc/core/cffipointer.h: calls cffi to make and read pointers, write values and read numbers.
 * These functions are defined in core.csrc.c, the preamble of the cffi extension module, because
 * cffi's C functions (_cffi_from_c_pointer, ...) exist only inside such a module. */
#pragma once

#include <Python.h>

/* Returns an attribute of the module _cffi_backend, a borrowed reference, or NULL with an
 * exception. The attribute is cached at `place`. */
PyObject *nc_of_cffi(PyObject **place, const char *name);

/* Makes a cffi pointer with the pointer type `type`. Returns a new reference, or NULL with an
 * exception. */
PyObject *nc_cffi_pointer(void *address, PyObject *type);

/* Returns the address of a cffi pointer or array. Returns NULL with an exception if cffi cannot
 * convert it to the pointer type `type`. Returns NULL without an exception if the address is
 * NULL. */
void *nc_cffi_address(PyObject *pointer, PyObject *type);

/* Writes a value as the cffi type `type`. Returns 0, or -1 with an exception. */
int nc_cffi_store(void *memory, PyObject *type, PyObject *value);

/* Reads a cffi number, which may be a long double. Returns 0, or -1 with an exception. */
int nc_cffi_long_double(PyObject *number, long double *out);
