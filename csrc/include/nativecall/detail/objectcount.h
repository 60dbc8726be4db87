/* nativecall/detail/objectcount.h: native objects without Python: creation, reference counts,
 * casts, methods, destruction. nativeobject.h explains why this is safe.
 *
 * Threads:    you may call all functions from any thread, without the GIL. Hold a native reference
 *             to the object; for nc_object_new, keep the class alive. Synchronise access to fields
 *             yourself.
 * Errors:     NULL if out of memory or if the class is abstract. Nothing else fails.
 * Checked:    if you define NC_OBJECT_CHECKED before the include, use of a destroyed object prints
 *             the class's name and aborts the process. Destroyed objects are kept for a while to
 *             detect this. */
#ifndef NATIVECALL_OBJECTCOUNT_H
#define NATIVECALL_OBJECTCOUNT_H

#include <stdio.h>

#include "objectclass.h"
#include "objectmemory.h"

NC_C_BEGIN

/* A native object. Its address is that of its PyObject, except on free-threaded builds. */
typedef void NcObject;

enum {
    NC_OBJECT_ALIVE = 1,      /* Python's references together own one native reference */
    NC_OBJECT_ENDING = 2,     /* Python's last reference is gone; teardown is running */
    NC_OBJECT_AGAIN = 4,      /* cast to Python again during teardown */
    NC_OBJECT_ENDED = 8,      /* teardown is done */
    NC_OBJECT_HOLDS = 16,     /* owns a reference to its type; releasing it needs the GIL */
    NC_OBJECT_IN_BLOCK = 32,  /* made by nc_objects_new; this and higher bits never change */
    NC_OBJECT_INDEX_SHIFT = 8 /* the bits from here on hold the object's index in its block */
};
#define NC_OBJECT_PLACE (~(uintptr_t)(NC_OBJECT_IN_BLOCK - 1)) /* bits that never change */

NC_STATIC_INLINE NcObjectHead *nc_object_head(const NcObject *object)
{
    return (NcObjectHead *)((uintptr_t)object - NC_OBJECT_HEAD);
}

/* Return the class of an object. */
NC_STATIC_INLINE const NcClass *nc_object_class(const NcObject *object)
{
    return nc_object_head(object)->cls;
}

/* ---- the count ------------------------------------------------------------------------------- */

#if defined(NC_MSVC)
#define NC_COUNT_UP(at, by)                                                                        \
    ((void)_InterlockedExchangeAdd64((volatile int64_t *)(at), (int64_t)(by)))
#define NC_COUNT_DOWN(at) ((size_t)_InterlockedExchangeAdd64((volatile int64_t *)(at), -1))
#define NC_SWAP_PTR(at, value) _InterlockedExchangePointer((void *volatile *)(at), (value))
#else
#define NC_COUNT_UP(at, by) ((void)__atomic_fetch_add((at), (by), __ATOMIC_RELAXED))
/* Acquire-release, so that all earlier writes, by any thread, precede the destruction. A fence
 * would also work, but ThreadSanitizer does not support fences. */
#define NC_COUNT_DOWN(at) __atomic_fetch_sub((at), 1, __ATOMIC_ACQ_REL)
#define NC_SWAP_PTR(at, value) __atomic_exchange_n((at), (value), __ATOMIC_ACQ_REL)
#endif

#if defined(NC_OBJECT_CHECKED)
#define NC_OBJECT_GONE ((size_t)-1 / 2)
NC_COLD void nc_object_misused(const NcObject *object, const char *what)
{
    /* Without the GIL, this cannot raise an exception. */
    (void)fprintf(stderr, "nativecall: %s of the '%s' object at %p, which was already destroyed\n",
                  what, nc_object_class(object)->name, (void *)(uintptr_t)object);
    abort();
}
#define NC_OBJECT_CHECK(object, what)                                                              \
    ((nc_load_relaxed_size(&nc_object_head(object)->count) - 1 >= NC_OBJECT_GONE - 1)              \
         ? nc_object_misused((object), (what))                                                     \
         : (void)0)
/* The same check, for operations that do not use the count. A `destroy` function may apply these
 * operations to its own object. */
#define NC_OBJECT_CHECK_MEMORY(object, what)                                                       \
    ((nc_load_relaxed_size(&nc_object_head(object)->count) == NC_OBJECT_GONE)                      \
         ? nc_object_misused((object), (what))                                                     \
         : (void)0)
#else
#define NC_OBJECT_CHECK(object, what) ((void)0)
#define NC_OBJECT_CHECK_MEMORY(object, what) ((void)0)
#endif

/* Add `count` native references in one operation. */
NC_STATIC_INLINE void nc_object_retain_many(NcObject *object, size_t count)
{
    NC_OBJECT_CHECK(object, "retain");
    NC_COUNT_UP(&nc_object_head(object)->count, count);
}

/* Add a native reference. */
NC_STATIC_INLINE void nc_object_retain(NcObject *object)
{
    nc_object_retain_many(object, 1);
}

/* ---- destruction: memory --------------------------------------------------------------------- */

/* Objects that this thread destroys when the running destruction has finished. Without this queue,
 * destroying a long chain of references would nest one call per object. */
typedef struct {
    int running;
    NcObject *first; /* linked through their counts */
} NcEnding;

static NC_THREAD_LOCAL NcEnding nc_ending;

NC_STATIC_INLINE void nc_object_set_next(NcObject *object, const void *next)
{
    nc_object_head(object)->count = (size_t)(uintptr_t)next;
}

NC_STATIC_INLINE NcObject *nc_object_next(const NcObject *object)
{
    return (NcObject *)(uintptr_t)nc_object_head(object)->count;
}

#if defined(NC_OBJECT_CHECKED)
#define NC_OBJECT_IS_GONE(object)                                                                  \
    nc_store_relaxed_size(&nc_object_head(object)->count, NC_OBJECT_GONE)
#else
#define NC_OBJECT_IS_GONE(object) ((void)0)
#endif

/* The header of objects created together, each counted and destroyed separately. */
typedef struct {
    size_t living; /* atomic: live objects; the last one frees the memory */
    size_t bytes;  /* of the block; pads this header to the objects' alignment */
} NcObjectBlock;

/* Return the bytes of an object outside a block. */
NC_STATIC_INLINE size_t nc_class_bytes(const NcClass *cls)
{
    return cls->before + cls->after;
}

/* Return the distance between objects of a block, in bytes. */
NC_STATIC_INLINE size_t nc_class_stride(const NcClass *cls)
{
    return (nc_class_bytes(cls) + NC_OBJECT_ALIGN - 1) & ~(NC_OBJECT_ALIGN - 1);
}

NC_NOINLINE void nc_object_leave_block(NcObject *object)
{
    const NcClass *cls = nc_object_class(object);
    const size_t index = (size_t)(nc_object_head(object)->state >> NC_OBJECT_INDEX_SHIFT);
    char *first = (char *)object - index * nc_class_stride(cls);
    NcObjectBlock *block = (NcObjectBlock *)(void *)(first - cls->before) - 1;
    if (NC_COUNT_DOWN(&block->living) == 1) {
        nc_memory_give(block, block->bytes);
    }
}

NC_STATIC_INLINE void nc_object_give_back(NcObject *object)
{
    const NcClass *cls = nc_object_class(object);
    NC_OBJECT_IS_GONE(object);
    nc_memory_give((char *)object - cls->before, nc_class_bytes(cls));
}

NC_STATIC_INLINE void nc_object_free(NcObject *object)
{
    if (NC_UNLIKELY((nc_object_head(object)->state & NC_OBJECT_IN_BLOCK) != 0)) {
        NC_OBJECT_IS_GONE(object);
        nc_object_leave_block(object);
        return;
    }
    nc_object_give_back(object);
}

/* ---- destruction ----------------------------------------------------------------------------- */

NC_STATIC void nc_object_end(NcObject *object);

NC_STATIC_INLINE void nc_object_release(NcObject *object);

/* Run the destructors of an object's classes, from part `first` to the last: most derived first. */
NC_STATIC void nc_object_destroy(NcObject *object, size_t first)
{
    const NcClass *cls = nc_object_class(object);
    for (size_t i = first; i < cls->part_count; i++) {
        const NcClass *part = cls->parts[i].cls;
        char *fields = (char *)object + cls->parts[i].offset;
        if (part->destroy != NULL) {
            part->destroy(fields);
        }
        for (size_t n = 0; n < part->field_count; n++) {
            if (part->fields[n].type == NULL) {
                NcObject *other = *(NcObject **)(void *)(fields + part->fields[n].offset);
                if (other != NULL) {
                    nc_object_release(other);
                }
            }
        }
    }
}

/* Dispose of an object that is in a block, or that owns a reference to its type. An object that
 * owns a reference to its type is queued, because only a thread with the GIL can release the
 * type. */
NC_NOINLINE void nc_object_dispose_apart(NcObject *object)
{
    void *first = NULL;
    if ((nc_object_head(object)->state & NC_OBJECT_HOLDS) == 0) {
        nc_object_free(object);
        return;
    }
    void **waiting = nc_object_class(object)->waiting;
    do {
        first = nc_load_relaxed_ptr(waiting);
        nc_object_set_next(object, first);
    } while (!nc_exchange_ptr(waiting, first, object));
}

/* Free an object's memory, or queue the object for a thread with the GIL. */
NC_STATIC_INLINE void nc_object_dispose(NcObject *object)
{
    const uintptr_t apart = NC_OBJECT_HOLDS | NC_OBJECT_IN_BLOCK;
    if (NC_UNLIKELY((nc_object_head(object)->state & apart) != 0)) {
        nc_object_dispose_apart(object);
        return;
    }
    nc_object_give_back(object);
}

/* Destroy an object that has destructors or references. Then destroy, one after another, the
 * objects whose last references this released. */
NC_NOINLINE void nc_object_end_in_turn(NcObject *object)
{
    NcEnding *ending = &nc_ending; /* in a shared library, each access takes a call */
    if (ending->running) {
        nc_object_set_next(object, ending->first);
        ending->first = object;
        return;
    }
    ending->running = 1;
    for (;;) {
        nc_object_destroy(object, 0);
        nc_object_dispose(object);
        object = ending->first;
        if (object == NULL) {
            break;
        }
        ending->first = nc_object_next(object);
    }
    ending->running = 0;
}

/* Destroy an object whose last reference is gone. The two callees are separate functions, so that
 * neither path saves registers for the other. */
NC_NOINLINE void nc_object_end(NcObject *object)
{
    if (NC_LIKELY((nc_object_class(object)->flags & NC_CLASS_PLAIN) != 0)) {
        nc_object_dispose(object);
    } else {
        nc_object_end_in_turn(object);
    }
}

/* Drop a native reference. Return 1 if it was the last. */
NC_STATIC_INLINE int nc_object_count_down(NcObject *object)
{
    size_t *count = &nc_object_head(object)->count;
    NC_OBJECT_CHECK(object, "release");
    /* If the caller holds the only reference, no other thread can retain or release the object. */
    return nc_load_acquire_size(count) == 1 || NC_COUNT_DOWN(count) == 1;
}

/* Drop a native reference. Dropping the last one destroys the object: destructors run, references
 * in fields are released, and the memory is freed. `object` must not be NULL. */
NC_STATIC_INLINE void nc_object_release(NcObject *object)
{
    if (nc_object_count_down(object)) {
        nc_object_end(object);
    }
}

/* ---- creation -------------------------------------------------------------------------------- */

/* Initialize an object whose fields are already zero. */
NC_STATIC_INLINE NcObject *nc_object_begin(NcObject *object, const NcClass *cls, uintptr_t state)
{
    NcObjectHead *head = nc_object_head(object);
    head->count = 1;
    head->cls = cls;
    head->state = state;
#if defined(Py_GIL_DISABLED) || !defined(Py_PYTHON_H) /* which may be used on such a build */
    memset((char *)object - NC_OBJECT_PYTHON_WORDS, 0, NC_OBJECT_PYTHON_WORDS);
#endif
    memcpy((char *)object + cls->type_at, &cls->type, sizeof cls->type);
    return object;
}

/* Zero whole words. For a few words, a memset call is slower. The barrier keeps compilers from
 * replacing the loop by a memset call. */
NC_STATIC_INLINE void nc_words_zero(char *from, const char *to)
{
    if (to - from > 256) {
        memset(from, 0, (size_t)(to - from));
        return;
    }
    for (; from != to; from += sizeof(size_t)) {
        memset(from, 0, sizeof(size_t));
#if !defined(NC_MSVC)
        __asm__("" : "+r"(from));
#endif
    }
}

/* Allocate an object and zero only its first NC_CLASS_FEW bytes. */
NC_STATIC_INLINE NcObject *nc_object_allocate(const NcClass *cls)
{
    const size_t before = cls->before;
    char *block = (char *)nc_memory_take(nc_class_bytes(cls));
    if (NC_UNLIKELY(block == NULL)) {
        return NULL;
    }
    memset(block, 0, NC_CLASS_FEW); /* may overlap the head, which is written afterwards */
    return nc_object_begin(block + before, cls, 0);
}

/* Allocate an object with zeroed fields. Return NULL if out of memory or if the class is abstract.
 * In the PyObject, only the type is set; nc_object_appear initializes the rest. */
NC_STATIC NcObject *nc_object_make(const NcClass *cls)
{
    NcObject *object = (cls->flags & NC_CLASS_ABSTRACT) == 0 ? nc_object_allocate(cls) : NULL;
    if (object != NULL && (cls->flags & NC_CLASS_LARGE) != 0) {
        char *block = (char *)object - cls->before;
        nc_words_zero(block + NC_CLASS_FEW, (char *)nc_object_head(object));
    }
    return object;
}

/* Run the `create` functions of an object's classes, from the last part to part `first`. */
NC_STATIC void nc_object_create(NcObject *object, size_t first)
{
    const NcClass *cls = nc_object_class(object);
    for (size_t i = cls->part_count; i-- > first;) {
        if (cls->parts[i].cls->create != NULL) {
            cls->parts[i].cls->create((char *)object + cls->parts[i].offset);
        }
    }
}

/* The slow path of nc_object_new, for any class. */
NC_NOINLINE NcObject *nc_object_new_apart(const NcClass *cls)
{
    NcObject *object = nc_object_make(cls);
    if (object != NULL && (cls->flags & NC_CLASS_CREATES) != 0) {
        nc_object_create(object, 0);
    }
    return object;
}

/* Create an object with one native reference, owned by the caller. Fields are zero unless a
 * `create` function sets them. Return NULL if out of memory or if the class is abstract. The class
 * must be immortal (`lasting`), as every class from nc_class_of or nc_class_define is. */
NC_STATIC_INLINE NcObject *nc_object_new(const NcClass *cls)
{
    const uint32_t more = NC_CLASS_ABSTRACT | NC_CLASS_CREATES | NC_CLASS_LARGE;
    return (cls->flags & more) == 0 ? nc_object_allocate(cls) : nc_object_new_apart(cls);
}

/* As nc_objects_new, with an initial state. */
NC_STATIC NcObject *nc_objects_make(const NcClass *cls, size_t count, uintptr_t state)
{
    const size_t stride = nc_class_stride(cls);
    if ((cls->flags & NC_CLASS_ABSTRACT) != 0 || count == 0 ||
        count > (SIZE_MAX >> NC_OBJECT_INDEX_SHIFT) / stride) {
        return NULL;
    }
    NcObjectBlock *block =
        (NcObjectBlock *)calloc(1, nc_memory_size(sizeof *block + count * stride));
    if (block == NULL) {
        return NULL;
    }
    block->living = count;
    block->bytes = sizeof *block + count * stride;
    char *memory = (char *)(block + 1);
    for (size_t i = 0; i < count; i++) {
        const uintptr_t place = NC_OBJECT_IN_BLOCK | (uintptr_t)i << NC_OBJECT_INDEX_SHIFT;
        NcObject *object = memory + cls->before + i * stride;
        nc_object_create(nc_object_begin(object, cls, state | place), 0);
    }
    return memory + cls->before;
}

/* Create `count` objects side by side, nc_class_stride(cls) bytes apart, and return the first one.
 * As with nc_object_new, the caller owns one native reference to each object. The object that is
 * destroyed last frees the memory. Return NULL if out of memory, if the class is abstract, or if
 * `count` is 0. */
NC_STATIC_INLINE NcObject *nc_objects_new(const NcClass *cls, size_t count)
{
    return nc_objects_make(cls, count, 0);
}

/* ---- casts and methods ----------------------------------------------------------------------- */

/* Return the fields defined by class `cls` in an object of `cls` or of a derived class, or NULL for
 * other objects. The pointer is valid as long as the object. */
NC_HOT_INLINE void *nc_object_cast(const NcObject *object, const NcClass *cls)
{
    const NcClass *own = nc_object_class(object);
    NC_OBJECT_CHECK_MEMORY(object, "cast");
    if (NC_LIKELY(own == cls)) {
        return (char *)(uintptr_t)object + cls->offset;
    }
    const PyCustomSlot *row = nc_class_slot(own, cls);
    return row != NULL ? (char *)(uintptr_t)object + row->data.objoffset : NULL;
}

/* The fields of a class whose bases have no fields. Their offset is constant, so access is a plain
 * load. Use the macro only for objects of that class, or of a class that derives from it through a
 * chain of first bases. */
#define NC_FIRST_FIELDS(object, type)                                                              \
    ((type *)(void *)((char *)(object) -                                                           \
                      ((NC_OBJECT_HEAD + sizeof(type) + NC_ALIGNMENT_OF(type) - 1) &               \
                       ~(NC_ALIGNMENT_OF(type) - 1))))
#if defined(__cplusplus)
#define NC_ALIGNMENT_OF(type) alignof(type)
#elif defined(NC_MSVC)
#define NC_ALIGNMENT_OF(type) __alignof(type)
#else
#define NC_ALIGNMENT_OF(type) __alignof__(type)
#endif

/* Look up a method by its key. Return the method's function, and store the value to pass as `self`
 * in *self. Return NULL if the object's class has no such method. Cast the function to the
 * signature of the key, whose first argument is self. */
NC_HOT_INLINE void *nc_object_method(NcObject *object, const char *key, void **self)
{
    const PyCustomSlot *row = nc_class_slot(nc_object_class(object), key);
    NC_OBJECT_CHECK_MEMORY(object, "method call");
    if (NC_UNLIKELY(row == NULL)) {
        return NULL;
    }
    *self = (char *)object + (int32_t)(row->flags >> 32);
    return row->data.pointer;
}

/* Like nc_object_method, but try `position` (nc_class_position) first. The position is right for
 * objects of the class that it was computed for, and of classes that derive from that class through
 * a chain of first bases. For other objects, trying the position costs only a comparison. */
NC_HOT_INLINE void *nc_object_method_at(NcObject *object, const char *key, size_t position,
                                        void **self)
{
    const PyCustomSlotTable *slots = nc_object_class(object)->slots;
    const PyCustomSlot *row = nc_slottable_rows(slots) + position;
    NC_OBJECT_CHECK_MEMORY(object, "method call");
    if (NC_UNLIKELY(position >= slots->count || row->id != (uintptr_t)key)) {
        return nc_object_method(object, key, self);
    }
    *self = (char *)object + (int32_t)(row->flags >> 32);
    return row->data.pointer;
}

/* super(): look up a method in the classes after `cls` in the MRO of the object's class. Return
 * NULL if there is no such method, or if the object is not an instance of `cls`. */
NC_STATIC void *nc_object_super(NcObject *object, const NcClass *cls, const char *key, void **self)
{
    const NcClass *own = nc_object_class(object);
    const size_t from = nc_parts_find(own->parts, own->part_count, cls);
    size_t which = 0;
    const NcMethod *method = nc_class_defined(own, from + 1, key, &which);
    NC_OBJECT_CHECK_MEMORY(object, "method call");
    if (method == NULL) {
        return NULL;
    }
    *self = (char *)object + (method->takes_fields ? own->parts[which].offset : 0);
    return method->function;
}

/* ---- references in fields -------------------------------------------------------------------- */

/* Store `object` (or NULL) in a reference field. The field takes over the caller's reference and
 * releases its previous reference. The caller synchronises, as for every field. */
NC_STATIC_INLINE void nc_reference_give(NcObject **field, NcObject *object)
{
    NcObject *old = *field;
    *field = object;
    if (old != NULL) {
        nc_object_release(old);
    }
}

/* Like nc_reference_give, but the caller keeps its reference. */
NC_STATIC_INLINE void nc_reference_set(NcObject **field, NcObject *object)
{
    if (object != NULL) {
        nc_object_retain(object);
    }
    nc_reference_give(field, object);
}

NC_C_END

#endif
