/* csrc/values/scalars.h: numbers of Python's as C scalars and back, with checks.
 *
 * Rules: floats take anything with __float__ or __index__; integers take
 * __index__ and are range-checked; complex takes __complex__, floats and integers. On failure an
 * exception is set that names the argument and the callable.
 *
 * All need the GIL. */
#ifndef NC_SCALARS_H
#define NC_SCALARS_H

#include "buffers.h"

#include "platform/compat.h"
#include "nativecall/detail/core/numbers.h"
#include "nativecall/detail/values.h"

#include <complex.h>
#include <math.h>

/* "argument 2 of 'pow'", a new reference: the subject of every message, where a callable counts its
 * arguments as those do who call it. A negative index: its name. */
PyObject *nc_conversion_subject(PyObject *name, Py_ssize_t index);

/* Replaces whatever exception is set by "argument <index + 1> of '<name>' <format>"; the format is
 * PyUnicode_FromFormat's. */
void nc_conversion_error(PyObject *exception, PyObject *name, Py_ssize_t index, const char *format,
                         ...);

/* The same, as "must be <wanted> (got <its class>)". */
/* Says of the exception that is set, which is somebody else's, which value it is about: a note. */
void nc_conversion_note(PyObject *name, Py_ssize_t index);
void nc_conversion_type_error(PyObject *name, Py_ssize_t index, const char *wanted,
                              PyObject *value);

/* name is the callable's, for messages; with a negative index it is the whole subject of the
 * message. */
int nc_convert_double(PyObject *name, Py_ssize_t index, PyObject *value, double *out);
int nc_convert_integer(PyObject *name, Py_ssize_t index, PyObject *value, char code, void *out);

/* Any scalar by its letter, into memory of its size. */
int nc_convert_scalar(PyObject *name, Py_ssize_t index, PyObject *value, char code, void *out);
/* Raises OverflowError for a number that is out of range for a float of a letter. -1. */
int nc_float_overflow(PyObject *name, Py_ssize_t index, char code);
/* The reverse: a new reference, NULL with an exception for an unknown letter. */
PyObject *nc_scalar_to_python(char code, const void *address);
/* Bytes of a scalar, 0 for a letter that is none. */
size_t nc_scalar_size(char code);
/* What its address is a multiple of, in a struct as well. */
size_t nc_scalar_alignment(char code);
/* The letter of the parts of a complex number's; of others the letter itself. */
char nc_part_letter(char code);

/* The table of scalars, as Python has it: a tuple of (code in signatures, the canonical one, kind,
 * size, alignment, the other attributes of a Scalar by name). A new reference, or NULL. */
PyObject *nc_scalars(void);

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
/* The same of an integer or an enumerator of cffi (cffipointers.c). */
PyObject *nc_integer_of_cffi(PyObject *value);
/* The letter that says what a number is by itself: Python's own types, then scalars that export
 * a buffer of no dimensions (NumPy's, ctypes'). 0 when it is no number, or with an exception. */
char nc_value_letter(PyObject *value);

#endif
