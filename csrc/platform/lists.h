/* csrc/platform/lists.h: lists that are made row by row. With the GIL. */
#ifndef NC_LISTS_H
#define NC_LISTS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Appends a new object, which it takes, to a list; clears that where the object was not made, which
 * is NULL with an exception, or memory is short. */
static inline void nc_list_take(PyObject **list, PyObject *made)
{
    if (made == NULL || PyList_Append(*list, made) < 0) {
        Py_CLEAR(*list);
    }
    Py_XDECREF(made);
}

#endif
