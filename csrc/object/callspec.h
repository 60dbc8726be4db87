/* csrc/object/callspec.h: makes call specs (layout.h). With the GIL. */
#ifndef NC_CALLSPEC_H
#define NC_CALLSPEC_H

#include "layout.h"

/* callspec(signature): the call spec of a Signature. What a call spec says of memory is code's to
 * rely on, so it is asked of the `describe` hook and not of the caller. */
PyObject *nc_callspec(PyObject *module, PyObject *args);

#endif
