/* nativecall/detail/objectbody.h: builds the native class that a Python class body describes. A
 * capsule in the namespace holds the description until CPython has computed the MRO. Then the class
 * is built along that MRO. All functions need the GIL. */
#ifndef NATIVECALL_OBJECTBODY_H
#define NATIVECALL_OBJECTBODY_H

#include "objectlife.h"

NC_C_BEGIN

NC_STATIC void nc_class_capsule_free(PyObject *capsule)
{
    nc_class_free((NcClass *)PyCapsule_GetPointer(capsule, NC_CLASS_CAPSULE));
}

/* Return a new capsule with a copy of a class, without inherited members. */
NC_STATIC PyObject *nc_class_capsule(const NcClass *own)
{
    NcClass *cls = nc_class_copy(own);
    PyObject *capsule = cls != NULL ? PyCapsule_New(cls, NC_CLASS_CAPSULE, nc_class_capsule_free)
                                    : PyErr_NoMemory();
    if (capsule == NULL) {
        nc_class_free(cls);
    }
    return capsule;
}

/* Check the bases of a new class. Return 0, or -1 with TypeError. */
NC_STATIC int nc_class_check_bases(PyObject *name, PyObject *bases)
{
    int native = nc_objects->root == NULL;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(bases); i++) {
        PyObject *base = PyTuple_GET_ITEM(bases, i);
        if (PyType_Check(base) && nc_type_is_native((PyTypeObject *)(void *)base)) {
            const NcClass *made = nc_type_class((PyTypeObject *)(void *)base);
            if (made == NULL || (made->flags & NC_CLASS_FAILED) != 0) {
                PyErr_Format(PyExc_TypeError,
                             made == NULL
                                 ? "class '%U' cannot derive from %R, which is still being created"
                                 : "class '%U' cannot derive from %R: its class statement failed",
                             name, base);
                return -1;
            }
            native = 1;
        }
    }
    if (!native) {
        PyErr_Format(PyExc_TypeError, "class '%U' needs a base class of native objects, such as %R",
                     name, nc_objects->root);
    }
    return native ? 0 : -1;
}

/* Store a new capsule in the namespace of a class, and return a new reference to it. The new
 * capsule holds a copy of the class in the namespace's capsule. If the namespace has none, the
 * package's `describe` may return a capsule to copy from. Otherwise the new capsule holds a class
 * without members. */
NC_STATIC PyObject *nc_class_from_space(PyObject *name, PyObject *bases, PyObject *space)
{
    PyObject *given =
        nc_class_check_bases(name, bases) == 0 ? nc_dict_item(space, NC_CLASS_ATTRIBUTE) : NULL;
    PyObject *capsule = NULL;
    if (given == NULL && !PyErr_Occurred() && nc_objects->describe != NULL) {
        given = nc_objects->describe(name, bases, space);
    }
    if (PyErr_Occurred()) {
        return NULL;
    }
    if (given == NULL || given == Py_None) {
        NcClass own;
        memset(&own, 0, sizeof own);
        own.name = PyUnicode_AsUTF8(name);
        capsule = own.name != NULL ? nc_class_capsule(&own) : NULL;
    } else if (PyCapsule_IsValid(given, NC_CLASS_CAPSULE)) {
        capsule = nc_class_capsule((NcClass *)PyCapsule_GetPointer(given, NC_CLASS_CAPSULE));
    } else {
        PyErr_Format(PyExc_TypeError,
                     "class '%U': '" NC_CLASS_ATTRIBUTE "' is reserved for nc_class_define "
                     "(got %.200s); leave it out",
                     name, Py_TYPE(given)->tp_name);
    }
    Py_XDECREF(given);
    if (capsule != NULL && PyDict_SetItemString(space, NC_CLASS_ATTRIBUTE, capsule) < 0) {
        Py_CLEAR(capsule);
    }
    return capsule;
}

/* Build the class whose capsule is in the namespace of a type. `order` is the MRO that CPython has
 * computed, as a list. Return 0, or -1 with an exception. */
NC_STATIC int nc_class_make_along(PyTypeObject *type, PyObject *order)
{
    PyObject *capsule = nc_type_own(type, NC_CLASS_ATTRIBUTE);
    NcClass *cls = (NcClass *)PyCapsule_GetPointer(capsule, NC_CLASS_CAPSULE);
    const NcClass **native =
        (const NcClass **)PyMem_Calloc((size_t)PyList_GET_SIZE(order), sizeof *native);
    const NcClass *first = NULL;
    NcClassProblem problem;
    size_t count = 0;
    int status = -1;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_bases) && first == NULL; i++) {
        first = nc_type_class((PyTypeObject *)(void *)PyTuple_GET_ITEM(type->tp_bases, i));
    }
    for (Py_ssize_t i = 1; native != NULL && i < PyList_GET_SIZE(order); i++) {
        native[count] = nc_type_class((PyTypeObject *)(void *)PyList_GET_ITEM(order, i));
        count += native[count] != NULL;
    }
    if (cls != NULL && native == NULL) {
        PyErr_NoMemory();
    } else if (cls != NULL && (cls->flags & NC_CLASS_MADE) != 0) {
        status = 0; /* a metaclass has called mro() before */
    } else if (cls != NULL) {
        cls->type_at = offsetof(PyObject, ob_type);
        cls->after = sizeof(PyObject);
        cls->waiting = &nc_objects->waiting;
        status = nc_class_make(cls, first, native, count, &problem) == NC_OK ? 0 : -1;
        if (status < 0 && problem.text[0] != 0) {
            PyErr_SetString(PyExc_TypeError, problem.text);
        } else if (status < 0) {
            PyErr_NoMemory();
        }
    }
    PyMem_Free((void *)native);
    Py_XDECREF(capsule);
    return status;
}

NC_C_END

#endif
