/* csrc/callable/irregular.h: calls with keywords, or with a wrong number of arguments.
 *
 * Threads: with the GIL. */
#ifndef NC_IRREGULAR_H
#define NC_IRREGULAR_H

#include "layout.h"

/* Puts keywords in order and calls on by the callable's vectorcall, or says what is wrong. */
PyObject *nc_call_irregular(NcCallable *self, PyObject *const *args, size_t nargsf,
                            PyObject *kwnames);

#endif
