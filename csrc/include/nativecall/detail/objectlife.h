/* nativecall/detail/objectlife.h: how CPython creates, deallocates and revives native objects.
 * nativeobject.h explains why this is safe. All functions need the GIL. On free-threaded builds,
 * half of them are in objectnogil.h. */
#ifndef NATIVECALL_OBJECTLIFE_H
#define NATIVECALL_OBJECTLIFE_H

#include "../extensibletype.h"
#include "objectcount.h"

NC_C_BEGIN

#define NC_OBJECTS_ATTRIBUTE "nativeobject_v1"
#define NC_OBJECTS_CAPSULE NC_RUNTIME_MODULE "." NC_OBJECTS_ATTRIBUTE
#define NC_CLASS_ATTRIBUTE "__nativeclass__"
#define NC_CLASS_KEPT "__nativekept__"         /* data that native code points to */
#define NC_CLASS_DECLARES "__nativedeclares__" /* marks objects that belong in class bodies */
#define NC_CLASS_CAPSULE "nativecall.NcClass"

/* Data of native objects shared by all modules. */
typedef struct {
    uint32_t abi_version, struct_size, class_size, head_size; /* of the publisher's build */
    const char *provider;                                     /* publisher's name, for messages */
    PyTypeObject *metatype;                                   /* metaclass of native objects */
    PyTypeObject *root;                                       /* nativecall.NativeObject */
    void *waiting;                /* destroyed objects that still own a reference to their type */
    destructor statement_dealloc; /* tp_dealloc of classes created by class statements */
    /* Set by the package, or NULL. `describe` modifies the namespace of a class body, and returns
     * a new capsule (nc_class_capsule) or None. `publish` adds descriptors for the class's own
     * members. */
    PyObject *(*describe)(PyObject *name, PyObject *bases, PyObject *space);
    int (*publish)(PyTypeObject *type, NcClass *cls);
    PyTypeObject *reference; /* for nc_reference_release; NULL with the GIL */
} NcObjects;

NC_SHARED_VARIABLE NcObjects *nc_objects = NULL;

NC_STATIC_INLINE int nc_type_is_native(PyTypeObject *type)
{
    return nc_type_has_metatype(type, nc_objects->metatype);
}

/* Return the address of the NcClass pointer in a type of native objects. The pointer follows the
 * fields of the metaclass `extensibletype`. */
NC_STATIC_INLINE NcClass **nc_type_class_place(PyTypeObject *type)
{
    return (NcClass **)(void *)((char *)type + nc_metatype->tp_basicsize);
}

/* Return the NcClass of a type of native objects. Return NULL for other types, and for a type that
 * is not finished yet. */
NC_STATIC_INLINE NcClass *nc_type_class(PyTypeObject *type)
{
    return nc_type_is_native(type) ? *nc_type_class_place(type) : NULL;
}

/* ---- objects --------------------------------------------------------------------------------- */

/* Free the objects that were destroyed without the GIL, and release the references to their
 * types. */
NC_STATIC void nc_objects_settle(void)
{
    if (NC_LIKELY(nc_load_relaxed_ptr(&nc_objects->waiting) == NULL)) {
        return;
    }
    NcObject *object = NC_SWAP_PTR(&nc_objects->waiting, (void *)NULL);
    while (object != NULL) {
        NcObject *next = nc_object_next(object);
        PyObject *type = (PyObject *)nc_object_class(object)->type;
        nc_object_free(object);
        Py_DECREF(type);
        object = next;
    }
}

#if defined(Py_GIL_DISABLED)
#include "objectnogil.h"
#else

/* The native object of a Python object of a native type; the same before native code gets it. */
#define NC_OBJECT_NATIVE(self) ((NcObject *)(self))
#define NC_OBJECT_GIVEN(self) NC_OBJECT_NATIVE(self)

/* Initialize the PyObject of an object that is not ALIVE. The PyObject takes over one native
 * reference from the caller. */
NC_STATIC_INLINE PyObject *nc_object_appear(NcObject *object, PyTypeObject *type)
{
    NcObjectHead *head = nc_object_head(object);
    memset((char *)object - NC_OBJECT_PYTHON_WORDS, 0, NC_OBJECT_PYTHON_WORDS);
    nc_words_zero((char *)object + sizeof(PyObject), (char *)object + head->cls->after);
    head->state = NC_OBJECT_ALIVE | (head->state & NC_OBJECT_PLACE);
    (void)PyObject_Init((PyObject *)object, type);
    if (PyType_IS_GC(type)) {
        PyObject_GC_Track(object);
    }
    return (PyObject *)object;
}

/* Like nc_object_appear, but first add the native reference that the PyObject takes over. */
NC_NOINLINE PyObject *nc_object_revive(NcObject *object)
{
    PyTypeObject *type = (PyTypeObject *)nc_object_class(object)->type;
    const int holds = (nc_object_head(object)->state & NC_OBJECT_HOLDS) != 0;
    nc_object_retain(object);
    (void)nc_object_appear(object, type);
    if (holds) {
        Py_DECREF(type); /* PyObject_Init has added a reference */
    }
    return (PyObject *)object;
}

/* Return whether objects of a type are bare: Python adds nothing to the PyObject, such as a
 * __dict__, weak references or __del__. */
NC_STATIC_INLINE int nc_type_is_bare(const PyTypeObject *type)
{
    return type->tp_basicsize == (Py_ssize_t)sizeof(PyObject) && type->tp_dictoffset == 0 &&
           type->tp_weaklistoffset == 0 && type->tp_finalize == NULL;
}

/* Objects created minus objects destroyed since the last collection, and the number that triggers
 * the next collection. Bare objects are not counted. CPython's own counter misses native objects,
 * because CPython does not allocate them. */
static size_t nc_objects_young = 0;
static size_t nc_objects_young_most = 700;

/* Run the garbage collector, as CPython does after the same number of its own allocations. Collect
 * the youngest generation, and the middle one if CPython's threshold for it is exceeded. CPython
 * decides when to collect the oldest. If the collection fails, for example at shutdown, objects are
 * still created. */
NC_COLD void nc_objects_collect(void)
{
    const size_t made = nc_objects_young;
    PyObject *found = NULL;
    long limit[3], count[3];
    nc_objects_young = 0;
    if (!PyGC_IsEnabled()) {
        return;
    }
    PyObject *module = PyImport_ImportModule("gc");
    PyObject *limits = module != NULL ? PyObject_CallMethod(module, "get_threshold", NULL) : NULL;
    PyObject *counts = limits != NULL ? PyObject_CallMethod(module, "get_count", NULL) : NULL;
    if (counts != NULL && PyArg_ParseTuple(limits, "lll", &limit[0], &limit[1], &limit[2]) &&
        PyArg_ParseTuple(counts, "lll", &count[0], &count[1], &count[2])) {
        nc_objects_young_most = limit[0] > 0 ? (size_t)limit[0] : 700; /* 0: collection disabled */
        if (limit[0] > 0 && made <= nc_objects_young_most) {
            nc_objects_young = made;
        } else if (limit[0] > 0) {
            found = PyObject_CallMethod(module, "collect", "i", count[1] > limit[1] ? 1 : 0);
        }
    }
    PyErr_Clear();
    Py_XDECREF(found);
    Py_XDECREF(counts);
    Py_XDECREF(limits);
    Py_XDECREF(module);
}

/* After the Python side is torn down, release Python's native reference. */
NC_STATIC void nc_object_part(PyObject *self)
{
    NcObjectHead *head = nc_object_head(self);
    PyTypeObject *type = Py_TYPE(self);
    const uint32_t flags = head->cls->flags;
    const int lasting = nc_load_relaxed_size(&head->cls->lasting) != 0;
    if (nc_load_acquire_size(&head->count) == 1 &&
        ((flags & NC_CLASS_PLAIN) != 0 || !nc_ending.running)) {
        head->state &= NC_OBJECT_PLACE; /* destroyed here; its type is released afterwards */
        nc_object_end(self);
        nc_objects_settle();
        Py_DECREF(type);
        return;
    }
    head->state = (lasting ? 0 : NC_OBJECT_HOLDS) | (head->state & NC_OBJECT_PLACE);
    if (nc_object_count_down(self)) {
        nc_object_end(self);
        nc_objects_settle();
    }
    if (lasting) {
        Py_DECREF(type);
    }
}

/* Objects whose teardown waits for the end of this thread's outermost teardown. Without this queue,
 * teardowns would nest once for each object in a chain linked by attributes, and overflow the C
 * stack. */
typedef struct {
    size_t depth;      /* of nested teardowns */
    PyObject **waited; /* from malloc; each item owns the last Python reference */
    size_t count;
    size_t capacity;
} NcTakingDown;

enum { NC_TAKING_DOWN_DEPTH = 50 };

static NC_THREAD_LOCAL NcTakingDown nc_taking_down;

/* Revive an object whose ob_refcnt has fallen to 0, and defer its teardown. Return 0 if out of
 * memory. */
NC_STATIC int nc_object_wait(NcTakingDown *taking, PyObject *self)
{
    if (taking->count == taking->capacity) {
        const size_t more = 2 * taking->capacity + NC_TAKING_DOWN_DEPTH;
        void *grown = realloc((void *)taking->waited, more * sizeof *taking->waited);
        if (grown == NULL) {
            return 0;
        }
        taking->waited = (PyObject **)grown;
        taking->capacity = more;
    }
    Py_INCREF(self);
    taking->waited[taking->count++] = self;
    return 1;
}

/* At the end of the outermost teardown, release the deferred objects. More may be deferred
 * meanwhile. */
NC_STATIC void nc_objects_end_waiting(NcTakingDown *taking)
{
    while (taking->count > 0) {
        PyObject *next = taking->waited[--taking->count];
        Py_DECREF(next);
    }
    free((void *)taking->waited);
    taking->waited = NULL;
    taking->capacity = 0;
}

/* Tear down the Python side of an object that is not bare (point 5 in nativeobject.h). */
NC_STATIC void nc_object_take_down_now(PyObject *self)
{
    NcObjectHead *head = nc_object_head(self);
    PyTypeObject *type = Py_TYPE(self);
    const int collected = PyType_IS_GC(type);
    if (type->tp_finalize != NULL && PyObject_CallFinalizerFromDealloc(self) < 0) {
        return;
    }
    if (collected) {
        PyObject_GC_UnTrack(self);
    }
    head->state |= NC_OBJECT_ENDING;
    if (type->tp_weaklistoffset != 0) {
        PyObject_ClearWeakRefs(self);
    }
    Py_INCREF(self);
    if (type->tp_clear != NULL) {
        (void)type->tp_clear(self);
    }
    nc_clear_managed_dict(self);
    head->state &= ~(uintptr_t)NC_OBJECT_ENDING;
    if ((head->state & NC_OBJECT_AGAIN) != 0) {
        head->state &= ~(uintptr_t)NC_OBJECT_AGAIN;
        if (collected) {
            PyObject_GC_Track(self);
        }
    } else {
        head->state |= NC_OBJECT_ENDED;
    }
    Py_DECREF(self);
}

NC_NOINLINE void nc_object_take_down(PyObject *self)
{
    const uintptr_t state = nc_object_head(self)->state;
    if ((state & NC_OBJECT_ENDED) != 0) {
        nc_objects_young -= nc_objects_young != 0;
        nc_object_part(self);
        return;
    }
    if ((state & NC_OBJECT_ENDING) != 0) {
        return;
    }
    NcTakingDown *taking = &nc_taking_down;
    if (taking->depth >= NC_TAKING_DOWN_DEPTH && nc_object_wait(taking, self)) {
        return;
    }
    taking->depth++;
    nc_object_take_down_now(self);
    if (taking->depth == 1 && taking->count != 0) {
        nc_objects_end_waiting(taking);
    }
    taking->depth--;
}

/* tp_dealloc. Deallocating a bare object runs no Python code, so a bare object is never ENDING. */
NC_STATIC void nc_object_dealloc(PyObject *self)
{
    if (!nc_type_is_bare(Py_TYPE(self))) {
        nc_object_take_down(self);
        return;
    }
    if (PyType_IS_GC(Py_TYPE(self))) {
        PyObject_GC_UnTrack(self);
    }
    nc_object_part(self);
}

#endif

/* Return the NcClass of a type. Return NULL with TypeError if the type cannot be instantiated. */
NC_STATIC const NcClass *nc_class_with_objects(PyTypeObject *type)
{
    const NcClass *cls = nc_type_class(type);
    if (cls == NULL || cls->type != type) {
        PyErr_Format(PyExc_TypeError,
                     "class '%s' cannot be instantiated yet: it is still being created",
                     type->tp_name);
        return NULL;
    }
    if ((cls->flags & NC_CLASS_FAILED) != 0) {
        PyErr_Format(PyExc_TypeError,
                     "class '%s' cannot be instantiated: its class statement failed",
                     type->tp_name);
        return NULL;
    }
    if ((cls->flags & NC_CLASS_ABSTRACT) != 0) {
        for (size_t i = 0; i < cls->slots->count; i++) {
            const PyCustomSlot *row = nc_slottable_rows(cls->slots) + i;
            if (row->data.pointer == NULL) {
                PyErr_Format(PyExc_TypeError,
                             "class '%s' cannot be instantiated: its method '%s' is abstract",
                             type->tp_name, (const char *)row->id);
            }
        }
        return NULL;
    }
    return cls;
}

/* tp_alloc. */
NC_STATIC PyObject *nc_object_alloc(PyTypeObject *type, Py_ssize_t items)
{
    (void)items;
    nc_objects_settle();
    const NcClass *cls = nc_class_with_objects(type);
    if (cls == NULL) {
        return NULL;
    }
#if !defined(Py_GIL_DISABLED)
    if (!nc_type_is_bare(type) && ++nc_objects_young > nc_objects_young_most) {
        nc_objects_collect();
    }
#endif
    NcObject *object = nc_object_new(cls);
    return object != NULL ? nc_object_appear(object, type) : PyErr_NoMemory();
}

/* tp_traverse of the root class. For a derived class, CPython's own tp_traverse calls this function
 * last, and this function visits the type. If native code also holds the object, the type is not
 * visited, so the collector keeps the class. A count of 1 stays 1 while this thread holds the GIL
 * (point 2 in nativeobject.h). */
NC_STATIC int nc_object_traverse(PyObject *self, visitproc visit, void *arg)
{
    if (nc_load_acquire_size(&nc_object_head(NC_OBJECT_NATIVE(self))->count) == 1) {
        Py_VISIT(Py_TYPE(self));
    }
    return 0;
}

/* tp_free of a type that is being built. It is never called, because nc_object_dealloc frees the
 * memory. But when code assigns to __class__, through object.__dict__["__class__"], CPython
 * compares the tp_free of both types. CPython does not see our fields, so it could allow an
 * assignment between incompatible types. To prevent that, tp_free of each finished type is the
 * unique address of its NcClass. */
NC_STATIC void nc_object_tp_free(void *self)
{
    (void)self;
}

NC_C_END

#endif
