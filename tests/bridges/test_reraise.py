"""Exceptions of callbacks out of callers that have no way to fail, as themselves; and reductions of
views in SciPy's filters.
"""

import ctypes
import threading

import numpy as np
import pytest

import nativecall as nc
from support.modes import DEBUG

integrate = pytest.importorskip("scipy.integrate")
ndimage = pytest.importorskip("scipy.ndimage")
DOUBLE = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)
IMAGE = np.random.default_rng(5).random((12, 9))


overlooked = pytest.mark.skipif(
    DEBUG, reason="debug builds of CPython end where C code overlooks exceptions, as SciPy's does"
)


class Own(Exception):
    """A type that nobody else raises."""


def failing(error, gil="take"):
    def f(x):
        raise error

    return nc.callback("d:d", f, gil=gil)


@overlooked
@pytest.mark.parametrize("gil", ["take", "need"])
@pytest.mark.parametrize(
    "call",
    [
        lambda f: integrate.quad(f.to_scipy(), 0, 1),
        lambda f: integrate.nquad(f.to_scipy("d:i&d"), [[0, 1]]),
        lambda f: DOUBLE(ctypes.cast(f.to_ctypes(), ctypes.c_void_p).value)(1.0),
        lambda f: f.to_cffi()(1.0),
        lambda f: f.to_ctypes(DOUBLE)(1.0),
    ],
    ids=["quad", "nquad", "raw pointer", "cffi", "ctypes"],
)
def test_it_is_the_users_own(call, gil):
    error = Own("text")
    f = failing(error, gil)
    cause = ValueError("the cause")
    error.__cause__ = cause
    with pytest.raises(Own) as info, nc.reraise():
        call(f)
    assert info.value is error
    assert error.__cause__ is cause
    assert error.__context__ is None
    assert "f" in [entry.name for entry in info.traceback]
    assert integrate.quad(nc.callback("d:d", float).to_scipy(), 0, 2)[0] == pytest.approx(2.0)


@overlooked
def test_in_another_thread():
    error, found = Own(), []

    def run():
        try:
            with nc.reraise():
                integrate.quad(failing(error).to_scipy(), 0, 1)
        except BaseException as raised:
            found.append(raised)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [error]


@overlooked
def test_what_goes_on_as_it_is():
    with nc.reraise():
        assert integrate.quad(nc.callback("d:d", float).to_scipy(), 0, 2)[0] == pytest.approx(2.0)
    for error in (SystemError("another"), Own(), KeyboardInterrupt()):
        with pytest.raises(type(error)) as info, nc.reraise():
            raise error
        assert info.value is error
    other = SystemError("another")
    other.__cause__ = Own()
    with pytest.raises(SystemError) as info, nc.reraise():
        raise other
    assert info.value is other


# -- views ---------------------------------------------------------------------------------------


def spread(values):
    return values.max() - values.min()


def test_reductions_of_views_are_filters():
    f = nc.callback("d:[1]d", spread)
    box = f.to_scipy()
    assert box.signature == "int (double *, npy_intp, double *, void *)"
    expected = ndimage.generic_filter(IMAGE, spread, size=3)
    assert np.array_equal(ndimage.generic_filter(IMAGE, box, size=3), expected)
    numba = pytest.importorskip("numba")
    jitted = nc.wrap(numba.njit(lambda values: values.max() - values.min()), "d:[1]d")
    assert np.array_equal(ndimage.generic_filter(IMAGE, jitted.to_scipy(), size=3), expected)


def test_lines_of_views_are_filters():
    def double(line, out):
        out[:] = 2 * line[1:-1]

    box = nc.callback("v:[1]d[1]d", double).to_scipy()
    assert box.signature.startswith("int (double *, npy_intp, double *, npy_intp")
    assert np.array_equal(ndimage.generic_filter1d(IMAGE, box, 3), 2 * IMAGE)


@overlooked
def test_an_exception_of_a_reduction():
    def fails(values):
        raise Own("text")

    with pytest.raises(Own):
        ndimage.generic_filter(IMAGE, nc.callback("d:[1]d", fails).to_scipy(), size=3)


@pytest.mark.parametrize(
    ("own", "wanted", "values"),
    [
        ("q:[1]d", "q:&di", ["d", 6]),
        ("q:[1]d", "q:i&d", [6, "d"]),
        ("q:d[1]di", "q:d&dqi", [0.5, "d", 6, 1]),
        ("q:[1]i", "q:&iB", ["i", 6]),
    ],
)
def test_arrays_become_views(own, wanted, values):
    def described(*values):
        (view,) = [value for value in values if hasattr(value, "strides")]
        return view.shape[0] * 1000 + view.strides[0] * 10 + int(view[-1])

    f = nc.callback(own, described).convert(wanted)
    given = [np.arange(6, dtype=one) if isinstance(one, str) else one for one in values]
    (array,) = [one for one in given if isinstance(one, np.ndarray)]
    assert f(*given) == 6000 + array.itemsize * 10 + 5


@pytest.mark.parametrize("wanted", ["d:&fi", "d:&d", "d:&did", "d:di", "d:&dd"])
def test_what_is_no_view(wanted):
    with pytest.raises(nc.SignatureError, match="cannot convert"):
        nc.callback("d:[1]d", spread).convert(wanted)
