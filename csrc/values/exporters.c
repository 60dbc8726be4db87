/* csrc/values/exporters.c: pointer arguments that need a closer look: buffers of other formats,
 * boxes, arrays without a buffer, and why a buffer is refused; pointers.h has the rules. */
#include "pointers.h"

#include "fortran.h"
#include "names.h"
#include "record.h"
#include "text.h"

/* ---- whether a buffer suits ------------------------------------------------------------------ */

/* An array of structs, or bytes that hold a whole number of them. */
static int holds_structs(const NcCallSpec *spec, Py_ssize_t index, PyObject *value,
                         const Py_buffer *buffer)
{
    size_t size = spec->arguments[index].size;
    char found = nc_buffer_letter(buffer);
    PyObject *answer;
    if (nc_is_record_behind(value, spec, index)) {
        return 1;
    }
    if (found != '\0' || size == 0) {
        return (found == 'B' || found == 'b') && size != 0 && (size_t)buffer->len % size == 0;
    }
    if (buffer->obj == value && nc_takes_structs(PyTuple_GET_ITEM(spec->types, index), value)) {
        return (size_t)buffer->itemsize == size;
    }
    answer =
        PyObject_CallFunction(nc_hooks.struct_buffer, "OOsn", PyTuple_GET_ITEM(spec->types, index),
                              value, buffer->format, buffer->itemsize);
    if (answer == NULL) {
        return -1;
    }
    int truth = PyObject_IsTrue(answer);
    Py_DECREF(answer);
    return truth;
}

/* char, signed and unsigned, is bytes of any kind; void is anything but objects, which are no
 * scalar. */
int nc_buffer_suits(const NcCallSpec *spec, Py_ssize_t index, PyObject *value,
                    const Py_buffer *buffer)
{
    char wanted = spec->arguments[index].pointee;
    if (wanted == 'v' || wanted == 'T') {
        return nc_buffer_holds_objects(buffer) ? 0
               : wanted == 'v'                 ? 1
                                               : holds_structs(spec, index, value, buffer);
    }
    char found = nc_buffer_letter(buffer);
    if (wanted == 'b' || wanted == 'B') {
        return (found != '\0' && buffer->itemsize == 1) ||
               (spec->fortran && nc_is_text_buffer(buffer));
    }
    return wanted != '\0' && found == wanted;
}

int nc_buffer_is_short(const NcCallSpec *spec, Py_ssize_t index, const Py_buffer *buffer)
{
    size_t size = spec->arguments[index].size;
    return size != 0 && (size_t)buffer->len / size < spec->arguments[index].count;
}

int nc_buffer_is_aligned(const NcCallSpec *spec, Py_ssize_t index, const Py_buffer *buffer)
{
    return ((uintptr_t)buffer->buf & spec->arguments[index].export.mask) == 0 || buffer->len == 0;
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void refuse_short(const NcCallSpec *spec, PyObject *name, Py_ssize_t place,
                         const Py_buffer *buffer)
{
    Py_ssize_t index = place < 0 ? 0 : place;
    PyObject *pointer = PyTuple_GET_ITEM(spec->types, index);
    PyObject *array = PyObject_GetAttrString(pointer, "pointee");
    PyObject *item = array != NULL ? PyObject_GetAttrString(array, "item") : NULL;
    if (item != NULL) {
        nc_conversion_error(PyExc_ValueError, name, place,
                            "must be a buffer of at least %zu items of '%S' (got %zu)",
                            spec->arguments[index].count, item,
                            (size_t)buffer->len / spec->arguments[index].size);
    }
    Py_XDECREF(item);
    Py_XDECREF(array);
}

/* The lengths of the arrays that a pointer leads to, a new reference; NULL with an exception. */
static PyObject *lengths_of(const NcCallSpec *spec, Py_ssize_t index)
{
    PyObject *array = PyObject_GetAttrString(PyTuple_GET_ITEM(spec->types, index), "pointee");
    PyObject *lengths = array != NULL ? PyObject_GetAttrString(array, "shape") : NULL;
    Py_XDECREF(array);
    return lengths;
}

/* Whether the last dimensions of a buffer have so many items together. */
static int is_whole(const Py_buffer *buffer, size_t count)
{
    size_t found = 1;
    for (int i = buffer->ndim - 1; i >= 0 && found < count; i--) {
        found *= (size_t)buffer->shape[i];
    }
    return found == count;
}

/* Whether the rows of a buffer that suits are the arrays that a pointer leads to: the lengths of
 * all dimensions but the first are theirs, or a whole number of dimensions is one array of a single
 * dimension. One dimension is memory of any rows, and Fortran's order has none. 0 with an
 * exception. */
static int has_rows(const NcCallSpec *spec, PyObject *name, Py_ssize_t place,
                    const Py_buffer *buffer)
{
    Py_ssize_t index = place < 0 ? 0 : place;
    size_t count = spec->arguments[index].count;
    int last = buffer->ndim - 1;
    if (count == 0 || last < 1 || spec->order != 'C' || buffer->shape == NULL ||
        (size_t)buffer->shape[last] == count) {
        return 1;
    }
    PyObject *lengths = lengths_of(spec, index);
    PyObject *found = lengths != NULL ? PyTuple_New(last + 1) : NULL;
    int same = found != NULL;
    for (int i = 0; found != NULL && i <= last; i++) {
        PyObject *length = PyLong_FromSsize_t(buffer->shape[i]);
        if (length == NULL) {
            Py_CLEAR(found);
            break;
        }
        PyTuple_SET_ITEM(found, i, length);
    }
    if (found != NULL) {
        Py_ssize_t known = PyTuple_GET_SIZE(lengths);
        int is_line = known == 1 && is_whole(buffer, count);
        for (Py_ssize_t i = 1; i <= known && i <= last && !is_line; i++) {
            PyObject *wanted = PyTuple_GET_ITEM(lengths, known - i);
            same = same && PyLong_AsSsize_t(wanted) == buffer->shape[last + 1 - i];
        }
        if (!same) {
            nc_conversion_error(PyExc_ValueError, name, place,
                                "must have rows of shape %S (got an array of shape %S); pass it "
                                "reshaped, or of a single dimension",
                                lengths, found);
        }
    } else {
        same = 0;
    }
    Py_XDECREF(lengths);
    Py_XDECREF(found);
    return same;
}

/* Of a buffer that suits, but is not in the order that is wanted, or has gaps. */
static void order_error(char wanted, PyObject *name, Py_ssize_t place, const Py_buffer *buffer,
                        const char *given)
{
    static const char *const orders[] = {"C", "Fortran"};
    int fortran = wanted == 'F';
    if (wanted != 'A' && PyBuffer_IsContiguous(buffer, fortran ? 'C' : 'F')) {
        nc_conversion_error(PyExc_ValueError, name, place,
                            "must be in %s order, this %.200s is in %s order; %sload the function "
                            "with order=\"%c\" or order=\"A\" if C expects that",
                            orders[fortran], given, orders[!fortran],
                            fortran ? "pass numpy.asfortranarray() of it, or " : "",
                            fortran ? 'C' : 'F');
    } else {
        nc_conversion_error(PyExc_ValueError, name, place,
                            "must be %s, this %.200s is not; pass a contiguous copy%s",
                            fortran         ? "contiguous in Fortran order"
                            : wanted == 'A' ? "contiguous"
                                            : "C-contiguous",
                            given, fortran ? ", as numpy.asfortranarray() makes one" : "");
    }
}

/* The end of a message about the elements of an array of NumPy's kind, by the names that it has for
 * them: a new reference, of an empty str for other values and elements. NULL with an exception. */
static PyObject *dtype_hint(char letter, PyObject *array)
{
    const NcIntegerKind *integer = letter != '?' ? nc_integer_kind(letter) : NULL;
    char part = nc_part_letter(letter);
    const char *kind = integer != NULL              ? (integer->is_signed ? "int" : "uint")
                       : part != 'f' && part != 'd' ? NULL
                       : part == letter             ? "float"
                                                    : "complex";
    PyObject *found = kind != NULL ? PyObject_GetAttrString(array, "dtype") : NULL;
    PyObject *can = found != NULL ? PyObject_GetAttrString(array, "astype") : NULL;
    PyObject *hint = NULL;
    PyObject *given = can != NULL ? PyObject_GetAttrString(found, "kind") : NULL;
    /* NumPy's kinds, each of which the later ones hold: astype to an earlier one drops fractions or
     * imaginary parts. Integers may be of either kind. */
    static const char kinds[] = "buifc";
    const char *from = given != NULL && PyUnicode_Check(given) && PyUnicode_GetLength(given) == 1
                           ? strchr(kinds, (int)PyUnicode_ReadChar(given, 0))
                           : NULL;
    if (given != NULL && (from == NULL || from > strchr(kinds, kind[0] == 'u' ? 'i' : kind[0]))) {
        hint = PyUnicode_FromFormat("; its dtype is %S", found);
    } else if (given != NULL) {
        hint = PyUnicode_FromFormat("; its dtype is %S, astype('%s%d') of it is a copy that suits",
                                    found, kind, 8 * (int)nc_scalar_size(letter));
    } else if (kind == NULL || PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_Clear();
        hint = PyUnicode_FromString("");
    }
    Py_XDECREF(found);
    Py_XDECREF(can);
    Py_XDECREF(given);
    return hint;
}

/* The type of an argument for messages, in C where the user wrote C. A new str, or NULL. */
static PyObject *shown_pointer(const NcCallSpec *spec, Py_ssize_t index)
{
    return PyObject_CallMethod(spec->policies, "spelled", "On", spec->signature, index);
}

/* `place` is negative where `name` is the whole subject. Messages tell of the type of `shown`. */
static void refuse_buffer(const NcCallSpec *spec, PyObject *name, Py_ssize_t place, PyObject *value,
                          PyObject *shown)
{
    Py_ssize_t index = place < 0 ? 0 : place;
    Py_buffer buffer;
    PyObject *type = shown_pointer(spec, index);
    if (type == NULL) {
        return;
    }
    PyObject *record = Py_IS_TYPE(value, nc_record_class) ? nc_record_name(value) : NULL;
    const char *refused = "must be a '%U' (got a '%U')";
    if (PyObject_GetBuffer(value, &buffer, PyBUF_FULL_RO) < 0) {
        PyObject *why = nc_exception_take();
        if (record != NULL) {
            nc_conversion_error(PyExc_TypeError, name, place, refused, type, record);
            Py_DECREF(why);
        } else if (PyErr_GivenExceptionMatches(why, PyExc_TypeError) ||
                   PyErr_GivenExceptionMatches(why, PyExc_ValueError) ||
                   PyErr_GivenExceptionMatches(why, PyExc_BufferError)) {
            nc_conversion_error(PyExc_TypeError, name, place,
                                "must be a buffer that suits '%U', and this %.200s has none: %S",
                                type, Py_TYPE(shown)->tp_name, why);
            Py_DECREF(why);
        } else {
            nc_exception_put(why);
        }
        Py_DECREF(type);
        return;
    }
    int suits = nc_buffer_suits(spec, index, value, &buffer);
    /* Held: attributes may be Python code, and the value may get another class meanwhile. */
    PyTypeObject *class_ = (PyTypeObject *)(void *)Py_NewRef(Py_TYPE(shown));
    if (suits == 0 && record != NULL) {
        nc_conversion_error(PyExc_TypeError, name, place, refused, type, record);
    } else if (suits == 0) {
        PyObject *hint = dtype_hint(spec->arguments[index].pointee, shown);
        if (hint != NULL) {
            nc_conversion_error(PyExc_TypeError, name, place,
                                "must be a buffer that suits '%U' (got '%s' elements in %.200s)%U",
                                type, buffer.format != NULL ? buffer.format : "B", class_->tp_name,
                                hint);
            Py_DECREF(hint);
        }
    } else if (suits > 0 && !PyBuffer_IsContiguous(&buffer, spec->order)) {
        order_error(spec->order, name, place, &buffer, class_->tp_name);
    } else if (suits > 0) {
        nc_conversion_error(
            PyExc_ValueError, name, place,
            "must be writable, this %.200s is read-only; a C declaration with const "
            "makes the argument read-only",
            class_->tp_name);
    }
    Py_DECREF(class_);
    Py_DECREF(type);
    PyBuffer_Release(&buffer);
}

/* ---- conversion ------------------------------------------------------------------------------ */

/* A value whose buffer was refused: for Fortran it may be a number. As nc_refer. */
static int refer_exporter(const NcCallSpec *spec, PyObject *name, Py_ssize_t place, PyObject *value,
                          NcPointer *out)
{
    Py_buffer buffer;
    if (PyObject_GetBuffer(value, &buffer, PyBUF_FULL_RO) < 0) {
        PyErr_Clear(); /* what follows asks again, and tells */
        return 2;
    }
    int is_number = nc_is_number_buffer(&buffer);
    PyBuffer_Release(&buffer);
    return is_number ? nc_refer(spec, name, place, value, out) : 2;
}

/* nc_convert_exporter of a value; messages tell of the type of `shown`. */
static inline int convert_exporter(const NcCallSpec *spec, PyObject *name, Py_ssize_t place,
                                   PyObject *value, PyObject *shown, NcPointer *out, int exported)
{
    Py_ssize_t index = place < 0 ? 0 : place;
    if (!exported) {
        out->buffer.obj = NULL;
        if (nc_clear_refusal()) {
            int status = spec->fortran ? refer_exporter(spec, name, place, value, out) : 2;
            if (status != 2) {
                return status;
            }
            refuse_buffer(spec, name, place, value, shown);
        }
        return -1;
    }
    if (nc_may_be_masked(Py_TYPE(value))) {
        PyBuffer_Release(&out->buffer);
        out->buffer.obj = NULL;
        return nc_convert_box(spec, name, place, value, out);
    }
    if (spec->fortran && nc_is_number_buffer(&out->buffer)) {
        PyBuffer_Release(&out->buffer);
        out->buffer.obj = NULL;
        return nc_refer(spec, name, place, value, out);
    }
    /* A __buffer__ in Python, or the hook that is asked about structs. */
    int ran = out->buffer.obj != value || spec->arguments[index].pointee == 'T';
    int boxed = nc_buffer_is_pointer(&out->buffer);
    int suits = boxed ? 0 : nc_buffer_suits(spec, index, value, &out->buffer);
    if (suits > 0 && (spec->order == 'F' || shown != value) &&
        !PyBuffer_IsContiguous(&out->buffer, spec->order)) {
        /* ctypes exports its arrays, which are in C order, and Memory exports any array, however
         * they are asked. */
        suits = 0;
    } else if (suits > 0 && nc_buffer_is_short(spec, index, &out->buffer)) {
        refuse_short(spec, name, place, &out->buffer);
    } else if (suits > 0 && !has_rows(spec, name, place, &out->buffer)) {
        /* it said why */
    } else if (suits > 0 && !nc_buffer_is_aligned(spec, index, &out->buffer)) {
        nc_conversion_error(PyExc_ValueError, name, place,
                            "must have its elements at multiples of %zu bytes, those of this "
                            "%.200s are not; pass %s",
                            spec->arguments[index].export.mask + 1, Py_TYPE(shown)->tp_name,
                            spec->arguments[index].export.mask < 16
                                ? "an aligned copy, as numpy.require(a, requirements='A') makes "
                                  "one of an array"
                                : "memory that the library's 'new' has made");
    } else if (suits > 0) {
        out->address = out->buffer.buf;
        return ran;
    }
    PyBuffer_Release(&out->buffer);
    out->buffer.obj = NULL;
    if (boxed) {
        return nc_convert_box(spec, name, place, value, out);
    }
    if (suits == 0) {
        refuse_buffer(spec, name, place, value, shown);
    }
    return -1;
}

int nc_convert_exporter(const NcCallSpec *spec, PyObject *name, Py_ssize_t place, PyObject *value,
                        NcPointer *out, int exported)
{
    if (NC_UNLIKELY(PyUnicode_Check(value) && nc_takes_text(spec, place < 0 ? 0 : place))) {
        /* NumPy's str: its buffer is of characters that C does not have. */
        if (exported) {
            PyBuffer_Release(&out->buffer);
        }
        PyErr_Clear();
        out->buffer.obj = NULL;
        return nc_convert_box(spec, name, place, value, out);
    }
    return convert_exporter(spec, name, place, value, value, out, exported);
}

int nc_convert_referred(const NcCallSpec *spec, PyObject *name, Py_ssize_t place, PyObject *value,
                        NcPointer *out)
{
    if (PyFloat_Check(value) || PyLong_Check(value) || PyComplex_Check(value) ||
        PyUnicode_Check(value)) {
        int status = nc_refer(spec, name, place, value, out);
        if (status != 2) {
            return status;
        }
    }
    int status = nc_convert_box(spec, name, place, value, out);
    if (status >= 0 || !PyErr_ExceptionMatches(PyExc_TypeError)) {
        return status;
    }
    /* No memory: a number of another library then. What it is not, the first message says. */
    PyObject *refusal = nc_exception_take();
    status = nc_refer(spec, name, place, value, out);
    if (status == 2 || (status < 0 && PyErr_ExceptionMatches(PyExc_TypeError))) {
        PyErr_Clear();
        nc_exception_put(refusal);
        return -1;
    }
    Py_XDECREF(refusal);
    return status;
}

int (*nc_pass_function)(const NcCallSpec *spec, PyObject *name, Py_ssize_t index, PyObject *value,
                        NcPointer *out);

int nc_convert_box(const NcCallSpec *spec, PyObject *name, Py_ssize_t place, PyObject *value,
                   NcPointer *out)
{
    PyObject *wanted = PyTuple_GET_ITEM(spec->types, place < 0 ? 0 : place);
    if (PyUnicode_Check(value) && nc_takes_text(spec, place < 0 ? 0 : place)) {
        const char *start = NULL;
        PyObject *owner = nc_encode_text(spec, name, place, value, &start);
        out->keep = owner != NULL ? PyTuple_Pack(1, owner) : NULL;
        out->address = (void *)(uintptr_t)start;
        Py_XDECREF(owner);
        /* A codec may be anybody's code. */
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
    if (place >= 0 && spec->arguments[place].pointee == '\0') {
        int status = nc_pass_function(spec, name, place, value, out);
        if (status != 0) {
            return status;
        }
    }
    PyObject *found =
        PyObject_CallFunction(nc_hooks.pointer_argument, "OOOnO", wanted, value, name, place, spec);
    if (found == NULL) {
        return -1;
    }
    PyObject *first = PyTuple_GET_ITEM(found, 0);
    if (!PyLong_Check(first)) {
        /* The memory of an array that has no buffer itself. */
        Py_ssize_t index = place < 0 ? 0 : place;
        int exported =
            PyObject_GetBuffer(first, &out->buffer, nc_export_flags(spec, index, first)) == 0;
        int status = convert_exporter(spec, name, place, first, value, out, exported);
        if (status < 0) {
            Py_DECREF(found);
            return -1;
        }
        out->keep = found;
        return 1;
    }
    out->address = PyLong_AsVoidPtr(first);
    if (out->address == NULL && PyErr_Occurred()) {
        Py_DECREF(found);
        return -1;
    }
    out->keep = found;
    return 1;
}
