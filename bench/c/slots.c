/* bench/c/slots.c: what it costs C code to find a slot of an object's type, beside the table that
 * SEP 200 describes.
 *
 * The peers' types are made here: their metaclass has room for a table behind the type (embedded) and
 * for a pointer to it. What SEP 200 compares is measured: how a reader knows that the type has a
 * table at all (a flag, the metaclass, the metaclass or one derived from it), and whether the table
 * is reached through a pointer. The floor reads a pointer in the type and a word behind it, and
 * checks nothing. Two loops run each way:
 *
 *     <way>_sum     the slot's offset leads to the next object: each find waits for the one before
 *     <way>_each    drops the slot: finds overlap as far as the processor can
 *
 * Object and key are of unknown value in each iteration. The slot's offset is 0.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "nativecall/customslots.h"

#include "original.h"

#include <time.h>

#define INLINE static inline __attribute__((always_inline))
#define NOINLINE __attribute__((noinline))
#define CHANGED(variable) __asm__ volatile("" : "+r"(variable) : : "memory")
#define USED(value) __asm__ volatile("" : : "g"(value) : "memory")

#define EXTENSIBLE_FLAG (1UL << 22) /* SEP 200's; CPython has it for something else by now */

typedef struct {
    PyHeapTypeObject heap;
    OriginalTable *table;
    OriginalTable embedded;
} OriginalType;

static PyTypeObject original_metatype = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "bench_slots.originaltype",
    .tp_basicsize = sizeof(OriginalType),
    .tp_flags = Py_TPFLAGS_DEFAULT,
};

/* The subjects of the loops, set by prepare(). */
static PyObject *original_object;
static PyObject *native_object;
static uint64_t original_key;
static uintptr_t native_key;
static Py_ssize_t native_position;

INLINE OriginalType *original_type(PyObject *object)
{
    return (OriginalType *)(void *)Py_TYPE(object);
}

INLINE const PyCustomSlot *find_plain(PyObject *object)
{
    return original_type(object)->table->slots;
}

INLINE const PyCustomSlot *find_flag(PyObject *object)
{
    if (NC_UNLIKELY((Py_TYPE(object)->tp_flags & EXTENSIBLE_FLAG) == 0))
        return NULL;
    return original_find(original_type(object)->table, original_key);
}

INLINE const PyCustomSlot *find_metaclass(PyObject *object)
{
    if (NC_UNLIKELY(Py_TYPE((PyObject *)Py_TYPE(object)) != &original_metatype))
        return NULL;
    return original_find(original_type(object)->table, original_key);
}

INLINE const PyCustomSlot *find_tolerant(PyObject *object)
{
    if (!nc_type_has_metatype(Py_TYPE(object), &original_metatype))
        return NULL;
    return original_find(original_type(object)->table, original_key);
}

INLINE const PyCustomSlot *find_embedded(PyObject *object)
{
    if (NC_UNLIKELY(Py_TYPE((PyObject *)Py_TYPE(object)) != &original_metatype))
        return NULL;
    return original_find(&original_type(object)->embedded, original_key);
}

INLINE const PyCustomSlot *find_native(PyObject *object)
{
    return PyCustomSlots_Find(object, native_key, 0);
}

INLINE const PyCustomSlot *find_expected(PyObject *object)
{
    return PyCustomSlots_Find(object, native_key, native_position);
}

#define LOOPS(way, subject)                                                                        \
    NOINLINE static PyObject *way##_sum(size_t count)                                              \
    {                                                                                              \
        PyObject *object = subject;                                                                \
        for (size_t i = 0; i < count && object != NULL; i++) {                                     \
            const PyCustomSlot *slot;                                                              \
            CHANGED(object);                                                                       \
            slot = find_##way(object);                                                             \
            if (NC_UNLIKELY(slot == NULL))                                                         \
                return NULL;                                                                       \
            object = (PyObject *)(void *)((char *)object + slot->data.objoffset);                  \
        }                                                                                          \
        return object;                                                                             \
    }                                                                                              \
    NOINLINE static PyObject *way##_each(size_t count)                                             \
    {                                                                                              \
        PyObject *object = subject;                                                                \
        for (size_t i = 0; i < count; i++) {                                                       \
            const PyCustomSlot *slot;                                                              \
            CHANGED(object);                                                                       \
            slot = find_##way(object);                                                             \
            if (NC_UNLIKELY(slot == NULL))                                                         \
                return NULL;                                                                       \
            USED(slot->data.objoffset);                                                            \
        }                                                                                          \
        return object;                                                                             \
    }

LOOPS(plain, original_object)
LOOPS(flag, original_object)
LOOPS(metaclass, original_object)
LOOPS(tolerant, original_object)
LOOPS(embedded, original_object)
LOOPS(native, native_object)
LOOPS(expected, native_object)

typedef struct {
    const char *name;
    PyObject *(*sum)(size_t);
    PyObject *(*each)(size_t);
} Way;

#define WAY(way) {#way, way##_sum, way##_each}
static const Way ways[] = {
    WAY(plain), WAY(flag), WAY(metaclass), WAY(tolerant), WAY(embedded), WAY(native), WAY(expected),
};

static double now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

/* An object whose type has a table of so many random pre-hashes, one of which becomes the key. */
static PyObject *make_original(size_t count)
{
    PyObject *kind = PyObject_CallFunction((PyObject *)&original_metatype, "s(){}", "Original");
    OriginalType *type = (OriginalType *)(void *)kind;
    PyCustomSlot slots[MOST];
    PyObject *object;
    if (kind == NULL)
        return NULL;
    memset(slots, 0, sizeof slots);
    do { /* the algorithm may find no table */
        for (size_t i = 0; i < count; i++)
            slots[i].id = (uintptr_t)random64();
        type->table = original_build(slots, count);
    } while (type->table == NULL);
    type->embedded = *type->table;
    original_key = slots[count / 2].id;
    type->heap.ht_type.tp_flags |= EXTENSIBLE_FLAG;
    object = PyObject_CallNoArgs(kind);
    Py_DECREF(kind);
    return object;
}

/* prepare(count, object, key, position): object's type has that key, its data 0, in row `position`
 * of `count`. */
static PyObject *prepare(PyObject *module, PyObject *args)
{
    PyObject *object;
    unsigned long long key;
    Py_ssize_t count;
    (void)module;
    if (!PyArg_ParseTuple(args, "nOKn", &count, &object, &key, &native_position))
        return NULL;
    if (count < 1 || count > MOST || (count & (count - 1)) != 0) {
        PyErr_Format(PyExc_ValueError, "'count' is %zd, no power of two up to %d", count, MOST);
        return NULL;
    }
    if (!PyCustomSlots_Import())
        return PyErr_Format(PyExc_ImportError, "nativecall has no runtime");
    native_key = (uintptr_t)key;
    Py_INCREF(object);
    Py_XSETREF(native_object, object);
    Py_XSETREF(original_object, make_original((size_t)count));
    if (original_object == NULL)
        return NULL;
    Py_RETURN_NONE;
}

/* sample(name, loop, count): mean ns of one find in the loop "sum" or "each". */
static PyObject *sample(PyObject *module, PyObject *args)
{
    const char *name, *loop;
    Py_ssize_t count;
    (void)module;
    if (!PyArg_ParseTuple(args, "ssn", &name, &loop, &count))
        return NULL;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        double start, elapsed;
        PyObject *last;
        if (strcmp(ways[i].name, name) != 0)
            continue;
        start = now_ns();
        last = (strcmp(loop, "sum") == 0 ? ways[i].sum : ways[i].each)((size_t)count);
        elapsed = now_ns() - start;
        if (last != original_object && last != native_object)
            return PyErr_Format(PyExc_ValueError, "'%s' did not find the slot", name);
        return PyFloat_FromDouble(elapsed / (double)count);
    }
    return PyErr_Format(PyExc_KeyError, "no way of finding named '%s'", name);
}

static PyMethodDef functions[] = {
    {"prepare", prepare, METH_VARARGS, NULL},
    {"sample", sample, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "bench_slots", .m_size = -1,
                             .m_methods = functions};

PyMODINIT_FUNC PyInit_bench_slots(void)
{
    original_metatype.tp_base = &PyType_Type;
    return PyType_Ready(&original_metatype) < 0 ? NULL : PyModule_Create(&module);
}
