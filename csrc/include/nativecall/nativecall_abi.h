/* nativecall/nativecall_abi.h: finds the C functions that Python objects carry (docs/abi/find.md).
 * One file to copy, C99 and C++11. No runtime: nothing is found. Callers hold a reference to obj.
 *     static const char *d_d;                                          one for each signature
 *     if (!nc_abi_offers(obj)) ...                                     most objects: call Python
 *     if (d_d == NULL) d_d = nc_abi_intern("d:d");                     whenever an object comes in
 *     entry = nc_abi_find(obj, d_d, NC_FLAG_NEEDS_GIL | NC_ERRORS_MASK);
 *     if (entry != NULL) y = ((double (*)(double))(uintptr_t)NC_ABI_LOAD(&entry->funcptr))(x);
 * `refuse`: NC_FLAG_NEEDS_GIL without the GIL, NC_ERRORS_MASK unless you look for failures. */
#ifndef NATIVECALL_ABI_H
#define NATIVECALL_ABI_H
#ifndef NC_WITHOUT_PYTHON /* the core wants the structs alone */
#include <Python.h>
#endif
#include <stddef.h>
#include <stdint.h>
#if defined(_MSC_VER) && !defined(__clang__) /* on ARM with /volatile:ms */
#define NC_SHARED_VARIABLE __declspec(selectany)
#define NC_ABI_COLD static __declspec(noinline)
#define NC_ABI_LOAD(at) (*(void *const volatile *)(const void *)(at))
#else
#define NC_SHARED_VARIABLE __attribute__((weak, visibility("hidden"))) /* one in a module */
#define NC_ABI_COLD __attribute__((noinline, cold, unused)) static
#define NC_ABI_LOAD(at) __atomic_load_n((void *const *)(const void *)(at), __ATOMIC_ACQUIRE)
#endif
#define NC_ABI_VERSION 1
#define NC_FLAG_NEEDS_GIL ((uintptr_t)1 << 0)    /* the caller must hold the GIL */
#define NC_FLAG_TAKES_GIL ((uintptr_t)1 << 1)    /* the function takes it, and may wait for it */
#define NC_FLAG_RELEASE_GIL ((uintptr_t)1 << 2)  /* drop it around the call, which is long */
#define NC_FLAG_ERRNO ((uintptr_t)1 << 3)        /* set errno before the call, keep it after it */
#define NC_ERRORS_MASK ((uintptr_t)0x7 << 4)     /* how a failure shows: one of these */
#define NC_ERRORS_NONE ((uintptr_t)0 << 4)       /* it cannot, or nobody knows */
#define NC_ERRORS_PYTHON ((uintptr_t)1 << 4)     /* an exception is set; looking needs the GIL */
#define NC_ERRORS_NONZERO ((uintptr_t)2 << 4)    /* the result, an integer, is not zero */
#define NC_ERRORS_ZERO ((uintptr_t)3 << 4)       /* the result, an integer, is zero */
#define NC_ERRORS_NULL ((uintptr_t)4 << 4)       /* the result, a pointer, is NULL */
#define NC_ERRORS_ERRNO ((uintptr_t)5 << 4)      /* errno, zero before the call, is not after it */
#define NC_ERRORS_ARGUMENT ((uintptr_t)6 << 4)   /* *int, 0 before, is not; the last argument */
#define NC_FLAGS_ABI_MASK (~(uintptr_t)0xFFFF7F) /* an entry with one of these is not for us */
typedef struct {
    const char *signature; /* canonical and interned; NULL ends the table; NC_ABI_LOAD it */
    uintptr_t flags;       /* NC_FLAG_* and one of NC_ERRORS_* */
    void *funcptr;         /* never NULL in an entry in use; NC_ABI_LOAD it */
} PyNativeCallableEntry;
typedef struct {
    intptr_t count;                   /* entries in use; the next one is zero */
    PyNativeCallableEntry entries[1]; /* count + 1 or more */
} PyNativeCallableTable;
#define PYCUSTOMSLOT_NATIVECALLABLE_ID ((uintptr_t)0x04000001) /* a slot: to the call table */
#define PYCUSTOMSLOT_PACKEDCALLABLE_ID ((uintptr_t)0x04000003) /* to the packed table */
typedef struct {
    uintptr_t id;   /* the key: odd is an allocated ID, even is an address */
    uint64_t flags; /* as the slot's own definition says */
    union {
        void *pointer;      /* borrowed */
        intptr_t objoffset; /* to be added to the object's address */
        uintptr_t flags;    /* a word of flags */
    } data;
} PyCustomSlot;
typedef struct {
    uint32_t abi_version, count; /* rows; row `count` is zero */
    uint64_t multiplier;         /* odd */
    const uint16_t *cells;       /* displacements; before them, from -F on, numbers of rows */
    uint64_t f_high;             /* -F, a power of two */
    uint32_t g_shift, f_shift;   /* to the two indices in a key times the multiplier */
    uint64_t size;               /* bytes, rows and cells included */
    uint16_t expected[256];      /* the row to look at first, by a key times NC_EXPECTED */
} PyCustomSlotTable;             /* the rows follow; nc_slottable_find: that of a key, or NULL */
#define NC_EXPECTED UINT64_C(0xE220A8397B1DCDAF)
static inline PyCustomSlot *nc_slottable_find(const PyCustomSlotTable *table, uintptr_t id)
{
    PyCustomSlot *rows = (PyCustomSlot *)(uintptr_t)(table + 1);
    uint64_t row = table->expected[id * NC_EXPECTED >> 56], x = id * table->multiplier;
    if (rows[row].id != id) {
        x = (x >> table->f_shift | table->f_high) ^ table->cells[x >> table->g_shift];
        row = table->cells[(intptr_t)x];
    }
    return rows[row].id == id ? rows + row : NULL;
}
#endif
#if defined(Py_PYTHON_H) && !defined(NATIVECALL_ABI_FINDS)
#define NATIVECALL_ABI_FINDS
typedef struct {
    PyHeapTypeObject etp_heaptype;
    PyCustomSlotTable *etp_custom_slots;    /* NULL: no slots; the metaclass's once ready */
    Py_ssize_t etp_obj_custom_slots_offset; /* of each object's PyNativeCallableTable *; 0: none */
    Py_ssize_t etp_table_shift;             /* the same, counted from ob_type; 0: none */
    void *etp_private;                      /* the metaclass's own; NULL until the type is ready */
} PyHeapExtensibleTypeObject;
typedef struct { /* what modules share: the capsule sys.modules["_extensibletype"].runtime_v1 */
    uint32_t abi_version, struct_size, type_size, slot_size; /* where it was made */
    const char *provider;                                    /* who made it, for messages */
    PyTypeObject *metatype;                                  /* of types that can have slots */
    struct NcRegistry *registry;                             /* of interned strings */
    int (*intern)(struct NcRegistry *registry, const char *bytes, size_t length, const char **out);
    int (*ready)(PyHeapExtensibleTypeObject *type, Py_ssize_t slot_table_size);
} NcRuntime;
typedef struct NcNativeApi {                  /* tier 2: the capsule type(obj).__nativecall_api__ */
    size_t size;                              /* sizeof(NcNativeApi) where it was made */
    uint64_t name;                            /* NC_NATIVEAPI_NAME: "nc_api" and its version */
    int (*release)(struct NcNativeApi *self); /* may be NULL */
    const PyNativeCallableEntry *(*find)(PyObject *obj, const char *signature, uintptr_t refuse);
    const PyNativeCallableEntry *(*entry)(PyObject *obj, size_t position); /* may be NULL */
} NcNativeApi;
#define NC_NATIVEAPI_NAME UINT64_C(0x6e635f6170690001)
#define NC_ABI_SIZE(type, last) (offsetof(type, last) + sizeof(void *)) /* later ones have more */
NC_SHARED_VARIABLE const NcRuntime *nc_runtime = NULL;
NC_SHARED_VARIABLE PyTypeObject *nc_metatype = NULL;
static const PyNativeCallableTable nc_abi_nothing = {0, {{NULL, NC_FLAGS_ABI_MASK, NULL}}};
static inline const char *nc_abi_intern(const char *text) /* with the GIL; NULL: no runtime yet */
{
    const char *name = "_extensibletype.runtime_v1", *interned = NULL;
    PyObject *module = PyDict_GetItemString(PyImport_GetModuleDict(), "_extensibletype");
    PyObject *capsule = module != NULL ? PyObject_GetAttrString(module, "runtime_v1") : NULL;
    const NcRuntime *found = (const NcRuntime *)PyCapsule_GetPointer(capsule, name);
    Py_DecRef(capsule);
    PyErr_Clear();
    if (found && found->struct_size >= NC_ABI_SIZE(NcRuntime, ready) && found->metatype &&
        found->abi_version == NC_ABI_VERSION && found->provider && found->ready && found->intern &&
        found->type_size >= NC_ABI_SIZE(PyHeapExtensibleTypeObject, etp_private) &&
        found->slot_size == sizeof(PyCustomSlot) && found->registry &&
        found->intern(found->registry, text, strlen(text), &interned) == 0) {
        nc_metatype = found->metatype;
        nc_runtime = found;
    }
    return interned;
}
static inline PyObject *nc_abi_behind(PyObject *obj) /* what it is a built-in view of, else obj */
{
    PyCFunctionObject *function = (PyCFunctionObject *)(void *)obj;
    PyObject *self = PyCFunction_CheckExact(obj) ? function->m_self : NULL;
    size_t within = self != NULL ? (uintptr_t)function->m_ml - (uintptr_t)self : 0;
    return self && within < (size_t)Py_TYPE(self)->tp_basicsize ? self : obj;
}
/* What a slot leads to in the object, or in what it is a built-in view of; else an empty table. */
static inline const void *nc_abi_table(PyObject *given, uintptr_t id)
{
    PyObject *obj = nc_abi_behind(given);
    PyTypeObject *base = Py_TYPE(obj), *first = Py_TYPE((PyObject *)base), *meta = first;
    PyHeapExtensibleTypeObject *type = (PyHeapExtensibleTypeObject *)(void *)base;
    for (; meta != NULL && meta != nc_metatype; meta = meta->tp_base) {
    }
    for (int calls = meta != first && (id | 2) == PYCUSTOMSLOT_PACKEDCALLABLE_ID;
         calls && base && !(base->tp_flags & Py_TPFLAGS_IMMUTABLETYPE); base = base->tp_base) {
    } /* derived metatypes let Python call something else than call tables have */
    if (meta == NULL || base == NULL || base->tp_call != Py_TYPE(obj)->tp_call) {
        return &nc_abi_nothing;
    }
    intptr_t offset = (intptr_t)NC_ABI_LOAD(&type->etp_obj_custom_slots_offset);
    if (id != PYCUSTOMSLOT_NATIVECALLABLE_ID || offset == 0) {
        void *slots = NC_ABI_LOAD(&type->etp_custom_slots);
        PyCustomSlot *slot = slots ? nc_slottable_find((PyCustomSlotTable *)slots, id) : NULL;
        offset = slot != NULL ? slot->data.objoffset : 0;
    }
    return offset != 0 ? NC_ABI_LOAD((const char *)obj + offset) : &nc_abi_nothing;
}
#define NC_ABI_ENTRIES(obj) /* all of them, while NC_ABI_LOAD(&entry->signature) != NULL */        \
    (((const PyNativeCallableTable *)nc_abi_table(obj, PYCUSTOMSLOT_NATIVECALLABLE_ID))->entries)
/* The entry of a signature from nc_abi_intern, with none of the flags in `refuse`; or NULL. */
static inline const PyNativeCallableEntry *nc_abi_find(PyObject *obj, const char *signature,
                                                       uintptr_t refuse)
{
    const PyNativeCallableEntry *entry = NC_ABI_ENTRIES(obj);
    const void *found;
    while ((found = NC_ABI_LOAD(&entry->signature)) != NULL &&
           (found != signature || (entry->flags & (refuse | NC_FLAGS_ABI_MASK)) != 0)) {
        entry++;
    }
    return found != NULL ? entry : NULL;
}
static NcNativeApi nc_abi_wrong; /* what a provider's mistake counts as: nothing is in it */
static struct {
    unsigned tag; /* a type's version, no other's: a change makes it 0, and then another one */
    const NcNativeApi *api;
} nc_abi_kept[64]; /* by tag; of no type on free-threaded builds, which look every time */
NC_ABI_COLD const NcNativeApi *nc_abi_look(PyTypeObject *type)
{
    PyObject *mro = type->tp_mro, *found = NULL, *dict;
    const NcNativeApi *api;
    int has = 0;
    Py_DecRef(dict = PyUnicode_InternFromString("__call__")); /* a look for a name assigns a tag */
    (void)(dict != NULL && _PyType_Lookup(type, dict));
    unsigned tag = type->tp_version_tag;
    for (Py_ssize_t i = 0; mro != NULL && found == NULL && i < PyTuple_Size(mro); i++) {
        dict = ((PyTypeObject *)(void *)PyTuple_GetItem(mro, i))->tp_dict;
#if PY_VERSION_HEX >= 0x030C0000 /* NULL in static types of CPython's; the type keeps the other */
        Py_DecRef(dict = PyType_GetDict((PyTypeObject *)(void *)PyTuple_GetItem(mro, i)));
#endif
        found = dict != NULL ? PyDict_GetItemString(dict, "__nativecall_api__") : NULL;
        has = found != NULL && found != Py_None;
        found = found == NULL && dict != NULL ? PyDict_GetItemString(dict, "__call__") : found;
    }
    api = has ? (const NcNativeApi *)PyCapsule_GetPointer(found, "nativecall_api_v1") : NULL;
    PyErr_Clear();
    if (has && (!api || api->size < NC_ABI_SIZE(NcNativeApi, entry) ||
                api->name != NC_NATIVEAPI_NAME || !api->find)) {
        api = &nc_abi_wrong;
    }
#ifndef Py_GIL_DISABLED
    nc_abi_kept[tag % 64].tag = tag;
    nc_abi_kept[tag % 64].api = api;
#endif
    return api;
}
/* What a type has in tier 2, or NULL, with the GIL. */
static inline const NcNativeApi *nc_abi_api(PyTypeObject *type)
{
    unsigned tag = type->tp_version_tag, at = tag % 64;
    return tag && nc_abi_kept[at].tag == tag ? nc_abi_kept[at].api : nc_abi_look(type);
}
/* Whether an object can have entries. Most have none, which costs two nanoseconds. With the GIL. */
static inline int nc_abi_offers(PyObject *given)
{
    PyTypeObject *type = Py_TYPE(nc_abi_behind(given));
    return Py_TYPE((PyObject *)type) != &PyType_Type || nc_abi_api(type) != NULL;
}
/* Tier 2, by a canonical text: an entry, or NULL, perhaps with an exception. With the GIL. */
static inline const PyNativeCallableEntry *nc_abi_ask(PyObject *given, const char *text,
                                                      uintptr_t refuse)
{
    PyObject *obj = nc_abi_behind(given);
    const NcNativeApi *api = nc_abi_api(Py_TYPE(obj));
    const PyNativeCallableEntry *entry = api && api->find ? api->find(obj, text, refuse) : NULL;
    if (entry != NULL) {
        PyErr_Clear(); /* an exception beside an entry says nothing */
    }
    int fits = entry && entry->signature && entry->funcptr && !strcmp(entry->signature, text);
    return fits && (entry->flags & (refuse | NC_FLAGS_ABI_MASK)) == 0 ? entry : NULL;
}
#endif
