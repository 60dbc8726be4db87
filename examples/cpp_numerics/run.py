"""A numerical library in C++ that takes any callable: builds it, then hands it box after box."""

from __future__ import annotations

import ctypes
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import cffi

import nativecall as nc

HERE = Path(__file__).resolve().parent

# Run without site-packages, where nativecall is: the headers were compiled in.
VENDORED = """
import ctypes, importlib.util, sys
sys.path.insert(0, sys.argv[1])
import cpp_numerics
cos = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(("cos", ctypes.CDLL(None)))
installed = importlib.util.find_spec("nativecall") is not None
print("nativecall there  ", installed)
for name, f in {"ctypes function": cos, "Python function": lambda x: cos(x)}.items():
    value, native = cpp_numerics.integrate(f, 0.0, 1.0, 500)
    print(f"{name:<18} {value:.9f} called {'natively' if native else 'through Python'}")
"""


def build(directory: str) -> None:
    """Compile the module into a directory."""
    command = [sys.executable, "setup.py", "-q", "build_ext"]
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


def way(native: bool) -> str:
    """How a callback was called."""
    return "natively" if native else "through Python"


with tempfile.TemporaryDirectory() as built:
    build(built)
    sys.path.insert(0, built)
    import cpp_numerics

    libm = nc.load("m", "double cos(double); double fdim(double, double);")
    pointer = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(libm.cos.address())
    boxes = {
        "native callable": libm.cos,
        "capsule": libm.cos.to_capsule(),
        "ctypes pointer": pointer,
        "cffi pointer": cffi.FFI().cast("double(*)(double)", libm.cos.address()),
        "Python function": cosine,
    }
    print(f"the integral of cos from 0 to 1; sin(1) is {math.sin(1):.9f}")
    for name, box in boxes.items():
        value, native = cpp_numerics.integrate(box, 0.0, 1.0, 500)
        print(f"{name:<18} {value:.9f} called {way(native)}")

    root, native = cpp_numerics.find_root(libm.cos, 0.0, 3.0)
    print(f"a root of cos      {root:.9f} called {way(native)}; pi/2 is {math.pi / 2:.9f}")
    y, native = cpp_numerics.solve(growth, 0.0, 2.0, 1.0, 100)
    print(f"y' = y - t         {y:.9f} called {way(native)}; e + 2 is {math.e + 2:.9f}")
    y, native = cpp_numerics.solve(libm.fdim, 0.0, 2.0, 1.0, 100)
    print(f"y' = fdim(t, y)    {y:.9f} called {way(native)}")

    # Through C, then through C++, and it comes out as it was raised.
    for function, arguments in (
        (cpp_numerics.integrate, (broken, 0.0, 1.0, 500)),
        (cpp_numerics.find_root, (libm.cos, 0.0, 1.0)),
        (cpp_numerics.integrate, ("cos", 0.0, 1.0, 500)),
    ):
        try:
            function(*arguments)
        except (ZeroDivisionError, ValueError, TypeError) as error:
            print(f"{type(error).__name__ + ':':<18} {error}")

    sys.stdout.flush()
    subprocess.run([sys.executable, "-I", "-S", "-c", VENDORED, built], check=True)
