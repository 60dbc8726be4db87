/* intern.h: identity, what precedes a string, limits, growth, memory bounds.
 * Argument: how many strings (default 100000). */
#include "nativecall/detail/core/intern.h"

#include "check.h"
#include "registry.h"

static void check_string(const char *interned, const char *bytes, size_t length)
{
    CHECK(interned != bytes);
    CHECK((uintptr_t)interned % 8 == 0);
    CHECK(nc_interned_length(interned) == length);
    CHECK(nc_interned_hash(interned) == nc_hash_bytes(bytes, length));
    CHECK(length == 0 || memcmp(interned, bytes, length) == 0);
    CHECK(interned[length] == '\0');
}

static void test_identity(void)
{
    static const struct {
        const char *bytes;
        size_t length;
    } strings[] = {{"", 0},
                   {"\0", 1},
                   {"\0\0", 2},
                   {"d:d", 3},
                   {"d:d\0", 4},
                   {"d:d\0x", 5},
                   {"d:d\0y", 5},
                   {"1234567", 7},
                   {"12345678", 8},
                   {"12345678\0", 9},
                   {"123456781", 9},
                   {"1234567812345678", 16},
                   {"1234567812345679", 16},
                   {"D:d", 3},
                   {"\xff\xfe", 2},
                   {"12345679", 8}};
    enum { COUNT = sizeof strings / sizeof *strings };
    const char *known[COUNT];
    NcRegistry *registry;
    NcRegistry *other;
    const char *again;
    size_t i, j;

    CHECK(nc_registry_new(&registry) == NC_OK);
    CHECK(registry->abi_version == NC_ABI_VERSION);
    for (i = 0; i < COUNT; i++) {
        CHECK(nc_interned_find(registry, strings[i].bytes, strings[i].length) == NULL);
        CHECK(nc_intern(registry, strings[i].bytes, strings[i].length, &known[i]) == NC_OK);
        CHECK(registry->count == i + 1);
        check_string(known[i], strings[i].bytes, strings[i].length);
        for (j = 0; j < i; j++) {
            CHECK(known[i] != known[j]);
        }
    }
    for (i = 0; i < COUNT; i++) {
        CHECK(nc_intern(registry, strings[i].bytes, strings[i].length, &again) == NC_OK);
        CHECK(again == known[i]);
        CHECK(nc_interned_find(registry, strings[i].bytes, strings[i].length) == known[i]);
        CHECK(nc_intern(registry, known[i], strings[i].length, &again) == NC_OK);
        CHECK(again == known[i]);
    }
    CHECK(nc_intern(registry, NULL, 0, &again) == NC_OK);
    CHECK(again == known[0]);
    CHECK(nc_interned_find(registry, NULL, 0) == known[0]);
    CHECK(registry->count == COUNT);

    CHECK(nc_registry_new(&other) == NC_OK);
    CHECK(nc_interned_find(other, "d:d", 3) == NULL);
    CHECK(nc_intern(other, "d:d", 3, &again) == NC_OK);
    CHECK(again != known[3]);
    registry_free(other);
    registry_free(registry);
}

static void test_limits(void)
{
    char *bytes = (char *)malloc(NC_INTERN_MAX_LENGTH + 1);
    NcRegistry *registry;
    const char *longest = NULL;
    const char *untouched = "untouched";
    const char *out = untouched;

    CHECK(bytes != NULL);
    memset(bytes, 'x', NC_INTERN_MAX_LENGTH + 1);
    CHECK(nc_registry_new(&registry) == NC_OK);
    CHECK(nc_intern(registry, bytes, NC_INTERN_MAX_LENGTH + 1, &out) == NC_E_TOOLONG);
    CHECK(out == untouched);
    CHECK(registry->count == 0);
    CHECK(nc_interned_find(registry, bytes, NC_INTERN_MAX_LENGTH + 1) == NULL);
    CHECK(nc_intern(registry, bytes, NC_INTERN_MAX_LENGTH, &longest) == NC_OK);
    check_string(longest, bytes, NC_INTERN_MAX_LENGTH);
    bytes[NC_INTERN_MAX_LENGTH - 1] = 'y';
    CHECK(nc_interned_find(registry, bytes, NC_INTERN_MAX_LENGTH) == NULL);
    CHECK(nc_intern(registry, bytes, NC_INTERN_MAX_LENGTH, &out) == NC_OK);
    CHECK(out != longest);
    nc_mutex_lock(&registry->mutex);
    CHECK(nc_interned_find(registry, bytes, NC_INTERN_MAX_LENGTH) == out);
    nc_mutex_unlock(&registry->mutex);
    registry_free(registry);
    free(bytes);
}

enum { MAX_TEXT = 64 };

static size_t make(char *text, size_t number)
{
    /* A zero byte within, and lengths of 3 to 20. */
    return (size_t)snprintf(text, MAX_TEXT, "%zu:%c%.*s", number, number % 3 == 0 ? 0 : 'd',
                            (int)(number % 14), "ddffiiqqPP&d&f");
}

static void test_growth(size_t count)
{
    const char **known = (const char **)malloc(count * sizeof *known);
    NcRegistry *registry;
    char text[MAX_TEXT];
    size_t i;

    CHECK(known != NULL);
    CHECK(nc_registry_new(&registry) == NC_OK);
    for (i = 0; i < count; i++) {
        size_t length = make(text, i);
        size_t cells;
        CHECK(nc_intern(registry, text, length, &known[i]) == NC_OK);
        cells = registry->table->mask + 1;
        CHECK((cells & (cells - 1)) == 0 && 2 * registry->count <= cells);
        CHECK(registry_is_lean(registry));
    }
    CHECK(registry->count == count);
    for (i = 0; i < count; i++) {
        size_t length = make(text, i);
        check_string(known[i], text, length);
        CHECK(nc_interned_find(registry, text, length) == known[i]);
    }
    for (i = 0; i < count; i++) {
        size_t length = make(text, i);
        text[0] = 'x';
        CHECK(nc_interned_find(registry, text, length) == NULL);
    }
    printf("intern: %zu strings, tables of %zu bytes, %zu of them retired\n", count,
           registry_bytes(registry->table), registry_bytes(registry->table->superseded));
    registry_free(registry);
    free(known);
}

static void test_status_text(void)
{
    int status;

    for (status = NC_OK; status >= NC_E_VERSION; status--) {
        CHECK(strcmp(nc_status_text(status), nc_status_text(-1000)) != 0);
    }
    CHECK(nc_status_text(1)[0] != '\0');
}

int main(int argc, char **argv)
{
    test_status_text();
    test_identity();
    test_limits();
    test_growth(check_argument(argc, argv, 100000));
    return check_report("intern");
}
