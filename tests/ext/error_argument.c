/* tests/ext/error_argument.c: C code that looks at an int which the last argument points to.
 *
 * It calls objects by all headers for that; MODULE is the module's name, built as C99 and C++11.
 * What the int was after the last call is the module's `told()`. */
#include "module.h"

#include <nativecall/callback.h>
#include <nativecall/dispatch.h>
#include <nativecall/dynamiccall.h>

static int last;

static PyObject *told(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return PyLong_FromLong(last);
}

/* look(f, x): by nativecall_abi.h alone; None where there is no entry of the convention */
static PyObject *look(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *f;
    double x;
    const char *signature;
    const PyNativeCallableEntry *entry;
    if (!PyArg_ParseTuple(args, "Od", &f, &x)) {
        return NULL;
    }
    signature = nc_abi_intern("d:d&i");
    for (entry = NC_ABI_ENTRIES(f); NC_ABI_LOAD(&entry->signature) != NULL; entry++) {
        if (NC_ABI_LOAD(&entry->signature) == (const void *)signature &&
            (entry->flags & (NC_ERRORS_MASK | NC_FLAGS_ABI_MASK)) == NC_ERRORS_ARGUMENT) {
            last = 0;
            x = ((double (*)(double, int *))(uintptr_t)NC_ABI_LOAD(&entry->funcptr))(x, &last);
            return PyErr_Occurred() ? NULL : PyFloat_FromDouble(x);
        }
    }
    Py_RETURN_NONE;
}

NC_DISPATCH(checked, double, (double, failure));

/* dispatch(f, x) */
static PyObject *dispatch(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *f;
    double x, y;
    if (!PyArg_ParseTuple(args, "Od", &f, &x)) {
        return NULL;
    }
    last = 0;
    return checked(f, &y, x, &last) < 0 ? NULL : PyFloat_FromDouble(y);
}

/* dynamic(f, x) -> (way, y) */
static PyObject *dynamic(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *f;
    double x, y;
    NcCall call;
    int *at = &last;
    const void *values[2];
    int status;
    if (!PyArg_ParseTuple(args, "Od", &f, &x) || nc_call_prepare(&call, f, "d:d&i") < 0) {
        return NULL;
    }
    values[0] = &x;
    values[1] = &at;
    last = 0;
    status = nc_call(&call, &y, values);
    nc_call_release(&call);
    return status < 0 ? NULL : Py_BuildValue("(id)", call.way, y);
}

NC_CALLBACK_DECLARE(step, double, (double, failure), -7);
NC_CALLBACK_DECLARE_WITH_DATA(step_data, double, (double, user_data, failure), -8);
NC_CALLBACK_DECLARE(empty, nothing, (failure), 0);
static NcCallbackSignature plain[] = {NC_CALLBACK_ACCEPT(step)};
static NcCallbackSignature with_data[] = {NC_CALLBACK_ACCEPT(step_data)};
static NcCallbackSignature nothings[] = {NC_CALLBACK_ACCEPT(empty)};
static double given; /* what the last call gave */

/* callback(f, x, options, which, times=1) -> whether it is native; called until it fails */
static PyObject *callback(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *f;
    double x;
    unsigned options;
    int which, times = 1;
    int native;
    NcCallback call;
    NcCallbackSignature *accepted;
    if (!PyArg_ParseTuple(args, "OdIi|i", &f, &x, &options, &which, &times)) {
        return NULL;
    }
    accepted = which == 0 ? plain : which == 1 ? with_data : nothings;
    if (nc_callback_prepare(&call, f, accepted, 1, options) < 0) {
        return NULL;
    }
    native = call.native;
    for (; times > 0; times--) {
        last = 0;
        if (which == 0) {
            given = NC_CALLBACK_FUNCTION(&call, double (*)(double, int *))(x, &last);
        } else if (which == 1) {
            given = NC_CALLBACK_FUNCTION(&call, double (*)(double, void *, int *))(
                x, call.user_data, &last);
        } else {
            NC_CALLBACK_FUNCTION(&call, void (*)(int *))(&last);
        }
    }
    return nc_callback_release(&call) < 0 ? NULL : PyBool_FromLong(native);
}

static PyObject *result(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return PyFloat_FromDouble(given);
}

static PyMethodDef methods[] = {
    {"told", told, METH_NOARGS, NULL},
    {"look", look, METH_VARARGS, NULL},
    {"dispatch", dispatch, METH_VARARGS, NULL},
    {"dynamic", dynamic, METH_VARARGS, NULL},
    {"callback", callback, METH_VARARGS, NULL},
    {"result", result, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = MODULE_DEFINITION(methods);

PyMODINIT_FUNC MODULE_INIT(void)
{
    return PyModule_Create(&definition);
}
