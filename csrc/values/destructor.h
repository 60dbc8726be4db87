/* csrc/values/destructor.h: what cffi calls with a pointer whose object goes: objects that keep
 * others, and pointers that the caller frees or closes (`free=`, `close=`).
 *
 * A pointer that a function returned, and that the caller frees or closes, is an object of ffi.gc()
 * with a Destructor. The Destructor knows whether a function has ended the pointer: then it calls
 * nothing, and conversions refuse the object. It is found in the object, as the collector finds it.
 * Another object with the same address is not known. An object that ffi.release() has emptied is
 * refused, too.
 *
 * Nothing is freed while Python ends: what the function needs may be gone.
 *
 * Threads: with the GIL. */
#ifndef NC_DESTRUCTOR_H
#define NC_DESTRUCTOR_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Destructor(owner): keeps `owner`, which is None once it was called, and does nothing else. */
extern PyTypeObject NcDestructor_Type;

/* A cffi pointer like another one that keeps an object alive; NULL with an exception. */
PyObject *nc_cffi_keeping(PyObject *pointer, PyObject *owner);

/* Whether a value whose address is known is a handle: it keeps the object at that address. */
int nc_is_handle(PyObject *value, const void *address);

/* The same value whose pointers, in a tuple or a Record too, are the caller's to free or close, by
 * `owns`: (name, function), where a function of None is for the caller to call. Pointers for which
 * that is so already get the function. Takes the value; NULL is passed on. */
PyObject *nc_owned(PyObject *value, PyObject *owns);

/* The pointer that an object of ffi.gc() was made of, which lives until its destructor has run;
 * other objects are themselves. Borrowed. */
PyObject *nc_cffi_origin(PyObject *object);

/* The name of the function that ended a pointer, a borrowed str; NULL for others. */
PyObject *nc_ended_by(PyObject *pointer);

/* A function of that name ends a pointer, an argument of a callable: 1; 0 for what is none of ours;
 * -1 with a ValueError where another has ended it. */
int nc_end(PyObject *pointer, PyObject *name, PyObject *callable, Py_ssize_t index);
/* The function has failed: the pointer is open. */
void nc_end_undo(PyObject *pointer);

#endif
