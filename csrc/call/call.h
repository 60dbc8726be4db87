/* csrc/call/call.h: vectorcall and method functions that call a C function by its call plan
 * (plan.h). Plans support every signature and policy, including additional arguments of variadic
 * functions. A call runs Python code only for conversions, for the user's functions, and to store
 * values in out-parameters that are arrays or pointers.
 *
 * Threads: everything here needs the GIL. Plans are made once and published; a call writes to no
 * shared memory. */
#pragma once

#include "layout.h"

#include "invoke.h"

/* Flags of an entry that change how a call is made. Trampolines support none of them. */
#define NC_CALL_FLAGS                                                                              \
    ((uintptr_t)(NC_FLAG_RELEASE_GIL | NC_FLAG_NEEDS_GIL | NC_FLAG_ERRNO | NC_ERRORS_MASK))

#if !NC_HAS_MACHINE_CODE
/* On platforms without machine code, Python wrappers make all calls. */
#define nc_vectorcall_plan nc_vectorcall_wrapper
#define nc_method_plan nc_method_wrapper
#define nc_method_plan_O nc_method_wrapper_O
#define nc_method_plan_NOARGS nc_method_wrapper_NOARGS
#endif

/* Call a single (a callable with one entry) by its plan. The first function is the single's
 * vectorcall; the others are the functions of its built-in view. */
NcVectorcall nc_vectorcall_plan;
PyObject *nc_method_plan(PyObject *self, PyObject *const *args, Py_ssize_t nargs);
PyObject *nc_method_plan_O(PyObject *self, PyObject *arg);
PyObject *nc_method_plan_NOARGS(PyObject *self, PyObject *none);
