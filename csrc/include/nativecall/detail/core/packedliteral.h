/* nativecall/detail/core/packedliteral.h: defines NATIVECALL_SIG("d:dd"), the packed word of a
 * signature literal, as a constant.
 *
 *     switch (word & ~NC_PACKED_FLAGS_MASK) {
 *     case NATIVECALL_SIG("d:d"): ...
 *
 * The word equals that of nc_signature_pack without flags. The literal must be canonical, except
 * that it may contain the codes "clLnN" and "g", with their meaning on this platform. A literal
 * does not compile unless
 *
 *   - every character has a symbol, and all fit into one word (13 nibbles);
 *   - a ':' follows the first character that ends a type, if no '{' comes before it;
 *   - if there are no braces, there is no other ':', and no 'v' except as the result;
 *   - there are as many '}' as '{';
 *   - the last character ends a type, or is '}', '.' or the ':'.
 *
 * This does not check the whole grammar: "d:Zi", "d:=d" or "[0]d:" compile. If only colons are
 * misplaced (inside braces), the word is that of the correct signature. Otherwise the word encodes
 * no valid signature, and lookups find nothing. For longer literals, use nc_signature_pack.
 *
 * In C++11 and later, NATIVECALL_SIG is a constant expression. In C99 and C11 with GCC or Clang, it
 * is an integer constant expression, for case labels, static initialisers and static assertions, at
 * any optimisation level. With other C compilers, it is a call of an inline function, which returns
 * 0 for invalid literals. */
#ifndef NATIVECALL_PACKEDLITERAL_H
#define NATIVECALL_PACKEDLITERAL_H

#include "packed.h"

/* All codes that mean the canonical code in the macro's name on this platform. For example, 'l'
 * means 'i' or 'q'. */
#if CHAR_MIN < 0
#define NC_SPELT_b "bc"
#define NC_SPELT_B "B"
#else
#define NC_SPELT_b "b"
#define NC_SPELT_B "Bc"
#endif
#if LONG_MAX == INT64_MAX /* LP64 */
#define NC_SPELT_i "i"
#define NC_SPELT_I "I"
#define NC_SPELT_q "qln"
#define NC_SPELT_Q "QLN"
#elif UINTPTR_MAX == 0xFFFFFFFF /* ILP32 */
#define NC_SPELT_i "iln"
#define NC_SPELT_I "ILN"
#define NC_SPELT_q "q"
#define NC_SPELT_Q "Q"
#else /* LLP64 */
#define NC_SPELT_i "il"
#define NC_SPELT_I "IL"
#define NC_SPELT_q "qn"
#define NC_SPELT_Q "QN"
#endif
#if LDBL_MANT_DIG == DBL_MANT_DIG
#define NC_SPELT_d "dg"
#define NC_SPELT_g
#else
#define NC_SPELT_d "d"
#define NC_SPELT_g "g"
#endif

/* COMMON and RARE: the characters of the two lists in packedlookup.h, with all spellings of each
 * code. BIT7 to BIT0: the characters whose nc_packed_symbol has that bit set. */
#define NC_LITERAL_COMMON "&PfZvO" NC_SPELT_d NC_SPELT_i NC_SPELT_q NC_SPELT_g NC_SPELT_b
#define NC_LITERAL_RARE "?hHeX{}T=(),[].0123456789U#" NC_SPELT_B NC_SPELT_I NC_SPELT_Q
#define NC_LITERAL_BIT7 "vO" NC_SPELT_g NC_SPELT_b NC_LITERAL_RARE
#define NC_LITERAL_BIT6 "PfZ" NC_SPELT_q NC_LITERAL_RARE
#define NC_LITERAL_BIT5 "&ZO" NC_SPELT_i NC_SPELT_q NC_SPELT_b
#define NC_LITERAL_BIT4 "fvO].0123456789U#" NC_SPELT_d NC_SPELT_i NC_SPELT_q
#define NC_LITERAL_BIT3 "{}T=(),[6789U#"
#define NC_LITERAL_BIT2 "eX(),[2345U#" NC_SPELT_I NC_SPELT_Q
#define NC_LITERAL_BIT1 "hHeXT=,[014589"
#define NC_LITERAL_BIT0 "HX}=)[.13579#" NC_SPELT_B NC_SPELT_Q

/* Characters that can end a type, and characters that can end a signature. The strings also contain
 * quotes, which occur in no signature. */
#define NC_LITERAL_CODE(code, ...) #code
#define NC_LITERAL_ENDS NC_INTEGERS(NC_LITERAL_CODE) NC_FLOATS(NC_LITERAL_CODE) "cLlNnPOv"
#define NC_LITERAL_LASTS NC_LITERAL_ENDS "}.:"

#if defined(__cplusplus) || defined(__GNUC__)

/* A constant expression in C allows neither loops nor function calls, only some builtins on string
 * literals. So each bit of a symbol is computed by testing whether the character is in the set of
 * characters whose symbol has that bit.
 *
 * NC_LITERAL_IN: whether the character at a position is in a set; false beyond the end. GCC and
 * Clang can evaluate different builtins. Clang accepts the result as an integer constant expression
 * only inside a conditional on __builtin_constant_p. */
#define NC_LITERAL_AT(literal, i) ((i) < sizeof(literal) ? (i) : sizeof(literal) - 1)
#if defined(__cplusplus)
constexpr bool nc_literal_has(const char *set, char c)
{
    return *set != '\0' && (*set == c || nc_literal_has(set + 1, c));
}
template <size_t size>
constexpr bool nc_literal_in(const char (&literal)[size], size_t i, const char *set)
{
    return i < size && nc_literal_has(set, literal[i]);
}
#define NC_LITERAL_IN(literal, i, set) nc_literal_in(literal, i, set)
#elif defined(__clang__)
#define NC_LITERAL_IN(literal, i, set)                                                             \
    (__builtin_memchr(set, (literal)[NC_LITERAL_AT(literal, i)], sizeof(set) - 1) != 0)
#define NC_LITERAL_CONSTANT(value) (__builtin_constant_p(0) ? (value) : 0)
#else
#define NC_LITERAL_IN(literal, i, set)                                                             \
    (__builtin_strspn((literal) + NC_LITERAL_AT(literal, i), set) != 0)
#define NC_LITERAL_CONSTANT(value) (value)
#endif

#define NC_LITERAL_BIT(s, i, set, bit) (NC_LITERAL_IN(s, i, set) ? UINT64_C(1) << (bit) : 0)
#define NC_LITERAL_SYMBOL(s, i)                                                                    \
    (NC_LITERAL_BIT(s, i, NC_LITERAL_BIT7, 55) | NC_LITERAL_BIT(s, i, NC_LITERAL_BIT6, 54) |       \
     NC_LITERAL_BIT(s, i, NC_LITERAL_BIT5, 53) | NC_LITERAL_BIT(s, i, NC_LITERAL_BIT4, 52) |       \
     NC_LITERAL_BIT(s, i, NC_LITERAL_BIT3, 51) | NC_LITERAL_BIT(s, i, NC_LITERAL_BIT2, 50) |       \
     NC_LITERAL_BIT(s, i, NC_LITERAL_BIT1, 49) | NC_LITERAL_BIT(s, i, NC_LITERAL_BIT0, 48))
/* The width of a symbol in bits: 4, 8, or 0 for a colon and beyond the end. */
#define NC_LITERAL_WIDTH(s, i)                                                                     \
    (NC_LITERAL_IN(s, i, NC_LITERAL_COMMON) ? 4 : NC_LITERAL_IN(s, i, NC_LITERAL_RARE) ? 8 : 0)
/* The same, but 64 for a character that has no symbol and is not ':'. Such a literal never fits. */
#define NC_LITERAL_COST(s, i)                                                                      \
    ((i) + 1 >= sizeof(s) || NC_LITERAL_IN(s, i, ":") ? 0                                          \
     : NC_LITERAL_WIDTH(s, i) != 0                    ? NC_LITERAL_WIDTH(s, i)                     \
                                                      : 64)
/* The symbol at a position and all that follow, left-justified in 56 bits. */
#define NC_LITERAL_THEN(s, i, rest) (NC_LITERAL_SYMBOL(s, i) | ((rest) >> NC_LITERAL_WIDTH(s, i)))
/* 13 nibbles leave room for at most 13 symbols and 4 colons. */
#define NC_LITERAL_MAX 17
/* clang-format off */
#define NC_LITERAL_FOLD(s)                                                                         \
    NC_LITERAL_THEN(s, 0, NC_LITERAL_THEN(s, 1, NC_LITERAL_THEN(s, 2, NC_LITERAL_THEN(s, 3,        \
    NC_LITERAL_THEN(s, 4, NC_LITERAL_THEN(s, 5, NC_LITERAL_THEN(s, 6, NC_LITERAL_THEN(s, 7,        \
    NC_LITERAL_THEN(s, 8, NC_LITERAL_THEN(s, 9, NC_LITERAL_THEN(s, 10, NC_LITERAL_THEN(s, 11,      \
    NC_LITERAL_THEN(s, 12, NC_LITERAL_THEN(s, 13, NC_LITERAL_THEN(s, 14, NC_LITERAL_THEN(s, 15,    \
    NC_LITERAL_THEN(s, 16, UINT64_C(0))))))))))))))))))
/* Whether a colon follows the first type, as far as can be checked without a stack. */
#define NC_LITERAL_RESULT(s, i, otherwise)                                                         \
    (NC_LITERAL_IN(s, i, "{") ? 1                                                                  \
     : NC_LITERAL_IN(s, i, NC_LITERAL_ENDS) ? NC_LITERAL_IN(s, (i) + 1, ":") : otherwise)
#define NC_LITERAL_HAS_RESULT(s)                                                                   \
    NC_LITERAL_RESULT(s, 0, NC_LITERAL_RESULT(s, 1, NC_LITERAL_RESULT(s, 2,                        \
    NC_LITERAL_RESULT(s, 3, NC_LITERAL_RESULT(s, 4, NC_LITERAL_RESULT(s, 5,                        \
    NC_LITERAL_RESULT(s, 6, NC_LITERAL_RESULT(s, 7, NC_LITERAL_RESULT(s, 8,                        \
    NC_LITERAL_RESULT(s, 9, NC_LITERAL_RESULT(s, 10, NC_LITERAL_RESULT(s, 11,                     \
    NC_LITERAL_RESULT(s, 12, 0)))))))))))))
#define NC_LITERAL_SUM(of, s)                                                                      \
    (of(s, 0) + of(s, 1) + of(s, 2) + of(s, 3) + of(s, 4) + of(s, 5) + of(s, 6) + of(s, 7) +       \
     of(s, 8) + of(s, 9) + of(s, 10) + of(s, 11) + of(s, 12) + of(s, 13) + of(s, 14) +             \
     of(s, 15) + of(s, 16))
/* clang-format on */
#define NC_LITERAL_COLON(s, i) NC_LITERAL_IN(s, i, ":")
#define NC_LITERAL_OPEN(s, i) NC_LITERAL_IN(s, i, "{")
#define NC_LITERAL_CLOSE(s, i) NC_LITERAL_IN(s, i, "}")
#define NC_LITERAL_VOID(s, i) ((i) != 0 && NC_LITERAL_IN(s, i, "v"))
#define NC_LITERAL_FITS(s)                                                                         \
    (sizeof(s) <= NC_LITERAL_MAX + 1 && NC_LITERAL_SUM(NC_LITERAL_COST, s) <= 52 &&                \
     NC_LITERAL_HAS_RESULT(s) && NC_LITERAL_IN(s, sizeof(s) - 2, NC_LITERAL_LASTS) &&              \
     NC_LITERAL_SUM(NC_LITERAL_OPEN, s) == NC_LITERAL_SUM(NC_LITERAL_CLOSE, s) &&                  \
     (NC_LITERAL_SUM(NC_LITERAL_OPEN, s) != 0 ||                                                   \
      (NC_LITERAL_SUM(NC_LITERAL_COLON, s) == 1 && NC_LITERAL_SUM(NC_LITERAL_VOID, s) == 0)))
#if defined(__cplusplus)
/* Forces evaluation at compile time. */
template <uint64_t value, bool fits> struct NcLiteral {
    static_assert(fits, "malformed_or_longer_than_one_word");
    static constexpr uint64_t word = value;
};

template <size_t size> constexpr uint64_t nc_literal_word(const char (&s)[size], size_t i)
{
    return i < size ? NC_LITERAL_THEN(s, i, nc_literal_word(s, i + 1)) : 0;
}

template <size_t size> constexpr bool nc_literal_fits(const char (&literal)[size])
{
    return NC_LITERAL_FITS(literal);
}

#define NATIVECALL_SIG(literal)                                                                    \
    static_cast<uint64_t>(NcLiteral<NC_PACKED_START | nc_literal_word("" literal, 0),              \
                                    nc_literal_fits("" literal)>::word)
#else
/* The field's name appears in the compiler's error for an invalid literal. */
#define NC_LITERAL_CHECK(s)                                                                        \
    (0 * sizeof(struct {                                                                           \
         int malformed_or_longer_than_one_word : NC_LITERAL_CONSTANT(NC_LITERAL_FITS(s)) ? 1 : -1; \
     }))

#define NATIVECALL_SIG(literal)                                                                    \
    (__extension__(NC_LITERAL_CONSTANT(NC_PACKED_START | NC_LITERAL_FOLD("" literal)) +            \
                   NC_LITERAL_CHECK("" literal)))
#endif

#else

NC_STATIC_INLINE uint64_t nc_literal_pack(const char *literal)
{
    uint64_t word = 0;
    size_t count;
    return nc_signature_pack(literal, strlen(literal), 0, &word, 1, &count) == NC_OK ? word : 0;
}

#define NATIVECALL_SIG(literal) nc_literal_pack("" literal)

#endif

#endif
