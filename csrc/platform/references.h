/* csrc/platform/references.h: references to objects that all threads use, such as call interfaces.
 *
 * Without the GIL, threads that count references to one object contend for its count, although each
 * drops what it adds (PEP 703). So each thread keeps the references that it drops here, and takes
 * them again. It also remembers what it found in shared dicts.
 *
 * A thread may hold such an object until it ends, or until another object takes the place. So these
 * functions are for caches and for what they contain, not for objects of users. Others may count
 * the same references as usual.
 *
 * Threads: each has its own table. All functions need an attached thread. */
#pragma once

#include "compat.h"

#if defined(Py_GIL_DISABLED)

/* As nc_dict_get, for a dict whose keys keep their meaning. May return a value that the dict has
 * lost. */
PyObject *nc_shared_get(PyObject *dict, PyObject *key);
/* As Py_NewRef and Py_XDECREF. */
void *nc_shared_ref(void *object);
void nc_shared_drop(void *object);

#else
#define nc_shared_get nc_dict_get
#define nc_shared_ref(object) ((void *)Py_NewRef((PyObject *)(object)))
#define nc_shared_drop(object) Py_XDECREF((PyObject *)(object))
#endif
