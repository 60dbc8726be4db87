/* csrc/values/record.h: structs, unions, and the arrays in them, as Python objects.
 *
 *     Layout    describes a struct or an array member: its C name and a flat table of members.
 *               nativecall/_values/storage.py creates one Layout per C type. Immutable.
 *     Record    a value, in memory that it owns or in part of another Record's memory
 *
 * Creating a Record converts nothing: members are read from memory on access. A Record keeps alive
 * the targets of the pointers assigned to its members. It owns references to the Python objects in
 * its memory.
 *
 * All functions need the GIL. Layouts never change, except that cffi types are set once. Threads
 * may access the memory of a Record at once, as in C. The critical section of the dict of kept
 * objects encloses each change of a pointer and of what the dict keeps for it. */
#pragma once

#include "layout.h"

extern PyTypeObject NcLayout_Type;
extern PyTypeObject NcRecordBase_Type;

extern PyTypeObject *nc_record_class;

typedef struct {
    PyObject_VAR_HEAD struct NcLayout *layout;
    PyObject *owner; /* owner of the memory; NULL if the memory follows this struct */
    PyObject *kept;  /* dict: targets of stored pointers, by (offset, size); or NULL */
    char *memory;    /* never moves; has the size and alignment of the layout */
} NcRecord;

/* Return a new Record that owns its memory: a copy of `from`, or zeros if `from` is NULL. Return
 * NULL with an exception. If `owned`, the Record steals the references to Python objects in the
 * copy, as needed for a result. */
PyObject *nc_record_new(PyObject *layout, const void *from, int owned);
/* Create a Record in two steps. In between, write its memory and do nothing else. Call
 * nc_record_finish only if nc_record_leads_on(layout) is true. It steals `record`, and returns it
 * or NULL with an exception. */
PyObject *nc_record_begin(PyObject *layout);
PyObject *nc_record_finish(PyObject *record, int owned);

static inline char *nc_record_memory(PyObject *record)
{
    return ((NcRecord *)(void *)record)->memory;
}

/* Return the layout of a struct argument of a call interface. The index after the last argument
 * means the result. The call interface caches the layout. Return a borrowed reference, or NULL with
 * an exception. */
PyObject *nc_record_layout_asked(NcCallInterface *cif, Py_ssize_t index);
static inline PyObject *nc_record_layout(NcCallInterface *cif, Py_ssize_t index)
{
    PyObject *known = nc_kept(&cif->layouts[index]);
    return NC_LIKELY(known != NULL) ? known : nc_record_layout_asked(cif, index);
}

/* Return 1 if a value is certainly a Record of this layout, or 0 if this is unknown. */
static inline int nc_record_has(PyObject *value, const PyObject *layout)
{
    return Py_IS_TYPE(value, nc_record_class) &&
           (const void *)((NcRecord *)(void *)value)->layout == (const void *)layout;
}

/* Return whether a layout contains pointers or Python objects. */
int nc_record_leads_on(const PyObject *layout);
/* Return whether a value is a Record of the type that a pointer argument points to. */
int nc_is_record_behind(PyObject *value, const NcCallInterface *cif, Py_ssize_t index);
/* Fast path: store a value in zeroed memory. The value must be a (nested) tuple of numbers whose
 * Python types are exact, or a Record of the layout's type. The type of a Record must have no
 * pointers or Python objects. Return 1 on success. For any other value, or a number out of range,
 * return 0 without an exception; part of the value may then be in `memory`. */
int nc_record_store(PyObject *layout, PyObject *value, void *memory);
