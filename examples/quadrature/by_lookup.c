/* by_lookup.c: quad by nativecall_abi.h alone, a file of 250 lines that publishes nothing and that
 * anybody can copy: natively for what nativecall.wrap makes, else through Python.
 *
 * quad(f, a, b) -> (value, error, native calls, boxed calls) */
#define PY_SSIZE_T_CLEAN
#include <nativecall/nativecall_abi.h>

#include "simpson.h"

typedef struct {
    Integrand counts;
    double (*function)(double); /* NULL: `callable` is called through Python */
    PyObject *callable;
} Called;

static double call(Integrand *self, double x)
{
    const Called *f = (const Called *)self;
    PyObject *result;
    double value = NAN;
    if (PyErr_Occurred()) {
        return NAN;
    }
    if (f->function != NULL) {
        self->native++;
        return f->function(x);
    }
    self->boxed++;
    result = PyObject_CallFunction(f->callable, "d", x);
    if (result != NULL) {
        value = PyFloat_AsDouble(result);
        Py_DECREF(result);
    }
    return value;
}

static PyObject *py_quad(PyObject *module, PyObject *args)
{
    static const char *d_d = NULL;
    const PyNativeCallableEntry *entry = NULL;
    Called f = {{call, 0, 0}, NULL, NULL};
    double a;
    double b;
    double value;
    double error;
    (void)module;
    if (!PyArg_ParseTuple(args, "Odd:quad", &f.callable, &a, &b)) {
        return NULL;
    }
    if (nc_abi_offers(f.callable)) {
        if (d_d == NULL) {
            d_d = nc_abi_intern("d:d"); /* NULL as long as nobody offers functions */
        }
        entry = nc_abi_find(f.callable, d_d, NC_ERRORS_MASK);
    }
    if (entry != NULL) {
        f.function = (double (*)(double))(uintptr_t)NC_ABI_LOAD(&entry->funcptr);
    }
    value = quad(&f.counts, a, b, &error);
    if (PyErr_Occurred()) {
        return NULL; /* also what a Python function below a native one raised */
    }
    return Py_BuildValue("(ddll)", value, error, f.counts.native, f.counts.boxed);
}

static PyMethodDef functions[] = {
    {"quad", py_quad, METH_VARARGS, "quad(f, a, b) -> (value, error, native, boxed)"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "by_lookup",  .m_doc = "Adaptive quadrature of any callable.",
    .m_size = -1,          .m_methods = functions,
};

PyMODINIT_FUNC PyInit_by_lookup(void)
{
    return PyModule_Create(&definition);
}
