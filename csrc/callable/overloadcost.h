/* csrc/callable/overloadcost.h: the cost of an argument in overload resolution. An exact type costs
 * nothing, a safe promotion (integer to float, narrow to wide) little, and a narrower type that the
 * value may still fit more. An array costs most if the type refuses its strides or its read-only
 * memory. The `match` hook adds up the costs of a struct's fields.
 *
 * Guarantees. Nothing is converted. The user code that may run is __index__ of integers and the
 * hook's queries. The error of a refused buffer is cleared; a failed hook's propagates.
 *
 * Threads: everything here needs the GIL. */
#ifndef NC_OVERLOADCOST_H
#define NC_OVERLOADCOST_H

#include "layout.h"

/* Costs, by how much of the value's own type is preserved. A larger promotion costs more. */
enum {
    NC_COST_EXACT = 0,
    NC_COST_WIDER = 1,       /* same kind, wider or as wide */
    NC_COST_KIND = 10,       /* the next kind: bool to int, int to float, float to complex */
    NC_COST_OBJECT = 50,     /* any value as a Python object */
    NC_COST_NARROW = 100,    /* same kind, narrower: float to 'f', an int that happens to fit */
    NC_COST_REFUSED = 10000, /* the conversion fails, with a better error than "no overload" */
};

/* The cost of a value for an argument of a call interface; -1 if the argument does not take it, -2
 * with an exception. */
int nc_argument_cost(const NcCallInterface *cif, Py_ssize_t index, PyObject *value);

/* The costs that Python code uses for structs and pointers, a new reference: (exact, wider, object,
 * narrow, refused). */
PyObject *nc_costs(void);

#endif
