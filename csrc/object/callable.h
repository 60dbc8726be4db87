/* csrc/object/callable.h: the type of native callables. Its structs are in layout.h, its calls in
 * callablecalls.h and overload.h.
 *
 * Threads: everything here needs the GIL. */
#ifndef NC_CALLABLE_H
#define NC_CALLABLE_H

#include "layout.h"

/* Module-level functions and types; -1 with an exception. */
int nc_callable_ready(PyObject *module);

#endif
