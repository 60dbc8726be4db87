/* csrc/values/fortran.h: Fortran arguments: numbers by reference, and the lengths of strings.
 *
 * Idea. A call interface with `fortran` set accepts a number for a pointer to such a number. The
 * number is converted as an argument by value. It is stored in a part of the pointer's Py_buffer
 * that is unused while no buffer is exported. So the number lives as long as the pointer, and
 * nothing is allocated. A str is encoded to bytes. All other values are converted as for any
 * pointer, so output arguments must be arrays or numbers in memory.
 *
 * All functions need the GIL. */
#ifndef NC_FORTRAN_H
#define NC_FORTRAN_H

#include "pointers.h"

#include <string.h>

/* Convert a number or str for argument `place` (if negative: the first one, and `name` is the whole
 * subject of messages). The value's buffer, if any, must not be exported to `out`. Return 0, 1 if
 * arbitrary code may have run, 2 if it is neither a number nor a str, or -1 with an exception. */
int nc_refer(const NcCallInterface *cif, PyObject *name, Py_ssize_t place, PyObject *value,
             NcPointer *out);

/* Return 1 if argument `index` takes `value` by reference, that is, if `value` is a number or a str
 * without usable memory of its own. Return 0 otherwise, or -1 with an exception. */
int nc_is_referred(const NcCallInterface *cif, Py_ssize_t index, PyObject *value);

/* Return whether a buffer has string elements of several bytes, as NumPy's bytes arrays have. */
static inline int nc_is_text_buffer(const Py_buffer *buffer)
{
    const char *format = buffer->format;
    return format != NULL && *format != '\0' && format[strspn(format, "0123456789")] == 's';
}

/* Return whether a buffer holds a read-only number, such as a NumPy scalar. */
static inline int nc_is_number_buffer(const Py_buffer *buffer)
{
    return buffer->ndim == 0 && buffer->readonly;
}

/* Return the length of the string that argument `index` points to: the bytes of a buffer, or of one
 * element if elements are longer than a byte. Return -1 with an exception if the length is
 * unknown. */
Py_ssize_t nc_text_length(PyObject *name, Py_ssize_t index, PyObject *value,
                          const NcPointer *pointer);

#endif
