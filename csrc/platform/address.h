/* csrc/platform/address.h: addresses that Python code gives and gets as integers, and other
 * converters for PyArg_Parse. With the GIL. */
#ifndef NC_ADDRESS_H
#define NC_ADDRESS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

/* The type of a PyMemberDef that is an address. */
#define NC_T_ADDRESS (sizeof(void *) == 8 ? T_ULONGLONG : T_UINT)

/* The address; NULL with an exception, for 0 ValueError with this text. */
static inline void *nc_address(PyObject *number, const char *refusal)
{
    void *address = PyLong_AsVoidPtr(number);
    if (address == NULL && !PyErr_Occurred()) {
        PyErr_SetString(PyExc_ValueError, refusal);
    }
    return address;
}

/* For PyArg_Parse, by "O&": an int, 0 for NULL, as the address in a `void *`. */
static inline int nc_take_address(PyObject *number, void *place)
{
    if (!PyLong_Check(number)) {
        PyErr_Format(PyExc_TypeError, "an address must be an int (got %.200s)",
                     Py_TYPE(number)->tp_name);
        return 0;
    }
    *(void **)place = PyLong_AsVoidPtr(number);
    return *(void **)place != NULL || !PyErr_Occurred();
}

/* The same: any object, NULL for None, as a new reference in a member of an object, which drops it
 * where what follows is refused. */
static inline int nc_take_reference(PyObject *object, void *place)
{
    *(PyObject **)place = object != Py_None ? Py_NewRef(object) : NULL;
    return 1;
}

#endif
