/* csrc/callable/pycallbackobject.h: the Python type of callbacks. */
#ifndef NC_PYCALLBACKOBJECT_H
#define NC_PYCALLBACKOBJECT_H

#include "pycallback.h"

extern PyTypeObject NcPyCallback_Type;

/* A callback of a spec, called by `names` in messages (pycallback.h). A new reference,
 * or NULL with MemoryError, or RuntimeError where the system refuses stubs. */
NcPyCallback *nc_pycallback_make(NcCallbackSpec *spec, PyObject *function, PyObject *names);

/* What nc_pass_function (values/pointers.h) is. */
int nc_pycallback_pass(const NcCallSpec *spec, PyObject *name, Py_ssize_t index, PyObject *value,
                       NcPointer *out);

/* Module functions, METH_FASTCALL. */
PyObject *nc_called(PyObject *module, PyObject *const *args, Py_ssize_t nargs);

#endif
