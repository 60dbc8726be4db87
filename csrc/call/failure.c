/* csrc/call/failure.c: implements failure.h: saves errno around calls, and raises exceptions for
 * failing results. */
#include "failure.h"

#include "values/names.h"

#include "platform/address.h"

#include <errno.h>

/* The errno of this thread's last call that saves errno; set_errno() replaces it. */
static NC_THREAD_LOCAL int saved;
NC_THREAD_LOCAL int *nc_errno_of_callback;

int nc_errno_keep(void)
{
    saved = errno;
    return saved;
}

/* set_errno(code): sets the saved errno. In a callback, also sets the errno that C sees when the
 * callback returns. */
PyObject *nc_errno_set(PyObject *Py_UNUSED(module), PyObject *code)
{
    long number = PyLong_AsLong(code);
    if (number == -1 && PyErr_Occurred()) {
        return NULL;
    }
    if (number != (int)number) {
        PyErr_SetString(PyExc_OverflowError, "errno must fit in a C int");
        return NULL;
    }
    saved = (int)number;
    if (nc_errno_of_callback != NULL) {
        *nc_errno_of_callback = saved;
    }
    Py_RETURN_NONE;
}

/* saved_errno() */
PyObject *nc_errno_saved(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return PyLong_FromLong(saved);
}

PyObject *nc_error_conventions(void)
{
#define FORMAT(convention, name, results) "sn"
#define VALUES(convention, name, results) , name, (Py_ssize_t)NC_ERRORS_##convention
    return Py_BuildValue("{" NC_ERROR_CONVENTIONS(FORMAT) "}" NC_ERROR_CONVENTIONS(VALUES));
#undef FORMAT
#undef VALUES
}

/* Calls the hook that raises exceptions for failing results. Returns -1 if it raises, else 0. */
static int fail(PyObject *name, PyObject *value, size_t convention, int code)
{
    PyObject *text = nc_name(name);
    PyObject *answer = text != NULL ? PyObject_CallFunction(NC_HOOK(failure), "OnOi", text,
                                                            (Py_ssize_t)convention, value, code)
                                    : NULL;
    Py_XDECREF(answer);
    return answer != NULL ? 0 : -1;
}

PyObject *nc_fail(NcCallable *self, PyObject *value, size_t convention, int code)
{
    /* An exception that is already set is more specific, so it propagates. */
    if (value != NULL &&
        (PyErr_Occurred() || fail((PyObject *)self, value, convention, code) < 0)) {
        Py_CLEAR(value);
    }
    return value;
}

PyObject *nc_take_object(PyObject *name, PyObject *result, size_t convention, int code)
{
    if (PyErr_Occurred()) {
        Py_XDECREF(result);
        return NULL;
    }
    if (result == NULL && fail(name, Py_None, convention, code) == 0) {
        PyObject *text = nc_name(name);
        if (text != NULL) {
            PyErr_Format(PyExc_SystemError, "'%U' returned NULL without setting an exception",
                         text);
        }
    }
    return result;
}

/* object_at(address, owned): returns the object at an address. If `owned`, takes over C's reference
 * to the object. */
PyObject *nc_object_at(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *address;
    int owned;
    if (!PyArg_ParseTuple(args, "O!p", &PyLong_Type, &address, &owned)) {
        return NULL;
    }
    PyObject *found = (PyObject *)nc_address(address, "there is no object at address 0");
    return owned ? found : Py_XNewRef(found);
}
