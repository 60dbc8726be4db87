/* nativecall/dispatch.h: calls any callable by a signature that is fixed at compile time.
 *
 *     NC_DISPATCH_PROMOTED(evaluate, double, (double, int),
 *                          NC_PROMOTED(double, (double, double))
 *                          NC_PROMOTED(float, (double, int)));
 *
 *     double y;
 *     if (evaluate(obj, &y, 0.5, 3) < 0) return NULL;
 *
 * The three-way dispatch of CEP 1000, as an inline function:
 *
 *   1. exact      an entry of the signature "d:di": its C function is called
 *   2. promoted   else, in the order given, an entry of another signature, "d:dd" or "f:di" here:
 *                 arguments and result are converted as C converts them in a call with a prototype,
 *                 so that -Wconversion tells where a promotion may lose something
 *   3. boxed      else the arguments become Python objects, and Python calls
 *
 * NC_DISPATCH(evaluate, double, (double, int)); has no second way. Types are the words of values.h,
 * up to 8 arguments, (nothing) for none; where the result is `nothing`, the pointer for it is NULL.
 * Each signature is interned when an object with entries first comes in.
 *
 * evaluate() needs the GIL. 0, or -1 with an exception. Entries that report failures, or want the
 * GIL dropped around them, go the third way, which does right by both; the argument `failure` is
 * not passed to Python, and what it points to stays as it is. Others are not asked, so that a call
 * costs no more than the function: where one runs Python code that raises, evaluate() is 0 and the
 * exception is set. PyErr_Occurred() tells, once after all calls; nc_call() of dynamiccall.h looks
 * itself.
 *
 * evaluate_nogil() is the same for threads that do not hold the GIL, or are not to use it. It calls
 * what may be called there: entries that neither need the GIL nor report failures. NC_OK;
 * NC_E_GIL: only with the GIL can obj be called so; nothing was called. No exception is ever set.
 * It finds nothing until a call with the GIL, or PyCustomSlots_Import(), has found the runtime.
 *
 * Objects of types that have __nativecall_api__ are asked in each call of evaluate(), not of
 * evaluate_nogil(). To ask once, take them through callback.h or dynamiccall.h.
 * Source: CEP 1000, "Native dispatch descriptor". */
#ifndef NATIVECALL_DISPATCH_H
#define NATIVECALL_DISPATCH_H

#include "nativeapi.h"
#include "nativecallable.h"
#include "detail/core/base.h"
#include "detail/values.h"

NC_C_BEGIN

/* Which entries the first two ways pass over, with the GIL and without. */
#define NC_DISPATCH_REFUSE (NC_ERRORS_MASK | NC_FLAG_RELEASE_GIL)
#define NC_DISPATCH_REFUSE_NOGIL (NC_ERRORS_MASK | NC_FLAG_NEEDS_GIL)

/* The entries of any object. */
NC_NOINLINE const PyNativeCallableEntry *nc_dispatch_entries_else(PyObject *obj)
{
    return NC_ABI_ENTRIES(obj);
}

/* The same, without a call for objects of the exact metatype with an offset, and for those that
 * can have no table. */
NC_HOT_INLINE const PyNativeCallableEntry *nc_dispatch_entries(PyObject *obj)
{
    PyTypeObject *type = Py_TYPE(obj);
    PyTypeObject *metatype = Py_TYPE((PyObject *)type);
    if (NC_LIKELY(metatype == nc_metatype)) {
        const void *offset =
            NC_ABI_LOAD(&((PyHeapExtensibleTypeObject *)(void *)type)->etp_obj_custom_slots_offset);
        if (NC_LIKELY(offset != NULL)) {
            return ((const PyNativeCallableTable *)NC_ABI_LOAD((const char *)obj +
                                                               (intptr_t)offset))
                ->entries;
        }
    } else if (metatype == &PyType_Type && type != &PyCFunction_Type) {
        return nc_abi_nothing.entries;
    }
    return nc_dispatch_entries_else(obj);
}

/* Interns a canonical signature, once there is a runtime; needs no GIL then. */
NC_COLD const char *nc_dispatch_intern(const char **kept, const char *text)
{
    const char *interned = NULL;
    if (nc_runtime != NULL &&
        nc_runtime->intern(nc_runtime->registry, text, strlen(text), &interned) == 0) {
        nc_store_release_ptr(kept, interned);
    }
    return interned;
}

/* The first of these entries with a signature and flags that suit, or NULL. */
NC_HOT_INLINE const PyNativeCallableEntry *nc_dispatch_find(const PyNativeCallableEntry *entry,
                                                            const char **kept, const char *text,
                                                            uintptr_t refuse)
{
    const char *signature = (const char *)nc_load_relaxed_ptr(kept);
    const void *found = NC_ABI_LOAD(&entry->signature);
    if (NC_UNLIKELY(signature == NULL) && found != NULL) {
        signature = nc_dispatch_intern(kept, text);
    }
    for (; found != NULL; found = NC_ABI_LOAD(&(++entry)->signature)) {
        if (NC_LIKELY(found == signature) &&
            NC_LIKELY(nc_calltable_flags_suit(entry->flags, refuse))) {
            return entry;
        }
    }
    return NULL;
}

/* Whether a call with the GIL that found nothing is to look again: 1, for entries of a runtime that
 * was not known, or at *api for a type without the metaclass; 0; or -1 with an exception. */
NC_HOT_INLINE int nc_dispatch_again(PyObject *obj, const NcNativeApi **api)
{
    obj = nc_abi_behind(obj);
    if (NC_UNLIKELY(Py_TYPE((PyObject *)Py_TYPE(obj)) != &PyType_Type)) {
        if (nc_runtime == NULL && PyCustomSlots_Import()) {
            return 1;
        }
        if (nc_native_is_exact(obj)) {
            return 0;
        }
    }
    *api = nc_abi_api(Py_TYPE(obj));
    return NC_LIKELY(*api == NULL) ? 0
           : *api == &nc_abi_wrong ? nc_nativeapi_wrong(Py_TYPE(obj))
                                   : 1;
}

/* ---- the macros' workings -------------------------------------------------------------------- */

/* One attempt: leaves the function when obj has an entry of this signature. */
#define NC_DISPATCH_TRY(result, words)                                                             \
    {                                                                                              \
        static const char *nc_kept;                                                                \
        const PyNativeCallableEntry *nc_entry =                                                    \
            nc_api != NULL                                                                         \
                ? nc_abi_ask(nc_object, NC_SIGNATURE(result, words), nc_refuse)                    \
                : nc_dispatch_find(nc_entries, &nc_kept, NC_SIGNATURE(result, words), nc_refuse);  \
        if (nc_entry != NULL) {                                                                    \
            NC_STORE(result, nc_result,                                                            \
                     ((NC_OF(TYPE, result) (*)(NC_EXPAND(NC_COMMA(NC_M_TYPE, NC_LIST words))))(    \
                         uintptr_t)nc_calltable_funcptr(nc_entry))(NC_NAMES(words)));              \
            return 1;                                                                              \
        }                                                                                          \
    }

/* As NC_DISPATCH, with promotions, one NC_PROMOTED(...) behind the other. */
#define NC_DISPATCH_PROMOTED(name, result, words, promotions)                                      \
    NC_BOXED_CALL(name, result, words)                                                             \
    /* 1 when a native function was called, 0 when there is none. */                               \
    NC_HOT_INLINE int name##_native(PyObject *nc_object, const NcNativeApi *nc_api,                \
                                    uintptr_t nc_refuse,                                           \
                                    NC_OF(STORAGE, result) * nc_result NC_MORE_PARAMETERS(words))  \
    {                                                                                              \
        enum { nc_arguments = NC_ARITY(words), nc_gives = NC_GIVES(result) };                      \
        const PyNativeCallableEntry *nc_entries =                                                  \
            nc_api == NULL ? nc_dispatch_entries(nc_object) : NULL;                                \
        NC_DISPATCH_TRY(result, words)                                                             \
        promotions(void) nc_gives;                                                                 \
        return 0;                                                                                  \
    }                                                                                              \
    /* The second look, and Python's call. */                                                      \
    NC_NOINLINE int name##_else(PyObject *nc_object,                                               \
                                NC_OF(STORAGE, result) * nc_result NC_MORE_PARAMETERS(words))      \
    {                                                                                              \
        const NcNativeApi *nc_api = NULL;                                                          \
        const int nc_again = nc_dispatch_again(nc_object, &nc_api);                                \
        if (NC_UNLIKELY(nc_again != 0)) {                                                          \
            if (nc_again > 0 && name##_native(nc_object, nc_api, NC_DISPATCH_REFUSE,               \
                                              nc_result NC_MORE_NAMES(words))) {                   \
                return 0;                                                                          \
            }                                                                                      \
            if (PyErr_Occurred()) {                                                                \
                return -1;                                                                         \
            }                                                                                      \
        }                                                                                          \
        return name##_call(nc_object, nc_result NC_MORE_NAMES(words));                             \
    }                                                                                              \
    NC_STATIC_INLINE int name(PyObject *nc_object,                                                 \
                              NC_OF(STORAGE, result) * nc_result NC_MORE_PARAMETERS(words))        \
    {                                                                                              \
        return NC_LIKELY(name##_native(nc_object, NULL, NC_DISPATCH_REFUSE,                        \
                                       nc_result NC_MORE_NAMES(words)))                            \
                   ? 0                                                                             \
                   : name##_else(nc_object, nc_result NC_MORE_NAMES(words));                       \
    }                                                                                              \
    NC_STATIC_INLINE int name##_nogil(                                                             \
        PyObject *nc_object, NC_OF(STORAGE, result) * nc_result NC_MORE_PARAMETERS(words))         \
    {                                                                                              \
        return NC_LIKELY(name##_native(nc_object, NULL, NC_DISPATCH_REFUSE_NOGIL,                  \
                                       nc_result NC_MORE_NAMES(words)))                            \
                   ? NC_OK                                                                         \
                   : NC_E_GIL;                                                                     \
    }                                                                                              \
    struct name##_is_a_dispatch

/* ---- what consumers write -------------------------------------------------------------------- */

/* At file scope: the name, the result, the arguments. */
#define NC_DISPATCH(name, result, words) NC_DISPATCH_PROMOTED(name, result, words, )

/* A signature to promote to: as many arguments, and `nothing` for `nothing` alone. */
#define NC_PROMOTED(result, words)                                                                 \
    (void)sizeof(char[nc_arguments == NC_ARITY(words) && nc_gives == NC_GIVES(result) ? 1 : -1]);  \
    NC_DISPATCH_TRY(result, words)

NC_C_END

#endif
