"""C functions with another signature, or with arguments bound, called from C and by SciPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from bench import installed, timing
from bench.peers import build, load_module
from bench.peers.kernels import Kernels
from bench.rows import Effort
from bench.section import Group, Section

METHOD = (
    "ns for a call through a C function pointer, from C: of the function itself, of a thunk that "
    "was written in C and of what nativecall makes. 'dependent' adds the results up, 'independent' "
    "drops them; nothing can be lifted out of the loops (bench/c/pointers.c). Then microseconds "
    "for scipy.integrate.quad over a peak whose place and width are its arguments, a function of "
    "three numbers where SciPy wants one of an array. Interleaved in shuffled rounds, in several "
    "fresh processes pinned to one CPU."
)
TARGET_NS = 300_000.0
LOOPS = {"sum": "dependent", "each": "independent"}
DIRECT = "function pointer"
HAND_WRITTEN = "C thunk written by hand"
OURS = "nativecall"
PYTHON = "Python def"
QUAD = "quad over d:ddd"
PLACE = (0.3, 0.05)


@dataclass(frozen=True)
class Adapted:
    """A function and what is made of it."""

    name: str
    kernel: str
    signature: str
    wanted: str
    expected: float
    thunk: str  # the one in adapters.c
    make: Callable[[Any], Any]


ADAPTED = (
    Adapted(
        "d:ddd as d:i&d",
        "kernel_d_ddd",
        "d:ddd",
        "d:i&d",
        2.75,
        "pack",
        lambda f: f.convert("d:i&d"),
    ),
    Adapted("d:d as d:dP", "kernel_d_d", "d:d", "d:dP", 1.5, "drop", lambda f: f.convert("d:dP")),
    Adapted("f:f as d:d", "kernel_f_f", "f:f", "d:d", 1.5, "narrow", lambda f: f.convert("d:d")),
    Adapted(
        "d:ddd with two bound",
        "kernel_d_ddd",
        "d:ddd",
        "d:d",
        2.75,
        "bound",
        lambda f: f.bind(0.25, 2.0),
    ),
)


def processes(effort: Effort) -> int:
    """Return the number of processes."""
    return effort.choose(5, 1)


def measure(effort: Effort) -> Section:
    """Time calls of what is adapted, then quad."""
    section = Section("thunks", METHOD)
    try:
        loops = load_module("pointers", "bench_pointers")
        adapters = load_module("adapters", "bench_adapters")
    except build.BuildError as error:
        section.absent["thunks"] = str(error)
        return section
    kernels = Kernels()
    kept: list[Any] = []
    for adapted in ADAPTED:
        target = kernels.address_of(adapted.kernel)
        pointers = {
            DIRECT: (target, adapted.signature),
            HAND_WRITTEN: (adapters.thunk(adapted.thunk, target), adapted.wanted),
        }
        try:
            made = adapted.make(installed.import_nativecall().wrap(target, adapted.signature))
            kept.append(made)
            pointers[OURS] = (made.address(), adapted.wanted)
        except Exception as error:
            section.absent[f"{OURS} '{adapted.name}'"] = f"{type(error).__name__}: {error}"
        for loop, row in LOOPS.items():
            subjects = {}
            for name, (address, signature) in pointers.items():
                sampler = partial(loops.sample, address, signature, adapted.expected, loop, True)
                subjects[name] = partial(sampler, timing.calibrate(sampler, 1, TARGET_NS))
            samples = timing.interleave(subjects, effort.choose(60, 25), effort.seed)
            section.groups.append(Group(f"{adapted.name}, {row}", "ns", DIRECT, samples))
    measure_quad(section, kernels, adapters, effort)
    return section


def peak(x: float, at: float, width: float) -> float:
    """The integrand in Python."""
    return math.exp(-abs(x - at) / width)


def measure_quad(section: Section, kernels: Kernels, adapters: Any, effort: Effort) -> None:
    """Time SciPy's quad over the same integrand in every form that it takes."""
    target = kernels.address_of("kernel_peak")
    try:
        from scipy import LowLevelCallable
        from scipy.integrate import quad
    except ImportError as error:
        section.absent[QUAD] = f"{type(error).__name__}: {error}"
        return
    nc = installed.import_nativecall
    integrands: dict[str, Callable[[], Any]] = {
        OURS: lambda: nc().wrap(target, "d:ddd").to_scipy(),
        HAND_WRITTEN: lambda: LowLevelCallable(
            nc().wrap(adapters.thunk("pack peak", target), "d:i&d").to_capsule()
        ),
        PYTHON: lambda: peak,
    }
    expected = quad(peak, -1.0, 1.0, args=PLACE)[0]
    subjects = {}
    for name, make in integrands.items():
        try:
            integrand = make()
            if not math.isclose(quad(integrand, -1.0, 1.0, args=PLACE)[0], expected):
                raise ValueError("another result than that of the Python function")
        except Exception as error:
            section.absent[f"{name} '{QUAD}'"] = f"{type(error).__name__}: {error}"
            continue
        names = {"quad": quad, "f": integrand, "args": PLACE}
        sampler = timing.python_loop("quad(f, -1.0, 1.0, args)", names)
        subjects[name] = partial(sampler, timing.calibrate(sampler, timing.UNROLL, TARGET_NS))
    found = timing.interleave(subjects, effort.choose(60, 25), effort.seed)
    samples = {name: [value / 1000 for value in values] for name, values in found.items()}
    section.groups.append(Group(QUAD, "microseconds", HAND_WRITTEN, samples))
