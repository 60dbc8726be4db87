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
 *             first entry comes with its table, and is complete before anybody sees it; superseded
 *             tables take less memory together than the one in use, and stay until clear.
 *
 * Threads:    writers of one table are serialised by the caller. Readers are not restrained; see
 *             packed.h for what they load in which order.
 *
 * Errors:     NC_E_NOMEM, NC_E_RANGE; the table is then as it was.
 * Ownership:  tables belong to the NcPackedTable, what pointers lead to is the object's.
 * Source:     SEP 201, "Approach 1: Comparison of deterministic keys". */
#ifndef NATIVECALL_PACKEDTABLE_H
#define NATIVECALL_PACKEDTABLE_H

#include <stdlib.h>

#include "packed.h"

NC_C_BEGIN

/* The table of an object without entries. */
NC_UNUSED static const uint64_t nc_packedtable_empty = 0;

/* What precedes each allocated table. */
typedef struct NcPackedBlock {
    struct NcPackedBlock
        *superseded; /* the block before this one, half as large or less; or NULL */
    size_t capacity; /* words it can hold, the 0 at the end included */
} NcPackedBlock;     /* the words follow */

typedef struct {
    uint64_t *published;  /* atomic: what readers take; never NULL */
    NcPackedBlock *block; /* the block that holds it, NULL for the shared empty table */
    size_t used;          /* words in use, without the 0 at the end */
    size_t retired_bytes; /* memory of superseded blocks */
    NcPackedBlock *spare; /* reserved, not yet published; or NULL */
} NcPackedTable;

NC_STATIC_INLINE uint64_t *nc_packedtable_words(const NcPackedBlock *block)
{
    return (uint64_t *)(uintptr_t)(block + 1);
}

NC_STATIC_INLINE size_t nc_packedtable_bytes(const NcPackedBlock *block)
{
    return sizeof *block + block->capacity * sizeof(uint64_t);
}

/* An empty table. Allocates nothing, cannot fail. */
NC_STATIC_INLINE void nc_packedtable_init(NcPackedTable *table)
{
    table->block = NULL;
    table->used = 0;
    table->retired_bytes = 0;
    table->spare = NULL;
    nc_store_release_ptr(&table->published, &nc_packedtable_empty);
}

/* The words that readers see now. */
NC_STATIC_INLINE const uint64_t *nc_packedtable_published(const NcPackedTable *table)
{
    return (const uint64_t *)nc_load_acquire_ptr(&table->published);
}

/* Memory in bytes of the table in use. */
NC_STATIC_INLINE size_t nc_packedtable_live_bytes(const NcPackedTable *table)
{
    return table->block == NULL ? 0 : nc_packedtable_bytes(table->block);
}

/* Memory in bytes of superseded tables; less than nc_packedtable_live_bytes once there is one. */
NC_STATIC_INLINE size_t nc_packedtable_retired_bytes(const NcPackedTable *table)
{
    return table->retired_bytes;
}

/* Makes sure that the next append of a signature of `count` words cannot fail. */
NC_STATIC int nc_packedtable_reserve(NcPackedTable *table, size_t count)
{
    const size_t needed = table->used + count + 2;
    const NcPackedBlock *widest = table->spare != NULL ? table->spare : table->block;
    size_t capacity = 3;

    if (count > NC_PACKED_MAX_WORDS) {
        return NC_E_RANGE;
    }
    if (widest != NULL && widest->capacity >= needed) {
        return NC_OK;
    }
    if (table->block != NULL) {
        /* More than twice the bytes, headers included, keeps retired below live. */
        capacity = 2 * table->block->capacity + 2;
    }
    if (capacity < needed) {
        capacity = needed;
    }
    NcPackedBlock *spare =
        (NcPackedBlock *)calloc(1, sizeof(NcPackedBlock) + capacity * sizeof(uint64_t));
    if (spare == NULL) {
        return NC_E_NOMEM;
    }
    free(table->spare);
    spare->capacity = capacity;
    table->spare = spare;
    return NC_OK;
}

/* Adds an entry after the last one: packed words (nc_signature_pack) and a function, not NULL. */
NC_STATIC int nc_packedtable_append(NcPackedTable *table, const uint64_t *words, size_t count,
                                    void *funcptr)
{
    if (funcptr == NULL || count == 0) {
        return NC_E_RANGE;
    }
    int status = nc_packedtable_reserve(table, count);
    if (status != NC_OK) {
        return status;
    }
    if (table->block != NULL && table->block->capacity >= table->used + count + 2) {
        nc_packed_put(table->published + table->used, words, count, funcptr);
        table->used += count + 1;
        return NC_OK;
    }
    NcPackedBlock *spare = table->spare;
    table->spare = NULL;
    if (table->block != NULL) {
        memcpy(nc_packedtable_words(spare), table->published, table->used * sizeof(uint64_t));
        table->retired_bytes += nc_packedtable_bytes(table->block);
    }
    nc_packed_put(nc_packedtable_words(spare) + table->used, words, count, funcptr);
    table->used += count + 1;
    spare->superseded = table->block;
    table->block = spare;
    nc_store_release_ptr(&table->published, nc_packedtable_words(spare));
    return NC_OK;
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
    NcPackedBlock *block = table->block;

    free(table->spare);
    nc_packedtable_init(table);
    while (block != NULL) {
        NcPackedBlock *superseded = block->superseded;
        free(block);
        block = superseded;
    }
}

NC_C_END

#endif
