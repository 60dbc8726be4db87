/* bench/c/lookup.c: what it costs C code to find and call the native function of a Python object.
 *
 * Each way of getting at the function is one function, call_<way>, written as its user writes it
 * and inlined where it is used, as in a consumer that has one place for its calls. Two loops run
 * each way:
 *
 *     <way>_sum     adds the results up: calls overlap only as far as one addition after another
 *     <way>_each    drops the results: calls overlap as far as the processor can
 *
 * The subject (function or object) is a register that the compiler must assume changed before every
 * call, and memory with it, so that nothing is lifted out of a loop. The floor, call_plain, calls a
 * function pointer that is in a register. All reach the same C function, which lies in another
 * library. The loops hold the GIL, which only the ways through Python objects need.
 *
 * Two ways call nothing: `miss` looks whether an object can have entries, and `nothing` does not.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "nativecall/callback.h"
#include "nativecall/dispatch.h"
#include "nativecall/extensibletype.h"

#if defined(__GNUC__)
#define INLINE static inline __attribute__((always_inline))
#define NOINLINE __attribute__((noinline))
#define COLD __attribute__((noinline, cold))
#define CHANGED(variable) __asm__ volatile("" : "+r"(variable) : : "memory")
#define USED(value) __asm__ volatile("" : : "g"(value) : "memory")
#else
#error "the lookup benchmark needs GCC or Clang: its loops rely on their asm statements"
#endif

#define CAPSULE_NAME "double (double)"
#define ARGUMENT 0.5

typedef double (*Function)(double);

/* The subjects of the loops, set by prepare(); every function adds 1. */
static Function subject_plain;       /* the C function itself */
static PyObject *subject_dictionary; /* {key: capsule of the function} */
static PyObject *subject_builtin;    /* a hand-written METH_O function around it */
static PyObject *subject_lambda;     /* a Python function */
static PyObject *subject_callable;   /* nc.wrap(address, "d:d") */
static PyObject *subject_final;      /* of provide.h, with a call table (provider.c) */
static PyObject *subject_open;       /* of provide.h, by tier 2 only */
static PyObject *subject_exported;   /* subject_callable.to_capsule() */
static PyObject *capsule_key;        /* interned */

INLINE double call_plain(Function function, double x)
{
    return function(x);
}

INLINE double call_nothing(PyObject *object, double x)
{
    (void)object;
    return x + 1.0;
}

INLINE double call_capsule(PyObject *dictionary, double x)
{
    PyObject *capsule = PyDict_GetItemWithError(dictionary, capsule_key);
    void *pointer = capsule ? PyCapsule_GetPointer(capsule, CAPSULE_NAME) : NULL;
    return pointer ? ((Function)pointer)(x) : NAN;
}

INLINE double call_boxed(PyObject *callable, double x)
{
    PyObject *args[2] = {NULL, PyFloat_FromDouble(x)};
    PyObject *result;
    double value = NAN;
    if (args[1] == NULL)
        return NAN;
    result = PyObject_Vectorcall(callable, args + 1, 1 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    Py_DECREF(args[1]);
    if (result != NULL) {
        value = PyFloat_AsDouble(result);
        Py_DECREF(result);
    }
    return value;
}

static const char *signature_d_d; /* interned */

/* No entry: as every consumer must, call through Python. */
COLD static double call_otherwise(PyObject *object, double x)
{
    return call_boxed(object, x);
}

INLINE double call_offset(PyObject *object, double x)
{
    void *found = nc_native_function(object, signature_d_d, NC_FLAG_NEEDS_GIL);
    return found != NULL ? ((Function)found)(x) : call_otherwise(object, x);
}

INLINE double call_slot(PyObject *object, double x)
{
    void *found = nc_native_function_by_slot(object, signature_d_d, NC_FLAG_NEEDS_GIL);
    return found != NULL ? ((Function)found)(x) : call_otherwise(object, x);
}

INLINE double call_miss(PyObject *object, double x)
{
    return nc_abi_offers(object) ? NAN : x + 1.0;
}

NC_DISPATCH(evaluate, double, (double));
NC_DISPATCH_PROMOTED(promote, double, (float), NC_PROMOTED(double, (double)));

INLINE double call_dispatch(PyObject *object, double x)
{
    double y;
    return evaluate(object, &y, x) == 0 ? y : NAN;
}

INLINE double call_promoted(PyObject *object, double x)
{
    double y;
    return promote(object, &y, (float)x) == 0 ? y : NAN;
}

static NcCallbackSignature accepted[] = {
    NC_CALLBACK_ACCEPT_WITH_DATA("double (double, int *, void *)"),
    NC_CALLBACK_ACCEPT("double (double)"),
};

/* What a library calls. */
NOINLINE static double thunk(double x, void *data)
{
    NcCallback *f = (NcCallback *)data;
    NcCallbackCall python;
    int error = 0;
    double y = NAN;
    if (f->function != NULL)
        return f->matched == 1 ? NC_CALLBACK_FUNCTION(f, Function)(x)
                               : NC_CALLBACK_FUNCTION(f, double (*)(double, int *, void *))(
                                     x, &error, f->user_data);
    if (nc_callback_enter(f, &python)) {
        PyObject *result = PyObject_CallFunction(python.callable, "d", x);
        y = result != NULL ? PyFloat_AsDouble(result) : NAN;
        Py_XDECREF(result);
        if (nc_callback_leave(&python) < 0)
            y = NAN;
    }
    return y;
}

INLINE double call_callback(PyObject *object, double x)
{
    NcCallback f;
    double y;
    if (nc_callback_prepare(&f, object, accepted, 2, NC_CALLBACK_HOLDS_GIL) < 0)
        return NAN;
    y = thunk(x, &f);
    return nc_callback_release(&f) < 0 ? NAN : y;
}

/* apply(object, x) -> object(x), called without the GIL as SciPy's test_call_simple() does. */
static PyObject *apply(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *object;
    double x, y;
    NcCallback f;
    if (!PyArg_ParseTuple(args, "Od", &object, &x) ||
        nc_callback_prepare(&f, object, accepted, 2, NC_CALLBACK_TRUSTS_NAMES) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    y = thunk(x, &f);
    Py_END_ALLOW_THREADS;
    return nc_callback_release(&f) < 0 ? NULL : PyFloat_FromDouble(y);
}

#define LOOPS(way, call, type, member)                                                             \
    NOINLINE static double way##_sum(size_t count)                                                 \
    {                                                                                              \
        type subject = subject_##member;                                                           \
        double sum = 0.0;                                                                          \
        for (size_t i = 0; i < count; i++) {                                                       \
            CHANGED(subject);                                                                      \
            sum += call(subject, ARGUMENT);                                                        \
        }                                                                                          \
        return sum;                                                                                \
    }                                                                                              \
    NOINLINE static double way##_each(size_t count)                                                \
    {                                                                                              \
        type subject = subject_##member;                                                           \
        for (size_t i = 0; i < count; i++) {                                                       \
            double result;                                                                         \
            CHANGED(subject);                                                                      \
            result = call(subject, ARGUMENT);                                                      \
            USED(result);                                                                          \
        }                                                                                          \
        return (double)count * call(subject, ARGUMENT);                                            \
    }

#define WAYS(X)                                                                                    \
    X(plain, call_plain, Function, plain)                                                          \
    X(capsule, call_capsule, PyObject *, dictionary)                                               \
    X(boxed_builtin, call_boxed, PyObject *, builtin)                                              \
    X(boxed_lambda, call_boxed, PyObject *, lambda)                                                \
    X(offset, call_offset, PyObject *, callable)                                                   \
    X(slot, call_slot, PyObject *, callable)                                                       \
    X(nothing, call_nothing, PyObject *, lambda)                                                   \
    X(miss, call_miss, PyObject *, lambda)                                                         \
    X(dispatch, call_dispatch, PyObject *, callable)                                               \
    X(dispatch_promoted, call_promoted, PyObject *, callable)                                      \
    X(dispatch_final, call_dispatch, PyObject *, final)                                            \
    X(dispatch_open, call_dispatch, PyObject *, open)                                              \
    X(dispatch_lambda, call_dispatch, PyObject *, lambda)                                          \
    X(callback, call_callback, PyObject *, callable)                                               \
    X(callback_exported, call_callback, PyObject *, exported)                                      \
    X(callback_lambda, call_callback, PyObject *, lambda)
WAYS(LOOPS)

typedef struct {
    const char *name;
    double (*sum)(size_t);
    double (*each)(size_t);
} Way;

#define WAY(way, call, type, member) {#way, way##_sum, way##_each},
static const Way ways[] = {WAYS(WAY)};

static double now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

/* prepare(address, builtin, lambda, ...): in the order above; those that are absent are left out. */
static PyObject *prepare(PyObject *module, PyObject *args)
{
    unsigned long long address;
    PyObject *capsule;
    (void)module;
    if (!PyArg_ParseTuple(args, "K|OOOOOO", &address, &subject_builtin, &subject_lambda,
                          &subject_callable, &subject_final, &subject_open, &subject_exported))
        return NULL;
    Py_INCREF(args); /* keeps them for ever */
    subject_plain = (Function)(uintptr_t)address;
    capsule = PyCapsule_New((void *)(uintptr_t)address, CAPSULE_NAME, NULL);
    Py_XSETREF(subject_dictionary, capsule ? PyDict_New() : NULL);
    if (subject_dictionary == NULL ||
        PyDict_SetItem(subject_dictionary, capsule_key, capsule) < 0) {
        Py_XDECREF(capsule);
        return NULL;
    }
    Py_DECREF(capsule);
    Py_RETURN_NONE;
}

/* sample(name, loop, count): mean ns of one call in the loop "sum" or "each". Every result is
 * checked through the sum of all, which is exact. */
static PyObject *sample(PyObject *module, PyObject *args)
{
    const char *name, *loop;
    Py_ssize_t count;
    (void)module;
    if (!PyArg_ParseTuple(args, "ssn", &name, &loop, &count))
        return NULL;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        double start, elapsed, total;
        if (strcmp(ways[i].name, name) != 0)
            continue;
        start = now_ns();
        total = (strcmp(loop, "sum") == 0 ? ways[i].sum : ways[i].each)((size_t)count);
        elapsed = now_ns() - start;
        if (PyErr_Occurred())
            return NULL;
        if (total != (ARGUMENT + 1.0) * (double)count) {
            PyErr_Format(PyExc_ValueError, "'%s' did not call the kernel %zd times", name, count);
            return NULL;
        }
        return PyFloat_FromDouble(elapsed / (double)count);
    }
    PyErr_Format(PyExc_KeyError, "no way of calling named '%s'", name);
    return NULL;
}

static PyMethodDef functions[] = {
    {"prepare", prepare, METH_VARARGS, NULL},
    {"apply", apply, METH_VARARGS, NULL},
    {"sample", sample, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "bench_lookup", .m_size = -1,
                             .m_methods = functions};

PyMODINIT_FUNC PyInit_bench_lookup(void)
{
    if (PyCustomSlots_Import() < 0 || nc_signature_intern("d:d", &signature_d_d) < 0)
        return NULL;
    capsule_key = PyUnicode_InternFromString("d:d");
    return capsule_key != NULL ? PyModule_Create(&module) : NULL;
}
