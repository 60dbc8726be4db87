"""Signatures through the public interface: every value arrives, and comes back, bit by bit.

Each callee is compiled C that writes the bytes of every scalar that it gets, in order, into a log,
and returns a value made of bytes that the test left for it. So a call says what C saw of any
arguments, and what Python sees of any result. Each is called by its plan, as itself, as a built-in
and through `bind`, with the same values, and calls a Python function the other way round.
Signatures have up to 40 arguments: all scalar types, pointers, functions, Python objects, strided
views, structs and unions by value, nested, packed, with bit-fields and with arrays of any
dimensions; some are variadic. Chosen ones are at the edges of the ABIs.

A nightly run has 300 signatures, or `$NATIVECALL_TEST_SIGNATURES`, and the default level the first
100 of them; the numbers in the names of the tests are the seeds of their signatures.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator

import pytest

import nativecall as nc
from nativecall._callable import thunk
from support.levels import sweep
from support.randomcalls import BUFFER, C_TYPES, HALF, WAYS, Case, check, check_callback, written

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


# At the edges of the rules of the C ABIs: sizes around one and two registers, mixed classes,
# homogeneous floats, members of two registers each, nested and packed ones.
STRUCTS = [f"T{{({n})B}}" for n in (*range(1, 20), 31, 32, 33, 64)]
STRUCTS += [
    "T{d}", "T{f}", "T{q}", "T{?}", "T{dd}", "T{qd}", "T{dq}", "T{ff}", "T{fff}", "T{ffff}",
    "T{fi}", "T{ifd}", "T{dfi}", "T{ddd}", "T{dddd}", "T{fffff}", "T{qqq}", "T{bhi}", "T{bd}",
    "T{ibhq}", "T{g}", "T{gb}", "T{gg}", "T{T{(1)g}}", "T{Zf}", "T{Zd}", "T{Zff}", "T{Zfi}",
    "T{iZd}", "T{ZfZf}", "T{(3)f}", "T{(2)d}", "T{(5)h}", "T{(2)T{ff}}", "T{bT{bd}}",
    "T{T{f}T{fT{i}}}", "T{b(7)bd}", "T{T{T{T{d}}}}", "T{P}", "T{&di}", "T{X{d:d}d}", "T{(3)hB}",
    "T{d(1)b}", "=T{bqq}", "=T{bddh}", "=T{dd}", "=T{ii}", "=T{h(3)d}", "=T{db}", "=T{gb}",
    "T{=T{gb}d}", "T{b=T{dqb}b}", "T{g=T{db}}", "T{i=T{qqq}?}", "U{id}", "U{fT{ff}}", "U{g(2)q}",
    "U{(3)fd}", "T{U{if}U{fd}}", "T{i#3:f0:I#29:f1:i#1:f2:}", "T{fQ#40:f1:}", "=T{iT{Q#29:f0:}}",
]  # fmt: skip


def chosen() -> Iterator[str]:
    for code in C_TYPES:
        if code not in ("e", "Zg"):
            yield f"{code}:{code}"
        if code != "e":
            yield f"i:{code * 3}"
    # More than the registers hold, of each kind and of both.
    for word in ("i" * 12, "d" * 12, "id" * 10, "fbdh" * 5, "q" * 7 + "d" * 9 + "qd", "gggi"):
        yield f"d:{word}"
    yield from ("q:bBhHiIqQ?bBhHiIqQ?", "Zd:ZdZdZdZdZdZd", f"Zf:{'Zff' * 6}", "v:")
    for one in STRUCTS:
        yield f"{one}:{one}"
        yield f"d:i{one}d{one}"
        # With the registers nearly used up, a struct goes to memory whole.
        yield f"{one}:qqqqq{one}ddddddd{one}i"
        # The first word may take the last general register while the vector registers are in use.
        yield f"d:dqqqqq{one}d"


VARIADIC = ["d", "i", "P", "iPddiddidPdidddi", "q" * 9, "dddddddddi"]


def compiled(builder, name, cases, half):
    """The library of the callees, its log, and the bytes that they return."""
    path = builder.library(written(cases, half), name, flags=("-O1", "-w"))
    raw = ctypes.CDLL(str(path))
    return nc.load(path), *(
        (ctypes.c_char * BUFFER).in_dll(raw, name) for name in ("nc_log", "nc_given")
    )


def test_chosen_signatures(builder, monkeypatch):
    # Generated code would take ten times as long; that for random signatures is tried below.
    monkeypatch.setattr(thunk, "thunk", lambda made: (made.packed, False))
    cases = [Case.of(number, text) for number, text in enumerate(chosen())]
    for fixed in ("i:i", "d:dq", "q:dP", "i:Piq"):
        cases += [Case.of(len(cases) + n, f"{fixed}.", one) for n, one in enumerate(VARIADIC)]
    lib, log, given = compiled(builder, "chosen", cases, half=False)
    for case in cases:
        for way in WAYS:
            check(case, way, lib.address(case.name), log, given)
        if not case.variadic:
            check_callback(case, lib.path, log, given)
    ahead = [case for case in cases if nc.wrap(1, case.text)._cif.trampoline]
    assert 10 < len(ahead) < len(cases) - 200


@pytest.mark.parametrize("start", sweep(range(0, COUNT, BATCH), 0))
def test_every_value_arrives_and_comes_back(builder, half, start):
    codes = [code for code in C_TYPES if half or code != "e"]
    cases = [Case(seed, codes) for seed in range(start, min(start + BATCH, COUNT))]
    lib, log, given = compiled(builder, f"random{start}", cases, half)
    for case in cases:
        for way in WAYS:
            check(case, way, lib.address(case.name), log, given)
        if not case.variadic:
            check_callback(case, lib.path, log, given)
