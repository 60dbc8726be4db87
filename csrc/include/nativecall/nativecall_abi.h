/* nativecall/nativecall_abi.h: ABI version 1, revision 1. SPDX-License-Identifier: BSD-3-Clause
 * Finds C functions in Python callables (docs/abi/find.md). Copy it. C99, C++11. Keep obj alive.
 *     if (!nc_abi_offers(obj)) ...                                     common case: call Python
 *     static const char *d_d; if (!d_d) d_d = nc_abi_intern("d:d");    retry until it succeeds
 *     entry = nc_abi_find(obj, d_d, NC_FLAG_NEEDS_GIL | NC_ERRORS_MASK);
 *     if (entry != NULL) y = ((double (*)(double))(uintptr_t)NC_ABI_LOAD(&entry->funcptr))(x);
 *     if (PyErr_Occurred()) return NULL;           after the calls, GIL held: any entry may raise
 * `refuse`: NC_FLAG_NEEDS_GIL unless you hold the GIL, NC_ERRORS_MASK unless you check failures. */
#ifndef NATIVECALL_ABI_H
#define NATIVECALL_ABI_H
#ifndef NC_WITHOUT_PYTHON /* the core uses only the structs */
#include <Python.h>
#endif
#include <stddef.h>
#include <stdint.h>
#if defined(_WIN32) || defined(__CYGWIN__) /* one per module */
#define NC_SHARED_VARIABLE __declspec(selectany)
#else
#define NC_SHARED_VARIABLE __attribute__((weak, visibility("hidden")))
#endif
#if defined(_MSC_VER) && !defined(__clang__) /* on ARM, compile with /volatile:ms */
#define __atomic_load_n(at, order) (*(at))
#define __atomic_store_n(at, value, order) (*(at) = (value))
#define __thread __declspec(thread)
#endif
#define NC_ABI_LOAD(at) __atomic_load_n((void *volatile *)(uintptr_t)(at), __ATOMIC_ACQUIRE)
#define NC_ABI_VERSION 1
#define NC_FLAG_NEEDS_GIL ((uintptr_t)1 << 0)    /* the caller must hold the GIL */
#define NC_FLAG_TAKES_GIL ((uintptr_t)1 << 1)    /* the function acquires the GIL and may block */
#define NC_FLAG_RELEASE_GIL ((uintptr_t)1 << 2)  /* slow: release the GIL around the call */
#define NC_FLAG_ERRNO ((uintptr_t)1 << 3)        /* set errno before the call, save it after */
#define NC_ERRORS_MASK ((uintptr_t)0x7 << 4)     /* how a failure is reported: a value below */
#define NC_ERRORS_NONE ((uintptr_t)0 << 4)       /* the function cannot fail, or this is unknown */
#define NC_ERRORS_PYTHON ((uintptr_t)1 << 4)     /* an exception is set; check with the GIL held */
#define NC_ERRORS_NONZERO ((uintptr_t)2 << 4)    /* the integer result is nonzero */
#define NC_ERRORS_ZERO ((uintptr_t)3 << 4)       /* the integer result is zero */
#define NC_ERRORS_NULL ((uintptr_t)4 << 4)       /* the pointer result is NULL */
#define NC_ERRORS_ERRNO ((uintptr_t)5 << 4)      /* set errno to 0 before; failed if not 0 after */
#define NC_ERRORS_ARGUMENT ((uintptr_t)6 << 4)   /* as ERRNO, with the int * passed last */
#define NC_FLAGS_ABI_MASK (~(uintptr_t)0xFFFF7F) /* skip entries with any of these bits */
typedef struct {
    const char *signature; /* canonical, interned; NULL ends the table; use NC_ABI_LOAD */
    uintptr_t flags;       /* NC_FLAG_* and one of NC_ERRORS_* */
    void *funcptr;         /* never NULL in an entry in use; use NC_ABI_LOAD */
} PyNativeCallableEntry;
typedef struct {
    intptr_t count;                   /* entries in use; a zeroed one follows */
    PyNativeCallableEntry entries[1]; /* count + 1 or more */
} PyNativeCallableTable;
#define PYCUSTOMSLOT_NATIVECALLABLE_ID ((uintptr_t)0x04000001) /* slot of the call table */
#define PYCUSTOMSLOT_PACKEDCALLABLE_ID ((uintptr_t)0x04000003) /* slot of the packed table */
typedef struct {
    uintptr_t id;   /* key: an allocated ID (odd) or an address (even) */
    uint64_t flags; /* meaning defined by the slot */
    union {
        void *pointer;      /* borrowed */
        intptr_t objoffset; /* add to the object's address */
        uintptr_t flags;    /* a word of flags */
    } data;
} PyCustomSlot;
typedef struct {
    uint32_t abi_version, count; /* rows; row `count` is zero */
    uint64_t multiplier;         /* odd */
    const uint16_t *cells;       /* displacements; row numbers precede them, from index -F */
    uint64_t f_high;             /* -F; F is a power of two */
    uint32_t g_shift, f_shift;   /* extract two indices from key * multiplier */
    uint64_t size;               /* bytes, rows and cells included */
    uint16_t expected[256];      /* row to try first, indexed by key * NC_EXPECTED */
} PyCustomSlotTable;             /* rows follow; nc_slottable_find returns a key's row or NULL */
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
#ifdef Py_GIL_DISABLED
#define NC_ABI_CACHE static __thread /* each thread has its own */
#else
#define NC_ABI_CACHE static
#endif
#ifdef Py_LIMITED_API
#include "nativecall_abi3.h" /* copy it, too: the same without the layout of Python's structs */
typedef struct {             /* the fields behind type.__basicsize__ bytes */
#else
#define NC_ABI_OFFSET(field) offsetof(PyHeapExtensibleTypeObject, field)
#define NC_ABI_SLOT(type, name) ((type)->tp_##name)
#define NC_ABI_TAG(type) __atomic_load_n(&(type)->tp_version_tag, __ATOMIC_ACQUIRE)
#define NC_ABI_MRO(type, name) (_PyType_Lookup(type, name) ? Py_XNewRef((type)->tp_mro) : NULL)
#if PY_VERSION_HEX >= 0x030C0000 /* tp_dict is NULL in CPython's own static types */
#define NC_ABI_DICT(cls) PyType_GetDict((PyTypeObject *)(void *)(cls))
#else
#define NC_ABI_DICT(cls) Py_XNewRef(((PyTypeObject *)(void *)(cls))->tp_dict)
#endif
static inline PyObject *nc_abi_behind(PyObject *obj) /* callable of a built-in view, else obj */
{
    PyCFunctionObject *function = (PyCFunctionObject *)(void *)obj;
    PyObject *self = PyCFunction_CheckExact(obj) ? function->m_self : NULL;
    size_t within = self != NULL ? (uintptr_t)function->m_ml - (uintptr_t)self : 0;
    return self && within < (size_t)Py_TYPE(self)->tp_basicsize ? self : obj;
}
typedef struct {
    PyHeapTypeObject etp_heaptype;
#endif
    PyCustomSlotTable *etp_custom_slots;    /* NULL: no slots; once ready, the metaclass owns it */
    Py_ssize_t etp_obj_custom_slots_offset; /* of an object's PyNativeCallableTable *, or 0 */
    Py_ssize_t etp_table_shift;             /* the same, relative to ob_type, or 0 */
    void *etp_private;                      /* metaclass data; NULL until the type is ready */
} PyHeapExtensibleTypeObject;
typedef struct { /* shared by all modules: the capsule sys.modules["_extensibletype"].runtime_v1 */
    uint32_t abi_version, struct_size, type_size, slot_size; /* of the publisher's build */
    const char *provider;                                    /* publisher's name, for messages */
    PyTypeObject *metatype;                                  /* metaclass of types with slots */
    struct NcRegistry *registry;                             /* of interned strings */
    int (*intern)(struct NcRegistry *registry, const char *bytes, size_t length, const char **out);
    int (*ready)(PyHeapExtensibleTypeObject *type, Py_ssize_t slot_table_size);
} NcRuntime;
typedef struct NcNativeApi {                  /* tier 2: the capsule type(obj).__nativecall_api__ */
    size_t size;                              /* sizeof(NcNativeApi) in the provider */
    uint64_t name;                            /* NC_NATIVEAPI_NAME: "nc_api" and its version */
    int (*release)(struct NcNativeApi *self); /* may be NULL */
    const PyNativeCallableEntry *(*find)(PyObject *obj, const char *signature, uintptr_t refuse);
    const PyNativeCallableEntry *(*entry)(PyObject *obj, size_t position); /* may be NULL */
} NcNativeApi;
#define NC_NATIVEAPI_NAME UINT64_C(0x6e635f6170690001)
#define NC_ABI_SIZE(type, last) (offsetof(type, last) + sizeof(void *)) /* later versions grow */
NC_SHARED_VARIABLE const NcRuntime *nc_abi_runtime = NULL;
NC_SHARED_VARIABLE PyTypeObject *nc_abi_metatype = NULL;
#define nc_runtime ((const NcRuntime *)NC_ABI_LOAD(&nc_abi_runtime))
#define nc_metatype ((PyTypeObject *)NC_ABI_LOAD(&nc_abi_metatype))
static const PyNativeCallableTable nc_abi_nothing = {0, {{NULL, NC_FLAGS_ABI_MASK, NULL}}};
static inline const char *nc_abi_intern(const char *text) /* GIL held; NULL: no runtime yet */
{
    const char *name = "_extensibletype.runtime_v1", *interned = NULL;
    PyObject *module = PyMapping_GetItemString(PyImport_GetModuleDict(), "_extensibletype");
    PyObject *capsule = module != NULL ? PyObject_GetAttrString(module, "runtime_v1") : NULL;
    const NcRuntime *found = (const NcRuntime *)PyCapsule_GetPointer(capsule, name);
    Py_DecRef(module), Py_DecRef(capsule), PyErr_Clear();
    if (found && found->struct_size >= NC_ABI_SIZE(NcRuntime, ready) && found->metatype &&
        found->abi_version == NC_ABI_VERSION && found->provider && found->ready && found->intern &&
        found->type_size >= NC_ABI_OFFSET(etp_private) + sizeof(void *) &&
        found->slot_size == sizeof(PyCustomSlot) && found->registry &&
        found->intern(found->registry, text, strlen(text), &interned) == 0) {
        __atomic_store_n(&nc_abi_metatype, found->metatype, __ATOMIC_RELEASE);
        __atomic_store_n(&nc_abi_runtime, found, __ATOMIC_RELEASE);
    }
    return interned;
}
static inline const void *nc_abi_table(PyObject *given, uintptr_t id) /* if none, an empty one */
{
    PyObject *obj = nc_abi_behind(given);
    PyTypeObject *base = Py_TYPE(obj), *first = Py_TYPE((PyObject *)base), *meta = first;
    const char *type = (const char *)base;
    for (; meta != NULL && meta != nc_metatype; meta = (PyTypeObject *)NC_ABI_SLOT(meta, base)) {
    }
    const int calls = meta != first && (id | 2) == PYCUSTOMSLOT_PACKEDCALLABLE_ID;
    while (calls && base && !(PyType_GetFlags(base) & Py_TPFLAGS_IMMUTABLETYPE)) {
        base = (PyTypeObject *)NC_ABI_SLOT(base, base);
    } /* with derived metatypes, Python's call may differ from the call table's */
    if (!meta || !base || NC_ABI_SLOT(base, call) != NC_ABI_SLOT(Py_TYPE(obj), call)) {
        return &nc_abi_nothing;
    }
    intptr_t offset = (intptr_t)NC_ABI_LOAD(type + NC_ABI_OFFSET(etp_obj_custom_slots_offset));
    if (id != PYCUSTOMSLOT_NATIVECALLABLE_ID || offset == 0) {
        void *slots = NC_ABI_LOAD(type + NC_ABI_OFFSET(etp_custom_slots));
        PyCustomSlot *slot = slots ? nc_slottable_find((PyCustomSlotTable *)slots, id) : NULL;
        offset = slot != NULL ? slot->data.objoffset : 0;
    }
    return offset != 0 ? NC_ABI_LOAD((const char *)obj + offset) : &nc_abi_nothing;
}
#define NC_ABI_ENTRIES(obj) /* iterate while NC_ABI_LOAD(&entry->signature) != NULL */             \
    (((const PyNativeCallableTable *)nc_abi_table(obj, PYCUSTOMSLOT_NATIVECALLABLE_ID))->entries)
static inline const PyNativeCallableEntry *nc_abi_find(PyObject *obj, const char *signature,
                                                       uintptr_t refuse) /* interned; or NULL */
{
    const PyNativeCallableEntry *entry = NC_ABI_ENTRIES(obj);
    const void *found;
    while ((found = NC_ABI_LOAD(&entry->signature)) != NULL &&
           (found != signature || (entry->flags & (refuse | NC_FLAGS_ABI_MASK)) != 0)) {
        entry++;
    }
    return found != NULL ? entry : NULL;
}
NC_ABI_CACHE NcNativeApi nc_abi_wrong, *nc_abi_kept[64]; /* an invalid one; a cache by tags */
NC_ABI_CACHE unsigned nc_abi_tags[64]; /* a type's tag is read first; a change resets it to 0 */
Py_NO_INLINE static const NcNativeApi *nc_abi_look(PyTypeObject *type, unsigned tag)
{
    PyObject *name = PyUnicode_InternFromString("__nativecall_api__"), *own = NULL;
    PyObject *mro = name != NULL ? NC_ABI_MRO(type, name) : NULL; /* a lookup assigns a tag */
    for (Py_ssize_t i = 0; mro != NULL && own == NULL && i < PyTuple_Size(mro); i++) {
        PyObject *dict = NC_ABI_DICT(PyTuple_GetItem(mro, i));
        int call = dict != NULL && PyMapping_HasKeyString(dict, "__call__");
        own = dict != NULL ? PyObject_GetItem(dict, name) : NULL;
        Py_DecRef(dict), PyErr_Clear(), own = own || !call ? own : Py_NewRef(Py_None);
    }
    NcNativeApi *api = own ? (NcNativeApi *)PyCapsule_GetPointer(own, "nativecall_api_v1") : NULL;
    int good = api && api->size >= NC_ABI_SIZE(NcNativeApi, entry) && api->find &&
               api->name == NC_NATIVEAPI_NAME;
    Py_DecRef(own), Py_DecRef(mro), Py_DecRef(name), PyErr_Clear();
    nc_abi_tags[tag % 64] = tag;
    return nc_abi_kept[tag % 64] = good || !own || own == Py_None ? api : &nc_abi_wrong;
}
static inline const NcNativeApi *nc_abi_api(PyTypeObject *type) /* NULL: no tier 2; GIL held */
{
    unsigned tag = NC_ABI_TAG(type), at = tag % 64;
    return tag && nc_abi_tags[at] == tag ? nc_abi_kept[at] : nc_abi_look(type, tag);
}
static inline int nc_abi_offers(PyObject *given) /* if it can have entries; GIL held; some 2 ns */
{
    PyTypeObject *type = Py_TYPE(nc_abi_behind(given));
    return Py_TYPE((PyObject *)type) != &PyType_Type || nc_abi_api(type) != NULL;
}
static inline const PyNativeCallableEntry *nc_abi_ask(PyObject *given, const char *text,
                                                      uintptr_t refuse) /* tier 2; GIL; may raise */
{
    PyObject *obj = nc_abi_behind(given);
    const NcNativeApi *api = nc_abi_api(Py_TYPE(obj));
    const PyNativeCallableEntry *entry = api && api->find ? api->find(obj, text, refuse) : NULL;
    !entry || !PyErr_Occurred() ? (void)0 : PyErr_Clear(); /* ignored beside an entry */
    int fits = entry && entry->signature && entry->funcptr && !strcmp(entry->signature, text);
    return fits && (entry->flags & (refuse | NC_FLAGS_ABI_MASK)) == 0 ? entry : NULL;
}
#endif
