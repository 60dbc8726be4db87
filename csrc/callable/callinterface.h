/* csrc/callable/callinterface.h: makes call interfaces (layout.h), and finds them by signatures.
 * All with the GIL. */
#ifndef NC_CALLINTERFACE_H
#define NC_CALLINTERFACE_H

#include "layout.h"

/* The call interface of a signature in any spelling, a new reference: by one hash of its text, if
 * that was seen before, else of the `spec_of` hook. NULL with the hook's exception. */
NcCallInterface *nc_callinterface_of(PyObject *signature);

#endif
