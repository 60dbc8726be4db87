/* csrc/object/callablecalls.c: the calls of callablecalls.h. */
#include "callablecalls.h"

#include "values/names.h"

/* ---- calls without an ahead-of-time trampoline ----------------------------------------------- */

/* Lets a single call through a generated trampoline, unless it has one. */
static void adopt(NcCallable *self, PyObject *made)
{
    if (self->generated == NULL) {
        self->generated = (NcGenerated *)(void *)Py_NewRef(made);
        /* Meanwhile there may be other entries, or the collector has cleared the callable. */
        if (self->vectorcall == nc_vectorcall_fallback) {
            self->vectorcall = self->generated->code.vectorcall;
        }
    }
}

int nc_callable_generate(NcCallable *self, PyObject *fixed)
{
    PyObject *made = PyObject_CallFunctionObjArgs(nc_hooks.generate, (PyObject *)self, fixed, NULL);
    if (made == NULL) {
        return -1;
    }
    if (made != Py_None && !Py_IS_TYPE(made, &NcGenerated_Type)) {
        PyErr_Format(PyExc_TypeError, "generate() must return a Trampoline or None (got %.200s)",
                     Py_TYPE(made)->tp_name);
        Py_DECREF(made);
        return -1;
    }
    if (made != Py_None) {
        adopt(self, made);
    } else if (nc_callable_more(self) != NULL) {
        self->more->decided = 1;
    }
    Py_DECREF(made);
    return made != Py_None || self->more->decided ? 0 : -1;
}

int nc_callable_is_decided(const NcCallable *self)
{
    return self->vectorcall != nc_vectorcall_fallback || self->more->decided;
}

/* A single without a trampoline for these arguments: they are counted here and converted there. */
static PyObject *call_fallback(NcCallable *self, PyObject *const *args, Py_ssize_t nargs)
{
    PyObject *fallback = Py_XNewRef(self->more->fallback);
    if (fallback == NULL) {
        /* Python code runs meanwhile, in other threads too: the pointer may be replaced, and what
         * is kept must call the new one. */
        void *target = NC_SINGLE_TARGET(self);
        fallback = PyObject_CallOneArg(nc_hooks.make_fallback, (PyObject *)self);
        if (fallback == NULL) {
            return NULL;
        }
        if (NC_SINGLE_TARGET(self) == target) {
            NcMore *more = nc_callable_more(self);
            if (more == NULL) {
                Py_DECREF(fallback);
                return NULL;
            }
            Py_XSETREF(more->fallback, Py_NewRef(fallback));
        }
    }
    PyObject *result = PyObject_Vectorcall(fallback, args, (size_t)nargs, NULL);
    Py_DECREF(fallback);
    return result;
}

PyObject *nc_vectorcall_fallback(PyObject *object, PyObject *const *args, size_t nargsf,
                                 PyObject *kwnames)
{
    NcCallable *self = (NcCallable *)(void *)object;
    Py_ssize_t nargs = PyVectorcall_NARGS(nargsf);
    if (kwnames != NULL || nargs < self->spec->nargs ||
        (nargs > self->spec->nargs && !self->spec->variadic)) {
        return nc_call_irregular(self, args, nargsf, kwnames);
    }
    if (!self->more->decided && nc_callable_generate(self, NULL) < 0) {
        return NULL;
    }
    if (self->vectorcall != nc_vectorcall_fallback) {
        return self->vectorcall(object, args, nargsf, NULL);
    }
    return call_fallback(self, args, nargs);
}

PyObject *nc_method_fallback(PyObject *object, PyObject *const *args, Py_ssize_t nargs)
{
    return nc_vectorcall_fallback(object, args, (size_t)nargs, NULL);
}

PyObject *nc_method_fallback_O(PyObject *object, PyObject *arg)
{
    return nc_vectorcall_fallback(object, &arg, 1, NULL);
}

PyObject *nc_method_fallback_NOARGS(PyObject *object, PyObject *Py_UNUSED(none))
{
    return nc_vectorcall_fallback(object, NULL, 0, NULL);
}

PyObject *nc_vectorcall_empty(PyObject *object, PyObject *const *Py_UNUSED(args),
                              size_t Py_UNUSED(nargsf), PyObject *Py_UNUSED(kwnames))
{
    NcCallable *self = (NcCallable *)(void *)object;
    PyObject *name = nc_callable_name(self);
    if (name == NULL) {
        return NULL;
    }
    if (self->more->specializer != NULL && self->more->specializer != Py_None) {
        PyErr_Format(PyExc_TypeError, "'%U' has no entries yet; ask for one as in f['d:d']", name);
    } else {
        PyErr_Format(PyExc_TypeError, "'%U' has no entries; add one first", name);
    }
    return NULL;
}

/* ---- irregular calls ------------------------------------------------------------------------- */

static PyObject *wrong_count(NcCallable *self, Py_ssize_t given)
{
    Py_ssize_t nargs = self->spec->nargs;
    PyObject *name = nc_callable_name(self);
    if (name != NULL) {
        PyErr_Format(PyExc_TypeError, "'%U' takes %s %zd argument%s (%zd given)", name,
                     self->spec->variadic ? "at least" : "exactly", nargs, nargs == 1 ? "" : "s",
                     given);
    }
    return NULL;
}

/* Where keyword `name` goes, or -1 with an exception. */
static Py_ssize_t keyword_position(NcCallable *self, PyObject *name)
{
    PyObject *names = self->spec->names;
    PyObject *ours;
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
    ours = nc_callable_name(self);
    if (ours != NULL && names == NULL) {
        PyErr_Format(PyExc_TypeError,
                     "'%U' takes no keyword arguments (got '%U'): its signature names none", ours,
                     name);
    } else if (ours != NULL) {
        PyErr_Format(PyExc_TypeError, "'%U' has no argument named '%U'; it takes %R", ours, name,
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
    PyObject **ordered = NULL;
    PyObject *result = NULL;
    if (keywords == 0) {
        if (given < spec->nargs || (given > spec->nargs && !spec->variadic)) {
            return wrong_count(self, given);
        }
        /* The trampoline of a variadic function takes its fixed arguments only. */
        if (given > spec->nargs && self->generated != NULL &&
            self->vectorcall == self->generated->code.vectorcall) {
            return call_fallback(self, args, given);
        }
        return self->vectorcall((PyObject *)self, args, (size_t)given, NULL);
    }
    ordered = (PyObject **)PyMem_Calloc((size_t)(given + keywords) + (size_t)spec->nargs + 1,
                                        sizeof(PyObject *));
    if (ordered == NULL) {
        return PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; i < given; i++) {
        ordered[i] = args[i];
    }
    for (Py_ssize_t k = 0; k < keywords; k++) {
        PyObject *name = PyTuple_GET_ITEM(kwnames, k);
        Py_ssize_t position = keyword_position(self, name);
        if (position < 0) {
            goto done;
        }
        if (ordered[position] != NULL) {
            PyObject *ours = nc_callable_name(self);
            if (ours != NULL) {
                PyErr_Format(PyExc_TypeError, "'%U' got several values for argument '%U'", ours,
                             name);
            }
            goto done;
        }
        ordered[position] = args[given + k];
    }
    if (given + keywords != spec->nargs && (given + keywords < spec->nargs || !spec->variadic)) {
        wrong_count(self, given + keywords);
        goto done;
    }
    for (Py_ssize_t i = 0; i < spec->nargs; i++) {
        if (ordered[i] == NULL) {
            wrong_count(self, given + keywords);
            goto done;
        }
    }
    result = self->vectorcall((PyObject *)self, ordered, (size_t)(given + keywords), NULL);

done:
    PyMem_Free(ordered);
    return result;
}
