/* nativecall/detail/core/compiler.h: compiler-specific linkage, hints and loads. All other headers
 * except nativecall_abi.h build on this one. This header includes nativecall_abi.h, but without the
 * parts that need Python. */
#ifndef NATIVECALL_COMPILER_H
#define NATIVECALL_COMPILER_H

#define NC_WITHOUT_PYTHON
#include "../../nativecall_abi.h"
#undef NC_WITHOUT_PYTHON

#if defined(_MSC_VER) && !defined(__clang__)
#include <intrin.h>
#define NC_MSVC 1
#endif

/* NC_LOAD_RELAXED: NC_ABI_LOAD without ordering. Use it only for numbers that are not addresses.
 * NC_HOT_INLINE: always inlined, for lookups of a dozen instructions.
 * NC_NOINLINE: the slow path of an inline function, kept out of its callers.
 * NC_COLD: as NC_NOINLINE; the compiler also moves the call out of the hot path.
 * NC_OPAQUE: for functions that write a value whose type is known only at run time. If GCC saw a
 * caller's destination, it would warn about the branches that write wider types. */
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

/* NC_C_BEGIN and NC_C_END enclose declarations with C linkage. */
#ifdef __cplusplus
#define NC_C_BEGIN extern "C" {
#define NC_C_END }
#else
#define NC_C_BEGIN
#define NC_C_END
#endif

/* MSVC passes __VA_ARGS__ to another macro as one argument. NC_EXPAND makes MSVC scan the text
 * again. */
#define NC_EXPAND(text) text
#define NC_PASTE_(a, b) a##b
#define NC_PASTE(a, b) NC_PASTE_(a, b)
/* The number of arguments, 1 to 8. */
#define NC_COUNT_(a, b, c, d, e, f, g, h, n, ...) n
#define NC_COUNT(...) NC_EXPAND(NC_COUNT_(__VA_ARGS__, 8, 7, 6, 5, 4, 3, 2, 1, ~))

/* Functions are static, so copies of a header in several objects never clash at link time. */
#define NC_STATIC NC_UNUSED static
#define NC_STATIC_INLINE NC_UNUSED static inline
#endif
