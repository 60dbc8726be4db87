/* nativecall/customslots.h: for consumers of slots (SEP 200): one inline lookup finds what a type
 * offers natively.
 *
 *     PyCustomSlots_Import()                       whenever an object comes in, with the GIL
 *     PyCustomSlots_Check(obj)                     does the object's type have slots at all
 *     PyCustomSlots_Count(obj)                     how many rows
 *     PyCustomSlots_Table(obj)                     the rows, in the provider's order
 *     PyCustomSlots_Find(obj, id, expected_pos)    the row of that key, or NULL
 *     PyCustomSlots_FindKey(obj, key)              the same for an interned string
 *     PyCustomSlots_FindOnObject(obj, id, pos)     the same, but the object's own row goes first
 *     PyCustomSlots_Flags(obj, id, pos)            the word of flags in that row, or 0
 *
 * Everything but Import can be called without the GIL, by code that holds a reference to the object
 * (or to its type). A row that was found stays valid as long as the type. Before Import has
 * succeeded, and for every object that knows nothing of slots, the answer is "none". */
#ifndef NATIVECALL_CUSTOMSLOTS_H
#define NATIVECALL_CUSTOMSLOTS_H

#include "detail/core/lookup.h"
#include "detail/core/runtime.h"
#include "detail/core/slotids.h"

NC_C_BEGIN

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

/* 1 or 0. The metaclass itself is the predicted case; metaclasses derived from it are found along
 * tp_base. */
NC_STATIC_INLINE int PyCustomSlots_Check(PyObject *obj)
{
    return nc_type_has_metatype(Py_TYPE(obj), nc_metatype);
}

/* The published table of obj's type, NULL when it has none. */
NC_STATIC_INLINE const PyCustomSlotTable *nc_slots_of(PyObject *obj)
{
    PyTypeObject *type = Py_TYPE(obj);
    if (!nc_type_has_metatype(type, nc_metatype)) {
        return NULL;
    }
    return (const PyCustomSlotTable *)NC_ABI_LOAD(
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

/* Rows of the table, skip rows included; 0 for an object without slots. */
NC_STATIC_INLINE Py_ssize_t PyCustomSlots_Count(PyObject *obj)
{
    const PyCustomSlotTable *table = nc_slots_of(obj);
    return table != NULL ? (Py_ssize_t)table->count : 0;
}

/* The first row, or NULL; read only. */
NC_STATIC_INLINE const PyCustomSlot *PyCustomSlots_Table(PyObject *obj)
{
    const PyCustomSlotTable *table = nc_slots_of(obj);
    return table != NULL ? nc_slottable_rows(table) : NULL;
}

/* The row whose key is id, or NULL. expected_pos is where well-behaved types keep it (0 if none is
 * defined): that row is compared first, which the processor predicts; else one probe of the
 * perfect hash decides. */
NC_STATIC_INLINE const PyCustomSlot *PyCustomSlots_Find(PyObject *obj, uintptr_t id,
                                                        Py_ssize_t expected_pos)
{
    const PyCustomSlotTable *table = nc_slots_of(obj);
    if (NC_UNLIKELY(table == NULL)) {
        return NULL;
    }
    return nc_slottable_find_expected(table, id, (intptr_t)expected_pos);
}

/* The slot table of the object itself, or NULL. */
NC_STATIC_INLINE const PyCustomSlotTable *nc_slots_of_object(PyObject *obj)
{
    const void *place = nc_object_slots_place(obj);
    return place != NULL ? (const PyCustomSlotTable *)NC_ABI_LOAD(place) : NULL;
}

/* The row whose key is id: that of the object itself, else that of its type, or NULL. An object's
 * own row stays valid as long as the object. Costs what PyCustomSlots_Find costs twice, or three
 * times where the object has slots of its own. */
NC_STATIC_INLINE const PyCustomSlot *PyCustomSlots_FindOnObject(PyObject *obj, uintptr_t id,
                                                                Py_ssize_t expected_pos)
{
    const PyCustomSlotTable *own = nc_slots_of_object(obj);
    const PyCustomSlot *slot =
        own != NULL ? nc_slottable_find_expected(own, id, (intptr_t)expected_pos) : NULL;
    return slot != NULL ? slot : PyCustomSlots_Find(obj, id, expected_pos);
}

/* The word of flags under a key, of the object itself or of its type; 0 where there is none. */
NC_STATIC_INLINE uintptr_t PyCustomSlots_Flags(PyObject *obj, uintptr_t id, Py_ssize_t expected_pos)
{
    const PyCustomSlot *slot = PyCustomSlots_FindOnObject(obj, id, expected_pos);
    return slot != NULL ? slot->data.flags : 0;
}

/* The row whose key is an interned string (nc_key_intern), or NULL. */
NC_STATIC_INLINE const PyCustomSlot *PyCustomSlots_FindKey(PyObject *obj, const char *key)
{
    const PyCustomSlotTable *table = nc_slots_of(obj);
    if (NC_UNLIKELY(table == NULL)) {
        return NULL;
    }
    return nc_slottable_find(table, (uintptr_t)(const void *)key);
}

NC_C_END

#endif
