/* csrc/callable/offer.c: lists, for Python code, the entries that objects of other providers offer.
 * The entries are in the object's call table or its `__nativecall_api__`. For a built-in view, they
 * are those of the callable behind it.
 *
 * This file uses the consumers' headers (nativecallable.h, nativeapi.h). It skips entries of a
 * later ABI and entries without a function.
 *
 * Threads: everything here needs the GIL. */
#include "platform/lists.h"
#include "layout.h"

#include "nativecall/customslots.h"
#include "nativecall/nativeapi.h"

/* Returns (signature, address, flags), like a row of `_entries()` of our own callables. */
static PyObject *described(const PyNativeCallableEntry *entry)
{
    PyObject *address = PyLong_FromVoidPtr(nc_calltable_funcptr(entry));
    /* A foreign provider's text may hold any bytes; the parser rejects it if it is not a
     * signature. */
    PyObject *text =
        PyUnicode_DecodeLatin1(entry->signature, (Py_ssize_t)strlen(entry->signature), NULL);
    return Py_BuildValue("(NNK)", text, address, (unsigned long long)entry->flags);
}

/* Returns the offset of the call table in an object; 0 if the object has no call table. */
static Py_ssize_t table_offset(PyObject *object)
{
    if (nc_native_table(object) == NULL) {
        return 0;
    }
    Py_ssize_t offset =
        ((PyHeapExtensibleTypeObject *)(void *)Py_TYPE(object))->etp_obj_custom_slots_offset;
    const PyCustomSlot *slot = offset == 0
                                   ? PyCustomSlots_Find(object, PYCUSTOMSLOT_NATIVECALLABLE_ID,
                                                        PYCUSTOMSLOT_NATIVECALLABLE_FAVPOS)
                                   : NULL;
    return slot != NULL ? (Py_ssize_t)slot->data.objoffset : offset;
}

/* native_offer(object): (offset, [(signature, address, flags), ...]). `offset` is the offset of the
 * call table in the object, or in the callable behind a view. It is None if the entries come from
 * `__nativecall_api__`. Returns None for an object that offers nothing and for our own callables.
 * Raises TypeError for an invalid `__nativecall_api__`. */
PyObject *nc_native_offer(PyObject *Py_UNUSED(module), PyObject *object)
{
    PyObject *behind = nc_abi_behind(object);
    Py_ssize_t offset = table_offset(behind);
    const PyNativeCallableEntry *entry = NULL;
    const NcNativeApi *api = NULL;
    size_t position = 0;
    if (PyObject_TypeCheck(behind, (PyTypeObject *)&NcCallable_Type)) {
        Py_RETURN_NONE;
    }
    if (offset == 0 && nc_nativeapi_of(behind, &api) < 0) {
        return NULL;
    }
    if (offset == 0 && api == NULL) {
        Py_RETURN_NONE;
    }
    PyObject *rows = PyList_New(0);
    while (rows != NULL && (entry = api != NULL ? nc_nativeapi_entry(behind, api, &position)
                                                : nc_native_next(object, entry)) != NULL) {
        if (nc_calltable_funcptr(entry) != NULL) {
            nc_list_take(&rows, described(entry));
        }
    }
    if (rows == NULL) {
        return NULL;
    }
    return api != NULL ? Py_BuildValue("(ON)", Py_None, rows) : Py_BuildValue("(nN)", offset, rows);
}

/* native_entry(object, signature): looks up the entry of a canonical signature in an object's
 * `__nativecall_api__`. Returns (signature, address, flags), or None. The provider may create the
 * entry during the lookup, and may raise an exception. */
PyObject *nc_native_entry(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *object;
    const char *signature;
    const PyNativeCallableEntry *entry = NULL;
    if (!PyArg_ParseTuple(args, "Os", &object, &signature)) {
        return NULL;
    }
    if (nc_nativeapi_find(nc_abi_behind(object), signature, 0, &entry) < 0) {
        return NULL;
    }
    return entry != NULL ? described(entry) : Py_NewRef(Py_None);
}
