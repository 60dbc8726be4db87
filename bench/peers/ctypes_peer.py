"""ctypes: a prototype with declared argument and result types, made from the address."""

from __future__ import annotations

import ctypes

from bench.peers import Call, Rows, plain_call
from bench.peers.kernels import Kernels


def prototype(kernels: Kernels, rows: Rows) -> dict[str, Call]:
    """``CFUNCTYPE(c_double, c_double)(address)``, called as it is."""
    calls = {}
    for row in rows:
        types = [ctypes.c_double] * (1 + len(row.arguments))
        calls[row.signature] = plain_call(row, ctypes.CFUNCTYPE(*types)(kernels.address(row)))
    return calls
