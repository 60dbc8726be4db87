/* csrc/platform/lists.h: lists that are made row by row, and tuples of arguments. With the GIL. */
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

/* A new tuple of so many arguments of a call; NULL with an exception. */
static inline PyObject *nc_tuple_of(PyObject *const *args, Py_ssize_t count)
{
    PyObject *made = PyTuple_New(count);
    for (Py_ssize_t i = 0; made != NULL && i < count; i++) {
        PyTuple_SET_ITEM(made, i, Py_NewRef(args[i]));
    }
    return made;
}

#endif
