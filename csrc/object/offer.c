/* csrc/object/offer.c: see offer.h. */
#include "object/offer.h"

#include "nativecall/customslots.h"
#include "nativecall/nativeapi.h"
#include "nativecall/nativecallable.h"
#include "object/callable.h"

/* (flags, address), with the signature before them or without it. */
static PyObject *described(const PyNativeCallableEntry *entry, int named)
{
    PyObject *address = PyLong_FromVoidPtr(nc_calltable_funcptr(entry));
    unsigned long long flags = entry->flags;
    if (!named) {
        return Py_BuildValue("(KN)", flags, address);
    }
    /* A foreign text can be anything; what is no signature is refused where it is read. */
    PyObject *text =
        PyUnicode_DecodeLatin1(entry->signature, (Py_ssize_t)strlen(entry->signature), NULL);
    return Py_BuildValue("(NKN)", text, flags, address);
}

static int append_new(PyObject *list, PyObject *made)
{
    int status = made != NULL ? PyList_Append(list, made) : -1;
    Py_XDECREF(made);
    return status;
}

/* Where the call table of an object is, counted from its start; 0 without one. */
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
        if (nc_calltable_funcptr(entry) != NULL && append_new(rows, described(entry, 1)) < 0) {
            Py_CLEAR(rows);
        }
    }
    if (rows == NULL) {
        return NULL;
    }
    return api != NULL ? Py_BuildValue("(ON)", Py_None, rows) : Py_BuildValue("(nN)", offset, rows);
}

PyObject *nc_native_entry(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *object;
    const char *signature;
    const PyNativeCallableEntry *entry = NULL;
    if (!PyArg_ParseTuple(args, "Os", &object, &signature)) {
        return NULL;
    }
    while ((entry = nc_native_next(object, entry)) != NULL) {
        if (strcmp(entry->signature, signature) == 0 && nc_calltable_funcptr(entry) != NULL) {
            return described(entry, 0);
        }
    }
    if (nc_nativeapi_find(nc_abi_behind(object), signature, 0, &entry) < 0) {
        return NULL;
    }
    if (entry == NULL) {
        Py_RETURN_NONE;
    }
    return described(entry, 0);
}
