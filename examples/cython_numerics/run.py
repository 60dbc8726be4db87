"""Build a numerical library in Cython that takes any callable, use it and time its calls."""

from __future__ import annotations

import ctypes
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path

import nativecall as nc

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from _shared import broken, built, cosine, show_error, show_numerics

POINTS = 100_000


def absolute(x: float) -> float:
    """fabs, for Python."""
    return -x if x < 0.0 else x


def show(name: str, call: Callable[[object, int], float], f: object) -> None:
    """Print what a way of calling gives, and the shortest time of a call in ten rounds."""
    best = math.inf
    for _ in range(10):
        start = time.perf_counter()
        mean = call(f, POINTS)
        best = min(best, time.perf_counter() - start)
    print(f"{name:<18} {mean:.9f} {best / POINTS * 1e9:6.1f} ns a call")


with built(Path(__file__).resolve().parent, "--cython-c-in-temp"):
    import numerics

    libm = nc.load("m", "double cos(double); double fabs(double); double fdim(double, double);")
    pointer = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(libm.cos.address())
    boxes = {
        "native callable": libm.cos,
        "built-in view": libm.cos.builtin,
        # A capsule cannot say that the function is `noexcept nogil`.
        "cdef function": nc.wrap(numerics, "cosine", gil="release"),
        "ctypes, wrapped": nc.wrap(pointer),
        "Python function": cosine,
    }
    show_numerics(numerics, boxes, libm.cos, libm.fdim)

    show_error(numerics.integrate, broken, 0.0, 1.0, 500)
    show_error(numerics.find_root, libm.cos, 0.0, 1.0)
    show_error(numerics.mean_by_lookup, nc.callback("d:d", lambda x: x / 0.0), POINTS)

    print(f"the mean of fabs from -0.5 to 0.5 by {POINTS} points")
    show("bare pointer", numerics.mean_by_pointer, libm.fabs.address())
    show("native callable", numerics.mean_by_lookup, libm.fabs)
    show("cdef class", numerics.mean_by_class, numerics.Absolute())
    show("Python function", numerics.mean_by_callback, absolute)
