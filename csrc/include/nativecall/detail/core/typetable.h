/* nativecall/detail/core/typetable.h: builds, inherits and retires the slot table of a type.
 *
 * Idea. Every ready type stores its own rows separately from its published table (NcTypePrivate). A
 * table is always recomputed from the own rows of all classes in the MRO (nc_type_merge;
 * extensibletype.h has the rules). It is published as a whole (nc_type_publish). Creating a class
 * builds its table. Assigning __call__ or __bases__ rebuilds the tables of the class and its
 * subclasses.
 *
 * Threads: all functions need the GIL; on free-threaded builds, a lock orders rebuilds. Published
 * tables never change and live as long as their type. So readers need only a reference to the type,
 * not the GIL.
 *
 * Errors: functions return 0, or -1 with a Python exception set and the type unchanged. */
#ifndef NATIVECALL_TYPETABLE_H
#define NATIVECALL_TYPETABLE_H

#include "../../customslots.h"
#include "../shared.h"
#include "intern.h"
#include "runtime.h"
#include "slottable.h"

NC_C_BEGIN

/* The call-table offset of a type, relative to an object's ob_type field. If it is 0, as in new
 * types, the hot lookup (nativecallable.h) reads the type object as if it were a call table. In
 * place of the first four signatures, it then reads ob_type (the metatype), tp_basicsize,
 * tp_vectorcall_offset and tp_as_async. None of these is the address of an interned string. So the
 * lookup can compare four signatures without checking first whether there is a table. */
#define NC_TABLE_SHIFT(offset)                                                                     \
    ((offset) == 0 ? 0 : (offset) - (Py_ssize_t)offsetof(PyObject, ob_type))

/* For static initialisers: the type's own rows, padded with rows of id 0. etp_custom_slots points
 * to this array until Ready has run. */
#define NC_STATIC_SLOTS(rows) ((PyCustomSlotTable *)(void *)(rows))

/* The provider's name in handshake errors. You may define it before the include. */
#ifndef NC_PROVIDER
#define NC_PROVIDER "an extension module that bundles nativecall"
#endif

typedef struct NcRetiredTable {
    PyCustomSlotTable *table;
    struct NcRetiredTable *next;
} NcRetiredTable;

/* Data of a ready type beyond its published table. */
typedef struct {
    PyCustomSlot *own;       /* the rows defined by the type itself */
    size_t own_count;        /* number of these rows */
    Py_ssize_t own_offset;   /* the call-table offset set by a C type; 0: none */
    ternaryfunc own_call;    /* the original tp_call, which does the same as the call table */
    NcRetiredTable *retired; /* all tables ever published; kept for readers */
} NcTypePrivate;

/* Return whether assigning __call__ to a class bypasses our metaclass, because the class is mutable
 * and has another metaclass. */
NC_STATIC int nc_type_is_beyond(PyTypeObject *type)
{
    return PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) &&
           !PyType_HasFeature(type, Py_TPFLAGS_IMMUTABLETYPE) &&
           !nc_type_has_metatype(type, nc_metatype);
}

/* Return the class at position i of an MRO if it is extensible and ready, else NULL. */
NC_STATIC PyHeapExtensibleTypeObject *nc_mro_extensible(PyObject *mro, Py_ssize_t i)
{
    PyObject *item = PyTuple_GET_ITEM(mro, i);
    PyHeapExtensibleTypeObject *type = (PyHeapExtensibleTypeObject *)(void *)item;
    if (!PyType_Check(item) || !nc_type_has_metatype((PyTypeObject *)(void *)item, nc_metatype)) {
        return NULL;
    }
    return type->etp_private != NULL ? type : NULL;
}

/* Return a ready type's own row with this key, or NULL. */
NC_STATIC const PyCustomSlot *nc_type_brings(const PyHeapExtensibleTypeObject *type, uintptr_t id)
{
    const NcTypePrivate *keeps = (const NcTypePrivate *)type->etp_private;
    return nc_rows_find(keeps->own, keeps->own_count, id);
}

/* Return whether a ready type has its own call table. */
NC_STATIC int nc_type_brings_call_table(const PyHeapExtensibleTypeObject *type)
{
    return ((const NcTypePrivate *)type->etp_private)->own_offset != 0 ||
           nc_type_brings(type, PYCUSTOMSLOT_NATIVECALLABLE_ID) != NULL ||
           nc_type_brings(type, PYCUSTOMSLOT_PACKEDCALLABLE_ID) != NULL;
}

/* Return the position in `mro` of the class that provides the tp_call of `type`. This is the last
 * class in the MRO of `type` with the same tp_call (`object` if tp_call is NULL). Return the last
 * position if `mro` lacks that class. Any class up to that position can override the call. */
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

/* Return the first type in an MRO that has its own call table, or NULL. Set *origin to the position
 * of the class that provides the tp_call of that type. */
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

/* Return the type in the MRO that provides a type's call tables, or NULL if there is none. Return
 * NULL, too, if a call from Python bypasses the call tables, or would bypass them after an
 * assignment that our metaclass cannot see. The type then hides the call tables. If the providing
 * type hides its own call tables, its subclasses have none either. */
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

/* Return a row as a class offers it. `from` is the type that provides the call tables of the class,
 * or NULL. A call-table row becomes padding if `from` does not define a row with its key. Both
 * kinds of call table come from one type, because the entries of two types could differ. */
NC_STATIC PyCustomSlot nc_row_offered(const PyCustomSlot *row,
                                      const PyHeapExtensibleTypeObject *from)
{
    PyCustomSlot offered = *row;
    const int is_call =
        row->id == PYCUSTOMSLOT_NATIVECALLABLE_ID || row->id == PYCUSTOMSLOT_PACKEDCALLABLE_ID;
    if (is_call && (from == NULL || nc_type_brings(from, row->id) == NULL)) {
        memset(&offered, 0, sizeof(offered));
        offered.id = NC_SLOT_SKIP;
    }
    return offered;
}

/* Return whether the table of the first base, whose MRO is `nearest`, already contains the rows of
 * `base`. This saves time for long chains of classes. `nearest` is NULL if tables may be out of
 * date. Call-table rows do not count: they depend on which class provides __call__. */
NC_STATIC int nc_type_is_covered(PyObject *nearest, Py_ssize_t at,
                                 const PyHeapExtensibleTypeObject *base)
{
    return nearest != NULL && at < PyTuple_GET_SIZE(nearest) &&
           PyTuple_GET_ITEM(nearest, at) == (PyObject *)(uintptr_t)base &&
           base->etp_custom_slots != NULL &&
           nc_slottable_find(base->etp_custom_slots, PYCUSTOMSLOT_NATIVECALLABLE_ID) == NULL &&
           nc_slottable_find(base->etp_custom_slots, PYCUSTOMSLOT_PACKEDCALLABLE_ID) == NULL;
}

/* Like nc_rows_find, but faster: `rows` starts with the rows of the table `first`, so a hash probe
 * in that table finds them. */
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

/* Merge the rows of a type by the rules of extensibletype.h. Store a PyMem block with the rows in
 * *out, their number in *out_count, and the type's call-table offset in *out_offset. */
NC_STATIC int nc_type_merge(PyHeapExtensibleTypeObject *self, PyCustomSlot **out, size_t *out_count,
                            Py_ssize_t *out_offset)
{
    PyObject *mro = ((PyTypeObject *)self)->tp_mro;
    PyHeapExtensibleTypeObject *base = NULL;
    const PyCustomSlotTable *first = NULL; /* table of the first base that has one */
    Py_ssize_t begun = 0;                  /* position of that base */
    PyObject *nearest = NULL; /* MRO of that base; NULL if self has a table: others may be old */
    int is_chain = 1;         /* whether `nearest` is the rest of self's MRO */
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
    PyCustomSlot *rows = (PyCustomSlot *)PyMem_Calloc(capacity + 1, sizeof(PyCustomSlot));
    if (rows == NULL) {
        PyErr_NoMemory();
        return -1;
    }

    /* Assign positions: first the rows of the bases' tables, class by class, then the type's own
     * rows. Inherited padding is kept only at its original position. */
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
    /* Fill in values: the own rows of each class, from the last class of the MRO to the first, so
     * that the first class wins. Only own rows of `self` can have new keys here. */
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

/* Publish a table of these rows. An earlier table with equal rows is reused, so that setting and
 * deleting __call__ repeatedly does not use more memory. */
NC_STATIC int nc_type_publish(PyHeapExtensibleTypeObject *self, const PyCustomSlot *rows,
                              size_t count, Py_ssize_t offset)
{
    NcTypePrivate *keeps = (NcTypePrivate *)self->etp_private;
    NcRetiredTable *link = keeps->retired;
    PyCustomSlotTable *table = NULL;

    while (link != NULL && !nc_rows_equal(link->table, rows, count)) {
        link = link->next;
    }
    if (link == NULL && count != 0) {
        int status = nc_slottable_build(rows, count, &table, NULL);
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
            } else { /* merged rows have no duplicate keys */
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

/* Inherit vectorcall from the base if the type has call tables and the base's tp_call. Before
 * Python 3.12, heap types do not inherit Py_TPFLAGS_HAVE_VECTORCALL, because an assignment to
 * __call__ would not clear the flag. Here, the assignment calls this function, which clears it. */
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

/* Rebuild and publish the table of a ready type from its current MRO. */
NC_STATIC int nc_type_refresh(PyHeapExtensibleTypeObject *self)
{
    PyCustomSlot *rows = NULL;
    size_t count = 0;
    Py_ssize_t offset = 0;
    if (((PyTypeObject *)self)->tp_mro == NULL) {
        return 0; /* the garbage collector has cleared the type */
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

/* Withdraw a type's slots and call tables. Cannot fail. */
NC_STATIC void nc_type_withdraw(PyHeapExtensibleTypeObject *self)
{
    nc_store_release_ptr(&self->etp_custom_slots, NULL);
    nc_store_release_intptr(&self->etp_table_shift, 0);
    nc_store_release_intptr(&self->etp_obj_custom_slots_offset, 0);
    nc_type_inherit_vectorcall(self, 0);
}

/* Append a type and all its subclasses to a list, bases first. A class that is reached by several
 * paths is appended several times. */
NC_STATIC int nc_types_collect(PyTypeObject *type, PyObject *list)
{
    PyObject *subclasses = NULL;
    int status = PyList_Append(list, (PyObject *)type);
    if (status == 0) {
        subclasses = PyObject_CallMethod((PyObject *)&PyType_Type, "__subclasses__", "O", type);
        status = subclasses != NULL ? 0 : -1;
    }
    for (Py_ssize_t i = 0; status == 0 && i < PyList_GET_SIZE(subclasses); i++) {
        PyObject *item = PyList_GET_ITEM(subclasses, i);
        Py_INCREF(item);
        status = PyType_Check(item) ? nc_types_collect((PyTypeObject *)(void *)item, list) : 0;
        Py_DECREF(item);
    }
    Py_XDECREF(subclasses);
    return status;
}

/* Return a new list of a type and all its subclasses, bases first. */
NC_STATIC PyObject *nc_type_tree(PyTypeObject *type)
{
    PyObject *list = PyList_New(0);
    if (list != NULL && nc_types_collect(type, list) < 0) {
        Py_CLEAR(list);
    }
    return list;
}

/* Rebuild the tables of all ready types in a list of classes from their current MROs. If a table
 * cannot be built, withdraw the old one, which may be wrong, and continue. Return -1 with the last
 * exception if there was one. On free-threaded builds, a lock makes the last published table that
 * of the last change. Merging runs no Python code, and CPython stops all threads before it
 * replaces an MRO. */
NC_STATIC int nc_types_refresh(PyObject *list)
{
    static NcLock lock;
    int status = 0;
    NC_LOCK(&lock);
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
    NC_UNLOCK(&lock);
    return status;
}

/* Create the private data of a new type. Takes ownership of `own` on success. */
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

/* Free the tables and private data of a type that is not ready or no longer reachable. */
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

/* Undo a failed attempt to ready a type, and restore the tables of its subclasses. `tree` is NULL,
 * or a list of the type and its subclasses. Keeps the exception. */
NC_STATIC void nc_type_abandon(PyHeapExtensibleTypeObject *self, PyObject *tree)
{
    NcTypePrivate *keeps = (NcTypePrivate *)self->etp_private;
    PyObject *raised = nc_exception_take();
    nc_type_withdraw(self);
    self->etp_private = NULL;
    if (tree != NULL && nc_types_refresh(tree) < 0) {
        PyErr_Clear(); /* out of memory; a type without a table is still correct */
    }
    nc_type_release(keeps);
    nc_exception_put(raised);
}

NC_C_END

#endif
