/* csrc/layout.c: the hooks, and what few callables have (layout.h). */
#include "layout.h"

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
    for (PyObject **hook = &nc_hooks.generate; hook <= &nc_hooks.enumerator; hook++) {
        PyObject *place = PyLong_FromSsize_t((char *)hook - (char *)&nc_hooks);
        *hook = place != NULL ? PyCFunction_New(&method, place) : NULL;
        Py_XDECREF(place);
        if (*hook == NULL) {
            return -1;
        }
    }
    return 0;
}

NcMore nc_no_more;

NcMore *nc_callable_more(NcCallable *self)
{
    if (self->more == &nc_no_more) {
        NcMore *more = (NcMore *)PyMem_Calloc(1, sizeof(NcMore));
        if (more == NULL) {
            PyErr_NoMemory();
            return NULL;
        }
        nc_nativetable_init(&more->native);
        self->more = more;
    }
    return self->more;
}
