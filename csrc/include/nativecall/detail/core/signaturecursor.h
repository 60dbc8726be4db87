/* nativecall/detail/core/signaturecursor.h: iterates over the types of a canonical signature, for
 * code that builds calls.
 *
 * Idea:       the parser of signaturetext.h, one type at a time: the result and arguments of a
 *             signature, the fields of a struct, the target of a pointer, the items of an array.
 *
 * Threads:    pure functions.
 * Errors:     NC_E_FORMAT and NC_E_TOOLONG, with the offset of the error; NC_E_RANGE, NC_E_MISSING.
 * Ownership:  nothing is allocated; cursors and types point into the caller's text.
 * Source:     SEP 201, "Signature strings". */
#ifndef NATIVECALL_SIGNATURECURSOR_H
#define NATIVECALL_SIGNATURECURSOR_H

#include "signaturetext.h"

NC_C_BEGIN

/* Iterates over the types of one level. To return to a position, keep a copy of the cursor. To
 * leave a level, drop its cursor: the outer cursor is already past the type that was entered. */
typedef struct {
    const char *text; /* borrowed */
    size_t at;        /* offset of the next type; after a failed open, of the error */
    size_t end;       /* offset of the end of this level */
    int place;        /* NC_PLACE_* of the next type */
    int variadic;     /* whether variadic arguments may follow the fixed ones */
    NcLayout layout;  /* of the fields read so far */
} NcSignatureCursor;

NC_STATIC_INLINE void nc_cursor_set(NcSignatureCursor *cursor, const char *text, size_t length,
                                    int place)
{
    cursor->text = text;
    cursor->at = 0;
    cursor->end = length;
    cursor->place = place;
    cursor->variadic = 0;
    memset(&cursor->layout, 0, sizeof cursor->layout);
    if (place == NC_PLACE_RESULT && length != 0 && text[length - 1] == '.') {
        cursor->variadic = 1;
        cursor->end--;
    }
}

/* Initialize a cursor at the result of a canonical signature. The whole text is checked now, so
 * later calls find nothing malformed. NC_E_FORMAT, NC_E_TOOLONG: cursor->at is the offset where the
 * text is malformed or not canonical, and the cursor yields nothing. */
NC_STATIC int nc_signature_open(const char *text, size_t length, NcSignatureCursor *cursor)
{
    NcSignatureReader reader;
    int status = nc_reader_run(&reader, text, length, NULL, 0, NC_READ_CANONICAL);

    nc_cursor_set(cursor, text, status == NC_OK ? length : 0, NC_PLACE_RESULT);
    if (status != NC_OK) {
        cursor->at = cursor->end = reader.fault;
    }
    return status;
}

/* Read the next type of this level: a signature's result, then its arguments; a struct's fields; or
 * the only type within a pointer, array or view. NC_E_MISSING: the end. NC_E_FORMAT: the text was
 * changed after it was opened. */
NC_STATIC int nc_signature_next(NcSignatureCursor *cursor, NcSignatureType *type)
{
    NcSignatureReader reader;

    if (cursor->at >= cursor->end) {
        return NC_E_MISSING;
    }
    memset(&reader, 0, sizeof reader);
    reader.text = cursor->text + cursor->at;
    reader.length = cursor->end - cursor->at;
    reader.mode = NC_READ_CANONICAL;
    type->kind = NC_KIND_VOID;
    nc_reader_type(&reader, cursor->place, 1, type);
    if (reader.status != NC_OK) {
        return reader.status;
    }
    cursor->at += type->length;
    if (cursor->place == NC_PLACE_RESULT) {
        cursor->at++;
        cursor->place = NC_PLACE_ARGUMENT;
    } else if (cursor->place == NC_PLACE_FIELD) {
        if (nc_reader_accept(&reader, '#')) {
            nc_reader_width(&reader, type);
            cursor->at += reader.at - type->length;
        }
        nc_layout_place(&cursor->layout, type);
    }
    return reader.status;
}

/* Initialize a cursor over the types within a type. NC_E_MISSING: the type contains no types. */
NC_STATIC int nc_signature_enter(const NcSignatureType *type, NcSignatureCursor *inner)
{
    const char *text = type->text;
    const size_t length = type->length;
    size_t start = 1;

    switch (type->kind) {
    case NC_KIND_POINTER:
        nc_cursor_set(inner, text + 1, length - 1, NC_PLACE_POINTEE);
        return NC_OK;
    case NC_KIND_FUNCTION:
        nc_cursor_set(inner, text + 2, length - 3, NC_PLACE_RESULT);
        return NC_OK;
    case NC_KIND_STRUCT:
    case NC_KIND_UNION:
        start = text[0] == '=' ? 3 : 2;
        nc_cursor_set(inner, text + start, length - start - 1, NC_PLACE_FIELD);
        inner->layout.packed = text[0] == '=';
        inner->layout.is_union = type->kind == NC_KIND_UNION;
        inner->layout.alignment = 1;
        return NC_OK;
    case NC_KIND_ARRAY:
    case NC_KIND_VIEW:
        while (start < length && (nc_signature_is_digit(text[start]) || text[start] == ',')) {
            start++;
        }
        start++;
        nc_cursor_set(inner, text + start, length - start,
                      type->kind == NC_KIND_ARRAY ? NC_PLACE_ELEMENT : NC_PLACE_ITEM);
        return NC_OK;
    default:
        return NC_E_MISSING;
    }
}

/* Store the length of an array along an axis (0: the outermost). NC_E_RANGE: no such axis. */
NC_STATIC int nc_signature_dimension(const NcSignatureType *type, size_t axis, size_t *length)
{
    size_t at = 1;
    size_t value = 0;

    if (type->kind != NC_KIND_ARRAY || axis >= type->ndim) {
        return NC_E_RANGE;
    }
    while (axis != 0) {
        axis -= type->text[at++] == ',';
    }
    while (nc_signature_is_digit(type->text[at])) {
        value = value * 10 + (size_t)(type->text[at++] - '0');
    }
    *length = value;
    return NC_OK;
}

NC_C_END

#endif
