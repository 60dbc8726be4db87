/* bench/peers/vectorcall.c: a hand-written callable type with a vectorcall of its own.
 *
 * make(signature, address) returns an object that is called through its vectorcall slot: the most
 * that an object which is not a built-in function can have.
 */
#include "boxing.h"
#include <stddef.h>

static int wrong_call(const char *signature, size_t nargsf, PyObject *kwnames, Py_ssize_t wanted)
{
    if (kwnames != NULL && PyTuple_GET_SIZE(kwnames) != 0) {
        PyErr_Format(PyExc_TypeError, "'%s' takes no keyword arguments", signature);
        return 1;
    }
    if (PyVectorcall_NARGS(nargsf) == wanted)
        return 0;
    PyErr_Format(PyExc_TypeError, "'%s' takes %zd arguments (%zd given)", signature, wanted,
                 PyVectorcall_NARGS(nargsf));
    return 1;
}

#define VECTORCALL(signature, name, arity)                                                         \
    static PyObject *vectorcall_##name(PyObject *self, PyObject *const *args, size_t nargsf,       \
                                       PyObject *kwnames)                                          \
    {                                                                                              \
        if (wrong_call(signature, nargsf, kwnames, arity))                                         \
            return NULL;                                                                           \
        return call_##name(((Kernel *)self)->function, args);                                      \
    }
BENCH_ROWS(VECTORCALL)

static PyTypeObject kernel_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "bench_vectorcall.Kernel",
    .tp_basicsize = sizeof(Kernel),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Kernel, vectorcall),
};

static PyObject *make(PyObject *module, PyObject *args)
{
    const char *wanted;
    unsigned long long address;
    vectorcallfunc vectorcall = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "sK", &wanted, &address))
        return NULL;
#define SELECT(signature, name, arity)                                                             \
    if (strcmp(wanted, signature) == 0)                                                            \
        vectorcall = vectorcall_##name;
    BENCH_ROWS(SELECT)
    if (vectorcall == NULL) {
        PyErr_Format(PyExc_KeyError, "no kernel with signature '%s'", wanted);
        return NULL;
    }
    Kernel *kernel = PyObject_New(Kernel, &kernel_type);
    if (kernel == NULL)
        return NULL;
    kernel->vectorcall = vectorcall;
    kernel->function = (void *)(uintptr_t)address;
    return (PyObject *)kernel;
}

static PyMethodDef functions[] = {{"make", make, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "bench_vectorcall", .m_size = -1,
                             .m_methods = functions};

PyMODINIT_FUNC PyInit_bench_vectorcall(void)
{
    if (PyType_Ready(&kernel_type) < 0 || make_point_type() < 0)
        return NULL;
    return PyModule_Create(&module);
}
