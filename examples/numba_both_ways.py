"""Integrate a jitted function with SciPy, and call C functions in a jitted loop.

No Python runs in between: `quad` calls the machine code that Numba made, and the loop calls the
functions behind `scipy.special.cython_special` and the C library through their pointers.
"""

from __future__ import annotations

import math

import numba
import numpy as np
from scipy.integrate import quad
from scipy.special import cython_special, gamma

import nativecall as nc


@numba.njit
def bell(x: float) -> float:
    """An integrand, for Numba to compile."""
    return math.exp(-x * x)


integrand = nc.wrap(bell)
value, _ = quad(integrand.to_scipy(), 0, math.inf)
print(f"bell from 0 to inf {value:.12f}, sqrt(pi)/2 is {math.sqrt(math.pi) / 2:.12f}")
print("compiled for      ", *integrand.signatures)

special = nc.wrap(cython_special, "gamma")["d:d"]
hypot = nc.load("m", "double hypot(double, double);").hypot


@numba.njit
def total(xs: np.ndarray) -> float:
    """A loop that calls two C functions."""
    found = 0.0
    for x in xs:
        found += hypot(special(x), 1.0)
    return found


xs = np.linspace(0.5, 5.0, 1000)
print(f"the loop           {total(xs):.9f}, NumPy's is {np.hypot(gamma(xs), 1.0).sum():.9f}")


@numba.njit
def largest(f: nc.NativeCallable, xs: np.ndarray) -> float:
    """A function that takes any callable with an entry of numbers."""
    best = -math.inf
    for x in xs:
        best = max(best, f(x))
    return best


print(f"as an argument     {largest(special, xs):.9f} {largest(integrand['d:d'], xs):.9f}")
