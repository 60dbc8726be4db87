/* csrc/values/destructor.h: destructors of cffi pointers. They keep other objects alive, or free or
 * close pointers that the caller owns (`free=`, `close=`).
 *
 * If the caller must free or close a returned pointer, the pointer is an ffi.gc() object with a
 * Destructor. Once a function has freed or closed the pointer, the Destructor calls nothing, and
 * conversions refuse the object. The Destructor is found through the object's tp_traverse. Other
 * objects with the same address are not recognised. Conversions also refuse an object that
 * ffi.release() has emptied.
 *
 * Nothing is freed at interpreter shutdown, because objects that the function needs may be gone.
 *
 * Threads: with the GIL. */
#ifndef NC_DESTRUCTOR_H
#define NC_DESTRUCTOR_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Destructor(owner): keeps `owner` alive until it is called, and does nothing else. */
extern PyTypeObject NcDestructor_Type;

/* Return a copy of a cffi pointer that keeps `owner` alive, or NULL with an exception. */
PyObject *nc_cffi_keeping(PyObject *pointer, PyObject *owner);

/* Return whether a value is a handle that keeps the object at `address` alive. */
int nc_is_handle(PyObject *value, const void *address);

/* Make the pointers in a value (also in a tuple or a Record) owned by the caller. `owns` is (name,
 * function): the function frees or closes them; None means that the caller must call it. A pointer
 * that is already owned, but without a function, gets this function. Steals the value; returns NULL
 * for NULL. */
PyObject *nc_owned(PyObject *value, PyObject *owns);

/* Return the pointer from which an ffi.gc() object was made. That pointer lives until the object's
 * destructor has run. Return other objects unchanged. The reference is borrowed. */
PyObject *nc_cffi_origin(PyObject *object);

/* Return the name of the function that freed or closed a pointer, as a borrowed str; NULL if the
 * pointer is open. */
PyObject *nc_ended_by(PyObject *pointer);

/* Mark a pointer, argument `index` of a callable, as ended by the function `name`. Return 1. Return
 * 0 if the pointer has no Destructor of ours, or -1 with ValueError if it was ended before. */
int nc_end(PyObject *pointer, PyObject *name, PyObject *callable, Py_ssize_t index);
/* Mark the pointer as open again, after the function failed. */
void nc_end_undo(PyObject *pointer);

#endif
