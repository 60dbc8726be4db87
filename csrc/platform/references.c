/* csrc/platform/references.c: implements references.h with a table for each thread, which ends with
 * the thread state. */
#include "references.h"

#if defined(Py_GIL_DISABLED)

enum { BITS = 7, PLACES = 1 << BITS, MOST = 64 };

typedef struct {
    PyObject *dict;
    PyObject *key;
    PyObject *value;
} Found;

typedef struct {
    PyObject *object;
    size_t count; /* references to it */
} Saved;

typedef struct {
    Found found[PLACES];
    Saved saved[PLACES];
} Table;

static NC_THREAD_LOCAL Table *table;

static size_t place_of(const void *object)
{
    return (size_t)((uint64_t)(uintptr_t)object * 0x9E3779B97F4A7C15u >> (64 - BITS));
}

static void drop(PyObject *object, size_t count)
{
    while (count-- > 0) {
        Py_DECREF(object);
    }
}

static void forget(const Found *found)
{
    Py_XDECREF(found->dict);
    Py_XDECREF(found->key);
    Py_XDECREF(found->value);
}

static void end_table(PyObject *capsule)
{
    Table *ended = (Table *)PyCapsule_GetPointer(capsule, NULL);
    table = table == ended ? NULL : table;
    for (size_t i = 0; i < PLACES; i++) {
        forget(&ended->found[i]);
        drop(ended->saved[i].object, ended->saved[i].count);
    }
    PyMem_RawFree(ended);
}

/* Makes this thread's table, unless memory is short. The thread state's dict owns it. */
NC_NOINLINE void make_table(void)
{
    PyObject *owner = PyThreadState_GetDict();
    Table *made = owner != NULL ? (Table *)PyMem_RawCalloc(1, sizeof(Table)) : NULL;
    PyObject *capsule = made != NULL ? PyCapsule_New(made, NULL, end_table) : NULL;
    if (capsule == NULL) {
        PyMem_RawFree(made);
    } else if (PyDict_SetItemString(owner, "nativecall.shared", capsule) == 0) {
        table = made;
    }
    Py_XDECREF(capsule);
    PyErr_Clear();
}

PyObject *nc_shared_get(PyObject *dict, PyObject *key)
{
    if (NC_UNLIKELY(table == NULL)) {
        make_table();
    }
    Found *found = table != NULL ? &table->found[place_of(key)] : NULL;
    if (NC_LIKELY(found != NULL && found->key == key && found->dict == dict)) {
        return nc_shared_ref(found->value);
    }
    PyObject *value = nc_dict_get(dict, key); /* may run Python code, which may use the table */
    if (value != NULL && found != NULL) {
        const Found before = *found;
        *found = (Found){Py_NewRef(dict), Py_NewRef(key), Py_NewRef(value)};
        forget(&before);
    }
    return value;
}

void *nc_shared_ref(void *object)
{
    Saved *place = table != NULL ? &table->saved[place_of(object)] : NULL;
    if (place == NULL || place->object != object) {
        return Py_NewRef((PyObject *)object);
    }
    if (NC_UNLIKELY(place->count == 0)) { /* take many at once */
        for (; place->count < MOST / 2; place->count++) {
            Py_INCREF((PyObject *)object);
        }
    }
    place->count--;
    return object;
}

void nc_shared_drop(void *object)
{
    Saved *place = table != NULL && object != NULL ? &table->saved[place_of(object)] : NULL;
    if (place == NULL) {
        Py_XDECREF((PyObject *)object);
        return;
    }
    if (place->object != object) {
        const Saved before = *place;
        *place = (Saved){(PyObject *)object, 0};
        drop(before.object, before.count);
    }
    if (++place->count > MOST) {
        place->count -= MOST / 2;
        drop((PyObject *)object, MOST / 2);
    }
}

#endif
