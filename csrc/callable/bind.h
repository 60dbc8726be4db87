/* csrc/callable/bind.h: `f.bind` and `f.convert`: a callable that calls another one by a thunk.
 *
 * What is made again, of the same signature and for the same, is made here, by one lookup. All else
 * is Python code's (nativecall/_callable/thunk.py): what was not seen before, options, several
 * entries, what is wrong.
 *
 * Threads: everything here needs the GIL. */
#ifndef NC_BIND_H
#define NC_BIND_H

#include "layout.h"

/* bind(*values, **named) and convert(signature, *, errors, name), METH_FASTCALL | METH_KEYWORDS. */
PyObject *nc_callable_bind(PyObject *callable, PyObject *const *args, Py_ssize_t nargs,
                           PyObject *kwnames);
PyObject *nc_callable_convert(PyObject *callable, PyObject *const *args, Py_ssize_t nargs,
                              PyObject *kwnames);

/* _converted(wanted, errors, name): a single as another call interface says, its only entry as it
 * is; by an error convention and with a name, or None. None where it is no single any more. */
PyObject *nc_callable_converted(PyObject *callable, PyObject *args);

/* What is passed where C wants a function of another call interface: a thunk, whose pointer
 * *address becomes, and whose entry has none of the flags in `refuse`. NULL with an exception; or
 * without one, where Python code has to convert it, or to say why it cannot. */
PyObject *nc_convert_passed(NcCallable *self, NcCallInterface *wanted, uintptr_t refuse,
                            void **address);

extern const char nc_doc_bind[];
extern const char nc_doc_convert[];

#endif
