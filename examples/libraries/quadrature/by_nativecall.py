"""Integrate log(x) / sqrt(x) with GSL: a Python function in a struct."""

import math

import nativecall as nc


def checked(found, function, arguments):
    status, result, error = found
    if status:
        raise RuntimeError(gsl.gsl_strerror(status))
    return result, error


gsl = nc.load(
    "gsl",
    header=["gsl/gsl_integration.h", "gsl/gsl_errno.h"],
    encoding="ascii",
    out={"gsl_integration_qags": ["result", "abserr"]},
    check={"gsl_integration_qags": checked},
)


def integral(f, a, b, epsabs=0.0, epsrel=1e-7, limit=1000):
    """The integral of f from a to b, and its error."""
    work = gsl.gsl_integration_workspace_alloc(limit)
    what = gsl.new("gsl_function", {"function": lambda x, params: f(x)})
    try:
        return gsl.gsl_integration_qags(what, a, b, epsabs, epsrel, limit, work)
    finally:
        gsl.gsl_integration_workspace_free(work)


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
