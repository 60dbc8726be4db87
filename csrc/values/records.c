/* csrc/values/records.c: pointers and structs of numbers as Python objects; records.h says
 * which. */
#include "records.h"

#include "ground/address.h"
#include "layout.h"
#include "pointers.h"

/* ---- pointers -------------------------------------------------------------------------------- */

typedef struct {
    PyObject_HEAD
    PyObject *ctype;
    PyObject *foreign; /* cffi's type, once asked for; or NULL */
    NcCallSpec *text;  /* of a function that returns such text; NULL for pointers */
} PointerReader;

PyObject *nc_pointer_read(PyObject *object, void *pointer)
{
    PointerReader *self = (PointerReader *)(void *)object;
    return nc_given_pointer(self->text, self->text != NULL ? self->text->text_result : '\0',
                            self->ctype, &self->foreign, pointer);
}

static PyObject *pointer_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    PyObject *ctype;
    PyObject *text = NULL;
    if (!PyArg_ParseTuple(args, "O|O!", &ctype, &NcCallSpec_Type, &text)) {
        return NULL;
    }
    if (text != NULL && ((NcCallSpec *)(void *)text)->text_result == '\0') {
        PyErr_SetString(PyExc_ValueError, "no text is returned by such a call spec");
        return NULL;
    }
    PointerReader *self = (PointerReader *)(void *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->ctype = Py_NewRef(ctype);
        self->text = (NcCallSpec *)(void *)Py_XNewRef(text);
    }
    return (PyObject *)self;
}

static PyObject *pointer_call(PyObject *object, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    void *address;
    return PyArg_ParseTuple(args, "O&", nc_take_address, &address)
               ? nc_pointer_read(object, address)
               : NULL;
}

static void pointer_dealloc(PyObject *object)
{
    PointerReader *self = (PointerReader *)(void *)object;
    Py_XDECREF(self->ctype);
    Py_XDECREF(self->foreign);
    Py_XDECREF(self->text);
    Py_TYPE(object)->tp_free(object);
}

/* No cycle can lead through one: what it holds describes types. */
PyTypeObject NcPointerReader_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "nativecall._types.PointerReader",
    .tp_doc = "PointerReader(ctype[, spec]): makes cffi pointers of addresses, or the text there.",
    .tp_basicsize = sizeof(PointerReader),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = pointer_new,
    .tp_call = pointer_call,
    .tp_dealloc = pointer_dealloc,
};

/* ---- structs of numbers ---------------------------------------------------------------------- */

typedef struct {
    Py_ssize_t offset;
    char code;       /* letter of a number; 0 for a Record */
    PyObject *inner; /* Record; or NULL */
} Member;

typedef struct {
    PyObject_VAR_HEAD PyTypeObject *type; /* a class of tuples; NULL: tuple itself, of an array */
    Member members[1];
} Record;

PyObject *nc_tuple_new(PyTypeObject *type, Py_ssize_t count)
{
    return nc_tuple_complete(type != NULL ? type->tp_alloc(type, count) : PyTuple_New(count));
}

int nc_is_tuple_of(PyObject *value, Py_ssize_t count)
{
    const PyTypeObject *type = Py_TYPE(value);
    return PyTuple_Check(value) && PyTuple_GET_SIZE(value) == count &&
           type->tp_iter == PyTuple_Type.tp_iter && type->tp_as_sequence != NULL &&
           type->tp_as_sequence->sq_length == PyTuple_Type.tp_as_sequence->sq_length;
}

PyObject *nc_record_read(PyObject *object, const char *memory)
{
    const Record *self = (const Record *)(const void *)object;
    Py_ssize_t count = Py_SIZE(object);
    PyObject *made = nc_tuple_new(self->type, count);
    for (Py_ssize_t i = 0; made != NULL && i < count; i++) {
        const Member *member = &self->members[i];
        const char *at = memory + member->offset;
        PyObject *value = member->inner != NULL ? nc_record_read(member->inner, at)
                                                : nc_scalar_to_python(member->code, at);
        if (value == NULL) {
            Py_CLEAR(made);
            break;
        }
        PyTuple_SET_ITEM(made, i, value);
    }
    return made;
}

int nc_record_write(PyObject *object, PyObject *who, PyObject *value, char *memory)
{
    const Record *self = (const Record *)(const void *)object;
    Py_ssize_t count = Py_SIZE(object);
    if (!nc_is_tuple_of(value, count)) {
        return 0;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        const Member *member = &self->members[i];
        PyObject *item = PyTuple_GET_ITEM(value, i);
        char *at = memory + member->offset;
        if (member->inner != NULL) {
            if (!nc_record_write(member->inner, who, item, at)) {
                return 0;
            }
            continue;
        }
        /* No others, whose conversion may run any code. */
        if (!PyFloat_CheckExact(item) && !PyLong_CheckExact(item) && !PyBool_Check(item) &&
            !PyComplex_CheckExact(item)) {
            return 0;
        }
        if (nc_convert_scalar(who, -1, item, member->code, at) < 0) {
            PyErr_Clear(); /* storage.py raises it, with the name of the field */
            return 0;
        }
    }
    return 1;
}

/* Record(class or None, ((offset, letter or Record), ...)) */
static PyObject *record_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    PyObject *class;
    PyObject *members;
    int has_more = 0;
    if (!PyArg_ParseTuple(args, "OO!", &class, &PyTuple_Type, &members)) {
        return NULL;
    }
    if (class != Py_None) {
        /* Tuples with members beyond their length have this, such as os.stat_result. */
        PyObject *beyond = PyObject_GetAttrString(class, "n_sequence_fields");
        has_more = beyond != NULL;
        Py_XDECREF(beyond);
        if (!has_more && !PyErr_ExceptionMatches(PyExc_AttributeError)) {
            return NULL;
        }
        PyErr_Clear();
    }
    if (class != Py_None &&
        (!PyType_Check(class) || !PyType_IsSubtype((PyTypeObject *)(void *)class, &PyTuple_Type) ||
         has_more)) {
        PyErr_SetString(PyExc_TypeError, "the class of a record must be a tuple's");
        return NULL;
    }
    Record *self = (Record *)(void *)type->tp_alloc(type, PyTuple_GET_SIZE(members));
    if (self == NULL) {
        return NULL;
    }
    self->type = class != Py_None ? (PyTypeObject *)(void *)Py_NewRef(class) : NULL;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(members); i++) {
        Member *member = &self->members[i];
        PyObject *what;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(members, i), "nO", &member->offset, &what)) {
            Py_DECREF(self);
            return NULL;
        }
        if (Py_IS_TYPE(what, &NcRecord_Type)) {
            member->inner = Py_NewRef(what);
        } else if (PyUnicode_Check(what) && PyUnicode_GET_LENGTH(what) == 1 &&
                   PyUnicode_READ_CHAR(what, 0) < 128 &&
                   nc_scalar_size((char)PyUnicode_READ_CHAR(what, 0)) != 0) {
            member->code = (char)PyUnicode_READ_CHAR(what, 0);
        } else {
            PyErr_SetString(PyExc_TypeError, "Record() takes letters of numbers, and Records");
            Py_DECREF(self);
            return NULL;
        }
    }
    return (PyObject *)self;
}

static PyObject *record_call(PyObject *object, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    void *address;
    return PyArg_ParseTuple(args, "O&", nc_take_address, &address)
               ? nc_record_read(object, (const char *)address)
               : NULL;
}

static void record_dealloc(PyObject *object)
{
    Record *self = (Record *)(void *)object;
    Py_XDECREF((PyObject *)self->type);
    for (Py_ssize_t i = 0; i < Py_SIZE(object); i++) {
        Py_XDECREF(self->members[i].inner);
    }
    Py_TYPE(object)->tp_free(object);
}

/* No cycle can lead through one: its class is nativecall's own. */
PyTypeObject NcRecord_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "nativecall._types.Record",
    .tp_doc = "Record(class, members): makes named tuples of structs.",
    .tp_basicsize = offsetof(Record, members),
    .tp_itemsize = sizeof(Member),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = record_new,
    .tp_call = record_call,
    .tp_dealloc = record_dealloc,
};
