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
static NC_THREAD_LOCAL uint64_t ended_in; /* the number of the thread state of the last table */

static size_t place_of(const void *object)
{
    return (size_t)((uint64_t)(uintptr_t)object * 0x9E3779B97F4A7C15u >> (64 - BITS));
}

/* A place has a second one, so that two objects in use do not replace each other all the time. */
#define OTHER(places, place) (&(places)[((place) - (places)) ^ 1])

/* Returns the place of an object, or its first place if it has none. */
static Saved *saved(const void *object)
{
    Saved *first = &table->saved[place_of(object)];
    Saved *second = OTHER(table->saved, first);
    return second->object == object ? second : first;
}

static void drop(PyObject *object, size_t count)
{
    while (count-- > 0) {
        Py_DECREF(object);
    }
}

static int is_found(const Found *found, const PyObject *dict, const PyObject *key)
{
    return found->key == key && found->dict == dict;
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
    if (table == ended) { /* else another thread clears the state */
        table = NULL;
        ended_in = PyThreadState_GetID(PyThreadState_Get());
    }
    for (size_t i = 0; i < PLACES; i++) {
        forget(&ended->found[i]);
        drop(ended->saved[i].object, ended->saved[i].count);
    }
    PyMem_RawFree(ended);
}

/* Makes this thread's table, unless memory is short. The thread state's dict owns it. CPython
 * clears that dict before other parts of the state, whose finalizers may run code of ours. Another
 * dict would never be cleared. */
NC_NOINLINE void make_table(void)
{
    if (ended_in == PyThreadState_GetID(PyThreadState_Get())) {
        return;
    }
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
    Found *other = table != NULL ? OTHER(table->found, found) : NULL;
    if (NC_LIKELY(found != NULL && is_found(found, dict, key))) {
        return nc_shared_ref(found->value);
    }
    if (other != NULL && is_found(other, dict, key)) {
        return nc_shared_ref(other->value);
    }
    PyObject *value = nc_dict_get(dict, key); /* may run Python code, which may use the table */
    if (value != NULL && found != NULL) {
        const Found before = *other;
        *other = *found;
        *found = (Found){Py_NewRef(dict), Py_NewRef(key), Py_NewRef(value)};
        forget(&before);
    }
    return value;
}

void *nc_shared_ref(void *object)
{
    if (NC_UNLIKELY(table == NULL)) {
        make_table();
    }
    Saved *place = table != NULL ? saved(object) : NULL;
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
    Saved *place = table != NULL && object != NULL ? saved(object) : NULL;
    if (place == NULL) {
        Py_XDECREF((PyObject *)object);
        return;
    }
    if (place->object != object) {
        Saved *other = OTHER(table->saved, place);
        const Saved before = *other;
        *other = *place;
        *place = (Saved){(PyObject *)object, 1};
        drop(before.object, before.count); /* may run Python code */
    } else if (++place->count > MOST) {
        place->count -= MOST / 2;
        drop((PyObject *)object, MOST / 2);
    }
}

#endif
