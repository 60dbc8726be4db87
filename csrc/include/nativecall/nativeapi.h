/* nativecall/nativeapi.h: native entries for types that cannot use our metaclass (tier 2).
 *
 *     static NcNativeApi api = {sizeof api, NC_NATIVEAPI_NAME, NULL, find, entry};
 *
 *     PyObject *capsule = PyCapsule_New(&api, NC_NATIVEAPI_CAPSULE, NULL);     provider
 *     PyDict_SetItemString(Type.tp_dict, NC_NATIVEAPI_ATTRIBUTE, capsule);
 *
 *     nc_nativeapi_find(obj, "d:d", NC_FLAG_NEEDS_GIL | NC_ERRORS_MASK, &entry);    consumer
 *
 * For providers. A type whose metaclass is not `extensibletype` (a static type or a Cython class,
 * for instance) stores this attribute in its dictionary:
 *
 *     __nativecall_api__      a capsule named "nativecall_api_v1" around a static NcNativeApi
 *
 * You need only nativecall_abi.h, which defines the structs.
 *
 *     find    required. Returns the entry of obj with this canonical signature and none of the
 *             flags in `refuse`, or NULL. Compare the characters: the string need not be interned.
 *             The entry stays readable, and its function callable, while obj is alive. find must
 *             work without the GIL and never acquire it. If the caller holds the GIL, find may run
 *             Python code to create the entry, and may return NULL with an exception.
 *     entry   optional (may be NULL), for promotions and messages. Returns the entry at a position,
 *             or NULL after the last. Positions start at 0. Readers stop at
 *             NC_NATIVEAPI_MAX_ENTRIES.
 *     release optional (may be NULL). The struct starts with the base struct of PEP 809, which
 *             contains this field.
 *
 * The struct must live as long as the capsule. Callers hold a reference to obj. A later version
 * with the same name only adds fields. An incompatible version gets a new name.
 *
 * For consumers. nc_nativeapi_find() needs the GIL. It reads the interface of the object's type,
 * and caches the interface for later calls. As with every entry, you may call the function while
 * the object is alive.
 *
 * Inheritance. A subclass that overrides `__call__` does not inherit the attribute: native code
 * would call the function of the base class, but Python would call the override. Set
 * `__nativecall_api__ = None` to remove the attribute in a subclass.
 *
 * Errors. A value of the attribute that is not None or a valid capsule raises TypeError, because it
 * is a bug in the provider. Without the error, the user would only notice slow calls. */
#ifndef NATIVECALL_NATIVEAPI_H
#define NATIVECALL_NATIVEAPI_H

#include <Python.h>

#include "detail/core/lookup.h"
#include "detail/compat.h"

NC_C_BEGIN

#define NC_NATIVEAPI_ATTRIBUTE "__nativecall_api__"
#define NC_NATIVEAPI_CAPSULE "nativecall_api_v1"

/* The number of positions that readers try, in case entry() never returns NULL. Entries at later
 * positions are found only by signature. */
#define NC_NATIVEAPI_MAX_ENTRIES 64

/* Raise TypeError for a type whose attribute nc_abi_api found invalid. Return -1. */
NC_COLD int nc_nativeapi_wrong(PyTypeObject *type)
{
    char name[20]; /* PyErr_Format has no 64-bit hexadecimal */
    unsigned tag;
    PyObject *value = nc_abi_attribute(type, &tag);
    const NcNativeApi *api = (const NcNativeApi *)PyCapsule_GetPointer(value, NC_NATIVEAPI_CAPSULE);
    int whole = api != NULL && api->size >= NC_ABI_SIZE(NcNativeApi, entry); /* else cut off */
    Py_IncRef(value);
    if (api == NULL) {
        PyErr_Format(PyExc_TypeError,
                     "'" NC_NATIVEAPI_ATTRIBUTE "' of %s must be a capsule named "
                     "'" NC_NATIVEAPI_CAPSULE "' or None (got %R)",
                     type->tp_name, value);
    } else {
        PyOS_snprintf(name, sizeof name, "%llx", whole ? (unsigned long long)api->name : 0);
        PyErr_Format(
            PyExc_TypeError,
            "'" NC_NATIVEAPI_ATTRIBUTE "' of %s has size %zu and name %s, but needs size %zu and "
            "name 6e635f6170690001%s",
            type->tp_name, api->size, name, NC_ABI_SIZE(NcNativeApi, entry),
            whole && api->name == NC_NATIVEAPI_NAME ? ", and a 'find' that is not NULL" : "");
    }
    Py_DecRef(value);
    return -1;
}

/* Store the interface of obj's type in *out (NULL: none). Return 0, or -1 with TypeError. GIL
 * required. */
NC_STATIC_INLINE int nc_nativeapi_of(PyObject *obj, const NcNativeApi **out)
{
    const NcNativeApi *api = nc_abi_api(Py_TYPE(obj));
    const int wrong = api == &nc_abi_wrong;
    *out = wrong ? NULL : api;
    return NC_LIKELY(!wrong) ? 0 : nc_nativeapi_wrong(Py_TYPE(obj));
}

/* Store the entry of a canonical signature in *out (NULL: none). Return 0, or -1 with an exception,
 * possibly the provider's. */
NC_STATIC int nc_nativeapi_find(PyObject *obj, const char *signature, uintptr_t refuse,
                                const PyNativeCallableEntry **out)
{
    const NcNativeApi *api;
    *out = NULL;
    if (nc_nativeapi_of(obj, &api) < 0) {
        return -1;
    }
    *out = nc_abi_ask(obj, signature, refuse);
    return api != NULL && *out == NULL && PyErr_Occurred() ? -1 : 0;
}

/* Return the provider's next usable entry, or NULL at the end. *position starts at 0. `api` comes
 * from nc_nativeapi_of and may be NULL. */
NC_STATIC const PyNativeCallableEntry *nc_nativeapi_entry(PyObject *obj, const NcNativeApi *api,
                                                          size_t *position)
{
    const PyNativeCallableEntry *entry;
    if (api == NULL || api->entry == NULL) {
        return NULL;
    }
    while (*position < NC_NATIVEAPI_MAX_ENTRIES &&
           (entry = api->entry(obj, (*position)++)) != NULL) {
        /* The flags may be of a later ABI, or the function may not exist yet. */
        if (entry->signature != NULL && nc_calltable_flags_suit(entry->flags, 0) &&
            NC_ABI_LOAD(&entry->funcptr) != NULL) {
            return entry;
        }
    }
    return NULL;
}

NC_C_END

#endif
