/* csrc/native_objects/array.c: ObjectArray, native objects side by side in one block of memory.
 *
 * Guarantees. The array holds one native reference to each object, so NumPy arrays of the objects'
 * fields stay valid as long as the array lives. An object taken from the array is counted
 * separately and may outlive the array. The block is freed with its last object.
 *
 * Threads: everything here needs the GIL. */
#include "platform/address.h"
#include "platform/functions.h"
#include "platform/hooks.h"
#include "nativecall/nativeobject.h"

#include <structmember.h>

typedef struct {
    PyObject_HEAD
    PyTypeObject *type;
    char *first; /* the first object; NULL in an empty array */
    Py_ssize_t count;
    Py_ssize_t stride;
} Array;

static PyObject *array_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"type", "count", NULL};
    PyTypeObject *of;
    Py_ssize_t count;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!n:ObjectArray", names, &PyType_Type, &of,
                                     &count)) {
        return NULL;
    }
    if (!nc_type_is_native(of)) {
        return PyErr_Format(PyExc_TypeError, "%R is not a class of native objects", of);
    }
    const NcClass *cls = nc_class_with_objects(of);
    if (cls == NULL) {
        return NULL;
    }
    if (count < 0) {
        return PyErr_Format(PyExc_ValueError, "'count' must be 0 or more (got %zd)", count);
    }
    if (PyType_HasFeature(of, Py_TPFLAGS_IS_ABSTRACT)) {
        return PyErr_Format(PyExc_TypeError,
                            "class '%s' cannot be instantiated: it has __abstractmethods__",
                            of->tp_name);
    }
    const int lasting = nc_load_relaxed_size(&cls->lasting) != 0;
    char *first = NULL;
    if (count > 0) {
        first = nc_objects_make(cls, (size_t)count, lasting ? 0 : NC_OBJECT_HOLDS);
        if (first == NULL) {
            return PyErr_NoMemory();
        }
        for (Py_ssize_t i = 0; !lasting && i < count; i++) {
            Py_INCREF(of); /* each object owns its class: point 6 in nativeobject.h */
        }
    }
    Array *self = (Array *)(void *)type->tp_alloc(type, 0);
    if (self == NULL) {
        for (Py_ssize_t i = 0; i < count; i++) {
            nc_object_release(first + i * (Py_ssize_t)nc_class_stride(cls));
        }
        nc_objects_settle();
        return NULL;
    }
    self->type = (PyTypeObject *)(void *)Py_NewRef((PyObject *)of);
    self->first = first;
    self->count = count;
    self->stride = (Py_ssize_t)nc_class_stride(cls);
    return (PyObject *)self;
}

/* Releases the objects. */
static int array_clear(PyObject *object)
{
    Array *self = (Array *)(void *)object;
    char *first = self->first;
    const Py_ssize_t count = self->count;
    self->first = NULL;
    self->count = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        nc_object_release(first + i * self->stride);
    }
    nc_objects_settle();
    return 0;
}

/* Visits the class once for the array, and once for each object whose only native reference is the
 * array's. So the collector can free a class that holds an array of its own objects. */
static int array_traverse(PyObject *object, visitproc visit, void *arg)
{
    Array *self = (Array *)(void *)object;
    Py_VISIT(self->type);
    for (Py_ssize_t i = 0; i < self->count; i++) {
        const NcObjectHead *head = nc_object_head(self->first + i * self->stride);
        if ((head->state & NC_OBJECT_HOLDS) != 0 && nc_load_acquire_size(&head->count) == 1) {
            Py_VISIT(self->type);
        }
    }
    return 0;
}

static void array_dealloc(PyObject *object)
{
    PyObject_GC_UnTrack(object);
    (void)array_clear(object);
    Py_XDECREF(((Array *)(void *)object)->type);
    PyObject_GC_Del(object);
}

static Py_ssize_t array_length(PyObject *object)
{
    return ((Array *)(void *)object)->count;
}

static PyObject *array_item(PyObject *object, Py_ssize_t index)
{
    Array *self = (Array *)(void *)object;
    if (index < 0 || index >= self->count) {
        return PyErr_Format(PyExc_IndexError, "index out of range for an array of %zd '%s' objects",
                            self->count, self->type->tp_name);
    }
    return nc_object_as_python(self->first + index * self->stride);
}

/* A view of a field in all objects. */
static PyObject *array_field(Array *self, PyObject *name)
{
    const NcClass *cls = nc_type_class(self->type);
    Py_ssize_t length;
    const char *key;
    const char *text = PyUnicode_AsUTF8AndSize(name, &length);
    if (text == NULL) {
        return NULL;
    }
    for (size_t p = 0; p < cls->part_count; p++) {
        const NcClass *part = cls->parts[p].cls;
        const size_t number = nc_class_defines(part, text, strlen(text), &key);
        if (number != 0 && key == NULL && strlen(text) == (size_t)length) {
            const NcField *field = &part->fields[number - 1];
            char *place = NULL; /* NULL in an empty array */
            if (self->count != 0) {
                place = self->first + cls->parts[p].offset + (intptr_t)field->offset;
            }
            return PyObject_CallFunction(NC_HOOK(view_array), "OONzO", self, name,
                                         PyLong_FromVoidPtr(place), field->type,
                                         (PyObject *)part->type);
        }
    }
    return PyErr_Format(PyExc_KeyError, "class '%s' has no field %R", self->type->tp_name, name);
}

static PyObject *array_subscript(PyObject *object, PyObject *key)
{
    Array *self = (Array *)(void *)object;
    if (PyUnicode_Check(key)) {
        return array_field(self, key);
    }
    if (!PyIndex_Check(key)) {
        return PyErr_Format(
            PyExc_TypeError,
            "an array of native objects is indexed by an int or the name of a field (got %.200s)",
            Py_TYPE(key)->tp_name);
    }
    const Py_ssize_t index = PyNumber_AsSsize_t(key, PyExc_IndexError);
    if (index == -1 && PyErr_Occurred()) {
        return NULL;
    }
    return array_item(object, index < 0 ? index + self->count : index);
}

static PyObject *array_repr(PyObject *object)
{
    Array *self = (Array *)(void *)object;
    return PyUnicode_FromFormat("<array of %zd '%s' objects>", self->count, self->type->tp_name);
}

static PyMemberDef members[] = {
    {"type", T_OBJECT, offsetof(Array, type), READONLY, "The class of the objects."},
    {"address", NC_T_ADDRESS, offsetof(Array, first), READONLY,
     "Native address of the first object; 0 in an empty array."},
    {"stride", T_PYSSIZET, offsetof(Array, stride), READONLY, "Bytes from one object to the next."},
    {NULL, 0, 0, 0, NULL},
};

static PyMethodDef methods[] = {
    {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS,
     "ObjectArray[Class], for type checkers."},
    {NULL, NULL, 0, NULL},
};

static PySequenceMethods as_sequence = {.sq_length = array_length, .sq_item = array_item};
static PyMappingMethods as_mapping = {.mp_length = array_length, .mp_subscript = array_subscript};

/* ObjectArray(class, count): array[i] is an object; array["x"] is the result of the hook
 * `view_array`. */
PyTypeObject NcObjectArray_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "nativecall.ObjectArray",
    .tp_doc =
        "ObjectArray(type, count)\n--\n\n"
        "Native objects of one class, side by side in one block of memory.\n\n"
        "All fields are zero, as in objects that native code creates; `__init__` does not run.\n"
        "``array[i]`` is an object. ``array[\"x\"]`` is a NumPy array of the field `x` of all\n"
        "objects; it shares their memory and keeps it alive. An object that is still referenced\n"
        "outlives the array; the block is freed with the last object.\n\n"
        "Parameters\n----------\ntype : type\n    A class of native objects.\ncount : int\n\n"
        "Raises\n------\nTypeError\n    `type` is not a class of native objects, or is abstract.",
    .tp_basicsize = sizeof(Array),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = array_new,
    .tp_dealloc = array_dealloc,
    .tp_traverse = array_traverse,
    .tp_clear = array_clear,
    .tp_repr = array_repr,
    .tp_as_sequence = &as_sequence,
    .tp_as_mapping = &as_mapping,
    .tp_members = members,
    .tp_methods = methods,
};
