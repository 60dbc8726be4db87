/* csrc/call/entry.h: the routines by which C code calls functions of every signature that plans
 * carry out: nc_entry Python functions, nc_conversion C functions of other signatures.
 *
 * A stub (platform/stub.h) leads to one of them with its slot in a register. It saves all registers
 * of arguments in a block, whose stack is where the caller has put it, calls nc_enter or
 * nc_convert, loads all registers of results, and returns. What is where in a block is as for
 * nc_invoke (invoke.h). The routines have a frame pointer and unwind tables. */
#ifndef NC_ENTRY_H
#define NC_ENTRY_H

#include "platform/stub.h"
#include "platform/stub_sizes.h"

#include <stdint.h>

#if NC_HAS_MACHINE_CODE
/* What slots of such stubs have as their code; their context is a callback, or a Thunk. */
void nc_entry(void);
void nc_conversion(void);

/* Runs the function of a callback with the arguments in the block, and puts its result there. How
 * many long doubles that is in registers of x86-64. */
uint32_t nc_enter(NcStubSlot *slot, char *block);
/* Calls the function of a Thunk by its conversion, without the GIL. Returns the same. */
uint32_t nc_convert(NcStubSlot *slot, char *block);
#endif

#endif
