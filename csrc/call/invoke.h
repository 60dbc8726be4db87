/* csrc/call/invoke.h: nc_invoke, the one routine that calls C functions of any signature.
 *
 * The routine loads all argument registers from a block, copies the block's further words to the
 * stack, calls the function, and stores all result registers in the block. Each processor's
 * abi_*.S documents the layout of its block, as does the file of its ABI in nativecall/_plan/.
 *
 * The number of words is even, because the stack pointer must be a multiple of 16 at a call.
 *
 * The routine has a frame pointer and unwind tables, so C++ exceptions, debuggers and profilers can
 * walk through it. It pushes the stack words from the last to the first, so it touches the pages of
 * the stack in order.
 *
 * `how`: bits 0 to 7 are not 0 if vector registers hold arguments (on x86-64, their number). Bits 8
 * and 9 on x86-64: the number of long doubles returned. Bit 8 on 64-bit ARM: whether vector
 * registers hold 16-byte arguments. */
#ifndef NC_INVOKE_H
#define NC_INVOKE_H

#include "platform/stub_sizes.h"

#include <stdint.h>

#if NC_HAS_MACHINE_CODE
#if defined(__APPLE__)
#define NC_INVOKE_NAME "_nc_invoke"
#else
#define NC_INVOKE_NAME "nc_invoke"
#endif
void nc_invoke(void *block, const void *function, uint32_t words, uint32_t how);
/* The same routine, with the result taken from its register. */
double nc_invoke_double(void *block, const void *function, uint32_t words,
                        uint32_t how) __asm__(NC_INVOKE_NAME);
uint64_t nc_invoke_word(void *block, const void *function, uint32_t words,
                        uint32_t how) __asm__(NC_INVOKE_NAME);
#endif

#endif
