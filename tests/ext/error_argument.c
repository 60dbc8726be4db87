/* tests/ext/error_argument.c: C code that looks at an int which the last argument points to.
 *
 * It calls objects by all headers for that; MODULE is the module's name, built as C99 and C++11.
 * What the int was after the last call is the module's `told()`. */
#include "module.h"

#include <math.h>
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

static NcCallbackSignature plain[] = {NC_CALLBACK_ACCEPT("double (double, int *)")};
static NcCallbackSignature with_data[] = {
    NC_CALLBACK_ACCEPT_WITH_DATA("double (double, void *, int *)")};

/* callback(f, x, options, which) -> the result of its native function, None when there is none */
static PyObject *callback(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *f;
    double x;
    double value = NAN;
    unsigned options;
    int which;
    int native;
    NcCallback call;
    if (!PyArg_ParseTuple(args, "OdIi", &f, &x, &options, &which) ||
        nc_callback_prepare(&call, f, which == 0 ? plain : with_data, 1, options) < 0) {
        return NULL;
    }
    native = call.function != NULL;
    last = 0;
    if (native) {
        value = which == 0 ? NC_CALLBACK_FUNCTION(&call, double (*)(double, int *))(x, &last)
                           : NC_CALLBACK_FUNCTION(&call, double (*)(double, void *, int *))(
                                 x, call.user_data, &last);
    }
    if (nc_callback_release(&call) < 0) {
        return NULL;
    }
    return native ? PyFloat_FromDouble(value) : Py_NewRef(Py_None);
}

static PyMethodDef methods[] = {
    {"told", told, METH_NOARGS, NULL},          {"look", look, METH_VARARGS, NULL},
    {"dispatch", dispatch, METH_VARARGS, NULL}, {"dynamic", dynamic, METH_VARARGS, NULL},
    {"callback", callback, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = MODULE_DEFINITION(methods);

PyMODINIT_FUNC MODULE_INIT(void)
{
    return PyModule_Create(&definition);
}
