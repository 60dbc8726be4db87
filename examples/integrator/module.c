/* module.c: numerics.c for Python, where any callable is a function.
 *
 * callback.h turns what Python gives into a C function pointer: native callables,
 * LowLevelCallables, capsules, pointers of ctypes and cffi and cfuncs of Numba are called as they
 * are, Python functions through a callback function. The headers are all it needs of nativecall;
 * copy them next to this file, and nativecall need not even be installed. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>

#include <nativecall/callback.h>

#include "numerics.h"

/* Callback functions for Python functions: name, result, arguments, and what C gets after a
 * failure. */
NC_CALLBACK_DECLARE_WITH_DATA(python_1, double, (double, user_data), NAN);
NC_CALLBACK_DECLARE_WITH_DATA(python_2, double, (double, double, user_data), NAN);

/* What is taken, the best first. */
static NcCallbackSignature accepted_1[] = {
    NC_CALLBACK_ACCEPT_NATIVE("d:d", -1),
    NC_CALLBACK_ACCEPT(python_1), /* "d:dP": native functions with user_data fit as well */
};
static NcCallbackSignature accepted_2[] = {
    NC_CALLBACK_ACCEPT_NATIVE("d:dd", -1),
    NC_CALLBACK_ACCEPT(python_2),
};

/* The library passes `data` on, so that is where the callback travels. */
static double call_1(double x, void *data)
{
    const NcCallback *f = (const NcCallback *)data;
    return f->matched == 0 ? NC_CALLBACK_FUNCTION(f, double (*)(double))(x)
                           : NC_CALLBACK_FUNCTION(f, double (*)(double, void *))(x, f->user_data);
}

static double call_2(double t, double y, void *data)
{
    const NcCallback *f = (const NcCallback *)data;
    return f->matched == 0
               ? NC_CALLBACK_FUNCTION(f, double (*)(double, double))(t, y)
               : NC_CALLBACK_FUNCTION(f, double (*)(double, double, void *))(t, y, f->user_data);
}

static int failed(const void *data)
{
    return nc_callback_failed((const NcCallback *)data);
}

/* The result and whether the callback was native; NULL when the callback raised. */
static PyObject *finish(NcCallback *f, double value)
{
    int native = f->native;
    if (nc_callback_release(f) < 0) {
        return NULL;
    }
    return Py_BuildValue("(dO)", value, native ? Py_True : Py_False);
}

/* integrate(f, a, b, n) -> (value, native) */
static PyObject *py_integrate(PyObject *module, PyObject *args)
{
    PyObject *callable;
    NcCallback f;
    double a;
    double b;
    double value;
    long n;
    (void)module;
    if (!PyArg_ParseTuple(args, "Oddl", &callable, &a, &b, &n) ||
        nc_callback_prepare(&f, callable, accepted_1, 2, 0) < 0) {
        return NULL;
    }
    /* Callback functions take the GIL when they need it. */
    Py_BEGIN_ALLOW_THREADS value = integrate(call_1, &f, failed, a, b, n);
    Py_END_ALLOW_THREADS return finish(&f, value);
}

/* find_root(f, a, b) -> (root, native) */
static PyObject *py_find_root(PyObject *module, PyObject *args)
{
    PyObject *callable;
    NcCallback f;
    double a;
    double b;
    double root = 0.0;
    (void)module;
    if (!PyArg_ParseTuple(args, "Odd", &callable, &a, &b) ||
        nc_callback_prepare(&f, callable, accepted_1, 2, NC_CALLBACK_HOLDS_GIL) < 0) {
        return NULL;
    }
    if (find_root(call_1, &f, failed, a, b, &root) < 0) {
        PyErr_SetString(PyExc_ValueError, "the function has the same sign at both ends");
        (void)nc_callback_release(&f);
        return NULL;
    }
    return finish(&f, root);
}

/* solve(f, t0, y0, t1, n) -> (y, native) */
static PyObject *py_solve(PyObject *module, PyObject *args)
{
    PyObject *callable;
    NcCallback f;
    double t0;
    double y0;
    double t1;
    double value;
    long n;
    (void)module;
    if (!PyArg_ParseTuple(args, "Odddl", &callable, &t0, &y0, &t1, &n) ||
        nc_callback_prepare(&f, callable, accepted_2, 2, NC_CALLBACK_HOLDS_GIL) < 0) {
        return NULL;
    }
    value = solve(call_2, &f, failed, t0, y0, t1, n);
    return finish(&f, value);
}

static PyMethodDef functions[] = {
    {"integrate", py_integrate, METH_VARARGS, "integrate(f, a, b, n) -> (value, native)"},
    {"find_root", py_find_root, METH_VARARGS, "find_root(f, a, b) -> (root, native)"},
    {"solve", py_solve, METH_VARARGS, "solve(f, t0, y0, t1, n) -> (y, native)"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "numerics",
    .m_doc = "An integrator, a root finder and an ODE stepper that take any callable.",
    .m_size = -1,
    .m_methods = functions,
};

PyMODINIT_FUNC PyInit_numerics(void)
{
    return PyModule_Create(&definition);
}
