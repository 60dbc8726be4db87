"""A C extension that takes a callback: builds it, then hands it native and Python callables."""

from __future__ import annotations

import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nativecall as nc

HERE = Path(__file__).resolve().parent
N = 200_000


def build(directory: str) -> None:
    """Compile midpoint.c into a directory."""
    command = [sys.executable, "setup.py", "-q", "build_ext"]
    places = ["--build-lib", directory, "--build-temp", f"{directory}/temp"]
    subprocess.run([*command, *places], cwd=HERE, check=True)


def cosine(x: float) -> float:
    """A callable with nothing native in it."""
    return math.cos(x)


with tempfile.TemporaryDirectory() as built:
    build(built)
    sys.path.insert(0, built)
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
        way = "natively" if native else "through Python"
        print(f"{name:<18} {value:.9f} called {way:<15} {lasted:5.1f} ns a call")
