/* csrc/callback/ctypescall.h: callbacks where no code can be generated: ctypes makes the C pointer
 * and calls an NcPyCallback as a Python object. The results and the errors are those of generated
 * code, but an exception reaches the thread state only when ctypes drops the result. */
#ifndef NC_CTYPESCALL_H
#define NC_CTYPESCALL_H

#include "pycallback.h"

/* The vectorcall of an NcPyCallback. */
PyObject *nc_pycallback_called_by_ctypes(PyObject *object, PyObject *const *args, size_t nargsf,
                                         PyObject *kwnames);

#endif
