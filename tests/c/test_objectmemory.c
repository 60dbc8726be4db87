/* objectmemory.h: what is given is taken again, of the same size, by the same thread; a thread
 * keeps so many blocks and no more, and none after its end; every block of malloc's is freed once.
 * Argument: rounds of each thread (default 20000). */
#include <stdlib.h>
#include <string.h>

static size_t taken; /* blocks of malloc's that are not freed */

static void *counted_malloc(size_t size)
{
    __atomic_fetch_add(&taken, 1, __ATOMIC_RELAXED);
    return malloc(size);
}

static void counted_free(void *block)
{
    __atomic_fetch_sub(&taken, block != NULL, __ATOMIC_RELAXED);
    free(block);
}

#define malloc counted_malloc
#define free counted_free
#include "nativecall/detail/objectmemory.h"
#undef malloc
#undef free

#include "check.h"

#include <pthread.h>

enum { THREADS = 4, BLOCKS = 100, PLACES = 64, SIZES = 400 };

static size_t rounds;

/* ---- one thread ------------------------------------------------------------------------------ */

static void *one_thread(void *unused)
{
    static void *blocks[BLOCKS];
    size_t size, i;
    for (size = 1; size < SIZES; size++) {
        for (i = 0; i < BLOCKS; i++) {
            blocks[i] = nc_memory_take(size);
            memset(blocks[i], (int)i, size); /* all of it is there: AddressSanitizer looks */
        }
        for (i = 0; i < BLOCKS; i++) {
            CHECK(((unsigned char *)blocks[i])[size - 1] == i);
            nc_memory_give(blocks[i], size);
        }
#if !defined(NC_MEMORY_PLAIN)
        i = (size + NC_MEMORY_STEP - 1) / NC_MEMORY_STEP;
        if (i < NC_MEMORY_SIZES) {
            void *last = nc_memory.of[i].first;
            CHECK(nc_memory.of[i].count == NC_MEMORY_MOST);
            CHECK(nc_memory_take(size) == last);
            nc_memory_give(last, size);
        }
#endif
    }
    return unused;
}

static void test_a_thread_keeps_some_until_its_end(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, one_thread, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(taken == 0);
}

/* ---- several --------------------------------------------------------------------------------- */

/* Blocks on their way between threads: whoever swaps one out gives it. */
static void *places[PLACES];

static void *exchanging(void *number)
{
    uint64_t state = (uint64_t)(uintptr_t)number;
    size_t i;
    for (i = 0; i < rounds; i++) {
        size_t *block = (size_t *)nc_memory_take(40);
        void **place = &places[check_random(&state) % PLACES];
        block[0] = block[4] = i;
        block = (size_t *)__atomic_exchange_n(place, (void *)block, __ATOMIC_ACQ_REL);
        if (block != NULL) {
            CHECK(block[0] == block[4]);
            nc_memory_give(block, 40);
        }
    }
    return NULL;
}

static void test_blocks_go_between_threads(void)
{
    pthread_t threads[THREADS];
    size_t i;
    for (i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&threads[i], NULL, exchanging, (void *)(uintptr_t)(i + 1)) == 0);
    }
    for (i = 0; i < THREADS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    for (i = 0; i < PLACES; i++) {
        counted_free(places[i]);
    }
    CHECK(taken == 0);
}

/* ---- at a thread's end ----------------------------------------------------------------------- */

static pthread_key_t later;

static void give_later(void *block)
{
    nc_memory_give(block, 40);
}

static void *ending_with_a_block(void *unused)
{
    void *blocks[2] = {nc_memory_take(40), nc_memory_take(40)};
    CHECK(pthread_setspecific(later, blocks[0]) == 0);
    nc_memory_give(blocks[1], 40);
    nc_memory_give(nc_memory_take(40), 40);
    return unused;
}

static void test_what_ends_after_the_lists_is_freed_too(void)
{
    pthread_t thread;
    CHECK(pthread_key_create(&later, give_later) == 0); /* behind the lists' own key */
    CHECK(pthread_create(&thread, NULL, ending_with_a_block, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(taken == 0);
}

int main(int argc, char **argv)
{
    rounds = check_argument(argc, argv, 20000);
    test_a_thread_keeps_some_until_its_end();
    test_blocks_go_between_threads();
    test_what_ends_after_the_lists_is_freed_too();
    return check_report("test_objectmemory");
}
