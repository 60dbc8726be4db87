/* csrc/object/callable.c: the native callable: one Python object around a table of native entries.
 *
 * Guarantees: calling it from Python costs what the trampoline costs (no lookup, no dispatch) while
 * it is single; its call table can be read without the GIL at any time (calltable.h); a failed
 * operation changes nothing; whatever an entry ever pointed into stays owned until the callable
 * dies.
 *
 * Python sees this type as the base of nativecall.NativeCallable, which adds what needs no
 * speed. The class statement there is made by the metaclass, so it inherits slots and offset. */
#include "callable.h"

#include "builtinview.h"
#include "callablecalls.h"
#include "overload.h"
#include "nativecall/nativeapi.h"

#include <structmember.h>

NcHooks nc_hooks;

/* Flags of an entry that change how a call is made; ahead-of-time code knows none of them. */
#define CALL_FLAGS ((uintptr_t)(NC_FLAG_RELEASE_GIL | NC_FLAG_ERRNO | NC_ERRORS_MASK))

static int has_ahead_of_time(const NcCallable *self)
{
    return self->spec->trampoline != NULL && (self->flags & CALL_FLAGS) == 0;
}

/* ---- the object ------------------------------------------------------------------------------ */

static int callable_traverse(PyObject *object, visitproc visit, void *arg)
{
    NcCallable *self = (NcCallable *)(void *)object;
    Py_VISIT(self->spec);
    Py_VISIT(self->fallback);
    Py_VISIT(self->parts);
    Py_VISIT(self->only);
    Py_VISIT(self->owners);
    Py_VISIT(self->specializer);
    return 0;
}

/* The collector clears only what no reference from outside reaches, so no native caller is left: a
 * reader holds a reference. Finalisers that still see the object get the error of an empty one.
 * CallSpec and trampoline stay, because views call them. */
static int callable_clear(PyObject *object)
{
    NcCallable *self = (NcCallable *)(void *)object;
    self->vectorcall = nc_vectorcall_empty;
    nc_nativetable_clear(&self->native);
    Py_CLEAR(self->fallback);
    nc_dispatcher_release(self->dispatcher);
    self->dispatcher = NULL;
    Py_CLEAR(self->parts);
    Py_CLEAR(self->only);
    Py_CLEAR(self->owners);
    Py_CLEAR(self->specializer);
    return 0;
}

static void callable_dealloc(PyObject *object)
{
    NcCallable *self = (NcCallable *)(void *)object;
    PyObject_GC_UnTrack(object);
    if (self->weakrefs != NULL) {
        PyObject_ClearWeakRefs(object);
    }
    (void)callable_clear(object);
    Py_CLEAR(self->spec);
    Py_CLEAR(self->generated);
    Py_CLEAR(self->view);
    Py_CLEAR(self->name);
    Py_CLEAR(self->doc);
    Py_CLEAR(self->module);
    Py_TYPE(object)->tp_free(object);
}

static PyObject *callable_new(PyTypeObject *type, PyObject *Py_UNUSED(args),
                              PyObject *Py_UNUSED(kwargs))
{
    NcCallable *self = (NcCallable *)(void *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    nc_nativetable_init(&self->native);
    self->vectorcall = nc_vectorcall_empty;
    self->doc = Py_NewRef(Py_None);
    self->module = Py_NewRef(Py_None);
    self->name = PyUnicode_FromString("function");
    if (self->name == NULL) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

/* Keeps an owner as long as the callable, once however often it comes, and as the last one of all;
 * None counts once there are others before it. */
static int own(NcCallable *self, PyObject *owner)
{
    Py_ssize_t count;
    if (owner == Py_None && self->owners == NULL) {
        return 0;
    }
    if (self->owners == NULL) {
        self->owners = PyList_New(0);
        if (self->owners == NULL) {
            return -1;
        }
    }
    count = PyList_GET_SIZE(self->owners);
    for (Py_ssize_t i = 0; i < count; i++) {
        if (PyList_GET_ITEM(self->owners, i) == owner) {
            /* No reference is counted: it is the same list in another order. */
            for (; i < count - 1; i++) {
                PyList_SET_ITEM(self->owners, i, PyList_GET_ITEM(self->owners, i + 1));
            }
            PyList_SET_ITEM(self->owners, count - 1, owner);
            return 0;
        }
    }
    return PyList_Append(self->owners, owner);
}

/* _describe(name, doc, module): once, before the first view. */
static PyObject *callable_describe(PyObject *object, PyObject *args)
{
    NcCallable *self = (NcCallable *)(void *)object;
    PyObject *name;
    PyObject *doc;
    PyObject *module;
    if (!PyArg_ParseTuple(args, "UOO", &name, &doc, &module)) {
        return NULL;
    }
    if (self->view_single.ml_name != NULL || self->view_overloaded.ml_name != NULL) {
        PyErr_SetString(PyExc_RuntimeError, "a callable that has a built-in view keeps its name");
        return NULL;
    }
    Py_XSETREF(self->name, Py_NewRef(name));
    Py_XSETREF(self->doc, Py_NewRef(doc));
    Py_XSETREF(self->module, Py_NewRef(module));
    Py_RETURN_NONE;
}

static PyObject *raise_status(int status)
{
    if (status == NC_E_NOMEM) {
        return PyErr_NoMemory();
    }
    PyErr_SetString(PyExc_ValueError, nc_status_text(status));
    return NULL;
}

static int append_entry(NcCallable *self, const NcCallSpec *spec, uintptr_t flags, void *target)
{
    return nc_nativetable_add_packed(&self->native, spec->text, spec->words, spec->word_count,
                                     flags, target);
}

/* _set_entry(spec, address, flags, owner): the only entry of an empty callable. */
static PyObject *callable_set_entry(PyObject *object, PyObject *args)
{
    NcCallable *self = (NcCallable *)(void *)object;
    PyObject *spec;
    PyObject *address;
    PyObject *owner;
    void *target;
    Py_ssize_t flags;
    int status;
    if (!PyArg_ParseTuple(args, "O!O!nO", &NcCallSpec_Type, &spec, &PyLong_Type, &address, &flags,
                          &owner)) {
        return NULL;
    }
    target = PyLong_AsVoidPtr(address);
    if (target == NULL && PyErr_Occurred()) {
        return NULL;
    }
    if (self->spec != NULL || self->parts != NULL) {
        PyErr_Format(PyExc_RuntimeError, "'%U' has an entry already", self->name);
        return NULL;
    }
    if (target == NULL) {
        PyErr_SetString(PyExc_ValueError, "the address of a function cannot be 0");
        return NULL;
    }
    if (own(self, owner) < 0) {
        return NULL;
    }
    self->target = target;
    self->flags = (uintptr_t)flags;
    status = append_entry(self, (NcCallSpec *)(void *)spec, (uintptr_t)flags, target);
    if (status != NC_OK) {
        return raise_status(status);
    }
    self->spec = (NcCallSpec *)(void *)Py_NewRef(spec);
    if (has_ahead_of_time(self)) {
        self->vectorcall = self->spec->trampoline->vectorcall;
        self->decided = 1;
    } else {
        self->vectorcall = nc_vectorcall_fallback;
    }
    Py_RETURN_NONE;
}

static int is_single(PyObject *object)
{
    return PyObject_TypeCheck(object, (PyTypeObject *)&NcCallable_Type) &&
           ((NcCallable *)(void *)object)->parts == NULL &&
           ((NcCallable *)(void *)object)->spec != NULL;
}

/* _set_overloads(overloads): a longer tuple of callables of one entry each, the present ones first.
 * Appends the entries of the new ones, then lets Python calls choose among all. */
static PyObject *callable_set_overloads(PyObject *object, PyObject *overloads)
{
    NcCallable *self = (NcCallable *)(void *)object;
    Py_ssize_t present = self->native.calls.published->count;
    if (!PyTuple_Check(overloads) || PyTuple_GET_SIZE(overloads) <= present) {
        PyErr_SetString(PyExc_TypeError, "overloads must be a tuple longer than the present one");
        return NULL;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(overloads); i++) {
        /* Part of itself, it would call itself for ever. */
        if (!is_single(PyTuple_GET_ITEM(overloads, i)) ||
            PyTuple_GET_ITEM(overloads, i) == object) {
            PyErr_SetString(PyExc_TypeError, "overloads must be other callables of one entry");
            return NULL;
        }
        if (i < present && ((NcCallable *)(void *)PyTuple_GET_ITEM(overloads, i))->spec->text !=
                               self->native.calls.published->entries[i].signature) {
            PyErr_SetString(PyExc_ValueError,
                            "overloads must begin with those of the present entries");
            return NULL;
        }
    }
    for (Py_ssize_t i = present; i < PyTuple_GET_SIZE(overloads); i++) {
        NcCallable *part = (NcCallable *)(void *)PyTuple_GET_ITEM(overloads, i);
        int status;
        if (own(self, (PyObject *)part) < 0) {
            return NULL;
        }
        status = append_entry(self, part->spec, part->flags, part->target);
        if (status != NC_OK) {
            return raise_status(status);
        }
    }
    nc_dispatcher_release(self->dispatcher);
    self->dispatcher = NULL;
    Py_XSETREF(self->parts, Py_NewRef(overloads));
    self->vectorcall = nc_vectorcall_overloaded;
    nc_builtinview_overload(self);
    Py_RETURN_NONE;
}

/* _replace(position, address, owner, spec): another function for an entry, with the names and
 * promises of another spec of the same signature. The old owner and the old spec stay: calls that
 * are under way use them. */
static PyObject *callable_replace(PyObject *object, PyObject *args)
{
    NcCallable *self = (NcCallable *)(void *)object;
    PyObject *address;
    PyObject *owner;
    PyObject *spec;
    Py_ssize_t position;
    void *target;
    int status;
    if (!PyArg_ParseTuple(args, "nO!OO!", &position, &PyLong_Type, &address, &owner,
                          &NcCallSpec_Type, &spec)) {
        return NULL;
    }
    target = PyLong_AsVoidPtr(address);
    if (target == NULL && PyErr_Occurred()) {
        return NULL;
    }
    if (position < 0 || (size_t)position >= nc_calltable_count(self->native.calls.published) ||
        self->native.calls.published->entries[position].signature !=
            ((NcCallSpec *)(void *)spec)->text ||
        target == NULL) {
        PyErr_SetString(PyExc_ValueError, "there is no such entry to replace");
        return NULL;
    }
    if (self->parts == NULL && own(self, (PyObject *)self->spec) < 0) {
        return NULL;
    }
    /* The last owner is the present one's, None too. */
    if (own(self, owner) < 0) {
        return NULL;
    }
    status = nc_nativetable_replace(&self->native, (size_t)position, target);
    if (status != NC_OK) {
        return raise_status(status);
    }
    if (self->parts == NULL) {
        nc_store_release_ptr(&self->target, target);
        Py_XSETREF(self->spec, (NcCallSpec *)(void *)Py_NewRef(spec));
        Py_CLEAR(self->fallback);
    }
    Py_RETURN_NONE;
}

/* ---- introspection --------------------------------------------------------------------------- */

/* (spec, address, flags) of a single as they are at one moment; None without entries. */
static PyObject *callable_entry(PyObject *object, PyObject *Py_UNUSED(none))
{
    NcCallable *self = (NcCallable *)(void *)object;
    NcCallSpec *spec = self->spec;
    uintptr_t flags = self->flags;
    PyObject *address;
    if (spec == NULL) {
        Py_RETURN_NONE;
    }
    /* What follows may run code that replaces the entry. */
    Py_INCREF(spec);
    address = PyLong_FromVoidPtr(self->target);
    if (address == NULL) {
        Py_DECREF(spec);
        return NULL;
    }
    return Py_BuildValue("(NNn)", spec, address, (Py_ssize_t)flags);
}

/* _entries(): those of the call table as readers see them, [(text, address, flags)]. */
static PyObject *callable_entries(PyObject *object, PyObject *Py_UNUSED(none))
{
    NcCallable *self = (NcCallable *)(void *)object;
    const PyNativeCallableTable *table = nc_calltable_published(&self->native.calls);
    Py_ssize_t count = (Py_ssize_t)nc_calltable_count(table);
    PyObject *entries = PyList_New(count);
    for (Py_ssize_t i = 0; entries != NULL && i < count; i++) {
        const PyNativeCallableEntry *entry = &table->entries[i];
        PyObject *address = PyLong_FromVoidPtr(nc_calltable_funcptr(entry));
        PyObject *item = address == NULL ? NULL
                                         : Py_BuildValue("(sNn)", entry->signature, address,
                                                         (Py_ssize_t)entry->flags);
        if (item == NULL) {
            Py_CLEAR(entries);
            break;
        }
        PyList_SET_ITEM(entries, i, item);
    }
    return entries;
}

int nc_callable_is_only(PyObject *callable, const void *address)
{
    const PyNativeCallableTable *table =
        nc_calltable_published(&((NcCallable *)(void *)callable)->native.calls);
    return nc_calltable_count(table) == 1 && nc_calltable_funcptr(&table->entries[0]) == address;
}

static PyObject *callable_memory(PyObject *object, PyObject *Py_UNUSED(none))
{
    NcCallable *self = (NcCallable *)(void *)object;
    return Py_BuildValue("(nn)", (Py_ssize_t)nc_nativetable_live_bytes(&self->native),
                         (Py_ssize_t)nc_nativetable_retired_bytes(&self->native));
}

/* _trampoline_kind(): how calls of a single are made; decides it if no call has yet. */
static PyObject *callable_trampoline_kind(PyObject *object, PyObject *Py_UNUSED(none))
{
    NcCallable *self = (NcCallable *)(void *)object;
    if (self->spec == NULL) {
        return nc_vectorcall_empty(object, NULL, 0, NULL);
    }
    if (!self->decided && nc_callable_generate(self, NULL) < 0) {
        return NULL;
    }
    return PyUnicode_FromString(self->generated != NULL                      ? "generated"
                                : self->vectorcall == nc_vectorcall_fallback ? "libffi"
                                                                             : "ahead of time");
}

/* _choose(way): makes a single that was neither called nor asked for a view call through "libffi";
 * through "generated" code though there may be other; or through generated code for a variadic
 * function, of which `way` is the number of fixed arguments. */
static PyObject *callable_choose(PyObject *object, PyObject *way)
{
    NcCallable *self = (NcCallable *)(void *)object;
    int libffi = PyUnicode_Check(way) && PyUnicode_CompareWithASCIIString(way, "libffi") == 0;
    int generated = PyUnicode_Check(way) && PyUnicode_CompareWithASCIIString(way, "generated") == 0;
    if (!libffi && !generated && !PyLong_Check(way)) {
        PyErr_SetString(PyExc_ValueError, "'way' must be 'libffi', 'generated' or a number");
        return NULL;
    }
    if (self->spec == NULL || self->parts != NULL || self->generated != NULL ||
        self->fallback != NULL || self->view_single.ml_name != NULL) {
        PyErr_Format(PyExc_RuntimeError, "it is decided how '%U' is called", self->name);
        return NULL;
    }
    self->vectorcall = nc_vectorcall_fallback;
    self->decided = 1;
    if (!libffi && nc_callable_generate(self, generated ? NULL : way) < 0) {
        return NULL;
    }
    if (!libffi && self->generated == NULL) {
        PyErr_Format(PyExc_RuntimeError, "no trampoline can be generated for '%U'", self->name);
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyMethodDef callable_methods[] = {
    {"_describe", callable_describe, METH_VARARGS, NULL},
    {"_set_entry", callable_set_entry, METH_VARARGS, NULL},
    {"_set_overloads", callable_set_overloads, METH_O, NULL},
    {"_replace", callable_replace, METH_VARARGS, NULL},
    {"_entries", callable_entries, METH_NOARGS, NULL},
    {"_entry", callable_entry, METH_NOARGS, NULL},
    {"_table_memory", callable_memory, METH_NOARGS, NULL},
    {"_trampoline_kind", callable_trampoline_kind, METH_NOARGS, NULL},
    {"_choose", callable_choose, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef callable_members[] = {
    {"__name__", T_OBJECT, offsetof(NcCallable, name), READONLY, NULL},
    {"__qualname__", T_OBJECT, offsetof(NcCallable, name), READONLY, NULL},
    {"_doc", T_OBJECT, offsetof(NcCallable, doc), READONLY, NULL},
    {"_module", T_OBJECT, offsetof(NcCallable, module), READONLY, NULL},
    {"_spec", T_OBJECT, offsetof(NcCallable, spec), READONLY, NULL},
    {"_overloads", T_OBJECT, offsetof(NcCallable, parts), READONLY, NULL},
    {"_target", sizeof(void *) == 8 ? T_ULONGLONG : T_UINT, offsetof(NcCallable, target), READONLY,
     NULL},
    {"_generated", T_OBJECT, offsetof(NcCallable, generated), READONLY, NULL},
    {"_specializer", T_OBJECT, offsetof(NcCallable, specializer), 0, NULL},
    {"_only", T_OBJECT, offsetof(NcCallable, only), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

/* A copy: what is taken out of the list itself could be code that calls still go to. */
static PyObject *callable_get_owners(PyObject *object, void *Py_UNUSED(closure))
{
    NcCallable *self = (NcCallable *)(void *)object;
    return self->owners != NULL ? PyList_AsTuple(self->owners) : PyTuple_New(0);
}

static PyGetSetDef callable_getset[] = {
    {"_owners", callable_get_owners, NULL, "what lives as long; the last is the present one's",
     NULL},
    {"builtin", nc_builtinview_get, NULL,
     "The same callable as a real built-in function, for hot loops in Python.\n\n"
     "CPython's specialising interpreter calls exact built-ins faster than objects of any other\n"
     "type. __self__ of the view is the callable; nativecall.wrap gives it back, and native\n"
     "consumers accept either.",
     NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

/* The rows of every native callable's type, each at its expected position; the offset in the type
 * says the same as row 0. */
static PyCustomSlot callable_slots[] = {
    {PYCUSTOMSLOT_NATIVECALLABLE_ID, 0, {NULL}},
    {PYCUSTOMSLOT_PACKEDCALLABLE_ID, 0, {NULL}},
    {0, 0, {NULL}},
};

PyHeapExtensibleTypeObject NcCallable_Type = {
    .etp_heaptype.ht_type =
        {
            PyVarObject_HEAD_INIT(NULL, 0).tp_name = "nativecall._types.CallableBase",
            .tp_doc = "The compiled half of nativecall.NativeCallable.",
            .tp_basicsize = sizeof(NcCallable),
            .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC |
                        Py_TPFLAGS_HAVE_VECTORCALL,
            .tp_vectorcall_offset = offsetof(NcCallable, vectorcall),
            .tp_weaklistoffset = offsetof(NcCallable, weakrefs),
            .tp_call = PyVectorcall_Call,
            .tp_new = callable_new,
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
    const PyNativeCallableEntry *entry = nc_calltable_published(&self->native.calls)->entries;
    const char *text;
    for (; (text = (const char *)nc_load_acquire_ptr(&entry->signature)) != NULL; entry++) {
        if (text == signature || strcmp(text, signature) == 0) {
            return entry;
        }
    }
    return NULL;
}

/* How consumers that found nothing in the table have the specialize hook asked: the `find` of
 * nativeapi.h. Without the GIL it looks into the table only. */
static const PyNativeCallableEntry *find_or_make(PyObject *object, const char *signature,
                                                 uintptr_t refuse)
{
    NcCallable *self = (NcCallable *)(void *)object;
    const PyNativeCallableEntry *entry;
    if (!PyObject_TypeCheck(object, (PyTypeObject *)&NcCallable_Type) ||
        nc_native_table(object) == NULL) {
        /* The attribute was copied to another class; or this one has a __call__ of its own, or may
         * get one yet. */
        return NULL;
    }
    entry = published_entry(self, signature);
    if (entry == NULL && nc_thread_attached() != NULL && self->specializer != NULL &&
        self->specializer != Py_None && !PyErr_Occurred()) {
        /* Whatever the bytes are, reading them as a signature is the hook's. */
        PyObject *text = PyUnicode_DecodeLatin1(signature, (Py_ssize_t)strlen(signature), NULL);
        PyObject *done = text == NULL ? NULL
                                      : PyObject_CallFunctionObjArgs(nc_hooks.specialize, object,
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

/* It tells no entries: who asks has read the table. */
static NcNativeApi callable_api = {sizeof(NcNativeApi), NC_NATIVEAPI_NAME, NULL, find_or_make,
                                   NULL};

static int publish_api(void)
{
    PyObject *capsule = PyCapsule_New(&callable_api, NC_NATIVEAPI_CAPSULE, NULL);
    int status = capsule == NULL
                     ? -1
                     : PyDict_SetItemString(NcCallable_Type.etp_heaptype.ht_type.tp_dict,
                                            NC_NATIVEAPI_ATTRIBUTE, capsule);
    Py_XDECREF(capsule);
    PyType_Modified((PyTypeObject *)&NcCallable_Type);
    return status;
}

int nc_callable_ready(PyObject *module)
{
    callable_slots[0].data.objoffset =
        (intptr_t)(offsetof(NcCallable, native) + NC_NATIVETABLE_CALLS);
    callable_slots[1].data.objoffset =
        (intptr_t)(offsetof(NcCallable, native) + NC_NATIVETABLE_PACKED);
    NcCallable_Type.etp_custom_slots = NC_STATIC_SLOTS(callable_slots);
    NcCallable_Type.etp_obj_custom_slots_offset = (Py_ssize_t)callable_slots[0].data.objoffset;
    return PyExtensibleType_Ready(&NcCallable_Type, 3) < 0 || publish_api() < 0 ||
                   PyModule_AddType(module, (PyTypeObject *)&NcCallable_Type) < 0
               ? -1
               : PyModule_AddType(module, &NcCallSpec_Type);
}
