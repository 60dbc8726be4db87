"""The rows of the call benchmark: signatures, arguments, expected results, and the C kernels.

Overloaded callables have rows of their own: which entries there are, and what they are called with.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from bench.peers import build

BUFFER = np.arange(16, dtype=np.float64)


class Called:
    """What is called with some values, from a statement with names for them."""

    arguments: tuple[Any, ...]

    @property
    def names(self) -> dict[str, Any]:
        """Argument names, in order, with the values that are passed."""
        return dict(zip("abcd", self.arguments, strict=False))

    @property
    def statement(self) -> str:
        """The call as a user writes it, of a local variable ``f``."""
        return f"f({', '.join(self.names)})"


@dataclass(frozen=True)
class Row(Called):
    """One signature that every peer is called with."""

    signature: str
    kernel: str
    declaration: str
    arguments: tuple[Any, ...]
    expected: float | int | tuple[float, ...]
    python: Callable[..., Any]

    @property
    def name(self) -> str:
        """What the row is called in reports."""
        return self.signature


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


POINT = "T{dd}"


def _scaled(point: tuple[float, float], factor: float) -> tuple[float, float]:
    return point[0] * factor, point[1] * factor


STRUCT = Row(
    f"{POINT}:{POINT}d",
    "kernel_T_Td",
    "struct bench_point kernel_T_Td(struct bench_point, double);",
    ((0.5, 0.25), 2.0),
    (1.0, 0.5),
    _scaled,
)
SCALARS = ("d:dd", "q:qqq")
GENERATED = (*(row for row in ROWS if row.signature in (*SCALARS, "d:&dq")), STRUCT)
#: Signatures whose first calls are timed, with their kernels.
MANY = {
    f"d:{''.join(types)}": f"kernel_many_{''.join(types)}" for types in product("dqifh", repeat=3)
}

OVERLOADED_KERNELS = {
    "d:d": "kernel_d_d",
    "q:q": "kernel_q_q",
    "f:f": "kernel_f_f",
    "i:i": "kernel_i_i",
    "d:dd": "kernel_d_dd",
    "q:qq": "kernel_q_qq",
    "Zd:ZdZd": "kernel_Zd_ZdZd",
    "d:&dq": "kernel_d_Pdq",
    "f:&fq": "kernel_f_Pfq",
}


@dataclass(frozen=True)
class Overloads(Called):
    """A call of an overloaded callable: its entries, the values, and the entry that is meant."""

    entries: tuple[str, ...]
    arguments: tuple[Any, ...]
    chosen: str
    expected: complex

    @property
    def name(self) -> str:
        """What the row is called in reports."""
        types = ", ".join(
            f"{'np.' if isinstance(value, np.generic) else ''}{type(value).__name__}"
            for value in self.arguments
        )
        return f"{{{', '.join(self.entries)}}}({types})"


ONE = ("d:d", "q:q")
THREE = ("f:f", "d:d", "q:q")
TWO = ("d:dd", "q:qq", "Zd:ZdZd")
LAST = ("i:i", "f:f", "q:q", "d:d")
ARRAYS = ("f:&fq", "d:&dq")
OVERLOADS = (
    Overloads(ONE, (0.5,), "d:d", 1.5),
    Overloads(ONE, (1000,), "q:q", 1001),
    Overloads(ONE, (np.float64(0.5),), "d:d", 1.5),
    Overloads(("q:q", "d:d"), (np.int64(1000),), "q:q", 1001),
    Overloads(THREE, (0.5,), "d:d", 1.5),
    Overloads(THREE, (1000,), "q:q", 1001),
    Overloads(THREE, (np.float32(0.5),), "f:f", 1.5),
    Overloads(TWO, (0.5, 0.25), "d:dd", 0.75),
    Overloads(TWO, (1000, 2000), "q:qq", 3000),
    Overloads(TWO, (0.5j, 0.25), "Zd:ZdZd", 0.25 + 0.5j),
    Overloads(LAST, (0.5,), "d:d", 1.5),
    Overloads(ARRAYS, (BUFFER, len(BUFFER)), "d:&dq", 15.0),
)


class Kernels:
    """The loaded shared library of kernels, and the address of each."""

    def __init__(self) -> None:
        self.path = build.built("kernels") / build.KERNELS_LIBRARY
        self.library = ctypes.CDLL(str(self.path))

    def address(self, row: Row) -> int:
        """Return the address of the row's kernel."""
        return self.address_of(row.kernel)

    def address_of(self, kernel: str) -> int:
        """Return the address of a kernel by its name in C."""
        function = getattr(self.library, kernel)
        return ctypes.cast(function, ctypes.c_void_p).value or 0
