/* calltable.h: the empty table, append, replace, growth, flags that make a reader refuse, bounds.
 * Argument: how many entries the growth test appends (default 10000). */
#include "nativecall/detail/core/calltable.h"

#include "check.h"
#include "published.h"

#define FUNCTION(number) ((void *)(uintptr_t)(0x1000 + 16 * (number)))

static const char *signature(size_t number)
{
    static char names[20000][8]; /* any stable, distinct addresses will do for interned strings */
    return names[number];
}

static void check_end(const PyNativeCallableTable *table)
{
    const PyNativeCallableEntry *end = &table->entries[table->count];
    /* Where it is the first one, not even a NULL signature may find it. */
    const uintptr_t flags = table->count == 0 ? NC_FLAGS_ABI_MASK : 0;
    CHECK(end->signature == NULL && end->flags == flags && end->funcptr == NULL);
}

static void test_layout(void)
{
    CHECK(offsetof(NcCallTable, published) == 0);
    CHECK((NC_ERRORS_MASK &
           (NC_FLAG_NEEDS_GIL | NC_FLAG_TAKES_GIL | NC_FLAG_RELEASE_GIL | NC_FLAG_ERRNO)) == 0);
    CHECK((NC_ERRORS_ERRNO & ~NC_ERRORS_MASK) == 0);
    CHECK((NC_FLAGS_ABI_MASK & 0xFF000000u) == 0xFF000000u);
    CHECK((NC_FLAGS_ABI_MASK & 0x00FFFFFFu) == 0x80);
}

static void test_empty(void)
{
    NcCallTable calls;
    const PyNativeCallableTable *table;

    nc_calltable_init(&calls);
    table = published_calls(&calls);
    CHECK(table == &nc_calltable_empty);
    CHECK(nc_calltable_count(table) == 0);
    check_end(table);
    CHECK(nc_calltable_find(table, signature(0), 0) == NULL);
    CHECK(nc_calltable_find(table, NULL, 0) == NULL);
    CHECK(!nc_calltable_first_is(&table->entries[0], signature(0), 0));
    CHECK(!nc_calltable_first_is(&table->entries[0], NULL, 0));
    CHECK(nc_calltable_replace(&calls, 0, FUNCTION(0)) == NC_E_RANGE);
    CHECK(nc_growth_live_bytes(&calls.growth) == 0 && calls.growth.retired_bytes == 0);
    nc_calltable_clear(&calls);
    CHECK(published_calls(&calls) == &nc_calltable_empty);
}

static void test_flags(void)
{
    static const uintptr_t errors[] = {NC_ERRORS_NONE, NC_ERRORS_PYTHON, NC_ERRORS_NONZERO,
                                       NC_ERRORS_ZERO, NC_ERRORS_NULL,   NC_ERRORS_ERRNO};
    const PyNativeCallableEntry *entry;
    const PyNativeCallableTable *table;
    NcCallTable calls;
    size_t i, j;

    for (i = 0; i < 6; i++) {
        for (j = 0; j < i; j++) {
            CHECK(errors[i] != errors[j]);
        }
    }
    nc_calltable_init(&calls);
    CHECK(nc_calltable_append(&calls, NULL, 0, FUNCTION(0)) == NC_E_RANGE);
    CHECK(nc_calltable_append(&calls, signature(0), (uintptr_t)1 << 24, FUNCTION(0)) == NC_E_RANGE);
    CHECK(nc_calltable_append(&calls, signature(0), (uintptr_t)1 << 31, FUNCTION(0)) == NC_E_RANGE);
    CHECK(nc_calltable_append(&calls, signature(0), (uintptr_t)1 << 7, FUNCTION(0)) == NC_E_RANGE);
    /* What sets exceptions needs the GIL, or takes it. */
    CHECK(nc_calltable_append(&calls, signature(0), NC_ERRORS_PYTHON, FUNCTION(0)) == NC_E_RANGE);
    CHECK(nc_calltable_append(&calls, signature(0), NC_ERRORS_PYTHON | NC_FLAG_RELEASE_GIL,
                              FUNCTION(0)) == NC_E_RANGE);
    CHECK(nc_calltable_count(published_calls(&calls)) == 0);

    CHECK(nc_calltable_append(&calls, signature(0), NC_FLAG_NEEDS_GIL | NC_ERRORS_PYTHON,
                              FUNCTION(0)) == NC_OK);
    CHECK(nc_calltable_append(&calls, signature(1), NC_ERRORS_ERRNO, FUNCTION(1)) == NC_OK);
    CHECK(nc_calltable_append(&calls, signature(0), 0, FUNCTION(2)) == NC_OK);
    table = published_calls(&calls);
    entry = nc_calltable_find(table, signature(0), 0);
    CHECK(entry == &table->entries[0] && nc_calltable_funcptr(entry) == FUNCTION(0));
    /* Who has no GIL gets the later entry of the same signature. */
    entry = nc_calltable_find(table, signature(0), NC_FLAG_NEEDS_GIL);
    CHECK(entry == &table->entries[2] && nc_calltable_funcptr(entry) == FUNCTION(2));
    CHECK(nc_calltable_find(table, signature(0), NC_ERRORS_MASK) == entry);
    CHECK(nc_calltable_find(table, signature(1), NC_FLAG_NEEDS_GIL) == &table->entries[1]);
    CHECK(nc_calltable_find(table, signature(1), NC_ERRORS_MASK) == NULL);
    CHECK(nc_calltable_find(table, signature(2), 0) == NULL);
    CHECK(nc_calltable_find(table, NULL, 0) == NULL);
    nc_calltable_clear(&calls);
}

/* An entry of another ABI, as a provider of the future might publish it, is passed over. */
static void test_other_abi(void)
{
    unsigned bit;

    for (bit = 0; bit < 8 * sizeof(uintptr_t); bit++) {
        union {
            PyNativeCallableTable table;
            char bytes[sizeof(PyNativeCallableTable) + 2 * sizeof(PyNativeCallableEntry)];
        } memory;
        PyNativeCallableEntry *entries = memory.table.entries;
        memset(&memory, 0, sizeof memory);
        memory.table.count = 2;
        entries[0].signature = signature(0);
        entries[0].flags = (uintptr_t)1 << bit;
        entries[0].funcptr = FUNCTION(0);
        entries[1].signature = signature(0);
        entries[1].funcptr = FUNCTION(1);
        CHECK(nc_calltable_find(&memory.table, signature(0), 0) == &entries[bit == 7 || bit >= 24]);
        CHECK(nc_calltable_find(&memory.table, signature(0), (uintptr_t)1 << bit) == &entries[1]);
    }
}

static void test_growth(size_t count)
{
    NcCallTable calls;
    const PyNativeCallableTable *first = NULL;
    const PyNativeCallableTable *before;
    size_t i, j, tables = 0;

    nc_calltable_init(&calls);
    for (i = 0; i < count; i++) {
        before = published_calls(&calls);
        CHECK(nc_calltable_append(&calls, signature(i), i % 16, FUNCTION(i)) == NC_OK);
        if (published_calls(&calls) == before) {
            CHECK(calls.growth.used <= calls.growth.block->size);
        } else {
            /* What a reader may still hold is as it was. */
            CHECK(nc_calltable_count(before) == i);
            check_end(before);
            CHECK(i == 0 ||
                  nc_calltable_find(before, signature(i - 1), 0) == &before->entries[i - 1]);
            CHECK(nc_calltable_find(before, signature(i), 0) == NULL);
            tables++;
        }
        first = first == NULL ? published_calls(&calls) : first;
        CHECK(nc_calltable_count(published_calls(&calls)) == i + 1);
        check_end(published_calls(&calls));
        CHECK(calls.growth.retired_bytes < nc_growth_live_bytes(&calls.growth));
        if (i < 100 || i + 1 == count) {
            const PyNativeCallableTable *table = published_calls(&calls);
            for (j = 0; j <= i; j++) {
                const PyNativeCallableEntry *entry = nc_calltable_find(table, signature(j), 0);
                CHECK(entry == &table->entries[j]);
                CHECK(entry->flags == j % 16 && entry->funcptr == FUNCTION(j));
            }
        }
    }
    CHECK(nc_calltable_find(first, signature(0), 0) == &first->entries[0]);
    CHECK(nc_calltable_replace(&calls, count - 1, FUNCTION(count)) == NC_OK);
    CHECK(nc_calltable_replace(&calls, count, FUNCTION(0)) == NC_E_RANGE);
    CHECK(nc_calltable_funcptr(&published_calls(&calls)->entries[count - 1]) == FUNCTION(count));
    printf("calltable: %zu entries, %zu tables, %zu bytes live and %zu retired\n", count, tables,
           nc_growth_live_bytes(&calls.growth), calls.growth.retired_bytes);
    nc_calltable_clear(&calls);
    CHECK(nc_calltable_append(&calls, signature(3), 0, FUNCTION(3)) == NC_OK);
    CHECK(nc_calltable_count(published_calls(&calls)) == 1);
    nc_calltable_clear(&calls);
}

int main(int argc, char **argv)
{
    size_t count = check_argument(argc, argv, 10000);

    test_layout();
    test_empty();
    test_flags();
    test_other_abi();
    test_growth(count < 1 ? 1 : count > 20000 ? 20000 : count);
    return check_report("calltable");
}
