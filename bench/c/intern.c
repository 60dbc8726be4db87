/* bench/c/intern.c: what it costs to intern a string that is known, with one thread and with two.
 *
 * 64 signatures of 8 bytes are interned over and over. With two threads each does the whole work on
 * the same registry; `speedup` is how many times as many calls two threads get through in the time
 * of one. `control` is the same number for threads that share nothing (they hash their own strings
 * and intern none): what this machine can give at the moment, 2 on two idle processors.
 *
 * Usage: intern [calls a thread and round, 4000000 by default]; JSON on stdout. */
#define _POSIX_C_SOURCE 200112L

#include "nativecall/intern.h"

#include <pthread.h>
#include <stdio.h>
#include <time.h>

enum { ROUNDS = 9, STRINGS = 64, LENGTH = 8 };

static NcRegistry *registry;
static char strings[STRINGS][LENGTH + 1];
static size_t calls;
static int ready;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void *intern_body(void *argument)
{
    const int threads = (int)(uintptr_t)argument;
    const char *out = NULL;
    uintptr_t sum = 0;
    size_t i;

    __atomic_add_fetch(&ready, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(&ready, __ATOMIC_ACQUIRE) < threads) {
    }
    for (i = 0; i < calls; i++) {
        if (nc_intern(registry, strings[i % STRINGS], LENGTH, &out) != NC_OK) {
            return argument;
        }
        sum += (uintptr_t)out;
    }
    return sum == 1 ? argument : NULL;
}

static void *control_body(void *argument)
{
    const int threads = (int)(uintptr_t)argument;
    char own[STRINGS][LENGTH + 1];
    uint64_t sum = 0;
    size_t i;

    memcpy(own, strings, sizeof own);
    __atomic_add_fetch(&ready, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(&ready, __ATOMIC_ACQUIRE) < threads) {
    }
    for (i = 0; i < calls; i++) {
        sum += nc_hash_bytes(own[i % STRINGS], LENGTH);
    }
    return sum == 1 ? argument : NULL;
}

/* ns from the first thread's start to the last one's end. */
static double measure(void *(*body)(void *), int threads)
{
    pthread_t ids[2];
    void *result;
    double begin = now();
    int i;

    __atomic_store_n(&ready, 0, __ATOMIC_RELEASE);
    for (i = 0; i < threads; i++) {
        if (pthread_create(&ids[i], NULL, body, (void *)(uintptr_t)threads) != 0) {
            exit(1);
        }
    }
    for (i = 0; i < threads; i++) {
        if (pthread_join(ids[i], &result) != 0 || result != NULL) {
            exit(1);
        }
    }
    return now() - begin;
}

int main(int argc, char **argv)
{
    const char *out;
    double best[4]; /* ns per call: interning, control; with one thread and with two */
    int round, i;

    calls = argc > 1 ? (size_t)strtoull(argv[1], NULL, 10) : 4000000;
    if (calls == 0 || nc_registry_new(&registry) != NC_OK) {
        fprintf(stderr, "usage: intern [calls a thread and round]\n");
        return 1;
    }
    for (i = 0; i < STRINGS; i++) {
        snprintf(strings[i], sizeof strings[i], "d:di&f%02d", i);
        if (nc_intern(registry, strings[i], LENGTH, &out) != NC_OK) {
            return 1;
        }
    }
    for (round = 0; round < ROUNDS; round++) {
        for (i = 0; i < 4; i++) {
            double ns = measure(i < 2 ? intern_body : control_body, 1 + i % 2) / (double)calls;
            best[i] = round == 0 || ns < best[i] ? ns : best[i];
        }
    }
    printf("{\"benchmark\": \"intern\", \"unit\": \"ns per call\", \"calls\": %zu, \"length\": %d, "
           "\"one_thread\": %.2f, \"two_threads\": %.2f, \"speedup\": %.2f, \"control\": %.2f}\n",
           calls, (int)LENGTH, best[0], best[1], 2 * best[0] / best[1], 2 * best[2] / best[3]);
    nc_registry_free(registry);
    return 0;
}
