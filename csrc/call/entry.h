/* csrc/call/entry.h: two assembly routines that receive calls from C with any signature. nc_entry
 * calls a Python function. nc_conversion calls a C function of another signature.
 *
 * A stub (platform/stub.h) jumps to one of them with the address of its slot in a register. The
 * routine saves all argument registers in a block that ends where the caller's stack arguments
 * begin. It calls nc_enter or nc_convert, loads all result registers, and returns. The layout of
 * the block is that of nc_invoke (invoke.h). The routines have a frame pointer and unwind
 * tables. */
#pragma once

#include "platform/stub.h"
#include "platform/stub_sizes.h"

#include <stdint.h>

/* The `code` of a stub's slot is one of these routines. The `context` is an NcPyCallback for
 * nc_entry, and a Thunk for nc_conversion. */
void nc_entry(void);
void nc_conversion(void);

/* Runs a callback's function with the arguments in the block, and stores the result in the block.
 * Returns the number of long doubles in x87 registers. */
uint32_t nc_enter(NcStubSlot *slot, char *block);
/* Calls the function of a Thunk through the Thunk's conversion. Does not need the GIL. Returns the
 * number of long doubles in x87 registers. */
uint32_t nc_convert(NcStubSlot *slot, char *block);
