/* nativecall/detail/core/base.h: status codes, atomic operations and scalar codes for detail/core.
 *
 * Idea:       this file and compiler.h contain most of the code that depends on the compiler.
 * Invariants: a function that can fail returns NC_OK or a negative NC_E_* below. Trailing
 *             out-parameters receive its results. Unless documented otherwise, a function that
 *             fails does not write to them.
 * Threads:    each atomic helper accesses one naturally aligned word through a may_alias type. The
 *             helpers take `void *`, so that callers need no casts. The object must have the type
 *             that the helper's name indicates: a pointer, size_t, intptr_t or uintptr_t.
 * Portable:   C99, C11, C++11; GCC, Clang (the __atomic builtins) and MSVC (Interlocked and
 *             volatile). */
#ifndef NATIVECALL_BASE_H
#define NATIVECALL_BASE_H

#include <float.h>
#include <limits.h>

#include "compiler.h"

NC_C_BEGIN

/* ---- status ---------------------------------------------------------------------------------- */

enum {
    NC_OK = 0,
    NC_E_NOMEM = -1,     /* memory is exhausted */
    NC_E_DUPLICATE = -2, /* the same key twice */
    NC_E_RANGE = -3,     /* a number, position or count out of range */
    NC_E_TOOLONG = -4,   /* a string longer than the limit */
    NC_E_FORMAT = -5,    /* malformed text or data */
    NC_E_MISSING = -6,   /* no such key */
    NC_E_VERSION = -7,   /* from an incompatible version */
    NC_E_GIL = -8        /* needs the GIL */
};

/* Return a short static description, never NULL. */
NC_STATIC const char *nc_status_text(int status)
{
    static const char *const texts[] = {
        "success",
        "out of memory",
        "duplicate key",
        "value out of range",
        "string too long",
        "malformed input",
        "no such key",
        "incompatible version",
        "the GIL is not held",
    };
    return status <= NC_OK && status >= NC_E_GIL ? texts[-status] : "unknown status";
}

/* ---- signatures ------------------------------------------------------------------------------ */

/* Return the canonical code of a scalar code with platform-dependent width ("clLnNg"). Other
 * characters are returned unchanged. */
NC_STATIC_INLINE char nc_scalar_spelt(char code)
{
    switch (code) {
    case 'c':
        return CHAR_MIN < 0 ? 'b' : 'B';
    case 'l':
        return sizeof(long) == 8 ? 'q' : 'i';
    case 'L':
        return sizeof(long) == 8 ? 'Q' : 'I';
    case 'n':
        return sizeof(void *) == 8 ? 'q' : 'i';
    case 'N':
        return sizeof(void *) == 8 ? 'Q' : 'I';
    case 'g':
        return LDBL_MANT_DIG == DBL_MANT_DIG ? 'd' : 'g';
    default:
        return code;
    }
}

/* ---- atomic words ---------------------------------------------------------------------------- */

#if defined(NC_MSVC) /* a volatile access; on ARM, use /volatile:ms (NC_ABI_LOAD) */
#define NC_ATOMIC_LOAD(type, at, order) (*(type const volatile *)(at))
#define NC_ATOMIC_STORE(type, at, value, order) ((void)(*(type volatile *)(at) = (value)))
#else
#define NC_ATOMIC_LOAD(type, at, order) __atomic_load_n((type const *)(at), order)
#define NC_ATOMIC_STORE(type, at, value, order) __atomic_store_n((type *)(at), value, order)
#endif

#define NC_DEFINE_ATOMIC(kind, type, value_type)                                                   \
    typedef type NC_MAY_ALIAS nc_atomic_##kind;                                                    \
    NC_STATIC_INLINE type nc_load_relaxed_##kind(const void *address)                              \
    {                                                                                              \
        return NC_ATOMIC_LOAD(nc_atomic_##kind, address, __ATOMIC_RELAXED);                        \
    }                                                                                              \
    NC_STATIC_INLINE type nc_load_acquire_##kind(const void *address)                              \
    {                                                                                              \
        return NC_ATOMIC_LOAD(nc_atomic_##kind, address, __ATOMIC_ACQUIRE);                        \
    }                                                                                              \
    NC_STATIC_INLINE void nc_store_relaxed_##kind(void *address, value_type value)                 \
    {                                                                                              \
        NC_ATOMIC_STORE(nc_atomic_##kind, address, (type)(uintptr_t)value, __ATOMIC_RELAXED);      \
    }                                                                                              \
    NC_STATIC_INLINE void nc_store_release_##kind(void *address, value_type value)                 \
    {                                                                                              \
        NC_ATOMIC_STORE(nc_atomic_##kind, address, (type)(uintptr_t)value, __ATOMIC_RELEASE);      \
    }

typedef void *NcAnyPointer;

/* nc_load_relaxed_ptr, nc_load_acquire_ptr, nc_store_relaxed_ptr and so on. */
NC_DEFINE_ATOMIC(ptr, NcAnyPointer, const void *)
NC_DEFINE_ATOMIC(size, size_t, size_t)
NC_DEFINE_ATOMIC(intptr, intptr_t, intptr_t)
NC_DEFINE_ATOMIC(uintptr, uintptr_t, uintptr_t)

/* Replace the pointer at `address` if it equals `old`. Return 1 if replaced, else 0. */
NC_STATIC_INLINE int nc_exchange_ptr(void *address, void *old, void *value)
{
#if defined(NC_MSVC)
    return _InterlockedCompareExchangePointer((void *volatile *)address, value, old) == old;
#else
    return __atomic_compare_exchange_n((nc_atomic_ptr *)address, &old, value, 0, __ATOMIC_ACQ_REL,
                                       __ATOMIC_ACQUIRE);
#endif
}

#undef NC_DEFINE_ATOMIC
#undef NC_ATOMIC_LOAD
#undef NC_ATOMIC_STORE

NC_C_END

#endif
