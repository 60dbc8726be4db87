"""Whole programs, in nativecall and in each peer that can do them."""

from __future__ import annotations

import gc
import math
import time
from functools import partial

from bench import timing
from bench.peers import build
from bench.programs import OURS, PEERS, PROGRAMS, Program, Run, prepared
from bench.rows import Effort
from bench.section import Group, Section

METHOD = (
    "ms of processor time for a whole program (bench/programs), once what is made once is there. "
    "The loop is Python in all of them, and all must come to the same number: what is compared is "
    "the way to C and back. Programs of a row are interleaved in shuffled rounds, in fresh "
    "processes pinned to one CPU, garbage collector off. Cython's functions are written and "
    "compiled for each program, and so are the modules of cffi's API mode."
)


def processes(effort: Effort) -> int:
    """Return the number of processes."""
    return effort.choose(2, 1)


def once(run: Run) -> float:
    """Return the ms of processor time that a program takes."""
    start = time.process_time_ns()
    run()
    elapsed = time.process_time_ns() - start
    gc.collect(0)
    return elapsed / 1e6


def load(program: Program, absent: dict[str, str]) -> dict[str, Run]:
    """Return the program of each peer, run once; those that are absent with the reason."""
    found: dict[str, Run] = {}
    expected = None
    for peer in PEERS:
        try:
            run = prepared(peer, program)
            result = run()
            expected = result if expected is None else expected
            if not math.isclose(result, expected, rel_tol=1e-12):
                raise ValueError(f"came to {result!r}, not to {expected!r}")
        except (Exception, build.BuildError) as error:
            absent[f"{peer} '{program.title}'"] = f"{type(error).__name__}: {error}"
        else:
            found[peer] = run
    return found


def measure(effort: Effort) -> Section:
    """Time every program of every peer."""
    section = Section("programs", METHOD)
    for program in PROGRAMS:
        runs = load(program, section.absent)
        subjects = {peer: partial(once, run) for peer, run in runs.items()}
        if not subjects:
            continue
        samples = timing.interleave(subjects, effort.choose(5, 3), effort.seed)
        reference = OURS if OURS in samples else next(iter(samples))
        section.groups.append(Group(program.title, "ms", reference, samples))
    return section
