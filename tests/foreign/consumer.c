/* tests/foreign/consumer.c: a minimal consumer, written from docs/abi alone.
 *
 *     find(obj, signature, refuse)    the address of the first entry that suits, or None
 *
 * It reads by offset and slot, through built-in views, and by __nativecall_api__. */
#include "abi.h"

#include <stdlib.h>

static const Runtime *runtime = NULL;

static inline const Slot *find_slot(const SlotTable *table, uintptr_t id)
{
    const Slot *rows = (const Slot *)(const void *)(table + 1);
    const Slot *row = rows + table->expected[id * EXPECTED >> 56];
    if (row->id != id) {
        uint64_t x = (uint64_t)id * table->multiplier;
        uint64_t f = ((x >> table->f_shift) | table->f_high) ^ table->cells[x >> table->g_shift];
        row = rows + table->cells[(intptr_t)f];
    }
    return row->id == id ? row : NULL;
}

/* Whether what a call in Python runs is what the call table comes with. */
static int is_called(PyTypeObject *type)
{
    PyTypeObject *base = type;
    if (Py_TYPE((PyObject *)type) == runtime->metatype) {
        return 1;
    }
#ifdef BROKEN_DERIVED
    return 0;
#endif
    while (base != NULL && (PyType_GetFlags(base) & Py_TPFLAGS_IMMUTABLETYPE) == 0) {
        base = base->tp_base;
    }
    return is_extensible(type, runtime->metatype) && base != NULL && base->tp_call == type->tp_call;
}

static const CallTable *call_table(PyObject *obj)
{
    Type *type = (Type *)(void *)Py_TYPE(obj);
    intptr_t offset;
    if (!is_called(Py_TYPE(obj))) {
        return NULL;
    }
    offset = LOAD(&type->offset);
#ifndef BROKEN_SLOT
    if (offset == 0) {
        const SlotTable *slots = LOAD(&type->slots);
        const Slot *row = slots != NULL ? find_slot(slots, NATIVECALLABLE) : NULL;
#ifdef BROKEN_CRASH
        if (slots == NULL) {
            abort(); /* a fault would be a report and a status under sanitizers */
        }
#endif
        offset = row != NULL ? row->data : 0;
    }
#endif
    return offset != 0 ? LOAD((CallTable **)(void *)((char *)obj + offset)) : NULL;
}

static PyObject *behind(PyObject *obj)
{
    PyCFunctionObject *function = (PyCFunctionObject *)(void *)obj;
    if (Py_TYPE(obj) == &PyCFunction_Type && function->m_self != NULL) {
#ifdef BROKEN_METHOD
        return function->m_self;
#elif !defined(BROKEN_VIEW)
        uintptr_t within = (uintptr_t)function->m_ml - (uintptr_t)function->m_self;
        if (within < (uintptr_t)Py_TYPE(function->m_self)->tp_basicsize) {
            return function->m_self;
        }
#endif
    }
    return obj;
}

static int suits(const Entry *entry, uintptr_t refuse)
{
#ifdef BROKEN_REFUSE
    refuse = 0;
#endif
#ifndef BROKEN_FLAGS
    refuse |= FLAGS_ABI_MASK;
#endif
    return (entry->flags & refuse) == 0;
}

/* ---- tier 2 ---------------------------------------------------------------------------------- */

/* The interface of a type: 0 with *out, or -1 with TypeError. */
static int api_of(PyTypeObject *type, const Api **out)
{
    Py_ssize_t i;
    *out = NULL;
    for (i = 0; i < PyTuple_GET_SIZE(type->tp_mro); i++) {
        PyTypeObject *base = (PyTypeObject *)(void *)PyTuple_GET_ITEM(type->tp_mro, i);
#if PY_VERSION_HEX >= 0x030C0000
        PyObject *dict = PyType_GetDict(base);
#else
        PyObject *dict = Py_XNewRef(base->tp_dict);
#endif
        PyObject *value = PyDict_GetItemString(dict, "__nativecall_api__");
        int overrides = PyDict_GetItemString(dict, "__call__") != NULL;
        Py_DECREF(dict); /* the type keeps it, and what is in it */
        if (value == Py_None) {
            return 0;
        }
        if (value != NULL) {
            const Api *api = PyCapsule_IsValid(value, "nativecall_api_v1")
                                 ? (const Api *)PyCapsule_GetPointer(value, "nativecall_api_v1")
                                 : NULL;
#ifdef BROKEN_API_SIZE
            if (api == NULL || api->name != API_NAME || api->find == NULL) {
#else
            if (api == NULL || api->size < sizeof(Api) || api->name != API_NAME ||
                api->find == NULL) {
#endif
                PyErr_SetString(PyExc_TypeError, "'__nativecall_api__' is no interface");
                return -1;
            }
            *out = api;
            return 0;
        }
        if (overrides) {
            return 0;
        }
    }
    return 0;
}

/* ---- the function ---------------------------------------------------------------------------- */

static PyObject *find(PyObject *module, PyObject *args)
{
    PyObject *obj;
    const char *text;
    const char *signature = NULL;
    unsigned long long given;
    uintptr_t refuse;
    const CallTable *table;
    const Api *api = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "OsK", &obj, &text, &given)) {
        return NULL;
    }
    refuse = (uintptr_t)given;
#ifndef BROKEN_API_VIEW
    obj = behind(obj);
#endif
#ifdef BROKEN_API_FIRST
    if (api_of(Py_TYPE(obj), &api) == 0 && api != NULL) {
        const Entry *entry = api->find(obj, text, refuse);
        int raised = PyErr_Occurred() != NULL;
        PyErr_Clear();
        if (!raised && entry != NULL && entry->signature != NULL && entry->function != NULL &&
            strcmp(entry->signature, text) == 0 && suits(entry, refuse)) {
            return PyLong_FromVoidPtr(entry->function);
        }
    }
    PyErr_Clear();
#endif
#ifndef BROKEN_LOOKS_ONCE
    if (runtime == NULL) {
        runtime = look_for_runtime();
    }
#endif
    if (runtime != NULL &&
        runtime->intern(runtime->registry, text, strlen(text), &signature) == 0 &&
        (table = call_table(behind(obj))) != NULL) {
        const Entry *entry;
        const char *found;
        for (entry = table->entries; (found = LOAD(&entry->signature)) != NULL; entry++) {
#ifdef BROKEN_BEGINNING
            if (strncmp(found, signature, strlen(signature)) == 0 && suits(entry, refuse)) {
#else
            if (found == signature && suits(entry, refuse)) {
#endif
                return PyLong_FromVoidPtr(LOAD(&entry->function));
            }
#ifdef BROKEN_FIRST
            break;
#endif
        }
    }
    if (api_of(Py_TYPE(obj), &api) < 0) {
        return NULL;
    }
    if (api != NULL) {
#ifdef BROKEN_API_REFUSE
        const Entry *entry = api->find(obj, text, 0);
#else
        const Entry *entry = api->find(obj, text, refuse);
#endif
#ifndef BROKEN_API_RAISES
        if (PyErr_Occurred()) {
            return NULL;
        }
#endif
#ifdef BROKEN_API_TRUST
        if (entry != NULL) {
#else
        if (entry != NULL && entry->signature != NULL && strcmp(entry->signature, text) == 0 &&
            suits(entry, refuse) && entry->function != NULL) {
#endif
            return PyLong_FromVoidPtr(entry->function);
        }
    }
#ifdef BROKEN_RAISES
    PyErr_SetString(PyExc_TypeError, "nothing native in it");
    return NULL;
#else
    Py_RETURN_NONE;
#endif
}

static PyMethodDef methods[] = {
    {"find", find, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, MODULE_NAME, NULL, -1, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC JOIN(PyInit_, MODULE)(void)
{
    runtime = look_for_runtime();
    return PyModule_Create(&definition);
}
