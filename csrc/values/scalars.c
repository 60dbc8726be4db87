/* csrc/values/scalars.c: the checked conversions of scalars.h. */
#include "scalars.h"

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

void nc_conversion_type_error(PyObject *name, Py_ssize_t index, const char *wanted, PyObject *value)
{
    nc_conversion_error(PyExc_TypeError, name, index, "must be %s (got %.200s)", wanted,
                        Py_TYPE(value)->tp_name);
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
            nc_conversion_type_error(name, index, "a real number", value);
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
                nc_conversion_type_error(name, index, "a complex number", value);
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
            nc_conversion_type_error(name, index, "an integer", value);
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

/* Whether a long double would become infinite as a double; then with an exception. */
static int is_too_large(long double value)
{
    if (NC_LIKELY(!isinf((double)value) || isinf(value))) {
        return 0;
    }
    PyErr_SetString(PyExc_OverflowError, "a long double that C code gave is out of range for a "
                                         "Python float (-1.7976931348623157e+308 to "
                                         "1.7976931348623157e+308)");
    return 1;
}

PyObject *nc_long_double_to_python(long double value)
{
    return is_too_large(value) ? NULL : PyFloat_FromDouble((double)value);
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
        return nc_long_double_to_python(value.g[0]);
    case 'z':
        return PyComplex_FromDoubles((double)value.f[0], (double)value.f[1]);
    case 'Z':
        return PyComplex_FromDoubles(value.d[0], value.d[1]);
    default:
        if (is_too_large(value.g[0]) || is_too_large(value.g[1])) {
            return NULL;
        }
        return PyComplex_FromDoubles((double)value.g[0], (double)value.g[1]);
    }
}
