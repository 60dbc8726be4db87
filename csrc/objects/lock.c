/* csrc/objects/lock.c: a lock that is a field of a native object (objectqueue.h), as Python has it.
 *
 * Guarantees: waiting releases the GIL, and is interrupted by signals; a lock keeps its object, and
 * is only made of fields that are locks.
 * All need the GIL. */
#include "ground/address.h"
#include "ground/functions.h"
#include "nativecall/nativeobject.h"
#include "nativecall/objectqueue.h"

enum { TRIES = 2000 }; /* until signals are looked at: some hundredths of a second */

typedef struct {
    PyObject_HEAD
    PyObject *object; /* keeps the word */
    uint32_t *word;
} Lock;

/* Whether a lock of the object's classes is at this place. */
static int is_lock(const NcObject *object, const char *place)
{
    const NcClass *cls = nc_object_class(object);
    for (size_t p = 0; p < cls->part_count; p++) {
        const NcClass *part = cls->parts[p].cls;
        for (size_t n = 0; n < part->field_count; n++) {
            const NcField *field = &part->fields[n];
            if (place == (const char *)object + cls->parts[p].offset + (intptr_t)field->offset) {
                return field->type != NULL && strcmp(field->type, NC_FIELD_LOCK) == 0;
            }
        }
    }
    return 0;
}

/* Lock(object, address): of a field that is a lock. */
static PyObject *lock_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *object;
    void *place;
    if ((kwargs != NULL && PyDict_GET_SIZE(kwargs) != 0) ||
        !PyArg_ParseTuple(args, "OO&:Lock", &object, nc_take_address, &place)) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_TypeError, "Lock takes no keyword arguments");
        }
        return NULL;
    }
    if (nc_object_of_python(object, NULL) == NULL || !is_lock(object, place)) {
        PyErr_Format(PyExc_TypeError,
                     "a lock is a field of a native object, declared by nativecall.field("
                     "nativecall.Lock); this %.200s has none there",
                     Py_TYPE(object)->tp_name);
        return NULL;
    }
    Lock *self = (Lock *)(void *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->object = Py_NewRef(object);
        self->word = (uint32_t *)place;
    }
    return (PyObject *)self;
}

/* 0, or -1 with the exception of a signal's handler. */
static int wait_for(uint32_t *word)
{
    int got = nc_lock_try(word);
    while (!got) {
        Py_BEGIN_ALLOW_THREADS;
        for (int tries = 0; !got && tries < TRIES; tries++) {
            nc_lock_pause(tries);
            got = nc_lock_try(word);
        }
        Py_END_ALLOW_THREADS;
        if (!got && PyErr_CheckSignals() < 0) {
            return -1;
        }
    }
    return 0;
}

static PyObject *lock_acquire(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"blocking", NULL};
    Lock *self = (Lock *)(void *)object;
    int blocking = 1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|p:acquire", names, &blocking)) {
        return NULL;
    }
    if (!blocking) {
        return PyBool_FromLong(nc_lock_try(self->word));
    }
    return wait_for(self->word) == 0 ? Py_NewRef(Py_True) : NULL;
}

static PyObject *lock_enter(PyObject *object, PyObject *Py_UNUSED(none))
{
    return wait_for(((Lock *)(void *)object)->word) == 0 ? Py_NewRef(object) : NULL;
}

static PyObject *lock_release(PyObject *object, PyObject *Py_UNUSED(args))
{
    Lock *self = (Lock *)(void *)object;
    if (!nc_lock_is_held(self->word)) {
        PyErr_Format(PyExc_RuntimeError, "nobody has this lock of a '%s' object",
                     Py_TYPE(self->object)->tp_name);
        return NULL;
    }
    nc_lock_release(self->word);
    Py_RETURN_NONE;
}

static PyObject *lock_locked(PyObject *object, PyObject *Py_UNUSED(none))
{
    return PyBool_FromLong(nc_lock_is_held(((Lock *)(void *)object)->word));
}

static PyObject *lock_repr(PyObject *object)
{
    Lock *self = (Lock *)(void *)object;
    return PyUnicode_FromFormat("<%s lock of a '%s' object>",
                                nc_lock_is_held(self->word) ? "locked" : "unlocked",
                                Py_TYPE(self->object)->tp_name);
}

static int lock_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(((Lock *)(void *)object)->object);
    return 0;
}

/* No tp_clear: the object's own attributes are cleared where a lock is part of a cycle. */
static void lock_dealloc(PyObject *object)
{
    PyObject_GC_UnTrack(object);
    Py_XDECREF(((Lock *)(void *)object)->object);
    PyObject_GC_Del(object);
}

static PyMethodDef methods[] = {
    {"acquire", NC_METHOD(lock_acquire), METH_VARARGS | METH_KEYWORDS,
     "acquire($self, /, blocking=True)\n--\n\n"
     "Take the lock, and wait for it without the GIL. Without blocking: whether it was free."},
    {"release", lock_release, METH_NOARGS,
     "release($self, /)\n--\n\nGive the lock back. RuntimeError where nobody has it."},
    {"locked", lock_locked, METH_NOARGS, "locked($self, /)\n--\n\nWhether anybody has the lock."},
    {"__enter__", lock_enter, METH_NOARGS, NULL},
    {"__exit__", lock_release, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

PyTypeObject NcLock_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "nativecall.Lock",
    .tp_doc =
        "A lock in a native object, for Python and for threads without the GIL.\n\n"
        "``lock = nc.field(nc.Lock)`` in a class body declares one; ``with obj.lock:`` takes it,\n"
        "waits for it without the GIL, and gives it back. It is not reentrant. C code uses\n"
        "`nc_lock_acquire` and `nc_lock_release` on the same word.",
    .tp_basicsize = sizeof(Lock),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = lock_new,
    .tp_dealloc = lock_dealloc,
    .tp_traverse = lock_traverse,
    .tp_repr = lock_repr,
    .tp_methods = methods,
};
