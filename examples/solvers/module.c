/* module.c: the solvers for Python, where any callable is a function.
 *
 * Native callables, LowLevelCallables and capsules are called as they are, what else Python can
 * call is called by it; callback.h finds out which. The solvers see a C function in any case. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>

#include <nativecall/callback.h>

#include "solvers.h"

/* ---- functions of one number ----------------------------------------------------------------- */

static NcCallbackSignature functions[] = {
    NC_CALLBACK_ACCEPT("double (double)"),
    NC_CALLBACK_ACCEPT_WITH_DATA("double (double, void *)"),
};

static double call_function(double x, void *data)
{
    NcCallback *f = (NcCallback *)data;
    NcCallbackCall python;
    double value = NAN;
    if (f->function != NULL) {
        return f->matched == 0
                   ? NC_CALLBACK_FUNCTION(f, double (*)(double))(x)
                   : NC_CALLBACK_FUNCTION(f, double (*)(double, void *))(x, f->user_data);
    }
    if (nc_callback_enter(f, &python)) {
        PyObject *result = PyObject_CallFunction(python.callable, "d", x);
        value = result != NULL ? PyFloat_AsDouble(result) : NAN;
        Py_XDECREF(result);
        if (nc_callback_leave(&python) < 0) {
            value = NAN;
        }
    }
    return value;
}

/* ---- right sides of differential equations --------------------------------------------------- */

/* y as a tuple, for a Python function; its values stay good after the call. */
static PyObject *tuple_of(int n, const double *values)
{
    PyObject *tuple = PyTuple_New(n);
    int i;
    for (i = 0; tuple != NULL && i < n; i++) {
        PyObject *value = PyFloat_FromDouble(values[i]);
        if (value == NULL) {
            Py_CLEAR(tuple);
        } else {
            PyTuple_SET_ITEM(tuple, i, value);
        }
    }
    return tuple;
}

/* The numbers of a sequence, exactly n of them. 0, or -1 with an exception. */
static int read_numbers(PyObject *object, Py_ssize_t n, double *values, const char *what)
{
    PyObject *sequence = PySequence_Fast(object, "a sequence of numbers is needed");
    int status = 0;
    Py_ssize_t i;
    if (sequence == NULL) {
        return -1;
    }
    if (PySequence_Fast_GET_SIZE(sequence) != n) {
        PyErr_Format(PyExc_ValueError, "%s must have %zd numbers (got %zd)", what, n,
                     PySequence_Fast_GET_SIZE(sequence));
        status = -1;
    }
    for (i = 0; status == 0 && i < n; i++) {
        /* The list may shrink while a number is asked for its value. */
        PyObject *item = i < PySequence_Fast_GET_SIZE(sequence)
                             ? Py_NewRef(PySequence_Fast_GET_ITEM(sequence, i))
                             : PyFloat_FromDouble(NAN);
        values[i] = item != NULL ? PyFloat_AsDouble(item) : -1.0;
        status = values[i] == -1.0 && PyErr_Occurred() ? -1 : 0;
        Py_XDECREF(item);
    }
    Py_DECREF(sequence);
    return status;
}

/* f(t, y) -> a sequence, as solve_ivp has it. */
static void call_python(NcCallback *f, int n, double t, const double *y, double *dydt)
{
    NcCallbackCall python;
    if (nc_callback_enter(f, &python)) {
        PyObject *state = tuple_of(n, y);
        PyObject *slopes =
            state != NULL ? PyObject_CallFunction(python.callable, "dO", t, state) : NULL;
        if (slopes != NULL) {
            (void)read_numbers(slopes, n, dydt, "the result of f(t, y)");
        }
        Py_XDECREF(slopes);
        Py_XDECREF(state);
        (void)nc_callback_leave(&python);
    }
}

static NcCallbackSignature right_sides[] = {
    NC_CALLBACK_ACCEPT("void (double, const double *, double *)"),
    NC_CALLBACK_ACCEPT_WITH_DATA("void (double, const double *, double *, void *)"),
};

typedef void (*Plain)(double, const double *, double *);
typedef void (*WithData)(double, const double *, double *, void *);

static void call_right_side(int n, double t, const double *y, double *dydt, void *data)
{
    NcCallback *f = (NcCallback *)data;
    if (f->function == NULL) {
        call_python(f, n, t, y, dydt);
    } else if (f->matched == 0) {
        NC_CALLBACK_FUNCTION(f, Plain)(t, y, dydt);
    } else {
        NC_CALLBACK_FUNCTION(f, WithData)(t, y, dydt, f->user_data);
    }
}

/* ---- the functions of the module ------------------------------------------------------------- */

static int failed(const void *data)
{
    return nc_callback_failed((const NcCallback *)data);
}

/* Ends the callback: 0 with what it was; -1 with its exception, or that of a solver that failed. */
static int finish(NcCallback *f, SolverStatus status, int *native)
{
    static const char *const reasons[] = {
        [SOLVER_STOPPED] = "the function stopped the work",
        [SOLVER_ENDS] = "the ends must be finite",
        [SOLVER_SAME_SIGN] = "the function has the same sign at both ends",
        [SOLVER_NOT_FINITE] = "the function gave NaN",
        [SOLVER_TOO_LONG] = "the solver did not get there in its limit of steps",
        [SOLVER_STEP] = "the step would be smaller than the spacing of floating-point numbers",
    };
    *native = f->function != NULL;
    if (nc_callback_release(f) < 0) {
        return -1;
    }
    if (status == SOLVER_MEMORY) {
        PyErr_NoMemory();
    } else if (status != SOLVER_DONE) {
        PyErr_SetString(PyExc_ValueError, reasons[status]);
    }
    return status == SOLVER_DONE ? 0 : -1;
}

static PyObject *py_find_root(PyObject *module, PyObject *args, PyObject *named)
{
    static char *names[] = {"f", "a", "b", "xtol", "rtol", NULL};
    PyObject *callable;
    NcCallback f;
    SolverStatus status;
    double a;
    double b;
    double xtol = 2e-12;
    double rtol = 8.9e-16;
    double root = NAN;
    long calls;
    int native;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, named, "Odd|dd", names, &callable, &a, &b, &xtol,
                                     &rtol) ||
        nc_callback_prepare(&f, callable, functions, 2, NC_CALLBACK_HOLDS_GIL) < 0) {
        return NULL;
    }
    status = find_root(call_function, &f, failed, a, b, xtol, rtol, &root, &calls);
    return finish(&f, status, &native) < 0
               ? NULL
               : Py_BuildValue("dlO", root, calls, native ? Py_True : Py_False);
}

static PyObject *py_solve_ode(PyObject *module, PyObject *args, PyObject *named)
{
    static char *names[] = {"f", "t_span", "y0", "rtol", "atol", NULL};
    PyObject *callable;
    PyObject *initial;
    NcCallback f;
    SolverStatus status;
    double t0;
    double t1;
    double rtol = 1e-3;
    double atol = 1e-6;
    double *y;
    Py_ssize_t n;
    long calls;
    int native;
    PyObject *result = NULL;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, named, "O(dd)O|dd", names, &callable, &t0, &t1, &initial,
                                     &rtol, &atol) ||
        (n = PySequence_Size(initial)) < 0) {
        return NULL;
    }
    if (n == 0 || n > 1000000) {
        PyErr_Format(PyExc_ValueError, "'y0' must have 1 to 1000000 numbers (got %zd)", n);
        return NULL;
    }
    y = (double *)PyMem_Malloc((size_t)n * sizeof *y);
    if (y == NULL) {
        return PyErr_NoMemory();
    }
    if (read_numbers(initial, n, y, "'y0'") == 0 &&
        nc_callback_prepare(&f, callable, right_sides, 2, NC_CALLBACK_TRUSTS_NAMES) == 0) {
        PyThreadState *thread = PyEval_SaveThread(); /* call_python takes the GIL */
        status = solve_ode((int)n, call_right_side, &f, failed, t0, t1, y, rtol, atol, &calls);
        PyEval_RestoreThread(thread);
        if (finish(&f, status, &native) == 0) {
            result = Py_BuildValue("NlO", tuple_of((int)n, y), calls, native ? Py_True : Py_False);
        }
    }
    PyMem_Free(y);
    return result;
}

static PyMethodDef methods[] = {
    {"find_root", (PyCFunction)(void (*)(void))py_find_root, METH_VARARGS | METH_KEYWORDS,
     "find_root(f, a, b, xtol=2e-12, rtol=8.9e-16) -> (root, calls, native)\n\n"
     "A root of f(x) between a and b."},
    {"solve_ode", (PyCFunction)(void (*)(void))py_solve_ode, METH_VARARGS | METH_KEYWORDS,
     "solve_ode(f, (t0, t1), y0, rtol=1e-3, atol=1e-6) -> (y, calls, native)\n\n"
     "y(t1) for y' = f(t, y): void f(double t, const double *y, double *dydt) in C, a function\n"
     "of t and a tuple that returns a sequence in Python."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "solvers",
    .m_doc = "A root finder and a solver of differential equations that take any callable.",
    .m_size = -1,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit_solvers(void)
{
    return PyModule_Create(&definition);
}
