"""Functions of several libraries, one in the other: Numba's compiled code calls C functions that
came in boxes of Cython's and of ctypes'.

Each counts the calls that came from Python, with the argument and the result in objects: `check`
sees these and no others.
"""

from __future__ import annotations

import ctypes
import ctypes.util

import numba
from scipy.special import cython_special

import nativecall as nc

boxed = 0


def counted(result: object, function: object, values: object) -> object:
    """The check of all functions here."""
    global boxed
    boxed += 1
    return result


# A capsule of Cython's, which has variants for float and double.
erf = nc.wrap(nc.wrap(cython_special, "erf")["d:d"], check=counted)

# A function pointer of ctypes.
_exp = ctypes.CDLL(ctypes.util.find_library("m")).exp
_exp.argtypes, _exp.restype = [ctypes.c_double], ctypes.c_double
exp = nc.wrap(_exp, check=counted)


@numba.njit
def _damped(x: float) -> float:
    return erf(x) * exp(-x)


# Compiled by Numba, with direct calls of both.
damped = nc.wrap(_damped, "d:d", name="damped", check=counted)
