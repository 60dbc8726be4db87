/* nativetable.h: an entry is in both tables or in none, whatever fails; order, replacing, memory.
 *
 * After every step the two tables are read as consumers read them and compared, entry by entry,
 * with a list of what was added. Argument: how many entries (default 1000). */
#include <stdlib.h>

static size_t allowed; /* allocations until one fails */

static void *test_calloc(size_t count, size_t size)
{
    if (allowed == 0) {
        return NULL;
    }
    allowed--;
    return calloc(count, size);
}

#define calloc(count, size) test_calloc(count, size)
#include "nativecall/nativetable.h"
#undef calloc

#include "check.h"
#include "published.h"

#define MAX_ENTRIES 4000
/* Flags that a later version may add: readers ignore them, and they have no packed form. */
#define LATER ((uintptr_t)1 << 8 | (uintptr_t)1 << 23)

static const size_t ENOUGH = (size_t)-1;

/* What was added. A registry is not needed: these texts have one address each. */
static char texts[MAX_ENTRIES][64];
static uintptr_t entry_flags[MAX_ENTRIES];
static void *functions[MAX_ENTRIES];
static size_t entries;

static char places[2 * MAX_ENTRIES];

/* Both tables have all entries, these functions, in this order, and no more. */
static int tables_agree(const NcNativeTable *table)
{
    const PyNativeCallableTable *calls = published_calls(&table->calls);
    const uint64_t *row = published_words(&table->packed);
    size_t i;

    if (nc_calltable_count(calls) != entries || calls->entries[entries].signature != NULL) {
        return 0;
    }
    for (i = 0; i < entries; i++) {
        const PyNativeCallableEntry *entry = &calls->entries[i];
        uint64_t words[NC_PACKED_MAX_WORDS];
        size_t count;
        if (entry->signature != texts[i] || entry->flags != entry_flags[i] ||
            nc_calltable_funcptr(entry) != functions[i]) {
            return 0;
        }
        if (nc_signature_pack(texts[i], strlen(texts[i]), entry_flags[i] & ~LATER, words,
                              NC_PACKED_MAX_WORDS, &count) != NC_OK ||
            nc_packed_count(row) != count || memcmp(row, words, count * sizeof *words) != 0 ||
            nc_packed_funcptr(row, count) != functions[i]) {
            return 0;
        }
        row += count + 1;
    }
    return nc_packed_count(row) == 0;
}

/* The next entry: signatures of one word, three and five; some flags are ignored. */
static int add_next(NcNativeTable *table, uint64_t *random)
{
    static const uintptr_t flags[] = {0, NC_FLAG_NEEDS_GIL, NC_ERRORS_ERRNO | NC_FLAG_ERRNO, LATER,
                                      LATER | NC_FLAG_RELEASE_GIL};
    static const char pointers[] = "&&&&&&&&&&&&&&&&&&&&&&&&&&&&";
    const uint64_t dice = check_random(random);
    const int depth = (int)(dice % 3) * 13;
    int status;

    snprintf(texts[entries], sizeof texts[entries], "d:%.*s(%u)d", depth + 1, pointers,
             (unsigned)(entries + 1));
    entry_flags[entries] = flags[(dice >> 8) % 5];
    functions[entries] = &places[entries];
    status = nc_nativetable_add(table, texts[entries], entry_flags[entries], functions[entries]);
    if (status == NC_OK) {
        entries++;
    }
    return status;
}

static void test_refused(NcNativeTable *table)
{
    static const char *const malformed[] = {"",    "d",    "d: d", "v:v",
                                            "d:l", "d:&v", "d:dx", "d:(02)d"};
    uint64_t word = NC_PACKED_START;
    size_t i;

    for (i = 0; i < sizeof malformed / sizeof *malformed; i++) {
        CHECK(nc_nativetable_add(table, malformed[i], 0, places) == NC_E_FORMAT);
        CHECK(tables_agree(table));
    }
    CHECK(nc_nativetable_add(table, NULL, 0, places) == NC_E_RANGE);
    CHECK(nc_nativetable_add(table, "d:d", 0, NULL) == NC_E_RANGE);
    CHECK(nc_nativetable_add(table, "d:d", (uintptr_t)1 << 24, places) == NC_E_RANGE);
    CHECK(nc_nativetable_add(table, "d:d", (uintptr_t)1 << 7, places) == NC_E_RANGE);
    CHECK(nc_nativetable_add(table, "d:d", NC_ERRORS_PYTHON, places) == NC_E_RANGE);
    CHECK(nc_nativetable_add_packed(table, "d:d", &word, 0, 0, places) == NC_E_RANGE);
    CHECK(nc_nativetable_add_packed(table, "d:d", &word, NC_PACKED_MAX_WORDS + 1, 0, places) ==
          NC_E_RANGE);
    CHECK(nc_nativetable_add_packed(table, NULL, &word, 1, 0, places) == NC_E_RANGE);
    CHECK(nc_nativetable_replace(table, entries, places) == NC_E_RANGE);
    CHECK(nc_nativetable_replace(table, (size_t)-1, places) == NC_E_RANGE);
    if (entries != 0) {
        CHECK(nc_nativetable_replace(table, 0, NULL) == NC_E_RANGE);
    }
    CHECK(tables_agree(table));
}

static void test_memory(const NcNativeTable *table)
{
    const size_t live =
        nc_growth_live_bytes(&table->calls.growth) + nc_growth_live_bytes(&table->packed.growth);
    const size_t retired = table->calls.growth.retired_bytes + table->packed.growth.retired_bytes;

    CHECK(entries == 0 ? live == 0 && retired == 0 : retired < live);
}

static void test_entries(size_t count)
{
    NcNativeTable table;
    uint64_t random = 1;
    size_t refused = 0;
    size_t later = 0;
    size_t i;

    entries = 0;
    nc_nativetable_init(&table);
    CHECK(tables_agree(&table));
    while (entries < count) {
        const uint64_t before = random;
        size_t failures = 0;
        /* Every allocation of every addition fails once. */
        for (;;) {
            allowed = failures;
            random = before;
            if (add_next(&table, &random) == NC_OK) {
                break;
            }
            refused++;
            CHECK(++failures <= 2);
            CHECK(entries > 20 || tables_agree(&table));
        }
        later += (entry_flags[entries - 1] & LATER) != 0;
        allowed = ENOUGH;
        if ((entries & (entries - 1)) == 0) {
            CHECK(tables_agree(&table));
            test_memory(&table);
            test_refused(&table);
        }
        i = (size_t)(check_random(&random) % entries);
        functions[i] = &places[MAX_ENTRIES + i];
        CHECK(nc_nativetable_replace(&table, i, functions[i]) == NC_OK);
    }
    CHECK(refused > 4);
    CHECK(later > count / 5 && later < count / 2 + 8);
    CHECK(tables_agree(&table));
    nc_nativetable_clear(&table);
    entries = 0;
    CHECK(tables_agree(&table));
    test_memory(&table);
    nc_nativetable_clear(&table);
}

/* The slots' objoffsets lead to what readers load. */
static void test_offsets(void)
{
    NcNativeTable table;
    const char *base = (const char *)&table;

    nc_nativetable_init(&table);
    allowed = ENOUGH;
    CHECK(nc_nativetable_add(&table, "d:d", 0, places) == NC_OK);
    CHECK(nc_load_acquire_ptr(base + NC_NATIVETABLE_CALLS) ==
          (const void *)published_calls(&table.calls));
    CHECK(nc_load_acquire_ptr(base + NC_NATIVETABLE_PACKED) ==
          (const void *)published_words(&table.packed));
    nc_nativetable_clear(&table);
}

int main(int argc, char **argv)
{
    size_t count = check_argument(argc, argv, 1000);

    test_entries(count < 64 ? 64 : count > MAX_ENTRIES ? MAX_ENTRIES : count);
    test_offsets();
    return check_report("nativetable");
}
