/* csrc/pin.c: pointer arguments as Python objects, for calls that Python code makes, and for
 * pointers and buffers inside of aggregates. */
#include "pin.h"

#include "pending.h"

/* No tp_clear: C code may read what is pinned. Cycles end in those who have the Pin. A memoryview is
 * left out before CPython 3.13, where the collector clears one that is still exported, and releasing
 * that export reads NULL: it is kept until the Pin is gone. */
static int pin_traverse(PyObject *object, visitproc visit, void *arg)
{
    PyObject *exporter = ((NcPin *)(void *)object)->pointer.buffer.obj;
    if (PY_VERSION_HEX >= 0x030D0000 || (exporter != NULL && !PyMemoryView_Check(exporter))) {
        Py_VISIT(exporter);
    }
    Py_VISIT(((NcPin *)(void *)object)->pointer.keep);
    return 0;
}

static void pin_dealloc(PyObject *object)
{
    PyObject_GC_UnTrack(object);
    nc_release_pointer(&((NcPin *)(void *)object)->pointer);
    PyObject_GC_Del(object);
}

static PyObject *pin_get_address(PyObject *object, void *Py_UNUSED(closure))
{
    return PyLong_FromVoidPtr(((NcPin *)(void *)object)->pointer.address);
}

static PyGetSetDef pin_getset[] = {
    {"address", pin_get_address, NULL, "what the callee gets; 0 for None", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject NcPin_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "nativecall._types.Pin",
    .tp_doc = "A converted pointer argument; what it points to is kept while this lives.",
    .tp_basicsize = sizeof(NcPin),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_traverse = pin_traverse,
    .tp_dealloc = pin_dealloc,
    .tp_getset = pin_getset,
};

/* A new Pin of nothing yet; the collector is told of it when there is something. */
static NcPin *pin_new(void)
{
    NcPin *self = PyObject_GC_New(NcPin, &NcPin_Type);
    if (self != NULL) {
        self->pointer.buffer.obj = NULL;
        self->pointer.keep = NULL;
        self->pointer.address = NULL;
    }
    return self;
}

NcPin *nc_pin_value(const NcPlan *plan, PyObject *who, PyObject *value)
{
    NcPin *self = pin_new();
    if (self != NULL && nc_convert_pointer_of(plan, who, -1, value, &self->pointer) < 0) {
        Py_CLEAR(self);
    }
    if (self != NULL) {
        PyObject_GC_Track(self);
    }
    return self;
}

/* pin(plan, name, index, value): argument `index` of a plan, which must be a pointer; with index -1
 * the first one, and `name` is the whole subject of messages. */
PyObject *nc_pin(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *plan;
    PyObject *name;
    PyObject *value;
    Py_ssize_t index;
    NcPin *self;
    if (!PyArg_ParseTuple(args, "O!UnO", &NcPlan_Type, &plan, &name, &index, &value)) {
        return NULL;
    }
    if (index < -1 || (index < 0 ? 0 : index) >= ((NcPlan *)(void *)plan)->nargs) {
        PyErr_SetString(PyExc_IndexError, "no such argument");
        return NULL;
    }
    if (((NcPlan *)(void *)plan)->codes[index < 0 ? 0 : index] != 'P') {
        PyErr_SetString(PyExc_TypeError, "the argument is no pointer");
        return NULL;
    }
    self = pin_new();
    if (self == NULL) {
        return NULL;
    }
    if (nc_convert_pointer_of((const NcPlan *)(void *)plan, name, index, value, &self->pointer) <
        0) {
        Py_DECREF(self);
        return NULL;
    }
    PyObject_GC_Track(self);
    return (PyObject *)self;
}

/* Without strides (ctypes never tells any) the memory is contiguous. */
void nc_buffer_extents(const Py_buffer *buffer, intptr_t *extents)
{
    Py_ssize_t inner = buffer->itemsize;
    for (int i = buffer->ndim - 1; i >= 0; i--) {
        Py_ssize_t length = buffer->shape != NULL ? buffer->shape[i] : buffer->len / inner;
        extents[i] = length;
        extents[buffer->ndim + i] = buffer->strides != NULL ? buffer->strides[i] : inner;
        inner *= length;
    }
}

/* export(object): its buffer of any strides, as (Pin of it, the element's letter or "", format,
 * itemsize, shape, strides, read-only). The Pin's address is the element with all indices 0. */
PyObject *nc_pin_export(PyObject *Py_UNUSED(module), PyObject *object)
{
    NcPin *held = pin_new();
    PyObject *shape = NULL;
    PyObject *strides = NULL;
    PyObject *result = NULL;
    const Py_buffer *buffer;
    intptr_t extents[2 * PyBUF_MAX_NDIM];
    char letter[2] = {'\0', '\0'};
    if (held == NULL) {
        return NULL;
    }
    buffer = &held->pointer.buffer;
    if (PyObject_GetBuffer(object, &held->pointer.buffer, PyBUF_STRIDES | PyBUF_FORMAT) < 0) {
        held->pointer.buffer.obj = NULL;
        goto done;
    }
    held->pointer.address = buffer->buf;
    PyObject_GC_Track(held);
    /* Exporters may have more: ctypes does not count its own. */
    if (buffer->ndim > PyBUF_MAX_NDIM) {
        PyErr_Format(PyExc_ValueError, "it has %d dimensions, more than %d", buffer->ndim,
                     PyBUF_MAX_NDIM);
        goto done;
    }
    letter[0] = nc_buffer_letter(buffer);
    shape = PyTuple_New(buffer->ndim);
    strides = PyTuple_New(buffer->ndim);
    if (shape == NULL || strides == NULL) {
        goto done;
    }
    nc_buffer_extents(buffer, extents);
    for (int i = 0; i < buffer->ndim; i++) {
        PyObject *length = PyLong_FromSsize_t(extents[i]);
        PyObject *step = PyLong_FromSsize_t(extents[buffer->ndim + i]);
        PyTuple_SET_ITEM(shape, i, length);
        PyTuple_SET_ITEM(strides, i, step);
        if (length == NULL || step == NULL) {
            goto done;
        }
    }
    result = Py_BuildValue("(OssnOOO)", held, letter, buffer->format != NULL ? buffer->format : "B",
                           buffer->itemsize, shape, strides, buffer->readonly ? Py_True : Py_False);

done:
    Py_XDECREF(shape);
    Py_XDECREF(strides);
    Py_DECREF(held);
    return result;
}

void nc_pins_close(PyObject *list, PyObject **first)
{
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
        /* Held: an exception that is reported goes to a hook of Python's. */
        PyObject *item = Py_NewRef(PyList_GET_ITEM(list, i));
        if (Py_IS_TYPE(item, &NcPin_Type)) {
            nc_stash_close(&((NcPin *)(void *)item)->pointer, first);
        }
        Py_DECREF(item);
    }
}

/* settle(list, raised): ends a call that Python code made, and that raised an exception, or None.
 * Raises what Python functions among the Pins of the list left, else that exception. */
PyObject *nc_pins_settle(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *list;
    PyObject *raised;
    PyObject *first = NULL;
    if (!PyArg_ParseTuple(args, "O!O", &PyList_Type, &list, &raised)) {
        return NULL;
    }
    if (PyExceptionInstance_Check(raised)) {
        nc_exception_put(Py_NewRef(raised));
    }
    nc_pins_close(list, &first);
    return nc_stash_raise(PyErr_Occurred() ? NULL : Py_NewRef(Py_None), first);
}
