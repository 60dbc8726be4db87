/* csrc/cli/probe.h: calls of a native callable from C, made the way a consumer makes them. */
#ifndef NC_PROBE_H
#define NC_PROBE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* call_loop(callable, signature, way, repeats, results, x[, y]) -> None
 *
 * results[i] = callable(x[i]) or callable(x[i], y[i]) for every i, `repeats` times over. The
 * buffers hold as many doubles each; the signature is "d:d", "f:f" or, with y, "d:dd" or
 * "d:di". `way` says how each single call is made:
 *
 *   "pointer"   through the function pointer, which is found once, before the loop
 *   "offset"    found by the offset in the object's type, each time anew
 *   "slot"      found through the slot table, each time anew
 *   "object"    as code without nativecall must: arguments boxed, a Python call, result unboxed;
 *               takes any Python callable
 *
 * All but "object" run without the GIL. LookupError when there is no such entry. */
PyObject *nc_probe_call_loop(PyObject *module, PyObject *args);

#endif
