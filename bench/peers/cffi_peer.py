"""cffi: a compiled API-mode module, and a function pointer made at run time (ABI mode).

cffi releases the GIL around every call in both modes.
"""

from __future__ import annotations

from bench.peers import Call, Rows, load_module, plain_call
from bench.peers.kernels import Kernels


def api(_: Kernels, rows: Rows) -> dict[str, Call]:
    """``lib.kernel(x)`` of a module compiled by cffi and linked with the kernels."""
    lib = load_module("cffi", "bench_cffi").lib
    return {row.signature: plain_call(row, getattr(lib, row.kernel)) for row in rows}


def pointer(kernels: Kernels, rows: Rows) -> dict[str, Call]:
    """``ffi.cast("double (*)(double)", address)``, called through libffi."""
    import cffi

    ffi = cffi.FFI()
    calls = {}
    for row in rows:
        ctype = row.declaration.rstrip(";").replace(row.kernel, "(*)")
        calls[row.signature] = plain_call(row, ffi.cast(ctype, kernels.address(row)))
    return calls
