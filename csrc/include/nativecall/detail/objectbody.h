/* nativecall/detail/objectbody.h: the native class that a class body says, before Python makes its
 * own: the order of Python, what the body has itself, or why the class cannot be.
 * All of it needs the GIL. */
#ifndef NATIVECALL_OBJECTBODY_H
#define NATIVECALL_OBJECTBODY_H

#include "objectlife.h"
#include "objectorder.h"

NC_C_BEGIN

NC_STATIC void nc_class_capsule_free(PyObject *capsule)
{
    NcClass *cls = (NcClass *)PyCapsule_GetPointer(capsule, NC_CLASS_CAPSULE);
    if (cls == NULL) {
        PyErr_Clear();
    } else if (PyCapsule_GetContext(capsule) == NULL) {
        nc_class_clear(cls);
        free(cls);
    }
}

/* A capsule that owns an unmade class (malloc's) until the metaclass takes it: a new reference.
 * Frees it where there is no capsule. */
NC_STATIC PyObject *nc_class_capsule(NcClass *cls)
{
    PyObject *capsule = PyCapsule_New((void *)cls, NC_CLASS_CAPSULE, nc_class_capsule_free);
    if (capsule == NULL) {
        nc_class_clear(cls);
        free(cls);
    }
    return capsule;
}

#define NC_FIELDS_OVERLAP                                                                          \
    "class '%U': fields '%s' and '%s' lie over one another, and one of them is a reference, "      \
    "which needs its bytes alone"

/* Says why a class cannot be: TypeError, or MemoryError. */
NC_STATIC void nc_class_refused(PyObject *name, int status, const NcClassProblem *problem)
{
    const char *first = problem->first != NULL ? problem->first->name : "?";
    const char *second = problem->second != NULL ? problem->second->name : "?";
    if (status == NC_E_NOMEM) {
        PyErr_NoMemory();
    } else if (status == NC_E_DUPLICATE) {
        const char *end = strchr(problem->name, ' ');
        const int length = end != NULL ? (int)(end - problem->name) : (int)strlen(problem->name);
        char shown[100];
        PyOS_snprintf(shown, sizeof shown, "%.*s", length, problem->name);
        if (problem->first_key == NULL && problem->second_key == NULL) {
            PyErr_Format(PyExc_TypeError,
                         problem->first == problem->second
                             ? "class '%U': '%s' is a field of '%s' twice; one name is one field"
                             : "class '%U': '%s' is a field of '%s' and another of '%s'; one name "
                               "is one field",
                         name, shown, first, second);
            return;
        }
        PyErr_Format(
            PyExc_TypeError,
            "class '%U': '%s' is %s%s in '%s', but %s%s in '%s'; one name is one field, or "
            "one method with one signature",
            name, shown, problem->first_key != NULL ? "method" : "a field",
            problem->first_key != NULL ? problem->first_key + length : "", first,
            problem->second_key != NULL ? "method" : "a field",
            problem->second_key != NULL ? problem->second_key + length : "", second);
    } else if (problem->name != NULL && problem->second != NULL) {
        PyErr_Format(PyExc_TypeError, NC_FIELDS_OVERLAP, name, problem->name, problem->second_key);
    } else if (problem->name != NULL) {
        PyErr_Format(PyExc_TypeError,
                     "class '%U': field '%s' does not lie within the %zu bytes of its fields, at a "
                     "multiple of its alignment, which is theirs too",
                     name, problem->name, problem->first->fields_size);
    } else {
        PyErr_Format(PyExc_TypeError,
                     "class '%U' has fields of an alignment that is no power of two up to %d, or, "
                     "with those of its bases, more than a gigabyte",
                     name, (int)NC_OBJECT_ALIGN);
    }
}

/* Merges the orders of Python, plain classes included, and says which conflict. `merged` has room
 * for all of them. -1 with an exception. */
NC_STATIC int nc_types_merge(PyObject *name, PyObject *bases, NcOrder *orders, const void **merged,
                             size_t *count)
{
    const void *conflict[2];
    size_t used = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(bases); i++) {
        PyObject *base = PyTuple_GET_ITEM(bases, i);
        PyObject *order = NULL;
        if (!PyType_Check(base)) {
            PyErr_Format(PyExc_TypeError, "class '%U': bases must be types (got %R)", name, base);
            return -1;
        }
        order = ((PyTypeObject *)(void *)base)->tp_mro;
        if (order != NULL) { /* else CPython refuses the base */
            orders[used++] = nc_order((void *)&PyTuple_GET_ITEM(order, 0), sizeof(PyObject *),
                                      (size_t)PyTuple_GET_SIZE(order));
        }
    }
    orders[used] = nc_order((void *)&PyTuple_GET_ITEM(bases, 0), sizeof(PyObject *),
                            (size_t)PyTuple_GET_SIZE(bases));
    if (nc_orders_merge(orders, used + 1, merged, count, conflict) == NC_OK) {
        return 0;
    }
    PyErr_Format(PyExc_TypeError,
                 conflict[0] == conflict[1]
                     ? "class '%U' has the base '%s' twice"
                     : "class '%U' has no consistent order of bases (MRO): '%s' and '%s' each "
                       "stand before the other in one of them",
                 name, ((const PyTypeObject *)conflict[0])->tp_name,
                 ((const PyTypeObject *)conflict[1])->tp_name);
    return -1;
}

/* The native classes along the order that Python gives a class with these bases: PyMem_Free's, or
 * NULL with an exception. */
NC_STATIC const NcClass **nc_class_order(PyObject *name, PyObject *bases, size_t *count)
{
    const size_t base_count = (size_t)PyTuple_GET_SIZE(bases);
    NcOrder *orders = (NcOrder *)PyMem_Calloc(base_count + 1, sizeof *orders);
    const void **merged = NULL;
    const NcClass **native;
    size_t capacity = base_count + 1;
    size_t found = 0;
    size_t i;
    *count = 0;
    for (i = 0; i < base_count; i++) {
        PyObject *base = PyTuple_GET_ITEM(bases, i);
        PyObject *order = PyType_Check(base) ? ((PyTypeObject *)(void *)base)->tp_mro : NULL;
        capacity += order != NULL ? (size_t)PyTuple_GET_SIZE(order) : 0;
    }
    merged = (const void **)PyMem_Calloc(capacity, sizeof *merged);
    if (orders == NULL || merged == NULL) {
        PyErr_NoMemory();
        goto fail;
    }
    if (nc_types_merge(name, bases, orders, merged, &found) < 0) {
        goto fail;
    }
    native = (const NcClass **)(void *)merged; /* written behind what is read */
    for (i = 0; i < found; i++) {
        const NcClass *cls = nc_type_class((PyTypeObject *)(uintptr_t)merged[i]);
        if (cls != NULL) {
            native[(*count)++] = cls;
        }
    }
    PyMem_Free(orders);
    return native;

fail:
    PyMem_Free(orders);
    PyMem_Free((void *)merged);
    return NULL;
}

/* Gives a class that owns nothing yet a copy of its name: the type's may be assigned anew, while
 * native code reads this one. -1 with an exception. */
NC_STATIC int nc_class_keep_name(NcClass *cls, PyObject *name)
{
    Py_ssize_t length = 0;
    const char *text = PyUnicode_AsUTF8AndSize(name, &length);
    char *copy = text != NULL && cls->owned == NULL ? (char *)malloc((size_t)length + 1) : NULL;
    if (copy == NULL) {
        if (text != NULL) {
            PyErr_NoMemory();
        }
        return -1;
    }
    memcpy(copy, text, (size_t)length + 1);
    cls->owned = copy;
    cls->name = copy;
    return 0;
}

/* Takes the class of a namespace, or an empty one; a new NcClass that is made. */
NC_STATIC NcClass *nc_class_from_space(PyObject *name, PyObject *bases, PyObject *space)
{
    const NcClass *first = NULL;
    const NcClass **order = NULL;
    size_t count = 0;
    NcClassProblem problem;
    NcClass *cls = NULL;
    PyObject *capsule = nc_dict_item(space, NC_CLASS_ATTRIBUTE);
    int status;
    if (PyErr_Occurred()) {
        goto fail;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(bases); i++) {
        PyObject *base = PyTuple_GET_ITEM(bases, i);
        if (PyType_Check(base) && nc_type_is_native((PyTypeObject *)(void *)base)) {
            const NcClass *made = nc_type_class((PyTypeObject *)(void *)base);
            first = first != NULL ? first : made;
            if (made == NULL) {
                PyErr_Format(PyExc_TypeError,
                             "class '%U' cannot derive from %R, which is being made", name, base);
                goto fail;
            }
            if ((made->flags & NC_CLASS_FAILED) != 0) {
                PyErr_Format(PyExc_TypeError,
                             "class '%U' cannot derive from %R: the statement that made it failed",
                             name, base);
                goto fail;
            }
        }
    }
    if (first == NULL && nc_objects->root != NULL) {
        PyErr_Format(PyExc_TypeError,
                     "class '%U' needs a base that is a class of native objects: %R", name,
                     nc_objects->root);
        goto fail;
    }
    if (capsule == NULL && nc_objects->describe != NULL) {
        capsule = nc_objects->describe(name, bases, space);
        if (capsule == NULL) {
            goto fail;
        }
    } else if (capsule != NULL && PyDict_DelItemString(space, NC_CLASS_ATTRIBUTE) < 0) {
        goto fail;
    }
    if (capsule == NULL || capsule == Py_None) {
        cls = (NcClass *)calloc(1, sizeof *cls);
        Py_XDECREF(capsule);
        capsule = cls != NULL ? nc_class_capsule(cls) : PyErr_NoMemory();
    }
    if (capsule == NULL) {
        goto fail;
    }
    if (!PyCapsule_IsValid(capsule, NC_CLASS_CAPSULE)) {
        PyErr_Format(PyExc_TypeError,
                     "class '%U': '" NC_CLASS_ATTRIBUTE "' is for what nc_class_define puts there "
                     "(got %.200s); leave it out",
                     name, Py_TYPE(capsule)->tp_name);
        goto fail;
    }
    cls = (NcClass *)PyCapsule_GetPointer(capsule, NC_CLASS_CAPSULE);
    if (cls->flags != 0 || PyCapsule_GetContext(capsule) != NULL) {
        PyErr_Format(PyExc_TypeError, "class '%U': what it has belongs to another class", name);
        goto fail;
    }
    if (cls->name == NULL && nc_class_keep_name(cls, name) < 0) {
        goto fail;
    }
    cls->type_at = offsetof(PyObject, ob_type);
    cls->after = sizeof(PyObject);
    cls->waiting = &nc_objects->waiting;
    order = nc_class_order(name, bases, &count);
    if (order == NULL) {
        goto fail;
    }
    status = nc_class_make(cls, first, order, count, &problem);
    if (status != NC_OK) {
        nc_class_refused(name, status, &problem);
        goto fail;
    }
    (void)PyCapsule_SetContext(capsule, (void *)cls); /* taken */
    Py_DECREF(capsule);
    PyMem_Free((void *)order);
    return cls;

fail:
    Py_XDECREF(capsule);
    PyMem_Free((void *)order);
    return NULL;
}

NC_C_END

#endif
