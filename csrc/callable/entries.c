/* csrc/callable/entries.c: implements entries.h: looks up entries by signature.
 *
 * nc_callinterface_of maps a signature in any spelling to a call interface, and parses each
 * spelling once. A lookup then compares the call interface's interned text by address with the
 * texts in the call table. Python code runs only if an entry is missing: the specialize hook, and
 * the code that raises the error with a list of the entries.
 *
 * Threads: everything here needs the GIL. Making a call interface, calling a hook and allocating
 * memory may run Python code. The table is read after these steps, so a lookup finds the entries
 * that another thread adds meanwhile. The result may be a borrowed reference, since a callable owns
 * all singles that it ever had. On free-threaded builds, the parts change only in NC_ALONE. */
#include "entries.h"

#include "callinterface.h"
#include "construct.h"
#include "platform/lists.h"
#include "platform/lock.h"

/* The number of entries. While an entry is added, the table and the tuple of parts may differ in
 * length; the smaller length counts. */
static inline Py_ssize_t complete(const NcCallable *self)
{
    PyObject *parts = nc_more(self)->parts;
    Py_ssize_t most = parts != NULL ? PyTuple_GET_SIZE(parts) : self->cif != NULL;
    Py_ssize_t count = (Py_ssize_t)nc_calltable_count(nc_calls(self));
    return count < most ? count : most;
}

/* The number of entries that native callers find: 0 if a subclass overrides __call__. */
static inline Py_ssize_t offered(NcCallable *self)
{
    return nc_native_table((PyObject *)self) == NULL ? 0 : complete(self);
}

static inline NcCallable *part_at(const NcCallable *self, Py_ssize_t position)
{
    return (NcCallable *)(void *)PyTuple_GET_ITEM(nc_more(self)->parts, position);
}

/* Returns the part that has the entry for a signature, as a borrowed reference, or NULL if no part
 * has it. The part of a single is the single itself. */
static inline NcCallable *part_of(NcCallable *self, const NcCallInterface *cif)
{
    Py_ssize_t count = offered(self);
    const PyNativeCallableEntry *entries = nc_calls(self)->entries; /* `count` or more */
    if (nc_more(self)->parts == NULL) {
        return count != 0 && entries[0].signature == cif->text ? self : NULL;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        if (entries[i].signature == cif->text) {
            return part_at(self, i);
        }
    }
    return NULL;
}

/* Asks the specialize hook for an entry that is missing from the table. Returns the entry's part,
 * or NULL with an exception. */
NC_NOINLINE NcCallable *missing(NcCallable *self, const NcCallInterface *cif)
{
    PyObject *text = PyTuple_GET_ITEM(cif->alone, 0);
    NcCallable *part = NULL;
    if (nc_more(self)->specializer != NULL) {
        PyObject *done =
            PyObject_CallFunctionObjArgs(NC_HOOK(specialize), (PyObject *)self, text, NULL);
        if (done == NULL) {
            return NULL;
        }
        Py_DECREF(done);
        part = part_of(self, cif);
    }
    if (part == NULL) {
        Py_XDECREF(PyObject_CallFunctionObjArgs(NC_HOOK(no_entry), (PyObject *)self, text, NULL));
    }
    return part;
}

/* Returns the part for a signature in any spelling, or NULL with an exception. */
static inline NcCallable *part_for(NcCallable *self, PyObject *signature)
{
    NcCallInterface *cif = nc_callinterface_of(signature);
    if (NC_UNLIKELY(cif == NULL)) {
        return NULL;
    }
    NcCallable *part = part_of(self, cif);
    if (NC_UNLIKELY(part == NULL)) {
        part = missing(self, cif);
    }
    nc_drop_interface(cif);
    return part;
}

NcCallable *nc_entries_find(NcCallable *self, PyObject *signature)
{
    NcCallInterface *cif = nc_callinterface_of(signature);
    NcCallable *part = cif != NULL ? part_of(self, cif) : NULL;
    if (cif == NULL &&
        (PyErr_ExceptionMatches(PyExc_ValueError) || PyErr_ExceptionMatches(PyExc_TypeError))) {
        PyErr_Clear(); /* a text that is not a signature has no entry */
    }
    nc_drop_interface(cif);
    return part;
}

NcCallable *nc_entries_part(NcCallable *self, PyObject *signature)
{
    if (signature != Py_None) {
        return part_for(self, signature);
    }
    if (offered(self) != 1) {
        Py_XDECREF(
            PyObject_CallFunctionObjArgs(NC_HOOK(no_entry), (PyObject *)self, Py_None, NULL));
        return NULL;
    }
    return nc_more(self)->parts != NULL ? part_at(self, 0) : self;
}

/* Whether this thread made a callable that f[signature] returns. Once it is known, reads nothing of
 * the callable that other threads write. */
static inline int is_mine(PyObject *only)
{
    const NcMore *more = nc_more((NcCallable *)(void *)only);
    const uintptr_t thread = NC_WITHOUT_GIL ? nc_load_relaxed_uintptr(&more->thread) : 0;
    return thread != 0 ? thread == NC_THREAD : NC_OWNED(only);
}

static inline int is_same(const NcCallable *self, const NcCallable *only)
{
    return self->cif == only->cif && NC_SINGLE_TARGET(self) == NC_SINGLE_TARGET(only);
}

PyObject *nc_entries_only(NcCallable *self)
{
    PyObject *only = nc_kept(&nc_more(self)->only);
    while (only != NULL && !is_mine(only)) {
        only = nc_kept(&nc_more((NcCallable *)(void *)only)->only);
    }
    if (NC_UNLIKELY(only == NULL)) {
        NcMore *more = nc_callable_more(self);
        NC_BEGIN_SECTION(self); /* against replacements of the entry */
        NcMore *own = NULL;
        do { /* the entry may be replaced while memory is allocated */
            Py_XSETREF(only, more != NULL ? nc_callable_alone(self) : NULL);
            own = only != NULL ? nc_callable_more((NcCallable *)(void *)only) : NULL;
        } while (own != NULL && !is_same(self, (NcCallable *)(void *)only));
        PyObject *before = own != NULL ? more->only : NULL;
        if (own == NULL || (before != NULL && is_mine(before))) { /* another call was first */
            Py_XSETREF(only, before);
        } else {
            own->only = before;
            nc_store_release_ptr(&more->only, only);
        }
        NC_END_SECTION();
    }
    return only;
}

PyObject *nc_entries_subscript(PyObject *object, PyObject *signature)
{
    NcCallable *part = part_for((NcCallable *)(void *)object, signature);
    if (part != NULL && ((PyObject *)part == object || !is_mine((PyObject *)part))) {
        part = (NcCallable *)(void *)nc_entries_only(part);
    }
    if (part != NULL && NC_UNLIKELY(!__atomic_load_n(&nc_more(part)->is_entry, __ATOMIC_RELAXED))) {
        NcMore *more = nc_callable_more(part);
        if (more == NULL) {
            return NULL;
        }
        nc_store_relaxed_uintptr(&more->thread, NC_THREAD);
        __atomic_store_n(&more->is_entry, 1, __ATOMIC_RELAXED);
        (void)nc_callable_shared((PyObject *)part);
    }
    return Py_XNewRef((PyObject *)part);
}

int nc_entries_contains(PyObject *object, PyObject *signature)
{
    const NcCallable *part = nc_entries_find((NcCallable *)(void *)object, signature);
    return part != NULL ? 1 : PyErr_Occurred() ? -1 : 0;
}

PyObject *nc_entries_address(PyObject *object, PyObject *const *args, Py_ssize_t nargs,
                             PyObject *kwnames)
{
    NcCallable *self = (NcCallable *)(void *)object;
    Py_ssize_t given = nargs + (kwnames != NULL ? PyTuple_GET_SIZE(kwnames) : 0);
    if (given > 1) {
        return PyErr_Format(PyExc_TypeError, "address() takes at most 1 argument (%zd given)",
                            given);
    }
    if (given > nargs &&
        PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, 0), "signature") != 0) {
        return PyErr_Format(PyExc_TypeError, "address() has no argument named %R",
                            PyTuple_GET_ITEM(kwnames, 0));
    }
    const NcCallable *part = nc_entries_part(self, given == 1 ? args[0] : Py_None);
    return part != NULL ? PyLong_FromVoidPtr(NC_SINGLE_TARGET(part)) : NULL;
}

PyObject *nc_entries_signatures(PyObject *object, void *Py_UNUSED(closure))
{
    NcCallable *self = (NcCallable *)(void *)object;
    Py_ssize_t count = offered(self);
    if (count == 0) {
        return PyTuple_New(0);
    }
    if (nc_more(self)->parts == NULL) {
        return Py_NewRef(self->cif->alone);
    }
    NcMore *more = nc_more(self);
    if (more->signatures == NULL || PyTuple_GET_SIZE(more->signatures) != count) {
        PyObject *texts = PyTuple_New(count);
        for (Py_ssize_t i = 0; texts != NULL && i < count; i++) {
            PyTuple_SET_ITEM(texts, i,
                             Py_NewRef(PyTuple_GET_ITEM(part_at(self, i)->cif->alone, 0)));
        }
        if (texts == NULL) {
            return NULL;
        }
        Py_XSETREF(more->signatures, texts);
    }
    return Py_NewRef(more->signatures);
}

PyObject *nc_entries_rows(PyObject *object, PyObject *Py_UNUSED(none))
{
    NcCallable *self = (NcCallable *)(void *)object;
    const Py_ssize_t count = complete(self);
    const PyNativeCallableTable *table = nc_calls(self); /* has `count` entries or more */
    PyObject *entries = PyList_New(0);
    for (Py_ssize_t i = 0; entries != NULL && i < count; i++) {
        const PyNativeCallableEntry *entry = &table->entries[i];
        nc_list_take(&entries, Py_BuildValue("(sNn)", entry->signature,
                                             PyLong_FromVoidPtr(nc_calltable_funcptr(entry)),
                                             (Py_ssize_t)entry->flags));
    }
    return entries;
}
