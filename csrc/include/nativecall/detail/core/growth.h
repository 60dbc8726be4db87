/* nativecall/detail/core/growth.h: the memory of a table that grows while other threads read it.
 *
 * Idea:       call tables and packed tables grow in the same way. While the block has room, an
 *             entry is appended in place. Otherwise a block at least twice as large is filled and
 *             published. The old block stays, because readers may still use it.
 *
 * Layout:     the struct of a table starts with the published pointer, which readers load. An
 *             NcGrowth follows. New blocks are zeroed, so a terminator always follows the last
 *             entry.
 *
 * Invariants: each block is at least twice as large as the one before, so all superseded blocks
 *             together are smaller than the one in use.
 *
 * Threads:    the caller serialises writers of one table. Readers need no lock.
 * Errors:     NC_E_NOMEM, NC_E_RANGE; the table is then unchanged.
 * Ownership:  the NcGrowth owns the blocks. */
#ifndef NATIVECALL_GROWTH_H
#define NATIVECALL_GROWTH_H

#include <stdlib.h>
#include <string.h>

#include "base.h"

NC_C_BEGIN

typedef struct NcGrowthBlock {
    struct NcGrowthBlock *superseded; /* the block before this one; or NULL */
    size_t size;                      /* bytes of this block, header included */
} NcGrowthBlock;                      /* the table follows */

typedef struct {
    NcGrowthBlock *block; /* holds the published table; NULL if that is the shared empty one */
    NcGrowthBlock *spare; /* reserved, not yet published; or NULL */
    size_t used;          /* bytes of the table, including its terminator */
    size_t retired_bytes; /* memory of superseded blocks */
} NcGrowth;

/* Initialize for an empty table of `used` bytes, including the terminator. Cannot fail. */
NC_STATIC_INLINE void nc_growth_init(NcGrowth *growth, size_t used)
{
    memset(growth, 0, sizeof *growth);
    growth->used = used;
}

NC_STATIC_INLINE size_t nc_growth_live_bytes(const NcGrowth *growth)
{
    return growth->block == NULL ? 0 : growth->block->size;
}

/* Reserve space for an entry of `bytes` bytes. */
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

/* Return the table to write the reserved entry to: the published one, or its successor. */
NC_STATIC void *nc_growth_begin(const NcGrowth *growth, void *published)
{
    if (growth->spare == NULL) {
        return published;
    }
    return growth->block == NULL ? growth->spare + 1
                                 : memcpy(growth->spare + 1, published, growth->used);
}

/* Finish writing an entry of `bytes` bytes. If there is a successor, publish it: store its address
 * at `pointer`. */
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

/* Free all blocks. No reader may be left. */
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
