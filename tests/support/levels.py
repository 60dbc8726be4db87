"""Marks for the test levels: tests that only the nightly level runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def sweep(values: Iterable[Any], *kept: Any) -> list[Any]:
    """Return a parameter's values; the default level runs only those in `kept`.

    Tuples are values of several parameters. Raise ValueError if a value in `kept` is missing, so
    that a renamed row is not lost.
    """
    rows = [*values]
    if missing := [one for one in kept if one not in rows]:
        raise ValueError(f"no rows {missing}")
    return where(rows, lambda row: row in kept)


def where(rows: Iterable[Any], keep: Callable[[Any], bool]) -> list[Any]:
    """Return a parameter's rows; the default level runs only those that `keep` accepts."""
    return [row if keep(row) else _nightly(row) for row in rows]


def _nightly(row: Any) -> Any:
    return pytest.param(*(row if isinstance(row, tuple) else (row,)), marks=pytest.mark.nightly)
