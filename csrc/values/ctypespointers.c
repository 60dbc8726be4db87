/* csrc/values/ctypespointers.c: converts ctypes objects as pointer arguments without calling
 * Python.
 *
 * Python code checks the first object of each class, and registers the class in a table
 * (cffipointers.c).
 *
 * ctypes has no C API, so ctypes objects are read through their buffers. byref() objects export no
 * buffer. nc_know_byref therefore searches the first byref() object for the address and the
 * referenced object, and stores their offsets. If the search fails, Python code handles byref().
 *
 * Threads: what is known of ctypes is set once, atomically. */
#include "pointers.h"

#include "platform/address.h"
#include "platform/functions.h"

#include <string.h>

/* How an object of a class is accepted; set by nativecall/_bridges/_ctypes.py. */
enum {
    STRUCTS = 1, /* the pointer points to the object's memory */
    POINTER = 2, /* the object's memory contains the pointer */
    BYREF = 3    /* byref() of the object is the pointer */
};

static PyObject *base_member; /* NULL before the ctypes bridge is imported */
static PyObject *objects_member;
static PyObject *byref_class; /* NULL before the first byref(); published after the offsets */
static intptr_t address_at;   /* offset of the address in a byref(); 0: unknown */
static intptr_t object_at;    /* offset of the object in a byref(); 0: unknown */

static int is_taken(PyObject *wanted, PyTypeObject *class_, int how)
{
    return (nc_taken_mask(wanted, (PyObject *)class_) & ((uintptr_t)1 << how)) != 0;
}

/* take_ctypes(ctype, class, how): register that arguments of type `ctype` accept objects of the
 * class. */
PyObject *nc_take_ctypes(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *wanted;
    PyObject *class_;
    unsigned how;
    if (!PyArg_ParseTuple(args, "OO!I", &wanted, &PyType_Type, &class_, &how)) {
        return NULL;
    }
    const uintptr_t ways = nc_taken_mask(wanted, class_) | ((uintptr_t)1 << (how & 3));
    nc_take(wanted, (PyTypeObject *)(void *)class_, class_, class_, ways);
    Py_RETURN_NONE;
}

/* know_ctypes(base, objects): store the descriptors `_b_base_` and `_objects` of the base class of
 * ctypes types. An attribute lookup could find other attributes that a user's class defines with
 * these names. */
PyObject *nc_know_ctypes(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *base;
    PyObject *objects;
    if (!PyArg_ParseTuple(args, "OO", &base, &objects)) {
        return NULL;
    }
    if (Py_TYPE(base)->tp_descr_get != NULL && Py_TYPE(objects)->tp_descr_get != NULL) {
        (void)nc_keep_first(&base_member, Py_NewRef(base));
        (void)nc_keep_first(&objects_member, Py_NewRef(objects));
    }
    Py_RETURN_NONE;
}

static void *word_at(PyObject *object, Py_ssize_t offset)
{
    void *word;
    memcpy(&word, (char *)object + offset, sizeof(word));
    return word;
}

/* Search an object for a word, starting after the object's header. Return the word's offset from
 * the start of the object, or 0 unless the word occurs exactly once. */
static Py_ssize_t place_of(PyObject *object, const void *word)
{
    Py_ssize_t found = 0;
    for (Py_ssize_t at = sizeof(PyObject);
         at + (Py_ssize_t)sizeof(word) <= Py_TYPE(object)->tp_basicsize; at += sizeof(word)) {
        if (word_at(object, at) == word) {
            if (found != 0) {
                return 0;
            }
            found = at;
        }
    }
    return found;
}

/* know_byref(reference, object, address): find the offsets of the object and of the address in
 * `reference`, a byref() of the object. All byref() objects have the same layout. */
PyObject *nc_know_byref(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *reference;
    PyObject *object;
    void *address;
    if (!PyArg_ParseTuple(args, "OOO&", &reference, &object, nc_take_address, &address)) {
        return NULL;
    }
    if (nc_kept(&byref_class) == NULL) {
        nc_store_relaxed_intptr(&address_at, place_of(reference, address));
        nc_store_relaxed_intptr(&object_at, place_of(reference, object));
        (void)nc_keep_first(&byref_class, Py_NewRef(Py_TYPE(reference)));
    }
    Py_RETURN_NONE;
}

int nc_takes_structs(PyObject *wanted, PyObject *value)
{
    return is_taken(wanted, Py_TYPE(value), STRUCTS);
}

/* Convert a byref() object. The buffer of the referenced object keeps that object alive, and shows
 * whether it is resized before the call. */
static int take_byref(PyObject *wanted, PyObject *reference, NcPointer *out)
{
    const intptr_t from = nc_load_relaxed_intptr(&address_at);
    const intptr_t at = nc_load_relaxed_intptr(&object_at);
    PyObject *object = from != 0 && at != 0 ? word_at(reference, at) : NULL;
    if (object == NULL || !is_taken(wanted, Py_TYPE(object), BYREF)) {
        return 0;
    }
    if (Py_TYPE(object)->tp_as_buffer->bf_getbuffer(object, &out->buffer, PyBUF_SIMPLE) < 0) {
        out->buffer.obj = NULL;
        PyErr_Clear();
        return 0;
    }
    out->address = word_at(reference, from);
    return 1;
}

static PyObject *read_by(PyObject *member, PyObject *value)
{
    return Py_TYPE(member)->tp_descr_get(member, value, NULL);
}

/* Return the objects that the pointer keeps alive now, as a list, or None if there are no such
 * objects. Return NULL, perhaps with an exception, if ctypes keeps them in nested dicts or in
 * another object. */
static PyObject *owners_of(PyObject *value)
{
    PyObject *base = read_by(base_member, value);
    PyObject *objects = base == Py_None ? read_by(objects_member, value) : NULL;
    PyObject *found = objects == Py_None                              ? Py_NewRef(Py_None)
                      : objects != NULL && PyDict_CheckExact(objects) ? PyDict_Values(objects)
                                                                      : NULL;
    Py_XDECREF(base);
    Py_XDECREF(objects);
    for (Py_ssize_t i = 0; found != NULL && found != Py_None && i < PyList_GET_SIZE(found); i++) {
        if (PyDict_Check(PyList_GET_ITEM(found, i))) {
            Py_CLEAR(found);
        }
    }
    return found;
}

int nc_take_ctypes_pointer(PyObject *wanted, PyObject *value, NcPointer *out)
{
    Py_buffer buffer;
    if ((PyObject *)Py_TYPE(value) == nc_kept(&byref_class)) {
        return take_byref(wanted, value, out);
    }
    if (!is_taken(wanted, Py_TYPE(value), POINTER)) {
        return 0;
    }
    PyObject *owners = nc_kept(&objects_member) != NULL ? owners_of(value) : NULL;
    if (owners != NULL && PyObject_GetBuffer(value, &buffer, PyBUF_SIMPLE) == 0) {
        memcpy(&out->address, buffer.buf, sizeof(out->address));
        PyBuffer_Release(&buffer);
        out->keep = PyTuple_Pack(3, Py_None, value, owners);
    }
    Py_XDECREF(owners);
    PyErr_Clear();
    return out->keep != NULL;
}
