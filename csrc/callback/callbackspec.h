/* csrc/callback/callbackspec.h: what all callbacks of a signature share: how arguments are read and
 * the result is written. A call spec (layout.h) is the same of the other direction.
 *
 * Made once by Python code for a signature, and never changed. */
#ifndef NC_CALLBACKSPEC_H
#define NC_CALLBACKSPEC_H

#include "layout.h"

typedef struct {
    PyObject_HEAD
    PyObject *readers;  /* tuple: for each argument that is no number, what makes an object of it */
    PyObject *objects;  /* tuple: offsets of Python objects in the result */
    NcCallSpec *result; /* has the result as its only argument; NULL for none and Python objects */
    PyObject *record;   /* stores the usual values of a struct result; or NULL */
    PyObject *writer;   /* (value, address, who, keep): stores any struct; with ctypes
                           (callback, value) -> what ctypes gives to C; or NULL */
    PyObject *give;     /* with ctypes: (sentinel) -> the object that ctypes is given for it; else
                           NULL */
    PyObject *carrier;  /* with ctypes: the class of a result that carries a reraiser, or NULL */
    char code;          /* letter of the result */
} NcCallbackSpec;

extern PyTypeObject NcCallbackSpec_Type;

/* Whether a sentinel of `size` bytes is a result, and its objects lie in it: 0, or -1 with
 * ValueError. */
int nc_callbackspec_check_sentinel(const NcCallbackSpec *spec, Py_ssize_t size);

#endif
