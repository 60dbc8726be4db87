/* csrc/callable/builtinview.h: `f.builtin`, a native callable as a real built-in function. CPython
 * calls built-in functions faster than objects of any other type. The callable owns the
 * PyMethodDef, and is the `__self__` of the built-in function. The callable holds only a weak
 * reference to the built-in function.
 *
 * Threads: everything here needs the GIL. */
#pragma once

#include "layout.h"

/* The getter of `builtin`: returns the living view, or creates a view. */
PyObject *nc_builtinview_get(PyObject *callable, void *closure);

/* Call this when a callable gets a second entry. If the callable has a living view (there is at
 * most one), the view then takes any number of arguments and uses all entries. A living view can
 * change in this way, because CPython reads the calling convention of a built-in function at each
 * call. */
void nc_builtinview_overload(NcCallable *self);

/* Call once, before the first view is created. Returns -1 with an exception on failure. */
int nc_builtinview_ready(void);
