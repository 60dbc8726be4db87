/* nativecall/detail/core/intern.h: interns byte strings. Equal strings share one immortal copy, and
 * thus one address.
 *
 * Idea:       SEP 201 compares signatures by address. A registry maps bytes to their only copy.
 *             Readers take no lock and write nothing, so threads do not slow each other down.
 *
 * Layout:     a header precedes each string, and at least one zero byte follows it:
 *
 *                 -16 length (uint64_t) | -8 pre-hash (uint64_t, hash.h) | 0 bytes ... | 0
 *
 *             The address is a multiple of 8. It is even, so it is a valid pointer ID (SEP 200).
 *             Strings may contain zero bytes. The registry is a hash table, at most half full. The
 *             number of cells is a power of two. The low bits of the hash select the first cell to
 *             probe; the following cells are probed in order. Strings are stored in chunks that
 *             grow from 4 KiB to 64 KiB.
 *
 * Invariants: a string never moves or changes and is never freed. A table cell changes once, from
 *             NULL to a string. At least half of the cells are NULL, so every probe ends. Each
 *             table is twice as large as the one before, so all superseded tables together are
 *             smaller than the one in use.
 *
 * Threads:    any number of readers and writers, with or without the GIL.
 *             - A cell is stored with release after its string is complete, and loaded with
 *               acquire. So a reader that sees the address sees the bytes.
 *             - A grown table is filled, then published with release. Readers access its mask and
 *               cells through the acquired pointer. Superseded tables are chained and stay
 *               readable.
 *             - A reader of a superseded table may miss a newer string. nc_intern then looks again
 *               under the mutex before it inserts, so there is only one copy. If a string was
 *               interned before the reader's call, it is always found: the reader acquires the
 *               table that holds the string, or a later one.
 *             - All other fields of the registry are accessed only with the mutex held. A forked
 *               child inherits the state of the mutex, so hold the mutex across fork.
 *
 * Errors:     NC_E_NOMEM, NC_E_TOOLONG (more than NC_INTERN_MAX_LENGTH bytes); the registry is
 *             then unchanged.
 * Ownership:  the registry owns the strings. It is never freed.
 * Source:     SEP 200, "Technical overview" (interned keys, pre-hash); SEP 201, "Approach 2". */
#ifndef NATIVECALL_INTERN_H
#define NATIVECALL_INTERN_H

#include <stdlib.h>
#include <string.h>

#if defined(_WIN32)
#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <windows.h>
#else
#include <pthread.h>
#endif

#include "base.h"
#include "hash.h"

NC_C_BEGIN

/* ---- mutex ----------------------------------------------------------------------------------- */

#if defined(_WIN32)

typedef SRWLOCK NcMutex;

NC_STATIC_INLINE int nc_mutex_init(NcMutex *mutex)
{
    InitializeSRWLock(mutex);
    return NC_OK;
}

NC_STATIC_INLINE void nc_mutex_lock(NcMutex *mutex)
{
    AcquireSRWLockExclusive(mutex);
}

NC_STATIC_INLINE void nc_mutex_unlock(NcMutex *mutex)
{
    ReleaseSRWLockExclusive(mutex);
}

#else

typedef pthread_mutex_t NcMutex;

NC_STATIC_INLINE int nc_mutex_init(NcMutex *mutex)
{
    return pthread_mutex_init(mutex, NULL) == 0 ? NC_OK : NC_E_NOMEM;
}

NC_STATIC_INLINE void nc_mutex_lock(NcMutex *mutex)
{
    (void)pthread_mutex_lock(mutex);
}

NC_STATIC_INLINE void nc_mutex_unlock(NcMutex *mutex)
{
    (void)pthread_mutex_unlock(mutex);
}

#endif

/* ---- strings --------------------------------------------------------------------------------- */

#define NC_INTERN_MAX_LENGTH ((size_t)65535)

/* The header of a string. */
typedef struct {
    uint64_t length; /* bytes, without the zero after them */
    uint64_t hash;   /* nc_hash_bytes of the string */
} NcInternHeader;

typedef struct NcInternTable {
    size_t mask;                      /* number of cells (a power of two) - 1 */
    struct NcInternTable *superseded; /* the table before this one, half as large; or NULL */
} NcInternTable;                      /* the cells follow: const char *[mask + 1] */

typedef struct NcInternChunk {
    struct NcInternChunk *previous; /* the chunk before this one, which is full; or NULL */
    size_t size;                    /* bytes, this header included */
} NcInternChunk;                    /* the strings follow */

typedef struct NcRegistry {
    uint32_t abi_version; /* NC_ABI_VERSION */
    uint32_t reserved;    /* 0 */
    NcInternTable *table; /* atomic: the table in use */
    /* Access the fields below only with the mutex held. */
    NcMutex mutex;
    NcInternChunk *chunk; /* receives the next string; or NULL */
    size_t chunk_used;    /* bytes of `chunk` in use */
    size_t count;         /* strings */
} NcRegistry;

#define NC_INTERN_FIRST_CELLS ((size_t)256)
#define NC_INTERN_FIRST_CHUNK ((size_t)4096)
#define NC_INTERN_LAST_CHUNK ((size_t)65536)

/* Return the length of an interned string. */
NC_STATIC_INLINE size_t nc_interned_length(const char *interned)
{
    uint64_t length;
    memcpy(&length, interned - 16, sizeof length);
    return (size_t)length;
}

/* Return the pre-hash of an interned string. */
NC_STATIC_INLINE uint64_t nc_interned_hash(const char *interned)
{
    uint64_t hash;
    memcpy(&hash, interned - 8, sizeof hash);
    return hash;
}

NC_STATIC_INLINE const char **nc_intern_cells(const NcInternTable *table)
{
    return (const char **)(uintptr_t)(table + 1);
}

/* Return whether `length` bytes are equal. Keys are too short for a memcmp call to pay off. */
NC_STATIC_INLINE int nc_intern_equal(const unsigned char *a, const unsigned char *b, size_t length)
{
    for (; length >= 8; length -= 8, a += 8, b += 8) {
        if (nc_word_load(a) != nc_word_load(b)) {
            return 0;
        }
    }
    return length == 0 || nc_word_load_short(a, length) == nc_word_load_short(b, length);
}

/* Return the copy of `bytes` in this table, or NULL. Set *cell to the cell of the copy, or to the
 * free cell for it. */
NC_STATIC_INLINE const char *nc_intern_probe(const NcInternTable *table, const char *bytes,
                                             size_t length, uint64_t hash, size_t *cell)
{
    const char **cells = nc_intern_cells(table);
    const size_t mask = table->mask;

    for (size_t i = (size_t)hash & mask;; i = (i + 1) & mask) {
        const char *known = (const char *)nc_load_acquire_ptr(&cells[i]);
        if (known == NULL ||
            (NC_LIKELY(nc_interned_hash(known) == hash) && nc_interned_length(known) == length &&
             nc_intern_equal((const unsigned char *)known, (const unsigned char *)bytes, length))) {
            *cell = i;
            return known;
        }
    }
}

/* Return a new table of `cells` NULL cells, or NULL. */
NC_STATIC NcInternTable *nc_intern_table_new(size_t cells)
{
    NcInternTable *table =
        (NcInternTable *)calloc(1, sizeof(NcInternTable) + cells * sizeof(const char *));

    if (table != NULL) {
        table->mask = cells - 1;
    }
    return table;
}

/* Create a registry in *out. A process has only one registry, which is never freed. A second one
 * would intern equal strings at other addresses. */
NC_STATIC int nc_registry_new(NcRegistry **out)
{
    NcRegistry *registry = (NcRegistry *)calloc(1, sizeof *registry);

    if (registry == NULL) {
        return NC_E_NOMEM;
    }
    registry->abi_version = NC_ABI_VERSION;
    registry->table = nc_intern_table_new(NC_INTERN_FIRST_CELLS);
    if (registry->table == NULL || nc_mutex_init(&registry->mutex) != NC_OK) {
        free(registry->table);
        free(registry);
        return NC_E_NOMEM;
    }
    *out = registry;
    return NC_OK;
}

/* Store a new string, without adding it to the table. Call with the mutex held. */
NC_STATIC int nc_intern_store(NcRegistry *registry, const char *bytes, size_t length, uint64_t hash,
                              char **out)
{
    const size_t need = sizeof(NcInternHeader) + ((length + 8) & ~(size_t)7);
    NcInternChunk *chunk = registry->chunk;
    NcInternHeader header;

    if (chunk == NULL || chunk->size - registry->chunk_used < need) {
        size_t size = chunk == NULL ? NC_INTERN_FIRST_CHUNK : chunk->size * 2;
        size = size > NC_INTERN_LAST_CHUNK ? NC_INTERN_LAST_CHUNK : size;
        size = size < sizeof *chunk + need ? sizeof *chunk + need : size;
        chunk = (NcInternChunk *)malloc(size);
        if (chunk == NULL) {
            return NC_E_NOMEM;
        }
        chunk->previous = registry->chunk;
        chunk->size = size;
        registry->chunk = chunk;
        registry->chunk_used = sizeof *chunk;
    }
    char *memory = (char *)chunk + registry->chunk_used;
    registry->chunk_used += need;
    header.length = length;
    header.hash = hash;
    memcpy(memory, &header, sizeof header);
    memory += sizeof header;
    memset(memory + need - sizeof header - 8, 0, 8);
    if (length != 0) {
        memcpy(memory, bytes, length);
    }
    *out = memory;
    return NC_OK;
}

/* Publish a table twice as large. Call with the mutex held. */
NC_STATIC int nc_intern_grow(NcRegistry *registry)
{
    NcInternTable *old = registry->table;
    NcInternTable *grown = nc_intern_table_new((old->mask + 1) * 2);
    const char **from = nc_intern_cells(old);

    if (grown == NULL) {
        return NC_E_NOMEM;
    }
    const char **to = nc_intern_cells(grown);
    for (size_t i = 0; i <= old->mask; i++) {
        if (from[i] != NULL) {
            size_t cell = (size_t)nc_interned_hash(from[i]) & grown->mask;
            while (to[cell] != NULL) {
                cell = (cell + 1) & grown->mask;
            }
            to[cell] = from[i];
        }
    }
    grown->superseded = old;
    nc_store_release_ptr(&registry->table, grown);
    return NC_OK;
}

/* nc_intern, slow path: the string was not found. */
NC_STATIC int nc_intern_insert(NcRegistry *registry, const char *bytes, size_t length,
                               uint64_t hash, const char **out)
{
    char *fresh;
    size_t cell;
    int status = NC_OK;

    if (length > NC_INTERN_MAX_LENGTH) {
        return NC_E_TOOLONG;
    }
    nc_mutex_lock(&registry->mutex);
    const char *known = nc_intern_probe(registry->table, bytes, length, hash, &cell);
    if (known == NULL) {
        if ((registry->count + 1) * 2 > registry->table->mask + 1) {
            status = nc_intern_grow(registry);
            if (status != NC_OK) {
                goto fail;
            }
            (void)nc_intern_probe(registry->table, bytes, length, hash, &cell);
        }
        status = nc_intern_store(registry, bytes, length, hash, &fresh);
        if (status != NC_OK) {
            goto fail;
        }
        nc_store_release_ptr(&nc_intern_cells(registry->table)[cell], fresh);
        registry->count++;
        known = fresh;
    }
    *out = known;

fail:
    nc_mutex_unlock(&registry->mutex);
    return status;
}

/* Store the only copy of `bytes` in *out, creating it if needed. `bytes` may be NULL if `length` is
 * 0. */
NC_STATIC_INLINE int nc_intern(NcRegistry *registry, const char *bytes, size_t length,
                               const char **out)
{
    const NcInternTable *table = (const NcInternTable *)nc_load_acquire_ptr(&registry->table);
    const uint64_t hash = nc_hash_bytes(bytes, length);
    size_t cell;
    const char *known = nc_intern_probe(table, bytes, length, hash, &cell);

    if (NC_UNLIKELY(known == NULL)) {
        return nc_intern_insert(registry, bytes, length, hash, out);
    }
    *out = known;
    return NC_OK;
}

/* Return the only copy of `bytes`, or NULL if they are not interned. */
NC_STATIC_INLINE const char *nc_interned_find(const NcRegistry *registry, const char *bytes,
                                              size_t length)
{
    const NcInternTable *table = (const NcInternTable *)nc_load_acquire_ptr(&registry->table);
    size_t cell;

    return nc_intern_probe(table, bytes, length, nc_hash_bytes(bytes, length), &cell);
}

NC_C_END

#endif
