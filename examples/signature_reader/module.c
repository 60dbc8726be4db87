/* module.c: reads the signatures of any Python object as a compiler would.
 *
 *     entries(obj)             what it offers, in order of preference: [(signature, where)]
 *     describe(signature)      the signature as a tree (registers.h)
 *     call(obj, types, args)   a call site with arguments of these C types: takes the best entry
 *                              (choice.h), and Python's way when none fits
 *
 * A table of entries is where the object's metaclass says (nativecallable.h); types that cannot
 * have the metaclass tell their entries one by one (nativeapi.h). */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <nativecall/nativeapi.h>
#include <nativecall/nativecallable.h>
#include <nativecall/signature.h>

#include "choice.h"
#include "registers.h"

#define MAX_ARGUMENTS 8

/* ---- entries --------------------------------------------------------------------------------- */

static int add_entry(PyObject *list, const PyNativeCallableEntry *entry, const char *where)
{
    PyObject *row = Py_BuildValue("(ss)", entry->signature, where);
    int status = row != NULL ? PyList_Append(list, row) : -1;
    Py_XDECREF(row);
    return status;
}

static PyObject *py_entries(PyObject *module, PyObject *obj)
{
    const PyNativeCallableEntry *entry;
    const NcNativeApi *api;
    size_t position = 0;
    PyObject *list;
    (void)module;
    if (nc_nativeapi_of(obj, &api) < 0 || (list = PyList_New(0)) == NULL) {
        return NULL;
    }
    (void)PyCustomSlots_Import(); /* the first native callable may have come after this module */
    for (entry = nc_native_next(obj, NULL); entry != NULL; entry = nc_native_next(obj, entry)) {
        if (add_entry(list, entry, "table") < 0) {
            goto failed;
        }
    }
    while ((entry = nc_nativeapi_entry(obj, api, &position)) != NULL) {
        if (add_entry(list, entry, NC_NATIVEAPI_ATTRIBUTE) < 0) {
            goto failed;
        }
    }
    return list;
failed:
    Py_DECREF(list);
    return NULL;
}

/* ---- trees ----------------------------------------------------------------------------------- */

static PyObject *py_describe(PyObject *module, PyObject *text)
{
    const char *signature = PyUnicode_AsUTF8(text);
    PyObject *tree;
    char *buffer;
    size_t size;
    (void)module;
    if (signature == NULL) {
        return NULL;
    }
    size = describe(signature, NULL, 0);
    if (size == 0) {
        return PyErr_Format(PyExc_ValueError,
                            "'signature' must be a canonical signature, like 'd:dd' (got %R)",
                            text);
    }
    buffer = (char *)PyMem_Malloc(size + 1);
    if (buffer == NULL) {
        return PyErr_NoMemory();
    }
    describe(signature, buffer, size + 1);
    tree = PyUnicode_FromStringAndSize(buffer, (Py_ssize_t)size);
    PyMem_Free(buffer);
    return tree;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* Entries that report failures, or want the GIL dropped, are left to Python's way: the code that a
 * call site emits here does neither. */
#define REFUSE (NC_ERRORS_MASK | NC_FLAG_RELEASE_GIL)

/* The best entry of obj; none is no error. 0, or -1 with an exception. */
static int choose(Choice *choice, PyObject *obj, const Value *arguments, size_t count)
{
    const uint64_t *packed;
    const PyNativeCallableEntry *entry;
    const NcNativeApi *api;
    size_t position = 0;
    size_t words;
    uint64_t word;
    if (nc_nativeapi_of(obj, &api) < 0) {
        return -1;
    }
    (void)PyCustomSlots_Import();
    packed = nc_native_packed_table(obj);
    for (; packed != NULL && (words = nc_packed_count(packed)) != 0; packed += words + 1) {
        word = nc_packed_load(packed);
        if (words == 1 && (nc_packed_flags(word) & REFUSE) == 0) {
            consider(choice, word, nc_packed_funcptr(packed, 1), arguments, count);
        }
    }
    while ((entry = nc_nativeapi_entry(obj, api, &position)) != NULL) {
        if ((entry->flags & REFUSE) == 0 &&
            nc_signature_pack(entry->signature, strlen(entry->signature), 0, &word, 1, &words) ==
                NC_OK) {
            consider(choice, word, nc_calltable_funcptr(entry), arguments, count);
        }
    }
    return 0;
}

/* A Python number as a value of a C type. 0, or -1 with an exception. */
static int read_value(PyObject *number, char type, Value *value)
{
    value->type = type;
    value->integer = 0;
    value->real = 0.0;
    switch (type) {
    case 'i':
    case 'q':
        value->integer = PyLong_AsLongLong(number);
        if (type == 'i' && (value->integer < INT32_MIN || value->integer > INT32_MAX)) {
            PyErr_Format(PyExc_OverflowError, "an argument of type 'i' must fit int32 (got %R)",
                         number);
        }
        break;
    case 'f':
    case 'd':
        value->real = PyFloat_AsDouble(number);
        break;
    default:
        PyErr_Format(PyExc_ValueError, "'types' must consist of 'i', 'q', 'f' and 'd' (got '%c')",
                     type);
        break;
    }
    return PyErr_Occurred() ? -1 : 0;
}

static PyObject *call_native(const Choice *choice, const Value *arguments)
{
    char signature[32]; /* one word has 13 symbols */
    size_t length;
    Value result = call(choice, arguments);
    if (PyErr_Occurred()) {
        return NULL; /* an entry of any error convention may have run Python code */
    }
    nc_signature_unpack(&choice->word, 1, signature, sizeof signature, &length, NULL);
    if (result.type == 'f' || result.type == 'd') {
        return Py_BuildValue("(sid)", signature, choice->widened, result.real);
    }
    return Py_BuildValue("(siL)", signature, choice->widened, (long long)result.integer);
}

static PyObject *py_call(PyObject *module, PyObject *args)
{
    Choice choice = {0, NULL, 0};
    Value values[MAX_ARGUMENTS];
    PyObject *obj;
    PyObject *given;
    PyObject *result;
    const char *types;
    Py_ssize_t count;
    Py_ssize_t i;
    (void)module;
    if (!PyArg_ParseTuple(args, "OsO!", &obj, &types, &PyTuple_Type, &given)) {
        return NULL;
    }
    count = PyTuple_GET_SIZE(given);
    if (count > MAX_ARGUMENTS || strlen(types) != (size_t)count) {
        return PyErr_Format(PyExc_ValueError,
                            "'types' must have a code for each of at most %d 'args' (got '%s' for "
                            "%zd)",
                            MAX_ARGUMENTS, types, count);
    }
    for (i = 0; i < count; i++) {
        if (read_value(PyTuple_GET_ITEM(given, i), types[i], &values[i]) < 0) {
            return NULL;
        }
    }
    if (choose(&choice, obj, values, (size_t)count) < 0) {
        return NULL;
    }
    if (choice.word != 0) {
        return call_native(&choice, values);
    }
    result = PyObject_Call(obj, given, NULL);
    return result != NULL ? Py_BuildValue("(OiN)", Py_None, 0, result) : NULL;
}

static PyMethodDef functions[] = {
    {"entries", py_entries, METH_O, "entries(obj) -> [(signature, where)]"},
    {"describe", py_describe, METH_O, "describe(signature) -> tree"},
    {"call", py_call, METH_VARARGS,
     "call(obj, types, args) -> (signature or None, arguments widened, result)"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "signature_reader",
    .m_doc = "Reads the native signatures of any object, and calls the best of them.",
    .m_size = -1,
    .m_methods = functions,
};

PyMODINIT_FUNC PyInit_signature_reader(void)
{
    return PyModule_Create(&definition);
}
