"""Python functions under SciPy, through `nc.callback`: natively called, and no exception lost.

quad has no way to hear of a failure: what the callback raised is then the `__cause__` of what
CPython makes of it, or comes out itself. It is never a wrong number.
"""

from __future__ import annotations

import ctypes
import math
import sys
import threading

import numpy as np
import pytest
from scipy import LowLevelCallable, integrate, ndimage
from scipy._lib import _ccallback_c, _test_ccallback

import nativecall as nc
from support.threads import each, turns

CALLERS = {
    "simple": _test_ccallback.test_call_simple,
    "nodata": _test_ccallback.test_call_nodata,
    "nonlocal": _test_ccallback.test_call_nonlocal,
    "cython": _ccallback_c.test_call_cython,
}
CALLED = "double (double, int *, void *)"
CALLED_TWICE = "double (double, double, int *, void *)"
IMAGE = np.arange(12.0).reshape(3, 4)
FILTER = "int (double *, npy_intp, double *, void *)"
FILTER1D = "int (double *, npy_intp, double *, npy_intp, void *)"
TRANSFORM = "int (npy_intp *, double *, int, int, void *)"


pytestmark = pytest.mark.skipif(
    hasattr(sys, "gettotalrefcount"),
    reason="debug builds of CPython end where C code overlooks exceptions, as SciPy's does",
)


class Boom(Exception):
    """What the callbacks here raise."""


def raised(block) -> BaseException:
    """What a block raises, or the direct cause of that where it is CPython's SystemError."""
    with pytest.raises(BaseException) as found:  # noqa: PT011 - any
        block()
    error = found.value
    if isinstance(error, SystemError):
        assert error.__cause__ is not None
        return error.__cause__
    return error


def comes_from(found: BaseException | None, error: BaseException) -> bool:
    """Whether an exception is another, or has it for a cause through SystemErrors only."""
    while isinstance(found, SystemError) and found is not error:
        found = found.__cause__
    return found is error


def largest(values, count, out, data):
    out[0] = max(values[i] for i in range(count))
    return 1


def running(values, count, out, made, data):
    for i in range(made):
        out[i] = values[i] + values[i + count - made]
    return 1


def shift(out, into, rank_out, rank_in, data):
    for i in range(rank_in):
        into[i] = out[i] - 1.0
    return 1


# -- every entrance ------------------------------------------------------------------------------


def test_quad():
    assert integrate.quad(nc.callback("d:d", math.cos).to_scipy(), 0, 1)[0] == pytest.approx(
        math.sin(1)
    )
    f = nc.callback("d:i&d", lambda n, x: x[0] * x[1] * n)
    assert integrate.quad(f.to_scipy(), 0, 2, args=(3.0,))[0] == pytest.approx(12.0)
    scale = np.array([3.0])
    f = nc.callback("d:dP", lambda x, data: x * ctypes.c_double.from_address(address(data)).value)
    assert integrate.quad(f.to_scipy(user_data=scale), 0, 2)[0] == pytest.approx(6.0)
    f = nc.callback("d:i&dP", lambda n, x, data: 0.0 if data else x[0] * x[1])
    assert integrate.dblquad(f.to_scipy(), 0, 2, 0, 2)[0] == pytest.approx(4.0)
    f = nc.callback("d:i&d", lambda n, x: x[0] * x[1] * x[2])
    assert integrate.tplquad(f.to_scipy(), 0, 2, 0, 2, 0, 2)[0] == pytest.approx(8.0)


def address(pointer) -> int:
    """Where a cffi pointer points."""
    return int(str(pointer).split("0x")[1].rstrip(">"), 16)


def test_ndimage():
    f = nc.callback(FILTER, largest)
    result = ndimage.generic_filter(IMAGE, f.to_scipy(), size=3)
    assert (result == ndimage.maximum_filter(IMAGE, size=3)).all()
    g = nc.callback(FILTER1D, running)
    result = ndimage.generic_filter1d(IMAGE, g.to_scipy(), 3, mode="nearest")
    assert (result[:, 1:-1] == IMAGE[:, :-2] + IMAGE[:, 2:]).all()
    h = nc.callback(TRANSFORM, shift)
    result = ndimage.geometric_transform(IMAGE, h.to_scipy(), order=1)
    assert (result == ndimage.shift(IMAGE, 1, order=1)).all()


# -- exceptions ----------------------------------------------------------------------------------


def failing(signature: str, after: int, error: BaseException, value: int | None = None):
    """A callback whose calls raise after some that do not, and the number of calls it had.

    Its values are noise if not given, so that quad does not end before.
    """
    calls = [0]

    def function(*args):
        calls[0] += 1
        if calls[0] > after:
            raise error
        return calls[0] * 7919 % 101 if value is None else value

    return nc.callback(signature, function), calls


@pytest.mark.parametrize("error", [Boom("own"), KeyboardInterrupt(), SystemExit(3)], ids=repr)
@pytest.mark.parametrize("after", [0, 1, 20, 50])
@pytest.mark.parametrize("limits", [(0, 1), (0, math.inf), (-math.inf, math.inf)])
def test_quad_raises(error, after, limits):
    f, calls = failing("d:d", after, error)
    box = f.to_scipy()
    found = raised(lambda: integrate.quad(box, *limits, limit=200))
    assert found is error
    assert calls[0] == after + 1  # after the first failure, C code gets sentinels at once
    g = nc.callback("d:d", lambda x: x)
    assert integrate.quad(g.to_scipy(), 0, 2)[0] == pytest.approx(2.0)


@pytest.mark.parametrize("options", [{}, {"points": [0.5]}, {"weight": "cos", "wvar": 2.0}])
def test_every_routine_of_quad_raises(options):
    error = Boom()
    f, _ = failing("d:d", 3, error)
    assert raised(lambda: integrate.quad(f.to_scipy(), 0, 1, **options)) is error


def test_multiple_integrals_raise():
    error = Boom()
    f, calls = failing("d:i&d", 500, error, 1)
    box = f.to_scipy()
    assert raised(lambda: integrate.nquad(box, [[0, 1]] * 3)) is error
    assert raised(lambda: integrate.dblquad(box, 0, 1, 0, 1)) is error
    assert raised(lambda: integrate.tplquad(box, 0, 1, 0, 1, 0, 1)) is error
    assert calls[0] == 503


def test_a_result_that_does_not_convert():
    f = nc.callback("d:d", lambda x: "x")
    found = raised(lambda: integrate.quad(f.to_scipy(), 0, 1))
    assert isinstance(found, TypeError)
    assert "must be a real number (got str)" in str(found)


@pytest.mark.parametrize("after", [0, 5])
def test_ndimage_raises(after):
    """0 is ndimage's own failure, and what C gets: the exception comes out as it is."""
    a = np.zeros((50, 50))
    for signature, call in {
        FILTER: lambda box: ndimage.generic_filter(a, box, size=3),
        FILTER1D: lambda box: ndimage.generic_filter1d(a, box, 3),
        TRANSFORM: lambda box: ndimage.geometric_transform(a, box),
    }.items():
        error = Boom(signature)
        f, calls = failing(signature, after, error, 1)
        with pytest.raises(Boom) as found:
            call(f.to_scipy())
        assert found.value is error
        assert calls[0] == after + 1


def test_a_closed_callback():
    f = nc.callback("d:d", lambda x: x)
    box = f.to_scipy()
    f.close()
    found = raised(lambda: integrate.quad(box, 0, 1))
    assert isinstance(found, RuntimeError)
    assert "closed" in str(found)


def test_close_in_the_middle():
    f = nc.callback("d:d", lambda x: f.close() or x)
    assert isinstance(raised(lambda: integrate.quad(f.to_scipy(), 0, 1)), RuntimeError)


def test_nested():
    """quad under quad, both over callbacks: an exception passes through both."""
    error = Boom()

    def inner(x):
        if x > 0.9:
            raise error
        return x

    inside = nc.callback("d:d", inner).to_scipy()
    outside = nc.callback("d:d", lambda y: y * integrate.quad(inside, 0, 0.5)[0]).to_scipy()
    assert integrate.quad(outside, 0, 2)[0] == pytest.approx(0.25)

    outside = nc.callback("d:d", lambda y: integrate.quad(inside, 0, 1)[0]).to_scipy()
    assert comes_from(raised(lambda: integrate.quad(outside, 0, 2)), error)


def test_caught_inside():
    """A failure that the outer callback handles is over."""
    fails = nc.callback("d:d", lambda x: 1 / 0).to_scipy()
    image = np.zeros((3, 3))
    pointwise = nc.callback(FILTER, lambda *_: {}[0]).to_scipy()

    def outer(x):
        assert isinstance(raised(lambda: integrate.quad(fails, 0, 1)), ZeroDivisionError)
        with pytest.raises(KeyError):
            ndimage.generic_filter(image, pointwise, size=3)
        return x

    assert integrate.quad(nc.callback("d:d", outer).to_scipy(), 0, 2)[0] == pytest.approx(2.0)


def run_in_threads(count: int, work) -> list[object]:
    """What `work` returns or raises in each of some threads that begin together."""

    def run(i):
        try:
            return work(i)
        except BaseException as error:
            return error

    return each(run, *range(count))


def test_threads():
    """Threads fail and succeed at the same time, over one box: each gets its own."""
    mine = threading.local()

    def function(x):
        if mine.error is not None and x > 0.9:
            raise mine.error
        return x

    box = nc.callback("d:d", function).to_scipy()
    errors = [Boom(i) if i % 3 == 0 else None for i in range(8)]

    def work(i):
        mine.error = errors[i]
        for _ in range(50):
            if errors[i] is None:
                assert integrate.quad(box, 0, 2)[0] == pytest.approx(2.0)
            else:
                assert raised(lambda: integrate.quad(box, 0, 2)) is errors[i]
        return i

    with turns(1e-5):
        assert run_in_threads(8, work) == list(range(8))


# -- SciPy's own test callers --------------------------------------------------------------------


def plus(signature: str, scale: float = 1.0):
    """SciPy's plus1 and plus1b as callbacks: x + 1, or x + *user_data; 2.0 is an error."""
    count = signature.count("double") - 1

    def function(*args):
        error, data = args[count:]
        if args[0] == 2.0:
            raise Boom("bad value")
        assert error[0] == 0
        more = 1.0 if not data else ctypes.c_double.from_address(address(data)).value
        return sum(args[:count]) + more * scale

    return nc.callback(signature, function)


def user_data(kind: str):
    """2.0 in memory, in the forms that `to_scipy` takes."""
    if kind == "capsule":
        return _test_ccallback.test_get_data_capsule()
    if kind == "ctypes":
        return ctypes.cast(ctypes.pointer(ctypes.c_double(2.0)), ctypes.c_void_p)
    if kind == "cffi":
        import cffi

        return cffi.FFI().new("double *", 2.0)
    return np.array([2.0])


@pytest.mark.parametrize("caller", CALLERS.values(), ids=CALLERS)
@pytest.mark.parametrize("kind", ["capsule", "ctypes", "cffi", "numpy"])
def test_ccallback(caller, kind):
    f = plus(CALLED)
    assert caller(f.to_scipy(CALLED), 1.0) == 2.0
    assert caller(f.to_scipy(CALLED, user_data=user_data(kind)), 1.0) == 3.0
    found = raised(lambda: caller(f.to_scipy(CALLED, user_data=user_data(kind)), 2.0))
    assert isinstance(found, Boom)
    assert caller(f.to_scipy(CALLED), 1.0) == 2.0


@pytest.mark.parametrize("caller", CALLERS.values(), ids=CALLERS)
def test_ccallback_of_two_numbers(caller):
    f = plus(CALLED_TWICE)
    theirs = LowLevelCallable.from_cython(_ccallback_c, "plus1b_cython")
    assert caller(f.to_scipy(CALLED_TWICE), 1.0) == caller(theirs, 1.0)
    box = f.to_scipy(CALLED_TWICE, user_data=user_data("numpy"))
    assert caller(box, 1.0) == caller(theirs, 1.0) + 1.0


@pytest.mark.parametrize("caller", CALLERS.values(), ids=CALLERS)
def test_ccallback_refuses_others(caller):
    f = nc.callback("d:dddiP", lambda *args: 0.0)
    with pytest.raises(ValueError, match=r"double \(double, double, double, int, void \*\)"):
        caller(f.to_scipy("d:dddiP"), 1.0)


@pytest.mark.parametrize("caller", CALLERS.values(), ids=CALLERS)
def test_ccallback_nested(caller):
    """As SciPy's own test does it: each level calls the next through a callback of its own."""

    def level(n):
        def function(x, error, data):
            return 1.0 if x <= 0 else 2 * caller(level(n + 1), x - 1)

        return nc.callback(CALLED, function).to_scipy(CALLED)

    assert caller(level(0), 10.0) == 2.0**10
    results = run_in_threads(20, lambda i: caller(level(0), 10.0))
    assert results == [2.0**10] * 20


@pytest.mark.parametrize("caller", CALLERS.values(), ids=CALLERS)
def test_ccallback_raises_in_threads(caller):
    """An exception from ten levels down, in twenty threads, each its own."""
    errors = [Boom(i) for i in range(20)]

    def work(i):
        def level(n):
            def function(x, error, data):
                if n == 10:
                    raise errors[i]
                return caller(level(n + 1), x)

            return nc.callback(CALLED, function).to_scipy(CALLED)

        return raised(lambda: caller(level(0), 1.0))

    for found, error in zip(run_in_threads(20, work), errors, strict=True):
        assert comes_from(found, error)


# -- SciPy's C functions -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["bisect", "ridder", "brenth", "brentq"])
def test_root_finders_for_cython(name):
    """`cython_optimize` takes C functions from Cython; its own are in capsules, to be called."""
    from scipy.optimize.cython_optimize import _zeros

    solver = nc.wrap(_zeros.__pyx_capi__[name])
    assert solver.signatures == ("d:X{d:dP}ddPddi&T{iiid}",)
    rest = (0.0, 3.0, None, 1e-12, 1e-12, 100, None)
    native = nc.load("m", "double cos(double);").cos.convert("d:dP")
    python = nc.callback("d:dP", lambda x, data: math.cos(x))
    for f in (native, python, lambda x, data: math.cos(x)):
        assert solver(f, *rest) == pytest.approx(math.pi / 2)
    error = Boom()
    fails, calls = failing("d:dP", 0, error)
    with pytest.raises(Boom) as found:
        solver(fails, *rest)
    assert found.value is error
    assert calls[0] == 1
