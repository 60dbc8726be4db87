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

#define INTEGER_KIND(code, name, type, kind, low, high)                                            \
    {code, sizeof(type), NC_IS_SIGNED_##kind, low, high},
static const NcIntegerKind integer_kinds[] = {NC_INTEGERS(INTEGER_KIND)};

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
#define STORE(letter, name, type, ...)                                                             \
    case letter: {                                                                                 \
        type narrow = (type)bits;                                                                  \
        memcpy(out, &narrow, sizeof(narrow));                                                      \
        break;                                                                                     \
    }
    switch (kind->code) {
        NC_INTEGERS(STORE)
    default:
        break;
    }
#undef STORE
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

char nc_part_letter(char code)
{
#define PART(letter, part, ...)                                                                    \
    case letter:                                                                                   \
        return part;
    switch (code) {
        NC_COMPLEXES(PART)
    default:
        return code;
    }
#undef PART
}

size_t nc_scalar_alignment(char code)
{
    size_t size = 0;
    size_t alignment = 0;
    (void)nc_scalar_layout(nc_part_letter(code), &size, &alignment);
    return alignment;
}

size_t nc_scalar_size(char code)
{
    size_t size = 0;
    size_t alignment = 0;
    char part = nc_part_letter(code);
    (void)nc_scalar_layout(part, &size, &alignment);
    return part == code ? size : 2 * size;
}

int nc_float_overflow(PyObject *name, Py_ssize_t index)
{
    nc_conversion_error(PyExc_OverflowError, name, index,
                        "is out of range for 'f' (-3.4028235e+38 to 3.4028235e+38)");
    return -1;
}

/* store_X(name, index, number, out): a number that is finite, infinite or nan, as a float that is
 * the same. 0, or -1 with OverflowError. */
static int store_half(PyObject *name, Py_ssize_t index, double number, void *out)
{
    if (PyFloat_Pack2(number, (char *)out, PY_LITTLE_ENDIAN) < 0) {
        nc_conversion_error(PyExc_OverflowError, name, index,
                            "is out of range for 'e' (-65504 to 65504)");
        return -1;
    }
    return 0;
}

static int store_float(PyObject *name, Py_ssize_t index, double number, void *out)
{
    float narrow = (float)number;
    if (isinf(narrow) && !isinf(number)) {
        return nc_float_overflow(name, index);
    }
    memcpy(out, &narrow, sizeof(narrow));
    return 0;
}

static int store_double(PyObject *Py_UNUSED(name), Py_ssize_t Py_UNUSED(index), double number,
                        void *out)
{
    memcpy(out, &number, sizeof(number));
    return 0;
}

static int store_longdouble(PyObject *Py_UNUSED(name), Py_ssize_t Py_UNUSED(index), double number,
                            void *out)
{
    long double wide = (long double)number;
    memcpy(out, &wide, sizeof(wide));
    return 0;
}

static int store_real(PyObject *name, Py_ssize_t index, double number, char code, void *out)
{
#define STORE(letter, type_name, ...)                                                              \
    case letter:                                                                                   \
        return store_##type_name(name, index, number, out);
    switch (code) {
        NC_FLOATS(STORE)
    default:
        PyErr_Format(PyExc_SystemError, "'%c' is not a scalar", (int)code);
        return -1;
    }
#undef STORE
}

int nc_convert_scalar(PyObject *name, Py_ssize_t index, PyObject *value, char code, void *out)
{
    char part = nc_part_letter(code);
    double parts[2] = {0.0, 0.0};
    long double wide[2] = {0.0L, 0.0L};
    double _Complex number = 0.0;
    size_t size = 0;
    size_t alignment = 0;
    int found = 0;
    if (nc_integer_kind(code) != NULL) {
        return nc_convert_integer(name, index, value, code, out);
    }
    if (part == 'g') {
        /* What a double does not hold. */
        found = long_doubles_in(value, wide);
        if (found < 0) {
            return -1;
        }
        if (found == 1 || (found == 2 && part != code)) {
            memcpy(out, wide, nc_scalar_size(code));
            return 0;
        }
    }
    if (part == code) {
        return nc_convert_double(name, index, value, parts) < 0
                   ? -1
                   : store_real(name, index, parts[0], code, out);
    }
    if (nc_convert_complex(name, index, value, &number) < 0) {
        return -1;
    }
    memcpy(parts, &number, sizeof(parts));
    (void)nc_scalar_layout(part, &size, &alignment);
    return store_real(name, index, parts[0], part, out) < 0
               ? -1
               : store_real(name, index, parts[1], part, (char *)out + size);
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

/* What a float in memory is as a double; a long double may be too large, which is asked before. */
static double load_half(const void *address)
{
    return PyFloat_Unpack2((const char *)address, PY_LITTLE_ENDIAN);
}

#define LOAD(name, type)                                                                           \
    static double load_##name(const void *address)                                                 \
    {                                                                                              \
        type value;                                                                                \
        memcpy(&value, address, sizeof(value));                                                    \
        return (double)value;                                                                      \
    }
LOAD(float, float)
LOAD(double, double)
LOAD(longdouble, long double)

/* Whether a float in memory would become infinite as a double; then with an exception. */
static int overflows(char code, const void *address)
{
    long double value;
    if (code != 'g') {
        return 0;
    }
    memcpy(&value, address, sizeof(value));
    return is_too_large(value);
}

#define TO_PYTHON_BOOL(value) PyBool_FromLong((value) != 0)
#define TO_PYTHON_SIGNED(value) PyLong_FromLongLong((long long)(value))
#define TO_PYTHON_UNSIGNED(value) PyLong_FromUnsignedLongLong((unsigned long long)(value))

PyObject *nc_scalar_to_python(char code, const void *address)
{
#define INTEGER(letter, name, type, kind, ...)                                                     \
    case letter: {                                                                                 \
        type value;                                                                                \
        memcpy(&value, address, sizeof(value));                                                    \
        return TO_PYTHON_##kind(value);                                                            \
    }
#define FLOAT(letter, name, ...)                                                                   \
    case letter:                                                                                   \
        return overflows(letter, address) ? NULL : PyFloat_FromDouble(load_##name(address));
#define COMPLEX(letter, part, name, type)                                                          \
    case letter: {                                                                                 \
        const char *second = (const char *)address + sizeof(type);                                 \
        return overflows(part, address) || overflows(part, second)                                 \
                   ? NULL                                                                          \
                   : PyComplex_FromDoubles(load_##name(address), load_##name(second));             \
    }
    switch (code) {
        NC_INTEGERS(INTEGER)
        NC_FLOATS(FLOAT)
        NC_COMPLEXES(COMPLEX)
    default:
        PyErr_Format(PyExc_SystemError, "'%c' is not a scalar", (int)code);
        return NULL;
    }
#undef INTEGER
#undef FLOAT
#undef COMPLEX
}

/* ---- the table for Python -------------------------------------------------------------------- */

/* Digits of the mantissa of a float; of an integer those beside its sign. */
static int digits_of(char code)
{
#define DIGITS(letter, name, type, c_name, digits, ...)                                            \
    case letter:                                                                                   \
        return digits;
    switch (code) {
        NC_FLOATS(DIGITS)
    case '?':
        return 1;
    default:
        return (int)(8 * nc_scalar_size(code)) - nc_scalar_is_signed(code);
    }
#undef DIGITS
}

/* A row of it; of complex numbers the C type of the parts. */
static PyObject *scalar_row(char letter, char part, const char *c_name)
{
    static const char *const kinds[] = {
        [NC_KIND_BOOL] = "bool", [NC_KIND_INT] = "int", [NC_KIND_FLOAT] = "float"};
    int is_complex = letter != part;
    const char *before = is_complex ? "Z" : "";
    char canonical = nc_scalar_canonical(part);
    size_t size = 0;
    size_t alignment = 0;
    int kind = nc_scalar_layout(canonical, &size, &alignment);
    return Py_BuildValue(
        "NNCsNnniO", PyUnicode_FromFormat("%s%c", before, part),
        PyUnicode_FromFormat("%s%c", before, canonical), letter,
        is_complex ? "complex" : kinds[kind],
        PyUnicode_FromFormat("%s%s", c_name, is_complex ? " _Complex" : ""),
        (Py_ssize_t)(is_complex ? 2 * size : size), (Py_ssize_t)alignment, digits_of(canonical),
        kind == NC_KIND_FLOAT || nc_scalar_is_signed(canonical) ? Py_True : Py_False);
}

PyObject *nc_scalars(void)
{
#define C_NAME_BOOL(type) "bool"
#define C_NAME_SIGNED(type) type
#define C_NAME_UNSIGNED(type) type
#define INTEGER(code, name, type, kind, ...) {code, code, C_NAME_##kind(#type)},
#define FLOAT(code, name, type, c_name, ...) {code, code, c_name},
#define COMPLEX(letter, part, name, type) {letter, part, #type},
    static const struct {
        char letter;
        char part;
        const char *c_name;
    } rows[] = {NC_INTEGERS(INTEGER) NC_FLOATS(FLOAT) NC_COMPLEXES(COMPLEX){'c', 'c', ""},
                {'l', 'l', ""},
                {'L', 'L', ""},
                {'n', 'n', ""},
                {'N', 'N', ""}};
#undef INTEGER
#undef FLOAT
#undef COMPLEX
    enum { COUNT = sizeof(rows) / sizeof(rows[0]) };
    PyObject *table = PyTuple_New(COUNT);
    for (Py_ssize_t i = 0; table != NULL && i < COUNT; i++) {
        PyObject *row = scalar_row(rows[i].letter, rows[i].part, rows[i].c_name);
        if (row == NULL) {
            Py_CLEAR(table);
            break;
        }
        PyTuple_SET_ITEM(table, i, row);
    }
    return table;
}
