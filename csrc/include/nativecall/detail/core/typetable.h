/* nativecall/detail/core/typetable.h: how the slot table of a type is made, inherited and retired.
 *
 * Idea. Every ready type keeps its own rows apart from its published table (NcTypePrivate). A
 * table is always computed anew from the own rows along the MRO (nc_type_merge, by the rules on top
 * of extensibletype.h) and published whole (nc_type_publish): when the class is made, and again
 * for it and all that derive from it when __call__ or __bases__ is assigned.
 *
 * Threads: everything here holds the GIL. Published tables are never written, and live until their
 * type dies, so readers without the GIL are safe whenever they hold a reference.
 *
 * Errors: 0, or -1 with a Python exception set and the type as it was before. */
#ifndef NATIVECALL_TYPETABLE_H
#define NATIVECALL_TYPETABLE_H

#include "../../customslots.h"
#include "../compat.h"
#include "intern.h"
#include "runtime.h"
#include "slottable.h"

NC_C_BEGIN

/* The offset counted from the object's ob_type, so that 0, which new types have, leads to the type
 * itself. Read as a call table, a type starts with its reference count and its metatype: a
 * first entry whose signature is no interned string. Nor are those of the next three: tp_basicsize,
 * tp_vectorcall_offset, tp_as_async. So the hot lookup (nativecallable.h) need not test whether
 * there is a table before it compares four signatures. */
#define NC_TABLE_SHIFT(offset)                                                                     \
    ((offset) == 0 ? 0 : (offset) - (Py_ssize_t)offsetof(PyObject, ob_type))

/* For static initialisers: the array of rows, ended by (and padded with) rows of id 0, that Ready
 * takes as the type's own. Until Ready has run, etp_custom_slots points to this array. */
#define NC_STATIC_SLOTS(rows) ((PyCustomSlotTable *)(void *)(rows))

/* Who we are in handshake errors; a bundler may define it before the include. */
#ifndef NC_PROVIDER
#define NC_PROVIDER "an extension module that bundles nativecall"
#endif

typedef struct NcRetiredTable {
    PyCustomSlotTable *table;
    struct NcRetiredTable *next;
} NcRetiredTable;

/* What a ready type keeps beyond its published table. */
typedef struct {
    PyCustomSlot *own;       /* the rows that the type itself defines */
    size_t own_count;        /* how many */
    Py_ssize_t own_offset;   /* the call-table offset that a C type brought; 0: none */
    ternaryfunc own_call;    /* tp_call as the type was made: what its call table goes with */
    NcRetiredTable *retired; /* every table ever published, kept for readers until the type dies */
} NcTypePrivate;

NC_STATIC int nc_is_call_key(uintptr_t id)
{
    return id == PYCUSTOMSLOT_NATIVECALLABLE_ID || id == PYCUSTOMSLOT_PACKEDCALLABLE_ID;
}

/* Whether a class can be given a __call__ without our knowing: a mutable one that another metaclass
 * made. */
NC_STATIC int nc_type_is_beyond(PyTypeObject *type)
{
    return (type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0 &&
           (type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE) == 0 &&
           !nc_type_has_metatype(type, nc_metatype);
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

/* The row of this key that a ready type itself brings, or NULL. */
NC_STATIC const PyCustomSlot *nc_type_brings(const PyHeapExtensibleTypeObject *type, uintptr_t id)
{
    const NcTypePrivate *keeps = (const NcTypePrivate *)type->etp_private;
    return nc_rows_find(keeps->own, keeps->own_count, id);
}

/* Whether a ready type itself brings a call table. */
NC_STATIC int nc_type_brings_call_table(const PyHeapExtensibleTypeObject *type)
{
    return ((const NcTypePrivate *)type->etp_private)->own_offset != 0 ||
           nc_type_brings(type, PYCUSTOMSLOT_NATIVECALLABLE_ID) != NULL ||
           nc_type_brings(type, PYCUSTOMSLOT_PACKEDCALLABLE_ID) != NULL;
}

/* Where in an MRO a type's call comes from: the last class of the type's own MRO with its tp_call,
 * which is `object` for a type without one; the end of the MRO where that class is not in it. A
 * __call__ of any class up to there can come before the type's. */
NC_STATIC Py_ssize_t nc_mro_call_origin(PyObject *mro, const PyTypeObject *type)
{
    const Py_ssize_t end = PyTuple_GET_SIZE(mro) - 1;
    PyObject *origin = NULL;
    for (Py_ssize_t i = 0; type->tp_mro != NULL && i < PyTuple_GET_SIZE(type->tp_mro); i++) {
        PyObject *item = PyTuple_GET_ITEM(type->tp_mro, i);
        if (((PyTypeObject *)(void *)item)->tp_call == type->tp_call) {
            origin = item;
        }
    }
    for (Py_ssize_t i = 0; i < end; i++) {
        if (PyTuple_GET_ITEM(mro, i) == origin) {
            return i;
        }
    }
    return end;
}

/* The first type of an MRO that brings a call table, or NULL; *origin is where its call comes from.
 */
NC_STATIC PyHeapExtensibleTypeObject *nc_mro_call_table(PyObject *mro, Py_ssize_t *origin)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro); i++) {
        PyHeapExtensibleTypeObject *type = nc_mro_extensible(mro, i);
        if (type != NULL && nc_type_brings_call_table(type)) {
            *origin = nc_mro_call_origin(mro, (PyTypeObject *)type);
            return type;
        }
    }
    *origin = -1;
    return NULL;
}

/* The type that the call tables of a type come from by its MRO; NULL where there are none, and
 * where the type hides them: a call in Python runs something else than where they come from, or may
 * do so at any time. Where they come from a type that hides them, nobody has them: what is offered
 * stands in that type's table. */
NC_STATIC PyHeapExtensibleTypeObject *nc_type_call_table(PyTypeObject *self)
{
    PyObject *mro = self->tp_mro;
    Py_ssize_t origin;
    PyHeapExtensibleTypeObject *from = nc_mro_call_table(mro, &origin);
    const ternaryfunc call = from != NULL ? ((NcTypePrivate *)from->etp_private)->own_call : NULL;
    if (from == NULL || self->tp_call != call || ((PyTypeObject *)from)->tp_call != call) {
        return NULL;
    }
    for (Py_ssize_t i = 0; i <= origin; i++) {
        if (nc_type_is_beyond((PyTypeObject *)(void *)PyTuple_GET_ITEM(mro, i))) {
            return NULL;
        }
    }
    return from;
}

/* A row as the class has it: padding where it is of a call table that is not offered. Of two kinds
 * of table a class has those of one type, never one of each, which could differ. */
NC_STATIC PyCustomSlot nc_row_offered(const PyCustomSlot *row,
                                      const PyHeapExtensibleTypeObject *from)
{
    PyCustomSlot offered = *row;
    if (nc_is_call_key(row->id) && (from == NULL || nc_type_brings(from, row->id) == NULL)) {
        memset(&offered, 0, sizeof(offered));
        offered.id = NC_SLOT_SKIP;
    }
    return offered;
}

/* Whether a table has no row whose presence depends on who brings __call__. */
NC_STATIC int nc_table_is_constant(const PyCustomSlotTable *table)
{
    return nc_slottable_find(table, PYCUSTOMSLOT_NATIVECALLABLE_ID) == NULL &&
           nc_slottable_find(table, PYCUSTOMSLOT_PACKEDCALLABLE_ID) == NULL;
}

/* Whether a class that is being made has the rows of `base` from the table of its first base, whose
 * MRO is `nearest`: chains of classes may be long. NULL where tables may be out of date. */
NC_STATIC int nc_type_is_covered(PyObject *nearest, Py_ssize_t at,
                                 const PyHeapExtensibleTypeObject *base)
{
    return nearest != NULL && at < PyTuple_GET_SIZE(nearest) &&
           PyTuple_GET_ITEM(nearest, at) == (PyObject *)(uintptr_t)base &&
           base->etp_custom_slots != NULL && nc_table_is_constant(base->etp_custom_slots);
}

/* nc_rows_find among rows that begin with those of `first`, which finds them at once. */
NC_STATIC const PyCustomSlot *nc_rows_find_behind(const PyCustomSlot *rows, size_t count,
                                                  const PyCustomSlotTable *first, uintptr_t id)
{
    size_t begun = 0;
    if (first != NULL) {
        const PyCustomSlot *found = nc_slottable_find(first, id);
        size_t place = found != NULL ? (size_t)(found - nc_slottable_rows(first)) : 0;
        begun = (size_t)first->count < count ? (size_t)first->count : count;
        if (found != NULL && place < begun && rows[place].id == id) {
            return &rows[place];
        }
    }
    return nc_rows_find(rows + begun, count - begun, id);
}

/* The merged rows of a type by the rules on top, in a PyMem block (*out, *out_count), and the
 * offset of its call table. */
NC_STATIC int nc_type_merge(PyHeapExtensibleTypeObject *self, PyCustomSlot **out, size_t *out_count,
                            Py_ssize_t *out_offset)
{
    PyObject *mro = ((PyTypeObject *)self)->tp_mro;
    PyHeapExtensibleTypeObject *base = NULL;
    const PyCustomSlotTable *first = NULL; /* the table of the first base that has one */
    Py_ssize_t begun = 0;                  /* where that base is */
    PyObject *nearest = NULL; /* its MRO, where its table is up to date: before self has any */
    int is_chain = 1;         /* whether that MRO is the rest of this one */
    PyCustomSlot *rows = NULL;
    size_t capacity = ((const NcTypePrivate *)self->etp_private)->own_count;
    size_t count = 0;
    Py_ssize_t size = PyTuple_GET_SIZE(mro);
    const PyHeapExtensibleTypeObject *from = nc_type_call_table((PyTypeObject *)self);

    *out_offset = from != NULL ? ((const NcTypePrivate *)from->etp_private)->own_offset : 0;
    for (Py_ssize_t i = 1; i < size; i++) {
        base = nc_mro_extensible(mro, i);
        if (base != NULL && base->etp_custom_slots != NULL) {
            capacity += (size_t)base->etp_custom_slots->count;
        }
    }
    rows = (PyCustomSlot *)PyMem_Calloc(capacity + 1, sizeof(PyCustomSlot));
    if (rows == NULL) {
        PyErr_NoMemory();
        return -1;
    }

    /* Positions: the rows of the tables behind it, class by class, then its own. Padding of others
     * counts only where its position is still the one that it had. */
    for (Py_ssize_t i = 1; i < size; i++) {
        base = nc_mro_extensible(mro, i);
        if (base == NULL || base->etp_custom_slots == NULL) {
            continue;
        }
        if (first == NULL) {
            first = base->etp_custom_slots;
            begun = i;
            nearest =
                self->etp_custom_slots == NULL ? ((PyTypeObject *)(void *)base)->tp_mro : NULL;
            is_chain = nearest != NULL && PyTuple_GET_SIZE(nearest) == size - i;
        } else if (nc_type_is_covered(nearest, i - begun, base)) {
            continue;
        }
        for (size_t n = 0; n < (size_t)base->etp_custom_slots->count; n++) {
            PyCustomSlot row = nc_row_offered(nc_slottable_rows(base->etp_custom_slots) + n, from);
            if (row.id == NC_SLOT_SKIP ? count == n
                                       : !nc_rows_find_behind(rows, count, first, row.id)) {
                rows[count++] = row;
            }
        }
    }
    /* Values: those that each class itself brings, the last of the MRO first, so that the first one
     * wins. Only the class's own can be new here. */
    for (Py_ssize_t i = size - 1; i >= 0; i--) {
        base = nc_mro_extensible(mro, i);
        if (base == NULL ||
            (is_chain && i > begun && nc_type_is_covered(nearest, i - begun, base))) {
            continue;
        }
        const NcTypePrivate *keeps = (const NcTypePrivate *)base->etp_private;
        for (size_t n = 0; n < keeps->own_count; n++) {
            PyCustomSlot row = nc_row_offered(&keeps->own[n], from);
            const PyCustomSlot *at = nc_rows_find_behind(rows, count, first, row.id);
            if (at != NULL && row.id != NC_SLOT_SKIP) {
                rows[at - rows] = row;
            } else if (i == 0) {
                rows[count++] = row;
            }
        }
    }
    *out = rows;
    *out_count = count;
    return 0;
}

NC_STATIC int nc_rows_equal(const PyCustomSlotTable *table, const PyCustomSlot *rows, size_t count)
{
    if ((size_t)table->count != count) {
        return 0;
    }
    for (size_t n = 0; n < count; n++) {
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
    int status;

    while (link != NULL && !nc_rows_equal(link->table, rows, count)) {
        link = link->next;
    }
    if (link == NULL && count != 0) {
        status = nc_slottable_build(rows, count, &table, NULL);
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
            } else { /* no key is there twice: merged rows have one of each */
                PyErr_Format(PyExc_ValueError, "type '%s' has %zu slots; a table holds at most %d",
                             ((PyTypeObject *)self)->tp_name, count,
                             (int)NC_SLOTTABLE_MAX_ROWS - (count == NC_SLOTTABLE_MAX_ROWS));
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
    PyTypeObject *type = (PyTypeObject *)self;
    PyTypeObject *base = type->tp_base;
    if (NC_HEAP_TYPES_INHERIT_VECTORCALL || !(type->tp_flags & Py_TPFLAGS_HEAPTYPE) ||
        base == NULL) {
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
}

/* Makes the published table of a ready type what its MRO says now. */
NC_STATIC int nc_type_refresh(PyHeapExtensibleTypeObject *self)
{
    PyCustomSlot *rows = NULL;
    size_t count = 0;
    Py_ssize_t offset = 0;
    if (((PyTypeObject *)self)->tp_mro == NULL) {
        return 0; /* the collector has cleared it */
    }
    if (nc_type_merge(self, &rows, &count, &offset) < 0) {
        return -1;
    }
    int status = nc_type_publish(self, rows, count, offset);
    PyMem_Free(rows);
    if (status == 0) {
        nc_type_inherit_vectorcall(self, offset);
    }
    return status;
}

/* Takes back what a type offers. Cannot fail. */
NC_STATIC void nc_type_withdraw(PyHeapExtensibleTypeObject *self)
{
    nc_store_release_ptr(&self->etp_custom_slots, NULL);
    nc_store_release_intptr(&self->etp_table_shift, 0);
    nc_store_release_intptr(&self->etp_obj_custom_slots_offset, 0);
    nc_type_inherit_vectorcall(self, 0);
}

/* Appends a type and all that derive from it to a list, bases first; a class that is reached by
 * several ways stands there as often. */
NC_STATIC int nc_types_collect(PyTypeObject *type, PyObject *list)
{
    PyObject *subclasses = NULL;
    PyObject *item = NULL;
    int status = PyList_Append(list, (PyObject *)type);
    if (status == 0) {
        subclasses = PyObject_CallMethod((PyObject *)&PyType_Type, "__subclasses__", "O", type);
        status = subclasses != NULL ? 0 : -1;
    }
    for (Py_ssize_t i = 0; status == 0 && i < PyList_GET_SIZE(subclasses); i++) {
        item = PyList_GET_ITEM(subclasses, i);
        Py_INCREF(item);
        status = PyType_Check(item) ? nc_types_collect((PyTypeObject *)(void *)item, list) : 0;
        Py_DECREF(item);
    }
    Py_XDECREF(subclasses);
    return status;
}

/* A list of a type and all that derive from it, bases first: a new reference. */
NC_STATIC PyObject *nc_type_tree(PyTypeObject *type)
{
    PyObject *list = PyList_New(0);
    if (list != NULL && nc_types_collect(type, list) < 0) {
        Py_CLEAR(list);
    }
    return list;
}

/* Makes the tables of all ready types in a list of classes what their MROs say now. A table that
 * cannot be made is withdrawn, for the old one may be wrong; the others are made all the same.
 * Returns -1 with the last exception when there was one. */
NC_STATIC int nc_types_refresh(PyObject *list)
{
    int status = 0;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
        PyObject *item = PyList_GET_ITEM(list, i);
        PyHeapExtensibleTypeObject *type = (PyHeapExtensibleTypeObject *)(void *)item;
        if (!nc_type_has_metatype((PyTypeObject *)(void *)item, nc_metatype) ||
            type->etp_private == NULL) {
            continue;
        }
        if (nc_type_refresh(type) < 0) {
            nc_type_withdraw(type);
            status = -1;
        }
    }
    return status;
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
    keeps->own_call = ((PyTypeObject *)self)->tp_call;
    self->etp_private = keeps;
    return 0;
}

/* Tables and private part of a type that is not ready, or that no code can reach any more. */
NC_STATIC void nc_type_release(NcTypePrivate *keeps)
{
    if (keeps == NULL) {
        return;
    }
    NcRetiredTable *link = keeps->retired;
    while (link != NULL) {
        NcRetiredTable *next = link->next;
        nc_slottable_free(link->table);
        PyMem_Free(link);
        link = next;
    }
    PyMem_Free(keeps->own);
    PyMem_Free(keeps);
}

/* Takes back what was done to make a type ready, in vain: it is not ready, and the classes that
 * derive from it (a list that has it too; or NULL) have what they had before. Keeps the exception.
 */
NC_STATIC void nc_type_abandon(PyHeapExtensibleTypeObject *self, PyObject *tree)
{
    NcTypePrivate *keeps = (NcTypePrivate *)self->etp_private;
    PyObject *raised = nc_exception_take();
    nc_type_withdraw(self);
    self->etp_private = NULL;
    if (tree != NULL && nc_types_refresh(tree) < 0) {
        PyErr_Clear(); /* there is no memory; what has no table says nothing wrong */
    }
    nc_type_release(keeps);
    nc_exception_put(raised);
}

NC_C_END

#endif
