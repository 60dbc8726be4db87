"""One failed allocation, at every point of an operation: what was raised comes out, or MemoryError.

A result is right or there is none, and nothing is reported that a call from Python could raise.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import nativecall as nc
from nativecall.jit import engine

_testcapi = pytest.importorskip("_testcapi")
GENERATED = engine.available() and not nc._lib.types.stubs_refused()
MOST = 150  # allocations of an operation


def raising(x, y=None):
    raise LookupError("the function's own")


def ndim(array):
    return array.ndim


def operations() -> dict[str, tuple[Any, object]]:
    """What is run, and its result; LookupError or OverflowError where it raises."""
    ldexp = nc.load("m").function("ldexp", "d:di")
    thunk = ldexp.convert("d:dd")
    raises, inner = nc.callback("d:d", raising), nc.callback("i:[1]d", ndim)
    fixed = nc.callback("i:&(3)d", ndim)
    sort = nc.load("c").function("qsort", "v:&dQQX{i:PP}")
    numbers = np.arange(3.0)
    found = nc.callback("X{d:d}:i", lambda i: raising)
    converted = nc.callback("d:d", lambda x: thunk(1.0, 2.5))
    made: dict[str, tuple[Any, object]] = {
        "call": (lambda: ldexp(1.5, 1), 3.0),
        "callback": (lambda: raises(1.0), LookupError),
        "convert": (lambda: thunk(1.0, 2.5), ValueError),
        "callback of a thunk": (lambda: converted(1.0), ValueError),
        "Python function": (lambda: sort(numbers, 3, 8, raising), LookupError),
        "view": (lambda: inner(numbers), 1),
        "array": (lambda: fixed(numbers), 1),
        "returned function": (lambda: found(1) is None, False),
        "bind": (lambda: ldexp.bind(1.5)(1), 3.0),
    }
    # What ctypes' and libffi's Python code does without memory is not looked at here.
    return made if GENERATED else {name: made[name] for name in ("call", "callback")}


@pytest.mark.parametrize("name", list(operations()))
def test_one_failed_allocation(name, monkeypatch):
    run, expected = operations()[name]
    reported: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda hook: reported.append(repr(hook.exc_value)))
    wrong = []
    for n in range(-1, MOST):
        answer: object = None
        if n >= 0:
            _testcapi.set_nomemory(n, n + 1)
        try:
            answer = run()
        except BaseException as error:
            answer = type(error)
            # CPython 3.11 has calls of Python functions fail without an exception.
            if "failed without setting an exception" in str(error):
                answer = MemoryError
        finally:
            _testcapi.remove_mem_hooks()
        if not (answer == expected or (n >= 0 and answer is MemoryError)) or reported:
            wrong.append((n, answer, reported.copy()))
            reported.clear()
    assert wrong == []
