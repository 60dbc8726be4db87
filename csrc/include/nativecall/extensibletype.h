/* nativecall/extensibletype.h: types with a slot table, and the one metaclass that they all share.
 *
 * For providers: code that gives its types slots which native code can find by key (SEP 200). The
 * whole metaclass is in this header, so that a project can bundle it and need nothing at run time.
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
 *   or one that is too small
 *   anything else by that name         ImportError
 *
 * `_extensibletype.extensibletype_v1` is the metaclass itself, as SEP 200 asks.
 *
 * Inheritance (SEP 200, both drafts; DESIGN of the rules in docs/abi.md):
 *
 *   - every class has a table of its own, made when the class is made: first the rows of its first
 *     extensible base, in their order, then what the other bases and the class add. For each key
 *     the row of the first class in the MRO that defines it wins, at the position where the
 *     key first stood, so that expected positions survive subclassing;
 *   - a static C type over-allocates its array of rows, and Ready writes the merged rows back
 *     to it; an array that is too small is an error;
 *   - a class statement adds or overrides rows with a mapping named __customslots__;
 *   - a class in whose MRO a __call__ comes before the class that brought the call table has no
 *     call table: native callers and Python must not get different results.
 *
 * Threads. Import, Ready and everything that makes or changes a class hold the GIL. Readers
 * (customslots.h) need only a reference to the object: a published table is never written again, a
 * new one is published by one release store, and superseded ones live as long as the type.
 *
 * Errors. Functions that return int return 0, or -1 with a Python exception set. */
#ifndef NATIVECALL_EXTENSIBLETYPE_H
#define NATIVECALL_EXTENSIBLETYPE_H

#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base.h"
#include "intern.h"
#include "slottable.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Keys of the two call tables (SEP 201; D6): rows whose data.objoffset is where an object keeps a
 * pointer to its table. They are dropped where a subclass overrides __call__. */
#define PYCUSTOMSLOT_NATIVECALLABLE_ID ((uintptr_t)0x04000001)
#define PYCUSTOMSLOT_NATIVECALLABLE_FAVPOS 0
#define PYCUSTOMSLOT_PACKEDCALLABLE_ID ((uintptr_t)0x04000003)
#define PYCUSTOMSLOT_PACKEDCALLABLE_FAVPOS 1

/* A type that can have slots. A static instance fills in etp_heaptype as for any static type, sets
 * etp_custom_slots with NC_STATIC_SLOTS and calls PyExtensibleType_Ready. */
typedef struct {
    PyHeapTypeObject etp_heaptype;
    PyCustomSlotTable *etp_custom_slots;    /* NULL: no slots; the metaclass's once ready */
    Py_ssize_t etp_obj_custom_slots_offset; /* of each object's PyNativeCallableTable *; 0: none */
    Py_ssize_t etp_table_shift;             /* see NC_TABLE_SHIFT; set by the metaclass */
    void *etp_private;                      /* the metaclass's own; NULL until the type is ready */
} PyHeapExtensibleTypeObject;

/* The offset counted from the object's ob_type, so that 0, which new types have, leads to the type
 * itself. Read as a call table, a type starts with its reference count and its metatype: a
 * first entry whose signature is no interned string. So the hot lookup (nativecallable.h) need not
 * test whether there is a table before it compares the first signature. */
#define NC_TABLE_SHIFT(offset)                                                                     \
    ((offset) == 0 ? 0 : (offset) - (Py_ssize_t)offsetof(PyObject, ob_type))

/* For static initialisers: the array of rows, ended by (and padded with) rows of id 0, that Ready
 * takes as the type's own. Until Ready has run, etp_custom_slots points to this array. */
#define NC_STATIC_SLOTS(rows) ((PyCustomSlotTable *)(void *)(rows))

/* What the first copy in a process publishes and all others use. Grows only at its end; a reader
 * accepts any struct_size that is at least its own. Lives until the process ends. */
typedef struct {
    uint32_t abi_version;   /* NC_ABI_VERSION of the copy that made it */
    uint32_t struct_size;   /* sizeof(NcRuntime) there */
    uint32_t type_size;     /* sizeof(PyHeapExtensibleTypeObject) there */
    uint32_t slot_size;     /* sizeof(PyCustomSlot) there */
    const char *provider;   /* the module that made it, for error messages */
    PyTypeObject *metatype; /* extensibletype */
    NcRegistry *registry;   /* of interned keys */
    int (*intern)(NcRegistry *registry, const char *bytes, size_t length, const char **out);
    int (*ready)(PyHeapExtensibleTypeObject *type, Py_ssize_t slot_table_size);
} NcRuntime;

#define NC_RUNTIME_MODULE "_extensibletype"
#define NC_RUNTIME_ATTRIBUTE "runtime_v1"
#define NC_RUNTIME_CAPSULE "_extensibletype.runtime_v1"

/* Who we are in handshake errors; a bundler may define it before the include. */
#ifndef NC_PROVIDER
#define NC_PROVIDER "an extension module that bundles nativecall"
#endif

/* Weak and hidden: the copies in the source files of one module become one variable, and
 * are not seen from other modules. */
#if defined(NC_MSVC)
#define NC_SHARED_VARIABLE __declspec(selectany)
#else
#define NC_SHARED_VARIABLE __attribute__((weak, visibility("hidden")))
#endif

/* One of each per shared object, whatever the number of its source files: NULL until
 * PyExtensibleType_Import (or PyCustomSlots_Import) has succeeded in any of them. */
NC_SHARED_VARIABLE const NcRuntime *nc_runtime = NULL;
NC_SHARED_VARIABLE PyTypeObject *nc_metatype = NULL;

/* ---- the bundled metaclass ------------------------------------------------------------------- */

typedef struct NcRetiredTable {
    PyCustomSlotTable *table;
    struct NcRetiredTable *next;
} NcRetiredTable;

/* What a ready type keeps beyond its published table. */
typedef struct {
    PyCustomSlot *own;       /* the rows that the type itself defines */
    size_t own_count;        /* how many */
    Py_ssize_t own_offset;   /* the call-table offset that a static type brought; 0: none */
    NcRetiredTable *retired; /* every table ever published, kept for readers until the type dies */
} NcTypePrivate;

/* Whether `derived`, a metatype, derives from `meta`. Out of line: metatypes other than `meta`
 * itself are rare, and the walk need not be repeated at every place that checks. */
NC_NOINLINE int nc_metatype_derives(PyTypeObject *derived, PyTypeObject *meta)
{
    while (derived != NULL && derived != meta) {
        derived = derived->tp_base;
    }
    return derived != NULL;
}

/* Whether a type was made by the metaclass `meta` or one derived from it. */
NC_STATIC_INLINE int nc_type_has_metatype(PyTypeObject *type, PyTypeObject *meta)
{
    PyTypeObject *found = Py_TYPE((PyObject *)type);
    return NC_LIKELY(found == meta) || nc_metatype_derives(found, meta);
}

NC_STATIC int nc_is_call_key(uintptr_t id)
{
    return id == PYCUSTOMSLOT_NATIVECALLABLE_ID || id == PYCUSTOMSLOT_PACKEDCALLABLE_ID;
}

/* A type's namespace: a new reference. From 3.12 on tp_dict is not public. */
NC_STATIC PyObject *nc_type_dict(PyTypeObject *type)
{
#if PY_VERSION_HEX >= 0x030C0000
    return PyType_GetDict(type);
#else
    Py_XINCREF(type->tp_dict);
    return type->tp_dict;
#endif
}

/* 1 when the class statement or static type defines __call__ itself, 0 when not, -1 on error. */
NC_STATIC int nc_type_defines_call(PyTypeObject *type)
{
    PyObject *dict = nc_type_dict(type);
    PyObject *name = NULL;
    int found = -1;
    if (dict == NULL) {
        return 0;
    }
    name = PyUnicode_InternFromString("__call__");
    if (name != NULL) {
        found = PyDict_Contains(dict, name);
        Py_DECREF(name);
    }
    Py_DECREF(dict);
    return found;
}

/* The extensible class at position i of an MRO that is ready, else NULL. */
NC_STATIC PyHeapExtensibleTypeObject *nc_mro_extensible(PyObject *mro, Py_ssize_t i)
{
    PyObject *item = PyTuple_GET_ITEM(mro, i);
    PyHeapExtensibleTypeObject *type = (PyHeapExtensibleTypeObject *)(void *)item;
    if (!PyType_Check(item) || !nc_type_has_metatype((PyTypeObject *)(void *)item, nc_metatype)) {
        return NULL;
    }
    return type->etp_private != NULL ? type : NULL;
}

/* Puts row at its key's position, or at the end. Returns the new count. Skip rows are positions,
 * not keys: they are always appended. */
NC_STATIC size_t nc_rows_put(PyCustomSlot *rows, size_t count, const PyCustomSlot *row, int replace)
{
    size_t i;
    if (row->id != NC_SLOT_SKIP) {
        for (i = 0; i < count; i++) {
            if (rows[i].id == row->id) {
                if (replace) {
                    rows[i] = *row;
                }
                return count;
            }
        }
    }
    rows[count] = *row;
    return count + 1;
}

/* The merged rows of a type by the rules on top, in a PyMem block (*out, *out_count), and the
 * offset of its call table. */
NC_STATIC int nc_type_merge(PyHeapExtensibleTypeObject *self, PyCustomSlot **out, size_t *out_count,
                            Py_ssize_t *out_offset)
{
    PyTypeObject *type = (PyTypeObject *)self;
    PyObject *mro = type->tp_mro;
    PyHeapExtensibleTypeObject *base = NULL;
    PyCustomSlot *rows = NULL;
    PyCustomSlot *merged = NULL;
    size_t capacity = 0;
    size_t count = 0;
    size_t kept = 0;
    size_t n;
    Py_ssize_t i;
    Py_ssize_t offset = 0;
    Py_ssize_t size = PyTuple_GET_SIZE(mro);
    Py_ssize_t first_call = size;
    Py_ssize_t first_table = size;
    int defines;

    for (i = 0; i < size; i++) {
        base = nc_mro_extensible(mro, i);
        if (base == NULL) {
            continue;
        }
        capacity += ((NcTypePrivate *)base->etp_private)->own_count;
        if (base->etp_custom_slots != NULL && base != self) {
            capacity += (size_t)base->etp_custom_slots->count;
        }
    }
    rows = (PyCustomSlot *)PyMem_Calloc(capacity + 1, sizeof(PyCustomSlot));
    merged = (PyCustomSlot *)PyMem_Calloc(capacity + 1, sizeof(PyCustomSlot));
    if (rows == NULL || merged == NULL) {
        PyErr_NoMemory();
        goto fail;
    }

    /* Positions: the first extensible base's table as it stands, then other bases', then ours. */
    for (i = 1; i < size; i++) {
        base = nc_mro_extensible(mro, i);
        if (base == NULL || base->etp_custom_slots == NULL) {
            continue;
        }
        for (n = 0; n < (size_t)base->etp_custom_slots->count; n++) {
            const PyCustomSlot *row = nc_slottable_rows(base->etp_custom_slots) + n;
            if (row->id == NC_SLOT_SKIP && count > n) {
                continue; /* padding of a base that does not come first moves nothing */
            }
            count = nc_rows_put(rows, count, row, 0);
        }
    }
    /* Values: the own rows of each class, the last of the MRO first, so that the first one wins. */
    for (i = size - 1; i >= 0; i--) {
        NcTypePrivate *keeps;
        base = nc_mro_extensible(mro, i);
        if (base == NULL) {
            continue;
        }
        keeps = (NcTypePrivate *)base->etp_private;
        for (n = 0; n < keeps->own_count; n++) {
            if (i == 0 || keeps->own[n].id != NC_SLOT_SKIP) {
                count = nc_rows_put(rows, count, &keeps->own[n], 1);
            }
        }
    }

    /* Whether __call__ is overridden before the class that brought the call table (D12). */
    for (i = 0; i < size && (first_call == size || first_table == size); i++) {
        PyTypeObject *item = (PyTypeObject *)(void *)PyTuple_GET_ITEM(mro, i);
        base = nc_mro_extensible(mro, i);
        if (base != NULL && first_table == size) {
            NcTypePrivate *keeps = (NcTypePrivate *)base->etp_private;
            int brings = keeps->own_offset != 0;
            for (n = 0; n < keeps->own_count; n++) {
                brings |= nc_is_call_key(keeps->own[n].id);
            }
            if (brings) {
                first_table = i;
                offset = keeps->own_offset;
            }
        }
        if (first_call == size) {
            defines = nc_type_defines_call(item);
            if (defines < 0) {
                goto fail;
            }
            if (defines) {
                first_call = i;
            }
        }
    }
    if (first_call < first_table) {
        offset = 0;
    }
    for (n = 0; n < count; n++) {
        merged[kept] = rows[n];
        if (first_call < first_table && nc_is_call_key(rows[n].id)) {
            /* A skip row keeps the positions of those behind it. */
            memset(&merged[kept], 0, sizeof(PyCustomSlot));
            merged[kept].id = NC_SLOT_SKIP;
        }
        kept++;
    }
    while (first_call < first_table && kept > 0 && merged[kept - 1].id == NC_SLOT_SKIP) {
        kept--;
    }
    PyMem_Free(rows);
    *out = merged;
    *out_count = kept;
    *out_offset = offset;
    return 0;

fail:
    PyMem_Free(rows);
    PyMem_Free(merged);
    return -1;
}

NC_STATIC int nc_rows_equal(const PyCustomSlotTable *table, const PyCustomSlot *rows, size_t count)
{
    size_t n;
    if ((size_t)table->count != count) {
        return 0;
    }
    for (n = 0; n < count; n++) {
        const PyCustomSlot *a = nc_slottable_rows(table) + n;
        if (a->id != rows[n].id || a->flags != rows[n].flags ||
            a->data.pointer != rows[n].data.pointer) {
            return 0;
        }
    }
    return 1;
}

/* Publishes a table of these rows. A table once published is reused when the same rows come
 * again, so that a class whose __call__ is set and deleted in turn does not grow. */
NC_STATIC int nc_type_publish(PyHeapExtensibleTypeObject *self, const PyCustomSlot *rows,
                              size_t count, Py_ssize_t offset)
{
    NcTypePrivate *keeps = (NcTypePrivate *)self->etp_private;
    NcRetiredTable *link = keeps->retired;
    PyCustomSlotTable *table = NULL;
    uintptr_t duplicate = 0;
    int status;

    while (link != NULL && !nc_rows_equal(link->table, rows, count)) {
        link = link->next;
    }
    if (link == NULL && count != 0) {
        status = nc_slottable_build(rows, count, &table, &duplicate);
        if (status == NC_OK) {
            link = (NcRetiredTable *)PyMem_Malloc(sizeof(NcRetiredTable));
            if (link == NULL) {
                nc_slottable_free(table);
                status = NC_E_NOMEM;
            }
        }
        if (status != NC_OK) {
            if (status == NC_E_NOMEM) {
                PyErr_NoMemory();
            } else if (status == NC_E_DUPLICATE) {
                PyErr_Format(PyExc_ValueError, "duplicate slot key 0x%zx in the slots of type '%s'",
                             (size_t)duplicate, ((PyTypeObject *)self)->tp_name);
            } else {
                PyErr_Format(PyExc_ValueError, "type '%s' has %zu slots; a table holds at most %d",
                             ((PyTypeObject *)self)->tp_name, count, (int)NC_SLOTTABLE_MAX_ROWS);
            }
            return -1;
        }
        link->table = table;
        link->next = keeps->retired;
        keeps->retired = link;
    }
    nc_store_release_ptr(&self->etp_custom_slots, link != NULL ? link->table : NULL);
    nc_store_release_intptr(&self->etp_table_shift, (intptr_t)NC_TABLE_SHIFT(offset));
    nc_store_release_intptr(&self->etp_obj_custom_slots_offset, (intptr_t)offset);
    PyType_Modified((PyTypeObject *)self);
    return 0;
}

/* Gives a class whose __call__ is the native one the vectorcall of its base: before 3.12 heap types
 * do not inherit the flag, because an assignment to __call__ would not clear it; here it does. */
NC_STATIC void nc_type_inherit_vectorcall(PyHeapExtensibleTypeObject *self, Py_ssize_t offset)
{
#if PY_VERSION_HEX < 0x030C0000
    PyTypeObject *type = (PyTypeObject *)self;
    PyTypeObject *base = type->tp_base;
    if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE) || base == NULL) {
        return;
    }
    if (offset != 0 && (base->tp_flags & Py_TPFLAGS_HAVE_VECTORCALL) &&
        type->tp_call == base->tp_call) {
        type->tp_vectorcall_offset = base->tp_vectorcall_offset;
        type->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
    } else {
        type->tp_flags &= ~(unsigned long)Py_TPFLAGS_HAVE_VECTORCALL;
    }
    PyType_Modified(type);
#else
    (void)self;
    (void)offset;
#endif
}

/* Makes the published table of a ready type what its MRO says now. */
NC_STATIC int nc_type_refresh(PyHeapExtensibleTypeObject *self)
{
    PyCustomSlot *rows = NULL;
    size_t count = 0;
    Py_ssize_t offset = 0;
    int status;
    if (nc_type_merge(self, &rows, &count, &offset) < 0) {
        return -1;
    }
    status = nc_type_publish(self, rows, count, offset);
    PyMem_Free(rows);
    if (status == 0) {
        nc_type_inherit_vectorcall(self, offset);
    }
    return status;
}

/* The same for a type and all that derive from it, bases first. */
NC_STATIC int nc_type_refresh_tree(PyTypeObject *type)
{
    PyObject *subclasses = NULL;
    Py_ssize_t i;
    int status = 0;
    if (nc_type_has_metatype(type, nc_metatype) &&
        ((PyHeapExtensibleTypeObject *)(void *)type)->etp_private != NULL &&
        nc_type_refresh((PyHeapExtensibleTypeObject *)(void *)type) < 0) {
        return -1;
    }
    subclasses = PyObject_CallMethod((PyObject *)&PyType_Type, "__subclasses__", "O", type);
    if (subclasses == NULL) {
        return -1;
    }
    for (i = 0; status == 0 && i < PyList_GET_SIZE(subclasses); i++) {
        status = nc_type_refresh_tree((PyTypeObject *)(void *)PyList_GET_ITEM(subclasses, i));
    }
    Py_DECREF(subclasses);
    return status;
}

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
    Py_ssize_t j;
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
    if (rows == NULL) {
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
        for (j = 0; j < i; j++) {
            if (rows[j].id == rows[i].id) {
                PyErr_Format(PyExc_ValueError, "duplicate slot key %R in '__customslots__'", key);
                goto fail;
            }
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
    *out = rows;
    *out_count = (size_t)count;
    return 0;

fail:
    Py_DECREF(items);
    PyMem_Free(rows);
    return -1;
}

/* The private part of a new type; takes over `own` on success. */
NC_STATIC int nc_type_adopt(PyHeapExtensibleTypeObject *self, PyCustomSlot *own, size_t own_count,
                            Py_ssize_t own_offset)
{
    NcTypePrivate *keeps = (NcTypePrivate *)PyMem_Calloc(1, sizeof(NcTypePrivate));
    if (keeps == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    keeps->own = own;
    keeps->own_count = own_count;
    keeps->own_offset = own_offset;
    self->etp_private = keeps;
    return 0;
}

/* Tables and private part of a type that nobody can reach any more. */
NC_STATIC void nc_type_release(NcTypePrivate *keeps)
{
    NcRetiredTable *link;
    if (keeps == NULL) {
        return;
    }
    link = keeps->retired;
    while (link != NULL) {
        NcRetiredTable *next = link->next;
        nc_slottable_free(link->table);
        PyMem_Free(link);
        link = next;
    }
    PyMem_Free(keeps->own);
    PyMem_Free(keeps);
}

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
    if (nc_type_refresh(self) < 0) {
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
    Py_ssize_t offset = self->etp_obj_custom_slots_offset;

    if (self->etp_private != NULL) {
        return 0;
    }
    if (slot_table_size < 0 || (slot_table_size > 0 && raw == NULL)) {
        PyErr_Format(PyExc_ValueError, "type '%s': a slot table of %zd rows at %p", type->tp_name,
                     slot_table_size, (void *)raw);
        return -1;
    }
    while ((Py_ssize_t)own_count < slot_table_size && raw[own_count].id != NC_SLOT_EMPTY) {
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

/* ---- the handshake --------------------------------------------------------------------------- */

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
    PyObject *capsule = PyObject_GetAttrString(module, NC_RUNTIME_ATTRIBUTE);
    if (capsule == NULL) {
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
                     found->abi_version >= 1 ? found->provider : "another module",
                     (unsigned)found->abi_version, (unsigned)found->struct_size,
                     (unsigned)found->type_size, (unsigned)found->slot_size);
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
    module = PyDict_GetItemString(modules, NC_RUNTIME_MODULE);
    if (module != NULL) {
        Py_INCREF(module);
        runtime = nc_runtime_accept(module);
        Py_DECREF(module);
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
    int status = nc_runtime->intern(nc_runtime->registry, bytes, (size_t)length, out);
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
