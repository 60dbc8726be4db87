/* nativecall/detail/core/packed.h: packs signatures into 64-bit words, and writes tables of such
 * words with function pointers.
 *
 * Idea:       SEP 201's approach 1. Most signatures fit into one word. So a table can be a literal,
 *             and a lookup compares a number with a constant. Nothing is registered or interned.
 *
 * Layout:     a packed signature is 1, 3, 5 ... words. The first word:
 *
 *                 63      62 .. 60            59 .. 56      55 .. 0
 *                 start   error convention    properties    14 nibbles of symbols
 *
 *             Each later word:
 *
 *                 63 .. 60    59 .. 0
 *                 0100        15 nibbles of symbols
 *
 *             The nibbles form one stream, highest first. A symbol is a nibble 1 to 11, or a nibble
 *             12 to 15 followed by a second nibble. A nibble 0 always terminates the signature, and
 *             zeros pad the rest. Each character of the canonical text has a symbol, except ':'. A
 *             ':' needs none, because it always follows a result. A table entry is a packed
 *             signature and an 8-byte cell with the function pointer: 16, 32, 48 ... bytes. A zero
 *             word terminates the table.
 *
 * Invariants: a word is a number, so it does not depend on the byte order. If words are equal on
 *             two platforms, their canonical texts are equal. Packing is injective, and no packed
 *             signature is a prefix of another. Every second word of a table is a start (bit 63), a
 *             continuation (bits 63 .. 60 are 0100) or the end (0). So a scan in steps of 16 bytes
 *             never confuses these three, and needs no lengths.
 *
 * Threads:    readers of a table that grows in place take no lock: the first word of an entry is
 *             stored last, with release, and loaded with acquire. The first entry of a table is
 *             published with the table, never added in place. Once its first word is stored, an
 *             entry's words never change; its function pointer may. The caller serialises writers.
 *
 * Errors:     NC_E_FORMAT, NC_E_TOOLONG, NC_E_RANGE. Nothing is read beyond the given count.
 * Ownership:  nothing is allocated.
 * Source:     SEP 201, "Approach 1: Comparison of deterministic keys"; CEP 1000, "Approach 2". */
#ifndef NATIVECALL_PACKED_H
#define NATIVECALL_PACKED_H

#include "base.h"
#include "packedlookup.h"
#include "signaturetext.h"

NC_C_BEGIN

/* ---- words ----------------------------------------------------------------------------------- */

/* Return the flags in the first word of a signature, as in an entry of calltable.h. */
NC_STATIC_INLINE uintptr_t nc_packed_flags(uint64_t first)
{
    return (uintptr_t)(first >> NC_PACKED_FLAGS_SHIFT) & NC_PACKED_FLAGS_ALL;
}

/* Pack a signature, with flags of calltable.h. The signature need not be canonical (see
 * nc_signature_canonical).
 *
 * NC_OK: *count is the number of words, which is odd. NC_E_FORMAT, NC_E_TOOLONG: *count is the
 * offset of the error, as from nc_signature_canonical. NC_E_RANGE: if `capacity` is too small,
 * *count is the number of words needed; for flags beyond NC_PACKED_FLAGS_ALL, it is 0. */
NC_STATIC int nc_signature_pack(const char *text, size_t length, uintptr_t flags, uint64_t *words,
                                size_t capacity, size_t *count)
{
    char canonical[NC_SIGNATURE_MAX_LENGTH + 1];
    size_t nibbles = 1; /* the terminating 0 */
    size_t position = 0;
    size_t i, needed;
    int status = nc_signature_canonical(text, length, canonical, sizeof canonical, &length);

    if (status != NC_OK) {
        *count = length;
        return status;
    }
    if ((flags & ~(uintptr_t)NC_PACKED_FLAGS_ALL) != 0) {
        *count = 0;
        return NC_E_RANGE;
    }
    for (i = 0; i < length; i++) {
        nibbles += canonical[i] == ':' ? 0U : nc_packed_symbol(canonical[i]) >= 0xC0 ? 2U : 1U;
    }
    needed = nc_packed_words(nibbles);
    *count = needed;
    if (needed > capacity) {
        return NC_E_RANGE;
    }
    words[0] = NC_PACKED_START | NC_PACKED_FLAGS(flags);
    for (i = 1; i < needed; i++) {
        words[i] = NC_PACKED_CONTINUATION;
    }
    for (i = 0; i < length; i++) {
        const unsigned symbol = nc_packed_symbol(canonical[i]);
        unsigned shift;
        size_t word;
        if (symbol != 0) {
            word = nc_packed_locate(position++, &shift);
            words[word] |= (uint64_t)(symbol >> 4) << shift;
        }
        if (symbol >= 0xC0) {
            word = nc_packed_locate(position++, &shift);
            words[word] |= (uint64_t)(symbol & 0xF) << shift;
        }
    }
    return NC_OK;
}

/* Unpack words into flags and the NUL-terminated canonical text. This is the exact inverse of
 * packing. Return NC_E_FORMAT for words that packing never produces on this platform.
 *
 * NC_OK: *written is the length without the zero byte. NC_E_RANGE: `size` is too small; *written is
 * the length needed. `flags` may be NULL, and `out` may be NULL if `size` is 0. After a failure the
 * contents of `out` are undefined. */
NC_STATIC int nc_signature_unpack(const uint64_t *words, size_t count, char *out, size_t size,
                                  size_t *written, uintptr_t *flags)
{
    static const char common[] = NC_PACKED_COMMON;
    static const char rare[] = NC_PACKED_RARE;
    char text[NC_SIGNATURE_MAX_LENGTH];
    NcSignatureReader reader;
    size_t length = 0, position = 0, nibbles;

    if (count % 2 == 0 || count > NC_PACKED_MAX_WORDS) {
        return NC_E_FORMAT;
    }
    nibbles = NC_PACKED_FIRST_NIBBLES + (count - 1) * NC_PACKED_NEXT_NIBBLES;
    for (;;) {
        char c;
        if (position == nibbles) {
            return NC_E_FORMAT;
        }
        unsigned code = nc_packed_nibble(words, position++);
        if (code == 0) {
            break;
        }
        if (code < 12) {
            c = common[code - 1];
        } else {
            if (position == nibbles) {
                return NC_E_FORMAT;
            }
            code = (code - 12) * 16 + nc_packed_nibble(words, position++);
            if (code >= sizeof rare - 1) {
                return NC_E_FORMAT;
            }
            c = rare[code];
        }
        if (length == sizeof text) {
            return NC_E_FORMAT;
        }
        text[length++] = c;
    }
    /* The last nibble read was the terminating 0. */
    if (!nc_packed_ends(words, count, position - 1) ||
        nc_reader_run(&reader, text, length, out, size, NC_READ_PACKED) != NC_OK ||
        reader.written > NC_SIGNATURE_MAX_LENGTH) {
        return NC_E_FORMAT;
    }
    *written = reader.written;
    if (reader.written >= size || out == NULL) {
        return NC_E_RANGE;
    }
    out[reader.written] = '\0';
    if (flags != NULL) {
        *flags = nc_packed_flags(words[0]);
    }
    return NC_OK;
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* The cell of a function pointer: always 8 bytes, the pointer first, zero-padded. */
typedef union {
    void *funcptr;
    uint64_t cell;
} NcPackedFunction;

/* An entry with a one-word signature, for tables written as C literals:
 *     static const NcPackedEntry table[] = {{NATIVECALL_SIG("d:d"), {(void *)cube}}, {0, {NULL}}};
 *     ... nc_packed_find(&table[0].signature, ...) */
typedef struct {
    uint64_t signature; /* with flags; 0 ends the table */
    NcPackedFunction function;
} NcPackedEntry;

/* Store a word that readers load with nc_packed_load. On 32-bit machines, store the half with the
 * marks (bits 60 to 63) last. */
NC_STATIC_INLINE void nc_packed_store(uint64_t *word, uint64_t value)
{
#if UINTPTR_MAX == 0xFFFFFFFF
    uintptr_t *halves = (uintptr_t *)(void *)word;
    const int high = nc_packed_high();
    nc_store_relaxed_uintptr(halves + !high, (uintptr_t)value);
    nc_store_release_uintptr(halves + high, (uintptr_t)(value >> 32));
#else
    nc_store_release_uintptr(word, value);
#endif
}

/* Return the number of words of an entry's signature; 0 at the end of the table. So
 *     for (e = table; (n = nc_packed_count(e)) != 0; e += n + 1) ...
 * iterates over all entries. */
NC_STATIC_INLINE size_t nc_packed_count(const uint64_t *entry)
{
    size_t count = 1;

    if (nc_packed_load(entry) == 0) {
        return 0;
    }
    while (nc_packed_load(entry + count + 1) >> 60 == NC_PACKED_CONTINUATION >> 60) {
        count += 2;
    }
    return count;
}

/* Write an entry over the 0 that terminates a table. Other threads may read the table meanwhile,
 * but write the first entry before the table is published: readers compare it with a plain load.
 * After `end`, `count + 1` words must belong to the table and be zero. The last of these words
 * becomes the terminator. */
NC_STATIC void nc_packed_put(uint64_t *end, const uint64_t *words, size_t count, void *funcptr)
{
    for (size_t i = 1; i < count; i++) {
        end[i] = words[i];
    }
    nc_store_relaxed_ptr(end + count, funcptr);
    nc_packed_store(end, words[0]);
}

/* Replace the function of an entry whose signature has `count` words. */
NC_STATIC_INLINE void nc_packed_replace(uint64_t *entry, size_t count, void *funcptr)
{
    nc_store_release_ptr(entry + count, funcptr);
}

NC_C_END

#endif
