/* csrc/overload.c: the choice among the entries of an overloaded callable, by argument types.
 *
 * Idea. Each argument of each candidate has a cost: nothing for an exact type, little for a safe
 * promotion (integer to float, narrow to wide), most for a narrower type that the value may still
 * fit. The candidate whose costs add up to least is called; the earlier one where two are equal. So
 * an exact match always wins, and the order of entries matters only between equals. When nothing
 * fits, the error lists what there is.
 *
 * Guarantees: choosing converts nothing and calls no user code but __index__ of integers and what
 * the match hook asks. A failed match swallows its exception, a failed hook does not. */
#include "convert.h"

#include <string.h>

/* ---- one argument ---------------------------------------------------------------------------- */

/* Costs, by how much of the value's own type is kept: exact types cost nothing; safe promotions
 * (integer to float, float to complex, narrow to wide) little, more the farther; a narrower type of
 * the same kind that Python's own value may still fit costs most. */
enum {
    COST_EXACT = 0,
    COST_WIDER = 1,    /* same kind, wider or as wide */
    COST_KIND = 10,    /* the next kind: bool to int, int to float, float to complex */
    COST_OBJECT = 50,  /* anything goes as a Python object */
    COST_NARROW = 100, /* same kind, narrower: float to 'f', an int that happens to fit */
};

static const char kind_order[] = "?ifc";

/* '?', 'i', 'f' or 'c' of a scalar letter; 0 for others. */
static char scalar_kind(char code)
{
    switch (code) {
    case '?':
        return '?';
    case 'e':
    case 'f':
    case 'd':
    case 'g':
        return 'f';
    case 'z':
    case 'Z':
    case 'Y':
        return 'c';
    default:
        return nc_integer_kind(code) != NULL ? 'i' : '\0';
    }
}

static int match_number(char wanted, PyObject *value)
{
    const NcIntegerKind *kind = nc_integer_kind(wanted);
    char found = nc_value_letter(value);
    char wanted_kind = scalar_kind(wanted);
    char found_kind = scalar_kind(found);
    unsigned long long bits;
    int fits;
    PyObject *number;
    int steps;
    if (found == '\0') {
        return -1;
    }
    if (found == wanted && wanted != 'q') {
        return COST_EXACT;
    }
    steps = (int)(strchr(kind_order, wanted_kind) - strchr(kind_order, found_kind));
    if (steps < 0) {
        return -1;
    }
    if (steps > 0 && wanted_kind != 'i') {
        /* The widest ordinary member of the kind is preferred: double, then long double, float. */
        int narrow = wanted == 'd' || wanted == 'Z' ? 0 : wanted == 'g' || wanted == 'Y' ? 1 : 2;
        return steps * COST_KIND + narrow + (narrow == 2 ? COST_NARROW : 0);
    }
    if (wanted_kind == 'i') {
        /* 'q' is also the letter of ints of any size and of objects with __index__. What that raises
         * is the user's own error. */
        number = nc_integer_of(value);
        if (number == NULL) {
            return PyErr_Occurred() ? -2 : -1;
        }
        fits = nc_integer_fits(kind, number, &bits);
        Py_DECREF(number);
        if (fits <= 0) {
            return fits == 0 ? -1 : -2;
        }
        if (found == wanted) {
            return COST_EXACT;
        }
        if (nc_scalar_size(wanted) >= nc_scalar_size(found) || found == 'q') {
            /* An int that fits: nearest to 64 signed bits first. */
            int cost = steps * COST_KIND + COST_WIDER + (8 - (int)kind->size);
            return cost + (kind->is_signed ? 0 : 1);
        }
        return COST_NARROW + (8 - (int)kind->size);
    }
    if (nc_scalar_size(wanted) > nc_scalar_size(found)) {
        return COST_WIDER + (wanted == 'g' || wanted == 'Y');
    }
    return COST_NARROW + (wanted == 'e');
}

static int match(const NcPlan *plan, Py_ssize_t index, PyObject *value)
{
    char code = plan->codes[index];
    PyObject *answer;
    long cost;
    if (scalar_kind(code) != '\0') {
        return match_number(code, value);
    }
    if (code == 'O') {
        return COST_OBJECT;
    }
    if (code == 'P' && value == Py_None) {
        return COST_WIDER;
    }
    if (code == 'P' && plan->pointees[index] != '\0' && PyObject_CheckBuffer(value)) {
        Py_buffer buffer;
        int suits;
        int boxed;
        if (PyObject_GetBuffer(value, &buffer, PyBUF_FULL_RO) < 0) {
            PyErr_Clear();
            return -1;
        }
        boxed = nc_buffer_is_pointer(&buffer);
        suits = buffer.ndim == 0 ? 0 : nc_buffer_suits(plan, index, value, &buffer);
        PyBuffer_Release(&buffer);
        if (suits < 0) {
            return -2;
        }
        if (!boxed) {
            return !suits ? -1 : plan->pointees[index] == 'v' ? COST_KIND : COST_EXACT;
        }
    }
    answer = PyObject_CallFunctionObjArgs(nc_hooks.match, PyTuple_GET_ITEM(plan->types, index),
                                          value, NULL);
    if (answer == NULL) {
        return -2;
    }
    cost = PyLong_AsLong(answer);
    Py_DECREF(answer);
    return cost == -1 && PyErr_Occurred() ? -2 : (int)cost;
}

/* ---- all arguments --------------------------------------------------------------------------- */

/* "(float, str)": the types of the arguments of a call that nothing suits. */
static PyObject *describe_arguments(PyObject *const *args, Py_ssize_t nargs)
{
    PyObject *text = PyUnicode_FromString("(");
    for (Py_ssize_t i = 0; text != NULL && i < nargs; i++) {
        PyObject *longer =
            PyUnicode_FromFormat("%U%s%s", text, i > 0 ? ", " : "", Py_TYPE(args[i])->tp_name);
        Py_SETREF(text, longer);
    }
    if (text != NULL) {
        Py_SETREF(text, PyUnicode_FromFormat("%U)", text));
    }
    return text;
}

static PyObject *describe_parts(PyObject *parts)
{
    PyObject *text = PyUnicode_FromString("");
    for (Py_ssize_t i = 0; text != NULL && i < PyTuple_GET_SIZE(parts); i++) {
        const NcCallable *part = (const NcCallable *)(void *)PyTuple_GET_ITEM(parts, i);
        Py_SETREF(text,
                  PyUnicode_FromFormat("%U%s'%s'", text, i > 0 ? ", " : "", part->plan->text));
    }
    return text;
}

static PyObject *no_overload(NcCallable *self, PyObject *parts, PyObject *const *args,
                             Py_ssize_t nargs)
{
    PyObject *given = describe_arguments(args, nargs);
    PyObject *offered = given != NULL ? describe_parts(parts) : NULL;
    if (offered != NULL) {
        PyErr_Format(PyExc_TypeError, "no entry of '%U' takes %U; it offers %U", self->name, given,
                     offered);
    }
    Py_XDECREF(given);
    Py_XDECREF(offered);
    return NULL;
}

/* The part that the arguments cost least to convert for, borrowed; the earlier one where two cost
 * the same. NULL with an exception when none takes them. */
static NcCallable *choose(NcCallable *self, PyObject *parts, PyObject *const *args,
                          Py_ssize_t nargs)
{
    NcCallable *best = NULL;
    long best_cost = 0;
    for (Py_ssize_t p = 0; p < PyTuple_GET_SIZE(parts); p++) {
        NcCallable *part = (NcCallable *)(void *)PyTuple_GET_ITEM(parts, p);
        const NcPlan *plan = part->plan;
        long cost = 0;
        if (nargs != plan->nargs && (nargs < plan->nargs || !plan->variadic)) {
            continue;
        }
        for (Py_ssize_t i = 0; i < plan->nargs; i++) {
            int one = match(plan, i, args[i]);
            if (one == -2) {
                return NULL;
            }
            if (one < 0) {
                cost = -1;
                break;
            }
            cost += one;
        }
        if (cost == 0 && nargs == plan->nargs) {
            return part;
        }
        if (cost >= 0 && (best == NULL || cost < best_cost)) {
            best = part;
            best_cost = cost;
        }
    }
    if (best == NULL) {
        no_overload(self, parts, args, nargs);
    }
    return best;
}

PyObject *nc_vectorcall_overloaded(PyObject *object, PyObject *const *args, size_t nargsf,
                                   PyObject *kwnames)
{
    NcCallable *self = (NcCallable *)(void *)object;
    NcCallable *part;
    PyObject *parts;
    PyObject *result;
    Py_ssize_t nargs = PyVectorcall_NARGS(nargsf);
    if (kwnames != NULL && PyTuple_GET_SIZE(kwnames) != 0) {
        PyErr_Format(PyExc_TypeError,
                     "'%U' is overloaded and takes no keyword arguments; choose an entry first, as "
                     "in f['d:d'](x=1.0)",
                     self->name);
        return NULL;
    }
    /* Conversions may run Python code that adds an entry: the tuple stays ours. */
    parts = Py_NewRef(self->parts);
    part = choose(self, parts, args, nargs);
    result = part != NULL ? part->vectorcall((PyObject *)part, args, nargsf, NULL) : NULL;
    Py_DECREF(parts);
    return result;
}

PyObject *nc_method_overloaded(PyObject *object, PyObject *const *args, Py_ssize_t nargs)
{
    return nc_vectorcall_overloaded(object, args, (size_t)nargs, NULL);
}

/* What a view that was made while its callable was single does once there are more entries. */
PyObject *nc_method_overloaded_O(PyObject *object, PyObject *arg)
{
    return nc_vectorcall_overloaded(object, &arg, 1, NULL);
}

PyObject *nc_method_overloaded_NOARGS(PyObject *object, PyObject *Py_UNUSED(none))
{
    return nc_vectorcall_overloaded(object, NULL, 0, NULL);
}
