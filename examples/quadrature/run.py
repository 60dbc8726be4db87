"""SciPy's `quad` as two C extensions would have it: one takes every box, one what is wrapped."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import cffi
import numba
from scipy import LowLevelCallable

import nativecall as nc

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from _shared import broken, built, show_error


def bell(x: float) -> float:
    """What is integrated."""
    return math.exp(-x * x)


def show(name: str, answer: tuple[float, float, int, int]) -> None:
    """Print an integral, and how often the integrand was called in either way."""
    value, error, native, boxed = answer
    assert abs(value - math.erf(1.0) * math.sqrt(math.pi) / 2.0) < 1e-9 > error
    print(f"{name:<18} {value:.9f}, {native} native calls, {boxed} boxed")


with built(Path(__file__).resolve().parent, "--cython-c-in-temp"):
    import by_callback
    import by_lookup
    from bell import __pyx_capi__ as capsules

    cfunc = numba.cfunc("float64(float64)")(bell)
    boxes = {
        "native callable": nc.wrap(cfunc.address, "d:d", owner=cfunc),
        "Cython capsule": capsules["bell"],
        "Numba cfunc": cfunc,
        "LowLevelCallable": LowLevelCallable(cfunc.ctypes),
        "ctypes pointer": cfunc.ctypes,
        "cffi pointer": cffi.FFI().cast("double(*)(double)", cfunc.address),
    }
    print("with callback.h")
    for name, box in boxes.items():
        show(name, by_callback.quad(box, 0.0, 1.0))
    show("Python function", by_callback.quad(bell, 0.0, 1.0))
    show_error(by_callback.quad, broken, 0.0, 1.0)

    print("with nativecall_abi.h")
    for name, box in boxes.items():
        show(name, by_lookup.quad(nc.wrap(box), 0.0, 1.0))
    show("nc.callback", by_lookup.quad(nc.callback("d:d")(bell), 0.0, 1.0))
    show("Python function", by_lookup.quad(bell, 0.0, 1.0))
    show_error(by_lookup.quad, nc.callback("d:d")(broken), 0.0, 1.0)
    show_error(by_lookup.quad, broken, 0.0, 1.0)
