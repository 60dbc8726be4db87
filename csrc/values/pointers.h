/* csrc/values/pointers.h: converts pointer arguments and results, and keeps arguments valid while C
 * uses them.
 *
 * Rules. A pointer argument accepts these values:
 *
 * - None for NULL, except for Fortran's data pointers;
 * - a matching buffer in the call interface's memory layout, without a copy;
 * - as the first argument of a native method: an object of the method's class;
 * - objects that the pointer_argument hook converts: ctypes and cffi objects, function pointers,
 *   and arrays without a buffer.
 *
 * A buffer stays exported until nc_release_pointer. On failure, the exception names the argument
 * and the callable, and nothing stays exported or owned.
 *
 * A Pin is a Python object that holds a converted pointer argument. It is used for calls made by
 * Python code, and for pointers in structs. A Pin keeps the target alive and the buffer exported.
 *
 * All functions need the GIL. */
#pragma once

#include "layout.h"
#include "platform/exceptions.h"
#include "scalars.h"

/* A pointer argument, and what keeps it valid during the call. */
typedef struct {
    void *address;    /* passed to the callee */
    Py_buffer buffer; /* exported while buffer.obj is not NULL */
    PyObject *keep;   /* NULL, or a tuple of the target's owners. For an aggregate, a list of
                       * owners, which may contain Pins */
} NcPointer;

/* A Pin. */
typedef struct {
    PyObject_HEAD
    NcPointer pointer; /* released with the object */
} NcPin;

extern PyTypeObject NcPin_Type;

/* ---- conversion ------------------------------------------------------------------------------ */

/* Convert argument `index`. Return 0, or -1 with an exception. Return 1 if arbitrary code may have
 * run; then call nc_check_unmoved. */
int nc_convert_pointer(NcCallable *self, Py_ssize_t index, PyObject *value, NcPointer *out);

/* Like nc_convert_pointer, for a call interface. A negative index means the first argument. */
int nc_convert_pointer_of(const NcCallInterface *cif, PyObject *name, Py_ssize_t index,
                          PyObject *value, NcPointer *out);
/* Slow path of nc_convert_pointer_of for a value with a buffer. If `exported`, the buffer is in
 * `out`. Otherwise the export failed, and its exception is set. Messages name the type of
 * `shown`. */
int nc_convert_exporter(const NcCallInterface *cif, PyObject *name, Py_ssize_t index,
                        PyObject *value, PyObject *shown, NcPointer *out, int exported);
/* Slow path of nc_convert_pointer_of for a value without a buffer. */
int nc_convert_foreign(const NcCallInterface *cif, PyObject *name, Py_ssize_t index,
                       PyObject *value, NcPointer *out);
/* nc_convert_foreign for Fortran, which also accepts numbers and strings (fortran.h). */
int nc_convert_referred(const NcCallInterface *cif, PyObject *name, Py_ssize_t index,
                        PyObject *value, NcPointer *out);
/* Check whether argument `index` of a Fortran procedure accepts None. Return 0 if it is a string
 * (None is then an empty string), a function or `void *`. Return -1 with an exception if it is
 * data, which the procedure would access. */
int nc_refuse_null(const NcCallInterface *cif, PyObject *name, Py_ssize_t index);

/* Convert a cffi pointer or array whose type the pointer_argument hook has registered (take_cffi).
 * Return 1 with the address, which is valid while `value` lives. Return 0 if the caller must call
 * the hook. */
int nc_take_pointer(PyObject *wanted, PyObject *value, void **address);
/* Register that arguments of the C type `wanted` accept all objects with this Python class and cffi
 * type. They are converted to the cffi type `target`; address bits in `mask` must be 0. For ctypes,
 * pass the class as `class_`, `foreign` and `target`; `mask` then states how its objects are
 * converted (ctypespointers.c). */
void nc_take(PyObject *wanted, PyTypeObject *class_, PyObject *foreign, PyObject *target,
             uintptr_t mask);
/* Return the registered mask, or 0. */
uintptr_t nc_taken_mask(PyObject *wanted, PyObject *foreign);
/* Convert a ctypes byref() or pointer whose class the hook has registered (take_ctypes). Return 1
 * with the address, or 0 if the caller must call the hook. */
int nc_take_ctypes_pointer(PyObject *wanted, PyObject *value, NcPointer *out);
/* Return 1 if a ctypes object is known to contain structs of the type that `wanted` points to.
 * Return 0 if this is unknown. */
int nc_takes_structs(PyObject *wanted, PyObject *value);
/* Copy a registered cffi struct to `memory`, unless that is NULL. Return 1, or 0 without an
 * exception. */
int nc_take_struct(PyObject *wanted, PyObject *value, void *memory);
/* Add the dict of cffi types, `texts`, to the module. Return 0 or -1. */
int nc_pointers_ready(PyObject *module);

/* Convert a Python function, or an object with a call table, to a C function pointer for argument
 * `index`. Set once by a higher layer (callable/pycallbackobject.c). Returns 1, or -1 with an
 * exception. Returns 0 if the caller must call the pointer_argument hook. */
extern int (*nc_pass_function)(const NcCallInterface *cif, PyObject *name, Py_ssize_t index,
                               PyObject *value, NcPointer *out);

/* Return the flags with which to export a value's buffer for a pointer. */
static inline int nc_export_flags(const NcCallInterface *cif, Py_ssize_t index, PyObject *value)
{
    int flags = cif->arguments[index].export.flags;
    if (flags == 0) {
        /* Accept bytes for a pointer to non-const, too: C code often declares a string as char *
         * although it only reads the string. */
        flags = PyBytes_Check(value) ? cif->export : cif->export | PyBUF_WRITABLE;
    }
    return flags;
}

/* Return 1 if the elements of a value's buffer match the type that argument `index` points to.
 * Return 0 if not, or -1 with an exception. */
int nc_buffer_suits(const NcCallInterface *cif, Py_ssize_t index, PyObject *value,
                    const Py_buffer *buffer);
/* Return whether a matching buffer has fewer items than the array that argument `index` points
 * to. */
int nc_buffer_is_short(const NcCallInterface *cif, Py_ssize_t index, const Py_buffer *buffer);
/* Return whether the elements of a matching buffer are aligned for C. */
int nc_buffer_is_aligned(const NcCallInterface *cif, Py_ssize_t index, const Py_buffer *buffer);

/* Convert a pointer result with nc_given_pointer. */
PyObject *nc_pointer_to_python(NcCallable *self, void *address);

/* ---- Pins ------------------------------------------------------------------------------------ */

/* Convert a value for pointer argument `index` of a call interface. Return a new Pin, or NULL with
 * an exception. A negative `index` means the first argument; messages then begin with `name`
 * itself. */
NcPin *nc_pin_value(const NcCallInterface *cif, PyObject *name, Py_ssize_t index, PyObject *value);

/* Check that the memory of exported buffers has not moved. Call this after arbitrary code ran:
 * ctypes.resize, and ndarray.resize with refcheck=False, move exported memory. `name` is the name
 * of the callable. Return 0, or -1 with BufferError. */
int nc_check_unmoved(PyObject *name, const NcPointer *pointers, size_t count);
/* nc_check_unmoved for all Pins in a list. */
int nc_pins_check(PyObject *name, PyObject *list);

/* ---- the end of a call ----------------------------------------------------------------------- */

/* Slow path of nc_join_pointers, if some pointer has a `keep`. */
void nc_join_held_pointers(const NcPointer *pointers, size_t count);

/* Before a call, link the Python functions among its pointer arguments. If one of these functions
 * raises, none of them runs for the rest of the call. */
static inline void nc_join_pointers(const NcPointer *pointers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (NC_UNLIKELY(pointers[i].keep != NULL)) {
            nc_join_held_pointers(pointers, count);
            return;
        }
    }
}

/* Call nc_stash_close for the stash of a pointer argument, or for the stashes of the Pins in its
 * `keep`. */
void nc_pointer_close(const NcPointer *pointer, PyObject **first);
/* nc_pointer_close for all Pins in a list. */
void nc_pins_close(PyObject *list, PyObject **first);

static inline void nc_release_pointer(NcPointer *pointer)
{
    if (pointer->buffer.obj != NULL) {
        PyBuffer_Release(&pointer->buffer);
    }
    Py_XDECREF(pointer->keep);
}

/* Slow path of nc_release_pointers, if some pointer has a buffer or a `keep`. */
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

/* Release the pointer arguments after a call. If a Python function among them has stashed an
 * exception, raise it and return NULL; otherwise return `value`. */
static inline PyObject *nc_release_pointers(PyObject *value, NcPointer *pointers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (pointers[i].keep != NULL || pointers[i].buffer.obj != NULL) {
            return nc_release_held_pointers(value, pointers, count);
        }
    }
    return value;
}
