/* tests/ext/types.c: C types that are made as a test asks.
 *
 *     make(base, rows, room, offset, call, heap, flags, before)
 *         a static type, or with `heap` a heap type of the metaclass `heap` (Python 3.12), that
 *         derives from `base` or None, has rows [(id, flags, data)] in an array of `room` rows,
 *         its call table at `offset`, and a call that gives `call`, or its base's for 0; before it
 *         is made ready it is passed to `before`
 *     add(obj, which, signature, flags, address)
 *         an entry in one of the two pairs of tables that every object has, 0 or 1
 *     set_slots(obj, rows)
 *         gives an object slots of its own
 *     find(obj, id, position), flags(obj, id, position)
 *         (flags, data) of the row that is the object's or its type's, or None; its word of flags:
 *         without the GIL
 *     allocate()         an ID that is allocated at run time
 *     IDS                IDs that PYCUSTOMSLOT_ID composes
 *     CALLS, PACKED      where these pairs are: (offset of pair 0, offset of pair 1)
 *     SLOTS              where the pointer to an object's own slots is
 *
 * MODULE is the module's name. */
#include "module.h"

#include <nativecall/extensibletype.h>
#include <nativecall/nativecallable.h>

typedef struct {
    PyObject_HEAD
    NcNativeTable pairs[2];
    PyCustomSlotTable *slots;
} Object;

static PyObject *object_new(PyTypeObject *type, PyObject *Py_UNUSED(args),
                            PyObject *Py_UNUSED(kwargs))
{
    Object *self = (Object *)(void *)type->tp_alloc(type, 0);
    if (self != NULL) {
        nc_nativetable_init(&self->pairs[0]);
        nc_nativetable_init(&self->pairs[1]);
    }
    return (PyObject *)self;
}

static void static_dealloc(PyObject *object)
{
    Object *self = (Object *)(void *)object;
    nc_nativetable_clear(&self->pairs[0]);
    nc_nativetable_clear(&self->pairs[1]);
    nc_slottable_free(self->slots);
    Py_TYPE(object)->tp_free(object);
}

/* Of a heap type: its objects hold a reference to their type. */
static void heap_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    if (PyType_IS_GC(type)) {
        PyObject_GC_UnTrack(object); /* it has a Python class among its bases */
    }
    static_dealloc(object);
    Py_DECREF(type);
}

static PyObject *call_1(PyObject *Py_UNUSED(object), PyObject *Py_UNUSED(args),
                        PyObject *Py_UNUSED(kwargs))
{
    return PyFloat_FromDouble(1.0);
}

static PyObject *call_2(PyObject *Py_UNUSED(object), PyObject *Py_UNUSED(args),
                        PyObject *Py_UNUSED(kwargs))
{
    return PyFloat_FromDouble(2.0);
}

static const ternaryfunc calls[] = {NULL, call_1, call_2};

/* [(id, flags, data)] -> an array with so much room, which is never given back. */
static PyCustomSlot *read_rows(PyObject *list, Py_ssize_t room)
{
    PyCustomSlot *rows = (PyCustomSlot *)PyMem_RawCalloc((size_t)room + 1, sizeof(*rows));
    Py_ssize_t i;
    if (rows == NULL) {
        return (PyCustomSlot *)(void *)PyErr_NoMemory();
    }
    for (i = 0; i < PyList_GET_SIZE(list) && i < room; i++) {
        unsigned long long flags;
        Py_ssize_t id;
        Py_ssize_t data;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(list, i), "nKn", &id, &flags, &data)) {
            PyMem_RawFree(rows);
            return NULL;
        }
        rows[i].id = (uintptr_t)id;
        rows[i].flags = flags;
        rows[i].data.objoffset = (intptr_t)data;
    }
    return rows;
}

static PyTypeObject *new_heap_type(PyObject *metaclass, PyObject *base, int call, unsigned flags)
{
#if PY_VERSION_HEX >= 0x030C0000
    PyType_Slot members[] = {
        {Py_tp_new, (void *)(uintptr_t)object_new},
        {Py_tp_dealloc, (void *)(uintptr_t)heap_dealloc},
        {call != 0 ? Py_tp_call : 0, call != 0 ? (void *)(uintptr_t)calls[call] : NULL},
        {0, NULL},
    };
    PyType_Spec spec;
    spec.name = MODULE_NAME ".Heap";
    spec.basicsize = (int)sizeof(Object);
    spec.itemsize = 0;
    spec.flags = (unsigned)Py_TPFLAGS_DEFAULT | (unsigned)Py_TPFLAGS_BASETYPE | flags;
    spec.slots = members;
    return (PyTypeObject *)(void *)PyType_FromMetaclass((PyTypeObject *)(void *)metaclass, NULL,
                                                        &spec, base == Py_None ? NULL : base);
#else
    (void)metaclass;
    (void)base;
    (void)call;
    (void)flags;
    (void)heap_dealloc;
    /* CPython 3.11 has no such function; the tests that call this are skipped there. */
    PyErr_SetString(PyExc_NotImplementedError, "PyType_FromMetaclass came with Python 3.12");
    return NULL;
#endif
}

static PyTypeObject *new_static_type(PyObject *base, int call)
{
    PyHeapExtensibleTypeObject *made =
        (PyHeapExtensibleTypeObject *)PyMem_RawCalloc(1, sizeof(*made));
    PyTypeObject *type;
    if (made == NULL) {
        return (PyTypeObject *)(void *)PyErr_NoMemory();
    }
    type = &made->etp_heaptype.ht_type;
    type->tp_name = MODULE_NAME ".Static";
    type->tp_basicsize = (Py_ssize_t)sizeof(Object);
    type->tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
    type->tp_base = base == Py_None ? NULL : (PyTypeObject *)(void *)base;
    type->tp_new = object_new;
    type->tp_dealloc = static_dealloc;
    type->tp_call = calls[call];
    Py_SET_REFCNT((PyObject *)type, 1);
    return type;
}

static PyObject *make(PyObject *Py_UNUSED(module), PyObject *args, PyObject *kwargs)
{
    static const char *const names[] = {"base", "rows",  "room",   "offset", "call",
                                        "heap", "flags", "before", NULL};
    PyObject *base = Py_None;
    PyObject *list = NULL;
    PyObject *heap = Py_None;
    PyObject *before = Py_None;
    PyObject *answer;
    PyHeapExtensibleTypeObject *type;
    PyCustomSlot *rows;
    Py_ssize_t room = -1;
    Py_ssize_t offset = 0;
    int call = 0;
    unsigned flags = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO!|nniOIO", (char **)(uintptr_t)names, &base,
                                     &PyList_Type, &list, &room, &offset, &call, &heap, &flags,
                                     &before)) {
        return NULL;
    }
    room = room >= 0 ? room : PyList_GET_SIZE(list);
    rows = read_rows(list, room);
    if (rows == NULL) {
        return NULL;
    }
    type = (PyHeapExtensibleTypeObject *)(void *)(heap != Py_None
                                                      ? new_heap_type(heap, base, call, flags)
                                                      : new_static_type(base, call));
    if (type == NULL) {
        return NULL;
    }
    answer = before != Py_None ? PyObject_CallOneArg(before, (PyObject *)type) : Py_NewRef(before);
    if (heap == Py_None || PyObject_IsSubclass(heap, (PyObject *)nc_metatype) == 1) {
        type->etp_custom_slots = room > 0 ? NC_STATIC_SLOTS(rows) : NULL;
        type->etp_obj_custom_slots_offset = offset;
    }
    if (answer == NULL || PyExtensibleType_Ready(type, room) < 0) {
        Py_XDECREF(answer);
        if (heap != Py_None) {
            Py_DECREF(type);
        }
        return NULL;
    }
    Py_DECREF(answer);
    return (PyObject *)type;
}

/* plain(call): a static type of `type`, with a call. */
static PyObject *plain(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyTypeObject *type;
    int call;
    if (!PyArg_ParseTuple(args, "i", &call) || (type = new_static_type(Py_None, call)) == NULL ||
        PyType_Ready(type) < 0) {
        return NULL;
    }
    return (PyObject *)type;
}

static PyObject *add(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *object;
    const char *signature;
    Py_ssize_t flags;
    Py_ssize_t address;
    int which;
    if (!PyArg_ParseTuple(args, "Oisnn", &object, &which, &signature, &flags, &address) ||
        nc_native_add(&((Object *)(void *)object)->pairs[which], signature, (uintptr_t)flags,
                      (void *)address) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *set_slots(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *object;
    PyObject *list;
    PyCustomSlot *rows;
    int status;
    if (!PyArg_ParseTuple(args, "OO!", &object, &PyList_Type, &list)) {
        return NULL;
    }
    rows = read_rows(list, PyList_GET_SIZE(list));
    if (rows == NULL) {
        return NULL;
    }
    status = PyExtensibleType_SetObjectSlots(object, rows, PyList_GET_SIZE(list));
    PyMem_RawFree(rows);
    return status < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *find(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *object;
    Py_ssize_t id;
    Py_ssize_t position = 0;
    const PyCustomSlot *slot;
    if (!PyArg_ParseTuple(args, "On|n", &object, &id, &position)) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS;
    slot = PyCustomSlots_FindOnObject(object, (uintptr_t)id, position);
    Py_END_ALLOW_THREADS;
    if (slot == NULL) {
        Py_RETURN_NONE;
    }
    return Py_BuildValue("(Kn)", (unsigned long long)slot->flags, (Py_ssize_t)slot->data.objoffset);
}

static PyObject *flags(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *object;
    Py_ssize_t id;
    Py_ssize_t position = 0;
    uintptr_t word;
    if (!PyArg_ParseTuple(args, "On|n", &object, &id, &position)) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS;
    word = PyCustomSlots_Flags(object, (uintptr_t)id, position);
    Py_END_ALLOW_THREADS;
    return PyLong_FromSize_t((size_t)word);
}

static PyObject *allocate(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    uintptr_t id = 0;
    return PyExtensibleType_AllocateID(&id) < 0 ? NULL : PyLong_FromSize_t((size_t)id);
}

/* A constant expression: for static initialisers and for cases. */
static const PyCustomSlot composed[] = {
    {PYCUSTOMSLOT_ID(4, 0, 0), 0, {NULL}},
    {PYCUSTOMSLOT_ID(4, 0, 1), 0, {NULL}},
    {PYCUSTOMSLOT_ID(4, 1, 0), 0, {NULL}},
    {PYCUSTOMSLOT_ID(0x01, 0x0203, 4), 0, {NULL}},
    {PYCUSTOMSLOT_ID(0xFF, 0xFFFF, 0x7F), 0, {NULL}},
};

static int is_call_table(uintptr_t id)
{
    switch (id) {
    case PYCUSTOMSLOT_ID(4, 0, 0):
    case PYCUSTOMSLOT_ID(4, 0, 1):
        return 1;
    default:
        return 0;
    }
}

static PyMethodDef methods[] = {
    {"make", (PyCFunction)(void (*)(void))(uintptr_t)make, METH_VARARGS | METH_KEYWORDS, NULL},
    {"plain", plain, METH_VARARGS, NULL},
    {"add", add, METH_VARARGS, NULL},
    {"set_slots", set_slots, METH_VARARGS, NULL},
    {"find", find, METH_VARARGS, NULL},
    {"flags", flags, METH_VARARGS, NULL},
    {"allocate", allocate, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyObject *list_of_ids(void)
{
    PyObject *list = PyList_New(0);
    size_t i;
    for (i = 0; list != NULL && i < sizeof composed / sizeof composed[0]; i++) {
        PyObject *row = Py_BuildValue("(Ki)", (unsigned long long)composed[i].id,
                                      is_call_table(composed[i].id));
        if (row == NULL || PyList_Append(list, row) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(row);
    }
    return list;
}

static struct PyModuleDef definition = MODULE_DEFINITION(methods);

PyMODINIT_FUNC MODULE_INIT(void)
{
    const Py_ssize_t at = (Py_ssize_t)offsetof(Object, pairs);
    const Py_ssize_t step = (Py_ssize_t)sizeof(NcNativeTable);
    const Py_ssize_t where = at + (Py_ssize_t)NC_NATIVETABLE_CALLS;
    const Py_ssize_t packed = at + (Py_ssize_t)NC_NATIVETABLE_PACKED;
    PyObject *module = PyExtensibleType_Import() != NULL ? PyModule_Create(&definition) : NULL;
    if (module != NULL &&
        (PyModule_AddObject(module, "CALLS", Py_BuildValue("(nn)", where, where + step)) < 0 ||
         PyModule_AddObject(module, "PACKED", Py_BuildValue("(nn)", packed, packed + step)) < 0 ||
         PyModule_AddIntConstant(module, "SLOTS", (long)offsetof(Object, slots)) < 0 ||
         PyModule_AddObject(module, "IDS", list_of_ids()) < 0)) {
        Py_CLEAR(module);
    }
    return module;
}
