/* by_callback.c: quad with the conventions of SciPy's, by callback.h alone.
 *
 * quad(f, a, b, args=()) -> (value, error, native calls, boxed calls)
 *
 * With args, a Python function is called as f(x, *args), and a C function of the type
 * double (int, double *) with x and the args in one array, as in SciPy. A native callable may have
 * a parameter for each instead: double (double, double) with one of args. */
#define PY_SSIZE_T_CLEAN
#include <nativecall/callback.h>

#include "simpson.h"

enum { MOST = 2, PLAIN = 0, IN_ARRAY, IN_ARRAY_WITH_DATA, WITH_DATA, WAYS }; /* MOST: args */

#define ACCEPTS(plain)                                                                             \
    {NC_CALLBACK_ACCEPT(plain), NC_CALLBACK_ACCEPT("double (int, double *)"),                      \
     NC_CALLBACK_ACCEPT_WITH_DATA("double (int, double *, void *)"),                               \
     NC_CALLBACK_ACCEPT_WITH_DATA("double (double, void *)")}

/* What is taken, by the number of args. The last signature has no place for any. */
static NcCallbackSignature accepted[MOST + 1][WAYS] = {
    ACCEPTS("double (double)"),
    ACCEPTS("double (double, double)"),
    ACCEPTS("double (double, double, double)"),
};

typedef struct {
    Integrand counts;
    NcCallback f;
    PyObject *args; /* a tuple */
    int n;          /* 1 + the number of args */
    double x[1 + MOST];
} Called;

/* f(x, *args) of Python's. */
static double call_python(Called *self)
{
    NcCallbackCall call;
    double value = NAN;
    if (nc_callback_enter(&self->f, &call)) {
        PyObject *x = Py_BuildValue("(d)", self->x[0]);
        PyObject *all = x != NULL ? PySequence_Concat(x, self->args) : NULL;
        PyObject *result = all != NULL ? PyObject_CallObject(call.callable, all) : NULL;
        value = result != NULL ? PyFloat_AsDouble(result) : NAN;
        Py_XDECREF(result);
        Py_XDECREF(all);
        Py_XDECREF(x);
        if (nc_callback_leave(&call) < 0) {
            value = NAN;
        }
    }
    return value;
}

static double call(Integrand *counts, double x)
{
    Called *self = (Called *)counts;
    NcCallback *f = &self->f;
    double *p = self->x;
    if (nc_callback_failed(f)) {
        return NAN;
    }
    p[0] = x;
    *(f->function != NULL ? &counts->native : &counts->boxed) += 1;
    if (f->function == NULL) {
        return call_python(self);
    }
    switch (f->matched) {
    case IN_ARRAY:
        return NC_CALLBACK_FUNCTION(f, double (*)(int, double *))(self->n, p);
    case IN_ARRAY_WITH_DATA:
        return NC_CALLBACK_FUNCTION(f, double (*)(int, double *, void *))(self->n, p, f->user_data);
    case WITH_DATA:
        return NC_CALLBACK_FUNCTION(f, double (*)(double, void *))(x, f->user_data);
    default:
        return self->n == 1 ? NC_CALLBACK_FUNCTION(f, double (*)(double))(x)
               : self->n == 2
                   ? NC_CALLBACK_FUNCTION(f, double (*)(double, double))(x, p[1])
                   : NC_CALLBACK_FUNCTION(f, double (*)(double, double, double))(x, p[1], p[2]);
    }
}

static PyObject *py_quad(PyObject *module, PyObject *arguments, PyObject *named)
{
    static char *names[] = {"f", "a", "b", "args", NULL};
    Called f = {.counts = {call, 0, 0}};
    PyObject *callable;
    PyObject *args = NULL;
    double a, b, value = NAN, error;
    Py_ssize_t extra;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(arguments, named, "Odd|O!:quad", names, &callable, &a, &b,
                                     &PyTuple_Type, &args)) {
        return NULL;
    }
    f.args = args != NULL ? Py_NewRef(args) : PyTuple_New(0);
    extra = f.args != NULL ? PyTuple_GET_SIZE(f.args) : -1;
    if (extra > MOST) {
        PyErr_Format(PyExc_ValueError, "'args' must have at most %d items (got %zd)", MOST, extra);
    }
    if (extra < 0 || extra > MOST ||
        nc_callback_prepare(&f.f, callable, accepted[extra], extra == 0 ? WAYS : WAYS - 1,
                            NC_CALLBACK_HOLDS_GIL) < 0) {
        Py_XDECREF(f.args);
        return NULL;
    }
    f.n = 1 + (int)extra;
    while (f.f.function != NULL && extra > 0 && !PyErr_Occurred()) {
        f.x[extra] = PyFloat_AsDouble(PyTuple_GET_ITEM(f.args, extra - 1));
        extra--;
    }
    if (!PyErr_Occurred()) {
        value = quad(&f.counts, a, b, &error);
    }
    Py_DECREF(f.args);
    return nc_callback_release(&f.f) < 0
               ? NULL
               : Py_BuildValue("(ddll)", value, error, f.counts.native, f.counts.boxed);
}

static PyMethodDef functions[] = {
    {"quad", (PyCFunction)(void (*)(void))py_quad, METH_VARARGS | METH_KEYWORDS,
     "quad(f, a, b, args=()) -> (value, error, native, boxed)"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "by_callback", .m_doc = "Adaptive quadrature, as SciPy's.",
    .m_size = -1,          .m_methods = functions,
};

PyMODINIT_FUNC PyInit_by_callback(void)
{
    return PyModule_Create(&definition);
}
