"""First calls of a signature: what it costs to work out where C expects its values."""

from __future__ import annotations

import ctypes
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from bench import installed
from bench.peers.kernels import MANY, Kernels
from bench.rows import Effort
from bench.section import Group, Section

METHOD = (
    "ms of the first call of each of 50 signatures in a fresh process that has made one such call "
    "before, with the callable made; fastest, median and slowest. Beside each, in shuffled order, "
    "what ctypes and cffi take to make a function of the same type and address, and to call it."
)
SIGNATURES = 50
OURS = "nativecall"
CTYPES, CFFI = "a CFUNCTYPE, made and called", "ffi.cast, made and called"
NEW = "first call of a new signature"
#: Row, peer, and how many times what the peer takes a first call may take.
GOALS = ((NEW, CFFI, 0.5),)

_CTYPES = {
    "d": ctypes.c_double,
    "q": ctypes.c_int64,
    "i": ctypes.c_int32,
    "f": ctypes.c_float,
    "h": ctypes.c_int16,
}
_C = {"d": "double", "q": "int64_t", "i": "int32_t", "f": "float", "h": "int16_t"}


def processes(_: Effort) -> int:
    """Return the number of processes; first calls are timed in others, by `finish`."""
    return 1


def measure(_: Effort) -> Section:
    """Return the section, which `finish` fills."""
    return Section("first", METHOD)


def _by_ctypes(function: Any, values: list[Any]) -> object:
    codes = function.signatures[0].replace(":", "")
    made = ctypes.CFUNCTYPE(*[_CTYPES[code] for code in codes])(function.address())
    return made(*values)


def _by_cffi(ffi: Any, function: Any, values: list[Any]) -> object:
    result, codes = function.signatures[0].split(":")
    arguments = ", ".join([_C[code] for code in codes])
    return ffi.cast(f"{_C[result]} (*)({arguments})", function.address())(*values)


def _timed(call: Callable[..., Any], values: list[Any]) -> float:
    start = time.perf_counter_ns()
    found = call(values)
    taken = (time.perf_counter_ns() - start) / 1e6
    if found != sum(values):
        raise ValueError(f"{call!r} returned {found!r}, expected {sum(values)!r}")
    return taken


def run_first() -> dict[str, Any]:
    """Time first calls, in a process that is used for nothing else."""
    import cffi

    nc = installed.import_nativecall()
    kernels = Kernels()
    arguments = {"d": 0.5, "q": 1000, "i": 20, "f": 1.5, "h": 7}
    made = []
    for signature, kernel in MANY.items():
        function = nc.wrap(kernels.address_of(kernel), signature)
        if function._cif.trampoline is None:
            made.append((function, [arguments[code] for code in signature[2:]]))
    ffi = cffi.FFI()
    ways: dict[str, Callable[..., object]] = {
        OURS: lambda function, values: function(*values),
        CTYPES: _by_ctypes,
        CFFI: partial(_by_cffi, ffi),
    }
    warm, values = made.pop()
    for way in ways.values():
        way(warm, values)
    times: dict[str, list[float]] = {name: [] for name in ways}
    for function, values in made[:SIGNATURES]:
        for name in random.sample([*ways], len(ways)):
            times[name].append(_timed(partial(ways[name], function), values))
    return {"signatures": len(made[:SIGNATURES]), "times": times}


def finish(section: Section, effort: Effort) -> None:
    """Add the first calls, from processes of their own."""
    rows: dict[str, list[float]] = {}
    found: dict[str, Any] = {}
    try:
        for _ in range(effort.choose(5, 1)):
            done = subprocess.run(
                [sys.executable, "-m", "bench.worker", "calls-once"],
                cwd=installed.ROOT,
                env={**os.environ},
                capture_output=True,
                text=True,
                check=True,
            )
            found = dict(json.loads(done.stdout))
            for name, values in found["times"].items():
                rows.setdefault(name, []).extend(values)
    except subprocess.CalledProcessError as error:
        section.absent["first calls"] = error.stderr.strip().splitlines()[-1]
        return
    section.groups.append(Group(NEW, "ms", CFFI, rows))
    section.figures["first call, ms"] = {
        "fastest": min(rows[OURS]),
        "median": statistics.median(rows[OURS]),
        "slowest": max(rows[OURS]),
    }
    section.figures["signatures"] = found["signatures"]
