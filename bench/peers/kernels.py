"""The rows of the call benchmark: signatures, arguments, expected results, and the C kernels."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.peers import build

BUFFER = np.arange(16, dtype=np.float64)


@dataclass(frozen=True)
class Row:
    """One signature that every peer is called with."""

    signature: str
    kernel: str
    declaration: str
    arguments: tuple[Any, ...]
    expected: float | int
    python: Callable[..., Any]

    @property
    def names(self) -> dict[str, Any]:
        """Argument names, in order, with the values that are passed."""
        return dict(zip("abcd", self.arguments, strict=False))

    @property
    def statement(self) -> str:
        """The call as a user writes it, of a local variable ``f``."""
        return f"f({', '.join(self.names)})"


def _none() -> float:
    return 1.0


def _one(a: float) -> float:
    return a + 1.0


def _two(a: float, b: float) -> float:
    return a + b


def _three(a: Any, b: Any, c: Any) -> Any:
    return a + b + c


def _four(a: float, b: float, c: float, d: float) -> float:
    return a + b + c + d


def _last(values: Sequence[float], count: int) -> float:
    return values[count - 1]


ROWS = (
    Row("d:", "kernel_d", "double kernel_d(void);", (), 1.0, _none),
    Row("d:d", "kernel_d_d", "double kernel_d_d(double);", (0.5,), 1.5, _one),
    Row("d:dd", "kernel_d_dd", "double kernel_d_dd(double, double);", (0.5, 0.25), 0.75, _two),
    Row(
        "d:ddd",
        "kernel_d_ddd",
        "double kernel_d_ddd(double, double, double);",
        (0.5, 0.25, 2.0),
        2.75,
        _three,
    ),
    Row(
        "d:dddd",
        "kernel_d_dddd",
        "double kernel_d_dddd(double, double, double, double);",
        (0.5, 0.25, 2.0, 4.0),
        6.75,
        _four,
    ),
    Row(
        "q:qqq",
        "kernel_q_qqq",
        "int64_t kernel_q_qqq(int64_t, int64_t, int64_t);",
        (1000, 2000, 3000),
        6000,
        _three,
    ),
    Row(
        "d:&dq",
        "kernel_d_Pdq",
        "double kernel_d_Pdq(double *, int64_t);",
        (BUFFER, len(BUFFER)),
        15.0,
        _last,
    ),
)


class Kernels:
    """The loaded shared library of kernels, and the address of each."""

    def __init__(self) -> None:
        self.path = build.built("kernels") / build.KERNELS_LIBRARY
        self.library = ctypes.CDLL(str(self.path))

    def address(self, row: Row) -> int:
        """Return the address of the row's kernel."""
        function = getattr(self.library, row.kernel)
        return ctypes.cast(function, ctypes.c_void_p).value or 0
