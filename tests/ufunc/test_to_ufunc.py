"""`f.to_ufunc`: ufuncs of NumPy's whose loops call C functions.

The library's functions are one C file. Every test holds where no code is generated, too.
"""

import copy
import ctypes
import gc
import pickle
import sys

import numpy as np
import pytest

import nativecall as nc
from nativecall._ufunc import structure
from support.threads import each

SOURCE = """
#include <complex.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
static int64_t count;
int64_t calls(void) { return count; }
double twice(double x) { count++; return 2 * x; }
float twicef(float x) { count++; return 2 * x; }
double add(double x, double y) { return x + y; }
int32_t mixed(int8_t a, uint64_t b, float c) { return (int32_t)(a + (double)b + c); }
double _Complex turn(double _Complex z) { return z * I; }
float _Complex turnf(float _Complex z) { return z * I; }
long double wide(long double x) { return x + 1; }
bool not(bool x) { return !x; }
bool is_true(bool x) { return *(volatile unsigned char *)&x == 1; }
double briefly(int8_t n, uint8_t m, const double *x, const double *y)
{ return (n ? x[n - 1] : 0) + (m ? y[m - 1] : 0); }
double parts(double x, double *whole) { *whole = trunc(x); return x - *whole; }
void both(double x, double *up, int32_t *down) { *up = x + 1; *down = (int32_t)x - 1; }
double next(double *state) { return (*state)++; }
int half(int x, double *out) { count++; if (x % 2) { return 7; } *out = x / 2.0; return 0; }
int positive(int x) { return x > 0 ? x : 0; }
double domain(double x) { count++; if (x < 0) { errno = EDOM; } return sqrt(fabs(x)); }
double told(double x, int *error) { if (x < 0) { *error = 3; } return x; }
typedef struct { double sum; int32_t sign; } Pair;
Pair pair(double x) { Pair p = {x + x, x < 0 ? -1 : 1}; return p; }
void scaled(const double *x, const int *by, double *out) { *out = *x * *by; }
double dot(int n, const double *x, const double *y)
{ double s = 0; for (int i = 0; i < n; i++) { s += x[i] * y[i]; } return s; }
void sums(ptrdiff_t n, const double *x, double *out)
{ double s = 0; for (ptrdiff_t i = 0; i < n; i++) { out[i] = s += x[i]; } }
void turned(const float *a, size_t n, size_t m, float *b);
void doubled(long n, double *x) { for (long i = 0; i < n; i++) x[i] *= 2; }
void added(int n, double a, const double *x, double *y)
{ for (int i = 0; i < n; i++) y[i] += a * x[i]; }
void swapped(int n, double *x, double *y)
{ for (int i = 0; i < n; i++) { double t = x[i]; x[i] = y[i]; y[i] = t; } }
void crossed(const double *a, const double *b, double *c)
{
    c[0] = a[1] * b[2] - a[2] * b[1];
    c[1] = a[2] * b[0] - a[0] * b[2];
    c[2] = a[0] * b[1] - a[1] * b[0];
}
void normal(double *x) { double s = x[0] + x[1] + x[2]; for (int i = 0; i < 3; i++) x[i] /= s; }
void bumped(double *x, double *y) { *x += 1; *y = *x * 2; }
void rotated(const double r[3][3], const double p[3], double q[3])
{ for (int i = 0; i < 3; i++) q[i] = r[i][0] * p[0] + r[i][1] * p[1] + r[i][2] * p[2]; }
double total(int n, const double (*r)[3])
{ double s = 0; for (int i = 0; i < n; i++) { s += r[i][0] + r[i][1] + r[i][2]; } return s; }
struct strided { char *data; ptrdiff_t length, step; };
void tripled(struct strided *x)
{ for (ptrdiff_t i = 0; i < x->length; i++) *(double *)(x->data + i * x->step) *= 3; }
void turned(const float *a, size_t n, size_t m, float *b)
{ for (size_t i = 0; i < n * m; i++) { b[i % m * n + i / m] = a[i]; } }
struct view { double *data; ptrdiff_t shape[1]; ptrdiff_t strides[1]; };
double spread(struct view *x)
{
    double low = INFINITY, high = -INFINITY;
    for (ptrdiff_t i = 0; i < x->shape[0]; i++) {
        double at = *(double *)((char *)x->data + i * x->strides[0]);
        low = fmin(low, at); high = fmax(high, at);
    }
    return high - low;
}
"""


@pytest.fixture(scope="module")
def library(builder):
    return nc.load(builder.library(SOURCE, "ufunc_kernels"))


@pytest.fixture
def kernels(library, carrier):
    """Functions whose loops are carried out either way."""
    return library


@pytest.fixture
def twice(kernels):
    return kernels.function("twice", "d:d")


def test_it_is_a_ufunc_of_numpys(kernels):
    add = kernels.function("add", "d:dd")
    made = add.to_ufunc(name="plus", doc="The sum.")
    assert type(made) is np.ufunc
    assert (made.__name__, made.types, made.nin, made.nout) == ("plus", ["dd->d"], 2, 1)
    assert made.__doc__.endswith("The sum.")
    grid = made(np.arange(3.0)[:, None], [10, 20])
    assert grid.tolist() == [[10, 20], [11, 21], [12, 22]]
    out = np.zeros(4)
    assert made([1, 2, 3, 4], 1, out=out, where=[True, False, True, False]) is out
    assert out.tolist() == [2, 0, 4, 0]
    assert made.reduce([1, 2, 3]) == 6
    assert made.accumulate([1, 2, 3]).tolist() == [1, 3, 6]
    assert made.outer([1, 2], [3]).tolist() == [[4], [5]]
    assert isinstance(made(1, 2), np.float64)
    assert add.to_ufunc().__name__ == "add"


def test_every_element_is_one_call_whatever_its_place(kernels, twice):
    made = twice.to_ufunc()
    calls = kernels.function("calls", "q:")
    x = np.arange(1000.0).reshape(20, 50)
    for view in (x, x.T, x[::-1, ::3], x[:, 7], x[3:3], x[:1, :1]):
        before = calls()
        assert np.array_equal(made(view), 2 * view)
        assert calls() - before == view.size
    same = x.copy()
    made(same, out=same)
    assert np.array_equal(same, 2 * x)
    shifted = np.arange(10.0)
    made(shifted[:-1], out=shifted[1:])  # NumPy copies what overlaps
    assert shifted.tolist() == [0, 0, 2, 4, 6, 8, 10, 12, 14, 16]
    swapped = x.astype(x.dtype.newbyteorder())
    assert np.array_equal(made(swapped), 2 * x)


def test_every_entry_is_a_loop(kernels):
    pair = {"d:d": kernels.function("twice", "d:d"), "f:f": kernels.function("twicef", "f:f")}
    f = nc.wrap(pair, name="twice")
    made = f.to_ufunc()
    assert made.types == ["f->f", "d->d"]
    assert made(np.float32(2)).dtype == np.float32
    assert made(np.float16(2)).dtype == np.float32
    assert made(2).dtype == np.float64
    assert nc.wrap(made) is f
    assert f["d:d"].to_ufunc().types == ["d->d"]


@pytest.mark.parametrize(
    ("name", "signature", "given", "wanted"),
    [
        ("mixed", "i:bQf", ([1, -2], [3, 4], [0.5, 1]), [4, 3]),
        ("turn", "Zd:Zd", ([1 + 2j, 3],), [-2 + 1j, 3j]),
        ("turnf", "Zf:Zf", ([1 + 2j, 3],), [-2 + 1j, 3j]),
        ("wide", "g:g", ([1, 2],), [2, 3]),
        ("not", "?:?", ([True, False],), [False, True]),
    ],
)
def test_numbers_of_all_kinds(kernels, name, signature, given, wanted):
    made = kernels.function(name, signature).to_ufunc()
    arguments = made.types[0].partition("->")[0]
    arrays = [np.array(one, code) for one, code in zip(given, arguments, strict=True)]
    found = made(*arrays)
    assert found.dtype.char == made.types[0][-1]
    assert found.tolist() == wanted


def test_a_bool_is_0_or_1_for_c(kernels):
    made = kernels.function("is_true", "?:?").to_ufunc()
    assert made(np.array([2, 1, 255], np.uint8).view(bool)).tolist() == [True] * 3


def test_several_results(kernels):
    parts = kernels.function("parts", "double (double x, double *whole)", out=["whole"])
    assert [one.tolist() for one in parts.to_ufunc()([1.5, -2.25])] == [[0.5, -0.25], [1, -2]]
    both = kernels.function("both", "void (double x, double *up, int *down)", out=["up", "down"])
    made = both.to_ufunc()
    assert made.types == ["d->di"]
    assert [one.tolist() for one in made([1, 2])] == [[2, 3], [0, 1]]
    state = kernels.function("next", "d:&d", out={0: "inout"}).to_ufunc()
    assert [one.tolist() for one in state([1, 5])] == [[1, 5], [2, 6]]
    pair = kernels.function("pair", "T{d:sum:i:sign:}:d").to_ufunc()
    assert [one.tolist() for one in pair([1, -2])] == [[2, -4], [1, -1]]
    procedure = "void (const double *x, const int *by, double *out)"
    scaled = kernels.function("scaled", procedure, fortran=True, out=["out"]).to_ufunc()
    assert scaled([1.5, 2], np.int32(2)).tolist() == [3, 4]


def test_a_failure_ends_the_loop_and_comes_out_of_the_call(kernels):
    calls = kernels.function("calls", "q:")
    half = kernels.function("half", "int (int x, double *out)", errors="nonzero", out=["out"])
    made = half.to_ufunc()
    assert made.types == ["i->d"]
    assert made(np.int32([2, 8])).tolist() == [1, 4]
    before = calls()
    with pytest.raises(nc.NativeFailure, match="'half' failed: it returned 7, not 0"):
        made(np.int32([2, 3, 4, 6]))
    assert calls() - before == 2
    assert made(np.int32([2, 8])).tolist() == [1, 4]
    made = kernels.function("positive", "i:i", errors="zero").to_ufunc()
    assert made(np.int32(2)) == 2
    with pytest.raises(nc.NativeFailure, match="it returned 0"):
        made(np.int32([2, -1]))
    made = kernels.function("told", "d:d&i", errors="argument").to_ufunc()
    assert made([1, 2]).tolist() == [1, 2]
    with pytest.raises(nc.NativeFailure, match="set its last argument to 3"):
        made([1, -1])
    made = kernels.function("domain", "d:d", errors="errno").to_ufunc()
    for size in (1, 20_000):  # NumPy drops the GIL for the second
        before = calls()
        with pytest.raises(OSError, match=r"from 'domain'"):
            made(np.full(size, -1.0))
        assert calls() - before == 1
    assert made(4.0) == 2


def test_exceptions_of_python_functions(unraisable, carrier):
    seen = []

    @nc.callback("d:d")
    def f(x):
        seen.append(x)
        if x == 3:
            raise KeyError("three")
        return -x

    made = f.to_ufunc()
    assert made([1, 2]).tolist() == [-1, -2]
    for size in (10, 5000):
        seen.clear()
        with pytest.raises(KeyError, match="three"):
            made(np.arange(float(size)))
        assert seen == [0, 1, 2, 3]
    assert unraisable == []


def test_functions_that_need_the_gil_have_it(kernels):
    """PyFloat_FromDouble and the like, in a loop for which NumPy has dropped the GIL."""
    address = ctypes.cast(ctypes.pythonapi.PyGILState_Check, ctypes.c_void_p).value
    checked = nc.wrap(address, "i:i", gil="need", name="has_gil").to_ufunc()
    assert checked(np.zeros(10_000, np.int32)).all()
    plain = nc.wrap(address, "i:i", name="has_gil").to_ufunc()
    assert not plain(np.zeros(100_000, np.int32)).any()


def test_what_sets_python_exceptions_ends_its_loop(kernels):
    seen = []

    @nc.callback("i:i", errors="python", gil="need")
    def f(x):
        seen.append(x)
        raise ZeroDivisionError(x)

    made = f.to_ufunc()
    for size in (3, 20_000):
        seen.clear()
        with pytest.raises(ZeroDivisionError):
            made(np.zeros(size, np.int32))
        assert seen == [0]


def test_the_state_of_errors_is_numpys(kernels):
    made = nc.load("m").function("exp", "d:d").to_ufunc()
    with np.errstate(over="raise"), pytest.raises(FloatingPointError, match="overflow"):
        made([1.0, 1e4])
    with np.errstate(over="ignore"):
        assert made([1e4]).tolist() == [np.inf]


# -- generalised -----------------------------------------------------------------------------------


def test_generalised_functions(kernels):
    dot = kernels.function("dot", "double (int n, const double *x, const double *y)")
    made = dot.to_ufunc(signature="(n),(n)->()")
    assert made.signature == "(n),(n)->()"
    a = np.arange(24.0).reshape(2, 3, 4)
    assert np.array_equal(made(a, a), (a * a).sum(-1))
    assert np.array_equal(made(a, a[0, 0]), (a * a[0, 0]).sum(-1))
    for x in (a.T, a[..., ::-1], a[..., ::2], a[:, :, 1:2], a[:, :, :0]):
        assert np.array_equal(made(x, x), (x * x).sum(-1))
    with pytest.raises(ValueError, match="mismatch in its core dimension"):
        made([1, 2], [1, 2, 3])
    assert nc.wrap(made) is dot


def test_dimensions_that_are_too_long_for_the_function(kernels, fails):
    """They are not cut off, also of operands with gaps."""
    briefly = kernels.function(
        "briefly", "double (int8_t n, uint8_t m, const double *x, const double *y)"
    )
    made = briefly.to_ufunc(signature="(n),(m)->()")
    x = np.arange(600.0)
    assert made(x[:127], x[:255]) == 126 + 254
    assert made(x[:254:2], x[:510:2]) == 252 + 508
    for n, m, letter, most in ((128, 1, "b", 127), (1, 256, "B", 255)):
        wrong = (
            f"'briefly' cannot take an array with a dimension of {most + 1}: the type of its "
            f"length is '{letter}'"
        )
        for a, b in ((x[:n], x[:m]), (x[: 2 * n : 2], x[: 2 * m : 2])):
            with fails(OverflowError, wrong):
                made(a, b)
    assert made(np.ones((0, 128)), x[:1]).shape == (0,)


def test_generalised_outputs(kernels):
    sums = kernels.function("sums", "void (ptrdiff_t n, const double *x, double *out)")
    made = sums.to_ufunc(signature="(n)->(n)")
    a = np.arange(12.0).reshape(3, 4)
    assert np.array_equal(made(a), a.cumsum(-1))
    out = np.zeros((4, 3))
    made(a, out=out.T)
    assert np.array_equal(out.T, a.cumsum(-1))
    assert np.array_equal(made(a, axis=0), a.cumsum(0))
    signature = "void (const float *a, size_t n, size_t m, float *b)"
    turned = kernels.function("turned", signature).to_ufunc(signature="(n,m)->(m,n)")
    b = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for x in (b, b[..., ::-1], np.asfortranarray(b), b.transpose(0, 2, 1), b[:, 1:, ::2]):
        assert np.array_equal(turned(x), x.transpose(0, 2, 1))


def test_views_are_not_copied(kernels):
    made = kernels.function("spread", "d:[1]d").to_ufunc(signature="(n)->()")
    a = np.array([[3, 1, 7], [2.5, 2, 9]])
    assert made(a).tolist() == [6, 7]
    assert made(a[:, ::-2]).tolist() == [4, 6.5]
    assert made(a.T).tolist() == [0.5, 1, 2]


def test_operands_that_are_changed_in_place(kernels):
    doubled = kernels.function("doubled", "void (long n, double *x)").to_ufunc(signature="(n)->(n)")
    tripled = kernels.function("tripled", "v:[1]d").to_ufunc(signature="(n)->(n)")
    signature = "void (int n, double a, const double *x, double *y)"
    added = kernels.function("added", signature).to_ufunc(signature="(),(n),(n)->(n)")
    a = np.arange(24.0).reshape(2, 3, 4)
    for x in (a, a[..., ::-1], a.T, a[..., ::2], a[:, :, :0]):
        before = x.copy()
        for made, wanted in ((doubled, 2 * x), (tripled, 3 * x)):
            assert np.array_equal(made(x), wanted)
            assert np.array_equal(x, before)  # what is passed stays as it is
            out = np.zeros(x.T.shape).T
            assert made(x, out=out) is out
            assert np.array_equal(out, wanted)
            same = x.copy()
            made(same, out=same)
            assert np.array_equal(same, wanted)
        assert np.array_equal(added(2.0, x, x), 3 * x)
    assert doubled(a, axis=0).tolist() == (2 * a).tolist()
    swapped = kernels.function("swapped", "v:i&d&d").to_ufunc(signature="(n),(n)->(n),(n)")
    assert [one.tolist() for one in swapped([1, 2], [3, 4])] == [[3, 4], [1, 2]]
    one = kernels.function("bumped", "v:&d&d", out={0: "inout"}).to_ufunc(signature="()->(),()")
    assert [one.tolist() for one in one([1, 2])] == [[2, 3], [4, 6]]


def test_fixed_dimensions(kernels):
    signature = "void (const double *a, const double *b, double *c)"
    crossed = kernels.function("crossed", signature).to_ufunc(signature="(3),(3)->(3)")
    a = np.arange(24.0).reshape(2, 4, 3)
    assert np.array_equal(crossed(a, a[::-1, ::-1]), np.cross(a, a[::-1, ::-1]))
    with pytest.raises(ValueError, match=r"size 4 is different from 3"):
        crossed(a.reshape(2, 3, 4), a.reshape(2, 3, 4))
    normal = kernels.function("normal", "v:&(3)d").to_ufunc(signature="(3)->(3)")
    assert normal([1, 2, 5]).tolist() == [0.125, 0.25, 0.625]


def test_rows_have_fixed_dimensions(kernels):
    """A pointer to rows gets arrays of such rows, and as many of them as C declares."""
    declared = "void (const double r[3][3], const double p[3], double q[3])"
    rotated = kernels.function("rotated", declared)
    turn, p = np.arange(18.0).reshape(2, 3, 3), np.arange(6.0).reshape(2, 3)
    expected = np.einsum("...ij,...j", turn, p)
    made = rotated.to_ufunc(signature="(3,3),(3)->(3)")
    assert np.array_equal(made(turn, p), expected)
    flat = rotated.to_ufunc(signature="(9),(3)->(3)")
    assert np.array_equal(flat(turn.reshape(2, 9), p), expected)
    total = kernels.function("total", "double (int n, const double (*r)[3])")
    summed = total.to_ufunc(signature="(n,3)->()")
    assert summed(np.ones((4, 5, 3))).tolist() == [15] * 4
    for f, signature, message in (
        (rotated, "(3),(3)->(3)", "argument 1, 'r', 'const double [3][3]', has 9 items, but"),
        (rotated, "(2,3),(3)->(3)", "argument 1, 'r', 'const double [3][3]', has 9 items, but"),
        (rotated, "(3,3),(2)->(3)", "argument 2, 'p', 'const double [3]', has 3 items, but"),
        (rotated, "(3,3),(3)->(2)", "argument 3, 'q', 'double [3]', has 3 items, but"),
        (rotated, "(3,3),()->(3)", "argument 2, 'p', 'const double [3]', has 3 items, but"),
        (
            rotated,
            "(n,3),(3)->(3)",
            "argument 1, 'r', 'const double [3][3]', has 9 items, but '(n,3),(3)->(3)' ",
        ),
        (rotated, "(3,3),(n)->(3)", "has 3 items, but '(3,3),(n)->(3)' allows any number; "),
        (rotated, "(3,3),(²)->(3)", "allows any number"),
        (total, "(n)->()", "has rows of 3 items, but '(n)->()' does not say so; make its last"),
        (total, "(n,4)->()", "has rows of 3 items, but '(n,4)->()' does not say so"),
        (total, "(3,n)->()", "make its last dimensions numbers, as in '(n,3)'"),
    ):
        with pytest.raises(nc.SignatureError) as caught:
            f.to_ufunc(signature=signature)
        assert message in str(caught.value)


def test_each_dimension_is_told(kernels, fails):
    dot = kernels.function("dot", "double (int n, const double *x, const double *y)")
    signature = "void (const double *a, const double *b, double *c)"
    crossed = kernels.function("crossed", signature)
    hint = (
        "; write a length that the function fixes as a number, as in '(3),(3)->(3)', and one that "
        "two arrays share as one name, as in '(n),(n)->()'"
    )
    for f, wanted, which in (
        (dot, "(n),(m)->()", "argument 3, 'y', has the dimension 'm'"),
        (crossed, "(n),(n)->(n)", "argument 1, 'a', has the dimension 'n'"),
        (crossed, "(3),(n)->(3)", "argument 2, 'b', has the dimension 'n'"),
    ):
        declared = repr(f).removeprefix("<native callable ").removesuffix(">")
        told = f"{declared!r} cannot be a ufunc: {which} in {wanted!r}"
        with fails(nc.SignatureError, f"{told}, but no argument gives its length{hint}"):
            f.to_ufunc(signature=wanted)


# -- life ------------------------------------------------------------------------------------------


def test_it_keeps_what_it_needs_and_no_longer():
    kept = []

    class Owner:
        def __del__(self):
            kept.append("gone")

    made = nc.wrap(nc.load("m").address("cos"), "d:d", owner=Owner()).to_ufunc()
    gc.collect()
    assert kept == []
    assert made(0.0) == 1
    del made
    gc.collect()
    assert kept == ["gone"]


def test_memory_is_level(kernels, twice):
    def make():
        assert twice.to_ufunc()(1.0) == 2

    for _ in range(200):
        make()
    before = len(gc.get_objects()), sys.getrefcount(twice)
    for _ in range(200):
        make()
    gc.collect()
    assert sys.getrefcount(twice) <= before[1] + 2
    assert len(gc.get_objects()) < before[0] + 100


def test_threads_call_one_ufunc_at_once(twice):
    made = twice.to_ufunc()
    x = np.arange(100_000.0)
    assert each(lambda x: np.array_equal(made(x), 2 * x), *[x] * 4) == [True] * 4


# -- what cannot be one ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "signature", "options", "message"),
    [
        ("parts", "d:d&d", {}, "argument 2, '&d', is not a number; out= of wrap"),
        (
            "parts",
            "double (double x, double *y)",
            {},
            "argument 2, 'y', 'double *', is not a number;",
        ),
        ("scaled", "v:d", {}, "it has no output"),
        ("calls", "q:", {}, "it has no input"),
        ("add", "d:d.", {}, "it is variadic"),
        ("add", "&d:d", {}, "its result, '&d', is not a number"),
        ("add", "d:P", {"signature": "(n)->()"}, "is not an array of numbers"),
        ("add", "d:d&d", {"signature": "(n),(n),(n)->()"}, "has 3 inputs, but it takes 2"),
        ("add", "d:d&d", {"signature": "(n),(n)->()"}, "is a number, but NumPy's signature has"),
        ("add", "d:n[2]d", {"signature": "(n)->()"}, "has 2 dimensions, but NumPy's"),
        ("add", "d:n&d", {"signature": "(n)->(n)"}, "its result is a number, but the output"),
        ("add", "v:n&d", {"signature": "(n)->(n),(n)"}, "has 2 outputs besides its result"),
        ("add", "v:&(4)d", {"signature": "(3)->(3)"}, "has 4 items, but '(3)->(3)' has 3"),
        ("add", "v:&d&d", {"signature": "()->(),()"}, "which of its 2 outputs it changes in place"),
        ("add", "v:&d", {"signature": "(n)->(m)"}, "other dimensions as an input than"),
        ("add", "d:iiin&d", {"signature": "(),(n)->()"}, "which of its 4 integers are the lengths"),
    ],
)
def test_what_is_no_ufunc_says_why(kernels, name, signature, options, message):
    f = nc.wrap(kernels.address(name), signature, name=name)
    with pytest.raises(nc.SignatureError) as caught:
        f.to_ufunc(**options)
    assert message in str(caught.value)


def test_bad_arguments(twice):
    for options, error, message in [
        ({"name": 1}, TypeError, "'name' must be a str or None"),
        ({"doc": "a\0b"}, ValueError, "'doc' must not contain a null character"),
        ({"signature": 1}, TypeError, "'signature' must be a generalised ufunc's"),
        ({"signature": "n->n"}, ValueError, r"as '\(n\),\(n\)->\(\)'"),
        ({"signature": "(n?)->()"}, ValueError, "has an optional dimension"),
    ]:
        with pytest.raises(error, match=message):
            twice.to_ufunc(**options)


def test_overloads_of_other_shapes_are_no_ufunc(kernels):
    f = nc.wrap({"d:d": kernels.address("twice"), "d:dd": kernels.address("add")}, name="f")
    with pytest.raises(nc.SignatureError, match=r"'d:d' has 1 inputs and 1 outputs, 'd:dd' 2"):
        f.to_ufunc()


def test_a_version_of_numpy_that_is_not_known_is_refused(twice, monkeypatch):
    made = twice.to_ufunc()
    monkeypatch.setattr(np, "__version__", "9.1.0")
    with pytest.raises(TypeError, match=r"does not know the C structs of NumPy 9\.1\.0"):
        twice.to_ufunc()
    assert made(2.0) == 4


def test_the_number_of_numpys_function():
    """As the header that NumPy installs has it."""
    import re
    from pathlib import Path

    text = (Path(np.get_include()) / "numpy" / "__ufunc_api.h").read_text()
    found = dict(re.findall(r"#define (PyUFunc_\w+).*?PyUFunc_API\[(\d+)\]", text, re.S))
    assert int(found["PyUFunc_FromFuncAndDataAndSignature"]) == structure._FROM_FUNC_AND_DATA


def test_nothing_of_numpy_is_imported_without_a_ufunc(python):
    code = """
import sys, nativecall
f = nativecall.load("m").function("cos", "d:d")
f(1.0), f.signatures
print("numpy" in sys.modules)
f.to_ufunc()
print("numpy" in sys.modules, "scipy" in sys.modules, "numba" in sys.modules)
"""
    assert python(code).split() == ["False", "True", "False", "False"]


# -- pickles -------------------------------------------------------------------------------------


def test_ufuncs_are_pickled_as_their_functions(python):
    made = nc.load("m", "double hypot(double, double);").hypot.to_ufunc(
        name="length", doc="Of two."
    )
    for again in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):
        assert again(3.0, [4.0, 0.0]).tolist() == [5.0, 3.0]
        assert (again.__name__, again.__doc__) == (made.__name__, made.__doc__)
    text = pickle.dumps([made, np.add, np.exp])
    code = f"import pickle\nmade, add, exp = pickle.loads({text!r})\n"
    code += "print(made(3, 4), add(1, 2), exp(0), pickle.loads(pickle.dumps(made))(6, 8))"
    assert python(code).split() == ["5.0", "3", "1.0", "10.0"]


def test_pickled_ufuncs_keep_their_signature(kernels):
    made = kernels.function("spread", "d:[1]d").to_ufunc(signature="(n)->()")
    again = pickle.loads(pickle.dumps(made))
    assert again.signature == made.signature == "(n)->()"
    assert again(np.ones((2, 3))).tolist() == made(np.ones((2, 3))).tolist()


def test_ufuncs_of_functions_without_a_name_are_not_pickled():
    made = nc.callback("d:d", lambda x: x).to_ufunc()
    with pytest.raises((pickle.PicklingError, TypeError), match="lambda"):
        pickle.dumps(made)
