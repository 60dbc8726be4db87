"""Functions that are passed to C: converted, or compiled, where their signature is another one."""

from __future__ import annotations

import ctypes
import gc
import math
import weakref

import pytest

import nativecall as nc

SOURCE = """
#include <stddef.h>
typedef struct { double (*f)(double, void *); void *params; } job;
double apply(double (*f)(double), double x) { return f(x); }
double with_data(double (*f)(double, void *), double x, void *data) { return f(x, data); }
int on_ints(int (*f)(int), int x) { return f(x); }
int visit(int (*f)(const int *, size_t), const int *items, size_t count)
{
    int sum = 0;
    for (size_t i = 0; i < count; i++) sum += f(items + i, i);
    return sum;
}
double run(const job *j, double x) { return j->f(x, j->params); }
static const double pair[2] = {1, 2};
void show(void (*f)(const double (*)[2], double (*)[2]), double *out)
{
    f(&pair, (double (*)[2])out);
}
static double (*kept)(double);
void keep(double (*f)(double)) { kept = f; }
double call_kept(double x) { return kept(x); }
"""
DECLARED = """
    double apply(double (*f)(double), double x);
    double with_data(double (*f)(double, void *), double x, void *data);
    int on_ints(int (*f)(int), int x);
    int visit(int (*f)(const int *, size_t), const int *items, size_t count);
    void show(void (*f)(const double (*)[2], double (*)[2]), double out[2]);
"""


@pytest.fixture(scope="module")
def passed(builder):
    return nc.load(builder.library(SOURCE, "passed"), DECLARED)


@pytest.fixture
def m():
    return nc.load("m", "double cos(double); float cosf(float); double pow(double, double);")


def test_another_precision_and_user_data(passed, m):
    assert passed.apply(m.cosf, 0.5) == pytest.approx(math.cos(0.5), rel=1e-6)
    assert passed.with_data(m.cos, 0.5, None) == math.cos(0.5)
    assert passed.with_data(m.cos.builtin, 0.5, None) == math.cos(0.5)
    assert passed.apply(m.pow.bind(2.0), 3.0) == 8.0
    floor = nc.wrap(nc.load("m").address("floor"), "d:d")
    assert passed.on_ints(floor, 7) == 7
    with pytest.raises(ValueError, match=r"^the result of 'cos' is 0\.54.*, not an integer$"):
        passed.on_ints(m.cos, 1)


def test_const_arrays_come_read_only(passed):
    pytest.importorskip("numpy")
    out = (ctypes.c_double * 2)()

    def double(x, y):
        y[:] = 2 * x
        with pytest.raises(ValueError, match="read-only"):
            x[0] = 5

    passed.show(double, out)
    assert [*out] == [2.0, 4.0]


def test_a_callback_of_numbers_where_pointers_to_them_are_wanted():
    qsort = nc.load(
        None, "void qsort(double *, size_t, size_t, int (*)(const double *, const double *));"
    ).qsort
    numbers = (ctypes.c_double * 3)(3, 1, 2)
    compare = nc.callback("i:dd", lambda x, y: (x > y) - (x < y))
    for _ in range(2):
        numbers[:] = 3, 1, 2
        qsort(numbers, 3, 8, compare)
        assert [*numbers] == [1, 2, 3]
    before = gc.get_referrers(compare)
    with pytest.raises(ZeroDivisionError):
        qsort(numbers, 3, 8, nc.callback("i:dd", lambda x, y: 1 // 0))
    assert gc.get_referrers(compare) == before
    needs = nc.wrap(compare.address(), "i:dd", gil="need")
    for _ in range(2):
        with pytest.raises(TypeError, match=r"that runs without the GIL, which .* needs"):
            qsort(numbers, 3, 8, needs)
        with pytest.raises(
            TypeError,
            match=r"must be a function 'int \(\*\)\(double \*, double \*\)'.* offers "
            r"'int \(double, double, d",
        ):
            qsort(numbers, 3, 8, nc.wrap(compare.address(), "i:ddd"))


def test_boxes_of_other_libraries(passed):
    cffi = pytest.importorskip("cffi").FFI()
    cffi.cdef("float cosf(float);")
    math_library = cffi.dlopen(nc.load("m").path)
    one = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_float)(lambda x: x + 1)
    for box, found in ((math_library.cosf, 1.0), (one, 1.0)):
        for _ in range(2):
            assert passed.with_data(box, 0.0, None) == found


def test_the_entry_that_fits_is_taken_as_it_is(passed, m):
    both = nc.wrap({"f:f": m.cosf, "d:dP": m.cos.convert("d:dP")})
    assert passed.with_data(both, 0.5, None) == math.cos(0.5)
    assert passed.apply(both, 0.5) in (math.cos(0.5), passed.apply(m.cosf, 0.5))


def test_what_was_made_lives_until_the_call_returns(passed):
    made = nc.callback("f:f", lambda x: x + 1)
    alive = weakref.ref(made)
    assert passed.apply(made, 1.0) == 2.0
    del made
    gc.collect()
    assert alive() is None


def test_what_cannot_be_converted(passed, m, fails):
    for power in (m.pow, m.pow.builtin):
        message = (
            f"argument 1 of 'apply' must be a function 'double (*)(double)'; {power!r} offers "
            "'double (double, double)': it takes 2 arguments, not 1; bind() fixes arguments; "
            "a trailing 'void *' may be dropped or added"
        )
        with fails(TypeError, message):
            passed.apply(power, 1.0)
    assert passed.apply(math.sqrt, 4.0) == 2.0


def test_overloads_prefer_what_need_not_be_converted(passed, m):
    apply = nc.wrap(
        {
            "d:X{d:dP}dP": passed.with_data,
            "d:X{d:d}dP": passed.address("apply"),
        },
    )
    assert apply(m.cos, 0.5, None) == math.cos(0.5)
    assert apply(m.cosf, 0.0, None) == 1.0
    with pytest.raises(TypeError, match=r"^no entry of"):
        apply(m.pow, 0.5, None)


# -- Numba's ---------------------------------------------------------------------------------------


@pytest.fixture
def numba():
    return pytest.importorskip("numba")


def test_jitted_functions_are_compiled_for_the_signature(passed, numba):
    @numba.njit
    def half(x):
        return x / 2

    assert passed.apply(half, 3.0) == 1.5
    assert [str(one) for one in half.nopython_signatures] == ["(float64,) -> float64"]
    assert passed.with_data(half, 3.0, None) == 1.5
    assert len(half.nopython_signatures) == 1

    @numba.njit
    def double(x):
        return 2 * x

    assert passed.on_ints(double, 4) == 8
    assert [str(one) for one in double.nopython_signatures] == ["(int32,) -> int64"]

    @numba.njit
    def product(x, i):
        return x[0] * i

    assert passed.visit(product, (ctypes.c_int * 3)(5, 6, 7), 3) == 6 + 14


def test_cfuncs_are_converted(passed, numba):
    cfunc = numba.cfunc("float64(float64)")(lambda x: x + 1)
    assert passed.with_data(cfunc, 3.0, None) == 4.0


def test_exceptions_of_jitted_functions(passed, numba):
    @numba.njit
    def fails(x):
        if x > 1:
            raise ValueError("too much")
        return x

    assert passed.with_data(fails, 1.0, None) == 1.0
    for call in (passed.apply, lambda f, x: passed.with_data(f, x, None)):
        with pytest.raises(ValueError, match="too much"):
            call(fails, 2.0)


def test_jitted_functions_that_cannot_be_compiled(passed, numba):
    @numba.njit
    def three(x, y, z):
        return x + y + z

    with pytest.raises(
        TypeError,
        match=r"^argument 1 of 'apply' must be a function 'double \(\*\)\(double\)' "
        r"\(got CPUDispatcher\): 'three' "
        r"does not take the arguments of 'd:d': missing a required argument: 'y'",
    ):
        passed.apply(three, 1.0)

    @numba.njit
    def text(x):
        return "text"

    with pytest.raises(TypeError, match=r"'text' returns .*, not 'd'"):
        passed.apply(text, 1.0)


def test_object_mode_runs_as_python_code(passed, numba):
    @numba.jit(forceobj=True)
    def slow(x):
        return x + 1

    assert passed.apply(slow, 1.0) == 2.0


# -- Python's --------------------------------------------------------------------------------------


def test_a_function_that_raised_is_not_called_again(passed):
    called = []

    def fails(item, place):
        called.append(place)
        if place == 1:
            raise LookupError("here")
        return item[0]

    items = (ctypes.c_int * 5)(1, 2, 3, 4, 5)
    with pytest.raises(LookupError, match=r"^here$"):
        passed.visit(fails, items, 5)
    assert called == [0, 1]
    with pytest.raises(LookupError):  # another call calls it again
        passed.visit(fails, items, 5)
    assert called == [0, 1, 0, 1]


JOINED = """
#include <stdlib.h>
typedef struct { int (*f)(int); } task;
int both(int (*f)(int), int (*g)(int)) { int first = f(1); return first + g(2); }
int either(task one, int (*g)(int)) { return one.f(1) + g(2); }
void consume(void *(*make)(int), void (*drop)(void *))
{
    void *made[3];
    for (int i = 0; i < 3; i++) made[i] = make(i);
    for (int i = 0; i < 3; i++) drop(made[i]);
}
"""
JOINED_DECLARED = """
typedef struct { int (*f)(int); } task;
int both(int (*f)(int), int (*g)(int));
int either(task one, int (*g)(int));
void consume(void *(*make)(int), void (*drop)(void *));
"""


def test_after_an_exception_no_function_of_that_call_runs(builder):
    """Whichever was first; functions of other calls do, and of the next one."""
    lib = nc.load(builder.library(JOINED, "joined"), JOINED_DECLARED)
    ran: list[int] = []

    def fails(x):
        raise LookupError(f"for {x}")

    def runs(x):
        ran.append(x)
        return x

    def calls(x):
        assert lib.both(runs, runs) == 3
        return fails(x)

    with pytest.raises(LookupError, match="for 1"):
        lib.both(fails, runs)
    assert ran == []
    with pytest.raises(LookupError, match="for 2"):
        lib.both(runs, fails)
    assert ran == [1]
    with pytest.raises(LookupError, match="for 1"):
        lib.either((fails,), runs)
    assert ran == [1]
    with pytest.raises(LookupError, match="for 1"):
        lib.both(calls, runs)
    assert ran == [1, 1, 2]
    assert lib.both(runs, runs) == 3


def test_after_an_exception_c_frees_its_memory(builder):
    """By a function of one pointer that returns nothing."""
    lib = nc.load(builder.library(JOINED, "joined"), JOINED_DECLARED)
    dropped: list[object] = []

    def make(i):
        if i == 1:
            raise LookupError

    with pytest.raises(LookupError):
        lib.consume(make, dropped.append)
    assert dropped == [None] * 3
