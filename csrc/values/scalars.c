/* csrc/values/scalars.c: implements scalars.h. */
#include "scalars.h"

#include "core/cffipointer.h"

#include "cffitypes.h"
#include "names.h"

#include <limits.h>
#include <stdarg.h>
#include <string.h>

PyObject *nc_conversion_subject(PyObject *name, Py_ssize_t index)
{
    PyObject *text = nc_name(name);
    if (index < 0 || text == NULL) {
        return Py_XNewRef(text);
    }
    return PyUnicode_FromFormat("argument %zd of '%U'", index + 1, text);
}

void nc_conversion_error(PyObject *exception, PyObject *name, Py_ssize_t index, const char *format,
                         ...)
{
    va_list arguments;
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_MemoryError)) {
        return; /* keep it: the value is not the cause */
    }
    PyErr_Clear();
    va_start(arguments, format);
    PyObject *what = PyUnicode_FromFormatV(format, arguments);
    va_end(arguments);
    PyObject *who = what != NULL ? nc_conversion_subject(name, index) : NULL;
    if (who != NULL) {
        PyErr_Format(exception, "%U %U", who, what);
    }
    Py_XDECREF(who);
    Py_XDECREF(what);
}

void nc_conversion_note(PyObject *name, Py_ssize_t index)
{
    PyObject *raised = nc_exception_take();
    PyObject *who = nc_conversion_subject(name, index);
    PyObject *done = who != NULL ? PyObject_CallMethod(raised, "add_note", "O", who) : NULL;
    Py_XDECREF(done);
    Py_XDECREF(who);
    PyErr_Clear();
    nc_exception_put(raised);
}

void nc_conversion_type_error(PyObject *name, Py_ssize_t index, const char *wanted, PyObject *value)
{
    nc_conversion_error(PyExc_TypeError, name, index, "must be %s (got %.200s)", wanted,
                        Py_TYPE(value)->tp_name);
}

/* If a value's buffer holds a single number, copy the number to `memory`, which has room for any
 * scalar, and return the number's letter. Otherwise return 0, perhaps with an exception. */
static char number_in(PyObject *value, void *memory)
{
    Py_buffer buffer;
    char letter = '\0';
    if (!PyObject_CheckBuffer(value)) {
        return letter;
    }
    if (PyObject_GetBuffer(value, &buffer, PyBUF_FULL_RO) < 0) {
        (void)nc_clear_refusal();
        return letter;
    }
    if (buffer.ndim == 0 && (letter = nc_buffer_letter(&buffer)) != '\0') {
        memcpy(memory, buffer.buf, nc_scalar_size(letter));
    }
    PyBuffer_Release(&buffer);
    return letter;
}

/* Read a long double, or both parts of a long double complex, real part first. Python floats cannot
 * hold such numbers. Return the number of parts, 0 for other values, or -1 with an exception. */
static int long_doubles_in(PyObject *value, long double parts[2])
{
    const PyNumberMethods *methods = Py_TYPE(value)->tp_as_number;
    if (PyFloat_Check(value) || PyLong_Check(value) || PyComplex_Check(value) || methods == NULL ||
        methods->nb_float == NULL) {
        return 0;
    }
    if (nc_is_cdata(value)) {
        if (nc_cffi_long_double(value, parts) == 0) {
            return 1;
        }
        PyErr_Clear(); /* not a number: the normal conversion reports it */
        return 0;
    }
    char letter = number_in(value, parts);
    return letter == 'g' ? 1 : letter == 'Y' ? 2 : letter == '\0' && PyErr_Occurred() ? -1 : 0;
}

/* Return 1 with OverflowError if the finite `value` became infinite when converted to `number`.
 * Return 1 with another exception if the check fails, otherwise 0. */
static int has_overflowed(PyObject *name, Py_ssize_t index, PyObject *value, Py_complex number)
{
    long double parts[2] = {0.0L, 0.0L};
    if (!isinf(number.real) && !isinf(number.imag)) {
        return 0;
    }
    int count = long_doubles_in(value, parts);
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

/* If the value is an array, replace the current exception by an error that asks for a number.
 * Otherwise keep the current exception. */
static void no_array(PyObject *name, Py_ssize_t index, const char *wanted, PyObject *value)
{
    Py_buffer buffer;
    PyObject *raised = nc_exception_take();
    int dimensions = 0;
    if (PyObject_GetBuffer(value, &buffer, PyBUF_FULL_RO) == 0) {
        dimensions = buffer.ndim;
        PyBuffer_Release(&buffer);
    }
    nc_exception_put(raised);
    if (dimensions > 0) {
        nc_conversion_error(
            PyExc_TypeError, name, index, "must be %s (got an array of %d dimension%s)%s", wanted,
            dimensions, dimensions == 1 ? "" : "s",
            index < 0 ? "" : "; to_ufunc() takes arrays if all arguments are numbers");
    }
}

/* Raise the error for a value that cannot be converted to double. Keep an exception that one of the
 * value's own methods raised. */
static void no_number(PyObject *name, Py_ssize_t index, const char *wanted, PyObject *value)
{
    /* Read late: __complex__ may have changed the value's class. */
    const PyNumberMethods *methods = Py_TYPE(value)->tp_as_number;
    if (PyErr_ExceptionMatches(PyExc_TypeError) &&
        (methods == NULL || (methods->nb_float == NULL && methods->nb_index == NULL))) {
        nc_conversion_type_error(name, index, wanted, value);
    } else if (PyErr_ExceptionMatches(PyExc_TypeError) && PyObject_CheckBuffer(value)) {
        no_array(name, index, wanted, value);
    } else if (PyErr_ExceptionMatches(PyExc_OverflowError) && PyLong_Check(value)) {
        nc_conversion_error(PyExc_OverflowError, name, index, "is an int too large for a double");
    }
}

int nc_convert_double(PyObject *name, Py_ssize_t index, PyObject *value, double *out)
{
    Py_complex whole = {0.0, 0.0};
    double number = PyFloat_AsDouble(value);
    if (number == -1.0 && PyErr_Occurred()) {
        no_number(name, index, "a real number", value);
        return -1;
    }
    whole.real = number;
    if (isinf(number) && has_overflowed(name, index, value, whole)) {
        return -1;
    }
    *out = number;
    return 0;
}

static int convert_complex(PyObject *name, Py_ssize_t index, PyObject *value, double parts[2])
{
    Py_complex number;
    if (PyComplex_CheckExact(value)) {
        number = ((PyComplexObject *)(void *)value)->cval;
    } else {
        number = PyComplex_AsCComplex(value);
        if (number.real == -1.0 && PyErr_Occurred()) {
            no_number(name, index, "a complex number", value);
            return -1;
        }
        if (has_overflowed(name, index, value, number)) {
            return -1;
        }
    }
    parts[0] = number.real;
    parts[1] = number.imag;
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

/* NumPy's bool and ctypes integers have no __index__, but export a buffer with one number. cffi
 * integers have neither __index__ nor a buffer. */
PyObject *nc_integer_of(PyObject *value)
{
    long double memory[2];
    if (PyIndex_Check(value)) {
        return PyNumber_Index(value);
    }
    char letter = number_in(value, memory);
    if (letter == '?') {
        return PyBool_FromLong(*(const unsigned char *)memory != 0);
    }
    if (letter != '\0') {
        return nc_integer_kind(letter) != NULL ? nc_scalar_to_python(letter, memory) : NULL;
    }
    return PyErr_Occurred() ? NULL : nc_integer_of_cffi(value);
}

char nc_value_letter(PyObject *value)
{
    long double memory[2];
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
        return number_in(value, memory);
    }
    if (PyIndex_Check(value)) {
        return 'q';
    }
    if (Py_TYPE(value)->tp_as_number == NULL || Py_TYPE(value)->tp_as_number->nb_float == NULL) {
        return '\0';
    }
    /* All cffi objects have nb_float, but only objects of the base class can be numbers. */
    if (nc_is_cdata(value) &&
        (Py_TYPE(value)->tp_base != &PyBaseObject_Type || nc_cffi_long_double(value, memory) < 0)) {
        PyErr_Clear();
        return '\0';
    }
    return 'd';
}

/* Return the C name of an integer code. */
static const char *own_name(char code)
{
    static const char *const names[] = {"?_Bool", "bsigned char",  "Bunsigned char", "hshort",
                                        "iint",   "Iunsigned int", "Hunsigned short"};
    for (size_t at = 0; at < Py_ARRAY_LENGTH(names); at++) {
        if (names[at][0] == code) {
            return names[at] + 1;
        }
    }
    if (sizeof(long) == sizeof(int64_t)) {
        return code == 'q' ? "long" : "unsigned long";
    }
    return code == 'q' ? "long long" : "unsigned long long";
}

int nc_convert_integer(PyObject *name, Py_ssize_t index, PyObject *value, char code, void *out)
{
    const NcIntegerKind *kind = nc_integer_kind(code);
    unsigned long long bits = 0;
    if (PyLong_Check(value)) { /* fast path; the code below reports ints out of range */
        int huge = 0;
        long long wide = PyLong_AsLongLongAndOverflow(value, &huge);
        if (huge == 0 && wide >= kind->low &&
            (wide < 0 || (unsigned long long)wide <= kind->high)) {
            nc_write_integer(code, (unsigned long long)wide, out);
            return 0;
        }
    }
    PyObject *number = nc_integer_of(value);
    if (number == NULL) {
        if (!PyErr_Occurred()) {
            int is_character =
                (code == 'b' || code == 'B') && (PyUnicode_Check(value) || PyBytes_Check(value));
            nc_conversion_type_error(
                name, index,
                is_character ? "an integer, such as ord() returns for a character" : "an integer",
                value);
        } else if (PyErr_ExceptionMatches(PyExc_TypeError) && PyObject_CheckBuffer(value)) {
            no_array(name, index, "an integer", value);
        }
        return -1;
    }
    int fits = nc_integer_fits(kind, number, &bits);
    if (fits == 0) {
        int huge = 0;
        (void)PyLong_AsLongLongAndOverflow(number, &huge);
        if (huge != 0) {
            nc_conversion_error(PyExc_OverflowError, name, index,
                                "is out of range for '%s' (%lld to %llu)", own_name(code),
                                kind->low, kind->high);
        } else {
            nc_conversion_error(PyExc_OverflowError, name, index,
                                "is %S, out of range for '%s' (%lld to %llu)", number,
                                own_name(code), kind->low, kind->high);
        }
    } else if (fits > 0) {
        nc_write_integer(code, bits, out);
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

/* The names and limits of a canonical code that is not complex. */
typedef struct {
    char code;
    unsigned char is_native;
    const char *c_name;
    const char *greatest;
} Row;

static const Row *row_of(char code)
{
#define C_NAME_BOOL(type) "bool"
#define C_NAME_SIGNED(type) type
#define C_NAME_UNSIGNED(type) type
#define IS_NATIVE_NATIVE 1
#define IS_NATIVE_BITS 0
#define INTEGER(code, name, type, kind, ...) {code, 1, C_NAME_##kind(#type), ""},
#define FLOAT(code, name, type, held, digits, exponent, greatest, steps, c_name)                   \
    {code, IS_NATIVE_##held, c_name, greatest},
    static const Row rows[] = {NC_INTEGERS(INTEGER) NC_FLOATS(FLOAT)};
#undef INTEGER
#undef FLOAT
    const Row *row = rows;
    while (row->code != code && row->code != 'g') {
        row++;
    }
    return row;
}

int nc_float_overflow(PyObject *name, Py_ssize_t index, char code)
{
    const Row *row = row_of(code);
    nc_conversion_error(PyExc_OverflowError, name, index, "is out of range for '%s' (-%s to %s)",
                        row->c_name, row->greatest, row->greatest);
    return -1;
}

/* Store a number. A finite number must stay finite when converted. Infinities and NaN are stored
 * unchanged. Return 0, or -1 with an exception and nothing written. */
static int store_real(PyObject *name, Py_ssize_t index, double number, char code, void *out)
{
#define STORE(letter, type_name, type, held, digits, ...)                                          \
    case letter: {                                                                                 \
        const type stored = NC_HELD_##held(type, number, digits);                                  \
        if (isinf(NC_NUMBER_##held(stored, digits)) && !isinf(number)) {                           \
            break;                                                                                 \
        }                                                                                          \
        memcpy(out, &stored, sizeof(stored));                                                      \
        return 0;                                                                                  \
    }
    switch (code) {
        NC_FLOATS(STORE)
    default:
        PyErr_Format(PyExc_SystemError, "'%c' is not a scalar", (int)code);
        return -1;
    }
#undef STORE
    return nc_float_overflow(name, index, code);
}

int nc_convert_scalar(PyObject *name, Py_ssize_t index, PyObject *value, char code, void *out)
{
    char part = nc_part_letter(code);
    double parts[2] = {0.0, 0.0};
    long double wide[2] = {0.0L, 0.0L};
    size_t size = 0;
    size_t alignment = 0;
    if (nc_integer_kind(code) != NULL) {
        return nc_convert_integer(name, index, value, code, out);
    }
    if (part == 'g') {
        /* Read these directly: a double cannot hold all long doubles. */
        int found = long_doubles_in(value, wide);
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
    if (convert_complex(name, index, value, parts) < 0) {
        return -1;
    }
    (void)nc_scalar_layout(part, &size, &alignment);
    return store_real(name, index, parts[0], part, out) < 0
               ? -1
               : store_real(name, index, parts[1], part, (char *)out + size);
}

#define TO_PYTHON_BOOL(value) PyBool_FromLong((value) != 0)
#define TO_PYTHON_SIGNED(value) PyLong_FromLongLong((long long)(value))
#define TO_PYTHON_UNSIGNED(value) PyLong_FromUnsignedLongLong((unsigned long long)(value))
/* Whether a number is out of range for a Python float; an exception is then set. */
#define ESCAPES(number) (sizeof(number) > sizeof(double) && nc_longdouble_escapes(number))
#define BOX(number) (ESCAPES(number) ? NULL : PyFloat_FromDouble((double)(number)))

PyObject *nc_scalar_to_python(char code, const void *address)
{
#define INTEGER(letter, name, type, kind, ...)                                                     \
    case letter: {                                                                                 \
        type value;                                                                                \
        memcpy(&value, address, sizeof(value));                                                    \
        return TO_PYTHON_##kind(value);                                                            \
    }
#define FLOAT(letter, name, type, held, digits, ...)                                               \
    case letter: {                                                                                 \
        type value;                                                                                \
        memcpy(&value, address, sizeof(value));                                                    \
        return BOX(NC_NUMBER_##held(value, digits));                                               \
    }
#define COMPLEX(letter, part, name, type)                                                          \
    case letter: {                                                                                 \
        type parts[2];                                                                             \
        memcpy(parts, address, sizeof(parts));                                                     \
        return ESCAPES(parts[0]) || ESCAPES(parts[1])                                              \
                   ? NULL                                                                          \
                   : PyComplex_FromDoubles((double)parts[0], (double)parts[1]);                    \
    }
    switch (code) {
        NC_INTEGERS(INTEGER)
        NC_FLOATS(FLOAT)
        NC_COMPLEXES(COMPLEX)
    default:
        return PyErr_Format(PyExc_SystemError, "'%c' is not a scalar", (int)code);
    }
#undef INTEGER
#undef FLOAT
#undef COMPLEX
}

/* ---- the table for Python -------------------------------------------------------------------- */

/* Return a row of the table that nc_scalars returns. */
static PyObject *described(char letter)
{
    static const char *const kinds[] = {
        [NC_KIND_BOOL] = "bool", [NC_KIND_INT] = "int", [NC_KIND_FLOAT] = "float"};
    char part = nc_part_letter(letter);
    int is_complex = letter != part;
    const char *before = is_complex ? "Z" : "";
    char canonical = nc_scalar_canonical(part);
    const Row *row = row_of(canonical);
    size_t size = 0;
    size_t alignment = 0;
    int kind = nc_scalar_layout(canonical, &size, &alignment);
    int exponent;
    int digits = nc_scalar_digits(canonical, &exponent);
    int is_signed = kind == NC_KIND_FLOAT || nc_scalar_is_signed(canonical);
    return Py_BuildValue(
        "NNsnn{sCsNsssisisOsO}", PyUnicode_FromFormat("%s%c", before, part),
        PyUnicode_FromFormat("%s%c", before, canonical), is_complex ? "complex" : kinds[kind],
        (Py_ssize_t)(is_complex ? 2 * size : size), (Py_ssize_t)alignment, "letter", letter,
        "c_name", PyUnicode_FromFormat("%s%s", row->c_name, is_complex ? " _Complex" : ""),
        "greatest", row->greatest, "digits", digits, "exponent", exponent, "native",
        row->is_native ? Py_True : Py_False, "signed", is_signed ? Py_True : Py_False);
}

PyObject *nc_scalars(void)
{
#define LETTER(letter, ...) letter,
    static const char letters[] = {NC_INTEGERS(LETTER) NC_FLOATS(LETTER) NC_COMPLEXES(LETTER) 'c',
                                   'l', 'L', 'n', 'N'};
#undef LETTER
    PyObject *table = PyTuple_New(sizeof(letters));
    for (Py_ssize_t i = 0; table != NULL && i < (Py_ssize_t)sizeof(letters); i++) {
        PyObject *row = described(letters[i]);
        if (row == NULL) {
            Py_CLEAR(table);
            break;
        }
        PyTuple_SET_ITEM(table, i, row);
    }
    return table;
}
