"""nativecall itself: ``nc.wrap(address, signature)``, called directly and through its built-in."""

from __future__ import annotations

from bench import installed
from bench.peers import Call, plain_call
from bench.peers.kernels import ROWS, Kernels


def itself(kernels: Kernels) -> dict[str, Call]:
    """The native callable, ``f(x)``."""
    nc = installed.import_nativecall()
    return {
        row.signature: plain_call(row, nc.wrap(kernels.address(row), row.signature)) for row in ROWS
    }


def builtin(kernels: Kernels) -> dict[str, Call]:
    """Its built-in view, ``f.builtin(x)``, bound to a name before the loop."""
    nc = installed.import_nativecall()
    return {
        row.signature: plain_call(row, nc.wrap(kernels.address(row), row.signature).builtin)
        for row in ROWS
    }
