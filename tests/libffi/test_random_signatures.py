"""Random signatures through the public interface: every value arrives, and comes back, bit by bit.

Each callee is compiled C that writes the bytes of every scalar that it gets, in order, into a log,
and returns a value made of bytes that the test left for it. So a call says what C saw of any
arguments, and what Python sees of any result. Each is called through generated code, as itself and
as a built-in, and through libffi, with the same values. Signatures have up to 20 arguments: all
scalar types, pointers, functions, Python objects, strided views, structs by value, nested, packed
and with arrays of any dimensions; some are variadic.

A nightly run has 300 signatures, or `$NATIVECALL_TEST_SIGNATURES`, and the default level the first
100 of them; the numbers in the names of the tests are the seeds of their signatures.
"""

from __future__ import annotations

import ctypes
import os

import pytest

import nativecall as nc
from nativecall._codegen import engine
from support.levels import sweep
from support.randomcalls import BUFFER, C_TYPES, HALF, PRELUDE, Case, check

BATCH = 100  # signatures in one C file
COUNT = int(os.environ.get("NATIVECALL_TEST_SIGNATURES", "300"))


@pytest.fixture(scope="module")
def half(builder):
    """Whether the compiler has a half-precision float."""
    try:
        builder.library(f"{HALF}\nhalf f(half x); half f(half x) {{ return x; }}", "half")
    except AssertionError:
        return False
    return True


@pytest.mark.parametrize("start", sweep(range(0, COUNT, BATCH), 0))
def test_every_value_arrives_and_comes_back(builder, half, start):
    codes = [code for code in C_TYPES if half or code != "e"]
    cases = [Case(seed, codes) for seed in range(start, min(start + BATCH, COUNT))]
    known: dict[str, tuple[str, str]] = {}
    bodies = [case.write(known) for case in cases]
    types = [definition for _, definition in known.values()]
    prelude = PRELUDE.replace("HALF", HALF if half else "")
    path = builder.library(
        "\n".join([prelude, *types, *bodies]),
        f"random{start}",
        flags=("-O1", "-Wno-psabi", "-Wno-address-of-packed-member"),
    )
    lib, raw = nc.load(path), ctypes.CDLL(str(path))
    log, given = ((ctypes.c_char * BUFFER).in_dll(raw, name) for name in ("nc_log", "nc_given"))
    counts = {"generated": 0, "builtin": 0, "libffi": 0}
    for case in cases:
        for way in counts:
            if way == "libffi" or engine.available():
                counts[way] += check(case, way, lib.address(case.name), log, given)
    assert counts["generated"] == counts["builtin"] == (len(cases) if engine.available() else 0)
    # Complex long double results, small packed structs and halves in structs are what libffi lacks.
    assert counts["libffi"] > 0.8 * len(cases)
