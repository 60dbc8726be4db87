/* bench/peers/adapters.c: C function pointers written by hand, one for each thing that is adapted.
 *
 * Callbacks call a Python function that is kept in a static variable: box the arguments, call,
 * unbox the result. What a failed call must do is left out: it prints the exception and gives -1.
 * They exist for code that holds the GIL and for code that does not.
 *
 * Thunks have one signature and call a C function that has another, whose address is in a static
 * variable, as the address of a function in another library is. They make the checks that
 * nativecall's make, and give NaN when one fails.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

/* ---- callbacks ------------------------------------------------------------------------------- */

#define COUNT 3 /* signatures, each with a function of its own */

static PyObject *callables[COUNT];

static PyObject *call(int which, PyObject **boxes, size_t count)
{
    PyObject *result = NULL;
    size_t made = 0;
    while (made < count && boxes[made + 1] != NULL) {
        made++;
    }
    if (made == count) {
        result = PyObject_Vectorcall(callables[which], boxes + 1,
                                     count | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    }
    for (size_t i = 0; i < count; i++) {
        Py_XDECREF(boxes[i + 1]);
    }
    return result;
}

static double as_double(PyObject *object)
{
    double value = -1.0;
    if (object != NULL) {
        value = PyFloat_CheckExact(object) ? PyFloat_AS_DOUBLE(object) : PyFloat_AsDouble(object);
        Py_DECREF(object);
    }
    if (value == -1.0 && PyErr_Occurred()) {
        PyErr_Print();
    }
    return value;
}

static int64_t as_int64(PyObject *object)
{
    int64_t value = -1;
    if (object != NULL) {
        value = PyLong_AsLongLong(object);
        Py_DECREF(object);
    }
    if (value == -1 && PyErr_Occurred()) {
        PyErr_Print();
    }
    return value;
}

static double held_d_d(double a)
{
    PyObject *boxes[] = {NULL, PyFloat_FromDouble(a)};
    return as_double(call(0, boxes, 1));
}

static double held_d_ddd(double a, double b, double c)
{
    PyObject *boxes[] = {NULL, PyFloat_FromDouble(a), PyFloat_FromDouble(b), PyFloat_FromDouble(c)};
    return as_double(call(1, boxes, 3));
}

static int64_t held_q_qqq(int64_t a, int64_t b, int64_t c)
{
    PyObject *boxes[] = {NULL, PyLong_FromLongLong(a), PyLong_FromLongLong(b),
                         PyLong_FromLongLong(c)};
    return as_int64(call(2, boxes, 3));
}

static double taken_d_d(double a)
{
    PyGILState_STATE state = PyGILState_Ensure();
    double value = held_d_d(a);
    PyGILState_Release(state);
    return value;
}

static double taken_d_ddd(double a, double b, double c)
{
    PyGILState_STATE state = PyGILState_Ensure();
    double value = held_d_ddd(a, b, c);
    PyGILState_Release(state);
    return value;
}

static int64_t taken_q_qqq(int64_t a, int64_t b, int64_t c)
{
    PyGILState_STATE state = PyGILState_Ensure();
    int64_t value = held_q_qqq(a, b, c);
    PyGILState_Release(state);
    return value;
}

/* callback(signature, function, held): the address of a C function that calls it. */
static PyObject *callback(PyObject *module, PyObject *args)
{
    static const char *const signatures[COUNT] = {"d:d", "d:ddd", "q:qqq"};
    const uintptr_t addresses[COUNT][2] = {
        {(uintptr_t)taken_d_d, (uintptr_t)held_d_d},
        {(uintptr_t)taken_d_ddd, (uintptr_t)held_d_ddd},
        {(uintptr_t)taken_q_qqq, (uintptr_t)held_q_qqq},
    };
    const char *signature;
    PyObject *function;
    int held;
    (void)module;
    if (!PyArg_ParseTuple(args, "sOp", &signature, &function, &held)) {
        return NULL;
    }
    for (int i = 0; i < COUNT; i++) {
        if (strcmp(signatures[i], signature) == 0) {
            Py_INCREF(function);
            Py_XSETREF(callables[i], function);
            return PyLong_FromUnsignedLongLong(addresses[i][held]);
        }
    }
    PyErr_Format(PyExc_KeyError, "no callback for '%s'", signature);
    return NULL;
}

/* ---- thunks ---------------------------------------------------------------------------------- */

static double (*function_ddd)(double, double, double);
static double (*function_peak)(double, double, double);
static double (*function_d)(double);
static float (*function_f)(float);

static double pack(int n, double *x)
{
    return n == 3 ? function_ddd(x[0], x[1], x[2]) : NAN;
}

static double pack_peak(int n, double *x)
{
    return n == 3 ? function_peak(x[0], x[1], x[2]) : NAN;
}

static double drop(double x, void *user_data)
{
    (void)user_data;
    return function_d(x);
}

static double narrow(double x)
{
    return fabs((double)(float)x) <= FLT_MAX ? (double)function_f((float)x) : NAN;
}

static double bound(double x)
{
    return function_ddd(0.25, 2.0, x);
}

/* thunk(name, target): the address of the thunk, which calls the C function at that address. */
static PyObject *thunk(PyObject *module, PyObject *args)
{
    const struct {
        const char *name;
        uintptr_t address;
        uintptr_t *target;
    } thunks[] = {
        {"pack", (uintptr_t)pack, (uintptr_t *)&function_ddd},
        {"pack peak", (uintptr_t)pack_peak, (uintptr_t *)&function_peak},
        {"drop", (uintptr_t)drop, (uintptr_t *)&function_d},
        {"narrow", (uintptr_t)narrow, (uintptr_t *)&function_f},
        {"bound", (uintptr_t)bound, (uintptr_t *)&function_ddd},
    };
    unsigned long long target;
    const char *name;
    (void)module;
    if (!PyArg_ParseTuple(args, "sK", &name, &target)) {
        return NULL;
    }
    for (size_t i = 0; i < sizeof thunks / sizeof *thunks; i++) {
        if (strcmp(thunks[i].name, name) == 0) {
            *thunks[i].target = (uintptr_t)target;
            return PyLong_FromUnsignedLongLong(thunks[i].address);
        }
    }
    PyErr_Format(PyExc_KeyError, "no thunk named '%s'", name);
    return NULL;
}

static PyMethodDef functions[] = {
    {"callback", callback, METH_VARARGS, NULL},
    {"thunk", thunk, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "bench_adapters", .m_size = -1,
                             .m_methods = functions};

PyMODINIT_FUNC PyInit_bench_adapters(void)
{
    return PyModule_Create(&module);
}
