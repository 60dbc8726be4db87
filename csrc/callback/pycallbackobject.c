/* csrc/callback/pycallbackobject.c: PyCallback, as Python code makes, closes and drops it; the type
 * of pycallbackobject.h. */
#include "pycallbackobject.h"

#include "ctypescall.h"
#include "ground/address.h"
#include "ground/exceptions.h"
#include "ground/stub.h"
#include "values/records.h"

#include <structmember.h>
#include <string.h>

/* PyCallback(spec, code, function, name, who, sentinel, *, stash, keep, has_gil, python_errors).
 * `code` is (address, owner) of what a stub is to lead to; None with ctypes. */
static PyObject *pycallback_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"spec",  "code", "function", "name",          "who", "sentinel",
                            "stash", "keep", "has_gil",  "python_errors", NULL};
    NcPyCallback *self;
    NcCallbackSpec *spec;
    PyObject *code;
    PyObject *function;
    PyObject *name;
    PyObject *who;
    PyObject *stash = Py_None;
    PyObject *keep = Py_None;
    const char *sentinel;
    Py_ssize_t size;
    int has_gil = 0;
    int python_errors = 0;
    void *machine_code = NULL;
    PyObject *owner = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!OOUUy#|$OOpp", names, &NcCallbackSpec_Type,
                                     &spec, &code, &function, &name, &who, &sentinel, &size, &stash,
                                     &keep, &has_gil, &python_errors)) {
        return NULL;
    }
    if ((code == Py_None) != (spec->give != NULL) ||
        (stash != Py_None && !Py_IS_TYPE(stash, &NcStash_Type))) {
        PyErr_SetString(PyExc_TypeError,
                        "PyCallback() takes code, or a spec for ctypes, and a Stash or None");
        return NULL;
    }
    if (code != Py_None) {
        if (!PyTuple_Check(code) || PyTuple_GET_SIZE(code) != 2) {
            PyErr_SetString(PyExc_TypeError, "the code of a PyCallback() is (address, owner)");
            return NULL;
        }
        machine_code = nc_address(PyTuple_GET_ITEM(code, 0), "there is no code at address 0");
        owner = PyTuple_GET_ITEM(code, 1);
        if (machine_code == NULL) {
            return NULL;
        }
    }
    if (nc_callbackspec_check_sentinel(spec, size) < 0) {
        return NULL;
    }
    self = (NcPyCallback *)(void *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->vectorcall = nc_pycallback_called_by_ctypes;
    self->symbols = nc_symbols;
    self->enter = has_gil ? nc_pycallback_enter_holding : nc_pycallback_enter_any;
    self->spec = (NcCallbackSpec *)(void *)Py_NewRef(spec);
    self->function = Py_NewRef(function);
    self->name = Py_NewRef(name);
    self->who = Py_NewRef(who);
    self->machine_code = Py_XNewRef(owner);
    self->keep = keep != Py_None ? Py_NewRef(keep) : NULL;
    self->code = spec->code;
    self->python_errors = python_errors;
    if (spec->give != NULL) {
        self->given = PyObject_CallFunction(spec->give, "y#", sentinel, size);
        if (self->given == NULL) {
            goto fail;
        }
    }
    self->sentinel = PyMem_Calloc(1, (size_t)size + 1);
    if (self->sentinel == NULL) {
        PyErr_NoMemory();
        goto fail;
    }
    memcpy(self->sentinel, sentinel, (size_t)size);
    self->size = (size_t)size;
    if (stash != Py_None) {
        /* What C code was given must last as long as the call that the function was passed to. */
        self->stash = Py_NewRef(stash);
        self->enter = nc_pycallback_enter_passed;
        self->kept = PyList_New(0);
        if (self->kept == NULL) {
            goto fail;
        }
    }
    if (machine_code != NULL) {
        self->stub = nc_stub_new(machine_code, self);
        if (self->stub == NULL) {
            goto fail;
        }
    }
    return (PyObject *)self;

fail:
    Py_DECREF(self);
    return NULL;
}

static int pycallback_traverse(PyObject *object, visitproc visit, void *arg)
{
    NcPyCallback *self = (NcPyCallback *)(void *)object;
    Py_VISIT(self->spec);
    Py_VISIT(self->function);
    Py_VISIT(self->stash);
    Py_VISIT(self->kept);
    Py_VISIT(self->keep);
    return 0;
}

/* Cleared is closed. */
static int pycallback_clear(PyObject *object)
{
    NcPyCallback *self = (NcPyCallback *)(void *)object;
    Py_CLEAR(self->function);
    Py_CLEAR(self->stash);
    Py_CLEAR(self->kept);
    return 0;
}

static void pycallback_dealloc(PyObject *object)
{
    NcPyCallback *self = (NcPyCallback *)(void *)object;
    PyObject_GC_UnTrack(object);
    if (self->weakrefs != NULL) {
        PyObject_ClearWeakRefs(object);
    }
    (void)pycallback_clear(object);
    nc_pycallback_drop_spares(self);
    if (self->stub != NULL && nc_is_finalizing()) {
        /* Threads of C code may call until the process ends; they get the sentinel. */
        return;
    }
    nc_stub_free(self->stub);
    Py_CLEAR(self->spec);
    Py_CLEAR(self->given);
    Py_CLEAR(self->name);
    Py_CLEAR(self->who);
    Py_CLEAR(self->keep);
    Py_CLEAR(self->machine_code);
    PyMem_Free(self->sentinel);
    Py_TYPE(object)->tp_free(object);
}

static PyObject *pycallback_close(PyObject *object, PyObject *Py_UNUSED(none))
{
    NcPyCallback *self = (NcPyCallback *)(void *)object;
    Py_CLEAR(self->function);
    Py_CLEAR(self->kept);
    Py_RETURN_NONE;
}

/* store(value, address): what a result is for C. */
static PyObject *pycallback_store(PyObject *object, PyObject *args)
{
    PyObject *value;
    PyObject *address;
    void *out;
    if (!PyArg_ParseTuple(args, "OO!", &value, &PyLong_Type, &address)) {
        return NULL;
    }
    out = nc_address(address, "cannot store at address 0");
    if (out == NULL || nc_pycallback_store((NcPyCallback *)(void *)object, value, out) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *pycallback_release_sentinel(PyObject *object, PyObject *Py_UNUSED(none))
{
    nc_pycallback_release_sentinel((const NcPyCallback *)(void *)object);
    Py_RETURN_NONE;
}

static PyObject *pycallback_forget_sentinels(PyObject *Py_UNUSED(object), PyObject *Py_UNUSED(none))
{
    nc_pycallback_forget_sentinels();
    Py_RETURN_NONE;
}

static PyObject *pycallback_get_address(PyObject *object, void *Py_UNUSED(closure))
{
    return PyLong_FromVoidPtr(((NcPyCallback *)(void *)object)->stub);
}

static PyMethodDef pycallback_methods[] = {
    {"store", pycallback_store, METH_VARARGS, "store(value, address): as a result"},
    {"close", pycallback_close, METH_NOARGS, "drops the function; calls fail from now on"},
    {"release_sentinel", pycallback_release_sentinel, METH_NOARGS,
     "drops what the lost sentinel refers to"},
    {"forget_sentinels", pycallback_forget_sentinels, METH_NOARGS,
     "before a call that may release_sentinel"},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef pycallback_members[] = {
    {"function", T_OBJECT, offsetof(NcPyCallback, function), READONLY, "None once closed"},
    {"kept", T_OBJECT, offsetof(NcPyCallback, kept), READONLY, "what results point into"},
    {"running", T_PYSSIZET, offsetof(NcPyCallback, running), READONLY,
     "with ctypes: calls that run"},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef pycallback_getset[] = {
    {"address", pycallback_get_address, NULL, "the C function pointer; 0 with ctypes", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject NcPyCallback_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "nativecall._types.PyCallback",
    .tp_doc = "A Python function that C code calls.",
    .tp_basicsize = sizeof(NcPyCallback),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(NcPyCallback, vectorcall),
    .tp_weaklistoffset = offsetof(NcPyCallback, weakrefs),
    .tp_call = PyVectorcall_Call,
    .tp_new = pycallback_new,
    .tp_traverse = pycallback_traverse,
    .tp_clear = pycallback_clear,
    .tp_dealloc = pycallback_dealloc,
    .tp_methods = pycallback_methods,
    .tp_members = pycallback_members,
    .tp_getset = pycallback_getset,
};

int nc_pycallback_ready(PyObject *module)
{
    nc_pycallback_set_interpreter();
    return PyModule_AddType(module, &NcCallbackSpec_Type) < 0
               ? -1
               : PyModule_AddType(module, &NcPyCallback_Type);
}
