/* csrc/callback/callbackspec.c: the type of callbackspec.h. */
#include "callbackspec.h"

#include "values/records.h"
#include "values/scalars.h"

#include <structmember.h>

/* CallbackSpec(readers, objects, code, result, record, writer[, give, carrier]); None is what is
 * not there. With `give` it is for ctypes. */
static PyObject *callbackspec_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"readers", "objects", "code",    "result", "record",
                            "writer",  "give",    "carrier", NULL};
    NcCallbackSpec *self;
    PyObject *readers;
    PyObject *objects;
    PyObject *result;
    PyObject *record;
    PyObject *writer;
    PyObject *give = Py_None;
    PyObject *carrier = Py_None;
    int code;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!COOO|OO", names, &PyTuple_Type, &readers,
                                     &PyTuple_Type, &objects, &code, &result, &record, &writer,
                                     &give, &carrier)) {
        return NULL;
    }
    if ((result != Py_None && !Py_IS_TYPE(result, &NcCallSpec_Type)) ||
        (record != Py_None && !Py_IS_TYPE(record, &NcRecord_Type)) ||
        (carrier != Py_None && !PyType_Check(carrier))) {
        PyErr_SetString(PyExc_TypeError,
                        "CallbackSpec() takes a call spec, a Record and a class, or None");
        return NULL;
    }
    if (((code == 'P' || code == 'T') && result == Py_None) ||
        ((code == 'T' || give != Py_None) && writer == Py_None)) {
        PyErr_SetString(PyExc_TypeError, "CallbackSpec() of such a result takes a call spec and a "
                                         "writer");
        return NULL;
    }
    self = (NcCallbackSpec *)(void *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->readers = Py_NewRef(readers);
    self->objects = Py_NewRef(objects);
    self->result = result != Py_None ? (NcCallSpec *)(void *)Py_NewRef(result) : NULL;
    self->record = record != Py_None ? Py_NewRef(record) : NULL;
    self->writer = writer != Py_None ? Py_NewRef(writer) : NULL;
    self->give = give != Py_None ? Py_NewRef(give) : NULL;
    self->carrier = carrier != Py_None ? Py_NewRef(carrier) : NULL;
    self->code = (char)code;
    return (PyObject *)self;
}

static int callbackspec_traverse(PyObject *object, visitproc visit, void *arg)
{
    NcCallbackSpec *self = (NcCallbackSpec *)(void *)object;
    Py_VISIT(self->readers);
    Py_VISIT(self->writer);
    Py_VISIT(self->give);
    Py_VISIT(self->carrier);
    return 0;
}

static void callbackspec_dealloc(PyObject *object)
{
    NcCallbackSpec *self = (NcCallbackSpec *)(void *)object;
    PyObject_GC_UnTrack(object);
    Py_XDECREF(self->readers);
    Py_XDECREF(self->objects);
    Py_XDECREF(self->result);
    Py_XDECREF(self->record);
    Py_XDECREF(self->writer);
    Py_XDECREF(self->give);
    Py_XDECREF(self->carrier);
    Py_TYPE(object)->tp_free(object);
}

static PyMemberDef callbackspec_members[] = {
    {"readers", T_OBJECT_EX, offsetof(NcCallbackSpec, readers), READONLY, "of the arguments"},
    {NULL, 0, 0, 0, NULL},
};

/* No tp_clear: what is referred to is immutable in its turn, but for closures of Python's, whose
 * cells the collector clears. */
PyTypeObject NcCallbackSpec_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "nativecall._types.CallbackSpec",
    .tp_doc = "What all callbacks of a signature share.",
    .tp_basicsize = sizeof(NcCallbackSpec),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = callbackspec_new,
    .tp_traverse = callbackspec_traverse,
    .tp_members = callbackspec_members,
    .tp_dealloc = callbackspec_dealloc,
};

int nc_callbackspec_check_sentinel(const NcCallbackSpec *spec, Py_ssize_t size)
{
    PyObject *objects = spec->objects;
    size_t wanted = spec->code == 'v'                        ? (size_t)size
                    : spec->code == 'T'                      ? spec->result->arguments[0].size
                    : spec->code == 'O' || spec->code == 'P' ? sizeof(void *)
                                                             : nc_scalar_size(spec->code);
    if ((size_t)size != wanted) {
        PyErr_Format(PyExc_ValueError, "the sentinel has %zd bytes, the result %zu", size, wanted);
        return -1;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(objects); i++) {
        size_t offset = PyLong_AsSize_t(PyTuple_GET_ITEM(objects, i));
        if (PyErr_Occurred()) {
            return -1;
        }
        if (offset + sizeof(PyObject *) > (size_t)size) {
            PyErr_SetString(PyExc_ValueError, "an object lies outside of the result");
            return -1;
        }
    }
    return 0;
}
