"""What the examples with an extension module share: they build it and hand it callables."""

from __future__ import annotations

import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nativecall as nc


@contextmanager
def built(folder: Path, *options: str) -> Iterator[str]:
    """Within the block a folder's module, built by its setup.py, can be imported; from where."""
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, "setup.py", "-q", "build_ext", *options]
        places = ["--build-lib", directory, "--build-temp", f"{directory}/temp"]
        subprocess.run([*command, *places], cwd=folder, check=True)
        sys.path.insert(0, directory)
        yield directory


def cosine(x: float) -> float:
    """A callable with nothing native in it."""
    return math.cos(x)


def growth(t: float, y: float) -> float:
    """The right side of y' = y - t."""
    return y - t


def broken(x: float) -> float:
    """A callable that raises in the middle of the work."""
    return 1.0 / (x - 0.5)


def way(native: bool) -> str:
    """How a callback was called."""
    return "natively" if native else "through Python"


def show_numerics(module: Any, boxes: Mapping[str, object], cos: object, fdim: object) -> None:
    """Print what a numerical library makes of all boxes of cos, and of functions of other types."""
    print(f"the integral of cos from 0 to 1; sin(1) is {math.sin(1):.9f}")
    for name, box in boxes.items():
        value, native = module.integrate(box, 0.0, 1.0, 500)
        print(f"{name:<18} {value:.9f} called {way(native)}")

    root, native = module.find_root(cos, 0.0, 3.0)
    print(f"a root of cos      {root:.9f} called {way(native)}; pi/2 is {math.pi / 2:.9f}")
    y, native = module.solve(growth, 0.0, 2.0, 1.0, 100)
    print(f"y' = y - t         {y:.9f} called {way(native)}; e + 2 is {math.e + 2:.9f}")
    y, native = module.solve(fdim, 0.0, 2.0, 1.0, 100)
    print(f"y' = fdim(t, y)    {y:.9f} called {way(native)}")


def show_error(function: Callable[..., object], *arguments: object) -> None:
    """Print what a call raises."""
    try:
        function(*arguments)
    except (ArithmeticError, TypeError, ValueError) as error:
        print(f"{type(error).__name__ + ':':<18} {error}")


def show_midpoint(module: Any) -> None:
    """Print what the midpoint rule of a consumer makes of native and Python callables."""
    n, cos = 200_000, nc.load("m", "double cos(double);").cos
    print(f"the integral of cos from 0 to 1 by {n} points; sin(1) is {math.sin(1):.9f}")
    callables = {
        "cos": cos,
        "cos.builtin": cos.builtin,
        "math.cos": math.cos,
        "a Python function": cosine,
    }
    for name, f in callables.items():
        start = time.perf_counter()
        value, native = module.integrate(f, 0.0, 1.0, n)
        lasted = (time.perf_counter() - start) / n * 1e9
        print(f"{name:<18} {value:.9f} called {way(native):<15} {lasted:5.1f} ns a call")
    # A callback has no error convention, and takes the GIL: it leaves its exception.
    show_error(module.integrate, nc.callback("d:d", lambda x: x / 0.0), 0.0, 1.0, n)
