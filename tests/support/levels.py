"""Marks for the test levels: tests that only the nightly level runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def sweep(values: Iterable[Any], *kept: Any) -> list[Any]:
    """The values of a parameter, of which the default level runs those in `kept`.

    Tuples are the values of several parameters. Raises ValueError for a kept value that is not
    there, so that a renamed row is not lost.
    """
    rows = [*values]
    if missing := [one for one in kept if one not in rows]:
        raise ValueError(f"no rows {missing}")
    return where(rows, lambda row: row in kept)


def where(rows: Iterable[Any], keep: Callable[[Any], bool]) -> list[Any]:
    """The rows of a parameter, of which the default level runs those that `keep` accepts."""
    return [row if keep(row) else _nightly(row) for row in rows]


def _nightly(row: Any) -> Any:
    return pytest.param(*(row if isinstance(row, tuple) else (row,)), marks=pytest.mark.nightly)
