/* csrc/values/cffipointers.c: converts cffi objects that are passed as arguments, without calling
 * Python.
 *
 * Python code checks the first pointer, array or struct of each type. If it accepts all objects of
 * that type, it registers the type in the table below. ctypes classes are registered in the same
 * table. The table is a small cache: if a row is overwritten, Python code checks the type again.
 * Without the GIL, each thread has a table, so that calls write and read no shared memory. */
#include "core/cffipointer.h"
#include "cffitypes.h"
#include "destructor.h"
#include "pointers.h"
#include "structpointer.h"
#include "text.h"
#include "platform/lock.h"
#include "platform/references.h"

#include <string.h>

/* A row: arguments of one CType accept all objects of one foreign type. References are owned. A new
 * row overwrites an old row with the same hash. */
typedef struct {
    PyObject *wanted;     /* the argument's CType */
    PyTypeObject *class_; /* the object's class */
    PyObject *foreign;    /* the object's cffi type; for ctypes, its class */
    PyObject *target;     /* the cffi type to convert to */
    uintptr_t mask;       /* address bits that must be 0; for ctypes, how the object is accepted */
    int may_end;          /* whether such objects may have been closed */
} Taken;

enum { TAKEN = 128 };
static NC_PER_THREAD Taken taken[TAKEN];

/* Maps cffi types to (pointer type to convert to, bytes of a character). nc_string_at reads text
 * from objects of these types; see nativecall/_values/text.py. */
static PyObject *texts;

int nc_pointers_ready(PyObject *module)
{
    texts = PyDict_New();
    return PyModule_AddObjectRef(module, "texts", texts);
}

PyObject *nc_integer_of_cffi(PyObject *value)
{
    PyObject *type = nc_type_of_cffi(value);
    PyObject *kind = type != NULL ? PyObject_GetAttrString(type, "kind") : NULL;
    PyObject *cname = kind != NULL ? PyObject_GetAttrString(type, "cname") : NULL;
    const char *name = cname != NULL ? PyUnicode_AsUTF8(cname) : NULL;
    int is_integer = 0;
    if (name != NULL && PyUnicode_CompareWithASCIIString(kind, "enum") == 0) {
        is_integer = 1;
    } else if (name != NULL && PyUnicode_CompareWithASCIIString(kind, "primitive") == 0) {
        /* int() would truncate floats and convert characters. */
        is_integer = strstr(name, "float") == NULL && strstr(name, "double") == NULL &&
                     (strstr(name, "char") == NULL || strstr(name, "ed char") != NULL);
    }
    Py_XDECREF(kind);
    Py_XDECREF(cname);
    return is_integer ? PyNumber_Long(value) : NULL;
}

static Taken *taken_row(PyObject *wanted, PyObject *foreign)
{
    return &taken[(((uintptr_t)wanted >> 4) * 31 + ((uintptr_t)foreign >> 4)) % TAKEN];
}

uintptr_t nc_taken_mask(PyObject *wanted, PyObject *foreign)
{
    const Taken *row = taken_row(wanted, foreign);
    return row->wanted == wanted && row->foreign == foreign ? row->mask : 0;
}

void nc_take(PyObject *wanted, PyTypeObject *class_, PyObject *foreign, PyObject *target,
             uintptr_t mask)
{
    Taken *row = taken_row(wanted, foreign);
    Taken before = *row;
    *row = (Taken){.wanted = Py_NewRef(wanted),
                   .class_ = (PyTypeObject *)(void *)Py_NewRef(class_),
                   .foreign = Py_NewRef(foreign),
                   .target = Py_NewRef(target),
                   .mask = mask,
                   .may_end = class_ == nc_load_relaxed_ptr(&nc_cffi_gcp)};
    Py_XDECREF(before.wanted);
    Py_XDECREF(before.class_);
    Py_XDECREF(before.foreign);
    Py_XDECREF(before.target);
}

/* take_cffi(ctype, value, target, alignment): register that arguments of type `ctype` accept all
 * cffi objects of the value's type. `target` is the cffi type to convert to. The addresses must be
 * multiples of `alignment`. */
PyObject *nc_take_cffi(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *wanted;
    PyObject *value;
    PyObject *target;
    Py_ssize_t alignment;
    if (!PyArg_ParseTuple(args, "OOOn", &wanted, &value, &target, &alignment)) {
        return NULL;
    }
    PyObject *foreign = nc_type_of_cffi(value);
    if (foreign != NULL) {
        nc_take(wanted, Py_TYPE(value), foreign, target, (uintptr_t)alignment - 1);
    }
    Py_RETURN_NONE;
}

/* Return the row that applies to a value for an argument of type `wanted`, or NULL. */
static inline const Taken *row_of(PyObject *wanted, PyObject *value)
{
    PyObject *foreign = nc_type_of_cffi(value);
    if (foreign == NULL) {
        return NULL;
    }
    const Taken *row = taken_row(wanted, foreign);
    return row->wanted == wanted && row->foreign == foreign && row->class_ == Py_TYPE(value) ? row
                                                                                             : NULL;
}

int nc_take_struct(PyObject *wanted, PyObject *value, void *memory)
{
    value = nc_bare(value);
    const Taken *row = row_of(wanted, value);
    if (row == NULL || (row->may_end && nc_ended_by(value) != NULL)) {
        return 0;
    }
    if (memory != NULL && nc_cffi_store(memory, row->target, value) < 0) {
        PyErr_Clear();
        return 0;
    }
    return 1;
}

int nc_take_pointer(PyObject *wanted, PyObject *value, void **out)
{
    value = nc_bare(value);
    const Taken *row = row_of(wanted, value);
    if (row == NULL) {
        return 0;
    }
    void *address = nc_address_of_cffi(value, row->target);
    if (address == NULL && PyErr_Occurred()) {
        PyErr_Clear();
        return 0;
    }
    if (((uintptr_t)address & row->mask) != 0 || (row->may_end && nc_ended_by(value) != NULL)) {
        return 0;
    }
    *out = address;
    return 1;
}

/* ---- text ------------------------------------------------------------------------------------ */

/* string_at(object, encoding=None, length=-1): return the text at a cffi pointer or array, None for
 * NULL, or NotImplemented if Python code must handle it. Without a length, text ends at the first
 * null character. Bytes are decoded if the encoding is "utf-8". */
PyObject *nc_string_at(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs < 1) {
        PyErr_SetString(PyExc_TypeError, "string_at() takes an object");
        return NULL;
    }
    PyObject *value = args[0];
    PyObject *encoding = nargs > 1 ? args[1] : Py_None;
    Py_ssize_t length = nargs > 2 ? PyLong_AsSsize_t(args[2]) : -1;
    if (length == -1 && PyErr_Occurred()) {
        return NULL;
    }
    PyObject *foreign = nc_ended_by(value) == NULL ? nc_type_of_cffi(value) : NULL;
    PyObject *row = foreign != NULL ? nc_shared_get(texts, foreign) : NULL;
    if (row == NULL) {
        PyErr_Clear(); /* not a cffi object of a type in `texts` */
        return Py_NewRef(Py_NotImplemented);
    }
    PyObject *pointer = PyTuple_GET_ITEM(row, 0); /* cffi's types live as long as the process */
    const size_t size = PyLong_AsSize_t(PyTuple_GET_ITEM(row, 1));
    nc_shared_drop(row);
    const void *text = nc_address_of_cffi(value, pointer);
    if (text == NULL) {
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    }
    Py_ssize_t most = pointer != foreign ? PyObject_Size(value) : PY_SSIZE_T_MAX; /* array length */
    if (most < length) {
        return PyErr_Occurred()
                   ? NULL
                   : PyErr_Format(PyExc_ValueError, "'length' is %zd, but 'pointer' has %zd items",
                                  length, most);
    }
    if (length > PY_SSIZE_T_MAX / (Py_ssize_t)size) {
        return PyErr_NoMemory();
    }
    if (length < 0) {
        length = size != 1 ? nc_wide_length(text, size, (size_t)most)
                           : (Py_ssize_t)strnlen(text, (size_t)most);
    }
    return size != 1 ? nc_decode_wide(text, size, length)
           : PyUnicode_CheckExact(encoding) &&
                   PyUnicode_CompareWithASCIIString(encoding, "utf-8") == 0
               ? PyUnicode_DecodeUTF8(text, length, "strict")
               : PyBytes_FromStringAndSize(text, length);
}
