"""nativecall itself: ``nc.wrap(address, signature)``, called directly and through its built-in."""

from __future__ import annotations

from bench import installed
from bench.peers import Call, Rows, plain_call
from bench.peers.kernels import Kernels


def itself(kernels: Kernels, rows: Rows) -> dict[str, Call]:
    """The native callable, ``f(x)``."""
    nc = installed.import_nativecall()
    return {
        row.signature: plain_call(row, nc.wrap(kernels.address(row), row.signature)) for row in rows
    }


def builtin(kernels: Kernels, rows: Rows) -> dict[str, Call]:
    """Its built-in view, ``f.builtin(x)``, bound to a name before the loop."""
    nc = installed.import_nativecall()
    return {
        row.signature: plain_call(row, nc.wrap(kernels.address(row), row.signature).builtin)
        for row in rows
    }
