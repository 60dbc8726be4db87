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

#if defined(_MSC_VER) && !defined(__clang__)
#define NC_ABI3_STORE(at, value) (*(PyObject *volatile *)(at) = (value))
#else
#define NC_ABI3_STORE(at, value) __atomic_store_n(at, value, __ATOMIC_RELEASE)
#endif

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
#define NC_ABI_TAG(type)                                                                           \
    (Py_Version < 0x03100000 ? *(const unsigned *)(const void *)(nc_abi3_words(type) + 46) : 0)

static inline PyObject *nc_abi_behind(PyObject *obj) /* callable of a built-in view, else obj */
{
    void *const *function = nc_abi3_words(obj);
    PyObject *self = PyCFunction_CheckExact(obj) ? (PyObject *)function[1] : NULL;
    uintptr_t within = self != NULL ? (uintptr_t)function[0] - (uintptr_t)self : 0;
    return self && within < NC_ABI_BASICSIZE(Py_TYPE(self)) ? self : obj;
}

/* Return an item of a class's own dictionary, borrowed, or NULL without an exception. */
static inline PyObject *nc_abi3_own(PyObject *cls, const char *name)
{
    PyObject *dict = PyObject_GetAttrString(cls, "__dict__");
    PyObject *found = dict != NULL ? PyMapping_GetItemString(dict, name) : NULL;
    PyErr_Clear();
    Py_DecRef(found);
    Py_DecRef(dict);
    return found;
}

Py_NO_INLINE static PyObject *nc_abi_attribute(PyTypeObject *type, unsigned *tag) /* borrowed */
{
    static PyObject *kept; /* Python's caches are by the address of a name */
    PyObject *name = (PyObject *)NC_ABI_LOAD(&kept), *any = NULL, *found = NULL, *mro;
    if (name == NULL) {
        name = PyUnicode_InternFromString("__nativecall_api__");
        NC_ABI3_STORE(&kept, name);
    }
#if Py_LIMITED_API + 0 >= 0x030D0000 /* without an exception; abi3t comes here for each object */
    (void)(name != NULL && PyObject_GetOptionalAttr((PyObject *)type, name, &any) > 0);
#else
    any = name != NULL ? PyObject_GetAttr((PyObject *)type, name) : NULL;
#endif
    *tag = NC_ABI_TAG(type); /* which the lookup assigned */
    mro = any != NULL ? PyObject_GetAttrString((PyObject *)type, "__mro__") : NULL;
    Py_DecRef(any);
    for (Py_ssize_t i = 0; mro != NULL && found == NULL && i < PyTuple_Size(mro); i++) {
        PyObject *cls = PyTuple_GetItem(mro, i);
        found = nc_abi3_own(cls, "__nativecall_api__");
        found = !found && nc_abi3_own(cls, "__call__") ? Py_None : found;
    }
    Py_DecRef(mro);
    return found != Py_None ? found : NULL;
}

#endif
