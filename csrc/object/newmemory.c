/* csrc/object/newmemory.c: memory of a C type, made and initialised at once: what `lib.new` does
 * for usual values (nativecall/_library/memory.py does the others, and says what is wrong).
 *
 * A plan is made once a type; it is called with an initialiser, and returns cffi's cdata that owns
 * the memory, or None where Python code is to see to the value. What pointers in the memory lead to
 * lives as long: it hangs on the block that cffi's object keeps, where the collector sees it.
 *
 * Guarantee: a value that does not fit leaves nothing behind, and the exception it caused is not
 * seen: Python code looks at it once more. All with the GIL. */
#include "callback/pycallbackobject.h"
#include "core/cffipointer.h"
#include "shortcut.h"
#include "values/destructor.h"
#include "values/memoryblock.h"
#include "values/pointers.h"

#include <stddef.h>
#include <string.h>

/* ---- plans ----------------------------------------------------------------------------------- */

/* What is written at one place: a member of a struct, or every item of an array. */
typedef struct {
    PyObject *ctype;         /* cffi's */
    size_t offset;           /* of a member */
    char kind;               /* 'p' what cffi writes, '*' a pointer, 'c' one that takes bytes,
                                'f' a function pointer, 's' a struct and 'a' an array with pointers
                                inside, '?' what Python code sees to, '-' an unnamed bit-field */
    struct MemoryPlan *plan; /* of 's' and 'a' */
    /* What `ready` has told of pointers; NULL before it was asked. */
    NcCallSpec *spec;   /* of a function with such an argument */
    PyObject *callback; /* CallbackSpec for Python functions, or None */
    PyObject *record;   /* the plan of what it points to, or None */
    PyObject *items;    /* the plan of an array of these, or None */
} Slot;

typedef struct MemoryPlan {
    PyObject_VAR_HEAD vectorcallfunc vectorcall;
    PyObject *ctype;    /* cffi's pointer or array type */
    PyObject *pointer;  /* cffi's type of pointers to an item */
    PyObject *who;      /* str: what messages that nobody reads call the value */
    PyObject *names;    /* of a struct: dict of the positions of members */
    PyObject *make;     /* cffi's new */
    PyObject *allocate; /* the same with memory in a block */
    PyObject *ready;    /* (ctype) -> what Slot has of pointers */
    Py_ssize_t length;  /* of an array; -1 where values say it */
    size_t size;        /* bytes of an item */
    char kind;          /* 's' a struct, 'a' an array, '1' anything else */
    char leads_on;      /* whether there are pointers in it */
    char usual;         /* whether cffi's own memory is aligned well enough */
    Slot slots[1];
} MemoryPlan;

static PyObject *make(MemoryPlan *self, PyObject *init);
static int fill_struct(MemoryPlan *self, PyObject *place, char *address, NcBlock *block,
                       PyObject *init);
static int fill_array(MemoryPlan *self, PyObject *place, char *address, NcBlock *block,
                      PyObject *init);

static int ask(MemoryPlan *self, Slot *slot)
{
    NcCallSpec *spec;
    PyObject *callback;
    PyObject *record;
    PyObject *items;
    PyObject *found = PyObject_CallOneArg(self->ready, slot->ctype);
    if (found == NULL) {
        return -1;
    }
    if (!PyArg_ParseTuple(found, "O!OOO", &NcCallSpec_Type, &spec, &callback, &record, &items) ||
        spec->nargs != 1 || spec->arguments[0].code != 'P' ||
        (callback != Py_None && !Py_IS_TYPE(callback, &NcCallbackSpec_Type)) ||
        (record != Py_None && !Py_IS_TYPE(record, &NcMemoryPlan_Type)) ||
        (items != Py_None && !Py_IS_TYPE(items, &NcMemoryPlan_Type))) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_SystemError, "what is ready for a pointer has other types");
        }
        Py_DECREF(found);
        return -1;
    }
    if (slot->spec == NULL) {
        slot->callback = Py_NewRef(callback);
        slot->record = Py_NewRef(record);
        slot->items = Py_NewRef(items);
        slot->spec = (NcCallSpec *)(void *)Py_NewRef(spec);
    }
    Py_DECREF(found);
    return 0;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* All of these: 1; 0 where Python code is to see to it; -1 with an exception. */

static int set(PyObject *place, PyObject *name, Py_ssize_t index, PyObject *value)
{
    int status = name != NULL ? PyObject_SetAttr(place, name, value)
                              : PySequence_SetItem(place, index, value);
    return status < 0 ? -1 : 1;
}

/* Takes the reference to what is kept. */
static int point(NcBlock *block, char *at, void *target, PyObject *kept)
{
    int status = nc_block_keep(block, kept);
    Py_DECREF(kept);
    memcpy(at, &target, sizeof(target)); /* members of packed structs lie anywhere */
    return status < 0 ? -1 : 1;
}

static int point_to_made(const Slot *slot, PyObject *plan, PyObject *value, char *at,
                         NcBlock *block)
{
    if (plan == Py_None) {
        return 0;
    }
    if (Py_EnterRecursiveCall(" while memory is initialised") != 0) {
        return -1; /* it may lead back to itself */
    }
    PyObject *made = make((MemoryPlan *)(void *)plan, value);
    Py_LeaveRecursiveCall();
    if (made == NULL || made == Py_None) {
        Py_XDECREF(made);
        return made != NULL ? 0 : -1;
    }
    void *target = nc_cffi_address(made, slot->ctype);
    if (target == NULL && PyErr_Occurred()) {
        Py_DECREF(made);
        return -1;
    }
    return point(block, at, target, made);
}

static int put_function(MemoryPlan *self, Slot *slot, PyObject *value, char *at, NcBlock *block)
{
    if (PyFunction_Check(value) || PyMethod_Check(value)) {
        if (slot->spec == NULL && ask(self, slot) < 0) {
            return -1;
        }
        PyObject *function = PyMethod_Check(value) ? PyMethod_GET_FUNCTION(value) : value;
        if (slot->callback == Py_None || !PyFunction_Check(function)) {
            return 0;
        }
        NcPyCallback *made = nc_pycallback_make((NcCallbackSpec *)(void *)slot->callback, value,
                                                ((PyFunctionObject *)(void *)function)->func_name);
        return made != NULL ? point(block, at, made->stub, (PyObject *)made) : -1;
    }
    if (!PyObject_TypeCheck(value, (PyTypeObject *)(void *)&NcCallable_Type)) {
        return 0;
    }
    if (slot->spec == NULL && ask(self, slot) < 0) {
        return -1;
    }
    NcPointer passed = {NULL, {NULL}, NULL};
    int status = nc_pycallback_pass(slot->spec, self->who, 0, value, &passed);
    if (status != 0) {
        return status > 0 ? point(block, at, passed.address, passed.keep) : -1;
    }
    NcPin *held = nc_pin_value(slot->spec, self->who, -1, value); /* made to suit the signature */
    return held != NULL ? point(block, at, held->pointer.address, (PyObject *)held) : -1;
}

static int put_pointer(MemoryPlan *self, Slot *slot, PyObject *value, char *at, NcBlock *block)
{
    if (slot->kind == 'c' && PyBytes_CheckExact(value)) {
        PyObject *copy =
            PyBytes_FromStringAndSize(PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value));
        return copy != NULL ? point(block, at, PyBytes_AS_STRING(copy), copy) : -1;
    }
    if (slot->spec == NULL && ask(self, slot) < 0) {
        return -1;
    }
    if (PyDict_CheckExact(value) || (PyTuple_CheckExact(value) && slot->record != Py_None)) {
        return point_to_made(slot, slot->record, value, at, block);
    }
    if (PyList_CheckExact(value) || PyTuple_CheckExact(value)) {
        return point_to_made(slot, slot->items, value, at, block);
    }
    NcPin *held = nc_pin_value(slot->spec, self->who, -1, value);
    return held != NULL ? point(block, at, held->pointer.address, (PyObject *)held) : -1;
}

/* Writes a value at `at`, which is `name` or item `index` of `place`, cffi's object. */
static int put(MemoryPlan *self, Slot *slot, PyObject *place, PyObject *name, Py_ssize_t index,
               PyObject *value, char *at, NcBlock *block)
{
    int status;
    PyObject *inner;
    switch (slot->kind) {
    case 'p':
        return set(place, name, index, value);
    case 's':
    case 'a':
        if (nc_is_cdata(value)) {
            return set(place, name, index, value);
        }
        inner = name != NULL ? PyObject_GetAttr(place, name) : PySequence_GetItem(place, index);
        if (inner == NULL) {
            return -1;
        }
        status = slot->kind == 's' ? fill_struct(slot->plan, inner, at, block, value)
                                   : fill_array(slot->plan, inner, at, block, value);
        Py_DECREF(inner);
        return status;
    case '*':
    case 'c':
    case 'f':
        if (value == Py_None) {
            memset(at, 0, sizeof(void *));
            return 1;
        }
        if (nc_is_cdata(value)) {
            if (nc_ended_by(value) != NULL) {
                return 0;
            }
            return nc_block_keep(block, value) < 0 ? -1 : set(place, name, index, value);
        }
        return slot->kind == 'f' ? put_function(self, slot, value, at, block)
                                 : put_pointer(self, slot, value, at, block);
    default:
        return 0;
    }
}

static int fill_named(MemoryPlan *self, PyObject *place, char *address, NcBlock *block,
                      PyObject *init)
{
    PyObject *name;
    PyObject *value;
    Py_ssize_t at = 0;
    int status = 1;
    while (status == 1 && PyDict_Next(init, &at, &name, &value)) {
        PyObject *number = PyDict_GetItemWithError(self->names, name);
        if (number == NULL) {
            return PyErr_Occurred() ? -1 : 0;
        }
        Slot *slot = &self->slots[PyLong_AsSsize_t(number)];
        /* Conversions run code that may change the dict. */
        Py_INCREF(name);
        Py_INCREF(value);
        status = put(self, slot, place, name, 0, value, address + slot->offset, block);
        Py_DECREF(name);
        Py_DECREF(value);
    }
    return status;
}

static int fill_struct(MemoryPlan *self, PyObject *place, char *address, NcBlock *block,
                       PyObject *init)
{
    PyObject *name;
    PyObject *number;
    Py_ssize_t at = 0;
    Py_ssize_t given = 0;
    int status = 1;
    if (PyDict_CheckExact(init)) {
        return fill_named(self, place, address, block, init);
    }
    if (!PyTuple_CheckExact(init)) {
        return 0; /* a list may change meanwhile */
    }
    while (status == 1 && given < PyTuple_GET_SIZE(init) &&
           PyDict_Next(self->names, &at, &name, &number)) {
        Slot *slot = &self->slots[PyLong_AsSsize_t(number)];
        if (slot->kind != '-') {
            status = put(self, slot, place, name, 0, PyTuple_GET_ITEM(init, given++),
                         address + slot->offset, block);
        }
    }
    return status == 1 && given < PyTuple_GET_SIZE(init) ? 0 : status;
}

static int fill_array(MemoryPlan *self, PyObject *place, char *address, NcBlock *block,
                      PyObject *init)
{
    PyObject *items = PyList_CheckExact(init) ? PyList_AsTuple(init) : Py_NewRef(init);
    int status = 1;
    if (items == NULL) {
        return -1;
    }
    if (!PyTuple_CheckExact(items) ||
        (self->length >= 0 && PyTuple_GET_SIZE(items) > self->length)) {
        status = 0;
    }
    for (Py_ssize_t i = 0; status == 1 && i < PyTuple_GET_SIZE(items); i++) {
        status = put(self, &self->slots[0], place, NULL, i, PyTuple_GET_ITEM(items, i),
                     address + (size_t)i * self->size, block);
    }
    Py_DECREF(items);
    return status;
}

/* ---- making ---------------------------------------------------------------------------------- */

/* What cffi makes by itself. */
static PyObject *made_by_cffi(MemoryPlan *self, PyObject *init)
{
    PyObject *const args[] = {self->ctype, init};
    return PyObject_Vectorcall(self->make, args, 2, NULL);
}

/* A copy of a buffer of numbers. */
static PyObject *copied(MemoryPlan *self, PyObject *init)
{
    Slot *slot = &self->slots[0];
    if (slot->kind != 'p' || (slot->spec == NULL && ask(self, slot) < 0)) {
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    }
    NcPin *held = nc_pin_value(slot->spec, self->who, -1, init);
    if (held == NULL) {
        return NULL;
    }
    PyObject *made = Py_None;
    const Py_buffer *buffer = &held->pointer.buffer;
    if (buffer->obj != NULL && (size_t)buffer->len % self->size == 0 &&
        (self->length < 0 || buffer->len <= self->length * (Py_ssize_t)self->size)) {
        PyObject *count = self->length < 0
                              ? PyLong_FromSsize_t(buffer->len / (Py_ssize_t)self->size)
                              : Py_NewRef(Py_None);
        made = count != NULL ? made_by_cffi(self, count) : NULL;
        Py_XDECREF(count);
        void *address = made != NULL ? nc_cffi_address(made, self->pointer) : NULL;
        if (address != NULL) {
            memcpy(address, held->pointer.address, (size_t)buffer->len);
        } else if (PyErr_Occurred()) {
            Py_CLEAR(made);
        }
    } else {
        Py_INCREF(made);
    }
    Py_DECREF(held);
    return made;
}

static PyObject *make_in_block(MemoryPlan *self, PyObject *init)
{
    int status;
    PyObject *count = self->kind == 'a' && self->length < 0
                          ? PyLong_FromSsize_t(PySequence_Size(init))
                          : Py_NewRef(Py_None);
    if (count == NULL) {
        return NULL;
    }
    PyObject *const args[] = {self->ctype, count};
    PyObject *made = PyObject_Vectorcall(self->allocate, args, 2, NULL);
    Py_DECREF(count);
    char *address = made != NULL ? (char *)nc_cffi_address(made, self->pointer) : NULL;
    if (address == NULL) {
        Py_XDECREF(made);
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    }
    NcBlock *block = (NcBlock *)(void *)(address - offsetof(NcBlock, data));
    if (self->kind == 's') {
        status = fill_struct(self, made, address, block, init);
    } else if (self->kind == 'a') {
        status = fill_array(self, made, address, block, init);
    } else {
        status = put(self, &self->slots[0], made, NULL, 0, init, address, block);
    }
    if (status != 1) {
        Py_DECREF(made);
        return status < 0 ? NULL : Py_NewRef(Py_None);
    }
    return made;
}

/* None where Python code is to see to the value. */
static PyObject *make(MemoryPlan *self, PyObject *init)
{
    int is_list = PyList_CheckExact(init) || PyTuple_CheckExact(init);
    int is_open = self->kind == 'a' && self->length < 0;
    int by_cffi = 0;
    if (!self->usual) {
        by_cffi = 0;
    } else if (init == Py_None) {
        by_cffi = !is_open; /* nothing leads anywhere yet */
    } else if (self->kind == 'a' && PyLong_CheckExact(init)) {
        by_cffi = is_open;
    } else if (self->leads_on) {
        if (self->kind == '1' || is_list || (self->kind == 's' && PyDict_CheckExact(init))) {
            return make_in_block(self, init);
        }
    } else if (self->kind == 's') {
        by_cffi = is_list || PyDict_CheckExact(init);
    } else if (self->kind == '1') {
        by_cffi = PyLong_CheckExact(init) || PyFloat_CheckExact(init);
    } else if (is_list ||
               (self->slots[0].kind == 'p' && (PyBytes_Check(init) || PyUnicode_Check(init)))) {
        by_cffi = 1;
    } else if (PyObject_CheckBuffer(init) && !nc_is_cdata(init)) {
        return copied(self, init);
    }
    return by_cffi ? made_by_cffi(self, init) : Py_NewRef(Py_None);
}

/* Whether an exception says that a value does not fit, or is too large: Python code says more. */
static int is_misfit(void)
{
    return PyErr_ExceptionMatches(PyExc_TypeError) || PyErr_ExceptionMatches(PyExc_ValueError) ||
           PyErr_ExceptionMatches(PyExc_OverflowError) ||
           PyErr_ExceptionMatches(PyExc_MemoryError) || PyErr_ExceptionMatches(PyExc_LookupError) ||
           PyErr_ExceptionMatches(PyExc_BufferError) ||
           PyErr_ExceptionMatches(PyExc_AttributeError);
}

static PyObject *plan_vectorcall(PyObject *object, PyObject *const *args, size_t nargsf,
                                 PyObject *kwnames)
{
    if (PyVectorcall_NARGS(nargsf) != 1 || kwnames != NULL) {
        PyErr_SetString(PyExc_TypeError, "a MemoryPlan is called with an initialiser");
        return NULL;
    }
    PyObject *made = make((MemoryPlan *)(void *)object, args[0]);
    if (made == NULL && is_misfit()) {
        PyErr_Clear();
        return Py_NewRef(Py_None);
    }
    return made;
}

/* ---- the type -------------------------------------------------------------------------------- */

/* One of `slots`: (name or None, kind, offset, ctype, plan or None). */
static int read_slot(MemoryPlan *self, Py_ssize_t number, PyObject *given)
{
    PyObject *name;
    PyObject *ctype;
    PyObject *plan;
    Py_ssize_t offset;
    int kind;
    Slot *slot = &self->slots[number];
    if (!PyArg_ParseTuple(given, "OCnOO", &name, &kind, &offset, &ctype, &plan)) {
        return -1;
    }
    if (((kind == 's' || kind == 'a') && !Py_IS_TYPE(plan, &NcMemoryPlan_Type)) || offset < 0) {
        PyErr_SetString(PyExc_TypeError, "a slot of a MemoryPlan has no plan");
        return -1;
    }
    slot->kind = (char)kind;
    slot->offset = (size_t)offset;
    slot->ctype = Py_NewRef(ctype);
    slot->plan = plan != Py_None ? (MemoryPlan *)(void *)Py_NewRef(plan) : NULL;
    if (name == Py_None) {
        return 0;
    }
    PyObject *position = PyLong_FromSsize_t(number);
    int status = position != NULL ? PyDict_SetItem(self->names, name, position) : -1;
    Py_XDECREF(position);
    return status;
}

/* MemoryPlan(ctype, pointer, kind, leads_on, usual, length, size, slots, make, allocate, ready);
 * memoryplan.py says what these are. */
static PyObject *plan_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    PyObject *ctype;
    PyObject *pointer;
    PyObject *slots;
    PyObject *make;
    PyObject *allocate;
    PyObject *ready;
    Py_ssize_t length;
    Py_ssize_t size;
    int kind;
    int leads_on;
    int usual;
    if (!PyArg_ParseTuple(args, "OOCppnnO!OOO", &ctype, &pointer, &kind, &leads_on, &usual, &length,
                          &size, &PyTuple_Type, &slots, &make, &allocate, &ready)) {
        return NULL;
    }
    Py_ssize_t count = PyTuple_GET_SIZE(slots);
    if (size < 0 || (kind != 's' && count != 1) || (kind == 'a' && size == 0)) {
        PyErr_SetString(PyExc_ValueError, "a MemoryPlan has no such size or slots");
        return NULL;
    }
    MemoryPlan *self = (MemoryPlan *)(void *)type->tp_alloc(type, count);
    if (self == NULL) {
        return NULL;
    }
    self->vectorcall = plan_vectorcall;
    self->ctype = Py_NewRef(ctype);
    self->pointer = Py_NewRef(pointer);
    self->make = Py_NewRef(make);
    self->allocate = Py_NewRef(allocate);
    self->ready = Py_NewRef(ready);
    self->kind = (char)kind;
    self->leads_on = (char)leads_on;
    self->usual = (char)usual;
    self->length = length;
    self->size = (size_t)size;
    self->who = PyUnicode_InternFromString("the value");
    self->names = PyDict_New();
    int status = self->names != NULL && self->who != NULL ? 0 : -1;
    for (Py_ssize_t i = 0; status == 0 && i < count; i++) {
        status = read_slot(self, i, PyTuple_GET_ITEM(slots, i));
    }
    if (status < 0) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static int plan_traverse(PyObject *object, visitproc visit, void *arg)
{
    MemoryPlan *self = (MemoryPlan *)(void *)object;
    Py_VISIT(self->ready);
    for (Py_ssize_t i = 0; i < Py_SIZE(self); i++) {
        Py_VISIT(self->slots[i].plan);
        Py_VISIT(self->slots[i].record);
        Py_VISIT(self->slots[i].items);
    }
    return 0;
}

/* What `ready` has told, which it tells once more. */
static int plan_clear(PyObject *object)
{
    MemoryPlan *self = (MemoryPlan *)(void *)object;
    for (Py_ssize_t i = 0; i < Py_SIZE(self); i++) {
        Py_CLEAR(self->slots[i].spec);
        Py_CLEAR(self->slots[i].callback);
        Py_CLEAR(self->slots[i].record);
        Py_CLEAR(self->slots[i].items);
    }
    return 0;
}

static void plan_dealloc(PyObject *object)
{
    MemoryPlan *self = (MemoryPlan *)(void *)object;
    PyObject_GC_UnTrack(object);
    (void)plan_clear(object);
    for (Py_ssize_t i = 0; i < Py_SIZE(self); i++) {
        Py_XDECREF(self->slots[i].ctype);
        Py_XDECREF(self->slots[i].plan);
    }
    Py_XDECREF(self->ctype);
    Py_XDECREF(self->pointer);
    Py_XDECREF(self->who);
    Py_XDECREF(self->names);
    Py_XDECREF(self->make);
    Py_XDECREF(self->allocate);
    Py_XDECREF(self->ready);
    Py_TYPE(object)->tp_free(object);
}

PyTypeObject NcMemoryPlan_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "nativecall._types.MemoryPlan",
    .tp_doc = "Makes memory of a C type.",
    .tp_basicsize = offsetof(MemoryPlan, slots),
    .tp_itemsize = sizeof(Slot),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(MemoryPlan, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_new = plan_new,
    .tp_traverse = plan_traverse,
    .tp_clear = plan_clear,
    .tp_dealloc = plan_dealloc,
};

/* ---- what a library has ---------------------------------------------------------------------- */

/* new(ctype, init=None) of a type in a text whose plan is known; `data` is the dict of these. */
static PyObject *make_known(PyObject *data, PyObject *const *args, Py_ssize_t nargs,
                            PyObject *kwnames)
{
    if ((kwnames != NULL && PyTuple_GET_SIZE(kwnames) != 0) || nargs < 1 || nargs > 2 ||
        !PyUnicode_CheckExact(args[0])) {
        return NULL;
    }
    PyObject *plan = PyDict_GetItemWithError(data, args[0]);
    if (plan == NULL || !Py_IS_TYPE(plan, &NcMemoryPlan_Type)) {
        return NULL;
    }
    PyObject *init = nargs == 2 ? args[1] : Py_None;
    Py_INCREF(plan);
    PyObject *made = plan_vectorcall(plan, &init, 1, NULL);
    Py_DECREF(plan);
    if (made == Py_None) {
        Py_CLEAR(made);
    }
    return made;
}

/* memory_shortcut(function, plans): the Shortcut (shortcut.h) to what a
 * library has as `new`, by a dict of plans from the texts of types. */
PyObject *nc_memory_shortcut(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *function;
    PyObject *plans;
    return PyArg_ParseTuple(args, "OO!", &function, &PyDict_Type, &plans)
               ? nc_shortcut(function, make_known, plans)
               : NULL;
}
