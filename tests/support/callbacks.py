"""Python functions that C calls, their side effects, and conditions that prevent testing them."""

from __future__ import annotations

import ctypes

import pytest

from nativecall import _ext
from support.modes import DEBUG

overlooked = pytest.mark.skipif(DEBUG, reason="debug builds end where C code overlooks exceptions")


class Custom(Exception):
    pass


def raising(x):
    raise LookupError(f"for {x:g}")


def threads_left() -> int:
    """Return in how many threads a Python function left an exception."""
    return ctypes.c_size_t.from_address(_ext.code_symbols()["nc_left_count"]).value
