/* csrc/callable/callbackspec.c: the type of callbackspec.h. */
#include "callbackspec.h"

#include "call/plan.h"
#include "values/scalars.h"

#include <string.h>
#include <structmember.h>

/* Whether a sentinel of `size` bytes is a result, and its objects lie in it: 0, or -1 with
 * ValueError. */
static int check_sentinel(const NcCallbackSpec *self, size_t size)
{
    PyObject *objects = self->objects;
    size_t wanted = self->letter == 'v'                          ? 0
                    : self->letter == 'T'                        ? self->result->arguments[0].size
                    : self->letter == 'O' || self->letter == 'P' ? sizeof(void *)
                                                                 : nc_scalar_size(self->letter);
    if (size != wanted) {
        PyErr_Format(PyExc_ValueError, "the sentinel has %zu bytes, the result %zu", size, wanted);
        return -1;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(objects); i++) {
        size_t offset = PyLong_AsSize_t(PyTuple_GET_ITEM(objects, i));
        if (PyErr_Occurred()) {
            return -1;
        }
        if (offset > size || size - offset < sizeof(PyObject *)) {
            PyErr_SetString(PyExc_ValueError, "an object lies outside of the result");
            return -1;
        }
    }
    return 0;
}

/* Whether bytes are a closure plan: 0, or -1 with ValueError. */
static int check_plan(PyObject *planned, Py_ssize_t readers)
{
    const size_t size = (size_t)PyBytes_GET_SIZE(planned);
    const NcClosurePlan *plan = (const NcClosurePlan *)(const void *)PyBytes_AS_STRING(planned);
    if (size < sizeof(*plan) || plan->args != (size_t)readers ||
        (size - sizeof(*plan)) / sizeof(NcStep) < plan->args) {
        PyErr_SetString(PyExc_ValueError, "'plan' must be the closure plan of so many readers");
        return -1;
    }
    return 0;
}

/* CallbackSpec(readers, objects, letter, result, plan, sentinel, *, ...); `keep` may be None. */
static PyObject *callbackspec_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"readers",  "objects",    "letter",  "result",        "plan",
                            "sentinel", "keep",       "has_gil", "python_errors", "passed",
                            "kept",     "sets_errno", NULL};
    PyObject *readers;
    PyObject *objects;
    PyObject *result;
    PyObject *planned;
    PyObject *keep = Py_None;
    const char *sentinel;
    Py_ssize_t size;
    int letter;
    int has_gil = 0;
    int python_errors = 0;
    int passed = 0;
    int kept = 0;
    int sets_errno = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!COSy#|$Oppppp", names, &PyTuple_Type,
                                     &readers, &PyTuple_Type, &objects, &letter, &result, &planned,
                                     &sentinel, &size, &keep, &has_gil, &python_errors, &passed,
                                     &kept, &sets_errno)) {
        return NULL;
    }
    if (result != Py_None ? !Py_IS_TYPE(result, &NcCallSpec_Type)
                          : letter == 'P' || letter == 'T') {
        PyErr_SetString(PyExc_TypeError, "'result' must be the call spec of the result");
        return NULL;
    }
    if (check_plan(planned, PyTuple_GET_SIZE(readers)) < 0) {
        return NULL;
    }
    NcCallbackSpec *self = (NcCallbackSpec *)(void *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->readers = Py_NewRef(readers);
    self->objects = Py_NewRef(objects);
    self->result = result != Py_None ? (NcCallSpec *)(void *)Py_NewRef(result) : NULL;
    self->planned = Py_NewRef(planned);
    self->plan = (const NcClosurePlan *)(const void *)PyBytes_AS_STRING(planned);
    self->keep = Py_NewRef(keep);
    self->letter = (char)letter;
    self->has_gil = (char)has_gil;
    self->python_errors = (char)python_errors;
    self->passed = (char)passed;
    self->kept = (char)kept;
    self->frees = letter == 'v' && self->plan->args == 1 && self->plan->steps[0].letter == 'P';
    self->sets_errno = (char)sets_errno;
    if (check_sentinel(self, (size_t)size) < 0) {
        goto fail;
    }
    self->sentinel = PyMem_Calloc(1, (size_t)size + 1);
    if (self->sentinel == NULL) {
        PyErr_NoMemory();
        goto fail;
    }
    memcpy(self->sentinel, sentinel, (size_t)size);
    self->size = (size_t)size;
    return (PyObject *)self;

fail:
    Py_DECREF(self);
    return NULL;
}

static int callbackspec_traverse(PyObject *object, visitproc visit, void *arg)
{
    NcCallbackSpec *self = (NcCallbackSpec *)(void *)object;
    Py_VISIT(self->readers);
    Py_VISIT(self->keep);
    return 0;
}

static void callbackspec_dealloc(PyObject *object)
{
    NcCallbackSpec *self = (NcCallbackSpec *)(void *)object;
    PyObject_GC_UnTrack(object);
    Py_XDECREF(self->readers);
    Py_XDECREF(self->objects);
    Py_XDECREF(self->result);
    Py_XDECREF(self->planned);
    Py_XDECREF(self->keep);
    PyMem_Free(self->sentinel);
    Py_TYPE(object)->tp_free(object);
}

static PyMemberDef callbackspec_members[] = {
    {"objects", T_OBJECT_EX, offsetof(NcCallbackSpec, objects), READONLY,
     "offsets of Python objects in the result"},
    {NULL, 0, 0, 0, NULL},
};

static PyObject *callbackspec_get_sentinel(PyObject *object, void *Py_UNUSED(closure))
{
    const NcCallbackSpec *self = (const NcCallbackSpec *)(void *)object;
    return PyBytes_FromStringAndSize((const char *)self->sentinel, (Py_ssize_t)self->size);
}

static PyGetSetDef callbackspec_getset[] = {
    {"sentinel", callbackspec_get_sentinel, NULL, "what C gets when there is no result: bytes",
     NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

/* No tp_clear: what is referred to is immutable in its turn, but for closures of Python's, whose
 * cells the collector clears, and for what a sentinel points to, which C may read. */
PyTypeObject NcCallbackSpec_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "nativecall._ext.CallbackSpec",
    .tp_doc = "What all callbacks of a signature and of the same options share.",
    .tp_basicsize = sizeof(NcCallbackSpec),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = callbackspec_new,
    .tp_traverse = callbackspec_traverse,
    .tp_members = callbackspec_members,
    .tp_getset = callbackspec_getset,
    .tp_dealloc = callbackspec_dealloc,
};
