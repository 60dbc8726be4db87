/* tests/ext/boxes.c: what box.h says of other libraries' functions, and calls of them by value.
 *
 * The compiler of this file is the oracle: a function that is taken natively is called as C calls
 * one of that type. */
#include "module.h"

#include <complex.h>
#include <nativecall/callback.h>

/* The entry of a box that was opened, which lives as long as the box; NULL: it has none. */
static const PyNativeCallableEntry *opened(PyObject *obj, NcBox *box)
{
    if (nc_box_open(obj, box) <= 0) {
        if (!PyErr_Occurred()) {
            PyErr_Format(PyExc_AssertionError, "%R is no box", obj);
        }
        return NULL;
    }
    (void)PyCustomSlots_Import();
    return box->native != NULL ? nc_native_next(box->native, NULL) : NULL;
}

/* box(obj) -> (signature or None, why it is unknown or None) */
static PyObject *box(PyObject *module, PyObject *obj)
{
    NcBox found;
    PyObject *made = NULL;
    const PyNativeCallableEntry *entry = opened(obj, &found);
    (void)module;
    if (!PyErr_Occurred()) {
        made = Py_BuildValue("(zO)", entry != NULL ? entry->signature : NULL,
                             found.unknown != NULL ? found.unknown : Py_None);
    }
    nc_box_close(&found);
    return made;
}

typedef struct {
    signed char a;
    double b;
} Natural;

typedef struct __attribute__((packed)) {
    signed char a;
    double b;
} Packed;

/* add(f) -> f({3, 4.5}), for both layouts of the struct */
static PyObject *add(PyObject *module, PyObject *obj)
{
    static NcCallbackSignature accepted[] = {NC_CALLBACK_ACCEPT_NATIVE("d:T{bd}", -1),
                                             NC_CALLBACK_ACCEPT_NATIVE("d:=T{bd}", -1)};
    NcCallback f;
    double value;
    (void)module;
    if (nc_callback_prepare(&f, obj, accepted, 2, NC_CALLBACK_HOLDS_GIL) < 0) {
        return NULL;
    }
    if (f.matched == 0) {
        Natural natural = {3, 4.5};
        value = NC_CALLBACK_FUNCTION(&f, double (*)(Natural))(natural);
    } else {
        Packed packed = {3, 4.5};
        value = NC_CALLBACK_FUNCTION(&f, double (*)(Packed))(packed);
    }
    return nc_callback_release(&f) < 0 ? NULL : PyFloat_FromDouble(value);
}

NC_CALLBACK_DECLARE(single, complex64, (complex64), 0);

/* twice(f) -> (f(1.5 + 2.5j) of a function of complex64, native) */
static PyObject *twice(PyObject *module, PyObject *obj)
{
    static NcCallbackSignature accepted[] = {NC_CALLBACK_ACCEPT(single)};
    NcCallback f;
    float _Complex value;
    int native;
    (void)module;
    if (nc_callback_prepare(&f, obj, accepted, 1, NC_CALLBACK_HOLDS_GIL) < 0) {
        return NULL;
    }
    value = NC_CALLBACK_FUNCTION(&f, float _Complex (*)(float _Complex))(1.5F + 2.5F * I);
    native = f.native;
    return nc_callback_release(&f) < 0
               ? NULL
               : Py_BuildValue("(NO)",
                               PyComplex_FromDoubles((double)crealf(value), (double)cimagf(value)),
                               native ? Py_True : Py_False);
}

#define Z double _Complex
#define D1 double
#define D5 D1, D1, D1, D1, D1
#define D6 D5, D1
#define D7 D6, D1
#define D8 D7, D1
#define D9 D8, D1
#define Z4 Z, Z, Z, Z

#define CALL(text, types, values)                                                                  \
    if (strcmp(f.accepted, text) == 0) {                                                           \
        result = NC_CALLBACK_FUNCTION(&f.callback, Z(*) types) values;                             \
        known = 1;                                                                                 \
    }

/* call(f, signature): f's result; the arguments are 1, 2, 3, ..., complex ones times 1 + 0.5j. Only
 * native calls. */
static PyObject *call(PyObject *module, PyObject *args)
{
    struct {
        NcCallback callback;
        const char *accepted;
    } f;
    NcCallbackSignature accepted[1];
    PyObject *obj;
    const Z u = 1 + 0.5 * I;
    Z result = 0;
    int known = 0;
    (void)module;
    if (!PyArg_ParseTuple(args, "Os", &obj, &f.accepted)) {
        return NULL;
    }
    memset(accepted, 0, sizeof accepted);
    accepted[0].signature = f.accepted;
    accepted[0].user_data = -1;
    if (nc_callback_prepare(&f.callback, obj, accepted, 1, NC_CALLBACK_HOLDS_GIL) < 0) {
        return NULL;
    }
    CALL("Zd:Zd", (Z), (u))
    CALL("Zd:dZd", (D1, Z), (1, 2 * u))
    CALL("Zd:dddddZd", (D5, Z), (1, 2, 3, 4, 5, 6 * u))
    CALL("Zd:ddddddZd", (D6, Z), (1, 2, 3, 4, 5, 6, 7 * u))
    CALL("Zd:dddddddZd", (D7, Z), (1, 2, 3, 4, 5, 6, 7, 8 * u))
    CALL("Zd:ddddddddZd", (D8, Z), (1, 2, 3, 4, 5, 6, 7, 8, 9 * u))
    CALL("Zd:dddddddddZd", (D9, Z), (1, 2, 3, 4, 5, 6, 7, 8, 9, 10 * u))
    CALL("Zd:ZdZdZdZdZd", (Z4, Z), (u, 2 * u, 3 * u, 4 * u, 5 * u))
    CALL("Zd:ZdZdZdZddd", (Z4, D1, D1), (u, 2 * u, 3 * u, 4 * u, 5, 6))
    CALL("Zd:ddZdddqZddZd", (D1, D1, Z, D1, D1, int64_t, Z, D1, Z),
         (1, 2, 3 * u, 4, 5, 6, 7 * u, 8, 9 * u))
    if (nc_callback_release(&f.callback) < 0) {
        return NULL;
    }
    return known ? PyComplex_FromDoubles(creal(result), cimag(result))
                 : PyErr_Format(PyExc_AssertionError, "'%s' is not known here", f.accepted);
}

NC_CALLBACK_DECLARE(whole, int, (int), 0);

/* count(f, x) -> (f(x) of a function of int, native) */
static PyObject *count(PyObject *module, PyObject *args)
{
    static NcCallbackSignature accepted[] = {NC_CALLBACK_ACCEPT(whole)};
    NcCallback f;
    PyObject *obj;
    int x;
    int native;
    (void)module;
    if (!PyArg_ParseTuple(args, "Oi", &obj, &x) ||
        nc_callback_prepare(&f, obj, accepted, 1, NC_CALLBACK_HOLDS_GIL) < 0) {
        return NULL;
    }
    x = NC_CALLBACK_FUNCTION(&f, int (*)(int))(x);
    native = f.native;
    return nc_callback_release(&f) < 0 ? NULL
                                       : Py_BuildValue("(iO)", x, native ? Py_True : Py_False);
}

/* entry(obj) -> (signature, flags) of a box */
static PyObject *entry(PyObject *module, PyObject *obj)
{
    NcBox found;
    PyObject *made = NULL;
    const PyNativeCallableEntry *entry = opened(obj, &found);
    (void)module;
    if (entry != NULL) {
        made = Py_BuildValue("(sn)", entry->signature, (Py_ssize_t)entry->flags);
    } else if (!PyErr_Occurred()) {
        PyErr_Format(PyExc_AssertionError, "%R has no entry", obj);
    }
    nc_box_close(&found);
    return made;
}

/* take(obj, signature, options): the address of obj's function, native only */
static PyObject *take(PyObject *module, PyObject *args)
{
    NcCallback f;
    NcCallbackSignature accepted[1];
    PyObject *obj;
    PyObject *address;
    const char *signature;
    unsigned options;
    (void)module;
    if (!PyArg_ParseTuple(args, "OsI", &obj, &signature, &options)) {
        return NULL;
    }
    memset(accepted, 0, sizeof accepted);
    accepted[0].signature = signature;
    accepted[0].user_data = -1;
    if (nc_callback_prepare(&f, obj, accepted, 1, options) < 0) {
        return NULL;
    }
    address = PyLong_FromVoidPtr((void *)(uintptr_t)f.function);
    if (nc_callback_release(&f) < 0) {
        Py_CLEAR(address);
    }
    return address;
}

static PyMethodDef functions[] = {
    {"box", box, METH_O, NULL},           {"add", add, METH_O, NULL},
    {"twice", twice, METH_O, NULL},       {"call", call, METH_VARARGS, NULL},
    {"count", count, METH_VARARGS, NULL}, {"entry", entry, METH_O, NULL},
    {"take", take, METH_VARARGS, NULL},   {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = MODULE_DEFINITION(functions);

PyMODINIT_FUNC MODULE_INIT(void)
{
    return PyModule_Create(&definition);
}
