/* nativecall/detail/core/signaturetext.h: parses the text of a signature and writes its canonical
 * form.
 *
 * Idea:       The reader is a recursive-descent parser of the grammar (docs/abi/signatures.md). It
 *             writes the canonical form while it parses. If the text must be canonical already, the
 *             reader also compares its output with the text. signaturecursor.h uses the same
 *             reader, one type at a time. After the first failure, the reader acts as if the text
 *             had ended. So callers need not check after each step.
 *
 * Invariants: The reader accepts the same grammar as the Python package with hint "native", and
 *             fails at the same offset. It does not accept the package's other spellings. It reads
 *             nothing beyond the given length, and recurses at most NC_SIGNATURE_MAX_DEPTH levels.
 *             A zero byte does not end the text; it is an invalid character.
 *
 * Threads:    pure functions.
 * Errors:     NC_E_FORMAT (malformed, not canonical, or larger than the address space), with the
 *             offset of the error; NC_E_TOOLONG, NC_E_RANGE.
 * Ownership:  nothing is allocated; types point into the caller's text.
 * Source:     SEP 201, "Signature strings"; CEP 1000, "Signature strings"; PEP 3118. */
#ifndef NATIVECALL_SIGNATURETEXT_H
#define NATIVECALL_SIGNATURETEXT_H

#include "scalars.h"

NC_C_BEGIN

#define NC_SIGNATURE_MAX_LENGTH 4096 /* characters of a text */
#define NC_SIGNATURE_MAX_DEPTH 64    /* levels of nesting */
#define NC_SIGNATURE_MAX_NDIM 64     /* dimensions of an array or a view */

/* ---- types ----------------------------------------------------------------------------------- */

/* The position of a type. */
enum {
    NC_PLACE_RESULT,
    NC_PLACE_ARGUMENT,
    NC_PLACE_FIELD,   /* of a struct or union */
    NC_PLACE_POINTEE, /* after & */
    NC_PLACE_ELEMENT, /* of an array */
    NC_PLACE_ITEM     /* of a view */
};

/* A type as the cursor yields it. */
typedef struct {
    const char *text; /* its canonical text, not NUL-terminated; inside the caller's text */
    size_t length;    /* of text */
    int kind;         /* NC_KIND_* */
    int place;        /* NC_PLACE_* */
    char code;        /* letter of a scalar or of a complex number's parts; otherwise text[0] */
    size_t size;      /* bytes as an argument, result, field or element; 0 for void */
    size_t alignment; /* bytes, likewise */
    size_t offset;    /* of a field: bytes from the start of the struct; otherwise 0 */
    int width;        /* bits of a bit-field; otherwise -1 */
    unsigned shift;   /* of a bit-field: the position of its first bit in its first byte */
    size_t ndim;      /* of an array or a view; otherwise 0 */
    size_t count;     /* elements of an array, over all dimensions; otherwise 1 */
    size_t item_size; /* bytes of an array's element; otherwise 0 */
} NcSignatureType;

/* ---- the reader ------------------------------------------------------------------------------ */

#define NC_SIGNATURE_TOO_BIG ((size_t)PTRDIFF_MAX + 1) /* saturated value; rejected as a size */

/* Modes of the reader. */
enum {
    NC_READ_ANY,       /* any text of the grammar */
    NC_READ_CANONICAL, /* canonical text: the reader compares its output with the text */
    NC_READ_PACKED     /* the same for packed words, which omit the ':' after results */
};

/* Parses a text and writes its canonical form. */
typedef struct {
    const char *text;
    size_t length;
    size_t at;      /* offset of the next character */
    int status;     /* NC_OK, or the first failure */
    size_t fault;   /* offset of that failure */
    size_t written; /* characters of the canonical form so far */
    size_t colons;  /* of these, colons that the text omits */
    char *out;      /* receives the canonical form, up to `size` characters */
    size_t size;    /* of `out` */
    int mode;       /* NC_READ_* */
} NcSignatureReader;

NC_STATIC_INLINE void nc_reader_fault(NcSignatureReader *reader, size_t at)
{
    if (reader->status == NC_OK) {
        reader->status = NC_E_FORMAT;
        reader->fault = at;
    }
}

/* Compare a written character with the text. */
NC_NOINLINE void nc_reader_compare(NcSignatureReader *reader, char c)
{
    const size_t at = reader->written - reader->colons;

    if (reader->mode == NC_READ_PACKED && c == ':') {
        reader->colons++;
    } else if (at >= reader->length || reader->text[at] != c) {
        nc_reader_fault(reader, at);
    }
}

NC_STATIC_INLINE void nc_reader_write(NcSignatureReader *reader, char c)
{
    if (reader->mode != NC_READ_ANY) {
        nc_reader_compare(reader, c);
    }
    if (reader->written < reader->size) {
        reader->out[reader->written] = c;
    }
    reader->written++;
}

NC_STATIC_INLINE int nc_signature_is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

NC_STATIC_INLINE int nc_signature_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Return the next character that is not white space. Return '\0' at the end of the text, after a
 * failure, and for a zero byte, which is never valid. */
NC_STATIC_INLINE char nc_reader_peek(NcSignatureReader *reader)
{
    while (reader->at < reader->length && nc_signature_is_space(reader->text[reader->at])) {
        reader->at++;
    }
    return reader->status == NC_OK && reader->at < reader->length ? reader->text[reader->at] : '\0';
}

NC_STATIC_INLINE int nc_reader_accept(NcSignatureReader *reader, char c)
{
    if (nc_reader_peek(reader) != c) {
        return 0;
    }
    reader->at++;
    return 1;
}

NC_STATIC void nc_reader_expect(NcSignatureReader *reader, char c)
{
    if (!nc_reader_accept(reader, c)) {
        nc_reader_fault(reader, reader->at);
    }
    nc_reader_write(reader, c);
}

/* Read a number of at most 18 digits that is at least `least` (0 or 1). */
NC_STATIC size_t nc_reader_number(NcSignatureReader *reader, uint64_t least)
{
    uint64_t value = 0;
    size_t start, first;

    (void)nc_reader_peek(reader);
    start = first = reader->at;
    while (reader->at < reader->length && nc_signature_is_digit(reader->text[reader->at]) &&
           reader->at - start <= 18) {
        first = value == 0 ? reader->at : first;
        value = value * 10 + (uint64_t)(reader->text[reader->at] - '0');
        reader->at++;
    }
    if (value < least || reader->at == start || reader->at - start > 18) {
        nc_reader_fault(reader, start);
    }
    for (; first < reader->at; first++) {
        nc_reader_write(reader, reader->text[first]);
    }
    return value > (uint64_t)PTRDIFF_MAX ? NC_SIGNATURE_TOO_BIG : (size_t)value;
}

NC_STATIC_INLINE size_t nc_signature_add(size_t a, size_t b)
{
    return a >= NC_SIGNATURE_TOO_BIG || b >= NC_SIGNATURE_TOO_BIG - a ? NC_SIGNATURE_TOO_BIG
                                                                      : a + b;
}

NC_STATIC_INLINE size_t nc_signature_multiply(size_t a, size_t b)
{
    return b != 0 && a >= (NC_SIGNATURE_TOO_BIG + b - 1) / b ? NC_SIGNATURE_TOO_BIG : a * b;
}

/* Alignments and NC_SIGNATURE_TOO_BIG are powers of two, so a saturated offset stays the same. */
NC_STATIC_INLINE size_t nc_signature_round_up(size_t offset, size_t alignment)
{
    return (offset + alignment - 1) & ~(alignment - 1);
}

/* The layout of a struct or union so far. */
typedef struct {
    size_t offset;  /* bytes before the next field */
    unsigned shift; /* plus bits, 0 to 7 */
    size_t end;     /* bytes to the end of the furthest field */
    size_t alignment;
    int packed;
    int is_union;
} NcLayout;

/* In 64-bit ARM's ABI, zero-width bit-fields align the struct, even a packed one. */
#if defined(__aarch64__) && !defined(__APPLE__) && !defined(_WIN32)
#define NC_EMPTY_BITS_ALIGN 1
#else
#define NC_EMPTY_BITS_ALIGN 0
#endif

NC_STATIC void nc_layout_align(NcLayout *layout, size_t alignment)
{
    layout->offset = nc_signature_add(layout->offset, layout->shift != 0);
    layout->offset = nc_signature_round_up(layout->offset, alignment);
    layout->shift = 0;
}

/* Place a field whose type and width are known. */
NC_STATIC void nc_layout_place(NcLayout *layout, NcSignatureType *field)
{
    const size_t alignment = field->alignment;
    size_t bits;

    if (layout->is_union) {
        layout->offset = layout->shift = 0;
    }
    if (field->width < 0) {
        nc_layout_align(layout, layout->packed ? 1 : alignment);
    } else {
        /* A bit-field must not span more alignment units than its type does. */
        bits = (layout->offset % alignment) * 8 + layout->shift + (size_t)field->width;
        if (field->width == 0 || (!layout->packed && (bits + 8 * alignment - 1) / (8 * alignment) >
                                                         field->size / alignment)) {
            nc_layout_align(layout, alignment);
        }
    }
    field->offset = layout->offset;
    field->shift = layout->shift;
    if (field->width < 0) {
        layout->offset = nc_signature_add(layout->offset, field->size);
    } else {
        bits = layout->shift + (size_t)field->width;
        layout->offset = nc_signature_add(layout->offset, bits / 8);
        layout->shift = (unsigned)(bits % 8);
    }
    if ((field->width == 0 ? NC_EMPTY_BITS_ALIGN : !layout->packed) &&
        alignment > layout->alignment) {
        layout->alignment = alignment;
    }
    bits = nc_signature_add(layout->offset, layout->shift != 0);
    layout->end = bits > layout->end ? bits : layout->end;
}

/* Return whether a kind is invalid in a place. C forbids some combinations. Views are valid only as
 * arguments. */
NC_STATIC int nc_signature_refuses(int place, int kind)
{
    switch (kind) {
    case NC_KIND_VOID:
        return place != NC_PLACE_RESULT;
    case NC_KIND_ARRAY:
        return place == NC_PLACE_RESULT || place == NC_PLACE_ARGUMENT || place == NC_PLACE_ITEM;
    case NC_KIND_VIEW:
        return place != NC_PLACE_ARGUMENT;
    default:
        return 0;
    }
}

NC_STATIC void nc_reader_signature(NcSignatureReader *reader, int depth, char end);
NC_STATIC void nc_reader_type(NcSignatureReader *reader, int place, int depth,
                              NcSignatureType *type);

/* Return whether a struct, whose fields start at offset `from`, has a field of this name before
 * offset `to`. */
NC_STATIC int nc_reader_has_field(const NcSignatureReader *reader, size_t from, size_t to,
                                  const char *name, size_t length)
{
    const char *text = reader->text;
    int depth = 0;

    for (; from < to; from++) {
        if (text[from] == '{') {
            depth++;
        } else if (text[from] == '}') {
            depth--;
        } else if (text[from] == ':' && depth == 0) {
            size_t start = from + 1;
            while (start < to && nc_signature_is_space(text[start])) {
                start++;
            }
            for (from = start; from < to && text[from] != ':';) {
                from++;
            }
            if (from - start >= length && memcmp(text + start, name, length) == 0 &&
                (from - start == length || nc_signature_is_space(text[start + length]))) {
                return 1;
            }
        }
    }
    return 0;
}

/* Read the rest of a field's ":name:", after the first colon. */
NC_STATIC void nc_reader_field_name(NcSignatureReader *reader, size_t fields)
{
    const char *text = reader->text;
    size_t colon = reader->at - 1;
    size_t start, end, i;

    (void)nc_reader_peek(reader);
    start = end = reader->at;
    while (end < reader->length && text[end] != ':') {
        end++;
    }
    reader->at = end + 1;
    if (end == reader->length) {
        nc_reader_fault(reader, start);
    }
    while (end > start && nc_signature_is_space(text[end - 1])) {
        end--;
    }
    for (i = start; i < end; i++) {
        char c = text[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
              (i > start && nc_signature_is_digit(c)))) {
            nc_reader_fault(reader, start);
        }
    }
    if (end == start || nc_reader_has_field(reader, fields, colon, text + start, end - start)) {
        nc_reader_fault(reader, start);
    }
}

/* Read the width of a bit-field, after its '#'. */
NC_STATIC void nc_reader_width(NcSignatureReader *reader, NcSignatureType *field)
{
    nc_reader_write(reader, '#');
    size_t width = nc_reader_number(reader, 0);
    field->width = width > 1024 ? 1024 : (int)width; /* wider than any type */
}

/* Return whether the width of a bit-field is invalid for its type. */
NC_STATIC_INLINE int nc_reader_refuses(const NcSignatureType *field, int is_named)
{
    const int is_bool = field->kind == NC_KIND_BOOL;
    const size_t most = is_bool ? 1 : 8 * field->size;
    return (!is_bool && field->kind != NC_KIND_INT) || (size_t)field->width > most ||
           (is_named && field->width == 0);
}

/* Read the fields of a struct or union and the "}", after its "T{" or "U{". */
NC_STATIC void nc_reader_struct(NcSignatureReader *reader, int depth, int packed, int is_union,
                                NcSignatureType *type)
{
    size_t fields = reader->at;
    NcLayout layout = {0, 0, 0, 1, packed, is_union};

    if (packed) {
        nc_reader_write(reader, '=');
    }
    nc_reader_write(reader, is_union ? 'U' : 'T');
    nc_reader_write(reader, '{');
    while (reader->status == NC_OK && !nc_reader_accept(reader, '}')) {
        NcSignatureType field;
        nc_reader_type(reader, NC_PLACE_FIELD, depth + 1, &field);
        size_t behind = reader->at;
        if (nc_reader_accept(reader, '#')) {
            nc_reader_width(reader, &field);
        }
        int is_named = nc_reader_accept(reader, ':');
        if (is_named) {
            nc_reader_field_name(reader, fields);
        }
        if (field.width >= 0 && nc_reader_refuses(&field, is_named)) {
            nc_reader_fault(reader, behind);
        }
        nc_layout_place(&layout, &field);
    }
    type->kind = is_union ? NC_KIND_UNION : NC_KIND_STRUCT;
    type->size = layout.end != 0 ? nc_signature_round_up(layout.end, layout.alignment)
                                 : NC_SIGNATURE_TOO_BIG;
    type->alignment = layout.alignment;
    nc_reader_write(reader, '}');
}

/* Read the lengths and the element type of an array, after its '('. Nested arrays become one array.
 * `merged` is 1 for an inner array. */
NC_STATIC void nc_reader_array(NcSignatureReader *reader, int depth, int merged,
                               NcSignatureType *type)
{
    NcSignatureType item;

    type->kind = NC_KIND_ARRAY;
    nc_reader_write(reader, merged ? ',' : '(');
    type->count = nc_reader_number(reader, 1);
    for (type->ndim = 1; nc_reader_accept(reader, ','); type->ndim++) {
        nc_reader_write(reader, ',');
        type->count = nc_signature_multiply(type->count, nc_reader_number(reader, 1));
    }
    if (!nc_reader_accept(reader, ')')) {
        nc_reader_fault(reader, reader->at);
    }
    /* If the element is an array, that inner array continues and ends the list of lengths. */
    if (nc_reader_peek(reader) != '(') {
        nc_reader_write(reader, ')');
    }
    item.kind = NC_KIND_ARRAY; /* merge an inner array with this array */
    nc_reader_type(reader, NC_PLACE_ELEMENT, depth + 1, &item);
    type->item_size = item.size;
    if (item.kind == NC_KIND_ARRAY) {
        type->ndim += item.ndim;
        type->count = nc_signature_multiply(type->count, item.count);
        type->item_size = item.item_size;
    }
    type->size = type->ndim > NC_SIGNATURE_MAX_NDIM
                     ? NC_SIGNATURE_TOO_BIG
                     : nc_signature_multiply(type->count, type->item_size);
    type->alignment = item.alignment;
}

/* Read the rest of a type that starts at offset `at`, after its first character `code`. */
NC_STATIC void nc_reader_type_after(NcSignatureReader *reader, char code, size_t at, int depth,
                                    int merged, NcSignatureType *type)
{
    char canonical = nc_scalar_canonical(code);
    NcSignatureType within;

    within.kind = NC_KIND_VOID;
    if (canonical != '\0') {
        type->code = canonical;
        type->kind = nc_scalar_layout(canonical, &type->size, &type->alignment);
        nc_reader_write(reader, canonical);
        return;
    }
    type->code = code;
    type->size = sizeof(void *);
    type->alignment = sizeof(void *);
    switch (code) {
    case 'v':
        type->size = 0;
        type->alignment = 1;
        nc_reader_write(reader, 'v');
        return;
    case 'P':
    case 'O':
        type->kind = code == 'P' ? NC_KIND_VOIDPTR : NC_KIND_OBJECT;
        nc_reader_write(reader, code);
        return;
    case 'Z':
        canonical = nc_reader_peek(reader);
        if (!nc_scalar_is_part(canonical)) {
            break;
        }
        reader->at++;
        type->kind = NC_KIND_COMPLEX;
        type->code = nc_scalar_canonical(canonical);
        (void)nc_scalar_layout(type->code, &type->size, &type->alignment);
        type->size *= 2;
        nc_reader_write(reader, 'Z');
        nc_reader_write(reader, type->code);
        return;
    case '&':
        if (nc_reader_accept(reader, 'v')) {
            type->kind = NC_KIND_VOIDPTR;
            type->code = 'P';
            nc_reader_write(reader, 'P');
            return;
        }
        type->kind = NC_KIND_POINTER;
        nc_reader_write(reader, '&');
        nc_reader_type(reader, NC_PLACE_POINTEE, depth + 1, &within);
        return;
    case 'X':
        type->kind = NC_KIND_FUNCTION;
        if (!nc_reader_accept(reader, '{')) {
            break;
        }
        nc_reader_write(reader, 'X');
        nc_reader_write(reader, '{');
        nc_reader_signature(reader, depth + 1, '}');
        nc_reader_expect(reader, '}');
        return;
    case '=':
    case 'T':
    case 'U':
        if (code == '=') {
            code = nc_reader_peek(reader);
            if ((code != 'T' && code != 'U') || !nc_reader_accept(reader, code)) {
                break;
            }
        }
        if (!nc_reader_accept(reader, '{')) {
            break;
        }
        nc_reader_struct(reader, depth, type->code == '=', code == 'U', type);
        return;
    case '(':
        nc_reader_array(reader, depth, merged, type);
        return;
    case '[':
        type->kind = NC_KIND_VIEW;
        nc_reader_write(reader, '[');
        type->ndim = nc_reader_number(reader, 1);
        nc_reader_expect(reader, ']');
        nc_reader_type(reader, NC_PLACE_ITEM, depth + 1, &within);
        if (type->ndim > NC_SIGNATURE_MAX_NDIM) {
            type->size = NC_SIGNATURE_TOO_BIG;
        }
        return;
    default:
        break;
    }
    nc_reader_fault(reader, at);
}

/* Read a type that is valid in `place`. On entry, type->kind is NC_KIND_ARRAY if an array here must
 * be merged with the array around it. */
NC_STATIC void nc_reader_type(NcSignatureReader *reader, int place, int depth,
                              NcSignatureType *type)
{
    const char code = nc_reader_peek(reader);
    const size_t at = reader->at;
    const size_t written = reader->written;
    int merged = place == NC_PLACE_ELEMENT && type->kind == NC_KIND_ARRAY;

    memset(type, 0, sizeof *type); /* void by default */
    type->text = reader->text + at;
    type->place = place;
    type->alignment = 1;
    type->width = -1;
    type->count = 1;
    if (depth > NC_SIGNATURE_MAX_DEPTH || at >= reader->length) {
        nc_reader_fault(reader, at);
        return;
    }
    reader->at++;
    nc_reader_type_after(reader, code, at, depth, merged, type);
    if (type->size >= NC_SIGNATURE_TOO_BIG || nc_signature_refuses(place, type->kind)) {
        nc_reader_fault(reader, at);
    }
    type->length = reader->written - written;
}

/* Read a result, a colon and arguments. Stop before the character `end`; if `end` is '\0', stop at
 * the end of the text. */
NC_STATIC void nc_reader_signature(NcSignatureReader *reader, int depth, char end)
{
    NcSignatureType type;
    int any = 0;

    type.kind = NC_KIND_VOID;
    nc_reader_type(reader, NC_PLACE_RESULT, depth, &type);
    if (reader->mode != NC_READ_PACKED && !nc_reader_accept(reader, ':')) {
        nc_reader_fault(reader, reader->at);
    }
    nc_reader_write(reader, ':');
    while (reader->status == NC_OK) {
        char next = nc_reader_peek(reader);
        if (reader->at >= reader->length || (next == end && end != '\0')) {
            return;
        }
        if (next == '.') {
            if (!any) {
                nc_reader_fault(reader, reader->at);
            }
            reader->at++;
            nc_reader_write(reader, '.');
            next = nc_reader_peek(reader);
            if (end == '\0' ? reader->at < reader->length : next != end) {
                nc_reader_fault(reader, reader->at);
            }
            return;
        }
        any = 1;
        nc_reader_type(reader, NC_PLACE_ARGUMENT, depth, &type);
    }
}

/* Read a whole signature. Return its status and set `fault`, `written` and `colons`. */
NC_STATIC int nc_reader_run(NcSignatureReader *reader, const char *text, size_t length, char *out,
                            size_t size, int mode)
{
    memset(reader, 0, sizeof *reader);
    reader->text = text;
    reader->length = length;
    reader->out = out;
    reader->size = out == NULL ? 0 : size;
    reader->mode = mode;
    if (length > NC_SIGNATURE_MAX_LENGTH) {
        reader->fault = NC_SIGNATURE_MAX_LENGTH;
        return reader->status = NC_E_TOOLONG;
    }
    nc_reader_signature(reader, 1, '\0');
    if (mode != NC_READ_ANY && reader->written - reader->colons != length) {
        nc_reader_fault(reader, reader->written);
    }
    return reader->status;
}

/* ---- the canonical form ---------------------------------------------------------------------- */

/* Write the canonical form of a signature and a zero byte. White space between tokens and ":name:"
 * after fields are removed. "clLnN" are replaced by this platform's codes. "g" is replaced by "d"
 * on platforms where long double has the format of double. Leading zeros are removed, nested arrays
 * are merged, and "&v" becomes "P". The result is never longer than the text, so `length + 1` bytes
 * always suffice. Only the grammar of docs/abi/signatures.md is accepted, with the same result as
 * in the Python package. The package also reads CEP 1000's order ("dd)d") and C declarations; both
 * are NC_E_FORMAT here.
 *
 * NC_OK: *written is the length without the zero byte. NC_E_FORMAT, NC_E_TOOLONG: *written is the
 * offset of the error in the text. NC_E_RANGE: `size` is too small; *written is the length needed.
 * `out` may be NULL if `size` is 0. */
NC_STATIC int nc_signature_canonical(const char *text, size_t length, char *out, size_t size,
                                     size_t *written)
{
    NcSignatureReader reader;
    int status = nc_reader_run(&reader, text, length, out, size, NC_READ_ANY);

    if (status != NC_OK) {
        *written = reader.fault;
        return status;
    }
    *written = reader.written;
    if (out == NULL || reader.written >= size) {
        return NC_E_RANGE;
    }
    out[reader.written] = '\0';
    return NC_OK;
}

NC_C_END

#endif
