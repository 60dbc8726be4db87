// module.cpp: numerics.hpp for Python, where any callable is a function.
//
// The headers are all it needs of nativecall: setup.py copies them next to the build, and what is
// built runs where nativecall is not installed.
#include "callback.hpp"
#include "numerics.hpp"

#include <cmath>

template <>
NcCallbackSignature Callback<double(double)>::accepted[] = {
    NC_CALLBACK_ACCEPT("double (double)"), NC_CALLBACK_ACCEPT_WITH_DATA("double (double, void *)")};
template <>
NcCallbackSignature Callback<double(double, double)>::accepted[] = {
    NC_CALLBACK_ACCEPT("double (double, double)"),
    NC_CALLBACK_ACCEPT_WITH_DATA("double (double, double, void *)")};

namespace
{

// What is done with a function; C++11 has no lambdas that are templates.
struct Integrate {
    double a, b;
    long n;

    template <class Function> double operator()(const Function &f) const
    {
        const WithoutGil no_gil; // Python functions take it for each call.
        return numerics::integrate(f, a, b, n);
    }
};

struct FindRoot {
    double a, b;

    template <class Function> double operator()(const Function &f) const
    {
        return numerics::find_root(f, a, b);
    }
};

struct Solve {
    double t0, y0, t1;
    long n;

    template <class Function> double operator()(const Function &f) const
    {
        return numerics::solve(f, t0, y0, t1, n);
    }
};

// The result and whether the callback was native; no exception leaves.
template <class Signature, class Work>
PyObject *run(PyObject *callable, unsigned options, const Work &work)
{
    try {
        Callback<Signature> f(callable, options);
        const double value = f.apply(work);
        const bool native = f.native();
        f.release();
        return Py_BuildValue("(dO)", value, native ? Py_True : Py_False);
    } catch (const PythonError &) {
    } catch (const std::domain_error &error) {
        PyErr_SetString(PyExc_ValueError, error.what());
    }
    return nullptr;
}

} // namespace

extern "C" {

static PyObject *py_integrate(PyObject *, PyObject *args)
{
    PyObject *callable;
    Integrate work;
    if (!PyArg_ParseTuple(args, "Oddl", &callable, &work.a, &work.b, &work.n)) {
        return nullptr;
    }
    return run<double(double)>(callable, NC_CALLBACK_TRUSTS_NAMES, work);
}

static PyObject *py_find_root(PyObject *, PyObject *args)
{
    PyObject *callable;
    FindRoot work;
    if (!PyArg_ParseTuple(args, "Odd", &callable, &work.a, &work.b)) {
        return nullptr;
    }
    return run<double(double)>(callable, NC_CALLBACK_HOLDS_GIL, work);
}

static PyObject *py_solve(PyObject *, PyObject *args)
{
    PyObject *callable;
    Solve work;
    if (!PyArg_ParseTuple(args, "Odddl", &callable, &work.t0, &work.y0, &work.t1, &work.n)) {
        return nullptr;
    }
    return run<double(double, double)>(callable, NC_CALLBACK_HOLDS_GIL, work);
}

static PyMethodDef functions[] = {
    {"integrate", py_integrate, METH_VARARGS, "integrate(f, a, b, n) -> (value, native)"},
    {"find_root", py_find_root, METH_VARARGS, "find_root(f, a, b) -> (root, native)"},
    {"solve", py_solve, METH_VARARGS, "solve(f, t0, y0, t1, n) -> (y, native)"},
    {nullptr, nullptr, 0, nullptr},
};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    "cpp_numerics",
    "An integrator, a root finder and an ODE stepper that take any callable.",
    -1,
    functions,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
};

PyMODINIT_FUNC PyInit_cpp_numerics(void)
{
    return PyModule_Create(&definition);
}
}
