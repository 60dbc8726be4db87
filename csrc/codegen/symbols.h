/* csrc/codegen/symbols.h: what generated code needs of the core and of the running Python.
 *
 * nativecall/_codegen/ writes code that reads the core's objects and calls functions. It
 * hard-codes neither offsets nor addresses: both come from here, as they are in this process. */
#ifndef NC_SYMBOLS_H
#define NC_SYMBOLS_H

#include "values/pointers.h"

/* Fills the table `nc_symbols` (layout.h), before anything is made that has it. Its first
 * place is the number of threads with an exception that a Python function left there
 * (nc_left_count). */
void nc_symbols_ready(void);

#endif
