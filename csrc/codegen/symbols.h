/* csrc/codegen/symbols.h: offsets and addresses that generated code needs from the core and from
 * the running Python.
 *
 * nativecall/_codegen/ generates code that reads the core's objects and calls functions. The
 * generator does not hard-code offsets or addresses. It gets them from here, as they are in the
 * running process. */
#pragma once

/* Fills the table `nc_symbols` (layout.h). Call it before any object refers to the table. */
void nc_symbols_ready(void);
