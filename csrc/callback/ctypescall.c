/* csrc/callback/ctypescall.c: the call of ctypescall.h. */
#include "ctypescall.h"

#include "ground/exceptions.h"
#include "ground/stack.h"

#include <string.h>

/* A number of a class that carries a reraiser; NULL without an exception where memory is short. No
 * Python code runs, which could fail: C would be left without a result. */
static PyObject *make_carrier(PyObject *type, PyObject *value, PyObject *reraiser)
{
    PyObject *args;
    PyObject *made;
    if (type == NULL) {
        return Py_NewRef(reraiser);
    }
    args = PyTuple_Pack(1, value);
    made = args != NULL
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
 * deferred. Takes the references. */
static PyObject *return_to_ctypes(NcPyCallback *self, PyObject *value, PyObject *left,
                                  NcPyCallbackCall *call)
{
    NcRaised before;
    PyObject *reraiser;
    PyObject *made = NULL;
    memset(&before, 0, sizeof(before));
    if ((call->ending & NC_PYCALLBACK_RESTORE) != 0) {
        before = call->before;
    }
    if (value == NULL) {
        value = Py_NewRef(self->given);
        nc_pycallback_reference_sentinel(self);
    }
    if (left == NULL && !nc_raised_is_set(&before)) {
        return value;
    }
    reraiser = nc_reraiser_new();
    if (reraiser != NULL) {
        made = make_carrier(self->spec->carrier, value, reraiser);
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
        nc_exception_defer(left, nc_pycallback_reported_as(self));
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
    return PyCallable_Check(reader) ? PyObject_CallOneArg(reader, given) : Py_NewRef(given);
}

PyObject *nc_pycallback_called_by_ctypes(PyObject *object, PyObject *const *args, size_t nargsf,
                                         PyObject *kwnames)
{
    NcPyCallback *self = (NcPyCallback *)(void *)object;
    size_t count = (size_t)PyVectorcall_NARGS(nargsf);
    PyThreadState *thread = PyThreadState_Get();
    NcPyCallbackCall call = {0, PyGILState_LOCKED, {NULL}};
    PyObject **given;
    PyObject *value = NULL;
    PyObject *left = NULL;
    PyObject *result;
    if (self->given == NULL || kwnames != NULL ||
        (Py_ssize_t)count != PyTuple_GET_SIZE(self->spec->readers)) {
        PyErr_SetString(PyExc_TypeError, "only ctypes calls this");
        return NULL;
    }
    if ((nc_thread_has_exception(thread) || nc_is_left()) && nc_left_here()) {
        return return_to_ctypes(self, NULL, nc_exception_take(), &call);
    }
    if (nc_thread_has_exception(thread)) {
        nc_raised_take(&call.before);
        call.ending = NC_PYCALLBACK_RESTORE;
    }
    if (nc_pycallback_has_failed(self)) {
        return return_to_ctypes(self, NULL, NULL, &call);
    }
    Py_INCREF(self);
    self->running++;
    given = (PyObject **)PyMem_Calloc(count + 1, sizeof(PyObject *));
    if (given == NULL) {
        (void)PyErr_NoMemory();
    } else if (!nc_stack_has_room(thread, &call) && !nc_stack_look(thread)) {
        nc_pycallback_too_deep(self);
    } else {
        for (size_t i = 0; i < count; i++) {
            given[1 + i] = PyErr_Occurred() ? NULL : argument_of_ctypes(self, i, args[i]);
        }
        value = nc_pycallback_call(self, given, count);
        for (size_t i = 1; i <= count; i++) {
            Py_XDECREF(given[i]);
        }
    }
    PyMem_Free(given);
    result = value == NULL ? NULL
                           : PyObject_CallFunctionObjArgs(self->spec->writer, object, value, NULL);
    if (result == NULL) {
        left = nc_pycallback_place_exception(self, call.ending != 0,
                                             self->enter == nc_pycallback_enter_holding);
    }
    Py_XDECREF(value);
    result = return_to_ctypes(self, result, left, &call);
    self->running--;
    Py_DECREF(self);
    return result;
}
