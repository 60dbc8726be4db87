/* nativecall/detail/promotion.h: decides whether one C type can hold every value of another, and
 * converts values.
 *
 * Idea:       a promotion is exact. An integer is promoted to an integer type that holds all of its
 *             digits and its sign, or to a float whose mantissa holds its digits. A real number is
 *             promoted to a complex number. A pointer is promoted to `void *`, and `void *` to any
 *             pointer. int64 and double do not promote to each other.
 *
 * Threads:    pure functions.
 * Errors:     NC_E_RANGE, NC_E_MISSING, and those of nc_signature_open.
 * Ownership:  nothing is allocated. An NcCallType points into the signature text.
 * Source:     CEP 1000, "Native dispatch descriptor": the call with promoted arguments. */
#ifndef NATIVECALL_PROMOTION_H
#define NATIVECALL_PROMOTION_H

#include "core/numbers.h"
#include "core/signaturecursor.h"

NC_C_BEGIN

#define NC_CALL_MAX_ARGUMENTS 32

/* A C type that a call can pass or return. */
typedef struct {
    int kind;         /* NC_KIND_* */
    char code;        /* a scalar's letter, or that of a complex number's parts */
    size_t size;      /* bytes */
    const char *text; /* canonical, not NUL-terminated; points into the signature */
    size_t length;
} NcCallType;

/* ---- types ----------------------------------------------------------------------------------- */

/* Store the types of a canonical signature, result first, and the number of arguments. Return
 * NC_E_RANGE if there are more than NC_CALL_MAX_ARGUMENTS arguments. Return NC_E_MISSING if a type
 * is a struct, union, view or complex long double, or if the function is variadic. */
NC_STATIC int nc_call_types(const char *signature, NcCallType *types, size_t *count)
{
    NcSignatureCursor cursor;
    NcSignatureType type;
    size_t found = 0;
    int status = nc_signature_open(signature, strlen(signature), &cursor);

    while (status == NC_OK && (status = nc_signature_next(&cursor, &type)) == NC_OK) {
        NcCallType *out = &types[found];
        if (found > NC_CALL_MAX_ARGUMENTS) {
            return NC_E_RANGE;
        }
        if (cursor.variadic || type.kind == NC_KIND_STRUCT || type.kind == NC_KIND_UNION ||
            type.kind == NC_KIND_VIEW || (type.kind == NC_KIND_COMPLEX && type.code == 'g')) {
            return NC_E_MISSING;
        }
        out->kind = type.kind;
        out->code = type.code;
        out->size = type.size;
        out->text = type.text;
        out->length = type.length;
        found++;
    }
    *count = found - 1;
    return status == NC_E_MISSING ? NC_OK : status;
}

NC_STATIC_INLINE int nc_call_is_integer(const NcCallType *type)
{
    return type->kind == NC_KIND_INT || type->kind == NC_KIND_BOOL;
}

/* Return how much wider `to` is than `from` (0: the same type), or -1 if `to` cannot hold every
 * value of `from`. */
NC_STATIC int nc_call_widening(const NcCallType *from, const NcCallType *to)
{
    int least, most;
    const int needed = nc_scalar_digits(from->code, &least);
    const int digits = nc_scalar_digits(to->code, &most) - needed;

    if (from->length == to->length && memcmp(from->text, to->text, to->length) == 0) {
        return 0;
    }
    if (from->kind == NC_KIND_POINTER || from->kind == NC_KIND_VOIDPTR) {
        return (from->kind == NC_KIND_VOIDPTR && to->kind == NC_KIND_POINTER) ||
                       to->kind == NC_KIND_VOIDPTR
                   ? 1
                   : -1;
    }
    if (from->kind < NC_KIND_BOOL || from->kind > NC_KIND_COMPLEX || to->kind < NC_KIND_INT ||
        to->kind > NC_KIND_COMPLEX || from->kind > to->kind || digits < 0 || most < least) {
        return -1;
    }
    /* Unsigned types cannot hold negative numbers. */
    if (to->kind == NC_KIND_INT && from->kind == NC_KIND_INT && nc_scalar_is_signed(from->code) &&
        !nc_scalar_is_signed(to->code)) {
        return -1;
    }
    /* A change of kind (integer, float, complex) outweighs any difference in width. */
    return 1 + digits + 256 * (to->kind - from->kind);
}

/* ---- conversion ------------------------------------------------------------------------------ */

/* Convert a value to the same or a wider type (nc_call_widening). */
NC_NOINLINE void nc_call_widen(const NcCallType *from, const void *in, const NcCallType *to,
                               void *out)
{
    long double real;
    long double imaginary = 0.0L;
    if (from->kind == to->kind && from->code == to->code) {
        memcpy(out, in, to->size);
        return;
    }
    if (nc_call_is_integer(from)) {
        const uint64_t bits = nc_read_integer(from->code, in);
        if (nc_call_is_integer(to)) {
            nc_write_integer(to->code, bits, out);
            return;
        }
        real = nc_scalar_is_signed(from->code) ? (long double)(int64_t)bits : (long double)bits;
    } else if (from->kind == NC_KIND_FLOAT) {
        real = nc_read_float(from->code, in);
    } else if (from->kind == NC_KIND_COMPLEX) {
        real = nc_read_float(from->code, in);
        imaginary = nc_read_float(from->code, (const char *)in + from->size / 2);
    } else {
        memcpy(out, in, to->size);
        return;
    }
    nc_write_float(to->code, real, out);
    if (to->kind == NC_KIND_COMPLEX) {
        nc_write_float(to->code, imaginary, (char *)out + to->size / 2);
    }
}

NC_C_END

#endif
