"""A numerical library in C that takes any callable: builds it, then hands it box after box."""

from __future__ import annotations

import ctypes
import math
import sys
from pathlib import Path

import cffi

import nativecall as nc

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from _shared import broken, built, cosine, show_error, show_numerics

with built(Path(__file__).resolve().parent):
    import numerics

    libm = nc.load("m", "double cos(double); double fdim(double, double);")
    ffi = cffi.FFI()
    pointer = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(libm.cos.address())
    boxes = {
        "native callable": libm.cos,
        "built-in view": libm.cos.builtin,
        "capsule": libm.cos.to_capsule(),
        "ctypes pointer": pointer,
        "cffi pointer": ffi.cast("double(*)(double)", libm.cos.address()),
        "math.cos": math.cos,
        "Python function": cosine,
    }
    show_numerics(numerics, boxes, libm.cos, libm.fdim)

    # Three C frames down, and it comes out as it was raised.
    show_error(numerics.integrate, broken, 0.0, 1.0, 500)
    show_error(numerics.integrate, "cos", 0.0, 1.0, 500)
