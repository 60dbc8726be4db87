/* tests/c/layout.h: the structs and constants of docs/abi/ as assertions of the compiler.
 *
 * One line for each field and value, which tests/core/test_abi.py takes from the documents. A header
 * that moves a field, or gives it another type, does not compile. Also C99. */
#ifndef NATIVECALL_TESTS_LAYOUT_H
#define NATIVECALL_TESTS_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#define LAYOUT_PASTE_(a, b) a##b
#define LAYOUT_PASTE(a, b) LAYOUT_PASTE_(a, b)
#define LAYOUT_ASSERT(condition)                                                                   \
    typedef char LAYOUT_PASTE(layout_of_line_, __LINE__)[(condition) ? 1 : -1]

#define LAYOUT_SIZE(structure, size) LAYOUT_ASSERT(sizeof(structure) == (size))
/* The type comes last, because it may have commas in it. */
#define LAYOUT_FIELD(structure, field, offset, ...)                                                \
    LAYOUT_ASSERT(                                                                                 \
        offsetof(structure, field) == (offset) &&                                                  \
        __builtin_types_compatible_p(__typeof__(((structure *)NULL)->field), __VA_ARGS__))
#define LAYOUT_VALUE(name, value) LAYOUT_ASSERT((name) == (value))

#endif
