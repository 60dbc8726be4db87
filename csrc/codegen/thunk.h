/* csrc/codegen/thunk.h: what C -> C thunks call. _codegen/thunk.py writes them, _libffi/thunk.py
 * stands in for them; the usual way through a thunk calls nothing of this.
 *
 * The context of its stub is the object that owns it (object/thunkobject.h).
 *
 * Everything here may be called without the GIL unless it says otherwise. */
#ifndef NC_THUNK_H
#define NC_THUNK_H

#include "object/thunkobject.h"

/* Raises what the maker of the thunk's helper returns for (step, bits, reported): an exception, or
 * None where the function raised one itself, or is a Python one that has just reported one. It goes
 * where those of callbacks go (ground/exceptions.h); with `keep` it stays set in any case, for
 * callers that have the GIL and look. Takes the GIL; errno stays. */
void nc_thunk_failed(const NcThunk *thunk, uint64_t step, uint64_t bits, int keep);
/* Whether an exception is set. Needs the GIL. */
int nc_thunk_raised(void);
int nc_thunk_errno(void);
void nc_thunk_set_errno(int code);

/* A scalar of a letter as one of another, as a Convert of _adapt/plan.py says; 0 where it does not
 * fit, and the target is undefined. */
int nc_thunk_convert(int source, const char *from, int target, char *to, int exact);

/* convert_number(source, address, target, address, exact): the same. */
PyObject *nc_convert_number(PyObject *module, PyObject *args);

#endif
