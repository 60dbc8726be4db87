"""Generated trampolines: their calls, what the first call costs, and how many are made."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

from bench import installed
from bench.peers import generated_peers, load_all
from bench.peers.kernels import GENERATED, MANY, Kernels
from bench.rows import Effort, calls
from bench.section import Section

METHOD = (
    "Calls as in their own section, through generated code though there is an ahead-of-time "
    "trampoline for some of these signatures. The hand-written peers make the same checks, the "
    "struct is given as a tuple and comes back as a named tuple. First calls: ms of the first call "
    "of each of 50 signatures in a fresh process whose LLVM has made one trampoline before, with "
    "an empty cache directory, then in further processes that find the object files there; "
    "fastest, median and slowest. Then callables of these signatures, in turn, each called once."
)
SIGNATURES = 50
CALLABLES = 10_000


def processes(effort: Effort) -> int:
    """Return the number of processes."""
    return effort.choose(5, 1)


def measure(effort: Effort) -> Section:
    """Time the calls."""
    loaded = load_all(generated_peers(), GENERATED)
    return calls.measure_loaded("generated", METHOD, loaded, effort)


def run_first() -> dict[str, Any]:
    """Time first calls and count trampolines, in a process that is used for nothing else."""
    nc = installed.import_nativecall()
    kernels = Kernels()
    arguments = {"d": 0.5, "q": 1000, "i": 20, "f": 1.5, "h": 7}
    made = []
    for signature, kernel in MANY.items():
        function = nc.wrap(kernels.address_of(kernel), signature)
        if function._spec.trampoline is None:
            made.append((function, [arguments[code] for code in signature[2:]]))
    warm, values = made.pop()
    warm(*values)
    times = []
    for function, values in made[:SIGNATURES]:
        start = time.perf_counter_ns()
        found = function(*values)
        times.append((time.perf_counter_ns() - start) / 1e6)
        if found != sum(values):
            raise ValueError(f"{function!r} returned {found!r}, expected {sum(values)!r}")
    used = made[:SIGNATURES]
    more = []
    for number in range(CALLABLES):
        function, values = used[number % len(used)]
        another = nc.wrap(function.address(), str(function._spec.signature))
        another(*values)
        more.append(another)
    return {
        "signatures": len(used),
        "first": times,
        "callables": len(more),
        "trampolines": len({id(one._generated) for one in more}),
    }


def _first(directory: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "bench.worker", "first"],
        cwd=installed.ROOT,
        env={**os.environ, "NATIVECALL_CACHE_DIR": directory},
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(json.loads(done.stdout))


def finish(section: Section, effort: Effort) -> None:
    """Add the first calls and the number of trampolines, from processes of their own."""
    compiled, linked = [], []
    found: dict[str, Any] = {}
    try:
        for _ in range(effort.choose(5, 1)):
            with tempfile.TemporaryDirectory() as directory:
                found = _first(directory)
                compiled += found["first"]
                linked += _first(directory)["first"]
    except subprocess.CalledProcessError as error:
        section.absent["first calls"] = error.stderr.strip().splitlines()[-1]
        return
    for name, times in (("compiled", compiled), ("from the disk cache", linked)):
        figures = {
            "fastest": min(times),
            "median": statistics.median(times),
            "slowest": max(times),
        }
        section.figures[f"first call {name}, ms"] = figures
    section.figures["signatures"] = found["signatures"]
    section.figures["callables"] = found["callables"]
    section.figures["trampolines"] = found["trampolines"]
