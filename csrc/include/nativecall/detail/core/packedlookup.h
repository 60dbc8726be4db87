/* nativecall/detail/core/packedlookup.h: finds a packed signature in a packed table.
 *
 * packed.h defines and creates the words, and documents concurrent access. */
#ifndef NATIVECALL_PACKEDLOOKUP_H
#define NATIVECALL_PACKEDLOOKUP_H

#include <string.h>

#include "compiler.h"

NC_C_BEGIN

/* ---- words ----------------------------------------------------------------------------------- */

#define NC_PACKED_START (UINT64_C(1) << 63)
#define NC_PACKED_CONTINUATION (UINT64_C(4) << 60) /* bits 63 .. 60 of words after the first */

/* The flags of calltable.h that a word can hold: all flags that readers use. */
#define NC_PACKED_FLAGS_ALL 0x7F
#define NC_PACKED_FLAGS_SHIFT 56
#define NC_PACKED_FLAGS_MASK ((uint64_t)NC_PACKED_FLAGS_ALL << NC_PACKED_FLAGS_SHIFT)
/* Flags of calltable.h as bits of a first word: NATIVECALL_SIG("d:d") | NC_PACKED_FLAGS(...). */
#define NC_PACKED_FLAGS(flags) (((uint64_t)(flags) & NC_PACKED_FLAGS_ALL) << NC_PACKED_FLAGS_SHIFT)
/* A mask for nc_packed_find that skips entries with any of these flags and ignores other flags. The
 * word to find must have no flags. */
#define NC_PACKED_REFUSE(flags) (~NC_PACKED_FLAGS_MASK | NC_PACKED_FLAGS(flags))
/* Enough words for any text of up to NC_SIGNATURE_MAX_LENGTH characters. */
#define NC_PACKED_MAX_WORDS 547
#define NC_PACKED_FIRST_NIBBLES 14
#define NC_PACKED_NEXT_NIBBLES 15

/* The symbols: nibbles 1 to 11, then the two-nibble symbols 0xC0, 0xC1, ... Frozen: new symbols are
 * only appended. */
#define NC_PACKED_COMMON "d&iPfZqgvbO"
#define NC_PACKED_RARE "?BhHIQeX{}T=(),[].0123456789U#"

/* Return the symbol of a character as a byte: a nibble and 0, or two nibbles. Return 0 for ':' and
 * for characters without a symbol. */
NC_STATIC_INLINE unsigned nc_packed_symbol(char c)
{
    static const char common[] = NC_PACKED_COMMON;
    static const char rare[] = NC_PACKED_RARE;
    if (c == '\0') {
        return 0;
    }
    const char *found = strchr(common, c);
    if (found != NULL) {
        return (unsigned)(found - common + 1) << 4;
    }
    found = strchr(rare, c);
    return found != NULL ? 0xC0U + (unsigned)(found - rare) : 0;
}

/* Return the number of words for `nibbles` nibbles. The terminating 0 counts as one of them. */
NC_STATIC_INLINE size_t nc_packed_words(size_t nibbles)
{
    const size_t pair = 2 * NC_PACKED_NEXT_NIBBLES;
    return nibbles <= NC_PACKED_FIRST_NIBBLES
               ? 1
               : 1 + 2 * ((nibbles - NC_PACKED_FIRST_NIBBLES + pair - 1) / pair);
}

/* Return the index of the word that holds a nibble of the stream. Store in *shift how far the
 * nibble is shifted in that word. */
NC_STATIC_INLINE size_t nc_packed_locate(size_t position, unsigned *shift)
{
    if (position < NC_PACKED_FIRST_NIBBLES) {
        *shift = 4 * (NC_PACKED_FIRST_NIBBLES - 1 - (unsigned)position);
        return 0;
    }
    position -= NC_PACKED_FIRST_NIBBLES;
    *shift = 4 * (NC_PACKED_NEXT_NIBBLES - 1 - (unsigned)(position % NC_PACKED_NEXT_NIBBLES));
    return 1 + position / NC_PACKED_NEXT_NIBBLES;
}

/* Return the nibble at a position in the stream. */
NC_STATIC_INLINE unsigned nc_packed_nibble(const uint64_t *words, size_t position)
{
    unsigned shift;
    const size_t word = nc_packed_locate(position, &shift);
    return (unsigned)(words[word] >> shift) & 0xF;
}

/* Return whether words end correctly after `position` nibbles of symbols. There must be no more
 * words than necessary, each word must have its start or continuation mark, and the padding must be
 * zero. */
NC_STATIC int nc_packed_ends(const uint64_t *words, size_t count, size_t position)
{
    const size_t nibbles = NC_PACKED_FIRST_NIBBLES + (count - 1) * NC_PACKED_NEXT_NIBBLES;
    if (nc_packed_words(position + 1) != count || (words[0] & NC_PACKED_START) == 0) {
        return 0;
    }
    for (; position < nibbles; position++) {
        if (nc_packed_nibble(words, position) != 0) {
            return 0;
        }
    }
    for (size_t i = 1; i < count; i++) {
        if (words[i] >> 60 != NC_PACKED_CONTINUATION >> 60) {
            return 0;
        }
    }
    return 1;
}

/* Return whether packed words encode the text `canonical`; flags are ignored. Compares symbol by
 * symbol. For few comparisons, this is cheaper than packing the text. */
NC_STATIC int nc_packed_is_text(const uint64_t *words, size_t count, const char *canonical)
{
    const size_t nibbles = NC_PACKED_FIRST_NIBBLES + (count - 1) * NC_PACKED_NEXT_NIBBLES;
    size_t position = 0;
    for (; *canonical != '\0'; canonical++) {
        const unsigned symbol = nc_packed_symbol(*canonical);
        if (symbol == 0 && *canonical == ':') {
            continue;
        }
        if (symbol == 0 || nibbles - position < 2 ||
            nc_packed_nibble(words, position++) != symbol >> 4 ||
            (symbol >= 0xC0 && nc_packed_nibble(words, position++) != (symbol & 0xF))) {
            return 0;
        }
    }
    return nc_packed_ends(words, count, position);
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* Return the index of the 32-bit half that holds the marks of a word: 1, or 0 if big-endian. */
NC_STATIC_INLINE int nc_packed_high(void)
{
    const uint64_t one = 1;
    return *(const unsigned char *)&one;
}

/* Load a word with acquire. Readers load every second word of a table this way. On 32-bit machines,
 * load the half with the marks first, because the writer stores it last. */
NC_STATIC_INLINE uint64_t nc_packed_load(const uint64_t *word)
{
#if UINTPTR_MAX == 0xFFFFFFFF
    const uintptr_t *halves = (const uintptr_t *)(const void *)word;
    const int high = nc_packed_high();
    const uint64_t marks = (uintptr_t)NC_ABI_LOAD(halves + high);
    return marks << 32 | (uintptr_t)NC_ABI_LOAD(halves + !high);
#else
    return (uintptr_t)NC_ABI_LOAD(word);
#endif
}

/* Return a pointer to the first word of the entry with this signature, or NULL. `mask` selects the
 * flags that must be equal, see NC_PACKED_REFUSE. All other bits are always compared. If words[0]
 * is not a start (for example 0, the value of an invalid literal), return NULL. */
NC_STATIC_INLINE const uint64_t *nc_packed_find(const uint64_t *table, const uint64_t *words,
                                                size_t count, uint64_t mask)
{
    const uint64_t first = words[0];
    mask |= ~NC_PACKED_FLAGS_MASK;
    if (NC_UNLIKELY((first & NC_PACKED_START) == 0)) {
        return NULL;
    }
    for (;; table += 2) {
        const uint64_t found = nc_packed_load(table);
        if (NC_LIKELY(((found ^ first) & mask) == 0)) {
            size_t i = 1;
            while (i < count && table[i] == words[i]) {
                i++;
            }
            if (NC_LIKELY(i == count)) {
                return table;
            }
        }
        if (found == 0) {
            return NULL;
        }
    }
}

/* Return the function pointer of an entry whose signature has `count` words. It is never NULL, so
 * callers need not check. */
NC_HOT_INLINE void *nc_packed_funcptr(const uint64_t *entry, size_t count)
{
    void *funcptr = NC_ABI_LOAD(entry + count);
    NC_ASSUME(funcptr != NULL);
    return funcptr;
}

NC_C_END

#endif
