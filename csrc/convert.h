/* csrc/convert.h: Python values to C arguments and back, for scalars and pointers.
 *
 * Idea. A trampoline takes each argument through nc_get_X, an inline test for the exact type that
 * nearly always comes, and an out-of-line conversion with checks for all others. Both write the C
 * value and return 0, or return -1 with an exception that names the argument and the callable.
 *
 * Rules (DESIGN section 6): floats take anything with __float__ or __index__; integers
 * take __index__ and are range-checked; complex takes __complex__, floats and integers; pointers
 * take None for NULL, matching C-contiguous buffers without a copy, and what the pointer_argument
 * hook knows (ctypes, cffi, function pointers). A buffer stays exported until nc_release_pointer.
 *
 * All need the GIL. */
#ifndef NC_CONVERT_H
#define NC_CONVERT_H

#include "callable.h"

#include <complex.h>
#include <math.h>

/* A pointer argument and what keeps it valid during the call. */
typedef struct {
    void *address;    /* what the callee gets */
    Py_buffer buffer; /* exported while buffer.obj is not NULL */
    PyObject *keep;   /* what the pointer_argument hook returned, with other owners; a list of
                       * owners, Pins among them, of what is inside of an aggregate; or NULL */
} NcPointer;

/* Where a Python function that is an argument leaves the exception that it must not lose, in
 * whichever thread it ran. It is raised when the call returns that the
 * function was passed to; until then the function is not called on. Those of other threads where it
 * ran at that moment, and those that come after that, go to sys.unraisablehook. */
typedef struct {
    PyObject_HEAD
    PyObject *exception;      /* the first one, or NULL */
    unsigned long long order; /* when it came, among all of the process */
    int closed;               /* 1 once the call has returned, or where there is none */
} NcStash;

extern PyTypeObject NcStash_Type;

/* Puts an exception, which it takes, into a stash, or reports it with `object` where there is one
 * already or the stash is closed. */
void nc_stash_put(NcStash *stash, PyObject *exception, PyObject *object);
/* Closes the stash of a pointer argument, if it has one. Its exception goes to *first if that is
 * NULL or came later, which then goes to sys.unraisablehook. */
void nc_stash_close(const NcPointer *pointer, PyObject **first);
/* For a function pointer that is not an argument, which no call will close the stash of. */
void nc_stash_end(const NcPointer *pointer);
/* Raises a closed stash and drops `value`; with `first` NULL nothing happens, and value is
 * returned. */
PyObject *nc_stash_raise(PyObject *value, PyObject *first);

/* Replaces whatever exception is set by "argument <index + 1> of '<name>' <format>"; the format is
 * PyUnicode_FromFormat's. */
void nc_conversion_error(PyObject *exception, PyObject *name, Py_ssize_t index, const char *format,
                         ...);

/* name is the callable's, for messages; with a negative index it is the whole subject of the
 * message. */
int nc_convert_double(PyObject *name, Py_ssize_t index, PyObject *value, double *out);
int nc_convert_integer(PyObject *name, Py_ssize_t index, PyObject *value, char code, void *out);
/* Long doubles of NumPy arrive in full. */
int nc_convert_long_double(PyObject *name, Py_ssize_t index, PyObject *value, long double *out);
int nc_convert_complex(PyObject *name, Py_ssize_t index, PyObject *value, double _Complex *out);
/* 1 where code ran meanwhile that may be anything's, which nc_check_unmoved is for; else 0. */
int nc_convert_pointer(NcCallable *self, Py_ssize_t index, PyObject *value, NcPointer *out);
/* The same after bf_getbuffer: the buffer of `out` is exported, or an exception is set that refused
 * it; with neither, nobody was asked. buffer.buf is the address then, buffer or not. The `before`
 * pointers in front of `out` are checked where code ran. */
int nc_convert_pointer_on(NcCallable *self, Py_ssize_t index, PyObject *value, NcPointer *out,
                          size_t before);

/* Any scalar by its letter, into memory of its size; for the libffi path. */
int nc_convert_scalar(PyObject *name, Py_ssize_t index, PyObject *value, char code, void *out);
/* A float for a number that is finite as a double; an infinity where there was none is an error. */
int nc_float_overflow(PyObject *name, Py_ssize_t index);
/* The reverse: a new reference, NULL with an exception for an unknown letter. */
PyObject *nc_scalar_to_python(char code, const void *address);
/* Bytes of a scalar, 0 for a letter that is none. */
size_t nc_scalar_size(char code);
/* What its address is a multiple of, in a struct as well. */
size_t nc_scalar_alignment(char code);

PyObject *nc_pointer_to_python(NcCallable *self, void *address);

/* What overload.c asks: how an integer letter takes a Python int. */
typedef struct {
    char code;               /* '?', 'b', 'B', … 'Q' */
    unsigned char size;      /* bytes */
    unsigned char is_signed; /* 1 or 0 */
    long long low;           /* least value */
    unsigned long long high; /* greatest value */
} NcIntegerKind;

/* The kind of a letter, NULL for one that is no integer. */
const NcIntegerKind *nc_integer_kind(char code);
/* 1 and the bits (two's complement) when a Python int fits, 0 when not, -1 with an exception. */
int nc_integer_fits(const NcIntegerKind *kind, PyObject *number, unsigned long long *bits);
/* An int for what can stand for an integer: what has __index__, and NumPy's bool, which has none.
 * A new reference; NULL with an exception, or without one for a value that is no integer. */
PyObject *nc_integer_of(PyObject *value);
/* Whether the exception that is set only says that an object has no buffer of the kind that it was
 * asked for; then it is cleared. All others are the user's own and stay. */
int nc_clear_refusal(void);
/* The letter that says what a number is by itself: Python's own types, then scalars that export
 * a buffer of no dimensions (NumPy's, ctypes'). 0 when it is no number, or with an exception. */
char nc_value_letter(PyObject *value);
/* The letter of a buffer's element format, 0 when it is no single scalar. */
char nc_buffer_letter(const Py_buffer *buffer);
/* 1 when the elements of `value`, whose buffer this is, are what argument `index` of a plan points
 * to, 0 when not, -1 with an exception. */
int nc_buffer_suits(const NcPlan *plan, Py_ssize_t index, PyObject *value, const Py_buffer *buffer);
/* Whether a buffer that suits has fewer items than the array that argument `index` points to. */
int nc_buffer_is_short(const NcPlan *plan, Py_ssize_t index, const Py_buffer *buffer);
/* Whether the elements of a buffer that suits are where C code may access them as what they are. */
int nc_buffer_is_aligned(const NcPlan *plan, Py_ssize_t index, const Py_buffer *buffer);
/* Whether a buffer is the memory of a box that holds a pointer, as ctypes' pointer objects export
 * theirs. */
int nc_buffer_is_pointer(const Py_buffer *buffer);

static inline void nc_release_pointer(NcPointer *pointer)
{
    if (pointer->buffer.obj != NULL) {
        PyBuffer_Release(&pointer->buffer);
    }
    Py_XDECREF(pointer->keep);
}

/* Ends a call: releases its pointer arguments, and raises what a Python function among them
 * left. */
static inline PyObject *nc_release_pointers(PyObject *value, NcPointer *pointers, size_t count)
{
    PyObject *first = NULL;
    for (size_t i = 0; i < count; i++) {
        if (NC_UNLIKELY(pointers[i].keep != NULL)) {
            nc_stash_close(&pointers[i], &first);
        }
        nc_release_pointer(&pointers[i]);
    }
    return NC_UNLIKELY(first != NULL) ? nc_stash_raise(value, first) : value;
}

/* How buffers are exported for a pointer argument, with PyBUF_WRITABLE unless it is read-only. */
#define NC_EXPORT (PyBUF_ND | PyBUF_FORMAT | PyBUF_C_CONTIGUOUS)

/* As nc_convert_pointer, 0, 1 or -1; with a negative index the first argument of the plan is meant. */
int nc_convert_pointer_of(const NcPlan *plan, PyObject *name, Py_ssize_t index, PyObject *value,
                          NcPointer *out);
/* What nc_convert_pointer_of leaves to others: a value whose buffer is exported to `out`, or was
 * refused with an exception; a value without a buffer. */
int nc_convert_exporter(const NcPlan *plan, PyObject *name, Py_ssize_t index, PyObject *value,
                        NcPointer *out, int exported);
int nc_convert_box(const NcPlan *plan, PyObject *name, Py_ssize_t index, PyObject *value,
                   NcPointer *out);

/* A Python int of at most one digit, the usual case, without a call. */
NC_HOT_INLINE int nc_small_integer(PyObject *value, long *out)
{
    if (!PyLong_CheckExact(value)) {
        return 0;
    }
#if PY_VERSION_HEX >= 0x030C0000
    if (!PyUnstable_Long_IsCompact((PyLongObject *)(void *)value)) {
        return 0;
    }
    *out = (long)PyUnstable_Long_CompactValue((PyLongObject *)(void *)value);
#else
    Py_ssize_t size = Py_SIZE(value);
    if (size < -1 || size > 1) {
        return 0;
    }
    *out = (long)size * (long)((PyLongObject *)(void *)value)->ob_digit[0];
#endif
    return 1;
}

/* nc_get_X(self, args, i, out): argument i. 0; 1 where code ran that may be anything's; -1 with an
 * exception. */
NC_HOT_INLINE int nc_get_d(NcCallable *self, PyObject *const *args, Py_ssize_t i, double *out)
{
    if (NC_LIKELY(PyFloat_CheckExact(args[i]))) {
        *out = PyFloat_AS_DOUBLE(args[i]);
        return 0;
    }
    /* A variable of its own, so that the usual way keeps *out in a register. */
    double converted;
    if (nc_convert_double(self->name, i, args[i], &converted) < 0) {
        return -1;
    }
    *out = converted;
    return 1;
}

NC_HOT_INLINE int nc_get_f(NcCallable *self, PyObject *const *args, Py_ssize_t i, float *out)
{
    double wide = 0.0;
    int status = nc_get_d(self, args, i, &wide);
    if (status < 0) {
        return -1;
    }
    *out = (float)wide;
    if (NC_UNLIKELY(isinf(*out)) && !isinf(wide)) {
        return nc_float_overflow(self->name, i);
    }
    return status;
}

NC_HOT_INLINE int nc_get_g(NcCallable *self, PyObject *const *args, Py_ssize_t i, long double *out)
{
    if (NC_LIKELY(PyFloat_CheckExact(args[i]))) {
        *out = (long double)PyFloat_AS_DOUBLE(args[i]);
        return 0;
    }
    long double converted;
    if (nc_convert_long_double(self->name, i, args[i], &converted) < 0) {
        return -1;
    }
    *out = converted;
    return 1;
}

NC_HOT_INLINE int nc_get_i(NcCallable *self, PyObject *const *args, Py_ssize_t i, int32_t *out)
{
    long small;
    /* A digit has 30 bits, or 15. */
    if (NC_LIKELY(nc_small_integer(args[i], &small))) {
        *out = (int32_t)small;
        return 0;
    }
    int32_t converted;
    if (nc_convert_integer(self->name, i, args[i], 'i', &converted) < 0) {
        return -1;
    }
    *out = converted;
    return 1;
}

NC_HOT_INLINE int nc_get_q(NcCallable *self, PyObject *const *args, Py_ssize_t i, int64_t *out)
{
    long small;
    if (NC_LIKELY(nc_small_integer(args[i], &small))) {
        *out = (int64_t)small;
        return 0;
    }
    int64_t converted;
    if (nc_convert_integer(self->name, i, args[i], 'q', &converted) < 0) {
        return -1;
    }
    *out = converted;
    return 1;
}

static inline int nc_get_Z(NcCallable *self, PyObject *const *args, Py_ssize_t i,
                           double _Complex *out)
{
    return nc_convert_complex(self->name, i, args[i], out) < 0 ? -1
                                                               : !PyComplex_CheckExact(args[i]);
}

static inline int nc_get_P(NcCallable *self, PyObject *const *args, Py_ssize_t i, NcPointer *out)
{
    return nc_convert_pointer(self, i, args[i], out);
}

#endif
