/* csrc/values/exporters.c: slow paths of pointer arguments: other buffer formats, foreign objects,
 * arrays without a buffer, and error messages. pointers.h describes the rules. */
#include "pointers.h"

#include "fortran.h"
#include "names.h"
#include "record.h"
#include "text.h"

/* ---- matching of buffers --------------------------------------------------------------------- */

/* Return 1 if a buffer is an array of the argument's structs, or bytes for a whole number of such
 * structs. Return 0 if not, or -1 with an exception. */
static int holds_structs(const NcCallInterface *cif, Py_ssize_t index, PyObject *value,
                         const Py_buffer *buffer)
{
    size_t size = cif->arguments[index].size;
    char found = nc_buffer_letter(buffer);
    PyObject *answer;
    if (nc_is_record_behind(value, cif, index)) {
        return 1;
    }
    if (found != '\0' || size == 0) {
        return (found == 'B' || found == 'b') && size != 0 && (size_t)buffer->len % size == 0;
    }
    if (buffer->obj == value && nc_takes_structs(PyTuple_GET_ITEM(cif->types, index), value)) {
        return (size_t)buffer->itemsize == size;
    }
    answer =
        PyObject_CallFunction(NC_HOOK(struct_buffer), "OOsn", PyTuple_GET_ITEM(cif->types, index),
                              value, buffer->format, buffer->itemsize);
    if (answer == NULL) {
        return -1;
    }
    int truth = PyObject_IsTrue(answer);
    Py_DECREF(answer);
    return truth;
}

/* Pointers to char, signed or unsigned, accept any items of one byte. Pointers to void accept all
 * items except Python objects. */
int nc_buffer_suits(const NcCallInterface *cif, Py_ssize_t index, PyObject *value,
                    const Py_buffer *buffer)
{
    char wanted = cif->arguments[index].pointee;
    if (wanted == 'v' || wanted == 'T') {
        return nc_buffer_holds_objects(buffer) ? 0
               : wanted == 'v'                 ? 1
                                               : holds_structs(cif, index, value, buffer);
    }
    char found = nc_buffer_letter(buffer);
    if (wanted == 'b' || wanted == 'B') {
        return (found != '\0' && buffer->itemsize == 1) ||
               (cif->fortran && nc_is_text_buffer(buffer));
    }
    return wanted != '\0' && found == wanted;
}

int nc_buffer_is_short(const NcCallInterface *cif, Py_ssize_t index, const Py_buffer *buffer)
{
    size_t size = cif->arguments[index].size;
    return size != 0 && (size_t)buffer->len / size < cif->arguments[index].count;
}

int nc_buffer_is_aligned(const NcCallInterface *cif, Py_ssize_t index, const Py_buffer *buffer)
{
    return ((uintptr_t)buffer->buf & cif->arguments[index].export.mask) == 0 || buffer->len == 0;
}

/* ---- refusals -------------------------------------------------------------------------------- */

/* Let Python code raise the error for a buffer (nativecall/_values/refusals.py). Messages name the
 * type of `shown`. If `place` is negative, messages begin with `name` itself. Return 0 with an
 * exception. If `why` is "rows", Python code may accept the buffer; then return 1. */
static int refuse(const NcCallInterface *cif, PyObject *name, Py_ssize_t place, PyObject *value,
                  PyObject *shown, const char *why)
{
    Py_ssize_t index = place < 0 ? 0 : place;
    PyObject *who = nc_conversion_subject(name, place);
    PyObject *done = who != NULL ? PyObject_CallFunction(NC_HOOK(refuse), "OnOOsOsC", cif, index,
                                                         value, shown, Py_TYPE(shown)->tp_name, who,
                                                         why, (int)cif->arguments[index].pointee)
                                 : NULL;
    Py_XDECREF(who);
    Py_XDECREF(done);
    return done != NULL;
}

/* For a pointer to arrays: return 1 if the rows of a matching buffer are as long as the arrays.
 * Otherwise return 0 with an exception. One-dimensional buffers always match. So do all buffers if
 * the call interface does not require C order. */
static int has_rows(const NcCallInterface *cif, PyObject *name, Py_ssize_t place, PyObject *value,
                    const Py_buffer *buffer)
{
    size_t count = cif->arguments[place < 0 ? 0 : place].count;
    int last = buffer->ndim - 1;
    return count == 0 || last < 1 || cif->order != 'C' || buffer->shape == NULL ||
           (size_t)buffer->shape[last] == count || refuse(cif, name, place, value, value, "rows");
}

/* Raise the error for a buffer that could not be exported or does not match. */
static void refuse_buffer(const NcCallInterface *cif, PyObject *name, Py_ssize_t place,
                          PyObject *value, PyObject *shown)
{
    Py_buffer buffer;
    int suits = 0;
    if (PyObject_GetBuffer(value, &buffer, PyBUF_FULL_RO) == 0) {
        suits = nc_buffer_suits(cif, place < 0 ? 0 : place, value, &buffer);
        PyBuffer_Release(&buffer);
    } else if (!nc_clear_refusal()) {
        return;
    }
    if (suits >= 0) {
        (void)refuse(cif, name, place, value, shown, suits ? "suits" : "");
    }
}

/* ---- conversion ------------------------------------------------------------------------------ */

int nc_convert_exporter(const NcCallInterface *cif, PyObject *name, Py_ssize_t place,
                        PyObject *value, PyObject *shown, NcPointer *out, int exported)
{
    Py_ssize_t index = place < 0 ? 0 : place;
    if (NC_UNLIKELY(PyUnicode_Check(value) && nc_takes_text(cif, index))) {
        /* A numpy.str_. The format of its buffer is not one of C's text formats. */
        if (exported) {
            PyBuffer_Release(&out->buffer);
        }
        PyErr_Clear();
        out->buffer.obj = NULL;
        return nc_convert_foreign(cif, name, place, value, out);
    }
    if (!exported) {
        out->buffer.obj = NULL;
        if (nc_clear_refusal()) {
            /* Fortran functions also accept numbers, by reference. */
            int status = cif->fortran ? nc_is_referred(cif, index, value) : 0;
            status = status > 0 ? nc_refer(cif, name, place, value, out) : status == 0 ? 2 : -1;
            if (status != 2) {
                return status;
            }
            refuse_buffer(cif, name, place, value, shown);
        }
        return -1;
    }
    if (nc_may_be_masked(Py_TYPE(value))) {
        PyBuffer_Release(&out->buffer);
        return nc_convert_foreign(cif, name, place, value, out);
    }
    if (cif->fortran && nc_is_number_buffer(&out->buffer)) {
        PyBuffer_Release(&out->buffer);
        return nc_refer(cif, name, place, value, out);
    }
    /* Whether Python code may have run: in a `__buffer__` method, or in the hook for structs. */
    int ran = out->buffer.obj != value || cif->arguments[index].pointee == 'T';
    int is_pointer = nc_buffer_is_pointer(&out->buffer);
    int suits = is_pointer ? 0 : nc_buffer_suits(cif, index, value, &out->buffer);
    if (suits > 0 && (cif->order == 'F' || shown != value) &&
        !PyBuffer_IsContiguous(&out->buffer, cif->order)) {
        /* Some exporters ignore the requested order: ctypes always exports C order, and Memory
         * exports the layout that it has. */
        suits = 0;
    } else if (suits > 0 && nc_buffer_is_short(cif, index, &out->buffer)) {
        (void)refuse(cif, name, place, value, shown, "short");
    } else if (suits > 0 && !has_rows(cif, name, place, value, &out->buffer)) {
        /* has_rows has raised the error */
    } else if (suits > 0 && !nc_buffer_is_aligned(cif, index, &out->buffer)) {
        (void)refuse(cif, name, place, value, shown, "alignment");
    } else if (suits > 0) {
        out->address = out->buffer.buf;
        return ran;
    }
    PyBuffer_Release(&out->buffer);
    if (is_pointer) {
        return nc_convert_foreign(cif, name, place, value, out);
    }
    if (suits == 0) {
        refuse_buffer(cif, name, place, value, shown);
    }
    return -1;
}

int nc_convert_referred(const NcCallInterface *cif, PyObject *name, Py_ssize_t place,
                        PyObject *value, NcPointer *out)
{
    if (PyFloat_Check(value) || PyLong_Check(value) || PyComplex_Check(value) ||
        PyUnicode_Check(value)) {
        int status = nc_refer(cif, name, place, value, out);
        if (status != 2) {
            return status;
        }
    }
    int status = nc_convert_foreign(cif, name, place, value, out);
    if (status >= 0 || !PyErr_ExceptionMatches(PyExc_TypeError)) {
        return status;
    }
    /* The value has no memory to point to, but may be a number from another library. If it is not,
     * raise the first error. */
    PyObject *refusal = nc_exception_take();
    status = nc_refer(cif, name, place, value, out);
    if (status == 2 || (status < 0 && PyErr_ExceptionMatches(PyExc_TypeError))) {
        PyErr_Clear();
        nc_exception_put(refusal);
        return -1;
    }
    Py_XDECREF(refusal);
    return status;
}

int (*nc_pass_function)(const NcCallInterface *cif, PyObject *name, Py_ssize_t index,
                        PyObject *value, NcPointer *out);

int nc_convert_foreign(const NcCallInterface *cif, PyObject *name, Py_ssize_t place,
                       PyObject *value, NcPointer *out)
{
    PyObject *wanted = PyTuple_GET_ITEM(cif->types, place < 0 ? 0 : place);
    if (PyUnicode_Check(value) && nc_takes_text(cif, place < 0 ? 0 : place)) {
        const char *start = NULL;
        PyObject *owner = nc_encode_text(cif, name, place, value, &start);
        out->keep = owner != NULL ? PyTuple_Pack(1, owner) : NULL;
        out->address = (void *)(uintptr_t)start;
        Py_XDECREF(owner);
        /* A codec may run arbitrary code. */
        return out->keep != NULL ? 1 : -1;
    }
    if (nc_take_pointer(wanted, value, &out->address)) {
        out->keep = PyTuple_Pack(1, value);
        return out->keep != NULL ? 0 : -1;
    }
    if (nc_take_ctypes_pointer(wanted, value, out)) {
        return 1;
    }
    name = nc_name(name);
    if (name == NULL) {
        return -1;
    }
    if (place >= 0 && cif->arguments[place].pointee == '\0') {
        int status = nc_pass_function(cif, name, place, value, out);
        if (status != 0) {
            return status;
        }
    }
    PyObject *found =
        PyObject_CallFunction(NC_HOOK(pointer_argument), "OOOnO", wanted, value, name, place, cif);
    if (found == NULL) {
        return -1;
    }
    PyObject *first = PyTuple_GET_ITEM(found, 0);
    int failed;
    if (PyLong_Check(first)) {
        out->address = PyLong_AsVoidPtr(first);
        failed = out->address == NULL && PyErr_Occurred();
    } else {
        /* The value is an array without a buffer; `first` exports its memory. */
        int flags = nc_export_flags(cif, place < 0 ? 0 : place, first);
        int exported = PyObject_GetBuffer(first, &out->buffer, flags) == 0;
        failed = nc_convert_exporter(cif, name, place, first, value, out, exported) < 0;
    }
    if (failed) {
        Py_DECREF(found);
        return -1;
    }
    out->keep = found;
    return 1;
}
