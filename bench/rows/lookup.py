"""From C: finding the function of a Python object and calling it, in ns and in instructions.

And finding a slot of the object's type, beside the table that SEP 200 describes.
"""

from __future__ import annotations

import random
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
from bench.peers.kernels import ROWS, Kernels
from bench.rows import Effort
from bench.section import Group, Section

METHOD = (
    "ns for finding and calling a C function of signature d:d, from C. 'dependent' adds the "
    "results up, 'independent' drops them; the compiler can lift nothing out of the loops "
    "(bench/c/lookup.c). Interleaved in shuffled rounds, in several fresh processes pinned to one "
    "CPU. Instructions are those of the dependent loop, all callees included, per iteration, "
    "counted by valgrind's callgrind over the whole loop. Rows of slots find one slot of the "
    "object's type by a key that is known at run time only (bench/c/slots.c): 'dependent' adds its "
    "data to the object's address for the next find. SEP 200's keys are random pre-hashes. Of "
    "nativecall's the key stands where its table expects it, as all do but one in 70 in a table of "
    "8, and one in 9 of 64."
)
TARGET_NS = 300_000.0
COUNTED = 20_000
LOOPS = {"sum": "dependent", "each": "independent"}
INSTRUCTIONS = "dependent, counted by callgrind"
FOURTH = ("q:qqq", "d:dd", "d:ddd", "d:d")
NAMES = {
    "plain": "function pointer",
    "offset": "nativecall, direct offset",
    "offset_fourth": "nativecall, direct offset, 4th of 4 entries",
    "offset_view": "nativecall, direct offset, given f.builtin",
    "slot": "nativecall, slot table",
    "slot_fourth": "nativecall, slot table, 4th of 4 entries",
    "packed": "nativecall, packed signature",
    "packed_fourth": "nativecall, packed signature, 4th of 4 entries",
    "packed_view": "nativecall, packed signature, given f.builtin",
    "capsule": "PyCapsule in a dict",
    "boxed_builtin": "PyObject_Vectorcall of a C built-in",
    "boxed_callable": "PyObject_Vectorcall of the native callable",
    "boxed_view": "PyObject_Vectorcall of its f.builtin",
}
SLOTS = (8, 64)  # rows of the tables
SLOT_NAMES = {
    "plain": "a pointer in the type",
    "flag": "SEP 200's table, flag check",
    "metaclass": "SEP 200's table, metaclass check",
    "tolerant": "SEP 200's table, subclass-tolerant check",
    "embedded": "SEP 200's table, embedded in the type",
    "native": "nativecall, no expected position",
    "expected": "nativecall, expected position",
}


def processes(effort: Effort) -> int:
    """Return the number of processes."""
    return effort.choose(5, 1)


def prepared() -> tuple[ModuleType, str | None]:
    """Return the extension with its subjects set, and why nativecall is missing, or None.

    Where nativecall is absent or fails, the extension is built without its headers, for the peers'
    rows.
    """
    kernels = Kernels()
    addresses = {row.signature: kernels.address(row) for row in ROWS}
    address = addresses["d:d"]
    builtin = load_module("builtin", "bench_builtin").make("d:d", address)
    try:
        nc = installed.import_nativecall()
        callable_ = nc.wrap(address, "d:d")
        overloaded = nc.wrap({key: addresses[key] for key in FOURTH})
        view = callable_.builtin
        module = load_module("lookup", "bench_lookup")
    except Exception as error:
        module = load_module("lookup_peers", "bench_lookup")
        module.prepare(address, builtin, None, None, None)
        return module, f"{type(error).__name__}: {error}"
    module.prepare(address, builtin, callable_, overloaded, view)
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
    if not missing:
        measure_slots(section, effort)
    return section


def slots_row(count: int, loop: str) -> str:
    """Return the name of the row of a table's size and a loop."""
    return f"a slot of {count}, {loop}"


def measure_slots(section: Section, effort: Effort) -> None:
    """Time the finding of slots, in tables of some sizes."""
    nc = installed.import_nativecall()
    try:
        module = load_module("slots", "bench_slots")
    except build.BuildError as error:
        section.absent["slots from C"] = str(error)
        return
    chosen = random.Random(0)
    for count in SLOTS:
        keys = [0x01000001 | chosen.randrange(1 << 22) << 1 for _ in range(count)]
        slots = dict.fromkeys(keys, (0, 0))
        kind = nc.extensibletype("Slots", (), {"__customslots__": slots})
        module.prepare(count, kind(), keys[count // 2], count // 2)
        for loop, name in LOOPS.items():
            subjects = {}
            for way, title in SLOT_NAMES.items():
                sampler = partial(module.sample, way, loop)
                repeats = timing.calibrate(sampler, 1, TARGET_NS)
                subjects[title] = partial(sampler, repeats)
            samples = timing.interleave(subjects, effort.choose(80, 25), effort.seed)
            row = slots_row(count, name)
            section.groups.append(Group(row, "ns", SLOT_NAMES["plain"], samples))


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
