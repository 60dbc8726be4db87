/* intern.h: readers race writers, without locks, and see whole strings.
 * Argument: how much each thread does (default 200000). Meant for ThreadSanitizer, and true
 * without it. */
#include "nativecall/detail/core/intern.h"

#include "check.h"
#include "registry.h"

#include <pthread.h>

enum { THREADS = 4, STRINGS = 3000 };

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
    CHECK(registry->count == STRINGS);
    CHECK(registry->table->superseded != NULL && registry_is_lean(registry));
    for (i = 0; i < STRINGS; i++) {
        for (thread = 1; thread < THREADS; thread++) {
            wrong += seen[thread][i] != seen[0][i];
        }
    }
    CHECK(wrong == 0);
    printf("threads: %d threads interned the same %d strings, %zu looks each\n", THREADS, STRINGS,
           work);
}

int main(int argc, char **argv)
{
    work = check_argument(argc, argv, 200000);
    test_intern();
    registry_free(registry);
    return check_report("threads");
}
