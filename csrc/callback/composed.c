/* csrc/callback/composed.c: calls that policies compose of a call without them and a step before or
 * after it (nativecall/_callable/composed.py). What is made here is called with what Python passes,
 * by position. With the GIL. */
#include "ground/functions.h"
#include "values/pointers.h"

#include <string.h>

/* ---- checks ---------------------------------------------------------------------------------- */

enum { CALL, CHECK, OWNER, FAILED }; /* of the data of a checked call */

/* A call has raised: `failed` gets the exception, and the pointer that its function gave. */
static void tell_lost(PyObject *call, PyObject *failed)
{
    PyObject *error = nc_exception_take();
    PyObject *found = nc_result_lost((NcCallable *)(void *)call);
    PyObject *answer =
        found != NULL ? PyObject_CallFunctionObjArgs(failed, error, found, NULL) : NULL;
    if (answer == NULL && PyErr_Occurred()) {
        PyErr_WriteUnraisable(call);
    }
    Py_XDECREF(answer);
    Py_XDECREF(found);
    nc_exception_put(error);
}

static PyObject *checked(PyObject *data, PyObject *const *args, Py_ssize_t nargs)
{
    PyObject *call = PyTuple_GET_ITEM(data, CALL);
    PyObject *failed = PyTuple_GET_ITEM(data, FAILED);
    PyObject *found = NULL;
    nc_result_forget();
    PyObject *given[3] = {PyObject_Vectorcall(call, args, (size_t)nargs, NULL)};
    if (given[0] == NULL) {
        if (failed != Py_None) {
            tell_lost(call, failed);
        }
        return NULL;
    }
    given[1] = PyObject_CallNoArgs(PyTuple_GET_ITEM(data, OWNER));
    if (given[1] == Py_None) {
        Py_SETREF(given[1], Py_NewRef(call));
    }
    given[2] = given[1] != NULL ? PyTuple_New(nargs) : NULL;
    if (given[2] != NULL) {
        for (Py_ssize_t i = 0; i < nargs; i++) {
            PyTuple_SET_ITEM(given[2], i, Py_NewRef(args[i]));
        }
        found = PyObject_Vectorcall(PyTuple_GET_ITEM(data, CHECK), given, 3, NULL);
    }
    Py_DECREF(given[0]);
    Py_XDECREF(given[1]);
    Py_XDECREF(given[2]);
    return found;
}

static PyMethodDef checked_definition = {"checked", NC_METHOD(checked), METH_FASTCALL, NULL};

/* checked(call, check, owner): calls `call`, then `check` with the
 * result, what `owner` gives, or `call` where that is None, and a tuple of the arguments. */
PyObject *nc_checked(PyObject *Py_UNUSED(module), PyObject *args)
{
    if (PyTuple_GET_SIZE(args) != 4) {
        PyErr_SetString(PyExc_TypeError, "checked() takes a call, a check, an owner and what is "
                                         "told of results that are lost, or None");
        return NULL;
    }
    if (PyTuple_GET_ITEM(args, FAILED) != Py_None &&
        !PyObject_TypeCheck(PyTuple_GET_ITEM(args, CALL),
                            (PyTypeObject *)(void *)&NcCallable_Type)) {
        PyErr_SetString(PyExc_TypeError, "only results of native callables can be lost");
        return NULL;
    }
    return PyCFunction_New(&checked_definition, args);
}

/* ---- functions that C keeps ------------------------------------------------------------------ */

enum { LEAST = 1, KEPT, HOLDER, WHO, KINDS }; /* of a keeping call, after CALL */
enum { FEW = 16 };                            /* arguments that need no memory of their own */

/* By the addresses of objects, dicts of what is kept as long as these; each has the weak reference
 * that ends it. */
static PyObject *of_objects; /* NULL before the first */

/* An object has gone: `key` is what its address was. */
static PyObject *forget(PyObject *key, PyObject *Py_UNUSED(reference))
{
    if (PyDict_DelItem(of_objects, key) < 0) {
        PyErr_Clear();
    }
    Py_RETURN_NONE;
}

static PyMethodDef forget_definition = {"forget", forget, METH_O, NULL};

/* What is kept as long as an object: a borrowed reference. NULL with an exception. */
static PyObject *kept_of(PyObject *holder, PyObject *who)
{
    PyObject *key = PyLong_FromVoidPtr(holder);
    PyObject *kept = key != NULL ? PyDict_GetItemWithError(of_objects, key) : NULL;
    if (kept != NULL || PyErr_Occurred()) {
        Py_XDECREF(key);
        return kept;
    }
    PyObject *end = PyCFunction_New(&forget_definition, key);
    PyObject *reference = end != NULL ? PyWeakref_NewRef(holder, end) : NULL;
    Py_XDECREF(end);
    if (reference != NULL) {
        kept = PyDict_New();
        if (kept != NULL && (PyDict_SetItem(kept, Py_None, reference) < 0 ||
                             PyDict_SetItem(of_objects, key, kept) < 0)) {
            Py_CLEAR(kept);
        }
        Py_XDECREF(kept); /* of_objects has it */
        Py_DECREF(reference);
    } else if (PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Format(PyExc_TypeError,
                     "%U must be an object that functions can be kept with, such as a cffi pointer "
                     "(got %.200s); or say keep='library' or keep='process'",
                     who, Py_TYPE(holder)->tp_name);
    }
    Py_DECREF(key);
    return kept;
}

/* What is passed for a function, a new reference: the same each time, so that it is kept once. */
static PyObject *passed_for(PyObject *kept, PyObject *text, PyObject *make, PyObject *value)
{
    PyObject *made = NULL;
    PyObject *row;
    PyObject *known = PyDict_GetItemWithError(kept, text);
    if (known == NULL) {
        PyObject *empty = PyErr_Occurred() ? NULL : PyDict_New();
        known = empty != NULL ? PyDict_SetDefault(kept, text, empty) : NULL;
        Py_XDECREF(empty);
        if (known == NULL) {
            return NULL;
        }
    }
    Py_INCREF(known);
    PyObject *key = PyLong_FromVoidPtr(value);
    row = key != NULL ? PyDict_GetItemWithError(known, key) : NULL;
    if (row == NULL && key != NULL && !PyErr_Occurred()) {
        made = PyObject_CallOneArg(make, value);
        /* With the function itself, whose address is the key. */
        PyObject *fresh = made != NULL ? PyTuple_Pack(2, made, value) : NULL;
        row = fresh != NULL ? PyDict_SetDefault(known, key, fresh) : NULL;
        Py_XDECREF(fresh);
        Py_CLEAR(made);
    }
    made = row != NULL ? Py_NewRef(PyTuple_GET_ITEM(row, 0)) : NULL;
    Py_XDECREF(key);
    Py_DECREF(known);
    return made;
}

static PyObject *keeping(PyObject *data, PyObject *const *args, Py_ssize_t nargs)
{
    PyObject *few[FEW];
    PyObject **given = few;
    PyObject *call = PyTuple_GET_ITEM(data, CALL);
    PyObject *kept = PyTuple_GET_ITEM(data, KEPT);
    PyObject *kinds = PyTuple_GET_ITEM(data, KINDS);
    PyObject *made;
    PyObject *result = NULL;
    if (nargs <= PyLong_AsSsize_t(PyTuple_GET_ITEM(data, LEAST))) {
        return PyObject_Vectorcall(call, args, (size_t)nargs, NULL);
    }
    if (kept == Py_None) {
        Py_ssize_t holder = PyLong_AsSsize_t(PyTuple_GET_ITEM(data, HOLDER));
        kept = holder < nargs ? kept_of(args[holder], PyTuple_GET_ITEM(data, WHO)) : NULL;
        if (kept == NULL) {
            /* With too few arguments the call says what is missing. */
            return PyErr_Occurred() ? NULL : PyObject_Vectorcall(call, args, (size_t)nargs, NULL);
        }
    }
    if (nargs > FEW && (given = PyMem_New(PyObject *, (size_t)nargs)) == NULL) {
        return PyErr_NoMemory();
    }
    memcpy(given, args, (size_t)nargs * sizeof(*args));
    Py_INCREF(kept);
    Py_ssize_t done = 0;
    for (; done < PyTuple_GET_SIZE(kinds); done++) {
        PyObject *kind = PyTuple_GET_ITEM(kinds, done);
        Py_ssize_t at = PyLong_AsSsize_t(PyTuple_GET_ITEM(kind, 0));
        made = args[at] != Py_None ? passed_for(kept, PyTuple_GET_ITEM(kind, 1),
                                                PyTuple_GET_ITEM(kind, 2), args[at])
                                   : Py_NewRef(Py_None);
        if (made == NULL) {
            break;
        }
        given[at] = made;
    }
    if (done == PyTuple_GET_SIZE(kinds)) {
        result = PyObject_Vectorcall(call, given, (size_t)nargs, NULL);
    }
    while (done > 0) {
        PyObject *kind = PyTuple_GET_ITEM(kinds, --done);
        Py_DECREF(given[PyLong_AsSsize_t(PyTuple_GET_ITEM(kind, 0))]);
    }
    if (given != few) {
        PyMem_Free(given);
    }
    Py_DECREF(kept);
    return result;
}

static PyMethodDef keeping_definition = {"keeping", NC_METHOD(keeping), METH_FASTCALL, NULL};

/* keeping(call, least, kept, holder, who, kinds): calls `call` with
 * functions that are kept. `kinds` has (position, text, make) of each that may be passed: `make` is
 * called once a function, and what it gives is passed from then on. They are kept in the dict
 * `kept`, or where that is None as long as argument `holder`, which messages call `who`. Calls of
 * `least` arguments or fewer pass none. */
PyObject *nc_keeping(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *call;
    PyObject *kept;
    PyObject *who;
    PyObject *kinds;
    Py_ssize_t least;
    Py_ssize_t holder;
    if (!PyArg_ParseTuple(args, "OnOnUO!", &call, &least, &kept, &holder, &who, &PyTuple_Type,
                          &kinds)) {
        return NULL;
    }
    if ((kept != Py_None && !PyDict_Check(kept)) || holder < 0) {
        PyErr_SetString(PyExc_TypeError, "functions are kept in a dict, or with an argument");
        return NULL;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(kinds); i++) {
        Py_ssize_t at;
        PyObject *text;
        PyObject *make;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(kinds, i), "nUO", &at, &text, &make)) {
            return NULL;
        }
        if (at < 0 || at > least) {
            PyErr_SetString(PyExc_ValueError, "a function is not among the arguments");
            return NULL;
        }
    }
    if (of_objects == NULL && (of_objects = PyDict_New()) == NULL) {
        return NULL;
    }
    return PyCFunction_New(&keeping_definition, args);
}
