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

#include "kernels.h"

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall; /* used by the vectorcall type only */
    void *function;            /* the C function of `signature` that is called */
} Kernel;

static PyTypeObject *point_type; /* what structs come back as */

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
    if (PyLong_CheckExact(object)) {
#if PY_VERSION_HEX >= 0x030C0000
        if (PyUnstable_Long_IsCompact((PyLongObject *)object)) {
            *value = PyUnstable_Long_CompactValue((PyLongObject *)object);
            return 0;
        }
#else
        Py_ssize_t size = Py_SIZE(object);
        if (size >= -1 && size <= 1) {
            *value = size * (int64_t)((PyLongObject *)object)->ob_digit[0];
            return 0;
        }
#endif
    }
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

/* A tuple of two numbers, which stands for a struct; the result is a named tuple. */
static inline PyObject *call_T_Td(void *function, PyObject *const *args)
{
    struct bench_point point;
    double factor;
    if (!PyTuple_Check(args[0]) || PyTuple_GET_SIZE(args[0]) != 2) {
        PyErr_SetString(PyExc_TypeError, "a tuple of two numbers is wanted");
        return NULL;
    }
    if (as_double(PyTuple_GET_ITEM(args[0], 0), &point.x) < 0 ||
        as_double(PyTuple_GET_ITEM(args[0], 1), &point.y) < 0 || as_double(args[1], &factor) < 0)
        return NULL;
    point = ((struct bench_point (*)(struct bench_point, double))function)(point, factor);
    PyObject *x = PyFloat_FromDouble(point.x);
    PyObject *y = PyFloat_FromDouble(point.y);
    PyObject *result = x != NULL && y != NULL ? point_type->tp_alloc(point_type, 2) : NULL;
    if (result == NULL) {
        Py_XDECREF(x);
        Py_XDECREF(y);
        return NULL;
    }
    PyTuple_SET_ITEM(result, 0, x);
    PyTuple_SET_ITEM(result, 1, y);
    return result;
}

/* Makes the named tuple's class, once for the module; -1 with an exception. */
static inline int make_point_type(void)
{
    PyObject *collections = PyImport_ImportModule("collections");
    if (collections != NULL) {
        point_type = (PyTypeObject *)PyObject_CallMethod(collections, "namedtuple", "s(ss)",
                                                         "Point", "x", "y");
        Py_DECREF(collections);
    }
    return point_type != NULL ? 0 : -1;
}

/* Every row: signature, name in C, number of arguments. */
#define BENCH_ROWS(X)                                                                              \
    X("d:", d, 0)                                                                                  \
    X("d:d", d_d, 1)                                                                               \
    X("d:dd", d_dd, 2)                                                                             \
    X("d:ddd", d_ddd, 3)                                                                           \
    X("d:dddd", d_dddd, 4)                                                                         \
    X("q:qqq", q_qqq, 3)                                                                           \
    X("d:&dq", d_Pdq, 2)                                                                           \
    X("T{dd}:T{dd}d", T_Td, 2)

#endif
