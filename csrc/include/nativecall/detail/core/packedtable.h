/* nativecall/detail/core/packedtable.h: the writer's side of an object's packed table (packed.h).
 *
 * Idea:       the counterpart of NcCallTable for approach 1: entries are added in place while the
 *             table has room, and a table twice as large is published when it has not.
 *
 * Layout:     words, one entry behind the other, ended by a 0. NcPackedTable's first field is the
 *             published pointer: put an NcPackedTable into the object, and its offset is the
 *             objoffset of slot PYCUSTOMSLOT_PACKEDCALLABLE_ID. No entries: a shared static 0.
 *
 * Invariants: as for call tables: an entry's words never change and never move within a table; the
 *             first entry comes with its table, and is complete before anybody sees it. growth.h
 *             has the memory.
 *
 * Threads:    writers of one table are serialised by the caller. Readers are not restrained; see
 *             packed.h for what they load in which order.
 *
 * Errors:     NC_E_NOMEM, NC_E_RANGE; the table is then as it was.
 * Ownership:  tables belong to the NcPackedTable, what pointers lead to is the object's.
 * Source:     SEP 201, "Approach 1: Comparison of deterministic keys". */
#ifndef NATIVECALL_PACKEDTABLE_H
#define NATIVECALL_PACKEDTABLE_H

#include "growth.h"
#include "packed.h"

NC_C_BEGIN

/* The table of an object without entries. */
NC_UNUSED static const uint64_t nc_packedtable_empty = 0;

typedef struct {
    uint64_t *published; /* atomic: what readers take; never NULL */
    NcGrowth growth;
} NcPackedTable;

/* An empty table. Allocates nothing, cannot fail. */
NC_STATIC_INLINE void nc_packedtable_init(NcPackedTable *table)
{
    nc_growth_init(&table->growth, sizeof(uint64_t));
    nc_store_release_ptr(&table->published, &nc_packedtable_empty);
}

/* Makes sure that the next append of a signature of `count` words cannot fail. */
NC_STATIC int nc_packedtable_reserve(NcPackedTable *table, size_t count)
{
    return count > NC_PACKED_MAX_WORDS
               ? NC_E_RANGE
               : nc_growth_reserve(&table->growth, (count + 1) * sizeof(uint64_t));
}

/* Adds an entry after the last one: packed words (nc_signature_pack) and a function, not NULL. */
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

/* Puts another function of the same signature and flags at a position, counted in entries. */
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

/* Frees every table and leaves an empty one. No reader may be left. */
NC_STATIC void nc_packedtable_clear(NcPackedTable *table)
{
    nc_growth_free(&table->growth);
    nc_packedtable_init(table);
}

NC_C_END

#endif
