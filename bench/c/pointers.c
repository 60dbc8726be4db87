/* bench/c/pointers.c: what a call through a C function pointer costs, whatever is behind it.
 *
 * Two loops for each signature call the same pointer again and again:
 *
 *     sum     adds the results up: calls overlap only as far as one addition after another
 *     each    drops the results: calls overlap as far as the processor can
 *
 * The pointer is a register that the compiler must assume changed before every call, and memory
 * with it, so that nothing is lifted out of a loop. The loops run with the GIL held or given up, as
 * the caller says.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#if defined(__GNUC__)
#define NOINLINE __attribute__((noinline))
#define CHANGED(variable) __asm__ volatile("" : "+r"(variable) : : "memory")
#define USED(value) __asm__ volatile("" : : "g"(value) : "memory")
#else
#error "this benchmark needs GCC or Clang: its loops rely on their asm statements"
#endif

typedef void (*Pointer)(void);

typedef struct {
    double x;
    double y;
} Point;

static double values[3] = {0.5, 0.25, 2.0};
static const Point point = {0.5, 0.25};

#define LOOPS(name, result, parameters, arguments)                                                 \
    NOINLINE static double name##_sum(Pointer pointer, size_t count)                               \
    {                                                                                              \
        result sum = 0;                                                                            \
        for (size_t i = 0; i < count; i++) {                                                       \
            CHANGED(pointer);                                                                      \
            sum += ((result(*) parameters)pointer)arguments;                                       \
        }                                                                                          \
        return (double)sum;                                                                        \
    }                                                                                              \
    NOINLINE static double name##_each(Pointer pointer, size_t count)                              \
    {                                                                                              \
        for (size_t i = 0; i < count; i++) {                                                       \
            result value;                                                                          \
            CHANGED(pointer);                                                                      \
            value = ((result(*) parameters)pointer)arguments;                                      \
            USED(value);                                                                           \
        }                                                                                          \
        return (double)count * (double)((result(*) parameters)pointer)arguments;                   \
    }

LOOPS(d_d, double, (double), (0.5))
LOOPS(d_dP, double, (double, void *), (0.5, NULL))
LOOPS(d_ddd, double, (double, double, double), (0.5, 0.25, 2.0))
LOOPS(d_iPd, double, (int, double *), (3, values))
LOOPS(f_f, float, (float), (0.5f))
LOOPS(d_P, double, (void *), (values))
LOOPS(d_Point, double, (Point), (point))
LOOPS(q_qqq, int64_t, (int64_t, int64_t, int64_t), (1000, 2000, 3000))

typedef struct {
    const char *signature;
    double (*sum)(Pointer, size_t);
    double (*each)(Pointer, size_t);
} Loop;

static const Loop loops[] = {
    {"d:d", d_d_sum, d_d_each},       {"d:dP", d_dP_sum, d_dP_each},
    {"d:ddd", d_ddd_sum, d_ddd_each}, {"d:i&d", d_iPd_sum, d_iPd_each},
    {"f:f", f_f_sum, f_f_each},       {"q:qqq", q_qqq_sum, q_qqq_each},
    {"d:P", d_P_sum, d_P_each},       {"d:T{dd}", d_Point_sum, d_Point_each},
};

static double now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

/* sample(address, signature, expected, loop, held, count): mean ns of one call in the loop "sum" or
 * "each", with the GIL held or not. Every result is checked against what is expected, through the
 * sum of all, which is exact for the values here; for "f:f" up to 10^7 calls. */
static PyObject *sample(PyObject *module, PyObject *args)
{
    unsigned long long address;
    const char *signature;
    double expected;
    const char *name;
    int held;
    Py_ssize_t count;
    (void)module;
    if (!PyArg_ParseTuple(args, "Ksdspn", &address, &signature, &expected, &name, &held, &count)) {
        return NULL;
    }
    for (size_t i = 0; i < sizeof loops / sizeof *loops; i++) {
        double (*loop)(Pointer, size_t);
        PyThreadState *thread;
        double start;
        double elapsed;
        double total;
        if (strcmp(loops[i].signature, signature) != 0) {
            continue;
        }
        loop = strcmp(name, "sum") == 0 ? loops[i].sum : loops[i].each;
        thread = held ? NULL : PyEval_SaveThread();
        start = now_ns();
        total = loop((Pointer)(uintptr_t)address, (size_t)count);
        elapsed = now_ns() - start;
        if (thread != NULL) {
            PyEval_RestoreThread(thread);
        }
        if (PyErr_Occurred()) {
            return NULL;
        }
        if (total != expected * (double)count) {
            PyErr_Format(PyExc_ValueError, "'%s' did not give the result %zd times", signature,
                         count);
            return NULL;
        }
        return PyFloat_FromDouble(elapsed / (double)count);
    }
    PyErr_Format(PyExc_KeyError, "no loop for '%s'", signature);
    return NULL;
}

static PyMethodDef functions[] = {
    {"sample", sample, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "bench_pointers", .m_size = -1,
                             .m_methods = functions};

PyMODINIT_FUNC PyInit_bench_pointers(void)
{
    return PyModule_Create(&module);
}
