/* csrc/object/entries.c: the lookups of entries.h.
 *
 * A signature in any spelling leads to its call spec (nc_callspec_of), whose interned text is
 * compared with those of the call table: nothing is parsed that was seen before, and no text is
 * compared but by address. Only what is missing is left to Python code: the specialize hook, and
 * the error that says what there is.
 *
 * Threads: with the GIL. Python code runs where a spec, a hook or memory is asked for; the table is
 * read after that, and what was made meanwhile in another thread stays. */
#include "entries.h"

#include "callspec.h"
#include "making.h"

/* Entries that are compared one by one; where there are more, a dict has their positions. */
enum { FEW = 8 };

/* How many entries native callers find: none where a subclass overrides __call__. While entries are
 * added there may be more in the table than parts. */
static inline Py_ssize_t offered(NcCallable *self)
{
    PyObject *parts = self->more->parts;
    Py_ssize_t most = parts != NULL ? PyTuple_GET_SIZE(parts) : self->spec != NULL;
    Py_ssize_t count = (Py_ssize_t)nc_calltable_count(self->calls);
    return nc_native_table((PyObject *)self) == NULL ? 0 : count < most ? count : most;
}

/* The call spec of an entry. */
static inline NcCallSpec *spec_at(const NcCallable *self, Py_ssize_t position)
{
    PyObject *parts = self->more->parts;
    return parts != NULL ? ((NcCallable *)(void *)PyTuple_GET_ITEM(parts, position))->spec
                         : self->spec;
}

/* position_of with a dict from texts to positions, which grows with the entries. */
static Py_ssize_t indexed(NcCallable *self, const NcCallSpec *spec, Py_ssize_t count)
{
    NcMore *more = self->more; /* its own: there are several entries */
    PyObject *position;
    if (more->index == NULL && (more->index = PyDict_New()) == NULL) {
        return -2;
    }
    for (Py_ssize_t i = PyDict_GET_SIZE(more->index); i < count; i++) {
        PyObject *text = PyTuple_GET_ITEM(spec_at(self, i)->alone, 0);
        position = PyLong_FromSsize_t(i);
        if (position == NULL || PyDict_SetItem(more->index, text, position) < 0) {
            Py_XDECREF(position);
            return -2;
        }
        Py_DECREF(position);
    }
    position = PyDict_GetItemWithError(more->index, PyTuple_GET_ITEM(spec->alone, 0));
    return position != NULL ? PyLong_AsSsize_t(position) : PyErr_Occurred() ? -2 : -1;
}

/* The position of a signature's entry; -1 where there is none, -2 with an exception. */
static Py_ssize_t position_of(NcCallable *self, const NcCallSpec *spec)
{
    Py_ssize_t count = offered(self);
    const PyNativeCallableEntry *entries = self->calls->entries;
    if (count > FEW) {
        return indexed(self, spec, count);
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        if (entries[i].signature == spec->text) {
            return i;
        }
    }
    return -1;
}

/* The position of the entry of a signature that is not in the table by now: the specialize hook is
 * asked for it. -1 with an exception. */
NC_NOINLINE Py_ssize_t missing(NcCallable *self, const NcCallSpec *spec)
{
    PyObject *text = PyTuple_GET_ITEM(spec->alone, 0);
    Py_ssize_t position = -1;
    PyObject *done;
    if (self->more->specializer != NULL && self->more->specializer != Py_None) {
        done = PyObject_CallFunctionObjArgs(nc_hooks.specialize, (PyObject *)self, text, NULL);
        if (done == NULL) {
            return -1;
        }
        Py_DECREF(done);
        position = position_of(self, spec);
    }
    if (position == -1) {
        Py_XDECREF(PyObject_CallFunctionObjArgs(nc_hooks.no_entry, (PyObject *)self, text, NULL));
    }
    return position < 0 ? -1 : position;
}

/* The position of the entry of a signature as written; -1 with an exception. */
static inline Py_ssize_t position_at(NcCallable *self, PyObject *signature)
{
    NcCallSpec *spec = nc_callspec_of(signature);
    Py_ssize_t position;
    if (NC_UNLIKELY(spec == NULL)) {
        return -1;
    }
    position = position_of(self, spec);
    if (NC_UNLIKELY(position < 0)) {
        position = position == -1 ? missing(self, spec) : -1;
    }
    Py_DECREF(spec);
    return position;
}

PyObject *nc_entries_only(NcCallable *self)
{
    if (NC_UNLIKELY(self->more->only == NULL)) {
        NcMore *more = nc_callable_more(self);
        PyObject *made =
            more != NULL ? nc_callable_derive(self, self->spec, NC_SINGLE_TARGET(self),
                                              NC_SINGLE_FLAGS(self), nc_callable_owner(self), NULL)
                         : NULL;
        if (made == NULL) {
            return NULL;
        }
        nc_keep_first(&more->only, made);
    }
    return self->more->only;
}

PyObject *nc_entries_subscript(PyObject *object, PyObject *signature)
{
    NcCallable *self = (NcCallable *)(void *)object;
    Py_ssize_t position = position_at(self, signature);
    if (position < 0) {
        return NULL;
    }
    return Py_XNewRef(self->more->parts != NULL ? PyTuple_GET_ITEM(self->more->parts, position)
                                                : nc_entries_only(self));
}

int nc_entries_contains(PyObject *object, PyObject *signature)
{
    NcCallSpec *spec = nc_callspec_of(signature);
    Py_ssize_t position;
    if (spec == NULL) {
        /* What is no signature has no entry. */
        if (PyErr_ExceptionMatches(PyExc_ValueError) || PyErr_ExceptionMatches(PyExc_TypeError)) {
            PyErr_Clear();
            return 0;
        }
        return -1;
    }
    position = position_of((NcCallable *)(void *)object, spec);
    Py_DECREF(spec);
    return position == -2 ? -1 : position >= 0;
}

PyObject *nc_entries_address(PyObject *object, PyObject *const *args, Py_ssize_t nargs,
                             PyObject *kwnames)
{
    NcCallable *self = (NcCallable *)(void *)object;
    Py_ssize_t given = nargs + (kwnames != NULL ? PyTuple_GET_SIZE(kwnames) : 0);
    Py_ssize_t position = 0;
    if (given > 1) {
        PyErr_Format(PyExc_TypeError, "address() takes at most 1 argument (%zd given)", given);
        return NULL;
    }
    if (given > nargs &&
        PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, 0), "signature") != 0) {
        PyErr_Format(PyExc_TypeError, "address() has no argument named %R",
                     PyTuple_GET_ITEM(kwnames, 0));
        return NULL;
    }
    if (given == 1 && args[0] != Py_None) {
        position = position_at(self, args[0]);
    } else if (offered(self) != 1) {
        Py_XDECREF(PyObject_CallFunctionObjArgs(nc_hooks.no_entry, object, Py_None, NULL));
        return NULL;
    }
    return position < 0 ? NULL
                        : PyLong_FromVoidPtr(nc_calltable_funcptr(&self->calls->entries[position]));
}

PyObject *nc_entries_signatures(PyObject *object, void *Py_UNUSED(closure))
{
    NcCallable *self = (NcCallable *)(void *)object;
    Py_ssize_t count = offered(self);
    NcMore *more;
    PyObject *texts;
    if (count == 0) {
        return PyTuple_New(0);
    }
    if (self->more->parts == NULL) {
        return Py_NewRef(self->spec->alone);
    }
    more = self->more;
    if (more->signatures == NULL || PyTuple_GET_SIZE(more->signatures) != count) {
        texts = PyTuple_New(count);
        for (Py_ssize_t i = 0; texts != NULL && i < count; i++) {
            PyTuple_SET_ITEM(texts, i, Py_NewRef(PyTuple_GET_ITEM(spec_at(self, i)->alone, 0)));
        }
        if (texts == NULL) {
            return NULL;
        }
        Py_XSETREF(more->signatures, texts);
    }
    return Py_NewRef(more->signatures);
}
