/* csrc/values/structpointer.c: implements structpointer.h. */
#include "structpointer.h"

#include <structmember.h>

#include "cffitypes.h"
#include "platform/lock.h"

#include <stddef.h>

PyTypeObject *nc_struct_pointer_class;

static NcStructPointer *of(PyObject *object)
{
    return (NcStructPointer *)(void *)object;
}

/* Look up whether to wrap a cffi object. Return a borrowed item of `structs`, False if not; or NULL
 * with an exception. */
static PyObject *looked_up(PyObject *structs, PyObject *cdata)
{
    PyObject *type = nc_type_of_cffi(cdata);
    PyObject *found = type != NULL ? PyObject_GetItem(structs, type) : Py_NewRef(Py_False);
    Py_XDECREF(found); /* `structs` keeps it alive */
    return found;
}

PyObject *nc_struct_pointer(PyObject *cdata, PyObject *structs, PyObject *kept)
{
    static PyObject *of_process; /* NULL before first use */
    if (cdata == NULL || !nc_is_cdata(cdata)) {
        return cdata;
    }
    PyObject *found = looked_up(structs, cdata);
    if (found == Py_False) {
        return cdata;
    }
    kept = kept != NULL ? kept : nc_kept(&of_process);
    kept = kept != NULL ? kept : nc_keep_first(&of_process, PyDict_New());
    NcStructPointer *self = found != NULL && kept != NULL
                                ? PyObject_GC_New(NcStructPointer, nc_struct_pointer_class)
                                : NULL;
    if (self == NULL) {
        Py_DECREF(cdata);
        return NULL;
    }
    self->cdata = cdata;
    self->structs = Py_NewRef(structs);
    self->kept = Py_NewRef(kept);
    self->references = NULL;
    PyObject_GC_Track(self);
    return (PyObject *)self;
}

/* bare(value): return the cffi object that a StructPointer wraps, or the value itself. */
PyObject *nc_bare_of(PyObject *Py_UNUSED(module), PyObject *value)
{
    return Py_NewRef(nc_bare(value));
}

/* struct_pointer(cdata, structs, kept): wrap cdata if it points to a struct that contains pointers.
 * Omit `kept` for memory owned by C. */
PyObject *nc_struct_pointer_of(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *cdata;
    PyObject *structs;
    PyObject *kept = NULL;
    if (nc_struct_pointer_class == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "the class of struct pointers is not set yet");
        return NULL;
    }
    return PyArg_ParseTuple(args, "OO!|O!", &cdata, &PyDict_Type, &structs, &PyDict_Type, &kept)
               ? nc_struct_pointer(Py_NewRef(cdata), structs, kept)
               : NULL;
}

/* ---- attributes ------------------------------------------------------------------------------ */

/* Set an AttributeError and return 1 if the pointer is NULL, where cffi would read or write. Names
 * such as `__class__` are no members. */
static int is_null(PyObject *object, PyObject *name)
{
    if (PyObject_IsTrue(of(object)->cdata) ||
        (PyUnicode_GET_LENGTH(name) > 1 && PyUnicode_READ_CHAR(name, 0) == '_' &&
         PyUnicode_READ_CHAR(name, 1) == '_')) {
        return 0;
    }
    PyErr_Format(PyExc_AttributeError, "%R has no member %R", of(object)->cdata, name);
    return 1;
}

/* Return a member of the struct, or `cdata`, the wrapper's only own attribute. Pointers that are
 * read from the struct share the wrapper's `kept`. */
static PyObject *pointer_getattr(PyObject *object, PyObject *name)
{
    PyObject *value = is_null(object, name) ? NULL : PyObject_GetAttr(of(object)->cdata, name);
    if (value != NULL || !PyErr_ExceptionMatches(PyExc_AttributeError) ||
        PyUnicode_CompareWithASCIIString(name, "cdata") != 0) {
        return nc_struct_pointer(value, of(object)->structs, of(object)->kept);
    }
    PyErr_Clear();
    return PyObject_GenericGetAttr(object, name);
}

/* Assign to a member that is a pointer, and keep the value's target alive. Return 0, or -1 with an
 * exception, or 1 if Python code must assign, or raise the error. */
static int set_pointer(PyObject *object, PyObject *name, PyObject *value)
{
    NcStructPointer *self = of(object);
    PyObject *members = looked_up(self->structs, self->cdata);
    PyObject *member =
        members != NULL && PyDict_Check(members) ? PyDict_GetItemWithError(members, name) : NULL;
    if (member == NULL) {
        return PyErr_Occurred() ? -1 : 1;
    }
    PyObject *targets = PyList_New(0);
    PyObject *const args[] = {PyTuple_GET_ITEM(member, 0), value, targets};
    PyObject *made =
        targets != NULL ? PyObject_Vectorcall(PyTuple_GET_ITEM(member, 1), args, 3, NULL) : NULL;
    int status = -1;
    if (made != NULL && (made == Py_None || PyObject_SetAttr(self->cdata, name, made) < 0)) {
        PyErr_Clear();
        status = 1;
    } else if (made != NULL) {
        char *address = nc_address_of_cffi(self->cdata, nc_type_of_cffi(self->cdata));
        PyObject *place =
            PyLong_FromVoidPtr(address + PyLong_AsSsize_t(PyTuple_GET_ITEM(member, 2)));
        /* Without targets there is only an old one to drop. */
        if (place != NULL) {
            int changes = PyList_GET_SIZE(targets) != 0 || PyDict_Contains(self->kept, place);
            status = changes ? PyDict_SetItem(self->kept, place, targets) : 0;
        }
        Py_XDECREF(place);
    }
    Py_XDECREF(made);
    Py_XDECREF(targets);
    return status;
}

static int pointer_setattr(PyObject *object, PyObject *name, PyObject *value)
{
    if (is_null(object, name)) {
        return -1;
    }
    if (value == NULL || PyLong_Check(value) || PyFloat_Check(value)) {
        if (PyObject_SetAttr(of(object)->cdata, name, value) == 0) {
            return 0;
        }
        if (value == NULL || !PyErr_ExceptionMatches(PyExc_TypeError)) {
            return -1;
        }
        PyErr_Clear();
    }
    const int status = set_pointer(object, name, value);
    if (status <= 0) {
        return status;
    }
    PyObject *done = PyObject_CallMethod((PyObject *)nc_struct_pointer_class, "__setitem__", "OOO",
                                         object, name, value);
    Py_XDECREF(done);
    return done != NULL ? 0 : -1;
}

/* ---- operators ------------------------------------------------------------------------------- */

static int pointer_bool(PyObject *object)
{
    return PyObject_IsTrue(of(object)->cdata);
}

static PyObject *pointer_compare(PyObject *object, PyObject *other, int operator)
{
    return PyObject_RichCompare(of(object)->cdata, nc_bare(other), operator);
}

static Py_hash_t pointer_hash(PyObject *object)
{
    return PyObject_Hash(of(object)->cdata);
}

static PyNumberMethods pointer_number = {.nb_bool = pointer_bool};

/* ---- the type -------------------------------------------------------------------------------- */

static int pointer_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(of(object)->cdata);
    Py_VISIT(of(object)->structs);
    Py_VISIT(of(object)->kept);
    return 0;
}

/* No tp_clear: clearing the memory block and the dicts breaks cycles. */
static void pointer_dealloc(PyObject *object)
{
    PyObject_GC_UnTrack(object);
    if (of(object)->references != NULL) {
        PyObject_ClearWeakRefs(object);
    }
    Py_DECREF(of(object)->cdata);
    Py_DECREF(of(object)->structs);
    Py_DECREF(of(object)->kept);
    PyObject_GC_Del(object);
}

static PyMemberDef pointer_members[] = {
    {"cdata", T_OBJECT, offsetof(NcStructPointer, cdata), READONLY, "cffi's object"},
    {"_structs", T_OBJECT, offsetof(NcStructPointer, structs), READONLY, NULL},
    {"_kept", T_OBJECT, offsetof(NcStructPointer, kept), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject NcStructPointer_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "nativecall._ext.StructPointerBase",
    .tp_doc = "A cffi pointer to a struct; its members accept the same values as initialisers.",
    .tp_basicsize = sizeof(NcStructPointer),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE |
                Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_weaklistoffset = offsetof(NcStructPointer, references),
    .tp_as_number = &pointer_number,
    .tp_richcompare = pointer_compare,
    .tp_hash = pointer_hash,
    .tp_getattro = pointer_getattr,
    .tp_setattro = pointer_setattr,
    .tp_traverse = pointer_traverse,
    .tp_dealloc = pointer_dealloc,
    .tp_members = pointer_members,
};
