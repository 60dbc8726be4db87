"""Every way of making a C function pointer of a Python function.

A peer takes a row, whose Python function it is, and whether the code that will call holds the GIL,
and returns the address with what keeps the function alive.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from bench import installed
from bench.peers import load_module
from bench.peers.ctypes_peer import TYPES, argument_types
from bench.peers.kernels import Row

Made = tuple[int, Any]
CallbackPeer = Callable[[Row, bool], Made]


def needs_gil(row: Row, held: bool) -> Made:
    """`nc.callback` for callers that hold the GIL."""
    if not held:
        raise LookupError("is for callers that hold the GIL")
    made = installed.import_nativecall().callback(row.signature, row.python, gil="need")
    return made.address(), made


def takes_gil(row: Row, held: bool) -> Made:
    """`nc.callback` for any caller."""
    made = installed.import_nativecall().callback(row.signature, row.python)
    return made.address(), made


def by_hand(row: Row, held: bool) -> Made:
    """C written by hand."""
    module = load_module("adapters", "bench_adapters")
    return module.callback(row.signature, row.python, held), module


def cython(row: Row, held: bool) -> Made:
    """A `cdef` function, with `with gil` where the caller has none."""
    module = load_module("cython_callback", "bench_cython_callback")
    return module.make(row.signature, row.python, held), module


def _prototype(make: Callable[..., Any]) -> CallbackPeer:
    def peer(row: Row, held: bool) -> Made:
        made = make(*argument_types(row.signature, TYPES))(row.python)
        return ctypes.cast(made, ctypes.c_void_p).value or 0, made

    return peer


def cffi_callback(row: Row, held: bool) -> Made:
    """``ffi.callback``."""
    import cffi

    ffi = cffi.FFI()
    made = ffi.callback(row.declaration.rstrip(";").replace(row.kernel, ""), row.python)
    return int(ffi.cast("uintptr_t", made)), (ffi, made)


cfunctype = _prototype(ctypes.CFUNCTYPE)
pyfunctype = _prototype(ctypes.PYFUNCTYPE)
