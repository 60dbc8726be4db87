/* tests/ext/foreignbox.c: a library that has boxes of its own and knows nothing of nativecall.
 *
 * Kernel(is_int) holds one of its C functions and tells its address and its type;
 * `Nameless` is the same as a type that names no module; kernel.bound is a built-in function that
 * is bound to the kernel. */
#include "module.h"

#include <math.h>
#include <stdint.h>

static double square_root(double x)
{
    return sqrt(x);
}

static int negate(int x)
{
    return -x;
}

typedef struct {
    PyObject_HEAD
    int is_int;
} Kernel;

static int init(PyObject *self, PyObject *args, PyObject *Py_UNUSED(named))
{
    return PyArg_ParseTuple(args, "p", &((Kernel *)(void *)self)->is_int) ? 0 : -1;
}

static PyObject *address(PyObject *self, void *Py_UNUSED(closure))
{
    void *function = (void *)(uintptr_t)square_root;
    if (((Kernel *)(void *)self)->is_int) {
        function = (void *)(uintptr_t)negate;
    }
    return PyLong_FromVoidPtr(function);
}

static PyObject *type(PyObject *self, void *Py_UNUSED(closure))
{
    return PyUnicode_FromString(((Kernel *)(void *)self)->is_int ? "int(int)" : "double(double)");
}

static PyObject *bound(PyObject *self, PyObject *Py_UNUSED(args))
{
    return Py_NewRef(self);
}

static PyGetSetDef attributes[] = {
    {"address", address, NULL, NULL, NULL},
    {"type", type, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef methods[] = {{"bound", bound, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};

static PyType_Slot slots[] = {
    {Py_tp_init, (void *)(uintptr_t)init},
    {Py_tp_getset, attributes},
    {Py_tp_methods, methods},
    {0, NULL},
};

static PyType_Spec spec = {MODULE_NAME ".Kernel", sizeof(Kernel), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

static PyTypeObject nameless = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "Nameless",
    .tp_basicsize = sizeof(Kernel),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_getset = attributes,
    .tp_init = init,
    .tp_new = PyType_GenericNew,
};

static struct PyModuleDef definition = MODULE_DEFINITION(NULL);

PyMODINIT_FUNC MODULE_INIT(void)
{
    PyObject *module = PyModule_Create(&definition);
    PyObject *kernel = module != NULL ? PyType_FromSpec(&spec) : NULL;
    if (kernel == NULL || PyType_Ready(&nameless) < 0 ||
        PyModule_AddObjectRef(module, "Nameless", (PyObject *)&nameless) < 0 ||
        PyModule_AddObjectRef(module, "Kernel", kernel) < 0) {
        Py_XDECREF(kernel);
        Py_CLEAR(module);
    } else {
        Py_DECREF(kernel);
    }
    return module;
}
