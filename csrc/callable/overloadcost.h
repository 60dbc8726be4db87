/* csrc/callable/overloadcost.h: what an argument costs in a choice among overloads: nothing for an
 * exact type, little for a safe promotion (integer to float, narrow to wide), more for a narrower
 * type that the value may still fit, most for an array that the type refuses for its strides or
 * because it is read-only. A struct costs what its fields do; the `match` hook adds them up.
 *
 * Guarantees: nothing is converted, and no user code runs but __index__ of integers and what the
 * hook asks. A refused buffer's exception is swallowed, a failed hook's is not.
 *
 * Threads: everything here needs the GIL. */
#ifndef NC_OVERLOADCOST_H
#define NC_OVERLOADCOST_H

#include "layout.h"

/* Costs, by how much of the value's own type is kept: exact types cost nothing; safe promotions
 * (integer to float, float to complex, narrow to wide) little, more the farther; a narrower type of
 * the same kind that Python's own value may still fit costs most. */
enum {
    NC_COST_EXACT = 0,
    NC_COST_WIDER = 1,    /* same kind, wider or as wide */
    NC_COST_KIND = 10,    /* the next kind: bool to int, int to float, float to complex */
    NC_COST_OBJECT = 50,  /* anything goes as a Python object */
    NC_COST_NARROW = 100, /* same kind, narrower: float to 'f', an int that happens to fit */
    NC_COST_REFUSED =
        10000, /* the conversion will fail, and say why better than that nothing suits */
};

/* The cost of an argument of a call interface; -1 when it does not take the value, -2 with an
 * exception. */
int nc_argument_cost(const NcCallInterface *cif, Py_ssize_t index, PyObject *value);

/* The costs that Python code needs for structs and pointers, a new reference: (exact, wider,
 * object, narrow, refused). */
PyObject *nc_costs(void);

#endif
