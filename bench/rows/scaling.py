"""What an item costs as items grow from 10^3 to 10^5, and shapes to 10^4.

Each line makes so many things and keeps them, as a program with many functions does. A process of
its own measures each size, because what was made before is a cost of what is made next.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import islice, product
from typing import Any

from bench import installed
from bench.rows import Effort
from bench.section import Section

METHOD = (
    "ns of processor time for an item, where so many are made and kept; a process of its own for "
    "each line and size, in which another was made before, the least of several; garbage collector "
    "off: its passes are over all that the process keeps, whoever made it. Shapes are signatures "
    "that no other item has, as long on average at each size, called once each, through libffi and "
    "through code that is generated and not kept on disk. Growth is the cost at most items over "
    "that at fewest; a quick run leaves the most out."
)
Make = Callable[[int], object]
CODES = "dqifhbHIB"


def signatures(count: int, most: int) -> list[str]:
    """Return so many signatures, each of another shape, after one for what is made once.

    They are spread over the first `most`, so that those of few items are as long as those of many.
    """
    made = ("".join(types) for length in range(3, 9) for types in product(CODES, repeat=length))
    return [f"d:{types}" for types in islice(made, 0, most + most // count, most // count)]


def wrap(nc: Any, address: int, _: list[str]) -> Make:
    """A callable of an address."""
    return lambda i: nc.wrap(address, "d:d")


def callback(nc: Any, _: int, __: list[str]) -> Make:
    """A callback."""
    return lambda i: nc.callback("d:d", lambda x: x)


def overloads(nc: Any, address: int, _: list[str]) -> Make:
    """An overload set: three entries, two of which are added."""

    def make(_: int) -> object:
        f = nc.wrap(address, "d:d")
        f.add("d:dd", address)
        f.add("d:ddd", address)
        return f

    return make


def mapping(nc: Any, address: int, _: list[str]) -> Make:
    """An overload set of a mapping, looked up in and called."""
    entries = {"d:d": address, "f:f": address}

    def make(_: int) -> object:
        f = nc.wrap(entries)
        f["d:d"](0.5)
        return f

    return make


def entry(nc: Any, address: int, texts: list[str]) -> Make:
    """An entry, added to one callable that has all of them."""
    f = nc.wrap(address, "d:d")
    return lambda i: f.add(texts[i], address)


def lookup(nc: Any, address: int, texts: list[str]) -> Make:
    """An entry of one callable that has all of them, looked up."""
    f = nc.wrap(dict.fromkeys(texts, address))
    return lambda i: f[texts[i]]


def signature(nc: Any, address: int, texts: list[str]) -> Make:
    """A callable with a signature of its own."""
    return lambda i: nc.wrap(address, texts[i])


def shape(nc: Any, address: int, texts: list[str]) -> Make:
    """A callable with a shape of its own, called once."""

    def make(i: int) -> object:
        f = nc.wrap(address, texts[i])
        f(*[1] * (len(texts[i]) - 2))
        return f

    return make


FALLBACK, GENERATED = {"NATIVECALL_JIT": "0"}, {"NATIVECALL_CACHE_DIR": ""}
#: The maker of each line, the sizes, and what is set in the environment.
LINES: dict[str, tuple[Callable[..., Make], tuple[int, ...], dict[str, str]]] = {
    "wrap(…)": (wrap, (1_000, 10_000, 100_000), {}),
    "callback(…)": (callback, (1_000, 10_000, 100_000), {}),
    "overload set, two entries added": (overloads, (1_000, 10_000, 100_000), {}),
    "overload set of a mapping, called": (mapping, (1_000, 10_000, 100_000), {}),
    "wrap(…), another signature each": (signature, (1_000, 10_000, 100_000), {}),
    "shape, called once, libffi": (shape, (1_000, 10_000), FALLBACK),
    "shape, called once, generated": (shape, (1_000, 10_000), GENERATED),
    "entry of one callable, added": (entry, (100, 1_000), {}),
    "entry of one callable, looked up": (lookup, (1_000, 10_000), {}),
}
MOST = 1.3


def processes(_: Effort) -> int:
    """Return the number of processes; each figure is from some of its own."""
    return 1


def run(line: str, count: int) -> None:
    """Print the ns that an item of a line takes, in a process that is used for nothing else."""
    nc = installed.import_nativecall()
    maker, sizes, _ = LINES[line]
    make = maker(nc, nc.load("m").address("fabs"), signatures(count, sizes[-1]))
    kept: list[object] = [None] * (count + 1)
    kept[count] = make(count)
    gc.collect()
    gc.disable()
    start = time.process_time_ns()
    for i in range(count):
        kept[i] = make(i)
    print(json.dumps((time.process_time_ns() - start) / count))


def measure(effort: Effort) -> Section:
    """Time every line at every size."""
    section = Section("scaling", METHOD)
    try:
        installed.import_nativecall()
    except installed.NotInstalled as error:
        section.absent["nativecall"] = str(error)
        return section
    for line, (_, all_sizes, environment) in LINES.items():
        costs: dict[int, float] = {}
        sizes = all_sizes[:-1] if effort.quick else all_sizes
        for _ in range(1 if effort.quick or environment is GENERATED else 3):
            for count in sizes:
                command = [sys.executable, "-m", "bench.worker", "scaled", line, str(count)]
                done = subprocess.run(
                    command,
                    cwd=installed.ROOT,
                    env={**os.environ, **environment},
                    capture_output=True,
                    text=True,
                    check=False,
                )
                if done.returncode != 0:
                    section.absent[line] = done.stderr.strip().splitlines()[-1]
                    break
                costs[count] = min(costs.get(count, float("inf")), json.loads(done.stdout))
        if len(costs) == len(sizes):
            figures: dict[str, Any] = {f"{count:,}": cost for count, cost in costs.items()}
            if not effort.quick:
                figures["growth"] = costs[sizes[-1]] / costs[sizes[0]]
            section.figures[line] = figures
    return section
