/* csrc/callable/callbackcallable.c: native callables of Python functions, made without a step of
 * Python code where all that a signature asks for is known already. A failed operation leaves
 * nothing. */
#include "platform/functions.h"

#include "platform/stub.h"
#include "construct.h"
#include "fastpath.h"
#include "pycallbackobject.h"

/* Takes a reference, and gives it back where that is a str without a null character; else NULL. */
static PyObject *plain_text(PyObject *found)
{
    if (!PyUnicode_Check(found) ||
        PyUnicode_FindChar(found, 0, 0, PyUnicode_GET_LENGTH(found), 1) >= 0) {
        Py_CLEAR(found);
    }
    return found;
}

/* What a callable says of itself: a new reference to a str; NULL, perhaps with an exception, where
 * that is no str, has a null character, or is not there. */
static PyObject *text_of(PyObject *function, const char *attribute)
{
    PyObject *found = PyObject_GetAttrString(function, attribute);
    if (found != NULL) {
        return plain_text(found);
    }
    if (PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_Clear();
    }
    return NULL;
}

/* The callable of the parts of a plan. */
static PyObject *make(PyTypeObject *type, PyObject *plan, PyObject *function, PyObject *name,
                      PyObject *doc)
{
    NcCallSpec *spec = (NcCallSpec *)(void *)PyTuple_GET_ITEM(plan, 0);
    size_t flags = PyLong_AsSize_t(PyTuple_GET_ITEM(plan, 1));
    NcPyCallback *called =
        nc_pycallback_make((NcCallbackSpec *)(void *)PyTuple_GET_ITEM(plan, 2), function, name);
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

/* callback(signature, function) of a plan that is known. The name is the function's own, "function"
 * where it has none, and so is its doc. It is for the Python function to say what is meant, or what
 * is wrong, where there are options, the signature is no key, or what is passed cannot be called.
 */
PyObject *nc_usual_callback(PyObject *data, PyObject *const *args, Py_ssize_t nargs,
                            PyObject *kwnames)
{
    PyObject *plan = NULL;
    PyObject *function;
    PyObject *name;
    PyObject *doc;
    PyObject *made = NULL;
    if (nargs != 2 || (kwnames != NULL && PyTuple_GET_SIZE(kwnames) != 0) ||
        !PyUnicode_CheckExact(args[0]) || !PyCallable_Check(args[1])) {
        return NULL;
    }
    plan = PyDict_GetItemWithError(PyTuple_GET_ITEM(data, 1), args[0]);
    if (plan == NULL) {
        return NULL;
    }
    function = args[1];
    Py_INCREF(plan);
    if (PyFunction_Check(function) && ((PyFunctionObject *)(void *)function)->func_doc == Py_None) {
        /* Nearly all: what would be asked for is known. */
        name = plain_text(Py_NewRef(((PyFunctionObject *)(void *)function)->func_name));
        doc = NULL;
    } else {
        name = text_of(function, "__name__");
        doc = PyErr_Occurred() ? NULL : text_of(function, "__doc__");
    }
    if (name == NULL && !PyErr_Occurred()) {
        name = PyUnicode_FromString("function");
    }
    if (!PyErr_Occurred() && PySys_Audit("nativecall.callback", "OO", args[0], function) == 0) {
        made = make((PyTypeObject *)(void *)PyTuple_GET_ITEM(data, 0), plan, function, name, doc);
    }
    Py_XDECREF(name);
    Py_XDECREF(doc);
    Py_DECREF(plan);
    return made;
}
