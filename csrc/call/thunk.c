/* csrc/call/thunk.c: implements thunk.h: failures of C -> C thunks, and conversions of rare number
 * types. */
#include "thunk.h"

#include "plan.h"

#include "platform/exceptions.h"
#include "platform/gil.h"
#include "values/names.h"
#include "values/scalars.h"
#include "nativecall/detail/compat.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* ---- failures -------------------------------------------------------------------------------- */

/* Acquires the GIL, and returns how it was acquired. Returns NC_GIL_REFUSED while Python is
 * finalizing, and in a thread of another interpreter, where it also raises RuntimeError. */
static int take_gil(void)
{
    int acquired = nc_is_finalizing() ? NC_GIL_REFUSED : nc_gil_acquire();
    if (acquired < 0) {
        return acquired;
    }
    const PyThreadState *state = PyThreadState_Get();
    if (nc_is_foreign(state)) {
        nc_exception_refuse_foreign(state);
        nc_gil_release(acquired);
        return NC_GIL_REFUSED;
    }
    return acquired;
}

static void raise_failure(const NcThunk *thunk, uint64_t step, uint64_t bits, int keep)
{
    int code = errno;
    int acquired = take_gil();
    if (acquired < 0) {
        errno = code;
        return;
    }
    if (PyErr_Occurred() && nc_left_here()) {
        /* The enclosing call from Python has failed already. */
        nc_gil_release(acquired);
        errno = code;
        return;
    }
    PyObject *before = nc_exception_take();
    int reported = nc_report_taken(thunk->target);
    /* The helper's Python code may drop the thunk. */
    PyObject *helper = Py_NewRef(thunk->spec->helper);
    PyObject *maker = PyObject_CallMethod(helper, "maker", "O", nc_name(thunk->function));
    PyObject *made = NULL;
    if (maker != NULL) {
        Py_SETREF(helper, maker);
        made = PyObject_CallFunction(maker, "KKi", (unsigned long long)step,
                                     (unsigned long long)bits, reported);
    }
    if (made == Py_None) {
        /* The exception that was set before is the cause of the failure: keep it. */
        nc_exception_put(before);
        before = NULL;
    } else if (made != NULL) {
        nc_exception_put(made);
        made = NULL;
    }
    Py_XDECREF(made);
    if (PyErr_Occurred()) {
        int may_leave = before == NULL && (keep || nc_is_called_from_python());
        PyObject *left = nc_exception_place(NULL, may_leave, helper, NULL);
        if (left != NULL) {
            nc_exception_leave(left, helper);
        }
    }
    if (before != NULL) {
        nc_exception_put(before);
    }
    Py_DECREF(helper);
    nc_gil_release(acquired);
    errno = code;
}

void nc_thunk_failed(const NcThunk *thunk, uint64_t step, uint64_t bits, uint32_t flags,
                     uint32_t tested, int *told)
{
    const int sets_errno = (flags & NC_CONVERSION_SETS_ERRNO) != 0;
    int code = 1;
    if (step == tested && (flags & NC_CONVERSION_REACHES_C)) {
        if (sets_errno && errno == 0) {
            errno = EIO; /* keep an errno that the function set */
        }
        if (!(flags & NC_CONVERSION_TELLS)) {
            return;
        }
        if (flags & NC_CONVERSION_BY_CODE) {
            code = (int)bits;
        }
    } else {
        raise_failure(thunk, step, bits, (flags & NC_CONVERSION_KEEPS) != 0);
        if (sets_errno) {
            errno = ERANGE;
        }
    }
    if (told != NULL) {
        *told = code;
    }
}

int nc_thunk_take_gil(void)
{
    int code = errno;
    int acquired = take_gil();
    if (acquired >= 0 && nc_is_left() && nc_left_here()) {
        nc_gil_release(acquired);
        acquired = NC_GIL_REFUSED;
    }
    errno = code;
    return acquired;
}

void nc_thunk_drop_gil(const NcThunk *thunk, int taken, int keep)
{
    int code = errno;
    if (!keep || taken != NC_GIL_HELD) {
        nc_exception_settle(thunk->function);
    }
    nc_gil_release(taken);
    errno = code;
}

int nc_thunk_raised(void)
{
    return PyErr_Occurred() != NULL;
}

void nc_thunk_settle(const NcThunk *thunk)
{
    /* A thread may read its own state with or without the GIL. */
    const PyThreadState *state = PyGILState_GetThisThreadState();
    if (NC_LIKELY(state == NULL || !nc_thread_has_exception(state)) || nc_is_finalizing() ||
        nc_is_foreign(state)) {
        return;
    }
    int acquired = nc_gil_acquire();
    if (acquired < 0) {
        return;
    }
    PyObject *helper = Py_NewRef(thunk->spec->helper);
    nc_exception_settle(helper);
    Py_DECREF(helper);
    nc_gil_release(acquired);
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

/* A number during conversion: a signed or unsigned integer, or the parts of a float. */
typedef struct {
    int is_integer;
    int is_negative; /* of an integer */
    uint64_t bits;   /* of an integer, two's complement */
    int count;       /* of parts: 2 for a complex number */
    long double part[2];
} Number;

static void load_number(char code, const char *from, Number *number)
{
    char part = nc_part_letter(code);
    memset(number, 0, sizeof(*number));
    if (nc_integer_kind(code) != NULL) {
        number->is_integer = 1;
        number->bits = nc_read_integer(code, from);
        number->is_negative = nc_scalar_is_signed(code) && (int64_t)number->bits < 0;
        return;
    }
    number->count = part != code ? 2 : 1;
    for (int i = 0; i < number->count; i++, from += nc_scalar_size(part)) {
        number->part[i] = nc_read_float(part, from);
    }
}

/* Converts a float to an integer of equal value. Returns 0 if no integer is equal. */
static int make_integer(Number *number)
{
    long double value = number->part[0];
    if (!(value >= -0x1p63L && value < 0x1p64L)) {
        return 0;
    }
    number->is_integer = 1;
    number->is_negative = value < 0.0L;
    number->bits = value < 0x1p63L ? (uint64_t)(int64_t)value : (uint64_t)value;
    return value ==
           (value < 0x1p63L ? (long double)(int64_t)number->bits : (long double)number->bits);
}

static int store_float(char code, long double value, int exact, char *to)
{
    nc_write_float(code, value, to);
    long double after = nc_read_float(code, to);
    return exact ? after == value || isnan(value) : !isinf(after) || isinf(value);
}

static int store_number(char code, Number *number, char *to, int exact)
{
    const NcIntegerKind *kind = nc_integer_kind(code);
    char part = nc_part_letter(code);
    if (kind != NULL) {
        if (!number->is_integer && !make_integer(number)) {
            return 0;
        }
        if (number->is_negative ? (int64_t)number->bits < kind->low : number->bits > kind->high) {
            return 0;
        }
        nc_write_integer(code, number->bits, to);
        return 1;
    }
    if (number->is_integer) {
        long double value =
            number->is_negative ? (long double)(int64_t)number->bits : (long double)number->bits;
        /* If long double is no wider than double, this conversion may already round. */
        int lost = number->is_negative ? (int64_t)value != (int64_t)number->bits
                                       : value >= 0x1p64L || (uint64_t)value != number->bits;
        number->part[0] = value;
        if (lost && exact) {
            return 0;
        }
    }
    return store_float(part, number->part[0], exact, to) &&
           (part == code || store_float(part, number->part[1], exact, to + nc_scalar_size(part)));
}

int nc_thunk_convert(int source, const char *from, int target, char *to, int exact, uint64_t *bits)
{
    Number number;
    load_number((char)source, from, &number);
    if (store_number((char)target, &number, to, exact)) {
        return 1;
    }
    load_number((char)source, from, &number); /* store_number may have changed it */
    if (!number.is_integer) {
        double value = (double)number.part[0];
        memcpy(&number.bits, &value, sizeof(value));
    }
    *bits = number.bits;
    return 0;
}
