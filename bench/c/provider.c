/* bench/c/provider.c: objects with one C function, built three ways. The difference between the
 * modules is what a header adds to them.
 *
 *     WITH 0      no header: only Python calls the function
 *     WITH 1      provide.h: a call table; the type Final joins a runtime if there is one
 *     WITH 2      extensibletype.h: both tables, and a runtime if there is none
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>

#if WITH == 0
typedef PyTypeObject Type;
typedef int Native;
#define ready PyType_Ready
#define fill(object) 0
#elif WITH == 1
#include "nativecall/provide.h"
typedef PyHeapExtensibleTypeObject Type;
typedef PyNativeCallableTable *Native;
#else
#define NC_PROVIDER "bench_provider"
#include "nativecall/extensibletype.h"
typedef PyHeapExtensibleTypeObject Type;
typedef NcNativeTable Native;
#endif

typedef struct {
    PyObject_HEAD
    Native native;
} Object;

static double (*function)(double); /* set by make() */

static PyObject *call(PyObject *Py_UNUSED(self), PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    double x;
    return PyArg_ParseTuple(args, "d", &x) ? PyFloat_FromDouble(function(x)) : NULL;
}

#if WITH == 1
static NC_TABLE(1) table = {1, {{"d:d", 0, NULL}, {NULL, 0, NULL}}};
NC_PROVIDES(api, call, ((Object *)obj)->native->entries);

static int ready(Type *type)
{
    if (nc_provided_intern(table.entries) < 0)
        return -1;
    return nc_provide(type, &api, offsetof(Object, native));
}

static int fill(Object *self)
{
    table.entries[0].funcptr = (void *)(uintptr_t)function;
    self->native = (PyNativeCallableTable *)&table;
    return 0;
}
#elif WITH == 2
static PyCustomSlot slots[3];

static int ready(Type *type)
{
    slots[0].id = PYCUSTOMSLOT_NATIVECALLABLE_ID;
    slots[0].data.objoffset = (intptr_t)(offsetof(Object, native) + NC_NATIVETABLE_CALLS);
    slots[1].id = PYCUSTOMSLOT_PACKEDCALLABLE_ID;
    slots[1].data.objoffset = (intptr_t)(offsetof(Object, native) + NC_NATIVETABLE_PACKED);
    type->etp_custom_slots = NC_STATIC_SLOTS(slots);
    type->etp_obj_custom_slots_offset = (Py_ssize_t)slots[0].data.objoffset;
    return PyExtensibleType_Ready(type, 3);
}

static int fill(Object *self)
{
    nc_nativetable_init(&self->native);
    return nc_native_add(&self->native, "d:d", 0, (void *)(uintptr_t)function);
}
#endif

/* make(address, open): an object; its type can have subclasses if `open`. */
static PyObject *make(PyObject *Py_UNUSED(module), PyObject *args)
{
    static Type types[2]; /* Final, Open; with room for the metaclass's data */
    unsigned long long address;
    int open;
    if (!PyArg_ParseTuple(args, "Kp", &address, &open))
        return NULL;
    function = (double (*)(double))(uintptr_t)address;
    PyTypeObject *type = (PyTypeObject *)(void *)&types[open];
    type->tp_name = open ? "bench_provider.Open" : "bench_provider.Final";
    type->tp_basicsize = sizeof(Object);
    type->tp_flags |= Py_TPFLAGS_DEFAULT | (open ? Py_TPFLAGS_BASETYPE : 0);
    type->tp_call = call;
    if (ready(&types[open]) < 0)
        return NULL;
    PyObject *object = PyType_GenericAlloc(type, 0);
    if (object != NULL && fill((Object *)object) < 0)
        Py_CLEAR(object);
    return object;
}

static PyMethodDef functions[] = {{"make", make, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "bench_provider", .m_size = -1,
                             .m_methods = functions};

PyMODINIT_FUNC PyInit_bench_provider(void)
{
    return PyModule_Create(&module);
}
