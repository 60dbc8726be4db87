/* csrc/platform/stub_sizes.h: defines which platforms have stubs (stub.h), and the sizes of stubs.
 * Included from C and assembler. */
#pragma once

/* Whether the core has machine code for this processor and ABI: stubs, and calls in both directions
 * (call/invoke.h, call/entry.h). */
#if defined(__GNUC__) && (defined(__LP64__) || defined(_WIN64)) &&                                 \
    (defined(__x86_64__) || (defined(__aarch64__) && defined(__AARCH64EL__) && !defined(_WIN32)))
#define NC_HAS_MACHINE_CODE 1
#else
#define NC_HAS_MACHINE_CODE 0
#endif

#define NC_STUB_REGION 65536
#if defined(__aarch64__)
#define NC_STUB_BYTES 32
#define NC_STUB_PAGE_BITS 16 /* suits pages of 4, 16 and 64 KiB */
#else
#define NC_STUB_BYTES 16
#define NC_STUB_PAGE_BITS 12
#endif
