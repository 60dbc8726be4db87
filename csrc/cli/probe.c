/* csrc/cli/probe.c: calls a native callable from C, as a consumer does.
 *
 * `nativecall demo` checks and times these calls on machines without a compiler. The loops use only
 * the public headers. As in a consumer, each loop is compiled for one signature and one way to look
 * up the function, so the loop does not branch on them. */
#include "platform/functions.h"

#include <string.h>

#include "nativecall/nativecallable.h"

enum { KIND_D_D, KIND_F_F, KIND_D_DD, KIND_D_DI, KINDS };

static const char *const way_names[] = {"pointer", "offset", "slot", NULL}; /* as in `loops` */
static const char *const kind_names[] = {"d:d", "f:f", "d:dd", "d:di", NULL};

typedef struct {
    PyObject *callable;    /* borrowed from the call's arguments */
    const char *signature; /* interned */
    void *pointer;         /* for the way "pointer" */
    Py_ssize_t length;     /* doubles in each array */
    double *results;
    const double *x; /* first arguments */
    const double *y; /* second arguments; NULL if there are none */
} Job;

/* Look up the function to call; NULL if there is no such entry. */
#define FOUND_POINTER(job) (job)->pointer
#define FOUND_OFFSET(job) nc_native_function((job)->callable, (job)->signature, NC_FLAG_NEEDS_GIL)
#define FOUND_SLOT(job)                                                                            \
    nc_native_function_by_slot((job)->callable, (job)->signature, NC_FLAG_NEEDS_GIL)

/* Defines the loop for one way and one signature. The loop runs without the GIL and returns 0, or
 * -1 if an entry is missing. */
#define LOOP(way, kind, function_type, ...)                                                        \
    static int loop_##way##_##kind(const Job *job)                                                 \
    {                                                                                              \
        for (Py_ssize_t i = 0; i < job->length; i++) {                                             \
            void *function = FOUND_##way(job);                                                     \
            if (NC_UNLIKELY(function == NULL)) {                                                   \
                return -1;                                                                         \
            }                                                                                      \
            job->results[i] = (double)((function_type)(uintptr_t)function)(__VA_ARGS__);           \
        }                                                                                          \
        return 0;                                                                                  \
    }
#define LOOPS(way)                                                                                 \
    LOOP(way, D_D, double (*)(double), job->x[i])                                                  \
    LOOP(way, F_F, float (*)(float), (float)job->x[i])                                             \
    LOOP(way, D_DD, double (*)(double, double), job->x[i], job->y[i])                              \
    LOOP(way, D_DI, double (*)(double, int), job->x[i], (int)job->y[i])
LOOPS(POINTER)
LOOPS(OFFSET)
LOOPS(SLOT)

#define ROW(way) {loop_##way##_D_D, loop_##way##_F_F, loop_##way##_D_DD, loop_##way##_D_DI}
static int (*const loops[][KINDS])(const Job *) = {ROW(POINTER), ROW(OFFSET), ROW(SLOT)};

/* Returns the position of `name` in `names`, or -1 with an exception. */
static int choose(const char *what, const char *name, const char *const *names)
{
    for (int i = 0; names[i] != NULL; i++) {
        if (strcmp(name, names[i]) == 0) {
            return i;
        }
    }
    PyErr_Format(PyExc_ValueError, "unknown %s '%s'", what, name);
    return -1;
}

static int holds_doubles(const Py_buffer *buffer, Py_ssize_t size)
{
    return buffer->len == size && size % (Py_ssize_t)sizeof(double) == 0 &&
           (uintptr_t)buffer->buf % _Alignof(double) == 0;
}

/* call_loop(callable, signature, way, results, x[, y]) -> None
 *
 * results[i] = callable(x[i]) or callable(x[i], y[i]) for every i. All buffers hold the same number
 * of doubles. The signature is "d:d" or "f:f"; with y, it is "d:dd" or "d:di". `way` selects how
 * each call is made:
 *
 *   "pointer"   look up the function pointer once, before the loop
 *   "offset"    look it up for each call, by the offset in the object's type
 *   "slot"      look it up for each call, through the slot table
 *
 * The calls run without the GIL. Raises LookupError if the callable has no entry with
 * this signature that runs without the GIL. */
PyObject *nc_probe_call_loop(PyObject *Py_UNUSED(module), PyObject *args)
{
    Job job = {0};
    Py_buffer results = {0};
    Py_buffer x = {0};
    Py_buffer y = {0};
    PyObject *answer = NULL;
    const char *signature;
    const char *way_name;
    int kind;
    int status = -1;
    if (!PyArg_ParseTuple(args, "Ossw*y*|y*:call_loop", &job.callable, &signature, &way_name,
                          &results, &x, &y)) {
        return NULL;
    }
    int way = choose("way", way_name, way_names);
    kind = way < 0 ? -1 : choose("signature", signature, kind_names);
    if (kind < 0) {
        goto done;
    }
    const int two = kind == KIND_D_DD || kind == KIND_D_DI;
    if (two != (y.obj != NULL)) {
        PyErr_Format(PyExc_ValueError, "'%s' takes %d buffer(s) of arguments", signature, two + 1);
        goto done;
    }
    if (!holds_doubles(&results, results.len) || !holds_doubles(&x, results.len) ||
        (y.obj != NULL && !holds_doubles(&y, results.len))) {
        PyErr_SetString(PyExc_ValueError, "the buffers must hold the same number of doubles");
        goto done;
    }
    job.length = results.len / (Py_ssize_t)sizeof(double);
    job.results = (double *)results.buf;
    job.x = (const double *)x.buf;
    job.y = (const double *)y.buf;
    if (nc_signature_intern(kind_names[kind], &job.signature) < 0) {
        goto done;
    }
    job.pointer = FOUND_OFFSET(&job);
    if (job.pointer != NULL) {
        Py_BEGIN_ALLOW_THREADS status = loops[way][kind](&job);
        Py_END_ALLOW_THREADS
    }
    if (status < 0) {
        PyErr_Format(PyExc_LookupError, "no native entry for '%s' in %R that runs without the GIL",
                     signature, job.callable);
        goto done;
    }
    answer = Py_NewRef(Py_None);

done:
    PyBuffer_Release(&results);
    PyBuffer_Release(&x);
    PyBuffer_Release(&y);
    return answer;
}
