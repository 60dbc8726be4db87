/* tests/ext/consumer.c: a consumer: native code that finds what objects offer, by our headers, and
 * calls it. Functions are looked for in one of several ways:
 *
 *     offset slot                    nc_native_find, nc_native_find_by_slot
 *     function function_by_slot      nc_native_function, nc_native_function_by_slot
 *     words                          nc_native_function_packed, which agrees with ..._word
 *     next                           a loop with nc_native_next
 *     api                            nc_nativeapi_find
 *
 * Built against the installed headers and against vendored copies of them, as C99 and as C++11,
 * under several names: MODULE is the module's. */
#include "module.h"

#include <math.h>
#include <nativecall/callback.h>
#include <nativecall/customslots.h>
#include <nativecall/signature.h>
#include <nativecall/nativecallable.h>

static const char *interned_d_d; /* atomic: threads set and read it */
#define signature_d_d ((const char *)NC_ABI_LOAD(&interned_d_d))

/* Interns d:d as soon as there is a runtime. */
static int know_d_d(void)
{
    return signature_d_d == NULL ? nc_signature_intern("d:d", &interned_d_d) : 0;
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
static PyObject *find(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *object;
    PyObject *key;
    Py_ssize_t expected = 0;
    uintptr_t id = 0;
    if (!PyArg_ParseTuple(args, "OO|n", &object, &key, &expected) || read_key(key, &id) < 0) {
        return NULL;
    }
    return row_of(object, PyCustomSlots_Find(object, id, expected));
}

/* find_key(object, bytes) -> (position, id, flags, data) or None */
static PyObject *find_key(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *object;
    PyObject *key;
    uintptr_t id = 0;
    if (!PyArg_ParseTuple(args, "OS", &object, &key) || read_key(key, &id) < 0) {
        return NULL;
    }
    return row_of(object, PyCustomSlots_FindKey(object, (const char *)id));
}

/* table(object) -> [(position, id, flags, data)] or None when the object has no slots at all */
static PyObject *table(PyObject *Py_UNUSED(module), PyObject *object)
{
    PyObject *rows;
    Py_ssize_t i;
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
static PyObject *intern(PyObject *Py_UNUSED(module), PyObject *key)
{
    uintptr_t id = 0;
    return read_key(key, &id) < 0 ? NULL : PyLong_FromSize_t((size_t)id);
}

typedef struct {
    void *function;                     /* NULL: not found */
    const PyNativeCallableEntry *entry; /* NULL: the way gives none */
} Found;

/* Looks packed words up, without the GIL. 0, or -1 with an exception. */
static int look_words(PyObject *object, const uint64_t *words, size_t count, uintptr_t refuse,
                      Found *out)
{
    (void)PyCustomSlots_Import();
    Py_BEGIN_ALLOW_THREADS out->function = nc_native_function_packed(object, words, count, refuse);
    Py_END_ALLOW_THREADS if (count == 1 &&
                             nc_native_function_word(object, words[0], refuse) != out->function)
    {
        PyErr_SetString(PyExc_AssertionError, "a word and words of one find different functions");
        return -1;
    }
    return 0;
}

static int look_text(PyObject *object, const char *text, uintptr_t refuse, Found *out)
{
    uint64_t words[NC_PACKED_MAX_WORDS];
    size_t count = 0;
    int status = nc_signature_pack(text, strlen(text), 0, words, NC_PACKED_MAX_WORDS, &count);
    if (status != NC_OK) {
        PyErr_SetString(PyExc_AssertionError, nc_status_text(status));
        return -1;
    }
    return look_words(object, words, count, refuse, out);
}

/* Looks a signature up in one of the ways; NULL as it is. 0, or -1 with an exception. */
static int look(PyObject *object, const char *way, const char *text, uintptr_t refuse, Found *out)
{
    const char *signature = NULL;
    out->function = NULL;
    out->entry = NULL;
    if (text != NULL && nc_signature_intern(text, &signature) < 0) {
        return -1;
    }
    if (strcmp(way, "words") == 0) {
        return look_text(object, text, refuse, out);
    } else if (strcmp(way, "function") == 0) {
        out->function = nc_native_function(object, signature, refuse);
    } else if (strcmp(way, "function_by_slot") == 0) {
        out->function = nc_native_function_by_slot(object, signature, refuse);
    } else if (strcmp(way, "offset") == 0) {
        out->entry = nc_native_find(object, signature, refuse);
    } else if (strcmp(way, "slot") == 0) {
        out->entry = nc_native_find_by_slot(object, signature, refuse);
    } else if (strcmp(way, "next") == 0) {
        do {
            out->entry = nc_native_next(object, out->entry);
        } while (out->entry != NULL && (out->entry->signature != signature ||
                                        !nc_calltable_flags_suit(out->entry->flags, refuse)));
    } else if (strcmp(way, "api") == 0) {
        if (nc_nativeapi_find(object, text, refuse, &out->entry) < 0) {
            return -1;
        }
    } else {
        PyErr_Format(PyExc_AssertionError, "no way '%s'", way);
        return -1;
    }
    if (out->entry != NULL) {
        out->function = nc_calltable_funcptr(out->entry);
    }
    return 0;
}

/* look(object, way, signature, refuse) -> (flags, address), or None; flags are None where the way
 * does not tell them */
static PyObject *look_for(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *object;
    const char *way;
    const char *text;
    Py_ssize_t refuse = 0;
    Found found;
    if (!PyArg_ParseTuple(args, "Osz|n", &object, &way, &text, &refuse) ||
        look(object, way, text, (uintptr_t)refuse, &found) < 0) {
        return NULL;
    }
    if (found.function == NULL) {
        Py_RETURN_NONE;
    }
    return Py_BuildValue("(NN)",
                         found.entry != NULL ? PyLong_FromSize_t((size_t)found.entry->flags)
                                             : Py_NewRef(Py_None),
                         PyLong_FromVoidPtr(found.function));
}

/* entry(object, signature, refuse, by_slot) -> (flags, address), or None where no function is
 * found either; a signature that is None is looked up as NULL */
static PyObject *entry(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *object;
    const char *text;
    Py_ssize_t refuse = 0;
    int by_slot = 0;
    Found found;
    Found function;
    if (!PyArg_ParseTuple(args, "Oz|np", &object, &text, &refuse, &by_slot) ||
        look(object, by_slot ? "slot" : "offset", text, (uintptr_t)refuse, &found) < 0 ||
        look(object, by_slot ? "function_by_slot" : "function", text, (uintptr_t)refuse,
             &function) < 0) {
        return NULL;
    }
    if (found.function != function.function) {
        PyErr_SetString(PyExc_AssertionError, "an entry and a function are not the same");
        return NULL;
    }
    if (found.entry == NULL) {
        Py_RETURN_NONE;
    }
    return Py_BuildValue("(nN)", (Py_ssize_t)found.entry->flags,
                         PyLong_FromVoidPtr(found.function));
}

/* packed(object, words as bytes, refuse) -> the address of the function by packed signature, or
 * None */
static PyObject *packed(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *object;
    const char *bytes;
    Py_ssize_t length = 0;
    Py_ssize_t refuse = 0;
    uint64_t words[NC_PACKED_MAX_WORDS];
    Found found;
    if (!PyArg_ParseTuple(args, "Oy#|n", &object, &bytes, &length, &refuse)) {
        return NULL;
    }
    if (length <= 0 || (size_t)length > sizeof words) {
        PyErr_SetString(PyExc_AssertionError, "not packed words");
        return NULL;
    }
    memcpy(words, bytes, (size_t)length);
    if (look_words(object, words, (size_t)length / sizeof *words, (uintptr_t)refuse, &found) < 0) {
        return NULL;
    }
    if (found.function == NULL) {
        Py_RETURN_NONE;
    }
    return PyLong_FromVoidPtr(found.function);
}

/* entries(object) -> [(signature, flags, address)], by nc_native_next */
static PyObject *entries(PyObject *Py_UNUSED(module), PyObject *object)
{
    PyObject *list = PyList_New(0);
    const PyNativeCallableEntry *entry = NULL;
    while (list != NULL && (entry = nc_native_next(object, entry)) != NULL) {
        PyObject *row = Py_BuildValue("(snN)", entry->signature, (Py_ssize_t)entry->flags,
                                      PyLong_FromVoidPtr(nc_calltable_funcptr(entry)));
        if (row == NULL || PyList_Append(list, row) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(row);
    }
    return list;
}

/* total(object, x, n): f(x) + f(x + 1) + ... of n terms, found once and called with the GIL
 * released; through Python where there is no entry. -> (total, "native" or "python") */
static PyObject *total(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *object;
    double x;
    double sum = 0.0;
    Py_ssize_t i;
    Py_ssize_t n;
    const PyNativeCallableEntry *found;
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
static PyObject *lookups(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *object;
    Py_ssize_t n;
    Py_ssize_t i;
    Py_ssize_t good = 0;
    size_t one;
    size_t other;
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
static PyObject *metatype(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return Py_NewRef(PyCustomSlots_Import() ? (PyObject *)nc_metatype : Py_None);
}

static PyObject *runtime_provider(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return PyUnicode_FromString(PyCustomSlots_Import() ? nc_runtime->provider : "nobody");
}

/* ---- callbacks ------------------------------------------------------------------------------- */

static NcCallbackSignature accepted[] = {NC_CALLBACK_ACCEPT("double (double)"),
                                         NC_CALLBACK_ACCEPT_WITH_DATA("double (double, void *)")};

static double call(NcCallback *f, double x)
{
    NcCallbackCall python;
    double value = NAN;
    if (f->function != NULL) {
        return f->matched == 0
                   ? NC_CALLBACK_FUNCTION(f, double (*)(double))(x)
                   : NC_CALLBACK_FUNCTION(f, double (*)(double, void *))(x, f->user_data);
    }
    if (nc_callback_enter(f, &python)) {
        PyObject *result = PyObject_CallFunction(python.callable, "d", x);
        value = result != NULL ? PyFloat_AsDouble(result) : NAN;
        Py_XDECREF(result);
        (void)nc_callback_leave(&python);
    }
    return value;
}

/* integrate(object, x, n, options) -> (sum as total, native, matched), by callback.h */
static PyObject *integrate(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *obj;
    NcCallback f;
    double x;
    double sum = 0.0;
    unsigned options;
    int native;
    Py_ssize_t i;
    Py_ssize_t n;
    Py_ssize_t matched;
    PyThreadState *state = NULL;
    if (!PyArg_ParseTuple(args, "OdnI", &obj, &x, &n, &options) ||
        nc_callback_prepare(&f, obj, accepted, 2, options) < 0) {
        return NULL;
    }
    if ((options & NC_CALLBACK_HOLDS_GIL) == 0) {
        state = PyEval_SaveThread();
    }
    for (i = 0; i < n && !nc_callback_failed(&f); i++) {
        sum += call(&f, x + (double)i);
    }
    if (state != NULL) {
        PyEval_RestoreThread(state);
    }
    native = f.function != NULL;
    matched = (Py_ssize_t)f.matched;
    if (nc_callback_release(&f) < 0) {
        return NULL;
    }
    return Py_BuildValue("(dOn)", sum, native ? Py_True : Py_False, matched);
}

static PyMethodDef methods[] = {
    {"find", find, METH_VARARGS, NULL},
    {"find_key", find_key, METH_VARARGS, NULL},
    {"table", table, METH_O, NULL},
    {"intern", intern, METH_O, NULL},
    {"look", look_for, METH_VARARGS, NULL},
    {"entry", entry, METH_VARARGS, NULL},
    {"packed", packed, METH_VARARGS, NULL},
    {"entries", entries, METH_O, NULL},
    {"integrate", integrate, METH_VARARGS, NULL},
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
