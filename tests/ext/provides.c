/* tests/ext/provides.c: providers by provide.h, of every kind of type.
 *
 *     Open, Final             static types: with and without subclasses
 *     Heap, Sealed            heap types alike; from Python 3.12 on, Sealed can join the metaclass
 *     Immutable               an immutable heap type with subclasses
 *     Slotted                 a static type with two rows by an attribute
 *     ask(obj, key)           the word in the row that PyCustomSlots_Ask finds, or None
 *
 * All but Slotted have d:d and f:f, half of x. With PLAIN the module has Final without provide.h,
 * with LEAST it has Final alone: what the header costs is the difference. */
#include "module.h"

#include <stddef.h>

#ifndef PLAIN
#include <nativecall/provide.h>
#endif
#if !defined(PLAIN) && !defined(LEAST)
#include <nativecall/customslots.h>
#endif

static double half(double x)
{
    return x / 2;
}

static PyObject *root_call(PyObject *Py_UNUSED(self), PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    double x;
    return PyArg_ParseTuple(args, "d", &x) ? PyFloat_FromDouble(half(x)) : NULL;
}

#ifdef PLAIN

static PyTypeObject Final;
typedef PyObject Root;

static int ready(PyTypeObject *type)
{
    return PyType_Ready(type);
}

#else

static float halff(float x)
{
    return x / 2;
}

typedef struct {
    PyObject_HEAD
    PyNativeCallableTable *native;
} Root;

static NC_TABLE(2) roots = {
    2,
    {{"d:d", 0, (void *)(uintptr_t)half}, {"f:f", 0, (void *)(uintptr_t)halff}, {NULL, 0, NULL}}};

NC_PROVIDES(root_api, root_call, ((Root *)(void *)obj)->native->entries);

static PyHeapExtensibleTypeObject Final;

static int ready(void *type)
{
    return nc_provided_intern(roots.entries) < 0
               ? -1
               : nc_provide(type, &root_api, (Py_ssize_t)offsetof(Root, native));
}

#endif

static PyObject *root_new(PyTypeObject *type, PyObject *Py_UNUSED(args),
                          PyObject *Py_UNUSED(kwargs))
{
    Root *self = (Root *)(void *)type->tp_alloc(type, 0);
#ifndef PLAIN
    if (self != NULL) {
        self->native = (PyNativeCallableTable *)(void *)&roots;
    }
#endif
    return (PyObject *)self;
}

static PyTypeObject *fill(void *given, const char *name, unsigned long flags)
{
    PyTypeObject *type = (PyTypeObject *)given;
    Py_SET_REFCNT((PyObject *)type, 1);
    type->tp_name = name;
    type->tp_basicsize = (Py_ssize_t)sizeof(Root);
    type->tp_flags = Py_TPFLAGS_DEFAULT | flags;
    type->tp_new = root_new;
    type->tp_call = root_call;
    return type;
}

#if defined(PLAIN) || defined(LEAST)

static PyMethodDef methods[] = {{NULL, NULL, 0, NULL}};

static int more(PyObject *Py_UNUSED(module))
{
    return 0;
}

#else

static PyTypeObject Open;
static PyTypeObject Slotted;
static PyCustomSlot rows[3];

static PyObject *ask(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *obj;
    Py_ssize_t key;
    if (!PyArg_ParseTuple(args, "On", &obj, &key)) {
        return NULL;
    }
    (void)PyCustomSlots_Import();
    const PyCustomSlot *row = PyCustomSlots_Ask(obj, (uintptr_t)key, 0);
    return row != NULL             ? PyLong_FromSize_t(row->data.flags)
           : PyErr_Occurred() != 0 ? NULL
                                   : Py_NewRef(Py_None);
}

static PyMethodDef methods[] = {
    {"ask", ask, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot heap_slots[] = {
    {Py_tp_new, (void *)(uintptr_t)root_new},
    {Py_tp_call, (void *)(uintptr_t)root_call},
    {0, NULL},
};

static PyObject *heap(const char *name, unsigned int flags)
{
    PyType_Spec spec = {name, (int)sizeof(Root), 0, (unsigned int)Py_TPFLAGS_DEFAULT | flags,
                        heap_slots};
#if PY_VERSION_HEX >= 0x030C0000
    PyTypeObject *metatype = (flags & Py_TPFLAGS_BASETYPE) == 0 ? nc_joined() : NULL;
    PyObject *type = PyType_FromMetaclass(metatype, NULL, &spec, NULL);
#else
    PyObject *type = PyType_FromSpec(&spec);
#endif
    if (type != NULL && ready(type) < 0) {
        Py_CLEAR(type);
    }
    return type;
}

static int more(PyObject *module)
{
    rows[0].id = 0x05010103;
    rows[0].data.flags = 7;
    rows[1].id = 0x05010203;
    rows[1].data.flags = 8;
    fill(&Slotted, MODULE_NAME ".Slotted", Py_TPFLAGS_BASETYPE);
    if (ready(fill(&Open, MODULE_NAME ".Open", Py_TPFLAGS_BASETYPE)) < 0 ||
        nc_provide_slots(&Slotted, rows) < 0 || PyModule_AddType(module, &Open) < 0 ||
        PyModule_AddType(module, &Slotted) < 0) {
        return -1;
    }
    const struct {
        const char *name;
        unsigned int flags;
    } kinds[] = {{MODULE_NAME ".Heap", Py_TPFLAGS_BASETYPE},
                 {MODULE_NAME ".Sealed", 0},
                 {MODULE_NAME ".Immutable", Py_TPFLAGS_BASETYPE | Py_TPFLAGS_IMMUTABLETYPE}};
    int status = 0;
    for (int i = 0; status == 0 && i < 3; i++) {
        PyObject *type = heap(kinds[i].name, kinds[i].flags);
        status = type == NULL ? -1 : PyModule_AddType(module, (PyTypeObject *)(void *)type);
        Py_XDECREF(type);
    }
    return status;
}

#endif

static struct PyModuleDef definition = MODULE_DEFINITION(methods);

PyMODINIT_FUNC MODULE_INIT(void)
{
    PyObject *module = PyModule_Create(&definition);
    PyTypeObject *type = fill(&Final, MODULE_NAME ".Final", 0);
    if (module != NULL &&
        (ready((void *)type) < 0 || PyModule_AddType(module, type) < 0 || more(module) < 0)) {
        Py_CLEAR(module);
    }
    return module;
}
