"""Calls by their plans: Python functions that C calls, objects, views, limits.

test_random_signatures.py compares values with what C sees.
"""

from __future__ import annotations

import ctypes
import sys

import cffi
import numpy as np
import pytest

import nativecall as nc
from support.randomcalls import C_TYPES

ORACLE = cffi.FFI()

# -- what the oracle has no plain equal for ------------------------------------------------------

HALF = """
_Float16 half_twice(_Float16 x);
_Float16 half_twice(_Float16 x) { return x + x; }
double half_many(_Float16 a, double b, _Float16 c, int d, _Float16 e);
double half_many(_Float16 a, double b, _Float16 c, int d, _Float16 e)
{ return (double)a + 10 * b + 100 * (double)c + 1000 * d + 10000 * (double)e; }
"""


def test_half_floats(builder):
    try:
        path = builder.library(HALF, "half", flags=("-O1", "-Wno-conversion", "-Wno-pedantic"))
    except AssertionError as error:
        if "_Float16" not in str(error):
            raise
        pytest.skip("this compiler has no _Float16")
    half = nc.load(path)
    twice = half.function("half_twice", "e:e")
    for value in (0.0, 1.0, -2.5, 65504.0 / 2, 2.0**-24, float("inf")):
        assert twice(value) == value * 2
    assert twice(1 + 2**-12) == 2.0, "rounded to the nearest half"
    many = half.function("half_many", "d:edeie")
    assert many(1, 2, 3, 4, 5) == 54321.0


# -- Python objects and views --------------------------------------------------------------------


def python_api(name: str) -> int:
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value


def test_python_objects_pass_as_they_are():
    add = nc.wrap(python_api("PyNumber_Add"), "O:OO", name="add", errors="python")
    assert add(2, 3) == 5
    assert add([1], [2]) == [1, 2]
    with pytest.raises(TypeError, match="unsupported operand"):
        add(1, "x")
    thing = object()
    before = sys.getrefcount(thing)
    for _ in range(100):
        nc.wrap(python_api("PyObject_Type"), "O:O")(thing)
    assert sys.getrefcount(thing) == before


def test_views_of_every_element_type(builder):
    source = "#include <stdint.h>\n" + "\n".join(
        f"{c} last_{i}(const void *const *view);\n"
        f"{c} last_{i}(const void *const *view) {{ const char *data = view[0];\n"
        "    const long long *words = (const long long *)(const void *)view;\n"
        f"    return *(const {c} *)(const void *)(data + (words[1] - 1) * words[2]); }}"
        for i, c in enumerate(VIEWED.values())
    )
    views = nc.load(builder.library(source, "views", flags=("-O1", "-Wno-cast-qual")))
    for i, code in enumerate(VIEWED):
        f = views.function(f"last_{i}", f"{code}:[1]{code}")
        a = np.arange(1, 9).astype({"q": "i8", "Q": "u8"}.get(code, code))
        assert f(a) == 8
        assert f(a[::2]) == 7
        assert f(a[::-1]) == 1
        assert f(memoryview(a)[1:4]) == 4


VIEWED = {code: C_TYPES[code] for code in "bBhHiIqQfd"}


# -- Python functions that C calls ---------------------------------------------------------------

CALLBACKS = """
#include <stdbool.h>
#include <stdint.h>
typedef struct { double x; int32_t n; } Pair;
double both(double (*f)(double), double (*g)(double), double x);
double both(double (*f)(double), double (*g)(double), double x) { return 10 * f(x) + g(x); }
int64_t last(int64_t (*f)(int64_t), int64_t n);
int64_t last(int64_t (*f)(int64_t), int64_t n)
{ int64_t r = 99; for (int64_t i = 0; i < n; i++) { r = f(i); } return r; }
double pointed(double (*f)(double *, const void *), double *x);
double pointed(double (*f)(double *, const void *), double *x) { return f(x, 0); }
double paired(double (*f)(Pair, bool, float, long double, int8_t));
double paired(double (*f)(Pair, bool, float, long double, int8_t))
{ Pair p = {1.5, 7}; return f(p, true, 0.5f, 2.5L, -3); }
double *passed(double *(*f)(int32_t), int32_t n);
double *passed(double *(*f)(int32_t), int32_t n) { return f(n); }
uint8_t narrow(uint8_t (*f)(void));
uint8_t narrow(uint8_t (*f)(void)) { return f(); }
static double (*kept)(double);
void keep(double (*f)(double));
void keep(double (*f)(double)) { kept = f; }
"""


@pytest.fixture(scope="module")
def callbacks(builder):
    return nc.load(builder.library(CALLBACKS, "callbacks", flags=("-O1",)))


@pytest.fixture
def unraisable(monkeypatch):
    found = []
    monkeypatch.setattr(sys, "unraisablehook", lambda hook: found.append(repr(hook.exc_value)))
    return found


@pytest.mark.parametrize("gil", ["hold", "release"])
def test_a_python_function_raises_in_the_caller(callbacks, unraisable, fails, gil):
    """C goes on with zeros, and nothing runs meanwhile."""
    f = callbacks.function("last", "q:X{q:q}q", gil=gil)
    seen = []

    def broken(i):
        seen.append(i)
        raise LookupError(f"number {i}")

    with fails(LookupError, "number 0"):
        f(broken, 3)
    assert seen == [0]
    with fails(OverflowError, "bad"):
        f(lambda i: 5 if i else (_ for _ in ()).throw(OverflowError("bad")), 2)
    with pytest.raises(KeyboardInterrupt):
        f(lambda i: (_ for _ in ()).throw(KeyboardInterrupt), 1)
    assert f(lambda i: i * i, 5) == 16
    assert f(broken, 0) == 99
    assert unraisable == []


@pytest.mark.parametrize("gil", ["hold", "release"])
def test_what_a_python_function_returns_is_converted(callbacks, unraisable, fails, gil):
    f = callbacks.function("last", "q:X{q:q}q", gil=gil)
    who = "the result of argument 1 of 'last'"
    for value, exception, message in (
        ("x", TypeError, f"{who} must be an integer (got str)"),
        (None, TypeError, f"{who} must be an integer (got NoneType)"),
        (1.5, TypeError, f"{who} must be an integer (got float)"),
        (2**63, OverflowError, f"{who} is out of range for 'long' ({-(2**63)} to {2**63 - 1})"),
    ):
        with fails(exception, message):
            f(lambda i, value=value: value, 1)
    assert f(lambda i: np.int8(-7), 1) == -7
    narrow = callbacks.function("narrow", "B:X{B:}", gil=gil)
    assert narrow(lambda: 255) == 255
    with fails(
        OverflowError,
        "the result of argument 1 of 'narrow' is 256, out of range for 'unsigned char' (0 to 255)",
    ):
        narrow(lambda: 256)
    both = callbacks.function("both", "d:X{d:d}X{d:d}d", gil=gil)
    assert both(abs, lambda x: x + True, -2) == 19.0
    passed = callbacks.function("passed", "&d:X{&d:i}i", gil=gil)
    a = np.array([1.5, 2.5])
    assert passed(lambda n: a, 0)[1] == 2.5
    assert passed(lambda n: None, 0) is None
    with pytest.raises(TypeError, match=r"^the result of argument 1 of 'passed' must be a buffer"):
        passed(lambda n: a.astype("f"), 0)
    assert unraisable == []


@pytest.mark.parametrize("gil", ["hold", "release"])
def test_the_first_of_several_python_functions_to_fail_wins(callbacks, unraisable, fails, gil):
    f = callbacks.function("both", "d:X{d:d}X{d:d}d", gil=gil)

    def fail(name):
        def broken(x):
            raise LookupError(name)

        return broken

    with fails(LookupError, "first"):
        f(fail("first"), fail("second"), 1.0)
    with fails(LookupError, "second"):
        f(abs, fail("second"), 1.0)
    with fails(LookupError, "first"):
        f(fail("first"), abs, 1.0)
    assert unraisable == []


@pytest.mark.parametrize("gil", ["hold", "release"])
def test_arguments_of_python_functions(callbacks, gil):
    a = np.array([1.5, 2.5])

    def takes(x, nothing):
        assert ORACLE.typeof(x).cname == "double *"
        assert nothing is None
        x[0] = 4.5
        return x[1]

    assert callbacks.function("pointed", "d:X{d:&dP}&d", gil=gil)(takes, a) == 2.5
    assert a[0] == 4.5
    seen = []
    f = callbacks.function("paired", "d:X{d:T{d:x:i:n:}?fgb}", gil=gil)
    assert (
        f(
            lambda *values: seen.append(values) or 1,
        )
        == 1.0
    )
    assert seen == [((1.5, 7), True, 0.5, 2.5, -3)]
    assert seen[0][0].n == 7
    assert [type(value) for value in seen[0][1:]] == [bool, float, float, int]


def test_python_functions_in_structs_raise_too(lib, fails):
    f = lib.function("run_task", "d:T{&d:x:q:n:X{d:d}:f:}")

    def broken(x):
        raise LookupError("in a struct")

    with fails(LookupError, "in a struct"):
        f((np.ones(1), 1, broken))


def test_a_python_function_wins_over_an_error_convention(callbacks, fails):
    f = callbacks.function("last", "q:X{q:q}q", errors="zero")

    def broken(i):
        raise LookupError("the cause")

    with fails(LookupError, "the cause"):
        f(broken, 1)
    with fails(nc.NativeFailure, "'last' failed: it returned 0"):
        f(lambda i: 0, 1)


# -- limits --------------------------------------------------------------------------------------


def test_any_number_of_arguments(lib):
    assert nc.wrap(lib.address("called0"), "v:" + "d" * 4000)(*[1.0] * 4000) is None
    assert lib.function("add_all", "d:i.")(2000, *[1.0] * 2000) == 2000.0


@pytest.mark.parametrize(
    "signature", ["v:T{(1000000000)d}", "T{(40000)d}:", "v:T{(20000)d}T{(20000)d}"]
)
def test_values_that_no_stack_holds_are_refused_at_once(lib, signature):
    f = nc.wrap(lib.address("called0"), signature, name="f")
    arguments = [([0.0],)] * len(f._cif.signature.args)
    with pytest.raises(
        nc.SignatureError, match=r"^arguments and result of \d+ bytes by value are more than"
    ):
        f(*arguments)
