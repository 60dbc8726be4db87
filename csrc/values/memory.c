/* csrc/values/memory.c: Memory, a Python object that exports memory at an address as a buffer. It
 * does not own the memory.
 *
 * Python callbacks read their array arguments through a Memory. C code owns that memory, which is
 * valid until the callback returns. In calls of C functions, array arguments without a buffer of
 * their own are also exported through a Memory (nativecall/_values/arrays.py). */
#include "platform/functions.h"

#include "platform/address.h"

#include <stddef.h>

typedef struct {
    PyObject_VAR_HEAD void *address; /* of the element with all indices 0 */
    PyObject *format;                /* bytes: of an element, in PEP 3118 syntax */
    Py_ssize_t size;                 /* bytes of an element */
    Py_ssize_t length;               /* bytes of all elements */
    int ndim;
    int readonly;
    int contiguous;
    Py_ssize_t extents[1]; /* lengths, then strides in bytes */
} Memory;

/* Memory(address, format, itemsize, shape, strides, readonly). If strides is None, the memory is
 * C-contiguous. */
static PyObject *memory_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    void *pointer;
    PyObject *format;
    PyObject *shape;
    PyObject *strides;
    Py_ssize_t size;
    int readonly;
    if (!PyArg_ParseTuple(args, "O&SnO!Op", nc_take_address, &pointer, &format, &size,
                          &PyTuple_Type, &shape, &strides, &readonly)) {
        return NULL;
    }
    Py_ssize_t count = PyTuple_GET_SIZE(shape);
    if ((strides != Py_None && (!PyTuple_Check(strides) || PyTuple_GET_SIZE(strides) != count)) ||
        count > PyBUF_MAX_NDIM) {
        PyErr_SetString(PyExc_ValueError, "'strides' must be None or as long as 'shape'");
        return NULL;
    }
    Memory *self = (Memory *)(void *)type->tp_alloc(type, 2 * count);
    if (self == NULL) {
        return NULL;
    }
    self->address = pointer;
    self->format = Py_NewRef(format);
    self->size = size;
    self->ndim = (int)count;
    self->readonly = readonly;
    self->contiguous = 1;
    int is_negative = 0;
    Py_ssize_t step = size;
    for (Py_ssize_t i = count - 1; i >= 0; i--) {
        self->extents[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, i));
        self->extents[count + i] =
            strides == Py_None ? step : PyLong_AsSsize_t(PyTuple_GET_ITEM(strides, i));
        self->contiguous &= self->extents[count + i] == step || self->extents[i] == 1;
        step *= self->extents[i];
        is_negative |= self->extents[i] < 0 || size <= 0;
    }
    self->length = step;
    if (is_negative && !PyErr_Occurred()) {
        PyErr_SetString(PyExc_ValueError, "'shape' and 'size' must not be negative");
    }
    if (PyErr_Occurred()) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static void memory_dealloc(PyObject *object)
{
    Py_XDECREF(((Memory *)(void *)object)->format);
    Py_TYPE(object)->tp_free(object);
}

static int memory_getbuffer(PyObject *object, Py_buffer *view, int flags)
{
    Memory *self = (Memory *)(void *)object;
    const char *problem = NULL;
    if ((flags & PyBUF_WRITABLE) != 0 && self->readonly) {
        problem = "the memory is const";
    } else if (!self->contiguous && (flags & PyBUF_STRIDES) != PyBUF_STRIDES) {
        problem = "the memory is not contiguous";
    }
    if (problem != NULL) {
        PyErr_SetString(PyExc_BufferError, problem);
        view->obj = NULL;
        return -1;
    }
    *view = (Py_buffer){.buf = self->address, .len = self->length, .itemsize = self->size};
    view->obj = Py_NewRef(object);
    view->readonly = self->readonly;
    view->format = (flags & PyBUF_FORMAT) != 0 ? PyBytes_AS_STRING(self->format) : NULL;
    view->ndim = self->ndim;
    view->shape = (flags & PyBUF_ND) != 0 ? self->extents : NULL;
    view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? self->extents + self->ndim : NULL;
    return 0;
}

static PyBufferProcs memory_buffer = {memory_getbuffer, NULL};

PyTypeObject NcMemory_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "nativecall._ext.Memory",
    .tp_doc = "Memory that C code owns.",
    .tp_basicsize = offsetof(Memory, extents),
    .tp_itemsize = sizeof(Py_ssize_t),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = memory_new,
    .tp_dealloc = memory_dealloc,
    .tp_as_buffer = &memory_buffer,
};
