"""Native objects beside shared_ptr, virtual calls, and objects of Cython, nanobind and pybind11."""

from __future__ import annotations

import time
import timeit
from collections.abc import Callable
from functools import partial
from typing import Any

from bench import installed, timing
from bench.peers import NANOBIND, build, load_module
from bench.peers.kernels import Kernels
from bench.rows import Effort, cprograms
from bench.section import Group, Section

METHOD = (
    "Native lines are a C++ program's, bench/c/objects.cpp: ns of processor time for one, of a "
    "point of two doubles, in a process with a second thread, as every program for which the "
    "counts are atomic. Of nativecall's objects, and of CPython's, a thread reuses the memory; "
    "shared_ptr has malloc's. The lines take turns in each round, and so do a loop in Cython's C "
    "that makes and drops a cdef class with the GIL, and a Python loop that calls a Python method. "
    "Two threads are two that make and drop objects of their own: what one costs its thread. "
    "Python lines are ns of processor time for one statement, less an empty loop, on one object; "
    "classes of nativecall and Python have __slots__ = (), and nativecall's method is a C function."
)
TARGET_NS = 300_000.0
NATIVE, CYTHON, PYTHON = "nativecall", "Cython cdef class", "Python class, __slots__"
PYBIND11 = "pybind11"
SHARED, VIRTUAL = "C++ shared_ptr", "C++ virtual call"
AT = "nativecall, expected position"
PYTHON_METHOD = "Python method, from Python"
#: The rows of the program, and its lines for each subject; the reference first.
LINES: dict[str, dict[str, str]] = {
    "new and release": {SHARED: "new shared_ptr", NATIVE: "new native", CYTHON: CYTHON},
    "retain and release": {SHARED: "retain shared_ptr", NATIVE: "retain native"},
    "method by key": {
        VIRTUAL: "method virtual",
        NATIVE: "method native",
        AT: "method at its position",
        PYTHON_METHOD: PYTHON_METHOD,
    },
    "one of two threads": {"one thread": "one thread", "two threads": "two threads"},
}
CALL, MAKE = "call a method from Python", "make and drop"
STATEMENTS = {
    "read a field": "p.x",
    "write a field": "p.x = 2.0",
    MAKE: "cls()",
    CALL: "p.sum()",
}


def processes(effort: Effort) -> int:
    """Return the number of processes."""
    return effort.choose(3, 1)


def native_class() -> type:
    """The class of native objects, whose method is a C function."""
    nc = installed.import_nativecall()

    class Native(nc.NativeObject):
        __slots__ = ()
        x = nc.field("d")
        y = nc.field("d")
        sum = nc.method(Kernels().address_of("kernel_point_sum"), "d:&T{d:x:d:y:}")

    return Native


def python_class() -> type:
    """The class without any C."""

    class Python:
        __slots__ = ("x", "y")

        def __init__(self) -> None:
            self.x = self.y = 0.0

        def sum(self) -> float:
            return self.x + self.y

    return Python


#: The same class of each.
CLASSES: dict[str, Callable[[], Any]] = {
    CYTHON: lambda: load_module("cython_object", "bench_cython_object").Point,
    NATIVE: native_class,
    PYTHON: python_class,
    NANOBIND: lambda: load_module("nanobind", "bench_nanobind").Point,
    PYBIND11: lambda: load_module("pybind11", "bench_pybind11").Point,
}


def classes(section: Section) -> dict[str, type]:
    """Those that can be had; the section says which cannot."""
    found: dict[str, type] = {}
    for name, make in CLASSES.items():
        try:
            found[name] = make()
        except (build.BuildError, installed.NotInstalled) as error:
            section.absent[name] = str(error)
    return found


def sampler(cls: type, statement: str) -> Callable[[int], float]:
    """Return what gives the nanoseconds of one statement, from so many."""
    names = {"cls": cls, "p": cls()}
    timer = timeit.Timer(statement, timer=time.thread_time, globals=names)
    empty = timeit.Timer("pass", timer=time.thread_time)
    return lambda count: (timer.timeit(count) - empty.timeit(count)) / count * 1e9


def make_and_drop(count: int) -> float:
    """The nanoseconds of one object of Cython's, made and dropped in C with the GIL."""
    make = load_module("cython_object", "bench_cython_object").make
    begun = time.thread_time()
    make(count)
    return (time.thread_time() - begun) / count * 1e9


def rounds(effort: Effort, found: dict[str, type]) -> dict[str, list[float]]:
    """The lines of the program and those that take turns with it, each with its rounds."""
    lines: dict[str, list[float]] = {}
    beside: dict[str, Callable[[], float]] = {}
    count = effort.choose(2_000_000, 300_000)
    if CYTHON in found:
        beside[CYTHON] = partial(make_and_drop, count)
    if PYTHON in found:
        beside[PYTHON_METHOD] = partial(sampler(found[PYTHON], STATEMENTS[CALL]), 50_000)
    for _ in range(effort.choose(9, 3)):
        for line, samples in cprograms.run("objects", count, 1).items():
            lines.setdefault(line, []).extend(samples)
        for line, sample in beside.items():
            lines.setdefault(line, []).append(sample())
    return lines


def measure(effort: Effort) -> Section:
    """Time the statements, then run the program."""
    section = Section("objects", METHOD)
    found = classes(section)
    for row, statement in STATEMENTS.items():
        subjects = {}
        for name, cls in found.items():
            sample = sampler(cls, statement)
            subjects[name] = partial(sample, timing.calibrate(sample, 1, TARGET_NS))
        samples = timing.interleave(subjects, effort.choose(60, 20), effort.seed)
        section.groups.append(Group(row, "ns", next(iter(found)), samples))
    try:
        lines = rounds(effort, found)
    except cprograms.ProgramError as error:
        section.absent["native objects in C++"] = str(error)
        return section
    for row, names in LINES.items():
        samples = {subject: lines[line] for subject, line in names.items() if line in lines}
        section.groups.append(Group(row, "ns", next(iter(names)), samples))
    return section
