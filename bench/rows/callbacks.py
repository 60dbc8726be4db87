"""Python functions called from C, through the pointers that libraries make of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from bench import timing
from bench.peers import build, callback_peers, load_module
from bench.peers.kernels import POINT
from bench.rows import Effort
from bench.section import Group, Section

METHOD = (
    "ns for a call of a Python function from C, through a C function pointer: a loop in C, the "
    "conversion of the arguments, the function, and the conversion of its result. The function "
    "returns its first argument, or for a pointer or a struct a constant. The C code holds the "
    "GIL, or has given it up, as ctypes and cffi do when they call C code that then calls back; "
    "the callback must then take it (bench/c/pointers.c). 'Asked for' is a callback that would "
    "take the GIL and is called by code that holds it. Interleaved in shuffled rounds, in several "
    "fresh processes pinned to one CPU, garbage collector off. The hand-written C keeps the "
    "function in a static variable, prints exceptions and does nothing else. A pointer is an int "
    "for ctypes and a cffi pointer for the others, a struct an object of the library."
)
TARGET_NS = 300_000.0
NEEDS_GIL = 'nativecall callback, gil="need"'
TAKES_GIL = "nativecall callback, GIL asked for"
TAKES_GIL_ANEW = "nativecall callback, GIL taken"
HELD_BY_HAND = "C written by hand, GIL held"
TAKEN_BY_HAND = "C written by hand, GIL taken"
CFUNCTYPE = "ctypes CFUNCTYPE, GIL taken"
CFFI = "cffi ffi.callback, GIL taken"
#: Each with the peer, and whether the loop holds the GIL.
SUBJECTS: dict[str, tuple[callback_peers.CallbackPeer, bool]] = {
    NEEDS_GIL: (callback_peers.needs_gil, True),
    TAKES_GIL: (callback_peers.takes_gil, True),
    TAKES_GIL_ANEW: (callback_peers.takes_gil, False),
    HELD_BY_HAND: (callback_peers.by_hand, True),
    TAKEN_BY_HAND: (callback_peers.by_hand, False),
    "Cython, GIL held": (callback_peers.cython, True),
    "Cython, GIL taken": (callback_peers.cython, False),
    "ctypes PYFUNCTYPE, GIL asked for": (callback_peers.ctypes_prototype, True),
    CFUNCTYPE: (callback_peers.ctypes_prototype, False),
    "cffi ffi.callback, GIL asked for": (callback_peers.cffi_callback, True),
    CFFI: (callback_peers.cffi_callback, False),
}
#: The functions, and what they give for the arguments of pointers.c.
SIGNATURES: dict[str, tuple[Callable[..., Any], float]] = {
    "d:d": (lambda a: a, 0.5),
    "d:ddd": (lambda a, b, c: a, 0.5),
    "q:qqq": (lambda a, b, c: a, 1000.0),
    "d:P": (lambda p: 0.5, 0.5),
    f"d:{POINT}": (lambda p: 0.5, 0.5),
}
#: Those that were written in another language for the numbers only.
BY_HAND = (callback_peers.by_hand, callback_peers.cython)


def processes(effort: Effort) -> int:
    """Return the number of processes."""
    return effort.choose(5, 1)


def measure(effort: Effort) -> Section:
    """Time every peer with every signature."""
    section = Section("callbacks", METHOD)
    try:
        loops = load_module("pointers", "bench_pointers")
    except build.BuildError as error:
        section.absent["callbacks"] = str(error)
        return section
    kept: list[Any] = []
    for signature, (function, expected) in SIGNATURES.items():
        subjects = {}
        for name, (peer, held) in SUBJECTS.items():
            if peer in BY_HAND and signature not in callback_peers.NUMBERS:
                continue
            try:
                address, keep = peer(signature, function, held)
                kept.append(keep)
                sampler = partial(loops.sample, address, signature, expected, "sum", held)
                sampler(1)  # what is made once
                count = timing.calibrate(sampler, 1, TARGET_NS)
            except Exception as error:
                section.absent[f"{name} '{signature}'"] = f"{type(error).__name__}: {error}"
            else:
                subjects[name] = partial(sampler, count)
        samples = timing.interleave(subjects, effort.choose(60, 25), effort.seed)
        reference = next(name for name in SUBJECTS if name in samples)
        section.groups.append(Group(signature, "ns", reference, samples))
    return section
