/* csrc/callable/fastpath.c: the type of fastpath.h. */
#include "fastpath.h"

#include "platform/functions.h"
#include "values/pointers.h"

#include <string.h>
#include <structmember.h>

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    NcUsual usual;
    PyObject *function;
    PyObject *data; /* tuple: for `usual` */
    PyObject *weakrefs;
} Shortcut;

static PyObject *shortcut_vectorcall(PyObject *object, PyObject *const *args, size_t nargsf,
                                     PyObject *kwnames)
{
    Shortcut *self = (Shortcut *)(void *)object;
    PyObject *made = self->usual(self->data, args, PyVectorcall_NARGS(nargsf), kwnames);
    return made != NULL || PyErr_Occurred()
               ? made
               : PyObject_Vectorcall(self->function, args, nargsf, kwnames);
}

/* No tp_clear: in a cycle it is the function that is cleared. */
static int shortcut_traverse(PyObject *object, visitproc visit, void *arg)
{
    Shortcut *self = (Shortcut *)(void *)object;
    Py_VISIT(self->function);
    Py_VISIT(self->data);
    return 0;
}

static void shortcut_dealloc(PyObject *object)
{
    Shortcut *self = (Shortcut *)(void *)object;
    PyObject_GC_UnTrack(object);
    if (self->weakrefs != NULL) {
        PyObject_ClearWeakRefs(object);
    }
    Py_DECREF(self->function);
    Py_DECREF(self->data);
    PyObject_GC_Del(object);
}

/* As an attribute of a class it is a method, as its function would be. */
static PyObject *shortcut_get(PyObject *object, PyObject *instance, PyObject *Py_UNUSED(class))
{
    return instance == NULL || instance == Py_None ? Py_NewRef(object)
                                                   : PyMethod_New(object, instance);
}

static PyObject *shortcut_repr(PyObject *object)
{
    return PyObject_Repr(((Shortcut *)(void *)object)->function);
}

/* By its name, for pickle and copy. */
static PyObject *shortcut_reduce(PyObject *object, PyObject *Py_UNUSED(none))
{
    return PyObject_GetAttrString(((Shortcut *)(void *)object)->function, "__qualname__");
}

/* What the function says of itself; `name` is that of the attribute. */
static PyObject *get_attribute(PyObject *object, void *name)
{
    return PyObject_GetAttrString(((Shortcut *)(void *)object)->function, (const char *)name);
}

static int set_attribute(PyObject *object, PyObject *value, void *name)
{
    return PyObject_SetAttrString(((Shortcut *)(void *)object)->function, (const char *)name,
                                  value);
}

#define ATTRIBUTE(name) {name, get_attribute, set_attribute, NULL, (void *)(uintptr_t)(name)}

static PyGetSetDef shortcut_getset[] = {
    ATTRIBUTE("__name__"),       ATTRIBUTE("__qualname__"),      ATTRIBUTE("__module__"),
    ATTRIBUTE("__doc__"),        ATTRIBUTE("__annotations__"),   ATTRIBUTE("__defaults__"),
    ATTRIBUTE("__kwdefaults__"), {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef shortcut_members[] = {
    {"__wrapped__", T_OBJECT_EX, offsetof(Shortcut, function), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyMethodDef shortcut_methods[] = {
    {"__reduce__", shortcut_reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

PyTypeObject NcShortcut_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "nativecall._ext.Shortcut",
    .tp_basicsize = sizeof(Shortcut),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                Py_TPFLAGS_METHOD_DESCRIPTOR | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_vectorcall_offset = offsetof(Shortcut, vectorcall),
    .tp_weaklistoffset = offsetof(Shortcut, weakrefs),
    .tp_call = PyVectorcall_Call,
    .tp_descr_get = shortcut_get,
    .tp_repr = shortcut_repr,
    .tp_traverse = shortcut_traverse,
    .tp_dealloc = shortcut_dealloc,
    .tp_methods = shortcut_methods,
    .tp_members = shortcut_members,
    .tp_getset = shortcut_getset,
};

/* ---- what goes to C -------------------------------------------------------------------------- */

enum { MOST = 4 }; /* arguments, of which no function of cffi's that takes a type has more */

/* A function of cffi's whose first argument is a type in a text that is known; `data` is a dict of
 * these, and the function. */
static PyObject *call_typed(PyObject *data, PyObject *const *args, Py_ssize_t nargs,
                            PyObject *kwnames)
{
    PyObject *given[MOST];
    if ((kwnames != NULL && PyTuple_GET_SIZE(kwnames) != 0) || nargs < 1 || nargs > MOST ||
        !PyUnicode_CheckExact(args[0])) {
        return NULL;
    }
    given[0] = PyDict_GetItemWithError(PyTuple_GET_ITEM(data, 0), args[0]);
    if (given[0] == NULL) {
        return NULL;
    }
    for (Py_ssize_t i = 1; i < nargs; i++) {
        given[i] = args[i];
    }
    Py_INCREF(given[0]);
    PyObject *result = PyObject_Vectorcall(PyTuple_GET_ITEM(data, 1), given, (size_t)nargs, NULL);
    Py_DECREF(given[0]);
    return result;
}

static const struct {
    const char *kind;
    NcUsual usual;
    Py_ssize_t data; /* items */
} kinds[] = {{"wrap", nc_usual_wrap, 0},
             {"callback", nc_usual_callback, 2},
             {"string", nc_string_at, 0},
             {"new", nc_usual_new, 1},
             {"typed", call_typed, 2}};

/* shortcut(kind, function, data): a Shortcut to a function of Python's, or to a method. */
PyObject *nc_make_shortcut(PyObject *Py_UNUSED(module), PyObject *args)
{
    const char *kind;
    PyObject *function;
    PyObject *data;
    Shortcut *self;
    if (!PyArg_ParseTuple(args, "sOO!", &kind, &function, &PyTuple_Type, &data)) {
        return NULL;
    }
    for (size_t i = 0; i < Py_ARRAY_LENGTH(kinds); i++) {
        if (strcmp(kind, kinds[i].kind) != 0 || PyTuple_GET_SIZE(data) != kinds[i].data ||
            (!PyFunction_Check(function) && !PyMethod_Check(function))) {
            continue;
        }
        self = PyObject_GC_New(Shortcut, &NcShortcut_Type);
        if (self != NULL) {
            self->vectorcall = shortcut_vectorcall;
            self->usual = kinds[i].usual;
            self->function = Py_NewRef(function);
            self->data = Py_NewRef(data);
            self->weakrefs = NULL;
            PyObject_GC_Track(self);
        }
        return (PyObject *)self;
    }
    PyErr_SetString(PyExc_TypeError, "a shortcut has a kind, a function and its kind's data");
    return NULL;
}
