/* nativecall/detail/core/calltable.h: an object's table of native entries, which may change while
 * other threads read it.
 *
 * Idea:       SEP 201's approach 2. An entry holds an interned signature, flags and a function
 *             pointer. Readers compare signatures by address. They take no lock and need only a
 *             reference to the object.
 *
 * Layout:     the object points to a PyNativeCallableTable: a count, the entries, and one or more
 *             zeroed entries. So a reader may compare `entries[0]` without reading the count, and a
 *             scan stops at the first NULL signature. The pointer is never NULL. Without entries,
 *             the pointer points to a shared static table whose one entry never matches.
 *             NcCallTable is the writer's struct and starts with the pointer. Embed an NcCallTable
 *             in the object, and use its offset as the slot's objoffset.
 *
 *             Flags, in the low 32 bits of `flags`:
 *
 *                 31 .. 24    23 .. 8          7        6 .. 4             3 .. 0
 *                 ABI, 0 now  reserved         ABI, 0   error convention   properties
 *
 *             Readers skip an entry with any ABI bit set. On 64-bit platforms, bits 32 to 63 are
 *             ABI bits too. Readers ignore bits 8 to 23.
 *
 * Invariants: once visible, an entry never changes its signature, flags or position; only its
 *             function pointer may change. The last entry of a table is always zero. growth.h
 *             manages the memory.
 *
 * Threads:    the caller serialises writers of one NcCallTable (with the GIL or a lock). Readers
 *             need no lock:
 *             - Append in place: store the pointer and flags, then the signature with release,
 *               then the count with release. A reader loads the signature (or the count) with
 *               acquire, so it sees a complete entry or a zero entry. The first entry is never
 *               appended in place: it is published with its table.
 *             - Replace: store the pointer atomically with release. The old and the new function
 *               have the same signature and flags.
 *             - Grow: fill a new table, including the new entry, and publish it with release.
 *               Readers of the old table do not see entries and replacements made later. The old
 *               table, and everything that its functions use, must stay valid until
 *               nc_calltable_clear.
 *             - Call nc_calltable_clear only in the object's deallocator, when no reader can be
 *               left.
 *
 * Errors:     NC_E_NOMEM, NC_E_RANGE (invalid argument, or too many entries); the table is then
 *             unchanged.
 * Ownership:  the NcCallTable owns the tables. Signatures are immortal. Until the object is
 *             deallocated, it must keep alive everything that its functions use, including replaced
 *             functions.
 * Source:     SEP 201, "Native dispatch table", "Approach 2: Interned strings", "Flag
 *             information". */
#ifndef NATIVECALL_CALLTABLE_H
#define NATIVECALL_CALLTABLE_H

#include "growth.h"
#include "lookup.h"

NC_C_BEGIN

/* ---- the table ------------------------------------------------------------------------------- */

/* The table of an object without entries. The flags of its entry never match. So a search finds
 * nothing even for a NULL signature, which nc_interned_find returns for strings that are not
 * interned. */
NC_UNUSED static const PyNativeCallableTable nc_calltable_empty = {
    0, {{NULL, NC_FLAGS_ABI_MASK, NULL}}};

/* The error conventions: ROW(suffix of NC_ERRORS_*, name in Python, codes). If the result reports
 * the failure, the signature must start with one of the codes. Otherwise `codes` is NULL. */
#define NC_ERROR_CONVENTIONS(ROW)                                                                  \
    ROW(NONE, "none", NULL)                                                                        \
    ROW(PYTHON, "python", NULL)                                                                    \
    ROW(NONZERO, "nonzero", "?bBhHiIqQ")                                                           \
    ROW(ZERO, "zero", "?bBhHiIqQ")                                                                 \
    ROW(NULL, "null", "P&XO")                                                                      \
    ROW(ERRNO, "errno", NULL)                                                                      \
    ROW(ARGUMENT, "argument", NULL)

/* Return whether flags are valid. The ABI bits must be 0. With NC_ERRORS_PYTHON, the function must
 * need or acquire the GIL, because it sets an exception. */
NC_STATIC_INLINE int nc_calltable_flags_valid(uintptr_t flags)
{
    return (flags & NC_FLAGS_ABI_MASK) == 0 &&
           ((flags & NC_ERRORS_MASK) != NC_ERRORS_PYTHON ||
            (flags & (NC_FLAG_NEEDS_GIL | NC_FLAG_TAKES_GIL)) != 0);
}

/* Return whether the error convention is possible with this signature (provide.md, Flags). */
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
        /* "&i" must be the whole last argument, not the end of another type such as "&&i". */
        return length > 3 && memcmp(&canonical[length - 2], "&i", 2) == 0 &&
               strchr("&])", canonical[length - 3]) == NULL;
    }
    return results == NULL || strchr(results, canonical[0]) != NULL;
}

/* ---- the writer's side ----------------------------------------------------------------------- */

typedef struct {
    PyNativeCallableTable *published; /* atomic, loaded by readers; never NULL */
    NcGrowth growth;
} NcCallTable;

/* Initialize an empty table. Allocates nothing and cannot fail. */
NC_STATIC_INLINE void nc_calltable_init(NcCallTable *calls)
{
    nc_growth_init(&calls->growth, sizeof(PyNativeCallableTable));
    nc_store_release_ptr(&calls->published, &nc_calltable_empty);
}

/* Return the number of entries. All of them are then visible to the caller. */
NC_STATIC_INLINE size_t nc_calltable_count(const PyNativeCallableTable *table)
{
    return (size_t)nc_load_acquire_intptr(&table->count);
}

/* Append an entry to a table that has room. A reader that sees the entry's signature sees the
 * complete entry. */
NC_STATIC_INLINE void nc_calltable_write(PyNativeCallableTable *table, const char *signature,
                                         uintptr_t flags, void *funcptr)
{
    PyNativeCallableEntry *entry = &table->entries[table->count];

    nc_store_relaxed_uintptr(&entry->flags, flags);
    nc_store_relaxed_ptr(&entry->funcptr, funcptr);
    nc_store_release_ptr(&entry->signature, signature);
    nc_store_release_intptr(&table->count, table->count + 1);
}

/* Append an entry. `signature` must be interned. A signature may be added again with other flags;
 * readers take the first entry that matches. Return NC_E_RANGE if a pointer is NULL or the flags
 * are invalid. */
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

/* Replace the function of the entry at `position`; signature and flags stay. Readers may call the
 * old function as long as the object is alive. */
NC_STATIC int nc_calltable_replace(NcCallTable *calls, size_t position, void *funcptr)
{
    if (position >= (size_t)calls->published->count || funcptr == NULL) {
        return NC_E_RANGE;
    }
    nc_store_release_ptr(&calls->published->entries[position].funcptr, funcptr);
    return NC_OK;
}

/* Free all tables and leave an empty one. No reader may be left. */
NC_STATIC void nc_calltable_clear(NcCallTable *calls)
{
    nc_growth_free(&calls->growth);
    nc_calltable_init(calls);
}

NC_C_END

#endif
