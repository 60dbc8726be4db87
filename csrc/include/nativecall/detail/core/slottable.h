/* nativecall/detail/core/slottable.h: the slot table of a type: a hash table that finds each key
 * with one probe.
 *
 * Idea:       a perfect hash that keeps the rows in declared order. The hash selects a cell of an
 *             index, the cell holds a row number, and the key of that row is compared.
 *
 *                 x    = id * multiplier                    multiplier odd, one per table
 *                 g    = the top bits of x                  the key's bucket
 *                 f    = the bits just below                the key's cell, before displacement
 *                 row  = rows[index[f ^ displacement[g]]]   a hit when row.id == id
 *
 *             The multiplication serves as the parametrised hash of SEP 200, and also mixes the
 *             bits.
 *
 * Speed:      a probe has four dependent loads: multiplier, displacement, index and row. So readers
 *             first compare the row that the header expects for the key:
 *             expected[id * NC_EXPECTED >> 56]. This hint is wrong for one key in 70 in a table of
 *             8 keys, and for one in 9 in a table of 64. The processor predicts the comparison and
 *             does not wait for its loads. If the hint is wrong, the probe finds the key.
 *
 * Layout:     one allocation:
 *
 *                 header | rows[count] | one zero row | index[f cells] | displacement[g cells]
 *
 *             The rows are exactly those declared, including padding (id 1) and empty rows (id 0).
 *             So Count, Table and expected positions have the meaning of SEP 200. `cells` points to
 *             the displacements. The index precedes them, at -m_f to -1. So one pointer reaches
 *             both: cell f of the index is cells[f | f_high], where f_high is -m_f.
 *
 * Invariants: m_f and m_g are powers of two. m_f > number of keys. m_g >= 2, so no shift is by 64.
 *             Every index cell holds the number of an existing row. Unused cells hold the number of
 *             a row with a key, so ids 0 and 1 are never found. A built table never changes.
 *
 * Why building never fails.
 *             Let there be n distinct keys, m_g buckets, m_f cells and D = min(m_f, 2^16)
 *             displacements. For a random odd multiplier, two given keys agree in the top b bits of
 *             x with probability at most 2 / 2^b (multiply-shift universality).
 *             - A pair is inseparable if it agrees on g and f. The expected number of such pairs
 *               is at most n^2/2 * 2/(m_g m_f) = n^2/(m_g m_f).
 *             - Let P be the number of pairs that agree on g; its mean is at most n^2/m_g. Buckets
 *               are placed largest first. Suppose p keys are placed, and the next bucket has k
 *               separable keys. Each of the k*p combinations rules out at most one displacement, so
 *               k*p < D suffices. A bucket of one key always fits (p < n <= D). For k >= 2, the p
 *               keys are in buckets of at least k keys, and each has at least k-1 partners. So
 *               p <= 2P/(k-1) and k*p <= 4P: all buckets fit if 4P < D.
 *
 *             By Markov's inequality a multiplier fails with probability at most 5 n^2/(m_g D).
 *             After a few failures the builder doubles m_g and m_f. A few doublings bring this
 *             probability below one half for every key set, so the expected number of multipliers
 *             is a small constant. Multipliers come from a fixed sequence that visits every odd
 *             number. So the search ends even for adversarial keys, and the same keys give the same
 *             table in every process. For random keys, the first multiplier works in nine cases of
 *             ten.
 *
 * Threads:    building and freeing access only their arguments. This header never writes to a built
 *             table. Publish the table's pointer with release (or before the threads start).
 * Errors:     NC_E_NOMEM, NC_E_DUPLICATE (with the id), NC_E_RANGE (no rows, or more than 2^16).
 * Ownership:  free a table with nc_slottable_free. data.pointer is never dereferenced.
 * Source:     SEP 200, "The custom slot table", "Slot expected position", "Special IDs". The
 *             scheme is hash and displace (Tarjan and Yao; Pagh) over multiply-shift
 *             (Dietzfelbinger et al.). */
#ifndef NATIVECALL_SLOTTABLE_H
#define NATIVECALL_SLOTTABLE_H

#include <stdlib.h>
#include <string.h>

#include "base.h"
#include "slotids.h"

NC_C_BEGIN

#define NC_SLOTTABLE_MAX_ROWS ((size_t)65536)

NC_STATIC void nc_slottable_free(PyCustomSlotTable *table)
{
    free(table);
}

/* ---- the builder ----------------------------------------------------------------------------- */

/* A table of n keys starts with 4n to 8n cells (m_f) and n to 2n buckets (m_g). */
#define NC_SLOTTABLE_SLACK_BITS 2u
/* Multipliers to try before m_f and m_g are doubled. */
#define NC_SLOTTABLE_TRIES 4
/* The maximum of m_f and m_g, as powers of two. Even 2^16 keys are sure to fit: m_g D >= 10 n^2. */
#define NC_SLOTTABLE_MAX_F_BITS 18u
#define NC_SLOTTABLE_MAX_G_BITS 20u
/* To find duplicates, each key is compared with up to this many other keys of its bucket. */
#define NC_SLOTTABLE_NEAR 256
/* Bytes of scratch on the stack: enough for 64 rows. */
#define NC_SLOTTABLE_STACK 2048

/* A row in the builder's lists. Lists number rows from 1; 0 ends a list. */
typedef struct {
    uint32_t cell; /* f of the row's key */
    uint32_t next; /* the next row of the same bucket */
} NcSlotLink;

typedef struct {
    uint32_t head; /* the first row of the bucket */
    uint32_t size; /* its number of keys */
} NcSlotBucket;

/* The builder's scratch arrays for one table size, all in one block. */
typedef struct {
    NcSlotLink *links;     /* [count] by row */
    NcSlotBucket *buckets; /* [m_g] */
    uint32_t *order;       /* [m_g] the buckets, largest first */
    uint32_t *larger;      /* [keys + 2] larger[s]: buckets of s keys or more */
    uint8_t *used;         /* [m_f] whether a cell is taken */
} NcSlotScratch;

/* Try the table's multiplier. Return 1 after filling in index and displacement, or 0 if the
 * multiplier does not work. No multiplier works for duplicate keys. */
NC_STATIC int nc_slottable_try(const PyCustomSlotTable *table, const NcSlotScratch *scratch,
                               size_t keys)
{
    const PyCustomSlot *const rows = nc_slottable_rows(table);
    const uint64_t multiplier = table->multiplier;
    const uint32_t f_shift = table->f_shift;
    const uint32_t g_shift = table->g_shift;
    const size_t m_f = (size_t)1 << (g_shift - f_shift);
    const size_t m_g = (size_t)1 << (64 - g_shift);
    const uint32_t f_mask = (uint32_t)(m_f - 1);
    const uint32_t displacements = m_f < 65536 ? (uint32_t)m_f : 65536;
    const size_t count = table->count;
    uint16_t *const displacement = (uint16_t *)(uintptr_t)table->cells;
    uint16_t *const index = displacement - m_f;
    NcSlotLink *const links = scratch->links;
    NcSlotBucket *const buckets = scratch->buckets;
    uint32_t *const order = scratch->order;
    uint32_t *const larger = scratch->larger;
    uint8_t *const used = scratch->used;
    uint16_t spare[4] = {0, 0, 0, 0};

    memset(buckets, 0, m_g * sizeof *buckets);
    memset(larger, 0, (keys + 2) * sizeof *larger);
    for (size_t i = count; i-- > 0;) {
        if (NC_LIKELY(rows[i].id > NC_SLOT_SKIP)) {
            uint64_t x = (uint64_t)rows[i].id * multiplier;
            NcSlotBucket *bucket = &buckets[x >> g_shift];
            links[i].cell = (uint32_t)(x >> f_shift) & f_mask;
            links[i].next = bucket->head;
            bucket->head = (uint32_t)i + 1;
            larger[++bucket->size]++;
            spare[0] = (uint16_t)i;
        }
    }

    /* Buckets of s keys start at larger[s + 1], after all larger buckets. */
    uint32_t filled = larger[1];
    for (size_t i = 0; i < m_g; i++) {
        order[larger[buckets[i].size + 1]++] = (uint32_t)i;
    }

    /* Unused cells hold the row of the first key. */
    spare[1] = spare[2] = spare[3] = spare[0];
    for (size_t i = 0; i < m_f; i += 4) {
        memcpy(index + i, spare, sizeof spare);
    }
    memset(displacement, 0, m_g * sizeof *displacement);
    memset(used, 0, m_f);

    for (size_t i = 0; i < filled; i++) {
        const uint32_t first = buckets[order[i]].head;
        uint32_t shift = 0;
        uint32_t row = first;

        do {
            const NcSlotLink *link = &links[row - 1];
            row = link->next;
            if (used[link->cell ^ shift]) {
                if (++shift == displacements) {
                    return 0;
                }
                row = first;
            }
        } while (row != 0);

        row = first;
        do {
            const NcSlotLink *link = &links[row - 1];
            uint32_t cell = link->cell ^ shift;
            if (NC_UNLIKELY(used[cell])) {
                return 0; /* two keys of this bucket agree on f too */
            }
            used[cell] = 1;
            index[cell] = (uint16_t)(row - 1);
            row = link->next;
        } while (row != 0);
        displacement[order[i]] = (uint16_t)shift;
    }
    return 1;
}

/* Return a key that occurs twice in a bucket of the last try, or 0. In a large bucket, a duplicate
 * may be missed. It is found when a later multiplier puts it in a small bucket. */
NC_STATIC uintptr_t nc_slottable_duplicate(const PyCustomSlotTable *table,
                                           const NcSlotScratch *scratch)
{
    const PyCustomSlot *const rows = nc_slottable_rows(table);
    const NcSlotLink *const links = scratch->links;

    for (size_t i = 0; i < table->count; i++) {
        uint32_t other = rows[i].id > NC_SLOT_SKIP ? links[i].next : 0;
        for (size_t steps = 0; other != 0 && steps < NC_SLOTTABLE_NEAR; steps++) {
            if (rows[other - 1].id == rows[i].id) {
                return rows[i].id;
            }
            other = links[other - 1].next;
        }
    }
    return 0;
}

/* Fill in the expected rows. If two keys share a place, the first one gets it. Unused places hold
 * `other`: a row whose key has another place, so it cannot match there. */
NC_STATIC void nc_slottable_expect(PyCustomSlotTable *table, size_t other)
{
    const PyCustomSlot *const rows = nc_slottable_rows(table);

    for (size_t i = 0; i < sizeof table->expected / sizeof *table->expected; i++) {
        table->expected[i] = (uint16_t)other;
    }
    for (size_t i = table->count; i-- > 0;) {
        if (rows[i].id > NC_SLOT_SKIP) {
            table->expected[rows[i].id * NC_EXPECTED >> 56] = (uint16_t)i;
        }
    }
}

/* Allocate a table and copy the rows into it. Index, displacement, multiplier and expected rows are
 * left undefined. */
NC_STATIC int nc_slottable_new(const PyCustomSlot *rows, size_t count, uint32_t f_bits,
                               uint32_t g_bits, PyCustomSlotTable **out)
{
    const size_t m_f = (size_t)1 << f_bits;
    const size_t m_g = (size_t)1 << g_bits;
    const size_t row_bytes = (count + 1) * sizeof(PyCustomSlot);
    const size_t size = sizeof(PyCustomSlotTable) + row_bytes + (m_f + m_g) * sizeof(uint16_t);
    PyCustomSlotTable *table = (PyCustomSlotTable *)malloc(size);

    if (table == NULL) {
        return NC_E_NOMEM;
    }
    table->abi_version = NC_ABI_VERSION;
    table->count = (uint32_t)count;
    table->multiplier = 1;
    table->cells = (const uint16_t *)(uintptr_t)((char *)(table + 1) + row_bytes) + m_f;
    table->f_high = ~(uint64_t)0 << f_bits;
    table->g_shift = 64 - g_bits;
    table->f_shift = 64 - g_bits - f_bits;
    table->size = size;
    PyCustomSlot *copy = nc_slottable_rows(table);
    if (count != 0) {
        memcpy(copy, rows, count * sizeof *copy);
    }
    memset(copy + count, 0, row_bytes - count * sizeof *copy);
    *out = table;
    return NC_OK;
}

/* Lay out the scratch arrays in `stack`. If that is too small, free the block at *heap and allocate
 * a new one. */
NC_STATIC int nc_slottable_scratch(NcSlotScratch *scratch, uint64_t *stack, void **heap,
                                   size_t count, size_t keys, uint32_t f_bits, uint32_t g_bits)
{
    const size_t m_f = (size_t)1 << f_bits;
    const size_t m_g = (size_t)1 << g_bits;
    const size_t need = count * sizeof(NcSlotLink) + m_g * sizeof(NcSlotBucket) +
                        (m_g + keys + 2) * sizeof(uint32_t) + m_f;
    void *block = stack;

    if (need > NC_SLOTTABLE_STACK) {
        free(*heap);
        *heap = malloc(need);
        if (*heap == NULL) {
            return NC_E_NOMEM;
        }
        block = *heap;
    }
    scratch->links = (NcSlotLink *)block;
    scratch->buckets = (NcSlotBucket *)(scratch->links + count);
    scratch->order = (uint32_t *)(scratch->buckets + m_g);
    scratch->larger = scratch->order + m_g;
    scratch->used = (uint8_t *)(scratch->larger + keys + 2);
    return NC_OK;
}

/* Build a table from copies of `count` rows. Ids other than 0 and 1 must be unique. Otherwise,
 * return NC_E_DUPLICATE and store the id in *duplicate, unless `duplicate` is NULL. At least one id
 * must not be 0, and there may be at most 2^16 rows (2^16 - 1 if no row has a key). Otherwise,
 * return NC_E_RANGE. */
NC_STATIC int nc_slottable_build(const PyCustomSlot *rows, size_t count, PyCustomSlotTable **out,
                                 uintptr_t *duplicate)
{
    uint64_t stack[NC_SLOTTABLE_STACK / sizeof(uint64_t)];
    void *heap = NULL; /* the scratch arrays if `stack` is too small */
    PyCustomSlotTable *table = NULL;
    uint64_t sequence = 0;
    uint32_t g_bits = 0;
    size_t keys = 0;
    int status;

    if (count > NC_SLOTTABLE_MAX_ROWS) {
        return NC_E_RANGE;
    }
    for (size_t i = 0; i < count; i++) {
        keys += rows[i].id > NC_SLOT_SKIP;
    }
    while (((size_t)1 << g_bits) < keys) {
        g_bits++;
    }
    uint32_t f_bits = g_bits + NC_SLOTTABLE_SLACK_BITS;
    g_bits = g_bits == 0 ? 1 : g_bits;

    if (keys == 0) {
        size_t padding = 0;
        while (padding < count && rows[padding].id != NC_SLOT_SKIP) {
            padding++;
        }
        if (padding == count || count == NC_SLOTTABLE_MAX_ROWS) {
            return NC_E_RANGE;
        }
        status = nc_slottable_new(rows, count, f_bits, g_bits, &table);
        if (status != NC_OK) {
            return status;
        }
        /* Without keys, no single row suits all cells: id 0 must probe a padding row, and id 1 the
         * zero row. */
        table->multiplier = (uint64_t)1 << table->f_shift | 1;
        uint16_t *index = (uint16_t *)(uintptr_t)table->cells - ((size_t)1 << f_bits);
        memset(index, 0, (((size_t)1 << f_bits) + ((size_t)1 << g_bits)) * sizeof *index);
        index[0] = (uint16_t)padding;
        index[1] = (uint16_t)count;
        nc_slottable_expect(table, padding);
        table->expected[NC_EXPECTED >> 56] = (uint16_t)count;
        *out = table;
        return NC_OK;
    }

    for (;;) {
        NcSlotScratch scratch;
        uintptr_t equal;

        status = nc_slottable_new(rows, count, f_bits, g_bits, &table);
        if (status != NC_OK) {
            goto fail;
        }
        status = nc_slottable_scratch(&scratch, stack, &heap, count, keys, f_bits, g_bits);
        if (status != NC_OK) {
            goto fail;
        }
        for (int attempt = 0; attempt < NC_SLOTTABLE_TRIES; attempt++) {
            uint64_t z = sequence += UINT64_C(0x9E3779B97F4A7C15); /* splitmix64 */
            z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
            z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
            table->multiplier = (z ^ z >> 31) | 1;
            if (nc_slottable_try(table, &scratch, keys)) {
                free(heap);
                nc_slottable_expect(table, table->cells[-1]);
                *out = table;
                return NC_OK;
            }
        }
        equal = nc_slottable_duplicate(table, &scratch);
        if (equal != 0) {
            if (duplicate != NULL) {
                *duplicate = equal;
            }
            status = NC_E_DUPLICATE;
            goto fail;
        }
        free(table);
        table = NULL;
        f_bits += f_bits < NC_SLOTTABLE_MAX_F_BITS;
        g_bits += g_bits < NC_SLOTTABLE_MAX_G_BITS;
    }

fail:
    free(heap);
    free(table);
    return status;
}

NC_C_END

#endif
