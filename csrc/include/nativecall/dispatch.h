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
 * A signature must fit one packed word (packedliteral.h); one that does not is refused by the
 * compiler. Each comparison is then with a number in the instruction stream, and nothing is
 * initialised. An object without a packed table is looked up in its call table: more slowly, with
 * the same result.
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
 * Objects of types that are discovered by __nativecall_api__ go the third way: finding their
 * entries costs as much. Take them through callback.h or dynamiccall.h, which ask once.
 * Source: CEP 1000, "Native dispatch descriptor". */
#ifndef NATIVECALL_DISPATCH_H
#define NATIVECALL_DISPATCH_H

#include "nativecallable.h"
#include "detail/core/base.h"
#include "detail/core/packedliteral.h"
#include "detail/values.h"

NC_C_BEGIN

/* Which entries the first two ways pass over, with the GIL and without. */
#define NC_DISPATCH_REFUSE (NC_ERRORS_MASK | NC_FLAG_RELEASE_GIL)
#define NC_DISPATCH_REFUSE_NOGIL (NC_ERRORS_MASK | NC_FLAG_NEEDS_GIL)

/* ---- the macros' workings -------------------------------------------------------------------- */

/* One attempt: leaves the function when obj has an entry of this signature. */
#define NC_DISPATCH_TRY(result, words)                                                             \
    nc_found = nc_native_function_word(nc_object, NATIVECALL_SIG(NC_SIGNATURE(result, words)),     \
                                       nc_refuse);                                                 \
    if (nc_found != NULL) {                                                                        \
        NC_STORE(result, nc_result,                                                                \
                 ((NC_OF(TYPE, result) (*)(NC_EXPAND(NC_COMMA(NC_M_TYPE, NC_LIST words))))(        \
                     uintptr_t)nc_found)(NC_NAMES(words)));                                        \
        return 1;                                                                                  \
    }

#define NC_DISPATCH_DEFINE(name, result, words, promotions)                                        \
    NC_BOXED_CALL(name, result, words)                                                             \
    /* 1 when a native function was called, 0 when there is none. */                               \
    NC_STATIC_INLINE int name##_native(PyObject *nc_object, uintptr_t nc_refuse,                   \
                                       NC_OF(STORAGE, result) *                                    \
                                           nc_result NC_MORE_PARAMETERS(words))                    \
    {                                                                                              \
        enum { nc_arguments = NC_ARITY(words), nc_gives = NC_GIVES(result) };                      \
        void *nc_found;                                                                            \
        NC_DISPATCH_TRY(result, words)                                                             \
        promotions(void) nc_gives;                                                                 \
        return 0;                                                                                  \
    }                                                                                              \
    NC_STATIC_INLINE int name(PyObject *nc_object,                                                 \
                              NC_OF(STORAGE, result) * nc_result NC_MORE_PARAMETERS(words))        \
    {                                                                                              \
        if (NC_LIKELY(                                                                             \
                name##_native(nc_object, NC_DISPATCH_REFUSE, nc_result NC_MORE_NAMES(words)))) {   \
            return 0;                                                                              \
        }                                                                                          \
        if (NC_UNLIKELY(nc_runtime == NULL) && PyCustomSlots_Import() &&                           \
            name##_native(nc_object, NC_DISPATCH_REFUSE, nc_result NC_MORE_NAMES(words))) {        \
            return 0;                                                                              \
        }                                                                                          \
        return name##_call(nc_object, nc_result NC_MORE_NAMES(words));                             \
    }                                                                                              \
    NC_STATIC_INLINE int name##_nogil(                                                             \
        PyObject *nc_object, NC_OF(STORAGE, result) * nc_result NC_MORE_PARAMETERS(words))         \
    {                                                                                              \
        return NC_LIKELY(name##_native(nc_object, NC_DISPATCH_REFUSE_NOGIL,                        \
                                       nc_result NC_MORE_NAMES(words)))                            \
                   ? NC_OK                                                                         \
                   : NC_E_GIL;                                                                     \
    }                                                                                              \
    struct name##_is_a_dispatch

/* ---- what consumers write -------------------------------------------------------------------- */

/* At file scope: the name, the result, the arguments. */
#define NC_DISPATCH(name, result, words) NC_DISPATCH_DEFINE(name, result, words, )

/* The same with promotions, one NC_PROMOTED(...) behind the other. */
#define NC_DISPATCH_PROMOTED(name, result, words, promotions)                                      \
    NC_DISPATCH_DEFINE(name, result, words, promotions)

/* A signature to promote to: as many arguments, and `nothing` for `nothing` alone. */
#define NC_PROMOTED(result, words)                                                                 \
    (void)sizeof(char[nc_arguments == NC_ARITY(words) && nc_gives == NC_GIVES(result) ? 1 : -1]);  \
    NC_DISPATCH_TRY(result, words)

NC_C_END

#endif
