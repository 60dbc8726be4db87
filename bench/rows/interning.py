"""Interning a string that is interned already, beside Python's own, and from two threads."""

from __future__ import annotations

from functools import partial

from bench import timing
from bench.peers import build
from bench.rows import Effort, cprograms, lookup
from bench.section import Group, Section

METHOD = (
    "ns per call for sixteen signatures known to both registries, in turn, the string's length not "
    "given; nativecall's and CPython's loops are in one extension module (bench/c/lookup.c) and "
    "interleaved in shuffled rounds. Threads are measured by a C program, bench/c/intern.c, which "
    "gives the calls that two threads get through in the time of one (best of its rounds)."
)
TARGET_NS = 300_000.0
NATIVECALL = "nc_signature_intern"
PYTHON = "PyUnicode_InternFromString"


def processes(effort: Effort) -> int:
    """Return the number of processes."""
    return effort.choose(3, 1)


def measure(effort: Effort) -> Section:
    """Time both registries, then run the program once."""
    section = Section("intern", METHOD)
    try:
        module, missing = lookup.prepared()
    except build.BuildError as error:
        section.absent["interning"] = str(error)
        return section
    loops = {PYTHON: module.intern_python}
    if missing:
        section.absent[NATIVECALL] = missing
    else:
        loops[NATIVECALL] = module.intern_nativecall
    subjects = {
        name: partial(loop, timing.calibrate(loop, 1, TARGET_NS)) for name, loop in loops.items()
    }
    samples = timing.interleave(subjects, effort.choose(80, 25), effort.seed)
    section.groups.append(Group("known string", "ns", PYTHON, samples))
    return section


def finish(section: Section, effort: Effort) -> None:
    """Add the program's figures, once for all processes."""
    try:
        section.figures = cprograms.run("intern", effort.choose(4_000_000, 1_000_000))
    except cprograms.ProgramError as error:
        section.absent["interning from threads"] = str(error)
