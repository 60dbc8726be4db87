"""From C: finding the function of a Python object and calling it, in ns and in instructions."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from functools import partial
from pathlib import Path
from types import ModuleType

from bench import installed, timing
from bench.peers import build, load_module
from bench.peers.kernels import Kernels
from bench.rows import Effort
from bench.section import Group, Section

METHOD = (
    "ns for finding and calling a C function of signature d:d, from C. 'dependent' adds the "
    "results up, 'independent' drops them; the compiler can lift nothing out of the loops "
    "(bench/c/lookup.c). Interleaved in shuffled rounds, in several fresh processes pinned to one "
    "CPU. Instructions are those of the dependent loop, all callees included, per iteration, "
    "counted by valgrind's callgrind over the whole loop."
)
TARGET_NS = 300_000.0
COUNTED = 20_000
LOOPS = {"sum": "dependent", "each": "independent"}
INSTRUCTIONS = "dependent, counted by callgrind"
NAMES = {
    "plain": "function pointer",
    "offset": "nativecall, direct offset",
    "slot": "nativecall, slot table",
    "capsule": "PyCapsule in a dict",
    "boxed_builtin": "PyObject_Vectorcall of a C built-in",
}


def processes(effort: Effort) -> int:
    """Return the number of processes."""
    return effort.choose(5, 1)


def prepared() -> tuple[ModuleType, str | None]:
    """Return the extension with its subjects set, and why nativecall is missing, or None.

    Where nativecall is absent or fails, the extension is built without its headers, for the peers'
    rows.
    """
    address = Kernels().address_of("kernel_d_d")
    builtin = load_module("builtin", "bench_builtin").make("d:d", address)
    try:
        callable_ = installed.import_nativecall().wrap(address, "d:d")
        module = load_module("lookup", "bench_lookup")
    except Exception as error:
        module = load_module("lookup_peers", "bench_lookup")
        module.prepare(address, builtin, None)
        return module, f"{type(error).__name__}: {error}"
    module.prepare(address, builtin, callable_)
    return module, None


def measure(effort: Effort) -> Section:
    """Time every way from C, and count instructions where valgrind is."""
    section = Section("lookup", METHOD)
    try:
        module, missing = prepared()
    except build.BuildError as error:
        section.absent["lookup from C"] = str(error)
        return section
    if missing:
        section.absent["nativecall, from C"] = missing
    for loop, row in LOOPS.items():
        subjects = {}
        for name in module.names():
            sampler = partial(module.sample, name, loop)
            count = timing.calibrate(sampler, 1, TARGET_NS)
            subjects[NAMES[name]] = partial(sampler, count)
        samples = timing.interleave(subjects, effort.choose(80, 25), effort.seed)
        section.groups.append(Group(row, "ns", NAMES["plain"], samples))
    return section


def run_counted() -> None:
    """Run every dependent loop, to be called in a process under callgrind."""
    module, _ = prepared()
    for name in module.names():
        module.sample(name, "sum", COUNTED)


def finish(section: Section, _: Effort) -> None:
    """Add the instruction counts, once for all processes."""
    if shutil.which("valgrind") is None:
        section.absent[INSTRUCTIONS] = "valgrind is not installed"
        return
    with tempfile.TemporaryDirectory() as temporary:
        out = Path(temporary) / "callgrind.out"
        done = subprocess.run(
            [
                "valgrind",
                "--tool=callgrind",
                f"--callgrind-out-file={out}",
                "--compress-strings=no",
                "--compress-pos=no",
                sys.executable,
                "-m",
                "bench.worker",
                "counted",
            ],
            cwd=installed.ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0 or not out.exists():
            tail = " ".join(done.stderr.strip().splitlines()[-3:])
            section.absent[INSTRUCTIONS] = f"callgrind failed: {tail}"
            return
        inclusive = inclusive_costs(out)
    counts = {
        title: [inclusive[f"{name}_sum"] / COUNTED]
        for name, title in NAMES.items()
        if f"{name}_sum" in inclusive
    }
    section.groups.append(Group(INSTRUCTIONS, "instructions", NAMES["plain"], counts))


def inclusive_costs(path: Path) -> dict[str, int]:
    """Return the instructions executed in each function and all that it calls.

    Reads callgrind's uncompressed profile: a ``fn=`` line opens a function, then come lines of
    position and cost; the line after ``calls=`` is the inclusive cost of that callee.
    """
    costs: dict[str, int] = defaultdict(int)
    function = ""
    cost_line = re.compile(r"\d+ (\d+)$")
    with path.open() as lines:
        for line in lines:
            if line.startswith("fn="):
                function = line[3:].strip()
            elif function and (match := cost_line.match(line)):
                costs[function] += int(match[1])
    return costs
