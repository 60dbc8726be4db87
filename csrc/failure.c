/* csrc/failure.c: errno, and results that mean failure. */
#include "failure.h"

#include "nativecall/thunk.h"

#include <errno.h>

/* errno after this thread's last call that keeps it. */
static NC_THREAD_LOCAL int saved;

void nc_errno_clear(void)
{
    errno = 0;
}

int nc_errno_keep(void)
{
    saved = errno;
    return saved;
}

PyObject *nc_errno_save(PyObject *Py_UNUSED(module), PyObject *code)
{
    long number = PyLong_AsLong(code);
    if (number == -1 && PyErr_Occurred()) {
        return NULL;
    }
    saved = (int)number;
    Py_RETURN_NONE;
}

PyObject *nc_errno_saved(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return PyLong_FromLong(saved);
}

PyObject *nc_fail(NcCallable *self, PyObject *value, size_t convention, int code)
{
    PyObject *answer;
    if (value == NULL) {
        return NULL;
    }
    answer = PyObject_CallFunction(nc_hooks.failure, "OnOi", self->name, (Py_ssize_t)convention,
                                   value, code);
    if (answer == NULL) {
        Py_DECREF(value);
        return NULL;
    }
    Py_DECREF(answer);
    return value;
}

PyObject *nc_take_object(PyObject *result)
{
    if (PyErr_Occurred()) {
        Py_XDECREF(result);
        return NULL;
    }
    if (result == NULL) {
        PyErr_SetString(PyExc_ValueError, "PyObject is NULL");
    }
    return result;
}
