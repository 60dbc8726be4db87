/* nativecall/detail/promotion.h: which C types hold every value of which others, and how one
 * becomes the other.
 *
 * Idea:       a promotion loses nothing: an integer goes to one with at least its digits, and its
 *             sign; to a float whose mantissa has them; a real number to a complex one; a pointer
 *             to `void *` and back. int64 and double hold numbers that the other does not.
 *
 * Threads:    pure functions.
 * Errors:     NC_E_RANGE, NC_E_MISSING, and those of nc_signature_open.
 * Ownership:  nothing is allocated; types point into the text they were read from.
 * Source:     CEP 1000, "Native dispatch descriptor": the call with promoted arguments. */
#ifndef NATIVECALL_PROMOTION_H
#define NATIVECALL_PROMOTION_H

#include "core/signaturecursor.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NC_CALL_MAX_ARGUMENTS 32

/* A type that a call can pass. */
typedef struct {
    int kind;         /* NC_KIND_* */
    char code;        /* of a scalar its letter, of a complex number its parts' */
    size_t size;      /* bytes */
    const char *text; /* canonical, not zero-terminated; as long as the signature is */
    size_t length;
} NcCallType;

/* ---- types ----------------------------------------------------------------------------------- */

/* The types of a canonical signature, the result first, and the number of arguments, of at most
 * NC_CALL_MAX_ARGUMENTS. NC_OK; NC_E_RANGE: there are more; NC_E_MISSING: one of them is a struct,
 * a view or a complex long double, or the function is variadic. */
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
        if (cursor.variadic || type.kind == NC_KIND_STRUCT || type.kind == NC_KIND_VIEW ||
            (type.kind == NC_KIND_COMPLEX && type.code == 'g')) {
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

/* Bits of the numbers that a real type holds all of: those of an integer without its sign, or of a
 * mantissa. */
NC_STATIC int nc_call_digits(const NcCallType *type)
{
#define NC_DIGITS(code, name, type, c_name, digits, ...)                                           \
    case code:                                                                                     \
        return digits;
    switch (type->code) {
        NC_FLOATS(NC_DIGITS)
    case '?':
        return 1;
    default:
        return (int)(8 * type->size) - nc_scalar_is_signed(type->code);
    }
#undef NC_DIGITS
}

NC_STATIC_INLINE int nc_call_is_integer(const NcCallType *type)
{
    return type->kind == NC_KIND_INT || type->kind == NC_KIND_BOOL;
}

/* How much wider `to` is, 0 for the same type; -1 when it does not hold every value of `from`. */
NC_STATIC int nc_call_widening(const NcCallType *from, const NcCallType *to)
{
    const int digits = nc_call_digits(to) - nc_call_digits(from);

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
        to->kind > NC_KIND_COMPLEX || from->kind > to->kind || digits < 0) {
        return -1;
    }
    /* A negative number fits no unsigned one. */
    if (to->kind == NC_KIND_INT && from->kind == NC_KIND_INT && nc_scalar_is_signed(from->code) &&
        !nc_scalar_is_signed(to->code)) {
        return -1;
    }
    /* Integers, floats and complex numbers are further apart than any width. */
    return 1 + digits + 256 * (to->kind - from->kind);
}

/* ---- conversion ------------------------------------------------------------------------------ */

/* Reads an integer, extended to 64 bits by its sign. */
NC_STATIC uint64_t nc_call_read_integer(const NcCallType *type, const void *at)
{
#define NC_READ(letter, name, ctype, ...)                                                          \
    case letter: {                                                                                 \
        ctype value;                                                                               \
        memcpy(&value, at, sizeof value);                                                          \
        return (uint64_t)value;                                                                    \
    }
    switch (type->code) {
        NC_INTEGERS(NC_READ)
    default:
        return 0;
    }
#undef NC_READ
}

NC_STATIC void nc_call_write_integer(const NcCallType *type, uint64_t bits, void *at)
{
#define NC_WRITE(letter, name, ctype, ...)                                                         \
    case letter: {                                                                                 \
        const ctype value = (ctype)bits;                                                           \
        memcpy(at, &value, sizeof value);                                                          \
        break;                                                                                     \
    }
    switch (type->code) {
        NC_INTEGERS(NC_WRITE)
    default:
        break;
    }
#undef NC_WRITE
}

/* A half as a float: its exponent and mantissa, placed and biased as a float's. */
NC_STATIC float nc_call_from_half(uint16_t half)
{
    const uint32_t exponent = (half >> 10) & 0x1F;
    const uint32_t mantissa = half & 0x3FF;
    uint32_t bits = (uint32_t)(half >> 15) << 31;
    float value;
    if (exponent == 0) {
        value = (float)mantissa * (1.0F / 16777216.0F);
        return bits != 0 ? -value : value;
    }
    bits |= (exponent == 0x1F ? 0xFF : exponent + 112) << 23 | mantissa << 13;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* An integer of at most 11 digits as a half. */
NC_STATIC uint16_t nc_call_to_half(long double value)
{
    const unsigned sign = value < 0 ? 0x8000 : 0;
    unsigned mantissa = (unsigned)(value < 0 ? -value : value);
    unsigned exponent = 25;
    if (mantissa == 0) {
        return 0;
    }
    while ((mantissa & 0x400) == 0) {
        mantissa <<= 1;
        exponent--;
    }
    return (uint16_t)(sign | exponent << 10 | (mantissa & 0x3FF));
}

/* Between the bits of a float in memory and a long double. */
#define NC_WIDEN_half(value) (long double)nc_call_from_half(value)
#define NC_WIDEN_float(value) (long double)value
#define NC_WIDEN_double(value) (long double)value
#define NC_WIDEN_longdouble(value) value
#define NC_NARROW_half(value) nc_call_to_half(value)
#define NC_NARROW_float(value) (float)value
#define NC_NARROW_double(value) (double)value
#define NC_NARROW_longdouble(value) value

/* Reads one float of a code. */
NC_STATIC long double nc_call_read_float(char code, const void *at)
{
#define NC_READ(letter, name, type, ...)                                                           \
    case letter: {                                                                                 \
        type value;                                                                                \
        memcpy(&value, at, sizeof value);                                                          \
        return NC_WIDEN_##name(value);                                                             \
    }
    switch (code) {
        NC_FLOATS(NC_READ)
    default:
        return 0.0L;
    }
#undef NC_READ
}

/* Writes one; a half only when it is a small integer, which is all that is widened to one. */
NC_STATIC void nc_call_write_float(char code, long double wide, void *at)
{
#define NC_WRITE(letter, name, type, ...)                                                          \
    case letter: {                                                                                 \
        const type value = NC_NARROW_##name(wide);                                                 \
        memcpy(at, &value, sizeof value);                                                          \
        break;                                                                                     \
    }
    switch (code) {
        NC_FLOATS(NC_WRITE)
    default:
        break;
    }
#undef NC_WRITE
}

/* A value of a type as one of the same or a wider type (nc_call_widening). */
NC_NOINLINE void nc_call_widen(const NcCallType *from, const void *in, const NcCallType *to,
                               void *out)
{
    long double real;
    long double imaginary = 0.0L;
    if (from->kind == to->kind && from->size == to->size) {
        memcpy(out, in, to->size);
        return;
    }
    if (nc_call_is_integer(from)) {
        const uint64_t bits = nc_call_read_integer(from, in);
        if (nc_call_is_integer(to)) {
            nc_call_write_integer(to, bits, out);
            return;
        }
        real = nc_scalar_is_signed(from->code) ? (long double)(int64_t)bits : (long double)bits;
    } else if (from->kind == NC_KIND_FLOAT) {
        real = nc_call_read_float(from->code, in);
    } else if (from->kind == NC_KIND_COMPLEX) {
        real = nc_call_read_float(from->code, in);
        imaginary = nc_call_read_float(from->code, (const char *)in + from->size / 2);
    } else {
        memcpy(out, in, to->size);
        return;
    }
    nc_call_write_float(to->code, real, out);
    if (to->kind == NC_KIND_COMPLEX) {
        nc_call_write_float(to->code, imaginary, (char *)out + to->size / 2);
    }
}

#ifdef __cplusplus
}
#endif

#endif
