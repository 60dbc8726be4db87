/* Every allocation of intern.h, slottable.h and calltable.h fails once: each time the status says
 * so, what was there is as before, and the same call then succeeds. Sanitizers find the leaks.
 * Argument: how many strings and entries (default 2000). */
#include <stdlib.h>

static size_t allowed; /* allocations until one fails */
static size_t refused; /* allocations that failed */

static int may_allocate(void)
{
    if (allowed == 0) {
        refused++;
        return 0;
    }
    allowed--;
    return 1;
}

static void *test_malloc(size_t size)
{
    return may_allocate() ? malloc(size) : NULL;
}

static void *test_calloc(size_t count, size_t size)
{
    return may_allocate() ? calloc(count, size) : NULL;
}

#define malloc(size) test_malloc(size)
#define calloc(count, size) test_calloc(count, size)
#include "nativecall/detail/core/calltable.h"
#include "nativecall/detail/core/intern.h"
#include "nativecall/detail/core/slottable.h"
#undef malloc
#undef calloc

#include "check.h"
#include "published.h"
#include "registry.h"

static const size_t ENOUGH = (size_t)-1;

static void test_registry(size_t count)
{
    NcRegistry *registry = NULL;
    char text[32];
    size_t i;

    for (i = 0; i < 2; i++) {
        allowed = i;
        CHECK(nc_registry_new(&registry) == NC_E_NOMEM);
        CHECK(registry == NULL && refused == i + 1);
    }
    allowed = ENOUGH;
    CHECK(nc_registry_new(&registry) == NC_OK);
    for (i = 0; i < count; i++) {
        const size_t length = (size_t)snprintf(text, sizeof text, "%zu", i);
        const char *out = NULL;
        size_t failures = 0;
        for (;;) {
            allowed = failures;
            if (nc_intern(registry, text, length, &out) == NC_OK) {
                break;
            }
            failures++;
            CHECK(out == NULL);
            CHECK(registry->count == i);
            CHECK(nc_interned_find(registry, text, length) == NULL);
            CHECK(nc_interned_find(registry, "0", 1) != NULL || i == 0);
            CHECK(failures < 3);
        }
        CHECK(nc_interned_find(registry, text, length) == out);
    }
    registry_free(registry);
}

static void test_slottable(void)
{
    static PyCustomSlot rows[300];
    static const size_t counts[] = {1, 2, 64, 300};
    size_t c, i;

    for (i = 0; i < 300; i++) {
        rows[i].id = 16 * i + 0x1000;
    }
    for (c = 0; c < sizeof counts / sizeof *counts; c++) {
        PyCustomSlotTable *table = NULL;
        size_t failures = 0;
        int status;
        for (;;) {
            allowed = failures;
            status = nc_slottable_build(rows, counts[c], &table, NULL);
            if (status == NC_OK) {
                break;
            }
            CHECK(status == NC_E_NOMEM);
            CHECK(table == NULL);
            CHECK(++failures < 10);
        }
        CHECK(failures > 0);
        for (i = 0; i < counts[c]; i++) {
            CHECK(nc_slottable_find(table, rows[i].id) == nc_slottable_rows(table) + i);
        }
        nc_slottable_free(table);
    }
}

static void test_calltable(size_t count)
{
    static char names[2000];
    NcCallTable calls;
    size_t i, failures = 0;

    nc_calltable_init(&calls);
    for (i = 0; i < count; i++) {
        const PyNativeCallableTable *before = published_calls(&calls);
        allowed = 0;
        if (nc_calltable_append(&calls, &names[i], 0, &names[i]) != NC_OK) {
            failures++;
            CHECK(published_calls(&calls) == before);
            CHECK(nc_calltable_count(before) == i);
            CHECK(nc_calltable_find(before, &names[i], 0) == NULL);
            allowed = ENOUGH;
            CHECK(nc_calltable_append(&calls, &names[i], 0, &names[i]) == NC_OK);
        }
        CHECK(nc_calltable_find(published_calls(&calls), &names[i], 0) != NULL);
    }
    CHECK(failures > 0);
    nc_calltable_clear(&calls);
}

int main(int argc, char **argv)
{
    size_t count = check_argument(argc, argv, 2000);

    count = count < 1 ? 1 : count > 2000 ? 2000 : count;
    test_registry(count);
    test_slottable();
    test_calltable(count);
    printf("nomem: %zu allocations refused\n", refused);
    return check_report("nomem");
}
