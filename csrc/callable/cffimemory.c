/* csrc/callable/cffimemory.c: memory of a C type: what `lib.new` does, with cffi.
 *
 * Python code (nativecall/_library/memory.py) makes a row once a type, which says how initialisers
 * become what cffi takes; it makes pointers of values that are not usual, and says what is wrong
 * with one. What pointers in the memory lead to is in the block that the memory is made of, where
 * the collector sees it.
 *
 * All with the GIL. */
#include "pycallback.h"
#include "core/cffipointer.h"
#include "values/cffitypes.h"
#include "platform/functions.h"
#include "values/destructor.h"
#include "values/memoryblock.h"
#include "values/pointers.h"
#include "values/structpointer.h"

#include <stddef.h>

#define ITEM(tuple, number) PyTuple_GET_ITEM(tuple, number)

/* ---- pointers -------------------------------------------------------------------------------- */

/* How values become pointers of a type, a tuple: cffi's type; a call interface with such an
 * argument;
 * "c" where bytes are copied, "f" for functions, else "*"; the CallbackSpec of Python functions, or
 * None. */
enum { TYPE, CIF, KIND, CALLBACK };

/* An exception unless a tuple has so many items. */
static int has_items(PyObject *tuple, Py_ssize_t count)
{
    if (PyTuple_GET_SIZE(tuple) != count) {
        PyErr_SetString(PyExc_TypeError, "nativecall._library.memory knows what it takes");
    }
    return PyTuple_GET_SIZE(tuple) == count;
}

/* The address for a value, and an object that keeps what is there. A new reference; NULL, perhaps
 * with an exception, where Python code is to see to the value. */
static PyObject *pointer_of(PyObject *slot, PyObject *value, void **address)
{
    const NcCallInterface *cif = (const NcCallInterface *)(const void *)ITEM(slot, CIF);
    Py_UCS4 kind = PyUnicode_READ_CHAR(ITEM(slot, KIND), 0);
    PyObject *function = PyMethod_Check(value) ? PyMethod_GET_FUNCTION(value) : value;
    if (nc_is_cdata(nc_bare(value))) {
        if (nc_ended_by(value) != NULL) {
            return NULL;
        }
        *address = nc_cffi_address(nc_bare(value), ITEM(slot, TYPE));
        return *address != NULL || !PyErr_Occurred() ? Py_NewRef(value) : NULL;
    }
    if (kind == 'c' && PyBytes_CheckExact(value)) {
        PyObject *copy =
            PyBytes_FromStringAndSize(PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value));
        *address = copy != NULL ? PyBytes_AS_STRING(copy) : NULL;
        return copy;
    }
    if (kind == 'f' && PyFunction_Check(function) && ITEM(slot, CALLBACK) != Py_None) {
        NcPyCallback *made =
            nc_pycallback_make((NcCallbackSpec *)(void *)ITEM(slot, CALLBACK), value,
                               ((PyFunctionObject *)(void *)function)->func_name);
        *address = made != NULL ? made->stub : NULL;
        return (PyObject *)made;
    }
    if (kind == 'f' ? !PyObject_TypeCheck(value, (PyTypeObject *)(void *)&NcCallable_Type)
                    : PyList_Check(value) || PyTuple_Check(value) || PyDict_Check(value)) {
        return NULL;
    }
    /* Nobody reads the message. */
    NcPin *pin = nc_pin_value(cif, ITEM(cif->alone, 0), kind == 'f' ? 0 : -1, value);
    *address = pin != NULL ? pin->pointer.address : NULL;
    return (PyObject *)pin;
}

/* Whether Python code is to see to a value: drops the exception that says that it does not fit. */
static int is_refused(void)
{
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception)) {
        return 0;
    }
    PyErr_Clear();
    return 1;
}

/* cffi's pointer for a value; what keeps it goes to the list. NULL, perhaps with an exception,
 * where Python code is to see to it. */
static PyObject *convert_pointer(PyObject *slot, PyObject *value, PyObject *list)
{
    void *address = NULL;
    PyObject *kept = value != Py_None ? pointer_of(slot, value, &address) : NULL;
    PyObject *made = NULL;
    if (value == Py_None || (kept != NULL && PyList_Append(list, kept) == 0)) {
        made = kept != NULL && nc_is_cdata(nc_bare(kept))
                   ? Py_NewRef(nc_bare(kept))
                   : nc_cffi_pointer(address, ITEM(slot, TYPE));
    }
    Py_XDECREF(kept);
    return made;
}

/* ---- structs --------------------------------------------------------------------------------- */

/* A member that cffi may not take as it is, a list: its name; how it becomes a pointer, None until
 * that is known, or where it is none; convert(value, list, who). */
enum { NAME, HOW, BY };

static PyObject *convert_member(PyObject *member, PyObject *value, PyObject *list, PyObject *who)
{
    PyObject *slot = PyList_GET_ITEM(member, HOW);
    PyObject *made = slot != Py_None ? convert_pointer(slot, value, list) : NULL;
    if (made == NULL && is_refused()) {
        PyObject *place = PyTuple_Pack(2, PyList_GET_ITEM(member, NAME), who);
        PyObject *const args[] = {value, list, place};
        made =
            place != NULL ? PyObject_Vectorcall(PyList_GET_ITEM(member, BY), args, 3, NULL) : NULL;
        Py_XDECREF(place);
    }
    return made;
}

/* What cffi takes for a struct whose initialiser is a dict, or a tuple of the first of `names`: a
 * new dict. `record` is (names, members). None for other initialisers. */
static PyObject *convert_record(PyObject *record, PyObject *init, PyObject *list, PyObject *who)
{
    PyObject *names = ITEM(record, 0);
    PyObject *members = ITEM(record, 1);
    int is_tuple = PyTuple_CheckExact(init) && PyTuple_GET_SIZE(init) <= PyTuple_GET_SIZE(names);
    if (!is_tuple && !PyDict_CheckExact(init)) {
        Py_RETURN_NONE;
    }
    PyObject *given = is_tuple ? PyDict_New() : PyDict_Copy(init);
    for (Py_ssize_t i = 0; given != NULL && is_tuple && i < PyTuple_GET_SIZE(init); i++) {
        if (PyDict_SetItem(given, ITEM(names, i), ITEM(init, i)) < 0) {
            Py_CLEAR(given);
        }
    }
    for (Py_ssize_t i = 0; given != NULL && i < PyTuple_GET_SIZE(members); i++) {
        PyObject *name = PyList_GET_ITEM(ITEM(members, i), NAME);
        PyObject *value = PyDict_GetItemWithError(given, name);
        PyObject *made = NULL;
        if (value != NULL) {
            Py_INCREF(value);
            made = convert_member(ITEM(members, i), value, list, who);
            Py_DECREF(value);
        }
        if (made != NULL ? PyDict_SetItem(given, name, made) < 0 : PyErr_Occurred() != NULL) {
            Py_CLEAR(given);
        }
        Py_XDECREF(made);
    }
    return given;
}

/* convert_record(record, init, list, who). */
PyObject *nc_memory_record(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *record;
    PyObject *init;
    PyObject *list;
    PyObject *who;
    return PyArg_ParseTuple(args, "O!OO!O", &PyTuple_Type, &record, &init, &PyList_Type, &list,
                            &who) &&
                   has_items(record, 2)
               ? convert_record(record, init, list, who)
               : NULL;
}

/* ---- making ---------------------------------------------------------------------------------- */

/* How memory of a type is made, a tuple: cffi's pointer or array type; its type of pointers to an
 * item; what makes memory in a block, or None where that is not for the core; the length of an
 * array, None where values say it; of an array, a list of the call interface that buffers of its
 * elements suit, None until one came, and the size of an item; the slot of an array of pointers, or
 * None; the record of a struct with pointers, or None; convert(value, list, who), or None where
 * cffi takes values as they are; again(value, list, who) for what cffi refuses; what messages call
 * the value; the dict by which a StructPointer stands for it (values/structpointer.h), or None. */
enum {
    CTYPE,
    POINTER,
    IN_BLOCK,
    LENGTH,
    ELEMENTS,
    POINTERS,
    RECORD,
    CONVERT,
    AGAIN,
    WHO,
    STRUCTS,
    ROW
};

static PyObject *call_two(PyObject *function, PyObject *one, PyObject *other)
{
    PyObject *const args[] = {one, other};
    return function != NULL ? PyObject_Vectorcall(function, args, 2, NULL) : NULL;
}

/* Memory that keeps a list, and its address. */
static PyObject *make_in_block(PyObject *row, PyObject *init, PyObject *list, void **address)
{
    PyObject *made = call_two(ITEM(row, IN_BLOCK), ITEM(row, CTYPE), init);
    char *data = made != NULL ? (char *)nc_cffi_address(made, ITEM(row, POINTER)) : NULL;
    if (data == NULL) {
        Py_CLEAR(made);
    } else {
        ((NcBlock *)(void *)(data - offsetof(NcBlock, data)))->kept = Py_NewRef(list);
        *address = data;
    }
    return made;
}

static PyObject *make_of(PyObject *row, PyObject *init, PyObject *list)
{
    static PyObject *newp; /* cffi's; NULL before the first */
    void *address;
    return list != NULL && PyList_GET_SIZE(list) != 0
               ? make_in_block(row, init, list, &address)
               : call_two(nc_of_cffi(&newp, "newp"), ITEM(row, CTYPE), init);
}

/* An array of pointers, of a list or tuple; NULL, perhaps with an exception, where Python code is
 * to see to an item. */
static PyObject *make_pointers(PyObject *row, PyObject *init, PyObject *list)
{
    PyObject *items = PySequence_Tuple(init); /* conversions run code that may change a list */
    PyObject *made = NULL;
    void **memory = NULL;
    Py_ssize_t count = items != NULL ? PyTuple_GET_SIZE(items) : 0;
    PyObject *length = ITEM(row, LENGTH);
    if (items != NULL && (length == Py_None || PyLong_AsSsize_t(length) >= count)) {
        PyObject *given = length == Py_None ? PyLong_FromSsize_t(count) : Py_NewRef(Py_None);
        made = given != NULL ? make_in_block(row, given, list, (void **)&memory) : NULL;
        Py_XDECREF(given);
    }
    for (Py_ssize_t i = 0; made != NULL && i < count; i++) {
        if (ITEM(items, i) != Py_None) {
            PyObject *kept = pointer_of(ITEM(row, POINTERS), ITEM(items, i), &memory[i]);
            if (kept == NULL || PyList_Append(list, kept) < 0) {
                Py_CLEAR(made);
            }
            Py_XDECREF(kept);
        }
    }
    Py_XDECREF(items);
    return made;
}

/* An array that is a copy of a buffer; NULL, perhaps with an exception, where Python code is to see
 * to that. */
static PyObject *make_copy(PyObject *row, PyObject *init)
{
    const NcCallInterface *cif =
        (const NcCallInterface *)(const void *)PyList_GET_ITEM(ITEM(row, ELEMENTS), 0);
    Py_ssize_t size = PyLong_AsSsize_t(PyList_GET_ITEM(ITEM(row, ELEMENTS), 1));
    PyObject *length = ITEM(row, LENGTH);
    PyObject *made = NULL;
    NcPin *pin = (const void *)cif != (const void *)Py_None && size > 0
                     ? nc_pin_value(cif, ITEM(cif->alone, 0), -1, init)
                     : NULL;
    Py_ssize_t bytes =
        pin != NULL && pin->pointer.buffer.obj != NULL ? pin->pointer.buffer.len : -1;
    if (bytes >= 0 && bytes % size == 0 &&
        (length == Py_None || PyLong_AsSsize_t(length) >= bytes / size)) {
        PyObject *count = length == Py_None ? PyLong_FromSsize_t(bytes / size) : Py_NewRef(Py_None);
        made = count != NULL ? make_of(row, count, NULL) : NULL;
        void *data = made != NULL ? nc_cffi_address(made, ITEM(row, POINTER)) : NULL;
        if (data != NULL) {
            memcpy(data, pin->pointer.address, (size_t)bytes);
        } else {
            Py_CLEAR(made);
        }
        Py_XDECREF(count);
    }
    Py_XDECREF((PyObject *)pin);
    return made;
}

/* What cffi takes for an initialiser. */
static PyObject *convert(PyObject *row, PyObject *init, PyObject *list, PyObject *who)
{
    PyObject *const args[] = {init, list, who};
    if (ITEM(row, RECORD) != Py_None) {
        PyObject *made = convert_record(ITEM(row, RECORD), init, list, who);
        if (made != Py_None) {
            return made;
        }
        Py_DECREF(made);
    }
    return PyObject_Vectorcall(ITEM(row, CONVERT), args, 3, NULL);
}

static PyObject *make(PyObject *row, PyObject *init, PyObject *who)
{
    int is_usual = ITEM(row, IN_BLOCK) != Py_None;
    PyObject *list = NULL;
    init = nc_bare(init);
    PyObject *value = Py_NewRef(init);
    PyObject *made = NULL;
    if (is_usual && !PyBytes_Check(init) && PyObject_CheckBuffer(init)) {
        made = ITEM(row, ELEMENTS) != Py_None ? make_copy(row, init) : NULL;
    } else if (is_usual && (init == Py_None || ITEM(row, CONVERT) == Py_None)) {
        made = make_of(row, init, NULL);
    } else if (is_usual && (list = PyList_New(0)) != NULL) {
        if (ITEM(row, POINTERS) != Py_None && (PyList_Check(init) || PyTuple_Check(init))) {
            made = make_pointers(row, init, list);
        } else {
            Py_SETREF(value, convert(row, init, list, who));
            made = value != NULL ? make_of(row, value, list) : NULL;
        }
    }
    if (made == NULL && value != NULL && is_refused()) {
        list = list != NULL ? list : PyList_New(0);
        PyObject *const args[] = {value, list, who};
        made = list != NULL ? PyObject_Vectorcall(ITEM(row, AGAIN), args, 3, NULL) : NULL;
    }
    Py_XDECREF(list);
    Py_XDECREF(value);
    return made;
}

/* make(row, init, who=None): memory of a row; without `who` as `lib.new` gives it. */
PyObject *nc_memory_make(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs < 2 || nargs > 3 || !PyTuple_CheckExact(args[0])) {
        PyErr_SetString(PyExc_TypeError, "make() takes a row, an initialiser and a name");
        return NULL;
    }
    if (!has_items(args[0], ROW)) {
        return NULL;
    }
    PyObject *made = make(args[0], args[1], nargs == 3 ? args[2] : ITEM(args[0], WHO));
    if (nargs == 3 || made == NULL || ITEM(args[0], STRUCTS) == Py_None) {
        return made;
    }
    PyObject *kept = PyDict_New();
    if (kept == NULL) {
        Py_DECREF(made);
        return NULL;
    }
    made = nc_struct_pointer(made, ITEM(args[0], STRUCTS), kept);
    Py_DECREF(kept);
    return made;
}

/* make_of(row, init, list): memory of an initialiser that cffi takes, which keeps a list. */
PyObject *nc_memory_of(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *row;
    PyObject *init;
    PyObject *list;
    return PyArg_ParseTuple(args, "O!OO!", &PyTuple_Type, &row, &init, &PyList_Type, &list) &&
                   has_items(row, ROW)
               ? make_of(row, init, list)
               : NULL;
}
