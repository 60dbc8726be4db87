/* csrc/call/thunk.h: runtime support for C -> C thunks, both generated ones and those that
 * convert.c executes. The common path through a thunk calls no function declared here.
 *
 * The context of a thunk's stub is the Thunk, which owns the stub (call/thunkobject.h).
 *
 * Functions here need the GIL only if their comment says so. */
#pragma once

#include "thunkobject.h"

/* Handles a failed step; `bits` is the value that failed. If `step == tested`, the C function
 * itself reported the failure. If the caller's error convention can report that, sets errno or
 * *told, as `flags` (NC_CONVERSION_*) specify.
 *
 * Otherwise takes the GIL and raises an exception. Then sets errno to ERANGE if `flags` include
 * NC_CONVERSION_SETS_ERRNO, and *told to 1 if `told` is not NULL. Python code creates the
 * exception: `maker = spec->helper.maker(name)`, then `maker(step, bits, reported)`. `reported` is
 * true if the C function is a callback that has just reported an exception. The maker returns None
 * if the C function set an exception itself, or if this failure was already reported.
 *
 * The exception is treated like those of callbacks (platform/exceptions.h). With
 * NC_CONVERSION_KEEPS it stays set, for callers that hold the GIL and check for exceptions.
 * Without NC_CONVERSION_SETS_ERRNO, preserves errno. */
void nc_thunk_failed(const NcThunk *thunk, uint64_t step, uint64_t bits, uint32_t flags,
                     uint32_t tested, int *told);
/* For thunks of functions that need the GIL: takes the GIL, in any thread. Returns a value for
 * nc_thunk_drop_gil. The function must not be called if Python is finalizing, the thread belongs to
 * another interpreter, or an exception was left in the thread. In these cases, leaves the GIL as it
 * was and returns -1. Preserves errno. */
int nc_thunk_take_gil(void);
/* Releases the GIL. An exception that the function set is treated like those of callbacks. With
 * `keep` it stays set, if the caller already held the GIL; such callers check for exceptions.
 * Preserves errno. */
void nc_thunk_drop_gil(const NcThunk *thunk, int taken, int keep);
/* Whether an exception is set. Needs the GIL. */
int nc_thunk_raised(void);
/* If a function left an exception set in this thread, takes the GIL. The enclosing call from Python
 * then raises the exception; without such a call, it is reported as unraisable. */
void nc_thunk_settle(const NcThunk *thunk);
int nc_thunk_errno(void);
void nc_thunk_set_errno(int code);

/* Converts a scalar between the types of two letters, like Convert of _plan/conversionplan.py. If
 * the value does not fit, returns 0 and sets *bits to the value as 64 bits, for nc_thunk_failed (a
 * float as a double); the target is then undefined. */
int nc_thunk_convert(int source, const char *from, int target, char *to, int exact, uint64_t *bits);
