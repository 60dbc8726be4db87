"""Integrate a C function with SciPy's `quad`, which calls it without Python."""

from __future__ import annotations

import math
import timeit
from functools import partial

from scipy.integrate import quad

import nativecall as nc

m = nc.load("m", "double cos(double); double erfc(double);")

value, error = quad(m.cos.to_scipy(), 0, 1)
print(f"cos from 0 to 1    {value:.12f}, sin(1) is {math.sin(1):.12f}")

value, error = quad(m.erfc.to_scipy(), 0, math.inf)
print(f"erfc from 0 to inf {value:.12f}, 1/sqrt(pi) is {1 / math.sqrt(math.pi):.12f}")


def cosine(x: float) -> float:
    """What most integrands look like."""
    return math.cos(x)


# SciPy looks only into its own box: any other callable, ours too, it calls through Python.
native = m.cos.to_scipy()
ways = {
    "f.to_scipy()": native,
    "f": m.cos,
    "a Python function": cosine,
}
for name, integrand in ways.items():
    best = min(timeit.repeat(partial(quad, integrand, 0, 1), number=200, repeat=5)) / 200
    print(f"{name:<22} {quad(integrand, 0, 1)[0]:.12f} {best * 1e6:6.1f} microseconds")
