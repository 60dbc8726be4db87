/* tests/c/test_signature.c: signatures: canonical form, cursor, packed words, tables, literals.
 *
 * Known answers first; then random signatures made from the grammar, there and back; then random
 * and damaged text and words, each in a block of exactly its size, so that the address sanitizer
 * sees whatever reads beyond. */
#include "nativecall/signature.h"

#include "nativecall/detail/core/calltable.h"

#include "check.h"

#include <stdbool.h>

static int has_text(const NcSignatureType *type, const char *text)
{
    return type->length == strlen(text) && memcmp(type->text, text, type->length) == 0;
}

/* ---- canonical form -------------------------------------------------------------------------- */

static void check_canonical(const char *text, const char *expected)
{
    char out[256];
    size_t written = 0;

    CHECK(nc_signature_canonical(text, strlen(text), out, sizeof out, &written) == NC_OK);
    CHECK(written == strlen(expected) && strcmp(out, expected) == 0);
    CHECK(nc_signature_canonical(text, strlen(text), NULL, 0, &written) == NC_E_RANGE);
    CHECK(written == strlen(expected));
    CHECK(nc_signature_canonical(text, strlen(text), out, written, &written) == NC_E_RANGE);
    CHECK(nc_signature_canonical(text, strlen(text), out, written + 1, &written) == NC_OK);
}

static void check_malformed(const char *text, size_t offset)
{
    char out[256];
    size_t written = 12345;

    CHECK(nc_signature_canonical(text, strlen(text), out, sizeof out, &written) == NC_E_FORMAT);
    if (written != offset) {
        fprintf(stderr, "'%s': offset %zu, expected %zu\n", text, written, offset);
    }
    CHECK(written == offset);
}

static void test_canonical(void)
{
    char text[NC_SIGNATURE_MAX_LENGTH + 2];
    char out[NC_SIGNATURE_MAX_LENGTH + 1];
    size_t written, i;

    check_canonical("d:dd", "d:dd");
    check_canonical(" d\t:\nd d\r\f\v", "d:dd");
    check_canonical("v:", "v:");
    check_canonical("i:d&f.", "i:d&f.");
    check_canonical("Z f:Z\td", "Zf:Zd");
    check_canonical("v:& v&&v", "v:P&P");
    check_canonical("&(2)(03)d:&(1)(2,3)(4)f", "&(2,3)d:&(1,2,3,4)f");
    check_canonical("d:T{d:x:i : y_1 :}", "d:T{di}");
    check_canonical("d:= T {T{d:x:}:a:X{d:T{d:x:}}:x:}", "d:=T{T{d}X{d:T{d}}}");
    check_canonical("X{v:P.}:X{X{v:}:}", "X{v:P.}:X{X{v:}:}");
    check_canonical("O:[002]d", "O:[2]d");
    check_canonical("c:c", CHAR_MIN < 0 ? "b:b" : "B:B");
    check_canonical("l:L", sizeof(long) == 8 ? "q:Q" : "i:I");
    check_canonical("n:N", sizeof(void *) == 8 ? "q:Q" : "i:I");

    check_malformed("", 0);
    check_malformed("  ", 2);
    check_malformed("d", 1);
    check_malformed(":d", 0);
    check_malformed("d:w", 2);
    check_malformed("d: v", 3);
    check_malformed("d:Zi", 2);
    check_malformed("d:X", 2);
    check_malformed("d:X{d}", 5);
    check_malformed("d:X{d:", 6);
    check_malformed("d:T{}", 2);
    check_malformed("d:T{d", 5);
    check_malformed("d:T{v}", 4);
    check_malformed("d:T{d:x:d: x :}", 11);
    check_malformed("d:T{d:1:}", 6);
    check_malformed("d:T{d:a b:}", 6);
    check_malformed("d:T{d::}", 6);
    check_malformed("d:T{d:x", 6);
    check_malformed("d:=T d", 2);
    check_malformed("d:=X{d:}", 2);
    check_malformed("d:(3)d", 2);
    check_malformed("(3)d:", 0);
    check_malformed("d:&()d", 4);
    check_malformed("d:&(0)d", 4);
    check_malformed("d:&(1234567890123456789)d", 4);
    check_malformed("d:&(3,)d", 6);
    check_malformed("d:&(3)[1]d", 6);
    check_malformed("d:[2](3)d", 5);
    check_malformed("d:[65]d", 2);
    check_malformed("d:[1d", 4);
    check_malformed("[1]d:", 0);
    check_malformed("d:.", 2);
    check_malformed("d:d..", 4);
    check_malformed("d:X{d:.}", 6);
    check_malformed("d:d}", 3);
    check_malformed("d:&(3037000500,3037000500)b", 3);
    check_malformed("d:T{(999999999999999999)(10)b}", 4);

    CHECK(nc_signature_canonical("d:\0d", 4, out, sizeof out, &written) == NC_E_FORMAT);
    CHECK(written == 2);
    memset(text, 'd', sizeof text);
    text[1] = ':';
    CHECK(nc_signature_canonical(text, NC_SIGNATURE_MAX_LENGTH + 1, out, sizeof out, &written) ==
          NC_E_TOOLONG);
    CHECK(written == NC_SIGNATURE_MAX_LENGTH);
    CHECK(nc_signature_canonical(text, NC_SIGNATURE_MAX_LENGTH, out, sizeof out, &written) ==
          NC_OK);
    CHECK(written == NC_SIGNATURE_MAX_LENGTH);
    memset(text + 2, '&', NC_SIGNATURE_MAX_DEPTH);
    text[2 + NC_SIGNATURE_MAX_DEPTH - 1] = 'd';
    CHECK(nc_signature_canonical(text, 2 + NC_SIGNATURE_MAX_DEPTH, out, sizeof out, &written) ==
          NC_OK);
    text[2 + NC_SIGNATURE_MAX_DEPTH - 1] = '&';
    CHECK(nc_signature_canonical(text, 3 + NC_SIGNATURE_MAX_DEPTH, out, sizeof out, &written) ==
          NC_E_FORMAT);
    for (i = 0; i < NC_SIGNATURE_MAX_LENGTH; i++) {
        text[i] = i % 2 == 0 ? 'X' : '{';
    }
    CHECK(nc_signature_canonical(text, NC_SIGNATURE_MAX_LENGTH, out, sizeof out, &written) ==
          NC_E_FORMAT);
}

/* ---- cursor ---------------------------------------------------------------------------------- */

struct sample {
    int8_t a;
    double b;
    int16_t c[2][3];
    void (*d)(void);
    long double e;
    float _Complex f;
    bool g;
};

static void test_cursor(void)
{
    static const char text[] = "Zd:&&f(2,3)";
    static const char whole[] = "v:T{bd(2,3)hX{v:i.}gZf?}&(4)=T{bd}[3]Zd&X{P:O}O.";
    NcSignatureCursor cursor, inner, within;
    NcSignatureType type, field;
    size_t length;

    /* An array is no argument: the whole is refused when it is opened. */
    CHECK(nc_signature_open(text, sizeof text - 1, &cursor) == NC_E_FORMAT);
    CHECK(nc_signature_next(&cursor, &type) == NC_E_MISSING);
    CHECK(nc_signature_open("d: d", 4, &cursor) == NC_E_FORMAT && cursor.at == 2);
    CHECK(nc_signature_open("d:l", 3, &cursor) == NC_E_FORMAT && cursor.at == 2);
    CHECK(nc_signature_open("d:d ", 4, &cursor) == NC_E_FORMAT && cursor.at == 3);

    /* Nothing beyond the length is part of it. */
    CHECK(nc_signature_open(text, 6, &cursor) == NC_OK && !cursor.variadic);
    CHECK(nc_signature_next(&cursor, &type) == NC_OK);
    CHECK(type.kind == NC_KIND_COMPLEX && type.code == 'd' && type.place == NC_PLACE_RESULT);
    CHECK(type.size == 2 * sizeof(double) && has_text(&type, "Zd"));
    CHECK(nc_signature_enter(&type, &inner) == NC_E_MISSING);
    CHECK(nc_signature_next(&cursor, &type) == NC_OK);
    CHECK(type.kind == NC_KIND_POINTER && type.place == NC_PLACE_ARGUMENT);
    CHECK(nc_signature_enter(&type, &inner) == NC_OK);
    CHECK(nc_signature_next(&inner, &field) == NC_OK);
    CHECK(field.kind == NC_KIND_POINTER && field.place == NC_PLACE_POINTEE);
    CHECK(nc_signature_next(&inner, &field) == NC_E_MISSING);
    CHECK(nc_signature_next(&cursor, &type) == NC_E_MISSING);
    CHECK(nc_signature_next(&cursor, &type) == NC_E_MISSING);

    CHECK(nc_signature_open(whole, sizeof whole - 1, &cursor) == NC_OK && cursor.variadic);
    CHECK(nc_signature_next(&cursor, &type) == NC_OK);
    CHECK(type.kind == NC_KIND_VOID && type.size == 0);

    CHECK(nc_signature_next(&cursor, &type) == NC_OK && type.kind == NC_KIND_STRUCT);
    CHECK(type.size == sizeof(struct sample));
    CHECK(nc_signature_enter(&type, &inner) == NC_OK && !inner.packed);
    CHECK(nc_signature_next(&inner, &field) == NC_OK && field.kind == NC_KIND_INT);
    CHECK(field.code == 'b' && field.offset == 0 && field.place == NC_PLACE_FIELD);
    CHECK(nc_signature_next(&inner, &field) == NC_OK && field.kind == NC_KIND_FLOAT);
    CHECK(field.offset == offsetof(struct sample, b) && field.code == 'd');
    CHECK(nc_signature_next(&inner, &field) == NC_OK && field.kind == NC_KIND_ARRAY);
    CHECK(field.offset == offsetof(struct sample, c) && field.ndim == 2 && field.count == 6);
    CHECK(field.item_size == 2 && field.size == 12 && field.alignment == 2);
    CHECK(nc_signature_dimension(&field, 0, &length) == NC_OK && length == 2);
    CHECK(nc_signature_dimension(&field, 1, &length) == NC_OK && length == 3);
    CHECK(nc_signature_dimension(&field, 2, &length) == NC_E_RANGE);
    CHECK(nc_signature_enter(&field, &within) == NC_OK);
    CHECK(nc_signature_next(&within, &field) == NC_OK && has_text(&field, "h"));
    CHECK(field.place == NC_PLACE_ELEMENT);
    CHECK(nc_signature_next(&within, &field) == NC_E_MISSING);
    CHECK(nc_signature_next(&inner, &field) == NC_OK && field.kind == NC_KIND_FUNCTION);
    CHECK(field.offset == offsetof(struct sample, d));
    CHECK(nc_signature_enter(&field, &within) == NC_OK && within.variadic);
    CHECK(nc_signature_next(&within, &field) == NC_OK && field.place == NC_PLACE_RESULT);
    CHECK(nc_signature_next(&within, &field) == NC_OK && has_text(&field, "i"));
    CHECK(nc_signature_next(&within, &field) == NC_E_MISSING);
    CHECK(nc_signature_next(&inner, &field) == NC_OK && field.code == 'g');
    CHECK(field.offset == offsetof(struct sample, e) && field.size == sizeof(long double));
    CHECK(nc_signature_next(&inner, &field) == NC_OK && field.kind == NC_KIND_COMPLEX);
    CHECK(field.offset == offsetof(struct sample, f));
    CHECK(nc_signature_next(&inner, &field) == NC_OK && field.kind == NC_KIND_BOOL);
    CHECK(field.offset == offsetof(struct sample, g));
    CHECK(nc_signature_next(&inner, &field) == NC_E_MISSING);

    CHECK(nc_signature_next(&cursor, &type) == NC_OK && has_text(&type, "&(4)=T{bd}"));
    CHECK(nc_signature_enter(&type, &inner) == NC_OK);
    CHECK(nc_signature_next(&inner, &field) == NC_OK && field.count == 4 && field.size == 36);
    CHECK(nc_signature_enter(&field, &inner) == NC_OK);
    CHECK(nc_signature_next(&inner, &field) == NC_OK && field.alignment == 1);
    CHECK(nc_signature_enter(&field, &inner) == NC_OK && inner.packed);
    CHECK(nc_signature_next(&inner, &field) == NC_OK);
    CHECK(nc_signature_next(&inner, &field) == NC_OK && field.offset == 1);

    CHECK(nc_signature_next(&cursor, &type) == NC_OK && type.kind == NC_KIND_VIEW);
    CHECK(type.ndim == 3 && type.size == sizeof(void *));
    CHECK(nc_signature_dimension(&type, 0, &length) == NC_E_RANGE);
    CHECK(nc_signature_enter(&type, &inner) == NC_OK);
    CHECK(nc_signature_next(&inner, &field) == NC_OK && field.place == NC_PLACE_ITEM);
    CHECK(nc_signature_next(&cursor, &type) == NC_OK && has_text(&type, "&X{P:O}"));
    CHECK(nc_signature_next(&cursor, &type) == NC_OK && type.kind == NC_KIND_OBJECT);
    CHECK(nc_signature_next(&cursor, &type) == NC_E_MISSING);
}

/* ---- packed words ---------------------------------------------------------------------------- */

static uint64_t packed_one(const char *text, uintptr_t flags)
{
    uint64_t word = 0;
    size_t count = 0;

    CHECK(nc_signature_pack(text, strlen(text), flags, &word, 1, &count) == NC_OK);
    CHECK(count == 1);
    return word;
}

static void test_packed(void)
{
    uint64_t words[NC_PACKED_MAX_WORDS];
    char out[64] = "";
    size_t count = 0, written = 0;
    uintptr_t flags = 0;

    CHECK(packed_one("v:", 0) == UINT64_C(0x8090000000000000));
    CHECK(packed_one("d:d", 0) == UINT64_C(0x8011000000000000));
    CHECK(packed_one("i:d&f", 0) == UINT64_C(0x8031250000000000));
    CHECK(packed_one("d:dd", NC_FLAG_NEEDS_GIL | NC_ERRORS_ERRNO) == UINT64_C(0xD111100000000000));
    /* 13 nibbles are one word; the 0 that must follow a 14th makes three. */
    CHECK(packed_one("d:dddddddddddd", 0) == UINT64_C(0x8011111111111110));
    CHECK(nc_signature_pack("d:ddddddddddddd", 15, 0, words, 1, &count) == NC_E_RANGE);
    CHECK(count == 3);
    CHECK(nc_signature_pack("d:ddddddddddddd", 15, 0, words, 3, &count) == NC_OK);
    CHECK(words[0] == UINT64_C(0x8011111111111111));
    CHECK(words[1] == NC_PACKED_CONTINUATION && words[2] == NC_PACKED_CONTINUATION);
    /* A symbol of two nibbles lies across the words. */
    CHECK(nc_signature_pack("d:ddddddddddddI", 15, 0, words, 3, &count) == NC_OK);
    CHECK(words[0] == UINT64_C(0x801111111111111C));
    CHECK(words[1] == (NC_PACKED_CONTINUATION | UINT64_C(4) << 56));
    CHECK(nc_signature_unpack(words, 3, out, sizeof out, &written, &flags) == NC_OK);
    CHECK(strcmp(out, "d:ddddddddddddI") == 0 && written == 15 && flags == 0);
    CHECK(nc_signature_unpack(words, 3, out, 15, &written, &flags) == NC_E_RANGE);
    CHECK(nc_signature_unpack(words, 1, out, sizeof out, &written, &flags) == NC_E_FORMAT);
    CHECK(nc_signature_unpack(words, 2, out, sizeof out, &written, &flags) == NC_E_FORMAT);
    CHECK(nc_signature_unpack(words, 0, out, sizeof out, &written, &flags) == NC_E_FORMAT);
    words[2] |= 1; /* behind the end */
    CHECK(nc_signature_unpack(words, 3, out, sizeof out, &written, &flags) == NC_E_FORMAT);
    words[0] = UINT64_C(0x8011000000000000);
    words[1] = words[2] = NC_PACKED_CONTINUATION; /* more words than it takes */
    CHECK(nc_signature_unpack(words, 3, out, sizeof out, &written, &flags) == NC_E_FORMAT);
    words[0] &= ~NC_PACKED_START;
    CHECK(nc_signature_unpack(words, 1, out, sizeof out, &written, &flags) == NC_E_FORMAT);

    CHECK(nc_signature_pack("d:d", 3, 0x80, words, 1, &count) == NC_E_RANGE && count == 0);
    CHECK(nc_signature_pack("d:d", 3, ~NC_FLAGS_ABI_MASK + 1, words, 1, &count) == NC_E_RANGE);
    CHECK(nc_signature_pack("d:w", 3, 0, words, 1, &count) == NC_E_FORMAT && count == 2);

    /* Every flag that calltable.h has goes into a word and comes back. */
    CHECK((NC_FLAG_NEEDS_GIL | NC_FLAG_TAKES_GIL | NC_FLAG_RELEASE_GIL | NC_FLAG_ERRNO) == 0xF);
    CHECK((NC_ERRORS_ERRNO & ~(uintptr_t)NC_PACKED_FLAGS_ALL) == 0);
    for (flags = 0; flags <= NC_PACKED_FLAGS_ALL; flags++) {
        uint64_t word = packed_one("d:d", flags);
        CHECK(nc_packed_flags(word) == flags);
        CHECK((word & ~NC_PACKED_FLAGS_MASK) == NATIVECALL_SIG("d:d"));
        CHECK((NATIVECALL_SIG("d:d") | NC_PACKED_FLAGS(flags)) == word);
    }
}

#define SAME(literal) CHECK(NATIVECALL_SIG(literal) == packed_one(literal, 0))

static int dispatch(uint64_t word)
{
    switch (word & ~NC_PACKED_FLAGS_MASK) {
    case NATIVECALL_SIG("d:d"):
        return 1;
    case NATIVECALL_SIG("f:f"):
        return 2;
    case NATIVECALL_SIG("d:l&Zd"):
        return 3;
    default:
        return 0;
    }
}

_Static_assert(NATIVECALL_SIG("d:d") == UINT64_C(0x8011000000000000), "an integer constant");
static const uint64_t static_word = NATIVECALL_SIG("v:");

static void test_literals(void)
{
    SAME("v:?"), SAME("v:b"), SAME("v:B"), SAME("v:c"), SAME("v:h"), SAME("v:H"), SAME("v:i");
    SAME("v:I"), SAME("v:l"), SAME("v:L"), SAME("v:q"), SAME("v:Q"), SAME("v:n"), SAME("v:N");
    SAME("v:e"), SAME("v:f"), SAME("v:d"), SAME("v:g"), SAME("v:Zf"), SAME("v:Zd"), SAME("v:Zg");
    SAME("v:P"), SAME("v:O"), SAME("v:&d"), SAME("v:X{v:}"), SAME("v:T{d}"), SAME("v:=T{d}");
    SAME("v:&(2,3)d"), SAME("v:[1]d"), SAME("v:d."), SAME("v:[45]d"), SAME("v:&(60)d");
    SAME("v:&(8,9)d"), SAME("v:[7]d"), SAME("X{v:}:d"), SAME("&Zd:dd"), SAME("d:dddddddddddd"),
        SAME("i:qqIIIII");
    CHECK(static_word == packed_one("v:", 0));
    CHECK(dispatch(packed_one("d:d", 0)) == 1);
    CHECK(dispatch(packed_one("f:f", NC_ERRORS_ERRNO)) == 2);
    CHECK(dispatch(packed_one("d:l&Zd", NC_FLAG_ERRNO)) == 3);
    CHECK(dispatch(packed_one("d:dd", 0)) == 0);
}

/* ---- random signatures ----------------------------------------------------------------------- */

typedef struct {
    char text[600];
    size_t length;
    uint64_t state;
} Maker;

static unsigned below(Maker *maker, unsigned limit)
{
    return (unsigned)(check_random(&maker->state) % limit);
}

static void add(Maker *maker, const char *text)
{
    size_t length = strlen(text);
    if (maker->length + length < sizeof maker->text) {
        memcpy(maker->text + maker->length, text, length + 1);
        maker->length += length;
    }
}

static void add_function(Maker *maker, int depth);

static void add_type(Maker *maker, int place, int depth)
{
    static const char *const scalars[] = {"?", "b", "B", "h",  "H",  "i", "I", "q", "Q",
                                          "e", "f", "d", "Zf", "Zd", "P", "O", "d", "d"};
    char number[24];
    unsigned i, n;

    if (depth >= 4 || below(maker, 3) != 0) {
        add(maker, scalars[below(maker, sizeof scalars / sizeof *scalars)]);
        return;
    }
    switch (below(maker, 5)) {
    case 0:
        add(maker, "&");
        add_type(maker, NC_PLACE_POINTEE, depth + 1);
        break;
    case 1:
        add(maker, "X{");
        add_function(maker, depth + 1);
        add(maker, "}");
        break;
    case 2:
        add(maker, below(maker, 3) == 0 ? "=T{" : "T{");
        for (i = 0, n = 1 + below(maker, 4); i < n; i++) {
            add_type(maker, NC_PLACE_FIELD, depth + 1);
        }
        add(maker, "}");
        break;
    case 3:
        if (place == NC_PLACE_FIELD || place == NC_PLACE_POINTEE) {
            snprintf(number, sizeof number, "(%u", 1 + below(maker, 300));
            add(maker, number);
            for (i = 0, n = below(maker, 3); i < n; i++) {
                snprintf(number, sizeof number, ",%u", 1 + below(maker, 20));
                add(maker, number);
            }
            add(maker, ")");
            add_type(maker, NC_PLACE_RESULT, depth + 1);
            break;
        } /* fall through */
    default:
        if (place == NC_PLACE_ARGUMENT) {
            snprintf(number, sizeof number, "[%u]", 1 + below(maker, 64));
            add(maker, number);
            add_type(maker, NC_PLACE_RESULT, depth + 1);
        } else {
            add(maker, "&d");
        }
    }
}

static void add_function(Maker *maker, int depth)
{
    unsigned i, n = below(maker, depth > 1 ? 3 : 9);

    if (below(maker, 4) == 0) {
        add(maker, "v");
    } else {
        add_type(maker, NC_PLACE_RESULT, depth);
    }
    add(maker, ":");
    for (i = 0; i < n; i++) {
        add_type(maker, NC_PLACE_ARGUMENT, depth);
    }
    if (n != 0 && below(maker, 6) == 0) {
        add(maker, ".");
    }
}

/* A canonical signature; 0 when it became longer than there is room. */
static int make(Maker *maker)
{
    maker->length = 0;
    maker->text[0] = '\0';
    add_function(maker, 1);
    return maker->length + 16 < sizeof maker->text;
}

/* Walks all of a level and what is within; the lengths of the texts must add up. */
static size_t walk(NcSignatureCursor *cursor, int depth)
{
    NcSignatureType type;
    NcSignatureCursor inner;
    size_t seen = 0;
    int status;

    while ((status = nc_signature_next(cursor, &type)) == NC_OK) {
        seen += type.length;
        CHECK(type.size % type.alignment == 0);
        if (depth < 70 && nc_signature_enter(&type, &inner) == NC_OK) {
            size_t within = walk(&inner, depth + 1);
            CHECK(within != 0 && within < type.length);
        }
    }
    CHECK(status == NC_E_MISSING);
    return seen;
}

static void test_round_trips(size_t rounds)
{
    Maker maker;
    uint64_t *table = (uint64_t *)calloc(64 * 64, sizeof *table);
    uint64_t *end = table;
    char (*texts)[600] = (char (*)[600])calloc(64, sizeof *texts);
    size_t entries = 0, i;

    maker.state = 1;
    while (rounds-- != 0) {
        uint64_t words[NC_PACKED_MAX_WORDS];
        char out[600];
        size_t written, count;
        uintptr_t flags = below(&maker, 128), found;
        NcSignatureCursor cursor;

        if (!make(&maker)) {
            continue;
        }
        CHECK(nc_signature_canonical(maker.text, maker.length, out, sizeof out, &written) == NC_OK);
        CHECK(written == maker.length && strcmp(out, maker.text) == 0);
        CHECK(nc_signature_open(maker.text, maker.length, &cursor) == NC_OK);
        CHECK(walk(&cursor, 0) == maker.length - 1 - (cursor.variadic != 0));
        CHECK(nc_signature_pack(maker.text, maker.length, flags, words, NC_PACKED_MAX_WORDS,
                                &count) == NC_OK);
        CHECK(count % 2 == 1 && (words[0] & NC_PACKED_START) != 0);
        for (i = 1; i < count; i++) {
            CHECK(words[i] >> 60 == 4);
        }
        CHECK(nc_signature_unpack(words, count, out, sizeof out, &written, &found) == NC_OK);
        CHECK(written == maker.length && strcmp(out, maker.text) == 0 && found == flags);

        /* A table of whatever comes, which is scanned for each of its signatures. */
        if (count + 1 < 60 && entries < 64) {
            if (nc_packed_find(table, words, count, 0) == NULL) {
                nc_packed_put(end, words, count, &texts[entries]);
                strcpy(texts[entries++], maker.text);
                end += count + 1;
                CHECK(*end == 0);
            }
        } else if (entries == 64) {
            const uint64_t *entry = nc_packed_find(table, words, count, 0);
            if (entry != NULL) {
                const char *text = (const char *)nc_packed_funcptr(entry, count);
                CHECK(strcmp(text, maker.text) == 0);
            } else {
                for (i = 0; i < entries; i++) {
                    CHECK(strcmp(texts[i], maker.text) != 0);
                }
            }
        }
    }
    for (i = 0, end = table; nc_packed_count(end) != 0; i++) {
        size_t count = nc_packed_count(end), written;
        char out[600];
        const uint64_t *entry;
        CHECK(nc_signature_unpack(end, count, out, sizeof out, &written, NULL) == NC_OK);
        CHECK(strcmp(out, texts[i]) == 0 && nc_packed_funcptr(end, count) == &texts[i]);
        entry = nc_packed_find(table, end, count, NC_PACKED_FLAGS_MASK);
        CHECK(entry == end);
        end += count + 1;
    }
    CHECK(i == entries && entries != 0);
    free(table);
    free(texts);
}

static int first_function, second_function;

static void test_tables(void)
{
    static const NcPackedEntry literal[] = {
        {NATIVECALL_SIG("d:d") | NC_PACKED_FLAGS(NC_FLAG_NEEDS_GIL), {&first_function}},
        {NATIVECALL_SIG("f:f"), {&second_function}},
        {0, {NULL}}};
    uint64_t table[16] = {0};
    const uint64_t *start = &literal[0].signature;
    uint64_t word = NATIVECALL_SIG("d:d");
    uint64_t words[3];
    size_t count;

    CHECK(sizeof(NcPackedEntry) == 16 && sizeof(NcPackedFunction) == 8);
    CHECK(nc_packed_find(start, &word, 1, NC_PACKED_REFUSE(0)) == start);
    CHECK(nc_packed_find(start, &word, 1, NC_PACKED_REFUSE(NC_FLAG_NEEDS_GIL)) == NULL);
    CHECK(nc_packed_find(start, &word, 1, NC_PACKED_REFUSE(NC_FLAG_ERRNO)) == start);
    CHECK(nc_packed_funcptr(start, 1) == &first_function);
    word = NATIVECALL_SIG("f:f");
    CHECK(nc_packed_find(start, &word, 1, 0) == start + 2);
    word = NATIVECALL_SIG("i:i");
    CHECK(nc_packed_find(start, &word, 1, 0) == NULL);
    word = 0; /* of no signature: must not be taken for the end of the table */
    CHECK(nc_packed_find(start, &word, 1, 0) == NULL);
    CHECK(nc_packed_count(start) == 1 && nc_packed_count(start + 4) == 0);

    CHECK(nc_packed_count(table) == 0);
    CHECK(nc_signature_pack("d:ddddddddddddd", 15, 0, words, 3, &count) == NC_OK && count == 3);
    nc_packed_put(table, words, 3, &first_function);
    word = NATIVECALL_SIG("d:d");
    nc_packed_put(table + 4, &word, 1, &second_function);
    CHECK(nc_packed_count(table) == 3 && nc_packed_count(table + 4) == 1);
    CHECK(nc_packed_count(table + 6) == 0);
    CHECK(nc_packed_find(table, &word, 1, 0) == table + 4);
    CHECK(nc_packed_find(table, words, 3, 0) == table);
    words[2] |= 1; /* first word equal, the others not */
    CHECK(nc_packed_find(table, words, 3, 0) == NULL);
    words[0] &= ~UINT64_C(0xF);
    CHECK(nc_packed_find(table, words, 1, 0) == NULL);
    nc_packed_replace(table + 4, 1, &first_function);
    CHECK(nc_packed_funcptr(table + 4, 1) == &first_function);
}

/* ---- fuzz ------------------------------------------------------------------------------------ */

/* Everything that reads text, on a copy that ends where its memory does. */
static void feed_text(const char *text, size_t length)
{
    char *copy = (char *)malloc(length != 0 ? length : 1);
    char *out = (char *)malloc(length + 1);
    uint64_t words[NC_PACKED_MAX_WORDS];
    size_t written, count, again;
    NcSignatureCursor cursor;
    int status;

    memcpy(copy, text, length);
    status = nc_signature_canonical(copy, length, out, length + 1, &written);
    CHECK(status == NC_OK || status == NC_E_FORMAT);
    CHECK(written <= length);
    CHECK(nc_signature_pack(copy, length, 0, words, NC_PACKED_MAX_WORDS, &count) == status);
    if (status == NC_OK) {
        char *back = (char *)malloc(written + 1);
        CHECK(nc_signature_open(out, written, &cursor) == NC_OK);
        CHECK(walk(&cursor, 0) != 0);
        CHECK(nc_signature_unpack(words, count, back, written + 1, &again, NULL) == NC_OK);
        CHECK(again == written && memcmp(back, out, written) == 0);
        free(back);
    } else {
        CHECK(count == written);
    }
    if (nc_signature_open(copy, length, &cursor) == NC_OK) {
        CHECK(status == NC_OK && written == length && memcmp(out, copy, length) == 0);
    } else {
        CHECK(cursor.at <= length);
    }
    free(out);
    free(copy);
}

static void feed_words(const uint64_t *words, size_t count)
{
    uint64_t *copy = (uint64_t *)malloc(count * sizeof *copy + 1);
    uint64_t again[NC_PACKED_MAX_WORDS];
    char *out = (char *)malloc(NC_SIGNATURE_MAX_LENGTH + 1);
    size_t written, packed;
    uintptr_t flags;

    memcpy(copy, words, count * sizeof *copy);
    if (nc_signature_unpack(copy, count, out, NC_SIGNATURE_MAX_LENGTH + 1, &written, &flags) ==
        NC_OK) {
        CHECK(nc_signature_pack(out, written, flags, again, NC_PACKED_MAX_WORDS, &packed) == NC_OK);
        CHECK(packed == count && memcmp(again, words, count * sizeof *words) == 0);
    }
    free(out);
    free(copy);
}

static void test_fuzz(size_t rounds)
{
    static const char alphabet[] = "dfgiqbcv&PXTZ{}{}():=,.[]123 xlnO?:";
    static char deep[NC_SIGNATURE_MAX_LENGTH];
    Maker maker;
    size_t i;

    maker.state = 2;
    for (i = 0; i < sizeof alphabet - 1; i++) {
        memset(deep, alphabet[i], sizeof deep);
        feed_text(deep, sizeof deep);
        deep[0] = 'd';
        deep[1] = ':';
        feed_text(deep, sizeof deep);
    }
    while (rounds-- != 0) {
        char text[64];
        uint64_t words[8];
        size_t length = below(&maker, sizeof text), count;

        for (i = 0; i < length; i++) {
            text[i] = below(&maker, 8) == 0 ? (char)below(&maker, 256)
                                            : alphabet[below(&maker, sizeof alphabet - 1)];
        }
        feed_text(text, length);

        if (!make(&maker)) {
            continue;
        }
        if (nc_signature_pack(maker.text, maker.length, below(&maker, 128), words, 8, &count) ==
            NC_OK) {
            feed_words(words, count);
            words[below(&maker, (unsigned)count)] ^= UINT64_C(1) << below(&maker, 64);
            feed_words(words, count);
            feed_words(words, below(&maker, (unsigned)count + 1));
        }
        for (i = 0; i < 8; i++) {
            words[i] = check_random(&maker.state);
            words[i] = i == 0 ? words[i] | NC_PACKED_START
                              : (words[i] & ~(UINT64_C(0xF) << 60)) | NC_PACKED_CONTINUATION;
        }
        feed_words(words, below(&maker, 8));
        /* Damage the text: change, drop, double. */
        i = below(&maker, (unsigned)maker.length);
        switch (below(&maker, 3)) {
        case 0:
            maker.text[i] = alphabet[below(&maker, sizeof alphabet - 1)];
            break;
        case 1:
            memmove(maker.text + i, maker.text + i + 1, maker.length - i);
            maker.length--;
            break;
        default:
            memmove(maker.text + i + 1, maker.text + i, maker.length - i);
            maker.length++;
            break;
        }
        feed_text(maker.text, maker.length);
        feed_text(maker.text, below(&maker, (unsigned)maker.length + 1));
    }
}

int main(int argc, char **argv)
{
    size_t rounds = check_argument(argc, argv, 50000);

    test_canonical();
    test_cursor();
    test_packed();
    test_literals();
    test_tables();
    test_round_trips(rounds);
    test_fuzz(rounds);
    return check_report("signature");
}
