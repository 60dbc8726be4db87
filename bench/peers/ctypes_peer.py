"""ctypes: a prototype with declared argument and result types, made from the address.

A NumPy array is taken through ``numpy.ctypeslib.ndpointer``, which checks its type and layout; a
struct is made from its fields for every call.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from bench.peers import Call, Rows
from bench.peers.kernels import POINT, Kernels


class Point(ctypes.Structure):
    """The struct of the kernels."""

    _fields_ = (("x", ctypes.c_double), ("y", ctypes.c_double))


TYPES: dict[str, Any] = {
    "d": ctypes.c_double,
    "q": ctypes.c_int64,
    "T": Point,
    "&d": np.ctypeslib.ndpointer(dtype=np.float64, ndim=1, flags="C_CONTIGUOUS"),
}


def argument_types(signature: str, types: dict[str, Any]) -> list[Any]:
    """Return the ctypes types of a signature: the result first, then each argument."""
    result, _, arguments = signature.replace(POINT, "T").partition(":")
    pointer = arguments.startswith("&")
    first = [arguments[:2]] if pointer else []
    return [types[code] for code in [result, *first, *arguments[2 if pointer else 0 :]]]


def _read(result: Any) -> Any:
    return (result.x, result.y) if isinstance(result, Point) else result


def prototype(kernels: Kernels, rows: Rows) -> dict[str, Call]:
    """``CFUNCTYPE(c_double, c_double)(address)``, called as it is."""
    calls = {}
    for row in rows:
        function = ctypes.CFUNCTYPE(*argument_types(row.signature, TYPES))(kernels.address(row))
        names = {"f": function, "Point": Point, **row.names}
        statement = "f(Point(*a), b)" if isinstance(row.expected, tuple) else row.statement
        calls[row.signature] = Call(statement, names, _read)
    return calls
