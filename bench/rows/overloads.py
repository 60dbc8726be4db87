"""Calls of overloaded callables, beside the overload chains of C++ binding generators."""

from __future__ import annotations

from bench.peers import load_all, overload_peers
from bench.peers.kernels import OVERLOADS
from bench.rows import Effort, calls
from bench.section import Section

METHOD = (
    "ns per call of a callable with several entries, called with one kind of values; a row names "
    "the entries in their order and the types of the values. nanobind and pybind11 have the same "
    "functions as overloads in the same order; one that runs another entry is absent. 'nativecall, "
    "the entry itself' is that one called directly: what is over it is the choice. Otherwise as "
    "calls are measured."
)


def processes(effort: Effort) -> int:
    """Return the number of processes."""
    return effort.choose(5, 1)


def measure(effort: Effort) -> Section:
    """Time every peer that has overloads with every row."""
    return calls.measure_loaded("overloads", METHOD, load_all(overload_peers(), OVERLOADS), effort)
