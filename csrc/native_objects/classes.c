/* csrc/native_objects/classes.c: converts Python descriptions of native classes to NcClass and
 * back, and constructs native objects. Used by nativecall/_native_objects.
 *
 * Threads: everything here needs the GIL. */
#include "platform/address.h"
#include "platform/functions.h"
#include "platform/hooks.h"
#include "platform/lists.h"
#include "nativecall/nativeobject.h"

/* ---- from Python ----------------------------------------------------------------------------- */

/* The NcClass of a type, valid while the type lives; or NULL with TypeError. */
static NcClass *class_of(PyObject *type)
{
    NcClass *cls = PyType_Check(type) ? nc_type_class((PyTypeObject *)(void *)type) : NULL;
    if (cls == NULL) {
        PyErr_Format(PyExc_TypeError, "%R is not a class of native objects", type);
    }
    return cls;
}

static int read_field(NcField *field, PyObject *row)
{
    PyObject *of;
    Py_ssize_t offset;
    if (!PyArg_ParseTuple(row, "sznO:field", &field->name, &field->type, &offset, &of)) {
        return -1;
    }
    field->offset = (size_t)offset;
    if (of == Py_Ellipsis) {
        field->cls = NC_FIELD_SELF;
    } else if (of != Py_None) {
        field->cls = class_of(of);
    }
    return of == Py_None || field->cls != NULL ? 0 : -1;
}

static int read_method(NcMethod *method, PyObject *row)
{
    const char *name;
    const char *signature;
    unsigned long flags;
    if (!PyArg_ParseTuple(row, "ssO&kp:method", &name, &signature, nc_take_address,
                          &method->function, &flags, &method->takes_fields)) {
        return -1;
    }
    method->flags = (uintptr_t)flags;
    return nc_method_key(name, signature, &method->key);
}

/* Returns a capsule with a new NcClass. The description is (size, alignment, fields, methods). */
static PyObject *class_of_description(PyObject *named, PyObject *description)
{
    Py_ssize_t size, alignment;
    PyObject *field_rows;
    PyObject *method_rows;
    NcClass own = {.name = PyUnicode_AsUTF8(named)};
    if (own.name == NULL ||
        !PyArg_ParseTuple(description, "nnO!O!:describe", &size, &alignment, &PyTuple_Type,
                          &field_rows, &PyTuple_Type, &method_rows)) {
        return NULL;
    }
    own.fields_size = (size_t)size;
    own.fields_align = (size_t)alignment;
    own.field_count = (size_t)PyTuple_GET_SIZE(field_rows);
    own.method_count = (size_t)PyTuple_GET_SIZE(method_rows);
    NcField *fields = PyMem_Calloc(own.field_count, sizeof *fields);
    NcMethod *methods = PyMem_Calloc(own.method_count, sizeof *methods);
    int status = 0;
    if (fields == NULL || methods == NULL) {
        PyErr_NoMemory();
        status = -1;
    }
    own.fields = fields;
    own.methods = methods;
    for (size_t i = 0; status == 0 && i < own.field_count; i++) {
        status = read_field(&fields[i], PyTuple_GET_ITEM(field_rows, (Py_ssize_t)i));
    }
    for (size_t i = 0; status == 0 && i < own.method_count; i++) {
        status = read_method(&methods[i], PyTuple_GET_ITEM(method_rows, (Py_ssize_t)i));
    }
    PyObject *capsule = status == 0 ? nc_class_capsule(&own) : NULL;
    PyMem_Free(fields);
    PyMem_Free(methods);
    return capsule;
}

static PyObject *describe(PyObject *name, PyObject *bases, PyObject *space)
{
    PyObject *said =
        PyObject_CallFunctionObjArgs(NC_HOOK(describe_class), name, bases, space, NULL);
    if (said == NULL || said == Py_None) {
        return said;
    }
    PyObject *capsule = class_of_description(name, said);
    Py_DECREF(said);
    return capsule;
}

/* ---- to Python ------------------------------------------------------------------------------- */

static PyObject *list_of_fields(const NcClass *cls)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list != NULL && i < cls->field_count; i++) {
        const NcField *field = &cls->fields[i];
        nc_list_take(&list,
                     Py_BuildValue("(szn)", field->name, field->type, (Py_ssize_t)field->offset));
    }
    return list;
}

static PyObject *list_of_methods(const NcClass *cls)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list != NULL && i < cls->method_count; i++) {
        const NcMethod *method = &cls->methods[i];
        const char *blank = strchr(method->key, ' ');
        nc_list_take(&list,
                     Py_BuildValue("(s#sNkN)", method->key, (Py_ssize_t)(blank - method->key),
                                   blank + 1, PyLong_FromVoidPtr(method->function),
                                   (unsigned long)method->flags,
                                   PyBool_FromLong(method->takes_fields)));
    }
    return list;
}

static PyObject *construct(PyObject *cls, PyObject *const *args, size_t nargsf, PyObject *names);

static int publish(PyTypeObject *type, NcClass *cls)
{
    PyObject *found =
        PyObject_CallFunction(NC_HOOK(publish_class), "ON", type, PyLong_FromVoidPtr(cls));
    int status = found != NULL ? 0 : -1;
    Py_ssize_t position = 0;
    PyObject *name;
    PyObject *value;
    type->tp_vectorcall = construct;
    while (status == 0 && PyDict_Next(found, &position, &name, &value)) {
        /* Bypass the metaclass, which refuses to set native names. */
        status = PyType_Type.tp_setattro((PyObject *)type, name, value == Py_None ? NULL : value);
    }
    Py_XDECREF(found);
    return status;
}

/* begin_objects(): freezes the root class, and installs `describe` and `publish`, which run when a
 * class is created. These two functions call Python hooks:
 *
 *   describe_class(name, bases, namespace) -> (size, alignment, fields, methods) as the class body
 *       declares them, or None if it declares none. Changes the namespace in place. A field is
 *       (name, code, offset, class). A reference has the code None. Its class is None if any class
 *       is valid, and Ellipsis if it is the class that is being created. A method is (name,
 *       canonical signature, address or 0, flags, whether C gets a pointer to the fields as self).
 *   publish_class(class, address of its NcClass) -> dict of attributes for the class. The value
 *       None deletes an attribute. */
PyObject *nc_begin_objects(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    nc_objects->describe = describe;
    nc_objects->publish = publish;
    nc_objects->root->tp_flags |= Py_TPFLAGS_IMMUTABLETYPE;
    Py_RETURN_NONE;
}

/* object_as_python(address): the Python object of a native pointer. */
PyObject *nc_object_at_address(PyObject *Py_UNUSED(module), PyObject *address)
{
    NcObject *object = nc_address(address, "there is no object at address 0");
    return object != NULL ? nc_object_as_python(object) : NULL;
}

/* native_order(class): the class and its native bases, as a tuple in the order of the MRO. */
PyObject *nc_native_order(PyObject *Py_UNUSED(module), PyObject *type)
{
    const NcClass *cls = class_of(type);
    PyObject *order = cls != NULL ? PyTuple_New((Py_ssize_t)cls->part_count) : NULL;
    for (size_t i = 0; order != NULL && i < cls->part_count; i++) {
        PyTuple_SET_ITEM(order, (Py_ssize_t)i, Py_NewRef((PyObject *)cls->parts[i].cls->type));
    }
    return order;
}

/* native_parts(class): (fields, methods) that the class itself declares, without inherited ones. */
PyObject *nc_native_parts(PyObject *Py_UNUSED(module), PyObject *type)
{
    const NcClass *cls = class_of(type);
    PyObject *fields = cls != NULL ? list_of_fields(cls) : NULL;
    return fields != NULL ? Py_BuildValue("(NN)", fields, list_of_methods(cls)) : NULL;
}

/* ---- construction ---------------------------------------------------------------------------- */

/* Sets fields to positional values. The fields of bases come first. */
static int set_in_order(PyObject *self, PyObject *const *values, Py_ssize_t count)
{
    const NcClass *cls = nc_type_class(Py_TYPE(self));
    Py_ssize_t given = 0;
    for (size_t i = cls != NULL && count > 0 ? cls->part_count : 0; i-- > 0;) {
        const NcClass *part = cls->parts[i].cls;
        for (size_t n = 0; n < part->field_count; n++) {
            if (given < count &&
                PyObject_SetAttrString(self, part->fields[n].name, values[given]) < 0) {
                return -1;
            }
            given++;
        }
    }
    if (count > given) {
        PyErr_Format(PyExc_TypeError, "%s() takes at most %zd values, one for each field (got %zd)",
                     Py_TYPE(self)->tp_name, given, count);
        return -1;
    }
    return 0;
}

/* The index of a field among the positional values of __init__; -1 if there is no such field. */
static Py_ssize_t place_of_field(const NcClass *cls, const char *name)
{
    Py_ssize_t before = 0;
    const char *key;
    for (size_t i = cls != NULL ? cls->part_count : 0; i-- > 0;) {
        const NcClass *part = cls->parts[i].cls;
        const size_t number = nc_class_defines(part, name, strlen(name), &key);
        if (number != 0 && key == NULL) {
            return before + (Py_ssize_t)number - 1;
        }
        before += (Py_ssize_t)part->field_count;
    }
    return -1;
}

/* __init__(*values, **fields) */
static int object_init(PyObject *self, PyObject *args, PyObject *named)
{
    const NcClass *cls = nc_type_class(Py_TYPE(self));
    Py_ssize_t position = 0;
    PyObject *key;
    PyObject *value;
    if (set_in_order(self, &PyTuple_GET_ITEM(args, 0), PyTuple_GET_SIZE(args)) < 0) {
        return -1;
    }
    while (named != NULL && PyDict_Next(named, &position, &key, &value)) {
        Py_ssize_t length;
        const char *name = PyUnicode_AsUTF8AndSize(key, &length);
        if (name == NULL) {
            return -1;
        }
        const Py_ssize_t place = strlen(name) == (size_t)length ? place_of_field(cls, name) : -1;
        if (place < PyTuple_GET_SIZE(args)) {
            PyErr_Format(PyExc_TypeError,
                         place >= 0 ? "%s() got field '%U' twice" : "%s() has no field '%U'",
                         Py_TYPE(self)->tp_name, key);
            return -1;
        }
        if (PyObject_SetAttr(self, key, value) < 0) {
            return -1;
        }
    }
    return 0;
}

/* Calls the class with a tuple and a dict, as CPython does without tp_vectorcall. */
NC_NOINLINE PyObject *call_by_tuple(PyObject *cls, PyObject *const *args, Py_ssize_t count,
                                    PyObject *names)
{
    PyObject *values = nc_tuple_of(args, count);
    PyObject *named = names != NULL ? PyDict_New() : NULL;
    PyObject *result = NULL;
    int status = values != NULL && (names == NULL || named != NULL) ? 0 : -1;
    for (Py_ssize_t i = 0; status == 0 && names != NULL && i < PyTuple_GET_SIZE(names); i++) {
        status = PyDict_SetItem(named, PyTuple_GET_ITEM(names, i), args[count + i]);
    }
    if (status == 0) {
        result = Py_TYPE(cls)->tp_call(cls, values, named);
    }
    Py_XDECREF(values);
    Py_XDECREF(named);
    return result;
}

/* cls(*values), for a class that inherits the root's __new__ and __init__. */
NC_NOINLINE PyObject *construct_of(PyTypeObject *type, PyObject *const *values, Py_ssize_t count)
{
    PyObject *self = type->tp_alloc(type, 0);
    if (self != NULL && set_in_order(self, values, count) < 0) {
        Py_CLEAR(self);
    }
    return self;
}

/* cls(...). Builds no tuple if the class inherits the root's __new__ and __init__. */
static PyObject *construct(PyObject *cls, PyObject *const *args, size_t nargsf, PyObject *names)
{
    PyTypeObject *type = (PyTypeObject *)(void *)cls;
    const Py_ssize_t count = PyVectorcall_NARGS(nargsf);
    if (type->tp_init != object_init || type->tp_new != PyBaseObject_Type.tp_new ||
        PyType_HasFeature(type, Py_TPFLAGS_IS_ABSTRACT) || names != NULL) {
        return call_by_tuple(cls, args, count, names);
    }
    return count == 0 ? type->tp_alloc(type, 0) : construct_of(type, args, count);
}

/* Adds __init__ to the root class as a slot wrapper, like those of CPython's static types. So
 * CPython sets tp_init of subclasses to object_init, and C code calls object_init directly. */
static int add_init(PyTypeObject *root)
{
    static struct wrapperbase base;
    PyObject *objects = PyObject_GetAttrString((PyObject *)&PyBaseObject_Type, "__init__");
    if (objects == NULL || !Py_IS_TYPE(objects, &PyWrapperDescr_Type)) {
        PyErr_SetString(PyExc_SystemError, "object.__init__ is not a slot wrapper");
        Py_XDECREF(objects);
        return -1;
    }
    base = *((PyWrapperDescrObject *)(void *)objects)->d_base;
    base.doc =
        "__init__($self, /, *values, **fields)\n--\n\nSet fields, those of base classes first.";
    PyObject *init = PyDescr_NewWrapper(root, &base, (void *)(uintptr_t)object_init);
    int status = init != NULL ? PyObject_SetAttrString((PyObject *)root, "__init__", init) : -1;
    Py_XDECREF(init);
    Py_DECREF(objects);
    return status;
}

int nc_objects_ready(PyObject *module)
{
    return nc_objects_import() < 0 || add_init(nc_objects->root) < 0 ||
                   PyModule_AddObjectRef(module, "NativeObject", (PyObject *)nc_objects->root) <
                       0 ||
                   PyModule_AddObjectRef(module, "nativeobjecttype",
                                         (PyObject *)nc_objects->metatype) < 0
               ? -1
               : 0;
}
