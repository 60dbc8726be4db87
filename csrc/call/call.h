/* csrc/call/call.h: calls from Python that an interpreter of plans makes (plan.h).
 *
 * Everything that a signature and its policies can have is called here, also more arguments than a
 * variadic function names. The only Python code in a call is that of values and of the user's
 * functions, except what stores a value in an out-parameter that is an array or a pointer.
 *
 * Threads: with the GIL. Plans are made once and published; a call writes to nothing that is
 * shared. */
#ifndef NC_CALL_H
#define NC_CALL_H

#include "layout.h"

#include "invoke.h"

/* Flags of an entry that change how a call is made; ahead-of-time code knows none of them. */
#define NC_CALL_FLAGS                                                                              \
    ((uintptr_t)(NC_FLAG_RELEASE_GIL | NC_FLAG_NEEDS_GIL | NC_FLAG_ERRNO | NC_ERRORS_MASK))

#if !NC_HAS_MACHINE_CODE
/* Wrappers make all calls. */
#define nc_vectorcall_plan nc_vectorcall_wrapper
#define nc_method_plan nc_method_wrapper
#define nc_method_plan_O nc_method_wrapper_O
#define nc_method_plan_NOARGS nc_method_wrapper_NOARGS
#endif

/* The vectorcall of a single that is called by its plan, and the same as built-in views. */
PyObject *nc_vectorcall_plan(PyObject *self, PyObject *const *args, size_t nargsf,
                             PyObject *kwnames);
PyObject *nc_method_plan(PyObject *self, PyObject *const *args, Py_ssize_t nargs);
PyObject *nc_method_plan_O(PyObject *self, PyObject *arg);
PyObject *nc_method_plan_NOARGS(PyObject *self, PyObject *none);

#endif
