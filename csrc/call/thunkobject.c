/* csrc/call/thunkobject.c: implements thunkobject.h. A failed operation leaves nothing behind. */
#include "thunkobject.h"
#include "platform/lock.h"

#include "entry.h"
#include "plan.h"
#include "platform/address.h"
#include "platform/exceptions.h"
#include "platform/stub.h"
#include "values/names.h"
#include "values/pointers.h"

#include "nativecall/detail/compat.h"

#include <string.h>
#include <structmember.h>

/* ---- thunk specs ----------------------------------------------------------------------------- */

/* Whether a bound value can be read back from memory unchanged, except for its Python class. */
static int is_plain(char letter)
{
    return nc_scalar_size(letter) != 0 && nc_part_letter(letter) != 'g';
}

/* The size of a bound value; 0 if there is no such argument. */
static size_t size_of(const NcCallInterface *inner, Py_ssize_t index)
{
    if (index < 0 || index >= inner->nargs) {
        return 0;
    }
    const NcArgument *argument = &inner->arguments[index];
    size_t size = argument->code == 'T' ? argument->size : nc_scalar_size(argument->code);
    return size != 0 ? size : sizeof(void *);
}

/* ThunkSpec(inner, wanted, outer, flags, stack, bytes, places, helper, code, lasts). `bytes` is the
 * size of the Thunk, including the bound values but not the tuple. A place is (index, offset).
 * `code` is either a tuple (address, owner), where address 0 selects the function's own pointer, or
 * a bytes object that holds an NcConversion. */
static PyObject *thunkspec_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    NcCallInterface *inner;
    PyObject *wanted;
    NcCallInterface *outer;
    Py_ssize_t flags;
    unsigned stack;
    Py_ssize_t bytes;
    PyObject *places;
    PyObject *helper;
    PyObject *code;
    int lasts;
    if (!PyArg_ParseTuple(args, "O!OO!nInO!OOp", &NcCallInterface_Type, &inner, &wanted,
                          &NcCallInterface_Type, &outer, &flags, &stack, &bytes, &PyTuple_Type,
                          &places, &helper, &code, &lasts)) {
        return NULL;
    }
    const int is_conversion = NC_HAS_MACHINE_CODE && PyBytes_CheckExact(code) &&
                              (size_t)PyBytes_GET_SIZE(code) >= sizeof(NcConversion);
    if ((wanted != Py_None && !Py_IS_TYPE(wanted, &NcCallInterface_Type)) ||
        (!is_conversion && (!PyTuple_Check(code) || PyTuple_GET_SIZE(code) != 2)) ||
        bytes < (Py_ssize_t)sizeof(NcThunk) || bytes > PY_SSIZE_T_MAX / 2) {
        PyErr_SetString(PyExc_TypeError,
                        "ThunkSpec() takes a call interface or None, the size of a "
                        "Thunk, and code as (address, owner) or a conversion");
        return NULL;
    }
    Py_ssize_t count = PyTuple_GET_SIZE(places);
    NcThunkSpec *self = (NcThunkSpec *)(void *)type->tp_alloc(type, count);
    if (self == NULL) {
        return NULL;
    }
    int needs_tuple = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        NcPlace *place = &self->places[i];
        Py_ssize_t offset;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(places, i), "nn", &place->index, &offset)) {
            goto fail;
        }
        size_t size = size_of(inner, place->index);
        if (size == 0 || offset < (Py_ssize_t)sizeof(NcThunk) || offset > bytes ||
            size > (size_t)(bytes - offset)) {
            PyErr_SetString(PyExc_ValueError,
                            "a place must be that of an argument and lie within the Thunk");
            goto fail;
        }
        place->offset = (size_t)offset;
        needs_tuple |= !is_plain(inner->arguments[place->index].code);
    }
    self->inner = (NcCallInterface *)(void *)Py_NewRef(inner);
    self->wanted = wanted != Py_None ? (NcCallInterface *)(void *)Py_NewRef(wanted) : NULL;
    self->outer = (NcCallInterface *)(void *)Py_NewRef(outer);
    self->helper = Py_NewRef(helper);
    if (is_conversion) {
#if NC_HAS_MACHINE_CODE
        self->code = (void *)(uintptr_t)nc_conversion;
#endif
        self->conversion = (const NcConversion *)(const void *)PyBytes_AS_STRING(code);
        self->code_owner = Py_NewRef(code);
    } else {
        if (!nc_take_address(PyTuple_GET_ITEM(code, 0), &self->code)) {
            goto fail;
        }
        self->code_owner = Py_NewRef(PyTuple_GET_ITEM(code, 1));
    }
    self->flags = (uintptr_t)flags;
    self->stack = stack;
    self->lasts = (char)lasts;
    self->bytes = count == 0 ? sizeof(void *) : (size_t)bytes - sizeof(NcThunk);
    if (needs_tuple) {
        self->bytes = (self->bytes + sizeof(void *) - 1) & ~(sizeof(void *) - 1);
        self->kept = sizeof(NcThunk) + self->bytes;
        self->bytes += sizeof(PyObject *);
    }
    return (PyObject *)self;

fail:
    Py_DECREF(self);
    return NULL;
}

static void thunkspec_dealloc(PyObject *object)
{
    NcThunkSpec *self = (NcThunkSpec *)(void *)object;
    Py_XDECREF(self->inner);
    Py_XDECREF(self->wanted);
    Py_XDECREF(self->outer);
    Py_XDECREF(self->helper);
    Py_XDECREF(self->code_owner);
    Py_TYPE(object)->tp_free(object);
}

/* The garbage collector does not track a ThunkSpec, since everything that it refers to is
 * immutable. */
PyTypeObject NcThunkSpec_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "nativecall._ext.ThunkSpec",
    .tp_doc = "Data that all thunks from one signature to another share.",
    .tp_basicsize = offsetof(NcThunkSpec, places),
    .tp_itemsize = sizeof(NcPlace),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = thunkspec_new,
    .tp_dealloc = thunkspec_dealloc,
};

/* ---- values ---------------------------------------------------------------------------------- */

/* The address of the Thunk's tuple. The tuple is NULL before it is created, and if the spec needs
 * no tuple. */
static PyObject **kept_of(NcThunk *self)
{
    static PyObject *none;
    return self->spec->kept != 0 ? (PyObject **)(void *)((char *)self + self->spec->kept) : &none;
}

/* Converts a bound value, and appends to `kept` the objects that the value needs. */
static int store(NcThunk *self, const NcPlace *place, PyObject *value, PyObject *kept)
{
    const NcCallInterface *inner = self->spec->inner;
    const NcArgument *argument = &inner->arguments[place->index];
    char *memory = (char *)self + place->offset;
    if (nc_scalar_size(argument->code) != 0) {
        return nc_convert_scalar(self->function, place->index, value, argument->code, memory);
    }
    if (argument->code == 'P' && argument->pointee != '\0') {
        NcPin *pin = nc_pin_value(inner, self->function, place->index, value);
        int status = pin != NULL ? PyList_Append(kept, (PyObject *)pin) : -1;
        if (status == 0) {
            memcpy(memory, &pin->pointer.address, sizeof(void *));
        }
        Py_XDECREF(pin);
        return status;
    }
    PyObject *name = nc_name(self->function);
    PyObject *done = name == NULL
                         ? NULL
                         : PyObject_CallMethod(self->spec->helper, "store", "nONOO", place->index,
                                               value, PyLong_FromVoidPtr(memory), name, kept);
    Py_XDECREF(done);
    return done != NULL ? 0 : -1;
}

/* Converts all bound values; `kept` is NULL if all values are plain numbers. */
static int store_all(NcThunk *self, PyObject *const *values, PyObject *kept)
{
    const NcThunkSpec *spec = self->spec;
    const NcArgument *arguments = spec->inner->arguments;
    PyObject *first = NULL;
    for (Py_ssize_t i = 0; kept != NULL && i < Py_SIZE(spec); i++) {
        Py_ssize_t index = spec->places[i].index;
        if (!is_plain(arguments[index].code) && PyList_Append(kept, values[index]) < 0) {
            return -1;
        }
    }
    for (Py_ssize_t i = 0; i < Py_SIZE(spec); i++) {
        if (store(self, &spec->places[i], values[spec->places[i].index], kept) < 0) {
            return -1;
        }
    }
    if (kept == NULL) {
        return 0;
    }
    /* Python functions in bound structs may have raised exceptions. Raise them now, because no
     * later call would. */
    nc_pins_close(kept, &first);
    if (first != NULL && nc_stash_raise(NULL, first) == NULL) {
        return -1;
    }
    return nc_pins_check(self->function, kept);
}

/* Stores the bound values. If there are none, stores the address of nc_symbols in their place. */
static int fill(NcThunk *self, PyObject *const *values)
{
    const NcThunkSpec *spec = self->spec;
    if (Py_SIZE(spec) == 0) {
        memcpy(self + 1, &nc_symbols, sizeof(void *));
    }
    if (spec->kept == 0) {
        return store_all(self, values, NULL);
    }
    PyObject *kept = PyList_New(0);
    int status = kept != NULL ? store_all(self, values, kept) : -1;
    if (status == 0) {
        *kept_of(self) = PyList_AsTuple(kept);
        status = *kept_of(self) != NULL ? 0 : -1;
    }
    if (status < 0 && kept != NULL) {
        /* The traceback's frames may keep the list alive, so empty it to release its buffers. */
        PyObject *raised = nc_exception_take();
        (void)PyList_SetSlice(kept, 0, PyList_GET_SIZE(kept), NULL);
        nc_exception_put(raised);
    }
    Py_XDECREF(kept);
    return status;
}

/* ---- the object ------------------------------------------------------------------------------ */

NcThunk *nc_thunk_new(NcCallable *function, NcThunkSpec *spec, void *target,
                      PyObject *const *values)
{
    /* Compute the name now: it is needed when the thunk fails or ends. */
    NcThunk *self = nc_callable_name(function) != NULL
                        ? PyObject_GC_NewVar(NcThunk, &NcThunk_Type, (Py_ssize_t)spec->bytes)
                        : NULL;
    if (self == NULL) {
        return NULL;
    }
    self->function = Py_NewRef(function);
    self->spec = (NcThunkSpec *)(void *)Py_NewRef(spec);
    self->pointer = NULL;
    self->target = target;
    memset(self + 1, 0, spec->bytes);
    int status = fill(self, values);
    if (status == 0 && spec->code != NULL) {
        self->pointer = nc_stub_new(spec->code, self);
        status = self->pointer != NULL ? 0 : -1;
    }
    if (status < 0) {
        Py_DECREF(self);
        return NULL;
    }
    if (self->pointer == NULL) {
        self->pointer = target;
    }
    PyObject_GC_Track(self);
    return self;
}

unsigned nc_thunk_stack(const NcCallable *function)
{
    unsigned most = 0;
    NC_BEGIN_SECTION(function);
    PyObject *owners = nc_more(function)->owners;
    for (Py_ssize_t i = 0; i < (owners != NULL ? PyList_GET_SIZE(owners) : 1); i++) {
        PyObject *owner = owners != NULL ? PyList_GET_ITEM(owners, i) : function->owner;
        if (owner != NULL && Py_IS_TYPE(owner, &NcThunk_Type) &&
            ((NcThunk *)(void *)owner)->spec->stack > most) {
            most = ((NcThunk *)(void *)owner)->spec->stack;
        }
    }
    NC_END_SECTION();
    return most;
}

/* The memory of the last thunks that ended. Counting running calls would cost more than the calls
 * themselves. So the memory of an ended thunk is freed only after ENDED more thunks have ended. */
enum { ENDED = 256 };
static NcThunk *ended[ENDED];
static size_t next_ended;
static NcLock ending; /* guards both */

static int thunk_traverse(PyObject *object, visitproc visit, void *arg)
{
    NcThunk *self = (NcThunk *)(void *)object;
    Py_VISIT(self->function);
    Py_VISIT(*kept_of(self));
    return 0;
}

/* No tp_clear: the kept objects must live as long as C code can call the thunk. Native callables
 * clear their owners, which breaks cycles. */
static void thunk_dealloc(PyObject *object)
{
    NcThunk *self = (NcThunk *)(void *)object;
    PyObject *function = self->function;
    PyObject *kept = *kept_of(self);
    int has_stub = self->spec->code != NULL && self->pointer != NULL;
    PyObject_GC_UnTrack(object);
    if (has_stub && nc_is_finalizing()) {
        return; /* C code may call the stub until the process ends, so leak everything */
    }
    self->function = Py_XNewRef(nc_kept(nc_callable_name_place((NcCallable *)(void *)function)));
    if (has_stub) {
        nc_stub_free(self->pointer, Py_XNewRef(self->function));
        /* Store this thunk, and free the oldest stored one. */
        NC_LOCK(&ending);
        NcThunk *oldest = ended[next_ended];
        ended[next_ended] = self;
        next_ended = (next_ended + 1) % ENDED;
        NC_UNLOCK(&ending);
        self = oldest;
    }
    Py_DECREF(function);
    Py_XDECREF(kept);
    if (self != NULL) {
        PyObject *name = self->function;
        NcThunkSpec *spec = self->spec;
        PyObject_GC_Del(self);
        Py_XDECREF(name);
        Py_DECREF(spec); /* may free code, and so run Python code */
    }
}

/* pickled(signature, name, doc, options): for `pickle`, returns how another process can create the
 * same thunk. */
static PyObject *thunk_pickled(PyObject *object, PyObject *args)
{
    PyObject *name = PyTuple_GetItem(args, 1);
    return name == NULL ? NULL
                        : PyObject_CallMethod(((NcThunk *)(void *)object)->spec->helper, "pickled",
                                              "OO", object, name);
}

static PyObject *thunk_repr(PyObject *object)
{
    return PyUnicode_FromFormat("<thunk of %R>", ((NcThunk *)(void *)object)->function);
}

static PyObject *thunk_get_kept(PyObject *object, void *Py_UNUSED(closure))
{
    PyObject *kept = *kept_of((NcThunk *)(void *)object);
    return Py_NewRef(kept != NULL ? kept : Py_None);
}

static PyMethodDef thunk_methods[] = {
    {"pickled", thunk_pickled, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef thunk_members[] = {
    {"function", T_OBJECT, offsetof(NcThunk, function), READONLY, "the callable that it calls"},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef thunk_getset[] = {
    {"kept", thunk_get_kept, NULL,
     "bound values and the objects that they point to; None if all are numbers", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject NcThunk_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "nativecall._ext.Thunk",
    .tp_doc = "A C function that calls another one.",
    .tp_basicsize = sizeof(NcThunk),
    .tp_itemsize = 1,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_traverse = thunk_traverse,
    .tp_dealloc = thunk_dealloc,
    .tp_repr = thunk_repr,
    .tp_methods = thunk_methods,
    .tp_members = thunk_members,
    .tp_getset = thunk_getset,
};
