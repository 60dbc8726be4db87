/* tests/ext/callback_consumer.c: C code that takes callbacks, by callback.h alone.
 *
 * Every C function that calls back lies three C frames below the one that Python called. MODULE is
 * the module's name; built as C99 and as C++11, against installed and vendored headers. */
#include "module.h"

#include <math.h>
#include <nativecall/callback.h>
#include <pthread.h>

static const double failed_sentinel = -12345.0;

static long own_calls = 0; /* of the callback function that is written out below */

static int call_cost(PyObject *callable, double *result, int n, const double *x)
{
    PyObject *list = PyList_New(n);
    PyObject *object;
    int i;
    own_calls++;
    if (list == NULL) {
        return -1;
    }
    for (i = 0; i < n; i++) {
        PyObject *number = PyFloat_FromDouble(x[i]);
        if (number == NULL) {
            Py_DECREF(list);
            return -1;
        }
        PyList_SET_ITEM(list, i, number);
    }
    object = PyObject_CallFunctionObjArgs(callable, list, NULL);
    Py_DECREF(list);
    if (object == NULL) {
        return -1;
    }
    /* Left unchecked on purpose: a callback function looks for exceptions itself. */
    *result = PyFloat_AsDouble(object);
    Py_DECREF(object);
    return 0;
}

static int call_cost_data(PyObject *callable, double *result, int n, const double *x,
                          void *Py_UNUSED(data))
{
    return call_cost(callable, result, n, x);
}

/* Fails, but says not why. */
static int call_silent(PyObject *Py_UNUSED(callable), double *result, double Py_UNUSED(x))
{
    *result = 0.0;
    return -1;
}

NC_CALLBACK_DECLARE(plain, double, (double), failed_sentinel);
NC_CALLBACK_DECLARE_WITH_DATA(data, double, (double, user_data), failed_sentinel);
NC_CALLBACK_DECLARE_WITH_DATA(data_first, double, (user_data, double), failed_sentinel);
NC_CALLBACK_DECLARE_CUSTOM(cost, double, "d:i&d", (int n, const double *x), (n, x), failed_sentinel,
                           call_cost);
NC_CALLBACK_DECLARE_CUSTOM_WITH_DATA(cost_data, double, "d:i&dP",
                                     (int n, const double *x, void *user_data), (n, x, user_data),
                                     user_data, 2, failed_sentinel, call_cost_data);
NC_CALLBACK_DECLARE_CUSTOM(silent, double, "d:d", (double x), (x), failed_sentinel, call_silent);
NC_CALLBACK_DECLARE(observer, nothing, (double, size), 0);

/* The signatures of integrate(), by a letter each. */
static NcCallbackSignature signatures[] = {
    NC_CALLBACK_ACCEPT(plain),
    NC_CALLBACK_ACCEPT(data),
    NC_CALLBACK_ACCEPT(data_first),
    NC_CALLBACK_ACCEPT(cost),
    NC_CALLBACK_ACCEPT(cost_data),
    NC_CALLBACK_ACCEPT_NATIVE("d:d", -1),
    NC_CALLBACK_ACCEPT_NATIVE("double", -1),
    NC_CALLBACK_ACCEPT_NATIVE("d:dP", 1),
    NC_CALLBACK_ACCEPT(silent),
    NC_CALLBACK_ACCEPT_NATIVE("i:i", -1),
    NC_CALLBACK_ACCEPT_NATIVE("d:i&d", -1),
};
static const char letters[] = "pdfcCnx?siv";

/* The signatures that a string of letters names. The count, or -1 with an exception. */
static Py_ssize_t choose(const char *which, NcCallbackSignature *out, int *kinds)
{
    Py_ssize_t count = 0;
    for (; *which != '\0'; which++, count++) {
        const char *found = strchr(letters, *which);
        if (found == NULL || count == 9) {
            PyErr_SetString(PyExc_AssertionError, "no such letter");
            return -1;
        }
        out[count] = signatures[found - letters];
        kinds[count] = *which;
    }
    return count;
}

static double sample(const NcCallback *f, int kind, double x)
{
    double point[1];
    point[0] = x;
    switch (kind) {
    case 'd':
        return NC_CALLBACK_FUNCTION(f, double (*)(double, void *))(x, f->user_data);
    case 'f':
        return NC_CALLBACK_FUNCTION(f, double (*)(void *, double))(f->user_data, x);
    case 'c':
        return NC_CALLBACK_FUNCTION(f, double (*)(int, const double *))(1, point);
    case 'C':
        return NC_CALLBACK_FUNCTION(f, double (*)(int, const double *, void *))(1, point,
                                                                                f->user_data);
    default:
        return NC_CALLBACK_FUNCTION(f, double (*)(double))(x);
    }
}

static double midpoints(const NcCallback *f, int kind, double a, double b, long n, int *sentinels)
{
    double sum = 0.0;
    long i;
    for (i = 0; i < n; i++) {
        double value = sample(f, kind, a + ((double)i + 0.5) * (b - a) / (double)n);
        *sentinels += value == failed_sentinel;
        if (nc_callback_failed(f)) {
            /* What comes after a failure must not reach Python. */
            *sentinels += sample(f, kind, a) == failed_sentinel;
            return NAN;
        }
        sum += value;
    }
    return sum * (b - a) / (double)n;
}

/* integrate(f, a=0, b=1, n=100, which="pd", options=HOLDS_GIL | SCOPED)
 *     -> (value, native, index of the signature) */
static PyObject *integrate(PyObject *Py_UNUSED(module), PyObject *args)
{
    NcCallbackSignature accepted[9];
    int kinds[9];
    NcCallback f;
    PyObject *obj;
    const char *which = "pd";
    double a = 0.0;
    double b = 1.0;
    double value;
    long n = 100;
    unsigned options = NC_CALLBACK_HOLDS_GIL | NC_CALLBACK_SCOPED;
    Py_ssize_t count;
    int sentinels = 0;
    int native;
    size_t matched;
    if (!PyArg_ParseTuple(args, "O|ddlsI", &obj, &a, &b, &n, &which, &options) ||
        (count = choose(which, accepted, kinds)) < 0) {
        return NULL;
    }
    if (nc_callback_prepare(&f, obj, accepted, (size_t)count, options) < 0) {
        if (nc_callback_release(&f) < 0) {
            PyErr_SetString(PyExc_AssertionError, "release fails after prepare has");
        }
        return NULL;
    }
    if ((options & NC_CALLBACK_HOLDS_GIL) != 0) {
        value = midpoints(&f, kinds[f.matched], a, b, n, &sentinels);
    } else {
        Py_BEGIN_ALLOW_THREADS value = midpoints(&f, kinds[f.matched], a, b, n, &sentinels);
        Py_END_ALLOW_THREADS
    }
    native = f.native;
    matched = f.matched;
    if (nc_callback_failed(&f) && sentinels != 2) {
        PyErr_Format(PyExc_AssertionError, "%d sentinels", sentinels);
        (void)nc_callback_release(&f);
        return NULL;
    }
    if (nc_callback_release(&f) < 0) {
        return NULL;
    }
    return Py_BuildValue("(dOn)", value, native ? Py_True : Py_False, (Py_ssize_t)matched);
}

/* ---- many at once ---------------------------------------------------------------------------- */

/* together(functions, x, which, options) -> [value]: all prepared before the first is called, and
 * called in the order of preparation and back again */
static PyObject *together(PyObject *Py_UNUSED(module), PyObject *args)
{
    NcCallbackSignature accepted[9];
    int kinds[9];
    NcCallback *callbacks = NULL;
    PyObject *functions;
    PyObject *values = NULL;
    const char *which;
    unsigned options;
    double x;
    Py_ssize_t count;
    Py_ssize_t prepared = 0;
    Py_ssize_t i;
    if (!PyArg_ParseTuple(args, "O!dsI", &PyList_Type, &functions, &x, &which, &options) ||
        (count = choose(which, accepted, kinds)) < 0) {
        return NULL;
    }
    callbacks =
        (NcCallback *)PyMem_Calloc((size_t)PyList_GET_SIZE(functions) + 1, sizeof(NcCallback));
    for (; prepared < PyList_GET_SIZE(functions); prepared++) {
        if (nc_callback_prepare(&callbacks[prepared], PyList_GET_ITEM(functions, prepared),
                                accepted, (size_t)count, options) < 0) {
            goto done;
        }
    }
    values = PyList_New(0);
    for (i = 0; i < 2 * prepared; i++) {
        NcCallback *f = &callbacks[i < prepared ? i : 2 * prepared - 1 - i];
        PyObject *value = PyFloat_FromDouble(sample(f, kinds[f->matched], x));
        (void)PyList_Append(values, value);
        Py_DECREF(value);
    }
done:
    for (i = 0; i < prepared; i++) {
        if (nc_callback_release(&callbacks[i]) < 0) {
            Py_CLEAR(values);
        }
    }
    PyMem_Free(callbacks);
    return values;
}

/* ---- threads --------------------------------------------------------------------------------- */

typedef struct {
    NcCallback *f;
    int kind;
    long calls;
    long good; /* results that are x + 1 */
    long sentinels;
    double x;
} Work;

static void *work(void *argument)
{
    Work *mine = (Work *)argument;
    long i;
    for (i = 0; i < mine->calls; i++) {
        double value = sample(mine->f, mine->kind, mine->x + (double)i);
        mine->good += value == mine->x + (double)i + 1.0;
        mine->sentinels += value == failed_sentinel;
    }
    return NULL;
}

#define MAX_THREADS 32

/* in_threads(f, threads, calls, which) -> (good, sentinels): threads that Python has never seen */
static PyObject *in_threads(PyObject *Py_UNUSED(module), PyObject *args)
{
    NcCallbackSignature accepted[9];
    int kinds[9];
    NcCallback f;
    PyObject *obj;
    pthread_t threads[MAX_THREADS];
    Work works[MAX_THREADS];
    const char *which;
    int count;
    int i;
    long calls;
    long good = 0;
    long sentinels = 0;
    Py_ssize_t signature_count;
    if (!PyArg_ParseTuple(args, "Oils", &obj, &count, &calls, &which) ||
        (signature_count = choose(which, accepted, kinds)) < 0 ||
        nc_callback_prepare(&f, obj, accepted, (size_t)signature_count, 0) < 0) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS for (i = 0; i < count; i++)
    {
        memset(&works[i], 0, sizeof works[i]);
        works[i].f = &f;
        works[i].kind = kinds[f.matched];
        works[i].calls = calls;
        works[i].x = (double)i * 1e6;
        (void)pthread_create(&threads[i], NULL, work, &works[i]);
    }
    for (i = 0; i < count; i++) {
        (void)pthread_join(threads[i], NULL);
        good += works[i].good;
        sentinels += works[i].sentinels;
    }
    Py_END_ALLOW_THREADS if (nc_callback_release(&f) < 0)
    {
        return NULL;
    }
    return Py_BuildValue("(ll)", good, sentinels);
}

/* ---- kept, released and freed while running -------------------------------------------------- */

typedef struct {
    NcCallback *callback; /* NULL once it was freed */
    int kind;
} Held;

static Held *held(PyObject *handle)
{
    return (Held *)PyCapsule_GetPointer(handle, "handle");
}

static void free_handle(PyObject *handle)
{
    Held *mine = held(handle);
    PyMem_Free(mine->callback);
    PyMem_Free(mine);
}

/* hold(f, options, which="p") -> a handle */
static PyObject *hold(PyObject *Py_UNUSED(module), PyObject *args)
{
    static NcCallbackSignature accepted[9];
    int kinds[9];
    PyObject *obj;
    PyObject *handle;
    const char *which = "p";
    unsigned options;
    Py_ssize_t count;
    Held *made;
    if (!PyArg_ParseTuple(args, "OI|s", &obj, &options, &which) ||
        (count = choose(which, accepted, kinds)) < 0) {
        return NULL;
    }
    made = (Held *)PyMem_Calloc(1, sizeof *made);
    made->callback = (NcCallback *)PyMem_Calloc(1, sizeof *made->callback);
    handle = PyCapsule_New(made, "handle", free_handle);
    if (nc_callback_prepare(made->callback, obj, accepted, (size_t)count, options) < 0) {
        Py_CLEAR(handle);
    }
    made->kind = handle != NULL ? kinds[made->callback->matched] : 0;
    return handle;
}

/* call_held(handle, x) -> (value, failed): the pointers are copied first, as a C library does; goes
 * on after the callback's release as before it */
static PyObject *call_held(PyObject *Py_UNUSED(module), PyObject *args)
{
    NcCallback copy;
    PyObject *handle;
    Held *mine;
    double x;
    double value;
    if (!PyArg_ParseTuple(args, "Od", &handle, &x) || (mine = held(handle)) == NULL) {
        return NULL;
    }
    memset(&copy, 0, sizeof copy);
    copy.function = mine->callback->function;
    copy.user_data = mine->callback->user_data;
    value = sample(&copy, mine->kind, x);
    return Py_BuildValue("(di)", value,
                         mine->callback != NULL ? nc_callback_failed(mine->callback) : -1);
}

/* let_go(handle, and_free=False): releases it, and again before it is freed; may be called by the
 * callback itself */
static PyObject *let_go(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *handle;
    NcCallback *callback;
    int and_free = 0;
    int status;
    if (!PyArg_ParseTuple(args, "O|p", &handle, &and_free)) {
        return NULL;
    }
    callback = held(handle)->callback;
    status = nc_callback_release(callback);
    if (and_free) {
        if (nc_callback_release(callback) < 0 && status == 0) {
            status = -1;
        }
        memset(callback, 0xDD, sizeof *callback);
        PyMem_Free(callback);
        held(handle)->callback = NULL;
    }
    if (status < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static void *call_for_ever(void *handle)
{
    const Held *mine = (const Held *)handle;
    while (mine != NULL) {
        (void)sample(mine->callback, mine->kind, 1.0);
    }
    return NULL;
}

/* start_thread(handle): a thread that calls it until the process ends, as long as which it lives */
static PyObject *start_thread(PyObject *Py_UNUSED(module), PyObject *handle)
{
    pthread_t thread;
    (void)pthread_create(&thread, NULL, call_for_ever, held(Py_NewRef(handle)));
    (void)pthread_detach(thread);
    Py_RETURN_NONE;
}

/* ---- an exception of the C code's own -------------------------------------------------------- */

/* pending(f, when): raises LookupError in C, before the callback is called or after it */
static PyObject *pending(PyObject *Py_UNUSED(module), PyObject *args)
{
    NcCallback f;
    PyObject *obj;
    int before;
    double value;
    if (!PyArg_ParseTuple(args, "Oi", &obj, &before) ||
        nc_callback_prepare(&f, obj, signatures, 1, NC_CALLBACK_HOLDS_GIL) < 0) {
        return NULL;
    }
    if (before) {
        PyErr_SetString(PyExc_LookupError, "raised in C");
    }
    value = sample(&f, 'p', 1.0);
    if (!before) {
        PyErr_SetString(PyExc_LookupError, "raised in C");
    } else if (PyErr_Occurred() != PyExc_LookupError) {
        Py_FatalError("a callback has lost the exception of the C code");
    }
    (void)value;
    (void)nc_callback_release(&f);
    return NULL;
}

/* ---- types ----------------------------------------------------------------------------------- */

#define ROUND(word, type)                                                                          \
    NC_CALLBACK_DECLARE(round_##word, word, (word), 0);                                            \
    static NcCallbackSignature accepts_##word[] = {NC_CALLBACK_ACCEPT(round_##word)};              \
    static int run_##word(PyObject *obj, unsigned long long bits, const char **signature)          \
    {                                                                                              \
        NcCallback f;                                                                              \
        type value;                                                                                \
        type got;                                                                                  \
        if (nc_callback_prepare(&f, obj, accepts_##word, 1, NC_CALLBACK_HOLDS_GIL) < 0) {          \
            return -1;                                                                             \
        }                                                                                          \
        value = (type)bits;                                                                        \
        *signature = accepts_##word[0].interned;                                                   \
        got = NC_CALLBACK_FUNCTION(&f, type (*)(type))(value);                                     \
        if (nc_callback_release(&f) < 0) {                                                         \
            return -1;                                                                             \
        }                                                                                          \
        return got == value;                                                                       \
    }

/* clang-format off */
#define ROUNDS_OF_BOTH(X) \
    X(double, double) \
    X(float, float) \
    X(longdouble, long double) \
    X(schar, signed char) \
    X(uchar, unsigned char) \
    X(short, short) \
    X(ushort, unsigned short) \
    X(int, int) \
    X(unsigned, unsigned) \
    X(long, long) \
    X(ulong, unsigned long) \
    X(longlong, long long) \
    X(ulonglong, unsigned long long) \
    X(ssize, Py_ssize_t) \
    X(size, size_t) \
    X(int8, int8_t) \
    X(int16, int16_t) \
    X(int32, int32_t) \
    X(int64, int64_t) \
    X(uint8, uint8_t) \
    X(uint16, uint16_t) \
    X(uint32, uint32_t) \
    X(uint64, uint64_t) \
    X(boolean, NC_BOOL) \
    X(pointer, void *)
#ifdef __cplusplus
#define ROUNDS(X) ROUNDS_OF_BOTH(X)
#else
#define ROUNDS(X) ROUNDS_OF_BOTH(X) X(complex64, float _Complex) X(complex128, double _Complex)
#endif
/* clang-format on */

ROUNDS(ROUND)

typedef struct {
    const char *word;
    int (*run)(PyObject *obj, unsigned long long bits, const char **signature);
} RoundEntry;

#define ROUND_ENTRY(word, type) {#word, run_##word},
static const RoundEntry rounds[] = {ROUNDS(ROUND_ENTRY)};

/* round_trip(word, f, number) -> (signature, whether f's result was the argument) */
static PyObject *round_trip(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *obj;
    const char *word;
    const char *signature = NULL;
    unsigned long long bits;
    size_t i;
    if (!PyArg_ParseTuple(args, "sOK", &word, &obj, &bits)) {
        return NULL;
    }
    for (i = 0; i < sizeof rounds / sizeof rounds[0]; i++) {
        if (strcmp(rounds[i].word, word) == 0) {
            int same = rounds[i].run(obj, bits, &signature);
            return same < 0 ? NULL : Py_BuildValue("(sO)", signature, same ? Py_True : Py_False);
        }
    }
    PyErr_SetString(PyExc_AssertionError, "no such type");
    return NULL;
}

/* observe(f): void f(double, size_t) */
static PyObject *observe(PyObject *Py_UNUSED(module), PyObject *obj)
{
    static NcCallbackSignature accepted[] = {NC_CALLBACK_ACCEPT(observer)};
    NcCallback f;
    if (nc_callback_prepare(&f, obj, accepted, 1, NC_CALLBACK_HOLDS_GIL) < 0) {
        return NULL;
    }
    NC_CALLBACK_FUNCTION(&f, void (*)(double, size_t))(0.5, SIZE_MAX);
    if (nc_callback_release(&f) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *cost_calls(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    return PyLong_FromLong(own_calls);
}

/* ---- types with __nativecall_api__ ----------------------------------------------------------- */

static double third_power(double x)
{
    return x * x * x;
}

static double halved(double x)
{
    return x / 2;
}

static const PyNativeCallableEntry offered[] = {
    {"f:f", 0, (void *)(uintptr_t)halved}, /* never called */
    {"d:d", 0, (void *)(uintptr_t)third_power},
    {"d:i&d", NC_FLAG_NEEDS_GIL, (void *)(uintptr_t)halved}, /* never called */
    {"i:i", 0, NULL},                                        /* compiled later */
};

static const PyNativeCallableEntry *offered_entry(PyObject *Py_UNUSED(obj), size_t position)
{
    return position < 4 ? &offered[position] : NULL;
}

static const PyNativeCallableEntry *offered_find(PyObject *Py_UNUSED(obj), const char *signature,
                                                 uintptr_t refuse)
{
    size_t i;
    (void)refuse; /* a provider that does not look at flags */
    for (i = 0; i < 4; i++) {
        if (strcmp(offered[i].signature, signature) == 0) {
            return &offered[i];
        }
    }
    return NULL;
}

static const PyNativeCallableEntry other_offered = {"d:d", 0, (void *)(uintptr_t)halved};

static const PyNativeCallableEntry *other_find(PyObject *Py_UNUSED(obj), const char *signature,
                                               uintptr_t refuse)
{
    return strcmp(signature, "d:d") == 0 && (refuse & other_offered.flags) == 0 ? &other_offered
                                                                                : NULL;
}

static NcNativeApi apis[] = {
    {sizeof(NcNativeApi), NC_NATIVEAPI_NAME, NULL, offered_find, offered_entry},
    {sizeof(NcNativeApi), NC_NATIVEAPI_NAME, NULL, other_find, NULL},
    {sizeof(NcNativeApi) + 64, NC_NATIVEAPI_NAME, NULL, other_find, NULL}, /* of a later version */
    {8, NC_NATIVEAPI_NAME, NULL, other_find, NULL},
    {sizeof(NcNativeApi), NC_NATIVEAPI_NAME + 1, NULL, other_find, NULL},
    {sizeof(NcNativeApi), NC_NATIVEAPI_NAME, NULL, NULL, NULL},
};

/* api(number, name="nativecall_api_v1") -> a capsule for __nativecall_api__ */
static PyObject *api(PyObject *Py_UNUSED(module), PyObject *args)
{
    unsigned number;
    int named = 1;
    if (!PyArg_ParseTuple(args, "I|p", &number, &named)) {
        return NULL;
    }
    return PyCapsule_New(&apis[number], named ? NC_NATIVEAPI_CAPSULE : "another name", NULL);
}

static PyObject *static_call(PyObject *Py_UNUSED(self), PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    double x;
    if (!PyArg_ParseTuple(args, "d", &x)) {
        return NULL;
    }
    return PyFloat_FromDouble(third_power(x));
}

/* A static type, with the attribute in its dictionary. */
static PyTypeObject StaticType;

static int static_type_ready(PyObject *module)
{
    PyObject *made;
    StaticType.tp_name = "StaticType";
    StaticType.tp_basicsize = (Py_ssize_t)sizeof(PyObject);
    StaticType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
    StaticType.tp_new = PyType_GenericNew;
    StaticType.tp_call = static_call;
    if (PyType_Ready(&StaticType) < 0 ||
        (made = PyCapsule_New(&apis[0], NC_NATIVEAPI_CAPSULE, NULL)) == NULL ||
        PyDict_SetItemString(StaticType.tp_dict, NC_NATIVEAPI_ATTRIBUTE, made) < 0) {
        return -1;
    }
    Py_DECREF(made);
    PyType_Modified(&StaticType);
    return PyModule_AddObjectRef(module, "StaticType", (PyObject *)&StaticType);
}

/* unfinished() -> what prepare says to an object whose type is not ready */
static PyObject *unfinished(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    static PyTypeObject raw;
    static PyObject object;
    NcCallback f;
    Py_SET_TYPE(&raw, &PyType_Type);
    Py_SET_REFCNT(&raw, 1000);
    raw.tp_name = "raw";
    raw.tp_repr = PyBaseObject_Type.tp_repr;
    Py_SET_TYPE(&object, &raw);
    Py_SET_REFCNT(&object, 1000);
    if (nc_callback_prepare(&f, &object, signatures, 1, 0) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

/* no_object(): prepare is given NULL */
static PyObject *no_object(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    NcCallback f;
    return nc_callback_prepare(&f, NULL, signatures, 1, 0) < 0 ? NULL
                                                               : (Py_INCREF(Py_None), Py_None);
}

#ifdef SECOND_FILE
PyObject *second_call(PyObject *module, PyObject *obj);
const void *second_thread(void);

/* one_thread() -> whether both files see the same */
static PyObject *one_thread(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    return PyBool_FromLong(second_thread() == &nc_callback_thread);
}
#endif

static PyMethodDef functions[] = {
#ifdef SECOND_FILE
    {"second_call", second_call, METH_O, NULL},
    {"one_thread", one_thread, METH_NOARGS, NULL},
#endif
    {"integrate", integrate, METH_VARARGS, NULL},
    {"together", together, METH_VARARGS, NULL},
    {"in_threads", in_threads, METH_VARARGS, NULL},
    {"hold", hold, METH_VARARGS, NULL},
    {"call_held", call_held, METH_VARARGS, NULL},
    {"let_go", let_go, METH_VARARGS, NULL},
    {"start_thread", start_thread, METH_O, NULL},
    {"pending", pending, METH_VARARGS, NULL},
    {"round_trip", round_trip, METH_VARARGS, NULL},
    {"observe", observe, METH_O, NULL},
    {"cost_calls", cost_calls, METH_NOARGS, NULL},
    {"api", api, METH_VARARGS, NULL},
    {"unfinished", unfinished, METH_NOARGS, NULL},
    {"no_object", no_object, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = MODULE_DEFINITION(functions);

PyMODINIT_FUNC MODULE_INIT(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (module == NULL || static_type_ready(module) < 0 ||
        PyModule_AddIntConstant(module, "HOLDS_GIL", NC_CALLBACK_HOLDS_GIL) < 0 ||
        PyModule_AddIntConstant(module, "SCOPED", NC_CALLBACK_SCOPED) < 0 ||
        PyModule_AddIntConstant(module, "CHECKS_ERRORS", NC_CALLBACK_CHECKS_ERRORS) < 0 ||
        PyModule_AddIntConstant(module, "DISTRUSTS_NAMES", NC_CALLBACK_DISTRUSTS_NAMES) < 0 ||
        PyModule_AddIntConstant(module, "POOL", NC_CALLBACK_POOL) < 0) {
        return NULL;
    }
    return module;
}
