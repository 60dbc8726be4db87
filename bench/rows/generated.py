"""Generated trampolines: their calls, what the first call costs, and how many are made."""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from bench import installed
from bench.peers import generated_peers, load_all
from bench.peers.kernels import GENERATED, MANY, Kernels
from bench.rows import Effort, calls
from bench.section import Group, Section

METHOD = (
    "Calls as in their own section, through generated code though there is an ahead-of-time "
    "trampoline for some of these signatures. The hand-written peers make the same checks, the "
    "struct is given as a tuple and comes back as a named tuple. First calls: ms of the first call "
    "of each of 50 signatures in a fresh process whose LLVM has made one trampoline before, with "
    "an empty cache directory, then in further processes that find the object files there; "
    "fastest, median and slowest. Beside each, in shuffled order, what LLVM takes for the same IR: "
    "llvmlite parses it, makes an object file by the same code generator, which does not optimize, "
    "and links that; or links an object file that is in memory already. A first call writes and "
    "verifies the IR besides, and reads or writes the file. "
    "Then callables of these signatures, in turn, each called once."
)
SIGNATURES = 50
OURS = "nativecall"
LLVM, LLVM_FILE, LLVM_JIT = "LLVM, the same IR", "LLVM, the object file", "LLJIT, the same IR"
COMPILED, KEPT = "first call of a new shape", "first call, object file on disk"
#: Row, peer, and how many times what the peer takes a first call may take.
GOALS = ((COMPILED, LLVM, 1.2), (KEPT, LLVM_FILE, 1.5))
CALLABLES = 10_000


def processes(effort: Effort) -> int:
    """Return the number of processes."""
    return effort.choose(5, 1)


def measure(effort: Effort) -> Section:
    """Time the calls."""
    loaded = load_all(generated_peers(), GENERATED)
    return calls.measure_loaded("generated", METHOD, loaded, effort)


class Llvm:
    """What LLVM takes by itself, for the IR that nativecall writes; each method gives ms."""

    def __init__(self) -> None:
        import llvmlite.binding as llvm

        from nativecall._codegen import trampoline

        self.llvm, self.written = llvm, trampoline.intermediate
        machine = {"opt": trampoline.EFFORT, "reloc": "pic", "codemodel": "small"}
        machine |= {
            "cpu": llvm.get_host_cpu_name(),
            "features": llvm.get_host_cpu_features().flatten(),
        }
        self.machine = llvm.Target.from_default_triple().create_target_machine(**machine)
        self.jit = llvm.create_lljit_compiler(self.machine, use_jit_link=True)
        self.kept: list[Any] = []

    def link(self, builder: Any) -> int:
        """Link what was added, as a library of its own, and find the function."""
        linked = builder.export_symbol("method").link(self.jit, f"peer.{len(self.kept)}")
        self.kept.append(linked)
        return int(linked["method"])

    def emitted(self, text: str) -> bytes:
        """Make an object file."""
        with self.llvm.parse_assembly(text, self.llvm.create_context()) as module:
            return bytes(self.machine.emit_object(module))

    def compiled(self, function: Any) -> float:
        """Compile a function's IR and link it."""
        text = self.written(function._spec.signature)
        start = time.perf_counter_ns()
        self.link(self.llvm.JITLibraryBuilder().add_object_img(self.emitted(text)))
        return (time.perf_counter_ns() - start) / 1e6

    def compiled_by_jit(self, function: Any) -> float:
        """Leave it all to LLJIT."""
        text = self.written(function._spec.signature)
        start = time.perf_counter_ns()
        self.link(self.llvm.JITLibraryBuilder().add_ir(text))
        return (time.perf_counter_ns() - start) / 1e6

    def linked(self, function: Any) -> float:
        """Link its object file."""
        data = self.emitted(self.written(function._spec.signature))
        start = time.perf_counter_ns()
        self.link(self.llvm.JITLibraryBuilder().add_object_img(data))
        return (time.perf_counter_ns() - start) / 1e6


def _called(function: Any, values: list[Any]) -> float:
    start = time.perf_counter_ns()
    found = function(*values)
    taken = (time.perf_counter_ns() - start) / 1e6
    if found != sum(values):
        raise ValueError(f"{function!r} returned {found!r}, expected {sum(values)!r}")
    return taken


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
    llvm = Llvm()
    peers = {LLVM: llvm.compiled, LLVM_FILE: llvm.linked, LLVM_JIT: llvm.compiled_by_jit}
    times: dict[str, list[float]] = {name: [] for name in (OURS, *peers)}
    for take in peers.values():
        take(warm)
    for function, values in made[:SIGNATURES]:
        subjects: list[tuple[str, Callable[[], float]]] = [
            (OURS, partial(_called, function, values)),
            *[(name, partial(take, function)) for name, take in peers.items()],
        ]
        random.shuffle(subjects)
        for name, sample in subjects:
            times[name].append(sample())
    used = made[:SIGNATURES]
    more = []
    for number in range(CALLABLES):
        function, values = used[number % len(used)]
        another = nc.wrap(function.address(), str(function._spec.signature))
        another(*values)
        more.append(another)
    return {
        "signatures": len(used),
        "times": times,
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
    compiled: dict[str, list[float]] = {}
    linked: dict[str, list[float]] = {}
    found: dict[str, Any] = {}
    try:
        for _ in range(effort.choose(5, 1)):
            with tempfile.TemporaryDirectory() as directory:
                found = _first(directory)
                for into, times in (
                    (compiled, found["times"]),
                    (linked, _first(directory)["times"]),
                ):
                    for name, values in times.items():
                        into.setdefault(name, []).extend(values)
    except subprocess.CalledProcessError as error:
        section.absent["first calls"] = error.stderr.strip().splitlines()[-1]
        return
    for row, samples, peers in (
        (COMPILED, compiled, (LLVM, LLVM_JIT)),
        (KEPT, linked, (LLVM_FILE,)),
    ):
        measured = {name: samples[name] for name in (OURS, *peers)}
        section.groups.append(Group(row, "ms", peers[0], measured))
    for name, times in (("compiled", compiled[OURS]), ("from the disk cache", linked[OURS])):
        figures = {
            "fastest": min(times),
            "median": statistics.median(times),
            "slowest": max(times),
        }
        section.figures[f"first call {name}, ms"] = figures
    section.figures["signatures"] = found["signatures"]
    section.figures["callables"] = found["callables"]
    section.figures["trampolines"] = found["trampolines"]
