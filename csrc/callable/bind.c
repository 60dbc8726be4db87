/* csrc/callable/bind.c: the methods of bind.h. A failed operation changes nothing. */
#include "bind.h"

#include "call/calls.h"
#include "callinterface.h"
#include "construct.h"
#include "call/thunkobject.h"
#include "platform/lists.h"
#include "values/names.h"

#include <string.h>

/* ---- thunk specs ---------------------------------------------------------------------------- */

/* The head of a thunk spec's cache key. For `bind`, one byte for each argument follows: 1 if the
 * argument is bound. For `convert`, the name of the error convention follows. A cached spec owns
 * both call interfaces, so their addresses are not reused. A `check` is a user's function and must
 * not outlive its callable, so cached specs and their keys use call interfaces without `check`. */
typedef struct {
    const NcCallInterface *inner;
    const NcCallInterface *wanted; /* NULL if values are bound */
    uintptr_t flags;
    uintptr_t stack;
} Key;

static NcCallInterface *unchecked(NcCallInterface *cif)
{
    return cif->bare != NULL ? cif->bare : cif;
}

/* Returns a new key: the head, and `count` more bytes for the caller to fill. */
static PyObject *key_of(const NcCallable *self, const NcCallInterface *wanted, Py_ssize_t count)
{
    const Key key = {unchecked(self->cif), wanted, NC_SINGLE_FLAGS(self), nc_thunk_stack(self)};
    PyObject *made = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)sizeof(Key) + count);
    if (made != NULL) {
        memcpy(PyBytes_AS_STRING(made), &key, sizeof(Key));
    }
    return made;
}

/* An attribute of nativecall._callable.thunk, which is imported on first use. */
static PyObject *python(const char *name)
{
    PyObject *module = PyImport_ImportModule("nativecall._callable.thunk");
    PyObject *found = module != NULL ? PyObject_GetAttrString(module, name) : NULL;
    Py_XDECREF(module);
    return found;
}

/* Cache miss: calls Python code to make the spec. Caches the spec if its `lasts` is set. */
NC_NOINLINE NcThunkSpec *make_spec(NcCallable *self, NcCallInterface *wanted, PyObject *key)
{
    const char *after = PyBytes_AS_STRING(key) + sizeof(Key);
    Py_ssize_t count = PyBytes_GET_SIZE(key) - (Py_ssize_t)sizeof(Key);
    Key parts;
    PyObject *name = nc_callable_name(self);
    PyObject *make = name != NULL ? python("spec_of") : NULL;
    PyObject *found = NULL;
    memcpy(&parts, PyBytes_AS_STRING(key), sizeof(Key));
    if (make != NULL) {
        found = PyObject_CallFunction(make, "OOnnOy#", name, parts.inner, (Py_ssize_t)parts.flags,
                                      (Py_ssize_t)parts.stack,
                                      wanted != NULL ? (PyObject *)wanted : Py_None, after, count);
        Py_DECREF(make);
    }
    if (found != NULL && ((NcThunkSpec *)(void *)found)->lasts) {
        PyObject *done = PyObject_CallMethod(NC_HOOK(thunk_specs), "put", "OO", key, found);
        if (done == NULL) {
            Py_CLEAR(found);
        }
        Py_XDECREF(done);
    }
    return (NcThunkSpec *)(void *)found;
}

/* Makes the thunk for a key, and sets *of to the thunk's spec. Takes over the reference to the key.
 * Returns NULL with an exception on failure. */
static NcThunk *make_thunk(NcCallable *self, NcCallInterface *wanted, PyObject *key,
                           PyObject *const *values, NcThunkSpec **of)
{
    /* Read the target and the call interface first: conversions may run code that replaces the
     * entry. */
    void *target = NC_SINGLE_TARGET(self);
    NcCallInterface *inner = (NcCallInterface *)(void *)Py_NewRef(unchecked(self->cif));
    PyObject *known = NC_HOOK(thunk_specs);
    NcThunkSpec *spec = (NcThunkSpec *)(void *)(known != NULL ? nc_dict_get(known, key) : NULL);
    if (spec == NULL && !PyErr_Occurred()) {
        spec = make_spec(self, wanted, key);
    }
    NcThunk *thunk = spec != NULL ? nc_thunk_new(self, spec, target, values) : NULL;
    Py_DECREF(inner);
    Py_DECREF(key);
    *of = spec;
    return thunk;
}

/* Maximum number of cached call interfaces for one function with a check. A full cache is
 * cleared. */
enum { MOST_CHECKED = 256 };

/* Returns the call interface of a thunk's callable, with the check of the inner function: a new
 * reference, or NULL with an exception. */
NC_NOINLINE NcCallInterface *checked(NcCallInterface *inner, const NcThunkSpec *spec)
{
    PyObject *outer = (PyObject *)spec->outer;
    PyObject *known = nc_kept(&inner->checked);
    PyObject *found = known != NULL ? nc_dict_get(known, outer) : NULL;
    if (found != NULL || PyErr_Occurred()) {
        return (NcCallInterface *)(void *)found;
    }
    PyObject *make = python("with_check");
    if (make != NULL) {
        found = PyObject_CallFunction(make, "OnO", outer, (Py_ssize_t)spec->flags, inner);
        Py_DECREF(make);
    }
    if (found != NULL && nc_dict_put(&inner->checked, MOST_CHECKED, outer, found) < 0) {
        Py_CLEAR(found);
    }
    return (NcCallInterface *)(void *)found;
}

/* Makes a callable whose function is a new thunk. Takes over the reference to the key. Returns NULL
 * with an exception on failure. */
static PyObject *make(NcCallable *self, NcCallInterface *wanted, PyObject *key,
                      PyObject *const *values, PyObject *name)
{
    NcThunkSpec *spec;
    /* Hold the call interface: conversions may replace the entry. */
    NcCallInterface *inner = (NcCallInterface *)(void *)Py_NewRef(self->cif);
    NcThunk *thunk = make_thunk(self, wanted, key, values, &spec);
    NcCallInterface *outer = NULL;
    PyObject *made = NULL;
    if (thunk != NULL) {
        outer = NC_LIKELY(inner->bare == NULL) ? (NcCallInterface *)(void *)Py_NewRef(spec->outer)
                                               : checked(inner, spec);
    }
    if (outer != NULL) {
        made =
            nc_callable_derive(self, outer, thunk->pointer, spec->flags, (PyObject *)thunk, name);
        Py_DECREF(outer);
    }
    Py_XDECREF(thunk);
    Py_XDECREF(spec);
    Py_DECREF(inner);
    return made;
}

/* ---- the methods ----------------------------------------------------------------------------- */

/* Whether the callable has one entry that native callers can find. */
static int is_single(const NcCallable *self)
{
    return nc_has_one(self) && nc_calltable_count(nc_calls(self)) == 1 &&
           nc_native_table((PyObject *)self) != NULL;
}

/* Falls back to the function `name` of nativecall._callable.thunk. */
NC_NOINLINE PyObject *leave(const char *name, PyObject *self, PyObject *const *args,
                            Py_ssize_t nargs, PyObject *kwnames)
{
    PyObject *function = python(name);
    PyObject *made = function != NULL ? nc_call_with(function, self, args, nargs, kwnames) : NULL;
    Py_XDECREF(function);
    return made;
}

const char nc_doc_bind[] =
    "bind($self, /, *values, **named)\n--\n\n"
    "Return a C function that calls this one with some arguments bound.\n\n"
    "Parameters\n----------\n"
    "*values\n"
    "    Values of the leading arguments; ``...`` leaves an argument unbound.\n"
    "**named\n"
    "    Values of arguments by name, if the signature has names.\n\n"
    "Returns\n-------\n"
    "NativeCallable\n"
    "    Takes the remaining arguments, and has its own C function pointer. `bind` converts the\n"
    "    values. Bound buffers stay alive and exported as long as the new callable lives.\n\n"
    "Raises\n------\n"
    "TypeError, ValueError, OverflowError\n"
    "    There are too many values, an argument is unknown or bound twice, or a value does not\n"
    "    fit.\n\n"
    "Examples\n--------\n"
    ">>> import nativecall\n"
    ">>> pow = nativecall.load(\"m\", \"double pow(double x, double y);\").pow\n"
    ">>> pow.bind(2.0)(10), pow.bind(..., 2.0)(10), pow.bind(y=3.0)(10)\n"
    "(1024.0, 100.0, 1000.0)";

/* If a signature has more arguments than this, Python code handles bind() with keywords. */
enum { MOST_NAMED = 16 };

/* Puts the arguments of a bind() call in the signature's order, with Ellipsis for arguments that
 * were not given. Returns the number of arguments in the signature. Returns -1 without an exception
 * if Python code must bind them or raise the error. */
static Py_ssize_t in_order(const NcCallInterface *cif, PyObject *const *args, Py_ssize_t nargs,
                           PyObject *kwnames, PyObject **given)
{
    if (cif->names == NULL || cif->nargs > MOST_NAMED) {
        return -1;
    }
    for (Py_ssize_t i = 0; i < cif->nargs; i++) {
        given[i] = i < nargs ? args[i] : Py_Ellipsis;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(kwnames); i++) {
        Py_ssize_t index = nc_argument_named(cif, PyTuple_GET_ITEM(kwnames, i));
        if (index < 0 || given[index] != Py_Ellipsis) {
            return -1;
        }
        given[index] = args[nargs + i];
    }
    return cif->nargs;
}

PyObject *nc_callable_bind(PyObject *callable, PyObject *const *args, Py_ssize_t nargs,
                           PyObject *kwnames)
{
    NcCallable *self = (NcCallable *)(void *)callable;
    PyObject *given[MOST_NAMED];
    PyObject *const *values = args;
    Py_ssize_t count = nargs;
    if (!is_single(self) || self->cif->variadic || self->cif->out_count != 0 ||
        nargs > self->cif->nargs) {
        return leave("bind", callable, args, nargs, kwnames);
    }
    if (kwnames != NULL) {
        values = given;
        count = in_order(self->cif, args, nargs, kwnames, given);
        if (count < 0) {
            return leave("bind", callable, args, nargs, kwnames);
        }
    }
    while (count > 0 && values[count - 1] == Py_Ellipsis) {
        count--;
    }
    if (count == 0) {
        return Py_NewRef(callable);
    }
    PyObject *key = key_of(self, NULL, count);
    if (key == NULL) {
        return NULL;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyBytes_AS_STRING(key)[(Py_ssize_t)sizeof(Key) + i] = values[i] != Py_Ellipsis;
    }
    return make(self, NULL, key, values, NULL);
}

/* Whether every argument that is read-only in `wanted` is read-only in `own` too. */
static int keeps(const NcCallInterface *own, const NcCallInterface *wanted)
{
    for (Py_ssize_t i = 0; i < wanted->nargs; i++) {
        if (wanted->arguments[i].readonly && (i >= own->nargs || !own->arguments[i].readonly)) {
            return 0;
        }
    }
    return 1;
}

/* Converts a callable; returns the callable itself if it already has the wanted signature. */
static PyObject *converted(NcCallable *self, NcCallInterface *wanted, const char *errors,
                           Py_ssize_t length, PyObject *name)
{
    if (errors == NULL && name == NULL && wanted->text == self->cif->text &&
        keeps(self->cif, wanted)) {
        return Py_NewRef(self);
    }
    PyObject *key = key_of(self, unchecked(wanted), length);
    if (key == NULL) {
        return NULL;
    }
    memcpy(PyBytes_AS_STRING(key) + sizeof(Key), errors != NULL ? errors : "", (size_t)length);
    return make(self, unchecked(wanted), key, NULL, name);
}

/* Whether `convert` handles this callable in C. Python code still makes new specs. */
static int is_plain(const NcCallable *self)
{
    return nc_more(self)->specializer == NULL && is_single(self) && self->cif->out_count == 0;
}

PyObject *nc_convert_passed(NcCallable *self, NcCallInterface *wanted, uintptr_t refuse,
                            void **address)
{
    NcThunkSpec *spec = NULL;
    NcThunk *thunk = NULL;
    PyObject *key = is_plain(self) ? key_of(self, wanted, 0) : NULL;
    if (key != NULL) {
        thunk = make_thunk(self, wanted, key, NULL, &spec);
    }
    if (thunk == NULL && PyErr_Occurred() &&
        (PyErr_ExceptionMatches(PyExc_ValueError) || PyErr_ExceptionMatches(PyExc_TypeError))) {
        PyErr_Clear();
    }
    if (thunk != NULL && (spec->flags & refuse) != 0) {
        Py_CLEAR(thunk);
    }
    *address = thunk != NULL ? thunk->pointer : NULL;
    Py_XDECREF(spec);
    return (PyObject *)thunk;
}

PyObject *nc_callable_converted(PyObject *callable, PyObject *args)
{
    NcCallable *self = (NcCallable *)(void *)callable;
    NcCallInterface *wanted;
    const char *errors;
    Py_ssize_t length;
    PyObject *name;
    if (!PyArg_ParseTuple(args, "O!z#O", &NcCallInterface_Type, &wanted, &errors, &length, &name)) {
        return NULL;
    }
    if (!nc_has_one(self)) {
        Py_RETURN_NONE; /* another entry was added meanwhile */
    }
    return converted(self, wanted, errors, length, name != Py_None ? name : NULL);
}

/* make_thunk(callable, spec, values): makes a callable whose function is a new thunk of `callable`.
 * `callable` must have one entry. `spec` is a ThunkSpec that is not cached. `values` is a tuple
 * with each bound value at the index of its argument. */
PyObject *nc_make_thunk(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *callable;
    NcThunkSpec *spec;
    PyObject *values;
    if (!PyArg_ParseTuple(args, "O!O!O!", (PyTypeObject *)&NcCallable_Type, &callable,
                          &NcThunkSpec_Type, &spec, &PyTuple_Type, &values)) {
        return NULL;
    }
    NcCallable *self = (NcCallable *)(void *)callable;
    Py_ssize_t count = Py_SIZE(spec) != 0 ? spec->places[Py_SIZE(spec) - 1].index + 1 : 0;
    if (!is_single(self) || PyTuple_GET_SIZE(values) < count) {
        PyErr_SetString(
            PyExc_ValueError,
            "make_thunk() takes a callable with one entry, and a value for each bound argument");
        return NULL;
    }
    NcThunk *thunk =
        nc_thunk_new(self, spec, NC_SINGLE_TARGET(self), PySequence_Fast_ITEMS(values));
    if (thunk == NULL) {
        return NULL;
    }
    PyObject *made =
        nc_callable_derive(self, spec->outer, thunk->pointer, spec->flags, (PyObject *)thunk, NULL);
    Py_DECREF(thunk);
    return made;
}

const char nc_doc_convert[] =
    "convert($self, /, signature, *, errors=None, name=None)\n--\n\n"
    "Return this function as a C function of another signature.\n\n"
    "Parameters\n----------\n"
    "signature : str or Signature\n"
    "    The signature of the new function, in any spelling. Numbers are widened, or narrowed\n"
    "    with a check. You can also convert, in either direction: ``(double, double)`` to\n"
    "    ``(int n, double *x)``, user data to no user data, a value to a pointer to the value,\n"
    "    and an out-parameter to the result (see docs/callables.md).\n"
    "errors : str, optional\n"
    "    The new error convention, as for `wrap`. By default, the convention stays the same if\n"
    "    the new result can express it.\n"
    "name : str, optional\n\n"
    "Returns\n-------\n"
    "NativeCallable\n"
    "    A callable with one entry. The entry calls this function without running Python code,\n"
    "    and takes the GIL only for a function that needs it. If this callable already has the\n"
    "    signature, you get this callable. If a value does not fit during a call, C gets NaN, 0\n"
    "    or NULL, and Python raises OverflowError or ValueError. An overloaded callable uses its\n"
    "    entry of the same signature, which `specialize` may add. Without such an entry, it\n"
    "    converts the entry that loses the least precision: for a double, one that takes a\n"
    "    double, not a float.\n\n"
    "Raises\n------\n"
    "SignatureError\n"
    "    The signature cannot be converted; the message says why.\n\n"
    "Examples\n--------\n"
    ">>> import array, nativecall\n"
    ">>> hypot = nativecall.load(\"m\", \"double hypot(double, double);\").hypot\n"
    ">>> hypot.convert(\"double (int n, double *x)\")(2, array.array(\"d\", [3, 4]))\n"
    "5.0";

PyObject *nc_callable_convert(PyObject *callable, PyObject *const *args, Py_ssize_t nargs,
                              PyObject *kwnames)
{
    NcCallable *self = (NcCallable *)(void *)callable;
    if (kwnames != NULL || nargs != 1 || nc_more(self)->specializer != NULL) {
        return leave("convert", callable, args, nargs, kwnames);
    }
    NcCallInterface *wanted = nc_callinterface_of(args[0]);
    PyObject *made = wanted == NULL   ? NULL
                     : is_plain(self) ? converted(self, wanted, NULL, 0, NULL)
                                      : leave("convert", callable, args, nargs, kwnames);
    Py_XDECREF(wanted);
    return made;
}
