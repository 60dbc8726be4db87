/* csrc/ground/address.h: addresses that Python code gives and gets as integers. With the GIL. */
#ifndef NC_ADDRESS_H
#define NC_ADDRESS_H

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

#endif
