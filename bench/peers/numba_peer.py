"""Numba: a jitted function that calls the kernel through a ctypes pointer, called from Python.

What is timed is Numba's dispatcher: type dispatch, unboxing, the compiled wrapper, boxing. The
compilation is over before: each function is called once when it is checked.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from bench.peers import Call, Rows, plain_call
from bench.peers.ctypes_peer import argument_types
from bench.peers.kernels import Kernels, Row

TYPES = {"d": ctypes.c_double, "q": ctypes.c_int64, "&d": ctypes.c_void_p}


def _python_function(row: Row, pointer: Any) -> Callable[..., Any]:
    names = ", ".join(row.names)
    passed = "a.ctypes, b" if row.signature == "d:&dq" else names
    function: Callable[..., Any] = eval(f"lambda {names}: pointer({passed})", {"pointer": pointer})
    return function


def dispatcher(kernels: Kernels, rows: Rows) -> dict[str, Call]:
    """``@njit`` functions of the arguments, called from Python."""
    import numba

    calls = {}
    for row in rows:
        types = argument_types(row.signature, TYPES)
        pointer = ctypes.CFUNCTYPE(*types)(kernels.address(row))
        calls[row.signature] = plain_call(row, numba.njit(_python_function(row, pointer)))
    return calls
