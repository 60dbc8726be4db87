/* tests/ext/limited.c: a consumer and a provider by the limited API: for abi3 where Py_LIMITED_API
 * is defined, for abi3t where Py_TARGET_ABI3T is.
 *
 *     find(obj, signature, refuse)    the address of the entry that suits, or None
 *     table(obj, signature, refuse)   the same by call tables alone, without the GIL
 *     ask(obj, signature, refuse)     the same by tier 2 alone
 *     slot(obj, id)                   the word to which a slot of any key leads; None: no such slot
 *     offers(obj)                     whether it can have entries
 *     Heap, Immutable                 types that offer d:d, x + 1 */
#define PY_SSIZE_T_CLEAN
#include "nativecall_abi.h"

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)

/* ---- the consumer ---------------------------------------------------------------------------- */

typedef const PyNativeCallableEntry *(*Look)(PyObject *obj, const char *text, uintptr_t refuse);

static const PyNativeCallableEntry *in_table(PyObject *obj, const char *text, uintptr_t refuse)
{
    const char *signature = nc_abi_intern(text);
    const PyNativeCallableEntry *entry = NULL;
    if (signature != NULL) {
        Py_BEGIN_ALLOW_THREADS entry = nc_abi_find(obj, signature, refuse);
        Py_END_ALLOW_THREADS
    }
    return entry;
}

static const PyNativeCallableEntry *anywhere(PyObject *obj, const char *text, uintptr_t refuse)
{
    const PyNativeCallableEntry *entry = in_table(obj, text, refuse);
    return entry != NULL ? entry : nc_abi_ask(obj, text, refuse);
}

static PyObject *by(Look look, PyObject *args)
{
    PyObject *obj;
    const char *text;
    unsigned long refuse = 0;
    const PyNativeCallableEntry *entry;
    if (!PyArg_ParseTuple(args, "Os|k", &obj, &text, &refuse)) {
        return NULL;
    }
    entry = look(obj, text, refuse);
    if (entry == NULL) {
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    }
    return PyLong_FromVoidPtr(NC_ABI_LOAD(&entry->funcptr));
}

static PyObject *find(PyObject *Py_UNUSED(module), PyObject *args)
{
    return by(anywhere, args);
}

static PyObject *table(PyObject *Py_UNUSED(module), PyObject *args)
{
    return by(in_table, args);
}

static PyObject *ask(PyObject *Py_UNUSED(module), PyObject *args)
{
    return by(nc_abi_ask, args);
}

static PyObject *slot(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *obj;
    Py_ssize_t id;
    const void *found;
    if (!PyArg_ParseTuple(args, "On", &obj, &id)) {
        return NULL;
    }
    (void)nc_abi_intern("d:d");
    found = nc_abi_table(obj, (uintptr_t)id);
    return found == (const void *)&nc_abi_nothing ? Py_NewRef(Py_None)
                                                  : PyLong_FromVoidPtr((void *)(uintptr_t)found);
}

static PyObject *offers(PyObject *Py_UNUSED(module), PyObject *obj)
{
    return PyBool_FromLong(nc_abi_offers(obj));
}

/* ---- the provider ---------------------------------------------------------------------------- */

static double next(double x)
{
    return x + 1;
}

static PyObject *call(PyObject *Py_UNUSED(self), PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    double x;
    return PyArg_ParseTuple(args, "d", &x) ? PyFloat_FromDouble(next(x)) : NULL;
}

static PyNativeCallableEntry offered = {"d:d", 0, (void *)(uintptr_t)next};

/* Nothing where a class assigned another __call__. No GIL is needed. */
static const PyNativeCallableEntry *offer_entry(PyObject *obj, size_t position)
{
    void *called = PyType_GetSlot(Py_TYPE(obj), Py_tp_call);
    return position == 0 && called == (void *)(uintptr_t)call ? &offered : NULL;
}

static const PyNativeCallableEntry *offer(PyObject *obj, const char *text, uintptr_t refuse)
{
    const PyNativeCallableEntry *entry = offer_entry(obj, 0);
    int fits = entry != NULL && strcmp(text, entry->signature) == 0;
    return fits && (entry->flags & refuse) == 0 ? entry : NULL;
}

static NcNativeApi api = {sizeof api, NC_NATIVEAPI_NAME, NULL, offer, offer_entry};
static PyType_Slot slots[] = {{Py_tp_call, (void *)(uintptr_t)call}, {0, NULL}};
static PyType_Spec heap = {TEXT(MODULE) ".Heap", 0, 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                           slots};
static PyType_Spec immutable = {TEXT(MODULE) ".Immutable", 0, 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE, slots};

/* Add a type with the attribute, which goes past the type: an immutable one has no setattr. */
static int add(PyObject *module, const char *name, PyType_Spec *spec)
{
    PyObject *type = PyType_FromSpec(spec);
    PyObject *dict = type != NULL ? PyObject_GenericGetDict(type, NULL) : NULL;
    PyObject *capsule = dict != NULL ? PyCapsule_New(&api, "nativecall_api_v1", NULL) : NULL;
    int status = -1;
    if (capsule != NULL && PyDict_SetItemString(dict, "__nativecall_api__", capsule) == 0) {
        PyType_Modified((PyTypeObject *)(void *)type);
        status = PyModule_AddObjectRef(module, name, type);
    }
    Py_XDECREF(capsule);
    Py_XDECREF(dict);
    Py_XDECREF(type);
    return status;
}

/* ---- the module ------------------------------------------------------------------------------ */

static PyMethodDef methods[] = {
    {"find", find, METH_VARARGS, NULL}, {"table", table, METH_VARARGS, NULL},
    {"ask", ask, METH_VARARGS, NULL},   {"slot", slot, METH_VARARGS, NULL},
    {"offers", offers, METH_O, NULL},   {NULL, NULL, 0, NULL},
};

static int fill(PyObject *module)
{
    return add(module, "Heap", &heap) < 0 ? -1 : add(module, "Immutable", &immutable);
}

#ifdef Py_TARGET_ABI3T
PyMODEXPORT_FUNC PASTE(PyModExport_, MODULE)(void)
{
    PyABIInfo_VAR(abi_info);
    static PySlot module_slots[] = {
        PySlot_STATIC_DATA(Py_mod_abi, &abi_info),    PySlot_STATIC_DATA(Py_mod_name, TEXT(MODULE)),
        PySlot_STATIC_DATA(Py_mod_methods, methods),  PySlot_FUNC(Py_mod_exec, fill),
        PySlot_DATA(Py_mod_gil, Py_MOD_GIL_NOT_USED), PySlot_END,
    };
    return module_slots;
}
#else
static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, (void *)(uintptr_t)fill}, {0, NULL}};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, TEXT(MODULE), NULL, 0, methods, module_slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PASTE(PyInit_, MODULE)(void)
{
    return PyModuleDef_Init(&definition);
}
#endif
