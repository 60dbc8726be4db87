/* csrc/values/structpointer.h: pointers to (arrays of) structs that contain pointers. Their members
 * and items accept the same values as initialisers.
 *
 * A cffi struct does not accept a Python function for a member, and does not keep the targets of
 * its members alive. A StructPointer wraps a cffi pointer, its `cdata`, to a struct that contains
 * pointers: from `lib.new`, a result, an argument of a callback, or a member of these. Assigning to
 * a member converts the value as `lib.new` does, and keeps its target alive. Everything else is
 * left to cffi. Objects from `lib.new`, and those read from them, keep what was assigned. In memory
 * owned by C, it is kept until another value is assigned.
 *
 * A dict of the library (_library/memory.py) maps the wrapped cffi types to True. Python code
 * assigns values other than numbers: StructPointer.__setitem__.
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
extern PyTypeObject *nc_struct_pointer_class; /* the Python class; NULL before it is set */

/* Return a cffi object, or a StructPointer that wraps it. `kept` is the dict of assigned values;
 * NULL: a process-wide dict. Steals the object; returns NULL for NULL. */
PyObject *nc_struct_pointer(PyObject *cdata, PyObject *structs, PyObject *kept);

/* Return the cffi object that a StructPointer wraps, or the value itself. Borrowed. */
static inline PyObject *nc_bare(PyObject *value)
{
    return Py_IS_TYPE(value, nc_struct_pointer_class) ? ((NcStructPointer *)(void *)value)->cdata
                                                      : value;
}

#endif
