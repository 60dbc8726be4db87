/* csrc/callable/trampoline.h: the ahead-of-time trampolines, which generate_trampolines.py writes.
 * */
#ifndef NC_TRAMPOLINE_H
#define NC_TRAMPOLINE_H

#include "layout.h"

/* The characters of the longest shape that has one. */
#define NC_LONGEST_SHAPE 6

/* One for each shape, sorted by it, and how many there are. */
extern const NcTrampoline nc_trampolines[];
extern const size_t nc_trampoline_count;

#endif
