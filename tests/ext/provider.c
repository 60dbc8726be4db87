/* tests/ext/provider.c: a provider: static C types with slots, and with functions to call.
 *
 *     Base        rows: an allocated ID, a pointer ID, a skip row, an interned key; a call table
 *     Derived     a static C subclass of Base in this module: overrides one row, adds one
 *     Both        both tables from one registration (nativetable.h): the shortest whole provider
 *     derive(T)   makes a static C subclass of any extensible type, with as many rows as asked
 *
 * Built against the installed headers and against vendored copies; MODULE is the module's name. */
#include "module.h"

#include <nativecall/extensibletype.h>
#include <nativecall/nativecallable.h>

#define ALLOCATED_ID ((uintptr_t)0x05000003)
#define OWN_ID ((uintptr_t)0x05000007)

static double half(double x)
{
    return x / 2;
}

static double third(double x)
{
    return x / 3;
}

/* An object is a PyObject, then its call table. */
typedef struct {
    PyObject_HEAD
    NcCallTable calls;
} Object;

static int pointer_id_target;

static PyObject *object_new(PyTypeObject *type, PyObject *Py_UNUSED(args),
                            PyObject *Py_UNUSED(kwargs))
{
    Object *self = (Object *)(void *)type->tp_alloc(type, 0);
    const char *signature = NULL;
    if (self == NULL) {
        return NULL;
    }
    nc_calltable_init(&self->calls);
    if (nc_signature_intern("d:d", &signature) < 0 ||
        nc_calltable_append(&self->calls, signature, 0, (void *)(uintptr_t)half) != NC_OK) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

/* Of a static type: an object's reference to a class that derives from it is the interpreter's to
 * give up. */
static void object_dealloc(PyObject *object)
{
    nc_calltable_clear(&((Object *)(void *)object)->calls);
    Py_TYPE(object)->tp_free(object);
}

static PyObject *object_call(PyObject *Py_UNUSED(object), PyObject *args,
                             PyObject *Py_UNUSED(kwargs))
{
    double x;
    return PyArg_ParseTuple(args, "d", &x) ? PyFloat_FromDouble(half(x)) : NULL;
}

/* replace(): calls of this object's entry go to another function from now on. */
static PyObject *object_replace(PyObject *object, PyObject *Py_UNUSED(none))
{
    if (nc_calltable_replace(&((Object *)(void *)object)->calls, 0, (void *)(uintptr_t)third) !=
        NC_OK) {
        PyErr_SetString(PyExc_AssertionError, "no entry to replace");
        return NULL;
    }
    Py_RETURN_NONE;
}

/* add(signature, flags, address): one more entry. */
static PyObject *object_add(PyObject *object, PyObject *args)
{
    const char *text;
    const char *signature = NULL;
    Py_ssize_t flags;
    Py_ssize_t address;
    if (!PyArg_ParseTuple(args, "snn", &text, &flags, &address) ||
        nc_signature_intern(text, &signature) < 0) {
        return NULL;
    }
    if (nc_calltable_append(&((Object *)(void *)object)->calls, signature, (uintptr_t)flags,
                            (void *)address) != NC_OK) {
        PyErr_SetString(PyExc_ValueError, "no such entry can be");
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyMethodDef object_methods[] = {
    {"add", object_add, METH_VARARGS, NULL},
    {"replace", object_replace, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyHeapExtensibleTypeObject Base;
static PyHeapExtensibleTypeObject Derived;
static PyCustomSlot base_slots[6];
static PyCustomSlot derived_slots[6];

static int ready_base(void)
{
    PyTypeObject *type = &Base.etp_heaptype.ht_type;
    const char *key = NULL;
    type->tp_name = MODULE_NAME ".Base";
    type->tp_basicsize = (Py_ssize_t)sizeof(Object);
    type->tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
    type->tp_new = object_new;
    type->tp_dealloc = object_dealloc;
    type->tp_call = object_call;
    type->tp_methods = object_methods;
    Py_SET_REFCNT((PyObject *)type, 1);
    if (PyExtensibleType_Intern("key\0with a null", 15, &key) < 0) {
        return -1;
    }
    base_slots[0].id = PYCUSTOMSLOT_NATIVECALLABLE_ID;
    base_slots[0].data.objoffset = (intptr_t)offsetof(Object, calls);
    base_slots[1].id = ALLOCATED_ID;
    base_slots[1].flags = 7;
    base_slots[1].data.objoffset = 111;
    base_slots[2].id = NC_SLOT_SKIP;
    base_slots[3].id = (uintptr_t)(const void *)&pointer_id_target;
    base_slots[3].data.pointer = &pointer_id_target;
    base_slots[4].id = (uintptr_t)(const void *)key;
    base_slots[4].data.objoffset = 444;
    Base.etp_custom_slots = NC_STATIC_SLOTS(base_slots);
    Base.etp_obj_custom_slots_offset = (Py_ssize_t)offsetof(Object, calls);
    return PyExtensibleType_Ready(&Base, 6);
}

static int ready_derived(void)
{
    PyTypeObject *type = &Derived.etp_heaptype.ht_type;
    type->tp_name = MODULE_NAME ".Derived";
    type->tp_basicsize = (Py_ssize_t)sizeof(Object);
    type->tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
    type->tp_base = &Base.etp_heaptype.ht_type;
    Py_SET_REFCNT((PyObject *)type, 1);
    derived_slots[0].id = ALLOCATED_ID;
    derived_slots[0].data.objoffset = 112;
    derived_slots[1].id = OWN_ID;
    derived_slots[1].data.objoffset = 777;
    Derived.etp_custom_slots = NC_STATIC_SLOTS(derived_slots);
    return PyExtensibleType_Ready(&Derived, 6);
}

/* ---- both tables ----------------------------------------------------------------------------- */

typedef struct {
    PyObject_HEAD
    NcNativeTable native;
} BothObject;

static PyObject *both_new(PyTypeObject *type, PyObject *Py_UNUSED(args),
                          PyObject *Py_UNUSED(kwargs))
{
    BothObject *self = (BothObject *)(void *)type->tp_alloc(type, 0);
    if (self != NULL) {
        nc_nativetable_init(&self->native);
    }
    return (PyObject *)self;
}

static void both_dealloc(PyObject *object)
{
    nc_nativetable_clear(&((BothObject *)(void *)object)->native);
    Py_TYPE(object)->tp_free(object);
}

/* add(signature, flags, address) */
static PyObject *both_add(PyObject *object, PyObject *args)
{
    const char *signature;
    Py_ssize_t flags;
    Py_ssize_t address;
    if (!PyArg_ParseTuple(args, "snn", &signature, &flags, &address) ||
        nc_native_add(&((BothObject *)(void *)object)->native, signature, (uintptr_t)flags,
                      (void *)address) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

/* replace(position, address) */
static PyObject *both_replace(PyObject *object, PyObject *args)
{
    Py_ssize_t position;
    Py_ssize_t address;
    if (!PyArg_ParseTuple(args, "nn", &position, &address)) {
        return NULL;
    }
    if (nc_nativetable_replace(&((BothObject *)(void *)object)->native, (size_t)position,
                               (void *)address) != NC_OK) {
        PyErr_SetString(PyExc_IndexError, "no entry to replace");
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyMethodDef both_methods[] = {
    {"add", both_add, METH_VARARGS, NULL},
    {"replace", both_replace, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyHeapExtensibleTypeObject Both;
static PyCustomSlot both_slots[3];

static int ready_both(void)
{
    PyTypeObject *type = &Both.etp_heaptype.ht_type;
    type->tp_name = MODULE_NAME ".Both";
    type->tp_basicsize = (Py_ssize_t)sizeof(BothObject);
    type->tp_flags = Py_TPFLAGS_DEFAULT;
    type->tp_new = both_new;
    type->tp_dealloc = both_dealloc;
    type->tp_methods = both_methods;
    Py_SET_REFCNT((PyObject *)type, 1);
    both_slots[0].id = PYCUSTOMSLOT_NATIVECALLABLE_ID;
    both_slots[0].data.objoffset = (intptr_t)(offsetof(BothObject, native) + NC_NATIVETABLE_CALLS);
    both_slots[1].id = PYCUSTOMSLOT_PACKEDCALLABLE_ID;
    both_slots[1].data.objoffset = (intptr_t)(offsetof(BothObject, native) + NC_NATIVETABLE_PACKED);
    Both.etp_custom_slots = NC_STATIC_SLOTS(both_slots);
    Both.etp_obj_custom_slots_offset = (Py_ssize_t)both_slots[0].data.objoffset;
    return PyExtensibleType_Ready(&Both, 3);
}

/* ---- the module ------------------------------------------------------------------------------ */

/* derive(base, rows, ids): a static subclass of an extensible type of whatever module, whose own
 * rows have the given ids and whose array has room for so many rows. A static type lives for ever,
 * so its memory is never given back. */
static PyObject *derive(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyTypeObject *base;
    PyObject *ids;
    PyHeapExtensibleTypeObject *made;
    PyTypeObject *type;
    PyCustomSlot *slots = NULL;
    Py_ssize_t rows;
    Py_ssize_t i;
    if (!PyArg_ParseTuple(args, "O!nO!", &PyType_Type, &base, &rows, &PyTuple_Type, &ids)) {
        return NULL;
    }
    made = (PyHeapExtensibleTypeObject *)PyMem_RawCalloc(1, sizeof(*made));
    if (rows > 0) {
        slots = (PyCustomSlot *)PyMem_RawCalloc((size_t)rows, sizeof(*slots));
    }
    if (made == NULL || (rows > 0 && slots == NULL)) {
        return PyErr_NoMemory();
    }
    type = &made->etp_heaptype.ht_type;
    type->tp_name = MODULE_NAME ".Made";
    type->tp_basicsize = base->tp_basicsize;
    type->tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
    type->tp_base = base;
    Py_SET_REFCNT((PyObject *)type, 1);
    for (i = 0; i < PyTuple_GET_SIZE(ids) && i < rows; i++) {
        slots[i].id = (uintptr_t)PyLong_AsSize_t(PyTuple_GET_ITEM(ids, i));
        slots[i].data.objoffset = (intptr_t)(1000 + i);
    }
    made->etp_custom_slots = NC_STATIC_SLOTS(slots);
    if (PyErr_Occurred() || PyExtensibleType_Ready(made, rows) < 0) {
        return NULL;
    }
    return Py_NewRef((PyObject *)type);
}

/* rows(): the array of Derived after Ready: the merged rows are written back to it. */
static PyObject *rows(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    PyObject *list = PyList_New(0);
    size_t i;
    for (i = 0; list != NULL && i < sizeof(derived_slots) / sizeof(derived_slots[0]); i++) {
        PyObject *row = Py_BuildValue("(KK)", (unsigned long long)derived_slots[i].id,
                                      (unsigned long long)(uintptr_t)derived_slots[i].data.pointer);
        if (row == NULL || PyList_Append(list, row) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(row);
    }
    return list;
}

/* ready_again(): Ready of a type that is ready; nothing happens. */
static PyObject *ready_again(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return PyExtensibleType_Ready(&Derived, 6) < 0 ? NULL : Py_NewRef(Py_None);
}

static PyMethodDef methods[] = {
    {"derive", derive, METH_VARARGS, NULL},
    {"rows", rows, METH_NOARGS, NULL},
    {"ready_again", ready_again, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = MODULE_DEFINITION(methods);

PyMODINIT_FUNC MODULE_INIT(void)
{
    PyObject *module;
    if (PyExtensibleType_Import() == NULL || ready_base() < 0 || ready_derived() < 0 ||
        ready_both() < 0) {
        return NULL;
    }
    module = PyModule_Create(&definition);
    if (module == NULL) {
        return NULL;
    }
    if (PyModule_AddObjectRef(module, "Base", (PyObject *)&Base) < 0 ||
        PyModule_AddObjectRef(module, "Derived", (PyObject *)&Derived) < 0 ||
        PyModule_AddObjectRef(module, "Both", (PyObject *)&Both) < 0 ||
        PyModule_AddObject(module, "POINTER_ID", PyLong_FromVoidPtr(&pointer_id_target)) < 0 ||
        PyModule_AddObject(module, "METATYPE", Py_NewRef((PyObject *)nc_metatype)) < 0 ||
        PyModule_AddStringConstant(module, "RUNTIME_PROVIDER", nc_runtime->provider) < 0 ||
        PyModule_AddObject(module, "RUNTIME", PyLong_FromVoidPtr((void *)(uintptr_t)nc_runtime)) <
            0 ||
        PyModule_AddStringConstant(module, "MODULE", NC_RUNTIME_MODULE) < 0 ||
        PyModule_AddStringConstant(module, "ATTRIBUTE", NC_RUNTIME_ATTRIBUTE) < 0 ||
        PyModule_AddStringConstant(module, "CAPSULE", NC_RUNTIME_CAPSULE) < 0 ||
        PyModule_AddObject(module, "HALF", PyLong_FromVoidPtr((void *)(uintptr_t)half)) < 0 ||
        PyModule_AddObject(module, "THIRD", PyLong_FromVoidPtr((void *)(uintptr_t)third)) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
