/* csrc/callable/irregular.c: the calls of irregular.h. */
#include "irregular.h"

#include "values/names.h"

static PyObject *wrong_count(NcCallable *self, Py_ssize_t given)
{
    Py_ssize_t nargs = self->spec->nargs;
    return nc_callable_error(self, PyExc_TypeError, "takes %s %zd argument%s (%zd given)",
                             self->spec->variadic ? "at least" : "exactly", nargs,
                             nargs == 1 ? "" : "s", given);
}

/* Of a call with keywords: names the first argument that is not given. */
static void missing(NcCallable *self, PyObject *const *ordered, Py_ssize_t given)
{
    PyObject *names = self->spec->names;
    for (Py_ssize_t i = 0; names != NULL && i < self->spec->nargs; i++) {
        PyObject *known = PyTuple_GET_ITEM(names, i);
        if (ordered[i] == NULL && known != Py_None) {
            nc_callable_error(self, PyExc_TypeError, "is missing argument %zd, %R", i + 1, known);
            return;
        }
    }
    wrong_count(self, given);
}

/* Where keyword `name` goes, mostly at `likely`; or -1 with an exception. */
static Py_ssize_t keyword_position(NcCallable *self, PyObject *name, Py_ssize_t likely)
{
    PyObject *names = self->spec->names;
    Py_ssize_t count = names != NULL ? self->spec->nargs : 0;
    /* Names are interned, here and by the compiler. */
    if (likely < count && PyTuple_GET_ITEM(names, likely) == name) {
        return likely;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        if (PyTuple_GET_ITEM(names, i) == name) {
            return i;
        }
    }
    for (Py_ssize_t i = 0; names != NULL && i < self->spec->nargs; i++) {
        PyObject *known = PyTuple_GET_ITEM(names, i);
        int equal = known == Py_None ? 0 : PyObject_RichCompareBool(known, name, Py_EQ);
        if (equal < 0) {
            return -1;
        }
        if (equal) {
            return i;
        }
    }
    if (names == NULL) {
        nc_callable_error(self, PyExc_TypeError,
                          "takes no keyword arguments (got '%U'): its signature names none", name);
    } else {
        nc_callable_error(self, PyExc_TypeError, "has no argument named '%U'; it takes %R", name,
                          names);
    }
    return -1;
}

PyObject *nc_call_irregular(NcCallable *self, PyObject *const *args, size_t nargsf,
                            PyObject *kwnames)
{
    const NcCallSpec *spec = self->spec;
    Py_ssize_t given = PyVectorcall_NARGS(nargsf);
    Py_ssize_t keywords = kwnames != NULL ? PyTuple_GET_SIZE(kwnames) : 0;
    size_t room = (size_t)(given + keywords) + (size_t)spec->nargs;
    PyObject *few[16] = {NULL};
    PyObject **ordered = few;
    PyObject *result = NULL;
    if (keywords == 0) {
        if (given < spec->nargs || (given > spec->nargs && !spec->variadic)) {
            return wrong_count(self, given);
        }
        return self->vectorcall((PyObject *)self, args, (size_t)given, NULL);
    }
    if (room > sizeof(few) / sizeof(few[0])) {
        ordered = (PyObject **)PyMem_Calloc(room, sizeof(PyObject *));
        if (ordered == NULL) {
            return PyErr_NoMemory();
        }
    }
    for (Py_ssize_t i = 0; i < given; i++) {
        ordered[i] = args[i];
    }
    for (Py_ssize_t k = 0; k < keywords; k++) {
        PyObject *name = PyTuple_GET_ITEM(kwnames, k);
        Py_ssize_t position = keyword_position(self, name, given + k);
        if (position < 0) {
            goto done;
        }
        if (ordered[position] != NULL) {
            nc_callable_error(self, PyExc_TypeError, "got several values for argument '%U'", name);
            goto done;
        }
        ordered[position] = args[given + k];
    }
    if (given + keywords > spec->nargs && !spec->variadic) {
        wrong_count(self, given + keywords);
        goto done;
    }
    for (Py_ssize_t i = 0; i < spec->nargs; i++) {
        if (ordered[i] == NULL) {
            missing(self, ordered, given + keywords);
            goto done;
        }
    }
    result = self->vectorcall((PyObject *)self, ordered, (size_t)(given + keywords), NULL);

done:
    if (ordered != few) {
        PyMem_Free(ordered);
    }
    return result;
}
