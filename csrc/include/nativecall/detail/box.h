/* nativecall/detail/box.h: what other libraries' objects hold, as the package reads them.
 *
 * Idea:      a box is an object of another library that holds a C function pointer and knows its
 *            type, but nothing of us: a capsule, SciPy's LowLevelCallable, a function pointer of
 *            ctypes or of cffi, a cfunc of Numba, what nativecall.register_box was given. The
 *            package has a bridge for each of them, and makes a native callable of it.
 * Imports:   the package, when an object is first met that may be a box; Python functions,
 *            classes, methods and functions of modules are none. Where it cannot be imported,
 *            what Python can call is no box, and a capsule or LowLevelCallable is ImportError.
 * Ownership: an NcBox owns its objects until nc_box_close(). The native callable keeps the box.
 * Threads:   with the GIL. */
#ifndef NATIVECALL_BOX_H
#define NATIVECALL_BOX_H

#include <Python.h>

#include "compat.h"

NC_C_BEGIN

typedef struct {
    PyObject *native;  /* a native callable with the entries of the box; NULL: see unknown */
    PyObject *unknown; /* a str: why no signature describes its function; else NULL */
    void *user_data;   /* NULL unless has_user_data */
    int has_user_data; /* the function must get user_data in one of its arguments */
    int named;         /* nothing but a capsule's name tells the function's type */
} NcBox;

/* Set when the package could not be imported; from then on it is looked for in sys.modules. */
NC_SHARED_VARIABLE int nc_box_alone = 0;

/* The function of the package that opens boxes, a new reference; NULL with or without an exception
 * where there is no package. */
NC_COLD PyObject *nc_box_opener(PyObject *obj)
{
    const int is_box =
        PyCapsule_CheckExact(obj) || (PyTuple_Check(obj) && !PyTuple_CheckExact(obj));
    PyObject *package = nc_dict_item(PyImport_GetModuleDict(), "nativecall");
    PyObject *opener = NULL;
    if (package == NULL && !PyErr_Occurred() && (is_box || !nc_box_alone)) {
        package = PyImport_ImportModule("nativecall");
    }
    if (package != NULL) {
        opener = PyObject_GetAttrString(package, "_open_box");
        Py_DecRef(package);
    }
    if (opener == NULL && (PyErr_ExceptionMatches(PyExc_ImportError) ||
                           PyErr_ExceptionMatches(PyExc_AttributeError))) {
        PyObject *cause = nc_exception_take();
        nc_box_alone = 1;
        if (is_box) {
            PyErr_Format(PyExc_ImportError,
                         "%R is read by 'nativecall', which cannot be imported (%S); install it, "
                         "or pass a Python function or an object with native entries",
                         obj, cause);
        }
        Py_DecRef(cause);
    }
    return opener;
}

/* Asks the package what obj holds. 1, and the box is to be closed; 0 when it is no box; -1 with an
 * exception. */
NC_COLD int nc_box_open(PyObject *obj, NcBox *box)
{
    PyObject *self = PyCFunction_CheckExact(obj) ? PyCFunction_GET_SELF(obj) : obj;
    PyObject *opener, *found, *data;
    int opened = 0;
    memset(box, 0, sizeof *box);
    if (self == NULL || PyModule_Check(self) || PyFunction_Check(obj) || PyMethod_Check(obj) ||
        PyType_Check(obj) || (opener = nc_box_opener(obj)) == NULL) {
        return PyErr_Occurred() ? -1 : 0;
    }
    found = PyObject_CallOneArg(opener, obj);
    Py_DecRef(opener);
    if (found != NULL && found != Py_None &&
        PyArg_ParseTuple(found, "OOp", &box->native, &data, &box->named)) {
        box->has_user_data = data != Py_None;
        box->user_data = box->has_user_data ? PyLong_AsVoidPtr(data) : NULL;
        Py_IncRef(box->native);
        if (PyUnicode_Check(box->native)) {
            box->unknown = box->native;
            box->native = NULL;
        }
        opened = 1;
    }
    Py_DecRef(found);
    return PyErr_Occurred() ? -1 : opened;
}

/* Gives back what a box that was opened owns; nothing of one that was not. */
NC_STATIC_INLINE void nc_box_close(NcBox *box)
{
    Py_DecRef(box->native);
    Py_DecRef(box->unknown);
}

NC_C_END

#endif
