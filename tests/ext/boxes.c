/* tests/ext/boxes.c: what callback.h finds in an object, and calls of it by value.
 *
 * The compiler of this file is the oracle: a function that is taken natively is called as C calls
 * one of that type. */
#include "module.h"

#include <complex.h>
#include <nativecall/callback.h>

enum { MOST = 8 }; /* signatures */

/* prepare(obj, signatures, options=HOLDS_GIL): nc_callback_prepare -> (address, native, matched) */
static PyObject *prepare(PyObject *Py_UNUSED(module), PyObject *args)
{
    NcCallbackSignature accepted[MOST];
    NcCallback f;
    PyObject *obj;
    PyObject *signatures;
    PyObject *result;
    unsigned options = NC_CALLBACK_HOLDS_GIL;
    Py_ssize_t i;
    if (!PyArg_ParseTuple(args, "OO!|I", &obj, &PyList_Type, &signatures, &options)) {
        return NULL;
    }
    memset(accepted, 0, sizeof accepted);
    for (i = 0; i < PyList_GET_SIZE(signatures) && i < MOST; i++) {
        PyObject *text = PyList_GET_ITEM(signatures, i);
        accepted[i].user_data = -1;
        accepted[i].signature = text == Py_None ? NULL : PyUnicode_AsUTF8(text);
    }
    if (nc_callback_prepare(&f, obj, accepted, (size_t)i, options) < 0) {
        return NULL;
    }
    result = Py_BuildValue("(NOn)", PyLong_FromVoidPtr((void *)(uintptr_t)f.function),
                           f.native ? Py_True : Py_False, (Py_ssize_t)f.matched);
    if (nc_callback_release(&f) < 0) {
        Py_CLEAR(result);
    }
    return result;
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
static PyObject *call(PyObject *Py_UNUSED(module), PyObject *args)
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
static PyObject *count(PyObject *Py_UNUSED(module), PyObject *args)
{
    static NcCallbackSignature accepted[] = {NC_CALLBACK_ACCEPT(whole)};
    NcCallback f;
    PyObject *obj;
    int x;
    int native;
    if (!PyArg_ParseTuple(args, "Oi", &obj, &x) ||
        nc_callback_prepare(&f, obj, accepted, 1, NC_CALLBACK_HOLDS_GIL) < 0) {
        return NULL;
    }
    x = NC_CALLBACK_FUNCTION(&f, int (*)(int))(x);
    native = f.native;
    return nc_callback_release(&f) < 0 ? NULL
                                       : Py_BuildValue("(iO)", x, native ? Py_True : Py_False);
}

static PyMethodDef functions[] = {
    {"prepare", prepare, METH_VARARGS, NULL},
    {"call", call, METH_VARARGS, NULL},
    {"count", count, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = MODULE_DEFINITION(functions);

PyMODINIT_FUNC MODULE_INIT(void)
{
    return PyModule_Create(&definition);
}
