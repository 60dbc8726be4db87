"""What tests of dispatch.h and dynamiccall.h share: functions to call, and the module that calls.

The module is built as C99 against the installed headers and as C++11 against a vendored copy.
"""

import pytest

import nativecall as nc
from support import build

FUNCTIONS = r"""
#include <errno.h>
#include <math.h>
#include <stdint.h>
int PyGILState_Check(void);
double d_d(double x) { return x + 1; }
double d_di(double x, int n) { return 10 * x + n; }
double d_dd(double x, double y) { return 100 * x + y; }
float f_fq(float x, int64_t n) { return 1000 * x + (float)n; }
double d_qd(int64_t n, double x) { return (double)n + x; }
double d_q(int64_t n) { return (double)n; }
float f_d(double x) { return (float)x + 2; }
int8_t b_i(int n) { return (int8_t)n; }
double d_8(double a, double b, double c, double d, double e, double f, double g, double h)
{
    return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h;
}
static double seen;
void v_f(float x) { seen = x; }
void v_d(double x) { seen = -x; }
void v_(void) { seen++; }
double take(void) { double last = seen; seen = 0; return last; }
double five(void) { return 5; }
double through(double (*f)(double)) { return f(2); }
double five_d(double x) { (void)x; return 5; }
float half(void) { return 0.5F; }
double holds(double x) { return PyGILState_Check() ? x : -x; }
int same_i(int x) { return x; }
void *same_P(void *x) { return x; }
int sets_errno(int x) { errno = x; return 0; }
void *null_object(void *x) { return x ? (void *)0 : x; }
struct point { double x, y; };
double norm(struct point p) { return p.x * p.x + p.y * p.y; }
struct point turn(double x) { struct point p; p.x = -x; p.y = 2 * x; return p; }
_Complex double Zd_Zd(_Complex double z) { return 2 * z; }
double many(double a, int b, double c, int d, double e, int f, double g, int h, double i, int j,
            double k, int l, double m, int n, double o, int p, double q, int r, double s, int t)
{
    return a + b * 2 + c * 3 + d * 4 + e * 5 + f * 6 + g * 7 + h * 8 + i * 9 + j * 10 + k * 11
        + l * 12 + m * 13 + n * 14 + o * 15 + p * 16 + q * 17 + r * 18 + s * 19 + t * 20;
}
"""


@pytest.fixture(scope="session")
def library(builder):
    """The library of FUNCTIONS."""
    return builder.library(FUNCTIONS, "dispatch_functions")


@pytest.fixture(scope="session")
def functions(library):
    """The same library, open."""
    return nc.load(library)


@pytest.fixture(scope="session")
def extension(builder, include, vendored):
    """Builds the module of tests/ext/dispatch.c in a standard of C or C++."""

    def extension(standard):
        return builder.extension(
            "dispatch.c",
            {"c99": "dispatch_c", "c++11": "dispatch_cpp"}[standard],
            include={"c99": include, "c++11": vendored}[standard],
            language={"c99": "c", "c++11": "c++"}[standard],
        )

    return extension


@pytest.fixture(scope="session", params=["c99", "c++11"])
def c(request, extension):
    """The module of tests/ext/dispatch.c."""
    return build.load_extension(extension(request.param))
