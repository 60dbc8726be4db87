/* nativecall/detail/core/growth.h: the memory of a table that grows while readers look.
 *
 * Idea:       call tables and packed tables grow alike. An entry is written behind the others while
 *             the block has room for it. When it has not, a block twice as large is filled and
 *             published, and the old one stays, for readers may be in it.
 *
 * Layout:     the table's own struct has the published pointer, which readers take, then an
 *             NcGrowth. A block is zeroed, so that the end of the table is behind its last entry
 *             already.
 *
 * Invariants: a block takes twice the memory of the one before, or more, so all superseded ones
 *             together take less than the one in use.
 *
 * Threads:    writers of one table are serialised by the caller. Readers are not restrained.
 * Errors:     NC_E_NOMEM, NC_E_RANGE; the table is then as it was.
 * Ownership:  blocks belong to the NcGrowth. */
#ifndef NATIVECALL_GROWTH_H
#define NATIVECALL_GROWTH_H

#include <stdlib.h>
#include <string.h>

#include "base.h"

NC_C_BEGIN

typedef struct NcGrowthBlock {
    struct NcGrowthBlock *superseded; /* the block before this one; or NULL */
    size_t size;                      /* bytes of this block */
} NcGrowthBlock;                      /* the table follows */

typedef struct {
    NcGrowthBlock *block; /* that of the published table; NULL for a shared empty one */
    NcGrowthBlock *spare; /* reserved, not yet published; or NULL */
    size_t used;          /* bytes of the table, its end included */
    size_t retired_bytes; /* memory of superseded blocks */
} NcGrowth;

/* For a table without entries, which needs `used` bytes with its end. Cannot fail. */
NC_STATIC_INLINE void nc_growth_init(NcGrowth *growth, size_t used)
{
    memset(growth, 0, sizeof *growth);
    growth->used = used;
}

NC_STATIC_INLINE size_t nc_growth_live_bytes(const NcGrowth *growth)
{
    return growth->block == NULL ? 0 : growth->block->size;
}

/* Makes sure that an entry of so many bytes can be added. */
NC_STATIC int nc_growth_reserve(NcGrowth *growth, size_t bytes)
{
    const NcGrowthBlock *widest = growth->spare != NULL ? growth->spare : growth->block;
    const size_t needed = sizeof(NcGrowthBlock) + growth->used + bytes;
    const size_t twice = 2 * nc_growth_live_bytes(growth);
    const size_t size = needed > twice ? needed : twice;

    if (widest != NULL && widest->size >= needed) {
        return NC_OK;
    }
    if (size > SIZE_MAX / 4) {
        return NC_E_RANGE;
    }
    NcGrowthBlock *spare = (NcGrowthBlock *)calloc(1, size);
    if (spare == NULL) {
        return NC_E_NOMEM;
    }
    spare->size = size;
    free(growth->spare);
    growth->spare = spare;
    return NC_OK;
}

/* The table to write the entry to that was reserved: the published one, or its successor. */
NC_STATIC void *nc_growth_begin(const NcGrowth *growth, void *published)
{
    if (growth->spare == NULL) {
        return published;
    }
    return growth->block == NULL ? growth->spare + 1
                                 : memcpy(growth->spare + 1, published, growth->used);
}

/* The entry is written: publishes a successor, through the address of the published pointer. */
NC_STATIC void nc_growth_end(NcGrowth *growth, void *pointer, size_t bytes)
{
    NcGrowthBlock *spare = growth->spare;

    growth->used += bytes;
    if (spare != NULL) {
        growth->retired_bytes += nc_growth_live_bytes(growth);
        spare->superseded = growth->block;
        growth->block = spare;
        growth->spare = NULL;
        nc_store_release_ptr(pointer, spare + 1);
    }
}

/* Frees every block. No reader may be left. */
NC_STATIC void nc_growth_free(NcGrowth *growth)
{
    NcGrowthBlock *block = growth->block;

    free(growth->spare);
    while (block != NULL) {
        NcGrowthBlock *superseded = block->superseded;
        free(block);
        block = superseded;
    }
}

NC_C_END

#endif
