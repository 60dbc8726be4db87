/* nativecall/detail/core/lookup.h: what the lookups of slots and entries share.
 *
 * The lookup of an entry itself, and the order of its comparisons, is nativecallable.h's. The
 * structs are nativecall_abi.h's; slottable.h and calltable.h build them, and say what readers may
 * do beside writers. Nothing here writes or fails: what is not found is NULL. */
#ifndef NATIVECALL_LOOKUP_H
#define NATIVECALL_LOOKUP_H

#include "compiler.h"

NC_C_BEGIN

/* ---- slots ----------------------------------------------------------------------------------- */

#define NC_SLOT_EMPTY ((uintptr_t)0) /* no slot: trailing rows of an over-allocated table */
#define NC_SLOT_SKIP ((uintptr_t)1)  /* no slot: padding that keeps others at their positions */
/* Where well-behaved types keep these slots. */
#define PYCUSTOMSLOT_NATIVECALLABLE_FAVPOS 0
#define PYCUSTOMSLOT_PACKEDCALLABLE_FAVPOS 1

/* The rows in declared order, and one zero row after the last. */
NC_STATIC_INLINE PyCustomSlot *nc_slottable_rows(const PyCustomSlotTable *table)
{
    return (PyCustomSlot *)(uintptr_t)(table + 1);
}

/* As nc_slottable_find, but looks at row `expected_pos` first (SEP 200, "Slot expected position").
 * Any position may be given: one beyond the table costs the comparison; 0: none is known. */
NC_STATIC_INLINE PyCustomSlot *nc_slottable_find_expected(const PyCustomSlotTable *table,
                                                          uintptr_t id, intptr_t expected_pos)
{
    /* Row 0 is there even in an empty table: it is the zero row. */
    if (expected_pos == 0 || (uintptr_t)expected_pos < table->count) {
        PyCustomSlot *row = nc_slottable_rows(table) + expected_pos;
        if (expected_pos == 0 ? row->id == id : NC_LIKELY(row->id == id)) {
            return NC_LIKELY(id > NC_SLOT_SKIP) ? row : NULL;
        }
    }
    /* nc_slottable_find again, whose compilers do not know that its first look mostly finds it. */
    PyCustomSlot *row = nc_slottable_rows(table) + table->expected[id * NC_EXPECTED >> 56];
    return NC_LIKELY(row->id == id) ? row : nc_slottable_find(table, id);
}

/* ---- entries --------------------------------------------------------------------------------- */

/* Whether flags have none of those in `refuse_mask` and are of an ABI we know. */
NC_HOT_INLINE int nc_calltable_flags_suit(uintptr_t flags, uintptr_t refuse_mask)
{
    return (flags & (refuse_mask | NC_FLAGS_ABI_MASK)) == 0;
}

/* Whether the first entry of a published table has this signature and flags that suit.
 * The first entry is complete before its table is published and never changes but for its
 * function, so plain loads do, which a compiler folds into the comparison. */
NC_HOT_INLINE int nc_calltable_first_is(const PyNativeCallableEntry *first,
                                        const char *interned_signature, uintptr_t refuse_mask)
{
    return NC_LIKELY(first->signature == interned_signature) &&
           NC_LIKELY(nc_calltable_flags_suit(first->flags, refuse_mask));
}

/* The entry with this signature and with none of the flags in `refuse_mask`, or NULL. Entries of
 * another ABI are refused always. A NULL signature (what nc_interned_find gives for a string nobody
 * interned) finds nothing. Several entries may match; the first one counts. */
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

/* The function pointer of an entry as it is now; never NULL, which spares callers a test. */
NC_HOT_INLINE void *nc_calltable_funcptr(const PyNativeCallableEntry *entry)
{
    void *funcptr = NC_ABI_LOAD(&entry->funcptr);
    NC_ASSUME(funcptr != NULL);
    return funcptr;
}

NC_C_END

#endif
