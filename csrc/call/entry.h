/* csrc/call/entry.h: nc_entry, the one routine by which C code calls Python functions of every
 * signature.
 *
 * A stub (ground/stub.h) leads to it with its slot in a register. It saves all registers of
 * arguments in a block, whose stack is where the caller has put it, calls nc_enter, loads all
 * registers of results, and returns. What is where in a block is as for nc_invoke (invoke.h). The
 * routine has a frame pointer and unwind tables. */
#ifndef NC_ENTRY_H
#define NC_ENTRY_H

#include "ground/stub.h"
#include "ground/stub_sizes.h"

#include <stdint.h>

#if NC_HAS_MACHINE_CODE
void nc_entry(void); /* what slots of such stubs have as their code; their context is a callback */

/* Runs the function of a callback with the arguments in the block, and puts its result there. How
 * many long doubles that is in registers of x86-64. */
uint32_t nc_enter(NcStubSlot *slot, char *block);
#endif

#endif
