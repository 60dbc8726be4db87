/* moments.c: a consumer of arrays, which knows the slot and none of the types that have it.
 *
 * Arrays with the slot are read by calls of C functions: no element becomes a Python object. Every
 * other sequence is read through Python. The headers are all it needs of nativecall. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <nativecall/customslots.h>

#include "vtable.h"

static const char *key;

/* The functions of an array, NULL: it has none. */
static const ArrayVtable *vtable_of(PyObject *array)
{
    const PyCustomSlot *row;
    /* Not at initialisation: the first type with slots may come later than this module. */
    if (key == NULL && nc_key_intern(ARRAY_KEY, strlen(ARRAY_KEY), &key) < 0) {
        PyErr_Clear();
    }
    row = PyCustomSlots_FindKey(array, key);
    return row != NULL ? (const ArrayVtable *)row->data.pointer : NULL;
}

/* An element through Python; -1 with an exception. */
static int element(PyObject *array, Py_ssize_t i, double *out)
{
    PyObject *item = PySequence_GetItem(array, i);
    if (item == NULL) {
        return -1;
    }
    *out = PyFloat_AsDouble(item);
    Py_DECREF(item);
    return PyErr_Occurred() ? -1 : 0;
}

static PyObject *answer(double value, const ArrayVtable *vtable)
{
    return Py_BuildValue("(dO)", value, vtable != NULL ? Py_True : Py_False);
}

/* mean(array, step) -> (value, native): of each element whose position is a multiple of step. */
static PyObject *mean(PyObject *module, PyObject *args)
{
    const ArrayVtable *vtable;
    PyObject *array;
    Py_ssize_t step;
    Py_ssize_t length;
    Py_ssize_t count;
    Py_ssize_t i;
    double sum = 0.0;
    double value;
    (void)module;
    if (!PyArg_ParseTuple(args, "On:mean", &array, &step)) {
        return NULL;
    }
    vtable = vtable_of(array);
    length = vtable != NULL ? vtable->length(array) : PySequence_Size(array);
    if (length < 0) {
        return NULL;
    }
    if (step < 1 || length == 0) {
        PyErr_Format(PyExc_ValueError,
                     "a mean needs an element and a step forward (got %zd and %zd)", length, step);
        return NULL;
    }
    count = (length - 1) / step + 1;
    if (vtable != NULL) {
        sum = vtable->sum(array, 0, step, count);
    } else {
        for (i = 0; i < count; i++) {
            if (element(array, i * step, &value) < 0) {
                return NULL;
            }
            sum += value;
        }
    }
    return answer(sum / (double)count, vtable);
}

/* largest(array) -> (value, native) */
static PyObject *largest(PyObject *module, PyObject *array)
{
    const ArrayVtable *vtable = vtable_of(array);
    const Py_ssize_t length = vtable != NULL ? vtable->length(array) : PySequence_Size(array);
    double found = -Py_HUGE_VAL;
    double value;
    Py_ssize_t i;
    (void)module;
    if (length < 0) {
        return NULL;
    }
    for (i = 0; i < length; i++) {
        if (vtable != NULL) {
            value = vtable->get(array, i);
        } else if (element(array, i, &value) < 0) {
            return NULL;
        }
        found = value > found ? value : found;
    }
    return answer(found, vtable);
}

static PyMethodDef functions[] = {
    {"mean", mean, METH_VARARGS, "mean(array, step) -> (value, native)"},
    {"largest", largest, METH_O, "largest(array) -> (value, native)"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "moments",    .m_doc = "Means and maxima of any array.",
    .m_size = -1,          .m_methods = functions,
};

PyMODINIT_FUNC PyInit_moments(void)
{
    return PyModule_Create(&definition);
}
