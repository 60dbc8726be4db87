/* nativecall/customslots.h: for consumers of slots (SEP 200): looks up a type's slots inline.
 *
 *     PyCustomSlots_Import()                       looks for the runtime; call it with the GIL for
 *                                                  each object you receive
 *     PyCustomSlots_Check(obj)                     whether the object's type has slots
 *     PyCustomSlots_Count(obj)                     the number of rows
 *     PyCustomSlots_Table(obj)                     the rows, in the provider's order
 *     PyCustomSlots_Find(obj, id, expected_pos)    the row with that key, or NULL
 *     PyCustomSlots_FindKey(obj, key)              the same for an interned string
 *     PyCustomSlots_FindOnObject(obj, id, pos)     the object's own row, otherwise the type's
 *     PyCustomSlots_Flags(obj, id, pos)            the flags in the row that FindOnObject finds,
 *                                                  or 0 without a row
 *     PyCustomSlots_Ask(obj, id, pos)              the row, or one that an attribute offers
 *
 * All functions except Import and Ask can be called without the GIL. Hold a reference to the object
 * or to its type. A row stays valid as long as the type. Until Import succeeds, all functions act
 * as if no type had slots. */
#ifndef NATIVECALL_CUSTOMSLOTS_H
#define NATIVECALL_CUSTOMSLOTS_H

#include "detail/compat.h"
#include "detail/core/lookup.h"
#include "detail/core/runtime.h"
#include "detail/core/slotids.h"
#include "provide.h"

NC_C_BEGIN

/* Return whether the metatype `derived` derives from `meta`. Not inlined: metatypes other than
 * `meta` itself are rare. */
NC_NOINLINE int nc_metatype_derives(PyTypeObject *derived, PyTypeObject *meta)
{
    while (derived != NULL && derived != meta) {
        derived = derived->tp_base;
    }
    return derived != NULL;
}

/* Return whether a type's metaclass is `meta` or derives from it. */
NC_STATIC_INLINE int nc_type_has_metatype(PyTypeObject *type, PyTypeObject *meta)
{
    PyTypeObject *found = Py_TYPE((PyObject *)type);
    return NC_LIKELY(found == meta) || nc_metatype_derives(found, meta);
}

/* Return whether obj's type can have slots: its metaclass is the runtime's (the fast case), or
 * derives from it along tp_base. */
NC_STATIC_INLINE int PyCustomSlots_Check(PyObject *obj)
{
    return nc_type_has_metatype(Py_TYPE(obj), nc_metatype);
}

/* Return the published table of obj's type, or NULL. */
NC_STATIC_INLINE const PyCustomSlotTable *nc_slots_of(PyObject *obj)
{
    PyHeapExtensibleTypeObject *type = (PyHeapExtensibleTypeObject *)(void *)Py_TYPE(obj);
    return NC_LIKELY(PyCustomSlots_Check(obj))
               ? (const PyCustomSlotTable *)NC_ABI_LOAD(&type->etp_custom_slots)
               : NULL;
}

/* Return the number of rows, including skip rows; 0 without slots. */
NC_STATIC_INLINE Py_ssize_t PyCustomSlots_Count(PyObject *obj)
{
    const PyCustomSlotTable *table = nc_slots_of(obj);
    return table != NULL ? (Py_ssize_t)table->count : 0;
}

/* Return the first row, or NULL. Read-only. */
NC_STATIC_INLINE const PyCustomSlot *PyCustomSlots_Table(PyObject *obj)
{
    const PyCustomSlotTable *table = nc_slots_of(obj);
    return table != NULL ? nc_slottable_rows(table) : NULL;
}

/* Return the row with the key `id`, or NULL. `expected_pos` is the position where types should put
 * the row; pass 0 if none is defined. The key at that position is compared first. If it differs,
 * one probe of a perfect hash finds the row. */
NC_STATIC_INLINE const PyCustomSlot *PyCustomSlots_Find(PyObject *obj, uintptr_t id,
                                                        Py_ssize_t expected_pos)
{
    const PyCustomSlotTable *table = nc_slots_of(obj);
    return NC_LIKELY(table != NULL) ? nc_slottable_find_expected(table, id, (intptr_t)expected_pos)
                                    : NULL;
}

/* Return where obj stores the pointer to its own slot table, or NULL if its type has no slot for
 * that pointer. */
NC_STATIC_INLINE void *nc_object_slots_place(PyObject *obj)
{
    const PyCustomSlot *slot =
        PyCustomSlots_Find(obj, PYCUSTOMSLOT_OBJECTSLOTS_ID, PYCUSTOMSLOT_OBJECTSLOTS_FAVPOS);
    return slot != NULL ? (char *)obj + slot->data.objoffset : NULL;
}

/* Return the object's own slot table, or NULL. */
NC_STATIC_INLINE const PyCustomSlotTable *nc_slots_of_object(PyObject *obj)
{
    const void *place = nc_object_slots_place(obj);
    return place != NULL ? (const PyCustomSlotTable *)NC_ABI_LOAD(place) : NULL;
}

/* Return the row with the key `id`: the object's own row, otherwise the type's, or NULL. An
 * object's own row stays valid as long as the object. Costs as much as two calls of
 * PyCustomSlots_Find, or three if the object has its own slots. */
NC_STATIC_INLINE const PyCustomSlot *PyCustomSlots_FindOnObject(PyObject *obj, uintptr_t id,
                                                                Py_ssize_t expected_pos)
{
    const PyCustomSlotTable *own = nc_slots_of_object(obj);
    const PyCustomSlot *slot =
        own != NULL ? nc_slottable_find_expected(own, id, (intptr_t)expected_pos) : NULL;
    return slot != NULL ? slot : PyCustomSlots_Find(obj, id, expected_pos);
}

/* Return the word of flags in the row that PyCustomSlots_FindOnObject finds, or 0 without a row. */
NC_STATIC_INLINE uintptr_t PyCustomSlots_Flags(PyObject *obj, uintptr_t id, Py_ssize_t expected_pos)
{
    const PyCustomSlot *slot = PyCustomSlots_FindOnObject(obj, id, expected_pos);
    return slot != NULL ? slot->data.flags : 0;
}

/* Return the row whose key is an interned string (nc_key_intern), or NULL. */
NC_STATIC_INLINE const PyCustomSlot *PyCustomSlots_FindKey(PyObject *obj, const char *key)
{
    const PyCustomSlotTable *table = nc_slots_of(obj);
    return table != NULL ? nc_slottable_find(table, (uintptr_t)(const void *)key) : NULL;
}

/* Return the row that PyCustomSlots_FindOnObject finds, otherwise the row of the first class in the
 * MRO whose attribute `__nativecall_slots__` (provide.h) has the key. NULL without an exception:
 * there is none. NULL with TypeError: the attribute is not a capsule of rows. GIL required, and no
 * exception set. */
NC_STATIC const PyCustomSlot *PyCustomSlots_Ask(PyObject *obj, uintptr_t id,
                                                Py_ssize_t expected_pos)
{
    const PyCustomSlot *row = PyCustomSlots_FindOnObject(obj, id, expected_pos);
    PyObject *mro = Py_TYPE(obj)->tp_mro, *value = NULL;
    for (Py_ssize_t i = 0;
         row == NULL && value != Py_None && i < PyTuple_Size(mro) && !PyErr_Occurred(); i++) {
        PyTypeObject *type = (PyTypeObject *)(void *)PyTuple_GetItem(mro, i);
        value = nc_type_own(type, NC_SLOTS_ATTRIBUTE);
        Py_DecRef(value); /* the class keeps it */
        if (value != NULL && value != Py_None) {
            row = (const PyCustomSlot *)nc_type_capsule(type, NC_SLOTS_ATTRIBUTE, NC_SLOTS_CAPSULE,
                                                        value);
        }
        while (row != NULL && row->id != id) {
            row = row->id != NC_SLOT_EMPTY ? row + 1 : NULL;
        }
    }
    return row;
}

NC_C_END

#endif
