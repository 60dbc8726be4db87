"""nativecall itself: ``nc.wrap(address, signature)``, called directly and through its built-in."""

from __future__ import annotations

from typing import Any

from bench import installed
from bench.peers import Call, Rows, plain_call
from bench.peers.kernels import OVERLOADED_KERNELS, Kernels, Overloads, Row


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


def _generated(row: Row, kernels: Kernels) -> Any:
    """A callable that calls through generated code though its signature may have other."""
    function = installed.import_nativecall().wrap(kernels.address(row), row.signature)
    function._choose("generated")
    return function


def generated(kernels: Kernels, rows: Rows) -> dict[str, Call]:
    """The native callable with a generated trampoline."""
    return {row.signature: plain_call(row, _generated(row, kernels)) for row in rows}


def generated_builtin(kernels: Kernels, rows: Rows) -> dict[str, Call]:
    """Its built-in view."""
    return {row.signature: plain_call(row, _generated(row, kernels).builtin) for row in rows}


def _overloaded(row: Overloads, kernels: Kernels) -> Any:
    nc = installed.import_nativecall()
    return nc.wrap({key: kernels.address_of(OVERLOADED_KERNELS[key]) for key in row.entries})


def overloaded(kernels: Kernels, rows: Rows) -> dict[str, Call]:
    """Native callables with an entry for each signature."""
    return {row.name: plain_call(row, _overloaded(row, kernels)) for row in rows}


def overloaded_builtin(kernels: Kernels, rows: Rows) -> dict[str, Call]:
    """Their built-in views."""
    return {row.name: plain_call(row, _overloaded(row, kernels).builtin) for row in rows}


def chosen(kernels: Kernels, rows: Rows) -> dict[str, Call]:
    """The entry that is meant, chosen before the loop: what a call costs without the choice."""
    return {row.name: plain_call(row, _overloaded(row, kernels)[row.chosen]) for row in rows}
