/* tests/ext/consumer.c: a consumer: native code that finds what objects offer, by our headers.
 *
 * Built against the installed headers and against vendored copies of them, as C99 and as C++11,
 * under several names: MODULE is the module's. */
#include "module.h"

#include <nativecall/customslots.h>
#include <nativecall/nativecallable.h>

static const char *signature_d_d;

/* Interns d:d as soon as there is a runtime. */
static int know_d_d(void)
{
    return signature_d_d == NULL ? nc_signature_intern("d:d", &signature_d_d) : 0;
}

/* key(int or bytes) -> the key as a word. */
static int read_key(PyObject *object, uintptr_t *out)
{
    if (PyBytes_Check(object)) {
        const char *interned = NULL;
        if (nc_key_intern(PyBytes_AS_STRING(object), (size_t)PyBytes_GET_SIZE(object), &interned) <
            0) {
            return -1;
        }
        *out = (uintptr_t)(const void *)interned;
        return 0;
    }
    *out = (uintptr_t)PyLong_AsSize_t(object);
    /* What interns a key makes the handshake, without which nothing is found. */
    return PyErr_Occurred() ? -1 : know_d_d();
}

static PyObject *row_of(PyObject *object, const PyCustomSlot *slot)
{
    if (slot == NULL) {
        Py_RETURN_NONE;
    }
    return Py_BuildValue("(nKKK)", (Py_ssize_t)(slot - PyCustomSlots_Table(object)),
                         (unsigned long long)slot->id, (unsigned long long)slot->flags,
                         (unsigned long long)(uintptr_t)slot->data.pointer);
}

/* find(object, key, expected position) -> (position, id, flags, data) or None */
static PyObject *find(PyObject *module, PyObject *args)
{
    PyObject *object;
    PyObject *key;
    Py_ssize_t expected = 0;
    uintptr_t id = 0;
    (void)module;
    if (!PyArg_ParseTuple(args, "OO|n", &object, &key, &expected) || read_key(key, &id) < 0) {
        return NULL;
    }
    return row_of(object, PyCustomSlots_Find(object, id, expected));
}

/* find_key(object, bytes) -> (position, id, flags, data) or None */
static PyObject *find_key(PyObject *module, PyObject *args)
{
    PyObject *object;
    PyObject *key;
    uintptr_t id = 0;
    (void)module;
    if (!PyArg_ParseTuple(args, "OS", &object, &key) || read_key(key, &id) < 0) {
        return NULL;
    }
    return row_of(object, PyCustomSlots_FindKey(object, (const char *)id));
}

/* table(object) -> [(position, id, flags, data)] or None when the object has no slots at all */
static PyObject *table(PyObject *module, PyObject *object)
{
    PyObject *rows;
    Py_ssize_t i;
    (void)module;
    (void)PyCustomSlots_Import();
    if (!PyCustomSlots_Check(object)) {
        if (PyCustomSlots_Count(object) != 0 || PyCustomSlots_Table(object) != NULL) {
            PyErr_SetString(PyExc_AssertionError, "Check says no slots, Count and Table say some");
            return NULL;
        }
        Py_RETURN_NONE;
    }
    rows = PyList_New(0);
    for (i = 0; rows != NULL && i < PyCustomSlots_Count(object); i++) {
        PyObject *row = row_of(object, PyCustomSlots_Table(object) + i);
        if (row == NULL || PyList_Append(rows, row) < 0) {
            Py_CLEAR(rows);
        }
        Py_XDECREF(row);
    }
    return rows;
}

/* intern(bytes) -> address */
static PyObject *intern(PyObject *module, PyObject *key)
{
    uintptr_t id = 0;
    (void)module;
    return read_key(key, &id) < 0 ? NULL : PyLong_FromSize_t((size_t)id);
}

/* entry(object, signature, refuse, by_slot) -> (flags, address) or None; a signature that is None
 * is looked up as NULL */
static PyObject *entry(PyObject *module, PyObject *args)
{
    PyObject *object;
    const char *text;
    const char *signature = NULL;
    Py_ssize_t refuse = 0;
    int by_slot = 0;
    const PyNativeCallableEntry *found;
    (void)module;
    if (!PyArg_ParseTuple(args, "Oz|np", &object, &text, &refuse, &by_slot) ||
        (text != NULL && nc_signature_intern(text, &signature) < 0)) {
        return NULL;
    }
    found = by_slot ? nc_native_find_by_slot(object, signature, (uintptr_t)refuse)
                    : nc_native_find(object, signature, (uintptr_t)refuse);
    if (found == NULL) {
        void *function = by_slot ? nc_native_function_by_slot(object, signature, (uintptr_t)refuse)
                                 : nc_native_function(object, signature, (uintptr_t)refuse);
        if (function != NULL) {
            PyErr_SetString(PyExc_AssertionError, "a function is found, and no entry");
            return NULL;
        }
        Py_RETURN_NONE;
    }
    return Py_BuildValue("(nN)", (Py_ssize_t)found->flags,
                         PyLong_FromVoidPtr(nc_calltable_funcptr(found)));
}

/* packed(object, words as bytes, refuse) -> the address of the function by packed signature, or
 * None: of a signature of one word, by nc_native_function_word too, which must agree. */
static PyObject *packed(PyObject *module, PyObject *args)
{
    PyObject *object;
    const char *bytes;
    Py_ssize_t length = 0;
    Py_ssize_t refuse = 0;
    uint64_t words[NC_PACKED_MAX_WORDS];
    void *found;
    (void)module;
    if (!PyArg_ParseTuple(args, "Oy#|n", &object, &bytes, &length, &refuse)) {
        return NULL;
    }
    if (length <= 0 || (size_t)length > sizeof words) {
        PyErr_SetString(PyExc_AssertionError, "not packed words");
        return NULL;
    }
    memcpy(words, bytes, (size_t)length);
    (void)PyCustomSlots_Import();
    Py_BEGIN_ALLOW_THREADS found =
        nc_native_function_packed(object, words, (size_t)length / sizeof *words, (uintptr_t)refuse);
    Py_END_ALLOW_THREADS if (length == sizeof *words &&
                             nc_native_function_word(object, words[0], (uintptr_t)refuse) != found)
    {
        PyErr_SetString(PyExc_AssertionError, "a word and words of one find different functions");
        return NULL;
    }
    if (found == NULL) {
        Py_RETURN_NONE;
    }
    return PyLong_FromVoidPtr(found);
}

/* total(object, x, n): f(x) + f(x + 1) + ... of n terms, found once and called with the GIL
 * released; through Python where there is no entry. -> (total, "native" or "python") */
static PyObject *total(PyObject *module, PyObject *args)
{
    PyObject *object;
    double x;
    double sum = 0.0;
    Py_ssize_t i;
    Py_ssize_t n;
    const PyNativeCallableEntry *found;
    (void)module;
    if (!PyArg_ParseTuple(args, "Odn", &object, &x, &n) || know_d_d() < 0) {
        return NULL;
    }
    found = nc_native_find(object, signature_d_d, NC_FLAG_NEEDS_GIL);
    if (found != NULL) {
        double (*function)(double) = (double (*)(double))(uintptr_t)nc_calltable_funcptr(found);
        Py_BEGIN_ALLOW_THREADS for (i = 0; i < n; i++)
        {
            sum += function(x + (double)i);
        }
        Py_END_ALLOW_THREADS return Py_BuildValue("(ds)", sum, "native");
    }
    for (i = 0; i < n; i++) {
        PyObject *value = PyObject_CallFunction(object, "d", x + (double)i);
        if (value == NULL) {
            return NULL;
        }
        sum += PyFloat_AsDouble(value);
        Py_DECREF(value);
        if (PyErr_Occurred()) {
            return NULL;
        }
    }
    return Py_BuildValue("(ds)", sum, "python");
}

/* lookups(object, n): how many of n lookups without the GIL found an entry whose pointer is one of
 * two addresses; for the race with writers. */
static PyObject *lookups(PyObject *module, PyObject *args)
{
    PyObject *object;
    Py_ssize_t n;
    Py_ssize_t i;
    Py_ssize_t good = 0;
    size_t one;
    size_t other;
    (void)module;
    if (!PyArg_ParseTuple(args, "Onnn", &object, &n, &one, &other) || know_d_d() < 0) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS for (i = 0; i < n; i++)
    {
        const PyNativeCallableEntry *found =
            nc_native_find(object, signature_d_d, NC_FLAG_NEEDS_GIL);
        if (found != NULL) {
            size_t address = (size_t)(uintptr_t)nc_calltable_funcptr(found);
            good += address == one || address == other;
        }
    }
    Py_END_ALLOW_THREADS return PyLong_FromSsize_t(good);
}

/* metatype() -> the metaclass this module agreed on; provider() -> who made the runtime */
static PyObject *metatype(PyObject *module, PyObject *none)
{
    (void)module;
    (void)none;
    return Py_NewRef(PyCustomSlots_Import() ? (PyObject *)nc_metatype : Py_None);
}

static PyObject *runtime_provider(PyObject *module, PyObject *none)
{
    (void)module;
    (void)none;
    return PyUnicode_FromString(PyCustomSlots_Import() ? nc_runtime->provider : "nobody");
}

static PyMethodDef methods[] = {
    {"find", find, METH_VARARGS, NULL},
    {"find_key", find_key, METH_VARARGS, NULL},
    {"table", table, METH_O, NULL},
    {"intern", intern, METH_O, NULL},
    {"entry", entry, METH_VARARGS, NULL},
    {"packed", packed, METH_VARARGS, NULL},
    {"total", total, METH_VARARGS, NULL},
    {"lookups", lookups, METH_VARARGS, NULL},
    {"metatype", metatype, METH_NOARGS, NULL},
    {"runtime_provider", runtime_provider, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = MODULE_DEFINITION(methods);

PyMODINIT_FUNC MODULE_INIT(void)
{
    PyObject *module;
    module = PyModule_Create(&definition);
    if (module != NULL &&
        PyModule_AddIntConstant(module, "NEEDS_GIL", (long)NC_FLAG_NEEDS_GIL) < 0) {
        Py_CLEAR(module);
    }
    return module;
}
