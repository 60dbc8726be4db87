"""Timing: interleaved samples, and the statistics that are read from them.

A sample is the mean time of one operation over a tight loop of a few hundred microseconds. Samples
of all subjects of a row are taken in rounds: each round takes one sample of every subject, in an
order shuffled anew, so a drift of the machine falls on all of them alike. A ratio of two subjects
is formed inside each round and its median taken over the rounds; it is never the ratio of two
numbers from different times. A subject's own figures are the minimum and the quartiles.
"""

from __future__ import annotations

import gc
import itertools
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

UNROLL = 20


@dataclass(frozen=True)
class Summary:
    """Minimum, quartiles and number of a list of samples, in the unit of the samples."""

    minimum: float
    lower: float
    median: float
    upper: float
    count: int


def summarise(samples: Sequence[float]) -> Summary:
    """Return the minimum and quartiles of `samples`, which must not be empty."""
    if len(samples) == 1:
        lower = median = upper = samples[0]
    else:
        lower, median, upper = statistics.quantiles(samples, n=4, method="inclusive")
    return Summary(min(samples), lower, median, upper, len(samples))


def ratios(numerator: Sequence[float], denominator: Sequence[float]) -> Summary:
    """Return the summary of the round-by-round ratios of two aligned lists of samples."""
    return summarise([a / b for a, b in zip(numerator, denominator, strict=True)])


def differences(left: Sequence[float], right: Sequence[float]) -> Summary:
    """Return the summary of the round-by-round differences of two aligned lists of samples."""
    return summarise([a - b for a, b in zip(left, right, strict=True)])


def python_loop(
    statement: str, names: Mapping[str, object], unroll: int = UNROLL
) -> Callable[[int], float]:
    """Return a function of a repeat count: mean ns for one execution of `statement`.

    The statement is unrolled `unroll` times in a function compiled for this subject alone, and its
    names are local variables. CPython specialises call sites in place, so a loop shared by two
    subjects would be specialised for neither, and a call through a global or an attribute would
    time that look-up as well. An empty `statement` gives the cost of the loop itself, per unrolled
    execution.
    """
    body = "".join(f"        {statement or 'pass'}\n" for _ in range(unroll if statement else 1))
    source = (
        f"def loop(_repeats, _clock, {', '.join(names)}):\n"
        "    _start = _clock()\n"
        "    for _ in _repeats:\n"
        f"{body}"
        "    return _clock() - _start\n"
    )
    namespace: dict[str, Callable[..., int]] = {}
    exec(compile(source, f"<bench: {statement}>", "exec"), namespace)
    loop, values = namespace["loop"], tuple(names.values())

    def sample(repeats: int) -> float:
        elapsed = loop(itertools.repeat(None, repeats), time.perf_counter_ns, *values)
        return elapsed / (repeats * unroll)

    return sample


def calibrate(sample: Callable[[int], float], per_repeat: int, target_ns: float) -> int:
    """Return the repeat count at which a call of `sample` lasts about `target_ns`.

    `sample` returns the mean ns of one operation and does `per_repeat` of them each repeat. It is
    also run long enough here for caches, branch predictors and CPython's specialisation to settle.
    """
    repeats = 1
    sample(1)  # what the first time alone takes, a parser perhaps, is not what is repeated
    while True:
        lasted = sample(repeats) * repeats * per_repeat
        if lasted >= target_ns / 4:
            return max(1, round(repeats * target_ns / lasted))
        repeats *= 4


def interleave(
    subjects: Mapping[str, Callable[[], float]], rounds: int, seed: int
) -> dict[str, list[float]]:
    """Take `rounds` samples of every subject, round by round, with the garbage collector off.

    Returns
    -------
    dict
        For each subject its samples in the order of the rounds, so that the lists are aligned.
    """
    order = list(subjects)
    shuffler = random.Random(seed)
    samples: dict[str, list[float]] = {name: [] for name in order}
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            shuffler.shuffle(order)
            for name in order:
                samples[name].append(subjects[name]())
    finally:
        if collecting:
            gc.enable()
    return samples
