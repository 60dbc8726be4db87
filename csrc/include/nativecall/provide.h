/* nativecall/provide.h: for providers: offers the C functions of your objects to native callers, or
 * slots of your types. Two files to copy: this one and nativecall_abi.h. They bring no runtime, but
 * join the one that another module has published, and work without one.
 *
 *     typedef struct { PyObject_HEAD PyNativeCallableTable *native; } Root;
 *
 *     NC_PROVIDES(root_api, root_call, ((Root *)obj)->native->entries);     in the file's scope
 *     static NC_TABLE(2) roots = {2, {{"d:d", 0, (void *)cbrt}, {"f:f", 0, (void *)cbrtf}}};
 *
 *     if (nc_provide(&Root_Type, &root_api, 0) < 0) return NULL;           in place of PyType_Ready
 *     self->native = (PyNativeCallableTable *)&roots;                       in each object
 *
 * Types. nc_provide gives any type the attribute `__nativecall_api__` (tier 2): static types, heap
 * types, and immutable ones. The metaclass stays as it is. So `class X(Root, ABC)` works, which a
 * type of the runtime's metaclass refuses ("metaclass conflict") unless the class statement has a
 * metaclass of both: `class M(ABCMeta, type(Root))`.
 *
 * Joining. Consumers ask tier 2 with the GIL. They find entries without the GIL, and faster, if the
 * type joins the metaclass as well. Only a type without Py_TPFLAGS_BASETYPE joins: a type that can
 * be subclassed would have another metaclass, and other conflicts, by the order of imports. A type
 * joins if you pass the offset of its objects' `native` and a runtime was published before:
 *
 *     static PyHeapExtensibleTypeObject Root_Type;       static: with room for the metaclass's data
 *     PyType_FromMetaclass(nc_joined(), module, &spec, NULL)          a heap type, from Python 3.12
 *     nc_provided_intern(roots.entries) before objects use the table; then
 *     nc_provide(&Root_Type, &root_api, offsetof(Root, native))
 *
 * Entries. Signatures are canonical (signature.h), and flags true (docs/abi/provide.md). A table
 * ends with a zeroed entry, is never changed once an object has it, and outlives the object. For
 * tables that change, and for packed tables, use nativetable.h.
 *
 * Slots. nc_provide_slots gives a type the attribute `__nativecall_slots__`: rows that consumers
 * find with PyCustomSlots_Ask (customslots.h). Subclasses inherit each row whose key they lack.
 *
 * Assignments. An entry is not offered once `__call__` of the object's class is not root_call.
 * `__nativecall_api__ = None` and `__nativecall_slots__ = None` in a subclass remove what it
 * inherits.
 *
 * All functions need the GIL, except the `find` and `entry` that NC_PROVIDES defines. They return
 * 0, or -1 with an exception. */
#ifndef NATIVECALL_PROVIDE_H
#define NATIVECALL_PROVIDE_H

#include <Python.h>

#include "nativecall_abi.h"

#define NC_NATIVEAPI_ATTRIBUTE "__nativecall_api__"
#define NC_NATIVEAPI_CAPSULE "nativecall_api_v1"
#define NC_SLOTS_ATTRIBUTE "__nativecall_slots__"
#define NC_SLOTS_CAPSULE "nativecall_slots_v1"

/* A call table of n entries and the end, with the layout of PyNativeCallableTable. */
#define NC_TABLE(n)                                                                                \
    struct {                                                                                       \
        intptr_t count;                                                                            \
        PyNativeCallableEntry entries[(n) + 1];                                                    \
    }

/* Return the first entry with these characters and none of the flags in `refuse`, or NULL. Without
 * characters (NULL), return the entry at a position, or NULL after the last. */
static inline const PyNativeCallableEntry *
nc_provided(const PyNativeCallableEntry *entry, const char *text, uintptr_t refuse, size_t position)
{
    const char *found;
    while ((found = (const char *)NC_ABI_LOAD(&entry->signature)) != NULL &&
           (text != NULL ? (entry->flags & refuse) != 0 || strcmp(found, text) != 0
                         : position-- > 0)) {
        entry++;
    }
    return found != NULL ? entry : NULL;
}

/* Define the interface `api` of a type whose tp_call is `call`. `entries` is the first entry of the
 * object `obj`, an expression. It must work without the GIL. */
#define NC_PROVIDES(api, call, entries)                                                            \
    static const PyNativeCallableEntry *api##_find(PyObject *obj, const char *text,                \
                                                   uintptr_t refuse)                               \
    {                                                                                              \
        return Py_TYPE(obj)->tp_call == (call) ? nc_provided(entries, text, refuse, 0) : NULL;     \
    }                                                                                              \
    static const PyNativeCallableEntry *api##_entry(PyObject *obj, size_t position)                \
    {                                                                                              \
        return Py_TYPE(obj)->tp_call == (call) ? nc_provided(entries, NULL, 0, position) : NULL;   \
    }                                                                                              \
    static NcNativeApi api = {sizeof(NcNativeApi), NC_NATIVEAPI_NAME, NULL, api##_find, api##_entry}

/* Ready a type, and store a capsule in its dictionary. */
static inline int nc_type_store(PyTypeObject *type, const char *attribute, const char *name,
                                const void *pointer)
{
    PyObject *capsule =
        PyType_Ready(type) < 0 ? NULL : PyCapsule_New((void *)(uintptr_t)pointer, name, NULL);
    int status = capsule != NULL ? PyDict_SetItemString(type->tp_dict, attribute, capsule) : -1;
    PyType_Modified(type);
    Py_DecRef(capsule);
    return status;
}

/* Return the metaclass of the process's runtime, borrowed; NULL without an exception if no module
 * has published a runtime yet. */
static inline PyTypeObject *nc_joined(void)
{
    return nc_metatype != NULL || nc_abi_intern("") != NULL ? nc_metatype : NULL;
}

/* Intern the signatures of a table before an object gets it, if there is a runtime. */
static inline int nc_provided_intern(PyNativeCallableEntry *entry)
{
    for (; entry->signature != NULL && nc_joined() != NULL; entry++) {
        const char *interned = nc_abi_intern(entry->signature);
        if (interned == NULL) {
            (void)PyErr_NoMemory();
            return -1;
        }
        entry->signature = interned;
    }
    return 0;
}

/* Ready a type and offer its objects' entries. `offset` is where its objects have the address of
 * their call table, never NULL, if the type can join the metaclass (see above); otherwise 0. */
static inline int nc_provide(void *type, const NcNativeApi *api, Py_ssize_t offset)
{
    static PyCustomSlot rows[1];
    PyHeapExtensibleTypeObject *wide = (PyHeapExtensibleTypeObject *)type;
    PyTypeObject *narrow = (PyTypeObject *)type;
    if (offset != 0 && (narrow->tp_flags & Py_TPFLAGS_BASETYPE) == 0 && nc_joined() != NULL &&
        ((narrow->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0 || Py_TYPE(narrow) == nc_metatype) &&
        wide->etp_private == NULL) {
        rows[0].id = PYCUSTOMSLOT_NATIVECALLABLE_ID;
        rows[0].data.objoffset = (intptr_t)offset;
        wide->etp_custom_slots = (PyCustomSlotTable *)(void *)rows;
        wide->etp_obj_custom_slots_offset = offset;
        if (nc_runtime->ready(wide, 1) < 0) {
            return -1;
        }
    }
    return nc_type_store(narrow, NC_NATIVEAPI_ATTRIBUTE, NC_NATIVEAPI_CAPSULE, api);
}

/* Ready a type, unless it is ready, and offer rows by an attribute. A row of key 0 ends them. They
 * outlive the type. */
static inline int nc_provide_slots(PyTypeObject *type, const PyCustomSlot *rows)
{
    return nc_type_store(type, NC_SLOTS_ATTRIBUTE, NC_SLOTS_CAPSULE, rows);
}

#endif
