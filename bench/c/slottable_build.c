/* bench/c/slottable_build.c: what it costs to build a slot table, beside the original's algorithm.
 *
 * Builds tables of random keys, 8 to 64 of them, with nativecall/detail/core/slottable.h and with
 * the algorithm that SEP 200 and its implementation describe; allocating and freeing the table is
 * in both times. The original (original.h) may fail; failures are counted, and their time is in its
 * mean. Rounds alternate between the two; the mean of the best round and of all rounds are printed.
 *
 * Usage: slottable_build [tables a round, 4096 by default]; JSON on stdout. */
#define _POSIX_C_SOURCE 200112L

#include "nativecall/detail/core/slottable.h"

#include "original.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

enum { ROUNDS = 15 };

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
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
