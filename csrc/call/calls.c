/* csrc/call/calls.c: implements calls.h. */
#include "calls.h"

#include "platform/lists.h"
#include "platform/lock.h"
#include "values/names.h"

#include <string.h>

/* ---- keywords and numbers of arguments ------------------------------------------------------- */

static PyObject *wrong_count(NcCallable *self, Py_ssize_t given)
{
    Py_ssize_t nargs = self->cif->nargs;
    return nc_callable_error(self, PyExc_TypeError, "takes %s %zd argument%s (%zd given)",
                             self->cif->variadic ? "at least" : "exactly", nargs,
                             nargs == 1 ? "" : "s", given);
}

/* Raises TypeError for the first argument that is missing in a call with keywords. */
static void missing(NcCallable *self, PyObject *const *ordered, Py_ssize_t given)
{
    PyObject *names = self->cif->names;
    for (Py_ssize_t i = 0; names != NULL && i < self->cif->nargs; i++) {
        PyObject *known = PyTuple_GET_ITEM(names, i);
        if (ordered[i] == NULL && known != Py_None) {
            nc_callable_error(self, PyExc_TypeError, "is missing argument %zd, %R", i + 1, known);
            return;
        }
    }
    wrong_count(self, given);
}

Py_ssize_t nc_argument_named(const NcCallInterface *cif, PyObject *name)
{
    const Py_ssize_t count = cif->names != NULL ? cif->nargs : 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        if (PyTuple_GET_ITEM(cif->names, i) == name) {
            return i;
        }
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *known = PyTuple_GET_ITEM(cif->names, i);
        if (known != Py_None && PyUnicode_Compare(known, name) == 0) {
            return i;
        }
    }
    return -1;
}

/* Returns the position of keyword `name`; tries position `likely` first. Returns -1 with an
 * exception on failure. */
static Py_ssize_t keyword_position(NcCallable *self, PyObject *name, Py_ssize_t likely)
{
    PyObject *names = self->cif->names;
    if (names != NULL && likely < self->cif->nargs && PyTuple_GET_ITEM(names, likely) == name) {
        return likely;
    }
    Py_ssize_t found = nc_argument_named(self->cif, name);
    if (found >= 0) {
        return found;
    }
    if (names == NULL) {
        nc_callable_error(
            self, PyExc_TypeError,
            "takes no keyword arguments (got '%U'): its signature has no argument names", name);
    } else {
        nc_callable_error(self, PyExc_TypeError, "has no argument named '%U'; it takes %R", name,
                          names);
    }
    return -1;
}

PyObject *nc_call_irregular(NcCallable *self, PyObject *const *args, size_t nargsf,
                            PyObject *kwnames)
{
    const NcCallInterface *cif = self->cif;
    Py_ssize_t given = PyVectorcall_NARGS(nargsf);
    Py_ssize_t keywords = kwnames != NULL ? PyTuple_GET_SIZE(kwnames) : 0;
    size_t room = (size_t)(given + keywords) + (size_t)cif->nargs;
    PyObject *few[16] = {NULL};
    PyObject **ordered = few;
    PyObject *result = NULL;
    if (keywords == 0) {
        if (given < cif->nargs || (given > cif->nargs && !cif->variadic)) {
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
            nc_callable_error(self, PyExc_TypeError, "got multiple values for argument '%U'", name);
            goto done;
        }
        ordered[position] = args[given + k];
    }
    if (given + keywords > cif->nargs && !cif->variadic) {
        wrong_count(self, given + keywords);
        goto done;
    }
    for (Py_ssize_t i = 0; i < cif->nargs; i++) {
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

/* ---- calls by wrappers ----------------------------------------------------------------------- */

PyObject *nc_vectorcall_wrapper(PyObject *object, PyObject *const *args, size_t nargsf,
                                PyObject *kwnames)
{
    NcCallable *self = (NcCallable *)(void *)object;
    Py_ssize_t nargs = PyVectorcall_NARGS(nargsf);
    if (kwnames != NULL || nargs < self->cif->nargs ||
        (nargs > self->cif->nargs && !self->cif->variadic)) {
        return nc_call_irregular(self, args, nargsf, kwnames);
    }
    PyObject *wrapper;
    NC_BEGIN_SECTION(self);
    wrapper = Py_XNewRef(nc_more(self)->wrapper);
    NC_END_SECTION();
    if (wrapper == NULL) {
        /* Python code may run here and replace the function pointer. In that case the wrapper is
         * not cached, because it may call the old function. */
        void *target = NC_SINGLE_TARGET(self);
        wrapper = PyObject_CallOneArg(NC_HOOK(make_wrapper), object);
        NcMore *more = wrapper != NULL ? nc_callable_more(self) : NULL;
        if (more == NULL) {
            Py_XDECREF(wrapper);
            return NULL;
        }
        NC_BEGIN_SECTION(self);
        if (NC_SINGLE_TARGET(self) == target) {
            Py_XSETREF(more->wrapper, Py_NewRef(wrapper));
        }
        NC_END_SECTION();
    }
    PyObject *result = PyObject_Vectorcall(wrapper, args, (size_t)nargs, NULL);
    Py_DECREF(wrapper);
    return result;
}

PyObject *nc_method_wrapper(PyObject *object, PyObject *const *args, Py_ssize_t nargs)
{
    return nc_vectorcall_wrapper(object, args, (size_t)nargs, NULL);
}

PyObject *nc_method_wrapper_O(PyObject *object, PyObject *arg)
{
    return nc_vectorcall_wrapper(object, &arg, 1, NULL);
}

PyObject *nc_method_wrapper_NOARGS(PyObject *object, PyObject *Py_UNUSED(none))
{
    return nc_vectorcall_wrapper(object, NULL, 0, NULL);
}

/* ---- calls that ask for entries -------------------------------------------------------------- */

/* Calls a method of the specialize hook with (callable, values) or, if `names` is not NULL, with
 * (callable, values, names). Returns a new reference, or NULL with an exception. Without a hook,
 * returns None. */
static PyObject *ask_hook(NcCallable *self, const char *method, PyObject *const *args,
                          Py_ssize_t count, PyObject *names)
{
    PyObject *specializer = Py_XNewRef(nc_more(self)->specializer);
    PyObject *answer = NULL;
    if (specializer == NULL) {
        return Py_NewRef(Py_None);
    }
    PyObject *values = nc_tuple_of(args, count);
    if (values != NULL) {
        answer = PyObject_CallMethod(specializer, method, names != NULL ? "OOO" : "OO",
                                     (PyObject *)self, values, names);
        Py_DECREF(values);
    }
    Py_DECREF(specializer);
    return answer;
}

PyObject *nc_call_with(PyObject *function, PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                       PyObject *kwnames)
{
    Py_ssize_t count = nargs + (kwnames != NULL ? PyTuple_GET_SIZE(kwnames) : 0);
    PyObject **given = (PyObject **)PyMem_Malloc((size_t)(count + 1) * sizeof(PyObject *));
    if (given == NULL) {
        return PyErr_NoMemory();
    }
    given[0] = self;
    memcpy(given + 1, args, (size_t)count * sizeof(PyObject *));
    PyObject *result = PyObject_Vectorcall(function, given, (size_t)nargs + 1, kwnames);
    PyMem_Free(given);
    return result;
}

int nc_is_single(PyObject *object)
{
    return PyObject_TypeCheck(object, (PyTypeObject *)&NcCallable_Type) &&
           nc_has_one((const NcCallable *)(void *)object);
}

NcCallable *nc_callable_for_call(NcCallable *self, PyObject *const *args, Py_ssize_t nargs)
{
    PyObject *made = ask_hook(self, "for_call", args, nargs, NULL);
    if (made == Py_None) {
        Py_CLEAR(made);
    } else if (made != NULL && !nc_is_single(made)) {
        PyErr_Format(PyExc_TypeError,
                     "for_call() must return a callable with one entry (got %.200s)",
                     Py_TYPE(made)->tp_name);
        Py_CLEAR(made);
    }
    return (NcCallable *)(void *)made;
}

PyObject *nc_callable_by_position(NcCallable *self, PyObject *const *args, Py_ssize_t nargs,
                                  PyObject *kwnames)
{
    PyObject *values =
        ask_hook(self, "by_position", args, nargs + PyTuple_GET_SIZE(kwnames), kwnames);
    PyObject *result = NULL;
    if (values != NULL && PyTuple_CheckExact(values)) {
        result = self->vectorcall((PyObject *)self, PySequence_Fast_ITEMS(values),
                                  (size_t)PyTuple_GET_SIZE(values), NULL);
    } else if (values != NULL && values != Py_None) {
        PyErr_SetString(PyExc_TypeError, "by_position() must return a tuple or None");
    }
    Py_XDECREF(values);
    return result;
}

PyObject *nc_refuse_empty(NcCallable *self)
{
    return nc_callable_error(self, PyExc_TypeError,
                             nc_more(self)->specializer != NULL
                                 ? "has no entries yet; ask for one as in f['d:d']"
                                 : "has no entries; add one first");
}

PyObject *nc_vectorcall_empty(PyObject *object, PyObject *const *args, size_t nargsf,
                              PyObject *kwnames)
{
    NcCallable *self = (NcCallable *)(void *)object;
    Py_ssize_t nargs = PyVectorcall_NARGS(nargsf);
    if (kwnames != NULL && PyTuple_GET_SIZE(kwnames) != 0) {
        PyObject *called = nc_callable_by_position(self, args, nargs, kwnames);
        return called != NULL || PyErr_Occurred() ? called : nc_refuse_empty(self);
    }
    NcCallable *made = nc_callable_for_call(self, args, nargs);
    if (made == NULL) {
        return PyErr_Occurred() ? NULL : nc_refuse_empty(self);
    }
    PyObject *result = made->vectorcall((PyObject *)made, args, (size_t)nargs, NULL);
    Py_DECREF(made);
    return result;
}
