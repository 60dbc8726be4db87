/* nativecall/detail/core/compiler.h: how this compiler spells linkage, hints and loads. All
 * headers stand on it but nativecall_abi.h, which it includes without Python. */
#ifndef NATIVECALL_COMPILER_H
#define NATIVECALL_COMPILER_H

#define NC_WITHOUT_PYTHON
#include "../../nativecall_abi.h"
#undef NC_WITHOUT_PYTHON

#if defined(_MSC_VER) && !defined(__clang__)
#include <intrin.h>
#define NC_MSVC 1
#endif

/* LOAD_RELAXED: as NC_ABI_LOAD, but in no order: for numbers that lead to no memory by themselves.
 * HOT_INLINE: whatever the compiler thinks of the size, for lookups of a dozen instructions.
 * NOINLINE: the rarer way of an inline function, which would bloat every place that calls it.
 * COLD: the same, and the call is moved out of the loop that it stands in.
 * OPAQUE: for functions that write a value of a type known at run time only: where GCC saw the
 * memory that it is for, it would warn of the branches for wider types. */
#if defined(NC_MSVC)
#define NC_LOAD_RELAXED(at) NC_ABI_LOAD(at)
#define NC_THREAD_LOCAL __declspec(thread)
#define NC_UNUSED
#define NC_MAY_ALIAS
#define NC_ASSUME(condition) __assume(condition)
#define NC_LIKELY(condition) (condition)
#define NC_UNLIKELY(condition) (condition)
#define NC_HOT_INLINE static __forceinline
#define NC_NOINLINE static __declspec(noinline)
#define NC_COLD NC_NOINLINE
#else
#define NC_LOAD_RELAXED(at) __atomic_load_n((void *const *)(const void *)(at), __ATOMIC_RELAXED)
#define NC_THREAD_LOCAL __thread
#define NC_UNUSED __attribute__((unused))
#define NC_MAY_ALIAS __attribute__((may_alias))
#define NC_ASSUME(condition) ((condition) ? (void)0 : __builtin_unreachable())
#define NC_LIKELY(condition) __builtin_expect(!!(condition), 1)
#define NC_UNLIKELY(condition) __builtin_expect(!!(condition), 0)
#define NC_HOT_INLINE __attribute__((unused, always_inline)) static inline
#define NC_NOINLINE __attribute__((unused, noinline)) static
#define NC_COLD __attribute__((unused, noinline, cold)) static
#endif
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 8
#define NC_OPAQUE __attribute__((noipa))
#else
#define NC_OPAQUE
#endif

/* Around what C++ is to link as C does. */
#ifdef __cplusplus
#define NC_C_BEGIN extern "C" {
#define NC_C_END }
#else
#define NC_C_BEGIN
#define NC_C_END
#endif

/* Macros of macros: MSVC takes __VA_ARGS__ for one argument until it is scanned again. */
#define NC_EXPAND(text) text
#define NC_PASTE_(a, b) a##b
#define NC_PASTE(a, b) NC_PASTE_(a, b)
/* How many arguments there are, 1 to 8. */
#define NC_COUNT_(a, b, c, d, e, f, g, h, n, ...) n
#define NC_COUNT(...) NC_EXPAND(NC_COUNT_(__VA_ARGS__, 8, 7, 6, 5, 4, 3, 2, 1, ~))

/* Everything is static: two copies of a header in one process never clash at link time. */
#define NC_STATIC NC_UNUSED static
#define NC_STATIC_INLINE NC_UNUSED static inline
#endif
