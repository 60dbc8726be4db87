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
