/* tests/ext/conformance_tier2.c: a provider of the conformance matrix whose type cannot have the
 * metaclass. It includes no header of nativecall: it copies the two structs, as nativeapi.h allows.
 *
 *     Function         a static type with __nativecall_api__; Function()(x) is x * x
 *     CAPSULE          what stands there, for types made elsewhere
 *     ADDRESSES        signature: address, of every entry
 *     live()           how many objects of Function there are */
#include "module.h"

#include <stdint.h>
#include <string.h>

#include "conformance_functions.h"

typedef struct {
    const char *signature;
    uintptr_t flags;
    void *funcptr;
} Entry;

typedef struct Api {
    size_t size;
    uint64_t name;
    int (*release)(struct Api *self);
    const Entry *(*find)(PyObject *obj, const char *signature, uintptr_t refuse);
    const Entry *(*entry)(PyObject *obj, size_t position);
} Api;

static const Entry offered[] = {
#define ENTRY(signature, flags, function) {signature, flags, (void *)(uintptr_t)function},
    CONFORMANCE_ENTRIES(ENTRY)
#undef ENTRY
};
#define COUNT (sizeof offered / sizeof offered[0])

static const Entry *entry(PyObject *obj, size_t position)
{
    (void)obj;
    return position < COUNT ? &offered[position] : NULL;
}

static const Entry *find(PyObject *obj, const char *signature, uintptr_t refuse)
{
    size_t i;
    (void)obj;
    for (i = 0; i < COUNT; i++) {
        if (strcmp(offered[i].signature, signature) == 0 && (offered[i].flags & refuse) == 0) {
            return &offered[i];
        }
    }
    return NULL;
}

static Api api = {sizeof(Api), UINT64_C(0x6e635f6170690001), NULL, find, entry};

static Py_ssize_t objects = 0;

static PyObject *object_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *self = type->tp_alloc(type, 0);
    (void)args;
    (void)kwargs;
    objects += self != NULL;
    return self;
}

static void object_dealloc(PyObject *self)
{
    objects--;
    Py_TYPE(self)->tp_free(self);
}

static PyObject *object_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    double x;
    (void)self;
    (void)kwargs;
    return PyArg_ParseTuple(args, "d", &x) ? PyFloat_FromDouble(square(x)) : NULL;
}

static PyTypeObject Function;

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
    PyObject *module = PyModule_Create(&definition);
    PyObject *addresses = PyDict_New();
    PyObject *capsule = PyCapsule_New(&api, "nativecall_api_v1", NULL);
    size_t i;
    Function.tp_name = MODULE_NAME ".Function";
    Function.tp_basicsize = (Py_ssize_t)sizeof(PyObject);
    Function.tp_flags = Py_TPFLAGS_DEFAULT;
    Function.tp_new = object_new;
    Function.tp_dealloc = object_dealloc;
    Function.tp_call = object_call;
    if (module == NULL || addresses == NULL || capsule == NULL || PyType_Ready(&Function) < 0 ||
        PyDict_SetItemString(Function.tp_dict, "__nativecall_api__", capsule) < 0) {
        return NULL;
    }
    PyType_Modified(&Function);
    for (i = 0; i < COUNT; i++) {
        PyObject *address = PyLong_FromVoidPtr(offered[i].funcptr);
        if (address == NULL || PyDict_SetItemString(addresses, offered[i].signature, address) < 0) {
            return NULL;
        }
        Py_DECREF(address);
    }
    if (PyModule_AddObject(module, "ADDRESSES", addresses) < 0 ||
        PyModule_AddObject(module, "CAPSULE", capsule) < 0 ||
        PyModule_AddObjectRef(module, "Function", (PyObject *)&Function) < 0) {
        return NULL;
    }
    return module;
}
