"""Python functions called from C, through the pointers that libraries make of them."""

from __future__ import annotations

from functools import partial
from typing import Any

from bench import timing
from bench.peers import build, callback_peers, load_module
from bench.peers.kernels import CALLBACKS, Row
from bench.rows import Effort
from bench.section import Group, Section

METHOD = (
    "ns for a call of a Python function from C, through a C function pointer that takes and gives "
    "numbers: the loop in C, the conversion of the arguments, the function itself (an addition or "
    "two) and the conversion of its result. The loop holds the GIL, or has given it up, so that "
    "each call must take it (bench/c/pointers.c). Interleaved in shuffled rounds, in several fresh "
    "processes pinned to one CPU, garbage collector off. The hand-written C keeps the function in "
    "a static variable and prints exceptions."
)
TARGET_NS = 300_000.0
HELD, NOT_HELD = "GIL held", "GIL not held"
NEEDS_GIL = 'nativecall callback, gil="need"'
TAKES_GIL = "nativecall callback"
CFUNCTYPE = "ctypes CFUNCTYPE"
CFFI = "cffi ffi.callback"
BY_HAND = "C written by hand"
PEERS: dict[str, callback_peers.CallbackPeer] = {
    NEEDS_GIL: callback_peers.needs_gil,
    TAKES_GIL: callback_peers.takes_gil,
    BY_HAND: callback_peers.by_hand,
    "Cython": callback_peers.cython,
    CFUNCTYPE: callback_peers.cfunctype,
    "ctypes PYFUNCTYPE": callback_peers.pyfunctype,
    CFFI: callback_peers.cffi_callback,
}


def processes(effort: Effort) -> int:
    """Return the number of processes."""
    return effort.choose(5, 1)


def row_name(row: Row, state: str) -> str:
    """Return what the group of a signature in a state of the GIL is called."""
    return f"{row.signature}, {state}"


def measure(effort: Effort) -> Section:
    """Time every peer with every row's signature, with the GIL held and without."""
    section = Section("callbacks", METHOD)
    try:
        loops = load_module("pointers", "bench_pointers")
    except build.BuildError as error:
        section.absent["callbacks"] = str(error)
        return section
    kept: list[Any] = []
    for state in (HELD, NOT_HELD):
        held = state == HELD
        for row in CALLBACKS:
            subjects = {}
            for name, peer in PEERS.items():
                try:
                    address, keep = peer(row, held)
                    kept.append(keep)
                    sampler = partial(loops.sample, address, row.signature, "sum", held)
                    count = timing.calibrate(sampler, 1, TARGET_NS)
                except Exception as error:
                    reason = f"{type(error).__name__}: {error}"
                    section.absent[f"{name} '{row_name(row, state)}'"] = reason
                else:
                    subjects[name] = partial(sampler, count)
            samples = timing.interleave(subjects, effort.choose(60, 25), effort.seed)
            reference = TAKES_GIL if TAKES_GIL in samples else BY_HAND
            section.groups.append(Group(row_name(row, state), "ns", reference, samples))
    return section
