/* csrc/values/cffipointers.c: pointers and arrays of cffi as arguments, without asking Python.
 *
 * The pointer_argument hook is asked about the first of each type. What it takes whatever the
 * address is a row here. Rows are few, and a type that has lost its row is asked about again. */
#include "core/cffipointer.h"
#include "destructor.h"
#include "pointers.h"
#include "text.h"

#include <string.h>

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
/* The classes of objects in rows, which cffi has four of; others are asked about. */
static const PyTypeObject *classes[CLASSES];

/* The types of cffi that text is read from without asking Python: dict of these to the pointer type
 * that they convert to (nativecall/_values/text.py). */
static PyObject *texts;

int nc_pointers_ready(PyObject *module)
{
    if (texts == NULL) {
        texts = PyDict_New();
    }
    return texts == NULL ? -1 : PyModule_AddObjectRef(module, "texts", texts);
}

static PyObject *known_typeof; /* cffi's typeof(); NULL before the first question */

static int is_class(const PyTypeObject *found)
{
    for (int i = 0; i < CLASSES && classes[i] != NULL; i++) {
        if (classes[i] == found) {
            return 1;
        }
    }
    return 0;
}

PyObject *nc_integer_of_cffi(PyObject *value)
{
    PyObject *type_of = strncmp(Py_TYPE(value)->tp_name, "_cffi_backend.", 14) == 0
                            ? nc_of_cffi(&known_typeof, "typeof")
                            : NULL;
    PyObject *type = type_of != NULL ? PyObject_CallOneArg(type_of, value) : NULL;
    PyObject *kind = type != NULL ? PyObject_GetAttrString(type, "kind") : NULL;
    PyObject *cname = kind != NULL ? PyObject_GetAttrString(type, "cname") : NULL;
    const char *name = cname != NULL ? PyUnicode_AsUTF8(cname) : NULL;
    int is_integer = 0;
    if (name != NULL && PyUnicode_CompareWithASCIIString(kind, "enum") == 0) {
        is_integer = 1;
    } else if (name != NULL && PyUnicode_CompareWithASCIIString(kind, "primitive") == 0) {
        /* int() cuts off what a float has behind the point, and takes characters for numbers. */
        is_integer = strstr(name, "float") == NULL && strstr(name, "double") == NULL &&
                     (strstr(name, "char") == NULL || strstr(name, "ed char") != NULL);
    }
    Py_XDECREF(type);
    Py_XDECREF(kind);
    Py_XDECREF(cname);
    return is_integer ? PyNumber_Long(value) : NULL;
}

static Taken *taken_row(PyObject *wanted, PyObject *foreign)
{
    return &taken[(((uintptr_t)wanted >> 4) * 31 + ((uintptr_t)foreign >> 4)) % TAKEN];
}

/* take_pointers(ctype, value, pointer, alignment): by it the hook tells that it takes all such
 * pointers and arrays of cffi for such an argument: `pointer` is the cffi type that they convert
 * to, `alignment` 1 where any address will do. */
PyObject *nc_take_pointers(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *wanted;
    PyObject *value;
    PyObject *pointer;
    Py_ssize_t alignment;
    PyObject *foreign;
    PyObject *type_of = nc_of_cffi(&known_typeof, "typeof");
    if (type_of == NULL || !PyArg_ParseTuple(args, "OOOn", &wanted, &value, &pointer, &alignment)) {
        return NULL;
    }
    foreign = PyObject_CallOneArg(type_of, value);
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
    /* Who has put a class there has asked for typeof(). */
    PyObject *foreign = PyObject_CallOneArg(known_typeof, value);
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
        (row->may_end && nc_ended_by(value) != NULL)) {
        return 0;
    }
    out->address = address;
    out->keep = PyTuple_Pack(1, value);
    return out->keep != NULL ? 1 : -1;
}

/* ---- text ------------------------------------------------------------------------------------ */

/* NULL without an exception for an encoding that Python does not have. */
static PyObject *decoded(const char *text, Py_ssize_t length, PyObject *encoding)
{
    if (encoding == Py_None) {
        return PyBytes_FromStringAndSize(text, length);
    }
    PyObject *found = nc_decode_text(text, length, encoding);
    if (found == NULL && !PyErr_ExceptionMatches(PyExc_UnicodeError) &&
        (PyErr_ExceptionMatches(PyExc_LookupError) || PyErr_ExceptionMatches(PyExc_ValueError))) {
        PyErr_Clear();
    }
    return found;
}

PyObject *nc_string_at(PyObject *Py_UNUSED(data), PyObject *const *args, Py_ssize_t nargs,
                       PyObject *kwnames)
{
    Py_ssize_t named = kwnames != NULL ? PyTuple_GET_SIZE(kwnames) : 0;
    PyObject *value = nargs != 0 ? args[0] : NULL;
    PyObject *encoding = nargs + named == 2 ? args[1] : Py_None;
    if (nargs < 1 || nargs + named > 2 ||
        strncmp(Py_TYPE(value)->tp_name, "_cffi_backend.", 14) != 0 ||
        (encoding != Py_None && !PyUnicode_CheckExact(encoding)) ||
        (named == 1 &&
         PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, 0), "encoding") != 0) ||
        nc_ended_by(value) != NULL) {
        return NULL;
    }
    PyObject *type_of = nc_of_cffi(&known_typeof, "typeof");
    PyObject *foreign = type_of != NULL ? PyObject_CallOneArg(type_of, value) : NULL;
    PyObject *pointer = foreign != NULL ? PyDict_GetItemWithError(texts, foreign) : NULL;
    int is_array = pointer != foreign;
    Py_XDECREF(foreign);
    if (pointer == NULL) {
        PyErr_Clear(); /* no object of cffi's that has such a type */
        return NULL;
    }
    const char *text = (const char *)nc_cffi_address(value, pointer);
    if (text == NULL) {
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    }
    Py_ssize_t length = is_array ? PyObject_Size(value) : 0;
    if (length < 0) {
        return NULL;
    }
    const char *end = is_array ? memchr(text, 0, (size_t)length) : text + strlen(text);
    return decoded(text, end != NULL ? end - text : length, encoding);
}
