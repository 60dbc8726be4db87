/* tests/c/check.h: the little that the C unit tests share.
 *
 * A test is a program. CHECK counts, and reports what was false with its place; main ends with
 * `return check_report("name")`, which prints what ran and fails when anything was false or nothing
 * ran. After 20 reports of failure a program stops. Threads may use CHECK. */
#ifndef NATIVECALL_TESTS_CHECK_H
#define NATIVECALL_TESTS_CHECK_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static size_t check_count;
static size_t check_failed;

static void check_true(int condition, const char *text, const char *file, int line)
{
    __atomic_fetch_add(&check_count, 1, __ATOMIC_RELAXED);
    if (!condition) {
        fprintf(stderr, "%s:%d: false: %s\n", file, line, text);
        if (__atomic_add_fetch(&check_failed, 1, __ATOMIC_RELAXED) >= 20) {
            exit(1);
        }
    }
}

#define CHECK(condition) check_true((condition) != 0, #condition, __FILE__, __LINE__)

static int check_report(const char *name)
{
    printf("%s: %zu checks, %zu failed\n", name, check_count, check_failed);
    return check_failed != 0 || check_count == 0;
}

/* Deterministic random numbers: splitmix64. */
static inline uint64_t check_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

/* The first argument as a count, or a default. */
static inline size_t check_argument(int argc, char **argv, size_t otherwise)
{
    return argc > 1 ? (size_t)strtoull(argv[1], NULL, 10) : otherwise;
}

#endif
