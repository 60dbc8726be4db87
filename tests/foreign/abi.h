/* tests/foreign/abi.h: the structs of docs/abi, written out from the document.
 *
 * The modules in this folder share no header with the product: what they know of it is in the
 * document. They pass the conformance kit; each `BROKEN_...` macro breaks one rule, and the kit must
 * name that rule. */
#ifndef FOREIGN_ABI_H
#define FOREIGN_ABI_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)
#define MODULE_NAME TEXT(MODULE)
#define JOIN_OF(a, b) a##b
#define JOIN(a, b) JOIN_OF(a, b)

#define NATIVECALLABLE ((uintptr_t)0x04000001)
#define PACKEDCALLABLE ((uintptr_t)0x04000003)
#define NEEDS_GIL ((uintptr_t)0x1)
#define ERRORS_PYTHON ((uintptr_t)0x10)
#define FLAGS_ABI_MASK (~(uintptr_t)0xFFFF7F)
#define EXPECTED UINT64_C(0xE220A8397B1DCDAF)

typedef struct {
    uintptr_t id;
    uint64_t flags;
    intptr_t data;
} Slot;

typedef struct {
    uint32_t abi_version;
    uint32_t count;
    uint64_t multiplier;
    uint16_t *cells;
    uint64_t f_high;
    uint32_t g_shift;
    uint32_t f_shift;
    uint64_t size;
    uint16_t expected[256];
} SlotTable;

typedef struct {
    PyHeapTypeObject heap;
    SlotTable *slots;
    Py_ssize_t offset;
    Py_ssize_t shift;
    void *own;
} Type;

typedef struct CellTable {
    size_t mask;
    struct CellTable *superseded;
    const char *cells[1];
} CellTable;

typedef struct {
    uint32_t abi_version;
    uint32_t reserved;
    CellTable *table;
} RegistryHead;

typedef struct {
    uint32_t abi_version;
    uint32_t struct_size;
    uint32_t type_size;
    uint32_t slot_size;
    const char *provider;
    PyTypeObject *metatype;
    RegistryHead *registry;
    int (*intern)(RegistryHead *, const char *, size_t, const char **);
    int (*ready)(Type *, Py_ssize_t);
} Runtime;

typedef struct {
    const char *signature;
    uintptr_t flags;
    void *function;
} Entry;

typedef struct {
    intptr_t count;
    Entry entries[1];
} CallTable;

typedef struct Api {
    size_t size;
    uint64_t name;
    int (*release)(struct Api *);
    const Entry *(*find)(PyObject *, const char *, uintptr_t);
    const Entry *(*entry)(PyObject *, size_t);
} Api;

#define API_NAME UINT64_C(0x6E635F6170690001)

#define LOAD(pointer) __atomic_load_n((pointer), __ATOMIC_ACQUIRE)
#define STORE(pointer, value) __atomic_store_n((pointer), (value), __ATOMIC_RELEASE)

/* Whether a type has the metaclass, or one that derives from it. */
static inline int is_extensible(PyTypeObject *type, PyTypeObject *metatype)
{
    PyTypeObject *m = Py_TYPE((PyObject *)type);
    while (m != NULL && m != metatype) {
        m = m->tp_base;
    }
    return m != NULL;
}

/* The runtime of this process if it suits, looked for and not imported; NULL otherwise. */
static inline const Runtime *look_for_runtime(void)
{
#ifdef BROKEN_IMPORTS
    PyObject *module = PyImport_ImportModule("_extensibletype");
#else
    PyObject *module = PyDict_GetItemString(PyImport_GetModuleDict(), "_extensibletype");
#endif
    PyObject *capsule = module != NULL ? PyObject_GetAttrString(module, "runtime_v1") : NULL;
    const Runtime *found = NULL;
    if (capsule != NULL) {
        found = (const Runtime *)PyCapsule_GetPointer(capsule, "_extensibletype.runtime_v1");
        Py_DECREF(capsule);
    }
    PyErr_Clear();
    if (found == NULL || found->abi_version != 1 || found->struct_size < sizeof(Runtime) ||
        found->type_size < sizeof(Type) || found->slot_size != sizeof(Slot) ||
        found->provider == NULL || found->metatype == NULL || found->registry == NULL ||
        found->intern == NULL || found->ready == NULL) {
        return NULL;
    }
    return found;
}

#endif
