/* nativecall/detail/compat.h: hides differences between CPython versions.
 *
 * Guarantees: only this file and csrc/platform/compat.h test CPython's version. If a function's
 *             comment names a CPython function and the version that introduced it, the two
 *             functions behave alike. Supports 3.11 and later.
 * GIL:        required, unless documented otherwise. */
#ifndef NATIVECALL_COMPAT_H
#define NATIVECALL_COMPAT_H

#include <Python.h>

#include "core/base.h"

#include <stddef.h>

NC_C_BEGIN

/* ---- exceptions ------------------------------------------------------------------------------ */

/* PyErr_GetRaisedException, 3.12. Return the exception of a failure to create the exception. */
NC_STATIC_INLINE PyObject *nc_exception_take(void)
{
#if PY_VERSION_HEX >= 0x030C0000
    return PyErr_GetRaisedException();
#else
    PyObject *type;
    PyObject *value;
    PyObject *traceback;
    if (PyErr_Occurred() == NULL) { /* faster than fetching nothing */
        return NULL;
    }
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback != NULL) {
        (void)PyException_SetTraceback(value, traceback);
    }
    Py_DecRef(type);
    Py_DecRef(traceback);
    return value;
#endif
}

/* PyErr_SetRaisedException, 3.12. Allocates nothing. NULL clears the exception. */
NC_STATIC_INLINE void nc_exception_put(PyObject *exception)
{
#if PY_VERSION_HEX >= 0x030C0000
    PyErr_SetRaisedException(exception);
#else
    PyObject *type = exception != NULL ? (PyObject *)Py_TYPE(exception) : NULL;
    Py_IncRef(type);
    PyErr_Restore(type, exception, exception != NULL ? PyException_GetTraceback(exception) : NULL);
#endif
}

/* ---- threads and the interpreter ------------------------------------------------------------- */

/* Return whether Python is finalizing or finalized (Py_IsFinalizing, 3.13). Any thread; no GIL
 * needed. */
NC_STATIC_INLINE int nc_is_finalizing(void)
{
#if PY_VERSION_HEX >= 0x030D0000
    return Py_IsFinalizing() || !Py_IsInitialized();
#else
    return _Py_IsFinalizing() || !Py_IsInitialized();
#endif
}

/* Return the thread state that holds the GIL, or NULL (PyThreadState_GetUnchecked, 3.13). From 3.12
 * on, this is the calling thread's own state. Before 3.12, it may be the state of another thread.
 * Any thread; no GIL needed. */
NC_STATIC_INLINE PyThreadState *nc_thread_unchecked(void)
{
#if PY_VERSION_HEX >= 0x030D0000
    return PyThreadState_GetUnchecked();
#else
    return _PyThreadState_UncheckedGet();
#endif
}

/* ---- types ----------------------------------------------------------------------------------- */

/* Return the namespace of a type, a new reference, or NULL without an exception (PyType_GetDict,
 * 3.12). */
NC_STATIC_INLINE PyObject *nc_type_dict(PyTypeObject *type)
{
#if PY_VERSION_HEX >= 0x030C0000
    return PyType_GetDict(type);
#else
    Py_XINCREF(type->tp_dict);
    return type->tp_dict;
#endif
}

/* Whether heap types inherit Py_TPFLAGS_HAVE_VECTORCALL and lose it when __call__ is assigned
 * (3.12). */
#define NC_HEAP_TYPES_INHERIT_VECTORCALL (PY_VERSION_HEX >= 0x030C0000)

/* Make objects of a new class store attributes in a dict, not inline after the object, since only
 * CPython's allocator reserves space there (Py_TPFLAGS_INLINE_VALUES, 3.13). */
NC_STATIC_INLINE void nc_type_without_inline_values(PyTypeObject *type)
{
#if PY_VERSION_HEX >= 0x030D0000
    type->tp_flags &= ~(unsigned long)Py_TPFLAGS_INLINE_VALUES;
#else
    (void)type;
#endif
}

/* ---- objects --------------------------------------------------------------------------------- */

/* Clear the managed __dict__ of an object in its deallocator. Needed before 3.12, where CPython's
 * tp_clear does not clear that dict. */
NC_STATIC_INLINE void nc_clear_managed_dict(PyObject *object)
{
#if PY_VERSION_HEX < 0x030C0000
    PyObject **dict = _PyObject_GetDictPtr(object);
    if (dict != NULL) {
        Py_CLEAR(*dict);
    }
#else
    (void)object;
#endif
}

/* Return a new reference, or NULL, with an exception on failure (PyDict_GetItemRef, 3.13). */
NC_STATIC_INLINE PyObject *nc_dict_get(PyObject *dict, PyObject *key)
{
#if PY_VERSION_HEX >= 0x030D0000
    PyObject *found;
    (void)PyDict_GetItemRef(dict, key, &found);
    return found;
#else
    return Py_XNewRef(PyDict_GetItemWithError(dict, key));
#endif
}

/* Return a new reference, or NULL with an exception (PyDict_SetDefaultRef, 3.13). */
NC_STATIC_INLINE PyObject *nc_dict_default(PyObject *dict, PyObject *key, PyObject *value)
{
#if PY_VERSION_HEX >= 0x030D0000
    PyObject *found;
    (void)PyDict_SetDefaultRef(dict, key, value, &found);
    return found;
#else
    return Py_XNewRef(PyDict_SetDefault(dict, key, value));
#endif
}

/* Like nc_dict_get, for a name. PyDict_GetItemString would ignore MemoryError. */
NC_COLD PyObject *nc_dict_item(PyObject *dict, const char *name)
{
    PyObject *key = PyUnicode_FromString(name);
    PyObject *value = key != NULL ? nc_dict_get(dict, key) : NULL;
    Py_DecRef(key);
    return value;
}

/* Like nc_dict_item, for the type's own dictionary. */
NC_COLD PyObject *nc_type_own(PyTypeObject *type, const char *name)
{
    PyObject *dict = nc_type_dict(type);
    PyObject *value = dict != NULL ? nc_dict_item(dict, name) : NULL;
    Py_DecRef(dict);
    return value;
}

/* Return the pointer in a capsule that a type has as an attribute, or NULL with TypeError. */
NC_COLD void *nc_type_capsule(PyTypeObject *owner, const char *attribute, const char *name,
                              PyObject *value)
{
    if (PyCapsule_IsValid(value, name)) {
        return PyCapsule_GetPointer(value, name);
    }
    PyErr_Format(PyExc_TypeError, "'%s' of %s must be a capsule named '%s' or None (got %R)",
                 attribute, owner->tp_name, name, value);
    return NULL;
}

NC_C_END

#endif
