/* nativecall/detail/core/runtime.h: what all copies of these headers in a process share.
 *
 * The layout of an extensible type, the record by which the first copy offers its metaclass and
 * its registry of interned keys to all others, and how a type is recognised. Readers of slots and
 * call tables need no more than this; extensibletype.h has the functions.
 *
 * Every struct is frozen for an ABI version; docs/abi/runtime.md says what a mismatch obliges to. */
#ifndef NATIVECALL_RUNTIME_H
#define NATIVECALL_RUNTIME_H

#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base.h"
#include "intern.h"
#include "slottable.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A value of a dict, a new reference; NULL when missing, or with an exception:
 * PyDict_GetItemString says "missing" for want of memory too. */
NC_STATIC PyObject *nc_dict_item(PyObject *dict, const char *name)
{
    PyObject *key = PyUnicode_FromString(name);
    PyObject *value = key != NULL ? PyDict_GetItemWithError(dict, key) : NULL;
    Py_XINCREF(value);
    Py_XDECREF(key);
    return value;
}

/* Keys of the two call tables (SEP 201; D6): rows whose data.objoffset is where an object keeps a
 * pointer to its table. They are dropped where a subclass overrides __call__. */
#define PYCUSTOMSLOT_NATIVECALLABLE_ID ((uintptr_t)0x04000001)
#define PYCUSTOMSLOT_NATIVECALLABLE_FAVPOS 0
#define PYCUSTOMSLOT_PACKEDCALLABLE_ID ((uintptr_t)0x04000003)
#define PYCUSTOMSLOT_PACKEDCALLABLE_FAVPOS 1

/* A type that can have slots. A static instance fills in etp_heaptype as for any static type, sets
 * etp_custom_slots with NC_STATIC_SLOTS and calls PyExtensibleType_Ready. */
typedef struct {
    PyHeapTypeObject etp_heaptype;
    PyCustomSlotTable *etp_custom_slots;    /* NULL: no slots; the metaclass's once ready */
    Py_ssize_t etp_obj_custom_slots_offset; /* of each object's PyNativeCallableTable *; 0: none */
    Py_ssize_t etp_table_shift;             /* see NC_TABLE_SHIFT; set by the metaclass */
    void *etp_private;                      /* the metaclass's own; NULL until the type is ready */
} PyHeapExtensibleTypeObject;

/* The offset counted from the object's ob_type, so that 0, which new types have, leads to the type
 * itself. Read as a call table, a type starts with its reference count and its metatype: a
 * first entry whose signature is no interned string. So the hot lookup (nativecallable.h) need not
 * test whether there is a table before it compares the first signature. */
#define NC_TABLE_SHIFT(offset)                                                                     \
    ((offset) == 0 ? 0 : (offset) - (Py_ssize_t)offsetof(PyObject, ob_type))

/* For static initialisers: the array of rows, ended by (and padded with) rows of id 0, that Ready
 * takes as the type's own. Until Ready has run, etp_custom_slots points to this array. */
#define NC_STATIC_SLOTS(rows) ((PyCustomSlotTable *)(void *)(rows))

/* What the first copy in a process publishes and all others use. Grows only at its end; a reader
 * accepts any struct_size that is at least its own. Lives until the process ends. */
typedef struct {
    uint32_t abi_version;   /* NC_ABI_VERSION of the copy that made it */
    uint32_t struct_size;   /* sizeof(NcRuntime) there */
    uint32_t type_size;     /* sizeof(PyHeapExtensibleTypeObject) there */
    uint32_t slot_size;     /* sizeof(PyCustomSlot) there */
    const char *provider;   /* the module that made it, for error messages */
    PyTypeObject *metatype; /* extensibletype */
    NcRegistry *registry;   /* of interned keys */
    int (*intern)(NcRegistry *registry, const char *bytes, size_t length, const char **out);
    int (*ready)(PyHeapExtensibleTypeObject *type, Py_ssize_t slot_table_size);
} NcRuntime;

#define NC_RUNTIME_MODULE "_extensibletype"
#define NC_RUNTIME_ATTRIBUTE "runtime_v1"
#define NC_RUNTIME_CAPSULE "_extensibletype.runtime_v1"

/* Who we are in handshake errors; a bundler may define it before the include. */
#ifndef NC_PROVIDER
#define NC_PROVIDER "an extension module that bundles nativecall"
#endif

/* Weak and hidden: the copies in the source files of one module become one variable, and
 * are not seen from other modules. */
#if defined(NC_MSVC)
#define NC_SHARED_VARIABLE __declspec(selectany)
#else
#define NC_SHARED_VARIABLE __attribute__((weak, visibility("hidden")))
#endif

/* One of each per shared object, whatever the number of its source files: NULL until
 * PyExtensibleType_Import (or PyCustomSlots_Import) has succeeded in any of them. */
NC_SHARED_VARIABLE const NcRuntime *nc_runtime = NULL;
NC_SHARED_VARIABLE PyTypeObject *nc_metatype = NULL;

/* Whether `derived`, a metatype, derives from `meta`. Out of line: metatypes other than `meta`
 * itself are rare, and the walk need not be repeated at every place that checks. */
NC_NOINLINE int nc_metatype_derives(PyTypeObject *derived, PyTypeObject *meta)
{
    while (derived != NULL && derived != meta) {
        derived = derived->tp_base;
    }
    return derived != NULL;
}

/* Whether a type was made by the metaclass `meta` or one derived from it. */
NC_STATIC_INLINE int nc_type_has_metatype(PyTypeObject *type, PyTypeObject *meta)
{
    PyTypeObject *found = Py_TYPE((PyObject *)type);
    return NC_LIKELY(found == meta) || nc_metatype_derives(found, meta);
}

#ifdef __cplusplus
}
#endif

#endif
