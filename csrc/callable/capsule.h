/* csrc/callable/capsule.h: capsules that own what they point into, and have their entry with them.
 *
 * Threads: everything here needs the GIL. */
#ifndef NC_CAPSULE_H
#define NC_CAPSULE_H

#include "layout.h"

/* A capsule of a pointer, which is not NULL, named by so many bytes; of none: without a name. */
PyObject *nc_capsule_new(void *pointer, const char *name, size_t length, PyObject *owner);

/* Whether nc_capsule_new made an object. */
int nc_capsule_is_ours(PyObject *object);

/* What it keeps alive, a borrowed reference. */
PyObject *nc_capsule_owner(PyObject *capsule);

#endif
