/* csrc/callable/pycallbackobject.c: the Python types CallbackSpec and PyCallback (pycallback.h). A
 * PyCallback is a C function pointer that calls a Python function. This file also converts
 * callables that are passed as arguments.
 *
 * Threads: a CallbackSpec never changes. What is learned of an argument is set once, atomically. */
#include "pycallback.h"

#include "call/entry.h"
#include "call/plan.h"
#include "values/names.h"
#include "values/scalars.h"
#include "platform/address.h"
#include "platform/stub.h"
#include "bind.h"
#include "callinterface.h"
#include "construct.h"
#include "platform/functions.h"
#include "platform/compat.h"
#include "platform/references.h"

#include <string.h>
#include <structmember.h>

/* ---- callback specs -------------------------------------------------------------------------- */

/* Checks that the sentinel has the size of the result, and that each offset in `objects` leaves
 * room for a pointer in the result. Returns 0, or -1 with ValueError. */
static int check_sentinel(const NcCallbackSpec *self)
{
    const size_t size = self->size;
    PyObject *objects = self->objects;
    size_t wanted = self->letter == 'v'                          ? 0
                    : self->letter == 'T'                        ? self->result->arguments[0].size
                    : self->letter == 'O' || self->letter == 'P' ? sizeof(void *)
                                                                 : nc_scalar_size(self->letter);
    if (size != wanted) {
        PyErr_Format(PyExc_ValueError, "the sentinel has %zu bytes, but the result has %zu", size,
                     wanted);
        return -1;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(objects); i++) {
        size_t offset = PyLong_AsSize_t(PyTuple_GET_ITEM(objects, i));
        if (PyErr_Occurred()) {
            return -1;
        }
        if (offset > size || size - offset < sizeof(PyObject *)) {
            PyErr_SetString(PyExc_ValueError, "an object lies outside the result");
            return -1;
        }
    }
    return 0;
}

/* CallbackSpec(readers, objects, letter, result, plan, sentinel, *, ...); `result` and `keep` may
 * be None. */
static PyObject *callbackspec_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"readers",  "objects",    "letter",  "result",        "plan",
                            "sentinel", "keep",       "has_gil", "python_errors", "passed",
                            "kept",     "sets_errno", NULL};
    PyObject *readers;
    PyObject *objects;
    PyObject *planned;
    PyObject *sentinel;
    int letter;
    NcCallbackSpec *self = (NcCallbackSpec *)(void *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!CO&SS|$O&ppppp", names, &PyTuple_Type,
                                     &readers, &PyTuple_Type, &objects, &letter, nc_take_reference,
                                     &self->result, &planned, &sentinel, nc_take_reference,
                                     &self->keep, &self->has_gil, &self->python_errors,
                                     &self->passed, &self->kept, &self->sets_errno)) {
        goto fail;
    }
    if (self->result != NULL ? !Py_IS_TYPE(self->result, &NcCallInterface_Type)
                             : letter == 'P' || letter == 'T') {
        PyErr_SetString(PyExc_TypeError, "'result' must be the call interface of the result");
        goto fail;
    }
    self->plan = (const NcClosurePlan *)(const void *)PyBytes_AS_STRING(planned);
    const size_t bytes = (size_t)PyBytes_GET_SIZE(planned);
    if (bytes < sizeof(NcClosurePlan) || self->plan->args != (size_t)PyTuple_GET_SIZE(readers) ||
        (bytes - sizeof(NcClosurePlan)) / sizeof(NcStep) < self->plan->args) {
        PyErr_SetString(PyExc_ValueError,
                        "'plan' must be a closure plan with a step for each reader");
        goto fail;
    }
    self->readers = Py_NewRef(readers);
    self->objects = Py_NewRef(objects);
    self->planned = Py_NewRef(planned);
    self->letter = (char)letter;
    self->frees = letter == 'v' && self->plan->args == 1 && self->plan->steps[0].letter == 'P';
    self->sentinel = Py_NewRef(sentinel);
    self->size = (size_t)PyBytes_GET_SIZE(sentinel);
    if (check_sentinel(self) < 0) {
        goto fail;
    }
    nc_pycallback_set_enter(self);
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
    Py_XDECREF(self->sentinel);
    Py_TYPE(object)->tp_free(object);
}

static PyMemberDef callbackspec_members[] = {
    {"objects", T_OBJECT_EX, offsetof(NcCallbackSpec, objects), READONLY,
     "offsets of Python objects in the result"},
    {"sentinel", T_OBJECT_EX, offsetof(NcCallbackSpec, sentinel), READONLY,
     "bytes that C gets if the function returns no result"},
    {NULL, 0, 0, 0, NULL},
};

/* No tp_clear: only `readers` and `keep` can be part of a cycle. The collector breaks a cycle
 * through `readers` by clearing the closure cells of the Python functions in `readers`. `keep` must
 * stay alive, because C may still read it through the sentinel. */
PyTypeObject NcCallbackSpec_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "nativecall._ext.CallbackSpec",
    .tp_doc = "Data that all callbacks with the same signature and options share.",
    .tp_basicsize = sizeof(NcCallbackSpec),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = callbackspec_new,
    .tp_traverse = callbackspec_traverse,
    .tp_members = callbackspec_members,
    .tp_dealloc = callbackspec_dealloc,
};

/* ---- callbacks ------------------------------------------------------------------------------- */

NcPyCallback *nc_pycallback_make(NcCallbackSpec *spec, PyObject *function, PyObject *names)
{
    NcPyCallback *self = (NcPyCallback *)(void *)NcPyCallback_Type.tp_alloc(&NcPyCallback_Type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->spec = (NcCallbackSpec *)nc_shared_ref(spec);
    self->function = Py_NewRef(function);
    self->names = Py_NewRef(names);
    if (spec->passed) {
        self->stash = (NcStash *)(void *)NcStash_Type.tp_alloc(&NcStash_Type, 0);
        if (self->stash == NULL) {
            goto fail;
        }
    }
#if NC_HAS_MACHINE_CODE
    self->stub = nc_stub_new((void *)(uintptr_t)nc_entry, self);
#else
    self->stub = nc_stub_new(NULL, self); /* raises RuntimeError */
#endif
    if (self->stub == NULL) {
        goto fail;
    }
    return self;

fail:
    Py_DECREF(self);
    return NULL;
}

static int are_names(PyObject *names)
{
    return PyUnicode_Check(names) || (PyTuple_CheckExact(names) && PyTuple_GET_SIZE(names) == 2 &&
                                      PyUnicode_Check(PyTuple_GET_ITEM(names, 0)) &&
                                      PyUnicode_Check(PyTuple_GET_ITEM(names, 1)));
}

/* PyCallback(spec, function, names); see NcPyCallback.names. */
static PyObject *pycallback_vectorcall(PyObject *type, PyObject *const *args, size_t nargsf,
                                       PyObject *kwnames)
{
    if (kwnames != NULL || PyVectorcall_NARGS(nargsf) != 3 ||
        !Py_IS_TYPE(args[0], &NcCallbackSpec_Type) || !are_names(args[2])) {
        PyErr_SetString(
            PyExc_TypeError,
            "PyCallback() takes a CallbackSpec, a function, and a name or a tuple of names");
        return NULL;
    }
    return (PyObject *)nc_pycallback_make((NcCallbackSpec *)(void *)args[0], args[1], args[2]);
}

/* Looks up and caches the signature of the functions that argument `index` accepts, and the
 * CallbackSpec for Python functions. Returns 0, or -1 with an exception. */
static int learn(const NcCallInterface *cif, Py_ssize_t index)
{
    NcArgument *argument = &cif->arguments[index];
    PyObject *found = PyObject_CallFunction(NC_HOOK(passed), "OOn",
                                            PyTuple_GET_ITEM(cif->types, index), cif, index);
    const char *signature;
    Py_ssize_t length;
    PyObject *callee;
    PyObject *spec;
    if (found == NULL) {
        return -1;
    }
    if (found != Py_None) {
        if (!PyArg_ParseTuple(found, "s#OO", &signature, &length, &callee, &spec) ||
            nc_key_intern(signature, (size_t)length, &signature) < 0) {
            Py_DECREF(found);
            return -1;
        }
        (void)nc_exchange_ptr(&argument->function, NULL, (void *)(uintptr_t)signature);
        (void)nc_keep_first(&argument->callee, Py_NewRef(callee));
        Py_INCREF(spec);
        Py_SETREF(found, spec);
    }
    (void)nc_keep_first(&argument->passed, found);
    return 0;
}

/* Returns NcPyCallback.names for a function that is passed to a call, as a new reference. With the
 * GIL, caches the last result. */
static PyObject *names_of_passed(NcArgument *argument, PyObject *own_name, PyObject *name,
                                 Py_ssize_t index)
{
    PyObject *names = NC_WITHOUT_GIL ? NULL : argument->names;
    if (names == NULL || PyTuple_GET_ITEM(names, 0) != own_name ||
        PyTuple_GET_ITEM(names, 1) != name) {
        names = Py_BuildValue("(OOn)", own_name, name, index);
        if (names == NULL) {
            return NULL;
        }
        if (NC_WITHOUT_GIL) {
            return names;
        }
        Py_XSETREF(argument->names, names);
    }
    return Py_NewRef(names);
}

/* Makes a callback from a Python function. If spec->passed, the callback is for one call, and that
 * call raises the function's exceptions. Otherwise, C code stores the pointer. Returns 1, or -1
 * with an exception. */
static int pass_python(NcArgument *argument, PyObject *name, Py_ssize_t index, PyObject *function,
                       PyObject *own_name, NcPointer *out)
{
    NcCallbackSpec *spec = (NcCallbackSpec *)(void *)nc_kept(&argument->passed);
    PyObject *names =
        spec->passed ? names_of_passed(argument, own_name, name, index) : Py_NewRef(own_name);
    NcPyCallback *made = names != NULL ? nc_pycallback_make(spec, function, names) : NULL;
    Py_XDECREF(names);
    if (made == NULL) {
        return -1;
    }
    out->address = made->stub;
    out->keep = spec->passed ? PyTuple_Pack(3, Py_None, (PyObject *)made, (PyObject *)made->stash)
                             : PyTuple_Pack(2, Py_None, (PyObject *)made);
    Py_DECREF(made);
    return out->keep != NULL ? 1 : -1;
}

/* Whether a signature is like that of qsort's comparison function: it takes two `void *` and
 * returns a value. Python code must convert callables to such a signature (_callable/passing.py),
 * because the second pointer looks like user data but is not user data. */
static int compares(const char *signature)
{
    const char *arguments = strrchr(signature, ':');
    return signature[0] != 'v' && arguments != NULL && strcmp(arguments, ":PP") == 0;
}

/* Converts a native callable of another signature for one call. Returns 1 on success, 0 if Python
 * code must convert it, or -1 with an exception. */
static int pass_converted(NcArgument *argument, NcCallable *callable, uintptr_t refuse,
                          NcPointer *out)
{
    if (compares((const char *)nc_load_relaxed_ptr(&argument->function))) {
        return 0;
    }
    PyObject *wanted = nc_kept(&argument->wanted);
    if (wanted == NULL) {
        wanted = nc_keep_first(&argument->wanted,
                               (PyObject *)nc_callinterface_of(nc_kept(&argument->callee)));
        if (wanted == NULL) {
            return -1;
        }
    }
    PyObject *thunk =
        nc_convert_passed(callable, (NcCallInterface *)(void *)wanted, refuse, &out->address);
    if (thunk == NULL) {
        return PyErr_Occurred() ? -1 : 0;
    }
    out->keep = PyTuple_Pack(2, Py_None, thunk);
    Py_DECREF(thunk);
    return out->keep != NULL ? 1 : -1;
}

int nc_pycallback_pass(const NcCallInterface *cif, PyObject *name, Py_ssize_t index,
                       PyObject *value, NcPointer *out)
{
    NcArgument *argument = &cif->arguments[index];
    if (nc_kept(&argument->passed) == NULL && learn(cif, index) < 0) {
        return -1;
    }
    const char *signature = (const char *)nc_load_relaxed_ptr(&argument->function);
    if (signature == NULL) {
        return 0;
    }
    PyObject *bound = PyMethod_Check(value) ? PyMethod_GET_FUNCTION(value) : value;
    if (PyFunction_Check(bound)) {
        PyObject *own_name = ((PyFunctionObject *)(void *)bound)->func_name;
        return nc_kept(&argument->passed) != Py_None
                   ? pass_python(argument, name, index, value, own_name, out)
                   : 0;
    }
    /* C code that passes Python objects holds the GIL. */
    uintptr_t refuse = strchr(signature, 'O') ? 0 : NC_FLAG_NEEDS_GIL;
    out->address = nc_native_function(value, signature, refuse);
    if (out->address == NULL) {
        return PyObject_TypeCheck(value, (PyTypeObject *)&NcCallable_Type)
                   ? pass_converted(argument, (NcCallable *)(void *)value, refuse, out)
                   : 0;
    }
    out->keep = PyTuple_Pack(2, Py_None, value);
    return out->keep != NULL ? 1 : -1;
}

/* The `__name__` or `__doc__` of a function, a new reference to a str. Returns NULL without an
 * exception if the attribute is missing, is not a str, or contains a null character. Returns NULL
 * with an exception if reading the attribute fails. */
static PyObject *text_of(PyObject *function, int is_doc)
{
    const PyFunctionObject *own =
        PyFunction_Check(function) ? (PyFunctionObject *)(void *)function : NULL;
    PyObject *found = own == NULL
                          ? PyObject_GetAttrString(function, is_doc ? "__doc__" : "__name__")
                          : Py_NewRef(is_doc ? own->func_doc : own->func_name);
    if (found == NULL && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_Clear();
    } else if (found != NULL && (!PyUnicode_Check(found) || nc_has_null(found))) {
        Py_CLEAR(found);
    }
    return found;
}

static int is_plan(PyObject *plan)
{
    return PyTuple_CheckExact(plan) && PyTuple_GET_SIZE(plan) == 3 &&
           Py_IS_TYPE(PyTuple_GET_ITEM(plan, 0), &NcCallInterface_Type) &&
           PyLong_Check(PyTuple_GET_ITEM(plan, 1)) &&
           Py_IS_TYPE(PyTuple_GET_ITEM(plan, 2), &NcCallbackSpec_Type);
}

/* Makes a Callback without options from a plan: (call interface, flags, CallbackSpec). The Callback
 * has the name and the docstring of the function. Without a name, it is called "function". */
static PyObject *make_callback(PyTypeObject *type, PyObject *plan, PyObject *signature,
                               PyObject *function)
{
    if (PySys_Audit("nativecall.callback", "OO", signature, function) < 0) {
        return NULL;
    }
    PyObject *name = text_of(function, 0);
    PyObject *doc = PyErr_Occurred() ? NULL : text_of(function, 1);
    if (name == NULL && !PyErr_Occurred()) {
        name = PyUnicode_FromString("function");
    }
    NcPyCallback *made =
        PyErr_Occurred() ? NULL
                         : nc_pycallback_make((NcCallbackSpec *)(void *)PyTuple_GET_ITEM(plan, 2),
                                              function, name);
    PyObject *self = made != NULL ? nc_callable_new(type, NULL, NULL) : NULL;
    if (self != NULL &&
        (nc_callable_say((NcCallable *)(void *)self, name, doc) < 0 ||
         nc_callable_begin((NcCallable *)(void *)self,
                           (NcCallInterface *)(void *)PyTuple_GET_ITEM(plan, 0), made->stub,
                           PyLong_AsSize_t(PyTuple_GET_ITEM(plan, 1)), (PyObject *)made) < 0)) {
        Py_CLEAR(self);
    }
    Py_XDECREF((PyObject *)made);
    Py_XDECREF(name);
    Py_XDECREF(doc);
    return self;
}

static PyObject *called(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 3 || !PyUnicode_CheckExact(args[0]) || !PyCallable_Check(args[1]) ||
        !PyDict_CheckExact(args[2]) || PyDict_GET_SIZE(args[2]) != 0) {
        Py_RETURN_NONE;
    }
    PyObject *plan = nc_shared_get(PyTuple_GET_ITEM(self, 1), args[0]);
    PyTypeObject *type = (PyTypeObject *)(void *)PyTuple_GET_ITEM(self, 0);
    PyObject *made = plan != NULL && is_plan(plan) ? make_callback(type, plan, args[0], args[1])
                     : PyErr_Occurred()            ? NULL
                                                   : Py_NewRef(Py_None);
    nc_shared_drop(plan);
    return made;
}

PyObject *nc_caller(PyObject *Py_UNUSED(module), PyObject *args)
{
    static PyMethodDef method = {"called", NC_METHOD(called), METH_FASTCALL, NULL};
    PyTypeObject *type;
    PyObject *plans;
    if (!PyArg_ParseTuple(args, "O!O!", &PyType_Type, &type, &PyDict_Type, &plans)) {
        return NULL;
    }
    if (!PyType_IsSubtype(type, (PyTypeObject *)(void *)&NcCallable_Type)) {
        PyErr_SetString(PyExc_TypeError, "the class must be a subclass of the callable type");
        return NULL;
    }
    PyObject *made = PyCFunction_New(&method, args);
    if (made != NULL) {
        NC_SHARE(made); /* a global of a module, which CPython would count at each use */
    }
    return made;
}

static int pycallback_traverse(PyObject *object, visitproc visit, void *arg)
{
    NcPyCallback *self = (NcPyCallback *)(void *)object;
    Py_VISIT(self->spec);
    Py_VISIT(self->function);
    Py_VISIT(self->kept);
    return 0;
}

void nc_pycallback_free(NcPyCallback *self)
{
    if (self->stub != NULL && nc_is_finalizing()) {
        /* C threads may call the stub until the process ends; they get the sentinel. */
        return;
    }
    nc_stub_free(self->stub, self->names);
    nc_shared_drop(self->spec);
    nc_runs_free(&self->runs);
    Py_TYPE(self)->tp_free(self);
}

static void pycallback_dealloc(PyObject *object)
{
    NcPyCallback *self = (NcPyCallback *)(void *)object;
    PyObject_GC_UnTrack(object);
    (void)nc_pycallback_clear(object);
    if (!NC_WITHOUT_GIL || nc_runs_over(&self->runs)) { /* else the last run frees it */
        nc_pycallback_free(self);
    }
}

static PyObject *pycallback_close(PyObject *object, PyObject *Py_UNUSED(none))
{
    (void)nc_pycallback_clear(object);
    Py_RETURN_NONE;
}

static PyMethodDef pycallback_methods[] = {
    {"close", pycallback_close, METH_NOARGS, "releases the function; later calls fail"},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef pycallback_members[] = {
    {"address", NC_T_ADDRESS, offsetof(NcPyCallback, stub), READONLY, "the C function pointer"},
    {"function", T_OBJECT, offsetof(NcPyCallback, function), READONLY,
     "the Python function; None once closed"},
    {"kept", T_OBJECT, offsetof(NcPyCallback, kept), READONLY,
     "objects whose memory the results point to"},
    {"stash", T_OBJECT, offsetof(NcPyCallback, stash), READONLY,
     "the Stash of the call that it was passed to"},
    {"spec", T_OBJECT, offsetof(NcPyCallback, spec), READONLY, "its CallbackSpec"},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject NcPyCallback_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "nativecall._ext.PyCallback",
    .tp_doc = "A Python function that C code calls.",
    .tp_basicsize = sizeof(NcPyCallback),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_vectorcall = pycallback_vectorcall,
    .tp_traverse = pycallback_traverse,
    .tp_clear = nc_pycallback_clear,
    .tp_dealloc = pycallback_dealloc,
    .tp_methods = pycallback_methods,
    .tp_members = pycallback_members,
};
