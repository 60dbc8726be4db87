/* csrc/values/cffipointers.c: pointers and arrays of cffi as arguments, without asking Python.
 *
 * The pointer_argument hook is asked about the first of each type. What it takes whatever the
 * address is a row here. Rows are few, and a type that has lost its row is asked about again. */
#include "core/cffipointer.h"
#include "pointers.h"

/* What pointer_argument takes by its type alone, so that it need not be asked again. References are
 * owned; a row is overwritten by the next one that has its place. */
typedef struct {
    PyObject *wanted;     /* our type */
    PyTypeObject *class_; /* that of the object */
    PyObject *foreign;    /* cffi's type of it */
    PyObject *pointer;    /* the cffi pointer type that it converts to */
    uintptr_t mask;       /* of what must be 0 in the address */
    int may_end;          /* whether such objects may be among those that were closed */
} Taken;

enum { TAKEN = 64, CLASSES = 8 };
static Taken taken[TAKEN];
static PyObject *foreign_type_of; /* cffi's typeof(); NULL before there is a row */
/* The classes of objects in rows, which cffi has four of; others are asked about. */
static const PyTypeObject *classes[CLASSES];
/* The objects of cffi that a function has closed or freed, by their addresses
 * (nativecall/_values/handles.py): the hook is asked about these. */
static PyObject *ended;

int nc_pointers_ready(PyObject *module)
{
    if (ended == NULL) {
        ended = PyDict_New();
    }
    return ended != NULL ? PyModule_AddObjectRef(module, "ended", ended) : -1;
}

static int is_class(const PyTypeObject *found)
{
    for (int i = 0; i < CLASSES && classes[i] != NULL; i++) {
        if (classes[i] == found) {
            return 1;
        }
    }
    return 0;
}

/* Whether an object that ends with its memory, as those of ffi.gc() do, was closed before. */
NC_NOINLINE int is_ended(PyObject *value)
{
    PyObject *key = PyLong_FromVoidPtr(value);
    int found = key != NULL ? PyDict_Contains(ended, key) : -1;
    Py_XDECREF(key);
    if (found < 0) {
        PyErr_Clear();
    }
    return found != 0;
}

static Taken *taken_row(PyObject *wanted, PyObject *foreign)
{
    return &taken[(((uintptr_t)wanted >> 4) * 31 + ((uintptr_t)foreign >> 4)) % TAKEN];
}

PyObject *nc_take_pointers(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *wanted;
    PyObject *value;
    PyObject *pointer;
    Py_ssize_t alignment;
    PyObject *foreign;
    if (!PyArg_ParseTuple(args, "OOOn", &wanted, &value, &pointer, &alignment)) {
        return NULL;
    }
    if (foreign_type_of == NULL) {
        PyObject *module = PyImport_ImportModule("_cffi_backend");
        PyObject *found = module != NULL ? PyObject_GetAttrString(module, "typeof") : NULL;
        Py_XDECREF(module);
        if (found == NULL) {
            return NULL;
        }
        nc_keep_first(&foreign_type_of, found);
    }
    foreign = PyObject_CallOneArg(foreign_type_of, value);
    if (foreign == NULL) {
        return NULL;
    }
    Taken *row = taken_row(wanted, foreign);
    Taken before = *row;
    PyTypeObject *class_ = (PyTypeObject *)(void *)Py_NewRef(Py_TYPE(value));
    for (int i = 0; i < CLASSES && !is_class(class_); i++) {
        if (classes[i] == NULL) {
            classes[i] = (PyTypeObject *)(void *)Py_NewRef(class_);
        }
    }
    *row = (Taken){Py_NewRef(wanted),
                   class_,
                   foreign,
                   Py_NewRef(pointer),
                   (uintptr_t)alignment - 1,
                   strcmp(class_->tp_name, "_cffi_backend.__CDataGCP") == 0};
    Py_XDECREF(before.wanted);
    Py_XDECREF(before.class_);
    Py_XDECREF(before.foreign);
    Py_XDECREF(before.pointer);
    Py_RETURN_NONE;
}

int nc_take_pointer(PyObject *wanted, PyObject *value, NcPointer *out)
{
    if (!is_class(Py_TYPE(value))) {
        return 0;
    }
    PyObject *foreign = PyObject_CallOneArg(foreign_type_of, value);
    if (foreign == NULL) {
        PyErr_Clear();
        return 0;
    }
    const Taken *row = taken_row(wanted, foreign);
    int known = row->wanted == wanted && row->foreign == foreign && row->class_ == Py_TYPE(value);
    Py_DECREF(foreign);
    void *address = known ? nc_cffi_address(value, row->pointer) : NULL;
    if (address == NULL && PyErr_Occurred()) {
        PyErr_Clear();
        return 0;
    }
    if (!known || ((uintptr_t)address & row->mask) != 0 ||
        (row->may_end && NC_UNLIKELY(PyDict_GET_SIZE(ended) != 0) && is_ended(value))) {
        return 0;
    }
    out->address = address;
    out->keep = PyTuple_Pack(1, value);
    return out->keep != NULL ? 1 : -1;
}
