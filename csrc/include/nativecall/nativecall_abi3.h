/* nativecall/nativecall_abi3.h: what nativecall_abi.h reads of types and of built-in functions, for
 * Py_LIMITED_API 0x030B0000 or later and for abi3t (PEP 803). nativecall_abi.h includes it there.
 *
 * Guarantees: one binary runs on all versions of Python 3 from 3.11 on. It calls functions of the
 *             limited API where there are any. It reads the rest by offset (docs/abi/README.md):
 *             headers of objects end with ob_type; behind them are tp_basicsize, m_ml and m_self,
 *             and up to Python 3.15 tp_version_tag. Later versions do not use the tag. */
#ifndef NATIVECALL_ABI3_H
#define NATIVECALL_ABI3_H

#include <Python.h>
#include <string.h> /* Python.h does not include it here */

/* Return the words behind an object's header. No GIL is needed. */
static inline void *const *nc_abi3_words(const void *obj)
{
    void *const *type = (void *const *)(const void *)&PyType_Type;
    size_t header = 1;
    for (; type[header - 1] != (const void *)type; header++) { /* its ob_type is itself */
    }
    return (void *const *)obj + header;
}

#define NC_ABI_SLOT(type, name) PyType_GetSlot(type, Py_tp_##name)
#define NC_ABI_BASICSIZE(type) ((uintptr_t)nc_abi3_words(type)[2])
#define NC_ABI_OFFSET(field)                                                                       \
    (NC_ABI_BASICSIZE(&PyType_Type) + offsetof(PyHeapExtensibleTypeObject, field))

/* Return a type's version tag, or 0 if it is not known where this Python has it. */
static inline unsigned nc_abi3_tag(const PyTypeObject *type)
{
    const unsigned *tag = (const unsigned *)(const void *)(nc_abi3_words(type) + 46);
    return Py_Version < 0x03100000 ? __atomic_load_n(tag, __ATOMIC_ACQUIRE) : 0;
}

/* Return the MRO of a type that has an attribute, a new reference; otherwise NULL. */
static inline PyObject *nc_abi3_mro(PyTypeObject *type, PyObject *name)
{
    PyObject *any = NULL;
#if Py_LIMITED_API + 0 >= 0x030D0000 /* without an exception; later versions come here each time */
    (void)(PyObject_GetOptionalAttr((PyObject *)type, name, &any) > 0);
#else
    any = PyObject_GetAttr((PyObject *)type, name);
#endif
    Py_DecRef(any);
    return any != NULL ? PyObject_GetAttrString((PyObject *)type, "__mro__") : NULL;
}

#define NC_ABI_TAG(type) nc_abi3_tag(type)
#define NC_ABI_MRO(type, name) nc_abi3_mro(type, name)
#define NC_ABI_DICT(cls) PyObject_GetAttrString(cls, "__dict__")

static inline PyObject *nc_abi_behind(PyObject *obj) /* callable of a built-in view, else obj */
{
    void *const *function = nc_abi3_words(obj);
    PyObject *self = PyCFunction_CheckExact(obj) ? (PyObject *)function[1] : NULL;
    uintptr_t within = self != NULL ? (uintptr_t)function[0] - (uintptr_t)self : 0;
    return self && within < NC_ABI_BASICSIZE(Py_TYPE(self)) ? self : obj;
}

#endif
