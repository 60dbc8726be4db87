/* csrc/callable/callinterface.h: creates call interfaces (layout.h), and finds existing ones by
 * signature.
 *
 * Threads: everything here needs the GIL. */
#pragma once

#include "layout.h"

/* Returns the call interface of a signature in any spelling, as a new reference. A spelling that
 * was used before costs one hash lookup. Otherwise, the `cif_of` hook creates the call interface.
 * Returns NULL if the hook raises an exception. */
NcCallInterface *nc_callinterface_of(PyObject *signature);
