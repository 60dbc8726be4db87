/* csrc/callable/overloadcost.h: the cost of an argument in overload resolution. An exact type costs
 * nothing. A safe promotion (integer to float, narrow to wide) costs little. A narrower type costs
 * more, even if it can hold the value. A buffer of the right type costs most if its conversion
 * would fail, for example because of its strides or its read-only memory. The `match` hook adds up
 * the costs of a struct's fields.
 *
 * Guarantees. No argument is converted. The only user code that runs is __index__ of integers,
 * buffer exporters, and code that the hook calls. If an object refuses to export a buffer, the
 * exception is cleared. If the hook fails, its exception propagates.
 *
 * Threads: everything here needs the GIL. */
#pragma once

#include "layout.h"

/* Costs: a conversion that loses more of the value's own type costs more. */
enum {
    NC_COST_EXACT = 0,
    NC_COST_WIDER = 1,       /* same kind, at least as wide */
    NC_COST_KIND = 10,       /* the next kind: bool to int, int to float, float to complex */
    NC_COST_OBJECT = 50,     /* any value as a Python object */
    NC_COST_NARROW = 100,    /* same kind, narrower: float to 'f', an int that happens to fit */
    NC_COST_REFUSED = 10000, /* the conversion fails, with a better error than "no overload" */
};

/* The cost of a value for an argument of a call interface; -1 if the argument does not take it, -2
 * with an exception. */
int nc_argument_cost(const NcCallInterface *cif, Py_ssize_t index, PyObject *value);
