/* csrc/values/buffers.h: what an exported buffer holds, and whether its memory is still where it
 * was.
 *
 * All need the GIL. */
#ifndef NC_BUFFERS_H
#define NC_BUFFERS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>

/* Whether the exception that is set only says that an object has no buffer of the kind that it was
 * asked for; then it is cleared. All others are the user's own and stay. */
int nc_clear_refusal(void);

/* The letter (as in a call interface) of a buffer's element format, 0 if it is no single scalar. */
char nc_buffer_letter(const Py_buffer *buffer);
/* Whether a buffer is the memory of a pointer object: ctypes exports the memory of its own, where
 * the address is, not what they point to. */
int nc_buffer_is_pointer(const Py_buffer *buffer);
/* Whether a buffer has Python objects in it, whose references C code would know nothing of. */
int nc_buffer_holds_objects(const Py_buffer *buffer);

/* Whether a class is NumPy's of masked arrays, or derives from it: their buffers tell nothing of
 * elements that are missing. */
int nc_may_be_masked(const PyTypeObject *type);

/* The lengths of a buffer's dimensions, then its strides in bytes, into 2 * ndim words. Without
 * strides (ctypes never tells any) the memory is contiguous. */
void nc_buffer_extents(const Py_buffer *buffer, intptr_t *extents);

/* How a type's own memory is exported, whatever a __buffer__ of a class of Python's makes of that;
 * NULL for a type without. */
getbufferproc nc_exporter_of(const PyTypeObject *type);

/* Whether the memory that a buffer was exported with is still where it was, after code ran that may
 * be anything's. ctypes.resize, and ndarray.resize without its check, move memory that is exported.
 * Sets no exception. */
int nc_buffer_is_unmoved(const Py_buffer *buffer);

/* What this file looks up once; -1 with an exception. */
int nc_buffers_ready(void);

#endif
