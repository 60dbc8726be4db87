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
} Taken;

enum { TAKEN = 64 };
static Taken taken[TAKEN];
static PyObject *foreign_type_of; /* cffi's typeof(); NULL before there is a row */

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
    *row = (Taken){Py_NewRef(wanted), (PyTypeObject *)(void *)Py_NewRef(Py_TYPE(value)), foreign,
                   Py_NewRef(pointer), (uintptr_t)alignment - 1};
    Py_XDECREF(before.wanted);
    Py_XDECREF(before.class_);
    Py_XDECREF(before.foreign);
    Py_XDECREF(before.pointer);
    Py_RETURN_NONE;
}

int nc_take_pointer(PyObject *wanted, PyObject *value, NcPointer *out)
{
    if (foreign_type_of == NULL || strncmp(Py_TYPE(value)->tp_name, "_cffi_backend.", 14) != 0) {
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
    if (!known || ((uintptr_t)address & row->mask) != 0) {
        return 0;
    }
    out->address = address;
    out->keep = PyTuple_Pack(1, value);
    return out->keep != NULL ? 1 : -1;
}
