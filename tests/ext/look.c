/* tests/ext/look.c: a consumer that has nothing of ours but one copied file, nativecall_abi.h.
 *
 * Built as C99 and as C++11 under several names: MODULE is the module's. */
#define PY_SSIZE_T_CLEAN
#include "nativecall_abi.h"

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)

static PyObject *pair_of(const PyNativeCallableEntry *entry)
{
    if (entry == NULL) {
        Py_RETURN_NONE;
    }
    return Py_BuildValue("(nN)", (Py_ssize_t)entry->flags,
                         PyLong_FromVoidPtr(NC_ABI_LOAD(&entry->funcptr)));
}

/* find(object, signature, refuse) -> (flags, address) or None */
static PyObject *find(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *object;
    const char *text;
    Py_ssize_t refuse = 0;
    if (!PyArg_ParseTuple(args, "Os|n", &object, &text, &refuse)) {
        return NULL;
    }
    return pair_of(nc_abi_find(object, nc_abi_intern(text), (uintptr_t)refuse));
}

/* find_null(object): as find, with the signature of who has interned nothing */
static PyObject *find_null(PyObject *Py_UNUSED(module), PyObject *object)
{
    return pair_of(nc_abi_find(object, NULL, 0));
}

/* slot(object, id) -> the word that a slot of any key leads to in the object; None: no such slot */
static PyObject *slot(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *object;
    Py_ssize_t id;
    const void *found;
    if (!PyArg_ParseTuple(args, "On", &object, &id)) {
        return NULL;
    }
    (void)nc_abi_intern("d:d");
    found = nc_abi_table(object, (uintptr_t)id);
    if (found == (const void *)&nc_abi_nothing) {
        Py_RETURN_NONE;
    }
    return PyLong_FromVoidPtr((void *)(uintptr_t)found);
}

/* ask(object, signature, refuse) -> (flags, address) or None: tier 2 */
static PyObject *ask(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *object;
    const char *text;
    Py_ssize_t refuse = 0;
    const PyNativeCallableEntry *entry;
    if (!PyArg_ParseTuple(args, "Os|n", &object, &text, &refuse)) {
        return NULL;
    }
    entry = nc_abi_ask(object, text, (uintptr_t)refuse);
    return PyErr_Occurred() ? NULL : pair_of(entry);
}

/* offers(object) -> whether it can have entries */
static PyObject *offers(PyObject *Py_UNUSED(module), PyObject *object)
{
    return PyBool_FromLong(nc_abi_offers(object));
}

/* entries(object) -> [(signature, flags, address)], those of other ABIs left out */
static PyObject *entries(PyObject *Py_UNUSED(module), PyObject *object)
{
    PyObject *list = PyList_New(0);
    const PyNativeCallableEntry *entry;
    (void)nc_abi_intern("d:d");
    for (entry = NC_ABI_ENTRIES(object); NC_ABI_LOAD(&entry->signature) != NULL; entry++) {
        PyObject *row;
        if ((entry->flags & NC_FLAGS_ABI_MASK) != 0) {
            continue;
        }
        row = Py_BuildValue("(snN)", entry->signature, (Py_ssize_t)entry->flags,
                            PyLong_FromVoidPtr(NC_ABI_LOAD(&entry->funcptr)));
        if (row == NULL || PyList_Append(list, row) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(row);
    }
    return list;
}

/* lookups(object, signature, n): how many of n lookups without the GIL find an entry; each passes
 * over all entries too, and none may be without a function */
static PyObject *lookups(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *object;
    const char *text;
    Py_ssize_t n;
    Py_ssize_t found = 0;
    Py_ssize_t i;
    if (!PyArg_ParseTuple(args, "Osn", &object, &text, &n)) {
        return NULL;
    }
    text = nc_abi_intern(text);
    Py_BEGIN_ALLOW_THREADS for (i = 0; i < n; i++)
    {
        const PyNativeCallableEntry *entry = NC_ABI_ENTRIES(object);
        for (; NC_ABI_LOAD(&entry->signature) != NULL; entry++) {
            found -= NC_ABI_LOAD(&entry->funcptr) == NULL ? n : 0;
        }
        found += nc_abi_find(object, text, NC_FLAG_NEEDS_GIL) != NULL;
    }
    Py_END_ALLOW_THREADS return PyLong_FromSsize_t(found);
}

static PyMethodDef methods[] = {
    {"find", find, METH_VARARGS, NULL},       {"find_null", find_null, METH_O, NULL},
    {"slot", slot, METH_VARARGS, NULL},       {"ask", ask, METH_VARARGS, NULL},
    {"offers", offers, METH_O, NULL},         {"entries", entries, METH_O, NULL},
    {"lookups", lookups, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, TEXT(MODULE), NULL, -1, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PASTE(PyInit_, MODULE)(void);

PyMODINIT_FUNC PASTE(PyInit_, MODULE)(void)
{
    return PyModule_Create(&definition);
}
