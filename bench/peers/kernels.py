"""The rows of the call benchmark: signatures, arguments, expected results, and the C kernels."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

from bench.peers import build


@dataclass(frozen=True)
class Row:
    """One signature that every peer is called with."""

    signature: str
    kernel: str
    declaration: str
    arguments: tuple[float, ...]
    expected: float
    python: Callable[..., float]

    @property
    def names(self) -> dict[str, Any]:
        """Argument names, in order, with the values that are passed."""
        return dict(zip("abc", self.arguments, strict=False))

    @property
    def statement(self) -> str:
        """The call as a user writes it, of a local variable ``f``."""
        return f"f({', '.join(self.names)})"


def _one(a: float) -> float:
    return a + 1.0


def _three(a: float, b: float, c: float) -> float:
    return a + b + c


ROWS = (
    Row("d:d", "kernel_d_d", "double kernel_d_d(double);", (0.5,), 1.5, _one),
    Row(
        "d:ddd",
        "kernel_d_ddd",
        "double kernel_d_ddd(double, double, double);",
        (0.5, 0.25, 2.0),
        2.75,
        _three,
    ),
)
#: Signatures whose first calls are timed, with their kernels.
MANY = {
    f"d:{''.join(types)}": f"kernel_many_{''.join(types)}" for types in product("dqifh", repeat=3)
}


class Kernels:
    """The loaded shared library of kernels, and the address of each."""

    def __init__(self) -> None:
        self.path = build.built("kernels") / build.library_name("bench_kernels")
        self.library = ctypes.CDLL(str(self.path))

    def address(self, row: Row) -> int:
        """Return the address of the row's kernel."""
        return self.address_of(row.kernel)

    def address_of(self, kernel: str) -> int:
        """Return the address of a kernel by its name in C."""
        function = getattr(self.library, kernel)
        return ctypes.cast(function, ctypes.c_void_p).value or 0
