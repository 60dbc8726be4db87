/* tests/ext/conformance_consumer.c: a consumer of the conformance matrix, by the headers.
 * conformance_consumer.pyx is the same in Cython; both have these functions, where `way` is one of
 *
 *     offset slot                    nc_native_find, nc_native_find_by_slot
 *     function function_by_slot      nc_native_function, nc_native_function_by_slot
 *     word words                     nc_native_function_word, nc_native_function_packed
 *     next                           a loop with nc_native_next
 *     api                            nc_nativeapi_find
 *
 *     metatype()                          the metaclass that this module agreed on
 *     find(obj, way, signature, refuse)   (flags, address) or None; flags are None where not told
 *     entries(obj)                        [(signature, flags, address)] by nc_native_next
 *     total(obj, way, x, n)               f(x) + f(x + 1) + ... without the GIL, or None
 *     total16(obj, way, x, n)             the same of f(x, x, ... 16 times)
 *     negated(obj, way, x)                f(x) for integers, with the GIL, or None
 *     integrate(obj, x, n, options)       (sum as total, native, matched) by callback.h
 *     hold(obj), call_held(x), let_go()   prepare, call, release
 *
 * Built as C99 and as C++11, against installed headers and a vendored copy; MODULE is the module's
 * name. */
#include "module.h"

#include <math.h>
#include <nativecall/callback.h>
#include <nativecall/detail/core/packedliteral.h>

#define SIGNATURE16 "d:dddddddddddddddd"

typedef double (*Function1)(double);
typedef double (*Function16)(double, double, double, double, double, double, double, double, double,
                             double, double, double, double, double, double, double);

typedef struct {
    void *function;                     /* NULL: not found */
    const PyNativeCallableEntry *entry; /* NULL: the way gives none */
} Found;

/* The packed word of a signature, as a literal in the code. */
static int literal(const char *signature, uint64_t *word)
{
    static const struct {
        const char *text;
        uint64_t word;
    } literals[] = {{"d:d", NATIVECALL_SIG("d:d")},   {"q:q", NATIVECALL_SIG("q:q")},
                    {"i:i", NATIVECALL_SIG("i:i")},   {"f:f", NATIVECALL_SIG("f:f")},
                    {"d:dd", NATIVECALL_SIG("d:dd")}, {"v:", NATIVECALL_SIG("v:")}};
    size_t i;
    for (i = 0; i < sizeof literals / sizeof literals[0]; i++) {
        if (strcmp(literals[i].text, signature) == 0) {
            *word = literals[i].word;
            return 0;
        }
    }
    PyErr_Format(PyExc_AssertionError, "no literal for '%s'", signature);
    return -1;
}

/* Looks a signature up in one of the ways. 0, or -1 with an exception. */
static int look(PyObject *obj, const char *way, const char *signature, uintptr_t refuse, Found *out)
{
    const char *interned = NULL;
    out->function = NULL;
    out->entry = NULL;
    if (nc_signature_intern(signature, &interned) < 0) {
        return -1;
    }
    if (strcmp(way, "offset") == 0) {
        out->entry = nc_native_find(obj, interned, refuse);
    } else if (strcmp(way, "slot") == 0) {
        out->entry = nc_native_find_by_slot(obj, interned, refuse);
    } else if (strcmp(way, "next") == 0) {
        do {
            out->entry = nc_native_next(obj, out->entry);
        } while (out->entry != NULL && (out->entry->signature != interned ||
                                        !nc_calltable_flags_suit(out->entry->flags, refuse)));
    } else if (strcmp(way, "api") == 0) {
        if (nc_nativeapi_find(obj, signature, refuse, &out->entry) < 0) {
            return -1;
        }
    } else if (strcmp(way, "function") == 0) {
        out->function = nc_native_function(obj, interned, refuse);
    } else if (strcmp(way, "function_by_slot") == 0) {
        out->function = nc_native_function_by_slot(obj, interned, refuse);
    } else if (strcmp(way, "word") == 0) {
        uint64_t word = 0;
        if (literal(signature, &word) < 0) {
            return -1;
        }
        out->function = nc_native_function_word(obj, word, refuse);
    } else if (strcmp(way, "words") == 0) {
        uint64_t words[NC_PACKED_MAX_WORDS];
        size_t count = 0;
        int status =
            nc_signature_pack(signature, strlen(signature), 0, words, NC_PACKED_MAX_WORDS, &count);
        if (status != NC_OK) {
            PyErr_SetString(PyExc_AssertionError, nc_status_text(status));
            return -1;
        }
        out->function = nc_native_function_packed(obj, words, count, refuse);
    } else {
        PyErr_Format(PyExc_AssertionError, "no way '%s'", way);
        return -1;
    }
    if (out->entry != NULL) {
        out->function = nc_calltable_funcptr(out->entry);
    }
    return 0;
}

static PyObject *metatype(PyObject *module, PyObject *none)
{
    (void)module;
    (void)none;
    return Py_NewRef(PyCustomSlots_Import() ? (PyObject *)nc_metatype : Py_None);
}

static PyObject *find(PyObject *module, PyObject *args)
{
    PyObject *obj;
    const char *way;
    const char *signature;
    Py_ssize_t refuse;
    Found found;
    (void)module;
    if (!PyArg_ParseTuple(args, "Ossn", &obj, &way, &signature, &refuse) ||
        look(obj, way, signature, (uintptr_t)refuse, &found) < 0) {
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

static PyObject *entries(PyObject *module, PyObject *obj)
{
    PyObject *list = PyList_New(0);
    const PyNativeCallableEntry *entry = NULL;
    (void)module;
    while (list != NULL && (entry = nc_native_next(obj, entry)) != NULL) {
        PyObject *row = Py_BuildValue("(snN)", entry->signature, (Py_ssize_t)entry->flags,
                                      PyLong_FromVoidPtr(nc_calltable_funcptr(entry)));
        if (row == NULL || PyList_Append(list, row) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(row);
    }
    return list;
}

static PyObject *total(PyObject *module, PyObject *args)
{
    PyObject *obj;
    const char *way;
    double x;
    double sum = 0.0;
    Py_ssize_t i;
    Py_ssize_t n;
    Found found;
    (void)module;
    if (!PyArg_ParseTuple(args, "Osdn", &obj, &way, &x, &n) ||
        look(obj, way, "d:d", NC_FLAG_NEEDS_GIL | NC_ERRORS_MASK, &found) < 0) {
        return NULL;
    }
    if (found.function == NULL) {
        Py_RETURN_NONE;
    }
    Py_BEGIN_ALLOW_THREADS for (i = 0; i < n; i++)
    {
        sum += ((Function1)(uintptr_t)found.function)(x + (double)i);
    }
    Py_END_ALLOW_THREADS return PyFloat_FromDouble(sum);
}

static PyObject *total16(PyObject *module, PyObject *args)
{
    PyObject *obj;
    const char *way;
    double x;
    double sum = 0.0;
    Py_ssize_t i;
    Py_ssize_t n;
    Found found;
    (void)module;
    if (!PyArg_ParseTuple(args, "Osdn", &obj, &way, &x, &n) ||
        look(obj, way, SIGNATURE16, NC_FLAG_NEEDS_GIL | NC_ERRORS_MASK, &found) < 0) {
        return NULL;
    }
    if (found.function == NULL) {
        Py_RETURN_NONE;
    }
    Py_BEGIN_ALLOW_THREADS for (i = 0; i < n; i++)
    {
        double y = x + (double)i;
        sum +=
            ((Function16)(uintptr_t)found.function)(y, y, y, y, y, y, y, y, y, y, y, y, y, y, y, y);
    }
    Py_END_ALLOW_THREADS return PyFloat_FromDouble(sum);
}

static PyObject *negated(PyObject *module, PyObject *args)
{
    PyObject *obj;
    const char *way;
    long long x;
    Found found;
    (void)module;
    if (!PyArg_ParseTuple(args, "OsL", &obj, &way, &x) || look(obj, way, "q:q", 0, &found) < 0) {
        return NULL;
    }
    if (found.function == NULL) {
        Py_RETURN_NONE;
    }
    return PyLong_FromLongLong(((int64_t (*)(int64_t))(uintptr_t)found.function)((int64_t)x));
}

/* ---- callbacks ------------------------------------------------------------------------------- */

NC_CALLBACK_DECLARE(plain, double, (double), NAN);
NC_CALLBACK_DECLARE_WITH_DATA(with_data, double, (double, user_data), NAN);

static NcCallbackSignature accepted[] = {NC_CALLBACK_ACCEPT(plain), NC_CALLBACK_ACCEPT(with_data)};

static double call(const NcCallback *f, double x)
{
    return f->matched == 0 ? NC_CALLBACK_FUNCTION(f, double (*)(double))(x)
                           : NC_CALLBACK_FUNCTION(f, double (*)(double, void *))(x, f->user_data);
}

static PyObject *integrate(PyObject *module, PyObject *args)
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
    (void)module;
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
    native = f.native;
    matched = (Py_ssize_t)f.matched;
    if (nc_callback_release(&f) < 0) {
        return NULL;
    }
    return Py_BuildValue("(dOn)", sum, native ? Py_True : Py_False, matched);
}

static NcCallback held;

static PyObject *hold(PyObject *module, PyObject *obj)
{
    (void)module;
    if (nc_callback_prepare(&held, obj, accepted, 2, NC_CALLBACK_HOLDS_GIL) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *call_held(PyObject *module, PyObject *x)
{
    double value = PyFloat_AsDouble(x);
    (void)module;
    return PyErr_Occurred() ? NULL : PyFloat_FromDouble(call(&held, value));
}

static PyObject *let_go(PyObject *module, PyObject *none)
{
    (void)module;
    (void)none;
    if (nc_callback_release(&held) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"metatype", metatype, METH_NOARGS, NULL},
    {"find", find, METH_VARARGS, NULL},
    {"entries", entries, METH_O, NULL},
    {"total", total, METH_VARARGS, NULL},
    {"total16", total16, METH_VARARGS, NULL},
    {"negated", negated, METH_VARARGS, NULL},
    {"integrate", integrate, METH_VARARGS, NULL},
    {"hold", hold, METH_O, NULL},
    {"call_held", call_held, METH_O, NULL},
    {"let_go", let_go, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = MODULE_DEFINITION(methods);

PyMODINIT_FUNC MODULE_INIT(void)
{
    return PyCustomSlots_Import() < 0 ? NULL : PyModule_Create(&definition);
}
