"""GSL integrates log(x) / sqrt(x), a Python function in a struct: with ctypes."""

import ctypes as ct
import math

FUNCTION = ct.CFUNCTYPE(ct.c_double, ct.c_double, ct.c_void_p)


class GslFunction(ct.Structure):
    _fields_ = [("function", FUNCTION), ("params", ct.c_void_p)]


gsl = ct.CDLL("libgsl.so")
gsl.gsl_strerror.argtypes, gsl.gsl_strerror.restype = [ct.c_int], ct.c_char_p
gsl.gsl_integration_workspace_alloc.argtypes = [ct.c_size_t]
gsl.gsl_integration_workspace_alloc.restype = ct.c_void_p
gsl.gsl_integration_workspace_free.argtypes = [ct.c_void_p]
gsl.gsl_integration_workspace_free.restype = None
number = ct.POINTER(ct.c_double)
gsl.gsl_integration_qags.argtypes = [ct.POINTER(GslFunction), *[ct.c_double] * 4]
gsl.gsl_integration_qags.argtypes += [ct.c_size_t, ct.c_void_p, number, number]


def integral(f, a, b, epsabs=0.0, epsrel=1e-7, limit=1000):
    """The integral of f from a to b, and its error."""
    raised = []

    def function(x, params):
        if raised:
            return math.nan
        try:
            return f(x)
        except Exception as error:
            raised.append(error)
            return math.nan

    what = GslFunction(FUNCTION(function))
    result, error = ct.c_double(), ct.c_double()
    work = gsl.gsl_integration_workspace_alloc(limit)
    try:
        status = gsl.gsl_integration_qags(
            what, a, b, epsabs, epsrel, limit, work, ct.byref(result), ct.byref(error)
        )
    finally:
        gsl.gsl_integration_workspace_free(work)
    if raised:
        raise raised[0]
    if status:
        raise RuntimeError(gsl.gsl_strerror(status).decode())
    return result.value, error.value


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
