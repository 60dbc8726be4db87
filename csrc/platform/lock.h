/* csrc/platform/lock.h: locks and critical sections that builds with the GIL do not need.
 *
 * With the GIL, everything here does nothing: the GIL serializes the same code. Without it:
 *
 * - NC_LOCK guards a few statements that run no Python code and take no other lock.
 * - NC_FOUND returns whether it could add a reference to an object that a list without references
 *   holds. Another thread may be freeing the object. The list calls NC_FINDABLE for each object.
 * - NC_SHARE lets threads use an object without counting their references, so that they do not
 *   contend for its count. Only the collector frees such an object (PEP 703).
 * - NC_BEGIN_SECTION and NC_END_SECTION enclose a critical section of an object (PEP 703).
 * - NC_CRITICAL(function, Type) wraps a method or getter that changes its object in a critical
 *   section; NC_WITH_LOCK(function) names the result. The function may run Python code.
 *   Then another thread may enter, as it may with the GIL. */
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#if defined(Py_GIL_DISABLED)
enum { NC_WITHOUT_GIL = 1 };
typedef PyMutex NcLock;
#define NC_LOCK(lock) PyMutex_Lock(lock)
#define NC_UNLOCK(lock) PyMutex_Unlock(lock)
#define NC_PER_THREAD NC_THREAD_LOCAL
#define NC_CRITICAL(function, Type)                                                                \
    static PyObject *function##_locked(PyObject *object, Type *given)                              \
    {                                                                                              \
        PyObject *result;                                                                          \
        Py_BEGIN_CRITICAL_SECTION(object);                                                         \
        result = function(object, given);                                                          \
        Py_END_CRITICAL_SECTION();                                                                 \
        return result;                                                                             \
    }
#define NC_WITH_LOCK(function) function##_locked
#define NC_BEGIN_SECTION(object) Py_BEGIN_CRITICAL_SECTION(object)
#define NC_END_SECTION() Py_END_CRITICAL_SECTION()
#define NC_FINDABLE(object) PyUnstable_EnableTryIncRef((PyObject *)(object))
#define NC_FOUND(object) PyUnstable_TryIncRef((PyObject *)(object))
#define NC_SHARE(object) ((void)PyUnstable_Object_EnableDeferredRefcount((PyObject *)(object)))
#else
enum { NC_WITHOUT_GIL = 0 };
typedef char NcLock;
#define NC_LOCK(lock) ((void)(lock))
#define NC_UNLOCK(lock) ((void)(lock))
#define NC_PER_THREAD /* a cache that each thread has without the GIL, and all share with it */
#define NC_CRITICAL(function, Type)
#define NC_WITH_LOCK(function) function
#define NC_BEGIN_SECTION(object) {
#define NC_END_SECTION() }
#define NC_FINDABLE(object) ((void)(object))
#define NC_FOUND(object) (Py_INCREF(object), 1)
#define NC_SHARE(object) ((void)(object))
#endif
