"""cffi: a compiled API-mode module, and a function pointer made at run time (ABI mode).

A NumPy array is passed through ``ffi.from_buffer``, as cffi's documentation has it, with the array
type parsed beforehand; a struct as a tuple. cffi releases the GIL around every call in both modes.
"""

from __future__ import annotations

from typing import Any

from bench.peers import Call, Rows, load_module, plain_call
from bench.peers.kernels import Kernels, Row


def _call(row: Row, function: Any, ffi: Any) -> Call:
    if row.signature == "d:&dq":
        names = {"from_buffer": ffi.from_buffer, "doubles": ffi.typeof("double[]")}
        return Call("f(from_buffer(doubles, a), b)", {"f": function, **names, **row.names})
    if isinstance(row.expected, tuple):
        return Call(
            row.statement, {"f": function, **row.names}, lambda result: (result.x, result.y)
        )
    return plain_call(row, function)


def api(_: Kernels, rows: Rows) -> dict[str, Call]:
    """``lib.kernel(x)`` of a module compiled by cffi and linked with the kernels."""
    module = load_module("cffi", "bench_cffi")
    return {row.signature: _call(row, getattr(module.lib, row.kernel), module.ffi) for row in rows}


def pointer(kernels: Kernels, rows: Rows) -> dict[str, Call]:
    """``ffi.cast("double (*)(double)", address)``, called through libffi."""
    import cffi

    ffi = cffi.FFI()
    ffi.cdef("struct bench_point { double x, y; };")
    calls = {}
    for row in rows:
        ctype = row.declaration.rstrip(";").replace(row.kernel, "(*)")
        calls[row.signature] = _call(row, ffi.cast(ctype, kernels.address(row)), ffi)
    return calls
