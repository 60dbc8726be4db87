/* csrc/values/destructor.h: destructors of cffi pointers. They keep other objects alive, or free or
 * close pointers that the caller owns (`free=`, `close=`).
 *
 * If the caller must free or close a returned pointer, the pointer is an ffi.gc() object with a
 * Destructor. Once a function has freed or closed the pointer, the Destructor calls nothing, and
 * passing the object again raises ValueError. So does passing an object that ffi.release() has
 * emptied. The Destructor is found through the object's tp_traverse, so other objects with the same
 * address are not checked.
 *
 * Nothing is freed at interpreter shutdown, because objects that the function needs may be gone.
 *
 * All functions need the GIL. */
#pragma once

#include <Python.h>

/* Destructor(owner): keeps `owner` alive until cffi calls it with the pointer, and does nothing
 * else. */
extern PyTypeObject NcDestructor_Type;

/* Return a copy of a cffi pointer that keeps `owner` alive, or NULL with an exception. */
PyObject *nc_cffi_keeping(PyObject *pointer, PyObject *owner);

/* Return whether a value is an ffi.gc() object whose Destructor keeps the Python object at
 * `address` alive. */
int nc_is_handle(PyObject *value, const void *address);

/* Make the pointers in a value (also in a tuple or a Record) owned by the caller. `owns` is (name,
 * function): `function` frees or closes them. If `function` is None, the caller must call the
 * function with this name. A pointer that is already owned, but without a function, gets this
 * function. Steals the value; returns NULL for NULL. */
PyObject *nc_owned(PyObject *value, PyObject *owns);

/* Return the pointer that was passed to ffi.gc() to create an object; it lives until the object's
 * destructor has run. Return other objects unchanged. The reference is borrowed. */
PyObject *nc_cffi_origin(PyObject *object);

/* Return the name of the function that freed or closed a pointer, as a borrowed str; NULL if the
 * pointer is open. */
PyObject *nc_ended_by(PyObject *pointer);

/* Mark a pointer, argument `index` of a callable, as freed or closed by the function `name`, and
 * return 1. Return 0 if the pointer has no Destructor. Return -1 with ValueError if the pointer was
 * already freed or closed. */
int nc_end(PyObject *pointer, PyObject *name, PyObject *callable, Py_ssize_t index);
/* Mark the pointer as open again, after the function failed. */
void nc_end_undo(PyObject *pointer);
