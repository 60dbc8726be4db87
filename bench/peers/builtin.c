/* bench/peers/builtin.c: hand-written built-in functions, METH_O or METH_FASTCALL.
 *
 * make(signature, address) returns a built-in whose __self__ holds the pointer: the fastest call
 * that CPython has, doing the same work as nativecall's built-in view.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    PyObject_HEAD
    void *function; /* the C function that is called */
} Kernel;

static inline int as_double(PyObject *object, double *value)
{
    if (PyFloat_CheckExact(object)) {
        *value = PyFloat_AS_DOUBLE(object);
        return 0;
    }
    *value = PyFloat_AsDouble(object);
    return *value == -1.0 && PyErr_Occurred() ? -1 : 0;
}

static PyObject *one_double(PyObject *self, PyObject *arg)
{
    double a;
    if (as_double(arg, &a) < 0)
        return NULL;
    return PyFloat_FromDouble(((double (*)(double))((Kernel *)self)->function)(a));
}

static PyObject *three_doubles(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    double a, b, c;
    if (count != 3) {
        PyErr_Format(PyExc_TypeError, "'d:ddd' takes 3 arguments (%zd given)", count);
        return NULL;
    }
    if (as_double(args[0], &a) < 0 || as_double(args[1], &b) < 0 || as_double(args[2], &c) < 0)
        return NULL;
    return PyFloat_FromDouble(
        ((double (*)(double, double, double))((Kernel *)self)->function)(a, b, c));
}

static PyMethodDef methods[] = {
    {"d:d", one_double, METH_O, NULL},
    {"d:ddd", (PyCFunction)(void (*)(void))three_doubles, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject kernel_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "bench_builtin.Kernel",
    .tp_basicsize = sizeof(Kernel),
    .tp_flags = Py_TPFLAGS_DEFAULT,
};

static PyObject *make(PyObject *module, PyObject *args)
{
    const char *signature;
    unsigned long long address;
    (void)module;
    if (!PyArg_ParseTuple(args, "sK", &signature, &address))
        return NULL;
    for (PyMethodDef *method = methods; method->ml_name != NULL; method++) {
        if (strcmp(method->ml_name, signature) != 0)
            continue;
        Kernel *kernel = PyObject_New(Kernel, &kernel_type);
        if (kernel == NULL)
            return NULL;
        kernel->function = (void *)(uintptr_t)address;
        PyObject *builtin = PyCFunction_New(method, (PyObject *)kernel);
        Py_DECREF(kernel);
        return builtin;
    }
    PyErr_Format(PyExc_KeyError, "no kernel with signature '%s'", signature);
    return NULL;
}

static PyMethodDef functions[] = {{"make", make, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "bench_builtin", .m_size = -1,
                             .m_methods = functions};

PyMODINIT_FUNC PyInit_bench_builtin(void)
{
    if (PyType_Ready(&kernel_type) < 0)
        return NULL;
    return PyModule_Create(&module);
}
