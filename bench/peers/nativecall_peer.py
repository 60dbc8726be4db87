"""nativecall itself: ``nc.wrap(address, signature)``, called directly and through its built-in."""

from __future__ import annotations

from typing import Any

from bench import installed
from bench.peers import Call, plain_call
from bench.peers.kernels import OVERLOADED_KERNELS, OVERLOADS, ROWS, Kernels, Overloads


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


def _wrapped(row: Overloads, kernels: Kernels) -> Any:
    nc = installed.import_nativecall()
    return nc.wrap({key: kernels.address_of(OVERLOADED_KERNELS[key]) for key in row.entries})


def overloaded(kernels: Kernels) -> dict[str, Call]:
    """Native callables with an entry for each signature."""
    return {row.name: plain_call(row, _wrapped(row, kernels)) for row in OVERLOADS}


def overloaded_builtin(kernels: Kernels) -> dict[str, Call]:
    """Their built-in views."""
    return {row.name: plain_call(row, _wrapped(row, kernels).builtin) for row in OVERLOADS}


def chosen(kernels: Kernels) -> dict[str, Call]:
    """The entry that is meant, chosen before the loop: what a call costs without the choice."""
    return {row.name: plain_call(row, _wrapped(row, kernels)[row.chosen]) for row in OVERLOADS}
