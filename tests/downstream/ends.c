/* ends.c: a consumer, which three build systems compile: f(a) + f(b) by f's C function. */
#include <Python.h>

#include <nativecall/nativecallable.h>

static PyObject *sum_of_ends(PyObject *module, PyObject *arguments)
{
    static const char *d_d;
    PyObject *f;
    double (*call)(double);
    double a, b;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "Odd", &f, &a, &b))
        return NULL;
    if (d_d == NULL && nc_signature_intern("d:d", &d_d) < 0)
        return NULL;
    call = (double (*)(double))(uintptr_t)nc_native_function(f, d_d, 0);
    if (call == NULL)
        Py_RETURN_NONE;
    return PyFloat_FromDouble(call(a) + call(b));
}

static PyMethodDef functions[] = {{"sum_of_ends", sum_of_ends, METH_VARARGS, NULL},
                                  {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "nc_ends", NULL, -1, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_nc_ends(void)
{
    return PyModule_Create(&definition);
}
