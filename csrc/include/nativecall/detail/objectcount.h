/* nativecall/detail/objectcount.h: native objects without Python: made, counted, cast, asked for
 * methods, ended. The argument why this is safe is on top of nativeobject.h.
 *
 * Threads:    all of it from any thread, without the GIL, by who holds a native reference to the
 *             object (nc_object_new: by who keeps the class alive). Fields are the users' to order.
 * Errors:     NULL for want of memory, and of objects of an abstract class; nothing else fails.
 * Checked:    with NC_OBJECT_CHECKED defined before the include, a count that is used after its
 *             object has ended stops the process with the class's name, and ended objects are kept
 *             back for a while so that it is seen. */
#ifndef NATIVECALL_OBJECTCOUNT_H
#define NATIVECALL_OBJECTCOUNT_H

#include <stdio.h>

#include "objectclass.h"
#include "objectmemory.h"

NC_C_BEGIN

/* A native object; its address is that of its PyObject. */
typedef void NcObject;

enum {
    NC_OBJECT_ALIVE = 1,      /* Python has references; one native reference is theirs */
    NC_OBJECT_ENDING = 2,     /* Python's last reference is gone, what it had is being taken down */
    NC_OBJECT_AGAIN = 4,      /* and meanwhile it was cast to Python again */
    NC_OBJECT_ENDED = 8,      /* it is taken down */
    NC_OBJECT_HOLDS = 16,     /* owns a reference to its type, which takes the GIL to give back */
    NC_OBJECT_IN_BLOCK = 32,  /* made by nc_objects_new; never changes, nor what is above */
    NC_OBJECT_INDEX_SHIFT = 8 /* from there on: which one of its block it is */
};
#define NC_OBJECT_PLACE (~(uintptr_t)(NC_OBJECT_IN_BLOCK - 1)) /* what of a state never changes */

NC_STATIC_INLINE NcObjectHead *nc_object_head(const NcObject *object)
{
    return (NcObjectHead *)((uintptr_t)object - NC_OBJECT_HEAD);
}

/* The class that an object was made with. */
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
/* Both what this thread wrote before and what others did is done before the object ends. One
 * operation, not a fence: ThreadSanitizer does not know fences. */
#define NC_COUNT_DOWN(at) __atomic_fetch_sub((at), 1, __ATOMIC_ACQ_REL)
#define NC_SWAP_PTR(at, value) __atomic_exchange_n((at), (value), __ATOMIC_ACQ_REL)
#endif

#if defined(NC_OBJECT_CHECKED)
#define NC_OBJECT_GONE ((size_t)-1 / 2)
NC_COLD void nc_object_misused(const NcObject *object, const char *what)
{
    /* A thread without the GIL has no exception to set. */
    (void)fprintf(stderr, "nativecall: %s of the '%s' object at %p, which has ended\n", what,
                  nc_object_class(object)->name, (void *)(uintptr_t)object);
    abort();
}
#define NC_OBJECT_CHECK(object, what)                                                              \
    ((nc_load_relaxed_size(&nc_object_head(object)->count) - 1 >= NC_OBJECT_GONE - 1)              \
         ? nc_object_misused((object), (what))                                                     \
         : (void)0)
/* The same of what needs no count, which `destroy` may do with its own object. */
#define NC_OBJECT_CHECK_MEMORY(object, what)                                                       \
    ((nc_load_relaxed_size(&nc_object_head(object)->count) == NC_OBJECT_GONE)                      \
         ? nc_object_misused((object), (what))                                                     \
         : (void)0)
#else
#define NC_OBJECT_CHECK(object, what) ((void)0)
#define NC_OBJECT_CHECK_MEMORY(object, what) ((void)0)
#endif

/* `count` native references more, by one operation: for whoever gives one to each of many. */
NC_STATIC_INLINE void nc_object_retain_many(NcObject *object, size_t count)
{
    NC_OBJECT_CHECK(object, "retain");
    NC_COUNT_UP(&nc_object_head(object)->count, count);
}

/* One native reference more. */
NC_STATIC_INLINE void nc_object_retain(NcObject *object)
{
    nc_object_retain_many(object, 1);
}

/* ---- the end --------------------------------------------------------------------------------- */

/* The objects whose end waits for another's to be over, in this thread. Ends would nest as deep as
 * a chain of references is long. */
typedef struct {
    int running;
    NcObject *first; /* a list through their counts */
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

/* Objects that were made together lie behind this, each counted and ended by itself. */
typedef struct {
    size_t living; /* atomic: the memory goes with the last of them */
    size_t bytes;  /* of all; with `living` as many as objects are aligned by */
} NcObjectBlock;

/* Bytes of an object that was not made in a block. */
NC_STATIC_INLINE size_t nc_class_bytes(const NcClass *cls)
{
    return cls->before + cls->after;
}

/* From one object of a block to the next, in bytes. */
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

/* ---- ending ---------------------------------------------------------------------------------- */

NC_STATIC void nc_object_end(NcObject *object);

NC_STATIC_INLINE void nc_object_release(NcObject *object);

/* What the classes of an object do at its end, from part `first` to the last: the most derived
 * first. */
NC_STATIC void nc_object_destroy(NcObject *object, size_t first)
{
    const NcClass *cls = nc_object_class(object);
    size_t i, n;
    for (i = first; i < cls->part_count; i++) {
        const NcClass *part = cls->parts[i].cls;
        char *fields = (char *)object + cls->parts[i].offset;
        if (part->destroy != NULL) {
            part->destroy(fields);
        }
        for (n = 0; n < part->field_count; n++) {
            if (part->fields[n].type == NULL) {
                NcObject *other = *(NcObject **)(void *)(fields + part->fields[n].offset);
                if (other != NULL) {
                    nc_object_release(other);
                }
            }
        }
    }
}

/* The memory of an object of a block, or of one whose type takes the GIL to give back: that one
 * waits for who has it. */
NC_NOINLINE void nc_object_dispose_apart(NcObject *object)
{
    void **waiting;
    void *first = NULL;
    if ((nc_object_head(object)->state & NC_OBJECT_HOLDS) == 0) {
        nc_object_free(object);
        return;
    }
    waiting = nc_object_class(object)->waiting;
    do {
        first = nc_load_relaxed_ptr(waiting);
        nc_object_set_next(object, first);
    } while (!nc_exchange_ptr(waiting, first, object));
}

/* Gives the memory back, as soon as that can be. */
NC_STATIC_INLINE void nc_object_dispose(NcObject *object)
{
    const uintptr_t apart = NC_OBJECT_HOLDS | NC_OBJECT_IN_BLOCK;
    if (NC_UNLIKELY((nc_object_head(object)->state & apart) != 0)) {
        nc_object_dispose_apart(object);
        return;
    }
    nc_object_give_back(object);
}

/* The end of an object that has more than memory, and of those that end with it, in turn. */
NC_NOINLINE void nc_object_end_in_turn(NcObject *object)
{
    NcEnding *ending = &nc_ending; /* a call, in shared libraries */
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

/* The last reference is gone. One of two ends, so that neither saves registers for the other. */
NC_NOINLINE void nc_object_end(NcObject *object)
{
    if (NC_LIKELY((nc_object_class(object)->flags & NC_CLASS_PLAIN) != 0)) {
        nc_object_dispose(object);
    } else {
        nc_object_end_in_turn(object);
    }
}

/* One native reference less: 1 if it was the last. */
NC_STATIC_INLINE int nc_object_count_down(NcObject *object)
{
    size_t *count = &nc_object_head(object)->count;
    NC_OBJECT_CHECK(object, "release");
    /* Who holds the only reference is alone: nobody else can retain or release. */
    return nc_load_acquire_size(count) == 1 || NC_COUNT_DOWN(count) == 1;
}

/* One native reference less; with the last one the object ends: destructors run, references of its
 * fields are released, the memory is freed. NULL is no reference, and not allowed. */
NC_STATIC_INLINE void nc_object_release(NcObject *object)
{
    if (nc_object_count_down(object)) {
        nc_object_end(object);
    }
}

/* ---- making ---------------------------------------------------------------------------------- */

/* Makes an object where its fields are zero already. */
NC_STATIC_INLINE NcObject *nc_object_begin(NcObject *object, const NcClass *cls, uintptr_t state)
{
    NcObjectHead *head = nc_object_head(object);
    head->count = 1;
    head->cls = cls;
    head->state = state;
    memcpy((char *)object + cls->type_at, &cls->type, sizeof cls->type);
    return object;
}

/* Zeroes whole words. A call of memset, which compilers make of a loop, takes longer for a few. */
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

/* An object of memory whose first NC_CLASS_FEW bytes are zero here, and no more. */
NC_STATIC_INLINE NcObject *nc_object_allocate(const NcClass *cls)
{
    const size_t before = cls->before;
    char *block = (char *)nc_memory_take(nc_class_bytes(cls));
    if (NC_UNLIKELY(block == NULL)) {
        return NULL;
    }
    memset(block, 0,
           NC_CLASS_FEW); /* perhaps words of the head too, which are written after that */
    return nc_object_begin(block + before, cls, 0);
}

/* An object whose fields are zero, that nobody has seen; NULL: no memory, or the class is abstract.
 * What is CPython's is not set, but for the type: nc_object_appear does the rest. */
NC_STATIC NcObject *nc_object_make(const NcClass *cls)
{
    NcObject *object = (cls->flags & NC_CLASS_ABSTRACT) == 0 ? nc_object_allocate(cls) : NULL;
    if (object != NULL && (cls->flags & NC_CLASS_LARGE) != 0) {
        char *block = (char *)object - cls->before;
        nc_words_zero(block + NC_CLASS_FEW, (char *)nc_object_head(object));
    }
    return object;
}

/* What the classes of an object do at its beginning, from the last part to part `first`. */
NC_STATIC void nc_object_create(NcObject *object, size_t first)
{
    const NcClass *cls = nc_object_class(object);
    size_t i;
    for (i = cls->part_count; i-- > first;) {
        if (cls->parts[i].cls->create != NULL) {
            cls->parts[i].cls->create((char *)object + cls->parts[i].offset);
        }
    }
}

/* nc_object_new, of any class. */
NC_NOINLINE NcObject *nc_object_new_apart(const NcClass *cls)
{
    NcObject *object = nc_object_make(cls);
    if (object != NULL && (cls->flags & NC_CLASS_CREATES) != 0) {
        nc_object_create(object, 0);
    }
    return object;
}

/* A new object, zero in all fields but for what `create` of its classes says, with one native
 * reference, which is the caller's. NULL: no memory, or the class is abstract. The class must last
 * (`lasting`: every class that C code has by nc_class_of or nc_class_define). */
NC_STATIC_INLINE NcObject *nc_object_new(const NcClass *cls)
{
    const uint32_t more = NC_CLASS_ABSTRACT | NC_CLASS_CREATES | NC_CLASS_LARGE;
    return (cls->flags & more) == 0 ? nc_object_allocate(cls) : nc_object_new_apart(cls);
}

/* As nc_objects_new; `state` is what each object begins with. */
NC_STATIC NcObject *nc_objects_make(const NcClass *cls, size_t count, uintptr_t state)
{
    const size_t stride = nc_class_stride(cls);
    NcObjectBlock *block;
    char *memory;
    size_t i;
    if ((cls->flags & NC_CLASS_ABSTRACT) != 0 || count == 0 ||
        count > (SIZE_MAX >> NC_OBJECT_INDEX_SHIFT) / stride) {
        return NULL;
    }
    block = (NcObjectBlock *)calloc(1, nc_memory_size(sizeof *block + count * stride));
    if (block == NULL) {
        return NULL;
    }
    block->living = count;
    block->bytes = sizeof *block + count * stride;
    memory = (char *)(block + 1);
    for (i = 0; i < count; i++) {
        const uintptr_t place = NC_OBJECT_IN_BLOCK | (uintptr_t)i << NC_OBJECT_INDEX_SHIFT;
        NcObject *object = memory + cls->before + i * stride;
        nc_object_create(nc_object_begin(object, cls, state | place), 0);
    }
    return memory + cls->before;
}

/* `count` new objects side by side, nc_class_stride(cls) bytes apart: the first one. Each is as
 * nc_object_new makes it, with one native reference of the caller's, and lives as long as it is
 * counted; the memory of all goes with the last. NULL: no memory, an abstract class, or none. */
NC_STATIC_INLINE NcObject *nc_objects_new(const NcClass *cls, size_t count)
{
    return nc_objects_make(cls, count, 0);
}

/* ---- casts and methods ----------------------------------------------------------------------- */

/* The fields that class `cls` defines, in an object of it or of a class that derives from it; NULL
 * for another object. The pointer is good as long as the object. */
NC_HOT_INLINE void *nc_object_cast(const NcObject *object, const NcClass *cls)
{
    const NcClass *own = nc_object_class(object);
    const PyCustomSlot *row;
    NC_OBJECT_CHECK_MEMORY(object, "cast");
    if (NC_LIKELY(own == cls)) {
        return (char *)(uintptr_t)object + cls->offset;
    }
    row = nc_class_slot(own, cls);
    return row != NULL ? (char *)(uintptr_t)object + row->data.objoffset : NULL;
}

/* Where the fields of a class lie that has no base but nc_no_fields ones, or one of whose bases is
 * first everywhere: a constant, so that access is a plain load. True for a class without bases in
 * every object of it that has it along first bases alone. */
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

/* The function of a method by its key, and what to pass it as `self`; NULL where the object's class
 * has no such method. Cast it to the signature of the key, whose first argument is self. */
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

/* The same, but looks at a position first (nc_class_position), which is right for objects of that
 * class and of those that derive from it along first bases, and only costs the look for others. */
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

/* super(): the same of the first class behind `cls` in the order of the object's class that defines
 * the method. NULL: none does, or the object is none of `cls`. */
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

/* Puts `object`, or NULL, into a field that is a counted reference: the caller's reference becomes
 * the field's, one less is to what was there. Ordered by the caller, as every field is. */
NC_STATIC_INLINE void nc_reference_give(NcObject **field, NcObject *object)
{
    NcObject *old = *field;
    *field = object;
    if (old != NULL) {
        nc_object_release(old);
    }
}

/* The same, but the field's reference is one more. */
NC_STATIC_INLINE void nc_reference_set(NcObject **field, NcObject *object)
{
    if (object != NULL) {
        nc_object_retain(object);
    }
    nc_reference_give(field, object);
}

NC_C_END

#endif
