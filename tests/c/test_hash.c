/* hash.h: an implementation written from the text, and quality. Its vectors are nativecall/abi's.
 * Argument: how many strings the collision test makes (default 1000000). */
#include "nativecall/detail/core/hash.h"

#include "check.h"

/* The definition, byte by byte. */
static uint64_t by_definition(const unsigned char *bytes, size_t length)
{
    uint64_t h = UINT64_C(0x9E3779B97F4A7C15) + length * UINT64_C(0xBF58476D1CE4E5B9);
    size_t i;
    int j;

    for (i = 0; i < length; i += 8) {
        uint64_t w = 0;
        for (j = 0; j < 8; j++) {
            w += (i + (size_t)j < length ? (uint64_t)bytes[i + (size_t)j] : 0) << 8 * j;
        }
        w = w * UINT64_C(0xBF58476D1CE4E5B9);
        w = w ^ (w >> 32);
        h = (h ^ w) * UINT64_C(0x94D049BB133111EB);
        h = h ^ (h >> 29);
    }
    h = h * UINT64_C(0xD6E8FEB86659FD93);
    return h ^ (h >> 32);
}

/* Every length, at every alignment, from memory of exactly that size: sanitizers see any byte too
 * many. */
static void test_definition(void)
{
    uint64_t state = 1;
    size_t length, offset, i;

    CHECK(nc_hash_bytes(NULL, 0) == nc_hash_bytes("", 0));
    for (length = 0; length <= 70; length++) {
        for (offset = 0; offset < 8; offset++) {
            unsigned char *memory = (unsigned char *)malloc(offset + length + (length == 0));
            CHECK(memory != NULL);
            for (i = 0; i < length; i++) {
                memory[offset + i] = (unsigned char)check_random(&state);
            }
            CHECK(nc_hash_bytes(memory + offset, length) == by_definition(memory + offset, length));
            free(memory);
        }
    }
}

/* A flipped input bit flips every output bit half of the time. */
static void test_avalanche(void)
{
    enum { SAMPLES = 2048, LENGTHS = 5 };
    static const size_t lengths[LENGTHS] = {4, 8, 12, 17, 24};
    static const char letters[] = "dfiqbhPOZ&:?.lIcnQT{}";
    uint64_t state = 2;
    size_t l, bit, sample, i;
    int out;

    for (l = 0; l < LENGTHS; l++) {
        for (bit = 0; bit < 8 * lengths[l]; bit++) {
            unsigned flips[64] = {0};
            for (sample = 0; sample < SAMPLES; sample++) {
                unsigned char text[24];
                uint64_t change;
                for (i = 0; i < lengths[l]; i++) {
                    text[i] = (unsigned char)letters[check_random(&state) % (sizeof letters - 1)];
                }
                change = nc_hash_bytes(text, lengths[l]);
                text[bit / 8] ^= (unsigned char)(1u << bit % 8);
                change ^= nc_hash_bytes(text, lengths[l]);
                for (out = 0; out < 64; out++) {
                    flips[out] += (unsigned)(change >> out & 1);
                }
            }
            for (out = 0; out < 64; out++) {
                /* Six and a half standard deviations either way. */
                CHECK(flips[out] > SAMPLES / 2 - 150 && flips[out] < SAMPLES / 2 + 150);
            }
        }
    }
}

static int compare(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left;
    uint64_t b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* Short strings as signatures are: counting in base 19, hence all different. No two hashes are
 * equal, and their low 32 bits collide no more often than chance has it. */
static void test_collisions(size_t count)
{
    static const char letters[] = "dfiqbhPOZ&:?.lIcnQg";
    uint64_t *hashes = (uint64_t *)malloc(count * sizeof *hashes);
    size_t i, k, low = 0;
    double expected = (double)count * (double)count / 2 / 4294967296.0;

    CHECK(hashes != NULL);
    for (k = 0; k < 3; k++) {
        /* The varying part at the start, in the middle and at the end of a longer signature. */
        static const char *const before[] = {"", "d:dddd", "i:&d&dPPqq(3,4)d"};
        static const char *const after[] = {"", "&f&f", ""};
        low = 0;
        for (i = 0; i < count; i++) {
            char text[64];
            size_t length = strlen(before[k]);
            size_t n = i;
            memcpy(text, before[k], length);
            do {
                text[length++] = letters[n % 19];
                n = n / 19;
            } while (n-- != 0);
            memcpy(text + length, after[k], strlen(after[k]));
            hashes[i] = nc_hash_bytes(text, length + strlen(after[k]));
        }
        qsort(hashes, count, sizeof *hashes, compare);
        for (i = 1; i < count; i++) {
            if (hashes[i] == hashes[i - 1]) {
                CHECK(!"two strings have one hash");
            }
        }
        for (i = 0; i < count; i++) {
            hashes[i] &= 0xFFFFFFFF;
        }
        qsort(hashes, count, sizeof *hashes, compare);
        for (i = 1; i < count; i++) {
            low += hashes[i] == hashes[i - 1];
        }
        CHECK((double)low < expected * 1.5 + 10);
    }
    printf("hash: %zu strings three times, no collision; %zu in the low 32 bits (%.0f by chance)\n",
           count, low, expected);
    free(hashes);
}

int main(int argc, char **argv)
{
    test_definition();
    test_avalanche();
    test_collisions(check_argument(argc, argv, 1000000));
    return check_report("hash");
}
