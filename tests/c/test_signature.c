/* tests/c/test_signature.c: signatures: the bounds of what is written, the cursor, and random and
 * damaged text and words, each in a block of exactly its size, so that the address sanitizer sees
 * whatever reads beyond.
 *
 * What text means, and how it is packed, is held to Python's reader (tests/core/test_packed.py) and
 * to the documents (tests/core/test_vectors.py). */
#include "nativecall/signature.h"

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

/* A union, and bit-fields: "U{iT{I#3I#29q#7}}" within `at`. */
static void test_cursor_of_bits(void)
{
    static const char text[] = "v:U{iT{I#3I#29q#7}}";
    static const int widths[] = {3, 29, 7};
    static const size_t offsets[] = {0, 0, 4};
    static const unsigned shifts[] = {0, 3, 0};
    NcSignatureCursor cursor, inner, within;
    NcSignatureType type, field;
    size_t i;

    CHECK(nc_signature_open(text, sizeof text - 1, &cursor) == NC_OK);
    CHECK(nc_signature_next(&cursor, &type) == NC_OK);
    CHECK(nc_signature_next(&cursor, &type) == NC_OK && type.kind == NC_KIND_UNION);
    CHECK(type.size == 8 && type.width == -1);
    CHECK(nc_signature_enter(&type, &inner) == NC_OK);
    CHECK(nc_signature_next(&inner, &field) == NC_OK && field.offset == 0);
    CHECK(nc_signature_next(&inner, &field) == NC_OK && field.offset == 0 && field.size == 8);
    CHECK(nc_signature_enter(&field, &within) == NC_OK);
    for (i = 0; i < 3; i++) {
        CHECK(nc_signature_next(&within, &type) == NC_OK && type.kind == NC_KIND_INT);
        CHECK(type.width == widths[i] && type.offset == offsets[i] && type.shift == shifts[i]);
    }
    CHECK(nc_signature_next(&within, &type) == NC_E_MISSING);
    CHECK(nc_signature_next(&inner, &field) == NC_E_MISSING);
}

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
    CHECK(nc_signature_enter(&type, &inner) == NC_OK && !inner.layout.packed);
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
    CHECK(nc_signature_enter(&field, &inner) == NC_OK && inner.layout.packed);
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
        CHECK(nc_signature_unpack(words, count, back, written, &again, NULL) == NC_E_RANGE);
        CHECK(nc_signature_pack(copy, length, 0, words, count - 1, &again) == NC_E_RANGE);
        CHECK(again == count);
        CHECK(nc_signature_pack(copy, length, 0x80, words, count, &again) == NC_E_RANGE);
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
        feed_text(maker.text, maker.length);
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
    test_cursor_of_bits();
    test_fuzz(rounds);
    return check_report("signature");
}
