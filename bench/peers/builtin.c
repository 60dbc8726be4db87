/* bench/peers/builtin.c: hand-written built-in functions, METH_NOARGS, METH_O or METH_FASTCALL.
 *
 * make(signature, address) returns a built-in whose __self__ holds the pointer: the fastest call
 * that CPython has, doing the same work as nativecall's built-in view.
 */
#include "boxing.h"

static int wrong_count(const char *signature, Py_ssize_t found, Py_ssize_t wanted)
{
    if (found == wanted)
        return 0;
    PyErr_Format(PyExc_TypeError, "'%s' takes %zd arguments (%zd given)", signature, wanted, found);
    return 1;
}

static PyObject *builtin_d(PyObject *self, PyObject *unused)
{
    (void)unused;
    return call_d(((Kernel *)self)->function, NULL);
}

static PyObject *builtin_d_d(PyObject *self, PyObject *arg)
{
    return call_d_d(((Kernel *)self)->function, &arg);
}

#define FASTCALL(signature, name, arity)                                                           \
    static PyObject *builtin_##name(PyObject *self, PyObject *const *args, Py_ssize_t count)       \
    {                                                                                              \
        if (wrong_count(signature, count, arity))                                                  \
            return NULL;                                                                           \
        return call_##name(((Kernel *)self)->function, args);                                      \
    }
FASTCALL("d:dd", d_dd, 2)
FASTCALL("d:ddd", d_ddd, 3)
FASTCALL("d:dddd", d_dddd, 4)
FASTCALL("q:qqq", q_qqq, 3)
FASTCALL("d:&dq", d_Pdq, 2)
FASTCALL("T{dd}:T{dd}d", T_Td, 2)

#define METHOD(signature, name, arity)                                                             \
    {signature, (PyCFunction)(void (*)(void))builtin_##name,                                       \
     arity == 0   ? METH_NOARGS                                                                    \
     : arity == 1 ? METH_O                                                                         \
                  : METH_FASTCALL,                                                                 \
     NULL},
static PyMethodDef methods[] = {BENCH_ROWS(METHOD){NULL, NULL, 0, NULL}};

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
        kernel->vectorcall = NULL;
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
    if (PyType_Ready(&kernel_type) < 0 || make_point_type() < 0)
        return NULL;
    return PyModule_Create(&module);
}
