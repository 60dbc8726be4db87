/* module.c: a generic filter in one dimension with the conventions of scipy.ndimage's.
 *
 * generic_filter(input, f, size, output, extra_arguments=(), extra_keywords=None)
 *     -> whether f was called natively
 *
 * For each value of input, f gets the `size` values around it; at the ends, the last one again. A C
 * function writes its result and returns 0 when it failed, as ndimage wants it; a native callable
 * may return the result instead. A Python function is called with a memoryview of the values, the
 * extra arguments and keywords. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <nativecall/callback.h>

typedef int (*WithStatus)(double *, Py_ssize_t, double *, void *);
typedef double (*Plain)(const double *, Py_ssize_t);

static NcCallbackSignature accepted[] = {
    NC_CALLBACK_ACCEPT_WITH_DATA("int (double *, npy_intp, double *, void *)"),
    NC_CALLBACK_ACCEPT("double (const double *, npy_intp)"),
};

/* What a filter hands to its callback as `data`. */
typedef struct {
    NcCallback f;
    PyObject *arguments; /* a tuple */
    PyObject *keywords;  /* a dict, or NULL */
} Filter;

static PyObject *call_with_extras(const Filter *filter, PyObject *callable, PyObject *values)
{
    PyObject *first = PyTuple_Pack(1, values);
    PyObject *all = first != NULL ? PySequence_Concat(first, filter->arguments) : NULL;
    PyObject *result = all != NULL ? PyObject_Call(callable, all, filter->keywords) : NULL;
    Py_XDECREF(all);
    Py_XDECREF(first);
    return result;
}

/* f(values, *extra_arguments, **extra_keywords) of Python's: 1, or 0 when it failed. */
static int call_python(Filter *filter, double *values, Py_ssize_t size, double *out)
{
    NcCallbackCall call;
    if (!nc_callback_enter(&filter->f, &call)) {
        return 0;
    }
    PyObject *bytes =
        PyMemoryView_FromMemory((char *)values, size * (Py_ssize_t)sizeof(double), PyBUF_READ);
    PyObject *view = bytes != NULL ? PyObject_CallMethod(bytes, "cast", "s", "d") : NULL;
    PyObject *result = view != NULL ? call_with_extras(filter, call.callable, view) : NULL;
    *out = result != NULL ? PyFloat_AsDouble(result) : 0.0;
    Py_XDECREF(result);
    Py_XDECREF(view);
    Py_XDECREF(bytes);
    return nc_callback_leave(&call) == 0;
}

/* What the library calls: 1, or 0 to make it stop. */
static int call(double *values, Py_ssize_t size, double *out, void *data)
{
    Filter *filter = (Filter *)data;
    NcCallback *f = &filter->f;
    if (f->function == NULL) {
        return call_python(filter, values, size, out);
    }
    if (f->matched == 0) {
        return NC_CALLBACK_FUNCTION(f, WithStatus)(values, size, out, f->user_data);
    }
    *out = NC_CALLBACK_FUNCTION(f, Plain)(values, size);
    return 1;
}

/* ---- the library, which knows nothing of Python ---------------------------------------------- */

static int filter_all(const double *input, Py_ssize_t n, double *output, double *window,
                      Py_ssize_t size, WithStatus function, void *data)
{
    for (Py_ssize_t i = 0; i < n; i++) {
        for (Py_ssize_t j = 0; j < size; j++) {
            const Py_ssize_t at = i + j - size / 2;
            window[j] = input[at < 0 ? 0 : at < n ? at : n - 1];
        }
        if (!function(window, size, &output[i], data)) {
            return -1;
        }
    }
    return 0;
}

/* Two functions for it. The first is scaled by what user_data points to, if there is some. */
static int mean(double *values, Py_ssize_t size, double *out, void *scale)
{
    double sum = 0.0;
    for (Py_ssize_t i = 0; i < size; i++) {
        sum += values[i];
    }
    *out = sum / (double)size * (scale != NULL ? *(const double *)scale : 1.0);
    return 1;
}

static double peak(const double *values, Py_ssize_t size)
{
    double most = values[0];
    for (Py_ssize_t i = 1; i < size; i++) {
        most = values[i] > most ? values[i] : most;
    }
    return most;
}

/* ---- the module ------------------------------------------------------------------------------ */

static PyObject *py_generic_filter(PyObject *module, PyObject *args, PyObject *named)
{
    static char *names[] = {"input",          "f", "size", "output", "extra_arguments",
                            "extra_keywords", NULL};
    Filter filter = {.keywords = NULL};
    Py_buffer input, output;
    PyObject *callable, *keywords = Py_None, *extra = NULL;
    Py_ssize_t size, n;
    double *window;
    int failed = 1, native = 0;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, named, "y*Onw*|O!O", names, &input, &callable, &size,
                                     &output, &PyTuple_Type, &extra, &keywords)) {
        return NULL;
    }
    n = input.len / (Py_ssize_t)sizeof(double);
    filter.arguments = extra != NULL ? Py_NewRef(extra) : PyTuple_New(0);
    filter.keywords = keywords != Py_None ? keywords : NULL;
    window = (double *)PyMem_Malloc((size_t)(size > 0 ? size : 1) * sizeof *window);
    if (size < 1 || output.len != input.len) {
        PyErr_SetString(PyExc_ValueError, "'size' must be positive, and 'output' as long as input");
    } else if (filter.arguments != NULL && window != NULL &&
               nc_callback_prepare(&filter.f, callable, accepted, 2, NC_CALLBACK_HOLDS_GIL) == 0) {
        native = filter.f.function != NULL;
        failed = filter_all((const double *)input.buf, n, (double *)output.buf, window, size, call,
                            &filter) < 0;
        if (failed && !nc_callback_failed(&filter.f) && !PyErr_Occurred()) {
            PyErr_SetString(PyExc_RuntimeError, "the C function failed");
        }
        failed = nc_callback_release(&filter.f) < 0;
    }
    PyMem_Free(window);
    Py_XDECREF(filter.arguments);
    PyBuffer_Release(&output);
    PyBuffer_Release(&input);
    return failed ? NULL : PyBool_FromLong(native);
}

static PyMethodDef functions[] = {
    {"generic_filter", (PyCFunction)(void (*)(void))py_generic_filter, METH_VARARGS | METH_KEYWORDS,
     "generic_filter(input, f, size, output, extra_arguments=(), extra_keywords=None) -> native"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "filters",    .m_doc = "A filter that takes any callable.",
    .m_size = -1,          .m_methods = functions,
};

static int add(PyObject *module, const char *name, void *function, const char *declaration)
{
    PyObject *capsule = PyCapsule_New(function, declaration, NULL);
    const int status = capsule != NULL ? PyModule_AddObjectRef(module, name, capsule) : -1;
    Py_XDECREF(capsule);
    return status;
}

PyMODINIT_FUNC PyInit_filters(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (module != NULL &&
        (add(module, "mean", (void *)(uintptr_t)mean, accepted[0].declaration) < 0 ||
         add(module, "peak", (void *)(uintptr_t)peak, accepted[1].declaration) < 0)) {
        Py_CLEAR(module);
    }
    return module;
}
