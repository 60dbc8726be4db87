/* bench/c/original.h: the slot table as SEP 200 and its implementation describe it, and random keys.
 *
 * The table works on 64-bit pre-hashes: position = ((h >> r) & m_f) ^ d[h & m_g], a table that is
 * exactly full (n a power of two), bins placed largest first, r tried in turn. Building may fail.
 */
#ifndef BENCH_ORIGINAL_H
#define BENCH_ORIGINAL_H

#include "nativecall/nativecall_abi.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 64 };

static uint64_t random64(void)
{
    static uint64_t state = 1;
    uint64_t z = state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

typedef struct {
    uint64_t m_f; /* n - 1 */
    uint64_t m_g; /* number of bins - 1 */
    unsigned r;
    uint16_t d[MOST];
    PyCustomSlot slots[MOST]; /* permuted: a slot is where its hash leads */
} OriginalTable;

/* One value of r. Returns whether every bin found a place. */
static int original_try(OriginalTable *table, const uint64_t *hashes, size_t n, unsigned r,
                        uint8_t *place_of)
{
    const uint64_t m_f = table->m_f;
    const uint64_t m_g = table->m_g;
    uint8_t bin_size[MOST] = {0};
    uint8_t bin[MOST][MOST]; /* keys of each bin */
    uint8_t of_size[MOST + 2] = {0};
    uint8_t order[MOST];
    uint8_t taken[MOST] = {0};
    size_t i, k, size;

    for (i = 0; i < n; i++) {
        const size_t g = (size_t)(hashes[i] & m_g);
        bin[g][bin_size[g]++] = (uint8_t)i;
    }
    for (i = 0; i <= m_g; i++) {
        of_size[bin_size[i]]++;
    }
    for (size = MOST, k = 0; size + 1 > 0; size--) {
        const uint8_t here = of_size[size];
        of_size[size] = (uint8_t)k;
        k += here;
        if (size == 0) {
            break;
        }
    }
    for (i = 0; i <= m_g; i++) {
        order[of_size[bin_size[i]]++] = (uint8_t)i;
    }
    for (i = 0; i <= m_g && bin_size[order[i]] != 0; i++) {
        const uint8_t *keys = bin[order[i]];
        uint64_t f[MOST];
        uint64_t d;
        size = bin_size[order[i]];
        for (k = 0; k < size; k++) {
            size_t j;
            f[k] = (hashes[keys[k]] >> r) & m_f;
            for (j = 0; j < k; j++) {
                if (f[j] == f[k]) {
                    return 0;
                }
            }
        }
        for (d = 0; d <= m_f; d++) {
            for (k = 0; k < size && !taken[f[k] ^ d]; k++) {
            }
            if (k == size) {
                break;
            }
        }
        if (d > m_f) {
            return 0;
        }
        for (k = 0; k < size; k++) {
            taken[f[k] ^ d] = 1;
            place_of[keys[k]] = (uint8_t)(f[k] ^ d);
        }
        table->d[order[i]] = (uint16_t)d;
    }
    return 1;
}

static OriginalTable *original_build(const PyCustomSlot *slots, size_t n)
{
    OriginalTable *table = (OriginalTable *)malloc(sizeof *table);
    uint64_t hashes[MOST];
    uint8_t place_of[MOST];
    unsigned r;
    size_t i;

    if (table == NULL) {
        return NULL;
    }
    memset(table->d, 0, sizeof table->d);
    table->m_f = table->m_g = n - 1;
    for (i = 0; i < n; i++) {
        hashes[i] = (uint64_t)slots[i].id;
    }
    for (r = 0; r < 64; r++) {
        if (original_try(table, hashes, n, r, place_of)) {
            table->r = r;
            for (i = 0; i < n; i++) {
                table->slots[place_of[i]] = slots[i];
            }
            return table;
        }
    }
    free(table);
    return NULL;
}

static const PyCustomSlot *original_find(const OriginalTable *table, uint64_t h)
{
    const PyCustomSlot *slot =
        &table->slots[((h >> table->r) & table->m_f) ^ table->d[h & table->m_g]];
    return (uint64_t)slot->id == h ? slot : NULL;
}

#endif
