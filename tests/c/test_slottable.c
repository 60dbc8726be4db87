/* slottable.h: random and adversarial key sets, misses, padding, duplicates, expected positions.
 * Argument: how many random key sets of 1 to 64 keys (default 1000000). */
#include "nativecall/detail/core/slottable.h"

#include "check.h"

static PyCustomSlot rows[NC_SLOTTABLE_MAX_ROWS + 1];

static void check_header(const PyCustomSlotTable *table, size_t count)
{
    const PyCustomSlot *end = nc_slottable_rows(table) + count;
    size_t i;

    CHECK(table->abi_version == NC_ABI_VERSION);
    CHECK(table->count == count);
    CHECK(table->multiplier & 1);
    CHECK(table->g_shift < 64 && table->f_shift < table->g_shift);
    CHECK(end->id == 0 && end->flags == 0 && end->data.pointer == NULL);
    CHECK(nc_slottable_find(table, 0) == NULL);
    CHECK(nc_slottable_find(table, 1) == NULL);
    CHECK(nc_slottable_find_expected(table, 0, 0) == NULL);
    CHECK(nc_slottable_find_expected(table, 1, 0) == NULL);
    CHECK(nc_slottable_find_expected(table, 0, (intptr_t)count) == NULL);
    for (i = 0; i < 256; i++) {
        CHECK(table->expected[i] <= count);
    }
}

/* Builds from rows[0 .. count - 1] and finds every key at its own row. Returns the table. */
static PyCustomSlotTable *build(size_t count)
{
    PyCustomSlotTable *table = NULL;
    uintptr_t duplicate = 77;
    size_t i, wrong = 0;

    for (i = 0; i < count; i++) {
        rows[i].flags = i;
        rows[i].data.objoffset = (intptr_t)(i * 8);
    }
    CHECK(nc_slottable_build(rows, count, &table, &duplicate) == NC_OK);
    CHECK(duplicate == 77);
    if (table == NULL) {
        fprintf(stderr, "no table of %zu rows\n", count);
        exit(1);
    }
    check_header(table, count);
    for (i = 0; i < count; i++) {
        const PyCustomSlot *row = nc_slottable_rows(table) + i;
        wrong += row->id != rows[i].id || row->flags != i;
        wrong += row->data.objoffset != (intptr_t)(i * 8);
        wrong += rows[i].id > 1 && nc_slottable_find(table, rows[i].id) != row;
    }
    CHECK(wrong == 0);
    return table;
}

static void test_random(size_t sets)
{
    uint64_t state = 3;
    size_t set, i, failed = 0, wrong = 0, built = 0;

    for (set = 0; set < sets; set++) {
        const size_t count = 1 + (size_t)(set % 64);
        const uint64_t mask = set & 64 ? ~(uint64_t)0 : UINT64_C(0x7FFFFFFFFFF8);
        PyCustomSlotTable *table;
        for (i = 0; i < count; i++) {
            rows[i].id = (uintptr_t)(check_random(&state) & mask) | 2;
        }
        if (nc_slottable_build(rows, count, &table, NULL) != NC_OK) {
            failed++; /* the chance of two equal 44-bit keys in this run is below 10^-4 */
            continue;
        }
        for (i = 0; i < count; i++) {
            wrong += nc_slottable_find(table, rows[i].id) != nc_slottable_rows(table) + i;
            wrong += nc_slottable_find(table, rows[i].id ^ 1) != NULL;
        }
        nc_slottable_free(table);
        built++;
    }
    CHECK(failed == 0);
    CHECK(wrong == 0);
    CHECK(built == sets);
    printf("slottable: %zu random key sets of 1 to 64 keys, %zu failures\n", sets, failed);
}

static void test_small(void)
{
    PyCustomSlotTable *const untouched = (PyCustomSlotTable *)rows;
    PyCustomSlotTable *table = untouched;
    size_t count;

    for (count = 0; count < 4; count++) {
        CHECK(nc_slottable_build(rows, count, &table, NULL) == NC_E_RANGE);
        CHECK(table == untouched);
    }
    nc_slottable_free(NULL);

    /* Tables of padding alone: nothing is found in them, whatever is asked. */
    for (count = 1; count < 40; count++) {
        uint64_t state = count;
        size_t i;
        for (i = 0; i < count; i++) {
            rows[i].id = count % 3 == 0 ? (uintptr_t)check_random(&state) & 1 : 1;
        }
        rows[check_random(&state) % count].id = 1;
        table = build(count);
        CHECK((const char *)(table->cells - 4) ==
              (const char *)(nc_slottable_rows(table) + count + 1));
        for (i = 0; i < 64; i++) {
            CHECK(nc_slottable_find(table, (uintptr_t)1 << i % (8 * sizeof(uintptr_t))) == NULL);
            CHECK(nc_slottable_find(table, (uintptr_t)check_random(&state) | 2) == NULL);
        }
        nc_slottable_free(table);
    }
}

static void test_padding(void)
{
    PyCustomSlotTable *table;
    uint64_t state = 5;
    size_t round, i;

    for (round = 0; round < 500; round++) {
        const size_t count = 1 + (size_t)(check_random(&state) % 40);
        for (i = 0; i < count; i++) {
            uint64_t what = check_random(&state) % 4;
            rows[i].id = what < 2 ? (uintptr_t)what : (uintptr_t)(check_random(&state) >> 20 | 2);
        }
        rows[count - 1].id += rows[count - 1].id == 0;
        table = build(count);
        for (i = 0; i < count; i++) {
            PyCustomSlot *row = rows[i].id > 1 ? nc_slottable_rows(table) + i : NULL;
            CHECK(nc_slottable_find_expected(table, rows[i].id, (intptr_t)i) == row);
        }
        nc_slottable_free(table);
    }
}

static void test_expected(void)
{
    static const intptr_t positions[] = {0, 1,    2,  3,     4,          5,
                                         6, 1000, -1, -1000, INTPTR_MAX, INTPTR_MIN};
    PyCustomSlotTable *table;
    size_t i, j;

    rows[0].id = 0x04000001;
    rows[1].id = 1;
    rows[2].id = 0x03000101;
    rows[3].id = (uintptr_t)&table;
    rows[4].id = 0;
    table = build(5);
    for (i = 0; i < sizeof positions / sizeof *positions; i++) {
        for (j = 0; j < 5; j++) {
            PyCustomSlot *row = rows[j].id > 1 ? nc_slottable_rows(table) + j : NULL;
            CHECK(nc_slottable_find_expected(table, rows[j].id, positions[i]) == row);
        }
        CHECK(nc_slottable_find_expected(table, 0x04000003, positions[i]) == NULL);
    }
    nc_slottable_free(table);
}

/* Key sets that make weak hashes fail. */
static void test_adversarial(void)
{
    const unsigned bits = 8 * sizeof(uintptr_t);
    PyCustomSlotTable *table;
    uint64_t state = 7;
    size_t count, i;
    unsigned shift, low;

    /* Arithmetic progressions: 1, 2, 3 … times a power of two, times something odd. */
    for (shift = 0; shift + 17 < bits; shift++) {
        for (count = 1; count <= 4096; count *= 4) {
            for (i = 0; i < count; i++) {
                rows[i].id = (uintptr_t)(i + 2) << shift;
            }
            nc_slottable_free(build(count));
            for (i = 0; i < count; i++) {
                rows[i].id = (uintptr_t)(i + 2) * 0x10001 << (shift % 8);
            }
            nc_slottable_free(build(count));
        }
    }
    /* Single-bit keys; pairs of bits; runs of ones. */
    for (i = 0; i + 1 < bits; i++) {
        rows[i].id = (uintptr_t)2 << i;
    }
    table = build(bits - 1);
    CHECK(nc_slottable_find(table, 6) == NULL);
    nc_slottable_free(table);
    count = 0;
    for (shift = 1; shift < bits; shift++) {
        for (low = 0; low < shift; low++) {
            rows[count++].id = (uintptr_t)1 << shift | (uintptr_t)1 << low;
        }
    }
    nc_slottable_free(build(count));
    for (i = 0; i + 1 < bits; i++) {
        rows[i].id = ((uintptr_t)2 << i) - 1 + ((uintptr_t)1 << (bits - 1));
    }
    nc_slottable_free(build(bits - 1));
    /* Equal modulo a large power of two: they differ in the top bits only. */
    for (shift = bits / 2; shift < bits; shift++) {
        const size_t most = bits - shift > 12 ? 4096 : (size_t)1 << (bits - shift);
        for (i = 0; i < most; i++) {
            rows[i].id = ((uintptr_t)i << shift) + 0x1234;
        }
        nc_slottable_free(build(most));
        /* Two such families, and a third of ordinary keys. */
        for (i = 0; i < most; i++) {
            rows[most + i].id = ((uintptr_t)i << shift) + 0x5678;
            rows[2 * most + i].id = (uintptr_t)(0x100000 + 16 * i);
        }
        nc_slottable_free(build(3 * most));
    }
    /* The allocated IDs of SEP 200: registrar, idea, version. */
    count = 0;
    for (i = 1; i < 6; i++) {
        for (shift = 0; shift < 64; shift++) {
            for (low = 0; low < 4; low++) {
                rows[count++].id = (uintptr_t)(i << 24 | shift << 8 | low << 1 | 1);
            }
        }
    }
    nc_slottable_free(build(count));
    /* Keys made against the first multiplier: their products share the top 32 bits or so. */
    if (bits == 64) {
        uint64_t multiplier, inverse;
        rows[0].id = 2;
        table = build(1);
        multiplier = table->multiplier;
        nc_slottable_free(table);
        inverse = multiplier;
        for (i = 0; i < 6; i++) {
            inverse *= 2 - multiplier * inverse;
        }
        CHECK(inverse * multiplier == 1);
        for (count = 2; count <= 1024; count *= 2) {
            for (i = 0; i < count; i++) {
                rows[i].id = (uintptr_t)(inverse * (UINT64_C(0x123456) << 40 | (i << 4 | 2)));
                rows[i].id += rows[i].id <= 1 ? 2 : 0;
            }
            table = build(count);
            CHECK(table->multiplier != multiplier);
            nc_slottable_free(table);
        }
    }
    /* As large as they come: consecutive pointers, then random keys. */
    for (i = 0; i < NC_SLOTTABLE_MAX_ROWS; i++) {
        rows[i].id = (uintptr_t)(0x55550000u + 16 * i);
    }
    table = build(NC_SLOTTABLE_MAX_ROWS);
    CHECK(nc_slottable_find(table, 0x55550008u) == NULL);
    nc_slottable_free(table);
    for (i = 0; i < NC_SLOTTABLE_MAX_ROWS; i++) {
        rows[i].id = (uintptr_t)(check_random(&state) << 17 | i << 1 | (i & 1)) | 2;
        rows[i].id = (uintptr_t)(check_random(&state) << 18 | i << 2 | 2 | (i & 1));
    }
    nc_slottable_free(build(NC_SLOTTABLE_MAX_ROWS));
}

static void test_duplicates(void)
{
    static const size_t counts[] = {2, 3, 8, 64, 65, 1000, 65536};
    PyCustomSlotTable *untouched = (PyCustomSlotTable *)rows;
    PyCustomSlotTable *table = untouched;
    uintptr_t duplicate;
    uint64_t state = 9;
    size_t c, i, round;

    for (c = 0; c < sizeof counts / sizeof *counts; c++) {
        const size_t count = counts[c];
        for (round = 0; round < (count > 1000 ? 2 : 50); round++) {
            const size_t one = (size_t)(check_random(&state) % count);
            const size_t other = (one + 1 + (size_t)(check_random(&state) % (count - 1))) % count;
            for (i = 0; i < count; i++) {
                rows[i].id = (uintptr_t)(check_random(&state) << 17 | i << 1) | (i == 0 ? 2 : 0);
            }
            rows[one].id = rows[other].id;
            duplicate = 0;
            CHECK(nc_slottable_build(rows, count, &table, &duplicate) == NC_E_DUPLICATE);
            CHECK(duplicate == rows[one].id);
            CHECK(nc_slottable_build(rows, count, &table, NULL) == NC_E_DUPLICATE);
            CHECK(table == untouched);
        }
        /* Nothing but duplicates. */
        for (i = 0; i < count; i++) {
            rows[i].id = 0x04000001;
        }
        CHECK(nc_slottable_build(rows, count, &table, &duplicate) == NC_E_DUPLICATE);
        CHECK(duplicate == 0x04000001);
    }
    /* Padding may repeat. */
    for (i = 0; i < 10; i++) {
        rows[i].id = i & 1;
    }
    rows[4].id = 2;
    nc_slottable_free(build(10));
}

static void test_range(void)
{
    PyCustomSlotTable *untouched = (PyCustomSlotTable *)rows;
    PyCustomSlotTable *table = untouched;
    size_t i;

    for (i = 0; i <= NC_SLOTTABLE_MAX_ROWS; i++) {
        rows[i].id = (uintptr_t)(2 * i + 2);
    }
    CHECK(nc_slottable_build(rows, NC_SLOTTABLE_MAX_ROWS + 1, &table, NULL) == NC_E_RANGE);
    CHECK(nc_slottable_build(rows, SIZE_MAX, &table, NULL) == NC_E_RANGE);
    for (i = 0; i <= NC_SLOTTABLE_MAX_ROWS; i++) {
        rows[i].id = 0;
    }
    CHECK(nc_slottable_build(rows, NC_SLOTTABLE_MAX_ROWS, &table, NULL) == NC_E_RANGE);
    CHECK(table == untouched);
    CHECK(nc_slottable_build(rows, 1, &table, NULL) == NC_E_RANGE);
    rows[7].id = NC_SLOT_SKIP;
    CHECK(nc_slottable_build(rows, NC_SLOTTABLE_MAX_ROWS, &table, NULL) == NC_E_RANGE);
    CHECK(table == untouched);
    nc_slottable_free(build(NC_SLOTTABLE_MAX_ROWS - 1));
    rows[NC_SLOTTABLE_MAX_ROWS - 1].id = 0x04000001;
    nc_slottable_free(build(NC_SLOTTABLE_MAX_ROWS));
}

/* Keys that meet in `expected` are found all the same, and the first of them stands there. */
static void test_meeting(void)
{
    PyCustomSlotTable *table;
    uint64_t state = 11;
    size_t count, i;

    for (count = 1; count <= 300; count++) {
        for (i = 0; i < count; i++) {
            do { /* the same top byte for all */
                rows[i].id = (uintptr_t)(check_random(&state) | 2);
            } while (rows[i].id * NC_EXPECTED >> 56 != 0x51);
        }
        table = build(count);
        CHECK(table->expected[0x51] == 0);
        nc_slottable_free(table);
    }
    /* A key at each place: none is probed for. */
    for (i = 0; i < 256; i++) {
        do {
            rows[i].id = (uintptr_t)(check_random(&state) | 2);
        } while (rows[i].id * NC_EXPECTED >> 56 != i);
    }
    table = build(256);
    for (i = 0; i < 256; i++) {
        CHECK(table->expected[i] == i);
    }
    nc_slottable_free(table);
}

/* The same keys give the same table in every process: these values are frozen with the ABI version.
 */
static void test_deterministic(void)
{
    PyCustomSlotTable *one;
    PyCustomSlotTable *two;
    size_t i, cells;

    for (i = 0; i < 20; i++) {
        rows[i].id = (uintptr_t)(i * 48 + 0x1000);
    }
    one = build(20);
    two = build(20);
    CHECK(one->multiplier == two->multiplier && one->size == two->size);
    cells = (size_t)1 << (one->g_shift - one->f_shift);
    CHECK(memcmp(one->cells - cells, two->cells - cells,
                 2 * (cells + ((size_t)1 << (64 - one->g_shift)))) == 0);
    CHECK(memcmp(one->expected, two->expected, sizeof one->expected) == 0);
    nc_slottable_free(one);
    nc_slottable_free(two);
}

int main(int argc, char **argv)
{
    test_small();
    test_padding();
    test_expected();
    test_adversarial();
    test_meeting();
    test_duplicates();
    test_range();
    test_deterministic();
    test_random(check_argument(argc, argv, 1000000));
    return check_report("slottable");
}
