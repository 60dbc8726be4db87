/* csrc/values/pointers.h: pointer arguments and results, and what keeps arguments valid while C
 * uses them.
 *
 * Rules: pointers take None for NULL (Fortran's to data do not), matching buffers in the call
 * interface's order without a copy, the first of a native method its class's objects, and what the
 * pointer_argument hook knows (ctypes, cffi, function pointers, arrays without a buffer).
 * A buffer stays exported until nc_release_pointer. On failure an exception is set that names the
 * argument and the callable, and nothing is left exported or owned.
 *
 * A Pin is a converted pointer argument as a Python object, for calls that Python code makes, and
 * for what is inside of structs: what it points to is kept, and buffers stay exported, while it
 * lives.
 *
 * All need the GIL. */
#ifndef NC_POINTERS_H
#define NC_POINTERS_H

#include "layout.h"
#include "platform/exceptions.h"
#include "scalars.h"

/* A pointer argument and what keeps it valid during the call. */
typedef struct {
    void *address;    /* what the callee gets */
    Py_buffer buffer; /* exported while buffer.obj is not NULL */
    PyObject *keep;   /* what the pointer_argument hook returned, with other owners; a list of
                       * owners, Pins among them, of what is inside of an aggregate; or NULL */
} NcPointer;

/* A Pin. */
typedef struct {
    PyObject_HEAD
    NcPointer pointer; /* released with the object */
} NcPin;

extern PyTypeObject NcPin_Type;

/* ---- conversion ------------------------------------------------------------------------------ */

/* 0; 1 where code ran meanwhile that may be anything's, which nc_check_unmoved is for; -1. */
int nc_convert_pointer(NcCallable *self, Py_ssize_t index, PyObject *value, NcPointer *out);

/* As nc_convert_pointer, 0, 1 or -1; with a negative index the first argument of the call interface
 * is meant. */
int nc_convert_pointer_of(const NcCallInterface *cif, PyObject *name, Py_ssize_t index,
                          PyObject *value, NcPointer *out);
/* What nc_convert_pointer_of leaves to others: a value whose buffer is exported to `out`, or was
 * refused with an exception, and messages tell of the type of `shown`; a value without a buffer. */
int nc_convert_exporter(const NcCallInterface *cif, PyObject *name, Py_ssize_t index,
                        PyObject *value, PyObject *shown, NcPointer *out, int exported);
int nc_convert_foreign(const NcCallInterface *cif, PyObject *name, Py_ssize_t index,
                       PyObject *value, NcPointer *out);
/* The latter for Fortran: numbers and texts, too (fortran.h). */
int nc_convert_referred(const NcCallInterface *cif, PyObject *name, Py_ssize_t index,
                        PyObject *value, NcPointer *out);
/* None for Fortran: 0 for a text, which has no characters then, for a function and for `void *`;
 * -1 with an exception for what a procedure reads or writes without asking. */
int nc_refuse_null(const NcCallInterface *cif, PyObject *name, Py_ssize_t index);

/* A pointer or array of cffi that the pointer_argument hook has told of (take_cffi): 1 with its
 * address, which lasts as long as the object; 0 where that hook is to see to it. */
int nc_take_pointer(PyObject *wanted, PyObject *value, void **address);
/* Tells of a type of ours that all objects of a class and of cffi's type are taken for it, as
 * `target`; of ctypes, by the class in place of these, in which ways (ctypespointers.c). */
void nc_take(PyObject *wanted, PyTypeObject *class_, PyObject *foreign, PyObject *target,
             uintptr_t mask);
/* The mask that was told; 0 for what was not. */
uintptr_t nc_taken_mask(PyObject *wanted, PyObject *foreign);
/* A byref() or pointer of ctypes that the hook has told of (take_ctypes): 1 with its address, 0
 * where that hook is to see to it. */
int nc_take_ctypes_pointer(PyObject *wanted, PyObject *value, NcPointer *out);
/* Whether the structs in the memory of an object of ctypes are those that a pointer leads to; 0
 * says nothing. */
int nc_takes_structs(PyObject *wanted, PyObject *value);
/* A struct of cffi, which is copied: 1, or 0 without an exception. */
int nc_take_struct(PyObject *wanted, PyObject *value, void *memory);
/* Adds `texts` to the module, a dict of cffi's types. 0 or -1. */
int nc_pointers_ready(PyObject *module);

/* The C function pointer for a Python function, or an object with a call table, that is argument
 * `index` of a callable; set once by what stands above (callable/pycallbackobject.c). 1; 0 where
 * pointer_argument is to see to it; -1. */
extern int (*nc_pass_function)(const NcCallInterface *cif, PyObject *name, Py_ssize_t index,
                               PyObject *value, NcPointer *out);

/* How the buffer of a value is exported for a pointer. */
static inline int nc_export_flags(const NcCallInterface *cif, Py_ssize_t index, PyObject *value)
{
    int flags = cif->arguments[index].export.flags;
    if (flags == 0) {
        /* bytes can stand for a string whatever the declaration said: plain C has char * for
         * both. */
        flags = PyBytes_Check(value) ? cif->export : cif->export | PyBUF_WRITABLE;
    }
    return flags;
}

/* 1 when the elements of `value`, whose buffer this is, are what argument `index` of a call
 * interface points to, 0 when not, -1 with an exception. */
int nc_buffer_suits(const NcCallInterface *cif, Py_ssize_t index, PyObject *value,
                    const Py_buffer *buffer);
/* Whether a buffer that suits has fewer items than the array that argument `index` points to. */
int nc_buffer_is_short(const NcCallInterface *cif, Py_ssize_t index, const Py_buffer *buffer);
/* Whether the elements of a buffer that suits are where C code may access them as what they are. */
int nc_buffer_is_aligned(const NcCallInterface *cif, Py_ssize_t index, const Py_buffer *buffer);

/* A pointer result as nc_given_pointer gives it. */
PyObject *nc_pointer_to_python(NcCallable *self, void *address);

/* ---- Pins ------------------------------------------------------------------------------------ */

/* A Pin of a value as argument `index` of a call interface, a pointer; with a negative index the
 * first one, and `name` is the whole subject of messages. NULL with an exception. */
NcPin *nc_pin_value(const NcCallInterface *cif, PyObject *name, Py_ssize_t index, PyObject *value);

/* After code ran that may be anything's: whether what the pointers' buffers were exported with is
 * still where it was. ctypes.resize, and ndarray.resize without its check, move memory that is
 * exported. `name` is the callable's. 0, or -1 with a BufferError. */
int nc_check_unmoved(PyObject *name, const NcPointer *pointers, size_t count);
/* The same for all Pins in a list. */
int nc_pins_check(PyObject *name, PyObject *list);

/* ---- the end of a call ----------------------------------------------------------------------- */

/* nc_join_pointers, where one keeps something. */
void nc_join_held_pointers(const NcPointer *pointers, size_t count);

/* Before a call: an exception of one Python function among its pointer arguments keeps the others
 * from running. */
static inline void nc_join_pointers(const NcPointer *pointers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (NC_UNLIKELY(pointers[i].keep != NULL)) {
            nc_join_held_pointers(pointers, count);
            return;
        }
    }
}

/* Closes the stash of a pointer argument, or those of the Pins in its list, as nc_stash_close. */
void nc_pointer_close(const NcPointer *pointer, PyObject **first);
/* The same for all Pins in a list. */
void nc_pins_close(PyObject *list, PyObject **first);
/* For a function pointer that is not an argument, which no call will close the stash of. */
void nc_pointer_end(const NcPointer *pointer);

static inline void nc_release_pointer(NcPointer *pointer)
{
    if (pointer->buffer.obj != NULL) {
        PyBuffer_Release(&pointer->buffer);
    }
    Py_XDECREF(pointer->keep);
}

/* nc_release_pointers, where one holds a buffer or keeps something. */
NC_NOINLINE PyObject *nc_release_held_pointers(PyObject *value, NcPointer *pointers, size_t count)
{
    PyObject *first = NULL;
    for (size_t i = 0; i < count; i++) {
        if (NC_UNLIKELY(pointers[i].keep != NULL)) {
            nc_pointer_close(&pointers[i], &first);
        }
        nc_release_pointer(&pointers[i]);
    }
    return NC_UNLIKELY(first != NULL) ? nc_stash_raise(value, first) : value;
}

/* Ends a call: releases its pointer arguments, and raises what a Python function among them
 * left. */
static inline PyObject *nc_release_pointers(PyObject *value, NcPointer *pointers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (pointers[i].keep != NULL || pointers[i].buffer.obj != NULL) {
            return nc_release_held_pointers(value, pointers, count);
        }
    }
    return value;
}

#endif
