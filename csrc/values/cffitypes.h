/* csrc/values/cffitypes.h: finds the cffi type of a cffi object without calling Python.
 *
 * A cffi object stores its type in the first word after the object header. The first object of each
 * class is checked against typeof(). If a cffi version has another layout, typeof() is called for
 * every object instead. Reading the word takes 1 ns; typeof() takes 20 ns.
 *
 * All functions need the GIL. What is known of cffi is only added to, atomically. */
#pragma once

#include "nativecall/detail/core/base.h"
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
    for (int known = 0; known < NC_CFFI_CLASSES; known++) {
        const void *class_ = nc_load_relaxed_ptr(&nc_cffi_classes[known]);
        if (class_ == Py_TYPE(value)) {
            return *(PyObject **)(void *)(value + 1);
        }
        if (class_ == NULL) {
            return nc_type_asked(value, known);
        }
    }
    return nc_type_asked(value, NC_CFFI_CLASSES);
}

/* Return whether a value is a cffi cdata object. */
static inline int nc_is_cdata(PyObject *value)
{
    return nc_type_of_cffi(value) != NULL;
}

/* Whether the address of a pointer is the word after its type. Set once a pointer was checked. */
extern size_t nc_cffi_is_direct;

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
    return nc_load_relaxed_size(&nc_cffi_is_direct) && nc_type_of_cffi(pointer) == type
               ? nc_word_of_cffi(pointer)
               : nc_address_asked(pointer, type);
}
