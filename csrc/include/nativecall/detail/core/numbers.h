/* nativecall/detail/core/numbers.h: converts scalars in memory to C numbers and back.
 *
 * Idea:       An integer is read as 64 bits, a float as a long double. A float without a C type
 *             (BITS in scalars.h) has an IEEE 754 interchange format. Its row states the number of
 *             binary digits, including the implicit leading 1. The exponent field has all bits
 *             except those of the sign and the stored digits.
 *
 * Guarantees: Reading is exact. Writing a float rounds once, to nearest, ties to even. Memory need
 *             not be aligned.
 *
 * Threads:    pure functions.
 * Source:     IEEE 754-2019, 3.4 and 4.3.1. */
#ifndef NATIVECALL_NUMBERS_H
#define NATIVECALL_NUMBERS_H

#include "scalars.h"

NC_C_BEGIN

/* ---- floats without a C type ----------------------------------------------------------------- */

/* Return the value of a float of `size` bytes, given its bits. */
NC_STATIC_INLINE double nc_bits_to_double(uint64_t from, size_t size, int digits)
{
    const int width = (int)(8 * size) - digits; /* bits of the exponent field */
    const uint64_t full = (UINT64_C(1) << width) - 1;
    const uint64_t mantissa = from & ((UINT64_C(1) << (digits - 1)) - 1);
    const uint64_t sign = from >> (8 * size - 1) << 63;
    uint64_t exponent = from >> (digits - 1) & full;
    uint64_t bits;
    double value;

    if (exponent == 0) {
        /* Subnormal: a multiple of the format's smallest positive number, a normal double. */
        bits = (1023 - (full >> 1) + 2 - (uint64_t)digits) << 52;
        memcpy(&value, &bits, sizeof value);
        value *= (double)(int64_t)mantissa;
        return sign != 0 ? -value : value;
    }
    exponent = exponent == full ? 0x7FF : exponent + 1023 - (full >> 1);
    bits = sign | exponent << 52 | mantissa << (53 - digits);
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Return the bits of the float of `size` bytes that is nearest to a number. */
NC_STATIC_INLINE uint64_t nc_bits_of_double(double value, size_t size, int digits)
{
    const int width = (int)(8 * size) - digits;
    const uint64_t infinity = ((UINT64_C(1) << width) - 1) << (digits - 1);
    uint64_t bits, mantissa, sign, units;
    int dropped = 53 - digits;

    memcpy(&bits, &value, sizeof bits);
    sign = bits >> 63 << (8 * size - 1);
    mantissa = bits & ((UINT64_C(1) << 52) - 1);
    if (value != value) {
        return sign | infinity | UINT64_C(1) << (digits - 2) | mantissa >> dropped;
    }
    /* The exponent field minus 1, since the leading digit of the mantissa adds 1 to the field. */
    int exponent = (int)(bits >> 52 & 0x7FF) - 1024 + (1 << (width - 1)) - 1;
    mantissa |= UINT64_C(1) << 52;
    if (exponent < 0) {
        dropped = dropped - exponent < 54 ? dropped - exponent : 54;
        exponent = 0;
    }
    units = (uint64_t)exponent << (digits - 1);
    units += mantissa >> dropped;
    mantissa <<= 64 - dropped;
    /* A carry propagates into the exponent. */
    units += mantissa > UINT64_C(1) << 63 || (mantissa == UINT64_C(1) << 63 && (units & 1) != 0);
    return sign | (units < infinity ? units : infinity);
}

/* Convert a long double to a double by rounding to odd: if the conversion is inexact, truncate the
 * value and set the last bit. Rounding the double to fewer digits then gives the same result as
 * rounding the long double. */
NC_STATIC_INLINE double nc_double_to_round(long double value)
{
    double cut = (double)value;
    uint64_t bits;

    if (cut < value || cut > value) {
        memcpy(&bits, &cut, sizeof bits);
        bits -= (uint64_t)(value < 0 ? cut < value : cut > value);
        bits |= 1;
        memcpy(&cut, &bits, sizeof cut);
    }
    return cut;
}

/* Convert a stored value to a C number and back, for macros that expand the table. The `held`
 * column of a row selects the macro. */
#define NC_NUMBER_NATIVE(value, digits) (value)
#define NC_NUMBER_BITS(value, digits) nc_bits_to_double(value, sizeof(value), digits)
#define NC_HELD_NATIVE(type, number, digits) ((type)(number))
#define NC_HELD_BITS(type, number, digits)                                                         \
    ((type)nc_bits_of_double(sizeof(number) > sizeof(double) ? nc_double_to_round(number)          \
                                                             : (double)(number),                   \
                             sizeof(type), digits))

/* ---- by code --------------------------------------------------------------------------------- */

/* Read an integer, sign- or zero-extended to 64 bits. */
NC_STATIC uint64_t nc_read_integer(char code, const void *at)
{
#define NC_READ(letter, name, type, ...)                                                           \
    case letter: {                                                                                 \
        type value;                                                                                \
        memcpy(&value, at, sizeof value);                                                          \
        return (uint64_t)value;                                                                    \
    }
    switch (code) {
        NC_INTEGERS(NC_READ)
    default:
        return 0;
    }
#undef NC_READ
}

NC_STATIC void nc_write_integer(char code, uint64_t bits, void *at)
{
#define NC_WRITE(letter, name, type, ...)                                                          \
    case letter: {                                                                                 \
        const type value = (type)bits;                                                             \
        memcpy(at, &value, sizeof value);                                                          \
        break;                                                                                     \
    }
    switch (code) {
        NC_INTEGERS(NC_WRITE)
    default:
        break;
    }
#undef NC_WRITE
}

/* Read a float, or a part of a complex number. */
NC_STATIC long double nc_read_float(char code, const void *at)
{
#define NC_READ(letter, name, type, held, digits, ...)                                             \
    case letter: {                                                                                 \
        type value;                                                                                \
        memcpy(&value, at, sizeof value);                                                          \
        return (long double)NC_NUMBER_##held(value, digits);                                       \
    }
    switch (code) {
        NC_FLOATS(NC_READ)
    default:
        return 0.0L;
    }
#undef NC_READ
}

NC_STATIC void nc_write_float(char code, long double number, void *at)
{
#define NC_WRITE(letter, name, type, held, digits, ...)                                            \
    case letter: {                                                                                 \
        const type value = NC_HELD_##held(type, number, digits);                                   \
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

NC_C_END

#endif
