/* csrc/values/fortran.c: implements fortran.h. */
#include "fortran.h"

/* In a Py_buffer without an object, the bytes from this offset on are unused. Any number fits
 * there. */
#define ROOM offsetof(Py_buffer, itemsize)
_Static_assert(sizeof(Py_buffer) - ROOM >= 32 && (offsetof(NcPointer, buffer) + ROOM) % 16 == 0,
               "a complex long double must fit, aligned like the pointer");

static int is_text(char pointee)
{
    return pointee == 'b' || pointee == 'B';
}

int nc_refer(const NcCallInterface *cif, PyObject *name, Py_ssize_t place, PyObject *value,
             NcPointer *out)
{
    char pointee = cif->arguments[place < 0 ? 0 : place].pointee;
    if (PyUnicode_Check(value) && is_text(pointee)) {
        PyObject *bytes =
            cif->encoding == NULL
                ? PyUnicode_AsASCIIString(value)
                : PyUnicode_AsEncodedString(value, PyUnicode_AsUTF8(cif->encoding), "strict");
        if (bytes != NULL && PyBytes_GET_SIZE(bytes) == 1) {
            /* The procedure may write to the text, but CPython shares bytes objects of length 1. */
            Py_SETREF(bytes, PyByteArray_FromStringAndSize(PyBytes_AS_STRING(bytes), 1));
        }
        if (bytes == NULL) {
            return -1;
        }
        int status = PyObject_GetBuffer(bytes, &out->buffer, PyBUF_FORMAT | PyBUF_ND);
        Py_DECREF(bytes);
        if (status < 0) {
            out->buffer.obj = NULL;
            return -1;
        }
        out->address = out->buffer.buf;
        return 0;
    }
    const PyNumberMethods *number = Py_TYPE(value)->tp_as_number;
    if (nc_scalar_size(pointee) == 0 || number == NULL ||
        (number->nb_index == NULL && number->nb_float == NULL && !PyComplex_Check(value))) {
        return 2;
    }
    out->buffer.obj = NULL;
    out->address = (char *)&out->buffer + ROOM;
    if (nc_convert_scalar(name, place, value, pointee, out->address) < 0) {
        return -1;
    }
    return !PyFloat_CheckExact(value) && !PyLong_CheckExact(value);
}

int nc_refuse_null(const NcCallInterface *cif, PyObject *name, Py_ssize_t index)
{
    char pointee = cif->arguments[index].pointee;
    if (pointee == '\0' || pointee == 'v' || is_text(pointee)) {
        return 0;
    }
    nc_conversion_error(
        PyExc_TypeError, name, index,
        "must be a number or an array, which Fortran takes by reference (got None); to omit an "
        "optional argument, pass a NULL pointer of ctypes or cffi");
    return -1;
}

int nc_is_referred(const NcCallInterface *cif, Py_ssize_t index, PyObject *value)
{
    char pointee = cif->arguments[index].pointee;
    if (PyUnicode_Check(value)) {
        return is_text(pointee);
    }
    if (nc_scalar_size(pointee) == 0) {
        return 0;
    }
    if (PyFloat_Check(value) || PyLong_Check(value) || PyComplex_Check(value)) {
        return 1;
    }
    Py_buffer buffer;
    if (!PyObject_CheckBuffer(value)) {
        return 0;
    }
    if (PyObject_GetBuffer(value, &buffer, PyBUF_FULL_RO) < 0) {
        return nc_clear_refusal() ? 0 : -1;
    }
    int is_number = nc_is_number_buffer(&buffer);
    PyBuffer_Release(&buffer);
    return is_number;
}

Py_ssize_t nc_text_length(PyObject *name, Py_ssize_t index, PyObject *value,
                          const NcPointer *pointer)
{
    const Py_buffer *buffer = &pointer->buffer;
    if (buffer->obj != NULL) {
        return buffer->itemsize > 1 ? buffer->itemsize : buffer->len;
    }
    if (pointer->address == NULL) {
        return 0;
    }
    if (pointer->address == (const char *)buffer + ROOM) {
        return 1;
    }
    Py_ssize_t length = PyObject_Size(value);
    if (length < 0 && PyErr_ExceptionMatches(PyExc_TypeError)) {
        nc_conversion_type_error(name, index, "a text of known length: a str, bytes or an array",
                                 value);
    }
    return length;
}
