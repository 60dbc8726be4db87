/* csrc/callable/trampoline.h: the table of trampolines that generate_trampolines.py writes. A
 * trampoline makes calls of one shape (layout.h), and is compiled ahead of time. */
#pragma once

#include "layout.h"

/* The length of the longest shape that has a trampoline. */
#define NC_LONGEST_SHAPE 6

/* The trampolines, sorted by shape, and their number. */
extern const NcTrampoline nc_trampolines[];
extern const size_t nc_trampoline_count;
