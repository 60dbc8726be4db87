/* csrc/values/keep.h: what other libraries call when they drop a box, and what keeps an object
 * alive until then. With the GIL. */
#ifndef NC_KEEP_H
#define NC_KEEP_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Keep(owner): an object with a reference, `owner`, that is None once it has been called, with any
 * one argument: a destructor for ffi.gc() that does nothing else. */
extern PyTypeObject NcKeep_Type;

/* A cffi pointer like another one that keeps an object alive; NULL with an exception. */
PyObject *nc_cffi_keeping(PyObject *pointer, PyObject *owner);

/* A new one; NULL with an exception. */
PyObject *nc_keep_new(PyObject *owner);

#endif
