"""Build SciPy's `quad` as two C extensions: one takes any callable, one takes wrapped ones."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import cffi
import numba
from scipy import LowLevelCallable

import nativecall as nc

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from _shared import broken, built, show_error


def bell(x: float) -> float:
    """What is integrated."""
    return math.exp(-x * x)


def scaled(x: float, scale: float, more: float) -> float:
    """The same with parameters."""
    return math.exp(-scale * x * x) + more


def scaled_array(n: int, values: Any) -> float:
    """The same, as C functions of SciPy's take them."""
    return math.exp(-values[1] * values[0] * values[0]) + values[2]


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
        "LowLevelCallable": LowLevelCallable(cfunc.ctypes),
        "Numba cfunc": cfunc,
        "ctypes pointer": cfunc.ctypes,
        "cffi pointer": cffi.FFI().cast("double(*)(double)", cfunc.address),
    }
    print("with callback.h")
    for name, box in boxes.items():
        # Other libraries' pointers are functions of Python, unless they are wrapped.
        named = name.endswith(("callable", "Callable", "capsule"))
        show(name, by_callback.quad(box if named else nc.wrap(box), 0.0, 1.0))
    show("Python function", by_callback.quad(bell, 0.0, 1.0))
    show_error(by_callback.quad, broken, 0.0, 1.0)

    print("with args=(1.0, 0.0)")
    plain = numba.cfunc("float64(float64, float64, float64)")(scaled)
    in_array = numba.cfunc("float64(intc, CPointer(float64))")(scaled_array)
    for name, box in {
        "native callable": nc.wrap(plain.address, "d:ddd", owner=plain),
        "LowLevelCallable": LowLevelCallable(in_array.ctypes),
        "Python function": scaled,
    }.items():
        show(name, by_callback.quad(box, 0.0, 1.0, args=(1.0, 0.0)))
    show_error(by_callback.quad, LowLevelCallable(plain.ctypes), 0.0, 1.0)

    print("with nativecall_abi.h")
    for name, box in boxes.items():
        show(name, by_lookup.quad(nc.wrap(box), 0.0, 1.0))
    show("nc.callback", by_lookup.quad(nc.callback("d:d")(bell), 0.0, 1.0))
    show("Python function", by_lookup.quad(bell, 0.0, 1.0))
    show_error(by_lookup.quad, nc.callback("d:d")(broken), 0.0, 1.0)
    show_error(by_lookup.quad, broken, 0.0, 1.0)
