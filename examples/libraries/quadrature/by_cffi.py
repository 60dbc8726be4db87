"""GSL integrates log(x) / sqrt(x), a Python function in a struct: with cffi."""

import math

from cffi import FFI

ffi = FFI()
ffi.cdef("""
    typedef struct { double (*function)(double, void *); void *params; } gsl_function;
    typedef struct gsl_integration_workspace gsl_integration_workspace;
    typedef void gsl_error_handler_t(const char *, const char *, int, int);
    gsl_error_handler_t *gsl_set_error_handler_off(void);
    const char *gsl_strerror(int);
    gsl_integration_workspace *gsl_integration_workspace_alloc(size_t);
    void gsl_integration_workspace_free(gsl_integration_workspace *);
    int gsl_integration_qags(const gsl_function *, double, double, double, double, size_t,
                             gsl_integration_workspace *, double *, double *);
""")
gsl = ffi.dlopen("libgsl.so")
raised = []


def note(kind, error, traceback):
    raised.append(error)


def integral(f, a, b, epsabs=0.0, epsrel=1e-7, limit=1000):
    """The integral of f from a to b, and its error."""
    raised.clear()

    @ffi.callback("double(double, void *)", error=math.nan, onerror=note)
    def function(x, params):
        return f(x) if not raised else math.nan

    work = ffi.gc(gsl.gsl_integration_workspace_alloc(limit), gsl.gsl_integration_workspace_free)
    what = ffi.new("gsl_function *", {"function": function})
    result, error = ffi.new("double *"), ffi.new("double *")
    status = gsl.gsl_integration_qags(what, a, b, epsabs, epsrel, limit, work, result, error)
    if raised:
        raise raised[0]
    if status:
        raise RuntimeError(ffi.string(gsl.gsl_strerror(status)).decode())
    return result[0], error[0]


def main():
    gsl.gsl_set_error_handler_off()
    result, error = integral(lambda x: math.log(x) / math.sqrt(x), 0.0, 1.0)
    print(f"{result:.9f}", error < 1e-6)
    for f in (lambda x: 1 / (x - x), lambda x: 1 / x):
        try:
            print(integral(f, 0.0, 1.0))
        except (RuntimeError, ZeroDivisionError) as error:
            print(error)


if __name__ == "__main__":
    main()
