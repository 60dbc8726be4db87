/* csrc/callable/construct.c: implements construct.h. Guarantee: a failed operation changes nothing
 * that is visible. */
#include "construct.h"

#include "call/call.h"
#include "call/calls.h"
#include "call/kept.h"
#include "callinterface.h"
#include "nativecall/detail/objectclass.h"
#include "platform/lock.h"
#include "values/names.h"

PyTypeObject *nc_callable_class = (PyTypeObject *)(void *)&NcCallable_Type;

static void publish(NcCallable *self, const PyNativeCallableTable *calls, const uint64_t *packed)
{
    nc_store_release_ptr(&self->packed, packed);
    nc_store_release_ptr(&self->calls, calls);
}

PyObject *nc_callable_new(PyTypeObject *type, PyObject *Py_UNUSED(args),
                          PyObject *Py_UNUSED(kwargs))
{
    NcCallable *self = (NcCallable *)(void *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->vectorcall = nc_vectorcall_empty;
        self->more = &nc_no_more;
        publish(self, &nc_calltable_empty, &nc_packedtable_empty);
    }
    return (PyObject *)self;
}

/* ---- tables ---------------------------------------------------------------------------------- */

void nc_callable_clear_tables(NcCallable *self)
{
    publish(self, &nc_calltable_empty, &nc_packedtable_empty);
    if (self->words[2] != 0) { /* the words of the first entry are in a separate block */
        free((void *)(uintptr_t)self->words[0]);
    }
    memset(self->words, 0, sizeof(self->words));
    memset(&self->single, 0, sizeof(self->single));
    if (nc_more(self) != &nc_no_more) {
        nc_nativetable_clear(&nc_more(self)->native);
    }
}

static int raised(int status)
{
    if (status == NC_E_NOMEM) {
        PyErr_NoMemory();
    } else if (status != NC_OK) {
        PyErr_SetString(PyExc_ValueError, nc_status_text(status));
    }
    return status == NC_OK ? 0 : -1;
}

/* Adds the first entry. Both tables are stored in the object, except that the words of a long
 * signature are in a separate block. */
static int append_first(NcCallable *self, const NcCallInterface *cif, uintptr_t flags, void *target)
{
    uint64_t *words = self->words;
    uint64_t first[NC_PACKED_MAX_WORDS];
    if (target == NULL || !nc_calltable_flags_valid(flags)) {
        return raised(NC_E_RANGE);
    }
    if (cif->word_count > 1) {
        words = (uint64_t *)calloc(cif->word_count + 2, sizeof(uint64_t));
        if (words == NULL) {
            return raised(NC_E_NOMEM);
        }
        self->words[0] = (uintptr_t)words;
        self->words[2] = 1;
    }
    memcpy(first, cif->words, cif->word_count * sizeof(uint64_t));
    first[0] |= NC_PACKED_FLAGS(flags);
    nc_packed_put(words, first, cif->word_count, target);
    nc_calltable_write(&self->single, cif->text, flags, target);
    publish(self, &self->single, words);
    return 0;
}

int nc_callable_move_tables(NcCallable *self)
{
    const PyNativeCallableEntry *first = &self->single.entries[0];
    const uint64_t *words = self->packed;
    NcMore *more = nc_callable_more(self);
    if (more == NULL || nc_calls(self) != &self->single) {
        return more == NULL ? -1 : 0;
    }
    int status = nc_nativetable_add_packed(&more->native, first->signature, words,
                                           nc_packed_count(words), first->flags, first->funcptr);
    if (status == NC_OK) {
        publish(self, more->native.calls.published, more->native.packed.published);
    }
    return raised(status);
}

int nc_callable_append(NcCallable *self, const NcCallInterface *cif, uintptr_t flags, void *target)
{
    int status;
    if (nc_calltable_count(nc_calls(self)) == 0) {
        return append_first(self, cif, flags, target);
    }
    if (nc_callable_move_tables(self) < 0) {
        return -1;
    }
    NcNativeTable *native = &nc_more(self)->native;
    status =
        nc_nativetable_add_packed(native, cif->text, cif->words, cif->word_count, flags, target);
    if (status == NC_OK) {
        publish(self, native->calls.published, native->packed.published);
    }
    return raised(status);
}

int nc_callable_change(NcCallable *self, Py_ssize_t position, void *target)
{
    if (nc_calls(self) != &self->single) {
        int status = nc_nativetable_replace(&nc_more(self)->native, (size_t)position, target);
        if (status != NC_OK) {
            return raised(status);
        }
    } else {
        nc_packed_replace((uint64_t *)(uintptr_t)self->packed, nc_packed_count(self->packed),
                          target);
    }
    if (nc_more(self)->parts == NULL) {
        nc_store_release_ptr(&self->single.entries[0].funcptr, target);
    }
    return 0;
}

/* ---- owners ---------------------------------------------------------------------------------- */

/* The last owner, a borrowed reference; None if there are no owners. */
static PyObject *last_owner(const NcCallable *self)
{
    PyObject *found;
    NC_BEGIN_SECTION(self);
    PyObject *owners = nc_more(self)->owners;
    found = owners != NULL ? PyList_GET_ITEM(owners, PyList_GET_SIZE(owners) - 1) : self->owner;
    NC_END_SECTION();
    return found != NULL ? found : Py_None;
}

static int own(NcCallable *self, PyObject *owner)
{
    PyObject *owners = nc_more(self)->owners;
    if (owners == NULL && (self->owner == NULL || self->owner == owner)) {
        if (owner != Py_None && self->owner == NULL) {
            self->owner = Py_NewRef(owner);
        }
        return 0;
    }
    if (owners == NULL) {
        NcMore *more = nc_callable_more(self);
        owners = more != NULL ? PyList_New(1) : NULL;
        if (owners == NULL) {
            return -1;
        }
        PyList_SET_ITEM(owners, 0, self->owner);
        self->owner = NULL;
        more->owners = owners;
    }
    Py_ssize_t count = PyList_GET_SIZE(owners);
    for (Py_ssize_t i = 0; i < count; i++) {
        if (PyList_GET_ITEM(owners, i) == owner) {
            /* Reference counts stay the same; only the order of the list changes. */
            for (; i < count - 1; i++) {
                PyList_SET_ITEM(owners, i, PyList_GET_ITEM(owners, i + 1));
            }
            PyList_SET_ITEM(owners, count - 1, owner);
            return 0;
        }
    }
    return PyList_Append(owners, owner);
}

int nc_callable_own(NcCallable *self, PyObject *owner)
{
    int status;
    NC_BEGIN_SECTION(self);
    status = own(self, owner);
    NC_END_SECTION();
    return status;
}

/* ---- singles --------------------------------------------------------------------------------- */

int nc_calls_traced;

int nc_callable_begin(NcCallable *self, NcCallInterface *cif, void *target, uintptr_t flags,
                      PyObject *owner)
{
    if (nc_callable_own(self, owner) < 0 || nc_callable_append(self, cif, flags, target) < 0) {
        return -1;
    }
    self->cif = nc_hold_interface(cif);
    self->vectorcall = nc_calls_traced ? nc_vectorcall_wrapper
                       : cif->trampoline != NULL && (flags & NC_CALL_FLAGS) == 0
                           ? cif->trampoline->vectorcall
                           : nc_vectorcall_plan;
    return 0;
}

PyObject *nc_callable_shared(PyObject *made)
{
    PyObject *callable =
        made != NULL && PyCFunction_Check(made) ? PyCFunction_GET_SELF(made) : made;
    PyObject *owner = made != NULL ? last_owner((NcCallable *)(void *)callable) : made;
    if (made != NULL && (owner == Py_None || (PyTuple_Check(owner) && nc_library_kept(owner)))) {
        NC_SHARE(made);
    }
    return made;
}

int nc_callable_say(NcCallable *self, PyObject *name, PyObject *doc)
{
    if (doc != NULL) {
        NcMore *more = nc_callable_more(self);
        if (more == NULL) {
            return -1;
        }
        Py_XSETREF(more->doc, Py_NewRef(doc));
    }
    Py_XSETREF(self->as.unviewed.name, Py_XNewRef(name));
    return 0;
}

PyObject *nc_callable_make(NcCallInterface *cif, void *target, uintptr_t flags, PyObject *owner,
                           PyObject *name)
{
    PyObject *made = nc_callable_new(nc_callable_class, NULL, NULL);
    NcCallable *self = (NcCallable *)(void *)made;
    if (made != NULL) {
        self->as.unviewed.name = Py_XNewRef(name);
        if (nc_callable_begin(self, cif, target, flags, owner) < 0) {
            Py_CLEAR(made);
        }
    }
    return made;
}

PyObject *nc_callable_derive(NcCallable *self, NcCallInterface *cif, void *target, uintptr_t flags,
                             PyObject *owner, PyObject *name)
{
    if (name == NULL &&
        (nc_kept(nc_callable_name_place(self)) != NULL || target != NC_SINGLE_TARGET(self))) {
        name = nc_callable_name(self);
        if (name == NULL) {
            return NULL;
        }
    }
    PyObject *made = nc_callable_make(cif, target, flags, owner, name);
    PyObject *doc = nc_kept(&nc_more(self)->doc);
    if (made != NULL && doc != NULL && doc != Py_None &&
        nc_callable_say((NcCallable *)(void *)made, name, doc) < 0) {
        Py_CLEAR(made);
    }
    return made;
}

PyObject *nc_callable_alone(NcCallable *single)
{
    return nc_callable_derive(single, single->cif, NC_SINGLE_TARGET(single),
                              NC_SINGLE_FLAGS(single), last_owner(single), NULL);
}

PyObject *nc_callable_share_self(const NcCallable *method, PyObject *made)
{
    const NcClass *cls = nc_more(method)->self_class;
    if (made == NULL || cls == NULL) {
        return made;
    }
    NcCallable *callable = (NcCallable *)(void *)made;
    NcMore *more = nc_callable_more(callable);
    if (more == NULL || nc_callable_own(callable, cls->type) < 0) {
        Py_DECREF(made);
        return NULL;
    }
    more->self_class = cls;
    more->takes_fields = nc_more(method)->takes_fields;
    return made;
}

static int is_name(PyObject *name)
{
    return PyUnicode_CheckExact(name) && PyUnicode_GET_LENGTH(name) != 0 && !nc_has_null(name);
}

/* wrapped(address, signature, options): the callable for an address, with an optional name. Returns
 * None if Python code must handle the arguments or raise the error. This applies to: options other
 * than `name`; subclasses of int, str or dict; signatures with Python objects; an invalid address
 * or name. */
PyObject *nc_wrapped(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    PyObject *name = NULL;
    if (nargs != 3 || !PyLong_CheckExact(args[0]) || !PyUnicode_CheckExact(args[1]) ||
        !PyDict_CheckExact(args[2])) {
        Py_RETURN_NONE;
    }
    if (PyDict_GET_SIZE(args[2]) != 0) {
        name = PyDict_GetItemString(args[2], "name");
        if (PyDict_GET_SIZE(args[2]) != 1 || name == NULL || !is_name(name)) {
            Py_RETURN_NONE;
        }
    }
    unsigned long long address = PyLong_AsUnsignedLongLong(args[0]);
    if (address == 0 || address > UINTPTR_MAX || PyErr_Occurred()) {
        PyErr_Clear(); /* negative, or too large */
        Py_RETURN_NONE;
    }
    NcCallInterface *cif = nc_callinterface_of(args[1]);
    PyObject *made = NULL;
    if (cif != NULL && cif->has_objects) {
        made = Py_NewRef(Py_None);
    } else if (cif != NULL && PySys_Audit("nativecall.wrap", "OO", args[0], args[1]) == 0) {
        made =
            nc_callable_shared(nc_callable_make(cif, (void *)(uintptr_t)address, 0, Py_None, name));
    }
    nc_drop_interface(cif);
    return made;
}
