/* nativecall/detail/objectmemory.h: the memory of native objects: malloc's, of which each thread
 * keeps some blocks of ended objects for its next ones.
 *
 * Idea:       a list for each size, of up to NC_MEMORY_MOST blocks, in the thread that ended the
 *             objects; taking one or giving one is a few instructions without an atomic one, where
 *             malloc and free, which know no size beforehand, take over a hundred.
 * Invariants: a block in a list is nobody's, and malloc's with its size rounded up; so it may come
 *             of another thread's or another module's nc_memory_take, and free() takes it.
 * Threads:    a list is its thread's alone. What another thread wrote into a block comes before:
 *             the count whose last step gave the block here has ordered it. A thread that ends
 *             frees its blocks; before it has told the system how, it keeps none (`most` is 0).
 *             The module must stay loaded, as CPython's do: ending threads call it.
 * Plain:      nothing is kept, and every block comes and goes by malloc and free, under
 *             AddressSanitizer, with NC_OBJECT_CHECKED, and on other systems than Linux, where a
 *             thread's variables may be gone before what pthread_key_create names for its end. */
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

/* What malloc is asked for where `size` bytes are needed, by every module. */
NC_STATIC_INLINE size_t nc_memory_size(size_t size)
{
    return (size + NC_MEMORY_STEP - 1) / NC_MEMORY_STEP * NC_MEMORY_STEP;
}

/* malloc(nc_memory_size(size)). Compilers would make malloc and memset a call of calloc, which in
 * glibc takes a lock where malloc has memory of the thread's own ready. */
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
/* The last ended objects: their memory is not given back at once. */
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
    NC_MEMORY_SIZES = 20, /* that are kept: less than so many steps */
    NC_MEMORY_MOST = 64   /* blocks of one size */
};

typedef struct {
    size_t most; /* of one size: NC_MEMORY_MOST, or 0 */
    struct {
        void *first; /* linked through their first words */
        size_t count;
    } of[NC_MEMORY_SIZES];
} NcMemory;

static NC_THREAD_LOCAL NcMemory nc_memory;

static pthread_once_t nc_memory_once = PTHREAD_ONCE_INIT;
static pthread_key_t nc_memory_key;
static int nc_memory_has_key = 0;

/* The end of a thread. Should its other ends end objects after this, it runs again. */
NC_STATIC void nc_memory_free_all(void *pointer)
{
    NcMemory *memory = (NcMemory *)pointer;
    size_t i;
    memory->most = 0;
    for (i = 0; i < NC_MEMORY_SIZES; i++) {
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

/* A block that a list has no room for. The first one of a thread finds none, and makes some. */
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

/* As malloc, for nc_memory_give. */
NC_STATIC_INLINE void *nc_memory_take(size_t size)
{
    const size_t which = (size + NC_MEMORY_STEP - 1) / NC_MEMORY_STEP;
    if (NC_LIKELY(which < NC_MEMORY_SIZES)) {
        NcMemory *memory = &nc_memory; /* a call, in shared libraries */
        void *block = memory->of[which].first;
        if (NC_LIKELY(block != NULL)) {
            memory->of[which].first = *(void **)block;
            memory->of[which].count--;
            return block;
        }
    }
    return nc_memory_new(size);
}

/* As free, of a block that nc_memory_take gave for this size, or malloc for its nc_memory_size. */
NC_STATIC_INLINE void nc_memory_give(void *block, size_t size)
{
    const size_t which = (size + NC_MEMORY_STEP - 1) / NC_MEMORY_STEP;
    NcMemory *memory;
    if (NC_UNLIKELY(which >= NC_MEMORY_SIZES)) {
        free(block);
        return;
    }
    memory = &nc_memory;
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
