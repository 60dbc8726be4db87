/* csrc/callback/pycallbackobject.h: the Python types of callbacks, CallbackSpec and PyCallback. */
#ifndef NC_PYCALLBACKOBJECT_H
#define NC_PYCALLBACKOBJECT_H

#include "pycallback.h"

extern PyTypeObject NcPyCallback_Type;

/* Adds both types; -1 with an exception. */
int nc_pycallback_ready(PyObject *module);

#endif
