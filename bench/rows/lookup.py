"""From C: finding the function of a Python object and calling it, in ns and in instructions.

What the headers cost that do this: when they find nothing, and in a module.
"""

from __future__ import annotations

import json
import re
import resource
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections import defaultdict
from functools import partial
from pathlib import Path
from types import ModuleType

from bench import installed, machine, timing
from bench.peers import build, load_extension, load_module
from bench.peers.kernels import Kernels
from bench.rows import Effort
from bench.section import Group, Section

METHOD = (
    "ns for finding and calling a C function of signature d:d, from C. 'dependent' adds the "
    "results up, 'independent' drops them; the compiler can lift nothing out of the loops "
    "(bench/c/lookup.c). Interleaved in shuffled rounds, in several fresh processes pinned to one "
    "CPU; calls by dispatch.h and callback.h are independent ones. Instructions are those of the "
    "dependent loop, all callees included, per iteration, counted by valgrind's callgrind over the "
    "whole loop. A miss is looked for in a lambda. What a header adds to a module is the "
    "difference between builds of bench/c/provider.c: bytes of its sections .text*, and seconds of "
    "the compiler, user and system."
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
    "boxed_lambda": "PyObject_Vectorcall of a lambda",
    "dispatch": "dispatch.h, exact",
    "dispatch_promoted": "dispatch.h, promoted",
    "dispatch_final": "dispatch.h, of provide.h with a call table",
    "dispatch_open": "dispatch.h, of provide.h by tier 2",
    "dispatch_lambda": "dispatch.h, a lambda",
    "callback": "callback.h, a native callable",
    "callback_exported": "callback.h, its capsule",
    "callback_lambda": "callback.h, a lambda",
    "nothing": "no lookup",
    "miss": "nativecall, a miss",
}
DISPATCH, CALLBACK = "dispatch.h", "callback.h: prepared, called once, released"
MISS, ALONE = "a miss, nativecall imported", "a miss, nativecall never imported"
#: The loop and the ways of each group; the first is the reference.
GROUPS = {
    **{row: (loop, tuple(NAMES)[:5]) for loop, row in LOOPS.items()},
    DISPATCH: ("each", ("plain", *[way for way in NAMES if "dispatch" in way], "boxed_lambda")),
    CALLBACK: ("each", ("plain", *[way for way in NAMES if "callback" in way], "boxed_lambda")),
    **dict.fromkeys((MISS, ALONE), ("each", ("nothing", "miss"))),
}
BYTES, SECONDS = "code of a provider's module", "time to compile a module"
#: What a module includes, and the compiler's options for that.
HEADERS = {
    "no header": ["-DWITH=0"],
    "provide.h": ["-DWITH=1"],
    "extensibletype.h": ["-DWITH=2"],
    "dispatch.h": ["-DWITH=0", "-include", "nativecall/dispatch.h"],
    "callback.h": ["-DWITH=0", "-include", "nativecall/callback.h"],
}
#: Row, subject, what it is compared with (None: with 0), and how much more it may be.
MOST: tuple[tuple[str, str, str | None, float], ...] = (
    *[
        (row, NAMES[way], NAMES["plain"], 0.5)
        for row in LOOPS.values()
        for way in ("offset", "slot")
    ],
    (INSTRUCTIONS, NAMES["offset"], NAMES["plain"], 12.0),
    (INSTRUCTIONS, NAMES["slot"], NAMES["plain"], 20.0),
    *[(row, NAMES["miss"], NAMES["nothing"], 3.0) for row in (MISS, ALONE)],
    (DISPATCH, NAMES["dispatch_lambda"], NAMES["boxed_lambda"], 3.0),
    (DISPATCH, NAMES["dispatch_final"], None, 8.0),
    (DISPATCH, NAMES["dispatch_promoted"], None, 6.0),
    (BYTES, "provide.h", "no header", 3072.0),
    (SECONDS, "provide.h", "no header", 0.1),
)


def processes(effort: Effort) -> int:
    """Return the number of processes."""
    return effort.choose(5, 1)


def prepared() -> ModuleType:
    """Return the extension with its subjects set."""
    address = Kernels().address_of("kernel_d_d")
    builtin = load_module("builtin", "bench_builtin").make("d:d", address)
    callable_ = installed.import_nativecall().wrap(address, "d:d")
    make = load_module("provider1", "bench_provider").make
    objects = callable_, make(address, False), make(address, True), callable_.to_capsule()
    module = load_module("lookup", "bench_lookup")
    module.prepare(address, builtin, lambda x: x + 1.0, *objects)
    return module


def group(module: ModuleType, row: str, effort: Effort) -> Group:
    """Time the ways of a group."""
    loop, ways = GROUPS[row]
    subjects = {}
    for way in ways:
        sampler = partial(module.sample, way, loop)
        count = timing.calibrate(sampler, 1, TARGET_NS)
        subjects[NAMES[way]] = partial(sampler, count)
    samples = timing.interleave(subjects, effort.choose(80, 25), effort.seed)
    return Group(row, "ns", NAMES[ways[0]], samples)


def measure(effort: Effort) -> Section:
    """Time every way from C."""
    section = Section("lookup", METHOD)
    try:
        module = prepared()
    except (build.BuildError, installed.NotInstalled) as error:
        section.absent["lookup from C"] = str(error)
        return section
    section.groups += [group(module, row, effort) for row in GROUPS if row != ALONE]
    arguments = ["alone", str(module.__file__), str(int(effort.quick)), str(effort.seed)]
    command = [sys.executable, "-m", "bench.worker", *arguments]
    done = subprocess.run(command, cwd=installed.ROOT, stdout=subprocess.PIPE, check=True)
    section.groups.append(Group(ALONE, "ns", NAMES["nothing"], json.loads(done.stdout)))
    return section


def run_alone(path: str, quick: str, seed: str) -> dict[str, list[float]]:
    """Time a miss in a process that imports no nativecall."""
    module = load_extension("bench_lookup", Path(path))
    module.prepare(1, None, lambda x: x + 1.0)  # neither address nor built-in is used
    found = group(module, ALONE, Effort(quick == "1", int(seed)))
    if "_extensibletype" in sys.modules:
        raise ValueError("nativecall was imported")
    return found.samples


def compiled(options: list[str]) -> float:
    """Compile the provider's module; return the seconds that it took."""
    source, include = build.C_PROGRAMS / "provider.c", sysconfig.get_path("include")
    options = [f"-I{build.include_directory()}", f"-I{include}", *options, "-O2", "-c", str(source)]
    with tempfile.NamedTemporaryFile(suffix=".o") as made:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([*machine.compiler_command(), *options, "-o", made.name], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def added(section: Section, effort: Effort) -> None:
    """Measure what the headers add to a module."""
    subjects = {name: partial(compiled, options) for name, options in HEADERS.items()}
    samples = timing.interleave(subjects, effort.choose(25, 3), effort.seed)
    section.groups.append(Group(SECONDS, "s", "no header", samples))
    sizes = {}
    for number, name in enumerate(list(HEADERS)[:3]):
        path = str(load_module(f"provider{number}", "bench_provider").__file__)
        listed = subprocess.run(["size", "-A", path], capture_output=True, text=True, check=True)
        found = re.findall(r"^\.text\S* +(\d+)", listed.stdout, re.MULTILINE)
        sizes[name] = [float(sum(map(int, found)))]
    section.groups.append(Group(BYTES, "bytes", "no header", sizes))


def run_counted() -> None:
    """Run every dependent loop, to be called in a process under callgrind."""
    module = prepared()
    for name in NAMES:
        module.sample(name, "sum", COUNTED)


def finish(section: Section, effort: Effort) -> None:
    """Add what needs no repeated process: what headers add, and the instruction counts."""
    try:
        added(section, effort)
    except (OSError, subprocess.CalledProcessError, build.BuildError) as error:
        section.absent["what headers add"] = str(error)
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
    counts = {  # rounded, because the start of the process is counted too
        title: [float(round(inclusive[f"{name}_sum"] / COUNTED))]
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
