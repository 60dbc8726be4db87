/* nativecall/detail/core/base.h: what every other header of the pure C ground stands on.
 *
 * Idea:       one place for the few things that differ between compilers: linkage and branch
 *             hints, atomic access to words, and a mutex. The rest of the code never tests for a
 *             compiler.
 * Layout:     NC_ABI_VERSION is the version of every struct in nativecall/<name>.h. It changes
 *             when a field moves, never when a function is added.
 * Invariants: a function returns NC_OK or one of the negative NC_E_* below; results go to
 *             trailing out-pointers, which are left alone on failure unless the function says
 *             otherwise.
 * Threads:    the atomic helpers touch one naturally aligned word each. They take `void *` so
 *             that a caller need not cast, and access it as a type that may alias any other; the
 *             pointed-to object must be a pointer, size_t, intptr_t or uintptr_t as the name
 *             says.
 * Ownership:  nothing is allocated here.
 * Portable:   C99, C11, C++11; GCC, Clang (the __atomic builtins) and MSVC (Interlocked and
 *             volatile). */
#ifndef NATIVECALL_BASE_H
#define NATIVECALL_BASE_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <windows.h>
#else
#include <pthread.h>
#endif

#if defined(_MSC_VER) && !defined(__clang__)
#include <intrin.h>
#define NC_MSVC 1
#endif

#define NC_ABI_VERSION 1

#if defined(NC_MSVC)
#define NC_UNUSED
#define NC_MAY_ALIAS
#define NC_ASSUME(condition) __assume(condition)
#define NC_LIKELY(condition) (condition)
#define NC_UNLIKELY(condition) (condition)
#else
#define NC_UNUSED __attribute__((unused))
#define NC_ASSUME(condition) ((condition) ? (void)0 : __builtin_unreachable())
#define NC_MAY_ALIAS __attribute__((may_alias))
#define NC_LIKELY(condition) __builtin_expect(!!(condition), 1)
#define NC_UNLIKELY(condition) __builtin_expect(!!(condition), 0)
#endif

/* Everything is static: two copies of a header in one process never clash at link time. */
#define NC_STATIC NC_UNUSED static
#define NC_STATIC_INLINE NC_UNUSED static inline
/* HOT_INLINE: whatever the compiler thinks of the size, for lookups of a dozen instructions.
 * NOINLINE: the rarer way of an inline function, which would bloat every place that calls it.
 * COLD: the same, and the call is moved out of the loop that it stands in. */
#if defined(NC_MSVC)
#define NC_HOT_INLINE NC_UNUSED static __forceinline
#define NC_NOINLINE NC_UNUSED static __declspec(noinline)
#define NC_COLD NC_NOINLINE
#else
#define NC_HOT_INLINE __attribute__((unused, always_inline)) static inline
#define NC_NOINLINE __attribute__((unused, noinline)) static
#define NC_COLD __attribute__((unused, noinline, cold)) static
#endif
#if defined(NC_MSVC)
#define NC_THREAD_LOCAL __declspec(thread)
#else
#define NC_THREAD_LOCAL __thread
#endif
/* For functions that write a value of a type known at run time only: where GCC saw the memory that
 * it is for, it would warn of the branches for wider types. */
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 8
#define NC_OPAQUE __attribute__((noipa))
#else
#define NC_OPAQUE
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- status ---------------------------------------------------------------------------------- */

enum {
    NC_OK = 0,
    NC_E_NOMEM = -1,     /* memory is exhausted */
    NC_E_DUPLICATE = -2, /* the same key twice */
    NC_E_RANGE = -3,     /* a number, position or count outside what is allowed */
    NC_E_TOOLONG = -4,   /* a string longer than the limit */
    NC_E_FORMAT = -5,    /* malformed text or data */
    NC_E_MISSING = -6,   /* no such key */
    NC_E_VERSION = -7,   /* made by an incompatible version */
    NC_E_GIL = -8        /* only possible with the GIL held */
};

/* A short description, static, never NULL. */
NC_STATIC const char *nc_status_text(int status)
{
    switch (status) {
    case NC_OK:
        return "success";
    case NC_E_NOMEM:
        return "out of memory";
    case NC_E_DUPLICATE:
        return "duplicate key";
    case NC_E_RANGE:
        return "value out of range";
    case NC_E_TOOLONG:
        return "string too long";
    case NC_E_FORMAT:
        return "malformed input";
    case NC_E_MISSING:
        return "no such key";
    case NC_E_VERSION:
        return "incompatible version";
    case NC_E_GIL:
        return "the GIL is not held";
    default:
        return "unknown status";
    }
}

/* ---- atomic words ---------------------------------------------------------------------------- */

#if defined(NC_MSVC)

/* A volatile access is a plain load or store of an aligned word; x86 orders it as acquire or
 * release once the compiler may not move it, ARM needs a barrier. */
#if defined(_M_ARM) || defined(_M_ARM64)
#define NC_MSVC_BARRIER() __dmb(0xB)
#else
#define NC_MSVC_BARRIER() _ReadWriteBarrier()
#endif

#define NC_DEFINE_ATOMIC(kind, type, value_type)                                                   \
    NC_STATIC_INLINE type nc_load_relaxed_##kind(const void *address)                              \
    {                                                                                              \
        return *(type const volatile *)address;                                                    \
    }                                                                                              \
    NC_STATIC_INLINE type nc_load_acquire_##kind(const void *address)                              \
    {                                                                                              \
        type value = *(type const volatile *)address;                                              \
        NC_MSVC_BARRIER();                                                                         \
        return value;                                                                              \
    }                                                                                              \
    NC_STATIC_INLINE void nc_store_relaxed_##kind(void *address, value_type value)                 \
    {                                                                                              \
        *(type volatile *)address = (type)value;                                                   \
    }                                                                                              \
    NC_STATIC_INLINE void nc_store_release_##kind(void *address, value_type value)                 \
    {                                                                                              \
        NC_MSVC_BARRIER();                                                                         \
        *(type volatile *)address = (type)value;                                                   \
    }

#else

#define NC_DEFINE_ATOMIC(kind, type, value_type)                                                   \
    typedef type NC_MAY_ALIAS nc_atomic_##kind;                                                    \
    NC_STATIC_INLINE type nc_load_relaxed_##kind(const void *address)                              \
    {                                                                                              \
        return __atomic_load_n((const nc_atomic_##kind *)address, __ATOMIC_RELAXED);               \
    }                                                                                              \
    NC_STATIC_INLINE type nc_load_acquire_##kind(const void *address)                              \
    {                                                                                              \
        return __atomic_load_n((const nc_atomic_##kind *)address, __ATOMIC_ACQUIRE);               \
    }                                                                                              \
    NC_STATIC_INLINE void nc_store_relaxed_##kind(void *address, value_type value)                 \
    {                                                                                              \
        __atomic_store_n((nc_atomic_##kind *)address, (type)value, __ATOMIC_RELAXED);              \
    }                                                                                              \
    NC_STATIC_INLINE void nc_store_release_##kind(void *address, value_type value)                 \
    {                                                                                              \
        __atomic_store_n((nc_atomic_##kind *)address, (type)value, __ATOMIC_RELEASE);              \
    }

#endif

typedef void *NcAnyPointer;

/* nc_load_relaxed_ptr, nc_load_acquire_ptr, nc_store_relaxed_ptr, nc_store_release_ptr; and so on.
 */
NC_DEFINE_ATOMIC(ptr, NcAnyPointer, const void *)
NC_DEFINE_ATOMIC(size, size_t, size_t)
NC_DEFINE_ATOMIC(intptr, intptr_t, intptr_t)
NC_DEFINE_ATOMIC(uintptr, uintptr_t, uintptr_t)

#undef NC_DEFINE_ATOMIC

/* ---- mutex ----------------------------------------------------------------------------------- */

#if defined(_WIN32)

typedef SRWLOCK NcMutex;

NC_STATIC_INLINE int nc_mutex_init(NcMutex *mutex)
{
    InitializeSRWLock(mutex);
    return NC_OK;
}

NC_STATIC_INLINE void nc_mutex_destroy(NcMutex *mutex)
{
    (void)mutex;
}

NC_STATIC_INLINE void nc_mutex_lock(NcMutex *mutex)
{
    AcquireSRWLockExclusive(mutex);
}

NC_STATIC_INLINE void nc_mutex_unlock(NcMutex *mutex)
{
    ReleaseSRWLockExclusive(mutex);
}

#else

typedef pthread_mutex_t NcMutex;

NC_STATIC_INLINE int nc_mutex_init(NcMutex *mutex)
{
    return pthread_mutex_init(mutex, NULL) == 0 ? NC_OK : NC_E_NOMEM;
}

NC_STATIC_INLINE void nc_mutex_destroy(NcMutex *mutex)
{
    (void)pthread_mutex_destroy(mutex);
}

NC_STATIC_INLINE void nc_mutex_lock(NcMutex *mutex)
{
    (void)pthread_mutex_lock(mutex);
}

NC_STATIC_INLINE void nc_mutex_unlock(NcMutex *mutex)
{
    (void)pthread_mutex_unlock(mutex);
}

#endif

#ifdef __cplusplus
}
#endif

#endif
