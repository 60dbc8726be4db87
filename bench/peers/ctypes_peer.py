"""ctypes: a prototype with declared argument and result types, made from the address.

A NumPy array is taken through ``numpy.ctypeslib.ndpointer``, which checks its type and layout.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from bench.peers import Call, plain_call
from bench.peers.kernels import ROWS, Kernels

TYPES: dict[str, Any] = {
    "d": ctypes.c_double,
    "q": ctypes.c_int64,
    "&d": np.ctypeslib.ndpointer(dtype=np.float64, ndim=1, flags="C_CONTIGUOUS"),
}


def argument_types(signature: str, types: dict[str, Any]) -> list[Any]:
    """Return the ctypes types of a signature: the result first, then each argument."""
    result, _, arguments = signature.partition(":")
    pointer = arguments.startswith("&")
    first = [arguments[:2]] if pointer else []
    return [types[code] for code in [result, *first, *arguments[2 if pointer else 0 :]]]


def prototype(kernels: Kernels) -> dict[str, Call]:
    """``CFUNCTYPE(c_double, c_double)(address)``, called as it is."""
    return {
        row.signature: plain_call(
            row, ctypes.CFUNCTYPE(*argument_types(row.signature, TYPES))(kernels.address(row))
        )
        for row in ROWS
    }
