/* csrc/values/buffers.h: inspects exported buffers, and checks whether their memory has moved.
 *
 * All functions need the GIL. */
#pragma once

#include <Python.h>

#include <stdint.h>

/* Clear the current exception if it only reports that an object does not export the requested kind
 * of buffer. Return whether it was cleared. Other exceptions come from the user's code and stay
 * set. */
int nc_clear_refusal(void);

/* Return the scalar letter of a buffer's elements, as used in call interfaces. Return 0 if they are
 * not scalars. */
char nc_buffer_letter(const Py_buffer *buffer);
/* Return whether a buffer is the memory of a pointer object. The buffer of a ctypes pointer is the
 * memory that holds the address, not the target. */
int nc_buffer_is_pointer(const Py_buffer *buffer);
/* Return whether a buffer contains Python objects, whose references C code would not count. */
int nc_buffer_holds_objects(const Py_buffer *buffer);

/* Return whether a class is, or derives from, NumPy's MaskedArray, whose buffers ignore the
 * mask. */
int nc_may_be_masked(const PyTypeObject *type);

/* Store the lengths of a buffer's dimensions, then its strides in bytes, in 2 * ndim words. A
 * buffer without strides is contiguous; ctypes exports all its buffers without strides. */
void nc_buffer_extents(const Py_buffer *buffer, intptr_t *extents);

/* Return the bf_getbuffer that exports a type's own memory, or NULL if there is none. The
 * __buffer__ methods of Python classes are ignored. */
getbufferproc nc_exporter_of(const PyTypeObject *type);

/* Return whether a buffer's memory is still in place after arbitrary code ran. ctypes.resize, and
 * ndarray.resize with refcheck=False, move exported memory. Sets no exception. */
int nc_buffer_is_unmoved(const Py_buffer *buffer);

/* Initialize this file. Return 0, or -1 with an exception. */
int nc_buffers_ready(void);
