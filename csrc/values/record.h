/* csrc/values/record.h: values of structs and unions, and of the arrays in them, as Python objects.
 *
 *     Layout    the description of a struct or of an array in one: C's name and a flat table of
 *               the members; made once a C type by nativecall/_values/storage.py, does not change
 *     Record    a value: its own C memory, or a view of a part of another Record's
 *
 * Nothing is converted when a Record is made: members are read from the memory when they are asked
 * for. What the pointers in it were set to here lives as long as the Record; so do the Python
 * objects in it, of which it has references.
 *
 * All need the GIL. */
#ifndef NC_RECORD_H
#define NC_RECORD_H

#include "layout.h"

extern PyTypeObject NcLayout_Type;
extern PyTypeObject NcRecordBase_Type;

extern PyTypeObject *nc_record_class;

typedef struct {
    PyObject_VAR_HEAD struct NcLayout *layout;
    PyObject *owner; /* of the memory; NULL where that follows */
    PyObject *kept;  /* dict: what was stored leads to that, by offset and size; or NULL */
    char *memory;    /* does not move, is as long and as aligned as the type of its layout */
} NcRecord;

/* A new Record with memory of its own, a copy of what is at `from`, or zeros where that is NULL.
 * `owned`: it takes the references to Python objects in there, as of a result. NULL with an
 * exception. */
PyObject *nc_record_new(PyObject *layout, const void *from, int owned);
/* The same in two parts, between which its memory is written, and nothing else is done. The
 * second is for those with pointers alone, and takes the Record. */
PyObject *nc_record_begin(PyObject *layout);
PyObject *nc_record_finish(PyObject *record, int owned);

static inline char *nc_record_memory(PyObject *record)
{
    return ((NcRecord *)(void *)record)->memory;
}

/* What C calls the type of a Record: borrowed, a str. */
PyObject *nc_record_name(PyObject *record);

/* The layout of an argument of a call interface that is a struct, or behind them of its result,
 * which the interface keeps: borrowed, or NULL with an exception. */
PyObject *nc_record_layout_asked(NcCallInterface *cif, Py_ssize_t index);
static inline PyObject *nc_record_layout(NcCallInterface *cif, Py_ssize_t index)
{
    PyObject *known = cif->layouts[index];
    return NC_LIKELY(known != NULL) ? known : nc_record_layout_asked(cif, index);
}

/* Whether a value is a Record of a layout, by a glance: 0 says nothing. */
static inline int nc_record_has(PyObject *value, const PyObject *layout)
{
    return Py_IS_TYPE(value, nc_record_class) &&
           (const void *)((NcRecord *)(void *)value)->layout == (const void *)layout;
}

/* Whether a layout has pointers or Python objects. */
int nc_record_leads_on(const PyObject *layout);
/* Whether a value is a Record of what an argument, a pointer, leads to. */
int nc_is_record_behind(PyObject *value, const NcCallInterface *cif, Py_ssize_t index);
/* Stores a Record of the layout's type without pointers, or a tuple of the usual: numbers of the
 * exact types, and tuples of them. 1; 0 when the value is anything else, or does not fit: part of
 * it may be in `memory` then, which was zeros, and no exception is set. */
int nc_record_store(PyObject *layout, PyObject *value, void *memory);

#endif
