/* tests/c/published.h: the tables that readers of an object see now. */
#ifndef NATIVECALL_TESTS_PUBLISHED_H
#define NATIVECALL_TESTS_PUBLISHED_H

#include "nativecall/detail/core/calltable.h"
#include "nativecall/detail/core/packedtable.h"

static inline const PyNativeCallableTable *published_calls(const NcCallTable *calls)
{
    return (const PyNativeCallableTable *)nc_load_acquire_ptr(&calls->published);
}

static inline const uint64_t *published_words(const NcPackedTable *table)
{
    return (const uint64_t *)nc_load_acquire_ptr(&table->published);
}

#endif
