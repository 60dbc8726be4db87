/* bench/peers/boxing.h: what a careful hand writes around a C call: unbox, call, box.
 *
 * The two hand-written peers, the built-in functions and the vectorcall type, share these bodies,
 * so they differ in how CPython reaches them and in nothing else. Each takes the function pointer
 * as a value, for the peer to read it from its object just as nativecall must. The number of
 * arguments has been checked by the caller.
 */
#ifndef BENCH_BOXING_H
#define BENCH_BOXING_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall; /* used by the vectorcall type only */
    void *function;            /* the C function of `signature` that is called */
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

static inline int as_int64(PyObject *object, int64_t *value)
{
    *value = PyLong_AsLongLong(object);
    return *value == -1 && PyErr_Occurred() ? -1 : 0;
}

static inline PyObject *call_d(void *function, PyObject *const *args)
{
    (void)args;
    return PyFloat_FromDouble(((double (*)(void))function)());
}

static inline PyObject *call_d_d(void *function, PyObject *const *args)
{
    double a;
    if (as_double(args[0], &a) < 0)
        return NULL;
    return PyFloat_FromDouble(((double (*)(double))function)(a));
}

static inline PyObject *call_d_dd(void *function, PyObject *const *args)
{
    double a, b;
    if (as_double(args[0], &a) < 0 || as_double(args[1], &b) < 0)
        return NULL;
    return PyFloat_FromDouble(((double (*)(double, double))function)(a, b));
}

static inline PyObject *call_d_ddd(void *function, PyObject *const *args)
{
    double a, b, c;
    if (as_double(args[0], &a) < 0 || as_double(args[1], &b) < 0 || as_double(args[2], &c) < 0)
        return NULL;
    return PyFloat_FromDouble(((double (*)(double, double, double))function)(a, b, c));
}

static inline PyObject *call_d_dddd(void *function, PyObject *const *args)
{
    double a, b, c, d;
    if (as_double(args[0], &a) < 0 || as_double(args[1], &b) < 0 || as_double(args[2], &c) < 0 ||
        as_double(args[3], &d) < 0)
        return NULL;
    return PyFloat_FromDouble(((double (*)(double, double, double, double))function)(a, b, c, d));
}

static inline PyObject *call_q_qqq(void *function, PyObject *const *args)
{
    int64_t a, b, c;
    if (as_int64(args[0], &a) < 0 || as_int64(args[1], &b) < 0 || as_int64(args[2], &c) < 0)
        return NULL;
    return PyLong_FromLongLong(((int64_t (*)(int64_t, int64_t, int64_t))function)(a, b, c));
}

static inline PyObject *call_d_Pdq(void *function, PyObject *const *args)
{
    Py_buffer view;
    int64_t count;
    PyObject *result = NULL;
    if (PyObject_GetBuffer(args[0], &view, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE | PyBUF_FORMAT) < 0)
        return NULL;
    if (view.format == NULL || strcmp(view.format, "d") != 0)
        PyErr_SetString(PyExc_TypeError, "a buffer of doubles is wanted");
    else if (as_int64(args[1], &count) == 0)
        result = PyFloat_FromDouble(((double (*)(double *, int64_t))function)(view.buf, count));
    PyBuffer_Release(&view);
    return result;
}

/* Every row: signature, name in C, number of arguments. */
#define BENCH_ROWS(X)                                                                              \
    X("d:", d, 0)                                                                                  \
    X("d:d", d_d, 1)                                                                               \
    X("d:dd", d_dd, 2)                                                                             \
    X("d:ddd", d_ddd, 3)                                                                           \
    X("d:dddd", d_dddd, 4)                                                                         \
    X("q:qqq", q_qqq, 3)                                                                           \
    X("d:&dq", d_Pdq, 2)

#endif
