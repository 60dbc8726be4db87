"""A C extension that takes a callback: builds it, then hands it native and Python callables."""

from __future__ import annotations

import math
import sys
import time
from pathlib import Path

import nativecall as nc

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from _shared import built, cosine, show_error, way

N = 200_000

with built(Path(__file__).resolve().parent):
    import midpoint

    cos = nc.load("m", "double cos(double);").cos
    print(f"the integral of cos from 0 to 1 by {N} points; sin(1) is {math.sin(1):.9f}")
    callables = {
        "cos": cos,
        "cos.builtin": cos.builtin,
        "math.cos": math.cos,
        "a Python function": cosine,
    }
    for name, f in callables.items():
        start = time.perf_counter()
        value, native = midpoint.integrate(f, 0.0, 1.0, N)
        lasted = (time.perf_counter() - start) / N * 1e9
        print(f"{name:<18} {value:.9f} called {way(native):<15} {lasted:5.1f} ns a call")
    # A callback has no error convention, and takes the GIL: it leaves its exception.
    show_error(midpoint.integrate, nc.callback("d:d", lambda x: x / 0.0), 0.0, 1.0, N)
