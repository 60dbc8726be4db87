/* nativecall/detail/objectnogil.h: how CPython creates, deallocates and revives native objects on
 * free-threaded builds. Included by objectlife.h, which has the same functions for other builds.
 *
 * Idea:       the collector of these builds finds only objects in CPython's own heaps, and threads
 *             without a thread state cannot use those. So the Python object is a block of its own:
 *             the first cast creates it, and its last reference frees it. CPython counts, collects
 *             and finalizes it as any object. It owns one native reference, and ends with a pointer
 *             to the native object, behind all memory that CPython knows of.
 * Collector:  tracks a Python object only until native code gets the native object. The collector
 *             clears weak references to garbage while all threads are stopped, but knows nothing of
 *             the words below. So it could clear an object that a cast returns at the same time. No
 *             thread can cast a tracked object: Python owns its only native reference.
 * Invariants: the words before a native object name its Python object, until that is torn down. So
 *             the named object is not freed. HOLDS, once set, stays.
 * Threads:    a lock for each native object guards the name and the state. No Python code runs
 *             while the lock is held. The last reference to the named object may go away at any
 *             moment, so a cast adds its reference with PyUnstable_TryIncRef. If that fails, the
 *             object's teardown is about to begin, and the cast creates and names another object.
 *             A teardown removes only the name of its own object.
 * Fork:       os.fork stops all threads, and no thread stops while it holds a lock. A child finds a
 *             lock held only if C code forks, or if a thread has waited for the lock for over a
 *             millisecond: PyMutex then hands it over. A cast in the child then waits for ever. */
#ifndef NATIVECALL_OBJECTNOGIL_H
#define NATIVECALL_OBJECTNOGIL_H

#include "../extensibletype.h"
#include "objectcount.h"

NC_C_BEGIN

/* The words before a native object. Zero bytes are its initial value. */
typedef struct {
    PyObject *object; /* the Python object, or NULL */
    PyMutex lock;     /* for `object` and the state in the head */
} NcObjectPython;

#define NC_OBJECT_PYTHON(object)                                                                   \
    ((NcObjectPython *)(void *)((char *)(object) - NC_OBJECT_PYTHON_WORDS))

/* The native object of a Python object of a native type; the same before native code gets it. */
#define NC_OBJECT_NATIVE(self)                                                                     \
    (*(NcObject **)(void *)((char *)(self) + Py_TYPE(self)->tp_basicsize))
#define NC_OBJECT_GIVEN(self) (PyObject_GC_UnTrack(self), NC_OBJECT_NATIVE(self))

/* Create the Python object of a native object. It takes over one native reference from the caller.
 * Return NULL with MemoryError on failure; the reference is then released. */
NC_STATIC PyObject *nc_object_appear(NcObject *object, PyTypeObject *type)
{
    PyObject *self = PyUnstable_Object_GC_NewWithExtraData(type, sizeof object);
    if (self == NULL) {
        nc_object_release(object);
        return NULL;
    }
    NC_OBJECT_NATIVE(self) = object;
    NC_OBJECT_PYTHON(object)->object = self;
    PyUnstable_EnableTryIncRef(self);
    PyObject_GC_Track(self);
    return self;
}

/* Return a new reference to the Python object of a native object, which is created if there is
 * none. Return NULL with MemoryError on failure. */
NC_NOINLINE PyObject *nc_object_revive(NcObject *object)
{
    NcObjectPython *python = NC_OBJECT_PYTHON(object);
    PyMutex_Lock(&python->lock);
    PyObject *self = python->object;
    if (self == NULL || !PyUnstable_TryIncRef(self)) {
        nc_object_retain(object);
        self = nc_object_appear(object, (PyTypeObject *)nc_object_class(object)->type);
        if (self != NULL) {
            PyObject_GC_UnTrack(self); /* native code has it */
        }
    }
    PyMutex_Unlock(&python->lock);
    return self;
}

/* An object without memory of its own. It stands for an object's reference to its type. */
typedef struct {
    PyObject base;
    PyTypeObject *type;
} NcTypeReference;

NC_STATIC void nc_reference_del(PyObject *self)
{
    Py_SET_TYPE(self, ((NcTypeReference *)(void *)self)->type);
}

NC_STATIC void nc_reference_dealloc(PyObject *self)
{
    (void)self;
}

/* Return the type of NcTypeReference, or NULL with an exception. */
NC_STATIC PyTypeObject *nc_reference_type(void)
{
    static PyTypeObject base;
    PyTypeObject *type = NULL;
    if (base.tp_name == NULL) {
        base.tp_name = "nativecall.TypeReferenceBase";
        base.tp_basicsize = sizeof(NcTypeReference);
        base.tp_flags =
            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION;
        base.tp_dealloc = nc_reference_dealloc;
    }
    if (PyType_Ready(&base) == 0) {
        type = (PyTypeObject *)PyObject_CallFunction((PyObject *)&PyType_Type, "s(O){s()ss}",
                                                     "TypeReference", &base, "__slots__",
                                                     "__module__", "nativecall");
    }
    if (type != NULL) {
        type->tp_del = nc_reference_del;
        type->tp_flags |= Py_TPFLAGS_IMMUTABLETYPE;
    }
    return type;
}

/* Release a reference that CPython added when it created an object of a type. CPython counts these
 * references for each thread, without a public function, and Py_DECREF would write to a count that
 * all threads share. But CPython's own deallocator reads the type after tp_del, and releases a
 * reference to it at the end. */
NC_STATIC void nc_reference_release(PyTypeObject *type)
{
    NcTypeReference reference;
    memset(&reference, 0, sizeof reference);
    Py_SET_TYPE(&reference.base, nc_objects->reference);
    reference.type = type;
    nc_objects->statement_dealloc(&reference.base);
}

/* tp_dealloc: tear down and free a Python object, and release its native reference. A finalizer
 * runs with a reference of its own. If that reference is the last one in the end, CPython
 * deallocates the object again. If native code holds the native object, that takes over the
 * reference to the type, once. The type then stays alive until our native reference is released.
 * From 3.14 on, CPython limits how deep deallocations nest. */
NC_STATIC void nc_object_dealloc(PyObject *self)
{
    NcObject *object = NC_OBJECT_NATIVE(self);
    NcObjectHead *head = nc_object_head(object);
    NcObjectPython *python = NC_OBJECT_PYTHON(object);
    PyTypeObject *type = Py_TYPE(self);
    int gives = 0;
    if (type->tp_finalize != NULL && !PyObject_GC_IsFinalized(self)) {
        Py_INCREF(self);
        PyObject_CallFinalizer(self);
        Py_DECREF(self);
        return;
    }
    PyObject_GC_UnTrack(self);
    PyMutex_Lock(&python->lock);
    if (python->object == self) {
        python->object = NULL; /* later casts create another one */
        gives = nc_load_relaxed_size(&head->cls->lasting) == 0 &&
                (head->state & NC_OBJECT_HOLDS) == 0 &&
                (nc_load_acquire_size(&head->count) != 1 || nc_ending.running);
        head->state |= gives ? NC_OBJECT_HOLDS : 0;
    }
    PyMutex_Unlock(&python->lock);
    if (type->tp_weaklistoffset != 0) {
        PyObject_ClearWeakRefs(self);
    }
    if (type->tp_clear != NULL) {
        (void)type->tp_clear(self);
    }
    PyObject_GC_Del(self);
    nc_object_release(object);
    nc_objects_settle();
    if (!gives) {
        nc_reference_release(type);
    }
}

NC_C_END

#endif
