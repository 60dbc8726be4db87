/* csrc/values/pointers.h: converts pointer arguments and results, and keeps arguments valid while C
 * uses them.
 *
 * Rules: pointers accept None for NULL (except Fortran's data pointers); matching buffers in the
 * call interface's memory layout, without a copy; objects of a native method's class as its first
 * argument; and whatever the pointer_argument hook accepts (ctypes, cffi, function pointers, arrays
 * without a buffer). A buffer stays exported until nc_release_pointer. On failure, the exception
 * names the argument and the callable, and nothing stays exported or owned.
 *
 * A Pin is a converted pointer argument as a Python object, for calls made by Python code and for
 * pointers in structs. While it lives, it keeps the target alive and its buffer exported.
 *
 * All functions need the GIL. */
#ifndef NC_POINTERS_H
#define NC_POINTERS_H

#include "layout.h"
#include "platform/exceptions.h"
#include "scalars.h"

/* A pointer argument, and what keeps it valid during the call. */
typedef struct {
    void *address;    /* passed to the callee */
    Py_buffer buffer; /* exported while buffer.obj is not NULL */
    PyObject *keep;   /* the result of the pointer_argument hook, with other owners; for an
                       * aggregate, a list of owners, which may include Pins; or NULL */
} NcPointer;

/* A Pin. */
typedef struct {
    PyObject_HEAD
    NcPointer pointer; /* released with the object */
} NcPin;

extern PyTypeObject NcPin_Type;

/* ---- conversion ------------------------------------------------------------------------------ */

/* Return 0, 1 if arbitrary code may have run (then call nc_check_unmoved), or -1. */
int nc_convert_pointer(NcCallable *self, Py_ssize_t index, PyObject *value, NcPointer *out);

/* As nc_convert_pointer, for a call interface. A negative index is the first argument. */
int nc_convert_pointer_of(const NcCallInterface *cif, PyObject *name, Py_ssize_t index,
                          PyObject *value, NcPointer *out);
/* Slow paths of nc_convert_pointer_of. The first is for a value with a buffer, which was exported
 * to `out` or refused with an exception; messages name the type of `shown`. The second is for a
 * value without a buffer. */
int nc_convert_exporter(const NcCallInterface *cif, PyObject *name, Py_ssize_t index,
                        PyObject *value, PyObject *shown, NcPointer *out, int exported);
int nc_convert_foreign(const NcCallInterface *cif, PyObject *name, Py_ssize_t index,
                       PyObject *value, NcPointer *out);
/* The second for Fortran, which also accepts numbers and strings (fortran.h). */
int nc_convert_referred(const NcCallInterface *cif, PyObject *name, Py_ssize_t index,
                        PyObject *value, NcPointer *out);
/* None for Fortran. Return 0 for a string (of no characters), a function or `void *`, or -1 with an
 * exception for data, which the procedure would access. */
int nc_refuse_null(const NcCallInterface *cif, PyObject *name, Py_ssize_t index);

/* Convert a cffi pointer or array that the pointer_argument hook has registered (take_cffi). Return
 * 1 with its address, valid as long as the object, or 0 to call that hook. */
int nc_take_pointer(PyObject *wanted, PyObject *value, void **address);
/* Register that our type `wanted` accepts all objects of a class and cffi type, converted to
 * `target`. For ctypes, pass the class for both types; `mask` says how they are accepted
 * (ctypespointers.c). */
void nc_take(PyObject *wanted, PyTypeObject *class_, PyObject *foreign, PyObject *target,
             uintptr_t mask);
/* Return the registered mask, or 0. */
uintptr_t nc_taken_mask(PyObject *wanted, PyObject *foreign);
/* Convert a ctypes byref() or pointer that the hook has registered (take_ctypes). Return 1 with its
 * address, or 0 to call that hook. */
int nc_take_ctypes_pointer(PyObject *wanted, PyObject *value, NcPointer *out);
/* Return 1 if the memory of a ctypes object is known to hold the structs that a pointer points to.
 * 0 means unknown. */
int nc_takes_structs(PyObject *wanted, PyObject *value);
/* Copy a registered cffi struct to `memory`. Return 1, or 0 without an exception. */
int nc_take_struct(PyObject *wanted, PyObject *value, void *memory);
/* Add the dict of cffi types, `texts`, to the module. Return 0 or -1. */
int nc_pointers_ready(PyObject *module);

/* Convert a Python function, or an object with a call table, to a C function pointer for argument
 * `index`. Set once by a higher layer (callable/pycallbackobject.c). Returns 1, 0 to call
 * pointer_argument, or -1. */
extern int (*nc_pass_function)(const NcCallInterface *cif, PyObject *name, Py_ssize_t index,
                               PyObject *value, NcPointer *out);

/* Return the flags with which to export a value's buffer for a pointer. */
static inline int nc_export_flags(const NcCallInterface *cif, Py_ssize_t index, PyObject *value)
{
    int flags = cif->arguments[index].export.flags;
    if (flags == 0) {
        /* bytes are accepted as a string even without const: C code often declares both as
         * char *. */
        flags = PyBytes_Check(value) ? cif->export : cif->export | PyBUF_WRITABLE;
    }
    return flags;
}

/* Return 1 if the elements of a value's buffer match what argument `index` points to, 0 if not, or
 * -1 with an exception. */
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

/* Convert a value for pointer argument `index` of a call interface and return a new Pin, or NULL
 * with an exception. If `index` is negative, it is the first argument, and `name` is the whole
 * subject of messages. */
NcPin *nc_pin_value(const NcCallInterface *cif, PyObject *name, Py_ssize_t index, PyObject *value);

/* Check, after arbitrary code ran, that the memory of exported buffers is still in place.
 * ctypes.resize, and ndarray.resize with refcheck=False, move exported memory. `name` is the
 * callable's. Return 0, or -1 with BufferError. */
int nc_check_unmoved(PyObject *name, const NcPointer *pointers, size_t count);
/* The same for all Pins in a list. */
int nc_pins_check(PyObject *name, PyObject *list);

/* ---- the end of a call ----------------------------------------------------------------------- */

/* nc_join_pointers, if a pointer keeps something. */
void nc_join_held_pointers(const NcPointer *pointers, size_t count);

/* Before a call, link the Python functions among its pointer arguments: after an exception in one,
 * none of them runs. */
static inline void nc_join_pointers(const NcPointer *pointers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (NC_UNLIKELY(pointers[i].keep != NULL)) {
            nc_join_held_pointers(pointers, count);
            return;
        }
    }
}

/* Close the stash of a pointer argument, or those of the Pins in its list, with nc_stash_close. */
void nc_pointer_close(const NcPointer *pointer, PyObject **first);
/* The same for all Pins in a list. */
void nc_pins_close(PyObject *list, PyObject **first);
/* Close the stash of a function pointer that is not an argument, so no call will close it. */
void nc_pointer_end(const NcPointer *pointer);

static inline void nc_release_pointer(NcPointer *pointer)
{
    if (pointer->buffer.obj != NULL) {
        PyBuffer_Release(&pointer->buffer);
    }
    Py_XDECREF(pointer->keep);
}

/* nc_release_pointers, if a pointer holds a buffer or keeps something. */
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

/* After a call, release its pointer arguments, and raise the stashed exception of a Python function
 * among them. */
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
