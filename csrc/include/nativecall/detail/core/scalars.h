/* nativecall/detail/core/scalars.h: the table of scalar types, from which all C code has its
 * letters, sizes, ranges and switches, and Python its own table (module.c, `_types.scalars`).
 *
 * Idea:       three lists of rows, for integers, floats and complex numbers, each given the macro
 *             that is to be made of a row. A new type is a row here, and for one that C cannot
 *             convert by itself, as a half is, the two conversions that the compiler then misses.
 *
 * Threads:    pure functions.
 * Source:     PEP 3118; SEP 201, "Signature strings". */
#ifndef NATIVECALL_SCALARS_H
#define NATIVECALL_SCALARS_H

#include <float.h>
#include <limits.h>
#include <string.h>

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What sort of type it is, of which those of scalars are in the table. */
enum {
    NC_KIND_VOID,     /* v */
    NC_KIND_BOOL,     /* ? */
    NC_KIND_INT,      /* b B h H i I q Q */
    NC_KIND_FLOAT,    /* e f d g */
    NC_KIND_COMPLEX,  /* Zf Zd Zg */
    NC_KIND_VOIDPTR,  /* P */
    NC_KIND_POINTER,  /* &T: within it, the type pointed to */
    NC_KIND_FUNCTION, /* X{...}: within it, result and arguments */
    NC_KIND_STRUCT,   /* T{...} =T{...}: within it, the fields */
    NC_KIND_ARRAY,    /* (n,m)T: within it, the element */
    NC_KIND_VIEW,     /* [n]T: within it, the element */
    NC_KIND_OBJECT    /* O */
};

/* ROW(code, name, type, kind, least, greatest). A kind is BOOL, SIGNED or UNSIGNED. */
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

/* ROW(code, name, type, C name, digits, steps): the type is that of the bits where C has none;
 * digits of the mantissa; how wide the type is to the choice among overloads. */
#define NC_FLOATS(ROW)                                                                             \
    ROW('e', half, uint16_t, "_Float16", 11, 0)                                                    \
    ROW('f', float, float, "float", FLT_MANT_DIG, 1)                                               \
    ROW('d', double, double, "double", DBL_MANT_DIG, 3)                                            \
    ROW('g', longdouble, long double, "long double", LDBL_MANT_DIG, 5)

/* ROW(letter, code of the parts, name of the parts, type of the parts). The core has one letter for
 * what signatures write as 'Z' and the code. */
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

/* NC_KIND_BOOL, NC_KIND_INT or NC_KIND_FLOAT of the scalar with a canonical code, with its size and
 * alignment in bytes; NC_KIND_VOID of what is none. A complex number is two of its parts. */
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

/* Whether a canonical code is of an integer with a sign. */
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

/* Whether a code is of what complex numbers have two of. */
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

/* The canonical code of a scalar's, which is itself for all but "clLnNg"; 0 for what is none. */
NC_STATIC_INLINE char nc_scalar_canonical(char code)
{
    size_t size, alignment;
    switch (code) {
    case 'c':
        return CHAR_MIN < 0 ? 'b' : 'B';
    case 'l':
        return sizeof(long) == 8 ? 'q' : 'i';
    case 'L':
        return sizeof(long) == 8 ? 'Q' : 'I';
    case 'n':
        return sizeof(void *) == 8 ? 'q' : 'i';
    case 'N':
        return sizeof(void *) == 8 ? 'Q' : 'I';
    case 'g':
        return LDBL_MANT_DIG == DBL_MANT_DIG ? 'd' : 'g';
    default:
        return nc_scalar_layout(code, &size, &alignment) != NC_KIND_VOID ? code : '\0';
    }
}

#ifdef __cplusplus
}
#endif

#endif
