/* csrc/callable/callinterface.h: makes call interfaces (layout.h), and looks them up by signature.
 *
 * Threads: everything here needs the GIL. */
#ifndef NC_CALLINTERFACE_H
#define NC_CALLINTERFACE_H

#include "layout.h"

/* The call interface of a signature in any spelling, a new reference. A text that was seen before
 * costs one hash lookup; otherwise the `cif_of` hook makes it. NULL with the hook's exception. */
NcCallInterface *nc_callinterface_of(PyObject *signature);

#endif
