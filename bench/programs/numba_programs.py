"""The programs with Numba."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numba
import numpy as np
from numba import types
from numba.core.types import WrapperAddressProtocol

from bench import programs
from bench.programs import Run


@cache
def cfunc() -> Any:
    """Return the equation as a C function, which other peers take as well."""
    return numba.cfunc("float64(float64, float64)")(programs.slope)


def _pointer(address: int, *kinds: Any) -> Any:
    return ctypes.CFUNCTYPE(*kinds)(address)


def integrals() -> Run:
    """A C function that reads what is bound from its user data."""
    gsl = ctypes.CDLL(programs.library("gsl"))
    place, number, size = ctypes.c_void_p, ctypes.c_double, ctypes.c_size_t
    allocate = gsl.gsl_integration_workspace_alloc
    allocate.restype, allocate.argtypes = place, (size,)
    qag, limit, workspace = gsl.gsl_integration_qag, programs.LIMIT, allocate(programs.LIMIT)
    numbers = (number,) * 4
    qag.restype = ctypes.c_int
    qag.argtypes = (place, *numbers, size, ctypes.c_int, place, place, place)
    peak = _pointer(programs.kernels().address_of("kernel_peak"), *numbers)

    @numba.cfunc(types.float64(types.float64, types.CPointer(types.float64)))
    def integrand(x: Any, bound: Any) -> Any:
        return peak(x, bound[0], bound[1])

    address = integrand.address

    @numba.njit
    def integral(at: float, width: float) -> float:
        bound, function, found = np.empty(2), np.empty(2, np.uint64), np.empty(2)
        bound[0], bound[1] = at, width
        function[0], function[1] = address, bound.ctypes.data
        result, error = found[:1], found[1:]
        qag(function.ctypes, -1.0, 1.0, 0.0, 1e-8, limit, 1, workspace, result.ctypes, error.ctypes)
        return result[0]

    def run() -> float:
        total = 0.0
        for at, width in programs.PEAKS:
            total += integral(at, width)
        return total

    return run


def numba_solver() -> Run:
    """The solver, called from jitted code."""
    kinds = (ctypes.c_double, ctypes.c_void_p, ctypes.c_double, ctypes.c_double, ctypes.c_int64)
    solver = _pointer(programs.kernels().address_of("kernel_solve"), *kinds)

    @numba.njit
    def solve(function: Any, start: Any, step: Any, steps: Any) -> Any:
        return solver(function, start, step, steps)

    return programs.solutions(solve, cfunc().address, programs.MANY_SOLUTIONS)


def pointers() -> Run:
    """Each address becomes one of Numba's first-class functions."""

    class Pointer(WrapperAddressProtocol):  # type: ignore[misc]  # Numba has no types
        def __init__(self, address: int) -> None:
            self.address = address

        def __wrapper_address__(self) -> int:
            return self.address

        def signature(self) -> Any:
            return types.float64(types.float64)

    @numba.njit
    def call(function: Any, x: Any) -> Any:
        return function(x)

    return programs.pointers(lambda address: lambda x: call(Pointer(address), x))


def dispatch() -> Run:
    """A dictionary of jitted functions, each compiled for its signature."""
    address_of = programs.kernels().address_of
    kinds: dict[str, Any] = {"d": ctypes.c_double, "q": ctypes.c_int64}
    kinds |= {"f": ctypes.c_float, "i": ctypes.c_int32}
    names = {"d": "float64", "q": "int64", "f": "float32", "i": "int32"}

    def jitted(key: str, name: str) -> Any:
        pointer = _pointer(address_of(name), kinds[key[0]], kinds[key[2]])
        signature = f"{names[key[0]]}({names[key[2]]})"
        return numba.njit(signature)(lambda x: pointer(x))  # noqa: PLW0108  # jitted code calls it

    return programs.dispatch({key: jitted(key, name) for key, name in programs.KERNELS.items()})
