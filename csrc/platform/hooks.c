/* csrc/platform/hooks.c: the hooks of hooks.h, and their import on demand. */
#include "hooks.h"

#include "functions.h"

NcHooks nc_hooks;

/* Placeholder for a hook that is not set yet: imports the module that sets the hook, and calls the
 * hook. `place` is the hook's offset in nc_hooks. */
static PyObject *call_later(PyObject *place, PyObject *const *args, Py_ssize_t nargs)
{
    PyObject *const *hook = (PyObject *const *)((char *)&nc_hooks + PyLong_AsSize_t(place));
    const char *name = hook < &nc_hooks.pointer_argument ? "nativecall._callable.hooks"
                       : hook < &nc_hooks.store          ? "nativecall._callable.arguments"
                                                         : "nativecall._values.storage";
    /* Disable collection: a finalizer might run code that uses the half imported module. */
    const int collects = PyGC_Disable();
    PyObject *module = PyImport_ImportModule(name);
    if (collects) {
        PyGC_Enable();
    }
    if (module == NULL) {
        return NULL;
    }
    Py_DECREF(module);
    PyObject *found = (PyObject *)nc_load_acquire_ptr(hook);
    if (PyCFunction_Check(found) &&
        PyCFunction_GET_SELF(found) == place) { /* this thread is importing the module right now */
        PyErr_Format(PyExc_RuntimeError, "%s has not set the hooks yet", name);
        return NULL;
    }
    return PyObject_Vectorcall(found, args, (size_t)nargs, NULL);
}

int nc_hooks_put_off(void)
{
    static PyMethodDef method = {"later", NC_METHOD(call_later), METH_FASTCALL, NULL};
    for (PyObject **hook = &nc_hooks.make_wrapper; hook <= &nc_hooks.out_store; hook++) {
        PyObject *place = PyLong_FromSsize_t((char *)hook - (char *)&nc_hooks);
        *hook = place != NULL ? PyCFunction_New(&method, place) : NULL;
        Py_XDECREF(place);
        if (*hook == NULL) {
            return -1;
        }
    }
    return 0;
}

/* Groups of hooks that are set together: from `first` up to, but not including, `end`. */
static struct {
    const char *name;
    PyObject **first;
    PyObject **end;
    int are_set;
} groups[] = {
    {"calls", &nc_hooks.thunk_specs, &nc_hooks.pointer_argument, 0},
    {"values", &nc_hooks.pointer_argument, &nc_hooks.store, 0},
    {"memory", &nc_hooks.store, &nc_hooks.describe_class, 0},
    {"objects", &nc_hooks.describe_class, &nc_hooks.describe, 0},
    {"interfaces", &nc_hooks.describe, &nc_hooks.cif_of + 1, 0},
};

/* set_hooks(group, hook, ...): sets a group, in the order of NcHooks. A group can be set only once,
 * because code relies on earlier results of its hooks. */
PyObject *nc_set_hooks(PyObject *Py_UNUSED(module), PyObject *args)
{
    const Py_ssize_t count = PyTuple_GET_SIZE(args) - 1;
    PyObject *name = count >= 0 ? PyTuple_GET_ITEM(args, 0) : Py_None;
    for (size_t i = 0; i < Py_ARRAY_LENGTH(groups) && PyUnicode_Check(name); i++) {
        if (PyUnicode_CompareWithASCIIString(name, groups[i].name) != 0 ||
            groups[i].end - groups[i].first != count) {
            continue;
        }
        if (groups[i].are_set) {
            PyErr_SetString(PyExc_RuntimeError, "the hooks of the core are already set");
            return NULL;
        }
        groups[i].are_set = 1;
        for (Py_ssize_t n = 0; n < count; n++) {
            /* The old hook may be running, so do not release the reference to it. */
            nc_store_release_ptr(&groups[i].first[n], Py_NewRef(PyTuple_GET_ITEM(args, n + 1)));
        }
        Py_RETURN_NONE;
    }
    PyErr_SetString(PyExc_TypeError, "the core has no group of this name with as many hooks");
    return NULL;
}
