/* csrc/native_objects/field.c: the descriptor of a native object's field. Python reads and writes
 * the same memory as native code, with loads and stores of the field's width.
 *
 * Guarantees. If a value cannot be converted, the field stays unchanged. Each access checks the
 * object's class. If it is the class that defines the field, the check compares two pointers. For
 * other classes, it is one slot table lookup.
 *
 * Threads: everything here needs the GIL. The GIL does not order the accesses of native threads. On
 * free-threaded builds, a critical section of the object orders Python's accesses to references, so
 * that no thread casts an object that another one releases. Other fields are plain memory. */
#include "platform/functions.h"
#include "platform/lock.h"

#include "atomic.h"
#include "nativecall/nativeobject.h"
#include "values/scalars.h"

#include <structmember.h>

typedef struct {
    PyObject_HEAD
    PyTypeObject *type; /* the class that defines the field */
    const NcClass *cls; /* the native class of `type`, which keeps it alive */
    intptr_t offset;    /* within the fields that the class defines */
    intptr_t at;        /* offset from the address of an object whose class is exactly `type` */
    size_t size;
    char letter; /* see field_new */
    char atomic; /* whether each access is one atomic operation */
    char plain;  /* whether the field is a double and not atomic: the fast path */
    PyObject *name;
    PyObject *who;  /* "field 'x' of 'Point'", for messages */
    PyObject *of;   /* the class of the objects that a reference accepts, or None */
    PyObject *load; /* `load` and `store` are functions or None (field_new) */
    PyObject *store;
    PyObject *doc;
} Field;

/* Returns the field's address in an object, or NULL with TypeError. */
static inline char *field_place(const Field *self, PyObject *object)
{
    if (NC_LIKELY(Py_TYPE(object) == self->type)) {
        return (char *)NC_OBJECT_NATIVE(object) + self->at;
    }
    if (nc_type_is_native(Py_TYPE(object))) {
        char *fields = nc_object_cast(NC_OBJECT_NATIVE(object), self->cls);
        if (fields != NULL) {
            return fields + self->offset;
        }
    }
    PyErr_Format(PyExc_TypeError, "field '%U' of '%s' objects does not apply to a '%.200s' object",
                 self->name, self->type->tp_name, Py_TYPE(object)->tp_name);
    return NULL;
}

/* Loads a counted reference. Without the GIL, holds the other object until it is cast. */
static PyObject *get_reference(PyObject *object, NcObject **place)
{
    NcObject *other;
    NC_BEGIN_SECTION(object);
    other = *place;
    if (NC_WITHOUT_GIL && other != NULL) {
        nc_object_retain(other);
    }
    NC_END_SECTION();
    PyObject *found = other != NULL ? nc_object_as_python(other) : Py_NewRef(Py_None);
    if (NC_WITHOUT_GIL && other != NULL) {
        nc_object_release(other);
    }
    return found;
}

NC_NOINLINE PyObject *field_get_any(const Field *self, PyObject *object)
{
    long double space[2]; /* the widest scalar */
    char *place = field_place(self, object);
    if (place == NULL) {
        return NULL;
    }
    if (self->atomic) {
        nc_atomic_load(self->size, place, space);
        place = (char *)space;
    }
    switch (self->letter) {
    case 'd':
        return PyFloat_FromDouble(*(const double *)(const void *)place);
    case 'i':
        return PyLong_FromLong(*(const int32_t *)(const void *)place);
    case 'q':
        return PyLong_FromLongLong(*(const int64_t *)(const void *)place);
    case '@':
        return get_reference(object, (NcObject **)(void *)place);
    case '\0':
        return PyObject_CallFunction(self->load, "ON", object, PyLong_FromVoidPtr(place));
    default:
        return nc_scalar_to_python(self->letter, place);
    }
}

static PyObject *field_get(PyObject *descriptor, PyObject *object, PyObject *type)
{
    const Field *self = (const Field *)(const void *)descriptor;
    (void)type;
    if (object == NULL) {
        return Py_NewRef(descriptor);
    }
    if (NC_LIKELY(self->plain && Py_TYPE(object) == self->type)) {
        const char *place = (const char *)NC_OBJECT_NATIVE(object) + self->at;
        return PyFloat_FromDouble(*(const double *)(const void *)place);
    }
    return field_get_any(self, object);
}

/* Stores a counted reference: retains the new object before it releases the old one. */
static int field_set_reference(const Field *self, PyObject *object, NcObject **place,
                               PyObject *value)
{
    const int any = self->of == Py_None;
    NcObject *other = NULL;
    if (value != Py_None) {
        other = nc_object_of_python(value,
                                    any ? NULL : nc_type_class((PyTypeObject *)(void *)self->of));
        if (other == NULL) {
            PyErr_Format(PyExc_TypeError, "field '%U' of '%s' must be %s%s or None (got %.200s)",
                         self->name, self->type->tp_name, any ? "a native object" : "an object of ",
                         any ? "" : ((PyTypeObject *)(void *)self->of)->tp_name,
                         Py_TYPE(value)->tp_name);
            return -1;
        }
    }
    NC_BEGIN_SECTION(object);
    nc_reference_set(place, other);
    NC_END_SECTION();
    nc_objects_settle();
    return 0;
}

NC_NOINLINE int field_set_any(const Field *self, PyObject *object, PyObject *value)
{
    long double space[2];
    char *place = field_place(self, object);
    if (place == NULL) {
        return -1;
    }
    if (value == NULL) {
        PyErr_Format(PyExc_AttributeError, "%U cannot be deleted", self->who);
        return -1;
    }
    if (self->letter == '@') {
        return field_set_reference(self, object, (NcObject **)(void *)place, value);
    }
    if (self->letter == '\0') {
        PyObject *done =
            PyObject_CallFunction(self->store, "OON", object, value, PyLong_FromVoidPtr(place));
        Py_XDECREF(done);
        return done != NULL ? 0 : -1;
    }
    if (nc_convert_scalar(self->who, -1, value, self->letter, space) < 0) {
        return -1;
    }
    if (self->atomic) {
        nc_atomic_exchange(self->size, place, space, space);
    } else {
        memcpy(place, space, self->size);
    }
    return 0;
}

static int field_set(PyObject *descriptor, PyObject *object, PyObject *value)
{
    const Field *self = (const Field *)(const void *)descriptor;
    if (NC_LIKELY(self->plain && Py_TYPE(object) == self->type && value != NULL &&
                  PyFloat_CheckExact(value))) {
        *(double *)(void *)((char *)NC_OBJECT_NATIVE(object) + self->at) = PyFloat_AS_DOUBLE(value);
        return 0;
    }
    return field_set_any(self, object, value);
}

/* ---- atomic fields --------------------------------------------------------------------------- */

/* Checks the arguments of a method, (object, number, ...), and converts the `wanted` numbers.
 * Returns the field's address, or NULL with an exception. */
static char *atomic_arguments(const Field *self, const char *method, PyObject *const *args,
                              Py_ssize_t given, int wanted, uint64_t *numbers)
{
    int status = 0;
    if (given != wanted + 1) {
        PyErr_Format(PyExc_TypeError, "%s() of a field takes an object and %s (got %zd argument%s)",
                     method, wanted == 1 ? "a number" : "two numbers", given,
                     given == 1 ? "" : "s");
        return NULL;
    }
    char *place = field_place(self, args[0]);
    if (place == NULL) {
        return NULL;
    }
    if (!self->atomic) {
        PyErr_Format(PyExc_TypeError,
                     "%U is not atomic; %s() needs nativecall.field(..., atomic=True)", self->who,
                     method);
        status = -1;
    }
    for (int i = 0; status == 0 && i < wanted; i++) {
        numbers[i] = 0;
        status = nc_convert_scalar(self->who, -1, args[i + 1], self->letter, &numbers[i]);
    }
    return status == 0 ? place : NULL;
}

static PyObject *field_add(PyObject *descriptor, PyObject *const *args, Py_ssize_t given)
{
    const Field *self = (const Field *)(const void *)descriptor;
    uint64_t added;
    uint64_t old = 0;
    if (self->atomic && strchr("bBhHiIqQ", self->letter) == NULL) {
        return PyErr_Format(PyExc_TypeError,
                            "%U is not an atomic integer; only these support add()", self->who);
    }
    char *place = atomic_arguments(self, "add", args, given, 1, &added);
    if (place == NULL) {
        return NULL;
    }
    nc_atomic_add(self->size, place, &added, &old);
    return nc_scalar_to_python(self->letter, &old);
}

static PyObject *field_exchange(PyObject *descriptor, PyObject *const *args, Py_ssize_t given)
{
    const Field *self = (const Field *)(const void *)descriptor;
    uint64_t value;
    uint64_t old = 0;
    char *place = atomic_arguments(self, "exchange", args, given, 1, &value);
    if (place == NULL) {
        return NULL;
    }
    nc_atomic_exchange(self->size, place, &value, &old);
    return nc_scalar_to_python(self->letter, &old);
}

static PyObject *field_compare_exchange(PyObject *descriptor, PyObject *const *args,
                                        Py_ssize_t given)
{
    const Field *self = (const Field *)(const void *)descriptor;
    uint64_t numbers[2]; /* expected, desired */
    char *place = atomic_arguments(self, "compare_exchange", args, given, 2, numbers);
    if (place == NULL) {
        return NULL;
    }
    return PyBool_FromLong(nc_atomic_compare_exchange(self->size, place, &numbers[0], &numbers[1]));
}

/* ---- the descriptor -------------------------------------------------------------------------- */

/* Looks up a field. Checks that the field has the type that the descriptor reads, lies within the
 * class's fields, is aligned, and does not overlap a reference. Otherwise returns NULL with
 * TypeError. */
static const NcField *find_field(const NcClass *cls, const char *name, char letter, size_t size)
{
    const char *key = NULL;
    const size_t number = nc_class_defines(cls, name, strlen(name), &key);
    const NcField *field = number != 0 && key == NULL ? &cls->fields[number - 1] : NULL;
    const size_t scalar = letter == '@' ? sizeof(void *) : nc_scalar_size(letter);
    if (field == NULL || (letter == '@') != (field->type == NULL) || size == 0 ||
        (letter != '\0' && scalar != size)) {
        PyErr_Format(PyExc_TypeError, "class '%s' has no field '%s' of this type", cls->name, name);
        return NULL;
    }
    if (field->offset > cls->fields_size || size > cls->fields_size - field->offset) {
        PyErr_Format(PyExc_TypeError,
                     "field '%s' of '%s' takes %zu bytes at offset %zu, but the fields of the "
                     "class have only %zu bytes",
                     name, cls->name, size, field->offset, cls->fields_size);
        return NULL;
    }
    if (nc_scalar_size(letter) != 0 && cls->fields_align % nc_scalar_alignment(letter) != 0) {
        PyErr_Format(PyExc_TypeError,
                     "field '%s' of '%s' needs an alignment of %zu, but the fields of the class "
                     "are aligned to %zu",
                     name, cls->name, nc_scalar_alignment(letter), cls->fields_align);
        return NULL;
    }
    const NcField *over = nc_class_field_over(cls, number - 1, size);
    if (over != NULL) {
        PyErr_Format(PyExc_TypeError, NC_FIELDS_OVERLAP, cls->name, field->name, over->name);
        return NULL;
    }
    return field;
}

/* Field(class, name, letter, size, atomic, load, store, doc): `letter` is a scalar's code, or "@"
 * for a counted reference. If `letter` is "", load(object, address) and store(object, value,
 * address) convert the values. */
static PyObject *field_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *cls;
    PyObject *name;
    const char *letter;
    Py_ssize_t size;
    int atomic;
    PyObject *load;
    PyObject *store;
    PyObject *doc;
    if ((kwargs != NULL && PyDict_GET_SIZE(kwargs) != 0) ||
        !PyArg_ParseTuple(args, "O!UsnpOOO:Field", &PyType_Type, &cls, &name, &letter, &size,
                          &atomic, &load, &store, &doc)) {
        return NULL;
    }
    const NcClass *native = nc_type_class((PyTypeObject *)(void *)cls);
    const char *text = PyUnicode_AsUTF8(name);
    if (native == NULL && text != NULL) {
        PyErr_Format(PyExc_TypeError, "%R is not a class of native objects", cls);
    }
    const NcField *field =
        native != NULL && text != NULL ? find_field(native, text, letter[0], (size_t)size) : NULL;
    Field *self = field != NULL ? (Field *)(void *)type->tp_alloc(type, 0) : NULL;
    if (self == NULL) {
        return NULL;
    }
    NC_SHARE(self);
    self->type = (PyTypeObject *)(void *)Py_NewRef(cls);
    self->cls = native;
    self->offset = (intptr_t)field->offset;
    self->at = native->offset + self->offset;
    self->size = (size_t)size;
    self->letter = letter[0];
    self->atomic = (char)atomic;
    self->plain = letter[0] == 'd' && !atomic;
    self->name = Py_NewRef(name);
    self->who = PyUnicode_FromFormat("field '%U' of '%s'", name, self->type->tp_name);
    self->of = Py_NewRef(field->cls != NULL ? (PyObject *)field->cls->type : Py_None);
    self->load = Py_NewRef(load);
    self->store = Py_NewRef(store);
    self->doc = Py_NewRef(doc);
    if (self->who == NULL) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static int field_traverse(PyObject *object, visitproc visit, void *arg)
{
    Field *self = (Field *)(void *)object;
    Py_VISIT(self->type);
    Py_VISIT(self->of);
    Py_VISIT(self->load);
    Py_VISIT(self->store);
    return 0;
}

/* No tp_clear: the collector breaks a cycle at the class or its namespace. */
static void field_dealloc(PyObject *object)
{
    Field *self = (Field *)(void *)object;
    PyObject_GC_UnTrack(object);
    Py_XDECREF(self->type);
    Py_XDECREF(self->name);
    Py_XDECREF(self->who);
    Py_XDECREF(self->of);
    Py_XDECREF(self->load);
    Py_XDECREF(self->store);
    Py_XDECREF(self->doc);
    PyObject_GC_Del(object);
}

static PyObject *field_repr(PyObject *object)
{
    Field *self = (Field *)(void *)object;
    return PyUnicode_FromFormat("<field '%U' of '%s' objects>", self->name, self->type->tp_name);
}

static PyMemberDef members[] = {
    {"__name__", T_OBJECT, offsetof(Field, name), READONLY, NULL},
    {"__objclass__", T_OBJECT, offsetof(Field, type), READONLY, NULL},
    {"__doc__", T_OBJECT, offsetof(Field, doc), READONLY, NULL},
    {"offset", T_PYSSIZET, offsetof(Field, at), READONLY,
     "Bytes from an object of this class, not a subclass, to the field; negative."},
    {"size", T_PYSSIZET, offsetof(Field, size), READONLY, "Size in bytes."},
    {"atomic", T_BOOL, offsetof(Field, atomic), READONLY,
     "Whether each access is one atomic operation."},
    {NULL, 0, 0, 0, NULL},
};

static PyMethodDef methods[] = {
    {"add", NC_METHOD(field_add), METH_FASTCALL,
     "add($self, object, number, /)\n--\n\nAdd to an atomic integer in one step and return "
     "its old value; overflow wraps around."},
    {"exchange", NC_METHOD(field_exchange), METH_FASTCALL,
     "exchange($self, object, value, /)\n--\n\nSet an atomic field and return its old value, in "
     "one operation."},
    {"compare_exchange", NC_METHOD(field_compare_exchange), METH_FASTCALL,
     "compare_exchange($self, object, expected, desired, /)\n--\n\n"
     "Set an atomic field to `desired` if it equals `expected`, in one operation.\n\n"
     "Return whether it did. Floats are compared by their bytes, as in C: 0.0 differs from\n"
     "-0.0, and a NaN equals itself."},
    {NULL, NULL, 0, NULL},
};

PyTypeObject NcField_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "nativecall.Field",
    .tp_doc = "A field of native objects.",
    .tp_basicsize = sizeof(Field),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = field_new,
    .tp_dealloc = field_dealloc,
    .tp_traverse = field_traverse,
    .tp_repr = field_repr,
    .tp_descr_get = field_get,
    .tp_descr_set = field_set,
    .tp_members = members,
    .tp_methods = methods,
};
