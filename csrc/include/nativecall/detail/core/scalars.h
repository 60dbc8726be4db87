/* nativecall/detail/core/scalars.h: the table of scalar types. C code derives all letters, sizes,
 * ranges and switches from it. Python code reads it as `_ext.scalars`.
 *
 * Idea:       three X-macro lists: integers, floats and complex numbers. To add a type, add a row
 *             here and a symbol in packedlookup.h. For types that C does not have, such as half,
 *             numbers.h derives the conversions from the row.
 *
 * Threads:    pure functions.
 * Source:     PEP 3118; SEP 201, "Signature strings". */
#ifndef NATIVECALL_SCALARS_H
#define NATIVECALL_SCALARS_H

#include <float.h>
#include <limits.h>
#include <string.h>

#include "base.h"

NC_C_BEGIN

/* Kinds of types. The table contains only scalars. */
enum {
    NC_KIND_VOID,     /* v */
    NC_KIND_BOOL,     /* ? */
    NC_KIND_INT,      /* b B h H i I q Q */
    NC_KIND_FLOAT,    /* e f d g: NC_FLOATS */
    NC_KIND_COMPLEX,  /* Zf Zd Zg */
    NC_KIND_VOIDPTR,  /* P */
    NC_KIND_POINTER,  /* &T: within it, the type pointed to */
    NC_KIND_FUNCTION, /* X{...}: within it, result and arguments */
    NC_KIND_STRUCT,   /* T{...} =T{...}: within it, the fields */
    NC_KIND_UNION,    /* U{...} =U{...}: within it, the fields */
    NC_KIND_ARRAY,    /* (n,m)T: within it, the element */
    NC_KIND_VIEW,     /* [n]T: within it, the element */
    NC_KIND_OBJECT    /* O */
};

/* ROW(code, name, type, kind, least, greatest). The kind is BOOL, SIGNED or UNSIGNED. */
#define NC_INTEGERS(ROW)                                                                           \
    ROW('?', boolean, uint8_t, BOOL, 0, 1)                                                         \
    ROW('b', int8, int8_t, SIGNED, INT8_MIN, INT8_MAX)                                             \
    ROW('B', uint8, uint8_t, UNSIGNED, 0, UINT8_MAX)                                               \
    ROW('h', int16, int16_t, SIGNED, INT16_MIN, INT16_MAX)                                         \
    ROW('H', uint16, uint16_t, UNSIGNED, 0, UINT16_MAX)                                            \
    ROW('i', int32, int32_t, SIGNED, INT32_MIN, INT32_MAX)                                         \
    ROW('I', uint32, uint32_t, UNSIGNED, 0, UINT32_MAX)                                            \
    ROW('q', int64, int64_t, SIGNED, INT64_MIN, INT64_MAX)                                         \
    ROW('Q', uint64, uint64_t, UNSIGNED, 0, UINT64_MAX)

/* ROW(code, name, type, held, digits, exponent, greatest, steps, C name). `held` is NATIVE if C has
 * the type. Otherwise it is BITS, and `type` is an integer for the bits (numbers.h). `digits`: bits
 * of the mantissa. `exponent`: the least n for which 2**n exceeds all numbers. `greatest`: the
 * largest number as text. `steps`: rank of the width in overload resolution. */
#define NC_FLOATS(ROW)                                                                             \
    ROW('e', half, uint16_t, BITS, 11, 16, "65504", 0, "_Float16")                                 \
    ROW('f', float, float, NATIVE, FLT_MANT_DIG, FLT_MAX_EXP, "3.4028235e+38", 1, "float")         \
    ROW('d', double, double, NATIVE, DBL_MANT_DIG, DBL_MAX_EXP, "1.7976931348623157e+308", 3,      \
        "double")                                                                                  \
    ROW('g', longdouble, long double, NATIVE, LDBL_MANT_DIG, LDBL_MAX_EXP, "1.19e+4932", 5,        \
        "long double")

/* ROW(letter, code of the parts, name of the parts, type of the parts). Signatures write 'Z' and
 * the code of the parts instead of the letter. */
#define NC_COMPLEXES(ROW)                                                                          \
    ROW('z', 'f', float, float)                                                                    \
    ROW('Z', 'd', double, double)                                                                  \
    ROW('Y', 'g', longdouble, long double)

#define NC_IS_SIGNED_BOOL 0
#define NC_IS_SIGNED_UNSIGNED 0
#define NC_IS_SIGNED_SIGNED 1
#define NC_KIND_OF_BOOL NC_KIND_BOOL
#define NC_KIND_OF_SIGNED NC_KIND_INT
#define NC_KIND_OF_UNSIGNED NC_KIND_INT

#define NC_SCALAR_ALIGNED(code, name, type, ...)                                                   \
    struct nc_align_##name {                                                                       \
        char before;                                                                               \
        type value;                                                                                \
    };
NC_INTEGERS(NC_SCALAR_ALIGNED)
NC_FLOATS(NC_SCALAR_ALIGNED)
#undef NC_SCALAR_ALIGNED

/* Return the kind (NC_KIND_BOOL, NC_KIND_INT or NC_KIND_FLOAT) of a scalar, given its canonical
 * code, and store its size and alignment in bytes. Return NC_KIND_VOID for other codes. For a
 * complex number, use the code of its parts. */
NC_STATIC int nc_scalar_layout(char code, size_t *size, size_t *alignment)
{
#define NC_SCALAR_CASE(kind, type, name)                                                           \
    *size = sizeof(type);                                                                          \
    *alignment = offsetof(struct nc_align_##name, value);                                          \
    return kind;
#define NC_SCALAR_INTEGER(code, name, type, kind, ...)                                             \
    case code:                                                                                     \
        NC_SCALAR_CASE(NC_KIND_OF_##kind, type, name)
#define NC_SCALAR_FLOAT(code, name, type, ...)                                                     \
    case code:                                                                                     \
        NC_SCALAR_CASE(NC_KIND_FLOAT, type, name)
    switch (code) {
        NC_INTEGERS(NC_SCALAR_INTEGER)
        NC_FLOATS(NC_SCALAR_FLOAT)
    default:
        return NC_KIND_VOID;
    }
#undef NC_SCALAR_CASE
#undef NC_SCALAR_INTEGER
#undef NC_SCALAR_FLOAT
}

/* Return whether a canonical code is a signed integer. */
NC_STATIC_INLINE int nc_scalar_is_signed(char code)
{
#define NC_SCALAR_SIGN(code, name, type, kind, ...)                                                \
    case code:                                                                                     \
        return NC_IS_SIGNED_##kind;
    switch (code) {
        NC_INTEGERS(NC_SCALAR_SIGN)
    default:
        return 0;
    }
#undef NC_SCALAR_SIGN
}

/* Return how many binary digits a scalar represents exactly: the bits of an integer without the
 * sign bit, or the bits of a mantissa. Store in *exponent the least n for which 2**n exceeds all
 * numbers of the type. */
NC_STATIC int nc_scalar_digits(char code, int *exponent)
{
#define NC_DIGITS_BOOL(type) 1
#define NC_DIGITS_SIGNED(type) (int)(8 * sizeof(type)) - 1
#define NC_DIGITS_UNSIGNED(type) (int)(8 * sizeof(type))
#define NC_SCALAR_INTEGER(code, name, type, kind, ...)                                             \
    case code:                                                                                     \
        return *exponent = NC_DIGITS_##kind(type);
#define NC_SCALAR_FLOAT(code, name, type, held, digits, power, ...)                                \
    case code:                                                                                     \
        *exponent = power;                                                                         \
        return digits;
    switch (code) {
        NC_INTEGERS(NC_SCALAR_INTEGER)
        NC_FLOATS(NC_SCALAR_FLOAT)
    default:
        return *exponent = 0;
    }
#undef NC_DIGITS_BOOL
#undef NC_DIGITS_SIGNED
#undef NC_DIGITS_UNSIGNED
#undef NC_SCALAR_INTEGER
#undef NC_SCALAR_FLOAT
}

/* Return whether the parts of a complex number can have this code. */
NC_STATIC_INLINE int nc_scalar_is_part(char code)
{
#define NC_SCALAR_PART(letter, code, ...) case code:
    switch (code) {
        NC_COMPLEXES(NC_SCALAR_PART)
        return 1;
    default:
        return 0;
    }
#undef NC_SCALAR_PART
}

/* Return the canonical form of a scalar code, or 0 if `code` is not a scalar code. Only for
 * "clLnNg" can the canonical form be another code. */
NC_STATIC_INLINE char nc_scalar_canonical(char code)
{
    size_t size, alignment;
    code = nc_scalar_spelt(code);
    return nc_scalar_layout(code, &size, &alignment) != NC_KIND_VOID ? code : '\0';
}

NC_C_END

#endif
