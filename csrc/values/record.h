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

/* A new Record with memory of its own, a copy of what is at `from`, or zeros where that is NULL.
 * `owned`: it takes the references to Python objects in there, as of a result. NULL with an
 * exception. */
PyObject *nc_record_new(PyObject *layout, const void *from, int owned);
/* The same whose memory, in *memory, is still to be written; *memory stays NULL where the layout
 * has pointers, and then there is no Record and no exception. */
PyObject *nc_record_begin(const PyObject *layout, char **memory);
/* Its memory, which does not move and is as long and as aligned as the type of its layout. */
void *nc_record_memory(PyObject *record);

/* The layout of an argument of a call spec that is a struct, or behind them of its result, which
 * the spec keeps: borrowed, or NULL with an exception. */
PyObject *nc_record_layout(NcCallSpec *spec, Py_ssize_t index);

/* The memory of a value that is a Record of a layout, by a glance, where that has no pointers; NULL
 * says nothing. */
const char *nc_record_plain(const PyObject *layout, PyObject *value);

/* Whether a value is a Record of what an argument, a pointer, leads to. */
int nc_is_record_behind(PyObject *value, const NcCallSpec *spec, Py_ssize_t index);
/* Stores a Record of the layout's type without pointers, or a tuple of the usual: numbers of the
 * exact types, and tuples of them. 1; 0 when the value is anything else, or does not fit: part of
 * it may be in `memory` then, which was zeros, and no exception is set. */
int nc_record_store(PyObject *layout, PyObject *value, void *memory);

#endif
