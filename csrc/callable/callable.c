/* csrc/callable/callable.c: the native callable: one Python object around a table of native
 * entries.
 *
 * Guarantees. A Python call of a single (a callable with one entry) costs no more than its
 * trampoline: no lookup, no dispatch. A callable's call table can be read without the GIL at any
 * time (calltable.h). A failed operation changes nothing. Until it is freed, the callable owns
 * every object that one of its entries has ever pointed into.
 *
 * In Python this type is the base of nativecall.NativeCallable, which adds the features that are
 * not speed-critical. The metaclass creates NativeCallable, so NativeCallable inherits the custom
 * slots and their offset. */
#include "bind.h"
#include "foreign.h"
#include "builtinview.h"
#include "call/call.h"
#include "call/calls.h"
#include "entries.h"
#include "construct.h"
#include "overload.h"
#include "platform/address.h"
#include "platform/gil.h"
#include "nativecall/provide.h"
#include "values/names.h"
#include "platform/lock.h"

#include <structmember.h>

/* ---- the object ------------------------------------------------------------------------------ */

static int callable_traverse(PyObject *object, visitproc visit, void *arg)
{
    NcCallable *self = (NcCallable *)(void *)object;
    Py_VISIT(self->cif);
    Py_VISIT(self->owner);
    Py_VISIT(nc_more(self)->wrapper);
    Py_VISIT(nc_more(self)->parts);
    Py_VISIT(nc_more(self)->only);
    Py_VISIT(nc_more(self)->owners);
    Py_VISIT(nc_more(self)->specializer);
    return nc_foreign_traverse(nc_more(self), visit, arg);
}

/* The collector clears only unreachable objects. Native callers hold a reference, so no native
 * caller is left. If a finaliser still calls the object, the error of an empty callable is raised.
 * The call interface and its trampoline stay, because a view may still call the trampoline. */
static int callable_clear(PyObject *object)
{
    NcCallable *self = (NcCallable *)(void *)object;
    NcMore *more = nc_more(self);
    self->vectorcall = nc_vectorcall_empty;
    nc_callable_clear_tables(self);
    Py_CLEAR(self->owner);
    if (more != &nc_no_more) {
        Py_CLEAR(more->wrapper);
        nc_dispatcher_release(more->dispatcher);
        more->dispatcher = NULL;
        Py_CLEAR(more->parts);
        Py_CLEAR(more->only);
        Py_CLEAR(more->owners);
        more->self_class = NULL;
        Py_CLEAR(more->specializer);
        nc_foreign_forget(self);
    }
    return 0;
}

static void callable_dealloc(PyObject *object)
{
    NcCallable *self = (NcCallable *)(void *)object;
    NcMore *more = nc_more(self);
    PyObject_GC_UnTrack(object);
    if (self->weakrefs != NULL) {
        PyObject_ClearWeakRefs(object);
    }
    (void)callable_clear(object);
    nc_drop_interface(self->cif);
    Py_CLEAR(*nc_callable_name_place(self));
    if (more != &nc_no_more) {
        Py_CLEAR(more->signatures);
        Py_CLEAR(more->doc);
        Py_CLEAR(more->view);
        PyMem_Free(more);
    }
    Py_TYPE(object)->tp_free(object);
}

/* _describe(name, doc): sets name and doc once, before the first view exists. If the name is None,
 * the symbol's name is used. */
static PyObject *callable_describe(PyObject *object, PyObject *args)
{
    NcCallable *self = (NcCallable *)(void *)object;
    PyObject *name;
    PyObject *doc;
    if (!PyArg_ParseTuple(args, "OO", &name, &doc)) {
        return NULL;
    }
    if (name != Py_None && !PyUnicode_Check(name)) {
        PyErr_SetString(PyExc_TypeError, "the name of a callable must be a str");
        return NULL;
    }
    if (self->as.view.ml_name != NULL) {
        PyErr_SetString(PyExc_RuntimeError, "a callable with a built-in view cannot be renamed");
        return NULL;
    }
    if (nc_callable_say(self, name != Py_None ? name : NULL, doc != Py_None ? doc : NULL) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

/* The parts of an entry: (cif, address, flags, owner). */
typedef struct {
    NcCallInterface *cif;
    void *target;
    Py_ssize_t flags;
    PyObject *owner;
} Entry;

static int take_entry(PyObject *args, Entry *out)
{
    return PyArg_ParseTuple(args, "O!O&nO", &NcCallInterface_Type, &out->cif, nc_take_address,
                            &out->target, &out->flags, &out->owner);
}

/* _set_entry(cif, address, flags, owner): sets the only entry of an empty callable. */
static PyObject *callable_set_entry(PyObject *object, PyObject *args)
{
    NcCallable *self = (NcCallable *)(void *)object;
    Entry entry;
    if (!take_entry(args, &entry)) {
        return NULL;
    }
    if (self->cif != NULL || nc_more(self)->parts != NULL) {
        return nc_callable_error(self, PyExc_RuntimeError, "already has an entry");
    }
    if (entry.target == NULL) {
        PyErr_SetString(PyExc_ValueError, "the address of a function cannot be 0");
        return NULL;
    }
    if (nc_callable_begin(self, entry.cif, entry.target, (uintptr_t)entry.flags, entry.owner) < 0) {
        return NULL;
    }
    (void)nc_callable_shared(object);
    Py_RETURN_NONE;
}

/* _derived(cif, address, flags, owner): creates a callable of one entry, such as an overload, from
 * this one. The result has this callable's name and doc, but not its class. */
static PyObject *callable_derived(PyObject *object, PyObject *args)
{
    NcCallable *self = (NcCallable *)(void *)object;
    Entry entry;
    return take_entry(args, &entry)
               ? nc_callable_share_self(self, nc_callable_derive(self, entry.cif, entry.target,
                                                                 (uintptr_t)entry.flags,
                                                                 entry.owner, NULL))
               : NULL;
}

/* _set_overloads(overloads): replaces the overloads with a longer tuple of singles, which begins
 * with a single for each existing entry. Appends the entries of the new singles; Python calls then
 * choose among all overloads. */
static PyObject *callable_set_overloads(PyObject *object, PyObject *overloads)
{
    NcCallable *self = (NcCallable *)(void *)object;
    Py_ssize_t present = nc_calls(self)->count;
    if (!PyTuple_Check(overloads) || PyTuple_GET_SIZE(overloads) <= present) {
        PyErr_SetString(PyExc_TypeError, "overloads must be a tuple longer than the current one");
        return NULL;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(overloads); i++) {
        PyObject *parts = nc_more(self)->parts;
        if (parts != NULL && i < present &&
            PyTuple_GET_ITEM(parts, i) == PyTuple_GET_ITEM(overloads, i)) {
            continue;
        }
        /* A callable that is its own overload would recurse without end. */
        if (!nc_is_single(PyTuple_GET_ITEM(overloads, i)) ||
            PyTuple_GET_ITEM(overloads, i) == object) {
            PyErr_SetString(PyExc_TypeError,
                            "overloads must be other callables with one entry each");
            return NULL;
        }
        if (i < present && ((NcCallable *)(void *)PyTuple_GET_ITEM(overloads, i))->cif->text !=
                               nc_calls(self)->entries[i].signature) {
            PyErr_SetString(PyExc_ValueError, "overloads must begin with the existing ones");
            return NULL;
        }
    }
    if (nc_callable_more(self) == NULL) {
        return NULL;
    }
    for (Py_ssize_t i = present; i < PyTuple_GET_SIZE(overloads); i++) {
        NcCallable *part = (NcCallable *)(void *)PyTuple_GET_ITEM(overloads, i);
        if (nc_callable_own(self, (PyObject *)part) < 0 ||
            nc_callable_append(self, part->cif, NC_SINGLE_FLAGS(part), NC_SINGLE_TARGET(part)) <
                0) {
            return NULL;
        }
    }
    PyObject *parts = nc_swap_alone(&nc_more(self)->parts, Py_NewRef(overloads));
    if (nc_load_relaxed_ptr(&nc_more(self)->dispatcher) != NULL) {
        nc_dispatcher_release(nc_swap_alone(&nc_more(self)->dispatcher, NULL));
    }
    Py_XDECREF(parts);
    if (self->vectorcall != nc_vectorcall_overloaded) {
        nc_builtinview_overload(self);
    }
    nc_foreign_forget(self);
    Py_RETURN_NONE;
}

typedef struct {
    NcCallable *self;
    Py_ssize_t position;
    void *target;
    NcCallInterface *cif; /* new, then what to release */
    int status;
} Replacement;

/* Replaces both at once, since calls read both without a lock: see NC_ALONE. */
static int replace(PyObject *Py_UNUSED(any), void *given)
{
    Replacement *change = (Replacement *)given;
    NcCallable *self = change->self;
    change->status = nc_callable_change(self, change->position, change->target);
    if (change->status == 0 && nc_more(self)->parts == NULL) {
        NcCallInterface *old = self->cif;
        self->cif = change->cif;
        change->cif = old;
    }
    return 0;
}

/* callable_replace_each for one callable. The old owner and the old call interface stay alive,
 * because running calls use them. */
static PyObject *callable_replace(PyObject *object, PyObject *args)
{
    NcCallable *self = (NcCallable *)(void *)object;
    PyObject *owner;
    PyObject *cif;
    Py_ssize_t position;
    void *target;
    if (!PyArg_ParseTuple(args, "nO&OO!", &position, nc_take_address, &target, &owner,
                          &NcCallInterface_Type, &cif)) {
        return NULL;
    }
    if (position < 0 || (size_t)position >= nc_calltable_count(nc_calls(self)) ||
        nc_calls(self)->entries[position].signature != ((NcCallInterface *)(void *)cif)->text ||
        target == NULL) {
        PyErr_SetString(PyExc_ValueError, "no entry at this position has this signature");
        return NULL;
    }
    /* The callable keeps the name of its first function. The current owner must be the last item of
     * the list, even if it is None. */
    if (nc_callable_name(self) == NULL ||
        (nc_more(self)->parts == NULL && nc_callable_own(self, (PyObject *)self->cif) < 0) ||
        nc_callable_own(self, owner) < 0) {
        return NULL;
    }
    Py_INCREF(cif);
    Replacement change = {self, position, target, (NcCallInterface *)(void *)cif, 0};
    NC_ALONE(replace, &change);
    Py_DECREF(change.cif);
    if (change.status < 0) {
        return NULL;
    }
    if (nc_more(self) != &nc_no_more) {
        Py_CLEAR(nc_more(self)->wrapper);
    }
    nc_foreign_forget(self);
    Py_RETURN_NONE;
}

/* ---- introspection --------------------------------------------------------------------------- */

/* Returns a consistent snapshot (cif, address, flags) of a single, or None without entries. */
static PyObject *callable_entry(PyObject *object, PyObject *Py_UNUSED(none))
{
    NcCallable *self = (NcCallable *)(void *)object;
    NcCallInterface *cif = self->cif;
    uintptr_t flags = NC_SINGLE_FLAGS(self);
    if (cif == NULL) {
        Py_RETURN_NONE;
    }
    /* Hold the call interface: the next calls may run code that replaces the entry. */
    return Py_BuildValue("(NNn)", Py_NewRef(cif), PyLong_FromVoidPtr(NC_SINGLE_TARGET(self)),
                         (Py_ssize_t)flags);
}

/* _trampoline_kind(): returns how a single is called: "python", "plan" or "ahead of time". */
static PyObject *callable_trampoline_kind(PyObject *object, PyObject *Py_UNUSED(none))
{
    NcCallable *self = (NcCallable *)(void *)object;
    if (self->cif == NULL) {
        return nc_refuse_empty(self);
    }
    return PyUnicode_FromString(self->vectorcall == nc_vectorcall_wrapper ? "python"
                                : self->vectorcall == nc_vectorcall_plan  ? "plan"
                                                                          : "ahead of time");
}

/* _unwrap(): from now on, a single is called by its plan, even if it has a trampoline or calls are
 * traced. The single must not have a view. */
static PyObject *callable_unwrap(PyObject *object, PyObject *Py_UNUSED(none))
{
    NcCallable *self = (NcCallable *)(void *)object;
    if (!nc_has_one(self) || self->as.view.ml_name != NULL) {
        PyErr_SetString(PyExc_RuntimeError,
                        "only a callable with one entry and no view can be unwrapped");
        return NULL;
    }
    self->vectorcall = nc_vectorcall_plan;
    Py_RETURN_NONE;
}

NC_CRITICAL(callable_set_entry, PyObject)
NC_CRITICAL(callable_set_overloads, PyObject)
NC_CRITICAL(callable_replace, PyObject)
NC_CRITICAL(nc_entries_signatures, void)
NC_CRITICAL(nc_builtinview_get, void)

/* _replace(position, address, owner, cif): points an entry to another function, in the callable and
 * in its copies for this entry (nc_entries_only). `cif` has the entry's signature, and the new
 * function's argument names and const promises. */
static PyObject *callable_replace_each(PyObject *object, PyObject *args)
{
    PyObject *done = NC_WITH_LOCK(callable_replace)(object, args);
    PyObject *only = done != NULL && PyLong_AsSsize_t(PyTuple_GET_ITEM(args, 0)) == 0
                         ? nc_kept(&nc_more((NcCallable *)(void *)object)->only)
                         : NULL;
    while (done != NULL && only != NULL) {
        Py_SETREF(done, NC_WITH_LOCK(callable_replace)(only, args));
        only = nc_kept(&nc_more((NcCallable *)(void *)only)->only);
    }
    return done;
}

static PyMethodDef callable_methods[] = {
    {"_describe", callable_describe, METH_VARARGS, NULL},
    {"_set_entry", NC_WITH_LOCK(callable_set_entry), METH_VARARGS, NULL},
    {"_derived", callable_derived, METH_VARARGS, NULL},
    {"_set_overloads", NC_WITH_LOCK(callable_set_overloads), METH_O, NULL},
    {"_replace", callable_replace_each, METH_VARARGS, NULL},
    {"_entries", nc_entries_rows, METH_NOARGS, NULL},
    {"_entry", callable_entry, METH_NOARGS, NULL},
    {"_trampoline_kind", callable_trampoline_kind, METH_NOARGS, NULL},
    {"_unwrap", callable_unwrap, METH_NOARGS, NULL},
    {"address", NC_METHOD(nc_entries_address), METH_FASTCALL | METH_KEYWORDS,
     "address($self, /, signature=None)\n--\n\n"
     "Return the C function pointer of an entry.\n\n"
     "Parameters\n----------\n"
     "signature : str, optional\n"
     "    In any spelling; optional if there is one entry.\n\n"
     "Raises\n------\n"
     "NoEntryError\n"
     "    There is no such entry (a `KeyError`)."},
    {"_alone", nc_foreign_entry, METH_O, NULL},
    {"to_ctypes", NC_METHOD(nc_foreign_ctypes), METH_FASTCALL | METH_KEYWORDS, nc_doc_to_ctypes},
    {"to_cffi", NC_METHOD(nc_foreign_cffi), METH_FASTCALL | METH_KEYWORDS, nc_doc_to_cffi},
    {"to_capsule", NC_METHOD(nc_foreign_capsule), METH_FASTCALL | METH_KEYWORDS, nc_doc_to_capsule},
    {"to_scipy", NC_METHOD(nc_foreign_scipy), METH_FASTCALL | METH_KEYWORDS, nc_doc_to_scipy},
    {"bind", NC_METHOD(nc_callable_bind), METH_FASTCALL | METH_KEYWORDS, nc_doc_bind},
    {"convert", NC_METHOD(nc_callable_convert), METH_FASTCALL | METH_KEYWORDS, nc_doc_convert},
    {"_converted", nc_callable_converted, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef callable_members[] = {
    {"_cif", T_OBJECT, offsetof(NcCallable, cif), READONLY, NULL},
    {"_target", NC_T_ADDRESS, offsetof(NcCallable, single.entries[0].funcptr), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyObject *callable_get_name(PyObject *object, void *Py_UNUSED(closure))
{
    return Py_XNewRef(nc_callable_name((NcCallable *)(void *)object));
}

/* Returns a copy, because removing an owner from the list itself could free code that is still
 * called. */
static PyObject *callable_get_owners(PyObject *object, void *Py_UNUSED(closure))
{
    NcCallable *self = (NcCallable *)(void *)object;
    PyObject *found;
    NC_BEGIN_SECTION(object);
    PyObject *owners = nc_more(self)->owners;
    found = owners != NULL        ? PyList_AsTuple(owners)
            : self->owner != NULL ? PyTuple_Pack(1, self->owner)
                                  : PyTuple_New(0);
    NC_END_SECTION();
    return found;
}

/* Returns a field of NcMore by its offset; None if the field is NULL. */
static PyObject *callable_get_more(PyObject *object, void *offset)
{
    char *more = (char *)nc_more((NcCallable *)(void *)object);
    PyObject *found = nc_kept((PyObject **)(void *)(more + (uintptr_t)offset));
    return Py_NewRef(found != NULL ? found : Py_None);
}

static int callable_set_specializer(PyObject *object, PyObject *value, void *Py_UNUSED(closure))
{
    NcMore *more = nc_callable_more((NcCallable *)(void *)object);
    if (more == NULL) {
        return -1;
    }
    /* Drop the cached choices, which were made without the new hook, so that the new hook is
     * asked. */
    Py_XDECREF(nc_swap_alone(&more->specializer, value != Py_None ? Py_XNewRef(value) : NULL));
    nc_dispatcher_release(nc_swap_alone(&more->dispatcher, NULL));
    return 0;
}

static PyObject *callable_get_is_entry(PyObject *object, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(
        __atomic_load_n(&nc_more((NcCallable *)(void *)object)->is_entry, __ATOMIC_RELAXED));
}

static PyObject *callable_get_only(PyObject *object, void *Py_UNUSED(closure))
{
    NcCallable *self = (NcCallable *)(void *)object;
    /* The first in the chain of copies: as a part, it has all others behind it. */
    PyObject *first = nc_kept(&nc_more(self)->only);
    return Py_XNewRef(first != NULL ? first : self->cif != NULL ? nc_entries_only(self) : Py_None);
}

/* Python code builds the annotations, because they are rarely used. Like Python's type of
 * functions, this type has a descriptor as `__annotations__`. typing.get_type_hints(type) skips
 * such descriptors. */
static PyObject *callable_get_annotations(PyObject *object, void *Py_UNUSED(closure))
{
    return PyObject_CallMethod(object, "_annotations", NULL);
}

/* Returns the annotate function of PEP 649, which CPython 3.14 and later calls with a format. */
static PyObject *callable_get_annotate(PyObject *object, void *Py_UNUSED(closure))
{
    return PyObject_GetAttrString(object, "_annotate");
}

#define MORE(field) ((void *)offsetof(NcMore, field))

static PyMappingMethods callable_mapping = {
    .mp_subscript = nc_entries_subscript,
};

static PySequenceMethods callable_sequence = {
    .sq_contains = nc_entries_contains,
};

static PyGetSetDef callable_getset[] = {
    {"__name__", callable_get_name, NULL, NULL, NULL},
    {"__qualname__", callable_get_name, NULL, NULL, NULL},
    {"__annotations__", callable_get_annotations, NULL, NULL, NULL},
    {"__annotate__", callable_get_annotate, NULL, NULL, NULL},
    {"_as_parameter_", nc_foreign_parameter, NULL,
     "The function pointer that ctypes passes: `to_ctypes()`.", NULL},
    {"_doc", callable_get_more, NULL, NULL, MORE(doc)},
    {"_overloads", callable_get_more, NULL, NULL, MORE(parts)},
    {"_specializer", callable_get_more, callable_set_specializer, NULL, MORE(specializer)},
    {"_is_entry", callable_get_is_entry, NULL, "whether f[signature] returned it", NULL},
    {"_only", callable_get_only, NULL, "a single restricted to its entry", NULL},
    {"_owners", callable_get_owners, NULL,
     "objects that it keeps alive; the last is the current owner", NULL},
    {"signatures", NC_WITH_LOCK(nc_entries_signatures), NULL,
     "Canonical signatures of the entries, in the order they were added.", NULL},
    {"builtin", NC_WITH_LOCK(nc_builtinview_get), NULL,
     "The same callable as a real built-in function, for hot loops in Python.\n\n"
     "CPython's specialising interpreter calls exact built-ins faster than objects of any other\n"
     "type. The view's __self__ is the callable, which nativecall.wrap returns; native consumers\n"
     "accept either.",
     NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

/* The custom slots of every native callable's type, each at its expected position. The type's field
 * etp_obj_custom_slots_offset repeats the offset in row 0. */
static PyCustomSlot callable_slots[] = {
    {PYCUSTOMSLOT_NATIVECALLABLE_ID, 0, {NULL}},
    {PYCUSTOMSLOT_PACKEDCALLABLE_ID, 0, {NULL}},
    {0, 0, {NULL}},
};

PyHeapExtensibleTypeObject NcCallable_Type = {
    .etp_heaptype.ht_type =
        {
            PyVarObject_HEAD_INIT(NULL, 0).tp_name = "nativecall.CallableBase",
            .tp_doc = "The compiled half of nativecall.NativeCallable.",
            .tp_basicsize = sizeof(NcCallable),
            .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC |
                        Py_TPFLAGS_HAVE_VECTORCALL,
            .tp_vectorcall_offset = offsetof(NcCallable, vectorcall),
            .tp_weaklistoffset = offsetof(NcCallable, weakrefs),
            .tp_call = PyVectorcall_Call,
            .tp_as_mapping = &callable_mapping,
            .tp_as_sequence = &callable_sequence,
            .tp_new = nc_callable_new,
            .tp_traverse = callable_traverse,
            .tp_clear = callable_clear,
            .tp_dealloc = callable_dealloc,
            .tp_methods = callable_methods,
            .tp_members = callable_members,
            .tp_getset = callable_getset,
        },
};

/* ---- missing entries ------------------------------------------------------------------------- */

static const PyNativeCallableEntry *published_entry(const NcCallable *self, const char *signature)
{
    const PyNativeCallableTable *table = nc_calls(self);
    const PyNativeCallableEntry *entry = table->entries;
    const char *text;
    for (; (text = (const char *)nc_load_acquire_ptr(&entry->signature)) != NULL; entry++) {
        if (text == signature || strcmp(text, signature) == 0) {
            return entry;
        }
    }
    return NULL;
}

/* The `find` of NcNativeApi: asks the specialize hook for an entry that is missing from the table.
 * Without the GIL, or in another interpreter, find_or_make only looks into the table. */
static const PyNativeCallableEntry *find_or_make(PyObject *object, const char *signature,
                                                 uintptr_t refuse)
{
    NcCallable *self = (NcCallable *)(void *)object;
    const PyNativeCallableEntry *entry;
    const PyThreadState *thread;
    PyThreadState *own;
    if (!PyObject_TypeCheck(object, (PyTypeObject *)&NcCallable_Type) ||
        nc_native_table(object) == NULL) {
        /* `__nativecall_api__` was copied to another class, or the object's class overrides
         * __call__ or may do so later. */
        return NULL;
    }
    entry = published_entry(self, signature);
    thread = entry == NULL && nc_more(self)->specializer != NULL ? nc_thread_attached(&own) : NULL;
    if (thread != NULL && !nc_is_foreign(thread) && !PyErr_Occurred()) {
        /* The hook decides whether the bytes are a signature. */
        PyObject *text = PyUnicode_DecodeLatin1(signature, (Py_ssize_t)strlen(signature), NULL);
        PyObject *done = text == NULL ? NULL
                                      : PyObject_CallFunctionObjArgs(NC_HOOK(specialize), object,
                                                                     text, (PyObject *)NULL);
        Py_XDECREF(text);
        if (done == NULL) {
            return NULL;
        }
        Py_DECREF(done);
        entry = published_entry(self, signature);
    }
    return entry != NULL && nc_calltable_flags_suit(entry->flags, refuse) ? entry : NULL;
}

/* `callable_api` lists no entries, since consumers read the call table before they use this API. */
static NcNativeApi callable_api = {sizeof(NcNativeApi), NC_NATIVEAPI_NAME, NULL, find_or_make,
                                   NULL};

int nc_callable_ready(PyObject *module)
{
    callable_slots[0].data.objoffset = (intptr_t)offsetof(NcCallable, calls);
    callable_slots[1].data.objoffset = (intptr_t)offsetof(NcCallable, packed);
    NcCallable_Type.etp_custom_slots = NC_STATIC_SLOTS(callable_slots);
    NcCallable_Type.etp_obj_custom_slots_offset = (Py_ssize_t)callable_slots[0].data.objoffset;
    return nc_foreign_ready() < 0 || nc_builtinview_ready() < 0 ||
                   nc_runtime->ready(&NcCallable_Type, 3) < 0 ||
                   nc_provide(&NcCallable_Type, &callable_api, 0) < 0
               ? -1
               : PyModule_AddType(module, (PyTypeObject *)&NcCallable_Type);
}
