/* tests/ext/race.c: native threads that never hold the GIL find and call, through
 * nativecallable.h, what Python threads add to a callable and replace in it meanwhile.
 *
 * Function n of numbered.h is the one of entry n / GENERATIONS. So each thread sees whether what it
 * called is what it looked for, whether the flags are that entry's, and whether an entry that it
 * has found once is found again. Entries with NC_FLAG_NEEDS_GIL are looked up and never called.
 *
 * Also: all the lookups at once, for tests of what each of them refuses. */
#include "module.h"

#include <nativecall/extensibletype.h>
#include <nativecall/nativecallable.h>
#include <nativecall/detail/core/packedliteral.h>

#include <pythread.h>

#include "../c/numbered.h"

enum { THREADS = 8, GENERATIONS = 2, ENTRIES = NUMBERED_COUNT / GENERATIONS, MAX_WORDS = 5 };

#define FIRST_SIGNATURE "q:q&(1)b"

typedef struct {
    const char *interned;
    uint64_t words[MAX_WORDS];
    size_t count;
    uintptr_t flags;
} Signature;

enum {
    FIND,
    FIND_BY_SLOT,
    FUNCTION,
    FUNCTION_BY_SLOT,
    FUNCTION_PACKED,
    FUNCTION_WORD, /* signatures of one word; a constant for the first one */
    LOOKUPS
};

typedef struct {
    size_t lookups, calls, first, misses, refused, passes;
    size_t wrong, lost; /* what must not be */
    uint64_t state;
    unsigned char seen[2][ENTRIES]; /* by table: an entry comes to one after the other */
} Reader;

static Signature signatures[ENTRIES];
static size_t signature_count;
static PyObject *targets[2]; /* the callable and its view, or the callable twice */
static Reader readers[THREADS];
static size_t quota;
static size_t running;         /* under the lock: threads that have not ended */
static size_t stopped;         /* atomic */
static size_t wanted[THREADS]; /* atomic: an entry that a reader missed, plus 1; or 0 */
static NcMutex lock;

static uint64_t next_random(uint64_t *state)
{
    uint64_t x = *state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return *state = x;
}

/* What a lookup gives: the function, and the entry where the lookup says it. */
static void *find(PyObject *object, const Signature *signature, uintptr_t refuse, int lookup,
                  const PyNativeCallableEntry **entry)
{
    *entry = NULL;
    switch (lookup) {
    case FIND:
        *entry = nc_native_find(object, signature->interned, refuse);
        return *entry != NULL ? nc_calltable_funcptr(*entry) : NULL;
    case FIND_BY_SLOT:
        *entry = nc_native_find_by_slot(object, signature->interned, refuse);
        return *entry != NULL ? nc_calltable_funcptr(*entry) : NULL;
    case FUNCTION:
        return nc_native_function(object, signature->interned, refuse);
    case FUNCTION_BY_SLOT:
        return nc_native_function_by_slot(object, signature->interned, refuse);
    case FUNCTION_WORD:
        if (signature->words[0] == NATIVECALL_SIG(FIRST_SIGNATURE)) {
            return nc_native_function_word(object, NATIVECALL_SIG(FIRST_SIGNATURE), refuse);
        }
        if (signature->count == 1) {
            return nc_native_function_word(object, signature->words[0], refuse);
        }
        break;
    default:
        break;
    }
    return nc_native_function_packed(object, signature->words, signature->count, refuse);
}

/* ---- the race -------------------------------------------------------------------------------- */

/* The entry that a function belongs to; it is called, unless that needs the GIL. */
static size_t entry_of(Reader *reader, void *function, uintptr_t flags)
{
    const int64_t argument = (int64_t)(reader->state & 0xFFFFFF);
    size_t n;
    if ((flags & NC_FLAG_NEEDS_GIL) == 0) {
        reader->calls++;
        n = (size_t)(((NumberedFunction)(uintptr_t)function)(argument, NULL) - argument);
        return n / GENERATIONS;
    }
    for (n = 0; n < NUMBERED_COUNT && (void *)(uintptr_t)numbered[n] != function; n++) {
    }
    return n / GENERATIONS;
}

static void look(Reader *reader, size_t *wants)
{
    const uint64_t dice = next_random(&reader->state);
    const size_t i = dice & 3 ? (size_t)(dice >> 32) % signature_count : 0;
    const uintptr_t refuse = dice & 4 ? NC_FLAG_NEEDS_GIL : 0;
    const Signature *signature = &signatures[i];
    const PyNativeCallableEntry *entry;
    const int lookup = (int)((dice >> 4 & 0xFFFF) % LOOKUPS);
    unsigned char *seen = &reader->seen[lookup >= FUNCTION_PACKED][i];
    void *function = find(targets[dice >> 3 & 1], signature, refuse, lookup, &entry);
    reader->lookups++;
    if (function == NULL) {
        if ((signature->flags & refuse) != 0) {
            reader->refused++;
        } else {
            reader->misses++;
            reader->lost += *seen;
            nc_store_relaxed_size(wants, i + 1);
        }
        return;
    }
    reader->first += i == 0;
    *seen = 1;
    reader->wrong +=
        (signature->flags & refuse) != 0 || entry_of(reader, function, signature->flags) != i ||
        (entry != NULL &&
         (entry->flags != signature->flags || entry->signature != signature->interned));
}

/* Passes over all entries. */
static void pass(Reader *reader)
{
    PyObject *target = targets[reader->state & 1];
    const PyNativeCallableEntry *entry = NULL;
    while ((entry = nc_native_next(target, entry)) != NULL) {
        const size_t i = entry_of(reader, nc_calltable_funcptr(entry), entry->flags);
        reader->wrong += i >= signature_count || signatures[i].interned != entry->signature ||
                         signatures[i].flags != entry->flags;
    }
    reader->passes++;
}

static void read_on(void *argument)
{
    Reader *reader = (Reader *)argument;
    size_t *wants = &wanted[reader - readers];
    while (reader->lookups < quota || nc_load_acquire_size(&stopped) == 0) {
        look(reader, wants);
        if (reader->lookups % 1024 == 0) {
            pass(reader);
        }
    }
    nc_mutex_lock(&lock);
    running--;
    nc_mutex_unlock(&lock);
}

static size_t threads_running(void)
{
    size_t count;
    nc_mutex_lock(&lock);
    count = running;
    nc_mutex_unlock(&lock);
    return count;
}

/* declare([(text, flags)]): the signatures that other functions name by number. */
static PyObject *declare(PyObject *Py_UNUSED(module), PyObject *list)
{
    Py_ssize_t i;
    if (!PyList_Check(list) || PyList_GET_SIZE(list) > ENTRIES || threads_running() != 0) {
        PyErr_SetString(PyExc_ValueError, "not a list, too long, or threads are running");
        return NULL;
    }
    for (i = 0; i < PyList_GET_SIZE(list); i++) {
        Signature *signature = &signatures[i];
        const char *text;
        Py_ssize_t flags;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(list, i), "sn", &text, &flags) ||
            nc_signature_intern(text, &signature->interned) < 0) {
            return NULL;
        }
        signature->flags = (uintptr_t)flags;
        if (nc_signature_pack(text, strlen(text), 0, signature->words, MAX_WORDS,
                              &signature->count) != NC_OK) {
            PyErr_Format(PyExc_ValueError, "'%s' is malformed or too long", text);
            return NULL;
        }
    }
    signature_count = (size_t)PyList_GET_SIZE(list);
    Py_RETURN_NONE;
}

/* start(callable, view, lookups): starts the threads. Each makes its share of the lookups, and goes
 * on until stop(). */
static PyObject *start(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *callable;
    PyObject *view;
    Py_ssize_t lookups;
    size_t i;
    if (!PyArg_ParseTuple(args, "OOn", &callable, &view, &lookups)) {
        return NULL;
    }
    if (signature_count == 0 || threads_running() != 0) {
        PyErr_SetString(PyExc_ValueError, "no signatures, or threads are running");
        return NULL;
    }
    Py_XSETREF(targets[0], Py_NewRef(callable));
    Py_XSETREF(targets[1], Py_NewRef(view));
    memset(readers, 0, sizeof readers);
    memset(wanted, 0, sizeof wanted);
    quota = (size_t)lookups / THREADS + 1;
    nc_store_release_size(&stopped, 0);
    running = THREADS;
    for (i = 0; i < THREADS; i++) {
        readers[i].state = i + 1;
        if (PyThread_start_new_thread(read_on, &readers[i]) == PYTHREAD_INVALID_THREAD_ID) {
            nc_mutex_lock(&lock);
            running -= THREADS - i;
            nc_mutex_unlock(&lock);
            nc_store_release_size(&stopped, 1);
            PyErr_SetString(PyExc_RuntimeError, "cannot start a thread");
            return NULL;
        }
    }
    Py_RETURN_NONE;
}

/* wish() -> the number of a signature that a thread did not find, or None */
static PyObject *wish(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    size_t i;
    for (i = 0; i < THREADS; i++) {
        const size_t found = nc_load_relaxed_size(&wanted[i]);
        if (found != 0) {
            nc_store_relaxed_size(&wanted[i], 0);
            return PyLong_FromSize_t(found - 1);
        }
    }
    Py_RETURN_NONE;
}

/* stop(): lets the threads end; alive() -> how many have not. */
static PyObject *stop(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    nc_store_release_size(&stopped, 1);
    Py_RETURN_NONE;
}

static PyObject *alive(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return PyLong_FromSize_t(threads_running());
}

/* result() -> totals of all threads by name, after the last one has ended; drops the callable. */
static PyObject *result(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    Reader total;
    size_t i;
    if (threads_running() != 0) {
        PyErr_SetString(PyExc_RuntimeError, "threads are running");
        return NULL;
    }
    memset(&total, 0, sizeof total);
    for (i = 0; i < THREADS; i++) {
        total.lookups += readers[i].lookups;
        total.calls += readers[i].calls;
        total.first += readers[i].first;
        total.misses += readers[i].misses;
        total.refused += readers[i].refused;
        total.passes += readers[i].passes;
        total.wrong += readers[i].wrong;
        total.lost += readers[i].lost;
    }
    Py_CLEAR(targets[0]);
    Py_CLEAR(targets[1]);
    return Py_BuildValue("{snsnsnsnsnsnsnsn}", "lookups", (Py_ssize_t)total.lookups, "calls",
                         (Py_ssize_t)total.calls, "first", (Py_ssize_t)total.first, "misses",
                         (Py_ssize_t)total.misses, "refused", (Py_ssize_t)total.refused, "passes",
                         (Py_ssize_t)total.passes, "wrong", (Py_ssize_t)total.wrong, "lost",
                         (Py_ssize_t)total.lost);
}

/* ---- single lookups -------------------------------------------------------------------------- */

/* address(n) -> of function n */
static PyObject *address(PyObject *Py_UNUSED(module), PyObject *number)
{
    const size_t n = PyLong_AsSize_t(number);
    if (PyErr_Occurred()) {
        return NULL;
    }
    if (n >= NUMBERED_COUNT) {
        PyErr_SetString(PyExc_IndexError, "no such function");
        return NULL;
    }
    return PyLong_FromVoidPtr((void *)(uintptr_t)numbered[n]);
}

/* lookups(object, number, refuse) -> {lookup: address of what it finds, or None} */
static PyObject *lookups(PyObject *Py_UNUSED(module), PyObject *args)
{
    static const char *const names[LOOKUPS] = {"nc_native_find",
                                               "nc_native_find_by_slot",
                                               "nc_native_function",
                                               "nc_native_function_by_slot",
                                               "nc_native_function_packed",
                                               "nc_native_function_word"};
    PyObject *object;
    PyObject *found;
    Py_ssize_t number;
    Py_ssize_t refuse;
    int lookup;
    if (!PyArg_ParseTuple(args, "Onn", &object, &number, &refuse)) {
        return NULL;
    }
    if (number < 0 || (size_t)number >= signature_count) {
        PyErr_SetString(PyExc_IndexError, "no such signature");
        return NULL;
    }
    found = PyDict_New();
    for (lookup = 0; found != NULL && lookup < LOOKUPS; lookup++) {
        const PyNativeCallableEntry *entry;
        void *function = find(object, &signatures[number], (uintptr_t)refuse, lookup, &entry);
        PyObject *value = function != NULL ? PyLong_FromVoidPtr(function) : Py_NewRef(Py_None);
        if (value == NULL || PyDict_SetItemString(found, names[lookup], value) < 0) {
            Py_CLEAR(found);
        }
        Py_XDECREF(value);
    }
    return found;
}

static PyMethodDef methods[] = {
    {"declare", declare, METH_O, NULL},
    {"start", start, METH_VARARGS, NULL},
    {"wish", wish, METH_NOARGS, NULL},
    {"stop", stop, METH_NOARGS, NULL},
    {"alive", alive, METH_NOARGS, NULL},
    {"result", result, METH_NOARGS, NULL},
    {"address", address, METH_O, NULL},
    {"lookups", lookups, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = MODULE_DEFINITION(methods);

PyMODINIT_FUNC MODULE_INIT(void)
{
    PyObject *module = NULL;
    if (PyCustomSlots_Import() < 0) {
        return NULL;
    }
    if (nc_mutex_init(&lock) == NC_OK) {
        module = PyModule_Create(&definition);
    }
    if (module != NULL && (PyModule_AddIntMacro(module, GENERATIONS) < 0 ||
                           PyModule_AddIntMacro(module, ENTRIES) < 0)) {
        Py_CLEAR(module);
    }
    return module;
}
