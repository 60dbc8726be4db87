"""A C function called in a loop that Numba compiles: as a native callable, and as Numba has it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from bench import installed, timing
from bench.rows import Effort
from bench.section import Group, Section

METHOD = (
    "ns for a call of a C function, x * 0.5 + 1.0, in a loop in a function of numba.njit that adds "
    "up the results; the loop is called from Python, and runs for about 0.3 ms. The C function is "
    "a numba.cfunc, the same in all: as itself, which is a first-class function of Numba's; as its "
    "ctypes function pointer, which is its address; and as the native callable that nc.wrap makes "
    "of it. It is an argument of the jitted function, or a global, which is a constant there. "
    "Interleaved in shuffled rounds, in several fresh processes pinned to one CPU."
)
TARGET_NS = 300_000.0
OURS, CFUNC, ADDRESS = "native callable", "cfunc", "cfunc's address, by ctypes"
ARGUMENT, CONSTANT = "argument", "constant"
Loop = Callable[[int], float]


def processes(effort: Effort) -> int:
    """Return the number of processes."""
    return effort.choose(5, 1)


def _as_argument(function: Any) -> Loop:
    import numba

    @numba.njit
    def loop(f: Any, n: int) -> float:
        total = 0.0
        for i in range(n):
            total += f(i * 0.001)
        return total

    return lambda n: loop(function, n)


def _as_constant(function: Any) -> Loop:
    import numba

    @numba.njit
    def loop(n: int) -> float:
        total = 0.0
        for i in range(n):
            total += function(i * 0.001)
        return total

    return loop


def _sampler(loop: Loop) -> Callable[[int], float]:
    def sample(count: int) -> float:
        start = time.perf_counter_ns()
        loop(count)
        return (time.perf_counter_ns() - start) / count

    return sample


def measure(effort: Effort) -> Section:
    """Time every kind of value, as an argument and as a constant."""
    section = Section("jitted", METHOD)
    try:
        import numba

        nc = installed.import_nativecall()
    except (ImportError, installed.NotInstalled) as error:
        section.absent["jitted"] = str(error)
        return section
    made = numba.cfunc("float64(float64)")(lambda x: x * 0.5 + 1.0)
    values = {OURS: nc.wrap(made), CFUNC: made, ADDRESS: made.ctypes}
    for row, loop in ((ARGUMENT, _as_argument), (CONSTANT, _as_constant)):
        subjects = {}
        for name, value in values.items():
            sample = _sampler(loop(value))
            for _ in range(3):  # Numba compiles at the first call, and learns more at the second
                sample(1000)
            count = timing.calibrate(sample, 1, TARGET_NS)
            subjects[name] = lambda sample=sample, count=count: sample(count)
        samples = timing.interleave(subjects, effort.choose(200, 60), effort.seed)
        section.groups.append(Group(row, "ns", CFUNC, samples))
    return section
