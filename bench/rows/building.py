"""Building the slot table of a type: mean time and failures, beside the original's algorithm."""

from __future__ import annotations

from bench.rows import Effort, cprograms
from bench.section import Section

METHOD = (
    "ns per table, built from random key sets and freed, by a C program "
    "(bench/c/slottable_build.c). nativecall's builder and the algorithm that SEP 200 describes "
    "take turns on the same key sets; 'best' is the mean time of the best round, 'mean' that of "
    "all rounds; every key of every table is looked up afterwards. 'failures' are key sets for "
    "which no table was found."
)


def processes(effort: Effort) -> int:
    """Return the number of processes."""
    return effort.choose(1, 1)


def measure(effort: Effort) -> Section:
    """Run the program."""
    section = Section("build", METHOD)
    try:
        section.figures = cprograms.run("slottable_build", effort.choose(4096, 1024))
    except cprograms.ProgramError as error:
        section.absent["slot table build"] = str(error)
    return section
