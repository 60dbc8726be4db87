/* nativecall/extensibletype.h: types with a slot table, and the one metaclass that they all share.
 *
 * For providers: code that gives its types slots which native code can find by key (SEP 200). The
 * whole metaclass comes with it, so that a project can bundle this folder and need nothing at run
 * time.
 *
 *     static PyCustomSlot slots[2];                          its own rows, and a zero one
 *     static PyHeapExtensibleTypeObject Type;                filled in as for PyType_Ready
 *
 *     slots[0].id = OPERATIONS_ID;                           at module initialisation
 *     slots[0].data.pointer = (void *)&operations;
 *     Type.etp_custom_slots = NC_STATIC_SLOTS(slots);
 *     if (PyExtensibleType_Ready(&Type, 2) < 0) return NULL;
 *
 *     PyCustomSlots_Find(obj, OPERATIONS_ID, 0)              in another module (customslots.h)
 *
 * Idea. A type whose metatype is `extensibletype` is laid out as a PyHeapExtensibleTypeObject: a
 * PyHeapTypeObject followed by a pointer to a slot table (slottable.h) and the offset at which each
 * of its objects keeps a call table (calltable.h, CEP 1000's direct offset). SEP 200 marks such
 * types with bit 22 of tp_flags; CPython uses that bit for itself since 3.10, so here a type is
 * known by its metatype alone.
 *
 * Handshake. A process has one metaclass and one registry of interned keys, the first module's.
 * PyExtensibleType_Import() looks for sys.modules["_extensibletype"]; what it finds there decides:
 *
 *   nothing                            this copy's metaclass is made ready and published
 *   .runtime_v1, a capsule             that runtime is used; this copy stays unused
 *   a module without .runtime_v1: of   this copy's is published beside what is there
 *   another version, or of a draft
 *   .runtime_v1 of another version,    ImportError that names both sides
 *   too small, or with NULL where a
 *   pointer must be
 *   anything else by that name         ImportError
 *
 * `_extensibletype.extensibletype_v1` is the metaclass itself, as SEP 200 asks, unless another
 * module has put its own there. A runtime may be of a build whose structs have more fields at their
 * ends, or fewer, but for those of version 1, which are all there.
 *
 * Inheritance (SEP 200, both drafts; docs/abi/departures.md says where and why we depart from
 * them):
 *
 *   - every class has a table of its own, made when the class is made: first the rows of its first
 *     extensible base, in their order, then what the other bases and the class add. For each key
 *     the row of the first class in the MRO that defines it wins, at the position where the
 *     key first stood, so that expected positions survive subclassing;
 *   - a static C type over-allocates its array of rows, and Ready writes the merged rows back
 *     to it; an array that is too small is an error;
 *   - a class statement adds or overrides rows with a mapping named __customslots__;
 *   - call tables, of both formats, come from the first class in the MRO that brings any, so that
 *     every way leads to the same entries;
 *   - a class whose tp_call is not the one that this class was made with has no call table: native
 *     callers and Python must not get different results. A mutable class of another metaclass that
 *     comes before the class that has the call counts as one with a __call__, because it can be
 *     given one unnoticed;
 *   - bases that are changed past the metaclass, so that its table would be wrong, are refused.
 *
 * Threads. Import, Ready and everything that makes or changes a class hold the GIL. Readers
 * (customslots.h) need only a reference to the object: a published table is never written again, a
 * new one is published by one release store, and superseded ones live as long as the type.
 *
 * Errors. Functions that return int return 0, or -1 with a Python exception set. */
#ifndef NATIVECALL_EXTENSIBLETYPE_H
#define NATIVECALL_EXTENSIBLETYPE_H

#include "detail/core/metaclass.h"
#include "nativetable.h"

NC_C_BEGIN

#if !defined(_WIN32)
/* The registry of this copy while it is the published one. A fork may not happen while another
 * thread is inserting: the child would find the mutex locked for ever. */
static NcRegistry *nc_forked_registry = NULL;

NC_STATIC void nc_before_fork(void)
{
    nc_mutex_lock(&nc_forked_registry->mutex);
}

NC_STATIC void nc_after_fork(void)
{
    nc_mutex_unlock(&nc_forked_registry->mutex);
}
#endif

/* Puts metaclass and capsule at a module, beside what else is there. 0, or -1 with MemoryError: a
 * metaclass that then stands there alone is no runtime. */
NC_STATIC int nc_runtime_attach(PyObject *module, PyTypeObject *metatype, PyObject *capsule)
{
    PyObject *dict = PyModule_GetDict(module);
    PyObject *name = PyUnicode_FromString(NC_RUNTIME_METACLASS);
    const int status = name != NULL && PyDict_SetDefault(dict, name, (PyObject *)metatype) != NULL
                           ? PyDict_SetItemString(dict, NC_RUNTIME_ATTRIBUTE, capsule)
                           : -1;
    Py_XDECREF(name);
    return status;
}

/* Publishes this copy as the process's runtime, at the module that is there already, or at a new
 * one where `there` is NULL. NULL with an exception. */
NC_STATIC const NcRuntime *nc_runtime_publish(PyObject *modules, PyObject *there)
{
    static NcRuntime runtime;
    PyObject *module = NULL;
    PyObject *capsule = NULL;
    PyTypeObject *metatype = nc_metatype_bundled();
    int status = -1;
    if (metatype == NULL) {
        return NULL;
    }
    if (runtime.registry == NULL) {
        NcRegistry *registry = NULL;
        if (nc_registry_new(&registry) != NC_OK) {
            PyErr_NoMemory();
            return NULL;
        }
#if !defined(_WIN32)
        nc_forked_registry = registry;
        if (pthread_atfork(nc_before_fork, nc_after_fork, nc_after_fork) != 0) {
            PyErr_NoMemory();
            return NULL;
        }
#endif
        runtime.abi_version = NC_ABI_VERSION;
        runtime.struct_size = (uint32_t)sizeof(NcRuntime);
        runtime.type_size = (uint32_t)sizeof(PyHeapExtensibleTypeObject);
        runtime.slot_size = (uint32_t)sizeof(PyCustomSlot);
        runtime.provider = NC_PROVIDER;
        runtime.metatype = metatype;
        runtime.registry = registry;
        runtime.intern = nc_intern;
        runtime.ready = nc_type_ready;
    }
    module = there != NULL ? Py_NewRef(there) : PyModule_New(NC_RUNTIME_MODULE);
    capsule = PyCapsule_New((void *)&runtime, NC_RUNTIME_CAPSULE, NULL);
    if (module != NULL && capsule != NULL) {
        status = nc_runtime_attach(module, metatype, capsule);
    }
    if (status == 0 && there == NULL) {
        status = PyDict_SetItemString(modules, NC_RUNTIME_MODULE, module);
    }
    Py_XDECREF(module);
    Py_XDECREF(capsule);
    return status == 0 ? &runtime : NULL;
}

/* What stands in the runtime's place, for a message of one line: a new reference. */
NC_STATIC PyObject *nc_runtime_shown(PyObject *object)
{
    PyObject *shown = PyObject_Repr(object);
    if (shown == NULL || PyUnicode_FindChar(shown, '\n', 0, PyUnicode_GET_LENGTH(shown), 1) != -1) {
        PyErr_Clear();
        Py_XDECREF(shown);
        shown = PyUnicode_FromFormat("an object of type '%.200s'", Py_TYPE(object)->tp_name);
    }
    return shown;
}

/* The runtime that another module published, if it is one we can work with. */
NC_STATIC const NcRuntime *nc_runtime_accept(PyObject *module)
{
    const NcRuntime *found = NULL;
    PyObject *capsule = PyObject_GetAttrString(module, NC_RUNTIME_ATTRIBUTE);
    if (capsule == NULL && !PyErr_ExceptionMatches(PyExc_AttributeError)) {
        return NULL;
    }
    found = (const NcRuntime *)PyCapsule_GetPointer(capsule, NC_RUNTIME_CAPSULE);
    Py_XDECREF(capsule);
    if (found == NULL) {
        PyErr_Clear();
        PyObject *shown = nc_runtime_shown(module);
        if (shown != NULL) {
            PyErr_Format(PyExc_ImportError,
                         "sys.modules['" NC_RUNTIME_MODULE "'] is %U, which is not an "
                         "extensibletype runtime that %s (ABI %d) can use: it has no capsule "
                         "'" NC_RUNTIME_ATTRIBUTE "'",
                         shown, NC_PROVIDER, NC_ABI_VERSION);
            Py_DECREF(shown);
        }
        return NULL;
    }
    if (found->abi_version != NC_ABI_VERSION ||
        found->struct_size < NC_ABI_SIZE(NcRuntime, ready) ||
        found->type_size < NC_ABI_SIZE(PyHeapExtensibleTypeObject, etp_private) ||
        found->slot_size != sizeof(PyCustomSlot)) {
        PyErr_Format(PyExc_ImportError,
                     "%s was built for extensibletype ABI %d (sizes %zu/%zu/%zu), but %s, "
                     "which was imported first, provides ABI %u (sizes %u/%u/%u); rebuild the "
                     "older of the two",
                     NC_PROVIDER, NC_ABI_VERSION, sizeof(NcRuntime),
                     sizeof(PyHeapExtensibleTypeObject), sizeof(PyCustomSlot),
                     found->abi_version >= 1 && found->provider != NULL ? found->provider
                                                                        : "another module",
                     (unsigned)found->abi_version, (unsigned)found->struct_size,
                     (unsigned)found->type_size, (unsigned)found->slot_size);
        return NULL;
    }
    const char *missing = found->provider == NULL   ? "provider"
                          : found->metatype == NULL ? "metatype"
                          : found->registry == NULL ? "registry"
                          : found->intern == NULL   ? "intern"
                          : found->ready == NULL    ? "ready"
                                                    : NULL;
    if (missing != NULL) {
        PyErr_Format(PyExc_ImportError,
                     "the extensibletype runtime of %s, which was imported first, is not one that "
                     "%s (ABI %d) can use: its '%s' is NULL; rebuild the former",
                     found->provider != NULL ? found->provider : "another module", NC_PROVIDER,
                     NC_ABI_VERSION, missing);
        return NULL;
    }
    return found;
}

/* The metaclass of this process, a borrowed reference that lives as long as the process; NULL with
 * ImportError when there is one that this copy cannot work with. Idempotent. GIL required. */
NC_STATIC PyTypeObject *PyExtensibleType_Import(void)
{
    const NcRuntime *runtime = NULL;
    if (nc_runtime != NULL) {
        return nc_metatype;
    }
    PyObject *modules = PyImport_GetModuleDict();
    PyObject *module = nc_dict_item(modules, NC_RUNTIME_MODULE);
    if (module != NULL &&
        (!PyModule_Check(module) || PyObject_HasAttrString(module, NC_RUNTIME_ATTRIBUTE))) {
        runtime = nc_runtime_accept(module);
    } else if (!PyErr_Occurred()) {
        runtime = nc_runtime_publish(modules, module);
    }
    Py_XDECREF(module);
    if (runtime == NULL) {
        return NULL;
    }
    nc_metatype = runtime->metatype;
    nc_runtime = runtime;
    return nc_metatype;
}

/* Makes a static extensible type ready, as PyType_Ready does, or a heap type that
 * PyType_FromMetaclass has made: call it at module initialisation, with the GIL. Before,
 * etp_custom_slots points (NC_STATIC_SLOTS) to an array of slot_table_size rows, the type's own
 * ones first and the rest zero; 0 rows and NULL for a type that brings none. After, the array holds
 * the merged rows (see the inheritance rules on top) and the type is published. -1 with an
 * exception, and no table: no metaclass (ImportError), rows that cannot be (ValueError), a heap
 * type of another metaclass (TypeError), or whatever PyType_Ready says; docs/abi/provide.md has the
 * list. */
NC_STATIC int PyExtensibleType_Ready(PyHeapExtensibleTypeObject *type, Py_ssize_t slot_table_size)
{
    if (PyExtensibleType_Import() == NULL) {
        return -1;
    }
    return nc_runtime->ready(type, slot_table_size);
}

/* Allocates an ID that nobody else has in this process: one of registrar 0xFF, in the order in
 * which they are asked for, so it differs from process to process. What has to be the same for
 * modules that do not know each other is an interned key or an ID of a registrar's. GIL. 0, or -1
 * with an exception: OverflowError behind the last of 2^16. */
NC_STATIC int PyExtensibleType_AllocateID(uintptr_t *out)
{
    PyObject *ids = PyExtensibleType_Import() != NULL ? nc_runtime_ids() : NULL;
    PyObject *who = ids != NULL ? PyUnicode_FromString(NC_PROVIDER) : NULL;
    const Py_ssize_t start = who != NULL ? PyDict_Size(ids) : -1; /* mostly the first free one */
    int taken = start >= 0 ? 1 : -1;
    for (Py_ssize_t n = 0; taken > 0 && n <= 0xFFFF; n++) {
        PyObject *key = NULL;
        *out = PYCUSTOMSLOT_ID(NC_SLOT_RUNTIME_REGISTRAR, 0, 0) +
               ((uintptr_t)((start + n) & 0xFFFF) << 8);
        key = PyLong_FromSize_t((size_t)*out);
        taken = key != NULL ? PyDict_Contains(ids, key) : -1;
        if (taken == 0) {
            taken = PyDict_SetItem(ids, key, who);
            Py_DECREF(key);
            break;
        }
        Py_XDECREF(key);
    }
    if (taken > 0) {
        PyErr_SetString(PyExc_OverflowError,
                        "all slot keys that can be allocated at run time are in use");
    }
    Py_XDECREF(ids);
    Py_XDECREF(who);
    return taken == 0 ? 0 : -1;
}

/* Gives an object a slot table of its own, at the offset that its type's slot
 * PYCUSTOMSLOT_OBJECTSLOTS_ID tells: once, and called by the module whose type it is, which frees
 * the table in tp_dealloc (nc_slottable_free, also of NULL). The rows are copied; readers without
 * the GIL see none of them or all. GIL. 0, or -1 with an exception and the object as it was:
 * TypeError for an object without such a place, ValueError for keys that cannot be, that stand
 * twice, or whose data are followed into the object, which are its type's to say, RuntimeError for
 * an object that has slots of its own already, MemoryError. */
NC_STATIC int PyExtensibleType_SetObjectSlots(PyObject *obj, const PyCustomSlot *rows,
                                              Py_ssize_t count)
{
    const char *name = Py_TYPE(obj)->tp_name;
    void *place = nc_object_slots_place(obj);
    PyCustomSlotTable *table = NULL;
    uintptr_t duplicate = 0;
    if (place == NULL) {
        PyErr_Format(PyExc_TypeError,
                     "'%s' objects have no place for slots of their own; their type needs a slot "
                     "0x04000101",
                     name);
        return -1;
    }
    if (nc_load_acquire_ptr(place) != NULL) {
        PyErr_Format(PyExc_RuntimeError, "this '%s' object has slots of its own already", name);
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        if (rows[i].id != NC_SLOT_SKIP && nc_slot_id_check(rows[i].id) < 0) {
            return -1;
        }
        if (nc_slot_id_followed(rows[i].id)) {
            PyErr_Format(PyExc_ValueError,
                         "slot key %p leads into objects, so their type has it, not a single '%s' "
                         "object",
                         (void *)rows[i].id, name);
            return -1;
        }
    }
    int status =
        count < 0 ? NC_E_RANGE : nc_slottable_build(rows, (size_t)count, &table, &duplicate);
    if (status == NC_E_NOMEM) {
        PyErr_NoMemory();
    } else if (status == NC_E_DUPLICATE) {
        PyErr_Format(PyExc_ValueError, "duplicate slot key %p in the slots of a '%s' object",
                     (void *)duplicate, name);
    } else if (status != NC_OK) {
        PyErr_Format(PyExc_ValueError, "a '%s' object cannot have %zd slots; 1 to %d are possible",
                     name, count, (int)NC_SLOTTABLE_MAX_ROWS);
    } else {
        nc_store_release_ptr(place, table);
    }
    return status == NC_OK ? 0 : -1;
}

/* nc_key_intern of a provider, which brings the runtime where there is none: *out is not NULL. 0,
 * or -1 with an exception. Needs no GIL once Import has succeeded, unless it fails. */
NC_STATIC int PyExtensibleType_Intern(const char *bytes, Py_ssize_t length, const char **out)
{
    return PyExtensibleType_Import() == NULL ? -1 : nc_key_intern(bytes, (size_t)length, out);
}

/* The canonical form of a signature, in memory for NC_SIGNATURE_MAX_LENGTH characters and a zero
 * byte. 0, or -1 with ValueError. */
NC_STATIC int nc_signature_checked(const char *signature, char *canonical, size_t *length)
{
    const int status = nc_signature_canonical(signature, strlen(signature), canonical,
                                              NC_SIGNATURE_MAX_LENGTH + 1, length);
    if (status != NC_OK) {
        PyErr_Format(PyExc_ValueError, "signature '%.200s': %s at offset %zu", signature,
                     nc_status_text(status), *length);
    }
    return status == NC_OK ? 0 : -1;
}

/* For providers: adds an entry to both tables of an object (nativetable.h). The signature need not
 * be canonical. 0, or -1 with an exception and the tables as they were: ValueError for a signature
 * that is malformed, for flags of another ABI or that no function of this signature can have, and
 * for no function; MemoryError. */
NC_STATIC int nc_native_add(NcNativeTable *table, const char *signature, uintptr_t flags,
                            void *function)
{
    char canonical[NC_SIGNATURE_MAX_LENGTH + 1];
    const char *interned = NULL;
    size_t length = 0;
    int status = NC_E_RANGE;
    if (nc_signature_checked(signature, canonical, &length) < 0 ||
        PyExtensibleType_Intern(canonical, (Py_ssize_t)length, &interned) < 0) {
        return -1;
    }
    /* Who has an object, however, needs the GIL. */
    if (nc_convention_fits(canonical, length, flags) &&
        ((flags & NC_FLAG_NEEDS_GIL) != 0 || strchr(canonical, 'O') == NULL)) {
        status = nc_nativetable_add(table, interned, flags, function);
    }
    if (status == NC_E_NOMEM) {
        PyErr_NoMemory();
        return -1;
    }
    if (status != NC_OK) {
        char shown[32];
        PyOS_snprintf(shown, sizeof shown, "%#llx", (unsigned long long)flags);
        PyErr_Format(PyExc_ValueError,
                     "signature '%.200s' cannot have an entry with function %p and flags %s; an "
                     "entry needs a function, flags below 0x1000000 without 0x80, "
                     "NC_FLAG_NEEDS_GIL with objects ('O'), it or NC_FLAG_TAKES_GIL with "
                     "NC_ERRORS_PYTHON, and an error convention that its result can show",
                     signature, function, shown);
        return -1;
    }
    return 0;
}

NC_C_END

#endif
