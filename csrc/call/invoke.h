/* csrc/call/invoke.h: nc_invoke, the one routine that calls C functions of any signature.
 *
 * The routine loads all argument registers from a block, copies the block's further words to the
 * stack, calls the function, and stores all result registers in the block. The layout of the block
 * is documented in the processor's abi_*.S, and in the ABI's file in nativecall/_plan/.
 *
 * `words` is the number of words to copy to the stack. It is even, because the stack pointer must
 * be a multiple of 16 at a call.
 *
 * The routine has a frame pointer and unwind tables, so C++ exceptions, debuggers and profilers can
 * walk through it. It pushes the stack words from the last to the first, so it touches the pages of
 * the stack in order.
 *
 * Bits 0 to 7 of `how` are nonzero if vector registers hold arguments. On x86-64 they are the
 * number of these registers, and bits 8 and 9 are the number of long doubles returned. On 64-bit
 * ARM, bit 8 is set if vector registers hold 16-byte arguments. */
#pragma once

#include "platform/stub_sizes.h"

#include <stdint.h>

#if defined(__APPLE__)
#define NC_INVOKE_NAME "_nc_invoke"
#else
#define NC_INVOKE_NAME "nc_invoke"
#endif
void nc_invoke(void *block, const void *function, uint32_t words, uint32_t how);
/* The same routine, declared to return the result register. */
double nc_invoke_double(void *block, const void *function, uint32_t words,
                        uint32_t how) __asm__(NC_INVOKE_NAME);
uint64_t nc_invoke_word(void *block, const void *function, uint32_t words,
                        uint32_t how) __asm__(NC_INVOKE_NAME);
