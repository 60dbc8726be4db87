/* nativecall/extensibletype.h: types with a slot table, and the metaclass that they share.
 *
 * For providers: your types get slots, which native code looks up by key (SEP 200). The header
 * contains the whole metaclass. If you bundle this folder, your project needs nothing else at run
 * time.
 *
 *     static PyCustomSlot slots[2];                          one row and a zero row
 *     static PyHeapExtensibleTypeObject Type;                fill in as for PyType_Ready
 *
 *     slots[0].id = OPERATIONS_ID;                           at module initialisation
 *     slots[0].data.pointer = (void *)&operations;
 *     Type.etp_custom_slots = NC_STATIC_SLOTS(slots);
 *     if (PyExtensibleType_Ready(&Type, 2) < 0) return NULL;
 *
 *     PyCustomSlots_Find(obj, OPERATIONS_ID, 0)              in another module (customslots.h)
 *
 * Idea. A type whose metatype is `extensibletype` has the layout of PyHeapExtensibleTypeObject: a
 * PyHeapTypeObject, a pointer to a slot table (slottable.h), and the offset of the call table in
 * each object (calltable.h, CEP 1000's direct offset). SEP 200 marks such types with bit 22 of
 * tp_flags. CPython itself has used that bit since 3.10, so here only the metatype identifies an
 * extensible type.
 *
 * Handshake. A process has one metaclass and one registry of interned keys: those of the module
 * that was imported first. PyExtensibleType_Import() looks up sys.modules["_extensibletype"]:
 *
 *   if it finds                        it
 *   nothing                            readies and publishes this copy's metaclass
 *   a capsule .runtime_v1              uses that runtime, not this copy
 *   a module without .runtime_v1 (of   publishes this copy in that module
 *   another version or a draft)
 *   a .runtime_v1 of another version,  raises ImportError with both names
 *   too small, or with a NULL pointer
 *   anything else                      raises ImportError
 *
 * `_extensibletype.extensibletype_v1` is the metaclass itself, as SEP 200 requires, unless another
 * module has stored a different metaclass there. If another build published the runtime, its
 * structs may end with more or fewer fields than this copy's, but they always contain the fields of
 * version 1.
 *
 * Inheritance (SEP 200, both drafts; docs/abi/departures.md lists the differences):
 *
 *   - Each class has its own table, built with the class. The table starts with the rows of the
 *     first extensible base, in the order of that base. Rows added by other bases and by the class
 *     follow. For each key, the row comes from the first class in the MRO that defines the key. The
 *     key keeps its first position, so expected positions survive subclassing.
 *   - A static C type over-allocates its array of rows. Ready writes the merged rows back to the
 *     array, and raises an error if the array is too small.
 *   - A class statement adds or overrides rows with a mapping named __customslots__.
 *   - Call tables of both formats come from the first class in the MRO that provides one, so all
 *     lookups reach the same entries.
 *   - If the tp_call of a class differs from that of the class that provides the call table, the
 *     class has no call table: native callers and Python must get the same results. A mutable class
 *     of another metaclass, earlier in the MRO, counts as overriding __call__, because our
 *     metaclass does not notice when code assigns __call__ to it.
 *   - A change of bases that bypasses the metaclass is refused, because the table would become
 *     wrong.
 *
 * Threads. Import, Ready and all functions that create or change a class need the GIL. Readers
 * (customslots.h) need only a reference to the object. A published table is never modified. A new
 * table is published with one release store. Superseded tables live as long as the type. On
 * free-threaded builds, call Import when your module is initialised. Copies in several modules may
 * do so at once: the first one that is in sys.modules counts. A lock orders changes of classes.
 *
 * Errors. Functions that return int return 0, or -1 with a Python exception set. */
#ifndef NATIVECALL_EXTENSIBLETYPE_H
#define NATIVECALL_EXTENSIBLETYPE_H

#include "detail/core/metaclass.h"
#include "nativetable.h"

NC_C_BEGIN

#if !defined(_WIN32)
/* This copy's registry, if published. fork() waits until no thread inserts a key; otherwise the
 * mutex could stay locked forever in the child. */
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

/* Describe the object found in place of the runtime, on one line. Return a new reference. */
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

/* Return the runtime that another module published, or NULL with an exception if it is
 * incompatible. */
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
                     "the extensibletype runtime of %s, which was imported first, cannot be used "
                     "by %s (ABI %d): its '%s' is NULL; rebuild the former",
                     found->provider != NULL ? found->provider : "another module", NC_PROVIDER,
                     NC_ABI_VERSION, missing);
        return NULL;
    }
    return found;
}

/* Publish this copy as the process's runtime in the existing module `there`, or in a new module if
 * `there` is NULL. If another copy does so at the same time, the first one counts. Return the
 * runtime, or NULL with an exception on failure. */
NC_STATIC const NcRuntime *nc_runtime_publish(PyObject *modules, PyObject *there)
{
    static NcRuntime runtime;
    PyObject *module, *capsule, *first = NULL;
    PyTypeObject *metatype = nc_metatype_bundled();
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
        /* If adding the capsule fails, the metaclass stays: without a capsule, no runtime. */
        PyObject *dict = PyModule_GetDict(module);
        first = nc_dict_first(dict, NC_RUNTIME_METACLASS, (PyObject *)metatype);
        if (first != NULL) {
            Py_SETREF(first, nc_dict_first(dict, NC_RUNTIME_ATTRIBUTE, capsule));
        }
        if (first != NULL && there == NULL) {
            Py_SETREF(first, nc_dict_first(modules, NC_RUNTIME_MODULE, module));
        }
    }
    const NcRuntime *found =
        first != NULL ? nc_runtime_accept(there != NULL ? there : first) : NULL;
    Py_XDECREF(module);
    Py_XDECREF(capsule);
    Py_XDECREF(first);
    return found;
}

/* Return the process's metaclass, a borrowed reference to an immortal object. Return NULL with
 * ImportError if the published metaclass is incompatible. Idempotent. GIL required. */
NC_STATIC PyTypeObject *PyExtensibleType_Import(void)
{
    const NcRuntime *runtime = NULL;
    if (nc_runtime != NULL) {
        return nc_metatype;
    }
    PyObject *modules = PyImport_GetModuleDict();
    PyObject *module = nc_dict_item(modules, NC_RUNTIME_MODULE);
    int published = module != NULL;
    if (published && PyModule_Check(module)) {
        PyObject *capsule = nc_dict_item(PyModule_GetDict(module), NC_RUNTIME_ATTRIBUTE);
        published = capsule != NULL;
        Py_XDECREF(capsule);
    }
    if (published) {
        runtime = nc_runtime_accept(module);
    } else if (!PyErr_Occurred()) {
        runtime = nc_runtime_publish(modules, module);
    }
    Py_XDECREF(module);
    if (runtime == NULL) {
        return NULL;
    }
    __atomic_store_n(&nc_abi_metatype, runtime->metatype, __ATOMIC_RELEASE);
    __atomic_store_n(&nc_abi_runtime, runtime, __ATOMIC_RELEASE);
    return nc_metatype;
}

/* Ready a static extensible type, as PyType_Ready does, or a heap type made by
 * PyType_FromMetaclass. Call this function at module initialisation, with the GIL. Before the call,
 * set etp_custom_slots (NC_STATIC_SLOTS) to an array of slot_table_size rows: the type's own rows
 * first, the rest zero. A type without rows passes 0 and NULL. Afterwards the array holds the
 * merged rows (see the inheritance rules above) and the type is published. On failure, return -1
 * with an exception; the type then has no table. The exception is ImportError (no metaclass),
 * ValueError (invalid rows), TypeError (a heap type of another metaclass), or any error of
 * PyType_Ready. docs/abi/provide.md lists these errors. */
NC_STATIC int PyExtensibleType_Ready(PyHeapExtensibleTypeObject *type, Py_ssize_t slot_table_size)
{
    if (PyExtensibleType_Import() == NULL) {
        return -1;
    }
    return nc_runtime->ready(type, slot_table_size);
}

/* Allocate an ID that is unique in this process. The ID belongs to registrar 0xFF. IDs are
 * allocated in order of request, so the ID for one purpose differs between processes. If
 * independent modules must agree on a key, use an interned key or a registrar's ID. GIL required.
 * Return 0, or -1 with an exception: OverflowError after the last of 2^16. */
NC_STATIC int PyExtensibleType_AllocateID(uintptr_t *out)
{
    PyObject *ids = PyExtensibleType_Import() != NULL ? nc_runtime_ids() : NULL;
    PyObject *who = ids != NULL ? PyUnicode_FromString(NC_PROVIDER) : NULL;
    const Py_ssize_t start = who != NULL ? PyDict_Size(ids) : -1; /* usually the first free ID */
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

/* Give an object its own slot table. The object stores the table at the offset in its type's slot
 * PYCUSTOMSLOT_OBJECTSLOTS_ID. Only the module that owns the type calls this function, once per
 * object. That module frees the table in tp_dealloc (nc_slottable_free, which accepts NULL). The
 * rows are copied. Readers without the GIL see all rows or none. GIL required. Return 0, or -1 with
 * an exception and the object unchanged: TypeError if the type has no such slot; ValueError for
 * invalid or duplicate keys, and for keys whose data is an offset into the object (these belong to
 * the type); RuntimeError if the object already has its own slots; MemoryError. */
NC_STATIC int PyExtensibleType_SetObjectSlots(PyObject *obj, const PyCustomSlot *rows,
                                              Py_ssize_t count)
{
    const char *name = Py_TYPE(obj)->tp_name;
    void *place = nc_object_slots_place(obj);
    PyCustomSlotTable *table = NULL;
    uintptr_t duplicate = 0;
    if (place == NULL) {
        PyErr_Format(PyExc_TypeError,
                     "'%s' objects cannot have their own slots: their type needs a slot 0x04000101",
                     name);
        return -1;
    }
    if (nc_load_acquire_ptr(place) != NULL) {
        PyErr_Format(PyExc_RuntimeError, "this '%s' object already has its own slots", name);
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        if (rows[i].id != NC_SLOT_SKIP && nc_slot_id_check(rows[i].id) < 0) {
            return -1;
        }
        if (nc_slot_id_followed(rows[i].id)) {
            PyErr_Format(PyExc_ValueError,
                         "slot key %p holds an offset into objects, so it belongs to their type, "
                         "not to a single '%s' object",
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

/* As nc_key_intern, but for providers: publish a runtime if there is none, so that *out is not
 * NULL. Return 0, or -1 with an exception. Once PyExtensibleType_Import has succeeded, the GIL is
 * needed only to set an exception. */
NC_STATIC int PyExtensibleType_Intern(const char *bytes, Py_ssize_t length, const char **out)
{
    return PyExtensibleType_Import() == NULL ? -1 : nc_key_intern(bytes, (size_t)length, out);
}

/* Write the canonical form of a signature to `canonical`, NC_SIGNATURE_MAX_LENGTH + 1 bytes. Return
 * 0, or -1 with ValueError. */
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

/* Add an entry to both tables of an object (nativetable.h). The signature need not be canonical.
 * Return 0, or -1 with an exception and the tables unchanged: ValueError for a malformed signature,
 * for flags of another ABI, for flags that this signature does not allow, and for a NULL function;
 * MemoryError. */
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
    /* Object arguments and results need the GIL. */
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
                     "NC_FLAG_NEEDS_GIL for objects ('O'), NC_FLAG_NEEDS_GIL or NC_FLAG_TAKES_GIL "
                     "for NC_ERRORS_PYTHON, and an error convention that its result can express",
                     signature, function, shown);
        return -1;
    }
    return 0;
}

NC_C_END

#endif
