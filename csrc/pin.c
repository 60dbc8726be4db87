/* csrc/pin.c: pointer arguments as Python objects, for calls that Python code makes, and for
 * pointers and buffers inside of aggregates. */
#include "pin.h"

#include "pending.h"

/* What stands for __buffer__ methods of Python classes; NULL before 3.12. */
static getbufferproc python_getbuffer;

/* How a type's own memory is exported, whatever a Python class makes of that; or NULL. */
static getbufferproc exporter_of(const PyTypeObject *type)
{
    for (; type != NULL; type = type->tp_base) {
        const PyBufferProcs *procs = type->tp_as_buffer;
        if (procs != NULL && procs->bf_getbuffer != NULL &&
            procs->bf_getbuffer != python_getbuffer) {
            return procs->bf_getbuffer;
        }
    }
    return NULL;
}

/* No tp_clear: C code may read what is pinned. Cycles end in those who have the Pin. A memoryview is
 * left out before CPython 3.13, where the collector clears one that is still exported, and releasing
 * that export reads NULL; so is what has no buffer of its own, the keeper of such a memoryview. It
 * is kept until the Pin is gone. */
static int pin_traverse(PyObject *object, visitproc visit, void *arg)
{
    PyObject *exporter = ((NcPin *)(void *)object)->pointer.buffer.obj;
    if (PY_VERSION_HEX >= 0x030D0000 || (exporter != NULL && !PyMemoryView_Check(exporter) &&
                                         exporter_of(Py_TYPE(exporter)) != NULL)) {
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

/* ---- memory that moves while it is exported -------------------------------------------------- */

/* hold(object): a Pin of the memory that an object has by itself, without asking a __buffer__ of
 * its class; what it was exported as is not looked at. */
PyObject *nc_pin_hold(PyObject *Py_UNUSED(module), PyObject *object)
{
    getbufferproc export = exporter_of(Py_TYPE(object));
    NcPin *held;
    if (export == NULL) {
        PyErr_Format(PyExc_TypeError, "a %.200s has no memory of its own",
                     Py_TYPE(object)->tp_name);
        return NULL;
    }
    held = pin_new();
    if (held == NULL) {
        return NULL;
    }
    if (export(object, &held->pointer.buffer, PyBUF_FULL_RO) < 0) {
        held->pointer.buffer.obj = NULL;
        PyObject_GC_Track(held);
        Py_DECREF(held);
        return NULL;
    }
    held->pointer.address = held->pointer.buffer.buf;
    PyObject_GC_Track(held);
    return (PyObject *)held;
}

static int find_view(PyObject *object, void *found)
{
    if (PyMemoryView_Check(object)) {
        *(PyObject **)found = object;
    }
    return 0;
}

/* Whose memory a buffer is; borrowed, NULL where nobody says so. */
static PyObject *root_of(PyObject *object)
{
    while (object != NULL) {
        PyObject *view = NULL;
        if (PyMemoryView_Check(object)) {
            object = PyMemoryView_GET_BASE(object);
            continue;
        }
        if (exporter_of(Py_TYPE(object)) != NULL || Py_TYPE(object)->tp_traverse == NULL) {
            return object;
        }
        /* CPython's own keeper of what a __buffer__ returned, a memoryview. */
        (void)Py_TYPE(object)->tp_traverse(object, find_view, (void *)&view);
        object = view;
    }
    return NULL;
}

/* The least address and the one behind the greatest of a buffer's elements. */
static void extent_of(const Py_buffer *buffer, uintptr_t *low, uintptr_t *high)
{
    *low = (uintptr_t)buffer->buf;
    *high = *low + (uintptr_t)buffer->len;
    if (buffer->strides == NULL || buffer->shape == NULL || buffer->len == 0) {
        return;
    }
    *high = *low + (uintptr_t)buffer->itemsize;
    for (int i = 0; i < buffer->ndim; i++) {
        Py_ssize_t step = (buffer->shape[i] - 1) * buffer->strides[i];
        *(step < 0 ? low : high) += (uintptr_t)step;
    }
}

static int is_unmoved(const Py_buffer *buffer)
{
    PyObject *root = root_of(buffer->obj);
    getbufferproc export = root != NULL ? exporter_of(Py_TYPE(root)) : NULL;
    Py_buffer now;
    Py_buffer again;
    uintptr_t low;
    uintptr_t high;
    uintptr_t first;
    uintptr_t last;
    int unmoved;
    if (export == NULL || buffer->len == 0) {
        return 1;
    }
    if (export(root, &now, PyBUF_FULL_RO) < 0) {
        PyErr_Clear(); /* whoever exports but once cannot move it */
        return 1;
    }
    extent_of(buffer, &low, &high);
    extent_of(&now, &first, &last);
    unmoved = first <= low && high <= last;
    if (!unmoved && export(root, &again, PyBUF_FULL_RO) == 0) {
        /* Who exports a copy each time moves nothing. */
        unmoved = again.buf != now.buf;
        PyBuffer_Release(&again);
    }
    PyErr_Clear();
    PyBuffer_Release(&now);
    return unmoved;
}

static int fail_moved(PyObject *name, PyObject *owner)
{
    PyErr_Format(PyExc_BufferError,
                 "the memory of a %.200s was moved while the arguments of '%U' were converted; do "
                 "not resize what is passed",
                 Py_TYPE(owner)->tp_name, name);
    return -1;
}

int nc_check_unmoved(PyObject *name, const NcPointer *pointers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const NcPointer *pointer = &pointers[i];
        PyObject *keep = pointer->keep;
        if (pointer->buffer.obj != NULL && !is_unmoved(&pointer->buffer)) {
            return fail_moved(name, pointer->buffer.obj);
        }
        if (keep != NULL && PyList_CheckExact(keep)) {
            if (nc_pins_check(name, keep) < 0) {
                return -1;
            }
        } else if (keep != NULL && PyTuple_GET_SIZE(keep) > 1 &&
                   Py_IS_TYPE(PyTuple_GET_ITEM(keep, 1), &NcPin_Type)) {
            const NcPin *pin = (const NcPin *)(void *)PyTuple_GET_ITEM(keep, 1);
            if (nc_check_unmoved(name, &pin->pointer, 1) < 0) {
                return -1;
            }
        }
    }
    return 0;
}

int nc_pins_check(PyObject *name, PyObject *list)
{
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
        PyObject *item = PyList_GET_ITEM(list, i);
        if (Py_IS_TYPE(item, &NcPin_Type) &&
            nc_check_unmoved(name, &((NcPin *)(void *)item)->pointer, 1) < 0) {
            return -1;
        }
    }
    return 0;
}

/* check_unmoved(list, name): of the Pins in a list. */
PyObject *nc_pins_check_unmoved(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *list;
    PyObject *name;
    if (!PyArg_ParseTuple(args, "O!U", &PyList_Type, &list, &name) ||
        nc_pins_check(name, list) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

int nc_pin_ready(void)
{
#if PY_VERSION_HEX >= 0x030C0000
    PyObject *class =
        PyObject_CallFunction((PyObject *)&PyType_Type, "s(){si}", "Exporter", "__buffer__", 0);
    if (class == NULL) {
        return -1;
    }
    python_getbuffer = ((PyTypeObject *)(void *)class)->tp_as_buffer->bf_getbuffer;
    Py_DECREF(class);
#endif
    return 0;
}

/* ---- exports of any strides ------------------------------------------------------------------ */

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
