/* nativecall/detail/objecttype.h: the metaclass and the root class of native objects.
 *
 * Idea:       A process has one metaclass and one root class of native objects. The first module
 *             publishes both in the capsule sys.modules["_extensibletype"].nativeobject_v1. Every
 *             class of native objects is an instance of that metaclass. So C classes and Python
 *             classes can derive from one another. CPython calls the metaclass's mro() for each new
 *             class, and mro() builds the class's NcClass. The rows of the NcClass are added to the
 *             class's slot table.
 * Interface:  The namespace of a new class contains __nativeclass__, a capsule with an unbuilt
 *             NcClass: only the class's name and own members. For a class in C, nc_class_define
 *             stores the capsule. For a class body in Python, the package's `describe` creates the
 *             capsule from the nativecall.field and nativecall.method objects. After the class is
 *             created, `publish` adds its descriptors.
 * Guarantees: A class is rejected if a base has an object layout of its own, as int does. It is
 *             also rejected if a custom mro() orders the native bases differently from the NcClass,
 *             in whose order native code finds methods.
 * All functions need the GIL. */
#ifndef NATIVECALL_OBJECTTYPE_H
#define NATIVECALL_OBJECTTYPE_H

#include "objectbody.h"

NC_C_BEGIN

/* ---- the metaclass --------------------------------------------------------------------------- */

/* Add the rows of a class to __customslots__ in its namespace. The slot table is built from
 * __customslots__ later. */
NC_STATIC int nc_class_add_rows(const NcClass *cls, PyObject *space)
{
    PyObject *given = nc_dict_item(space, "__customslots__");
    PyObject *rows = PyErr_Occurred() ? NULL : PyDict_New();
    int status = rows != NULL ? 0 : -1;
    if (status == 0 && given != NULL) {
        status = PyDict_Update(rows, given);
    }
    for (size_t i = 0; status == 0 && i < cls->slots->count; i++) {
        const PyCustomSlot *row = nc_slottable_rows(cls->slots) + i;
        PyObject *key = PyLong_FromSize_t((size_t)row->id);
        PyObject *value = Py_BuildValue("(KN)", (unsigned long long)row->flags,
                                        PyLong_FromSsize_t((Py_ssize_t)row->data.objoffset));
        status = key != NULL && value != NULL ? PyDict_SetItem(rows, key, value) : -1;
        Py_XDECREF(key);
        Py_XDECREF(value);
    }
    if (status == 0) {
        status = PyDict_SetItemString(space, "__customslots__", rows);
    }
    Py_XDECREF(given);
    Py_XDECREF(rows);
    return status;
}

/* Check that objects of a class can have fields before the PyObject and can use nc_object_dealloc.
 * A base may enlarge the object only as a class statement does (for example with __slots__); its
 * deallocator is then CPython's for such classes. Bases with items (tp_itemsize) are rejected. The
 * native classes in the MRO must have the order of the parts of `cls`, because native code finds
 * methods in that order. */
NC_STATIC int nc_type_check_layout(PyTypeObject *type, const NcClass *cls)
{
    size_t part = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); i++) {
        PyTypeObject *base = (PyTypeObject *)(void *)PyTuple_GET_ITEM(type->tp_mro, i);
        if (nc_type_is_native(base)) {
            if (part < cls->part_count &&
                (base == type ? part == 0 : cls->parts[part].cls->type == base)) {
                part++;
                continue;
            }
            PyErr_Format(PyExc_TypeError,
                         "class '%s': its metaclass's mro() moves '%s' out of the order that "
                         "native code uses; do not override mro()",
                         type->tp_name, base->tp_name);
            return -1;
        }
        if (base->tp_itemsize != 0 || (base->tp_basicsize != PyBaseObject_Type.tp_basicsize &&
                                       base->tp_dealloc != nc_objects->statement_dealloc)) {
            PyErr_Format(PyExc_TypeError,
                         "class '%s' cannot derive from '%s', whose objects have their own memory "
                         "layout; native objects contain only their fields",
                         type->tp_name, base->tp_name);
            return -1;
        }
    }
    return 0;
}

/* Install our allocator and deallocator in a new type. */
NC_STATIC void nc_type_take_over(PyTypeObject *type)
{
    if (type->tp_alloc != nc_object_alloc) {
        if (nc_objects->statement_dealloc == NULL) {
            nc_objects->statement_dealloc = type->tp_dealloc;
        }
#if defined(Py_GIL_DISABLED)
        if (!PyType_IS_GC(type)) {
            type->tp_flags |= Py_TPFLAGS_HAVE_GC;
            type->tp_traverse = nc_object_traverse;
        }
#endif
        type->tp_alloc = nc_object_alloc;
        type->tp_dealloc = nc_object_dealloc;
        type->tp_free = nc_object_tp_free;
    }
}

/* Return whether CPython's traversal of a type's objects reaches nc_object_traverse. The traversal
 * follows tp_base. If tp_base leads to a plain class with __slots__, CPython never calls
 * nc_object_traverse. */
NC_STATIC int nc_type_is_traversed(const PyTypeObject *type)
{
    while (type != NULL && type->tp_traverse != nc_object_traverse) {
        type = type->tp_base;
    }
    return type != NULL;
}

/* mro(). CPython calls it before any Python code can see the new class. So the allocator and the
 * NcClass are in place before the first object. */
NC_STATIC PyObject *nc_objecttype_mro(PyObject *object, PyObject *none)
{
    PyTypeObject *type = (PyTypeObject *)(void *)object;
    PyObject *order = PyObject_CallMethod((PyObject *)nc_metatype, "mro", "O", object);
    (void)none;
    nc_type_take_over(type);
    if (order != NULL && type->tp_mro == NULL && nc_class_make_along(type, order) < 0) {
        Py_CLEAR(order);
    }
    return order;
}

/* metaclass(name, bases, namespace) */
NC_STATIC PyObject *nc_objecttype_new(PyTypeObject *meta, PyObject *args, PyObject *kwargs)
{
    PyObject *name = NULL;
    PyObject *bases = NULL;
    PyObject *given = NULL;
    PyObject *dict = NULL;
    NcClass *cls = NULL;
    PyTypeObject *type = NULL;
    int done = 0;
    if (!PyArg_ParseTuple(args, "UO!O!:extensibletype", &name, &PyTuple_Type, &bases, &PyDict_Type,
                          &given)) {
        return NULL;
    }
    PyObject *space = PyDict_Copy(given);
    PyObject *capsule = space != NULL ? nc_class_from_space(name, bases, space) : NULL;
    PyObject *again = capsule != NULL ? PyTuple_Pack(3, name, bases, space) : NULL;
    PyObject *made = again != NULL ? nc_metatype->tp_new(meta, again, kwargs) : NULL;
    if (made == NULL) {
        goto end;
    }
    type = (PyTypeObject *)(void *)made;
    if (!nc_type_is_native(type) || *nc_type_class_place(type) != NULL) {
        PyErr_Format(PyExc_TypeError, "class '%U' was created by another metaclass: %R", name,
                     made);
        goto end;
    }
    nc_type_take_over(type);
    nc_type_without_inline_values(type);
    cls = (NcClass *)PyCapsule_GetPointer(capsule, NC_CLASS_CAPSULE);
    dict = nc_type_dict(type);
    if (cls == NULL || dict == NULL || nc_type_check_layout(type, cls) < 0 ||
        nc_class_add_rows(cls, dict) < 0 || PyDict_DelItemString(dict, NC_CLASS_ATTRIBUTE) < 0) {
        goto end;
    }
    PyType_Modified(type);
    cls->type = type;
    cls->after = (size_t)type->tp_basicsize;
    /* From here on, the type owns the NcClass. Make the capsule unusable. */
    (void)PyCapsule_SetDestructor(capsule, NULL);
    (void)PyCapsule_SetName(capsule, NULL);
    *nc_type_class_place(type) = cls;
    type->tp_free = (freefunc)(uintptr_t)cls; /* see nc_object_tp_free */
    if (nc_objects->root != NULL && !nc_type_is_traversed(type)) {
        Py_INCREF(type);
        nc_store_relaxed_size(&cls->lasting, 1);
    }
    done = nc_objects->publish == NULL || nc_objects->publish(type, cls) == 0;
    if (!done) {
        cls->flags |= NC_CLASS_FAILED | NC_CLASS_ABSTRACT;
    }

end:
    if (!done) {
        Py_CLEAR(made);
    }
    Py_XDECREF(dict);
    Py_XDECREF(again);
    Py_XDECREF(capsule);
    Py_XDECREF(space);
    return made;
}

/* tp_setattro: refuse to set or delete __bases__ and the names that native code looks up in a
 * class. */
NC_STATIC int nc_objecttype_setattro(PyObject *object, PyObject *name, PyObject *value)
{
    const NcClass *cls = nc_type_class((PyTypeObject *)(void *)object);
    Py_ssize_t length = 0;
    const char *text = PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, &length) : NULL;
    const char *key = NULL;
    if (text == NULL) {
        PyErr_Clear();
    } else if (strlen(text) != (size_t)length) {
        text = NULL; /* native names contain no null character */
    } else if (strcmp(text, "__bases__") == 0) {
        PyErr_Format(PyExc_TypeError,
                     "the bases of '%s', a class of native objects, cannot be changed: its memory "
                     "layout is fixed",
                     ((PyTypeObject *)(void *)object)->tp_name);
        return -1;
    }
    if (text != NULL && value != NULL &&
        PyObject_HasAttrString((PyObject *)Py_TYPE(value), NC_CLASS_DECLARES)) {
        PyErr_Format(PyExc_TypeError,
                     "'%U' of class '%s': nativecall.field and nativecall.method work only in "
                     "class bodies; the layout of this class is fixed, so make a subclass",
                     name, ((PyTypeObject *)(void *)object)->tp_name);
        return -1;
    }
    if (text != NULL && strcmp(text, NC_CLASS_KEPT) == 0) {
        PyErr_SetString(PyExc_TypeError,
                        "'" NC_CLASS_KEPT "' keeps alive what native code points to "
                        "and cannot be changed");
        return -1;
    }
    for (size_t i = 0; text != NULL && cls != NULL && i < cls->part_count; i++) {
        if (nc_class_defines(cls->parts[i].cls, text, (size_t)length, &key)) {
            PyErr_Format(PyExc_TypeError,
                         "'%s' of class '%s' is a native %s and cannot be assigned to; make a "
                         "subclass",
                         text, ((PyTypeObject *)(void *)object)->tp_name,
                         key != NULL ? "method" : "field");
            return -1;
        }
    }
    return nc_metatype->tp_setattro(object, name, value);
}

NC_STATIC void nc_objecttype_dealloc(PyObject *object)
{
    NcClass *cls = *nc_type_class_place((PyTypeObject *)(void *)object);
    nc_metatype->tp_dealloc(object);
    nc_class_free(cls);
}

/* __sizeof__(): return the size of the object, including its fields. */
NC_STATIC PyObject *nc_object_sizeof(PyObject *self, PyObject *none)
{
    const NcClass *cls = nc_type_class(Py_TYPE(self));
    (void)none;
    return PyLong_FromSize_t((size_t)Py_TYPE(self)->tp_basicsize + (cls != NULL ? cls->before : 0));
}

/* Return the metaclass of this copy of the header, ready for use, or NULL with an exception. */
NC_STATIC PyTypeObject *nc_objecttype_bundled(void)
{
    static PyTypeObject metatype;
    static PyMethodDef methods[] = {
        {"mro", nc_objecttype_mro, METH_NOARGS, "Return the method resolution order."},
        {NULL, NULL, 0, NULL},
    };
    if (metatype.tp_name == NULL) {
        Py_SET_REFCNT((PyObject *)&metatype, 1);
        metatype.tp_name = "nativecall.nativeobjecttype";
        metatype.tp_doc = "The metaclass of classes of native objects.";
        metatype.tp_basicsize = nc_metatype->tp_basicsize + (Py_ssize_t)sizeof(NcClass *);
        metatype.tp_itemsize = nc_metatype->tp_itemsize;
        metatype.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
        metatype.tp_base = nc_metatype;
        metatype.tp_new = nc_objecttype_new;
        metatype.tp_setattro = nc_objecttype_setattro;
        metatype.tp_dealloc = nc_objecttype_dealloc;
        metatype.tp_methods = methods;
    }
    return PyType_Ready(&metatype) < 0 ? NULL : &metatype;
}

/* Create the root class, nativecall.NativeObject. */
NC_STATIC PyTypeObject *nc_object_root(void)
{
    static PyMethodDef size_of = {
        "__sizeof__", nc_object_sizeof, METH_NOARGS,
        "__sizeof__()\n--\n\nReturn the size of the object in bytes, including its fields."};
    PyObject *method = PyDescr_NewMethod(&PyBaseObject_Type, &size_of);
    PyObject *space =
        Py_BuildValue("{s:(),s:s,s:N,s:s}", "__slots__", "__module__", "nativecall", "__sizeof__",
                      method, "__doc__", "NativeObject(*values, **fields)\n--\n\n");
    PyObject *root = space != NULL ? PyObject_CallFunction((PyObject *)nc_objects->metatype, "s()O",
                                                           "NativeObject", space)
                                   : NULL;
    /* Set the docstring only now. CPython keeps the signature from the first docstring, so
     * inspect.signature finds it for the root and its subclasses. */
    PyObject *doc =
        PyUnicode_FromString("An object that Python and threads without the GIL share.\n\nSubclass "
                             "it, with nativecall.field and nativecall.method in the class body.");
    if (root != NULL && (doc == NULL || PyObject_SetAttrString(root, "__doc__", doc) < 0)) {
        Py_CLEAR(root);
    }
    Py_XDECREF(doc);
    Py_XDECREF(space);
    return (PyTypeObject *)(void *)root;
}

/* Publish the metaclass and root class of this copy. If another copy does so at the same time, the
 * first one counts. Return its capsule, a new reference, or NULL with an exception. */
NC_STATIC PyObject *nc_objects_publish(PyObject *module)
{
    static NcObjects shared;
    PyObject *capsule = NULL, *first = NULL;
    shared.abi_version = NC_ABI_VERSION;
    shared.struct_size = (uint32_t)sizeof(NcObjects);
    shared.class_size = (uint32_t)sizeof(NcClass);
    shared.head_size = (uint32_t)NC_OBJECT_HEAD;
    shared.provider = NC_PROVIDER;
#if defined(Py_GIL_DISABLED)
    if ((shared.reference = nc_reference_type()) == NULL) {
        return NULL;
    }
#endif
    shared.metatype = nc_objecttype_bundled();
    nc_objects = &shared;
    if (shared.metatype != NULL && (shared.root = nc_object_root()) != NULL) {
        (*nc_type_class_place(shared.root))->lasting = 1;
        shared.root->tp_traverse = nc_object_traverse;
        capsule = PyCapsule_New((void *)&shared, NC_OBJECTS_CAPSULE, NULL);
    }
    PyObject *dict = capsule != NULL ? PyObject_GenericGetDict(module, NULL) : NULL;
    if (dict != NULL) {
        first = nc_dict_first(dict, NC_OBJECTS_ATTRIBUTE, capsule);
    }
    Py_XDECREF(dict);
    Py_XDECREF(capsule);
    nc_objects = NULL; /* the caller sets it */
    return first;
}

/* Find the data of native objects that all modules share, or publish this copy's data if there is
 * none. Return 0, or -1 with an exception: ImportError for an incompatible version. Idempotent. */
NC_STATIC int nc_objects_import(void)
{
    int status = -1;
    if (NC_LIKELY(nc_objects != NULL)) {
        return 0;
    }
    if (PyExtensibleType_Import() == NULL) {
        return -1;
    }
    PyObject *module = nc_dict_item(PyImport_GetModuleDict(), NC_RUNTIME_MODULE);
    if (module == NULL) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_ImportError, "sys.modules no longer has '" NC_RUNTIME_MODULE "'");
        }
        return -1;
    }
    PyObject *capsule = PyObject_GetAttrString(module, NC_OBJECTS_ATTRIBUTE);
    if (capsule == NULL && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_Clear();
        capsule = nc_objects_publish(module);
    }
    if (capsule != NULL) {
        NcObjects *found = (NcObjects *)PyCapsule_GetPointer(capsule, NC_OBJECTS_CAPSULE);
        if (found != NULL &&
            (found->abi_version != NC_ABI_VERSION || found->struct_size < sizeof(NcObjects) ||
             found->class_size != sizeof(NcClass) || found->head_size != NC_OBJECT_HEAD)) {
            PyErr_Format(PyExc_ImportError,
                         "%s was built for native objects of ABI %d (sizes %zu/%zu/%zu), but %s, "
                         "which was imported first, provides ABI %u (sizes %u/%u/%u); rebuild the "
                         "older of the two",
                         NC_PROVIDER, NC_ABI_VERSION, sizeof(NcObjects), sizeof(NcClass),
                         (size_t)NC_OBJECT_HEAD, found->provider, (unsigned)found->abi_version,
                         (unsigned)found->struct_size, (unsigned)found->class_size,
                         (unsigned)found->head_size);
        } else if (found != NULL) {
            nc_objects = found;
            status = 0;
        }
    }
    Py_DECREF(module);
    Py_XDECREF(capsule);
    return status;
}

NC_C_END

#endif
