/* csrc/callable/cffimemory.c: allocates memory of a C type with cffi, as `lib.new` does.
 *
 * Python code (nativecall/_library/memory.py) makes one row for each type. The row describes how to
 * convert initialisers to values that cffi accepts. Python code also converts unusual values, and
 * raises the errors. Each block of memory refers to the objects that keep the pointers in it valid.
 * The collector sees these references.
 *
 * Threads: everything here needs the GIL. */
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

/* A slot: how to convert values to pointers of a type. A list of
 *   TYPE      cffi's type
 *   CIF       a call interface with an argument of this type; None before the first value
 *   KIND      "c" to copy bytes, "f" for functions, else "*"
 *   CALLBACK  the CallbackSpec for Python functions, or None
 *   CONVERT   convert(value, list, who), which accepts any value
 *   ACCEPTED  another cffi type, of arrays, that was converted last; or None */
enum { TYPE, CIF, KIND, CALLBACK, CONVERT, ACCEPTED, SLOT };

/* Atomic, since other threads may set CIF and ACCEPTED. Their old values live as long as the
 * process. */
#define PART(slot, number) nc_kept(&PyList_GET_ITEM(slot, number))

/* Returns whether `count` is `wanted`; raises TypeError if not. */
static int has_items(Py_ssize_t count, Py_ssize_t wanted)
{
    if (count != wanted) {
        PyErr_SetString(PyExc_TypeError,
                        "nativecall._library.memory passed the wrong number of items");
    }
    return count == wanted;
}

/* Sets *address for a value. Returns a new reference to an object that keeps the memory at that
 * address alive. Returns NULL, perhaps with an exception, if Python code must convert the value. */
static PyObject *pointer_of(PyObject *slot, PyObject *value, void **address)
{
    const NcCallInterface *cif = (const NcCallInterface *)(const void *)PART(slot, CIF);
    if (PART(slot, CIF) == Py_None) {
        return NULL;
    }
    PyObject *cdata = nc_bare(value);
    PyObject *foreign = nc_type_of_cffi(cdata);
    if (foreign != NULL) {
        if (nc_load_relaxed_ptr(&nc_cffi_gcp) == Py_TYPE(cdata) && nc_ended_by(cdata) != NULL) {
            return NULL;
        }
        int is_accepted =
            nc_load_relaxed_size(&nc_cffi_is_direct) && foreign == PART(slot, ACCEPTED);
        *address =
            is_accepted ? nc_word_of_cffi(cdata) : nc_address_of_cffi(cdata, PART(slot, TYPE));
        if (*address == NULL && PyErr_Occurred()) {
            return NULL;
        }
        if (!is_accepted && foreign != PART(slot, TYPE) && nc_word_of_cffi(cdata) == *address) {
            PyList_SetItem(slot, ACCEPTED, Py_NewRef(foreign));
        }
        return Py_NewRef(value);
    }
    Py_UCS4 kind = PyUnicode_READ_CHAR(PART(slot, KIND), 0);
    PyObject *function = PyMethod_Check(value) ? PyMethod_GET_FUNCTION(value) : value;
    if (kind == 'c' && PyBytes_Check(value)) {
        PyObject *copy =
            PyBytes_FromStringAndSize(PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value));
        *address = copy != NULL ? PyBytes_AS_STRING(copy) : NULL;
        return copy;
    }
    if (kind == 'f' && PyFunction_Check(function) && PART(slot, CALLBACK) != Py_None) {
        NcPyCallback *made =
            nc_pycallback_make((NcCallbackSpec *)(void *)PART(slot, CALLBACK), value,
                               ((PyFunctionObject *)(void *)function)->func_name);
        *address = made != NULL ? made->stub : NULL;
        return (PyObject *)made;
    }
    if (kind == 'f' ? !PyObject_TypeCheck(value, (PyTypeObject *)(void *)&NcCallable_Type)
                    : PyList_Check(value) || PyTuple_Check(value) || PyDict_Check(value)) {
        return NULL;
    }
    /* The name is a placeholder, because the error message is discarded. */
    NcPin *pin = nc_pin_value(cif, ITEM(cif->alone, 0), kind == 'f' ? 0 : -1, value);
    *address = pin != NULL ? pin->pointer.address : NULL;
    return (PyObject *)pin;
}

/* Clears the error of a value that did not fit and returns 1, so that Python code converts the
 * value. If the exception does not derive from Exception, such as KeyboardInterrupt, keeps it and
 * returns 0. */
static int is_refused(void)
{
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception)) {
        return 0;
    }
    PyErr_Clear();
    return 1;
}

/* Returns cffi's pointer for a value. Appends the object that keeps the memory alive to the list.
 * Returns NULL, perhaps with an exception, if Python code must convert the value. */
static PyObject *convert_pointer(PyObject *slot, PyObject *value, PyObject *list)
{
    void *address = NULL;
    PyObject *kept = value != Py_None ? pointer_of(slot, value, &address) : NULL;
    PyObject *made = NULL;
    if (value == Py_None || (kept != NULL && PyList_Append(list, kept) == 0)) {
        made = kept != NULL && nc_is_cdata(nc_bare(kept))
                   ? Py_NewRef(nc_bare(kept))
                   : nc_cffi_pointer(address, PART(slot, TYPE));
    }
    Py_XDECREF(kept);
    return made;
}

/* convert_pointer(slot, value, list): like the C function convert_pointer, but returns None if
 * Python code must convert the value. */
PyObject *nc_memory_pointer(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 3 || !PyList_Check(args[0]) || !PyList_Check(args[2])) {
        PyErr_SetString(PyExc_TypeError, "convert_pointer() takes a slot, a value and a list");
        return NULL;
    }
    if (!has_items(PyList_GET_SIZE(args[0]), SLOT)) {
        return NULL;
    }
    PyObject *made = convert_pointer(args[0], args[1], args[2]);
    return made == NULL && is_refused() ? Py_NewRef(Py_None) : made;
}

/* ---- initialisers ---------------------------------------------------------------------------- */

/* For a type that contains pointers, `how` describes how to convert an initialiser to a value that
 * cffi accepts. For a pointer, `how` is a slot. For an array, it is a tuple whose only item is the
 * `how` of the elements. For a struct, it is (names of members by position, ((name, how), ...)). */

static PyObject *convert_parts(PyObject *how, PyObject *init, PyObject *list, PyObject *who);

/* Converts a value to one that cffi accepts. Messages call the value `key` of `who`, or `who` if
 * `key` is NULL. Returns the value itself if Python code must convert the whole struct or array. */
static PyObject *convert(PyObject *how, PyObject *value, PyObject *list, PyObject *key,
                         PyObject *who)
{
    int is_pointer = PyList_CheckExact(how);
    PyObject *made = is_pointer ? convert_pointer(how, value, list) : NULL;
    if (made != NULL || (is_pointer && !is_refused())) {
        return made;
    }
    PyObject *place = key != NULL ? PyTuple_Pack(2, key, who) : Py_NewRef(who);
    PyObject *const args[] = {value, list, place};
    if (place != NULL) {
        made = is_pointer ? PyObject_Vectorcall(PART(how, CONVERT), args, 3, NULL)
                          : convert_parts(how, value, list, place);
    }
    Py_XDECREF(place);
    return made;
}

/* Converts the items of a list or tuple; returns a new list. */
static PyObject *convert_items(PyObject *how, PyObject *init, PyObject *list, PyObject *who)
{
    /* Copy, because conversions run code that may change `init`. */
    PyObject *items =
        PyList_CheckExact(init) || PyTuple_CheckExact(init) ? PySequence_List(init) : NULL;
    if (items == NULL) {
        return PyErr_Occurred() ? NULL : Py_NewRef(init);
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items); i++) {
        PyObject *item = PyList_GET_ITEM(items, i);
        PyObject *key = PyLong_FromSsize_t(i);
        PyObject *made = key != NULL ? convert(how, item, list, key, who) : NULL;
        Py_XDECREF(key);
        if (made == NULL || (made == item && PyTuple_CheckExact(how))) {
            Py_SETREF(items, made != NULL ? Py_NewRef(init) : NULL);
            Py_XDECREF(made);
            break;
        }
        PyList_SetItem(items, i, made);
    }
    return items;
}

/* Converts a struct's initialiser (a dict, or a list or tuple of the first members) to a new dict.
 * Converts an array's initialiser to a list. */
static PyObject *convert_parts(PyObject *how, PyObject *init, PyObject *list, PyObject *who)
{
    if (PyTuple_GET_SIZE(how) == 1) {
        return convert_items(ITEM(how, 0), init, list, who);
    }
    PyObject *names = ITEM(how, 0);
    PyObject *members = ITEM(how, 1);
    int is_list = PyList_CheckExact(init) || PyTuple_CheckExact(init);
    Py_ssize_t count = is_list ? PySequence_Fast_GET_SIZE(init) : 0;
    if ((!is_list && !PyDict_CheckExact(init)) || count > PyTuple_GET_SIZE(names)) {
        return Py_NewRef(init);
    }
    PyObject *given = is_list ? PyDict_New() : PyDict_Copy(init);
    if (is_list && PySequence_Fast_GET_SIZE(init) < count) { /* a finaliser shortened `init` */
        count = PySequence_Fast_GET_SIZE(init);
    }
    for (Py_ssize_t i = 0; given != NULL && i < count; i++) {
        if (PyDict_SetItem(given, ITEM(names, i), PySequence_Fast_GET_ITEM(init, i)) < 0) {
            Py_CLEAR(given);
        }
    }
    for (Py_ssize_t i = 0; given != NULL && i < PyTuple_GET_SIZE(members); i++) {
        PyObject *name = ITEM(ITEM(members, i), 0);
        PyObject *part = ITEM(ITEM(members, i), 1);
        PyObject *value = Py_XNewRef(PyDict_GetItemWithError(given, name));
        PyObject *made = value != NULL ? convert(part, value, list, name, who) : NULL;
        int is_left = made != NULL && made == value && PyTuple_CheckExact(part) &&
                      !PyLong_CheckExact(value); /* the length of a flexible array */
        if (made != NULL ? PyDict_SetItem(given, name, made) < 0 : PyErr_Occurred() != NULL) {
            Py_CLEAR(given);
        }
        Py_XDECREF(value);
        Py_XDECREF(made);
        if (is_left && given != NULL) {
            Py_SETREF(given, Py_NewRef(init));
            break;
        }
    }
    return given;
}

/* ---- allocation ------------------------------------------------------------------------------ */

/* A row: how to allocate memory of a type. A tuple of
 *   CTYPE     cffi's pointer or array type
 *   POINTER   cffi's type of pointers to an item
 *   IN_BLOCK  function that allocates memory in a block; None if only AGAIN allocates
 *   LENGTH    an array's length; None if the initialiser determines it
 *   ELEMENTS  for an array, the call interface for buffers of its elements, and an item's size
 *   HOW       `how` to convert values; None if cffi accepts them unchanged
 *   AGAIN     again(value, list, who): allocates for all other values, and raises the errors
 *   WHO       the name of the value in messages
 *   STRUCTS   the dict of a StructPointer (values/structpointer.h), or None */
enum { CTYPE, POINTER, IN_BLOCK, LENGTH, ELEMENTS, HOW, AGAIN, WHO, STRUCTS, ROW };

static PyObject *call_two(PyObject *function, PyObject *one, PyObject *other)
{
    PyObject *const args[] = {one, other};
    return function != NULL ? PyObject_Vectorcall(function, args, 2, NULL) : NULL;
}

/* Allocates memory that keeps a list alive, and sets *address to the memory's address. */
static PyObject *make_in_block(PyObject *row, PyObject *init, PyObject *list, void **address)
{
    PyObject *made = call_two(ITEM(row, IN_BLOCK), ITEM(row, CTYPE), init);
    char *data = made != NULL ? (char *)nc_address_of_cffi(made, ITEM(row, POINTER)) : NULL;
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
    static PyObject *newp; /* cffi's newp; NULL before the first use */
    void *address;
    return list != NULL ? make_in_block(row, init, list, &address)
                        : call_two(nc_of_cffi(&newp, "newp"), ITEM(row, CTYPE), init);
}

/* Makes an array of pointers from a list or tuple. Returns NULL, perhaps with an exception, if
 * Python code must convert an item. */
static PyObject *make_pointers(PyObject *row, PyObject *init, PyObject *list)
{
    PyObject *items = PySequence_Tuple(init); /* a copy: conversions may change `init` */
    PyObject *made = NULL;
    void **memory = NULL;
    Py_ssize_t count = items != NULL ? PyTuple_GET_SIZE(items) : 0;
    PyObject *length = ITEM(row, LENGTH);
    if (items != NULL && (length == Py_None || PyLong_AsSsize_t(length) >= count)) {
        PyObject *given = length == Py_None ? PyLong_FromSsize_t(count) : Py_NewRef(Py_None);
        made = given != NULL ? make_in_block(row, given, list, (void **)&memory) : NULL;
        Py_XDECREF(given);
    }
    int keeps_items = 0;
    for (Py_ssize_t i = 0; made != NULL && i < count; i++) {
        PyObject *item = ITEM(items, i);
        if (item != Py_None) {
            PyObject *kept = pointer_of(ITEM(ITEM(row, HOW), 0), item, &memory[i]);
            keeps_items |= kept == item;
            if (kept == NULL || (kept != item && PyList_Append(list, kept) < 0)) {
                Py_CLEAR(made);
            }
            Py_XDECREF(kept);
        }
    }
    if (made != NULL && keeps_items && PyList_Append(list, items) < 0) {
        Py_CLEAR(made);
    }
    Py_XDECREF(items);
    return made;
}

/* Copies a buffer to a new array. Returns NULL, perhaps with an exception, if Python code must copy
 * the buffer. */
static PyObject *make_copy(PyObject *row, PyObject *init)
{
    const NcCallInterface *cif =
        (const NcCallInterface *)(const void *)ITEM(ITEM(row, ELEMENTS), 0);
    Py_ssize_t size = PyLong_AsSsize_t(ITEM(ITEM(row, ELEMENTS), 1));
    PyObject *length = ITEM(row, LENGTH);
    PyObject *made = NULL;
    NcPin *pin = size > 0 ? nc_pin_value(cif, ITEM(cif->alone, 0), -1, init) : NULL;
    Py_ssize_t bytes =
        pin != NULL && pin->pointer.buffer.obj != NULL ? pin->pointer.buffer.len : -1;
    if (bytes >= 0 && bytes % size == 0 &&
        (length == Py_None || PyLong_AsSsize_t(length) >= bytes / size)) {
        PyObject *count = length == Py_None ? PyLong_FromSsize_t(bytes / size) : Py_NewRef(Py_None);
        made = count != NULL ? make_of(row, count, NULL) : NULL;
        void *data = made != NULL ? nc_address_of_cffi(made, ITEM(row, POINTER)) : NULL;
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

static PyObject *make(PyObject *row, PyObject *init, PyObject *who)
{
    int is_usual = ITEM(row, IN_BLOCK) != Py_None;
    PyObject *how = ITEM(row, HOW);
    int is_pointer = PyList_CheckExact(how);
    int is_several = PyTuple_CheckExact(how) && PyTuple_GET_SIZE(how) == 1;
    PyObject *list = NULL;
    PyObject *value = Py_NewRef(init);
    PyObject *made = NULL;
    if (is_usual && !PyBytes_Check(init) && PyObject_CheckBuffer(init)) {
        made = ITEM(row, ELEMENTS) != Py_None ? make_copy(row, init) : NULL;
    } else if (is_usual && (init == Py_None || how == Py_None)) {
        made = make_of(row, init, NULL);
    } else if (is_usual && (list = PyList_New(0)) != NULL) {
        if (is_several && PyList_CheckExact(ITEM(how, 0)) &&
            (PyList_Check(init) || PyTuple_Check(init))) {
            made = make_pointers(row, init, list);
        } else {
            Py_SETREF(value, convert(how, init, list, NULL, who));
            if (value != NULL && (value != init || is_pointer)) {
                made = make_of(row, value, PyList_GET_SIZE(list) != 0 ? list : NULL);
            }
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

/* make(row, init, who=None): allocates memory by a row. Without `who`, returns what `lib.new`
 * returns. */
PyObject *nc_memory_make(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs < 2 || nargs > 3 || !PyTuple_CheckExact(args[0])) {
        PyErr_SetString(PyExc_TypeError, "make() takes a row, an initialiser and a name");
        return NULL;
    }
    if (!has_items(PyTuple_GET_SIZE(args[0]), ROW)) {
        return NULL;
    }
    PyObject *made = make(args[0], args[1], nargs == 3 ? args[2] : ITEM(args[0], WHO));
    if (nargs == 3 || made == NULL || ITEM(args[0], STRUCTS) == Py_None) {
        return made;
    }
    PyObject *kept = PyDict_New();
    /* A struct that is read from the memory keeps all of the memory alive. */
    if (kept == NULL || PyDict_SetItem(kept, Py_None, made) < 0) {
        Py_XDECREF(kept);
        Py_DECREF(made);
        return NULL;
    }
    made = nc_struct_pointer(made, ITEM(args[0], STRUCTS), kept);
    Py_DECREF(kept);
    return made;
}

/* make_of(row, init, list): allocates memory that keeps a list alive. cffi must accept the
 * initialiser. */
PyObject *nc_memory_of(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *row;
    PyObject *init;
    PyObject *list;
    return PyArg_ParseTuple(args, "O!OO!", &PyTuple_Type, &row, &init, &PyList_Type, &list) &&
                   has_items(PyTuple_GET_SIZE(row), ROW)
               ? make_of(row, init, list)
               : NULL;
}
