/* csrc/callable/overloadcost.c: implements overloadcost.h. overload.c adds up the costs and chooses
 * the entry. */
#include "overloadcost.h"

#include "values/aggregates.h"
#include "values/fortran.h"
#include "values/record.h"
#include "values/text.h"

#include <string.h>

static const char kind_order[] = "?ifc";

/* The kind of a scalar letter: '?', 'i', 'f' or 'c'; 0 for other letters. */
static char scalar_kind(char code)
{
    static const char kinds[] = {[NC_KIND_BOOL] = '?', [NC_KIND_INT] = 'i', [NC_KIND_FLOAT] = 'f'};
    size_t size;
    size_t alignment;
    char part = nc_part_letter(code);
    return part != code ? 'c' : kinds[nc_scalar_layout(code, &size, &alignment)];
}

/* The width of a floating-point type, or of a complex type's parts, in steps of NC_FLOATS. */
static int float_width(char code)
{
#define STEPS(letter, name, type, held, digits, exponent, greatest, steps, ...)                    \
    case letter:                                                                                   \
        return steps;
    switch (nc_part_letter(code)) {
        NC_FLOATS(STEPS)
    default:
        return 0;
    }
#undef STEPS
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
    if (found == '\0') {
        return PyErr_Occurred() ? -2 : -1;
    }
    if (found == wanted && wanted != 'q') {
        return NC_COST_EXACT;
    }
    int steps = (int)(strchr(kind_order, wanted_kind) - strchr(kind_order, found_kind));
    if (steps < 0) {
        return -1;
    }
    if (steps > 0 && wanted_kind != 'i') {
        /* The order of preference is double, then long double, then float. */
        int narrow = wanted == 'd' || wanted == 'Z' ? 0 : wanted == 'g' || wanted == 'Y' ? 1 : 2;
        int loses = narrow == 2 || (found == 'g' && wanted != 'Y');
        return steps * NC_COST_KIND + narrow + (loses ? NC_COST_NARROW : 0);
    }
    if (wanted_kind == 'i') {
        /* `found` is 'q' also for ints of any size and for objects with __index__. Exceptions from
         * __index__ propagate. */
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
            return NC_COST_EXACT;
        }
        if (nc_scalar_size(wanted) >= nc_scalar_size(found) || found == 'q') {
            /* An int that fits: the type nearest to a signed 64-bit integer costs least. */
            int cost = steps * NC_COST_KIND + NC_COST_WIDER + (8 - (int)kind->size);
            return cost + (kind->is_signed ? 0 : 1);
        }
        return NC_COST_NARROW + (8 - (int)kind->size);
    }
    if (nc_scalar_size(wanted) > nc_scalar_size(found)) {
        return NC_COST_WIDER + (wanted == 'g' || wanted == 'Y');
    }
    return NC_COST_NARROW + float_width(found) - float_width(wanted);
}

/* Whether an argument takes a buffer that has suitable elements. The buffer must be contiguous,
 * long enough and aligned. It must be writable, unless the callee promises not to write. */
static int takes_buffer(const NcCallInterface *cif, Py_ssize_t index, PyObject *value,
                        const Py_buffer *buffer)
{
    int writes = (nc_export_flags(cif, index, value) & PyBUF_WRITABLE) == PyBUF_WRITABLE;
    return (!buffer->readonly || !writes) && PyBuffer_IsContiguous(buffer, cif->order) &&
           !nc_buffer_is_short(cif, index, buffer) && nc_buffer_is_aligned(cif, index, buffer);
}

int nc_argument_cost(const NcCallInterface *cif, Py_ssize_t index, PyObject *value)
{
    char code = cif->arguments[index].code;
    PyObject *answer;
    if (scalar_kind(code) != '\0') {
        return match_number(code, value);
    }
    if (code == 'O') {
        return NC_COST_OBJECT;
    }
    if (code == 'P' && value == Py_None) {
        return NC_COST_WIDER;
    }
    if (code == 'P' && cif->fortran) {
        int referred = nc_is_referred(cif, index, value);
        if (referred != 0) {
            return referred < 0 ? -2
                   : PyUnicode_CheckExact(value)
                       ? NC_COST_EXACT
                       : match_number(cif->arguments[index].pointee, value);
        }
    }
    if (code == 'P' && cif->arguments[index].pointee != '\0' && PyObject_CheckBuffer(value)) {
        Py_buffer buffer;
        if (PyObject_GetBuffer(value, &buffer, PyBUF_FULL_RO) < 0) {
            return nc_clear_refusal() ? -1 : -2;
        }
        int is_pointer = nc_buffer_is_pointer(&buffer);
        int suits = buffer.ndim == 0 ? 0 : nc_buffer_suits(cif, index, value, &buffer);
        int takes = takes_buffer(cif, index, value, &buffer);
        PyBuffer_Release(&buffer);
        if (suits < 0) {
            return -2;
        }
        if (!is_pointer) {
            return !suits                                 ? -1
                   : !takes                               ? NC_COST_REFUSED
                   : cif->arguments[index].pointee == 'v' ? NC_COST_KIND
                                                          : NC_COST_EXACT;
        }
    }
    int is_exact = code == 'V'   ? nc_is_view(cif, index, value)
                   : code != 'T' ? 0
                   : Py_IS_TYPE(value, nc_record_class)
                       ? nc_record_has(value, nc_kept(&cif->layouts[index]))
                       : nc_take_struct(PyTuple_GET_ITEM(cif->types, index), value, NULL);
    if (is_exact != 0) {
        return is_exact < 0 ? -2 : NC_COST_EXACT;
    }
    if (code == 'P' && PyUnicode_Check(value) && nc_takes_text(cif, index)) {
        return NC_COST_EXACT;
    }
    answer = PyObject_CallFunctionObjArgs(
        NC_HOOK(match), PyTuple_GET_ITEM(cif->types, index), value,
        cif->arguments[index].readonly ? Py_True : Py_False, cif->policies, NULL);
    if (answer == NULL) {
        return -2;
    }
    long cost = PyLong_AsLong(answer);
    Py_DECREF(answer);
    return cost == -1 && PyErr_Occurred() ? -2 : (int)cost;
}

/* match(cif, value): the cost of a value for the first argument of a call interface; -1 if the
 * argument does not take it. */
PyObject *nc_match(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *cif;
    PyObject *value;
    if (!PyArg_ParseTuple(args, "O!O", &NcCallInterface_Type, &cif, &value)) {
        return NULL;
    }
    if (((NcCallInterface *)(void *)cif)->nargs == 0) {
        PyErr_SetString(PyExc_IndexError, "no such argument");
        return NULL;
    }
    int cost = nc_argument_cost((const NcCallInterface *)(void *)cif, 0, value);
    return cost == -2 ? NULL : PyLong_FromLong(cost);
}
