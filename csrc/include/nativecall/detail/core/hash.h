/* nativecall/detail/core/hash.h: computes the 64-bit pre-hash of a byte string. The algorithm is
 * frozen.
 *
 * Idea:       SEP 200 requires "a pre-hash of each key, with 64 bits of entropy". Copies of this
 *             header in different projects must compute the same hash, so it is fully specified
 *             here.
 *
 * Definition: all arithmetic is on unsigned 64-bit integers, modulo 2^64; `>>` shifts in zeros.
 *
 *     K0 = 0x9E3779B97F4A7C15    K1 = 0xBF58476D1CE4E5B9
 *     K2 = 0x94D049BB133111EB    K3 = 0xD6E8FEB86659FD93
 *
 *     h = K0 + length * K1                       length in bytes
 *     for each group of 8 bytes (the last one zero-padded; none for an empty string):
 *         w = the group as a little-endian integer
 *         w = w * K1;  w = w xor (w >> 32)
 *         h = (h xor w) * K2;  h = h xor (h >> 29)
 *     h = h * K3;  h = h xor (h >> 32)
 *     the hash is h
 *
 *     Every step is a bijection of h for a given w, and of w for a given h. So strings of equal
 *     length that differ in only one group never collide. Strings up to 8 bytes have at most one
 *     group. The length distinguishes "a" from "a\0".
 *
 * Vectors:    ""                      0x4D0A2BBE78B92AB1
 *             "\0" (1 byte)           0x821100A06E6EBC0A
 *             "d"                     0xB2D9B1C138676A5D
 *             "d:d"                   0x28FD3372F22751DE
 *             "i:d&f"                 0x94F3044AF0811F3B
 *             "01234567"              0xF621B8DBC86FB136
 *             "012345678"             0x5959759F7C594DFC
 *             "double (double)"       0x11B03DED7EEEBAC1
 *             bytes 0, 1, 2 to 255    0x3BEFCA68820DAA51
 *
 * Errors:     none. Threads: pure functions. Ownership: nothing is kept.
 * Source:     SEP 200, "Technical overview". The constants are odd and come from known integer
 *             mixers: the golden ratio, two constants of Stafford's mixer 13, and one of degski's
 *             mixer. */
#ifndef NATIVECALL_HASH_H
#define NATIVECALL_HASH_H

#include <string.h>

#include "base.h"

NC_C_BEGIN

#define NC_HASH_K0 UINT64_C(0x9E3779B97F4A7C15)
#define NC_HASH_K1 UINT64_C(0xBF58476D1CE4E5B9)
#define NC_HASH_K2 UINT64_C(0x94D049BB133111EB)
#define NC_HASH_K3 UINT64_C(0xD6E8FEB86659FD93)

/* Return the 8 bytes at `bytes` as a little-endian integer. Compiles to one load (and a swap). */
NC_STATIC_INLINE uint64_t nc_word_load(const unsigned char *bytes)
{
#if defined(__BYTE_ORDER__) && defined(__ORDER_BIG_ENDIAN__) &&                                    \
    __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    uint64_t word = 0;
    for (int i = 7; i >= 0; i--) {
        word = (word << 8) | bytes[i];
    }
    return word;
#else
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    return word;
#endif
}

/* Return the `length` bytes (1 to 7) at `bytes` as a little-endian integer. A byte that is read
 * twice lands in the same position both times. Reads nothing outside the string. */
NC_STATIC_INLINE uint64_t nc_word_load_short(const unsigned char *bytes, size_t length)
{
    if (length >= 4) {
        const unsigned char *last = bytes + length - 4;
        uint64_t low = (uint64_t)bytes[0] | (uint64_t)bytes[1] << 8 | (uint64_t)bytes[2] << 16 |
                       (uint64_t)bytes[3] << 24;
        uint64_t high = (uint64_t)last[0] | (uint64_t)last[1] << 8 | (uint64_t)last[2] << 16 |
                        (uint64_t)last[3] << 24;
        return low | high << (8 * (length - 4));
    }
    return (uint64_t)bytes[0] | (uint64_t)bytes[length / 2] << (8 * (length / 2)) |
           (uint64_t)bytes[length - 1] << (8 * (length - 1));
}

NC_STATIC_INLINE uint64_t nc_hash_word(uint64_t hash, uint64_t word)
{
    word *= NC_HASH_K1;
    word ^= word >> 32;
    hash = (hash ^ word) * NC_HASH_K2;
    return hash ^ hash >> 29;
}

/* `data` may be NULL when `length` is 0. */
NC_STATIC_INLINE uint64_t nc_hash_bytes(const void *data, size_t length)
{
    const unsigned char *bytes = (const unsigned char *)data;
    uint64_t hash = NC_HASH_K0 + (uint64_t)length * NC_HASH_K1;
    size_t left = length;

    for (; left >= 8; left -= 8, bytes += 8) {
        hash = nc_hash_word(hash, nc_word_load(bytes));
    }
    if (left != 0) {
        hash = nc_hash_word(hash, nc_word_load_short(bytes, left));
    }
    hash *= NC_HASH_K3;
    return hash ^ hash >> 32;
}

NC_C_END

#endif
