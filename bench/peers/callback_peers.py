"""Every way of making a C function pointer of a Python function.

A peer takes a signature, the function, and whether the code that will call it holds the GIL, and
returns the address with what keeps the function alive.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from bench import installed
from bench.peers import load_module
from bench.peers.ctypes_peer import TYPES, argument_types
from bench.peers.kernels import POINT

Made = tuple[int, Any]
CallbackPeer = Callable[[str, Callable[..., Any], bool], Made]
NUMBERS = ("d:d", "d:ddd", "q:qqq")
C_NAMES = {"d": "double", "q": "int64_t", "P": "void *", "T": "Point"}


def needs_gil(signature: str, function: Callable[..., Any], held: bool) -> Made:
    """`nc.callback` for callers that hold the GIL."""
    made = installed.import_nativecall().callback(signature, function, gil="need")
    return made.address(), made


def takes_gil(signature: str, function: Callable[..., Any], held: bool) -> Made:
    """`nc.callback` for any caller."""
    made = installed.import_nativecall().callback(signature, function)
    return made.address(), made


def by_hand(signature: str, function: Callable[..., Any], held: bool) -> Made:
    """C written by hand."""
    module = load_module("adapters", "bench_adapters")
    return module.callback(signature, function, held), module


def cython(signature: str, function: Callable[..., Any], held: bool) -> Made:
    """A `cdef` function, ``with gil`` where the caller has none."""
    module = load_module("cython_callback", "bench_cython_callback")
    return module.make(signature, function, held), module


def ctypes_prototype(signature: str, function: Callable[..., Any], held: bool) -> Made:
    """``PYFUNCTYPE`` or ``CFUNCTYPE``; the callbacks of both ask for the GIL."""
    make = ctypes.PYFUNCTYPE if held else ctypes.CFUNCTYPE
    types = {**TYPES, "P": ctypes.c_void_p}
    made = make(*argument_types(signature, types))(function)
    return ctypes.cast(made, ctypes.c_void_p).value or 0, made


def cffi_callback(signature: str, function: Callable[..., Any], held: bool) -> Made:
    """``ffi.callback``."""
    import cffi

    ffi = cffi.FFI()
    ffi.cdef("typedef struct { double x, y; } Point;")
    result, _, arguments = signature.replace(POINT, "T").partition(":")
    made = ffi.callback(
        f"{C_NAMES[result]}({', '.join(C_NAMES[code] for code in arguments)})", function
    )
    return int(ffi.cast("uintptr_t", made)), (ffi, made)
