/* nativecall/box.h: what every box has, and how foreign objects are asked.
 *
 * Idea:    a box is an object of another library that holds a C function pointer and knows its
 *          type, but nothing of us. boxes.h opens them.
 * Imports: nothing, ever. An object of a library exists only if that library is in sys.modules, and
 *          is asked through its own attributes.
 * Errors:  an attribute that is missing is no error: a box that does not tell its function's type
 *          has an unknown signature. Exceptions other than AttributeError and TypeError, which
 *          foreign attributes may raise, are passed on.
 * Threads: with the GIL. */
#ifndef NATIVECALL_BOX_H
#define NATIVECALL_BOX_H

#include <Python.h>

#include "calltable.h"
#include "declaration.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const char *kind;          /* "a ctypes function pointer", for messages; static */
    void *address;             /* of the function, may be NULL */
    void *user_data;           /* NULL unless has_user_data */
    int has_user_data;         /* the function must get user_data in one of its arguments */
    uintptr_t flags;           /* NC_FLAG_* */
    const char *unknown;       /* why the signature is not known, static; NULL: it is */
    NcSignatureText signature; /* canonical */
} NcBox;

/* ---- attributes ------------------------------------------------------------------------------ */

/* Clears the exceptions that mean "this object does not tell". 0, or -1 with another exception. */
NC_STATIC int nc_box_shrug(void)
{
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_AttributeError) &&
        !PyErr_ExceptionMatches(PyExc_TypeError)) {
        return -1;
    }
    PyErr_Clear();
    return 0;
}

/* An attribute, a new reference; NULL with or without an exception. An exception that is set already
 * stays, so that several attributes can be asked for and one check is enough. */
NC_STATIC PyObject *nc_box_attribute(PyObject *obj, const char *name)
{
    PyObject *value = PyErr_Occurred() ? NULL : PyObject_GetAttrString(obj, name);
    if (value == NULL) {
        (void)nc_box_shrug();
    }
    return value;
}

/* A module's attribute if the module is imported, a new reference; NULL with or without an
 * exception. */
NC_STATIC PyObject *nc_box_imported(const char *module, const char *name)
{
    PyObject *found = PyDict_GetItemString(PyImport_GetModuleDict(), module);
    return found != NULL ? nc_box_attribute(found, name) : NULL;
}

/* Whether obj is an instance of a class of an imported module. 1, 0, or -1 with an exception. */
NC_STATIC int nc_box_is(PyObject *obj, const char *module, const char *name)
{
    PyObject *type = nc_box_imported(module, name);
    int is = 0;
    if (type != NULL) {
        is = PyType_Check(type) && PyType_IsSubtype(Py_TYPE(obj), (PyTypeObject *)(void *)type);
        Py_DECREF(type);
    } else if (PyErr_Occurred()) {
        is = -1;
    }
    return is;
}

/* Whether an attribute, a string, is this text. 1, 0, or -1 with an exception. */
NC_STATIC int nc_box_attribute_is(PyObject *obj, const char *name, const char *text)
{
    PyObject *value = nc_box_attribute(obj, name);
    int is = 0;
    if (value != NULL) {
        is = PyUnicode_Check(value) && PyUnicode_CompareWithASCIIString(value, text) == 0;
        Py_DECREF(value);
    }
    return PyErr_Occurred() ? -1 : is;
}

/* An integer attribute's value as an address. 0, or -1 with an exception. */
NC_STATIC int nc_box_address(PyObject *value, void **out)
{
    *out = PyLong_AsVoidPtr(value);
    return *out == NULL && PyErr_Occurred() ? -1 : 0;
}

/* The type that a string names, appended. 0, or -1 with an exception. */
NC_STATIC int nc_box_named_type(PyObject *name, NcSignatureText *out)
{
    Py_ssize_t length = 0;
    const char *text = PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, &length) : NULL;
    if (text == NULL) {
        PyErr_Clear();
        nc_text_fail(out, NC_E_FORMAT);
    } else {
        nc_declaration_type(text, (size_t)length, out);
    }
    return 0;
}

#ifdef __cplusplus
}
#endif

#endif
