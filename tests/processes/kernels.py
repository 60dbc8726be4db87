"""What travels in test_processes.py: native callables of every kind, and what calls them there."""

from __future__ import annotations

import ctypes
import math
import os
from typing import Any

import nativecall as nc

libm = nc.load("m", "double cos(double); float cosf(float); double pow(double x, double y);")
libc = nc.load("c", "typedef struct { int quot, rem; } div_t; div_t div(int, int);")


@nc.callback("d:d")
def decorated(x: float) -> float:
    return 2 * x


def plain(x: float) -> float:
    return 3 * x


_function = ctypes.CDLL(None if libm.path is None else libm.path).cos
_function.argtypes, _function.restype = [ctypes.c_double], ctypes.c_double

#: By a name: the callable, its arguments and its result.
CALLS: dict[str, tuple[Any, tuple[Any, ...], object]] = {
    "function of a library": (libm.cos, (0.0,), 1.0),
    "several entries": (nc.wrap({"d:d": libm.cos, "f:f": libm.cosf}), (0.0,), 1.0),
    "bound": (libm.pow.bind(2.0), (3.0,), 8.0),
    "converted": (libm.pow.convert("f:ff"), (3.0, 2.0), 9.0),
    "bound and converted": (libm.pow.bind(2.0).convert("d:i"), (3,), 8.0),
    "struct result": (libc.div, (7, 2), (3, 1)),
    "decorated": (decorated, (4.0,), 8.0),
    "callback": (nc.callback("d:d", plain), (4.0,), 12.0),
    "callback of a built-in": (nc.callback("d:d", math.sqrt), (4.0,), 2.0),
    "wrapped from ctypes": (nc.wrap(_function), (0.0,), 1.0),
    "attribute of a module": (nc.wrap(libm.address("sqrt"), "d:d"), (9.0,), 3.0),
}
address = CALLS["attribute of a module"][0]


def called(f: Any, values: tuple[Any, ...]) -> tuple[int, object]:
    """The process that calls, and the result."""
    return os.getpid(), f(*values)
