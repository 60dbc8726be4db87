/* nativecall/nativecallable.h: for consumers: finds the C function inside a Python callable.
 *
 *     static const char *sig;
 *     if (!nc_abi_offers(obj)) ...                                   // common: PyObject_Call
 *     if (sig == NULL && nc_signature_intern("d:d", &sig) < 0) return NULL;       // with the GIL
 *     f = (double (*)(double))nc_native_function(obj, sig, NC_FLAG_NEEDS_GIL | NC_ERRORS_MASK);
 *     if (f != NULL) y = f(x);             // else: PyObject_Call
 *     if (PyErr_Occurred()) return NULL;   // with the GIL; any entry that takes it may raise
 *
 * There are two ways to an object's call table: the offset in its type (CEP 1000), which is faster,
 * and the slot table (SEP 201). Both reach the same table. A callable's built-in view (`f.builtin`)
 * is accepted wherever the callable is.
 *
 * Threads: lookups need no GIL, take no lock and write nothing. Hold a reference to the object,
 * since the object keeps its tables and functions alive. Lookups skip entries with a flag in
 * `refuse`, and entries of a later ABI. Pass NC_FLAG_NEEDS_GIL if you do not hold the GIL, and
 * NC_ERRORS_MASK unless you check for failures.
 *
 * The first provider that is imported publishes the runtime. So a consumer looks for the runtime
 * each time it receives an object, by interning a signature or by PyCustomSlots_Import(). Without a
 * runtime, or with a runtime of an unknown ABI, lookups find nothing and no import fails. */
#ifndef NATIVECALL_NATIVECALLABLE_H
#define NATIVECALL_NATIVECALLABLE_H

#include "detail/core/runtime.h" /* Python.h before headers of C */
#include "detail/core/lookup.h"
#include "detail/core/packedlookup.h"

NC_C_BEGIN

/* Return the callable behind a built-in view (borrowed), or NULL if obj is no view. A view is a
 * built-in function whose method definition is inside the object that the function is bound to. */
NC_STATIC_INLINE PyObject *nc_native_viewed(PyObject *obj)
{
    PyObject *self = nc_abi_behind(obj);
    return self != obj ? self : NULL;
}

/* Return the call table of obj, or of its callable if obj is a view; NULL if there is none. Tries
 * the offset in the type, then the slot. */
NC_STATIC_INLINE const PyNativeCallableTable *nc_native_table(PyObject *obj)
{
    const void *table = nc_abi_table(obj, PYCUSTOMSLOT_NATIVECALLABLE_ID);
    return table != &nc_abi_nothing ? (const PyNativeCallableTable *)table : NULL;
}

/* Return whether the metaclass of obj's type is `extensibletype` itself, not a class derived from
 * it. */
NC_HOT_INLINE int nc_native_is_exact(PyObject *obj)
{
    return Py_TYPE((PyObject *)Py_TYPE(obj)) == nc_metatype;
}

/* The full lookup: any entry, any metaclass, views, both ways to the table. */
NC_NOINLINE const PyNativeCallableEntry *nc_native_find_else(PyObject *obj, const char *signature,
                                                             uintptr_t refuse)
{
    return nc_abi_find(obj, signature, refuse);
}

/* Return the first entry at the type's offset. If the type has no table offset, the memory that is
 * read instead matches no signature (NC_TABLE_SHIFT). Only for objects of the exact metatype. */
NC_HOT_INLINE const PyNativeCallableEntry *nc_native_first(PyObject *obj)
{
    const PyHeapExtensibleTypeObject *type =
        (const PyHeapExtensibleTypeObject *)(const void *)Py_TYPE(obj);
    /* A relaxed load is enough for an offset: the caller's reference orders reads of the object. */
#ifdef Py_GIL_DISABLED
    /* In this build, a type's first fields are different and might match a signature. */
    intptr_t shift = (intptr_t)NC_LOAD_RELAXED(&type->etp_obj_custom_slots_offset);
    if (NC_UNLIKELY(shift == 0)) {
        return NULL;
    }
    shift -= (intptr_t)offsetof(PyObject, ob_type);
#else
    intptr_t shift = (intptr_t)NC_LOAD_RELAXED(&type->etp_table_shift);
#endif
    const PyNativeCallableTable *table = (const PyNativeCallableTable *)NC_ABI_LOAD(
        (const char *)obj + offsetof(PyObject, ob_type) + shift);
    return &table->entries[0];
}

/* Return the table at the slot `id`, or NULL if the slot is not at its expected position. Only for
 * objects of the exact metatype. A slot table has at least one row and a zero row after the last,
 * so positions 0 and 1 always exist. */
NC_HOT_INLINE const void *nc_native_at_slot(PyObject *obj, uintptr_t id, intptr_t expected_pos)
{
    const PyHeapExtensibleTypeObject *type =
        (const PyHeapExtensibleTypeObject *)(const void *)Py_TYPE(obj);
    const PyCustomSlotTable *slots =
        (const PyCustomSlotTable *)NC_ABI_LOAD(&type->etp_custom_slots);
    if (NC_UNLIKELY(slots == NULL)) {
        return NULL;
    }
    const PyCustomSlot *slot = nc_slottable_rows(slots) + expected_pos;
    if (NC_UNLIKELY(slot->id != id)) {
        return NULL;
    }
    const void *table = NC_ABI_LOAD((const char *)obj + slot->data.objoffset);
    NC_ASSUME(table != NULL); /* objects without entries have an empty table */
    return table;
}

/* Return the first entry, found through the slot table. */
NC_HOT_INLINE const PyNativeCallableEntry *nc_native_first_by_slot(PyObject *obj)
{
    const PyNativeCallableTable *table = (const PyNativeCallableTable *)nc_native_at_slot(
        obj, PYCUSTOMSLOT_NATIVECALLABLE_ID, PYCUSTOMSLOT_NATIVECALLABLE_FAVPOS);
    return table != NULL ? &table->entries[0] : NULL;
}

/* Return the second, third or fourth entry if it has this signature and suitable flags, else NULL.
 * Unrolled, since the processor predicts each comparison separately. A loop would double the cost
 * of a lookup. */
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

/* The lookup. The inline code compares the first four entries of an object of the exact metatype,
 * or the first entry of the callable behind a view. */
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

/* Return the entry that has this interned signature and no flag in `refuse`, or NULL. A NULL
 * signature finds nothing: nc_interned_find returns NULL for text that is not interned. */
NC_HOT_INLINE const PyNativeCallableEntry *nc_native_find(PyObject *obj, const char *signature,
                                                          uintptr_t refuse)
{
    return nc_native_find_either(obj, signature, refuse, 0);
}

/* Like nc_native_find, but through the slot table. */
NC_HOT_INLINE const PyNativeCallableEntry *
nc_native_find_by_slot(PyObject *obj, const char *signature, uintptr_t refuse)
{
    return nc_native_find_either(obj, signature, refuse, 1);
}

/* Return the function pointer, or NULL: the fastest lookup if you need no flags. */
NC_HOT_INLINE void *nc_native_function(PyObject *obj, const char *signature, uintptr_t refuse)
{
    const PyNativeCallableEntry *entry = nc_native_find(obj, signature, refuse);
    return entry != NULL ? nc_calltable_funcptr(entry) : NULL;
}

/* Like nc_native_function, but through the slot table. */
NC_HOT_INLINE void *nc_native_function_by_slot(PyObject *obj, const char *signature,
                                               uintptr_t refuse)
{
    const PyNativeCallableEntry *entry = nc_native_find_by_slot(obj, signature, refuse);
    return entry != NULL ? nc_calltable_funcptr(entry) : NULL;
}

/* ---- all entries ----------------------------------------------------------------------------- */

/* Return the entry after `entry` (NULL: the first), or NULL at the end. Visits the entries
 * in order of preference:
 *     for (e = nc_native_next(obj, NULL); e != NULL; e = nc_native_next(obj, e)) ...
 * Entries of a later ABI are skipped. The loop iterates over the table that was published when the
 * loop began, even if a writer publishes another meanwhile. */
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

/* Return the packed table (packed.h) of obj, or of its callable if obj is a view; NULL if there is
 * none. */
NC_STATIC_INLINE const uint64_t *nc_native_packed_table(PyObject *obj)
{
    const void *table = nc_abi_table(obj, PYCUSTOMSLOT_PACKEDCALLABLE_ID);
    return table != &nc_abi_nothing ? (const uint64_t *)table : NULL;
}

/* Look up packed words in the call table, for objects without a packed table. Every provider has a
 * call table (docs/abi/provide.md). The words are compared with the text of each entry. */
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

/* Return the function whose entry has this packed signature and no flag in `refuse`, or NULL. The
 * words come from nc_signature_pack, without flags. Needs no interning, but call
 * PyCustomSlots_Import first. */
NC_NOINLINE void *nc_native_function_packed(PyObject *obj, const uint64_t *words, size_t count,
                                            uintptr_t refuse)
{
    const uint64_t *table = nc_native_packed_table(obj);
    if (NC_UNLIKELY(table == NULL)) {
        return nc_native_packed_in_calls(obj, words, count, refuse);
    }
    const uint64_t *entry = nc_packed_find(table, words, count, NC_PACKED_REFUSE(refuse));
    return entry != NULL ? nc_packed_funcptr(entry, count) : NULL;
}

/* Return the packed table of an object of the exact metatype, found through its slot. */
NC_HOT_INLINE const uint64_t *nc_native_first_packed(PyObject *obj)
{
    return (const uint64_t *)nc_native_at_slot(obj, PYCUSTOMSLOT_PACKEDCALLABLE_ID,
                                               PYCUSTOMSLOT_PACKEDCALLABLE_FAVPOS);
}

/* The full lookup of one word. */
NC_NOINLINE void *nc_native_packed_else(PyObject *obj, uint64_t word, uintptr_t refuse)
{
    return nc_native_function_packed(obj, &word, 1, refuse);
}

/* Return the function of a one-word signature, e.g. NATIVECALL_SIG("d:dd"), or NULL. A constant
 * word becomes an immediate operand. */
NC_HOT_INLINE void *nc_native_function_word(PyObject *obj, uint64_t word, uintptr_t refuse)
{
    const uint64_t mask = NC_PACKED_REFUSE(refuse);
    const uint64_t *entry;
    uint64_t found;
    /* Folded if `word` is a constant. A word of 0 would match the end of the table. */
    if (NC_UNLIKELY((word & NC_PACKED_START) == 0)) {
        return NULL;
    }
    if (NC_LIKELY(nc_native_is_exact(obj))) {
        entry = nc_native_first_packed(obj);
        if (NC_LIKELY(entry != NULL)) {
            /* A plain load, since the first entry is complete before its table is published. */
            if (NC_LIKELY(((*entry ^ word) & mask) == 0)) {
                return nc_packed_funcptr(entry, 1);
            }
            /* Unrolled: the next three steps of nc_packed_find. */
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
