/* tests/ext/layout.c: the structs and constants that need Python.h are those of docs/abi/.
 *
 * The assertions are for the compiler (tests/c/layout.h). The module makes the handshake, so that a
 * test can offer it runtimes of other versions, and tells what it got. */
#include "module.h"

#include <nativecall/extensibletype.h>
#include <nativecall/nativeapi.h>
#include <nativecall/nativecallable.h>

#include "../c/layout.h"

LAYOUT_VALUE(PYCUSTOMSLOT_NATIVECALLABLE_ID, 0x04000001);
LAYOUT_VALUE(PYCUSTOMSLOT_NATIVECALLABLE_FAVPOS, 0);
LAYOUT_VALUE(PYCUSTOMSLOT_PACKEDCALLABLE_ID, 0x04000003);
LAYOUT_VALUE(PYCUSTOMSLOT_PACKEDCALLABLE_FAVPOS, 1);
LAYOUT_VALUE(PYCUSTOMSLOT_OBJECTSLOTS_ID, 0x04000101);
LAYOUT_VALUE(PYCUSTOMSLOT_OBJECTSLOTS_FAVPOS, 2);
LAYOUT_VALUE(NC_SLOT_RUNTIME_REGISTRAR, 0xFF);

LAYOUT_VALUE(NC_NATIVEAPI_NAME, 0x6E635F6170690001);
LAYOUT_VALUE(NC_NATIVEAPI_MAX_ENTRIES, 64);

/* The shift of docs/abi/runtime.md, "Types". */
LAYOUT_VALUE(NC_TABLE_SHIFT(0), 0);
LAYOUT_VALUE(NC_TABLE_SHIFT(100), 100 - (Py_ssize_t)offsetof(PyObject, ob_type));

#if UINTPTR_MAX == UINT64_MAX

#define H sizeof(PyHeapTypeObject)

LAYOUT_SIZE(NcRuntime, 56);
LAYOUT_FIELD(NcRuntime, abi_version, 0, uint32_t);
LAYOUT_FIELD(NcRuntime, struct_size, 4, uint32_t);
LAYOUT_FIELD(NcRuntime, type_size, 8, uint32_t);
LAYOUT_FIELD(NcRuntime, slot_size, 12, uint32_t);
LAYOUT_FIELD(NcRuntime, provider, 16, const char *);
LAYOUT_FIELD(NcRuntime, metatype, 24, PyTypeObject *);
LAYOUT_FIELD(NcRuntime, registry, 32, NcRegistry *);
LAYOUT_FIELD(NcRuntime, intern, 40, int (*)(NcRegistry *, const char *, size_t, const char **));
LAYOUT_FIELD(NcRuntime, ready, 48, int (*)(PyHeapExtensibleTypeObject *, Py_ssize_t));

LAYOUT_SIZE(PyHeapExtensibleTypeObject, H + 32);
LAYOUT_FIELD(PyHeapExtensibleTypeObject, etp_heaptype, 0, PyHeapTypeObject);
LAYOUT_FIELD(PyHeapExtensibleTypeObject, etp_custom_slots, H + 0, PyCustomSlotTable *);
LAYOUT_FIELD(PyHeapExtensibleTypeObject, etp_obj_custom_slots_offset, H + 8, Py_ssize_t);
LAYOUT_FIELD(PyHeapExtensibleTypeObject, etp_table_shift, H + 16, Py_ssize_t);
LAYOUT_FIELD(PyHeapExtensibleTypeObject, etp_private, H + 24, void *);

#undef H

LAYOUT_SIZE(NcNativeApi, 40);
LAYOUT_FIELD(NcNativeApi, size, 0, size_t);
LAYOUT_FIELD(NcNativeApi, name, 8, uint64_t);
LAYOUT_FIELD(NcNativeApi, release, 16, int (*)(struct NcNativeApi *));
LAYOUT_FIELD(NcNativeApi, find, 24,
             const PyNativeCallableEntry *(*)(PyObject *, const char *, uintptr_t));
LAYOUT_FIELD(NcNativeApi, entry, 32, const PyNativeCallableEntry *(*)(PyObject *, size_t));

#endif

static struct PyModuleDef definition = MODULE_DEFINITION(NULL);

PyMODINIT_FUNC MODULE_INIT(void)
{
    PyObject *module;
    PyObject *runtime = NULL;
    if (PyExtensibleType_Import() == NULL) {
        return NULL;
    }
    module = PyModule_Create(&definition);
    if (module == NULL) {
        return NULL;
    }
    runtime = PyLong_FromVoidPtr((void *)(uintptr_t)nc_runtime);
    if (runtime == NULL || PyObject_SetAttrString(module, "runtime", runtime) < 0 ||
        PyModule_AddStringConstant(module, "MODULE", NC_RUNTIME_MODULE) < 0 ||
        PyModule_AddStringConstant(module, "ATTRIBUTE", NC_RUNTIME_ATTRIBUTE) < 0 ||
        PyModule_AddStringConstant(module, "CAPSULE", NC_RUNTIME_CAPSULE) < 0) {
        Py_CLEAR(module);
    }
    Py_XDECREF(runtime);
    return module;
}
