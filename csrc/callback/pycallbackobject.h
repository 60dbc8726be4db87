/* csrc/callback/pycallbackobject.h: the Python type of callbacks that generated code leads to. */
#ifndef NC_PYCALLBACKOBJECT_H
#define NC_PYCALLBACKOBJECT_H

#include "pycallback.h"

extern PyTypeObject NcPyCallback_Type;

/* A callback of a type and a spec, called by `names` in messages (pycallback.h). A new reference,
 * or NULL with MemoryError, or RuntimeError where the system refuses stubs. */
NcPyCallback *nc_pycallback_make(PyTypeObject *type, NcCallbackSpec *spec, PyObject *function,
                                 PyObject *names);

/* What nc_pass_function (values/pointers.h) is. */
int nc_pycallback_pass(const NcCallSpec *spec, PyObject *name, Py_ssize_t index, PyObject *value,
                       NcPointer *out);

/* ---- for the type of ctypescall.c ------------------------------------------------------------ */

/* Checks the arguments of a type's call: (spec, function, name, who). `who` is a str, or (name,
 * index) of the argument that the function is; None is the function's result. `foreign` is 1 where
 * the spec is to be for ctypes. 0, or -1 with TypeError. */
int nc_pycallback_check(PyObject *const *args, size_t nargsf, PyObject *kwnames, int foreign);
/* `names` of what was checked; a new reference, or NULL. */
PyObject *nc_pycallback_names(PyObject *name, PyObject *who);
int nc_pycallback_traverse(PyObject *object, visitproc visit, void *arg);
int nc_pycallback_clear(PyObject *object);
void nc_pycallback_dealloc(PyObject *object);

#endif
