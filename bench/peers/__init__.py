"""The peers: every way of calling a C function from Python that nativecall is measured beside.

A peer is a function that takes the kernels and returns, for each row's signature, the call as its
users write it: a Python statement and the local variables in it. All peers call the same C
functions at the same addresses, but for the Python function, which does the same arithmetic.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from bench.peers import build
from bench.peers.kernels import Kernels, Row

ITSELF = "nativecall f(…)"
BUILTIN = "nativecall f.builtin(…)"
C_BUILTIN = "C built-in (METH_*)"
CYTHON = "Cython cpdef"
NANOBIND = "nanobind"
CFFI_POINTER = "cffi function pointer"
CTYPES = "ctypes"
PYTHON = "Python def"


@dataclass(frozen=True)
class Call:
    """A call to be timed: a statement and the local variables that occur in it."""

    statement: str
    names: Mapping[str, Any]

    def check(self, row: Row) -> None:
        """Raise ValueError where the call does not give the row's expected result."""
        found = eval(self.statement, dict(self.names))
        if found != row.expected or not isinstance(found, type(row.expected)):
            raise ValueError(f"'{row.signature}' returned {found!r}, expected {row.expected!r}")


@dataclass(frozen=True)
class Loaded:
    """The calls of all peers by row and peer, and why those that are missing are missing."""

    calls: dict[str, dict[str, Call]] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)


Rows = Sequence[Row]
Peer = Callable[[Kernels, Rows], dict[str, Call]]


def plain_call(row: Row, function: Any) -> Call:
    """Return the call ``f(a, b, …)`` of `function` with the row's arguments."""
    return Call(row.statement, {"f": function, **row.names})


def load_module(target: str, name: str) -> ModuleType:
    """Build a target where it is not cached and import the extension module in it."""
    directory = build.built(target)
    suffixes = importlib.machinery.EXTENSION_SUFFIXES
    paths = [directory / f"{name}{suffix}" for suffix in suffixes]
    return load_extension(name, next(path for path in paths if path.exists()))


def load_extension(name: str, path: Path) -> ModuleType:
    """Import the extension module at `path`."""
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"no extension module in {path.name}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def compiled(target: str, kernels: Kernels, rows: Rows) -> dict[str, Call]:
    """A peer that is a compiled module with ``make(signature, address)``."""
    module = load_module(target, f"bench_{target}")
    return {
        row.signature: plain_call(row, module.make(row.signature, kernels.address(row)))
        for row in rows
    }


def python_def(_: Kernels, rows: Rows) -> dict[str, Call]:
    """A Python function that does the same arithmetic: what there is without any C."""
    return {row.signature: plain_call(row, row.python) for row in rows}


def all_peers() -> dict[str, Peer]:
    """Return every peer by the name it has in reports."""
    from bench.peers import cffi_peer, ctypes_peer, nativecall_peer

    return {
        BUILTIN: nativecall_peer.builtin,
        ITSELF: nativecall_peer.itself,
        C_BUILTIN: partial(compiled, "builtin"),
        CYTHON: partial(compiled, "cython"),
        NANOBIND: partial(compiled, "nanobind"),
        "pybind11": partial(compiled, "pybind11"),
        "cffi API mode": cffi_peer.api,
        CFFI_POINTER: cffi_peer.pointer,
        CTYPES: ctypes_peer.prototype,
        PYTHON: python_def,
    }


def load_all(peers: Mapping[str, Peer], rows: Rows) -> Loaded:
    """Load the peers; one that fails is in ``absent`` with its reason, and never dropped."""
    loaded = Loaded({row.signature: {} for row in rows}, {})
    kernels = Kernels()
    for name, peer in peers.items():
        try:
            calls = peer(kernels, rows)
        except Exception as error:
            loaded.absent[name] = f"{type(error).__name__}: {error}"
            continue
        for row in rows:
            call = calls.get(row.signature)
            try:
                if call is None:
                    raise LookupError(f"has no call for '{row.signature}'")
                call.check(row)
            except Exception as error:
                loaded.absent[f"{name} '{row.signature}'"] = f"{type(error).__name__}: {error}"
            else:
                loaded.calls[row.signature][name] = call
    return loaded
