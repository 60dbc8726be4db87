/* csrc/values/buffers.c: implements buffers.h. */
#include "buffers.h"

#include "platform/compat.h"
#include "nativecall/detail/core/scalars.h"

#include <string.h>

int nc_clear_refusal(void)
{
    if (!PyErr_ExceptionMatches(PyExc_TypeError) && !PyErr_ExceptionMatches(PyExc_ValueError) &&
        !PyErr_ExceptionMatches(PyExc_BufferError)) {
        return 0;
    }
    PyErr_Clear();
    return 1;
}

/* ---- formats --------------------------------------------------------------------------------- */

char nc_buffer_letter(const Py_buffer *buffer)
{
    const char *format = buffer->format;
    char code;
    int is_signed;
    if (format == NULL) {
        return 'B';
    }
    if (*format == '@' || *format == '=') {
        format++;
    } else if ((*format == '<' && PY_LITTLE_ENDIAN) || (*format == '>' && PY_BIG_ENDIAN)) {
        format++;
    }
    if (format[0] == 'Z' && format[1] != '\0' && format[2] == '\0') {
#define WHOLE(letter, part, ...)                                                                   \
    case part:                                                                                     \
        return letter;
        switch (format[1]) {
            NC_COMPLEXES(WHOLE)
        default:
            return '\0';
        }
#undef WHOLE
    }
    if (format[0] == '\0' || format[1] != '\0') {
        return '\0';
    }
    code = format[0];
#define ITSELF(letter, ...)                                                                        \
    case letter:                                                                                   \
        return code;
#define SIGN(letter, name, type, kind, ...)                                                        \
    case letter:                                                                                   \
        is_signed = NC_IS_SIGNED_##kind;                                                           \
        break;
    switch (code) {
        NC_FLOATS(ITSELF)
        NC_INTEGERS(SIGN)
    case 'c':
        return 'b';
    case 'u': /* ctypes' wchar_t: arrays match integers of its width; a single wchar_t is text */
        if (buffer->ndim == 0) {
            return '\0';
        }
        is_signed = WCHAR_MIN < 0;
        break;
    case 'l':
    case 'n':
        is_signed = 1;
        break;
    case 'L':
    case 'N':
        is_signed = 0;
        break;
    default:
        return '\0';
    }
#undef ITSELF
#undef SIGN
    if (code == '?') {
        return code;
    }
    /* Only the width and the sign of an integer matter, not its C type. */
#define WIDE_BOOL(letter, type)
#define WIDE_SIGNED(letter, type)                                                                  \
    case 2 * sizeof(type) + 1:                                                                     \
        return letter;
#define WIDE_UNSIGNED(letter, type)                                                                \
    case 2 * sizeof(type):                                                                         \
        return letter;
#define WIDE(letter, name, type, kind, ...) WIDE_##kind(letter, type)
    switch (2 * (size_t)buffer->itemsize + (size_t)is_signed) {
        NC_INTEGERS(WIDE)
    default:
        return '\0';
    }
#undef WIDE
}

int nc_buffer_is_pointer(const Py_buffer *buffer)
{
    const char *format = buffer->format;
    if (format == NULL || buffer->ndim != 0 || buffer->itemsize != (Py_ssize_t)sizeof(void *)) {
        return 0;
    }
    if (*format != '\0' && strchr("<>=@", *format) != NULL) {
        format++;
    }
    return *format == '&' || *format == 'X' ||
           (format[0] != '\0' && strchr("PzZO", format[0]) != NULL && format[1] == '\0');
}

/* Field names are between colons. A pointer to an object does not count as an object. */
int nc_buffer_holds_objects(const Py_buffer *buffer)
{
    const char *format = buffer->format;
    int named = 0;
    int pointee = 0;
    if (format != NULL && format[0] != '\0' && format[1] == '\0') {
        return format[0] == 'O';
    }
    for (; format != NULL && *format != '\0'; format++) {
        if (*format == ':') {
            named = !named;
        } else if (!named && *format == '&') {
            pointee = 1;
        } else if (!named && strchr("<>=!@^", *format) == NULL) {
            if (*format == 'O' && !pointee) {
                return 1;
            }
            pointee = 0;
        }
    }
    return 0;
}

/* ---- extents --------------------------------------------------------------------------------- */

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

/* Store the lowest address of a buffer's elements, and the end of the highest element. */
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

/* ---- masked arrays --------------------------------------------------------------------------- */

int nc_may_be_masked(const PyTypeObject *type)
{
    for (; type != NULL && PyType_HasFeature((PyTypeObject *)type, Py_TPFLAGS_HEAPTYPE);
         type = type->tp_base) {
        if (strcmp(type->tp_name, "MaskedArray") == 0) {
            return 1;
        }
    }
    return 0;
}

/* ---- memory that moves while exported -------------------------------------------------------- */

/* The bf_getbuffer of Python classes with __buffer__; NULL before 3.12. */
static getbufferproc python_getbuffer;

getbufferproc nc_exporter_of(const PyTypeObject *type)
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

static int find_view(PyObject *object, void *found)
{
    if (PyMemoryView_Check(object)) {
        *(PyObject **)found = object;
    }
    return 0;
}

/* Return the object that owns a buffer's memory (a borrowed reference), or NULL if unknown. */
static PyObject *root_of(PyObject *object)
{
    while (object != NULL) {
        PyObject *view = NULL;
        if (PyMemoryView_Check(object)) {
            object = PyMemoryView_GET_BASE(object);
            continue;
        }
        if (nc_exporter_of(Py_TYPE(object)) != NULL || Py_TYPE(object)->tp_traverse == NULL) {
            return object;
        }
        /* This is CPython's wrapper of the memoryview that a __buffer__ method returned. */
        (void)Py_TYPE(object)->tp_traverse(object, find_view, (void *)&view);
        object = view;
    }
    return NULL;
}

int nc_buffer_is_unmoved(const Py_buffer *buffer)
{
    PyObject *root = root_of(buffer->obj);
    getbufferproc export = root != NULL ? nc_exporter_of(Py_TYPE(root)) : NULL;
    Py_buffer now;
    Py_buffer again;
    uintptr_t low;
    uintptr_t high;
    uintptr_t first;
    uintptr_t last;
    if (export == NULL || buffer->len == 0) {
        return 1;
    }
    if (export(root, &now, PyBUF_FULL_RO) < 0) {
        PyErr_Clear(); /* the object allows one export at a time, so it cannot have moved */
        return 1;
    }
    extent_of(buffer, &low, &high);
    extent_of(&now, &first, &last);
    int unmoved = first <= low && high <= last;
    if (!unmoved && export(root, &again, PyBUF_FULL_RO) == 0) {
        /* If the object exports a new copy each time, nothing has moved. */
        unmoved = again.buf != now.buf;
        PyBuffer_Release(&again);
    }
    PyErr_Clear();
    PyBuffer_Release(&now);
    return unmoved;
}

int nc_buffers_ready(void)
{
    if (!NC_HAS_PYTHON_BUFFERS) {
        return 0;
    }
    PyObject *class =
        PyObject_CallFunction((PyObject *)&PyType_Type, "s(){si}", "Exporter", "__buffer__", 0);
    if (class == NULL) {
        return -1;
    }
    python_getbuffer = ((PyTypeObject *)(void *)class)->tp_as_buffer->bf_getbuffer;
    Py_DECREF(class);
    return 0;
}
