/* nativecall/detail/core/calltable.h: the native entries of an object, and how they change under
 * readers.
 *
 * Idea:       SEP 201's approach 2. An entry says: with this interned signature and these flags,
 *             call this function pointer. Readers compare signatures by address, take no lock,
 *             and need nothing but a reference to the object.
 *
 * Layout:     the object holds a pointer to a PyNativeCallableTable: a count, then the entries,
 *             then one all-zero entry or more. So `entries[0]` may be compared without looking at
 *             the count, and a scan ends at the first NULL signature. No entries: a shared static
 *             table of one entry that is never found; the pointer is never NULL. NcCallTable is the
 *             writer's side, its first field is that pointer: put an NcCallTable into the object,
 *             and its offset is the slot's objoffset.
 *
 *             Flags, in the low 32 bits of `flags`:
 *
 *                 31 .. 24    23 .. 8          7        6 .. 4             3 .. 0
 *                 ABI, 0 now  later, ignored   ABI, 0   error convention   properties
 *
 *             A reader passes over an entry with any ABI bit set; on 64 bits the upper half counts
 *             as more of them. Bits 8 to 23 are ignored.
 *
 * Invariants: an entry's signature and flags never change once it is visible, nor does its
 *             position. Only its function pointer does. The last entry of a table is never used.
 *             growth.h has the memory.
 *
 * Threads:    writers of one NcCallTable are serialised by the caller (the GIL or a lock).
 *             Readers are not restrained in any way:
 *             - Append in place: pointer and flags first, then the signature with release, then
 *               the count with release. A reader takes the signature (or the count) with acquire
 *               and so sees a complete entry or the zero entry that was there. The first entry is
 *               never appended in place: it comes with its table.
 *             - Replace: one atomic store of the pointer with release, so that what it points to
 *               is seen complete. Old or new, the pointer has the same signature and flags.
 *             - Grow: the new table is filled, the new entry with it, then published with release.
 *               A reader still in the old one sees a table without the newest entries, and
 *               pointers that are no longer replaced. It stays readable until nc_calltable_clear,
 *               and so must whatever its pointers lead to.
 *             - nc_calltable_clear only when no reader can be left: the object is being
 *               deallocated.
 *
 * Errors:     NC_E_NOMEM, NC_E_RANGE (position or count); the table is then as it was before.
 * Ownership:  tables belong to the NcCallTable; signatures are immortal; what function pointers
 *             lead to is the object's to keep alive, replaced pointers included, until it is
 *             deallocated.
 * Source:     SEP 201, "Native dispatch table", "Approach 2: Interned strings", "Flag
 *             information". */
#ifndef NATIVECALL_CALLTABLE_H
#define NATIVECALL_CALLTABLE_H

#include "growth.h"
#include "lookup.h"

NC_C_BEGIN

/* ---- the table ------------------------------------------------------------------------------- */

/* The table of an object without entries. The flags suit no reader, so that not even a NULL
 * signature finds it, which is what nc_interned_find gives for a string that is not interned. */
NC_UNUSED static const PyNativeCallableTable nc_calltable_empty = {
    0, {{NULL, NC_FLAGS_ABI_MASK, NULL}}};

/* The error conventions: ROW(the end of NC_ERRORS_*, its name in Python, the codes with which a
 * result can begin that shows a failure, or NULL: another place than the result does). */
#define NC_ERROR_CONVENTIONS(ROW)                                                                  \
    ROW(NONE, "none", NULL)                                                                        \
    ROW(PYTHON, "python", NULL)                                                                    \
    ROW(NONZERO, "nonzero", "?bBhHiIqQ")                                                           \
    ROW(ZERO, "zero", "?bBhHiIqQ")                                                                 \
    ROW(NULL, "null", "P&XO")                                                                      \
    ROW(ERRNO, "errno", NULL)                                                                      \
    ROW(ARGUMENT, "argument", NULL)

/* Whether a function can have these flags: they are of an ABI we know, and what sets exceptions
 * needs the GIL, which its caller holds or it takes itself. */
NC_STATIC_INLINE int nc_calltable_flags_valid(uintptr_t flags)
{
    return (flags & NC_FLAGS_ABI_MASK) == 0 &&
           ((flags & NC_ERRORS_MASK) != NC_ERRORS_PYTHON ||
            (flags & (NC_FLAG_NEEDS_GIL | NC_FLAG_TAKES_GIL)) != 0);
}

/* Whether a failure can show as the flags say (provide.md, Flags). */
NC_STATIC int nc_convention_fits(const char *canonical, size_t length, uintptr_t flags)
{
    const char *results;
    switch (flags & NC_ERRORS_MASK) {
#define NC_CASE(convention, name, codes)                                                           \
    case NC_ERRORS_##convention:                                                                   \
        results = codes;                                                                           \
        break;
        NC_ERROR_CONVENTIONS(NC_CASE)
#undef NC_CASE
    default:
        return 0;
    }
    if ((flags & NC_ERRORS_MASK) == NC_ERRORS_ARGUMENT) {
        /* The last argument is "&i", and not the end of another type. */
        return length > 3 && memcmp(&canonical[length - 2], "&i", 2) == 0 &&
               strchr("&])", canonical[length - 3]) == NULL;
    }
    return results == NULL || strchr(results, canonical[0]) != NULL;
}

/* ---- the writer's side ----------------------------------------------------------------------- */

typedef struct {
    PyNativeCallableTable *published; /* atomic: what readers take; never NULL */
    NcGrowth growth;
} NcCallTable;

/* An empty table. Allocates nothing, cannot fail. */
NC_STATIC_INLINE void nc_calltable_init(NcCallTable *calls)
{
    nc_growth_init(&calls->growth, sizeof(PyNativeCallableTable));
    nc_store_release_ptr(&calls->published, &nc_calltable_empty);
}

/* Number of entries; a reader that has seen it sees that many. */
NC_STATIC_INLINE size_t nc_calltable_count(const PyNativeCallableTable *table)
{
    return (size_t)nc_load_acquire_intptr(&table->count);
}

/* Puts an entry behind the others. A reader that sees its signature sees all of it. */
NC_STATIC_INLINE void nc_calltable_write(PyNativeCallableTable *table, const char *signature,
                                         uintptr_t flags, void *funcptr)
{
    PyNativeCallableEntry *entry = &table->entries[table->count];

    nc_store_relaxed_uintptr(&entry->flags, flags);
    nc_store_relaxed_ptr(&entry->funcptr, funcptr);
    nc_store_release_ptr(&entry->signature, signature);
    nc_store_release_intptr(&table->count, table->count + 1);
}

/* Adds an entry after the last one. `signature` is interned; neither it nor `funcptr` is NULL. The
 * same signature may come more than once, with other flags; readers take the first that suits.
 * NC_E_RANGE for what is NULL and for flags that no function can have. */
NC_STATIC int nc_calltable_append(NcCallTable *calls, const char *signature, uintptr_t flags,
                                  void *funcptr)
{
    if (signature == NULL || funcptr == NULL || !nc_calltable_flags_valid(flags)) {
        return NC_E_RANGE;
    }
    const int status = nc_growth_reserve(&calls->growth, sizeof(PyNativeCallableEntry));
    if (status == NC_OK) {
        void *table = nc_growth_begin(&calls->growth, calls->published);
        nc_calltable_write((PyNativeCallableTable *)table, signature, flags, funcptr);
        nc_growth_end(&calls->growth, &calls->published, sizeof(PyNativeCallableEntry));
    }
    return status;
}

/* Puts another function of the same signature and flags at a position. Readers may call the old one
 * for as long as the object lives. */
NC_STATIC int nc_calltable_replace(NcCallTable *calls, size_t position, void *funcptr)
{
    if (position >= (size_t)calls->published->count || funcptr == NULL) {
        return NC_E_RANGE;
    }
    nc_store_release_ptr(&calls->published->entries[position].funcptr, funcptr);
    return NC_OK;
}

/* Frees every table and leaves an empty one. No reader may be left. */
NC_STATIC void nc_calltable_clear(NcCallTable *calls)
{
    nc_growth_free(&calls->growth);
    nc_calltable_init(calls);
}

NC_C_END

#endif
