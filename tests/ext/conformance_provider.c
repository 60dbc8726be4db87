/* tests/ext/conformance_provider.c: a provider of the conformance matrix, by the headers: a static
 * type whose objects have a call table and a packed table with the same entries.
 *
 *     Function         the type; Function()(x) is x * x, as its first entry
 *     ADDRESSES        signature: address, of every entry
 *     METATYPE         the metaclass that this module agreed on
 *     live()           how many objects there are
 *
 * Built against the installed headers and against a vendored copy; MODULE is the module's name. */
#include "module.h"

#include <nativecall/extensibletype.h>
#include <nativecall/nativecallable.h>

#include "conformance_functions.h"

static const PyNativeCallableEntry offered[] = {
#define ENTRY(signature, flags, function) {signature, flags, (void *)(uintptr_t)function},
    CONFORMANCE_ENTRIES(ENTRY)
#undef ENTRY
        {NULL, 0, NULL}};

/* The numbers in conformance_functions.h mean what they say. */
typedef char check_gil[NC_FLAG_NEEDS_GIL == 1 ? 1 : -1];
typedef char check_errors[NC_ERRORS_NONZERO == 0x20 ? 1 : -1];

typedef struct {
    PyObject_HEAD
    NcCallTable calls;
    NcPackedTable packed;
} Object;

static Py_ssize_t objects = 0;

static int add(Object *self, const PyNativeCallableEntry *entry)
{
    uint64_t words[NC_PACKED_MAX_WORDS];
    const char *signature = NULL;
    size_t count = 0;
    int status;
    if (nc_signature_intern(entry->signature, &signature) < 0) {
        return -1;
    }
    status = nc_signature_pack(signature, strlen(signature), entry->flags, words,
                               NC_PACKED_MAX_WORDS, &count);
    if (status == NC_OK) {
        status = nc_packedtable_append(&self->packed, words, count, entry->funcptr);
    }
    if (status == NC_OK) {
        status = nc_calltable_append(&self->calls, signature, entry->flags, entry->funcptr);
    }
    if (status != NC_OK) {
        PyErr_SetString(PyExc_AssertionError, nc_status_text(status));
        return -1;
    }
    return 0;
}

static PyObject *object_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    Object *self = (Object *)(void *)type->tp_alloc(type, 0);
    const PyNativeCallableEntry *entry;
    (void)args;
    (void)kwargs;
    if (self == NULL) {
        return NULL;
    }
    objects++;
    nc_calltable_init(&self->calls);
    nc_packedtable_init(&self->packed);
    for (entry = offered; entry->signature != NULL; entry++) {
        if (add(self, entry) < 0) {
            Py_DECREF(self);
            return NULL;
        }
    }
    return (PyObject *)self;
}

static void object_dealloc(PyObject *object)
{
    Object *self = (Object *)(void *)object;
    nc_calltable_clear(&self->calls);
    nc_packedtable_clear(&self->packed);
    objects--;
    Py_TYPE(object)->tp_free(object);
}

static PyObject *object_call(PyObject *object, PyObject *args, PyObject *kwargs)
{
    double x;
    (void)object;
    (void)kwargs;
    return PyArg_ParseTuple(args, "d", &x) ? PyFloat_FromDouble(square(x)) : NULL;
}

static PyHeapExtensibleTypeObject Function;
static PyCustomSlot slots[4];

static int ready(void)
{
    PyTypeObject *type = &Function.etp_heaptype.ht_type;
    type->tp_name = MODULE_NAME ".Function";
    type->tp_basicsize = (Py_ssize_t)sizeof(Object);
    type->tp_flags = Py_TPFLAGS_DEFAULT;
    type->tp_new = object_new;
    type->tp_dealloc = object_dealloc;
    type->tp_call = object_call;
    Py_SET_REFCNT((PyObject *)type, 1);
    slots[0].id = PYCUSTOMSLOT_NATIVECALLABLE_ID;
    slots[0].data.objoffset = (intptr_t)offsetof(Object, calls);
    slots[1].id = PYCUSTOMSLOT_PACKEDCALLABLE_ID;
    slots[1].data.objoffset = (intptr_t)offsetof(Object, packed);
    Function.etp_custom_slots = NC_STATIC_SLOTS(slots);
    Function.etp_obj_custom_slots_offset = (Py_ssize_t)offsetof(Object, calls);
    return PyExtensibleType_Ready(&Function, 4);
}

static PyObject *live(PyObject *module, PyObject *none)
{
    (void)module;
    (void)none;
    return PyLong_FromSsize_t(objects);
}

static PyMethodDef methods[] = {
    {"live", live, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = MODULE_DEFINITION(methods);

PyMODINIT_FUNC MODULE_INIT(void)
{
    PyObject *module;
    PyObject *addresses;
    const PyNativeCallableEntry *entry;
    if (PyExtensibleType_Import() == NULL || ready() < 0) {
        return NULL;
    }
    module = PyModule_Create(&definition);
    addresses = PyDict_New();
    for (entry = offered; addresses != NULL && entry->signature != NULL; entry++) {
        PyObject *address = PyLong_FromVoidPtr(entry->funcptr);
        if (address == NULL || PyDict_SetItemString(addresses, entry->signature, address) < 0) {
            Py_CLEAR(addresses);
        }
        Py_XDECREF(address);
    }
    if (module == NULL || PyModule_AddObjectRef(module, "ADDRESSES", addresses) < 0 ||
        PyModule_AddObjectRef(module, "Function", (PyObject *)&Function) < 0 ||
        PyModule_AddObjectRef(module, "METATYPE", (PyObject *)nc_metatype) < 0) {
        Py_XDECREF(addresses);
        Py_XDECREF(module);
        return NULL;
    }
    Py_DECREF(addresses);
    return module;
}
