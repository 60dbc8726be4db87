/* csrc/values/fortran.h: arguments as Fortran takes them: numbers by reference, and the lengths of
 * texts.
 *
 * Idea. A call interface with `fortran` set takes numbers where a pointer to such a number is
 * declared: they are converted as arguments by value are, into the part of the pointer's Py_buffer
 * that is free while nothing is exported. So they live as long as the pointer, and nothing is
 * allocated. A text (str) is bytes. Everything else is taken as by any other pointer, so what
 * Fortran writes to is an array, or a number in memory.
 *
 * All need the GIL. */
#ifndef NC_FORTRAN_H
#define NC_FORTRAN_H

#include "pointers.h"

#include <string.h>

/* A value without a buffer, or whose buffer is not exported to `out`, as argument `index` (`place`
 * negative: the first one, and `name` is the whole subject of messages). 1 where code may have run
 * that is anything's, 0, -1 with an exception; 2 where it is neither a number nor a text. */
int nc_refer(const NcCallInterface *cif, PyObject *name, Py_ssize_t place, PyObject *value,
             NcPointer *out);

/* Whether argument `index` of a call interface is taken from a number, or a text, for which no
 * memory of its own can stand. 1, 0, or -1 with an exception. */
int nc_is_referred(const NcCallInterface *cif, Py_ssize_t index, PyObject *value);

/* Whether a buffer has texts of several bytes, as NumPy's arrays of bytes have. */
static inline int nc_is_text_buffer(const Py_buffer *buffer)
{
    const char *format = buffer->format;
    return format != NULL && *format != '\0' && format[strspn(format, "0123456789")] == 's';
}

/* Whether a buffer is that of a number which is no memory to write to, as NumPy's scalars are. */
static inline int nc_is_number_buffer(const Py_buffer *buffer)
{
    return buffer->ndim == 0 && buffer->readonly;
}

/* The characters of the text that argument `index` of a callable, or of what `name` names, points
 * to: the bytes of a buffer, or of one element where these are longer than a byte. -1 with an
 * exception for a pointer that does not tell. */
Py_ssize_t nc_text_length(PyObject *name, Py_ssize_t index, PyObject *value,
                          const NcPointer *pointer);

#endif
