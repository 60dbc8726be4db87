/* bench/c/intern.c: what it costs to intern a string that is known, with one thread and with two.
 *
 * 64 signatures of 8 bytes are interned over and over. With two threads each does the whole work on
 * the same registry; `speedup` is how many times as many calls two threads get through in the time
 * of one. `control` is the same number for threads that share nothing, each with a registry and
 * strings of its own: what this machine can give at that moment, 2 on two idle processors. What
 * sharing costs is the ratio of the two.
 *
 * Usage: intern [calls a thread and round, 4000000 by default]; JSON on stdout. */
#define _POSIX_C_SOURCE 200112L

#include "nativecall/detail/core/intern.h"

#include <pthread.h>
#include <stdio.h>
#include <time.h>

enum { ROUNDS = 9, STRINGS = 64, LENGTH = 8 };

/* What a thread works on. */
typedef struct {
    NcRegistry *registry;
    char (*strings)[LENGTH + 1];
    int threads; /* that start together */
} Job;

static size_t calls;
static int ready;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void *body(void *argument)
{
    const Job job = *(const Job *)argument;
    const char *out = NULL;
    uintptr_t sum = 0;
    size_t i;

    __atomic_add_fetch(&ready, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(&ready, __ATOMIC_ACQUIRE) < job.threads) {
    }
    for (i = 0; i < calls; i++) {
        if (nc_intern(job.registry, job.strings[i % STRINGS], LENGTH, &out) != NC_OK) {
            return argument;
        }
        sum += (uintptr_t)out;
    }
    return sum == 1 ? argument : NULL;
}

/* ns from the first thread's start to the last one's end. */
static double measure(const Job *first, const Job *second)
{
    const int threads = second == NULL ? 1 : 2;
    Job jobs[2];
    pthread_t ids[2];
    void *result;
    double begin = now();
    int i;

    __atomic_store_n(&ready, 0, __ATOMIC_RELEASE);
    for (i = 0; i < threads; i++) {
        jobs[i] = i == 0 ? *first : *second;
        jobs[i].threads = threads;
        if (pthread_create(&ids[i], NULL, body, &jobs[i]) != 0) {
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

/* A registry that knows the strings. */
static int prepare(Job *job)
{
    const char *out;
    int i;

    job->strings = (char (*)[LENGTH + 1]) malloc(STRINGS * sizeof *job->strings);
    if (job->strings == NULL || nc_registry_new(&job->registry) != NC_OK) {
        return 0;
    }
    for (i = 0; i < STRINGS; i++) {
        snprintf(job->strings[i], sizeof job->strings[i], "d:di&f%02d", i);
        if (nc_intern(job->registry, job->strings[i], LENGTH, &out) != NC_OK) {
            return 0;
        }
    }
    return 1;
}

int main(int argc, char **argv)
{
    Job job, other;
    double best[3] = {0, 0, 0}; /* ns per call: one thread, two that share, two that do not */
    int round, i;

    calls = argc > 1 ? (size_t)strtoull(argv[1], NULL, 10) : 4000000;
    if (calls == 0 || !prepare(&job) || !prepare(&other)) {
        fprintf(stderr, "usage: intern [calls a thread and round]\n");
        return 1;
    }
    for (round = 0; round < ROUNDS; round++) {
        for (i = 0; i < 3; i++) {
            const Job *second = i == 0 ? NULL : i == 1 ? &job : &other;
            double ns = measure(&job, second) / (double)calls;
            best[i] = round == 0 || ns < best[i] ? ns : best[i];
        }
    }
    printf("{\"benchmark\": \"intern\", \"unit\": \"ns per call\", \"calls\": %zu, \"length\": %d, "
           "\"one_thread\": %.2f, \"two_threads\": %.2f, \"speedup\": %.2f, \"control\": %.2f}\n",
           calls, (int)LENGTH, best[0], best[1], 2 * best[0] / best[1], 2 * best[0] / best[2]);
    nc_registry_free(job.registry);
    nc_registry_free(other.registry);
    free(job.strings);
    free(other.strings);
    return 0;
}
