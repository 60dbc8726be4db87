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
 * Without the nativecall headers (BENCH_WITHOUT_NATIVECALL) only the peers' ways are compiled.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#ifndef BENCH_WITHOUT_NATIVECALL
#include "nativecall/extensibletype.h"
#include "nativecall/nativecallable.h"
#endif

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

/* The subjects of the loops, set by prepare(). */
typedef struct {
    Function plain;       /* the C function itself */
    PyObject *dictionary; /* {key: capsule of the function} */
    PyObject *builtin;    /* a hand-written METH_O function around it */
    PyObject *callable;   /* nc.wrap(address, "d:d") */
} Subjects;

static Subjects subjects;
static PyObject *capsule_key; /* interned */

INLINE double call_plain(Function function, double x)
{
    return function(x);
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

#ifndef BENCH_WITHOUT_NATIVECALL
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

#endif

#define LOOPS(way, call, type, member)                                                             \
    NOINLINE static double way##_sum(size_t count)                                                 \
    {                                                                                              \
        type subject = subjects.member;                                                            \
        double sum = 0.0;                                                                          \
        for (size_t i = 0; i < count; i++) {                                                       \
            CHANGED(subject);                                                                      \
            sum += call(subject, ARGUMENT);                                                        \
        }                                                                                          \
        return sum;                                                                                \
    }                                                                                              \
    NOINLINE static double way##_each(size_t count)                                                \
    {                                                                                              \
        type subject = subjects.member;                                                            \
        for (size_t i = 0; i < count; i++) {                                                       \
            double result;                                                                         \
            CHANGED(subject);                                                                      \
            result = call(subject, ARGUMENT);                                                      \
            USED(result);                                                                          \
        }                                                                                          \
        return (double)count * call(subject, ARGUMENT);                                            \
    }

LOOPS(plain, call_plain, Function, plain)
LOOPS(capsule, call_capsule, PyObject *, dictionary)
LOOPS(boxed_builtin, call_boxed, PyObject *, builtin)
#ifndef BENCH_WITHOUT_NATIVECALL
LOOPS(offset, call_offset, PyObject *, callable)
LOOPS(slot, call_slot, PyObject *, callable)
#endif

typedef struct {
    const char *name;
    double (*sum)(size_t);
    double (*each)(size_t);
} Way;

#define WAY(way) {#way, way##_sum, way##_each}
static const Way ways[] = {
    WAY(plain),  WAY(capsule), WAY(boxed_builtin),
#ifndef BENCH_WITHOUT_NATIVECALL
    WAY(offset), WAY(slot),
#endif
};

static double now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static PyObject *names(PyObject *module, PyObject *unused)
{
    PyObject *list = PyList_New(0);
    (void)module;
    (void)unused;
    for (size_t i = 0; list != NULL && i < sizeof ways / sizeof *ways; i++) {
        PyObject *name = PyUnicode_FromString(ways[i].name);
        if (name == NULL || PyList_Append(list, name) < 0)
            Py_CLEAR(list);
        Py_XDECREF(name);
    }
    return list;
}

/* prepare(address, builtin, callable): objects that are not there are None. */
static PyObject *prepare(PyObject *module, PyObject *args)
{
    unsigned long long address;
    PyObject *objects[2], *capsule;
    PyObject **members[2] = {&subjects.builtin, &subjects.callable};
    (void)module;
    if (!PyArg_ParseTuple(args, "KOO", &address, &objects[0], &objects[1]))
        return NULL;
    subjects.plain = (Function)(uintptr_t)address;
    for (int i = 0; i < 2; i++) {
        Py_INCREF(objects[i]);
        Py_XSETREF(*members[i], objects[i]);
    }
    capsule = PyCapsule_New((void *)(uintptr_t)address, CAPSULE_NAME, NULL);
    Py_XSETREF(subjects.dictionary, capsule ? PyDict_New() : NULL);
    if (subjects.dictionary == NULL ||
        PyDict_SetItem(subjects.dictionary, capsule_key, capsule) < 0) {
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
    {"names", names, METH_NOARGS, NULL},
    {"prepare", prepare, METH_VARARGS, NULL},
    {"sample", sample, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "bench_lookup", .m_size = -1,
                             .m_methods = functions};

PyMODINIT_FUNC PyInit_bench_lookup(void)
{
#ifndef BENCH_WITHOUT_NATIVECALL
    if (PyCustomSlots_Import() < 0 || nc_signature_intern("d:d", &signature_d_d) < 0)
        return NULL;
#endif
    capsule_key = PyUnicode_InternFromString("d:d");
    return capsule_key != NULL ? PyModule_Create(&module) : NULL;
}
