/* nativecall/dispatch.h: calls any callable with a signature fixed at compile time.
 *
 *     NC_DISPATCH_PROMOTED(evaluate, double, (double, int),
 *                          NC_PROMOTED(double, (double, double))
 *                          NC_PROMOTED(float, (double, int)));
 *
 *     double y;
 *     if (evaluate(obj, &y, 0.5, 3) < 0) return NULL;
 *
 * This defines evaluate(), the three-way dispatch of CEP 1000, as an inline function. It calls the
 * first of these that exists:
 *
 *   1. exact      an entry with the signature "d:di"
 *   2. promoted   an entry with one of the NC_PROMOTED signatures, tried in order: "d:dd", "f:di".
 *                 C converts arguments and result as for any prototyped call, so -Wconversion
 *                 warns where a promotion may lose precision.
 *   3. boxed      Python calls obj with the arguments converted to Python objects
 *
 * NC_DISPATCH(evaluate, double, (double, int)); omits step 2. Write types as the words of values.h.
 * Up to 8 arguments are possible. Write (nothing) for no arguments. If the result type is
 * `nothing`, pass NULL as the result pointer. A signature is interned when the first object with
 * entries is called.
 *
 * evaluate() needs the GIL. It returns 0, or -1 with an exception. If an entry reports failures or
 * needs the GIL released, evaluate() makes the boxed call instead, because Python calls handle
 * both. The boxed call omits an argument of type `failure` and leaves its target unchanged.
 * evaluate() does not check for an exception after it calls any other entry, so that these calls
 * stay fast. If such a function runs Python code that raises, evaluate() returns 0 with the
 * exception set. So call PyErr_Occurred() once after all calls. (nc_call() of dynamiccall.h checks
 * by itself.)
 *
 * evaluate_nogil() is for threads that do not hold the GIL. It never calls an entry that needs the
 * GIL or reports failures. It returns NC_OK. If obj has no suitable entry, it calls nothing and
 * returns NC_E_GIL. It never sets an exception. It finds no entries until PyCustomSlots_Import(),
 * or a call with the GIL, has found the runtime.
 *
 * If an object's type has __nativecall_api__, evaluate() calls its find() each time;
 * evaluate_nogil() never does. To call find() only once, use callback.h or dynamiccall.h.
 * Source: CEP 1000, "Native dispatch descriptor". */
#ifndef NATIVECALL_DISPATCH_H
#define NATIVECALL_DISPATCH_H

#include "nativeapi.h"
#include "nativecallable.h"
#include "detail/core/base.h"
#include "detail/values.h"

NC_C_BEGIN

/* Skip entries with these flags: the first set in calls with the GIL, the second in calls without
 * it. */
#define NC_DISPATCH_REFUSE (NC_ERRORS_MASK | NC_FLAG_RELEASE_GIL)
#define NC_DISPATCH_REFUSE_NOGIL (NC_ERRORS_MASK | NC_FLAG_NEEDS_GIL)

/* Return the entries of any object. */
NC_NOINLINE const PyNativeCallableEntry *nc_dispatch_entries_else(PyObject *obj)
{
    return NC_ABI_ENTRIES(obj);
}

/* As nc_dispatch_entries_else, with two inline fast paths: for types with exactly our metatype and
 * a table offset, and for ordinary types, which have no table. */
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

/* Intern a canonical signature if there is a runtime. Needs no GIL. */
NC_COLD const char *nc_dispatch_intern(const char **kept, const char *text)
{
    const char *interned = NULL;
    if (nc_runtime != NULL &&
        nc_runtime->intern(nc_runtime->registry, text, strlen(text), &interned) == 0) {
        nc_store_release_ptr(kept, interned);
    }
    return interned;
}

/* Return the first entry with this signature and suitable flags, or NULL. */
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

/* For a call with the GIL that found no entry: return 1 to look again, 0 to give up, or -1 with an
 * exception. Look again if the runtime was found only now. Also look again if the type has
 * __nativecall_api__; then store its interface in *api. */
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

/* ---- implementation of the macros ------------------------------------------------------------ */

/* One attempt: if obj has an entry of this signature, call it and return 1. */
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

/* As NC_DISPATCH, with a sequence of NC_PROMOTED(...). */
#define NC_DISPATCH_PROMOTED(name, result, words, promotions)                                      \
    NC_BOXED_CALL(name, result, words)                                                             \
    /* Return 1 if a native function was called, else 0. */                                        \
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
    /* Look again, then call through Python. */                                                    \
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

/* ---- public macros --------------------------------------------------------------------------- */

/* Use at file scope: name, result type, argument types. */
#define NC_DISPATCH(name, result, words) NC_DISPATCH_PROMOTED(name, result, words, )

/* A signature that the call may be promoted to. It must have the same number of arguments. If one
 * of the two results is `nothing`, the other must be too. */
#define NC_PROMOTED(result, words)                                                                 \
    (void)sizeof(char[nc_arguments == NC_ARITY(words) && nc_gives == NC_GIVES(result) ? 1 : -1]);  \
    NC_DISPATCH_TRY(result, words)

NC_C_END

#endif
