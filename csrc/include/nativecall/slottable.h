/* nativecall/slottable.h: the table of custom slots on a type; every key is found in one probe.
 *
 * Idea:       a perfect hash that keeps the rows in the order in which they were declared. The hash
 *             leads to a cell of an index, the cell names a row, and the row's key is compared.
 *
 *                 x    = id * multiplier                    multiplier odd, one per table
 *                 g    = the top bits of x                  the key's bucket
 *                 f    = the bits just below                the key's cell, before displacement
 *                 row  = rows[index[f ^ displacement[g]]]   a hit when row.id == id
 *
 *             The multiplication is the parametrised hash of SEP 200 and its mixing in one.
 *
 * Layout:     one allocation:
 *
 *                 header | rows[count] | one zero row | index[f cells] | displacement[g cells]
 *
 *             Rows are exactly what was declared, padding (id 1) and empty rows (id 0) included, so
 *             Count, Table and expected positions mean what SEP 200 says. `cells` points at the
 *             displacement; the index lies at negative positions, -m_f to -1, which is why one
 *             pointer and one `or` (with f_high = -m_f, setting all bits above f) reach both.
 *
 * Invariants: m_f and m_g are powers of two, m_f > number of keys, m_g >= 2; no shift is ever by 64.
 *             Every index cell names a row that exists. Cells of no key name a row whose id is a
 *             key elsewhere, so 0 and 1 are never found. A table is constant once built.
 *
 * Why building never fails.
 *             Let n keys be distinct, m_g buckets, m_f cells, D = min(m_f, 2^16) displacements. For a
 *             random odd multiplier two given keys agree in the top b bits of x with probability
 *             at most 2 / 2^b (multiply-shift universality; true for any two keys, however alike).
 *             - A pair is inseparable when it agrees on g and f. The expected number of such pairs is
 *               at most n^2/2 * 2/(m_g m_f) = n^2/(m_g m_f).
 *             - Let P be the number of pairs that agree on g; its mean is at most n^2/m_g. Buckets are
 *               placed largest first. When a bucket of k separable keys is placed, p keys are there
 *               already, and each of the k*p combinations rules out at most one displacement, so
 *               k*p < D suffices. A bucket of one key fits always (p < n <= D). For k >= 2 the p keys
 *               are in buckets of k or more, each has k-1 partners or more, hence p <= 2P/(k-1) and
 *               k*p <= 4P: all buckets fit when 4P < D.
 *             By Markov's inequality a multiplier fails with probability at most 5 n^2/(m_g D). After
 *             a few failures the builder doubles m_g and m_f, so within a few doublings this is below
 *             one half for every key set, and the expected number of multipliers is a small constant.
 *             Multipliers come from a fixed sequence that visits every odd number, so the search ends
 *             even for keys chosen against it, and a table is the same in every process that has the
 *             same keys. For random keys the first multiplier nearly always does.
 *
 * Threads:    building and freeing touch only what they are given. A built table is never written by
 *             this header; publish its pointer with release (or before the threads start).
 * Errors:     NC_E_NOMEM, NC_E_DUPLICATE (and which id), NC_E_RANGE (more than 2^16 rows).
 * Ownership:  the caller frees a table with nc_slottable_free; data.pointer is never followed.
 * Source:     SEP 200, "The custom slot table", "Slot expected position", "Special IDs". The scheme is
 *             hash and displace (Tarjan and Yao; Pagh) over multiply-shift (Dietzfelbinger et al.). */
#ifndef NATIVECALL_SLOTTABLE_H
#define NATIVECALL_SLOTTABLE_H

#include <stdlib.h>
#include <string.h>

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NC_SLOT_EMPTY ((uintptr_t)0) /* no slot: trailing rows of an over-allocated table */
#define NC_SLOT_SKIP ((uintptr_t)1)  /* no slot: padding that keeps others at their positions */
#define NC_SLOTTABLE_MAX_ROWS ((size_t)65536)

typedef struct {
    uintptr_t id;   /* the key: odd is an allocated ID, even is an address */
    uint64_t flags; /* as the slot's own definition says */
    union {
        void *pointer;      /* borrowed */
        intptr_t objoffset; /* to be added to the object's address */
    } data;
} PyCustomSlot;

typedef struct {
    uint32_t abi_version;  /* NC_ABI_VERSION */
    uint32_t count;        /* declared rows; row `count` is zero */
    uint64_t multiplier;   /* odd */
    const uint16_t *cells; /* cells[0 .. m_g - 1]: displacement; cells[-m_f .. -1]: index */
    uint64_t f_high;       /* -m_f: every bit above those of f */
    uint32_t g_shift;      /* x >> g_shift is g: 64 - log2(m_g) */
    uint32_t f_shift;      /* the low bits of x >> f_shift are f: g_shift - log2(m_f) */
    uint64_t size;         /* bytes of the whole allocation */
} PyCustomSlotTable;       /* the rows follow */

/* The rows in declared order, and one zero row after the last. */
NC_STATIC_INLINE PyCustomSlot *nc_slottable_rows(const PyCustomSlotTable *table)
{
    return (PyCustomSlot *)(uintptr_t)(table + 1);
}

/* The row with this id, or NULL. */
NC_STATIC_INLINE PyCustomSlot *nc_slottable_find(const PyCustomSlotTable *table, uintptr_t id)
{
    uint64_t x = (uint64_t)id * table->multiplier;
    const uint16_t *cells = table->cells;
    uint64_t f = (x >> table->f_shift | table->f_high) ^ cells[x >> table->g_shift];
    PyCustomSlot *row = nc_slottable_rows(table) + cells[(intptr_t)f];

    return NC_LIKELY(row->id == id) ? row : NULL;
}

/* As nc_slottable_find, but looks at row `expected_pos` first (SEP 200, "Slot expected position"). Any
 * position may be given, one beyond the table only costs the comparison; 0 when none is known. */
NC_STATIC_INLINE PyCustomSlot *nc_slottable_find_expected(const PyCustomSlotTable *table,
                                                          uintptr_t id, intptr_t expected_pos)
{
    /* Row 0 is there even in an empty table: it is the zero row. */
    if (expected_pos == 0 || (uintptr_t)expected_pos < table->count) {
        PyCustomSlot *row = nc_slottable_rows(table) + expected_pos;
        if (NC_LIKELY(row->id == id)) {
            return NC_LIKELY(id > NC_SLOT_SKIP) ? row : NULL;
        }
    }
    return nc_slottable_find(table, id);
}

NC_STATIC void nc_slottable_free(PyCustomSlotTable *table)
{
    free(table);
}

/* ---- the builder ----------------------------------------------------------------------------- */

/* The first table has at least this many cells a key (in powers of two), and a bucket for two keys. */
#ifndef NC_SLOTTABLE_SLACK_BITS
#define NC_SLOTTABLE_SLACK_BITS 2
#endif
#ifndef NC_SLOTTABLE_BUCKET_BITS
#define NC_SLOTTABLE_BUCKET_BITS 0
#endif
/* Multipliers tried before the table is made larger. */
#define NC_SLOTTABLE_TRIES 4
/* How large it may become. 2^16 keys, the most there are, are sure to fit with these (see above). */
#define NC_SLOTTABLE_MAX_F_BITS 18u
#define NC_SLOTTABLE_MAX_G_BITS 20u
/* Bytes of scratch that lie on the stack: enough for 64 keys. */
#define NC_SLOTTABLE_STACK 3072

/* The builder's working space; all arrays lie in one block. Keys are numbered 0 to n - 1. */
typedef struct {
    uint64_t *ids;   /* [n] the keys */
    uint32_t *cell;  /* [n] f of each key */
    uint32_t *next;  /* [n] 1 + the next key of the same bucket, 0 at the end */
    uint32_t *tally; /* [n + 2] how many buckets are larger than each size, then where they begin */
    uint32_t *head;  /* [m_g] 1 + the first key of a bucket, 0 when empty */
    uint32_t *size;  /* [m_g] keys in a bucket */
    uint32_t *order; /* [m_g] the buckets, largest first */
    uint16_t *row;   /* [n] position of each key among the rows */
    uint8_t *used;   /* [m_f] whether a cell is taken */
} NcSlotScratch;

/* Fills `ids` and `row` from the rows, in order. */
NC_STATIC_INLINE void nc_slottable_keys(const PyCustomSlot *rows, size_t count, uint64_t *ids,
                                        uint16_t *row)
{
    size_t i;

    for (i = 0; i < count; i++) {
        if (NC_LIKELY(rows[i].id > NC_SLOT_SKIP)) {
            *ids++ = (uint64_t)rows[i].id;
            *row++ = (uint16_t)i;
        }
    }
}

/* Tries one multiplier. NC_OK: the table's index and displacement are filled in. NC_E_MISSING: another
 * multiplier is needed. NC_E_DUPLICATE: two equal keys were seen. Equal keys never give NC_OK, but may
 * go unseen when something else fails before. */
NC_STATIC int nc_slottable_try(const PyCustomSlotTable *table, const NcSlotScratch *scratch,
                               size_t keys, uint32_t f_bits, uint32_t g_bits,
                               uintptr_t *duplicate)
{
    const uint64_t multiplier = table->multiplier;
    const uint32_t f_shift = table->f_shift;
    const uint32_t g_shift = table->g_shift;
    const uint32_t f_mask = ((uint32_t)1 << f_bits) - 1;
    const uint32_t displacements = f_bits < 16 ? f_mask + 1 : (uint32_t)1 << 16;
    const size_t buckets = (size_t)1 << g_bits;
    const size_t cells = (size_t)1 << f_bits;
    uint16_t *displacement = (uint16_t *)(uintptr_t)table->cells;
    uint16_t *index = displacement - cells;
    uint32_t *const tally = scratch->tally;
    const uint32_t *const cell = scratch->cell;
    const uint32_t *const next = scratch->next;
    uint8_t *const used = scratch->used;
    uint16_t spare[4];
    uint32_t largest = 0;
    uint32_t total;
    size_t i;

    memset(scratch->head, 0, buckets * sizeof *scratch->head);
    memset(scratch->size, 0, buckets * sizeof *scratch->size);
    for (i = 0; i < keys; i++) {
        uint64_t x = scratch->ids[i] * multiplier;
        size_t g = (size_t)(x >> g_shift);
        uint32_t size = ++scratch->size[g];
        scratch->cell[i] = (uint32_t)(x >> f_shift) & f_mask;
        scratch->next[i] = scratch->head[g];
        scratch->head[g] = (uint32_t)i + 1;
        largest = size > largest ? size : largest;
    }

    /* Counting sort of the buckets by size, largest first. */
    memset(tally, 0, ((size_t)largest + 1) * sizeof *tally);
    for (i = 0; i < buckets; i++) {
        tally[scratch->size[i]]++;
    }
    total = 0;
    for (i = (size_t)largest + 1; i-- > 0;) {
        uint32_t here = tally[i];
        tally[i] = total;
        total += here;
    }
    for (i = 0; i < buckets; i++) {
        scratch->order[tally[scratch->size[i]]++] = (uint32_t)i;
    }

    /* Cells of no key name the first key's row: 4 cells at a time. */
    for (i = 0; i < 4; i++) {
        spare[i] = scratch->row[0];
    }
    for (i = 0; i < cells; i += 4) {
        memcpy(index + i, spare, sizeof spare);
    }
    memset(displacement, 0, buckets * sizeof *displacement);
    memset(used, 0, cells);

    for (i = 0; i < buckets; i++) {
        const uint32_t bucket = scratch->order[i];
        const uint32_t first = scratch->head[bucket];
        uint32_t shift = 0;
        uint32_t key;

        if (first == 0) {
            break;
        }
        for (key = first; key != 0;) {
            if (NC_LIKELY(!used[cell[key - 1] ^ shift])) {
                key = next[key - 1];
            } else {
                if (++shift == displacements) {
                    return NC_E_MISSING;
                }
                key = first;
            }
        }
        for (key = first; key != 0; key = next[key - 1]) {
            uint32_t place = cell[key - 1] ^ shift;
            if (NC_UNLIKELY(used[place])) {
                /* Two keys of this bucket agree on f too: perhaps because they are equal. */
                uint32_t other;
                for (other = first; other != key; other = next[other - 1]) {
                    if (scratch->ids[other - 1] == scratch->ids[key - 1]) {
                        *duplicate = (uintptr_t)scratch->ids[key - 1];
                        return NC_E_DUPLICATE;
                    }
                }
                return NC_E_MISSING;
            }
            used[place] = 1;
            index[place] = scratch->row[key - 1];
        }
        displacement[bucket] = (uint16_t)shift;
    }
    return NC_OK;
}

NC_STATIC int nc_slottable_compare(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left;
    uint64_t b = *(const uint64_t *)right;

    return (a > b) - (a < b);
}

/* Copies `count` rows into a new table. Ids other than 0 and 1 must differ; an id that does not goes
 * to *duplicate (which may be NULL), with NC_E_DUPLICATE. At most 2^16 rows, 2 fewer when none of
 * them is a key, else NC_E_RANGE. `rows` may be NULL when `count` is 0. */
NC_STATIC int nc_slottable_build(const PyCustomSlot *rows, size_t count, PyCustomSlotTable **out,
                                 uintptr_t *duplicate)
{
    uint64_t stack[NC_SLOTTABLE_STACK / sizeof(uint64_t)];
    uint64_t *block = stack; /* the scratch space: `stack`, or allocated */
    size_t block_size = sizeof stack;
    PyCustomSlotTable *table = NULL;
    uint64_t sequence = 0;
    uint32_t f_bits = 0;
    uint32_t g_bits = 0;
    uintptr_t equal = 0;
    int distinct = 0; /* whether the keys are known to differ */
    int status;
    size_t keys = 0;
    size_t i;

    if (count > NC_SLOTTABLE_MAX_ROWS) {
        return NC_E_RANGE;
    }
    for (i = 0; i < count; i++) {
        keys += rows[i].id > NC_SLOT_SKIP;
    }
    if (keys == 0 && count > NC_SLOTTABLE_MAX_ROWS - 2) {
        return NC_E_RANGE;
    }
    while (((size_t)1 << g_bits) < keys) {
        g_bits++;
    }
    f_bits = g_bits + NC_SLOTTABLE_SLACK_BITS;
    f_bits = f_bits < 2 ? 2 : f_bits;
    g_bits = g_bits < NC_SLOTTABLE_BUCKET_BITS + 1 ? 1 : g_bits - NC_SLOTTABLE_BUCKET_BITS;

    for (;;) {
        const size_t cells = (size_t)1 << f_bits;
        const size_t buckets = (size_t)1 << g_bits;
        /* A table without keys has one more row, see below. */
        const size_t row_bytes = (count + 1 + (keys == 0)) * sizeof(PyCustomSlot);
        const size_t size = sizeof *table + row_bytes + (cells + buckets) * sizeof(uint16_t);
        const size_t need = keys * (sizeof(uint64_t) + 3 * sizeof(uint32_t) + sizeof(uint16_t)) +
                            (2 + 3 * buckets) * sizeof(uint32_t) + cells;
        PyCustomSlot *copy;
        NcSlotScratch scratch;
        int attempt;

        if (need > block_size) {
            if (block != stack) {
                free(block);
            }
            block = (uint64_t *)malloc(need);
            if (block == NULL) {
                status = NC_E_NOMEM;
                goto fail;
            }
            block_size = need;
        }
        scratch.ids = block;
        scratch.cell = (uint32_t *)(scratch.ids + keys);
        scratch.next = scratch.cell + keys;
        scratch.tally = scratch.next + keys;
        scratch.head = scratch.tally + keys + 2;
        scratch.size = scratch.head + buckets;
        scratch.order = scratch.size + buckets;
        scratch.row = (uint16_t *)(scratch.order + buckets);
        scratch.used = (uint8_t *)(scratch.row + keys);

        table = (PyCustomSlotTable *)malloc(size);
        if (table == NULL) {
            status = NC_E_NOMEM;
            goto fail;
        }
        copy = nc_slottable_rows(table);
        table->abi_version = NC_ABI_VERSION;
        table->count = (uint32_t)count;
        table->cells = (const uint16_t *)((const char *)copy + row_bytes) + cells;
        table->f_high = ~(uint64_t)0 << f_bits;
        table->g_shift = 64 - g_bits;
        table->f_shift = 64 - g_bits - f_bits;
        table->size = size;
        if (count != 0) {
            memcpy(copy, rows, count * sizeof *copy);
        }
        memset(copy + count, 0, sizeof *copy);

        if (keys == 0) {
            /* 0 leads to a row whose id is 1, and 1 to the zero row. */
            uint16_t *index = (uint16_t *)(uintptr_t)table->cells - cells;
            memset(index, 0, (cells + buckets) * sizeof *index);
            memset(copy + count + 1, 0, sizeof *copy);
            copy[count + 1].id = NC_SLOT_SKIP;
            table->multiplier = (uint64_t)1 << table->f_shift | 1;
            index[0] = (uint16_t)(count + 1);
            index[1] = (uint16_t)count;
            break;
        }

        nc_slottable_keys(rows, count, scratch.ids, scratch.row);
        for (attempt = 0; attempt < NC_SLOTTABLE_TRIES; attempt++) {
            uint64_t z = sequence += UINT64_C(0x9E3779B97F4A7C15); /* splitmix64 */
            z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
            z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
            table->multiplier = (z ^ z >> 31) | 1;
            status = nc_slottable_try(table, &scratch, keys, f_bits, g_bits, &equal);
            if (status == NC_OK) {
                goto done;
            }
            if (status == NC_E_DUPLICATE) {
                goto repeated;
            }
        }
        if (!distinct) {
            qsort(scratch.ids, keys, sizeof *scratch.ids, nc_slottable_compare);
            for (i = 1; i < keys; i++) {
                if (scratch.ids[i] == scratch.ids[i - 1]) {
                    equal = (uintptr_t)scratch.ids[i];
                    goto repeated;
                }
            }
            distinct = 1;
        }
        free(table);
        table = NULL;
        f_bits += f_bits < NC_SLOTTABLE_MAX_F_BITS;
        g_bits += g_bits < NC_SLOTTABLE_MAX_G_BITS;
    }

done:
    if (block != stack) {
        free(block);
    }
    *out = table;
    return NC_OK;

repeated:
    if (duplicate != NULL) {
        *duplicate = equal;
    }
    status = NC_E_DUPLICATE;

fail:
    if (block != stack) {
        free(block);
    }
    free(table);
    return status;
}

#ifdef __cplusplus
}
#endif

#endif
