/* csrc/values/structpointer.h: StructPointer, a pointer to a struct (or array of structs) that
 * contains pointers. Members and items accept the same values as initialisers.
 *
 * A cffi struct does not accept a Python function for a member, and does not keep the targets of
 * its members alive. A StructPointer wraps a cffi pointer, `cdata`, to a struct that contains
 * pointers. The pointer comes from `lib.new`, a result, an argument of a callback, or a member of
 * these. Assigning to a member converts the value as `lib.new` does, and keeps the value's target
 * alive. cffi handles everything else.
 *
 * Objects from `lib.new`, and objects read from these, keep the assigned values alive. If C owns
 * the memory, an assigned value is kept alive until another value is assigned to the member.
 *
 * A dict of the library (_library/memory.py) maps each cffi type to whether its objects are
 * wrapped, and to the members that are pointers. C assigns numbers and pointers. A Python method,
 * StructPointer.__setitem__, assigns everything else, and raises the errors.
 *
 * All functions need the GIL. A StructPointer itself never changes; its dicts are CPython's. */
#pragma once

#include <Python.h>

typedef struct {
    PyObject_HEAD
    PyObject *cdata;
    PyObject *structs; /* the library's dict */
    PyObject *kept;    /* dict of the assigned values */
    PyObject *references;
} NcStructPointer;

extern PyTypeObject NcStructPointer_Type;
extern PyTypeObject *nc_struct_pointer_class; /* the Python class; NULL before it is set */

/* Return a new StructPointer if the type of `cdata` is to be wrapped, otherwise `cdata` itself.
 * `kept` is the dict of assigned values; NULL means a process-wide dict. Steals the reference to
 * `cdata`; returns NULL if `cdata` is NULL. */
PyObject *nc_struct_pointer(PyObject *cdata, PyObject *structs, PyObject *kept);

/* Return the cffi object that a StructPointer wraps; return other values unchanged. The reference
 * is borrowed. */
static inline PyObject *nc_bare(PyObject *value)
{
    return Py_IS_TYPE(value, nc_struct_pointer_class) ? ((NcStructPointer *)(void *)value)->cdata
                                                      : value;
}
