/* arrays.c: two C types with an array's elements, one of which has the slot.
 *
 *     Samples     a static type with a slot table, made ready by PyExtensibleType_Ready
 *     Ramp        an ordinary type that knows nothing of slots; its functions are there all the
 *                 same, at the address `ramp_vtable`, for a class in Python to offer (run.py) */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <nativecall/extensibletype.h>

#include "vtable.h"

/* ---- Samples: elements in memory ------------------------------------------------------------- */

typedef struct {
    PyObject_VAR_HEAD double values[1];
} Samples;

static const double *values_of(PyObject *array)
{
    return ((Samples *)(void *)array)->values;
}

static Py_ssize_t samples_length(PyObject *array)
{
    return Py_SIZE(array);
}

static double samples_get(PyObject *array, Py_ssize_t i)
{
    return values_of(array)[i];
}

static double samples_sum(PyObject *array, Py_ssize_t first, Py_ssize_t step, Py_ssize_t count)
{
    const double *value = values_of(array) + first;
    double sum = 0.0;
    for (; count > 0; count--, value += step) {
        sum += *value;
    }
    return sum;
}

static ArrayVtable samples_vtable = {samples_length, samples_get, samples_sum};

/* Samples(values) */
static PyObject *samples_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *given;
    PyObject *values;
    PyObject *self;
    Py_ssize_t i;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "O:Samples", &given)) {
        return NULL;
    }
    values = PySequence_Tuple(given);
    if (values == NULL) {
        return NULL;
    }
    self = type->tp_alloc(type, PyTuple_GET_SIZE(values));
    for (i = 0; self != NULL && i < PyTuple_GET_SIZE(values); i++) {
        ((Samples *)(void *)self)->values[i] = PyFloat_AsDouble(PyTuple_GET_ITEM(values, i));
        if (PyErr_Occurred()) {
            Py_CLEAR(self);
        }
    }
    Py_DECREF(values);
    return self;
}

static PyObject *samples_item(PyObject *array, Py_ssize_t i)
{
    if (i < 0 || i >= Py_SIZE(array)) {
        PyErr_SetString(PyExc_IndexError, "there is no such sample");
        return NULL;
    }
    return PyFloat_FromDouble(samples_get(array, i));
}

static PySequenceMethods samples_sequence = {.sq_length = samples_length, .sq_item = samples_item};

static PyCustomSlot samples_slots[1];

static PyHeapExtensibleTypeObject samples_type = {
    .etp_heaptype.ht_type =
        {
            .ob_base = {PyObject_HEAD_INIT(NULL) 0},
            .tp_name = "arrays.Samples",
            .tp_basicsize = offsetof(Samples, values),
            .tp_itemsize = sizeof(double),
            .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
            .tp_as_sequence = &samples_sequence,
            .tp_new = samples_new,
        },
    .etp_custom_slots = NC_STATIC_SLOTS(samples_slots),
};

/* ---- Ramp: elements that are worked out ------------------------------------------------------ */

typedef struct {
    PyObject_HEAD
    double first;
    double step;
    Py_ssize_t count;
} Ramp;

static Py_ssize_t ramp_length(PyObject *array)
{
    return ((Ramp *)(void *)array)->count;
}

static double ramp_get(PyObject *array, Py_ssize_t i)
{
    const Ramp *self = (Ramp *)(void *)array;
    return self->first + self->step * (double)i;
}

static double ramp_sum(PyObject *array, Py_ssize_t first, Py_ssize_t step, Py_ssize_t count)
{
    return (double)count * (ramp_get(array, first) + ramp_get(array, first + step * (count - 1))) /
           2.0;
}

static ArrayVtable ramp_vtable = {ramp_length, ramp_get, ramp_sum};

/* Ramp(first, step, count) */
static PyObject *ramp_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    Ramp given;
    Ramp *self;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "ddn:Ramp", &given.first, &given.step, &given.count)) {
        return NULL;
    }
    if (given.count < 0) {
        PyErr_Format(PyExc_ValueError, "'count' must not be negative (got %zd)", given.count);
        return NULL;
    }
    self = (Ramp *)(void *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->first = given.first;
        self->step = given.step;
        self->count = given.count;
    }
    return (PyObject *)self;
}

static PyObject *ramp_item(PyObject *array, Py_ssize_t i)
{
    if (i < 0 || i >= ramp_length(array)) {
        PyErr_SetString(PyExc_IndexError, "the ramp has no such step");
        return NULL;
    }
    return PyFloat_FromDouble(ramp_get(array, i));
}

static PySequenceMethods ramp_sequence = {.sq_length = ramp_length, .sq_item = ramp_item};

static PyTypeObject ramp_type = {
    .ob_base = {PyObject_HEAD_INIT(NULL) 0},
    .tp_name = "arrays.Ramp",
    .tp_basicsize = sizeof(Ramp),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_as_sequence = &ramp_sequence,
    .tp_new = ramp_new,
};

/* ---- the module ------------------------------------------------------------------------------ */

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "arrays",
    .m_doc = "Arrays of doubles that native code of other modules can read.",
    .m_size = -1,
};

PyMODINIT_FUNC PyInit_arrays(void)
{
    PyObject *module;
    const char *key;
    if (PyExtensibleType_Intern(ARRAY_KEY, (Py_ssize_t)strlen(ARRAY_KEY), &key) < 0) {
        return NULL;
    }
    samples_slots[0].id = (uintptr_t)key;
    samples_slots[0].data.pointer = &samples_vtable;
    if (PyExtensibleType_Ready(&samples_type, 1) < 0) {
        return NULL;
    }
    module = PyModule_Create(&definition);
    if (module != NULL &&
        (PyModule_AddType(module, (PyTypeObject *)&samples_type) < 0 ||
         PyModule_AddType(module, &ramp_type) < 0 ||
         PyModule_AddStringConstant(module, "KEY", ARRAY_KEY) < 0 ||
         PyModule_AddObject(module, "ramp_vtable", PyLong_FromVoidPtr(&ramp_vtable)) < 0)) {
        Py_CLEAR(module);
    }
    return module;
}
