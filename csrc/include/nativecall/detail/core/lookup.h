/* nativecall/detail/core/lookup.h: functions that look up slots in slot tables and entries in call
 * tables.
 *
 * nativecallable.h combines these functions, and chooses the order of the comparisons.
 * nativecall_abi.h defines the structs. slottable.h and calltable.h build the tables and document
 * concurrent access. No function here writes or fails. Lookups return NULL if they find nothing. */
#ifndef NATIVECALL_LOOKUP_H
#define NATIVECALL_LOOKUP_H

#include "compiler.h"

NC_C_BEGIN

/* ---- slots ----------------------------------------------------------------------------------- */

#define NC_SLOT_EMPTY ((uintptr_t)0) /* not a slot: a trailing row of an over-allocated table */
#define NC_SLOT_SKIP ((uintptr_t)1)  /* not a slot: padding that preserves positions */
/* The expected positions of these slots. */
#define PYCUSTOMSLOT_NATIVECALLABLE_FAVPOS 0
#define PYCUSTOMSLOT_PACKEDCALLABLE_FAVPOS 1

/* Return the rows, in declared order, with one zero row after the last. */
NC_STATIC_INLINE PyCustomSlot *nc_slottable_rows(const PyCustomSlotTable *table)
{
    return (PyCustomSlot *)(uintptr_t)(table + 1);
}

/* Like nc_slottable_find, but compare row `expected_pos` first (SEP 200, "Slot expected position").
 * Any position is valid; a position beyond the table only costs a comparison. Pass 0 if you know no
 * position. */
NC_STATIC_INLINE PyCustomSlot *nc_slottable_find_expected(const PyCustomSlotTable *table,
                                                          uintptr_t id, intptr_t expected_pos)
{
    /* Row 0 always exists; in an empty table, it is the zero row. */
    if (expected_pos == 0 || (uintptr_t)expected_pos < table->count) {
        PyCustomSlot *row = nc_slottable_rows(table) + expected_pos;
        if (expected_pos == 0 ? row->id == id : NC_LIKELY(row->id == id)) {
            return NC_LIKELY(id > NC_SLOT_SKIP) ? row : NULL;
        }
    }
    /* The first step of nc_slottable_find, repeated here to mark its comparison as likely. */
    PyCustomSlot *row = nc_slottable_rows(table) + table->expected[id * NC_EXPECTED >> 56];
    return NC_LIKELY(row->id == id) ? row : nc_slottable_find(table, id);
}

/* ---- entries --------------------------------------------------------------------------------- */

/* Return whether flags contain no flag of `refuse_mask` and belong to a known ABI. */
NC_HOT_INLINE int nc_calltable_flags_suit(uintptr_t flags, uintptr_t refuse_mask)
{
    return (flags & (refuse_mask | NC_FLAGS_ABI_MASK)) == 0;
}

/* Return whether the first entry of a published table has this signature and suitable flags. The
 * first entry is complete before its table is published, and only its function may change. So plain
 * loads suffice, and compilers fold them into the comparison. */
NC_HOT_INLINE int nc_calltable_first_is(const PyNativeCallableEntry *first,
                                        const char *interned_signature, uintptr_t refuse_mask)
{
    return NC_LIKELY(first->signature == interned_signature) &&
           NC_LIKELY(nc_calltable_flags_suit(first->flags, refuse_mask));
}

/* Return the first entry with this signature and without any flag in `refuse_mask`, or NULL.
 * Entries of another ABI never match. Return NULL for a NULL signature, which nc_interned_find
 * returns for strings that are not interned. */
NC_STATIC_INLINE const PyNativeCallableEntry *nc_calltable_find(const PyNativeCallableTable *table,
                                                                const char *interned_signature,
                                                                uintptr_t refuse_mask)
{
    const PyNativeCallableEntry *entry = table->entries;
    if (NC_UNLIKELY(interned_signature == NULL)) {
        return NULL;
    }
    for (;; entry++) {
        const char *signature = (const char *)NC_ABI_LOAD(&entry->signature);
        if (NC_LIKELY(signature == interned_signature) &&
            NC_LIKELY(nc_calltable_flags_suit(entry->flags, refuse_mask))) {
            return entry;
        }
        if (signature == NULL) {
            return NULL;
        }
    }
}

/* Return the current function pointer of an entry. It is never NULL, so callers need no check. */
NC_HOT_INLINE void *nc_calltable_funcptr(const PyNativeCallableEntry *entry)
{
    void *funcptr = NC_ABI_LOAD(&entry->funcptr);
    NC_ASSUME(funcptr != NULL);
    return funcptr;
}

NC_C_END

#endif
