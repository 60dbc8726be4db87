/* csrc/values/keep.c: the objects of keep.h. A cycle through one is found by the collector. */
#include "keep.h"

#include "layout.h"

#include <structmember.h>

typedef struct {
    PyObject_HEAD
    PyObject *owner;
    vectorcallfunc vectorcall;
} NcKeep;

static PyObject *drop(PyObject *object, PyObject *const *Py_UNUSED(args), size_t nargsf,
                      PyObject *kwnames)
{
    NcKeep *self = (NcKeep *)(void *)object;
    if (PyVectorcall_NARGS(nargsf) != 1 || kwnames != NULL) {
        PyErr_SetString(PyExc_TypeError, "it is called with one argument");
        return NULL;
    }
    Py_CLEAR(self->owner);
    Py_RETURN_NONE;
}

PyObject *nc_keep_new(PyObject *owner)
{
    NcKeep *self = PyObject_GC_New(NcKeep, &NcKeep_Type);
    if (self != NULL) {
        self->owner = Py_NewRef(owner);
        self->vectorcall = drop;
        PyObject_GC_Track(self);
    }
    return (PyObject *)self;
}

PyObject *nc_cffi_keeping(PyObject *pointer, PyObject *owner)
{
    static PyObject *gcp; /* cffi's; NULL before the first */
    if (gcp == NULL) {
        PyObject *module = PyImport_ImportModule("_cffi_backend");
        PyObject *found = module != NULL ? PyObject_GetAttrString(module, "gcp") : NULL;
        Py_XDECREF(module);
        if (found == NULL) {
            return NULL;
        }
        nc_keep_first(&gcp, found);
    }
    PyObject *const args[] = {pointer, nc_keep_new(owner)};
    PyObject *made = args[1] != NULL ? PyObject_Vectorcall(gcp, args, 2, NULL) : NULL;
    Py_XDECREF(args[1]);
    return made;
}

static PyObject *keep_new(PyTypeObject *Py_UNUSED(type), PyObject *args, PyObject *kwargs)
{
    PyObject *owner;
    if (kwargs != NULL && PyDict_GET_SIZE(kwargs) != 0) {
        PyErr_SetString(PyExc_TypeError, "Keep() takes no keyword arguments");
        return NULL;
    }
    return PyArg_ParseTuple(args, "O", &owner) ? nc_keep_new(owner) : NULL;
}

static int keep_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(((NcKeep *)(void *)object)->owner);
    return 0;
}

static int keep_clear(PyObject *object)
{
    Py_CLEAR(((NcKeep *)(void *)object)->owner);
    return 0;
}

static void keep_dealloc(PyObject *object)
{
    PyObject_GC_UnTrack(object);
    (void)keep_clear(object);
    PyObject_GC_Del(object);
}

static PyMemberDef keep_members[] = {
    {"owner", T_OBJECT, offsetof(NcKeep, owner), READONLY, "what is kept alive, or None"},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject NcKeep_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "nativecall._types.Keep",
    .tp_doc = "A destructor that does nothing but hold its object until it is called.",
    .tp_basicsize = sizeof(NcKeep),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(NcKeep, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_new = keep_new,
    .tp_traverse = keep_traverse,
    .tp_clear = keep_clear,
    .tp_dealloc = keep_dealloc,
    .tp_members = keep_members,
};
