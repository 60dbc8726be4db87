/* csrc/platform/lock.h: locks and critical sections that builds with the GIL do not need.
 *
 * With the GIL, everything here does nothing: the GIL serializes the same code. Without it:
 *
 * - NC_LOCK (detail/shared.h) guards a few statements that run no Python code.
 * - NC_FOUND returns whether it could add a reference to an object that a list without references
 *   holds. Another thread may be freeing the object. The list calls NC_FINDABLE for each object.
 * - NC_SHARE lets threads use an object without counting their references, so that they do not
 *   contend for its count. Only the collector frees such an object (PEP 703).
 * - NC_OWNED returns whether this thread counts an object's references without contention, as it
 *   does for each object that it creates. NC_THREAD is the number of this thread. A thread may get
 *   the number of one that ended.
 * - NC_BEGIN_SECTION and NC_END_SECTION enclose a critical section of an object (PEP 703).
 * - NC_CRITICAL(function, Type) wraps a method or getter that changes its object in a critical
 *   section; NC_WITH_LOCK(function) names the result. The function may run Python code.
 *   Then another thread may enter, as it may with the GIL.
 * - NC_ALONE(change, given) calls change(any object, given) while all other threads are stopped, as
 *   CPython does to change a type or a function. A thread stops only where it waits or runs Python
 *   code. So it may read, without a lock, what only NC_ALONE changes, and use borrowed references
 *   up to that point. `change` returns 0. It must not allocate or free memory or change counts. */
#pragma once

#include "nativecall/detail/shared.h"

#if defined(Py_GIL_DISABLED)
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
#define NC_OWNED(object) _Py_IsOwnedByCurrentThread((PyObject *)(object))
#define NC_THREAD _Py_ThreadId()
#define NC_SHARE(object) ((void)PyUnstable_Object_EnableDeferredRefcount((PyObject *)(object)))
#define NC_ALONE(change, given) PyUnstable_GC_VisitObjects(change, given)
#else
#define NC_PER_THREAD /* a cache that each thread has without the GIL, and all share with it */
#define NC_CRITICAL(function, Type)
#define NC_WITH_LOCK(function) function
#define NC_BEGIN_SECTION(object) {
#define NC_END_SECTION() }
#define NC_FINDABLE(object) ((void)(object))
#define NC_FOUND(object) (Py_INCREF(object), 1)
#define NC_OWNED(object) ((void)(object), 1)
#define NC_THREAD 0u
#define NC_SHARE(object) ((void)(object))
#define NC_ALONE(change, given) ((void)change(NULL, given))
#endif

typedef struct {
    nc_atomic_ptr *place;
    void *value;
} NcSwap;

static inline int nc_swap(PyObject *Py_UNUSED(any), void *given)
{
    NcSwap *swap = (NcSwap *)given;
    void *old = *swap->place;
    *swap->place = swap->value;
    swap->value = old;
    return 0;
}

/* Replace a pointer in NC_ALONE, and return the old one. Release it now: no thread uses it without
 * a reference. */
static inline void *nc_swap_alone(void *place, void *value)
{
    NcSwap swap = {(nc_atomic_ptr *)place, value};
    NC_ALONE(nc_swap, &swap);
    return swap.value;
}

/* Store an object that is created on demand, unless another thread stored one meanwhile. Return the
 * stored object. It is never replaced, because other code may hold a borrowed reference to it.
 * Steals the reference to `made`; returns NULL if `made` is NULL. */
static inline PyObject *nc_keep_first(PyObject **place, PyObject *made)
{
    PyObject *found = NULL;
    if (made == NULL ||
        __atomic_compare_exchange_n(place, &found, made, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        return made;
    }
    Py_DECREF(made);
    return found;
}

/* Return the object that nc_keep_first stored, or NULL. */
static inline PyObject *nc_kept(PyObject *const *place)
{
    return (PyObject *)nc_load_acquire_ptr(place);
}
