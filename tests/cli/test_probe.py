"""Calls from C by the loop that `nativecall demo` uses: every way gives what Python calls give."""

import array
import math
import threading

import pytest

import nativecall as nc
from nativecall import _ext
from support.threads import needs_gil

call_loop = _ext.call_loop
X = array.array("d", [0.0, 0.25, 0.5, 1.5, -2.0])
Y = array.array("d", [1.0, 2.0, -1.0, 3.0, 2.0])
WAYS = ["pointer", "offset", "slot"]


@pytest.fixture(scope="module")
def m():
    return nc.load(
        "m",
        "double cos(double); float cosf(float); double atan2(double, double);"
        "double ldexp(double, int);",
    )


def run(function, signature, way, *arguments):
    results = array.array("d", [math.nan] * len(X))
    assert call_loop(function, signature, way, results, *arguments) is None
    return list(results)


@pytest.mark.parametrize("way", WAYS)
def test_every_way_gives_the_same_values(m, way):
    assert run(m.cos, "d:d", way, X) == [math.cos(x) for x in X]
    assert run(m.cosf, "f:f", way, X) == [m.cosf(x) for x in X]
    assert run(m.atan2, "d:dd", way, Y, X) == [math.atan2(y, x) for y, x in zip(Y, X, strict=True)]


@pytest.mark.parametrize("way", WAYS)
def test_an_integer_argument_and_a_view(m, way):
    expected = [math.ldexp(x, int(y)) for x, y in zip(X, Y, strict=True)]
    assert run(m.ldexp, "d:di", way, X, Y) == expected
    assert run(m.cos.builtin, "d:d", way, X) == [math.cos(x) for x in X]


def test_the_entry_of_the_signature_is_the_one_that_is_called(m):
    both = nc.wrap({"d:d": m.cos, "f:f": m.cosf})
    assert run(both, "f:f", "slot", X) == [m.cosf(x) for x in X]
    assert run(both, "d:d", "slot", X) == [m.cos(x) for x in X]


@needs_gil
def test_the_gil_is_released(m):
    # The loop runs long enough for another thread to be scheduled many times over.
    long = array.array("d", [0.5]) * 1_000_000
    results = array.array("d", long)
    done = threading.Event()
    ticks = 0

    def loop():
        for _ in range(20):
            call_loop(m.cos, "d:d", "slot", results, long)
        done.set()

    thread = threading.Thread(target=loop)
    thread.start()
    while not done.wait(0.001):
        ticks += 1
    thread.join()
    assert ticks > 10


def test_what_cannot_be_called_is_refused(m, fails):
    results = array.array("d", X)
    for function, name in (
        (abs, "<built-in function abs>"),
        (nc.wrap(m.cos, gil="need"), "<native callable double cos(double)>"),
    ):
        message = f"no native entry for 'd:d' in {name} that runs without the GIL"
        for way in WAYS:
            with fails(LookupError, message):
                call_loop(function, "d:d", way, results, X)
    assert results == X


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("d:d", "far", X, X), "unknown way 'far'"),
        (("d:q", "slot", X, X), "unknown signature 'd:q'"),
        (("d:d", "slot", X, X, X), "'d:d' takes 1 buffer(s) of arguments"),
        (("d:dd", "slot", X, X), "'d:dd' takes 2 buffer(s) of arguments"),
        (("d:d", "slot", X, X[:2]), "the buffers must hold the same number of doubles"),
        (
            ("d:d", "slot", bytearray(9), bytes(9)),
            "the buffers must hold the same number of doubles",
        ),
    ],
)
def test_wrong_arguments(m, fails, arguments, message):
    with fails(ValueError, message):
        call_loop(m.cos, *arguments)
