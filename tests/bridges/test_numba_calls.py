"""Native callables in functions that Numba compiles: values, overloads, failures, life and caches.

What jitted code gets is compared with the same call from Python, which other tests compare with C.
"""

# ruff: noqa: PLW0108  # Numba compiles functions of Python's, not the callables themselves

import concurrent.futures
import contextlib
import gc
import importlib
import math
import operator
import pickle
import runpy
import subprocess
import sys
import textwrap
import weakref

import numpy as np
import pytest

import nativecall as nc
from support import build
from support.threads import each

numba = pytest.importorskip("numba")
errors = pytest.importorskip("numba.core.errors")
njit = numba.njit


@pytest.fixture(scope="module")
def path(builder):
    return builder.library(build.EXT / "numba_callees.c", "numba_callees")


@pytest.fixture(scope="module")
def c(path):
    """A function of the library, by its name and signature."""
    return nc.load(path).function


def jitted(function, *values):
    """What nopython code gets of a function that is a constant there."""
    if len(values) == 1:
        return njit(lambda a: 0 if a is None else function(a))(*values)
    return njit(lambda a, b: function(a, b) if True else None)(*values)


# -- values ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "signature", "values"),
    [
        ("half", "d:d", (3.0,)),
        ("twice", "f:f", (1.5,)),
        ("next", "q:q", (-(2**63),)),
        ("product", "Zd:ZdZf", (1 + 2j, 3j)),
        ("negation", "?:?", (True,)),
        ("narrow", "b:bH", (-3, 65535)),
        ("pair", "T{d:x:i:n:}:di", (2.5, 3)),
    ],
)
def test_numbers(c, name, signature, values):
    f = c(name, signature)
    assert jitted(f, *values) == f(*values)


def test_structs(c):
    pair, area = c("pair", "T{d:x:i:n:}:di"), c("area", "d:T{d:x:i:n:}")
    grown = c("grown", "T{(3)d:items:f:factor:q:count:}:T{(3)d:items:f:factor:q:count:}")

    @njit
    def calls(x, n, record):
        made = pair(x, n)
        large = grown(((1.0, 2.0, 3.0), 4.0, 5))
        return made.x, made.n, area(made), area((x, 2)), area(record[0]), large

    records = np.array([(2.5, 4)], np.dtype([("a", "f8"), ("b", "i4")], align=True))
    x, n, first, second, third, large = calls(2.5, 3, records)
    assert (x, n, first, second, third) == (2.5, 3, 7.5, 5.0, 10.0)
    assert large == ((1.0, 6.0, 3.0), 4.0, 10)
    assert large._fields == ("items", "factor", "count")


def test_arrays_of_structs(c):
    """Records are told by how they lie in memory, alone and in arrays."""
    total, area = c("total", "d:&T{d:x:i:n:}q"), c("area", "d:T{d:x:i:n:}")
    fields = [("a", "f8"), ("b", "i4")]
    records = np.zeros(2, np.dtype(fields, align=True))
    records["a"] = 2.5
    assert njit(lambda x: total(x, 4))(records) == 5.0, "as two doubles each"
    packed = np.zeros(2, [("x", "f8"), ("n", "i4")])
    for function, wrong in (
        (njit(lambda x: total(x, 4)), packed),
        (njit(lambda x: total(x, 4)), np.zeros(2, [("x", "i8"), ("n", "f8")])),
        (njit(lambda x: area(x[0])), packed),
    ):
        with pytest.raises(errors.TypingError, match="no native entry takes"):
            function(wrong)


def test_arrays_in_structs(c):
    """In arrays, single records and what ctypes has of an array; C only reads what a record is."""
    total = c("total", "double (const struct { double a[2]; } *, int64_t)")
    writes = c("total", "double (struct { double a[2]; } *, int64_t)")
    kind = np.dtype([("a", "f8", (2,))])
    records = np.array([((1.0, 2.0),), ((3.0, 4.0),)], kind)
    assert njit(lambda x: (total(x, 4), total(x.ctypes, 2), total(x[1], 2)))(records) == (10, 3, 7)
    assert njit(lambda x: total(x, 2))(records[1]) == 7.0
    odd = np.zeros(1, [("first", "i1"), ("rest", kind)])[0]
    with pytest.raises(ValueError, match="argument 1 of 'total' must have its elements at mult"):
        njit(lambda x: total(x["rest"], 2))(odd)
    readonly = records.copy()
    readonly.flags.writeable = False
    for wrong, problem in (
        (
            np.zeros(2, [("a", "f8", (3,))]),
            r"argument 1 is .*, whose elements do not have the memory layout of",
        ),
        (
            np.zeros(2, [("a", "f4", (2,))])[0],
            "argument 1 is .*, which does not have the memory layout of",
        ),
        (records[0], r"argument 1 is .*; pass an array of such records, such as x\[i:i \+ 1\]"),
        (readonly, "argument 1 is .*, which is read-only; declare the argument const"),
        (np.zeros(4, kind)[::2], "argument 1 is .*, which is not contiguous in order 'C'"),
        (1.5, "argument 1 is float64, but '&T{.*}' is needed"),
    ):
        with pytest.raises(errors.TypingError, match=problem):
            njit(lambda x: writes(x, 2))(wrong)


def test_pointers(c):
    total = c("total", "double (const double *, int64_t)")
    count = c("count", "void (double *, int64_t)")
    writes = c("total", "d:&dq")

    @njit
    def both(n):
        xs = np.zeros(n)
        count(xs, n)
        return total(xs, n) + total(xs.ctypes, n) + total(None, 0)

    assert both(5) == 20.0
    readonly = np.arange(3.0)
    readonly.flags.writeable = False
    call = njit(lambda f, x: f(x, x.size))
    assert call(total, readonly) == 3.0
    for wrong in (readonly, np.zeros(3, np.float32), np.zeros(6)[::2], 1.5):
        with pytest.raises(errors.TypingError, match="no native entry takes"):
            njit(lambda f, x: f(x, 3))(writes, wrong)
    same = c("same", "&d:&d")
    assert njit(lambda x: numba.carray(same(x), 3)[2])(np.arange(3.0)) == 2.0


def test_characters_are_bytes_of_either_sign():
    """`char` has a sign or none, and what NumPy reads of bytes is unsigned."""
    strlen = nc.load("c", "size_t strlen(const char *s);").strlen
    call = njit(lambda f, x: f(x))
    assert call(strlen, b"hello") == call(strlen, bytearray(b"hello\0")) == 5
    for item in (np.int8, np.uint8):
        assert call(strlen, np.frombuffer(b"hello\0", item)) == 5
    for wrong in (np.zeros(3, np.int16), np.zeros(3, np.bool_), np.zeros(6, np.int8)[::2]):
        with pytest.raises(errors.TypingError, match="no native entry takes"):
            call(strlen, wrong)


def test_arrays_of_several_dimensions(c):
    rows = nc.wrap(c("total", "d:&dq").address(), "d:&dq")
    columns = nc.wrap(rows.address(), "d:&dq", order="F")
    call = njit(lambda f, x: f(x, x.size))
    xs = np.arange(6.0).reshape(2, 3)
    assert call(rows, xs) == call(columns, xs.T) == 15.0
    for f, wrong in ((rows, xs.T), (columns, xs)):
        with pytest.raises(errors.TypingError, match="no native entry takes"):
            call(f, wrong)


def test_views_of_arrays(c):
    trace = c("trace", "d:[2]d")
    call = njit(lambda x: trace(x))
    xs = np.arange(36.0).reshape(6, 6)
    for one in (xs, xs.T, xs[::2, ::2], xs[::-1, ::-1]):
        assert call(one) == np.trace(one)


def test_arrays_are_refused_as_in_calls_from_python(c):
    """Numba's types have neither lengths nor alignment: that is looked at where the code runs."""
    rows = nc.wrap(c("total", "d:&dq").address(), "double (const double (*rows)[3], int64_t n)")
    table = nc.wrap(rows.address(), "double (const double (*tables)[2][3], int64_t n)")
    trace = c("trace", "d:[2]d")
    odd = np.frombuffer(bytearray(8 * 12 + 1), np.uint8)[1:].view(np.float64)
    call, view = njit(lambda f, x: f(x, 0)), njit(lambda f, x: f(x))
    by_python = lambda f, x: f(x, 0)
    for f, good in (
        (rows, (3, 7, (1, 3))),
        (table, ((2, 2, 3), (3, 1, 6))),
    ):
        for shape in good:
            assert call(f, np.ones(shape)) == by_python(f, np.ones(shape)) == 0
    for f, wrong in (
        (rows, np.ones(2)),
        (rows, np.ones((0, 3))),
        (rows, np.ones((3, 4))),
        (rows, odd),
        (table, np.ones((2, 3, 2))),
    ):
        with pytest.raises(ValueError, match="must") as expected:
            by_python(f, wrong)
        with pytest.raises(ValueError, match="must") as caught:
            call(f, wrong)
        assert str(caught.value) == str(expected.value)
    with pytest.raises(ValueError, match="at multiples of 8 bytes"):
        view(trace, odd.reshape(3, 4))

    @njit
    def around(x):
        try:
            return rows(x, 1)
        except Exception:  # the one class that Numba can catch
            return -1.0

    assert (around(np.ones(2)), around(np.ones(3))) == (-1.0, 1.0)


def test_functions_as_arguments(c):
    applied, half = c("applied", "d:X{d:d}d"), c("half", "d:d")
    assert njit(lambda x: applied(half, x))(3.0) == 2.5
    assert njit(lambda f, x: applied(f, x))(half, 3.0) == 2.5
    with pytest.raises(errors.TypingError, match="no native entry takes"):
        njit(lambda f, x: applied(f, x))(c("twice", "f:f"), 3.0)
    squared = njit(lambda x: x * x)
    call = njit(lambda x: applied(squared, x))
    assert call(3.0) == njit(lambda f, x: applied(f, x))(squared, 3.0) == 10.0
    failing = njit(lambda x: 1 // int(x))
    with pytest.raises(ZeroDivisionError):
        njit(lambda x: applied(failing, x))(0.0)
    with pytest.raises(errors.TypingError, match="no native entry takes"):
        njit(lambda f, x: applied(f, x))(njit(lambda x: x.missing), 3.0)


# -- overloads -------------------------------------------------------------------------------------


def test_numba_chooses_among_overloads(c):
    f = nc.wrap({"d:d": c("half", "d:d"), "f:f": c("twice", "f:f"), "q:q": c("next", "q:q")})
    call = njit(lambda x: f(x))
    assert call(3.0) == 1.5
    assert call(np.float32(3)) == 6.0
    assert call(3) == call(np.int16(3)) == 4
    assert {one.return_type for one in call.nopython_signatures} == {
        numba.float64,
        numba.float32,
        numba.int64,
    }


def test_an_integer_becomes_no_complex_number_where_it_can_be_real():
    """As in calls from Python, whatever the order of the entries."""
    gamma = nc.wrap(pytest.importorskip("scipy.special.cython_special"), "gamma")
    assert gamma.signatures[0] == "Zd:Zd"
    call = njit(lambda f, x: f(x))
    for one in (5, True, np.float32(5)):
        assert type(call(gamma, one)) is type(gamma(one)) is float
        assert call(gamma, one) == gamma(float(one))
    assert call(gamma, 5j) == gamma(5j)


def test_what_no_entry_takes(c):
    f = c("half", "d:d")
    with pytest.raises(errors.TypingError, match=r"takes \(unicode_type\); there is 'd:d'"):
        njit(lambda f: f("a"))(f)
    with pytest.raises(errors.TypingError, match="there is 'd:d', which takes 1 argument, not 2"):
        njit(lambda f: f(1.0, 2.0))(f)
    with pytest.raises(errors.TypingError, match=r"no keyword arguments in jitted code \(got x\)"):
        njit(lambda f: f(x=1.0))(f)


def test_one_function_takes_all_callables_with_the_same_entries(c):
    call = njit(lambda f, x: f(x))
    assert call(c("half", "d:d"), 3.0) == 1.5
    assert call(nc.load("m").function("cos", "d:d"), 0.0) == 1.0
    assert len(call.signatures) == 1


def test_types_are_kept_up_to_a_bound(c):
    from nativecall._bridges.numba import callables

    address = c("half", "d:d").address()
    known = callables._known
    kept = numba.typeof(c("half", "d:d"))
    for number in range(known.limit + 8):
        numba.typeof(nc.wrap(address, f"d:T{{d:x{number}:}}"))
        assert len(known) <= known.limit
    assert numba.typeof(c("half", "d:d")) == kept


# -- kinds of values -------------------------------------------------------------------------------


def test_callables_are_values(c):
    half, cos = c("half", "d:d"), nc.load("m").function("cos", "d:d")

    @njit
    def through(functions, x):
        total = 0.0
        for f in functions:
            total += f(x)
        return total

    expected = 0.5 + math.cos(1.0)
    assert through((half, cos), 1.0) == expected

    @njit
    def chosen(first, second, flag):
        listed = [first, second]
        return listed[flag], first is listed[0], first is second

    assert chosen(half, cos, 0) == (half, True, False)
    assert chosen(half, cos, 1) == (cos, True, False)
    assert njit(lambda flag: (half if flag else cos)(1.0))(True) == 0.5


def test_built_in_views(c):
    view = c("half", "d:d").builtin
    assert njit(lambda x: view(x))(3.0) == 1.5
    call = njit(lambda f, x: (f(x), f))
    assert call(view, 3.0)[0] == 1.5
    assert call(view, 3.0)[1] is view
    # Others are what they were.
    assert njit(lambda x: abs(x))(-1.0) == 1.0
    with pytest.raises((errors.TypingError, TypeError)):
        njit(lambda f: f)(operator.add)


def test_first_class_functions(c):
    half = c("half", "d:d")
    kind = numba.types.FunctionType(numba.float64(numba.float64))
    call = njit(numba.float64(kind, numba.float64))(lambda f, x: f(x))
    assert call(half, 3.0) == 1.5
    assert njit(lambda f, x: call(f, x))(half, 3.0) == 1.5
    with pytest.raises(TypeError, match="No matching definition"):
        call(c("twice", "f:f"), 3.0)
    both = nc.wrap({"d:d": half, "f:f": c("twice", "f:f")})
    with pytest.raises(TypeError, match=r"has 2 entries, .* choose one, as in f\['d:d'\]"):
        call(both, 3.0)
    assert call(both["d:d"], 3.0) == 1.5
    with pytest.raises(TypeError, match="does not check for failures"):
        nc.wrap(half.address(), "d:d", errors="errno").__wrapper_address__()


def test_in_parallel(c):
    half = c("half", "d:d")

    @njit(parallel=True)
    def filled(n):
        xs = np.empty(n)
        for i in numba.prange(n):
            xs[i] = half(i)
        return xs

    assert np.array_equal(filled(1000), np.arange(1000) / 2)


def test_threads_without_the_gil(c):
    half, needs = c("half", "d:d"), nc.wrap(c("half", "d:d").address(), "d:d", gil="need")

    @njit(nogil=True)
    def sums(f, n):
        total = 0.0
        for i in range(n):
            total += f(i)
        return total

    for f in (half, needs):
        assert each(lambda f: sums(f, 1000), *[f] * 4) == [sum(range(1000)) / 2] * 4


# -- failures --------------------------------------------------------------------------------------

FAILING = {
    "nonzero": ("status", "i:i", 2, 5),
    "zero": ("positive", "i:i", 2, -1),
    "null": ("same", "&d:&d", np.ones(1), None),
    "errno": ("failing", "i:i", 0, 2),
    "argument": ("checked", "d:d&i", 1.5, -1.0),
}


@pytest.mark.parametrize("convention", FAILING)
def test_failures_are_those_of_calls_from_python(c, convention):
    name, signature, good, bad = FAILING[convention]
    f = c(name, signature, errors=convention)
    call = njit(lambda f, x: f(x) is None)
    assert not call(f, good)
    with pytest.raises((nc.NativeFailure, OSError)) as expected:
        f(bad)
    constant = njit(lambda x: f(x) is None)
    for again in (lambda: call(f, bad), lambda: constant(bad)):
        with pytest.raises(expected.type) as caught:
            again()
        assert (str(caught.value), caught.value.args) == (
            str(expected.value),
            expected.value.args,
        )
        assert getattr(caught.value, "value", None) == getattr(expected.value, "value", None)
    # CPython makes the exception another time where one is being handled.
    handled = KeyError()
    try:
        raise handled
    except KeyError:
        with pytest.raises(expected.type) as caught:
            call(f, bad)
    assert (caught.value.args, caught.value.__context__) == (expected.value.args, handled)


def test_no_way_of_failing_keeps_the_callable(c, optimized):
    """Without its optimizations, Numba leaks a reference to each argument of what raises."""

    def of_python(x):
        raise ValueError(x)

    status = c("status", "i:i", errors="nonzero")
    callback = nc.callback("i:i", of_python)

    @njit
    def passed(f):
        return f(9)

    @njit
    def constant(f):
        return status(9)

    @njit
    def caught(f):
        try:
            return f(9)
        except Exception:
            return -1

    for f, call in (
        (status, passed),
        (callback, passed),
        (status, constant),
        (status, caught),
        (callback, caught),
    ):
        counts = []
        for _ in range(5):
            with contextlib.suppress(nc.NativeFailure, ValueError):
                call(f)
            counts.append(sys.getrefcount(f))
        assert counts[1:] == counts[1:2] * 4, (f, call)


def test_the_last_failure_is_the_one_that_is_raised(c):
    """One that was caught before, or that another thread has, changes nothing."""
    f = c("status", "i:i", errors="nonzero")

    @njit(nogil=True)
    def caught(f, x):
        try:
            f(x)
        except Exception:
            return 0
        return 1

    @njit(nogil=True)
    def second(f, x, y):
        caught(f, x)  # on Python 3.13 Numba loses what is raised behind its own `except`
        return f(y)

    def told(x):
        for y in (2, 3, 5, 9) * 5:
            try:
                second(f, x, y)
            except nc.NativeFailure as failure:
                yield y, failure.value

    expected = [*told(7)]
    assert len(expected) >= 5
    assert all(y == 9 or value for y, value in expected)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        assert [*pool.map(lambda x: [*told(x)], (5, 9))] == [expected] * 2


@pytest.mark.parametrize("kind", ["callback", "passed", "jitted", "need"])
def test_exceptions_of_python_end_the_jitted_function(c, kind):
    def python(x):
        if x > 2:
            raise ValueError("too large", x)
        return x / 2

    function = nc.wrap(njit(python), "d:d") if kind == "jitted" else nc.callback("d:d")(python)
    if kind == "need":
        function = nc.callback("d:d", errors="python")(python)
    applied = c("applied", "d:X{d:d}d")
    kind_is_passed = kind == "passed"

    @njit
    def calls(f, x):
        return (applied(f, x) - 1 if kind_is_passed else f(x)) + 1

    for _ in range(3):
        assert calls(function, 1.0) == 1.5
        with pytest.raises(ValueError, match="too large"):
            calls(function, 3.0)


# -- refusals --------------------------------------------------------------------------------------


def test_what_jitted_code_cannot_call(c):
    class Silent(nc.NativeCallable):
        def __call__(self, x):
            return 0.0

    call = njit(lambda f: f(1.0))
    half = c("half", "d:d").address()
    hooked = nc.wrap(numba.vectorize(lambda x: x))
    for wrong, why in (
        (nc.wrap(half, "d:O"), "'d:O': Numba has no type for 'O'"),
        (nc.wrap(half, "d:d."), "Numba has no variadic functions"),
        (nc.wrap(half, "g:g"), "Numba has no type for 'g'"),
        (nc.wrap(half, "d:d", errno=True), "errno=True keeps errno for nativecall.get_errno"),
        (Silent(half, "d:d"), "'Silent' overrides __call__"),
        (hooked, "it has no entries yet; ask for one"),
    ):
        with pytest.raises(errors.TypingError, match="cannot be used in jitted code") as caught:
            numba.typeof(wrong)
        assert why in str(caught.value)
        with pytest.raises(errors.TypingError):
            njit(lambda wrong=wrong: wrong(1.0))()
        with pytest.raises((errors.TypingError, TypeError)):
            call(wrong)
    some = nc.wrap({"d:d": half, "d:O": half})
    assert njit(lambda: some(3.0))() == 1.5


def test_a_version_of_numba_that_is_not_known(c, monkeypatch):
    f = c("half", "d:d")
    monkeypatch.setattr(numba, "__version__", "0.99.1")
    says = r"supports Numba 0\.62 to 0\.68, not Numba 0\.99\.1"
    with pytest.raises(errors.TypingError, match=says):
        numba.typeof(f)
    for target in (njit(lambda x: x), numba.cfunc("float64(float64)")(lambda x: x)):
        with pytest.raises(nc.SignatureError, match=says):
            nc.wrap(target)
        with pytest.raises(nc.SignatureError, match=says):
            nc.wrap(target, "d:d")


# -- life ------------------------------------------------------------------------------------------


def test_arguments_keep_callables_alive():
    cos = nc.load("m").function("cos", "d:d")
    bound = nc.load("m").function("pow", "d:dd").bind(..., 2.0)
    reference = weakref.ref(bound)
    listed = njit(lambda f: numba.typed.List([f]))(bound)
    del bound
    gc.collect()
    assert reference() is not None
    assert njit(lambda fs, x: fs[0](x))(listed, 3.0) == 9.0
    del listed
    gc.collect()
    assert reference() is None
    call = njit(lambda f, x: f(x))
    before = sys.getrefcount(cos)
    for _ in range(100):
        call(cos, 1.0)
    assert sys.getrefcount(cos) == before


def test_constants_keep_callables_alive():
    def made():
        bound = nc.load("m").function("pow", "d:dd").bind(..., 2.0)
        return njit(lambda x: bound(x))

    call = made()
    call(1.0)
    call.py_func.__closure__[0].cell_contents = None
    gc.collect()
    assert call(3.0) == 9.0


# -- caches ----------------------------------------------------------------------------------------

MODULE = """
    import os
    import numpy as np
    import numba
    import nativecall as nc

    m = nc.load("m")
    cos = m.function("cos", "d:d")
    both = nc.wrap({"d:d": m.function("sin", "d:d"), "f:f": m.function("sinf", "f:f")})
    square = m.function("pow", "d:dd").bind(..., 2.0)
    own = nc.load(PATH).function("status", "i:i", errors="nonzero")
    named = nc.wrap(cos.address(), "d:d")

    @numba.njit(cache=True)
    def constants(x):
        return cos(x) + both(x) + both(np.float32(x)) + square(x) + own(2)

    @numba.njit
    def inner(x):
        return cos(x)

    @numba.njit(cache=True)
    def outer(f, x):
        return inner(x) + f(x)

    @numba.njit(cache=True)
    def fails(x):
        return own(x)

    @numba.njit(cache=True)
    def by_name(x):
        return named(x)

    twice = nc.wrap(numba.njit(lambda x: 2 * x))

    @numba.njit(cache=True)
    def wrapped(x):
        return twice(x)

    def main():
        assert constants(1.5) == cos(1.5) + both(1.5) + both(np.float32(1.5)) + 2.25
        assert outer(cos, 1.5) == outer(named, 1.5) == 2 * cos(1.5)
        try:
            fails(5)
        except nc.NativeFailure as error:
            assert str(error) == "'status' failed: it returned 5, not 0", error
        else:
            raise AssertionError
        assert by_name(1.5) == cos(1.5)
        assert wrapped(1.5) == 3.0
        cached = constants, outer, fails, by_name, wrapped
        print(*[sum(f.stats.cache_hits.values()) for f in cached])
        print(*[sum(f.stats.cache_misses.values()) for f in cached])
        print(cos.address())
"""


CACHED = f"""{textwrap.dedent(MODULE)}
path = os.path.join(os.path.dirname(__file__), "mine.so")
half = nc.load(path).function("half", "d:d") if os.path.exists(path) else nc.wrap(1, "d:d")

@numba.njit(cache=True)
def call_mine(x):
    if x < 0:
        return -1.0
    return half(x)

@numba.njit
def cube(x):
    return x * x * x
"""
LATER = """
import pickle, sys
import numba

# The entry point of Numba imports little of nativecall.
assert numba.njit(lambda x: x + 1)(1) == 2
ours = sorted(name for name in sys.modules if name.startswith("nativecall."))
ground = "_errors _ext _lib _numba _version"
assert ours == ["nativecall." + name for name in ground.split()], ours

import cached_functions as cached

cached.main()
assert cached.call_mine(-3.0) == -1.0
try:
    cached.call_mine(3.0)
except cached.nc.LibraryError as error:
    assert "mine.so" in str(error)
    print("gone")
with open("pickled", "rb") as file:
    f, g = pickle.load(file)
print(f(2.0), g.signatures, g(3))
"""


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache of Numba's, for processes too that the test starts."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    numba.config.reload_config()


def test_another_process_uses_what_was_cached_and_pickled(
    optimized, cache, path, tmp_path, monkeypatch, capsys
):
    """A cached function finds its functions where they are then, unless their library is gone."""
    monkeypatch.syspath_prepend(tmp_path)
    mine = tmp_path / "mine.so"
    mine.write_bytes(path.read_bytes())
    source = CACHED.replace("PATH", repr(str(path)))
    (tmp_path / "cached_functions.py").write_text(source)
    cached = importlib.import_module("cached_functions")
    cached.main()
    assert (cached.call_mine(-3.0), cached.call_mine(3.0)) == (-1.0, 1.5)
    hits, misses, place = capsys.readouterr().out.splitlines()
    assert (hits, misses) == ("0 0 0 0 0", "1 1 1 1 1")
    f = nc.wrap(cached.cube)
    f["d:d"]
    (tmp_path / "pickled").write_bytes(pickle.dumps((f, nc.wrap(cached.cube, "q:q"))))
    mine.unlink()
    done = subprocess.run(
        [sys.executable, "-c", LATER], check=False, cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.stderr, done.returncode) == ("", 0)
    hits, misses, elsewhere, *more = done.stdout.splitlines()
    assert (hits, misses) == ("1 1 1 1 1", "0 0 0 0 0"), "nothing is compiled"
    assert elsewhere != place or sys.platform != "linux"
    assert more == ["gone", "8.0 ('q:q',) 27"]


def test_what_has_no_name_is_not_cached(cache, tmp_path):
    """Numba refuses constants that are addresses, as those of ctypes, and closures over them."""
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent("""
            import numba
            import nativecall as nc

            raw = nc.wrap(nc.load("m").address("cos"), "d:d")

            @numba.njit(cache=True)
            def constant(x):
                return raw(x)

            def closure(raw):
                return numba.njit(cache=True)(lambda x: raw(x))
        """)
    )
    for _ in range(2):
        names = runpy.run_path(str(program))
        with pytest.warns(errors.NumbaWarning, match='Cannot cache compiled function "constant"'):
            assert names["constant"](0.0) == 1.0
        with pytest.raises(TypeError, match="it is known by its address only"):
            names["closure"](names["raw"])(0.0)
