"""A numerical library in Cython that takes any callable: builds it, uses it, times its calls."""

from __future__ import annotations

import ctypes
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import nativecall as nc

HERE = Path(__file__).resolve().parent
POINTS = 100_000


def build(directory: str) -> None:
    """Compile the module into a directory."""
    command = [sys.executable, "setup.py", "-q", "build_ext", "--cython-c-in-temp"]
    places = ["--build-lib", directory, "--build-temp", f"{directory}/temp"]
    subprocess.run([*command, *places], cwd=HERE, check=True)


def cosine(x: float) -> float:
    """A callable with nothing native in it."""
    return math.cos(x)


def growth(t: float, y: float) -> float:
    """The right side of y' = y - t."""
    return y - t


def broken(x: float) -> float:
    """A callable that raises in the middle of the work."""
    return 1.0 / (x - 0.5)


def absolute(x: float) -> float:
    """fabs, for Python."""
    return -x if x < 0.0 else x


def way(native: bool) -> str:
    """How a callback was called."""
    return "natively" if native else "through Python"


def show(name: str, call: Callable[[object, int], float], f: object) -> None:
    """Print what a way of calling gives, and the shortest time of a call in ten rounds."""
    best = math.inf
    for _ in range(10):
        start = time.perf_counter()
        mean = call(f, POINTS)
        best = min(best, time.perf_counter() - start)
    print(f"{name:<18} {mean:.9f} {best / POINTS * 1e9:6.1f} ns a call")


with tempfile.TemporaryDirectory() as built:
    build(built)
    sys.path.insert(0, built)
    import numerics

    libm = nc.load("m", "double cos(double); double fabs(double); double fdim(double, double);")
    pointer = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(libm.cos.address())
    boxes = {
        "native callable": libm.cos,
        "built-in view": libm.cos.builtin,
        "cdef function": numerics.__pyx_capi__["cosine"],
        "ctypes pointer": pointer,
        "Python function": cosine,
    }
    print(f"the integral of cos from 0 to 1; sin(1) is {math.sin(1):.9f}")
    for name, box in boxes.items():
        value, native = numerics.integrate(box, 0.0, 1.0, 500)
        print(f"{name:<18} {value:.9f} called {way(native)}")

    root, native = numerics.find_root(libm.cos, 0.0, 3.0)
    print(f"a root of cos      {root:.9f} called {way(native)}; pi/2 is {math.pi / 2:.9f}")
    y, native = numerics.solve(growth, 0.0, 2.0, 1.0, 100)
    print(f"y' = y - t         {y:.9f} called {way(native)}; e + 2 is {math.e + 2:.9f}")
    y, native = numerics.solve(libm.fdim, 0.0, 2.0, 1.0, 100)
    print(f"y' = fdim(t, y)    {y:.9f} called {way(native)}")

    try:
        numerics.integrate(broken, 0.0, 1.0, 500)
    except ZeroDivisionError as error:
        print(f"ZeroDivisionError: {error}")
    try:
        numerics.find_root(libm.cos, 0.0, 1.0)
    except ValueError as error:
        print(f"ValueError:        {error}")

    print(f"the mean of fabs from -0.5 to 0.5 by {POINTS} points")
    show("bare pointer", numerics.mean_by_pointer, libm.fabs.address())
    show("native callable", numerics.mean_by_lookup, libm.fabs)
    show("cdef class", numerics.mean_by_class, numerics.Absolute())
    show("Python function", numerics.mean_by_callback, absolute)
