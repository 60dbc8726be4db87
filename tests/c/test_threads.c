/* intern.h and calltable.h: readers race writers, without locks, and see whole things.
 * Argument: how much each thread does (default 200000). Meant for ThreadSanitizer, and true
 * without it. */
#include "nativecall/detail/core/calltable.h"
#include "nativecall/detail/core/intern.h"

#include "check.h"

#include <pthread.h>
#include <sched.h>

enum { THREADS = 4, STRINGS = 3000, ENTRIES = 200 };

static NcRegistry *registry;
static const char *seen[THREADS][STRINGS];
static size_t work;
static int start;

static void wait_for_start(void)
{
    while (!__atomic_load_n(&start, __ATOMIC_ACQUIRE)) {
    }
}

static void run(void *(*body)(void *), size_t threads)
{
    pthread_t ids[THREADS];
    size_t i;

    __atomic_store_n(&start, 0, __ATOMIC_RELEASE);
    for (i = 0; i < threads; i++) {
        CHECK(pthread_create(&ids[i], NULL, body, (void *)(uintptr_t)i) == 0);
    }
    __atomic_store_n(&start, 1, __ATOMIC_RELEASE);
    for (i = 0; i < threads; i++) {
        CHECK(pthread_join(ids[i], NULL) == 0);
    }
}

/* ---- intern: every thread interns the same strings in an order of its own -------------------- */

static void *intern_thread(void *argument)
{
    const size_t thread = (size_t)(uintptr_t)argument;
    uint64_t state = thread;
    size_t i, round, wrong = 0;
    char text[32];

    wait_for_start();
    for (round = 0; round < 2; round++) {
        for (i = 0; i < STRINGS; i++) {
            /* 7919 is prime to 3000. */
            const size_t number = (i * 7919 + thread * 701 + round) % STRINGS;
            const size_t length = (size_t)snprintf(text, sizeof text, "d:%zu&f", number);
            const char *found = nc_interned_find(registry, text, length);
            const char *interned = NULL;
            wrong += nc_intern(registry, text, length, &interned) != NC_OK;
            wrong += found != NULL && found != interned;
            wrong += interned == NULL || nc_interned_length(interned) != length ||
                     memcmp(interned, text, length + 1) != 0;
            wrong += seen[thread][number] != NULL && seen[thread][number] != interned;
            seen[thread][number] = interned;
        }
    }
    for (i = 0; i < work; i++) {
        const size_t number = (size_t)(check_random(&state) % STRINGS);
        const size_t length = (size_t)snprintf(text, sizeof text, "d:%zu&f", number);
        wrong += nc_interned_find(registry, text, length) != seen[thread][number];
    }
    CHECK(wrong == 0);
    return NULL;
}

static void test_intern(void)
{
    size_t thread, i, wrong = 0;

    CHECK(nc_registry_new(&registry) == NC_OK);
    run(intern_thread, THREADS);
    CHECK(nc_load_relaxed_size(&registry->count) == STRINGS);
    CHECK(nc_load_relaxed_size(&registry->retired_bytes) > 0);
    CHECK(nc_load_relaxed_size(&registry->retired_bytes) <
          nc_load_relaxed_size(&registry->live_bytes));
    for (i = 0; i < STRINGS; i++) {
        for (thread = 1; thread < THREADS; thread++) {
            wrong += seen[thread][i] != seen[0][i];
        }
    }
    CHECK(wrong == 0);
    printf("threads: %d threads interned the same %d strings, %zu looks each\n", THREADS, STRINGS,
           work);
}

/* ---- call table: one writer; the others read what it appends and replaces -------------------- */

static NcCallTable calls;

/* What a function pointer leads to: says which entry it belongs to. Made before it is stored. */
typedef struct {
    size_t number;
    size_t generation;
} Target;

static Target *targets[ENTRIES][2];
static int finished;
static size_t total_reads; /* relaxed: orders nothing, so that it hides no race */

/* Flags that follow from the position, so that a torn entry shows. */
static uintptr_t flags_of(size_t number)
{
    const uintptr_t flags = (uintptr_t)(number * 0x1235 & 0xFFFF78) | (number & 6);
    return flags | ((flags & NC_ERRORS_MASK) == NC_ERRORS_PYTHON ? NC_FLAG_NEEDS_GIL : 0);
}

static void *calltable_writer(void)
{
    uint64_t state = 99;
    size_t i, wrong = 0;

    wait_for_start();
    for (i = 0; i < ENTRIES; i++) {
        size_t again;
        /* Spread over the readers' work, however threads are scheduled. */
        while (__atomic_load_n(&total_reads, __ATOMIC_RELAXED) < i * work / ENTRIES) {
            sched_yield();
        }
        targets[i][0] = (Target *)malloc(sizeof(Target));
        targets[i][1] = (Target *)malloc(sizeof(Target));
        targets[i][0]->number = targets[i][1]->number = i;
        targets[i][0]->generation = 0;
        targets[i][1]->generation = 1;
        wrong += nc_calltable_append(&calls, seen[0][i], flags_of(i), targets[i][0]) != NC_OK;
        for (again = 0; again < 1 + work / 1000; again++) {
            const size_t number = (size_t)(check_random(&state) % (i + 1));
            wrong += nc_calltable_replace(&calls, number, targets[number][again & 1]) != NC_OK;
        }
        wrong += nc_calltable_retired_bytes(&calls) >= nc_calltable_live_bytes(&calls);
    }
    CHECK(wrong == 0);
    __atomic_store_n(&finished, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void *calltable_thread(void *argument)
{
    uint64_t state = (uint64_t)(uintptr_t)argument;
    size_t reads = 0, hits = 0, wrong = 0, most = 0;

    if (argument == NULL) {
        return calltable_writer();
    }
    wait_for_start();
    /* Once the writer has finished every look is a hit. */
    while (reads < work || hits == 0 || !__atomic_load_n(&finished, __ATOMIC_ACQUIRE)) {
        const PyNativeCallableTable *table = nc_calltable_published(&calls);
        const size_t count = nc_calltable_count(table);
        const size_t number = (size_t)(check_random(&state) % ENTRIES);
        const PyNativeCallableEntry *entry = nc_calltable_find(table, seen[0][number], 0);
        reads++;
        __atomic_fetch_add(&total_reads, 1, __ATOMIC_RELAXED);
        wrong += count < most; /* what was there does not go away */
        most = count;
        wrong += entry == NULL && number < count;
        if (entry != NULL) {
            const Target *target = (const Target *)nc_calltable_funcptr(entry);
            hits++;
            wrong += entry != &table->entries[number] || entry->flags != flags_of(number);
            wrong += target == NULL || target->number != number || target->generation > 1;
        }
        entry = nc_calltable_find(table, seen[0][number], 2);
        wrong += entry != NULL && ((number & 2) != 0 || (entry->flags & 2) != 0);
    }
    CHECK(wrong == 0);
    CHECK(hits > 0);
    return NULL;
}

static void test_calltable(void)
{
    size_t i;

    nc_calltable_init(&calls);
    run(calltable_thread, THREADS);
    CHECK(nc_calltable_count(nc_calltable_published(&calls)) == ENTRIES);
    printf("threads: %d readers raced a writer of %d entries, %zu reads each or more\n",
           THREADS - 1, ENTRIES, work);
    nc_calltable_clear(&calls);
    for (i = 0; i < ENTRIES; i++) {
        free(targets[i][0]);
        free(targets[i][1]);
    }
}

int main(int argc, char **argv)
{
    work = check_argument(argc, argv, 200000);
    test_intern();
    test_calltable();
    nc_registry_free(registry);
    return check_report("threads");
}
