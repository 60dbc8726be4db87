/* csrc/codegen/thunk.c: failures of C -> C thunks, and their rarer conversions. */
#include "thunk.h"

#include "ground/exceptions.h"
#include "values/scalars.h"
#include "nativecall/detail/callbackcalls.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* ---- failures -------------------------------------------------------------------------------- */

void nc_thunk_failed(void *const *data, uint64_t step, uint64_t bits, int keep)
{
    int code = errno;
    PyObject *maker = (PyObject *)data[1];
    PyGILState_STATE gil;
    NcRaised before;
    PyObject *made;
    int reported;
    if (nc_is_finalizing()) {
        return;
    }
    gil = PyGILState_Ensure();
    if (PyErr_Occurred() && nc_left_here()) {
        /* The call from Python fails already. */
        PyGILState_Release(gil);
        errno = code;
        return;
    }
    nc_raised_take(&before);
    Py_INCREF(maker); /* Python code runs, and may drop the thunk */
    reported = nc_report_taken(data[0]);
    made = PyObject_CallFunction(maker, "KKi", (unsigned long long)step, (unsigned long long)bits,
                                 reported);
    if (made == Py_None) {
        /* The function's own exception, or what follows from it. */
        nc_raised_restore(&before);
        memset(&before, 0, sizeof(before));
    } else if (made != NULL) {
        nc_exception_put(made);
        made = NULL;
    }
    Py_XDECREF(made);
    if (PyErr_Occurred()) {
        int may_leave = !nc_raised_is_set(&before) && (keep || nc_is_called_from_python());
        PyObject *left = nc_exception_place(NULL, may_leave, maker, NULL);
        if (left != NULL) {
            nc_exception_leave(left, maker);
        }
    }
    if (nc_raised_is_set(&before)) {
        nc_raised_restore(&before);
    }
    Py_DECREF(maker);
    PyGILState_Release(gil);
    errno = code;
}

int nc_thunk_raised(void)
{
    return PyErr_Occurred() != NULL;
}

int nc_thunk_errno(void)
{
    return errno;
}

void nc_thunk_set_errno(int code)
{
    errno = code;
}

/* ---- numbers --------------------------------------------------------------------------------- */

uint32_t nc_half_round(const long double *number)
{
    long double size = fabsl(*number);
    uint32_t sign = signbit(*number) ? 0x8000u : 0u;
    int exponent;
    long double units;
    if (isnan(*number)) {
        return sign | 0x7E00u;
    }
    if (size >= 65520.0L) {
        return sign | 0x7C00u;
    }
    /* In units of the last place there is: 2**-24 for the smallest, 2**-10 of the first bit. */
    (void)frexpl(size, &exponent);
    exponent = size == 0.0L || exponent < -13 ? -13 : exponent;
    units = rintl(ldexpl(size, 11 - exponent));
    /* A carry goes into the exponent by itself. */
    return sign | (((uint32_t)(exponent + 13) << 10) + (uint32_t)units);
}

double nc_half_widen(uint32_t bits)
{
    uint32_t exponent = bits >> 10 & 0x1F;
    double units = (double)(bits & 0x3FF);
    double size;
    if (exponent == 0x1F) {
        size = units == 0.0 ? (double)INFINITY : (double)NAN;
    } else if (exponent == 0) {
        size = ldexp(units, -24);
    } else {
        size = ldexp(units + 1024.0, (int)exponent - 25);
    }
    return (bits & 0x8000u) != 0 ? -size : size;
}

/* A number on its way: an integer with its sign, or parts of a float. */
typedef struct {
    int is_integer;
    int is_negative; /* of an integer */
    uint64_t bits;   /* of an integer, two's complement */
    int count;       /* of parts: 2 for a complex number */
    long double part[2];
} Number;

/* Where the low `size` bytes of a word are. */
static char *low_bytes(uint64_t *word, size_t size)
{
    const uint16_t one = 1;
    char first;
    memcpy(&first, &one, 1);
    return (char *)word + (first != 0 ? 0 : sizeof(*word) - size);
}

/* Between the bits of a float in memory and a long double. */
#define WIDEN_half(value) (long double)nc_half_widen(value)
#define WIDEN_float(value) (long double)value
#define WIDEN_double(value) (long double)value
#define WIDEN_longdouble(value) value
#define NARROW_half(value) (uint16_t)nc_half_round(&value)
#define NARROW_float(value) (float)value
#define NARROW_double(value) (double)value
#define NARROW_longdouble(value) value

static void load_number(char code, const char *from, Number *number)
{
    const NcIntegerKind *kind = nc_integer_kind(code);
    size_t size = nc_scalar_size(nc_part_letter(code));
    memset(number, 0, sizeof(*number));
    if (kind != NULL) {
        uint64_t sign = (uint64_t)1 << (8 * kind->size - 1);
        memcpy(low_bytes(&number->bits, kind->size), from, kind->size);
        number->is_integer = 1;
        if (kind->is_signed && (number->bits & sign) != 0) {
            number->is_negative = 1;
            number->bits |= ~(sign - 1);
        }
        return;
    }
    number->count = nc_part_letter(code) != code ? 2 : 1;
    for (int i = 0; i < number->count; i++, from += size) {
#define LOAD(letter, name, type, ...)                                                              \
    case letter: {                                                                                 \
        type value;                                                                                \
        memcpy(&value, from, sizeof(value));                                                       \
        number->part[i] = WIDEN_##name(value);                                                     \
        break;                                                                                     \
    }
        switch (nc_part_letter(code)) {
            NC_FLOATS(LOAD)
        default:
            break;
        }
#undef LOAD
    }
}

/* A float as an integer that it equals. */
static int make_integer(Number *number)
{
    long double value = number->part[0];
    if (!(value >= -0x1p63L && value < 0x1p64L) || value != truncl(value)) {
        return 0;
    }
    number->is_integer = 1;
    number->is_negative = value < 0.0L;
    number->bits = value < 0.0L ? (uint64_t)(int64_t)value : (uint64_t)value;
    return 1;
}

/* A float is rounded, but not to an infinity; an integer must come through as it is. */
static int store_float(char code, long double value, int exact, char *to)
{
    long double after = value;
#define STORE(letter, name, type, ...)                                                             \
    case letter: {                                                                                 \
        type narrow = NARROW_##name(value);                                                        \
        after = WIDEN_##name(narrow);                                                              \
        memcpy(to, &narrow, sizeof(narrow));                                                       \
        break;                                                                                     \
    }
    switch (code) {
        NC_FLOATS(STORE)
    default:
        break;
    }
#undef STORE
    return exact ? after == value : !isinf(after) || isinf(value);
}

static int store_number(char code, Number *number, char *to)
{
    const NcIntegerKind *kind = nc_integer_kind(code);
    char part = nc_part_letter(code);
    size_t size = nc_scalar_size(part);
    if (kind != NULL) {
        if (!number->is_integer && !make_integer(number)) {
            return 0;
        }
        if (number->is_negative ? (int64_t)number->bits < kind->low : number->bits > kind->high) {
            return 0;
        }
        memcpy(to, low_bytes(&number->bits, kind->size), kind->size);
        return 1;
    }
    if (number->is_integer) {
        long double value =
            number->is_negative ? (long double)(int64_t)number->bits : (long double)number->bits;
        /* Where long doubles are doubles, what they lose is lost already. */
        int lost = number->is_negative ? (int64_t)value != (int64_t)number->bits
                                       : value >= 0x1p64L || (uint64_t)value != number->bits;
        number->part[0] = value;
        if (lost || !store_float(part, value, 1, to)) {
            return 0;
        }
    } else if (!store_float(part, number->part[0], 0, to)) {
        return 0;
    }
    return part == code || store_float(part, number->part[1], 0, to + size);
}

PyObject *nc_convert_number(PyObject *Py_UNUSED(module), PyObject *args)
{
    int source;
    int target;
    PyObject *from_address;
    PyObject *to_address;
    const char *from;
    char *to;
    Number number;
    if (!PyArg_ParseTuple(args, "CO!CO!", &source, &PyLong_Type, &from_address, &target,
                          &PyLong_Type, &to_address)) {
        return NULL;
    }
    from = (const char *)PyLong_AsVoidPtr(from_address);
    to = (char *)PyLong_AsVoidPtr(to_address);
    if (from == NULL || to == NULL || nc_scalar_size((char)source) == 0 ||
        nc_scalar_size((char)target) == 0) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_ValueError, "convert_number() takes two scalars in memory");
        }
        return NULL;
    }
    load_number((char)source, from, &number);
    return PyBool_FromLong(store_number((char)target, &number, to));
}

/* ---- what generated code finds --------------------------------------------------------------- */

#define SERVICES(FUNCTION)                                                                         \
    FUNCTION(nc_thunk_failed)                                                                      \
    FUNCTION(nc_thunk_raised)                                                                      \
    FUNCTION(nc_thunk_errno)                                                                       \
    FUNCTION(nc_thunk_set_errno)                                                                   \
    FUNCTION(nc_half_round)                                                                        \
    FUNCTION(nc_half_widen)

#define SERVICE_NAME(name) #name,
#define SERVICE_ADDRESS(name) (void (*)(void))(name),

static const char *const service_names[] = {SERVICES(SERVICE_NAME)};
static void (*const services[])(void) = {SERVICES(SERVICE_ADDRESS)};

PyObject *nc_thunk_services(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    size_t count = sizeof(service_names) / sizeof(service_names[0]);
    PyObject *names = PyTuple_New((Py_ssize_t)count);
    for (size_t i = 0; names != NULL && i < count; i++) {
        PyObject *name = PyUnicode_FromString(service_names[i]);
        if (name == NULL) {
            Py_CLEAR(names);
            break;
        }
        PyTuple_SET_ITEM(names, (Py_ssize_t)i, name);
    }
    return Py_BuildValue("NN", PyLong_FromVoidPtr((void *)(uintptr_t)services), names);
}
