"""Python functions under SciPy, through `nc.callback`: natively called, and no exception lost.

quad has no way to hear of a failure: what the callback raised is then the `__cause__` of what
CPython makes of it, or comes out itself. It is never a wrong number.
"""

from __future__ import annotations

import math
import sys
import threading

import numpy as np
import pytest
from scipy import integrate, ndimage
from scipy._lib import _test_ccallback

import nativecall as nc
from support.threads import each, turns

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


CALLED = "double (double, int *, void *)"


def comes_from(found: BaseException | None, error: BaseException) -> bool:
    """Whether an exception is another, or has it for a cause through SystemErrors only."""
    while isinstance(found, SystemError) and found is not error:
        found = found.__cause__
    return found is error


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


def test_more_threads_than_are_remembered():
    """An exception from ten levels down, in twenty threads, each its own."""
    errors = [Boom(i) for i in range(20)]

    def work(i):
        def level(n):
            def function(x, error, data):
                if n == 10:
                    raise errors[i]
                return _test_ccallback.test_call_nodata(level(n + 1), x)

            return nc.callback(CALLED, function).to_scipy(CALLED)

        return raised(lambda: _test_ccallback.test_call_nodata(level(0), 1.0))

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
