/* csrc/values/destructor.c: implements destructor.h. Destructors support garbage collection,
 * because they may be part of a reference cycle.
 *
 * Threads: the first of several threads that free or close a pointer stores `ended`, atomically. It
 * is removed only in NC_ALONE (platform/lock.h). */
#include "destructor.h"

#include "core/cffipointer.h"
#include "cffitypes.h"
#include "platform/functions.h"
#include "record.h"
#include "scalars.h"
#include "structpointer.h"

#include <structmember.h>

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *owner;    /* kept alive, or NULL */
    PyObject *name;     /* str: the function's name; NULL if nothing is freed or closed */
    PyObject *function; /* called to free or close the pointer, or NULL */
    PyObject *ended;    /* str: name of the function that freed or closed the pointer, or NULL */
} NcDestructor;

/* Marks the pointer as ended by a function; returns 0 if another function has ended it. */
static int end(NcDestructor *self, PyObject *name)
{
    int is_first = nc_exchange_ptr(&self->ended, NULL, Py_NewRef(name));
    if (!is_first) {
        Py_DECREF(name);
    }
    return is_first;
}

static PyObject *destruct(PyObject *object, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    NcDestructor *self = (NcDestructor *)(void *)object;
    if (PyVectorcall_NARGS(nargsf) != 1 || kwnames != NULL) {
        PyErr_SetString(PyExc_TypeError, "a Destructor takes one argument");
        return NULL;
    }
    Py_CLEAR(self->owner);
    if (self->function == NULL || nc_is_finalizing() || !end(self, self->name)) {
        Py_RETURN_NONE;
    }
    return PyObject_CallOneArg(self->function, args[0]);
}

static NcDestructor *destructor_new(PyObject *owner, PyObject *name, PyObject *function)
{
    NcDestructor *self = PyObject_GC_New(NcDestructor, &NcDestructor_Type);
    if (self != NULL) {
        self->owner = Py_XNewRef(owner);
        self->name = Py_XNewRef(name);
        self->function = function != Py_None ? Py_XNewRef(function) : NULL;
        self->ended = NULL;
        self->vectorcall = destruct;
        PyObject_GC_Track(self);
    }
    return self;
}

/* ---- objects of ffi.gc() --------------------------------------------------------------------- */

/* Return ffi.gc(pointer, destructor). Steals the destructor. */
static PyObject *gc_of(PyObject *pointer, NcDestructor *destructor)
{
    static PyObject *gcp; /* cffi's; NULL before first use */
    PyObject *const args[] = {pointer, (PyObject *)destructor};
    PyObject *call = destructor != NULL ? nc_of_cffi(&gcp, "gcp") : NULL;
    PyObject *made = call != NULL ? PyObject_Vectorcall(call, args, 2, NULL) : NULL;
    Py_XDECREF((PyObject *)destructor);
    return made;
}

PyObject *nc_cffi_keeping(PyObject *pointer, PyObject *owner)
{
    return gc_of(pointer, destructor_new(owner, NULL, NULL));
}

/* The referents of an ffi.gc() object. */
typedef struct {
    NcDestructor *destructor;
    PyObject *origin; /* the pointer from which it was made */
    int count;
} Referents;

static int look(PyObject *object, void *arg)
{
    Referents *found = (Referents *)arg;
    found->count++;
    if (Py_IS_TYPE(object, &NcDestructor_Type)) {
        found->destructor = (NcDestructor *)(void *)object;
    } else if (nc_is_cdata(object)) {
        found->origin = object;
    }
    return 0;
}

/* Find the referents of `pointer`. Return whether it is an ffi.gc() object. The destructor of such
 * an object is accessible only through tp_traverse. */
static int referents_of(PyObject *pointer, Referents *found)
{
    *found = (Referents){NULL, NULL, 0};
    pointer = nc_bare(pointer);
    if (!nc_is_cdata(pointer) || nc_load_relaxed_ptr(&nc_cffi_gcp) != Py_TYPE(pointer) ||
        Py_TYPE(pointer)->tp_traverse == NULL) {
        return 0;
    }
    (void)Py_TYPE(pointer)->tp_traverse(pointer, look, found);
    return 1;
}

/* Return the Destructor of a pointer that must be freed or closed, or NULL. */
static NcDestructor *destructor_of(PyObject *pointer)
{
    Referents found;
    return referents_of(pointer, &found) && found.destructor != NULL &&
                   found.destructor->name != NULL
               ? found.destructor
               : NULL;
}

int nc_is_handle(PyObject *value, const void *address)
{
    Referents found;
    return referents_of(value, &found) && found.destructor != NULL && address != NULL &&
           (const void *)found.destructor->owner == address;
}

PyObject *nc_cffi_origin(PyObject *object)
{
    Referents found;
    while (referents_of(object, &found) && found.origin != NULL) {
        object = found.origin;
    }
    return object;
}

PyObject *nc_ended_by(PyObject *pointer)
{
    static PyObject *release;
    Referents found;
    if (!referents_of(pointer, &found) || found.count != 0) {
        return found.destructor != NULL ? nc_kept(&found.destructor->ended) : NULL;
    }
    PyObject *name = nc_kept(&release);
    return name != NULL ? name : nc_keep_first(&release, PyUnicode_InternFromString("ffi.release"));
}

int nc_end(PyObject *pointer, PyObject *name, PyObject *callable, Py_ssize_t index)
{
    PyObject *ended = nc_ended_by(pointer);
    NcDestructor *destructor = ended == NULL ? destructor_of(pointer) : NULL;
    if (destructor != NULL && !end(destructor, name)) {
        ended = nc_ended_by(pointer); /* by another thread, meanwhile */
    }
    if (ended != NULL) {
        Py_INCREF(ended);
        nc_conversion_error(PyExc_ValueError, callable, index, "was already freed or closed by %R",
                            ended);
        Py_DECREF(ended);
        return -1;
    }
    return destructor != NULL;
}

void nc_end_undo(PyObject *pointer)
{
    NcDestructor *destructor = destructor_of(pointer);
    if (destructor != NULL) {
        Py_XDECREF(nc_swap_alone(&destructor->ended, NULL));
    }
}

/* ---- owned results --------------------------------------------------------------------------- */

static PyObject *one_owned(PyObject *value, PyObject *owns)
{
    PyObject *bare = nc_bare(value);
    if (!nc_is_cdata(bare)) {
        return value;
    }
    PyObject *function = PyTuple_GET_ITEM(owns, 1);
    Referents found;
    if (referents_of(value, &found)) {
        if (found.destructor != NULL && found.destructor->name != NULL && function != Py_None &&
            found.destructor->function == NULL) {
            /* keep_given (call.c) passes a function for a close= handle only after a failed call.
             * The call did not return the handle, so the Destructor must close it. */
            Py_XSETREF(found.destructor->name, Py_NewRef(PyTuple_GET_ITEM(owns, 0)));
            found.destructor->function = Py_NewRef(function);
        }
        return value;
    }
    PyObject *made = gc_of(bare, destructor_new(NULL, PyTuple_GET_ITEM(owns, 0), function));
    if (made != NULL && bare != value) {
        Py_SETREF(((NcStructPointer *)(void *)value)->cdata, made);
        return value;
    }
    Py_DECREF(value);
    return made;
}

/* Make the pointers in a Record own their memory. The Record keeps the new pointer objects. */
static PyObject *record_owned(PyObject *record, PyObject *owns)
{
    for (Py_ssize_t i = 0; i < PySequence_Size(record); i++) {
        PyObject *value = PySequence_GetItem(record, i);
        if (value != NULL && nc_is_cdata(nc_bare(value))) {
            value = one_owned(value, owns);
            if (value != NULL && PySequence_SetItem(record, i, value) < 0) {
                Py_CLEAR(value);
            }
        }
        if (value == NULL) {
            Py_DECREF(record);
            return NULL;
        }
        Py_DECREF(value);
    }
    return record;
}

PyObject *nc_owned(PyObject *value, PyObject *owns)
{
    if (value == NULL) {
        return NULL;
    }
    if (!PyTuple_CheckExact(value)) {
        return PyObject_TypeCheck(value, &NcRecordBase_Type) ? record_owned(value, owns)
                                                             : one_owned(value, owns);
    }
    PyObject *made = PyTuple_New(PyTuple_GET_SIZE(value));
    for (Py_ssize_t i = 0; made != NULL && i < PyTuple_GET_SIZE(value); i++) {
        PyObject *item = nc_owned(Py_NewRef(PyTuple_GET_ITEM(value, i)), owns);
        if (item == NULL) {
            Py_CLEAR(made);
        } else {
            PyTuple_SET_ITEM(made, i, item);
        }
    }
    Py_DECREF(value);
    return made;
}

/* ended_by(pointer): return the name of the function that freed or closed a pointer, or None. */
PyObject *nc_handle_ended(PyObject *Py_UNUSED(module), PyObject *pointer)
{
    PyObject *name = nc_ended_by(pointer);
    return Py_NewRef(name != NULL ? name : Py_None);
}

/* ---- the type -------------------------------------------------------------------------------- */

static PyObject *destructor_make(PyTypeObject *Py_UNUSED(type), PyObject *args, PyObject *kwargs)
{
    PyObject *owner;
    if (kwargs != NULL && PyDict_GET_SIZE(kwargs) != 0) {
        PyErr_SetString(PyExc_TypeError, "Destructor() takes no keyword arguments");
        return NULL;
    }
    return PyArg_ParseTuple(args, "O", &owner) ? (PyObject *)destructor_new(owner, NULL, NULL)
                                               : NULL;
}

static int destructor_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(((NcDestructor *)(void *)object)->owner);
    Py_VISIT(((NcDestructor *)(void *)object)->function);
    return 0;
}

/* Keeps `function`, because the Destructor must still free or close the pointer. */
static int destructor_clear(PyObject *object)
{
    Py_CLEAR(((NcDestructor *)(void *)object)->owner);
    return 0;
}

static void destructor_dealloc(PyObject *object)
{
    NcDestructor *self = (NcDestructor *)(void *)object;
    PyObject_GC_UnTrack(object);
    (void)destructor_clear(object);
    Py_XDECREF(self->name);
    Py_XDECREF(self->function);
    Py_XDECREF(self->ended);
    PyObject_GC_Del(object);
}

static PyMemberDef destructor_members[] = {
    {"owner", T_OBJECT, offsetof(NcDestructor, owner), READONLY,
     "the object that it keeps alive, or None"},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject NcDestructor_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "nativecall._ext.Destructor",
    .tp_doc = "Destructor of a cffi pointer; cffi calls it when the pointer object is freed.",
    .tp_basicsize = sizeof(NcDestructor),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(NcDestructor, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_new = destructor_make,
    .tp_traverse = destructor_traverse,
    .tp_clear = destructor_clear,
    .tp_dealloc = destructor_dealloc,
    .tp_members = destructor_members,
};
