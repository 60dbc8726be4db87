/* nativecall/detail/shared.h: for data shared by threads, or by modules with copies of these
 * headers. All functions need the GIL. */
#ifndef NATIVECALL_SHARED_H
#define NATIVECALL_SHARED_H

#include "compat.h"

NC_C_BEGIN

/* A lock that builds with the GIL do not need, since the GIL serializes the same code. */
#if defined(Py_GIL_DISABLED)
enum { NC_WITHOUT_GIL = 1 };
typedef PyMutex NcLock;
#define NC_LOCK(lock) PyMutex_Lock(lock)
#define NC_UNLOCK(lock) PyMutex_Unlock(lock)
#else
enum { NC_WITHOUT_GIL = 0 };
typedef char NcLock;
#define NC_LOCK(lock) ((void)(lock))
#define NC_UNLOCK(lock) ((void)(lock))
#endif

/* Like nc_dict_default, for a name. */
NC_COLD PyObject *nc_dict_first(PyObject *dict, const char *name, PyObject *value)
{
    PyObject *key = PyUnicode_FromString(name);
    PyObject *found = key != NULL ? nc_dict_default(dict, key, value) : NULL;
    Py_DecRef(key);
    return found;
}

NC_C_END

#endif
