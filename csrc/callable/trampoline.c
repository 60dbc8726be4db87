/* csrc/callable/trampoline.c: finds the ahead-of-time trampoline of a shape. */
#include "trampoline.h"

static int compare(const void *shape, const void *trampoline)
{
    return strcmp((const char *)shape, ((const NcTrampoline *)trampoline)->shape);
}

const NcTrampoline *nc_trampoline_find(const char *shape)
{
    return (const NcTrampoline *)bsearch(shape, nc_trampolines, nc_trampoline_count,
                                         sizeof(NcTrampoline), compare);
}
