/* nativecall/detail/objectmemory.h: allocates the memory of native objects. Each thread caches some
 * blocks of destroyed objects and reuses them.
 *
 * Idea:       for each size, each thread has a free list of up to NC_MEMORY_MOST blocks. Taking or
 *             returning a block takes a few instructions, none of them atomic. malloc and free take
 *             more than a hundred, because they do not know the size in advance.
 * Invariants: a block on a list is unused, and malloc has allocated it with its size rounded up. So
 *             free() accepts the block, and any thread or module may have allocated it.
 * Threads:    a list belongs to one thread. The object's atomic reference count orders the writes
 *             of other threads before the reuse of its block. An exiting thread frees its blocks.
 *             Until its exit handler is registered, a thread caches no blocks (`most` is 0).
 *             Exiting threads call into the module, so it must stay loaded, as CPython's extension
 *             modules do.
 * Plain:      nothing is cached under AddressSanitizer, with NC_OBJECT_CHECKED, or on systems other
 *             than Linux. All blocks then come from malloc and go to free. Outside Linux, a
 *             thread's variables may be destroyed before the destructors of pthread_key_create
 *             run. */
#ifndef NATIVECALL_OBJECTMEMORY_H
#define NATIVECALL_OBJECTMEMORY_H

#include <stdlib.h>

#include "core/base.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define NC_MEMORY_PLAIN
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(NC_OBJECT_CHECKED) || !defined(__linux__)
#define NC_MEMORY_PLAIN
#endif

#if !defined(NC_MEMORY_PLAIN)
#include <pthread.h>
#endif

NC_C_BEGIN

enum { NC_MEMORY_STEP = 16 };

/* Return the size to request from malloc for `size` bytes. All modules must use the same rule. */
NC_STATIC_INLINE size_t nc_memory_size(size_t size)
{
    return (size + NC_MEMORY_STEP - 1) / NC_MEMORY_STEP * NC_MEMORY_STEP;
}

/* malloc(nc_memory_size(size)). The barrier keeps compilers from merging malloc and memset into
 * calloc. In glibc, calloc takes a lock where malloc would use the thread's cache. */
NC_STATIC_INLINE void *nc_memory_new(size_t size)
{
    void *block = malloc(nc_memory_size(size));
#if !defined(NC_MSVC)
    __asm__("" : "+r"(block));
#endif
    return block;
}

#if defined(NC_MEMORY_PLAIN)

NC_STATIC_INLINE void *nc_memory_take(size_t size)
{
    return nc_memory_new(size);
}

#if !defined(NC_OBJECT_CHECKED)
NC_STATIC_INLINE void nc_memory_give(void *block, size_t size)
{
    (void)size;
    free(block);
}
#else
/* Blocks of the objects destroyed last. They are freed late, so that use after destruction is
 * detected. */
enum { NC_OBJECTS_KEPT_BACK = 4096 };
static void *nc_objects_kept_back[NC_OBJECTS_KEPT_BACK];
static size_t nc_objects_ended = 0;

NC_STATIC void nc_memory_give(void *block, size_t size)
{
    const size_t at = __atomic_fetch_add(&nc_objects_ended, 1, __ATOMIC_RELAXED);
    (void)size;
    free(__atomic_exchange_n(&nc_objects_kept_back[at % NC_OBJECTS_KEPT_BACK], block,
                             __ATOMIC_ACQ_REL));
}
#endif

#else

enum {
    NC_MEMORY_SIZES = 20, /* only blocks below this many size steps are cached */
    NC_MEMORY_MOST = 64   /* blocks of one size */
};

typedef struct {
    size_t most; /* blocks per size: NC_MEMORY_MOST, or 0 */
    struct {
        void *first; /* linked through the first word of each block */
        size_t count;
    } of[NC_MEMORY_SIZES];
} NcMemory;

static NC_THREAD_LOCAL NcMemory nc_memory;

static pthread_once_t nc_memory_once = PTHREAD_ONCE_INIT;
static pthread_key_t nc_memory_key;
static int nc_memory_has_key = 0;

/* Thread exit handler. It runs again if exit handlers that run after it destroy objects. */
NC_STATIC void nc_memory_free_all(void *pointer)
{
    NcMemory *memory = (NcMemory *)pointer;
    memory->most = 0;
    for (size_t i = 0; i < NC_MEMORY_SIZES; i++) {
        while (memory->of[i].first != NULL) {
            void *block = memory->of[i].first;
            memory->of[i].first = *(void **)block;
            free(block);
        }
        memory->of[i].count = 0;
    }
}

NC_STATIC void nc_memory_make_key(void)
{
    nc_memory_has_key = pthread_key_create(&nc_memory_key, nc_memory_free_all) == 0;
}

/* Free a block that its list cannot take. The first call in a thread also registers the exit
 * handler, so that later blocks are cached. */
NC_NOINLINE void nc_memory_give_apart(NcMemory *memory, void *block)
{
    if (memory->most == 0) {
        (void)pthread_once(&nc_memory_once, nc_memory_make_key);
        if (nc_memory_has_key && pthread_setspecific(nc_memory_key, memory) == 0) {
            memory->most = NC_MEMORY_MOST;
        }
    }
    free(block);
}

/* As malloc. Give the block back with nc_memory_give. */
NC_STATIC_INLINE void *nc_memory_take(size_t size)
{
    const size_t which = (size + NC_MEMORY_STEP - 1) / NC_MEMORY_STEP;
    if (NC_LIKELY(which < NC_MEMORY_SIZES)) {
        NcMemory *memory = &nc_memory; /* in shared libraries, a function call */
        void *block = memory->of[which].first;
        if (NC_LIKELY(block != NULL)) {
            memory->of[which].first = *(void **)block;
            memory->of[which].count--;
            return block;
        }
    }
    return nc_memory_new(size);
}

/* As free, for a block of this size from nc_memory_take, or from malloc(nc_memory_size(size)). */
NC_STATIC_INLINE void nc_memory_give(void *block, size_t size)
{
    const size_t which = (size + NC_MEMORY_STEP - 1) / NC_MEMORY_STEP;
    if (NC_UNLIKELY(which >= NC_MEMORY_SIZES)) {
        free(block);
        return;
    }
    NcMemory *memory = &nc_memory;
    if (NC_UNLIKELY(memory->of[which].count >= memory->most)) {
        nc_memory_give_apart(memory, block);
        return;
    }
    *(void **)block = memory->of[which].first;
    memory->of[which].first = block;
    memory->of[which].count++;
}

#endif

NC_C_END

#endif
