/* csrc/values/cffitypes.h: finds the cffi type of a cffi object without calling Python.
 *
 * A cffi object stores its type in the first word after the object header. The first object of each
 * class is checked against typeof(). If a cffi version has another layout, typeof() is called for
 * every object instead. Reading the word takes 1 ns; typeof() takes 20 ns.
 *
 * All functions need the GIL. */
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string.h>

/* The known classes of cffi objects, then NULLs. cffi has five such classes. */
enum { NC_CFFI_CLASSES = 8 };
extern const PyTypeObject *nc_cffi_classes[NC_CFFI_CLASSES];
extern const PyTypeObject *nc_cffi_gcp; /* the class of ffi.gc() objects, once one was seen */

/* The slow path of nc_type_of_cffi, for a class that is not known yet. */
PyObject *nc_type_asked(PyObject *value, int known);

/* Return the cffi type of a cffi object as a borrowed reference. Return NULL without an exception
 * for other values. */
static inline PyObject *nc_type_of_cffi(PyObject *value)
{
    int known = 0;
    for (; known < NC_CFFI_CLASSES && nc_cffi_classes[known] != NULL; known++) {
        if (nc_cffi_classes[known] == Py_TYPE(value)) {
            return *(PyObject **)(void *)(value + 1);
        }
    }
    return nc_type_asked(value, known);
}

/* Return whether a value is a cffi cdata object. */
static inline int nc_is_cdata(PyObject *value)
{
    return nc_type_of_cffi(value) != NULL;
}

/* Whether the address of a pointer is the word after its type. Set once a pointer was checked. */
extern int nc_cffi_is_direct;

/* The slow path of nc_address_of_cffi. */
void *nc_address_asked(PyObject *pointer, PyObject *type);

/* Return that word. */
static inline void *nc_word_of_cffi(PyObject *pointer)
{
    return ((void **)(void *)(pointer + 1))[1];
}

/* Like nc_cffi_address (core/cffipointer.h); reads the word of a pointer whose type is `type`. */
static inline void *nc_address_of_cffi(PyObject *pointer, PyObject *type)
{
    return nc_cffi_is_direct && nc_type_of_cffi(pointer) == type ? nc_word_of_cffi(pointer)
                                                                 : nc_address_asked(pointer, type);
}
