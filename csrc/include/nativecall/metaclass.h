/* nativecall/metaclass.h: the bundled metaclass: what happens when a class is made or changed.
 *
 * Of all copies in a process one is used, the one whose module published it first
 * (extensibletype.h); the others stay unused code.
 *
 * Guarantees: a class statement that fails leaves nothing behind; a malformed __customslots__ is an
 * error that names the key. Everything here holds the GIL. */
#ifndef NATIVECALL_METACLASS_H
#define NATIVECALL_METACLASS_H

#include "typetable.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- __customslots__ ------------------------------------------------------------------------- */

/* One key of a __customslots__ mapping: an allocated ID, an address, or a string to intern. */
NC_STATIC int nc_slot_key_from_python(PyObject *key, uintptr_t *out)
{
    const char *bytes = NULL;
    const char *interned = NULL;
    Py_ssize_t length = 0;
    int status;
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
        if ((id & 1) != 0 && (((uint64_t)id >> 32) != 0 || (id >> 24) == 0)) {
            PyErr_Format(PyExc_ValueError,
                         "allocated slot key %R must have a registrar in bits 24 to 31 and nothing "
                         "above; an even key is an address",
                         key);
            return -1;
        }
        *out = (uintptr_t)id;
        return 0;
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
    status = nc_runtime->intern(nc_runtime->registry, bytes, (size_t)length, &interned);
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

/* A pointer-sized datum: an int from -2^(w-1) up to 2^w - 1. */
NC_STATIC int nc_slot_data_from_python(PyObject *value, PyObject *key, void **out)
{
    size_t bits;
    if (!PyLong_Check(value)) {
        PyErr_Format(PyExc_TypeError, "slot %R must be an int or a (flags, int) pair (got %.200s)",
                     key, Py_TYPE(value)->tp_name);
        return -1;
    }
    bits = PyLong_AsSize_t(value);
    if (bits == (size_t)-1 && PyErr_Occurred()) {
        Py_ssize_t offset;
        PyErr_Clear();
        offset = PyLong_AsSsize_t(value);
        if (offset == -1 && PyErr_Occurred()) {
            PyErr_Clear();
            PyErr_Format(PyExc_OverflowError, "slot %R: %R does not fit a pointer", key, value);
            return -1;
        }
        bits = (size_t)offset;
    }
    *out = (void *)(uintptr_t)bits;
    return 0;
}

/* Reads a __customslots__ mapping {key: data | (flags, data)} into rows (a PyMem block). */
NC_STATIC int nc_slots_from_python(PyObject *mapping, PyCustomSlot **out, size_t *out_count)
{
    PyObject *items = NULL;
    PyCustomSlot *rows = NULL;
    Py_ssize_t i;
    PyObject *seen = NULL;
    PyObject *number = NULL;
    Py_ssize_t before;
    int status;
    Py_ssize_t count;
    if (!PyMapping_Check(mapping) || PyUnicode_Check(mapping) || PySequence_Check(mapping) != 0) {
        if (!PyDict_Check(mapping) && !PyObject_HasAttrString(mapping, "items")) {
            PyErr_Format(PyExc_TypeError,
                         "'__customslots__' must be a mapping from keys to data (got %.200s)",
                         Py_TYPE(mapping)->tp_name);
            return -1;
        }
    }
    items = PyMapping_Items(mapping);
    if (items == NULL) {
        return -1;
    }
    count = PyList_GET_SIZE(items);
    rows = (PyCustomSlot *)PyMem_Calloc((size_t)count + 1, sizeof(PyCustomSlot));
    seen = PySet_New(NULL);
    if (rows == NULL || seen == NULL) {
        PyErr_NoMemory();
        goto fail;
    }
    for (i = 0; i < count; i++) {
        PyObject *pair = PyList_GET_ITEM(items, i);
        PyObject *key = NULL;
        PyObject *value = NULL;
        if (!PyTuple_Check(pair) || PyTuple_GET_SIZE(pair) != 2) {
            PyErr_SetString(PyExc_TypeError, "'__customslots__'.items() must give pairs");
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
                PyErr_Format(PyExc_OverflowError, "flags of slot %R do not fit 64 bits", key);
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

/* ---- the metaclass --------------------------------------------------------------------------- */

/* type.__init__, then the tables: the fix-up is here and not in tp_new so that cooperative
 * metaclasses, ABCMeta for one, work in either Python version's way of making types. */
NC_STATIC int nc_metatype_init(PyObject *object, PyObject *args, PyObject *kwargs)
{
    PyHeapExtensibleTypeObject *self = (PyHeapExtensibleTypeObject *)(void *)object;
    PyObject *dict = NULL;
    PyObject *mapping = NULL;
    PyCustomSlot *own = NULL;
    size_t own_count = 0;
    if (PyType_Type.tp_init(object, args, kwargs) < 0) {
        return -1;
    }
    if (self->etp_private != NULL) {
        return 0; /* __init__ called again by hand: the class is as it was made */
    }
    dict = nc_type_dict((PyTypeObject *)(void *)object);
    if (dict == NULL) {
        return -1;
    }
    mapping = PyMapping_GetItemString(dict, "__customslots__");
    Py_DECREF(dict);
    if (mapping == NULL) {
        PyErr_Clear();
    } else {
        int status = nc_slots_from_python(mapping, &own, &own_count);
        Py_DECREF(mapping);
        if (status < 0) {
            return -1;
        }
    }
    if (nc_type_adopt(self, own, own_count, 0) < 0) {
        PyMem_Free(own);
        return -1;
    }
    /* __init_subclass__ may have made subclasses already. */
    if (nc_type_refresh_tree((PyTypeObject *)(void *)object) < 0) {
        nc_store_release_ptr(&self->etp_custom_slots, NULL);
        nc_store_release_intptr(&self->etp_table_shift, 0);
        nc_store_release_intptr(&self->etp_obj_custom_slots_offset, 0);
        nc_type_release((NcTypePrivate *)self->etp_private);
        self->etp_private = NULL;
        return -1;
    }
    return 0;
}

NC_STATIC int nc_metatype_setattro(PyObject *object, PyObject *name, PyObject *value)
{
    if (PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, "__customslots__") == 0) {
        PyErr_SetString(PyExc_TypeError, "'__customslots__' is read once, when the class is made; "
                                         "make a subclass to add or override slots");
        return -1;
    }
    if (PyType_Type.tp_setattro(object, name, value) < 0) {
        return -1;
    }
    if (PyUnicode_Check(name) && (PyUnicode_CompareWithASCIIString(name, "__call__") == 0 ||
                                  PyUnicode_CompareWithASCIIString(name, "__bases__") == 0)) {
        return nc_type_refresh_tree((PyTypeObject *)(void *)object);
    }
    return 0;
}

NC_STATIC void nc_metatype_dealloc(PyObject *object)
{
    NcTypePrivate *keeps =
        (NcTypePrivate *)((PyHeapExtensibleTypeObject *)(void *)object)->etp_private;
    PyType_Type.tp_dealloc(object);
    nc_type_release(keeps);
}

/* Ready of the copy that was published; see PyExtensibleType_Ready. */
NC_STATIC int nc_type_ready(PyHeapExtensibleTypeObject *self, Py_ssize_t slot_table_size)
{
    PyTypeObject *type = (PyTypeObject *)self;
    PyCustomSlot *raw = (PyCustomSlot *)(void *)self->etp_custom_slots;
    PyCustomSlot *own = NULL;
    PyCustomSlot *rows = NULL;
    size_t own_count = 0;
    size_t count = 0;
    size_t n;
    Py_ssize_t offset = self->etp_obj_custom_slots_offset;

    if (self->etp_private != NULL) {
        return 0;
    }
    if (slot_table_size < 0) {
        PyErr_Format(PyExc_ValueError, "type '%s' cannot have a slot table of %zd rows",
                     type->tp_name, slot_table_size);
        return -1;
    }
    if (slot_table_size > 0 && raw == NULL) {
        PyErr_Format(PyExc_ValueError,
                     "type '%s' has no slot table (NULL), but says that it has %zd rows",
                     type->tp_name, slot_table_size);
        return -1;
    }
    while ((Py_ssize_t)own_count < slot_table_size && raw[own_count].id != NC_SLOT_EMPTY) {
        for (n = 0; n < own_count && raw[own_count].id != NC_SLOT_SKIP; n++) {
            if (raw[n].id == raw[own_count].id) {
                PyErr_Format(PyExc_ValueError, "duplicate slot key %p in the slots of type '%s'",
                             (void *)raw[n].id, type->tp_name);
                return -1;
            }
        }
        own_count++;
    }
    own = (PyCustomSlot *)PyMem_Calloc(own_count + 1, sizeof(PyCustomSlot));
    if (own == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    if (own_count != 0) {
        memcpy(own, raw, own_count * sizeof(PyCustomSlot));
    }

    /* No reader may take the raw array for a table. */
    self->etp_custom_slots = NULL;
    self->etp_obj_custom_slots_offset = 0;
    Py_SET_TYPE((PyObject *)type, nc_metatype);
    if (PyType_Ready(type) < 0 || nc_type_adopt(self, own, own_count, offset) < 0) {
        goto fail;
    }
    own = NULL;
    if (nc_type_merge(self, &rows, &count, &offset) < 0) {
        goto fail;
    }
    if (slot_table_size > 0 && count > (size_t)slot_table_size) {
        PyErr_Format(PyExc_ValueError,
                     "type '%s' has %zu slots with those it inherits, but its slot table has room "
                     "for %zd",
                     type->tp_name, count, slot_table_size);
        goto fail;
    }
    if (nc_type_publish(self, rows, count, offset) < 0) {
        goto fail;
    }
    if (count != 0 && slot_table_size > 0) {
        memcpy(raw, rows, count * sizeof(PyCustomSlot));
    }
    PyMem_Free(rows);
    return 0;

fail:
    PyMem_Free(rows);
    PyMem_Free(own);
    nc_type_release((NcTypePrivate *)self->etp_private);
    self->etp_private = NULL;
    self->etp_custom_slots = NULL;
    return -1;
}

/* Fills in and readies this copy's metaclass. */
NC_STATIC PyTypeObject *nc_metatype_bundled(void)
{
    static PyTypeObject metatype;
    if (metatype.tp_name == NULL) {
        Py_SET_REFCNT((PyObject *)&metatype, 1);
        metatype.tp_name = "nativecall.extensibletype";
        metatype.tp_doc =
            "extensibletype(name, bases, namespace)\n--\n\n"
            "The metaclass of types with a slot table that native code can search "
            "(SEP 200).\n\nA mapping '__customslots__' in a class body adds or "
            "overrides rows: its keys are allocated\nIDs (odd), addresses (even) or "
            "strings to intern, its values pointer-sized ints or\n(flags, int) pairs.";
        metatype.tp_basicsize = (Py_ssize_t)sizeof(PyHeapExtensibleTypeObject);
        metatype.tp_itemsize = PyType_Type.tp_itemsize;
        metatype.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
        metatype.tp_base = &PyType_Type;
        metatype.tp_init = nc_metatype_init;
        metatype.tp_setattro = nc_metatype_setattro;
        metatype.tp_dealloc = nc_metatype_dealloc;
    }
    return PyType_Ready(&metatype) < 0 ? NULL : &metatype;
}

#ifdef __cplusplus
}
#endif

#endif
