/* csrc/values/structpointer.h: pointers to structs that have pointers in them, and arrays of
 * these, whose members and items take what initialisers take.
 *
 * cffi's own objects take no Python function for a member, and keep nothing that a member leads
 * to. A StructPointer wraps a cffi pointer, its `cdata`, to a struct that has pointers in it: what
 * `lib.new` makes, results, arguments of callbacks, and members of these. Assigning to a member
 * converts the value as `lib.new` does, and keeps what it leads to. All else is cffi's. What
 * members were assigned is kept by what `lib.new` made and all that was found in it; in memory of
 * C's, until another value is assigned.
 *
 * Which of cffi's types it stands for, a dict of the library's says (_library/memory.py): it has
 * True for these. Python code assigns all that is no number: StructPointer.__setitem__.
 *
 * Threads: with the GIL. */
#ifndef NC_STRUCTPOINTER_H
#define NC_STRUCTPOINTER_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

typedef struct {
    PyObject_HEAD
    PyObject *cdata;
    PyObject *structs; /* the library's dict */
    PyObject *kept;    /* dict */
    PyObject *references;
} NcStructPointer;

extern PyTypeObject NcStructPointer_Type;
extern PyTypeObject *nc_struct_pointer_class; /* Python's; NULL before it is made */

/* What stands for an object of cffi's: itself, or a StructPointer that keeps what members are
 * assigned in a dict, one of the process if that is NULL. Takes the object; NULL is passed on. */
PyObject *nc_struct_pointer(PyObject *cdata, PyObject *structs, PyObject *kept);

/* The object of cffi's that a value stands for, or the value: borrowed. */
static inline PyObject *nc_bare(PyObject *value)
{
    return Py_IS_TYPE(value, nc_struct_pointer_class) ? ((NcStructPointer *)(void *)value)->cdata
                                                      : value;
}

#endif
