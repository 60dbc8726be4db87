/* csrc/call/invoke.h: nc_invoke, the one routine that calls C functions of every signature.
 *
 * It loads all registers of arguments from a block, copies the words behind that to the stack,
 * calls, and stores all registers of results into the block. What is where in a block is said by
 * the file of each processor, abi_*.S, and in nativecall/_plan/, in the file of its ABI.
 *
 * The words are an even number: calls are made at a multiple of 16 bytes.
 *
 * The routine has a frame pointer and unwind tables: C++ exceptions, debuggers and profilers walk
 * through it. The stack is written from its end down, so that each page of it is touched in turn.
 *
 * `how`: bits 0 to 7 are not 0 where vector registers have arguments (on x86-64 their number); bits
 * 8 and 9 how many long doubles are the result on x86-64; bit 8 whether vector registers have 16
 * bytes of arguments on 64-bit ARM. */
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
/* The same, whose result is still where C expects it. */
double nc_invoke_double(void *block, const void *function, uint32_t words,
                        uint32_t how) __asm__(NC_INVOKE_NAME);
uint64_t nc_invoke_word(void *block, const void *function, uint32_t words,
                        uint32_t how) __asm__(NC_INVOKE_NAME);
#endif

#endif
