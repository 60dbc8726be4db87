/* nativecall/detail/core/signaturecursor.h: walks the types of a canonical signature, for code that
 * builds a call from it.
 *
 * Idea:       the reader of signaturetext.h, one type at a time: a signature's result and
 *             arguments, a struct's fields, what is behind a pointer or in an array.
 *
 * Threads:    pure functions.
 * Errors:     NC_E_FORMAT, NC_E_TOOLONG with the offset of what is wrong; NC_E_RANGE, NC_E_MISSING.
 * Ownership:  nothing is allocated; cursors and types point into the caller's text.
 * Source:     SEP 201, "Signature strings". */
#ifndef NATIVECALL_SIGNATURECURSOR_H
#define NATIVECALL_SIGNATURECURSOR_H

#include "signaturetext.h"

NC_C_BEGIN

/* Walks the types of one level. Copy it to come back to a place; to leave a level, forget its
 * cursor: the one outside is already behind the type that was entered. */
typedef struct {
    const char *text; /* borrowed */
    size_t at;        /* offset of the next type; after a failed open: of what is wrong */
    size_t end;       /* offset of the end of this level */
    int place;        /* NC_PLACE_* of the next type */
    int variadic;     /* whether more arguments may follow the fixed ones */
    NcLayout layout;  /* of the fields that were passed */
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

/* A cursor before the result of a canonical signature. All of the text is checked now, so that
 * nothing further in can turn out to be malformed. NC_E_FORMAT, NC_E_TOOLONG: cursor->at is the
 * offset of what is wrong or not canonical, and there is nothing to walk. */
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

/* The next type of this level: a signature's result and then its arguments, a struct's fields, or
 * the one type behind a pointer or in an array or view. NC_E_MISSING at the end. NC_E_FORMAT only
 * when the text has changed since it was opened. */
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

/* A cursor over what is within a type. NC_E_MISSING for a type that has nothing within. */
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

/* The length of an array in one dimension; axis 0 is the outermost. NC_E_RANGE: no such dimension.
 */
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
