/* csrc/values/structpointer.c: the objects of structpointer.h. */
#include "structpointer.h"

#include "cffitypes.h"

#include <stddef.h>

static NcStructPointer *of(PyObject *object)
{
    return (NcStructPointer *)(void *)object;
}

/* What assigns to members of a type of cffi's; None where cffi's own objects do. A new reference,
 * or NULL. */
static PyObject *assigner(PyObject *structs, PyObject *cdata)
{
    PyObject *type = nc_type_of_cffi(cdata);
    PyObject *found = type != NULL ? PyDict_GetItemWithError(structs, type) : Py_None;
    return found != NULL || PyErr_Occurred() ? Py_XNewRef(found) : PyObject_GetItem(structs, type);
}

PyObject *nc_struct_pointer(PyObject *cdata, PyObject *structs, PyObject *kept)
{
    static PyObject *of_process; /* NULL before the first */
    if (cdata == NULL || !nc_is_cdata(cdata)) {
        return cdata;
    }
    PyObject *found = assigner(structs, cdata);
    if (found == Py_None) {
        Py_DECREF(found);
        return cdata;
    }
    if (kept == NULL && of_process == NULL) {
        of_process = PyDict_New();
    }
    kept = kept != NULL ? kept : of_process;
    NcStructPointer *self = found != NULL && kept != NULL
                                ? PyObject_GC_New(NcStructPointer, &NcStructPointer_Type)
                                : NULL;
    Py_XDECREF(found);
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

/* bare(value): the object of cffi's that a StructPointer stands for; another value itself. */
PyObject *nc_bare_of(PyObject *Py_UNUSED(module), PyObject *value)
{
    return Py_NewRef(nc_bare(value));
}

/* struct_pointer(cdata, structs): what stands for it, in memory of C's. */
PyObject *nc_struct_pointer_of(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *cdata;
    PyObject *structs;
    return PyArg_ParseTuple(args, "OO!", &cdata, &PyDict_Type, &structs)
               ? nc_struct_pointer(Py_NewRef(cdata), structs, NULL)
               : NULL;
}

/* ---- what cffi's object has ------------------------------------------------------------------ */

/* What is found in the memory, or leads there. */
static PyObject *found_in(PyObject *object, PyObject *value)
{
    return nc_struct_pointer(value, of(object)->structs, of(object)->kept);
}

/* Of attributes the object's own are `cdata` alone. */
static PyObject *pointer_getattr(PyObject *object, PyObject *name)
{
    PyObject *value = PyObject_GetAttr(of(object)->cdata, name);
    if (value != NULL || !PyErr_ExceptionMatches(PyExc_AttributeError) ||
        PyUnicode_CompareWithASCIIString(name, "cdata") != 0) {
        return found_in(object, value);
    }
    PyErr_Clear();
    return Py_NewRef(of(object)->cdata);
}

static int assign(PyObject *object, PyObject *key, PyObject *value)
{
    PyObject *cdata = of(object)->cdata;
    PyObject *function = assigner(of(object)->structs, cdata);
    PyObject *const args[] = {cdata, key, value, of(object)->kept};
    PyObject *done = function != NULL ? PyObject_Vectorcall(function, args, 4, NULL) : NULL;
    Py_XDECREF(function);
    Py_XDECREF(done);
    return done != NULL ? 0 : -1;
}

static int pointer_setattr(PyObject *object, PyObject *name, PyObject *value)
{
    if (value == NULL || PyLong_Check(value) || PyFloat_Check(value)) {
        if (PyObject_SetAttr(of(object)->cdata, name, value) == 0) {
            return 0;
        }
        if (value == NULL || !PyErr_ExceptionMatches(PyExc_TypeError)) {
            return -1;
        }
        PyErr_Clear();
    }
    return assign(object, name, value);
}

static PyObject *pointer_getitem(PyObject *object, PyObject *key)
{
    return found_in(object, PyObject_GetItem(of(object)->cdata, key));
}

static int pointer_setitem(PyObject *object, PyObject *key, PyObject *value)
{
    return value != NULL ? assign(object, key, value) : PyObject_DelItem(of(object)->cdata, key);
}

static Py_ssize_t pointer_length(PyObject *object)
{
    return PyObject_Size(of(object)->cdata);
}

static PyObject *pointer_item(PyObject *object, Py_ssize_t index)
{
    PyObject *key = PyLong_FromSsize_t(index);
    PyObject *item = key != NULL ? pointer_getitem(object, key) : NULL;
    Py_XDECREF(key);
    return item;
}

/* Of an array: its items are found in it. */
static PyObject *pointer_iter(PyObject *object)
{
    PyObject *items = PyObject_GetIter(of(object)->cdata);
    Py_XDECREF(items);
    return items != NULL ? PySeqIter_New(object) : NULL;
}

static PyObject *pointer_add(PyObject *one, PyObject *other)
{
    PyObject *object = Py_IS_TYPE(one, &NcStructPointer_Type) ? one : other;
    return found_in(object, PyNumber_Add(nc_bare(one), nc_bare(other)));
}

static PyObject *pointer_subtract(PyObject *one, PyObject *other)
{
    PyObject *object = Py_IS_TYPE(one, &NcStructPointer_Type) ? one : other;
    return found_in(object, PyNumber_Subtract(nc_bare(one), nc_bare(other)));
}

static int pointer_bool(PyObject *object)
{
    return PyObject_IsTrue(of(object)->cdata);
}

static PyObject *pointer_compare(PyObject *one, PyObject *other, int how)
{
    return PyObject_RichCompare(nc_bare(one), nc_bare(other), how);
}

static Py_hash_t pointer_hash(PyObject *object)
{
    return PyObject_Hash(of(object)->cdata);
}

static PyObject *pointer_repr(PyObject *object)
{
    return PyObject_Repr(of(object)->cdata);
}

/* A member that is a function, which takes such pointers. */
static PyObject *pointer_call(PyObject *object, PyObject *args, PyObject *kwargs)
{
    PyObject *bare = PyTuple_New(PyTuple_GET_SIZE(args));
    for (Py_ssize_t i = 0; bare != NULL && i < PyTuple_GET_SIZE(args); i++) {
        PyTuple_SET_ITEM(bare, i, Py_NewRef(nc_bare(PyTuple_GET_ITEM(args, i))));
    }
    PyObject *made = bare != NULL ? PyObject_Call(of(object)->cdata, bare, kwargs) : NULL;
    Py_XDECREF(bare);
    return nc_struct_pointer(made, of(object)->structs, NULL);
}

static PyObject *pointer_dir(PyObject *object, PyObject *Py_UNUSED(none))
{
    return PyObject_Dir(of(object)->cdata);
}

/* ---- the type -------------------------------------------------------------------------------- */

static int pointer_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(of(object)->cdata);
    Py_VISIT(of(object)->structs);
    Py_VISIT(of(object)->kept);
    return 0;
}

/* No tp_clear: cycles end in the memory and in dicts. */
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

static PyNumberMethods pointer_numbers = {
    .nb_add = pointer_add, .nb_subtract = pointer_subtract, .nb_bool = pointer_bool};
static PyMappingMethods pointer_items = {pointer_length, pointer_getitem, pointer_setitem};
static PySequenceMethods pointer_sequence = {.sq_item = pointer_item};
static PyMethodDef pointer_methods[] = {{"__dir__", pointer_dir, METH_NOARGS, NULL},
                                        {NULL, NULL, 0, NULL}};
PyTypeObject NcStructPointer_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "nativecall._ext.StructPointer",
    .tp_doc = "A pointer of cffi's to a struct whose members take what initialisers take.",
    .tp_basicsize = sizeof(NcStructPointer),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_weaklistoffset = offsetof(NcStructPointer, references),
    .tp_getattro = pointer_getattr,
    .tp_setattro = pointer_setattr,
    .tp_as_mapping = &pointer_items,
    .tp_as_sequence = &pointer_sequence,
    .tp_iter = pointer_iter,
    .tp_as_number = &pointer_numbers,
    .tp_richcompare = pointer_compare,
    .tp_hash = pointer_hash,
    .tp_repr = pointer_repr,
    .tp_call = pointer_call,
    .tp_traverse = pointer_traverse,
    .tp_dealloc = pointer_dealloc,
    .tp_methods = pointer_methods,
};
