/* csrc/callable/callspec.h: makes call specs (layout.h), and finds them by signatures. All with the
 * GIL. */
#ifndef NC_CALLSPEC_H
#define NC_CALLSPEC_H

#include "layout.h"

/* The call spec of a signature in any spelling, a new reference: by one hash of its text, if that
 * was seen before, else of the `spec_of` hook. NULL with the hook's exception. */
NcCallSpec *nc_callspec_of(PyObject *signature);

#endif
