/* tests/ext/growth.c: a provider and consumer of each kind, built against the headers as they are and
 * against changed copies: of a later build of version 1, whose structs have a field more at their ends
 * (GROWN), and of a version 2, whose structs lie otherwise.
 *
 *     Thing             a callable static type with both tables; `touched` tells whether anybody wrote
 *                       behind its type
 *     Rows              a static type without fields of its objects: one row
 *     Offer             a type of tier 2
 *     find(obj), look(obj), ask(obj)
 *                       the function d:d of obj at 2.0, or None: by nativecallable.h,
 *                       nativecall_abi.h and nativeapi.h
 *     row(obj)          the data of the row of Rows in obj's type, or None
 *     runtime()         (provider, struct_size, type_size) of the one in use
 *     allocate()        an ID of run time
 *     mark(type, n), marked(type), newer(obj)           of GROWN: the fields more
 *
 * MODULE is the module's name. */
#include "module.h"

#include <nativecall/nativecall_abi.h>

#ifdef GROWN
/* What the runtime of such a build can do more. A type has the field more when the runtime has made
 * it: a static one may be of an older build. */
static int nc_type_mark(PyHeapExtensibleTypeObject *type, uint64_t value)
{
    if ((type->etp_heaptype.ht_type.tp_flags & Py_TPFLAGS_HEAPTYPE) == 0) {
        return 0;
    }
    type->etp_mark = value;
    return 1;
}
#endif

#include <nativecall/extensibletype.h>
#include <nativecall/nativeapi.h>
#include <nativecall/nativecallable.h>

#define ROW_ID ((uintptr_t)0x05000003)
#define BEHIND UINT64_C(0x5A5A5A5A5A5A5A5A)

static double half(double x)
{
    return x / 2;
}

static PyObject *called(PyObject *Py_UNUSED(object), PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    double x;
    return PyArg_ParseTuple(args, "d", &x) ? PyFloat_FromDouble(half(x)) : NULL;
}

/* ---- Thing and Rows -------------------------------------------------------------------------- */

typedef struct {
    PyObject_HEAD
    NcNativeTable native;
} ThingObject;

static struct {
    PyHeapExtensibleTypeObject type;
    uint64_t behind[8];
} thing, rows;

static PyObject *thing_new(PyTypeObject *type, PyObject *Py_UNUSED(args),
                           PyObject *Py_UNUSED(kwargs))
{
    ThingObject *self = (ThingObject *)(void *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    nc_nativetable_init(&self->native);
    if (nc_native_add(&self->native, "d:d", 0, (void *)(uintptr_t)half) < 0) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static void thing_dealloc(PyObject *object)
{
    nc_nativetable_clear(&((ThingObject *)(void *)object)->native);
    Py_TYPE(object)->tp_free(object);
}

static int ready_types(void)
{
    static PyCustomSlot thing_slots[3];
    static PyCustomSlot rows_slots[2];
    PyTypeObject *type = &thing.type.etp_heaptype.ht_type;
    size_t i;
    for (i = 0; i < 8; i++) {
        thing.behind[i] = rows.behind[i] = BEHIND;
    }
    type->tp_name = MODULE_NAME ".Thing";
    type->tp_basicsize = (Py_ssize_t)sizeof(ThingObject);
    type->tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
    type->tp_new = thing_new;
    type->tp_dealloc = thing_dealloc;
    type->tp_call = called;
    Py_SET_REFCNT((PyObject *)type, 1);
    thing_slots[0].id = PYCUSTOMSLOT_NATIVECALLABLE_ID;
    thing_slots[0].data.objoffset =
        (intptr_t)(offsetof(ThingObject, native) + NC_NATIVETABLE_CALLS);
    thing_slots[1].id = PYCUSTOMSLOT_PACKEDCALLABLE_ID;
    thing_slots[1].data.objoffset =
        (intptr_t)(offsetof(ThingObject, native) + NC_NATIVETABLE_PACKED);
    thing.type.etp_custom_slots = NC_STATIC_SLOTS(thing_slots);
    thing.type.etp_obj_custom_slots_offset = (Py_ssize_t)thing_slots[0].data.objoffset;

    type = &rows.type.etp_heaptype.ht_type;
    type->tp_name = MODULE_NAME ".Rows";
    type->tp_basicsize = (Py_ssize_t)sizeof(PyObject);
    type->tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
    type->tp_new = PyType_GenericNew;
    Py_SET_REFCNT((PyObject *)type, 1);
    rows_slots[0].id = ROW_ID;
    rows_slots[0].data.objoffset = 77;
    rows.type.etp_custom_slots = NC_STATIC_SLOTS(rows_slots);
    return PyExtensibleType_Ready(&thing.type, 3) < 0 || PyExtensibleType_Ready(&rows.type, 2) < 0
               ? -1
               : 0;
}

/* ---- Offer ----------------------------------------------------------------------------------- */

static PyNativeCallableEntry offered = {"d:d", 0, NULL};

static const PyNativeCallableEntry *offer_find(PyObject *Py_UNUSED(object), const char *signature,
                                               uintptr_t Py_UNUSED(refuse))
{
    return strcmp(signature, offered.signature) == 0 ? &offered : NULL;
}

static const PyNativeCallableEntry *offer_entry(PyObject *Py_UNUSED(object), size_t position)
{
    return position == 0 ? &offered : NULL;
}

#ifdef GROWN
static int offer_newer(PyObject *Py_UNUSED(object))
{
    return 5;
}
#endif

static PyTypeObject Offer = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = MODULE_NAME ".Offer"};

static int ready_offer(void)
{
    static NcNativeApi api;
    PyObject *capsule = PyCapsule_New(&api, NC_NATIVEAPI_CAPSULE, NULL);
    PyObject *dict = PyDict_New();
    int status = -1;
    api.size = sizeof api;
    api.name = NC_NATIVEAPI_NAME;
    api.find = offer_find;
    api.entry = offer_entry;
    offered.funcptr = (void *)(uintptr_t)half;
#ifdef GROWN
    api.newer = offer_newer;
#endif
    Offer.tp_basicsize = (Py_ssize_t)sizeof(PyObject);
    Offer.tp_flags = Py_TPFLAGS_DEFAULT;
    Offer.tp_new = PyType_GenericNew;
    Offer.tp_call = called;
    Offer.tp_dict = dict;
    if (capsule != NULL && dict != NULL &&
        PyDict_SetItemString(dict, NC_NATIVEAPI_ATTRIBUTE, capsule) == 0) {
        status = PyType_Ready(&Offer);
    }
    Py_XDECREF(capsule);
    return status;
}

/* ---- who finds them -------------------------------------------------------------------------- */

static PyObject *at_two(void *function)
{
    if (function == NULL) {
        Py_RETURN_NONE;
    }
    return PyFloat_FromDouble(((double (*)(double))(uintptr_t)function)(2.0));
}

static PyObject *find(PyObject *Py_UNUSED(module), PyObject *obj)
{
    const char *signature = NULL;
    if (nc_signature_intern("d:d", &signature) < 0) {
        return NULL;
    }
    return at_two(signature != NULL ? nc_native_function(obj, signature, NC_FLAG_NEEDS_GIL) : NULL);
}

static PyObject *look(PyObject *Py_UNUSED(module), PyObject *obj)
{
    const char *signature = nc_abi_intern("d:d");
    const PyNativeCallableEntry *entry;
    entry = signature != NULL ? nc_abi_find(obj, signature, NC_FLAG_NEEDS_GIL) : NULL;
    if (entry == NULL) {
        entry = nc_abi_ask(obj, "d:d", NC_FLAG_NEEDS_GIL);
    }
    return at_two(entry != NULL ? entry->funcptr : NULL);
}

static PyObject *ask(PyObject *Py_UNUSED(module), PyObject *obj)
{
    const PyNativeCallableEntry *entry;
    if (nc_nativeapi_find(obj, "d:d", 0, &entry) < 0) {
        return NULL;
    }
    return at_two(entry != NULL ? entry->funcptr : NULL);
}

static PyObject *row(PyObject *Py_UNUSED(module), PyObject *obj)
{
    const PyCustomSlot *found;
    found = PyCustomSlots_Find(obj, ROW_ID, 0);
    if (found == NULL) {
        Py_RETURN_NONE;
    }
    return PyLong_FromSsize_t((Py_ssize_t)found->data.objoffset);
}

static PyObject *runtime(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return Py_BuildValue("(sII)", nc_runtime->provider, (unsigned)nc_runtime->struct_size,
                         (unsigned)nc_runtime->type_size);
}

static PyObject *touched(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    size_t i;
    size_t changed = 0;
    for (i = 0; i < 8; i++) {
        changed += thing.behind[i] != BEHIND || rows.behind[i] != BEHIND;
    }
    return PyLong_FromSize_t(changed);
}

static PyObject *allocate(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    uintptr_t id;
    return PyExtensibleType_AllocateID(&id) < 0 ? NULL : PyLong_FromSize_t((size_t)id);
}

#ifdef GROWN
/* mark(type, n): whether the runtime could. */
static PyObject *mark(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyHeapExtensibleTypeObject *type;
    unsigned long long value;
    if (!PyArg_ParseTuple(args, "O!K", nc_metatype, &type, &value)) {
        return NULL;
    }
    return PyBool_FromLong(nc_runtime->struct_size >= NC_ABI_SIZE(NcRuntime, mark) &&
                           nc_runtime->mark(type, value));
}

static PyObject *marked(PyObject *Py_UNUSED(module), PyObject *object)
{
    PyHeapExtensibleTypeObject *type = (PyHeapExtensibleTypeObject *)(void *)object;
    if ((((PyTypeObject *)(void *)object)->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0 ||
        nc_runtime->type_size < NC_ABI_SIZE(PyHeapExtensibleTypeObject, etp_mark)) {
        Py_RETURN_NONE;
    }
    return PyLong_FromUnsignedLongLong(type->etp_mark);
}

static PyObject *newer(PyObject *Py_UNUSED(module), PyObject *obj)
{
    const NcNativeApi *api;
    if (nc_nativeapi_of(obj, &api) < 0) {
        return NULL;
    }
    if (api == NULL || api->size < NC_ABI_SIZE(NcNativeApi, newer)) {
        Py_RETURN_NONE;
    }
    return PyLong_FromLong(api->newer(obj));
}
#endif

static PyMethodDef methods[] = {
    {"find", find, METH_O, NULL},
    {"look", look, METH_O, NULL},
    {"ask", ask, METH_O, NULL},
    {"row", row, METH_O, NULL},
    {"runtime", runtime, METH_NOARGS, NULL},
    {"touched", touched, METH_NOARGS, NULL},
    {"allocate", allocate, METH_NOARGS, NULL},
#ifdef GROWN
    {"mark", mark, METH_VARARGS, NULL},
    {"marked", marked, METH_O, NULL},
    {"newer", newer, METH_O, NULL},
#endif
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = MODULE_DEFINITION(methods);

PyMODINIT_FUNC MODULE_INIT(void)
{
    PyObject *module;
    if (PyExtensibleType_Import() == NULL || ready_types() < 0 || ready_offer() < 0) {
        return NULL;
    }
    module = PyModule_Create(&definition);
    if (module == NULL) {
        return NULL;
    }
    if (PyModule_AddObjectRef(module, "Thing", (PyObject *)&thing) < 0 ||
        PyModule_AddObjectRef(module, "Rows", (PyObject *)&rows) < 0 ||
        PyModule_AddObjectRef(module, "Offer", (PyObject *)&Offer) < 0 ||
        PyModule_AddObjectRef(module, "METATYPE", (PyObject *)nc_metatype) < 0) {
        Py_CLEAR(module);
    }
    return module;
}
