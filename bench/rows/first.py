"""First calls of a shape: what it costs to compile code for them, or to link what is on disk."""

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
from bench.peers.kernels import MANY, Kernels
from bench.rows import Effort
from bench.section import Group, Section

METHOD = (
    "ms of the first call of each of 50 signatures in a fresh process whose LLVM has made one "
    "trampoline before, with no cache directory, with an empty one, then in further processes that "
    "find the object files there; fastest, median and slowest. Beside each, in shuffled order, "
    "what LLVM takes for the same IR: llvmlite parses it, makes an object file by the same code "
    "generator, which does not optimize, and links that; the same with a file of these bytes that "
    "is created in the cache directory, and renamed; or it links an object file that is in memory "
    "already. A first call writes and verifies the IR besides, and reads the file."
)
SIGNATURES = 50
OURS = "nativecall"
LLVM, LLVM_FILE = "LLVM, the same IR", "LLVM, the object file"
LLVM_WRITTEN = "LLVM, the same IR, and a file"
COMPILED = "first call of a new shape"
WRITTEN = "first call of a new shape, to be kept on disk"
KEPT = "first call, object file on disk"
#: Row, peer, and how many times what the peer takes a first call may take.
GOALS = ((COMPILED, LLVM, 1.2), (WRITTEN, LLVM_WRITTEN, 1.2), (KEPT, LLVM_FILE, 1.5))


def processes(_: Effort) -> int:
    """Return the number of processes; first calls are timed in others, by `finish`."""
    return 1


def measure(_: Effort) -> Section:
    """Return the section, which `finish` fills."""
    return Section("first", METHOD)


class Llvm:
    """What LLVM takes by itself, for the IR that nativecall writes; each method gives ms."""

    def __init__(self) -> None:
        import llvmlite.binding as llvm

        from nativecall._codegen import trampoline

        # nativecall does not start LLVM where all that it needs is on disk.
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
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

    def compiled(self, function: Any, directory: str = "") -> float:
        """Compile a function's IR and link it; write the object file to a directory, if any."""
        text = self.written(function._spec.signature)
        start = time.perf_counter_ns()
        data = self.emitted(text)
        self.link(self.llvm.JITLibraryBuilder().add_object_img(data))
        if directory:
            path = os.path.join(directory, f"peer{len(self.kept)}")
            made = os.open(path + ".part", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            os.write(made, data)
            os.close(made)
            os.replace(path + ".part", path)
        return (time.perf_counter_ns() - start) / 1e6

    def compiled_to_file(self, function: Any) -> float:
        """The same with the file, beside those of nativecall."""
        return self.compiled(function, os.environ.get("NATIVECALL_CACHE_DIR", ""))

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
    """Time first calls, in a process that is used for nothing else."""
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
    peers = {
        LLVM: llvm.compiled,
        LLVM_WRITTEN: llvm.compiled_to_file,
        LLVM_FILE: llvm.linked,
    }
    times: dict[str, list[float]] = {name: [] for name in (OURS, *peers)}
    for function, values in made[:SIGNATURES]:
        subjects: list[tuple[str, Callable[[], float]]] = [
            (OURS, partial(_called, function, values)),
            *[(name, partial(take, function)) for name, take in peers.items()],
        ]
        random.shuffle(subjects)
        for name, sample in subjects:
            times[name].append(sample())
    return {"signatures": len(made[:SIGNATURES]), "times": times}


def _first(directory: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "bench.worker", "calls-once"],
        cwd=installed.ROOT,
        env={**os.environ, "NATIVECALL_CACHE_DIR": directory},
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(json.loads(done.stdout))


def finish(section: Section, effort: Effort) -> None:
    """Add the first calls, from processes of their own."""
    rows: dict[str, dict[str, list[float]]] = {COMPILED: {}, WRITTEN: {}, KEPT: {}}
    found: dict[str, Any] = {}
    try:
        for _ in range(effort.choose(5, 1)):
            with tempfile.TemporaryDirectory() as directory:
                for row, where in ((COMPILED, ""), (WRITTEN, directory), (KEPT, directory)):
                    found = _first(where)
                    for name, values in found["times"].items():
                        rows[row].setdefault(name, []).extend(values)
    except subprocess.CalledProcessError as error:
        section.absent["first calls"] = error.stderr.strip().splitlines()[-1]
        return
    for row, peers in (
        (COMPILED, (LLVM,)),
        (WRITTEN, (LLVM_WRITTEN, LLVM)),
        (KEPT, (LLVM_FILE,)),
    ):
        measured = {name: rows[row][name] for name in (OURS, *peers)}
        section.groups.append(Group(row, "ms", peers[0], measured))
    for name, times in (("compiled", rows[WRITTEN]), ("from the disk cache", rows[KEPT])):
        figures = {
            "fastest": min(times[OURS]),
            "median": statistics.median(times[OURS]),
            "slowest": max(times[OURS]),
        }
        section.figures[f"first call {name}, ms"] = figures
    section.figures["signatures"] = found["signatures"]
