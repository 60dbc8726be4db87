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
 * Handshake. A process has one metaclass and one registry of interned keys, whoever comes first.
 * PyExtensibleType_Import() looks for sys.modules["_extensibletype"]; what it finds there decides:
 *
 *   nothing                            this copy's metaclass is made ready and published
 *   .runtime_v1, a capsule             that runtime is used; this copy stays unused
 *   a runtime of another ABI version,  ImportError that names both sides
 *   one that is too small, or has NULL
 *   where a pointer must be
 *   anything else by that name         ImportError
 *
 * `_extensibletype.extensibletype_v1` is the metaclass itself, as SEP 200 asks.
 *
 * Inheritance (SEP 200, both drafts; docs/abi/departures.md says where and why we depart from them):
 *
 *   - every class has a table of its own, made when the class is made: first the rows of its first
 *     extensible base, in their order, then what the other bases and the class add. For each key
 *     the row of the first class in the MRO that defines it wins, at the position where the
 *     key first stood, so that expected positions survive subclassing;
 *   - a static C type over-allocates its array of rows, and Ready writes the merged rows back
 *     to it; an array that is too small is an error;
 *   - a class statement adds or overrides rows with a mapping named __customslots__;
 *   - a class whose tp_call is not that of the class that brought the call table has no call table:
 *     native callers and Python must not get different results. A mutable class of another
 *     metaclass that comes before counts as one with a __call__, because it can be given one
 *     unnoticed;
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

#ifdef __cplusplus
extern "C" {
#endif

#if !defined(_WIN32)
/* The registry of this copy while it is the published one. A fork may not happen while another
 * thread is inserting: the child would find the mutex locked for ever. */
static NcRegistry *nc_forked_registry = NULL;

NC_STATIC void nc_before_fork(void)
{
    nc_registry_lock(nc_forked_registry);
}

NC_STATIC void nc_after_fork(void)
{
    nc_registry_unlock(nc_forked_registry);
}
#endif

/* Publishes this copy as the process's runtime. */
NC_STATIC const NcRuntime *nc_runtime_publish(PyObject *modules)
{
    static NcRuntime runtime;
    PyObject *module = NULL;
    PyObject *capsule = NULL;
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
    module = PyModule_New(NC_RUNTIME_MODULE);
    capsule = PyCapsule_New((void *)&runtime, NC_RUNTIME_CAPSULE, NULL);
    if (module == NULL || capsule == NULL ||
        PyObject_SetAttrString(module, NC_RUNTIME_ATTRIBUTE, capsule) < 0 ||
        PyObject_SetAttrString(module, "extensibletype_v1", (PyObject *)metatype) < 0 ||
        PyDict_SetItemString(modules, NC_RUNTIME_MODULE, module) < 0) {
        Py_XDECREF(module);
        Py_XDECREF(capsule);
        return NULL;
    }
    Py_DECREF(module);
    Py_DECREF(capsule);
    return &runtime;
}

/* The runtime that another module published, if it is one we can work with. */
NC_STATIC const NcRuntime *nc_runtime_accept(PyObject *module)
{
    const NcRuntime *found = NULL;
    const char *missing;
    PyObject *capsule = PyObject_GetAttrString(module, NC_RUNTIME_ATTRIBUTE);
    if (capsule == NULL) {
        if (!PyErr_ExceptionMatches(PyExc_AttributeError)) {
            return NULL;
        }
        PyErr_Clear();
    } else {
        found = (const NcRuntime *)PyCapsule_GetPointer(capsule, NC_RUNTIME_CAPSULE);
        Py_DECREF(capsule);
    }
    if (found == NULL) {
        PyErr_Clear();
        PyErr_Format(PyExc_ImportError,
                     "sys.modules['" NC_RUNTIME_MODULE "'] is %R, which is not an extensibletype "
                     "runtime that %s (ABI %d) can use: it has no capsule '" NC_RUNTIME_ATTRIBUTE
                     "'",
                     module, NC_PROVIDER, NC_ABI_VERSION);
        return NULL;
    }
    if (found->abi_version != NC_ABI_VERSION || found->struct_size < sizeof(NcRuntime) ||
        found->type_size != sizeof(PyHeapExtensibleTypeObject) ||
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
    missing = found->provider == NULL   ? "provider"
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
    PyObject *modules;
    PyObject *module;
    const NcRuntime *runtime;
    if (nc_runtime != NULL) {
        return nc_metatype;
    }
    modules = PyImport_GetModuleDict();
    module = nc_dict_item(modules, NC_RUNTIME_MODULE);
    if (module != NULL) {
        runtime = nc_runtime_accept(module);
        Py_DECREF(module);
    } else if (PyErr_Occurred()) {
        return NULL; /* there may be one */
    } else {
        runtime = nc_runtime_publish(modules);
    }
    if (runtime == NULL) {
        return NULL;
    }
    nc_metatype = runtime->metatype;
    nc_runtime = runtime;
    return nc_metatype;
}

/* Makes a static extensible type ready, as PyType_Ready does: call it at module initialisation,
 * with the GIL. Before, etp_custom_slots points (NC_STATIC_SLOTS) to an array of slot_table_size
 * rows, the type's own ones first and the rest zero; 0 rows and NULL for a type that brings none.
 * After, the array holds the merged rows (see the inheritance rules on top) and the type is
 * published. -1 with an exception: no metaclass (ImportError), duplicate keys or too small an array
 * (ValueError), or whatever PyType_Ready says. */
NC_STATIC int PyExtensibleType_Ready(PyHeapExtensibleTypeObject *type, Py_ssize_t slot_table_size)
{
    if (PyExtensibleType_Import() == NULL) {
        return -1;
    }
    return nc_runtime->ready(type, slot_table_size);
}

/* Interns a key in the process's registry: *out lives for ever and is the same for equal bytes,
 * whichever module asks. 0, or -1 with an exception. Needs no GIL once Import has succeeded, unless
 * it fails. */
NC_STATIC int PyExtensibleType_Intern(const char *bytes, Py_ssize_t length, const char **out)
{
    int status;
    if (nc_runtime == NULL && PyExtensibleType_Import() == NULL) {
        return -1;
    }
    status = nc_runtime->intern(nc_runtime->registry, bytes, (size_t)length, out);
    if (status == NC_E_NOMEM) {
        PyErr_NoMemory();
        return -1;
    }
    if (status != NC_OK) {
        PyErr_Format(PyExc_ValueError, "a key of %zd bytes is too long to intern; the limit is %d",
                     length, (int)NC_INTERN_MAX_LENGTH);
        return -1;
    }
    return 0;
}

#ifdef __cplusplus
}
#endif

#endif
