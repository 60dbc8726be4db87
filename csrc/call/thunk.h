/* csrc/call/thunk.h: runtime support for C -> C thunks, both generated ones and those that
 * convert.c executes. The common path through a thunk calls none of it.
 *
 * The context of a thunk's stub is the object that owns it (call/thunkobject.h).
 *
 * Nothing here needs the GIL unless it says so. */
#ifndef NC_THUNK_H
#define NC_THUNK_H

#include "thunkobject.h"

/* Handles a failed step, with the bits of its value. If the function itself failed (`tested`) and
 * the caller can see that, sets errno or *told, as the flags say (NC_CONVERSION_*).
 *
 * Otherwise raises an exception: the helper makes a function for the callable's name, which gets
 * (step, bits, reported). It returns the exception, or None if the function raised one itself, or
 * is a Python function that has just reported one. The exception goes where those of callbacks go
 * (platform/exceptions.h). With NC_CONVERSION_KEEPS it stays set, for callers that hold the GIL and
 * check. Takes the GIL. Preserves errno, unless errno shows failures. */
void nc_thunk_failed(const NcThunk *thunk, uint64_t step, uint64_t bits, uint32_t flags,
                     uint32_t tested, int *told);
/* For thunks of functions that need the GIL: takes it, in any thread. Returns a value for
 * nc_thunk_drop_gil. Returns -1, with the GIL as it was, if the function must not be called: Python
 * is finalizing, the thread is in another interpreter, or an exception was left in it. Preserves
 * errno. */
int nc_thunk_take_gil(void);
/* Releases it. An exception that the function set goes where those of callbacks go. With `keep` it
 * stays set for callers that held the GIL, which check for it. Preserves errno. */
void nc_thunk_drop_gil(const NcThunk *thunk, int taken, int keep);
/* Whether an exception is set. Needs the GIL. */
int nc_thunk_raised(void);
/* Places an exception that a function left set in this thread, if any: the enclosing call from
 * Python raises it, or it is reported. Takes the GIL only in that case. */
void nc_thunk_settle(const NcThunk *thunk);
int nc_thunk_errno(void);
void nc_thunk_set_errno(int code);

/* Converts a scalar of one letter to another's, as a Convert of _plan/nodes.py says. If it does not
 * fit, returns 0 and sets *bits; the target is then undefined. */
int nc_thunk_convert(int source, const char *from, int target, char *to, int exact, uint64_t *bits);
/* A scalar as 64 bits, for nc_thunk_failed; a float as a double. */
uint64_t nc_thunk_bits(char code, const char *from);

#endif
