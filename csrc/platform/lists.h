/* csrc/platform/lists.h: lists that are made row by row, tuples, and dicts with a bound. With the
 * GIL. */
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

/* A new tuple of a subclass of tuple, of another one, which it takes; NULL with an exception. */
static inline PyObject *nc_tuple_as(PyObject *type, PyObject *parts)
{
    PyObject *args = parts != NULL ? PyTuple_Pack(1, parts) : NULL;
    PyObject *made =
        args != NULL ? PyTuple_Type.tp_new((PyTypeObject *)(void *)type, args, NULL) : NULL;
    Py_XDECREF(args);
    Py_XDECREF(parts);
    return made;
}

/* Keeps a value in a dict, which is made with the first and cleared when it has `most`: 0, or -1
 * with an exception. */
static inline int nc_dict_put(PyObject **dict, Py_ssize_t most, PyObject *key, PyObject *value)
{
    if (*dict == NULL) {
        PyObject *made = PyDict_New();
        if (*dict == NULL) { /* a collection may run code that came here, too */
            *dict = made;
        } else {
            Py_XDECREF(made);
        }
    } else if (PyDict_GET_SIZE(*dict) >= most) {
        PyDict_Clear(*dict);
    }
    return *dict != NULL ? PyDict_SetItem(*dict, key, value) : -1;
}

#endif
