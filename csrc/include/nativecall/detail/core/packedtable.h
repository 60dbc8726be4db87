/* nativecall/detail/core/packedtable.h: builds an object's packed table (packed.h).
 *
 * Idea:       the counterpart of NcCallTable for SEP 201's approach 1. While the table has room,
 *             entries are appended in place; otherwise a table at least twice as large is
 *             published.
 *
 * Layout:     the entries as consecutive words, terminated by a 0. NcPackedTable starts with the
 *             published pointer. Embed the NcPackedTable in the object, and use its offset as the
 *             objoffset of slot PYCUSTOMSLOT_PACKEDCALLABLE_ID. Without entries, the pointer points
 *             to a shared static 0.
 *
 * Invariants: as in call tables, the words of a signature never change or move within a table. The
 *             first entry is published with its table. growth.h manages the memory.
 *
 * Threads:    the caller serialises writers of one table. Readers need no lock; packed.h documents
 *             the order of their loads.
 *
 * Errors:     NC_E_NOMEM, NC_E_RANGE; the table is then unchanged.
 * Ownership:  the NcPackedTable owns the tables. The object must keep alive everything that its
 *             functions use.
 * Source:     SEP 201, "Approach 1: Comparison of deterministic keys". */
#ifndef NATIVECALL_PACKEDTABLE_H
#define NATIVECALL_PACKEDTABLE_H

#include "growth.h"
#include "packed.h"

NC_C_BEGIN

/* The table of an object without entries. */
NC_UNUSED static const uint64_t nc_packedtable_empty = 0;

typedef struct {
    uint64_t *published; /* atomic, loaded by readers; never NULL */
    NcGrowth growth;
} NcPackedTable;

/* Initialize an empty table. Allocates nothing and cannot fail. */
NC_STATIC_INLINE void nc_packedtable_init(NcPackedTable *table)
{
    nc_growth_init(&table->growth, sizeof(uint64_t));
    nc_store_release_ptr(&table->published, &nc_packedtable_empty);
}

/* Reserve space, so that the next append of a signature of `count` words cannot fail. */
NC_STATIC int nc_packedtable_reserve(NcPackedTable *table, size_t count)
{
    return count > NC_PACKED_MAX_WORDS
               ? NC_E_RANGE
               : nc_growth_reserve(&table->growth, (count + 1) * sizeof(uint64_t));
}

/* Append an entry of packed words (nc_signature_pack) and a function that is not NULL. */
NC_STATIC int nc_packedtable_append(NcPackedTable *table, const uint64_t *words, size_t count,
                                    void *funcptr)
{
    if (funcptr == NULL || count == 0) {
        return NC_E_RANGE;
    }
    const int status = nc_packedtable_reserve(table, count);
    if (status == NC_OK) {
        const size_t before = table->growth.used / sizeof(uint64_t) - 1; /* words */
        uint64_t *to = (uint64_t *)nc_growth_begin(&table->growth, table->published);
        nc_packed_put(to + before, words, count, funcptr);
        nc_growth_end(&table->growth, &table->published, (count + 1) * sizeof(uint64_t));
    }
    return status;
}

/* Replace the function of the entry at `position`; signature and flags stay. */
NC_STATIC int nc_packedtable_replace(NcPackedTable *table, size_t position, void *funcptr)
{
    uint64_t *entry = table->published;
    size_t count = nc_packed_count(entry);

    if (funcptr == NULL) {
        return NC_E_RANGE;
    }
    while (count != 0 && position-- != 0) {
        entry += count + 1;
        count = nc_packed_count(entry);
    }
    if (count == 0) {
        return NC_E_RANGE;
    }
    nc_packed_replace(entry, count, funcptr);
    return NC_OK;
}

/* Free the memory, and leave an empty table. No reader may be left. */
NC_STATIC void nc_packedtable_clear(NcPackedTable *table)
{
    nc_growth_free(&table->growth);
    nc_packedtable_init(table);
}

NC_C_END

#endif
