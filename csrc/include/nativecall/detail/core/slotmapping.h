/* nativecall/detail/core/slotmapping.h: checks slot keys, and converts __customslots__ to rows.
 *
 * Guarantees: an invalid key raises an error that names the key, even if its row comes from C. A
 *             malformed mapping adds no rows. Reading a mapping may run arbitrary Python code.
 * Threads:    all functions need the GIL.
 * Errors:     -1 or NULL with an exception: TypeError for a wrong type, ValueError for a duplicate
 *             or a value out of range, MemoryError, or any exception that the mapping raises.
 * Source:     SEP 200, "The custom slot ID space"; "Subclassing" (__customslots__). */
#ifndef NATIVECALL_SLOTMAPPING_H
#define NATIVECALL_SLOTMAPPING_H

#include "../compat.h" /* Python.h before headers of C */
#include "intern.h"
#include "runtime.h"
#include "slotids.h"

NC_C_BEGIN

#define NC_RUNTIME_MODULE "_extensibletype"
#define NC_RUNTIME_ATTRIBUTE "runtime_v1"
#define NC_RUNTIME_CAPSULE "_extensibletype.runtime_v1"
#define NC_RUNTIME_METACLASS "extensibletype_v1"
/* Name of the dict {id: provider} of IDs allocated at run time, in the runtime's module. */
#define NC_RUNTIME_IDS "allocated_ids"

/* ---- keys ------------------------------------------------------------------------------------ */

/* Return the dict of IDs allocated at run time; create it on first use. Return a new reference, or
 * NULL with an exception. */
NC_STATIC PyObject *nc_runtime_ids(void)
{
    PyObject *module = nc_dict_item(PyImport_GetModuleDict(), NC_RUNTIME_MODULE);
    PyObject *name = PyUnicode_FromString(NC_RUNTIME_IDS);
    PyObject *fresh = PyDict_New();
    PyObject *ids = NULL;
    if (module == NULL || !PyModule_Check(module)) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_ImportError, "sys.modules['" NC_RUNTIME_MODULE
                                               "'] is no longer the extensibletype runtime");
        }
    } else if (name != NULL && fresh != NULL) {
        ids = PyDict_SetDefault(PyModule_GetDict(module), name, fresh);
        if (ids != NULL && !PyDict_Check(ids)) {
            PyErr_Format(PyExc_TypeError,
                         "'" NC_RUNTIME_IDS "' of the module '" NC_RUNTIME_MODULE
                         "' must be a dict (got %.200s)",
                         Py_TYPE(ids)->tp_name);
            ids = NULL;
        }
        Py_XINCREF(ids);
    }
    Py_XDECREF(module);
    Py_XDECREF(name);
    Py_XDECREF(fresh);
    return ids;
}

/* Return whether the data of a slot is an offset into the object. Native code follows such
 * offsets. */
NC_STATIC int nc_slot_id_followed(uintptr_t id)
{
    return (id & 1) != 0 && (id >> 8 == PYCUSTOMSLOT_NATIVECALLABLE_ID >> 8 ||
                             id >> 8 == PYCUSTOMSLOT_OBJECTSLOTS_ID >> 8);
}

/* Check that a key is valid; a key of the run-time registrar must also have been allocated. Return
 * 0, or -1 with ValueError. */
NC_STATIC int nc_slot_id_check(uintptr_t id)
{
    char shown[32];
    int status = nc_slot_id_valid(id) ? 0 : -1;
    PyOS_snprintf(shown, sizeof shown, "%#llx", (unsigned long long)id);
    if (status < 0) {
        PyErr_Format(PyExc_ValueError,
                     "allocated slot key %s must have a registrar in bits 24 to 31 and no higher "
                     "bits set; an even key is an address",
                     shown);
    } else if ((id & 1) != 0 && id >> 24 == NC_SLOT_RUNTIME_REGISTRAR) {
        PyObject *ids = nc_runtime_ids();
        PyObject *number = ids != NULL ? PyLong_FromSize_t((size_t)id) : NULL;
        status = number != NULL ? PyDict_Contains(ids, number) - 1 : -1;
        if (status < 0 && !PyErr_Occurred()) {
            PyErr_Format(PyExc_ValueError,
                         "slot key %s is in the range for keys that are allocated at run time "
                         "(PyExtensibleType_AllocateID), but was never allocated",
                         shown);
        }
        Py_XDECREF(ids);
        Py_XDECREF(number);
    }
    return status;
}

/* ---- __customslots__ ------------------------------------------------------------------------- */

/* Convert a key of a __customslots__ mapping: an allocated ID, an address, or a string to
 * intern. */
NC_STATIC int nc_slot_key_from_python(PyObject *key, uintptr_t *out)
{
    const char *bytes = NULL;
    const char *interned = NULL;
    Py_ssize_t length = 0;
    if (PyLong_Check(key)) {
        size_t id = PyLong_AsSize_t(key);
        if (id == (size_t)-1 && PyErr_Occurred()) {
            PyErr_Format(PyExc_ValueError, "slot key %R does not fit a pointer-sized integer", key);
            return -1;
        }
        if (id == NC_SLOT_EMPTY || id == NC_SLOT_SKIP) {
            PyErr_Format(PyExc_ValueError,
                         "slot key %R is reserved (0 marks an empty row, 1 a skipped one)", key);
            return -1;
        }
        if (nc_slot_id_followed(id)) {
            PyErr_Format(PyExc_ValueError,
                         "slot key %R is reserved for call tables (0x04000001 to 0x040000ff) or "
                         "object slots (0x04000101 to 0x040001ff): native code uses its data as an "
                         "offset into the object, so only a type written in C can define it; "
                         "derive from one, such as nativecall.NativeCallable",
                         key);
            return -1;
        }
        *out = (uintptr_t)id;
        return nc_slot_id_check(id);
    }
    if (PyUnicode_Check(key)) {
        bytes = PyUnicode_AsUTF8AndSize(key, &length);
        if (bytes == NULL) {
            return -1;
        }
    } else if (PyBytes_Check(key)) {
        bytes = PyBytes_AS_STRING(key);
        length = PyBytes_GET_SIZE(key);
    } else {
        PyErr_Format(PyExc_TypeError, "slot keys must be int, str or bytes (got %.200s)",
                     Py_TYPE(key)->tp_name);
        return -1;
    }
    int status = nc_runtime->intern(nc_runtime->registry, bytes, (size_t)length, &interned);
    if (status == NC_E_NOMEM) {
        PyErr_NoMemory();
        return -1;
    }
    if (status != NC_OK) {
        PyErr_Format(PyExc_ValueError, "slot key of %zd bytes is too long; the limit is %d", length,
                     (int)NC_INTERN_MAX_LENGTH);
        return -1;
    }
    *out = (uintptr_t)(const void *)interned;
    return 0;
}

/* Convert pointer-sized data: an int from -2^(w-1) to 2^w - 1, where a pointer has w bits. */
NC_STATIC int nc_slot_data_from_python(PyObject *value, PyObject *key, void **out)
{
    if (!PyLong_Check(value)) {
        PyErr_Format(PyExc_TypeError, "slot %R must be an int or a (flags, int) pair (got %.200s)",
                     key, Py_TYPE(value)->tp_name);
        return -1;
    }
    size_t bits = PyLong_AsSize_t(value);
    if (bits == (size_t)-1 && PyErr_Occurred()) {
        PyErr_Clear();
        Py_ssize_t offset = PyLong_AsSsize_t(value);
        if (offset == -1 && PyErr_Occurred()) {
            PyErr_Clear();
            PyErr_Format(PyExc_ValueError, "slot %R: %R does not fit a pointer", key, value);
            return -1;
        }
        bits = (size_t)offset;
    }
    *out = (void *)(uintptr_t)bits;
    return 0;
}

/* Convert a __customslots__ mapping {key: data | (flags, data)} to rows in a PyMem block. */
NC_STATIC int nc_slots_from_python(PyObject *mapping, PyCustomSlot **out, size_t *out_count)
{
    PyObject *number = NULL;
    Py_ssize_t before;
    int status;
    PyObject *method = PyObject_GetAttrString(mapping, "items");
    PyObject *list = method != NULL ? PyMapping_Items(mapping) : NULL;
    /* A tuple, because the list could change during conversions. */
    PyObject *items = list != NULL ? PyList_AsTuple(list) : NULL;
    if (method == NULL && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_Format(PyExc_TypeError,
                     "'__customslots__' must be a mapping from keys to data (got %.200s)",
                     Py_TYPE(mapping)->tp_name);
    }
    Py_XDECREF(method);
    Py_XDECREF(list);
    if (items == NULL) {
        return -1;
    }
    Py_ssize_t count = PyTuple_GET_SIZE(items);
    PyCustomSlot *rows = (PyCustomSlot *)PyMem_Calloc((size_t)count + 1, sizeof(PyCustomSlot));
    PyObject *seen = PySet_New(NULL);
    if (rows == NULL || seen == NULL) {
        PyErr_NoMemory();
        goto fail;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *pair = PyTuple_GET_ITEM(items, i);
        PyObject *key = NULL;
        PyObject *value = NULL;
        if (!PyTuple_Check(pair) || PyTuple_GET_SIZE(pair) != 2) {
            PyErr_SetString(PyExc_TypeError, "'__customslots__'.items() must return pairs");
            goto fail;
        }
        key = PyTuple_GET_ITEM(pair, 0);
        value = PyTuple_GET_ITEM(pair, 1);
        if (nc_slot_key_from_python(key, &rows[i].id) < 0) {
            goto fail;
        }
        before = PySet_GET_SIZE(seen);
        number = PyLong_FromSize_t((size_t)rows[i].id);
        status = number != NULL ? PySet_Add(seen, number) : -1;
        Py_XDECREF(number);
        if (status < 0) {
            goto fail;
        }
        if (PySet_GET_SIZE(seen) == before) {
            PyErr_Format(PyExc_ValueError, "duplicate slot key %R in '__customslots__'", key);
            goto fail;
        }
        if (PyTuple_Check(value)) {
            unsigned long long flags;
            if (PyTuple_GET_SIZE(value) != 2) {
                PyErr_Format(PyExc_TypeError,
                             "slot %R must be an int or a (flags, int) pair (got a tuple of %zd)",
                             key, PyTuple_GET_SIZE(value));
                goto fail;
            }
            if (!PyLong_Check(PyTuple_GET_ITEM(value, 0))) {
                PyErr_Format(PyExc_TypeError, "flags of slot %R must be an int (got %.200s)", key,
                             Py_TYPE(PyTuple_GET_ITEM(value, 0))->tp_name);
                goto fail;
            }
            flags = PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(value, 0));
            if (flags == (unsigned long long)-1 && PyErr_Occurred()) {
                PyErr_Clear();
                PyErr_Format(PyExc_ValueError, "flags of slot %R do not fit 64 bits", key);
                goto fail;
            }
            rows[i].flags = (uint64_t)flags;
            value = PyTuple_GET_ITEM(value, 1);
        }
        if (nc_slot_data_from_python(value, key, &rows[i].data.pointer) < 0) {
            goto fail;
        }
    }
    Py_DECREF(items);
    Py_DECREF(seen);
    *out = rows;
    *out_count = (size_t)count;
    return 0;

fail:
    Py_DECREF(items);
    Py_XDECREF(seen);
    PyMem_Free(rows);
    return -1;
}

NC_C_END

#endif
