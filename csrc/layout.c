/* csrc/layout.c: the hooks, and what few callables have (layout.h). */
#include "layout.h"

/* A hook until it is set: imports the module that sets it, and calls what is in its place then.
 * `place` is its offset. */
static PyObject *call_later(PyObject *place, PyObject *const *args, Py_ssize_t nargs)
{
    NcHooks *hooks = &nc_here()->hooks;
    PyObject *const *hook = (PyObject *const *)((char *)hooks + PyLong_AsSize_t(place));
    const char *name = hook < &hooks->pointer_argument ? "nativecall._callable.hooks"
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

int nc_hooks_put_off(NcInterpreter *here)
{
    static PyMethodDef method = {"later", NC_METHOD(call_later), METH_FASTCALL, NULL};
    NcHooks *hooks = &here->hooks;
    PyObject *all = PyList_New(0); /* one that is replaced in its own call lives on */
    Py_XSETREF(here->kept[NC_PUT_OFF], all);
    for (PyObject **hook = &hooks->generate; hook <= &hooks->passed; hook++) {
        PyObject *place = PyLong_FromSsize_t((char *)hook - (char *)hooks);
        PyObject *made = place != NULL ? PyCFunction_New(&method, place) : NULL;
        Py_XDECREF(place);
        Py_XSETREF(*hook, made);
        if (made == NULL || all == NULL || PyList_Append(all, made) < 0) {
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
