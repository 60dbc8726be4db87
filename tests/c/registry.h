/* tests/c/registry.h: what a process never does with its registry, and unit tests do: measure it and
 * free it. */
#ifndef NATIVECALL_TESTS_REGISTRY_H
#define NATIVECALL_TESTS_REGISTRY_H

#include "nativecall/detail/core/intern.h"

/* Memory in bytes of a table and of all before it; 0 for NULL. */
static inline size_t registry_bytes(const NcInternTable *table)
{
    size_t bytes = 0;
    for (; table != NULL; table = table->superseded) {
        bytes += sizeof *table + (table->mask + 1) * sizeof(const char *);
    }
    return bytes;
}

/* Whether superseded tables, if there are any, take less memory than the one in use. */
static inline int registry_is_lean(const NcRegistry *registry)
{
    return 2 * registry_bytes(registry->table->superseded) < registry_bytes(registry->table);
}

/* Every string ever interned here is gone. No other thread may use the registry. */
static void registry_free(NcRegistry *registry)
{
    while (registry->table != NULL) {
        NcInternTable *table = registry->table;
        registry->table = table->superseded;
        free(table);
    }
    while (registry->chunk != NULL) {
        NcInternChunk *chunk = registry->chunk;
        registry->chunk = chunk->previous;
        free(chunk);
    }
    free(registry);
}

#endif
