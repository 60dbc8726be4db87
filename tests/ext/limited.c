/* tests/ext/limited.c: tier 2 by the limited API: finds entries, and offers one.
 *
 *     find(obj, signature, refuse)    the address of the entry that suits, or None
 *     Offers                          a type whose objects offer d:d, x + 1
 *
 * It has the structs of docs/abi/find.md and no header of ours. */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stdint.h>
#include <string.h>

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)

#define ABI_MASK (~(uintptr_t)0xFFFF7F)

typedef struct {
    const char *signature;
    uintptr_t flags;
    void *funcptr;
} Entry;

typedef struct Api {
    size_t size;
    uint64_t name;
    int (*release)(struct Api *);
    const Entry *(*find)(PyObject *, const char *, uintptr_t);
    const Entry *(*entry)(PyObject *, size_t);
} Api;

/* What a class itself has under a name, a new reference; NULL without an exception. */
static PyObject *own(PyObject *cls, const char *name)
{
    PyObject *dict = PyObject_GetAttrString(cls, "__dict__");
    PyObject *value = dict != NULL ? PyMapping_GetItemString(dict, name) : NULL;
    Py_XDECREF(dict);
    PyErr_Clear();
    return value;
}

/* docs/abi/find.md, api_of: the interface of an object's type, or NULL. */
static const Api *api_of(PyObject *obj)
{
    PyObject *mro = PyObject_GetAttrString((PyObject *)Py_TYPE(obj), "__mro__");
    PyObject *value = NULL;
    const Api *api;
    Py_ssize_t i;
    for (i = 0; mro != NULL && value == NULL && i < PyTuple_Size(mro); i++) {
        PyObject *call;
        value = own(PyTuple_GetItem(mro, i), "__nativecall_api__");
        call = value == NULL ? own(PyTuple_GetItem(mro, i), "__call__") : NULL;
        if (call != NULL) {
            Py_DECREF(call);
            break;
        }
    }
    Py_XDECREF(mro);
    api = (const Api *)PyCapsule_GetPointer(value, "nativecall_api_v1");
    Py_XDECREF(value); /* the class has it */
    PyErr_Clear();
    return api != NULL && api->size >= sizeof(Api) && api->find != NULL &&
                   api->name == UINT64_C(0x6E635F6170690001)
               ? api
               : NULL;
}

static PyObject *find(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *obj;
    const char *text;
    unsigned long long refuse;
    const Api *api;
    const Entry *entry;
    if (!PyArg_ParseTuple(args, "OsK", &obj, &text, &refuse)) {
        return NULL;
    }
    api = api_of(obj);
    entry = api != NULL ? api->find(obj, text, (uintptr_t)refuse) : NULL;
    if (entry == NULL && PyErr_Occurred()) {
        return NULL;
    }
    PyErr_Clear();
    if (entry == NULL || entry->signature == NULL || strcmp(entry->signature, text) != 0 ||
        entry->funcptr == NULL || (entry->flags & ((uintptr_t)refuse | ABI_MASK)) != 0) {
        return Py_NewRef(Py_None);
    }
    return PyLong_FromVoidPtr(entry->funcptr);
}

static double next(double x)
{
    return x + 1;
}

static Entry offered = {"d:d", 0, (void *)(uintptr_t)next};

static const Entry *offers_find(PyObject *Py_UNUSED(obj), const char *text, uintptr_t refuse)
{
    return strcmp(text, offered.signature) == 0 && (offered.flags & refuse) == 0 ? &offered : NULL;
}

static const Entry *offers_entry(PyObject *Py_UNUSED(obj), size_t position)
{
    return position == 0 ? &offered : NULL;
}

static Api api = {sizeof(Api), UINT64_C(0x6E635F6170690001), NULL, offers_find, offers_entry};
static PyType_Slot slots[] = {{0, NULL}};
static PyType_Spec spec = {TEXT(MODULE) ".Offers", 0, 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                           slots};
static PyMethodDef methods[] = {
    {"find", find, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, TEXT(MODULE), NULL, -1, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PASTE(PyInit_, MODULE)(void)
{
    PyObject *module = PyModule_Create(&definition);
    PyObject *type = PyType_FromSpec(&spec);
    PyObject *capsule = PyCapsule_New(&api, "nativecall_api_v1", NULL);
    if (module == NULL || type == NULL || capsule == NULL ||
        PyObject_SetAttrString(type, "__nativecall_api__", capsule) < 0 ||
        PyModule_AddObjectRef(module, "Offers", type) < 0) {
        Py_CLEAR(module);
    }
    Py_XDECREF(type);
    Py_XDECREF(capsule);
    return module;
}
