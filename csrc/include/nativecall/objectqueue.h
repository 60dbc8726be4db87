/* nativecall/objectqueue.h: a queue of native objects between any threads, and a lock for a field;
 * neither needs the GIL.
 *
 *     NcQueue queue;
 *     nc_queue_init(&queue, 1024);                room for so many, a power of two
 *     nc_queue_push(&queue, object)               the caller's reference goes with it: 1; 0 if full
 *     object = nc_queue_pop(&queue);              with a reference, or NULL if empty
 *     nc_queue_clear(&queue);                     releases what is left
 *
 *     typedef struct { uint32_t lock; ... } Node; nativecall.field(nativecall.Lock), or {"lock",
 *                                                 NC_FIELD_LOCK, offsetof(Node, lock), NULL}
 *     nc_lock_acquire(&node->lock); ... nc_lock_release(&node->lock);
 *
 * Queue. An array of cells, each with a number that says whose turn it is (D. Vyukov's bounded
 * queue): a producer that has claimed position p writes cell p mod n when its number is p, and
 * sets it to p + 1; the consumer of p reads it then, and sets it to p + n. Claims are one
 * compare-and-swap.
 * Objects come out in the order in which positions were claimed. Nobody waits for a lock, but a
 * thread that is stopped between its claim and its number holds up the consumer of that cell.
 * What was written to an object before its push is seen after its pop.
 *
 * Lock. One word, 0 when free, as it is in a new object. It spins, then gives up the processor,
 * then sleeps between tries: for sections of a few loads and stores. Who waits for one lets go of
 * the GIL first, as Python's `with object.lock:` does: who has the lock may be waiting for the GIL.
 *
 * Threads: push, pop, acquire and release from any; init and clear when nobody else uses the queue.
 * Errors:  NC_E_NOMEM, NC_E_RANGE for a size that is no power of two. */
#ifndef NATIVECALL_OBJECTQUEUE_H
#define NATIVECALL_OBJECTQUEUE_H

#include "detail/objectcount.h"

#if defined(_WIN32)
#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <windows.h>
#else
#include <sched.h>
#include <sys/select.h>
#endif

NC_C_BEGIN

typedef struct {
    size_t number; /* atomic: whose turn it is */
    NcObject *object;
} NcQueueCell;

typedef struct {
    NcQueueCell *cells;
    size_t mask;                         /* number of cells - 1 */
    char apart[64 - 2 * sizeof(void *)]; /* producers and consumers do not share a cache line */
    void *pushed;                        /* atomic, a number: the next position to push */
    char from_pops[64 - sizeof(void *)];
    void *popped; /* atomic, a number: the next position to pop */
    char from_others[64 - sizeof(void *)];
} NcQueue;

NC_STATIC int nc_queue_init(NcQueue *queue, size_t size)
{
    size_t i;
    if (size < 2 || (size & (size - 1)) != 0) {
        return NC_E_RANGE;
    }
    queue->cells = (NcQueueCell *)calloc(size, sizeof *queue->cells);
    if (queue->cells == NULL) {
        return NC_E_NOMEM;
    }
    queue->mask = size - 1;
    queue->pushed = NULL;
    queue->popped = NULL;
    for (i = 0; i < size; i++) {
        queue->cells[i].number = i;
    }
    return NC_OK;
}

/* Claims the next position whose cell has the number position + lead. NULL if there is none. */
NC_STATIC_INLINE NcQueueCell *nc_queue_claim(NcQueue *queue, void **next, size_t lead,
                                             size_t *position)
{
    for (;;) {
        void *at = nc_load_relaxed_ptr(next);
        NcQueueCell *cell;
        intptr_t ahead;
        *position = (size_t)(uintptr_t)at;
        cell = &queue->cells[*position & queue->mask];
        ahead = (intptr_t)(nc_load_acquire_size(&cell->number) - (*position + lead));
        if (ahead == 0) {
            if (NC_MAY_SWAP_PTR(next, at, (void *)(uintptr_t)(*position + 1))) {
                return cell;
            }
        } else if (ahead < 0) {
            return NULL;
        }
    }
}

NC_STATIC_INLINE int nc_queue_push(NcQueue *queue, NcObject *object)
{
    size_t position = 0;
    NcQueueCell *cell = nc_queue_claim(queue, &queue->pushed, 0, &position);
    if (cell == NULL) {
        return 0;
    }
    cell->object = object;
    nc_store_release_size(&cell->number, position + 1);
    return 1;
}

NC_STATIC_INLINE NcObject *nc_queue_pop(NcQueue *queue)
{
    size_t position = 0;
    NcObject *object;
    NcQueueCell *cell = nc_queue_claim(queue, &queue->popped, 1, &position);
    if (cell == NULL) {
        return NULL;
    }
    object = cell->object;
    nc_store_release_size(&cell->number, position + queue->mask + 1);
    return object;
}

NC_STATIC void nc_queue_clear(NcQueue *queue)
{
    NcObject *object;
    while (queue->cells != NULL && (object = nc_queue_pop(queue)) != NULL) {
        nc_object_release(object);
    }
    free(queue->cells);
    queue->cells = NULL;
}

/* ---- a lock ---------------------------------------------------------------------------------- */

/* 1 if it was free and now is the caller's. */
NC_STATIC_INLINE int nc_lock_try(uint32_t *lock)
{
#if defined(NC_MSVC)
    return _InterlockedExchange((volatile long *)lock, 1) == 0;
#else
    return __atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE) == 0;
#endif
}

NC_STATIC_INLINE int nc_lock_is_held(const uint32_t *lock)
{
#if defined(NC_MSVC)
    return *(const volatile uint32_t *)lock != 0;
#else
    return __atomic_load_n(lock, __ATOMIC_RELAXED) != 0;
#endif
}

/* Between one try and the next: nothing at first, then gives up the processor, then sleeps. */
NC_STATIC_INLINE void nc_lock_pause(int tries)
{
    if (tries < 64) {
        return;
    }
#if defined(_WIN32)
    Sleep(tries < 1024 ? 0 : 1);
#else
    if (tries < 1024) {
        (void)sched_yield();
    } else {
        struct timeval moment = {0, 50}; /* of select, which strict C99 declares too */
        (void)select(0, NULL, NULL, NULL, &moment);
    }
#endif
}

NC_STATIC_INLINE void nc_lock_acquire(uint32_t *lock)
{
    int tries = 0;
    while (!nc_lock_try(lock)) {
        nc_lock_pause(tries);
        tries += tries < 1024;
    }
}

NC_STATIC_INLINE void nc_lock_release(uint32_t *lock)
{
#if defined(NC_MSVC)
    (void)_InterlockedExchange((volatile long *)lock, 0);
#else
    __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
#endif
}

NC_C_END

#endif
