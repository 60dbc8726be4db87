/* csrc/object/callable.h: the type of native callables. Its structs are in layout.h, its calls in
 * callablecalls.h and overload.h.
 *
 * Threads: everything here needs the GIL. */
#ifndef NC_CALLABLE_H
#define NC_CALLABLE_H

#include "layout.h"

/* Module-level functions and types; -1 with an exception. */
int nc_callable_ready(PyObject *module);

/* Whether a native callable has one entry, of the function at this address. */
int nc_callable_is_only(PyObject *callable, const void *address);

#endif
