/* csrc/platform/address.h: converts addresses to and from Python ints; also has other converters
 * for PyArg_Parse.
 *
 * Threads: everything here needs the GIL. */
#pragma once

#include <Python.h>
#include <structmember.h>

/* The type code in a PyMemberDef for an address. */
#define NC_T_ADDRESS (sizeof(void *) == 8 ? T_ULONGLONG : T_UINT)

/* Returns the address in an int, or NULL with an exception. For 0, raises ValueError with the
 * message `refusal`. */
static inline void *nc_address(PyObject *number, const char *refusal)
{
    void *address = PyLong_AsVoidPtr(number);
    if (address == NULL && !PyErr_Occurred()) {
        PyErr_SetString(PyExc_ValueError, refusal);
    }
    return address;
}

/* A converter for "O&" in PyArg_Parse: stores an int as an address in a `void *`; 0 becomes
 * NULL. */
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

/* A converter for any object: stores a new reference, or NULL for None, in a member of an object.
 * If parsing fails later, that object's destructor releases the reference. */
static inline int nc_take_reference(PyObject *object, void *place)
{
    *(PyObject **)place = object != Py_None ? Py_NewRef(object) : NULL;
    return 1;
}
