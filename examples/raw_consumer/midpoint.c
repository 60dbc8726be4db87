/* midpoint.c: a consumer of native callables: the midpoint rule over any Python callable.
 *
 * Where the callable has an entry for double (double), the loop calls that C function without the
 * GIL and without boxing. Everything else is called through Python, so nothing is lost for callers
 * who know nothing of nativecall. Two headers are all it needs, nativecall_abi.h and, for the limited
 * API, nativecall_abi3.h: one binary runs on Python 3.11 and all later versions; free-threaded builds
 * need one for each version. nativecall is not linked against, and need not be installed where this
 * module runs. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <nativecall/nativecall_abi.h>

typedef double (*Integrand)(double);

static const char *d_d; /* "d:d", interned: what entries' signatures are compared with */

/* What the loop cannot do justice to: functions that need the GIL, or report errors. */
static const uintptr_t refuse = NC_FLAG_NEEDS_GIL | NC_ERRORS_MASK;

static int through_python(PyObject *callable, double x, double *out)
{
    PyObject *result = PyObject_CallFunction(callable, "d", x);
    if (result == NULL) {
        return -1;
    }
    *out = PyFloat_AsDouble(result);
    Py_DECREF(result);
    return *out == -1.0 && PyErr_Occurred() ? -1 : 0;
}

/* integrate(f, a, b, n) -> (value, whether f was called natively) */
static PyObject *integrate(PyObject *module, PyObject *args)
{
    PyObject *callable;
    const PyNativeCallableEntry *entry = NULL;
    Integrand f = NULL;
    double a;
    double b;
    double step;
    double sum = 0.0;
    Py_ssize_t n;
    Py_ssize_t i;
    (void)module;
    if (!PyArg_ParseTuple(args, "Oddn", &callable, &a, &b, &n)) {
        return NULL;
    }
    if (n < 1) {
        PyErr_Format(PyExc_ValueError, "'n' must be 1 or more (got %zd)", n);
        return NULL;
    }
    step = (b - a) / (double)n;
    if (nc_abi_offers(callable)) {
        if (d_d == NULL) {
            d_d = nc_abi_intern("d:d"); /* NULL as long as nobody offers functions */
        }
        entry = nc_abi_find(callable, d_d, refuse);
    }
    if (entry != NULL) {
        f = (Integrand)(uintptr_t)NC_ABI_LOAD(&entry->funcptr);
        /* args keeps the callable, and with it the function, alive. */
        PyThreadState *python = PyEval_SaveThread();
        for (i = 0; i < n; i++) {
            sum += f(a + ((double)i + 0.5) * step);
        }
        PyEval_RestoreThread(python);
        if (PyErr_Occurred()) {
            return NULL; /* whatever f's error convention is: it may have run Python code */
        }
    } else {
        for (i = 0; i < n; i++) {
            double value;
            if (through_python(callable, a + ((double)i + 0.5) * step, &value) < 0) {
                return NULL;
            }
            sum += value;
        }
    }
    return Py_BuildValue("(dO)", sum * step, f != NULL ? Py_True : Py_False);
}

static PyMethodDef functions[] = {
    {"integrate", integrate, METH_VARARGS, "integrate(f, a, b, n) -> (value, native)"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "midpoint",   .m_doc = "The midpoint rule over any callable.",
    .m_size = -1,          .m_methods = functions,
};

PyMODINIT_FUNC PyInit_midpoint(void)
{
    return PyModule_Create(&definition);
}
