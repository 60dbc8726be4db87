/* bench/c/slottable_build.c: what it costs to build a slot table, beside the original's algorithm.
 *
 * Builds tables of random keys, 8 to 64 of them, with nativecall/detail/core/slottable.h and with
 * the algorithm that SEP 200 and its implementation describe; allocating and freeing the table is
 * in both times. The original works on 64-bit pre-hashes: position = ((h >> r) & m_f) ^ d[h & m_g],
 * a table that is exactly full (n a power of two), bins placed largest first, r tried in turn. It
 * may fail; failures are counted, and their time is in its mean. Rounds alternate between the two;
 * the mean of the best round and of all rounds are printed.
 *
 * Usage: slottable_build [tables a round, 4096 by default]; JSON on stdout. */
#define _POSIX_C_SOURCE 200112L

#include "nativecall/detail/core/slottable.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

enum { ROUNDS = 15, MOST = 64 };

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static uint64_t random64(void)
{
    static uint64_t state = 1;
    uint64_t z = state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

/* ---- the original's algorithm ---------------------------------------------------------------- */

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

/* ---- measuring ------------------------------------------------------------------------------- */

typedef struct {
    double best; /* ns per table, mean of the best round */
    double mean; /* ns per table, mean of all rounds */
    size_t failures;
} Result;

static void add_round(Result *result, int round, double ns)
{
    result->best = round == 0 || ns < result->best ? ns : result->best;
    result->mean += ns / ROUNDS;
}

int main(int argc, char **argv)
{
    const size_t tables = argc > 1 ? (size_t)strtoull(argv[1], NULL, 10) : 4096;
    static const size_t sizes[] = {8, 16, 32, 64};
    PyCustomSlot *slots = (PyCustomSlot *)calloc(tables == 0 ? 1 : tables, MOST * sizeof *slots);
    size_t s, i, k;
    int round;

    if (slots == NULL || tables == 0) {
        fprintf(stderr, "usage: slottable_build [tables a round]\n");
        return 1;
    }
    printf("{\"benchmark\": \"slottable_build\", \"unit\": \"ns per table\", \"tables\": %zu, "
           "\"rounds\": %d, \"sizes\": [",
           tables, (int)ROUNDS);
    for (s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const size_t n = sizes[s];
        Result ours = {0, 0, 0};
        Result original = {0, 0, 0};
        for (i = 0; i < tables * n; i++) {
            /* All 64 bits: the original takes well-mixed pre-hashes, and would suffer from less. */
            slots[i].id = (uintptr_t)random64();
        }
        for (round = 0; round < ROUNDS; round++) {
            double begin = now();
            for (i = 0; i < tables; i++) {
                PyCustomSlotTable *table;
                if (nc_slottable_build(slots + i * n, n, &table, NULL) == NC_OK) {
                    nc_slottable_free(table);
                } else {
                    ours.failures += round == 0;
                }
            }
            add_round(&ours, round, (now() - begin) / (double)tables);
            begin = now();
            for (i = 0; i < tables; i++) {
                OriginalTable *table = original_build(slots + i * n, n);
                original.failures += round == 0 && table == NULL;
                free(table);
            }
            add_round(&original, round, (now() - begin) / (double)tables);
        }
        /* Both must find what they hold, or their times mean nothing. */
        for (i = 0; i < tables; i++) {
            PyCustomSlotTable *table = NULL;
            OriginalTable *other = original_build(slots + i * n, n);
            int status = nc_slottable_build(slots + i * n, n, &table, NULL);
            for (k = 0; k < n; k++) {
                const PyCustomSlot *slot = &slots[i * n + k];
                if ((status == NC_OK && nc_slottable_find(table, slot->id) == NULL) ||
                    (other != NULL && original_find(other, (uint64_t)slot->id) == NULL)) {
                    fprintf(stderr, "a key was not found\n");
                    return 1;
                }
            }
            if (status == NC_OK) {
                nc_slottable_free(table);
            }
            free(other);
        }
        printf("%s{\"keys\": %zu, \"nativecall\": {\"best\": %.1f, \"mean\": %.1f, \"failures\": "
               "%zu}, "
               "\"original\": {\"best\": %.1f, \"mean\": %.1f, \"failures\": %zu}}",
               s == 0 ? "" : ", ", n, ours.best, ours.mean, ours.failures, original.best,
               original.mean, original.failures);
    }
    printf("]}\n");
    free(slots);
    return 0;
}
