/* csrc/platform/lists.h: helpers for lists that are built row by row, for tuples, and for bounded
 * dicts.
 *
 * Threads: everything here needs the GIL. Without it, several threads may use a bounded dict. */
#pragma once

#include "lock.h"

/* Appends a new object and takes over its reference. If the object is NULL or the append fails,
 * clears *list, with an exception set. */
static inline void nc_list_take(PyObject **list, PyObject *made)
{
    if (made == NULL || PyList_Append(*list, made) < 0) {
        Py_CLEAR(*list);
    }
    Py_XDECREF(made);
}

/* Returns a new tuple of a call's arguments, or NULL with an exception. */
static inline PyObject *nc_tuple_of(PyObject *const *args, Py_ssize_t count)
{
    PyObject *made = PyTuple_New(count);
    for (Py_ssize_t i = 0; made != NULL && i < count; i++) {
        PyTuple_SET_ITEM(made, i, Py_NewRef(args[i]));
    }
    return made;
}

/* Converts `parts`, a tuple, to a subclass of tuple. Steals the reference to `parts`. Returns NULL
 * with an exception on failure. */
static inline PyObject *nc_tuple_as(PyObject *type, PyObject *parts)
{
    PyObject *args = parts != NULL ? PyTuple_Pack(1, parts) : NULL;
    PyObject *made =
        args != NULL ? PyTuple_Type.tp_new((PyTypeObject *)(void *)type, args, NULL) : NULL;
    Py_XDECREF(args);
    Py_XDECREF(parts);
    return made;
}

/* Stores a value in a bounded dict. The dict is created on first use, and cleared when it has
 * `most` items. Returns 0, or -1 with an exception. */
static inline int nc_dict_put(PyObject **place, Py_ssize_t most, PyObject *key, PyObject *value)
{
    PyObject *dict = nc_kept(place);
    if (dict == NULL) {
        dict = nc_keep_first(place, PyDict_New());
    } else if (PyDict_GET_SIZE(dict) >= most) {
        PyDict_Clear(dict);
    }
    return dict != NULL ? PyDict_SetItem(dict, key, value) : -1;
}
