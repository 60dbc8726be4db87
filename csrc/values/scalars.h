/* csrc/values/scalars.h: converts Python numbers to C scalars and back, with checks.
 *
 * Floats accept objects with __float__ or __index__. Integers accept objects with __index__, and
 * are range-checked. Complex numbers accept objects with __complex__, __float__ or __index__. On
 * failure, the exception names the argument and the callable.
 *
 * All functions need the GIL. */
#pragma once

#include "buffers.h"

#include "nativecall/detail/core/numbers.h"
#include "nativecall/detail/values.h"

#include <math.h>

/* Return the subject of a message as a new str, such as "argument 2 of 'pow'" for index 1. For a
 * negative index, return the name itself. */
PyObject *nc_conversion_subject(PyObject *name, Py_ssize_t index);

/* Raise "argument <index + 1> of '<name>' <format>". This replaces the current exception, unless
 * that is a MemoryError. `format` has the syntax of PyUnicode_FromFormat. */
void nc_conversion_error(PyObject *exception, PyObject *name, Py_ssize_t index, const char *format,
                         ...);

/* Add a note to the current exception, which foreign code raised. The note names the argument. */
void nc_conversion_note(PyObject *name, Py_ssize_t index);
/* Raise TypeError "... must be <wanted> (got <class>)" with nc_conversion_error. */
void nc_conversion_type_error(PyObject *name, Py_ssize_t index, const char *wanted,
                              PyObject *value);

/* Convert a number to C. Messages name the callable, `name`. If `index` is negative, they begin
 * with `name` itself. Return 0, or -1 with an exception. */
int nc_convert_double(PyObject *name, Py_ssize_t index, PyObject *value, double *out);
int nc_convert_integer(PyObject *name, Py_ssize_t index, PyObject *value, char code, void *out);

/* Convert a value to a scalar with the letter `code`, and store it at `out`. */
int nc_convert_scalar(PyObject *name, Py_ssize_t index, PyObject *value, char code, void *out);
/* Raise OverflowError for a number out of the range of the float type with letter `code`. Return
 * -1. */
int nc_float_overflow(PyObject *name, Py_ssize_t index, char code);
/* Convert a C scalar to Python. Return a new reference, or NULL with an exception. */
PyObject *nc_scalar_to_python(char code, const void *address);
/* Return the size of a scalar in bytes, or 0 if `code` is not the letter of a scalar. */
size_t nc_scalar_size(char code);
/* Return the alignment of a scalar, which is the same in structs. */
size_t nc_scalar_alignment(char code);
/* Return the letter of a complex type's parts; return other letters unchanged. */
char nc_part_letter(char code);

/* Return the table of scalars for Python as a tuple of rows: (code in signatures, canonical code,
 * kind, size, alignment, dict of the other attributes of a Scalar). Return a new reference, or
 * NULL. */
PyObject *nc_scalars(void);

/* The range of an integer letter; also used by overload.c. */
typedef struct {
    char code;               /* '?', 'b', 'B', … 'Q' */
    unsigned char size;      /* bytes */
    unsigned char is_signed; /* 1 or 0 */
    long long low;           /* least value */
    unsigned long long high; /* greatest value */
} NcIntegerKind;

/* Return the kind of an integer letter, or NULL for other letters. */
const NcIntegerKind *nc_integer_kind(char code);
/* Return 1 and set `bits` (in two's complement) if a Python int fits. Return 0 if it does not, or
 * -1 with an exception. */
int nc_integer_fits(const NcIntegerKind *kind, PyObject *number, unsigned long long *bits);
/* Return an int for a value that has __index__, or is a NumPy bool, a ctypes integer or a cffi
 * integer. Return a new reference, or NULL with an exception. For other values, return NULL without
 * an exception. */
PyObject *nc_integer_of(PyObject *value);
/* nc_integer_of for an integer or enumerator of cffi (cffipointers.c). */
PyObject *nc_integer_of_cffi(PyObject *value);
/* Return the letter of a number's type. A number is a Python number, a zero-dimensional buffer
 * (NumPy, ctypes), or an object with __index__ or __float__. Return 0 for other objects; an
 * exception may then be set. */
char nc_value_letter(PyObject *value);
