/* nativecall/nativecallable.h: for callers: finds the C function inside a Python callable.
 *
 *     static const char *sig;
 *
 *     if (!nc_abi_offers(obj)) ...                                   // most objects: PyObject_Call
 *     if (sig == NULL && nc_signature_intern("d:d", &sig) < 0) return NULL;       // with the GIL
 *
 *     f = (double (*)(double))nc_native_function(obj, sig, NC_FLAG_NEEDS_GIL | NC_ERRORS_MASK);
 *     if (f != NULL) y = f(x);             // else: PyObject_Call
 *
 * Two ways lead to an object's call table: the offset in its type (CEP 1000), which is the
 * shortest, and the row of the slot table (SEP 201). Both give the same table. A callable's
 * built-in view (`f.builtin`) is accepted wherever the callable is.
 *
 * Threads: no GIL, no lock and no store; the caller holds a reference to the object, and with it to
 * every table and function that is found. Entries whose flags meet `refuse` are passed over, as are
 * those of a later ABI: NC_FLAG_NEEDS_GIL without the GIL, NC_ERRORS_MASK unless you look for them.
 *
 * The runtime comes with the first provider, at any time: a module looks for it, by interning or by
 * PyCustomSlots_Import(), when an object comes in. Until then, and where it is of an ABI unknown
 * here, nothing is found, and no import fails for that. */
#ifndef NATIVECALL_NATIVECALLABLE_H
#define NATIVECALL_NATIVECALLABLE_H

#include "detail/core/lookup.h"
#include "detail/core/packedlookup.h"
#include "detail/core/runtime.h"

NC_C_BEGIN

/* The callable behind a built-in view, a borrowed reference; NULL when obj is no view: a built-in
 * function whose method definition lies inside the object that it is bound to. */
NC_STATIC_INLINE PyObject *nc_native_viewed(PyObject *obj)
{
    PyObject *self = nc_abi_behind(obj);
    return self != obj ? self : NULL;
}

/* The call table of obj or of what it is a view of, by the offset in its type or else by the slot;
 * NULL without one. */
NC_STATIC_INLINE const PyNativeCallableTable *nc_native_table(PyObject *obj)
{
    const void *table = nc_abi_table(obj, PYCUSTOMSLOT_NATIVECALLABLE_ID);
    return table != &nc_abi_nothing ? (const PyNativeCallableTable *)table : NULL;
}

/* Whether the type of obj is of the metaclass itself, none derived from it. */
NC_HOT_INLINE int nc_native_is_exact(PyObject *obj)
{
    return Py_TYPE((PyObject *)Py_TYPE(obj)) == nc_metatype;
}

/* A lookup from the beginning: any entry, any metaclass, views, by either way to the table. */
NC_NOINLINE const PyNativeCallableEntry *nc_native_find_else(PyObject *obj, const char *signature,
                                                             uintptr_t refuse)
{
    return nc_abi_find(obj, signature, refuse);
}

/* The first entry at the type's offset, whether or not there is a table: where there is none, no
 * signature equals what is there (NC_TABLE_SHIFT). For objects whose metatype is the exact one. */
NC_HOT_INLINE const PyNativeCallableEntry *nc_native_first(PyObject *obj)
{
    const PyHeapExtensibleTypeObject *type =
        (const PyHeapExtensibleTypeObject *)(const void *)Py_TYPE(obj);
    const PyNativeCallableTable *table;
    intptr_t shift;
    /* Relaxed: no memory is reached through the number alone; all of the object, its pointer
     * included, is older than the caller's reference. */
#ifdef Py_GIL_DISABLED
    /* There a type starts with other fields, which prove nothing. */
    shift = (intptr_t)NC_LOAD_RELAXED(&type->etp_obj_custom_slots_offset);
    if (NC_UNLIKELY(shift == 0)) {
        return NULL;
    }
    shift -= (intptr_t)offsetof(PyObject, ob_type);
#else
    shift = (intptr_t)NC_LOAD_RELAXED(&type->etp_table_shift);
#endif
    table = (const PyNativeCallableTable *)NC_ABI_LOAD((const char *)obj +
                                                       offsetof(PyObject, ob_type) + shift);
    return &table->entries[0];
}

/* The table that the slot of an ID leads to, of an object whose metatype is the exact one; NULL
 * where the slot is not at its expected position. A type's table has a row or more, and a zero row
 * behind the last, so there are the positions 0 and 1. */
NC_HOT_INLINE const void *nc_native_at_slot(PyObject *obj, uintptr_t id, intptr_t expected_pos)
{
    const PyHeapExtensibleTypeObject *type =
        (const PyHeapExtensibleTypeObject *)(const void *)Py_TYPE(obj);
    const PyCustomSlotTable *slots =
        (const PyCustomSlotTable *)NC_ABI_LOAD(&type->etp_custom_slots);
    const PyCustomSlot *slot;
    const void *table;
    if (NC_UNLIKELY(slots == NULL)) {
        return NULL;
    }
    slot = nc_slottable_rows(slots) + expected_pos;
    if (NC_UNLIKELY(slot->id != id)) {
        return NULL;
    }
    table = NC_ABI_LOAD((const char *)obj + slot->data.objoffset);
    NC_ASSUME(table != NULL); /* not even of an object without entries */
    return table;
}

/* The first entry through the slot table. */
NC_HOT_INLINE const PyNativeCallableEntry *nc_native_first_by_slot(PyObject *obj)
{
    const PyNativeCallableTable *table = (const PyNativeCallableTable *)nc_native_at_slot(
        obj, PYCUSTOMSLOT_NATIVECALLABLE_ID, PYCUSTOMSLOT_NATIVECALLABLE_FAVPOS);
    return table != NULL ? &table->entries[0] : NULL;
}

/* The second to the fourth entry with this signature, if its flags suit; else NULL. One comparison
 * after another, for which the processor need not wait; a loop would cost as much as the lookup. */
NC_HOT_INLINE const PyNativeCallableEntry *
nc_native_next_three(const PyNativeCallableEntry *entry, const char *signature, uintptr_t refuse)
{
    const void *found;
    if (NC_UNLIKELY(signature == NULL || NC_ABI_LOAD(&entry->signature) == NULL)) {
        return NULL;
    }
    if ((found = NC_ABI_LOAD(&(++entry)->signature)) != signature && NC_LIKELY(found != NULL) &&
        (found = NC_ABI_LOAD(&(++entry)->signature)) != signature && NC_LIKELY(found != NULL)) {
        found = NC_ABI_LOAD(&(++entry)->signature);
    }
    return NC_LIKELY(found == signature) && NC_LIKELY(nc_calltable_flags_suit(entry->flags, refuse))
               ? entry
               : NULL;
}

/* The lookup: objects of the exact metatype, one of their first four entries, and the first one of
 * what a view is of, without a call. */
NC_HOT_INLINE const PyNativeCallableEntry *
nc_native_find_either(PyObject *obj, const char *signature, uintptr_t refuse, int by_slot)
{
    const PyNativeCallableEntry *entry;
    if (NC_LIKELY(nc_native_is_exact(obj))) {
        entry = by_slot ? nc_native_first_by_slot(obj) : nc_native_first(obj);
        if (NC_LIKELY(entry != NULL)) {
            if (nc_calltable_first_is(entry, signature, refuse)) {
                return entry;
            }
            entry = nc_native_next_three(entry, signature, refuse);
            if (NC_LIKELY(entry != NULL)) {
                return entry;
            }
        }
    } else {
        PyObject *self = nc_abi_behind(obj);
        if (NC_LIKELY(nc_native_is_exact(self))) {
            entry = by_slot ? nc_native_first_by_slot(self) : nc_native_first(self);
            if (NC_LIKELY(entry != NULL) && nc_calltable_first_is(entry, signature, refuse)) {
                return entry;
            }
        }
    }
    return nc_native_find_else(obj, signature, refuse);
}

/* The entry of an interned signature none of whose flags is in `refuse`, or NULL. A NULL signature,
 * which is what nc_interned_find gives for one that is not interned, finds nothing. */
NC_HOT_INLINE const PyNativeCallableEntry *nc_native_find(PyObject *obj, const char *signature,
                                                          uintptr_t refuse)
{
    return nc_native_find_either(obj, signature, refuse, 0);
}

/* The same through the slot table. */
NC_HOT_INLINE const PyNativeCallableEntry *
nc_native_find_by_slot(PyObject *obj, const char *signature, uintptr_t refuse)
{
    return nc_native_find_either(obj, signature, refuse, 1);
}

/* The function pointer itself, or NULL: the shortest way for callers that need no flags. */
NC_HOT_INLINE void *nc_native_function(PyObject *obj, const char *signature, uintptr_t refuse)
{
    const PyNativeCallableEntry *entry = nc_native_find(obj, signature, refuse);
    return entry != NULL ? nc_calltable_funcptr(entry) : NULL;
}

/* The same through the slot table. */
NC_HOT_INLINE void *nc_native_function_by_slot(PyObject *obj, const char *signature,
                                               uintptr_t refuse)
{
    const PyNativeCallableEntry *entry = nc_native_find_by_slot(obj, signature, refuse);
    return entry != NULL ? nc_calltable_funcptr(entry) : NULL;
}

/* ---- all entries ----------------------------------------------------------------------------- */

/* The entry after `entry`, the first one after NULL; NULL behind the last. In order of preference:
 *     for (e = nc_native_next(obj, NULL); e != NULL; e = nc_native_next(obj, e)) ...
 * Entries of a later ABI are passed over. The loop sees one table, the one published when it began,
 * whatever a writer does meanwhile. */
NC_STATIC const PyNativeCallableEntry *nc_native_next(PyObject *obj,
                                                      const PyNativeCallableEntry *entry)
{
    entry = entry == NULL ? NC_ABI_ENTRIES(obj) : entry + 1;
    while (NC_ABI_LOAD(&entry->signature) != NULL) {
        if (nc_calltable_flags_suit(entry->flags, 0)) {
            return entry;
        }
        entry++;
    }
    return NULL;
}

/* ---- by packed signature --------------------------------------------------------------------- */

/* The packed table (packed.h) of obj or of what it is a view of, or NULL. */
NC_STATIC_INLINE const uint64_t *nc_native_packed_table(PyObject *obj)
{
    const void *table = nc_abi_table(obj, PYCUSTOMSLOT_PACKEDCALLABLE_ID);
    return table != &nc_abi_nothing ? (const uint64_t *)table : NULL;
}

/* A packed lookup in the call table of an object without a packed table: every provider has a call
 * table (docs/abi/provide.md), which this reads by the text that an interned signature leads to. */
NC_COLD void *nc_native_packed_in_calls(PyObject *obj, const uint64_t *words, size_t count,
                                        uintptr_t refuse)
{
    const PyNativeCallableEntry *entry = NULL;
    while ((entry = nc_native_next(obj, entry)) != NULL) {
        if (nc_calltable_flags_suit(entry->flags, refuse) &&
            nc_packed_is_text(words, count, entry->signature)) {
            return nc_calltable_funcptr(entry);
        }
    }
    return NULL;
}

/* The function of a packed signature (nc_signature_pack without flags) none of whose flags is in
 * `refuse`, or NULL. Needs no interning, but PyCustomSlots_Import beforehand. */
NC_NOINLINE void *nc_native_function_packed(PyObject *obj, const uint64_t *words, size_t count,
                                            uintptr_t refuse)
{
    const uint64_t *table = nc_native_packed_table(obj);
    const uint64_t *entry;
    if (NC_UNLIKELY(table == NULL)) {
        return nc_native_packed_in_calls(obj, words, count, refuse);
    }
    entry = nc_packed_find(table, words, count, NC_PACKED_REFUSE(refuse));
    return entry != NULL ? nc_packed_funcptr(entry, count) : NULL;
}

/* The packed table of an object whose metatype is the exact one, by its slot. */
NC_HOT_INLINE const uint64_t *nc_native_first_packed(PyObject *obj)
{
    return (const uint64_t *)nc_native_at_slot(obj, PYCUSTOMSLOT_PACKEDCALLABLE_ID,
                                               PYCUSTOMSLOT_PACKEDCALLABLE_FAVPOS);
}

/* A lookup of one word from the beginning. */
NC_NOINLINE void *nc_native_packed_else(PyObject *obj, uint64_t word, uintptr_t refuse)
{
    return nc_native_function_packed(obj, &word, 1, refuse);
}

/* The function of a signature of one word, NATIVECALL_SIG("d:dd"): the word is an immediate in the
 * instruction stream. */
NC_HOT_INLINE void *nc_native_function_word(PyObject *obj, uint64_t word, uintptr_t refuse)
{
    const uint64_t mask = NC_PACKED_REFUSE(refuse);
    const uint64_t *entry;
    uint64_t found;
    /* Folds away for a constant. A 0 would match the end of the table. */
    if (NC_UNLIKELY((word & NC_PACKED_START) == 0)) {
        return NULL;
    }
    if (NC_LIKELY(nc_native_is_exact(obj))) {
        entry = nc_native_first_packed(obj);
        if (NC_LIKELY(entry != NULL)) {
            /* The first entry is complete before its table is published: a plain load. */
            if (NC_LIKELY(((*entry ^ word) & mask) == 0)) {
                return nc_packed_funcptr(entry, 1);
            }
            /* The next three steps of nc_packed_find. */
            if (NC_LIKELY(nc_packed_load(entry) != 0)) {
                if ((((found = nc_packed_load(entry += 2)) ^ word) & mask) != 0 &&
                    NC_LIKELY(found != 0) &&
                    (((found = nc_packed_load(entry += 2)) ^ word) & mask) != 0 &&
                    NC_LIKELY(found != 0)) {
                    found = nc_packed_load(entry += 2);
                }
                if (NC_LIKELY(((found ^ word) & mask) == 0)) {
                    return nc_packed_funcptr(entry, 1);
                }
            }
        }
    } else {
        PyObject *self = nc_abi_behind(obj);
        if (NC_LIKELY(nc_native_is_exact(self))) {
            entry = nc_native_first_packed(self);
            if (NC_LIKELY(entry != NULL) && NC_LIKELY(((*entry ^ word) & mask) == 0)) {
                return nc_packed_funcptr(entry, 1);
            }
        }
    }
    return nc_native_packed_else(obj, word, refuse);
}

NC_C_END

#endif
