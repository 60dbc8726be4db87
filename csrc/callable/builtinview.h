/* csrc/callable/builtinview.h: `f.builtin`, a native callable as a real built-in function.
 * CPython's interpreter calls those faster than objects of any other type. The callable owns the
 * PyMethodDef and is the function's `self`; its reference to the function is weak.
 *
 * Threads: everything here needs the GIL. */
#ifndef NC_BUILTINVIEW_H
#define NC_BUILTINVIEW_H

#include "layout.h"

/* The getter of `builtin`: the living view, or a new one. */
PyObject *nc_builtinview_get(PyObject *callable, void *closure);

/* Called when a callable gets a second entry. Its living view, of which there is at most one, then
 * takes any number of arguments and sees all entries: CPython reads the convention at each call. */
void nc_builtinview_overload(NcCallable *self);

/* Once, before the first view is made; -1 with an exception. */
int nc_builtinview_ready(void);

#endif
