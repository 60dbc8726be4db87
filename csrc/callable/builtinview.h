/* csrc/callable/builtinview.h: a native callable as a real built-in function, `f.builtin`, which
 * CPython's interpreter calls faster than objects of any other type. The callable owns the
 * PyMethodDef and is the function's `self`; it refers to the function weakly.
 *
 * Threads: everything here needs the GIL. */
#ifndef NC_BUILTINVIEW_H
#define NC_BUILTINVIEW_H

#include "layout.h"

/* The getter of the attribute: the living view, or a new one. */
PyObject *nc_builtinview_get(PyObject *callable, void *closure);

/* For a callable that gets a second entry: its living view takes any number of arguments from now
 * on, and sees all entries. There is one at most, and CPython reads its convention at each call. */
void nc_builtinview_overload(NcCallable *self);

/* Once, before the first view is made; -1 with an exception. */
int nc_builtinview_ready(void);

#endif
