/* csrc/ground/hooks.c: the hooks of hooks.h, and how they set themselves. */
#include "hooks.h"

#include "functions.h"

NcHooks nc_hooks;

/* A hook until it is set: imports the module that sets it, and calls what is in its place then.
 * `place` is its offset. */
static PyObject *call_later(PyObject *place, PyObject *const *args, Py_ssize_t nargs)
{
    PyObject *const *hook = (PyObject *const *)((char *)&nc_hooks + PyLong_AsSize_t(place));
    const char *name = hook < &nc_hooks.pointer_argument ? "nativecall._callable.hooks"
                                                         : "nativecall._callable.arguments";
    PyObject *later = *hook;
    PyObject *module = PyImport_ImportModule(name);
    if (module == NULL) {
        return NULL;
    }
    Py_DECREF(module);
    if (*hook == later) { /* it is being imported by this thread */
        PyErr_Format(PyExc_RuntimeError, "%s has not set the hooks yet", name);
        return NULL;
    }
    return PyObject_Vectorcall(*hook, args, (size_t)nargs, NULL);
}

int nc_hooks_put_off(void)
{
    static PyMethodDef method = {"later", NC_METHOD(call_later), METH_FASTCALL, NULL};
    for (PyObject **hook = &nc_hooks.make_wrapper; hook <= &nc_hooks.passed; hook++) {
        PyObject *place = PyLong_FromSsize_t((char *)hook - (char *)&nc_hooks);
        *hook = place != NULL ? PyCFunction_New(&method, place) : NULL;
        Py_XDECREF(place);
        if (*hook == NULL) {
            return -1;
        }
    }
    return 0;
}

void nc_hooks_set(PyObject **first, PyObject *functions)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(functions); i++) {
        first[i] = Py_NewRef(PyTuple_GET_ITEM(functions, i)); /* the one before may be running */
    }
}
