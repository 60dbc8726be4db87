/* nativecall/nativeapi.h: native entries of types that cannot have our metaclass, the second tier.
 *
 *     static NcNativeApi api = {sizeof api, NC_NATIVEAPI_NAME, NULL, find, entry};
 *
 *     PyObject *capsule = PyCapsule_New(&api, NC_NATIVEAPI_CAPSULE, NULL);     a provider's
 *     PyDict_SetItemString(Type.tp_dict, NC_NATIVEAPI_ATTRIBUTE, capsule);
 *
 *     nc_nativeapi_find(obj, "d:d", NC_FLAG_NEEDS_GIL | NC_ERRORS_MASK, &entry);    a consumer's
 *
 * For providers. A type whose metaclass is not `extensibletype`, a static type or a Cython class
 * for instance, has an attribute
 *
 *     __nativecall_api__      a capsule named "nativecall_api_v1" around a static NcNativeApi
 *
 * in its dictionary. Nothing but nativecall_abi.h, which has the structs, is needed for that.
 *
 *     find    must be there. It gives the entry of obj with this canonical signature (any string
 *             equal to it: compare the characters) and none of the flags in `refuse`, or NULL. The
 *             entry is readable, and its function callable, as long as obj lives. Needs no GIL, and
 *             never takes it. For a caller that has it, Python code may run and make the entry;
 *             then an exception may come with NULL.
 *     entry   gives the entry at a position from 0 on, NULL behind the last: for promotions and
 *             messages. Readers stop at NC_NATIVEAPI_MAX_ENTRIES. May be NULL: nothing is told.
 *     release is of the interface base of PEP 809, which the struct begins with; NULL: there is
 *             nothing to release.
 *
 * The struct lives as long as the capsule. All functions are called with a reference to obj held. A
 * later struct of the same name has the same fields and more of them; one that cannot be used like
 * this has another name.
 *
 * For consumers. nc_nativeapi_find() asks the type of an object, whose answer is kept. It needs the
 * GIL; what it gives may be called as long as the object lives, as every entry.
 *
 * Inheritance. A subclass inherits the attribute, unless it overrides `__call__`: then native code
 * would get another result than Python. `__nativecall_api__ = None` takes it away.
 *
 * Errors. An attribute that is something else is TypeError: it is a mistake of the provider's,
 * which the user would otherwise notice as slowness only. */
#ifndef NATIVECALL_NATIVEAPI_H
#define NATIVECALL_NATIVEAPI_H

#include <Python.h>

#include "detail/core/lookup.h"
#include "detail/compat.h"

NC_C_BEGIN

#define NC_NATIVEAPI_ATTRIBUTE "__nativecall_api__"
#define NC_NATIVEAPI_CAPSULE "nativecall_api_v1"

/* The most positions that entry() is asked for, so that one which never gives NULL ends. What
 * stands behind them is found by its signature only. */
#define NC_NATIVEAPI_MAX_ENTRIES 64

/* Raises TypeError for what a class has under the attribute. */
NC_COLD void nc_nativeapi_refuse(PyTypeObject *owner, PyObject *value)
{
    char numbers[128]; /* PyErr_Format knows no hexadecimal of this width */
    const NcNativeApi *api;
    int whole;
    if (!PyCapsule_IsValid(value, NC_NATIVEAPI_CAPSULE)) {
        PyErr_Format(PyExc_TypeError,
                     "'" NC_NATIVEAPI_ATTRIBUTE "' of %s must be a capsule named "
                     "'" NC_NATIVEAPI_CAPSULE "' or None (got %R)",
                     owner->tp_name, value);
        return;
    }
    api = (const NcNativeApi *)PyCapsule_GetPointer(value, NC_NATIVEAPI_CAPSULE);
    whole = api->size >= NC_ABI_SIZE(NcNativeApi, entry); /* else nothing behind is there */
    PyOS_snprintf(numbers, sizeof numbers, "%zu bytes and the name %llx, where %zu bytes and %llx",
                  api->size, whole ? (unsigned long long)api->name : 0,
                  NC_ABI_SIZE(NcNativeApi, entry), (unsigned long long)NC_NATIVEAPI_NAME);
    PyErr_Format(PyExc_TypeError, "'" NC_NATIVEAPI_ATTRIBUTE "' of %s has %s are needed%s",
                 owner->tp_name, numbers,
                 whole && api->name == NC_NATIVEAPI_NAME ? ", with a 'find' that is not NULL" : "");
}

/* Raises TypeError for a type whose attribute nc_abi_api finds wrong. -1. */
NC_COLD int nc_nativeapi_wrong(PyTypeObject *type)
{
    PyObject *value = NULL;
    for (Py_ssize_t i = 0; value == NULL && !PyErr_Occurred(); i++) {
        PyTypeObject *owner = (PyTypeObject *)(void *)PyTuple_GetItem(type->tp_mro, i);
        value = owner != NULL ? nc_type_own(owner, NC_NATIVEAPI_ATTRIBUTE) : NULL;
        if (value != NULL) {
            nc_nativeapi_refuse(owner, value);
        }
    }
    Py_DecRef(value);
    return -1;
}

/* The interface of obj's type: 0 with *out (NULL: none), or -1 with TypeError. GIL required. */
NC_STATIC_INLINE int nc_nativeapi_of(PyObject *obj, const NcNativeApi **out)
{
    const NcNativeApi *api = nc_abi_api(Py_TYPE(obj));
    const int wrong = api == &nc_abi_wrong;
    *out = wrong ? NULL : api;
    return NC_LIKELY(!wrong) ? 0 : nc_nativeapi_wrong(Py_TYPE(obj));
}

/* The entry of a canonical signature: 0 with *out (NULL: none), or -1 with an exception, which may
 * be the provider's. */
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

/* The next entry that the provider tells and that can be used, from *position on, which is 0 at
 * first; NULL behind the last, and where nothing is told. `api` is of nc_nativeapi_of, or NULL. */
NC_STATIC const PyNativeCallableEntry *nc_nativeapi_entry(PyObject *obj, const NcNativeApi *api,
                                                          size_t *position)
{
    const PyNativeCallableEntry *entry;
    if (api == NULL || api->entry == NULL) {
        return NULL;
    }
    while (*position < NC_NATIVEAPI_MAX_ENTRIES &&
           (entry = api->entry(obj, (*position)++)) != NULL) {
        /* A provider may know less than we do about flags, or have no function yet. */
        if (entry->signature != NULL && nc_calltable_flags_suit(entry->flags, 0) &&
            NC_ABI_LOAD(&entry->funcptr) != NULL) {
            return entry;
        }
    }
    return NULL;
}

NC_C_END

#endif
