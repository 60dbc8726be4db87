/* tests/ext/callback_consumer.c: C code that takes callbacks, by callback.h alone.
 *
 * MODULE is the module's name; built as C99 and as C++11, against installed and vendored headers.
 */
#include "module.h"

#include <math.h>
#include <nativecall/callback.h>
#include <pthread.h>

static const double failed_sentinel = -12345.0;

/* The signatures of integrate(), by a letter each. */
static NcCallbackSignature signatures[] = {
    NC_CALLBACK_ACCEPT("double (double)"),
    NC_CALLBACK_ACCEPT_WITH_DATA("double (double, void *)"),
    NC_CALLBACK_ACCEPT_WITH_DATA("double (void *, double)"),
    NC_CALLBACK_ACCEPT("double (int, const double *)"),
    NC_CALLBACK_ACCEPT_WITH_DATA("double (int, const double *, void *)"),
    NC_CALLBACK_ACCEPT("double"),
    NC_CALLBACK_ACCEPT("int (int)"),
};
static const char letters[] = "pdfcCxi";

/* The signatures that a string of letters names. The count, or -1 with an exception. */
static Py_ssize_t choose(const char *which, NcCallbackSignature *out)
{
    Py_ssize_t count = 0;
    for (; *which != '\0'; which++, count++) {
        const char *found = strchr(letters, *which);
        if (found == NULL || count == 9) {
            PyErr_SetString(PyExc_AssertionError, "no such letter");
            return -1;
        }
        out[count] = signatures[found - letters];
    }
    return count;
}

/* The callback, or what stands for one in a library; with the signatures that were accepted. */
typedef struct {
    NcCallback f; /* first: nc_callback_current() leads to it */
    NcCallbackSignature accepted[9];
} Taken;

static int take(Taken *taken, PyObject *obj, const char *which, unsigned options)
{
    const Py_ssize_t count = choose(which, taken->accepted);
    return count < 0 ? -1
                     : nc_callback_prepare(&taken->f, obj, taken->accepted, (size_t)count, options);
}

static double call_python(NcCallback *f, double x)
{
    NcCallbackCall call;
    double value = failed_sentinel;
    if (nc_callback_enter(f, &call)) {
        PyObject *result = PyObject_CallFunction(call.callable, "d", x);
        value = result != NULL ? PyFloat_AsDouble(result) : 0.0;
        Py_XDECREF(result);
        if (nc_callback_leave(&call) < 0) {
            value = failed_sentinel;
        }
    }
    return value;
}

/* One value, three C frames below the function that Python called. */
static double sample(Taken *taken, double x)
{
    NcCallback *f = &taken->f;
    const char *signature;
    if (f->function == NULL) {
        return call_python(f, x);
    }
    signature = taken->accepted[f->matched].signature;
    if (strcmp(signature, "d:dP") == 0) {
        return NC_CALLBACK_FUNCTION(f, double (*)(double, void *))(x, f->user_data);
    }
    if (strcmp(signature, "d:Pd") == 0) {
        return NC_CALLBACK_FUNCTION(f, double (*)(void *, double))(f->user_data, x);
    }
    if (strcmp(signature, "d:i&d") == 0) {
        return NC_CALLBACK_FUNCTION(f, double (*)(int, const double *))(1, &x);
    }
    if (strcmp(signature, "d:i&dP") == 0) {
        return NC_CALLBACK_FUNCTION(f, double (*)(int, const double *, void *))(1, &x,
                                                                                f->user_data);
    }
    return NC_CALLBACK_FUNCTION(f, double (*)(double))(x);
}

static double midpoints(Taken *taken, double a, double b, long n, int *sentinels)
{
    double sum = 0.0;
    long i;
    for (i = 0; i < n; i++) {
        double value = sample(taken, a + ((double)i + 0.5) * (b - a) / (double)n);
        *sentinels += value == failed_sentinel;
        if (nc_callback_failed(&taken->f)) {
            /* What comes after a failure must not reach Python. */
            *sentinels += sample(taken, a) == failed_sentinel;
            return NAN;
        }
        sum += value;
    }
    return sum * (b - a) / (double)n;
}

/* integrate(f, a=0, b=1, n=100, which="pd", options=HOLDS_GIL)
 *     -> (value, native, index of the signature) */
static PyObject *integrate(PyObject *Py_UNUSED(module), PyObject *args)
{
    Taken taken;
    PyObject *obj;
    const char *which = "pd";
    double a = 0.0;
    double b = 1.0;
    double value;
    long n = 100;
    unsigned options = NC_CALLBACK_HOLDS_GIL;
    int sentinels = 0;
    int native;
    size_t matched;
    if (!PyArg_ParseTuple(args, "O|ddlsI", &obj, &a, &b, &n, &which, &options)) {
        return NULL;
    }
    if (take(&taken, obj, which, options) < 0) {
        return NULL;
    }
    if ((options & NC_CALLBACK_HOLDS_GIL) != 0) {
        value = midpoints(&taken, a, b, n, &sentinels);
    } else {
        Py_BEGIN_ALLOW_THREADS value = midpoints(&taken, a, b, n, &sentinels);
        Py_END_ALLOW_THREADS
    }
    native = taken.f.function != NULL;
    matched = taken.f.matched;
    if (nc_callback_failed(&taken.f) && sentinels != 2) {
        PyErr_Format(PyExc_AssertionError, "%d sentinels", sentinels);
        (void)nc_callback_release(&taken.f);
        return NULL;
    }
    if (nc_callback_release(&taken.f) < 0) {
        return NULL;
    }
    if (nc_callback_release(&taken.f) < 0) {
        Py_FatalError("a second release failed");
    }
    return Py_BuildValue("(dOn)", value, native ? Py_True : Py_False, (Py_ssize_t)matched);
}

/* ---- libraries without a place for user data ------------------------------------------------- */

#ifdef SECOND_FILE
double by_current(double x); /* of callback_second.c */
#else
static double by_current(double x)
{
    return sample((Taken *)nc_callback_current(), x);
}
#endif
double sample_of(NcCallback *f, double x);

double sample_of(NcCallback *f, double x)
{
    return sample((Taken *)f, x);
}

/* nested(f, x, options=HOLDS_GIL) -> f(x), by a function that is given x alone */
static PyObject *nested(PyObject *Py_UNUSED(module), PyObject *args)
{
    Taken taken;
    NcCallback *outer = nc_callback_current();
    PyObject *obj;
    double x;
    unsigned options = NC_CALLBACK_HOLDS_GIL;
    if (!PyArg_ParseTuple(args, "Od|I", &obj, &x, &options) ||
        take(&taken, obj, "p", options | NC_CALLBACK_NESTS) < 0) {
        return NULL;
    }
    if ((options & NC_CALLBACK_HOLDS_GIL) != 0) {
        x = by_current(x);
    } else {
        Py_BEGIN_ALLOW_THREADS x = by_current(x);
        Py_END_ALLOW_THREADS
    }
    if (nc_callback_current() != &taken.f) {
        Py_FatalError("an inner callback was not taken off");
    }
    if (nc_callback_release(&taken.f) < 0) {
        return NULL;
    }
    if (nc_callback_current() != outer) {
        Py_FatalError("a callback was not taken off");
    }
    return PyFloat_FromDouble(x);
}

/* two(f, g, x) -> (f(x), g(x)): both nest, and the outer one is released first */
static PyObject *two(PyObject *Py_UNUSED(module), PyObject *args)
{
    Taken outer, inner;
    PyObject *f;
    PyObject *g;
    double x, y;
    const unsigned options = NC_CALLBACK_HOLDS_GIL | NC_CALLBACK_NESTS;
    if (!PyArg_ParseTuple(args, "OOd", &f, &g, &x) || take(&outer, f, "p", options) < 0) {
        return NULL;
    }
    if (take(&inner, g, "p", options) < 0) {
        (void)nc_callback_release(&outer.f);
        return NULL;
    }
    y = by_current(x);
    x = sample(&outer, x);
    if (nc_callback_release(&outer.f) < 0 || nc_callback_current() != &inner.f) {
        (void)nc_callback_release(&inner.f);
        return NULL;
    }
    return nc_callback_release(&inner.f) < 0 ? NULL : Py_BuildValue("(dd)", x, y);
}

/* ---- threads --------------------------------------------------------------------------------- */

typedef struct {
    Taken *taken;
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
        double value = sample(mine->taken, mine->x + (double)i);
        mine->good += value == mine->x + (double)i + 1.0;
        mine->sentinels += value == failed_sentinel;
    }
    return NULL;
}

#define MAX_THREADS 32

/* in_threads(f, threads, calls, which) -> (good, sentinels): threads that Python has never seen */
static PyObject *in_threads(PyObject *Py_UNUSED(module), PyObject *args)
{
    Taken taken;
    PyObject *obj;
    pthread_t threads[MAX_THREADS];
    Work works[MAX_THREADS];
    const char *which;
    int count;
    int i;
    long calls;
    long good = 0;
    long sentinels = 0;
    if (!PyArg_ParseTuple(args, "Oils", &obj, &count, &calls, &which) ||
        take(&taken, obj, which, NC_CALLBACK_TRUSTS_NAMES) < 0) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS for (i = 0; i < count; i++)
    {
        memset(&works[i], 0, sizeof works[i]);
        works[i].taken = &taken;
        works[i].calls = calls;
        works[i].x = (double)i * 1e6;
        (void)pthread_create(&threads[i], NULL, work, &works[i]);
    }
    for (i = 0; i < count; i++) {
        (void)pthread_join(threads[i], NULL);
        good += works[i].good;
        sentinels += works[i].sentinels;
    }
    Py_END_ALLOW_THREADS if (nc_callback_release(&taken.f) < 0)
    {
        return NULL;
    }
    return Py_BuildValue("(ll)", good, sentinels);
}

static void *call_for_ever(void *taken)
{
    for (;;) {
        (void)sample((Taken *)taken, 1.0);
    }
    return NULL;
}

/* start_thread(f): a thread that calls f until the process ends */
static PyObject *start_thread(PyObject *Py_UNUSED(module), PyObject *obj)
{
    pthread_t thread;
    Taken *taken = (Taken *)PyMem_Calloc(1, sizeof *taken);
    if (take(taken, obj, "p", 0) < 0) {
        return NULL;
    }
    (void)pthread_create(&thread, NULL, call_for_ever, taken);
    (void)pthread_detach(thread);
    Py_RETURN_NONE;
}

/* ---- an exception of the C code's own -------------------------------------------------------- */

/* pending(f, when): raises LookupError in C: before the callback is called, after it, or, as a
 * library does that the callback has told to stop, if no exception is set */
static PyObject *pending(PyObject *Py_UNUSED(module), PyObject *args)
{
    Taken taken;
    PyObject *obj;
    const char *when;
    if (!PyArg_ParseTuple(args, "Os", &obj, &when) ||
        take(&taken, obj, "p", NC_CALLBACK_HOLDS_GIL) < 0) {
        return NULL;
    }
    if (strcmp(when, "before") == 0) {
        PyErr_SetString(PyExc_LookupError, "raised in C");
    }
    (void)sample(&taken, 1.0);
    if (strcmp(when, "before") == 0) {
        if (PyErr_Occurred() != PyExc_LookupError) {
            Py_FatalError("a callback has lost the exception of the C code");
        }
    } else if (strcmp(when, "after") == 0 || !PyErr_Occurred()) {
        PyErr_SetString(PyExc_LookupError, "raised in C");
    }
    return nc_callback_release(&taken.f) < 0 ? NULL : PyUnicode_FromString("no exception");
}

/* unused(): releases a callback that was not prepared, with an exception set and without */
static PyObject *unused(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    NcCallback f;
    memset(&f, 0, sizeof f);
    if (nc_callback_release(&f) < 0) {
        return NULL;
    }
    PyErr_SetString(PyExc_LookupError, "raised in C");
    return nc_callback_release(&f) < 0 ? NULL : PyUnicode_FromString("no exception");
}

/* by_python(f, x) -> f(x), by Python even if f has a C function */
static PyObject *by_python(PyObject *Py_UNUSED(module), PyObject *args)
{
    Taken taken;
    PyObject *obj;
    double x;
    if (!PyArg_ParseTuple(args, "Od", &obj, &x) ||
        take(&taken, obj, "p", NC_CALLBACK_HOLDS_GIL | NC_CALLBACK_NATIVE_ONLY) < 0) {
        return NULL;
    }
    taken.f.function = NULL;
    x = sample(&taken, x);
    return nc_callback_release(&taken.f) < 0 ? NULL : PyFloat_FromDouble(x);
}

/* signature(declaration) -> the signature, or None */
static PyObject *read_declaration(PyObject *Py_UNUSED(module), PyObject *args)
{
    const char *declaration;
    char *text;
    PyObject *result;
    if (!PyArg_ParseTuple(args, "s", &declaration)) {
        return NULL;
    }
    text = (char *)PyMem_Malloc(strlen(declaration) + 1);
    result = nc_prototype_signature(declaration, text) == NC_OK ? PyUnicode_FromString(text)
                                                                : Py_NewRef(Py_None);
    PyMem_Free(text);
    return result;
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

static PyMethodDef functions[] = {
    {"integrate", integrate, METH_VARARGS, NULL},
    {"nested", nested, METH_VARARGS, NULL},
    {"two", two, METH_VARARGS, NULL},
    {"in_threads", in_threads, METH_VARARGS, NULL},
    {"start_thread", start_thread, METH_O, NULL},
    {"pending", pending, METH_VARARGS, NULL},
    {"unused", unused, METH_NOARGS, NULL},
    {"by_python", by_python, METH_VARARGS, NULL},
    {"signature", read_declaration, METH_VARARGS, NULL},
    {"api", api, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = MODULE_DEFINITION(functions);

PyMODINIT_FUNC MODULE_INIT(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (module == NULL || static_type_ready(module) < 0 ||
        PyModule_AddIntConstant(module, "HOLDS_GIL", NC_CALLBACK_HOLDS_GIL) < 0 ||
        PyModule_AddIntConstant(module, "CHECKS_ERRORS", NC_CALLBACK_CHECKS_ERRORS) < 0 ||
        PyModule_AddIntConstant(module, "TRUSTS_NAMES", NC_CALLBACK_TRUSTS_NAMES) < 0 ||
        PyModule_AddIntConstant(module, "NATIVE_ONLY", NC_CALLBACK_NATIVE_ONLY) < 0) {
        return NULL;
    }
    return module;
}
