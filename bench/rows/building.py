"""Building the slot table of a type: mean time and failures, beside the original's algorithm."""

from __future__ import annotations

from bench.rows import Effort, programs
from bench.section import Section

METHOD = (
    "Tables are built from random key sets by a C program, bench/c/slottable_build.c, which says "
    "how it measures; the algorithm that SEP 200 describes is built from the same key sets in the "
    "same run."
)


def processes(effort: Effort) -> int:
    """Return the number of processes."""
    return effort.choose(1, 1)


def measure(effort: Effort) -> Section:
    """Run the program."""
    section = Section("build", METHOD)
    try:
        section.figures = programs.run("slottable_build", effort.choose(1_000_000, 20_000))
    except programs.ProgramError as error:
        section.absent["slot table build"] = str(error)
    return section
