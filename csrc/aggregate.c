/* csrc/aggregate.c: structs and strided views, as generated code needs them. Guarantees: on failure
 * an exception is set that names the argument and the callable, and nothing is left exported. */
#include "aggregate.h"

#include "pin.h"

/* ---- structs --------------------------------------------------------------------------------- */

int nc_is_tuple_of(PyObject *value, Py_ssize_t count)
{
    const PyTypeObject *type = Py_TYPE(value);
    return PyTuple_Check(value) && PyTuple_GET_SIZE(value) == count &&
           type->tp_iter == PyTuple_Type.tp_iter && type->tp_as_sequence != NULL &&
           type->tp_as_sequence->sq_length == PyTuple_Type.tp_as_sequence->sq_length;
}

int nc_store_argument(NcCallable *self, Py_ssize_t index, PyObject *value, void *memory,
                      NcPointer *owner)
{
    PyObject *address = PyLong_FromVoidPtr(memory);
    PyObject *who = PyUnicode_FromFormat("argument %zd of '%U'", index + 1, self->name);
    PyObject *keep = PyList_New(0);
    PyObject *done = NULL;
    if (address != NULL && who != NULL && keep != NULL) {
        done =
            PyObject_CallFunctionObjArgs(nc_hooks.store, PyTuple_GET_ITEM(self->plan->types, index),
                                         value, address, who, keep, NULL);
    }
    if (done != NULL && PyList_GET_SIZE(keep) != 0) {
        owner->keep = Py_NewRef(keep);
    }
    Py_XDECREF(address);
    Py_XDECREF(who);
    Py_XDECREF(keep);
    Py_XDECREF(done);
    return done != NULL ? 0 : -1;
}

PyObject *nc_record_new(NcCallable *self, Py_ssize_t count)
{
    NcPlan *plan = self->plan;
    PyTypeObject *type;
    PyObject *made;
    if (plan->record == NULL) {
        PyObject *found =
            PyObject_CallOneArg(nc_hooks.record, PyTuple_GET_ITEM(plan->types, plan->nargs));
        if (found == NULL) {
            return NULL;
        }
        if (!PyType_Check(found) ||
            !PyType_IsSubtype((PyTypeObject *)(void *)found, &PyTuple_Type)) {
            PyErr_SetString(PyExc_TypeError, "the class of a struct result must be a tuple's");
            Py_DECREF(found);
            return NULL;
        }
        Py_XSETREF(plan->record, found);
    }
    type = (PyTypeObject *)(void *)plan->record;
    made = type->tp_alloc(type, count);
#if PY_VERSION_HEX >= 0x030E0000
    if (made != NULL) {
        ((PyTupleObject *)(void *)made)->ob_hash = -1;
    }
#endif
    return made;
}

PyObject *nc_load_result(NcCallable *self, void *memory)
{
    const NcPlan *plan = self->plan;
    PyObject *address = PyLong_FromVoidPtr(memory);
    PyObject *result;
    if (address == NULL) {
        return NULL;
    }
    result = PyObject_CallFunctionObjArgs(nc_hooks.load, PyTuple_GET_ITEM(plan->types, plan->nargs),
                                          address, NULL);
    Py_DECREF(address);
    return result;
}

/* ---- strided views --------------------------------------------------------------------------- */

/* Replaces the exception by one whose message has the name of the value's type at %U. */
static void type_name_error(PyObject *exception, NcCallable *self, Py_ssize_t index,
                            const char *format, PyObject *value)
{
    PyObject *name;
    PyErr_Clear();
    name = PyType_GetName(Py_TYPE(value));
    if (name != NULL) {
        nc_conversion_error(exception, self->name, index, format, name);
        Py_DECREF(name);
    }
}

int nc_convert_view(NcCallable *self, Py_ssize_t index, PyObject *value, Py_ssize_t ndim,
                    intptr_t *words, NcPointer *owner)
{
    char element = self->plan->pointees[index];
    const Py_buffer *buffer = &owner->buffer;
    if (value == Py_None) {
        owner->address = NULL;
        return 0;
    }
    if (element == '\0') {
        return nc_store_argument(self, index, value, &owner->address, owner);
    }
    if (PyObject_GetBuffer(value, &owner->buffer, PyBUF_STRIDES | PyBUF_FORMAT) < 0) {
        owner->buffer.obj = NULL;
        if (PyErr_ExceptionMatches(PyExc_TypeError)) {
            type_name_error(PyExc_TypeError, self, index,
                            "must be an array or another object with a buffer (got %U)", value);
        }
        return -1;
    }
    if (buffer->ndim != (int)ndim) {
        nc_conversion_error(PyExc_ValueError, self->name, index,
                            "must have %zd dimensions (got %d)", ndim, buffer->ndim);
    } else if (nc_buffer_letter(buffer) != element) {
        PyObject *item = PyObject_GetAttrString(PyTuple_GET_ITEM(self->plan->types, index), "item");
        PyObject *format = PyUnicode_FromString(buffer->format != NULL ? buffer->format : "B");
        PyObject *text = item != NULL ? PyObject_GetAttrString(item, "text") : NULL;
        if (text != NULL && format != NULL) {
            nc_conversion_error(PyExc_TypeError, self->name, index,
                                "must have %R elements (got %R)", text, format);
        }
        Py_XDECREF(item);
        Py_XDECREF(format);
        Py_XDECREF(text);
    } else if (buffer->readonly) {
        type_name_error(PyExc_ValueError, self, index, "must be writable, this %U is read-only",
                        value);
    } else {
        words[0] = (intptr_t)buffer->buf;
        nc_buffer_extents(buffer, words + 1);
        owner->address = words;
        return 0;
    }
    PyBuffer_Release(&owner->buffer);
    owner->buffer.obj = NULL;
    return -1;
}
