/* csrc/values/aggregates.c: converts structs and strided views for calls. If a conversion fails,
 * the exception names the argument and the callable, and no buffer stays exported. */
#include "aggregates.h"

#include "record.h"

#include <string.h>

/* ---- structs --------------------------------------------------------------------------------- */

int nc_store_value(NcCallInterface *cif, PyObject *name, Py_ssize_t place, PyObject *value,
                   void *memory, PyObject **keep)
{
    Py_ssize_t index = place < 0 ? 0 : place;
    *keep = NULL;
    if (cif->arguments[index].code == 'T') {
        PyObject *layout = nc_record_layout(cif, index);
        if (layout == NULL) {
            return -1;
        }
        if (!Py_IS_TYPE(value, nc_record_class) && !PyTuple_CheckExact(value) &&
            nc_take_struct(PyTuple_GET_ITEM(cif->types, index), value, memory)) {
            *keep = nc_record_leads_on(layout) ? PyList_New(1) : NULL;
            if (*keep == NULL) {
                return PyErr_Occurred() ? -1 : 0;
            }
            PyList_SET_ITEM(*keep, 0, Py_NewRef(value));
            return 1;
        }
        memset(memory, 0, cif->arguments[index].size);
        if (nc_record_store(layout, value, memory)) {
            return 0;
        }
        memset(memory, 0, cif->arguments[index].size);
    }
    PyObject *address = PyLong_FromVoidPtr(memory);
    PyObject *who = address != NULL ? nc_conversion_subject(name, place) : NULL;
    PyObject *done = NULL;
    *keep = who != NULL ? PyList_New(0) : NULL;
    if (*keep != NULL) {
        done = PyObject_CallFunctionObjArgs(
            NC_HOOK(store), PyTuple_GET_ITEM(cif->types, index), value, address, who, *keep,
            cif->arguments[index].readonly ? Py_True : Py_False, cif->policies, NULL);
    }
    Py_XDECREF(address);
    Py_XDECREF(who);
    Py_XDECREF(done);
    return done != NULL ? 1 : -1;
}

int nc_store_argument(NcCallInterface *cif, PyObject *name, Py_ssize_t index, PyObject *value,
                      void *memory, NcPointer *owner)
{
    PyObject *keep;
    int status = nc_store_value(cif, name, index, value, memory, &keep);
    if (status > 0 && owner != NULL && PyList_GET_SIZE(keep) != 0) {
        owner->keep = Py_NewRef(keep);
    }
    Py_XDECREF(keep);
    return status;
}

/* ---- strided views --------------------------------------------------------------------------- */

/* Return whether every element is aligned for its C type. */
static int is_aligned(const Py_buffer *buffer, const intptr_t *words, size_t alignment)
{
    uintptr_t places = (uintptr_t)words[0];
    for (int i = 0; i < buffer->ndim; i++) {
        if (words[1 + i] == 0) {
            return 1;
        }
        if (words[1 + i] > 1) {
            places |= (uintptr_t)words[1 + buffer->ndim + i];
        }
    }
    /* Alignments are powers of two. */
    return (places & (alignment - 1)) == 0;
}

/* Store the view of a buffer in `words`. Return 0 if the buffer does not suit the argument. */
static int is_view(const NcCallInterface *cif, Py_ssize_t index, const Py_buffer *buffer,
                   Py_ssize_t ndim, intptr_t *words)
{
    const NcArgument *argument = &cif->arguments[index];
    if (buffer->ndim != (int)ndim || nc_buffer_letter(buffer) != argument->pointee ||
        (buffer->readonly && !argument->readonly)) {
        return 0;
    }
    words[0] = (intptr_t)buffer->buf;
    nc_buffer_extents(buffer, words + 1);
    return is_aligned(buffer, words, argument->size);
}

int nc_is_view(const NcCallInterface *cif, Py_ssize_t index, PyObject *value)
{
    Py_buffer buffer;
    intptr_t words[1 + 2 * PyBUF_MAX_NDIM];
    if (cif->arguments[index].pointee == '\0' || nc_may_be_masked(Py_TYPE(value)) ||
        !PyObject_CheckBuffer(value)) {
        return 0;
    }
    if (PyObject_GetBuffer(value, &buffer, PyBUF_STRIDES | PyBUF_FORMAT) < 0) {
        return nc_clear_refusal() ? 0 : -1;
    }
    int fits = is_view(cif, index, &buffer, (Py_ssize_t)cif->arguments[index].count, words);
    PyBuffer_Release(&buffer);
    return fits;
}

int nc_convert_view(NcCallInterface *cif, PyObject *name, Py_ssize_t index, PyObject *value,
                    Py_ssize_t ndim, intptr_t *words, NcPointer *owner)
{
    const Py_buffer *buffer = &owner->buffer;
    if (value == Py_None) {
        owner->address = NULL;
        return 0;
    }
    if (cif->arguments[index].pointee == '\0' || nc_may_be_masked(Py_TYPE(value))) {
        return nc_store_argument(cif, name, index, value, &owner->address, owner);
    }
    if (PyObject_GetBuffer(value, &owner->buffer, PyBUF_STRIDES | PyBUF_FORMAT) < 0) {
        owner->buffer.obj = NULL;
        if (!nc_clear_refusal()) {
            return -1;
        }
    } else {
        if (is_view(cif, index, buffer, ndim, words)) {
            owner->address = words;
            return buffer->obj != value;
        }
        PyBuffer_Release(&owner->buffer);
    }
    /* nativecall/_values/storage.py handles rarer cases and raises all errors. */
    return nc_store_argument(cif, name, index, value, &owner->address, owner);
}
