/* csrc/callback/callbackcallable.h: native callables of Python functions, made without a step of
 * Python code where all that a signature asks for is known already. */
#ifndef NC_CALLBACKCALLABLE_H
#define NC_CALLBACKCALLABLE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Module-level, METH_FASTCALL. make_callback(class, plans, signature, function): an instance of a
 * class of native callables whose entry runs a Python function. `plans` is a dict from signatures
 * as they were written to (call spec, flags, CallbackSpec). The name is the function's own,
 * "function" where it has none, and so is its doc. None where `signature` is no key, or `function`
 * cannot be called: for Python code to say what is meant, or what is wrong. */
PyObject *nc_make_callback(PyObject *module, PyObject *const *args, Py_ssize_t nargs);

#endif
