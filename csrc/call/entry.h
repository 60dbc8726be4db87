/* csrc/call/entry.h: two routines through which C code calls functions of any signature by plans.
 * nc_entry calls Python functions; nc_conversion calls C functions of other signatures.
 *
 * A stub (platform/stub.h) jumps to one of them with its slot in a register. The routine saves all
 * argument registers in a block that ends where the caller's stack arguments begin. It calls
 * nc_enter or nc_convert, loads all result registers, and returns. The layout of the block is that
 * of nc_invoke (invoke.h). The routines have a frame pointer and unwind tables. */
#ifndef NC_ENTRY_H
#define NC_ENTRY_H

#include "platform/stub.h"
#include "platform/stub_sizes.h"

#include <stdint.h>

#if NC_HAS_MACHINE_CODE
/* The `code` of the stubs' slots. The context of a slot is a callback (nc_entry) or a Thunk
 * (nc_conversion). */
void nc_entry(void);
void nc_conversion(void);

/* Runs a callback's function with the arguments in the block, and stores its result there. Returns
 * the number of long doubles in x87 registers. */
uint32_t nc_enter(NcStubSlot *slot, char *block);
/* Calls the function of a Thunk through the Thunk's conversion, without the GIL. Returns the same
 * number. */
uint32_t nc_convert(NcStubSlot *slot, char *block);
#endif

#endif
