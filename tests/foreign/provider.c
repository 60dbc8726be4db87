/* tests/foreign/provider.c: a minimal provider, written from docs/abi alone.
 *
 *     callable    an object of a static type with the metaclass: call table and packed table
 *     view        a built-in view of it
 *     tier2       an object of a type without the metaclass, with __nativecall_api__
 *
 * It brings no runtime: one must be there. Each entry's function is f(x) = x * 10 + its number. */
#include "abi.h"

#define ENTRIES 4

typedef struct {
    PyObject_HEAD
    CallTable *calls;
    uint64_t *packed;
    PyMethodDef view;
} Object;

static double of_double(double x)
{
    return x * 10 + 1;
}

static int32_t of_int(int32_t x)
{
    return x * 10 + 2;
}

static PyObject *of_object(PyObject *x)
{
    return Py_BuildValue("(OO)", x, x);
}

static double of_two(double x, double y)
{
    return x * 10 + y;
}

#ifndef BROKEN_GIL_FLAG
#define OBJECT_FLAGS (NEEDS_GIL | ERRORS_PYTHON)
#else
#define OBJECT_FLAGS 0
#endif
#ifdef BROKEN_FLAG_BITS
#define DOUBLE_FLAGS 0x100
#elif defined(BROKEN_CONVENTION)
#define DOUBLE_FLAGS 0x40
#elif defined(BROKEN_LAST_ARGUMENT)
#define DOUBLE_FLAGS 0x60
#else
#define DOUBLE_FLAGS 0
#endif
#ifdef BROKEN_CANONICAL
#define TWO "d:d d"
#else
#define TWO "d:dd"
#endif

/* What stands in both tables. The words are those of the table in the document, by hand:
 * d 1, i 3, O B; flags at bit 56. */
static const struct {
    const char *text;
    uintptr_t flags;
    void *function;
    uint64_t word;
} offered[ENTRIES] = {
    {"d:d", DOUBLE_FLAGS, (void *)(uintptr_t)of_double,
     UINT64_C(0x8011000000000000) | (uint64_t)(DOUBLE_FLAGS & 0x7F) << 56},
    {"i:i", 0, (void *)(uintptr_t)of_int, UINT64_C(0x8033000000000000)},
    {"O:O", OBJECT_FLAGS, (void *)(uintptr_t)of_object,
     UINT64_C(0x80BB000000000000) | (uint64_t)OBJECT_FLAGS << 56},
    {TWO, 0, (void *)(uintptr_t)of_two, UINT64_C(0x8011100000000000)},
};

static struct {
    intptr_t count;
    Entry entries[ENTRIES + 1];
} calls;
static uint64_t packed[2 * ENTRIES + 1];

static PyObject *called(PyObject *Py_UNUSED(self), PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    double x;
    return PyArg_ParseTuple(args, "d", &x) ? PyFloat_FromDouble(of_double(x)) : NULL;
}

static PyObject *called_view(PyObject *Py_UNUSED(self), PyObject *x)
{
    double value = PyFloat_AsDouble(x);
    return PyErr_Occurred() ? NULL : PyFloat_FromDouble(of_double(value));
}

static PyObject *object_new(PyTypeObject *type, PyObject *Py_UNUSED(args),
                            PyObject *Py_UNUSED(kwargs))
{
    Object *self = (Object *)(void *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->calls = (CallTable *)(void *)&calls;
        self->packed = packed;
        self->view.ml_name = "view";
        self->view.ml_meth = called_view;
        self->view.ml_flags = METH_O;
    }
    return (PyObject *)self;
}

#ifdef BROKEN_DEALLOC
static void object_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free(self);
    if (PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) {
        Py_DECREF(type); /* which a subclass gives back itself */
    }
}
#endif

static PyObject *object_view(PyObject *self, void *Py_UNUSED(closure))
{
    return PyCFunction_New(&((Object *)(void *)self)->view, self);
}

static PyGetSetDef object_getset[] = {
    {"view", object_view, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static Type Callable;
static Slot slots[3];

static int make_callable(const Runtime *runtime)
{
    PyTypeObject *type = &Callable.heap.ht_type;
    size_t i;
    for (i = 0; i < ENTRIES; i++) {
        const char *interned = NULL;
        if (runtime->intern(runtime->registry, offered[i].text, strlen(offered[i].text),
                            &interned) != 0) {
            PyErr_NoMemory();
            return -1;
        }
#ifdef BROKEN_INTERN
        interned = offered[i].text;
#endif
        calls.entries[i].signature = interned;
        calls.entries[i].flags = offered[i].flags;
        calls.entries[i].function = offered[i].function;
        packed[2 * i] = offered[i].word;
        packed[2 * i + 1] = (uint64_t)(uintptr_t)offered[i].function;
    }
#ifdef BROKEN_PACKED_ORDER
    packed[0] = offered[1].word;
    packed[1] = (uint64_t)(uintptr_t)offered[1].function;
    packed[2] = offered[0].word;
    packed[3] = (uint64_t)(uintptr_t)offered[0].function;
#endif
    calls.count = ENTRIES;
#ifdef BROKEN_COUNT
    calls.count = ENTRIES - 1;
#endif
    type->tp_name = MODULE_NAME ".Callable";
    type->tp_basicsize = (Py_ssize_t)sizeof(Object);
    type->tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
    type->tp_new = object_new;
#ifdef BROKEN_DEALLOC
    type->tp_dealloc = object_dealloc;
#endif
    type->tp_call = called;
    type->tp_getset = object_getset;
    Py_SET_REFCNT((PyObject *)type, 1);
    slots[0].id = NATIVECALLABLE;
    slots[0].data = (intptr_t)offsetof(Object, calls);
    slots[1].id = PACKEDCALLABLE;
    slots[1].data = (intptr_t)offsetof(Object, packed);
    Callable.slots = (SlotTable *)(void *)slots;
    Callable.offset = (Py_ssize_t)offsetof(Object, calls);
    if (runtime->ready(&Callable, 3) < 0) {
        return -1;
    }
#ifdef BROKEN_SHIFT
    Callable.shift = 0;
#endif
    return 0;
}

/* ---- tier 2 ---------------------------------------------------------------------------------- */

static Entry told[ENTRIES];

static const Entry *find(PyObject *obj, const char *signature, uintptr_t refuse)
{
    size_t i;
    (void)obj;
#ifdef BROKEN_API_GIL
    PyGILState_Release(PyGILState_Ensure());
#endif
#ifdef BROKEN_API_RAISES
    PyErr_SetString(PyExc_KeyError, signature);
#endif
#if defined(BROKEN_API_REFUSE) || defined(BROKEN_API_ADDRESS)
    refuse = 0;
#endif
    for (i = 0; i < ENTRIES; i++) {
#ifdef BROKEN_API_ADDRESS
        if (told[i].signature == signature && (told[i].flags & refuse) == 0) {
#else
        if (strcmp(told[i].signature, signature) == 0 && (told[i].flags & refuse) == 0) {
#endif
            return &told[i];
        }
    }
    return NULL;
}

static const Entry *entry(PyObject *Py_UNUSED(obj), size_t position)
{
    return position < ENTRIES ? &told[position] : NULL;
}

#ifdef BROKEN_API_SIZE
static Api api = {sizeof(Api) - 8, API_NAME, NULL, find, entry};
#else
static Api api = {sizeof(Api), API_NAME, NULL, find, entry};
#endif

static PyTypeObject Tier2;

typedef struct {
    PyObject_HEAD
    PyMethodDef view;
} Tier2Object;

static PyObject *tier2_called_view(PyObject *self, PyObject *x)
{
    return PyObject_CallOneArg(self, x);
}

static PyObject *tier2_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *made = PyType_GenericNew(type, args, kwargs);
    if (made != NULL) {
        PyMethodDef view = {"view", tier2_called_view, METH_O, NULL};
        ((Tier2Object *)(void *)made)->view = view;
    }
    return made;
}

static PyObject *tier2_view(PyObject *self, void *Py_UNUSED(closure))
{
    return PyCFunction_New(&((Tier2Object *)(void *)self)->view, self);
}

static PyGetSetDef tier2_attributes[] = {
    {"view", tier2_view, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static int make_tier2(void)
{
    PyObject *capsule;
    size_t i;
    for (i = 0; i < ENTRIES; i++) {
        told[i].signature = offered[i].text;
        told[i].flags = offered[i].flags;
        told[i].function = offered[i].function;
    }
#ifdef BROKEN_API_CAPSULE
    capsule = PyCapsule_New(&api, "nativecall_api", NULL);
#else
    capsule = PyCapsule_New(&api, "nativecall_api_v1", NULL);
#endif
    Tier2.tp_name = MODULE_NAME ".Tier2";
    Tier2.tp_basicsize = (Py_ssize_t)sizeof(Tier2Object);
    Tier2.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
    Tier2.tp_new = tier2_new;
    Tier2.tp_getset = tier2_attributes;
    Tier2.tp_call = called;
    if (capsule == NULL || PyType_Ready(&Tier2) < 0 ||
        PyDict_SetItemString(Tier2.tp_dict, "__nativecall_api__", capsule) < 0) {
        return -1;
    }
    PyType_Modified(&Tier2);
    return 0;
}

/* ---- the module ------------------------------------------------------------------------------ */

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, MODULE_NAME, NULL, -1, NULL, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC JOIN(PyInit_, MODULE)(void)
{
    const Runtime *runtime = look_for_runtime();
    PyObject *module = PyModule_Create(&definition);
    PyObject *callable = NULL;
    PyObject *tier2 = NULL;
    if (runtime == NULL) {
        PyErr_SetString(PyExc_ImportError, "import a module that brings a runtime first");
        return NULL;
    }
    if (module == NULL || make_callable(runtime) < 0 || make_tier2() < 0) {
        return NULL;
    }
    callable = PyObject_CallNoArgs((PyObject *)&Callable);
    tier2 = PyObject_CallNoArgs((PyObject *)&Tier2);
    if (callable == NULL || tier2 == NULL || PyModule_AddObject(module, "tier2", tier2) < 0 ||
        PyModule_AddObject(module, "view", object_view(callable, NULL)) < 0 ||
        PyModule_AddObject(module, "callable", callable) < 0) {
        return NULL;
    }
    return module;
}
