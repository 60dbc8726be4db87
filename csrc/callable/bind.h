/* csrc/callable/bind.h: `f.bind` and `f.convert`: callables that call another callable through a
 * thunk.
 *
 * These functions are the fast path: they look up the thunk spec by call interfaces and bound
 * arguments. Python code (nativecall/_callable/thunk.py) handles the rest: new specs, options,
 * overloaded callables and errors.
 *
 * Threads: everything here needs the GIL. */
#pragma once

#include "layout.h"

/* bind(*values, **named) and convert(signature, *, errors, name), METH_FASTCALL | METH_KEYWORDS. */
NcKeywordMethod nc_callable_bind, nc_callable_convert;

/* _converted(wanted, errors, name): converts a callable with a single entry to another call
 * interface, with an error convention and a name, each of which may be None. Returns None if the
 * callable no longer has a single entry. */
PyObject *nc_callable_converted(PyObject *callable, PyObject *args);

/* Makes a thunk for a callable that is passed where C expects a function of another call interface,
 * and sets *address to the thunk's C function pointer. The thunk's entry has none of the flags in
 * `refuse`. Returns NULL with an exception on failure. Returns NULL without an exception if Python
 * code must convert the callable or raise the error. */
PyObject *nc_convert_passed(NcCallable *self, NcCallInterface *wanted, uintptr_t refuse,
                            void **address);

extern const char nc_doc_bind[];
extern const char nc_doc_convert[];
