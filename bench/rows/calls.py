"""Calls from Python: every peer with every signature."""

from __future__ import annotations

from functools import partial

from bench import timing
from bench.peers import C_BUILTIN, ITSELF, PYTHON, all_peers, load_all
from bench.peers.kernels import ROWS
from bench.rows import Effort
from bench.section import Group, Section

METHOD = (
    "ns per call of one C function, in a for loop of 20 unrolled calls; function and arguments are "
    "local variables, the result is dropped. Each peer has a loop compiled for it alone. The cost "
    "of the loop itself, the median of an empty one, is subtracted; loading the arguments, the "
    "call and freeing the result are not. Samples of all peers of a row are interleaved in "
    "shuffled rounds, in several fresh processes pinned to one CPU, garbage collector off; ratios "
    "are medians of the rounds' ratios."
)
TARGET_NS = 300_000.0
EMPTY = "empty loop"
REFERENCES = (ITSELF, C_BUILTIN, PYTHON)


def processes(effort: Effort) -> int:
    """Return the number of processes: memory layout differs between them and costs some percent."""
    return effort.choose(9, 1)


def measure(effort: Effort) -> Section:
    """Time every peer that loads with every row's signature."""
    loaded = load_all(all_peers(), ROWS)
    section = Section("calls", METHOD, absent=loaded.absent)
    for signature, calls in loaded.calls.items():
        samplers = {
            name: timing.python_loop(call.statement, call.names) for name, call in calls.items()
        }
        samplers[EMPTY] = timing.python_loop("", {})
        subjects = {}
        for name, sampler in samplers.items():
            count = timing.calibrate(sampler, timing.UNROLL, TARGET_NS)
            subjects[name] = partial(sampler, count)
        samples = timing.interleave(subjects, effort.choose(35, 25), effort.seed)
        loop = timing.summarise(samples.pop(EMPTY)).median
        calls_alone = {name: [value - loop for value in values] for name, values in samples.items()}
        reference = next(name for name in REFERENCES if name in calls_alone)
        section.groups.append(Group(signature, "ns", reference, calls_alone))
    return section
