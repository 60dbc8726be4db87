/* nativecall/detail/core/metaclass.h: the metaclass that creates and changes classes with slots
 * (SEP 200).
 *
 * Several extension modules may bundle a copy of the metaclass. A process uses only the copy that
 * was published first (extensibletype.h).
 *
 * Guarantees: a class statement that fails leaves nothing behind. A malformed __customslots__
 * raises an error that names the key. All functions need the GIL. */
#ifndef NATIVECALL_METACLASS_H
#define NATIVECALL_METACLASS_H

#include "slotmapping.h"
#include "typetable.h"

NC_C_BEGIN

/* ---- the metaclass --------------------------------------------------------------------------- */

/* Convert the __customslots__ in a class's own namespace, if any, to rows. */
NC_STATIC int nc_type_own_slots(PyTypeObject *type, PyCustomSlot **out, size_t *out_count)
{
    PyObject *mapping = nc_type_own(type, "__customslots__");
    if (mapping == NULL) {
        return PyErr_Occurred() ? -1 : 0;
    }
    int status = nc_slots_from_python(mapping, out, out_count);
    Py_DECREF(mapping);
    return status;
}

/* Call type.__init__, then build the tables. The tables are not built in tp_new, so that
 * cooperative metaclasses such as ABCMeta work in all Python versions. */
NC_STATIC int nc_metatype_init(PyObject *object, PyObject *args, PyObject *kwargs)
{
    PyHeapExtensibleTypeObject *self = (PyHeapExtensibleTypeObject *)(void *)object;
    PyCustomSlot *own = NULL;
    size_t own_count = 0;
    int status = -1;
    if (PyType_Type.tp_init(object, args, kwargs) < 0) {
        return -1;
    }
    if (self->etp_private != NULL) {
        return 0; /* __init__ was called again by hand: no effect */
    }
    if (nc_type_own_slots((PyTypeObject *)(void *)object, &own, &own_count) < 0) {
        return -1;
    }
    /* __init_subclass__ may have created subclasses already. */
    PyObject *tree = nc_type_tree((PyTypeObject *)(void *)object);
    if (tree != NULL && self->etp_private != NULL) {
        status = 0; /* reading the slots ran Python code that called __init__ */
    } else if (tree != NULL && nc_type_adopt(self, own, own_count, 0) == 0) {
        own = NULL;
        status = nc_types_refresh(tree);
        if (status < 0) {
            nc_type_abandon(self, tree);
        }
    }
    PyMem_Free(own);
    Py_XDECREF(tree);
    return status;
}

/* An assignment to __bases__ in progress in this thread. Tables are rebuilt after the
 * assignment. */
typedef struct NcBasesChange {
    PyTypeObject *type;
    struct NcBasesChange *outer;
} NcBasesChange;

static NC_THREAD_LOCAL NcBasesChange *nc_bases_changes = NULL;

/* Return whether a new MRO (a list) results from an assignment to __bases__ in this thread: it then
 * contains the class whose bases are assigned. */
NC_STATIC int nc_bases_change_covers(PyObject *mro)
{
    for (NcBasesChange *change = nc_bases_changes; change != NULL; change = change->outer) {
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(mro); i++) {
            if (PyList_GET_ITEM(mro, i) == (PyObject *)change->type) {
                return 1;
            }
        }
    }
    return 0;
}

/* Return the first ready extensible class of an MRO at or after position *at, or NULL. Advance *at
 * past that class. */
NC_STATIC const PyHeapExtensibleTypeObject *nc_mro_next_extensible(PyObject *mro, Py_ssize_t *at)
{
    const PyHeapExtensibleTypeObject *type = NULL;
    while (type == NULL && *at < PyTuple_GET_SIZE(mro)) {
        type = nc_mro_extensible(mro, (*at)++);
    }
    return type;
}

/* Return whether a changed MRO leaves the table of a class unchanged. The old and the new MRO must
 * contain the same ready extensible classes in the same order. If the class has a call table, all
 * classes that could override the call must be the same too. Runs no Python code. */
NC_STATIC int nc_mro_changes_nothing(const PyHeapExtensibleTypeObject *self, PyObject *changed)
{
    PyObject *mro = ((const PyTypeObject *)self)->tp_mro;
    const PyHeapExtensibleTypeObject *type;
    Py_ssize_t size = PyTuple_GET_SIZE(changed);
    Py_ssize_t origin;
    Py_ssize_t i = 0;
    Py_ssize_t k = 0;
    do {
        type = nc_mro_next_extensible(mro, &i);
        if (nc_mro_next_extensible(changed, &k) != type) {
            return 0;
        }
    } while (type != NULL);
    if (nc_type_call_table((PyTypeObject *)(uintptr_t)self) == NULL) {
        return 1;
    }
    (void)nc_mro_call_table(mro, &origin);
    /* No new class may precede the class that provides the call. */
    for (i = 0; i <= origin; i++) {
        if (i >= size || PyTuple_GET_ITEM(mro, i) != PyTuple_GET_ITEM(changed, i)) {
            return 0;
        }
    }
    return origin + 1 < PyTuple_GET_SIZE(mro) || origin + 1 == size;
}

/* mro(): CPython calls it whenever the bases of a class or of one of its base classes change. A
 * change can bypass the metaclass: through the descriptor type.__bases__, or in a class of another
 * metaclass. If such a change would leave an outdated table, raise an exception; CPython then
 * reverts the change. */
NC_STATIC PyObject *nc_metatype_mro(PyObject *object, PyObject *none)
{
    PyHeapExtensibleTypeObject *self = (PyHeapExtensibleTypeObject *)(void *)object;
    PyObject *mro = PyObject_CallMethod((PyObject *)&PyType_Type, "mro", "O", object);
    (void)none;
    if (mro == NULL || self->etp_private == NULL || ((PyTypeObject *)self)->tp_mro == NULL) {
        return mro;
    }
    PyObject *changed = PyList_AsTuple(mro);
    if (changed == NULL) {
        Py_DECREF(mro);
        return NULL;
    }
    int refused = !nc_bases_change_covers(mro) && !nc_mro_changes_nothing(self, changed);
    Py_DECREF(changed);
    if (refused) {
        PyErr_Format(PyExc_TypeError,
                     "the bases of class '%s', or of one of its bases, cannot be changed without "
                     "its metaclass: the class would keep the slots of the old bases; assign to "
                     "'__bases__' of a class with slots instead",
                     ((PyTypeObject *)self)->tp_name);
        Py_DECREF(mro);
        return NULL;
    }
    return mro;
}

/* Call type.__setattr__, and register an assignment to __bases__ for nc_metatype_mro. */
NC_STATIC int nc_metatype_set(PyObject *object, PyObject *name, PyObject *value, int bases)
{
    NcBasesChange change = {(PyTypeObject *)(void *)object, nc_bases_changes};
    NcBasesChange **link = &nc_bases_changes;
    if (!bases) {
        return PyType_Type.tp_setattro(object, name, value);
    }
    nc_bases_changes = &change;
    int status = PyType_Type.tp_setattro(object, name, value);
    while (*link != &change) {
        link = &(*link)->outer; /* skip later assignments by other greenlets */
    }
    *link = change.outer;
    return status;
}

NC_STATIC int nc_metatype_setattro(PyObject *object, PyObject *name, PyObject *value)
{
    PyObject *raised = NULL;
    int bases = PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, "__bases__") == 0;
    if (PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, "__customslots__") == 0) {
        PyErr_SetString(PyExc_TypeError, "'__customslots__' is read only when the class is "
                                         "created; make a subclass to add or override slots");
        return -1;
    }
    if (!bases &&
        !(PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, "__call__") == 0)) {
        return PyType_Type.tp_setattro(object, name, value);
    }
    /* List the subclasses before the assignment. If they cannot be listed again afterwards, for
     * lack of memory, the tables of the classes in this first list are withdrawn. */
    PyObject *before = nc_type_tree((PyTypeObject *)(void *)object);
    if (before == NULL) {
        return -1;
    }
    int status = nc_metatype_set(object, name, value, bases);
    if (status < 0) {
        /* Refresh the tables even if the assignment failed: Python code may have run with the new
         * value before CPython restored the old one. */
        raised = nc_exception_take();
    }
    PyObject *after = nc_type_tree((PyTypeObject *)(void *)object);
    if (after != NULL && nc_types_refresh(after) < 0) {
        status = -1;
    } else if (after == NULL) {
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(before); i++) {
            PyObject *item = PyList_GET_ITEM(before, i);
            if (nc_type_has_metatype((PyTypeObject *)(void *)item, nc_metatype)) {
                nc_type_withdraw((PyHeapExtensibleTypeObject *)(void *)item);
            }
        }
        status = -1;
    }
    if (raised != NULL) {
        nc_exception_put(raised);
    }
    Py_DECREF(before);
    Py_XDECREF(after);
    return status;
}

NC_STATIC void nc_metatype_dealloc(PyObject *object)
{
    NcTypePrivate *keeps =
        (NcTypePrivate *)((PyHeapExtensibleTypeObject *)(void *)object)->etp_private;
    PyType_Type.tp_dealloc(object);
    nc_type_release(keeps);
}

/* Check that the rows and the offset of a C type's call tables agree, because all lookups must
 * reach the same entries. Return 0, or -1 with ValueError. */
NC_STATIC int nc_type_check_call_rows(PyTypeObject *type, const PyCustomSlot *rows, size_t count,
                                      Py_ssize_t offset)
{
    const PyCustomSlot *calls = nc_rows_find(rows, count, PYCUSTOMSLOT_NATIVECALLABLE_ID);
    if (offset != 0 && (calls == NULL || calls->data.objoffset != (intptr_t)offset)) {
        PyErr_Format(PyExc_ValueError,
                     "type '%s' has its call table at offset %zd and must repeat this offset in "
                     "slot 0x04000001, which %s",
                     type->tp_name, offset, calls == NULL ? "is missing" : "differs");
        return -1;
    }
    if (calls == NULL && nc_rows_find(rows, count, PYCUSTOMSLOT_PACKEDCALLABLE_ID) != NULL) {
        PyErr_Format(PyExc_ValueError,
                     "type '%s' has a packed table (slot 0x04000003) but no call table (slot "
                     "0x04000001), which every provider needs",
                     type->tp_name);
        return -1;
    }
    return 0;
}

/* The implementation of PyExtensibleType_Ready. Only the published copy's implementation runs. */
NC_STATIC int nc_type_ready(PyHeapExtensibleTypeObject *self, Py_ssize_t slot_table_size)
{
    PyTypeObject *type = (PyTypeObject *)self;
    PyCustomSlot *rows = NULL;
    PyObject *tree = NULL;
    size_t own_count = 0;
    size_t count = 0;
    const int heap = PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE);

    if (heap && !nc_type_has_metatype(type, nc_metatype)) {
        PyErr_Format(PyExc_TypeError,
                     "type '%s' is a heap type whose metaclass '%s' has no room for slots; create "
                     "it with PyType_FromMetaclass and the metaclass '%s'",
                     type->tp_name, Py_TYPE((PyObject *)type)->tp_name, nc_metatype->tp_name);
        return -1;
    }
    if (self->etp_private != NULL) {
        return 0;
    }
    PyCustomSlot *raw = (PyCustomSlot *)(void *)self->etp_custom_slots;
    Py_ssize_t offset = self->etp_obj_custom_slots_offset;
    /* Readers must never see the raw array as a table, even on failure. */
    self->etp_custom_slots = NULL;
    self->etp_obj_custom_slots_offset = 0;
    if (slot_table_size < 0) {
        PyErr_Format(PyExc_ValueError, "type '%s' cannot have a slot table of %zd rows",
                     type->tp_name, slot_table_size);
        return -1;
    }
    if (slot_table_size > 0 && raw == NULL) {
        PyErr_Format(PyExc_ValueError, "type '%s' has no slot table (NULL), but declares %zd rows",
                     type->tp_name, slot_table_size);
        return -1;
    }
    while ((Py_ssize_t)own_count < slot_table_size && raw[own_count].id != NC_SLOT_EMPTY) {
        const uintptr_t id = raw[own_count].id;
        if (id != NC_SLOT_SKIP && nc_rows_find(raw, own_count, id) != NULL) {
            PyErr_Format(PyExc_ValueError, "duplicate slot key %p in the slots of type '%s'",
                         (void *)id, type->tp_name);
            return -1;
        }
        if (id != NC_SLOT_SKIP && nc_slot_id_check(id) < 0) {
            return -1;
        }
        own_count++;
    }
    if (nc_type_check_call_rows(type, raw, own_count, offset) < 0) {
        return -1;
    }
    PyCustomSlot *own = (PyCustomSlot *)PyMem_Calloc(own_count + 1, sizeof(PyCustomSlot));
    if (own == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    if (own_count != 0) {
        memcpy(own, raw, own_count * sizeof(PyCustomSlot));
    }

    if (!heap) {
        Py_SET_TYPE((PyObject *)type, nc_metatype);
    }
    if (PyType_Ready(type) < 0 || nc_type_adopt(self, own, own_count, offset) < 0) {
        goto fail;
    }
    own = NULL;
    if (nc_type_merge(self, &rows, &count, &offset) < 0) {
        goto fail;
    }
    if (slot_table_size > 0 && count > (size_t)slot_table_size) {
        PyErr_Format(PyExc_ValueError,
                     "type '%s' has %zu slots, including inherited ones, but its slot table has "
                     "room for %zd",
                     type->tp_name, count, slot_table_size);
        goto fail;
    }
    if (nc_type_publish(self, rows, count, offset) < 0) {
        goto fail;
    }
    if (heap) { /* the type may have subclasses already */
        tree = nc_type_tree(type);
        if (tree == NULL || nc_types_refresh(tree) < 0) {
            goto fail;
        }
        Py_DECREF(tree);
    }
    if (count != 0 && slot_table_size > 0) {
        memcpy(raw, rows, count * sizeof(PyCustomSlot));
    }
    PyMem_Free(rows);
    return 0;

fail:
    nc_type_abandon(self, tree);
    Py_XDECREF(tree);
    PyMem_Free(rows);
    PyMem_Free(own);
    return -1;
}

/* Return this copy's metaclass, readied. */
NC_STATIC PyTypeObject *nc_metatype_bundled(void)
{
    static PyTypeObject metatype;
    static PyMethodDef methods[] = {
        {"mro", nc_metatype_mro, METH_NOARGS, "Return the method resolution order."},
        {NULL, NULL, 0, NULL},
    };
    if (metatype.tp_name == NULL) {
        Py_SET_REFCNT((PyObject *)&metatype, 1);
        metatype.tp_name = "nativecall.extensibletype";
        metatype.tp_doc =
            "extensibletype(name, bases, namespace)\n--\n\n"
            "The metaclass of types with a slot table that native code can search "
            "(SEP 200).\n\nA mapping '__customslots__' in a class body adds or "
            "overrides rows: its keys are allocated\nIDs (odd), addresses (even) or "
            "strings to intern, its values pointer-sized ints or\n(flags, int) pairs.\n\n"
            "Beside another metaclass, use one of both: class M(abc.ABCMeta, extensibletype)";
        metatype.tp_basicsize = (Py_ssize_t)sizeof(PyHeapExtensibleTypeObject);
        metatype.tp_itemsize = PyType_Type.tp_itemsize;
        metatype.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
        metatype.tp_base = &PyType_Type;
        metatype.tp_init = nc_metatype_init;
        metatype.tp_methods = methods;
        metatype.tp_setattro = nc_metatype_setattro;
        metatype.tp_dealloc = nc_metatype_dealloc;
    }
    return PyType_Ready(&metatype) < 0 ? NULL : &metatype;
}

NC_C_END

#endif
