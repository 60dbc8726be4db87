/* csrc/native_objects/atomic.h: one operation on a number of 1, 2, 4 or 8 bytes that other threads
 * operate on meanwhile. Each is ordered with all others (sequentially consistent), as C's are by
 * default.
 *
 * `place` is aligned to `size`; what the other pointers lead to is this thread's own, of any
 * type and alignment. No GIL. */
#ifndef NC_ATOMIC_H
#define NC_ATOMIC_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Does the statements OPERATION(type) for the unsigned integer of a size. */
#define NC_OF_SIZE(size, OPERATION)                                                                \
    switch (size) {                                                                                \
    case 1: {                                                                                      \
        OPERATION(uint8_t)                                                                         \
        break;                                                                                     \
    }                                                                                              \
    case 2: {                                                                                      \
        OPERATION(uint16_t)                                                                        \
        break;                                                                                     \
    }                                                                                              \
    case 4: {                                                                                      \
        OPERATION(uint32_t)                                                                        \
        break;                                                                                     \
    }                                                                                              \
    default: {                                                                                     \
        OPERATION(uint64_t)                                                                        \
    }                                                                                              \
    }

static inline void nc_atomic_load(size_t size, const void *place, void *out)
{
#define LOAD(type)                                                                                 \
    const type found = __atomic_load_n((const type *)place, __ATOMIC_SEQ_CST);                     \
    memcpy(out, &found, sizeof found);
    NC_OF_SIZE(size, LOAD)
#undef LOAD
}

/* What it was goes to `old`; a sum that does not fit wraps around. */
static inline void nc_atomic_add(size_t size, void *place, const void *added, void *old)
{
#define ADD(type)                                                                                  \
    type given;                                                                                    \
    memcpy(&given, added, sizeof given);                                                           \
    given = __atomic_fetch_add((type *)place, given, __ATOMIC_SEQ_CST);                            \
    memcpy(old, &given, sizeof given);
    NC_OF_SIZE(size, ADD)
#undef ADD
}

/* What it was goes to `old`. */
static inline void nc_atomic_exchange(size_t size, void *place, const void *value, void *old)
{
#define EXCHANGE(type)                                                                             \
    type given;                                                                                    \
    memcpy(&given, value, sizeof given);                                                           \
    given = __atomic_exchange_n((type *)place, given, __ATOMIC_SEQ_CST);                           \
    memcpy(old, &given, sizeof given);
    NC_OF_SIZE(size, EXCHANGE)
#undef EXCHANGE
}

/* 1 if all its bytes were as those of `expected`, and now are as those of `desired`; else 0. */
static inline int nc_atomic_compare_exchange(size_t size, void *place, const void *expected,
                                             const void *desired)
{
    int done;
#define COMPARE(type)                                                                              \
    type was, given;                                                                               \
    memcpy(&was, expected, sizeof was);                                                            \
    memcpy(&given, desired, sizeof given);                                                         \
    done = __atomic_compare_exchange_n((type *)place, &was, given, 0, __ATOMIC_SEQ_CST,            \
                                       __ATOMIC_SEQ_CST);
    NC_OF_SIZE(size, COMPARE)
#undef COMPARE
    return done;
}

#endif
