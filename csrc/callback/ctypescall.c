/* csrc/callback/ctypescall.c: callbacks where no code can be generated: ctypes makes the C pointer
 * and calls the object. The results and the errors are those of generated code, but an exception
 * reaches the thread state only when ctypes drops the result. */
#include "pycallbackobject.h"
#include "ground/address.h"
#include "ground/exceptions.h"
#include "ground/stack.h"

#include <string.h>
#include <structmember.h>

typedef struct {
    NcPyCallback base;
    vectorcallfunc vectorcall; /* as ctypes calls it */
    PyObject *given;           /* what ctypes is given for the sentinel */
    Py_ssize_t running;        /* calls that run */
    PyObject *weakrefs;        /* weak references to this object */
} NcCtypesCallback;

/* A number of a class that carries a reraiser; NULL without an exception where memory is short. No
 * Python code runs, which could fail: C would be left without a result. */
static PyObject *make_carrier(PyObject *type, PyObject *value, PyObject *reraiser)
{
    if (type == NULL) {
        return Py_NewRef(reraiser);
    }
    PyObject *args = PyTuple_Pack(1, value);
    PyObject *made =
        args != NULL
            ? ((PyTypeObject *)(void *)type)->tp_new((PyTypeObject *)(void *)type, args, NULL)
            : NULL;
    Py_XDECREF(args);
    if (made == NULL || PyObject_SetAttrString(made, "reraiser", reraiser) < 0) {
        PyErr_Clear();
        Py_CLEAR(made);
    }
    return made;
}

/* What to give to ctypes: `value`, or the sentinel where it is NULL, so that in the end the
 * exception `left` is left, or what was before is restored. Where there is no reraiser, that is
 * deferred. Takes the references. `last` is the last argument. */
static PyObject *return_to_ctypes(NcCtypesCallback *self, PyObject *value, PyObject *left,
                                  NcPyCallbackCall *call, PyObject *last)
{
    NcRaised before;
    PyObject *made = NULL;
    memset(&before, 0, sizeof(before));
    if ((call->ending & NC_PYCALLBACK_RESTORE) != 0) {
        before = call->before;
    }
    if (value == NULL) {
        if (self->base.spec->tells_last && PyLong_Check(last)) {
            *(int *)PyLong_AsVoidPtr(last) = 1;
        }
        value = Py_NewRef(self->given);
        nc_pycallback_reference_sentinel(&self->base);
    }
    if (left == NULL && !nc_raised_is_set(&before)) {
        return value;
    }
    PyObject *reraiser = nc_reraiser_new();
    if (reraiser != NULL) {
        made = make_carrier(self->base.spec->carrier, value, reraiser);
    }
    if (made != NULL) {
        nc_reraiser_arm(reraiser, left, &before);
        Py_DECREF(value);
    } else {
        PyErr_Clear();
        made = value;
        if (left == NULL) {
            nc_raised_restore(&before);
            left = nc_exception_take();
        }
        nc_exception_defer(left, nc_pycallback_reported_as(&self->base));
    }
    Py_XDECREF(reraiser);
    return made;
}

/* What the function gets for an argument as ctypes hands it over: a number, a pointer as an int or
 * None, or a box. A new reference, or NULL. */
static PyObject *argument_of_ctypes(const NcPyCallback *self, size_t index, PyObject *given)
{
    PyObject *reader = PyTuple_GET_ITEM(self->spec->readers, (Py_ssize_t)index);
    if (PyUnicode_Check(reader)) {
        return nc_pycallback_object_argument(
            self, index, given != Py_None ? (PyObject *)PyLong_AsVoidPtr(given) : NULL);
    }
    return PyCallable_Check(reader)
               ? nc_pycallback_noted(self, index, PyObject_CallOneArg(reader, given))
               : Py_NewRef(given);
}

static PyObject *called_by_ctypes(PyObject *object, PyObject *const *args, size_t nargsf,
                                  PyObject *kwnames)
{
    NcCtypesCallback *self = (NcCtypesCallback *)(void *)object;
    NcPyCallback *base = &self->base;
    size_t total = (size_t)PyVectorcall_NARGS(nargsf);
    size_t count = (size_t)PyTuple_GET_SIZE(base->spec->readers);
    PyObject *last = total != 0 ? args[total - 1] : Py_None;
    PyThreadState *thread = PyThreadState_Get();
    NcPyCallbackCall call;
    PyObject *value = NULL;
    PyObject *left = NULL;
    memset(&call, 0, sizeof(call));
    if (kwnames != NULL || total < count || total - count > (size_t)base->spec->tells_last) {
        PyErr_SetString(PyExc_TypeError, "only ctypes calls this");
        return NULL;
    }
    if (nc_is_foreign(thread)) {
        if (!nc_thread_has_exception(thread)) {
            nc_exception_refuse_foreign(thread);
            PyErr_WriteUnraisable(NULL); /* ctypes takes no result with an exception set */
        }
        return return_to_ctypes(self, NULL, NULL, &call, last);
    }
    if ((nc_thread_has_exception(thread) || nc_is_left()) && nc_left_here()) {
        return return_to_ctypes(self, NULL, nc_exception_take(), &call, last);
    }
    if (nc_thread_has_exception(thread)) {
        nc_raised_take(&call.before);
        call.ending = NC_PYCALLBACK_RESTORE;
    }
    if (nc_pycallback_has_failed(base)) {
        return return_to_ctypes(self, NULL, NULL, &call, last);
    }
    Py_INCREF(self);
    self->running++;
    nc_pycallback_errno_take(&call);
    PyObject **given = (PyObject **)PyMem_Calloc(count + 1, sizeof(PyObject *));
    if (given == NULL) {
        (void)PyErr_NoMemory();
    } else if (!nc_stack_has_room(thread, &call) && !nc_stack_look(thread)) {
        nc_pycallback_too_deep(base);
    } else {
        for (size_t i = 0; i < count; i++) {
            given[1 + i] = PyErr_Occurred() ? NULL : argument_of_ctypes(base, i, args[i]);
        }
        value = nc_pycallback_call(base, given, count);
        for (size_t i = 1; i <= count; i++) {
            Py_XDECREF(given[i]);
        }
    }
    PyMem_Free(given);
    PyObject *result = value == NULL
                           ? NULL
                           : PyObject_CallFunctionObjArgs(base->spec->writer, object, value, NULL);
    if (result == NULL) {
        left = nc_pycallback_place_exception(base, call.ending != 0, base->spec->has_gil);
    }
    Py_XDECREF(value);
    result = return_to_ctypes(self, result, left, &call, last);
    self->running--;
    Py_DECREF(self);
    nc_pycallback_errno_give(&call);
    return result;
}

/* CtypesCallback(spec, function, name, who). */
static PyObject *ctypescallback_vectorcall(PyObject *type, PyObject *const *args, size_t nargsf,
                                           PyObject *kwnames)
{
    if (nc_pycallback_check(args, nargsf, kwnames, 1) < 0) {
        return NULL;
    }
    NcCallbackSpec *spec = (NcCallbackSpec *)(void *)args[0];
    PyObject *names = nc_pycallback_names(args[2], args[3]);
    NcCtypesCallback *self = names != NULL ? (NcCtypesCallback *)(void *)nc_pycallback_make(
                                                 (PyTypeObject *)(void *)type, spec, args[1], names)
                                           : NULL;
    Py_XDECREF(names);
    if (self == NULL) {
        return NULL;
    }
    self->vectorcall = called_by_ctypes;
    self->given = PyObject_CallFunction(spec->foreign, "y#", (const char *)spec->sentinel,
                                        (Py_ssize_t)spec->size);
    if (self->given == NULL) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static void ctypescallback_dealloc(PyObject *object)
{
    NcCtypesCallback *self = (NcCtypesCallback *)(void *)object;
    PyObject_GC_UnTrack(object);
    if (self->weakrefs != NULL) {
        PyObject_ClearWeakRefs(object);
    }
    Py_CLEAR(self->given);
    nc_pycallback_dealloc(object);
}

/* store(value, address): what a result is for C. */
static PyObject *pycallback_store(PyObject *object, PyObject *args)
{
    PyObject *value;
    PyObject *address;
    if (!PyArg_ParseTuple(args, "OO!", &value, &PyLong_Type, &address)) {
        return NULL;
    }
    void *out = nc_address(address, "cannot store at address 0");
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

static PyMethodDef ctypescallback_methods[] = {
    {"store", pycallback_store, METH_VARARGS, "store(value, address): as a result"},
    {"release_sentinel", pycallback_release_sentinel, METH_NOARGS,
     "drops what the lost sentinel refers to"},
    {"forget_sentinels", pycallback_forget_sentinels, METH_NOARGS,
     "before a call that may release_sentinel"},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef ctypescallback_members[] = {
    {"running", T_PYSSIZET, offsetof(NcCtypesCallback, running), READONLY, "calls that run"},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject NcCtypesCallback_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "nativecall._types.CtypesCallback",
    .tp_doc = "A Python function that C code calls through ctypes.",
    .tp_basicsize = sizeof(NcCtypesCallback),
    .tp_base = &NcPyCallback_Type,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_vectorcall = ctypescallback_vectorcall,
    .tp_vectorcall_offset = offsetof(NcCtypesCallback, vectorcall),
    .tp_weaklistoffset = offsetof(NcCtypesCallback, weakrefs),
    .tp_call = PyVectorcall_Call,
    .tp_traverse = nc_pycallback_traverse,
    .tp_clear = nc_pycallback_clear,
    .tp_dealloc = ctypescallback_dealloc,
    .tp_methods = ctypescallback_methods,
    .tp_members = ctypescallback_members,
};
