/* tests/ext/pointer_consumer.c: extension functions that call a C pointer double (*)(double), as
 * code does that knows of Python's exceptions, and as code that does not. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

typedef double (*Function)(double);

static Function pointer_of(PyObject *address)
{
    return (Function)(uintptr_t)PyLong_AsVoidPtr(address);
}

/* Looks at nothing, and CPython's specialised calls of METH_O do not either. */
static PyObject *ignoring_o(PyObject *Py_UNUSED(module), PyObject *address)
{
    return PyFloat_FromDouble(pointer_of(address)(1.0));
}

static PyObject *ignoring(PyObject *Py_UNUSED(module), PyObject *args)
{
    return PyFloat_FromDouble(pointer_of(PyTuple_GET_ITEM(args, 0))(1.0));
}

static PyObject *checking(PyObject *Py_UNUSED(module), PyObject *address)
{
    double result = pointer_of(address)(1.0);
    return PyErr_Occurred() ? NULL : PyFloat_FromDouble(result);
}

/* repeating(address, n): calls on after a failure, as most C code does. */
static PyObject *repeating(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *address;
    long count;
    double sum = 0;
    if (!PyArg_ParseTuple(args, "Ol", &address, &count)) {
        return NULL;
    }
    for (long i = 0; i < count; i++) {
        sum += pointer_of(address)((double)i);
    }
    return PyErr_Occurred() ? NULL : PyFloat_FromDouble(sum);
}

/* (result, whether the exception that was set before the call still is). */
static PyObject *with_exception(PyObject *Py_UNUSED(module), PyObject *address)
{
    double result;
    int kept;
    PyErr_SetString(PyExc_StopAsyncIteration, "the caller's own");
    result = pointer_of(address)(1.0);
    kept = PyErr_ExceptionMatches(PyExc_StopAsyncIteration);
    PyErr_Clear();
    return Py_BuildValue("(di)", result, kept);
}

/* The same without the GIL; it stays given up until the end. */
static PyObject *without_gil(PyObject *Py_UNUSED(module), PyObject *address)
{
    Function function = pointer_of(address);
    double result;
    Py_BEGIN_ALLOW_THREADS result = function(1.0) + function(2.0);
    Py_END_ALLOW_THREADS return PyErr_Occurred() ? NULL : PyFloat_FromDouble(result);
}

/* Drops the exception that the function left. */
static PyObject *clearing(PyObject *Py_UNUSED(module), PyObject *address)
{
    double result = pointer_of(address)(1.0);
    PyErr_Clear();
    return PyFloat_FromDouble(result);
}

static PyMethodDef functions[] = {
    {"ignoring_o", ignoring_o, METH_O, NULL},
    {"ignoring", ignoring, METH_VARARGS, NULL},
    {"checking", checking, METH_O, NULL},
    {"repeating", repeating, METH_VARARGS, NULL},
    {"with_exception", with_exception, METH_O, NULL},
    {"without_gil", without_gil, METH_O, NULL},
    {"clearing", clearing, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

#define QUOTED(name) #name
#define NAME(name) QUOTED(name)
#define JOINED(a, b) a##b
#define INIT(name) JOINED(PyInit_, name)

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, NAME(MODULE), NULL, -1, functions, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC INIT(MODULE)(void);

PyMODINIT_FUNC INIT(MODULE)(void)
{
    return PyModule_Create(&definition);
}
