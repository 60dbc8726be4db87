/* by_callback.c: quad for every box there is, by callback.h alone.
 *
 * quad(f, a, b) -> (value, error, native calls, boxed calls) */
#define PY_SSIZE_T_CLEAN
#include <nativecall/callback.h>

#include "simpson.h"

NC_CALLBACK_DECLARE_WITH_DATA(python_function, double, (double, user_data), NAN);
static NcCallbackSignature accepted[] = {
    NC_CALLBACK_ACCEPT_NATIVE("d:d", -1),
    NC_CALLBACK_ACCEPT(python_function), /* "d:dP": native functions with user_data fit as well */
};

typedef struct {
    Integrand counts;
    NcCallback callback;
} Called;

static double call(Integrand *self, double x)
{
    const NcCallback *f = &((Called *)self)->callback;
    if (nc_callback_failed(f)) {
        return NAN;
    }
    *(f->native ? &self->native : &self->boxed) += 1;
    return f->matched == 0 ? NC_CALLBACK_FUNCTION(f, double (*)(double))(x)
                           : NC_CALLBACK_FUNCTION(f, double (*)(double, void *))(x, f->user_data);
}

static PyObject *py_quad(PyObject *module, PyObject *args)
{
    Called f = {.counts = {call, 0, 0}};
    PyObject *callable;
    double a;
    double b;
    double value;
    double error;
    (void)module;
    if (!PyArg_ParseTuple(args, "Odd:quad", &callable, &a, &b) ||
        nc_callback_prepare(&f.callback, callable, accepted, 2, NC_CALLBACK_HOLDS_GIL) < 0) {
        return NULL;
    }
    value = quad(&f.counts, a, b, &error);
    if (nc_callback_release(&f.callback) < 0) {
        return NULL;
    }
    return Py_BuildValue("(ddll)", value, error, f.counts.native, f.counts.boxed);
}

static PyMethodDef functions[] = {
    {"quad", py_quad, METH_VARARGS, "quad(f, a, b) -> (value, error, native, boxed)"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "by_callback", .m_doc = "Adaptive quadrature of any box.",
    .m_size = -1,          .m_methods = functions,
};

PyMODINIT_FUNC PyInit_by_callback(void)
{
    return PyModule_Create(&definition);
}
