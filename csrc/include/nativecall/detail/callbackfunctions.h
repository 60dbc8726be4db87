/* nativecall/detail/callbackfunctions.h: declares callback functions, one line for each signature
 * that a consumer accepts.
 *
 *     NC_CALLBACK_DECLARE(integrand, double, (double), NAN);
 *     NC_CALLBACK_DECLARE_WITH_DATA(integrand_data, double, (double, user_data), NAN);
 *     NC_CALLBACK_DECLARE(observer, nothing, (double, size), 0);
 *     NC_CALLBACK_DECLARE(checked, double, (double, failure), 0);
 *
 * name, result type, argument types (up to 8, (nothing) for none; the words are values.h's), and
 * the sentinel: what C gets for a call that failed. Each defines `static const NcCallbackFunction
 * name`, at file scope. Where the last word is failure, that int is made 1 when the call failed.
 *
 * Whole calls. Where an argument alone does not tell how it becomes a Python object (a pointer
 * needs its length), write the call yourself:
 *
 *     static int call_cost(PyObject *callable, double *result, int n, const double *x) ...
 *     NC_CALLBACK_DECLARE_CUSTOM(cost, double, "d:i&d", (int n, const double *x), (n, x), NAN,
 *                              call_cost);
 *
 * call_cost runs with the GIL and gives 0 with *result, or -1 with an exception.
 * NC_CALLBACK_DECLARE_CUSTOM_WITH_DATA gets the name and the index of the user_data parameter
 * before the sentinel; the call gets all parameters. */
#ifndef NATIVECALL_CALLBACKFUNCTIONS_H
#define NATIVECALL_CALLBACKFUNCTIONS_H

#include "callbackcalls.h"
#include "values.h"

NC_C_BEGIN

/* ---- the macros' workings -------------------------------------------------------------------- */

/* What becomes of the user_data argument, and which it is. */
#define NC_M_DATA(i, word) NC_EXPAND(NC_PASTE(NC_OF(DATA, word), _TAKE)(nc_argument_##i))
#define NC_M_INDEX(i, word) NC_EXPAND(NC_PASTE(NC_OF(DATA, word), _IS)) ? i:
#define NC_DATA_NO_TAKE(value) (void)value;
#define NC_DATA_NO_IS 0
#define NC_DATA_YES_TAKE(value) nc_data = value;
#define NC_DATA_YES_IS 1
#define NC_DATA_TOLD_TAKE(value) (void)value;
#define NC_DATA_TOLD_IS 0

/* What C code is told of a call that failed. */
#define NC_M_TELL(i, word) NC_EXPAND(NC_PASTE(NC_OF(DATA, word), _TELL)(nc_argument_##i))
#define NC_TELL(words) NC_EXPAND(NC_EACH(NC_M_TELL, NC_LIST words))
#define NC_DATA_NO_TELL(value)
#define NC_DATA_NONE_TELL(value)
#define NC_DATA_YES_TELL(value)
#define NC_DATA_TOLD_TELL(value) *value = 1;

/* One call on behalf of a callback. */
#define NC_CALLBACK_RUN(name, result, more_parameters, more_names, sentinel, call, tell)           \
    NC_STATIC NC_OF(STORAGE, result) name##_run(NcCallback *nc_callback NC_LIST more_parameters)   \
    {                                                                                              \
        NcCallbackCall nc_this;                                                                    \
        NC_OF(STORAGE, result) nc_result = (sentinel);                                             \
        if (nc_callback_enter(nc_callback, &nc_this)) {                                            \
            int nc_status = call(nc_this.state->callable, &nc_result NC_LIST more_names);          \
            if (nc_callback_leave(&nc_this, nc_status) < 0) {                                      \
                nc_result = (sentinel);                                                            \
                tell                                                                               \
            }                                                                                      \
        } else {                                                                                   \
            tell                                                                                   \
        }                                                                                          \
        return nc_result;                                                                          \
    }

#define NC_CALLBACK_POOLED(name, result, parameters, more_names, slot)                             \
    NC_STATIC NC_OF(TYPE, result) name##_##slot parameters                                         \
    {                                                                                              \
        NC_RETURN(result) name##_of(slot NC_LIST more_names);                                      \
    }
#define NC_CALLBACK_POOL_4(name, result, parameters, more_names, a, b, c, d)                       \
    NC_CALLBACK_POOLED(name, result, parameters, more_names, a)                                    \
    NC_CALLBACK_POOLED(name, result, parameters, more_names, b)                                    \
    NC_CALLBACK_POOLED(name, result, parameters, more_names, c)                                    \
    NC_CALLBACK_POOLED(name, result, parameters, more_names, d)

/* `parameters` as they are written after a function's name; the same with a comma before each, and
 * the arguments' names so. */
#define NC_CALLBACK_DEFINE(name, result, text, parameters, more_parameters, more_names, sentinel,  \
                           call, tell)                                                             \
    NC_CALLBACK_RUN(name, result, more_parameters, more_names, sentinel, call, tell)               \
    static NcCallbackSlots name##_slots;                                                           \
    NC_NOINLINE NC_OF(STORAGE, result) name##_of(int nc_slot NC_LIST more_parameters)              \
    {                                                                                              \
        return name##_run(nc_callback_owner(&name##_slots, nc_slot) NC_LIST more_names);           \
    }                                                                                              \
    NC_CALLBACK_POOL_4(name, result, parameters, more_names, 0, 1, 2, 3)                           \
    NC_CALLBACK_POOL_4(name, result, parameters, more_names, 4, 5, 6, 7)                           \
    NC_CALLBACK_POOL_4(name, result, parameters, more_names, 8, 9, 10, 11)                         \
    NC_CALLBACK_POOL_4(name, result, parameters, more_names, 12, 13, 14, 15)                       \
    static const NcFunction name##_functions[NC_CALLBACK_POOL] =                                   \
        {(NcFunction)name##_0,  (NcFunction)name##_1,  (NcFunction)name##_2,                       \
         (NcFunction)name##_3,  (NcFunction)name##_4,  (NcFunction)name##_5,                       \
         (NcFunction)name##_6,  (NcFunction)name##_7,  (NcFunction)name##_8,                       \
         (NcFunction)name##_9,  (NcFunction)name##_10, (NcFunction)name##_11,                      \
         (NcFunction)name##_12, (NcFunction)name##_13, (NcFunction)name##_14,                      \
         (NcFunction)name##_15};                                                                   \
    NC_STATIC const NcCallbackFunction name = {text, -1, name##_functions, &name##_slots}

#define NC_CALLBACK_DEFINE_WITH_DATA(name, result, text, parameters, more_parameters, more_names,  \
                                     index, take, sentinel, call, tell)                            \
    NC_CALLBACK_RUN(name, result, more_parameters, more_names, sentinel, call, tell)               \
    NC_STATIC NC_OF(TYPE, result) name##_data parameters                                           \
    {                                                                                              \
        void *nc_data = NULL;                                                                      \
        take NC_RETURN(result) name##_run((NcCallback *)nc_data NC_LIST more_names);               \
    }                                                                                              \
    static const NcFunction name##_functions[1] = {(NcFunction)name##_data};                       \
    enum { name##_has_a_user_data_argument = 1 / ((index) >= 0) };                                 \
    NC_STATIC const NcCallbackFunction name = {text, index, name##_functions, NULL}

/* ---- what consumers write -------------------------------------------------------------------- */

#define NC_CALLBACK_DECLARE(name, result, words, sentinel)                                         \
    NC_BOXED_CALL(name, result, words)                                                             \
    NC_CALLBACK_DEFINE(name, result, NC_SIGNATURE(result, words), (NC_PARAMETERS(words)),          \
                       (NC_MORE_PARAMETERS(words)), (NC_MORE_NAMES(words)), sentinel, name##_call, \
                       NC_TELL(words))

#define NC_CALLBACK_DECLARE_WITH_DATA(name, result, words, sentinel)                               \
    NC_BOXED_CALL(name, result, words)                                                             \
    NC_CALLBACK_DEFINE_WITH_DATA(                                                                  \
        name, result, NC_SIGNATURE(result, words), (NC_PARAMETERS(words)),                         \
        (NC_MORE_PARAMETERS(words)), (NC_MORE_NAMES(words)),                                       \
        NC_EXPAND(NC_EACH(NC_M_INDEX, NC_LIST words)) - 1,                                         \
        NC_EXPAND(NC_EACH(NC_M_DATA, NC_LIST words)), sentinel, name##_call, NC_TELL(words))

#define NC_CALLBACK_DECLARE_CUSTOM(name, result, text, parameters, names, sentinel, call)          \
    NC_CALLBACK_DEFINE(name, result, text, parameters, (, NC_LIST parameters), (, NC_LIST names),  \
                       sentinel, call, )

#define NC_CALLBACK_DECLARE_CUSTOM_WITH_DATA(name, result, text, parameters, names, data, index,   \
                                             sentinel, call)                                       \
    NC_CALLBACK_DEFINE_WITH_DATA(name, result, text, parameters, (, NC_LIST parameters),           \
                                 (, NC_LIST names), index, nc_data = data;                         \
                                 , sentinel, call, )

NC_C_END

#endif
