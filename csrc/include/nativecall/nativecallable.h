/* nativecall/nativecallable.h: for callers: finds the C function inside a Python callable.
 *
 *     static const char *sig;                                      once: nc_signature_intern("d:d", &sig)
 *     const PyNativeCallableEntry *e = nc_native_find(obj, sig, NC_FLAG_NEEDS_GIL);
 *     if (e != NULL) y = ((double (*)(double))e->funcptr)(x);      else: PyObject_Call
 *
 * Two ways lead to an object's call table (D6): the offset in its type (CEP 1000), which is the
 * shortest, and the row of the slot table (SEP 201), which providers without the offset can have
 * too. Both give the same table. A callable's built-in view (`f.builtin`) is accepted wherever the
 * callable is; it costs one predicted branch on the way to a miss.
 *
 * Threads: no GIL, no lock and no store; the caller holds a reference to the object, and with it to
 * every table and function that is found. Entries whose flags meet `refuse` are passed over: give
 * NC_FLAG_NEEDS_GIL where the GIL is not held. Entries of a later ABI are always passed over.
 *
 * PyCustomSlots_Import() must have succeeded once in the module. */
#ifndef NATIVECALL_NATIVECALLABLE_H
#define NATIVECALL_NATIVECALLABLE_H

#include "calltable.h"
#include "customslots.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Interns a canonical signature (docs/abi.md), to compare with. 0, or -1 with an exception. */
NC_STATIC int nc_signature_intern(const char *signature, const char **out)
{
    return PyExtensibleType_Intern(signature, (Py_ssize_t)strlen(signature), out);
}

/* The callable behind a built-in view, a borrowed reference; NULL when obj is no such view.
 * A view is a built-in function whose method definition lies inside the object it is bound to:
 * that tells it from the object's ordinary methods. */
NC_STATIC_INLINE PyObject *nc_native_viewed(PyObject *obj)
{
    PyObject *self = NULL;
    if (Py_IS_TYPE(obj, &PyCFunction_Type)) {
        self = ((PyCFunctionObject *)(void *)obj)->m_self;
        if (self != NULL) {
            uintptr_t within = (uintptr_t)(const void *)((PyCFunctionObject *)(void *)obj)->m_ml -
                               (uintptr_t)(const void *)self;
            if (within >= (uintptr_t)Py_TYPE(self)->tp_basicsize) {
                self = NULL;
            }
        }
    }
    return self;
}

/* The call table at the offset that obj's type gives, or NULL. */
NC_STATIC_INLINE const PyNativeCallableTable *nc_native_table(PyObject *obj)
{
    PyTypeObject *type = Py_TYPE(obj);
    Py_ssize_t offset;
    if (!nc_type_has_metatype(type, nc_metatype)) {
        return NULL;
    }
    offset = ((PyHeapExtensibleTypeObject *)(void *)type)->etp_obj_custom_slots_offset;
    if (NC_UNLIKELY(offset == 0)) {
        return NULL;
    }
    return (const PyNativeCallableTable *)nc_load_acquire_ptr(
        (const char *)obj + offset);
}

/* The same table, found through the slot table. */
NC_STATIC_INLINE const PyNativeCallableTable *nc_native_table_by_slot(PyObject *obj)
{
    const PyCustomSlot *slot = PyCustomSlots_Find(obj, PYCUSTOMSLOT_NATIVECALLABLE_ID,
                                                  PYCUSTOMSLOT_NATIVECALLABLE_FAVPOS);
    if (NC_UNLIKELY(slot == NULL)) {
        return NULL;
    }
    return (const PyNativeCallableTable *)nc_load_acquire_ptr(
        (const char *)obj + slot->data.objoffset);
}

/* The entry of an interned signature none of whose flags is in `refuse`, or NULL. */
NC_STATIC_INLINE const PyNativeCallableEntry *nc_native_find(PyObject *obj, const char *signature,
                                                             uintptr_t refuse)
{
    const PyNativeCallableTable *table = nc_native_table(obj);
    if (NC_UNLIKELY(table == NULL)) {
        PyObject *viewed = nc_native_viewed(obj);
        if (viewed == NULL || (table = nc_native_table(viewed)) == NULL) {
            return NULL;
        }
    }
    return nc_calltable_find(table, signature, refuse);
}

/* The same through the slot table. */
NC_STATIC_INLINE const PyNativeCallableEntry *
nc_native_find_by_slot(PyObject *obj, const char *signature, uintptr_t refuse)
{
    const PyNativeCallableTable *table = nc_native_table_by_slot(obj);
    if (NC_UNLIKELY(table == NULL)) {
        PyObject *viewed = nc_native_viewed(obj);
        if (viewed == NULL || (table = nc_native_table_by_slot(viewed)) == NULL) {
            return NULL;
        }
    }
    return nc_calltable_find(table, signature, refuse);
}

#ifdef __cplusplus
}
#endif

#endif
