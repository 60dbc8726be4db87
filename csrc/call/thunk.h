/* csrc/call/thunk.h: what C -> C thunks call, generated ones and those that convert.c carries out.
 * The usual way through a thunk calls nothing of this.
 *
 * The context of its stub is the object that owns it (call/thunkobject.h).
 *
 * Everything here may be called without the GIL unless it says otherwise. */
#ifndef NC_THUNK_H
#define NC_THUNK_H

#include "thunkobject.h"

/* A step failed, with these bits. Where that is the failure of the function itself (`tested`), and
 * its caller sees that, shows it by errno or at `told`, as the flags say (NC_CONVERSION_*).
 *
 * Else raises what the maker of the thunk's helper returns for (step, bits, reported), an exception
 * or None where the function raised one itself, or is a Python one that has just reported one. It
 * goes where those of callbacks go (platform/exceptions.h); with NC_CONVERSION_KEEPS it stays set
 * in any case, for callers that have the GIL and look. Takes the GIL; errno stays, unless that
 * shows failures. */
void nc_thunk_failed(const NcThunk *thunk, uint64_t step, uint64_t bits, uint32_t flags,
                     uint32_t tested, int *told);
/* For thunks of functions that need the GIL: takes it, whoever has it. Returns what
 * nc_thunk_drop_gil takes; -1, the GIL as it was, where the function must not be called: Python
 * ends, the thread is in another interpreter, or it has an exception that was left in it. errno
 * stays. */
int nc_thunk_take_gil(void);
/* Lets go of it again. An exception that the function set goes where those of callbacks go; with
 * `keep` it stays set for callers that had the GIL, who look. errno stays. */
void nc_thunk_drop_gil(const NcThunk *thunk, int taken, int keep);
/* Whether an exception is set. Needs the GIL. */
int nc_thunk_raised(void);
/* Finds a place for the exception that a function has left set in this thread, if there is one: the
 * call from Python that is under way raises it, or it is reported. Takes the GIL for that alone. */
void nc_thunk_settle(const NcThunk *thunk);
int nc_thunk_errno(void);
void nc_thunk_set_errno(int code);

/* A scalar of a letter as one of another, as a Convert of _plan/nodes.py says; 0 where it does not
 * fit, with its bits, and the target is undefined. */
int nc_thunk_convert(int source, const char *from, int target, char *to, int exact, uint64_t *bits);
/* A scalar in 64 bits, as nc_thunk_failed takes it: a float as a double. */
uint64_t nc_thunk_bits(char code, const char *from);

#endif
