/* nativecall/dynamiccall.h: calls any callable with a signature known only at run time.
 *
 *     NcCall call;
 *     if (nc_call_prepare(&call, obj, "d:id") < 0) return NULL;
 *     const void *args[] = {&n, &x};                          // an int and a double
 *     int status = nc_call(&call, &y, args);                  // as often as needed
 *     nc_call_release(&call);
 *
 * The signature gives the C types of the caller's arguments and result. nc_call_prepare() picks,
 * once, one of the three ways of CEP 1000 and stores it in `way`:
 *
 *   NC_WAY_EXACT      obj has an entry with this signature; its C function is called
 *                     (registercall.h)
 *   NC_WAY_PROMOTED   obj has an entry that the call can be promoted to, such as "d:dd" or "f:qd"
 *                     in this example. The entry's argument types hold every value of the caller's
 *                     types, and the caller's result type holds every result. If there are several
 *                     such entries, the first with the least widening is used. No conversion loses
 *                     precision, so int64 is not promoted to double.
 *   NC_WAY_BOXED      Python calls obj with the arguments converted to Python objects
 *
 * Entries come from native callables and their views, and from find() and entry() of types with
 * __nativecall_api__. Function objects of other libraries are called through Python; to avoid that,
 * convert them to native callables with nativecall.wrap().
 *
 * Types. Integers, floats, complex numbers, pointers and objects. Object arguments are borrowed
 * references; object results are new references. NC_WAY_BOXED passes a pointer to Python as an int,
 * and NULL as None. Native callables do not accept or return such ints. A signature may have up to
 * NC_CALL_MAX_ARGUMENTS arguments. Structs, views and variadic signatures raise ValueError; pass a
 * pointer instead.
 *
 * The GIL. nc_call() needs the GIL and returns 0, or -1 with an exception. It releases the GIL
 * around an entry with NC_FLAG_RELEASE_GIL. It checks for an exception after entries with
 * NC_ERRORS_PYTHON, and after entries whose flags say that they run Python code. Entries with other
 * error conventions are called through Python, which raises their errors. Such a call omits the
 * argument of NC_ERRORS_ARGUMENT.
 *
 * nc_call_nogil() is for threads without the GIL. It never uses an entry that needs the GIL or
 * reports failures. So its entry and its way (`nogil_way`) may differ from those of nc_call(). It
 * returns NC_OK. If there is no suitable entry, it calls nothing and returns NC_E_GIL without an
 * exception.
 *
 * Threads. Calls do not modify a prepared call: any number of threads may use it at once. It keeps
 * obj alive and calls the function that obj had when nc_call_prepare() ran. Code that runs during
 * nc_call() may release the call, because obj stays alive until nc_call() returns. That code must
 * not move the NcCall. */
#ifndef NATIVECALL_DYNAMICCALL_H
#define NATIVECALL_DYNAMICCALL_H

#include "nativeapi.h"
#include "nativecallable.h"
#include "detail/core/signaturetext.h"
#include "detail/promotion.h"
#include "detail/registercall.h"
#include "detail/values.h"

NC_C_BEGIN

enum { NC_WAY_EXACT, NC_WAY_PROMOTED, NC_WAY_BOXED };

/* How to call the chosen entry; private to this header. */
typedef struct {
    int cost;                                      /* total widening; 0: exact */
    NcRegisterCall how;                            /* how to call the entry's function */
    NcCallType targets[NC_CALL_MAX_ARGUMENTS + 1]; /* the entry's types; `text` may dangle */
} NcCallChoice;

/* A prepared call. */
typedef struct {
    PyObject *callable; /* owned */
    size_t count;       /* arguments */
    size_t boxed;       /* arguments passed to Python */

    /* For nc_call(). */
    void *function;  /* NULL: call through Python */
    uintptr_t flags; /* NC_FLAG_* and NC_ERRORS_* of the entry */
    int way;         /* NC_WAY_* */

    /* For nc_call_nogil(). Without a suitable entry: NC_WAY_BOXED and NULL. */
    int nogil_way;
    void *nogil_function;

    /* Private to this header. */
    NcCallChoice choice;
    NcCallChoice nogil_choice;
    NcCallType types[NC_CALL_MAX_ARGUMENTS + 1]; /* the caller's, result first; `text` dangles */
} NcCall;

/* A value of any NcCallType. */
typedef union {
    int64_t integer;
    double parts[2];
    long double wide;
    void *pointer;
} NcCallCell;

/* ---- prepare --------------------------------------------------------------------------------- */

/* Flags that exclude an entry from native calls: the first set with the GIL, the second without it.
 * The first set allows NC_ERRORS_NONE and NC_ERRORS_PYTHON: every other error convention has a bit
 * that NC_ERRORS_PYTHON lacks. */
#define NC_CALL_REFUSE (NC_ERRORS_MASK & ~NC_ERRORS_PYTHON)
#define NC_CALL_REFUSE_NOGIL (NC_ERRORS_MASK | NC_FLAG_NEEDS_GIL)

/* Choose an entry if it needs less widening than the entry chosen so far. The choices for calls
 * with and without the GIL are separate. */
NC_STATIC void nc_call_offer(NcCall *call, const PyNativeCallableEntry *entry)
{
    const char *signature = entry->signature;
    const uintptr_t flags = entry->flags;
    void *function = nc_calltable_funcptr(entry);
    NcCallChoice choice;
    const int nogil = nc_calltable_flags_suit(flags, NC_CALL_REFUSE_NOGIL);
    size_t count;

    if (!nc_calltable_flags_suit(flags, 0) ||
        nc_call_types(signature, choice.targets, &count) != NC_OK || count != call->count ||
        nc_registercall_prepare(signature, strlen(signature), &choice.how) != NC_OK) {
        return;
    }
    choice.cost = 0;
    for (size_t i = 0; i <= count; i++) {
        int step;
        if (i == 0 && call->types[0].kind == NC_KIND_VOID) {
            /* Refuse an object result that the caller does not want: it would leak. */
            const int kind = choice.targets[0].kind;
            step = kind == NC_KIND_OBJECT ? -1 : kind != NC_KIND_VOID;
        } else {
            step = i == 0 ? nc_call_widening(&choice.targets[0], &call->types[0])
                          : nc_call_widening(&call->types[i], &choice.targets[i]);
        }
        if (step < 0) {
            return;
        }
        choice.cost += step;
    }
    if (!nc_calltable_flags_suit(flags, NC_CALL_REFUSE)) {
        call->boxed -= choice.cost == 0 && count != 0 && call->boxed == count &&
                       choice.targets[count].kind == NC_KIND_POINTER &&
                       (flags & NC_ERRORS_MASK) == NC_ERRORS_ARGUMENT;
        return;
    }
    if (call->function == NULL || choice.cost < call->choice.cost) {
        call->function = function;
        call->flags = flags;
        call->way = choice.cost == 0 ? NC_WAY_EXACT : NC_WAY_PROMOTED;
        call->choice = choice;
    }
    if (nogil && (call->nogil_function == NULL || choice.cost < call->nogil_choice.cost)) {
        call->nogil_function = function;
        call->nogil_way = choice.cost == 0 ? NC_WAY_EXACT : NC_WAY_PROMOTED;
        call->nogil_choice = choice;
    }
}

/* Search all entries of obj for a canonical signature. Return 0, or -1 with an exception. */
NC_STATIC int nc_call_search(NcCall *call, PyObject *obj, const char *signature)
{
    const uintptr_t refuse[2] = {NC_CALL_REFUSE, NC_CALL_REFUSE_NOGIL};
    const PyNativeCallableEntry *entry = NULL;
    const NcNativeApi *api = NULL;
    size_t position = 0;

    while ((entry = nc_native_next(obj, entry)) != NULL) {
        nc_call_offer(call, entry);
    }
    if (call->function != NULL) {
        return 0;
    }
    obj = nc_abi_behind(obj);
    if (nc_nativeapi_of(obj, &api) < 0) {
        return -1;
    }
    for (size_t i = 0; api != NULL && i < 2; i++) { /* entry() may omit what find() finds */
        if (nc_nativeapi_find(obj, signature, refuse[i], &entry) < 0) {
            return -1;
        }
        if (entry != NULL) {
            nc_call_offer(call, entry);
        }
    }
    while ((entry = nc_nativeapi_entry(obj, api, &position)) != NULL) {
        nc_call_offer(call, entry);
    }
    return 0;
}

/* Format of a signature in messages; its arguments are the text and nc_call_ellipsis(text). */
#define NC_CALL_SHOWN "'%.200s%s'"

NC_STATIC_INLINE const char *nc_call_ellipsis(const char *signature)
{
    return strlen(signature) > 200 ? "..." : "";
}

/* Prepare to call obj with a signature in any spelling. On success, return 0; you must release the
 * call later. Return -1 with ValueError for an unsuitable signature, or with TypeError for an
 * unsuitable obj. GIL required. */
NC_STATIC int nc_call_prepare(NcCall *call, PyObject *obj, const char *signature)
{
    char text[NC_SIGNATURE_MAX_LENGTH + 1];
    size_t length;

    memset(call, 0, sizeof *call);
    call->way = NC_WAY_BOXED;
    call->nogil_way = NC_WAY_BOXED;
    if (obj == NULL) {
        PyErr_SetString(PyExc_SystemError, "nc_call_prepare was called with NULL as the object");
        return -1;
    }
    int status = nc_signature_canonical(signature, strlen(signature), text, sizeof text, &length);
    if (status != NC_OK) {
        PyErr_Format(PyExc_ValueError, NC_CALL_SHOWN " is not a signature: %s", signature,
                     nc_call_ellipsis(signature), nc_status_text(status));
        return -1;
    }
    (void)PyCustomSlots_Import();
    status = nc_call_types(text, call->types, &call->count);
    if (status != NC_OK) {
        PyErr_Format(PyExc_ValueError,
                     status == NC_E_RANGE ? NC_CALL_SHOWN " has more than %d arguments"
                                          : NC_CALL_SHOWN
                         " has a struct, a view, a complex long double or variadic arguments, "
                         "which calls built at run time cannot pass; pass a pointer",
                     text, nc_call_ellipsis(text), NC_CALL_MAX_ARGUMENTS);
        return -1;
    }
    call->boxed = call->count;
    call->callable = Py_NewRef(obj);
    status = nc_call_search(call, obj, text);
    if (status == 0 && call->function == NULL && !PyCallable_Check(obj)) {
        PyErr_Format(PyExc_TypeError,
                     "no function for " NC_CALL_SHOWN
                     " in %R, which is not callable from Python either",
                     text, nc_call_ellipsis(text), obj);
        status = -1;
    }
    if (status < 0) {
        Py_CLEAR(call->callable);
    }
    return status;
}

/* Release a prepared call. GIL required. A second release does nothing. */
NC_STATIC_INLINE void nc_call_release(NcCall *call)
{
    call->function = NULL;
    call->nogil_function = NULL;
    Py_CLEAR(call->callable); /* last, because a finalizer may re-enter this function */
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* Convert a C value to Python. Return a new reference, or NULL with an exception. */
NC_STATIC PyObject *nc_call_box(const NcCallType *type, const void *at)
{
    void *pointer;
    switch (type->kind) {
    case NC_KIND_BOOL:
        return PyBool_FromLong(nc_read_integer(type->code, at) != 0);
    case NC_KIND_INT:
        return nc_scalar_is_signed(type->code)
                   ? PyLong_FromLongLong((long long)nc_read_integer(type->code, at))
                   : PyLong_FromUnsignedLongLong(nc_read_integer(type->code, at));
    case NC_KIND_FLOAT:
        return nc_box_longdouble(nc_read_float(type->code, at));
    case NC_KIND_COMPLEX:
        return PyComplex_FromDoubles(
            (double)nc_read_float(type->code, at),
            (double)nc_read_float(type->code, (const char *)at + type->size / 2));
    default:
        memcpy(&pointer, at, sizeof pointer);
        if (type->kind != NC_KIND_OBJECT) {
            return nc_box_pointer(pointer);
        }
        if (pointer == NULL) {
            PyErr_SetString(PyExc_ValueError, "an object argument must not be NULL");
            return NULL;
        }
        return Py_NewRef((PyObject *)pointer);
    }
}

/* Convert a Python result to a C integer. Return 0, or -1 with an exception. */
NC_STATIC int nc_call_unbox_integer(const NcCallType *type, PyObject *result, void *at)
{
    const char name[2] = {type->code, '\0'};
    const int is_signed = nc_scalar_is_signed(type->code);
    const uint64_t most = ~UINT64_C(0) >> (64 - 8 * type->size) >> is_signed;
    unsigned long long bits;

    if (nc_integer(result, is_signed ? -(int64_t)most - 1 : 0, most, name, &bits) < 0) {
        return -1;
    }
    nc_write_integer(type->code, bits, at);
    return 0;
}

/* Store a number as a C float or as one part of a C complex number. Return 0, or -1 with
 * OverflowError. */
NC_STATIC int nc_call_unbox_float(const NcCallType *type, PyObject *result, double number, void *at)
{
    char name[3] = "Z";
    name[type->kind == NC_KIND_COMPLEX] = type->code;
    nc_write_float(type->code, (long double)number, at);
    long double held = nc_read_float(type->code, at);
    return nc_overflows((long double)number, (double)held) ? nc_unbox_overflow(result, name) : 0;
}

/* Convert a Python result to a C value. Return 0, or -1 with an exception. */
NC_STATIC int nc_call_unbox(const NcCallType *type, PyObject *result, void *at)
{
    NC_BOOL truth;
    double number;
    void *pointer;
    Py_complex both;
    switch (type->kind) {
    case NC_KIND_VOID:
        return 0;
    case NC_KIND_BOOL:
        if (nc_unbox_boolean(result, &truth) < 0) {
            return -1;
        }
        nc_write_integer(type->code, truth, at);
        return 0;
    case NC_KIND_INT:
        return nc_call_unbox_integer(type, result, at);
    case NC_KIND_FLOAT:
        return nc_unbox_double(result, &number) < 0 ? -1
                                                    : nc_call_unbox_float(type, result, number, at);
    case NC_KIND_COMPLEX:
        both = PyComplex_AsCComplex(result);
        if (both.real == -1.0 && PyErr_Occurred()) {
            return -1;
        }
        return nc_call_unbox_float(type, result, both.real, at) < 0
                   ? -1
                   : nc_call_unbox_float(type, result, both.imag, (char *)at + type->size / 2);
    default:
        if (type->kind == NC_KIND_OBJECT) {
            pointer = Py_NewRef(result);
        } else if (nc_unbox_pointer(result, &pointer) < 0) {
            return -1;
        }
        memcpy(at, &pointer, sizeof pointer);
        return 0;
    }
}

/* Call through Python. Return 0, or -1 with an exception. */
NC_STATIC int nc_call_boxed(const NcCall *call, void *result, const void *const *args)
{
    PyObject *values[NC_CALL_MAX_ARGUMENTS + 1];
    PyObject *callable = call->callable;
    size_t made = 0;
    int status = -1;

    if (callable == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "a prepared call was used after its release");
        return -1;
    }
    Py_INCREF(callable);
    while (made < call->boxed &&
           (values[made + 1] = nc_call_box(&call->types[made + 1], args[made])) != NULL) {
        made++;
    }
    PyObject *object = nc_boxed_call(callable, values, made, made == call->boxed);
    Py_DECREF(callable);
    if (object != NULL) {
        status = result != NULL ? nc_call_unbox(&call->types[0], object, result) : 0;
        Py_DECREF(object);
    }
    return status;
}

/* Call the C function, exact or promoted. */
NC_STATIC void nc_call_native(const NcCall *call, void *function, const NcCallChoice *choice,
                              void *result, const void *const *args)
{
    const void *widened[NC_CALL_MAX_ARGUMENTS];
    NcCallCell cells[NC_CALL_MAX_ARGUMENTS + 1];

    if (choice->cost == 0) {
        nc_registercall(&choice->how, function, result, args);
        return;
    }
    for (size_t i = 0; i < call->count; i++) {
        nc_call_widen(&call->types[i + 1], args[i], &choice->targets[i + 1], &cells[i + 1]);
        widened[i] = &cells[i + 1];
    }
    nc_registercall(&choice->how, function, &cells[0], widened);
    if (result != NULL && call->types[0].kind != NC_KIND_VOID) {
        nc_call_widen(&choice->targets[0], &cells[0], &call->types[0], result);
    }
}

/* Check whether a native call of `callable` failed. If so, set *object to NULL and return -1 with
 * an exception. Otherwise return 0, and release *object if it is not `wanted`. Even without an
 * error convention, a function that runs Python code may set an exception. */
NC_STATIC int nc_call_outcome(const NcCall *call, PyObject *callable, PyObject **object, int wanted)
{
    const uintptr_t raising = NC_ERRORS_MASK | NC_FLAG_NEEDS_GIL | NC_FLAG_TAKES_GIL;
    int status = (call->flags & raising) != 0 && PyErr_Occurred() ? -1 : 0;
    if (object != NULL) {
        if (*object == NULL && status == 0) {
            status = -1;
            if (!PyErr_Occurred()) {
                PyErr_Format(
                    PyExc_SystemError,
                    "the function of %R returned a NULL object without setting an exception",
                    callable);
            }
        }
        if (status < 0 || !wanted) {
            Py_CLEAR(*object);
        }
    }
    return status;
}

/* Call with the GIL. args[i] points to the i-th argument. `result` points to memory for the result;
 * pass NULL if there is no result or you do not want it. Return 0, or -1 with an exception. */
NC_NOINLINE NC_OPAQUE int nc_call(const NcCall *call, void *result, const void *const *args)
{
    const int gives_object = call->types[0].kind == NC_KIND_OBJECT;
    PyObject *callable = call->callable;
    PyObject *object = NULL;
    void *target = gives_object ? (void *)&object : result;
    if (call->function == NULL) {
        return nc_call_boxed(call, result, args);
    }
    Py_INCREF(callable); /* the callee may release the call */
    /* NC_FLAG_NEEDS_GIL and error conventions override NC_FLAG_RELEASE_GIL. */
    if ((call->flags & (NC_FLAG_RELEASE_GIL | NC_FLAG_NEEDS_GIL | NC_ERRORS_MASK)) ==
        NC_FLAG_RELEASE_GIL) {
        PyThreadState *thread = PyEval_SaveThread();
        nc_call_native(call, call->function, &call->choice, target, args);
        PyEval_RestoreThread(thread);
    } else {
        nc_call_native(call, call->function, &call->choice, target, args);
    }
    int status = nc_call_outcome(call, callable, gives_object ? &object : NULL, result != NULL);
    Py_DECREF(callable);
    if (gives_object && result != NULL) {
        memcpy(result, &object, sizeof object);
    }
    return status;
}

/* Call without the GIL; the arguments are those of nc_call(). If no entry may be called without the
 * GIL, call nothing and return NC_E_GIL. Otherwise return NC_OK. */
NC_NOINLINE NC_OPAQUE int nc_call_nogil(const NcCall *call, void *result, const void *const *args)
{
    if (call->nogil_function == NULL || (result == NULL && call->types[0].kind == NC_KIND_OBJECT)) {
        return NC_E_GIL;
    }
    nc_call_native(call, call->nogil_function, &call->nogil_choice, result, args);
    return NC_OK;
}

NC_C_END

#endif
