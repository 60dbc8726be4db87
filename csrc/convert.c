/* csrc/convert.c: the checked conversions behind convert.h. Guarantees: on failure an exception is
 * set that names the argument and the callable, and nothing is left exported or owned. */
#include "convert.h"

#include "pending.h"
#include "pin.h"
#include "reader.h"

#include <limits.h>
#include <stdarg.h>
#include <string.h>

/* "argument 2 of 'pow'", a new reference: the subject of every message. */
static PyObject *subject(PyObject *name, Py_ssize_t index)
{
    if (index < 0) {
        return Py_NewRef(name);
    }
    return PyUnicode_FromFormat("argument %zd of '%U'", index + 1, name);
}

void nc_conversion_error(PyObject *exception, PyObject *name, Py_ssize_t index, const char *format,
                         ...)
{
    va_list arguments;
    PyObject *who;
    PyObject *what;
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_MemoryError)) {
        return; /* that says nothing about the value */
    }
    PyErr_Clear();
    va_start(arguments, format);
    what = PyUnicode_FromFormatV(format, arguments);
    va_end(arguments);
    who = what != NULL ? subject(name, index) : NULL;
    if (who != NULL) {
        PyErr_Format(exception, "%U %U", who, what);
    }
    Py_XDECREF(who);
    Py_XDECREF(what);
}

static void type_error(PyObject *name, Py_ssize_t index, const char *wanted, PyObject *value)
{
    nc_conversion_error(PyExc_TypeError, name, index, "must be %s (got %.200s)", wanted,
                        Py_TYPE(value)->tp_name);
}

int nc_clear_refusal(void)
{
    if (!PyErr_ExceptionMatches(PyExc_TypeError) && !PyErr_ExceptionMatches(PyExc_ValueError) &&
        !PyErr_ExceptionMatches(PyExc_BufferError)) {
        return 0;
    }
    PyErr_Clear();
    return 1;
}

/* What a scalar of long doubles holds, which no number of Python's does: how many, real part first;
 * 0 for other values; -1 with an exception. */
static int long_doubles_in(PyObject *value, long double parts[2])
{
    Py_buffer buffer;
    char letter = '\0';
    size_t size = 0;
    const PyNumberMethods *methods = Py_TYPE(value)->tp_as_number;
    if (PyFloat_Check(value) || PyLong_Check(value) || PyComplex_Check(value) || methods == NULL ||
        methods->nb_float == NULL || !PyObject_CheckBuffer(value)) {
        return 0;
    }
    if (PyObject_GetBuffer(value, &buffer, PyBUF_FULL_RO) < 0) {
        return nc_clear_refusal() ? 0 : -1;
    }
    if (buffer.ndim == 0) {
        letter = nc_buffer_letter(&buffer);
    }
    if (letter == 'g' || letter == 'Y') {
        size = nc_scalar_size(letter);
        memcpy(parts, buffer.buf, size);
    }
    PyBuffer_Release(&buffer);
    return (int)(size / sizeof(long double));
}

/* Whether `number`, what `value` converted to, is an infinity that it was not; 1 with an exception,
 * which may be another one. */
static int has_overflowed(PyObject *name, Py_ssize_t index, PyObject *value, Py_complex number)
{
    long double parts[2] = {0.0L, 0.0L};
    int count;
    if (!isinf(number.real) && !isinf(number.imag)) {
        return 0;
    }
    count = long_doubles_in(value, parts);
    if (count < 0) {
        return 1;
    }
    if (count == 0 || (!isinf(parts[0]) == !isinf(number.real) &&
                       (count == 1 || !isinf(parts[1]) == !isinf(number.imag)))) {
        return 0;
    }
    nc_conversion_error(PyExc_OverflowError, name, index,
                        "is a long double too large for a double");
    return 1;
}

int nc_convert_double(PyObject *name, Py_ssize_t index, PyObject *value, double *out)
{
    Py_complex whole = {0.0, 0.0};
    double number = PyFloat_AsDouble(value);
    if (number == -1.0 && PyErr_Occurred()) {
        PyNumberMethods *methods = Py_TYPE(value)->tp_as_number;
        /* What __float__ itself raised is the user's own error and stays. */
        if (methods == NULL || (methods->nb_float == NULL && methods->nb_index == NULL)) {
            type_error(name, index, "a real number", value);
        } else if (PyErr_ExceptionMatches(PyExc_OverflowError) && PyLong_Check(value)) {
            nc_conversion_error(PyExc_OverflowError, name, index,
                                "is an int too large for a double");
        }
        return -1;
    }
    whole.real = number;
    if (isinf(number) && has_overflowed(name, index, value, whole)) {
        return -1;
    }
    *out = number;
    return 0;
}

int nc_convert_long_double(PyObject *name, Py_ssize_t index, PyObject *value, long double *out)
{
    long double parts[2];
    double number;
    int count = long_doubles_in(value, parts);
    if (count < 0) {
        return -1;
    }
    if (count == 1) {
        *out = parts[0];
        return 0;
    }
    if (nc_convert_double(name, index, value, &number) < 0) {
        return -1;
    }
    *out = (long double)number;
    return 0;
}

int nc_convert_complex(PyObject *name, Py_ssize_t index, PyObject *value, double _Complex *out)
{
    Py_complex number;
    if (PyComplex_CheckExact(value)) {
        number = ((PyComplexObject *)(void *)value)->cval;
    } else {
        number = PyComplex_AsCComplex(value);
        if (number.real == -1.0 && PyErr_Occurred()) {
            /* Read here: __complex__ may give the value another class, and the old one go. */
            PyNumberMethods *methods = Py_TYPE(value)->tp_as_number;
            if (PyErr_ExceptionMatches(PyExc_TypeError) &&
                (methods == NULL || (methods->nb_float == NULL && methods->nb_index == NULL))) {
                type_error(name, index, "a complex number", value);
            } else if (PyErr_ExceptionMatches(PyExc_OverflowError) && PyLong_Check(value)) {
                nc_conversion_error(PyExc_OverflowError, name, index,
                                    "is an int too large for a double");
            }
            return -1;
        }
        if (has_overflowed(name, index, value, number)) {
            return -1;
        }
    }
    /* Not re + im * I: that loses signed zeros and infinities. */
    double parts[2] = {number.real, number.imag};
    memcpy(out, parts, sizeof(parts));
    return 0;
}

static const NcIntegerKind integer_kinds[] = {
    {'?', sizeof(_Bool), 0, 0, 1}, {'b', 1, 1, INT8_MIN, INT8_MAX},
    {'B', 1, 0, 0, UINT8_MAX},     {'h', 2, 1, INT16_MIN, INT16_MAX},
    {'H', 2, 0, 0, UINT16_MAX},    {'i', 4, 1, INT32_MIN, INT32_MAX},
    {'I', 4, 0, 0, UINT32_MAX},    {'q', 8, 1, INT64_MIN, INT64_MAX},
    {'Q', 8, 0, 0, UINT64_MAX},
};

const NcIntegerKind *nc_integer_kind(char code)
{
    for (size_t i = 0; i < sizeof(integer_kinds) / sizeof(integer_kinds[0]); i++) {
        if (integer_kinds[i].code == code) {
            return &integer_kinds[i];
        }
    }
    return NULL;
}

int nc_integer_fits(const NcIntegerKind *kind, PyObject *number, unsigned long long *bits)
{
    int overflow = 0;
    long long value = PyLong_AsLongLongAndOverflow(number, &overflow);
    if (value == -1 && overflow == 0 && PyErr_Occurred()) {
        return -1;
    }
    if (overflow > 0 && kind->high > (unsigned long long)LLONG_MAX) {
        *bits = PyLong_AsUnsignedLongLong(number);
        if (*bits == (unsigned long long)-1 && PyErr_Occurred()) {
            PyErr_Clear();
            return 0;
        }
        return 1;
    }
    if (overflow != 0 || value < kind->low ||
        (value >= 0 && (unsigned long long)value > kind->high)) {
        return 0;
    }
    *bits = (unsigned long long)value;
    return 1;
}

static void store_integer(const NcIntegerKind *kind, unsigned long long bits, void *out)
{
    switch (kind->size) {
    case 1: {
        uint8_t narrow = (uint8_t)bits;
        memcpy(out, &narrow, 1);
        break;
    }
    case 2: {
        uint16_t narrow = (uint16_t)bits;
        memcpy(out, &narrow, 2);
        break;
    }
    case 4: {
        uint32_t narrow = (uint32_t)bits;
        memcpy(out, &narrow, 4);
        break;
    }
    default: {
        uint64_t wide = (uint64_t)bits;
        memcpy(out, &wide, 8);
        break;
    }
    }
}

/* NumPy's bool is no integer to Python, but a scalar of one bool to whoever asks for its buffer. */
PyObject *nc_integer_of(PyObject *value)
{
    Py_buffer buffer;
    PyObject *found = NULL;
    if (PyIndex_Check(value)) {
        return PyNumber_Index(value);
    }
    if (!PyObject_CheckBuffer(value)) {
        return NULL;
    }
    if (PyObject_GetBuffer(value, &buffer, PyBUF_FULL_RO) < 0) {
        (void)nc_clear_refusal();
        return NULL;
    }
    if (buffer.ndim == 0 && nc_buffer_letter(&buffer) == '?') {
        found = PyBool_FromLong(*(const unsigned char *)buffer.buf != 0);
    }
    PyBuffer_Release(&buffer);
    return found;
}

char nc_value_letter(PyObject *value)
{
    Py_buffer buffer;
    char code = '\0';
    if (PyFloat_Check(value)) {
        return 'd';
    }
    if (PyBool_Check(value)) {
        return '?';
    }
    if (PyLong_Check(value)) {
        return 'q';
    }
    if (PyComplex_Check(value)) {
        return 'Z';
    }
    if (PyObject_CheckBuffer(value)) {
        if (PyObject_GetBuffer(value, &buffer, PyBUF_FULL_RO) < 0) {
            (void)nc_clear_refusal();
            return '\0';
        }
        if (buffer.ndim == 0) {
            code = nc_buffer_letter(&buffer);
        }
        PyBuffer_Release(&buffer);
        return code;
    }
    if (PyIndex_Check(value)) {
        return 'q';
    }
    if (Py_TYPE(value)->tp_as_number != NULL && Py_TYPE(value)->tp_as_number->nb_float != NULL) {
        return 'd';
    }
    return '\0';
}

int nc_convert_integer(PyObject *name, Py_ssize_t index, PyObject *value, char code, void *out)
{
    const NcIntegerKind *kind = nc_integer_kind(code);
    unsigned long long bits = 0;
    int fits;
    PyObject *number;
    number = nc_integer_of(value);
    if (number == NULL) {
        if (!PyErr_Occurred()) {
            type_error(name, index, "an integer", value);
        }
        return -1;
    }
    fits = nc_integer_fits(kind, number, &bits);
    if (fits == 0) {
        int huge = 0;
        (void)PyLong_AsLongLongAndOverflow(number, &huge);
        if (huge != 0) {
            nc_conversion_error(PyExc_OverflowError, name, index,
                                "is out of range for '%c' (%lld to %llu)", (int)code, kind->low,
                                kind->high);
        } else {
            nc_conversion_error(PyExc_OverflowError, name, index,
                                "is %S, out of range for '%c' (%lld to %llu)", number, (int)code,
                                kind->low, kind->high);
        }
    } else if (fits > 0) {
        store_integer(kind, bits, out);
    }
    Py_DECREF(number);
    return fits > 0 ? 0 : -1;
}

/* ---- other scalars --------------------------------------------------------------------------- */

#define ALIGNMENT(type)                                                                            \
    offsetof(                                                                                      \
        struct {                                                                                   \
            char first;                                                                            \
            type second;                                                                           \
        },                                                                                         \
        second)

size_t nc_scalar_alignment(char code)
{
    switch (code) {
    case 'f':
    case 'z':
        return ALIGNMENT(float);
    case 'd':
    case 'Z':
        return ALIGNMENT(double);
    case 'q':
    case 'Q':
        return ALIGNMENT(int64_t);
    case 'g':
    case 'Y':
        return ALIGNMENT(long double);
    default:
        return nc_scalar_size(code); /* of at most 4 bytes, or 0 */
    }
}

size_t nc_scalar_size(char code)
{
    const NcIntegerKind *kind = nc_integer_kind(code);
    if (kind != NULL) {
        return kind->size;
    }
    switch (code) {
    case 'e':
        return 2;
    case 'f':
        return sizeof(float);
    case 'd':
        return sizeof(double);
    case 'g':
        return sizeof(long double);
    case 'z':
        return sizeof(float _Complex);
    case 'Z':
        return sizeof(double _Complex);
    case 'Y':
        return sizeof(long double _Complex);
    default:
        return 0;
    }
}

int nc_float_overflow(PyObject *name, Py_ssize_t index)
{
    nc_conversion_error(PyExc_OverflowError, name, index,
                        "is out of range for 'f' (-3.4028235e+38 to 3.4028235e+38)");
    return -1;
}

/* Narrows numbers that are finite, infinite or nan and must stay so. */
static int store_floats(PyObject *name, Py_ssize_t index, const double *from, size_t count,
                        void *out)
{
    for (size_t i = 0; i < count; i++) {
        float narrow = (float)from[i];
        if (isinf(narrow) && !isinf(from[i])) {
            return nc_float_overflow(name, index);
        }
        memcpy((char *)out + i * sizeof(narrow), &narrow, sizeof(narrow));
    }
    return 0;
}

int nc_convert_scalar(PyObject *name, Py_ssize_t index, PyObject *value, char code, void *out)
{
    double real = 0.0;
    double parts[2] = {0.0, 0.0};
    long double wide[2] = {0.0L, 0.0L};
    double _Complex number = 0.0;
    int found;
    if (nc_integer_kind(code) != NULL) {
        return nc_convert_integer(name, index, value, code, out);
    }
    switch (code) {
    case 'e':
    case 'f':
    case 'd':
        if (nc_convert_double(name, index, value, &real) < 0) {
            return -1;
        }
        if (code == 'e') {
            if (PyFloat_Pack2(real, (char *)out, PY_LITTLE_ENDIAN) < 0) {
                nc_conversion_error(PyExc_OverflowError, name, index,
                                    "is out of range for 'e' (-65504 to 65504)");
                return -1;
            }
            return 0;
        }
        if (code == 'f') {
            return store_floats(name, index, &real, 1, out);
        }
        memcpy(out, &real, sizeof(real));
        return 0;
    case 'g':
        if (nc_convert_long_double(name, index, value, wide) < 0) {
            return -1;
        }
        memcpy(out, wide, sizeof(wide[0]));
        return 0;
    case 'z':
    case 'Z':
    case 'Y':
        if (code == 'Y' && (found = long_doubles_in(value, wide)) != 0) {
            memcpy(out, wide, sizeof(wide));
            return found < 0 ? -1 : 0;
        }
        if (nc_convert_complex(name, index, value, &number) < 0) {
            return -1;
        }
        memcpy(parts, &number, sizeof(parts));
        if (code == 'z') {
            return store_floats(name, index, parts, 2, out);
        } else if (code == 'Z') {
            memcpy(out, parts, sizeof(parts));
        } else {
            wide[0] = (long double)parts[0];
            wide[1] = (long double)parts[1];
            memcpy(out, wide, sizeof(wide));
        }
        return 0;
    default:
        PyErr_Format(PyExc_SystemError, "'%c' is not a scalar", (int)code);
        return -1;
    }
}

PyObject *nc_scalar_to_python(char code, const void *address)
{
    union {
        int8_t i8;
        uint8_t u8;
        int16_t i16;
        uint16_t u16;
        int32_t i32;
        uint32_t u32;
        int64_t i64;
        uint64_t u64;
        float f[2];
        double d[2];
        long double g[2];
    } value;
    size_t size = nc_scalar_size(code);
    if (size == 0) {
        PyErr_Format(PyExc_SystemError, "'%c' is not a scalar", (int)code);
        return NULL;
    }
    memcpy(&value, address, size);
    switch (code) {
    case '?':
        return PyBool_FromLong(value.u8 != 0);
    case 'b':
        return PyLong_FromLong(value.i8);
    case 'B':
        return PyLong_FromLong(value.u8);
    case 'h':
        return PyLong_FromLong(value.i16);
    case 'H':
        return PyLong_FromLong(value.u16);
    case 'i':
        return PyLong_FromLong(value.i32);
    case 'I':
        return PyLong_FromUnsignedLong(value.u32);
    case 'q':
        return PyLong_FromLongLong(value.i64);
    case 'Q':
        return PyLong_FromUnsignedLongLong(value.u64);
    case 'e': {
        double wide = PyFloat_Unpack2((const char *)address, PY_LITTLE_ENDIAN);
        return wide == -1.0 && PyErr_Occurred() ? NULL : PyFloat_FromDouble(wide);
    }
    case 'f':
        return PyFloat_FromDouble((double)value.f[0]);
    case 'd':
        return PyFloat_FromDouble(value.d[0]);
    case 'g':
        return PyFloat_FromDouble((double)value.g[0]);
    case 'z':
        return PyComplex_FromDoubles((double)value.f[0], (double)value.f[1]);
    case 'Z':
        return PyComplex_FromDoubles(value.d[0], value.d[1]);
    default:
        return PyComplex_FromDoubles((double)value.g[0], (double)value.g[1]);
    }
}

/* ---- pointers -------------------------------------------------------------------------------- */

/* The letter (as in a plan) of a buffer's element format, 0 when it is no single scalar. */
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
        return format[1] == 'f' ? 'z' : format[1] == 'd' ? 'Z' : format[1] == 'g' ? 'Y' : '\0';
    }
    if (format[0] == '\0' || format[1] != '\0') {
        return '\0';
    }
    code = format[0];
    switch (code) {
    case 'c':
        return 'b';
    case '?':
    case 'e':
    case 'f':
    case 'd':
    case 'g':
        return code;
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q':
    case 'n':
        is_signed = 1;
        break;
    case 'B':
    case 'H':
    case 'I':
    case 'L':
    case 'Q':
    case 'N':
        is_signed = 0;
        break;
    default:
        return '\0';
    }
    switch (buffer->itemsize) {
    case 1:
        return is_signed ? 'b' : 'B';
    case 2:
        return is_signed ? 'h' : 'H';
    case 4:
        return is_signed ? 'i' : 'I';
    case 8:
        return is_signed ? 'q' : 'Q';
    default:
        return '\0';
    }
}

/* Whether a buffer is the inside of a box that holds one pointer: ctypes exports the memory of its
 * pointer objects, where the address is, not what they point to. */
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

/* Whether a format has Python objects in it, whose references C code would know nothing of. Names
 * of fields stand between colons; a pointer to an object is no object. */
static int holds_objects(const char *format)
{
    int named = 0;
    int pointee = 0;
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

/* An array of structs, or bytes that hold a whole number of them. */
static int holds_structs(const NcPlan *plan, Py_ssize_t index, PyObject *value,
                         const Py_buffer *buffer)
{
    size_t size = plan->pointee_sizes[index];
    char found = nc_buffer_letter(buffer);
    PyObject *answer;
    int truth;
    if (found != '\0' || size == 0) {
        return (found == 'B' || found == 'b') && size != 0 && (size_t)buffer->len % size == 0;
    }
    answer =
        PyObject_CallFunction(nc_hooks.struct_buffer, "OOsn", PyTuple_GET_ITEM(plan->types, index),
                              value, buffer->format, buffer->itemsize);
    if (answer == NULL) {
        return -1;
    }
    truth = PyObject_IsTrue(answer);
    Py_DECREF(answer);
    return truth;
}

/* char, signed and unsigned, is bytes of any kind; void is anything but objects. */
int nc_buffer_suits(const NcPlan *plan, Py_ssize_t index, PyObject *value, const Py_buffer *buffer)
{
    char wanted = plan->pointees[index];
    char found;
    if (holds_objects(buffer->format)) {
        return 0;
    }
    if (wanted == 'v') {
        return 1;
    }
    if (wanted == 'T') {
        return holds_structs(plan, index, value, buffer);
    }
    found = nc_buffer_letter(buffer);
    if (wanted == 'b' || wanted == 'B') {
        return found != '\0' && buffer->itemsize == 1;
    }
    return wanted != '\0' && found == wanted;
}

int nc_buffer_is_short(const NcPlan *plan, Py_ssize_t index, const Py_buffer *buffer)
{
    size_t size = plan->pointee_sizes[index];
    return size != 0 && (size_t)buffer->len / size < plan->counts[index];
}

static void short_error(const NcPlan *plan, PyObject *name, Py_ssize_t place, Py_ssize_t index,
                        const Py_buffer *buffer)
{
    PyObject *pointer = PyTuple_GET_ITEM(plan->types, index);
    PyObject *array = PyObject_GetAttrString(pointer, "pointee");
    PyObject *item = array != NULL ? PyObject_GetAttrString(array, "item") : NULL;
    if (item != NULL) {
        nc_conversion_error(PyExc_ValueError, name, place,
                            "must be a buffer of at least %zu items of '%S' (got %zu)",
                            plan->counts[index], item,
                            (size_t)buffer->len / plan->pointee_sizes[index]);
    }
    Py_XDECREF(item);
    Py_XDECREF(array);
}

int nc_buffer_is_aligned(const NcPlan *plan, Py_ssize_t index, const Py_buffer *buffer)
{
    return ((uintptr_t)buffer->buf & plan->exports[index].mask) == 0 || buffer->len == 0;
}

/* `place` is `index` where `name` is a callable's, -1 where it is the whole subject. */
static void buffer_error(const NcPlan *plan, PyObject *name, Py_ssize_t place, Py_ssize_t index,
                         PyObject *value)
{
    Py_buffer buffer;
    PyObject *type = PyTuple_GET_ITEM(plan->types, index);
    PyTypeObject *class_;
    int suits;
    if (PyObject_GetBuffer(value, &buffer, PyBUF_FULL_RO) < 0) {
        if (nc_clear_refusal()) {
            type_error(name, place, "an object with a readable buffer", value);
        }
        return;
    }
    suits = nc_buffer_suits(plan, index, value, &buffer);
    /* Held: to write '%S' runs Python code, and the value may get another class meanwhile. */
    class_ = (PyTypeObject *)(void *)Py_NewRef(Py_TYPE(value));
    if (suits == 0) {
        nc_conversion_error(PyExc_TypeError, name, place,
                            "must be a buffer that suits '%S' (got '%s' elements in %.200s)", type,
                            buffer.format != NULL ? buffer.format : "B", class_->tp_name);
    } else if (suits > 0 && !PyBuffer_IsContiguous(&buffer, 'C')) {
        nc_conversion_error(PyExc_ValueError, name, place,
                            "must be C-contiguous, this %.200s is not; pass a contiguous copy",
                            class_->tp_name);
    } else if (suits > 0) {
        nc_conversion_error(
            PyExc_ValueError, name, place,
            "must be writable, this %.200s is read-only; a C declaration with const "
            "makes the argument read-only",
            class_->tp_name);
    }
    Py_DECREF(class_);
    PyBuffer_Release(&buffer);
}

int nc_convert_exporter(const NcPlan *plan, PyObject *name, Py_ssize_t place, PyObject *value,
                        NcPointer *out, int exported)
{
    Py_ssize_t index = place < 0 ? 0 : place;
    int boxed;
    int suits;
    int ran;
    if (!exported) {
        out->buffer.obj = NULL;
        if (nc_clear_refusal()) {
            buffer_error(plan, name, place, index, value);
        }
        return -1;
    }
    /* A __buffer__ in Python, or the hook that is asked about structs. */
    ran = out->buffer.obj != value || plan->pointees[index] == 'T';
    boxed = nc_buffer_is_pointer(&out->buffer);
    suits = boxed ? 0 : nc_buffer_suits(plan, index, value, &out->buffer);
    if (suits > 0 && nc_buffer_is_short(plan, index, &out->buffer)) {
        short_error(plan, name, place, index, &out->buffer);
    } else if (suits > 0 && !nc_buffer_is_aligned(plan, index, &out->buffer)) {
        nc_conversion_error(PyExc_ValueError, name, place,
                            "must have its elements at multiples of %zu bytes, those of this "
                            "%.200s are not; pass an aligned copy, as numpy.require(a, "
                            "requirements='A') makes one of an array",
                            plan->exports[index].mask + 1, Py_TYPE(value)->tp_name);
    } else if (suits > 0) {
        out->address = out->buffer.buf;
        return ran;
    }
    PyBuffer_Release(&out->buffer);
    out->buffer.obj = NULL;
    if (boxed) {
        return nc_convert_box(plan, name, place, value, out);
    }
    if (suits == 0) {
        buffer_error(plan, name, place, index, value);
    }
    return -1;
}

int nc_convert_box(const NcPlan *plan, PyObject *name, Py_ssize_t place, PyObject *value,
                   NcPointer *out)
{
    PyObject *found;
    PyObject *number = PyLong_FromSsize_t(place);
    if (number == NULL) {
        return -1;
    }
    found = PyObject_CallFunctionObjArgs(nc_hooks.pointer_argument,
                                         PyTuple_GET_ITEM(plan->types, place < 0 ? 0 : place),
                                         value, name, number, NULL);
    Py_DECREF(number);
    if (found == NULL) {
        return -1;
    }
    out->address = PyLong_AsVoidPtr(PyTuple_GET_ITEM(found, 0));
    if (out->address == NULL && PyErr_Occurred()) {
        Py_DECREF(found);
        return -1;
    }
    out->keep = found;
    return 1;
}

/* Whether an object's own elements are what is wanted, told by a glance; 0 says nothing. */
static inline int is_plainly(const NcExport *wanted, PyObject *value, const Py_buffer *buffer)
{
    const char *format = buffer->format;
    return format != NULL && wanted->format != '\0' && format[0] == wanted->format &&
           format[1] == '\0' && buffer->itemsize == wanted->size &&
           ((uintptr_t)buffer->buf & wanted->mask) == 0 && buffer->obj == value;
}

int nc_convert_pointer_of(const NcPlan *plan, PyObject *name, Py_ssize_t index, PyObject *value,
                          NcPointer *out)
{
    const PyBufferProcs *exporter = Py_TYPE(value)->tp_as_buffer;
    Py_ssize_t argument = index < 0 ? 0 : index;
    int flags = plan->exports[argument].flags;
    int exported;
    if (value == Py_None) {
        out->address = NULL;
        return 0;
    }
    if (plan->pointees[argument] == '\0' || exporter == NULL || exporter->bf_getbuffer == NULL) {
        return nc_convert_box(plan, name, index, value, out);
    }
    if (flags == 0) {
        /* bytes can stand for a string whatever the declaration said: plain C has char * for
         * both. */
        flags = PyBytes_Check(value) ? NC_EXPORT : NC_EXPORT | PyBUF_WRITABLE;
    }
    exported = exporter->bf_getbuffer(value, &out->buffer, flags) == 0;
    if (exported && is_plainly(&plan->exports[argument], value, &out->buffer)) {
        out->address = out->buffer.buf;
        return 0;
    }
    return nc_convert_exporter(plan, name, index, value, out, exported);
}

int nc_convert_pointer(NcCallable *self, Py_ssize_t index, PyObject *value, NcPointer *out)
{
    const NcPlan *plan = self->plan;
    const NcExport *wanted = &plan->exports[index];
    const PyBufferProcs *exporter = Py_TYPE(value)->tp_as_buffer;
    if (NC_UNLIKELY(wanted->flags == 0 || exporter == NULL || exporter->bf_getbuffer == NULL)) {
        return nc_convert_pointer_of(plan, self->name, index, value, out);
    }
    int status = exporter->bf_getbuffer(value, &out->buffer, wanted->flags);
    if (NC_LIKELY(status == 0 && is_plainly(wanted, value, &out->buffer))) {
        out->address = out->buffer.buf;
        return 0;
    }
    return nc_convert_exporter(self->plan, self->name, index, value, out, status == 0);
}

int nc_convert_pointer_on(NcCallable *self, Py_ssize_t index, PyObject *value, NcPointer *out,
                          size_t before)
{
    int exported = out->buffer.obj != NULL;
    int status;
    if (!exported && !PyErr_Occurred()) {
        status = nc_convert_pointer_of(self->plan, self->name, index, value, out);
    } else {
        status = nc_convert_exporter(self->plan, self->name, index, value, out, exported);
    }
    if (status >= 0) {
        out->buffer.buf = out->address;
    }
    return status > 0 ? nc_check_unmoved(self->name, out - before, before) : status;
}

/* ---- Python functions that C calls ----------------------------------------------------------- */

static unsigned long long stashed; /* exceptions so far */

void nc_stash_put(NcStash *self, PyObject *exception, PyObject *object)
{
    if (self->closed || self->exception != NULL) {
        nc_exception_report(exception, object);
    } else {
        self->exception = exception;
        self->order = stashed++;
    }
}

/* put(exception): the Python function raised it, or returned what does not convert. */
static PyObject *stash_put(PyObject *object, PyObject *exception)
{
    if (!PyExceptionInstance_Check(exception)) {
        PyErr_SetString(PyExc_TypeError, "put() takes an exception");
        return NULL;
    }
    nc_stash_put((NcStash *)(void *)object, Py_NewRef(exception), NULL);
    Py_RETURN_NONE;
}

/* Reports the exception that nothing will raise. Another one may be on its way meanwhile. */
static void stash_report(NcStash *self)
{
    PyObject *exception = self->exception;
    self->exception = NULL;
    if (exception != NULL) {
        nc_exception_report(exception, NULL);
    }
}

static void stash_finalize(PyObject *object)
{
    stash_report((NcStash *)(void *)object);
}

/* An exception's traceback leads to the frame that holds the stash: a cycle. */
static int stash_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(((NcStash *)(void *)object)->exception);
    return 0;
}

static int stash_clear(PyObject *object)
{
    Py_CLEAR(((NcStash *)(void *)object)->exception);
    return 0;
}

static void stash_dealloc(PyObject *object)
{
    if (PyObject_CallFinalizerFromDealloc(object) < 0) {
        return;
    }
    PyObject_GC_UnTrack(object);
    (void)stash_clear(object);
    Py_TYPE(object)->tp_free(object);
}

static NcStash *stash_of(const NcPointer *pointer)
{
    PyObject *keep = pointer->keep;
    if (keep == NULL || PyTuple_GET_SIZE(keep) < 3 ||
        !Py_IS_TYPE(PyTuple_GET_ITEM(keep, 2), &NcStash_Type)) {
        return NULL;
    }
    return (NcStash *)(void *)PyTuple_GET_ITEM(keep, 2);
}

void nc_stash_close(const NcPointer *pointer, PyObject **first)
{
    NcStash *stash;
    if (pointer->keep != NULL && PyList_CheckExact(pointer->keep)) {
        nc_pins_close(pointer->keep, first);
        return;
    }
    stash = stash_of(pointer);
    if (stash == NULL) {
        return;
    }
    stash->closed = 1;
    if (stash->exception == NULL) {
        return;
    }
    if (*first != NULL && ((NcStash *)(void *)*first)->order < stash->order) {
        stash_report(stash);
        return;
    }
    if (*first != NULL) {
        stash_report((NcStash *)(void *)*first);
    }
    Py_XSETREF(*first, Py_NewRef((PyObject *)stash));
}

void nc_stash_end(const NcPointer *pointer)
{
    PyObject *none = NULL;
    nc_stash_close(pointer, &none); /* C has not seen the function yet */
}

PyObject *nc_stash_raise(PyObject *value, PyObject *first)
{
    NcStash *stash = (NcStash *)(void *)first;
    PyObject *exception;
    if (first == NULL) {
        return value;
    }
    exception = stash->exception;
    stash->exception = NULL;
    if (exception == NULL) {
        Py_DECREF(first); /* somebody called __del__, which has reported it */
        return value;
    }
    Py_XDECREF(value);
    /* What the call itself raised came of the zero that it got. */
    if (PyErr_Occurred()) {
        PyErr_WriteUnraisable(NULL);
    }
    nc_exception_put(exception);
    Py_DECREF(first);
    return NULL;
}

static PyMethodDef stash_methods[] = {
    {"put", stash_put, METH_O, "put(exception): keeps the first, reports the others"},
    {NULL, NULL, 0, NULL},
};

PyTypeObject NcStash_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "nativecall._types.Stash",
    .tp_doc = "Keeps the first exception of a Python function that C calls, until C returns.",
    .tp_basicsize = sizeof(NcStash),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = PyType_GenericNew,
    .tp_traverse = stash_traverse,
    .tp_clear = stash_clear,
    .tp_finalize = stash_finalize,
    .tp_dealloc = stash_dealloc,
    .tp_methods = stash_methods,
};

PyObject *nc_pointer_to_python(NcCallable *self, void *address)
{
    NcPlan *plan = self->plan;
    if (address == NULL) {
        Py_RETURN_NONE;
    }
    if (plan->pointer_type == NULL) {
        PyObject *found =
            PyObject_CallOneArg(nc_hooks.pointer_type, PyTuple_GET_ITEM(plan->types, plan->nargs));
        if (found == NULL) {
            return NULL;
        }
        nc_keep_first(&plan->pointer_type, found);
    }
    return nc_cffi_pointer(address, plan->pointer_type);
}
