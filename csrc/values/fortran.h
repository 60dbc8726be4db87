/* csrc/values/fortran.h: Fortran arguments: numbers by reference, and the lengths of strings.
 *
 * If a call interface has `fortran` set, an argument that is a pointer to a number also accepts the
 * number itself. The number is converted like an argument passed by value. It is stored in a part
 * of the NcPointer's Py_buffer that is unused while no buffer is exported. So the number lives as
 * long as the NcPointer, and nothing is allocated. A str is encoded to bytes. All other values are
 * converted as for any pointer. Output arguments must be arrays, or numbers in writable memory.
 *
 * All functions need the GIL. */
#pragma once

#include "pointers.h"

#include <string.h>

/* Convert a number or str for argument `place`. A negative `place` means the first argument;
 * messages then begin with `name` itself. The value's buffer, if any, must not be exported to
 * `out`. Return 0, or -1 with an exception. Return 1 instead of 0 if arbitrary code may have run.
 * Return 2 if the value is neither a number nor a str. */
int nc_refer(const NcCallInterface *cif, PyObject *name, Py_ssize_t place, PyObject *value,
             NcPointer *out);

/* Return 1 if `value` is a number or str that argument `index` takes by reference, and has no
 * writable memory of its own. Return 0 otherwise, or -1 with an exception. */
int nc_is_referred(const NcCallInterface *cif, Py_ssize_t index, PyObject *value);

/* Return whether the elements of a buffer are byte strings, as in NumPy's bytes arrays. */
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

/* Return the length of the string that argument `index` points to. This is the size of one element
 * if elements are longer than a byte, otherwise the size of the buffer. Return -1 with an exception
 * if the length is unknown. */
Py_ssize_t nc_text_length(PyObject *name, Py_ssize_t index, PyObject *value,
                          const NcPointer *pointer);
