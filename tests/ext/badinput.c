/* tests/ext/badinput.c: what a wrong or a newer provider would put before a consumer:
 * tables written by hand, past every check of the functions that make them; and calls of the public
 * functions with arguments that they refuse. MODULE is the module's name.
 *
 *     raw(entries, words, count)    an object whose call table has these entries, each (signature,
 *                                   flags, address), and this count, and whose packed table has
 *                                   these words; calling it gives -1.0
 *     set_count(obj, count)         changes the count in the slot table of obj's type; the old one
 *     ready(rows)                   readies a type that has no array, but says it has so many rows
 *     api(entries)                  a capsule for __nativecall_api__; there is one list of entries */
#include "module.h"

#include <nativecall/extensibletype.h>
#include <nativecall/nativeapi.h>
#include <nativecall/signature.h>

#define MOST 8

typedef struct {
    intptr_t count;
    PyNativeCallableEntry entries[MOST + 1];
} Table;

typedef struct {
    PyObject_HEAD
    Table *published;
    uint64_t *packed;
    Table table;
    uint64_t words[2 * MOST + 2];
} Object;

static PyObject *object_call(PyObject *Py_UNUSED(object), PyObject *Py_UNUSED(args),
                             PyObject *Py_UNUSED(kwargs))
{
    return PyFloat_FromDouble(-1.0);
}

static PyHeapExtensibleTypeObject Raw;
static PyCustomSlot slots[3];

/* Reads [(signature or None, flags, address)]. The count, or -1 with an exception. */
static Py_ssize_t read_entries(PyObject *list, PyNativeCallableEntry *out)
{
    Py_ssize_t i;
    memset(out, 0, (MOST + 1) * sizeof *out);
    for (i = 0; i < PyList_GET_SIZE(list) && i < MOST; i++) {
        const char *text;
        Py_ssize_t flags;
        Py_ssize_t address;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(list, i), "znn", &text, &flags, &address) ||
            (text != NULL && nc_signature_intern(text, &out[i].signature) < 0)) {
            return -1;
        }
        out[i].flags = (uintptr_t)flags;
        out[i].funcptr = (void *)(uintptr_t)address;
    }
    return i;
}

static PyObject *raw(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *entries;
    PyObject *words;
    Object *self;
    Py_ssize_t count;
    Py_ssize_t i;
    if (!PyArg_ParseTuple(args, "O!O!n", &PyList_Type, &entries, &PyList_Type, &words, &count)) {
        return NULL;
    }
    self = PyObject_New(Object, &Raw.etp_heaptype.ht_type);
    if (self == NULL) {
        return NULL;
    }
    memset(self->words, 0, sizeof self->words);
    if (read_entries(entries, self->table.entries) < 0) {
        Py_DECREF(self);
        return NULL;
    }
    for (i = 0; i < PyList_GET_SIZE(words) && i < 2 * MOST; i++) {
        self->words[i] = PyLong_AsUnsignedLongLong(PyList_GET_ITEM(words, i));
    }
    self->table.count = (intptr_t)count;
    self->published = &self->table;
    self->packed = self->words;
    return (PyObject *)self;
}

static PyObject *set_count(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *obj;
    unsigned count;
    unsigned before;
    PyCustomSlotTable *table;
    if (!PyArg_ParseTuple(args, "OI", &obj, &count)) {
        return NULL;
    }
    table = ((PyHeapExtensibleTypeObject *)(void *)Py_TYPE(obj))->etp_custom_slots;
    before = table->count;
    table->count = count;
    return PyLong_FromUnsignedLong(before);
}

static PyObject *ready(PyObject *Py_UNUSED(module), PyObject *rows)
{
    static PyHeapExtensibleTypeObject made;
    PyTypeObject *type = &made.etp_heaptype.ht_type;
    Py_ssize_t count = PyLong_AsSsize_t(rows);
    type->tp_name = "Arrayless";
    type->tp_basicsize = (Py_ssize_t)sizeof(PyObject);
    type->tp_flags = Py_TPFLAGS_DEFAULT;
    Py_SET_REFCNT((PyObject *)type, 1);
    if (PyErr_Occurred() || PyExtensibleType_Ready(&made, count) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

/* ---- tier 2 ---------------------------------------------------------------------------------- */

static PyNativeCallableEntry offered[MOST + 1];
static Py_ssize_t offered_count = 0;

static const PyNativeCallableEntry *offered_find(PyObject *Py_UNUSED(obj), const char *signature,
                                                 uintptr_t refuse)
{
    Py_ssize_t i;
    (void)refuse; /* a provider that does not look at flags */
    for (i = 0; i < offered_count; i++) {
        if (offered[i].signature != NULL && strcmp(offered[i].signature, signature) == 0) {
            return &offered[i];
        }
    }
    return NULL;
}

static const PyNativeCallableEntry *offered_entry(PyObject *Py_UNUSED(obj), size_t position)
{
    return position < (size_t)offered_count ? &offered[position] : NULL;
}

static NcNativeApi offers = {sizeof(NcNativeApi), NC_NATIVEAPI_NAME, NULL, offered_find,
                             offered_entry};

static PyObject *api(PyObject *Py_UNUSED(module), PyObject *entries)
{
    offered_count = read_entries(entries, offered);
    return offered_count < 0 ? NULL : PyCapsule_New(&offers, NC_NATIVEAPI_CAPSULE, NULL);
}

static PyMethodDef methods[] = {
    {"raw", raw, METH_VARARGS, NULL},
    {"set_count", set_count, METH_VARARGS, NULL},
    {"ready", ready, METH_O, NULL},
    {"api", api, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = MODULE_DEFINITION(methods);

PyMODINIT_FUNC MODULE_INIT(void)
{
    PyTypeObject *type = &Raw.etp_heaptype.ht_type;
    type->tp_name = MODULE_NAME ".Raw";
    type->tp_basicsize = (Py_ssize_t)sizeof(Object);
    type->tp_flags = Py_TPFLAGS_DEFAULT;
    type->tp_call = object_call;
    Py_SET_REFCNT((PyObject *)type, 1);
    slots[0].id = PYCUSTOMSLOT_NATIVECALLABLE_ID;
    slots[0].data.objoffset = (intptr_t)offsetof(Object, published);
    slots[1].id = PYCUSTOMSLOT_PACKEDCALLABLE_ID;
    slots[1].data.objoffset = (intptr_t)offsetof(Object, packed);
    Raw.etp_custom_slots = NC_STATIC_SLOTS(slots);
    Raw.etp_obj_custom_slots_offset = (Py_ssize_t)offsetof(Object, published);
    return PyExtensibleType_Ready(&Raw, 3) < 0 ? NULL : PyModule_Create(&definition);
}
