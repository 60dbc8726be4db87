/* tests/c/numbered.h: 4096 functions that say which one they are: function n returns its argument
 * plus n. So a test sees which entry of a table it has called. */
#ifndef NATIVECALL_TESTS_NUMBERED_H
#define NATIVECALL_TESTS_NUMBERED_H

#include <stdint.h>

enum { NUMBERED_COUNT = 4096 };

typedef int64_t (*NumberedFunction)(int64_t argument, const void *unused);

/* clang-format off */
#define NUMBERED_16(with, n)                                                                       \
    with(n##0) with(n##1) with(n##2) with(n##3)                                                    \
    with(n##4) with(n##5) with(n##6) with(n##7)                                                    \
    with(n##8) with(n##9) with(n##a) with(n##b)                                                    \
    with(n##c) with(n##d) with(n##e) with(n##f)
#define NUMBERED_256(with, n)                                                                      \
    NUMBERED_16(with, n##0) NUMBERED_16(with, n##1) NUMBERED_16(with, n##2) NUMBERED_16(with, n##3)\
    NUMBERED_16(with, n##4) NUMBERED_16(with, n##5) NUMBERED_16(with, n##6) NUMBERED_16(with, n##7)\
    NUMBERED_16(with, n##8) NUMBERED_16(with, n##9) NUMBERED_16(with, n##a) NUMBERED_16(with, n##b)\
    NUMBERED_16(with, n##c) NUMBERED_16(with, n##d) NUMBERED_16(with, n##e) NUMBERED_16(with, n##f)
#define NUMBERED_4096(with)                                                                        \
    NUMBERED_256(with, 0) NUMBERED_256(with, 1) NUMBERED_256(with, 2) NUMBERED_256(with, 3)        \
    NUMBERED_256(with, 4) NUMBERED_256(with, 5) NUMBERED_256(with, 6) NUMBERED_256(with, 7)        \
    NUMBERED_256(with, 8) NUMBERED_256(with, 9) NUMBERED_256(with, a) NUMBERED_256(with, b)        \
    NUMBERED_256(with, c) NUMBERED_256(with, d) NUMBERED_256(with, e) NUMBERED_256(with, f)
/* clang-format on */

#define NUMBERED_DEFINE(number)                                                                    \
    static int64_t numbered_##number(int64_t argument, const void *unused)                         \
    {                                                                                              \
        (void)unused;                                                                              \
        return argument + 0x##number;                                                              \
    }
NUMBERED_4096(NUMBERED_DEFINE)

#define NUMBERED_NAME(number) numbered_##number,
static const NumberedFunction numbered[NUMBERED_COUNT] = {NUMBERED_4096(NUMBERED_NAME)};

#endif
