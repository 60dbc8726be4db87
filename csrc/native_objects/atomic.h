/* csrc/native_objects/atomic.h: single atomic operations on numbers of 1, 2, 4 or 8 bytes that
 * other threads access. All are sequentially consistent, the default in C11.
 *
 * `place` is aligned to `size`. The other pointers point to this thread's own memory, of any type
 * and alignment. No operation needs the GIL. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Expands OPERATION(type) with the unsigned integer type of `size` bytes. */
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

/* Expands to OPERATION of GCC on `place` and the number at `given`; stores the previous value in
 * `old`. */
#define NC_ATOMIC_CHANGE(OPERATION, type)                                                          \
    type value;                                                                                    \
    memcpy(&value, given, sizeof value);                                                           \
    value = OPERATION((type *)place, value, __ATOMIC_SEQ_CST);                                     \
    memcpy(old, &value, sizeof value);

/* The sum wraps around. */
static inline void nc_atomic_add(size_t size, void *place, const void *given, void *old)
{
#define ADD(type) NC_ATOMIC_CHANGE(__atomic_fetch_add, type)
    NC_OF_SIZE(size, ADD)
#undef ADD
}

static inline void nc_atomic_exchange(size_t size, void *place, const void *given, void *old)
{
#define EXCHANGE(type) NC_ATOMIC_CHANGE(__atomic_exchange_n, type)
    NC_OF_SIZE(size, EXCHANGE)
#undef EXCHANGE
}

/* If the bytes at `place` equal those at `expected`, copies the bytes at `desired` to `place` and
 * returns 1. Otherwise returns 0. */
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
