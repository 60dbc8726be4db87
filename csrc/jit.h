/* csrc/jit.h: what generated code needs of the core and of the running Python.
 *
 * nativecall/jit/trampoline.py writes code that reads objects and calls functions. It hard-codes
 * neither offsets nor addresses: both come from here, as they are in this process. */
#ifndef NC_JIT_H
#define NC_JIT_H

#include "convert.h"

/* Ends a call whose pointer arguments are an array, as nc_release_pointers does. */
PyObject *nc_leave(PyObject *value, NcPointer *pointers, size_t count);

/* Raises at once what a Python function among the arguments left, before the result is looked at.
 * 0, or -1 with that exception. The pointers stay to be released. */
int nc_settle(NcPointer *pointers, size_t count);

/* jit_layout(): {name: offset, size or other number}. */
PyObject *nc_jit_layout(PyObject *module, PyObject *none);

/* jit_symbols(): {name: address} of all that generated code may refer to. */
PyObject *nc_jit_symbols(PyObject *module, PyObject *none);

#endif
