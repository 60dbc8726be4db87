/* nativecall/nativeapi.h: for consumers: native entries of types that do not use our metaclass
 * (tier 2). Providers use provide.h.
 *
 *     nc_nativeapi_find(obj, "d:d", NC_FLAG_NEEDS_GIL | NC_ERRORS_MASK, &entry);
 *
 * Such a type, for instance a static type or a Cython class, has in its dictionary
 *
 *     __nativecall_api__      a capsule named "nativecall_api_v1" around a static NcNativeApi
 *
 * docs/abi/provide.md has the rules for `find` and `entry`. nativecall_abi.h defines the struct.
 *
 * nc_nativeapi_find() needs the GIL. It reads the interface of the object's type, and caches the
 * interface for later calls. As with every entry, you may call the function while the object is
 * alive.
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
#include "nativecall_abi.h"

NC_C_BEGIN

#define NC_NATIVEAPI_ATTRIBUTE "__nativecall_api__" /* as in provide.h */
#define NC_NATIVEAPI_CAPSULE "nativecall_api_v1"

/* The number of positions that readers try, in case entry() never returns NULL. Entries at later
 * positions are found only by signature. */
#define NC_NATIVEAPI_MAX_ENTRIES 64

/* Raise TypeError for a type whose attribute nc_abi_api found invalid. Return -1. */
NC_COLD int nc_nativeapi_wrong(PyTypeObject *type)
{
    PyObject *name = PyUnicode_InternFromString(NC_NATIVEAPI_ATTRIBUTE);
    PyObject *value = name != NULL ? Py_XNewRef(_PyType_Lookup(type, name)) : NULL;
    if (nc_type_capsule(type, NC_NATIVEAPI_ATTRIBUTE, NC_NATIVEAPI_CAPSULE, value) != NULL) {
        PyErr_Format(PyExc_TypeError,
                     "'" NC_NATIVEAPI_ATTRIBUTE "' of %s must have size %zu or more, the name "
                     "NC_NATIVEAPI_NAME, and a 'find' that is not NULL",
                     type->tp_name, NC_ABI_SIZE(NcNativeApi, entry));
    }
    Py_DecRef(name), Py_DecRef(value);
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
