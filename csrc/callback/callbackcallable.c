/* csrc/callback/callbackcallable.c: see callbackcallable.h. A failed operation leaves nothing. */
#include "callbackcallable.h"

#include "object/making.h"
#include "pycallbackobject.h"

/* What a callable says of itself: a new reference to a str; NULL, perhaps with an exception, where
 * that is no str, has a null character, or is not there. */
static PyObject *text_of(PyObject *function, const char *attribute)
{
    PyObject *found = PyObject_GetAttrString(function, attribute);
    if (found != NULL && (!PyUnicode_Check(found) ||
                          PyUnicode_FindChar(found, 0, 0, PyUnicode_GET_LENGTH(found), 1) >= 0)) {
        Py_CLEAR(found);
    } else if (found == NULL && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_Clear();
    }
    return found;
}

/* The callable of the parts of a plan. */
static PyObject *make(PyTypeObject *type, PyObject *plan, PyObject *function, PyObject *name,
                      PyObject *doc)
{
    NcCallSpec *spec = (NcCallSpec *)(void *)PyTuple_GET_ITEM(plan, 0);
    size_t flags = PyLong_AsSize_t(PyTuple_GET_ITEM(plan, 1));
    NcPyCallback *called = nc_pycallback_make(
        &NcPyCallback_Type, (NcCallbackSpec *)(void *)PyTuple_GET_ITEM(plan, 2), function, name);
    PyObject *made = called != NULL ? nc_callable_new(type, NULL, NULL) : NULL;
    NcCallable *self = (NcCallable *)(void *)made;
    if (made != NULL) {
        NcMore *more = doc != NULL ? nc_callable_more(self) : NULL;
        self->as.unviewed.name = Py_NewRef(name);
        if (more != NULL) {
            more->doc = Py_NewRef(doc);
        }
        if ((doc != NULL && more == NULL) ||
            nc_callable_begin(self, spec, called->stub, flags, (PyObject *)called) < 0) {
            Py_CLEAR(made);
        }
    }
    Py_XDECREF(called);
    return made;
}

PyObject *nc_make_callback(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    PyObject *plan;
    PyObject *function;
    PyObject *name;
    PyObject *doc;
    PyObject *made = NULL;
    if (nargs != 4 || !PyType_Check(args[0]) ||
        !PyType_IsSubtype((PyTypeObject *)(void *)args[0],
                          (PyTypeObject *)(void *)&NcCallable_Type) ||
        !PyDict_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError,
                        "make_callback() takes a class of native callables, a dict, a signature "
                        "and a function");
        return NULL;
    }
    function = args[3];
    plan = PyUnicode_CheckExact(args[2]) && PyCallable_Check(function)
               ? PyDict_GetItemWithError(args[1], args[2])
               : NULL;
    if (plan == NULL) {
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    }
    if (!PyTuple_CheckExact(plan) || PyTuple_GET_SIZE(plan) != 3 ||
        !Py_IS_TYPE(PyTuple_GET_ITEM(plan, 0), &NcCallSpec_Type) ||
        !PyLong_Check(PyTuple_GET_ITEM(plan, 1)) ||
        !Py_IS_TYPE(PyTuple_GET_ITEM(plan, 2), &NcCallbackSpec_Type)) {
        PyErr_SetString(PyExc_TypeError, "a plan is a call spec, flags and a CallbackSpec");
        return NULL;
    }
    Py_INCREF(plan);
    if (PyFunction_Check(function) && ((PyFunctionObject *)(void *)function)->func_doc == Py_None) {
        /* Nearly all: what would be asked for is known. */
        name = Py_NewRef(((PyFunctionObject *)(void *)function)->func_name);
        doc = NULL;
    } else {
        name = text_of(function, "__name__");
        doc = PyErr_Occurred() ? NULL : text_of(function, "__doc__");
    }
    if (name == NULL && !PyErr_Occurred()) {
        name = PyUnicode_FromString("function");
    }
    if (!PyErr_Occurred()) {
        made = make((PyTypeObject *)(void *)args[0], plan, function, name, doc);
    }
    Py_XDECREF(name);
    Py_XDECREF(doc);
    Py_DECREF(plan);
    return made;
}
