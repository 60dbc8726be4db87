/* nativecall/detail/core/runtime.h: what all copies of these headers in a process share.
 *
 * The layout of an extensible type, the record by which the first copy offers its metaclass and
 * its registry of interned keys to all others, and how a type is recognised. Readers of slots and
 * call tables need no more than this; extensibletype.h has the functions.
 *
 * Every struct is frozen for an ABI version; docs/abi/runtime.md says what a mismatch obliges to. */
#ifndef NATIVECALL_RUNTIME_H
#define NATIVECALL_RUNTIME_H

#include <Python.h>

#include "../../nativecall_abi.h"
#include "lookup.h"

NC_C_BEGIN

/* A value of a dict, a new reference; NULL when missing, or with an exception:
 * PyDict_GetItemString says "missing" for want of memory too. */
NC_STATIC PyObject *nc_dict_item(PyObject *dict, const char *name)
{
    PyObject *key = PyUnicode_FromString(name);
    PyObject *value = key != NULL ? PyDict_GetItemWithError(dict, key) : NULL;
    Py_XINCREF(value);
    Py_XDECREF(key);
    return value;
}

/* The offset counted from the object's ob_type, so that 0, which new types have, leads to the type
 * itself. Read as a call table, a type starts with its reference count and its metatype: a
 * first entry whose signature is no interned string. So the hot lookup (nativecallable.h) need not
 * test whether there is a table before it compares the first signature. */
#define NC_TABLE_SHIFT(offset)                                                                     \
    ((offset) == 0 ? 0 : (offset) - (Py_ssize_t)offsetof(PyObject, ob_type))

/* For static initialisers: the array of rows, ended by (and padded with) rows of id 0, that Ready
 * takes as the type's own. Until Ready has run, etp_custom_slots points to this array. */
#define NC_STATIC_SLOTS(rows) ((PyCustomSlotTable *)(void *)(rows))

#define NC_RUNTIME_MODULE "_extensibletype"
#define NC_RUNTIME_ATTRIBUTE "runtime_v1"
#define NC_RUNTIME_CAPSULE "_extensibletype.runtime_v1"
/* The dict at the runtime's module of IDs that were allocated at run time: {id: who did}. */
#define NC_RUNTIME_IDS "allocated_ids"

/* Who we are in handshake errors; a bundler may define it before the include. */
#ifndef NC_PROVIDER
#define NC_PROVIDER "an extension module that bundles nativecall"
#endif

/* Whether `derived`, a metatype, derives from `meta`. Out of line: metatypes other than `meta`
 * itself are rare, and the walk need not be repeated at every place that checks. */
NC_NOINLINE int nc_metatype_derives(PyTypeObject *derived, PyTypeObject *meta)
{
    while (derived != NULL && derived != meta) {
        derived = derived->tp_base;
    }
    return derived != NULL;
}

/* Whether a type was made by the metaclass `meta` or one derived from it. */
NC_STATIC_INLINE int nc_type_has_metatype(PyTypeObject *type, PyTypeObject *meta)
{
    PyTypeObject *found = Py_TYPE((PyObject *)type);
    return NC_LIKELY(found == meta) || nc_metatype_derives(found, meta);
}

/* The published table of obj's type, NULL when it has none. */
NC_STATIC_INLINE const PyCustomSlotTable *nc_slots_of(PyObject *obj)
{
    PyTypeObject *type = Py_TYPE(obj);
    if (!nc_type_has_metatype(type, nc_metatype)) {
        return NULL;
    }
    return (const PyCustomSlotTable *)nc_load_acquire_ptr(
        &((PyHeapExtensibleTypeObject *)(void *)type)->etp_custom_slots);
}

/* Where obj keeps the pointer to a slot table of its own; NULL where its type says nothing. */
NC_STATIC_INLINE void *nc_object_slots_place(PyObject *obj)
{
    const PyCustomSlotTable *table = nc_slots_of(obj);
    const PyCustomSlot *slot = table == NULL
                                   ? NULL
                                   : nc_slottable_find_expected(table, PYCUSTOMSLOT_OBJECTSLOTS_ID,
                                                                PYCUSTOMSLOT_OBJECTSLOTS_FAVPOS);
    return slot != NULL ? (char *)obj + slot->data.objoffset : NULL;
}

NC_C_END

#endif
