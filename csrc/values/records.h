/* csrc/values/records.h: pointers and structs of numbers to Python objects and back, without Python
 * code.
 *
 *     PointerReader    a pointer: a cffi pointer of its type, or the text there, None for NULL
 *     Record           a struct, or an array in one, of nothing but numbers: a named tuple,
 *                      and back
 *
 * Each is made once for a C type (nativecall/_callable/pythonfunction.py), is callable with an
 * address, and does not change, but for the cffi type, which is asked for with the first pointer.
 *
 * All need the GIL. */
#ifndef NC_RECORDS_H
#define NC_RECORDS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

extern PyTypeObject NcPointerReader_Type;
extern PyTypeObject NcRecord_Type;

/* The object for a value: of a PointerReader the pointer itself, of a Record the address of the
 * struct. A new reference, or NULL with an exception. */
PyObject *nc_pointer_read(PyObject *reader, void *pointer);
PyObject *nc_record_read(PyObject *record, const char *memory);

/* Stores a tuple of the usual: numbers of the exact types, and tuples of them. 1; 0 when the value
 * is anything else, or does not fit: part of it may be in `memory` then, and no exception is set.
 * `who` is a str. */
int nc_record_write(PyObject *record, PyObject *who, PyObject *value, char *memory);

/* Whether a value is a tuple of `count` items that iterates as tuples do. */
int nc_is_tuple_of(PyObject *value, Py_ssize_t count);
/* A new tuple of a class of tuples, or of no class, its `count` items NULL. NULL with an
 * exception. */
PyObject *nc_tuple_new(PyTypeObject *type, Py_ssize_t count);

#endif
