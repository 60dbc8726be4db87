"""The goals of the design that a run covers, each judged from the run's own samples.

A goal is met when the figure is on the right side of its bound. The figure of a ratio or difference
is the median over the rounds. Where what is needed was not measured, a goal is neither met nor
missed and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from bench import programs, timing
from bench.peers import BUILTIN, C_BUILTIN, CFFI_POINTER, CTYPES, CYTHON, ITSELF, NANOBIND
from bench.peers.kernels import GENERATED, OVERLOADS, SCALARS
from bench.rows import (
    callbacks,
    clibraries,
    generated,
    importing,
    interning,
    jitted,
    libraries,
    lookup,
    making,
    objects,
    scaling,
    thunks,
    ufuncs,
)
from bench.section import Group, Section

POINTER = lookup.NAMES["plain"]
OFFSET = lookup.NAMES["offset"]
SLOT = lookup.NAMES["slot"]
PACKED = lookup.NAMES["packed"]
CAPSULE = lookup.NAMES["capsule"]
# What is to cost little more than the first entry of the callable itself.
FIRST = {
    OFFSET: (lookup.NAMES["offset_fourth"], lookup.NAMES["offset_view"]),
    SLOT: (lookup.NAMES["slot_fourth"],),
    PACKED: (lookup.NAMES["packed_fourth"], lookup.NAMES["packed_view"]),
}


@dataclass(frozen=True)
class Goal:
    """One goal, what was found for it, and whether that meets it (None: not measured)."""

    what: str
    bound: float
    unit: str
    at_most: bool
    found: float | None
    detail: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the figure is on the right side of the bound."""
        if self.found is None:
            return None
        return self.found <= self.bound if self.at_most else self.found >= self.bound


def _both(group: Group | None, *subjects: str) -> Group | None:
    return group if group and all(subject in group.samples for subject in subjects) else None


def _spread(summary: timing.Summary) -> str:
    return f"quartiles {summary.lower:.3g} to {summary.upper:.3g}"


def _ratio(
    what: str,
    section: Section,
    row: str,
    subject: str,
    peer: str,
    bound: float,
    at_most: bool = True,
) -> Goal:
    group = _both(section.group(row), subject, peer)
    if group is None:
        return Goal(what, bound, "x", at_most, None, "not measured")
    summary = group.ratio(subject, peer)
    return Goal(what, bound, "x", at_most, summary.median, _spread(summary))


def _calls(section: Section) -> Iterator[Goal]:
    yield _ratio("f.builtin d:d / hand-written METH_O", section, "d:d", BUILTIN, C_BUILTIN, 1.05)
    for peer, bound in ((CYTHON, 1.0), (NANOBIND, 0.9)):
        for row in ("d:d", "d:ddd"):
            yield _ratio(f"f(…) {row} / {peer}", section, row, ITSELF, peer, bound)
    for peer, bound in ((CTYPES, 10.0), (CFFI_POINTER, 8.0)):
        for row in ("d:d", "d:ddd"):
            for subject, call in ((ITSELF, "f(…)"), (BUILTIN, "f.builtin(…)")):
                what = f"{peer} / {call} {row}"
                yield _ratio(what, section, row, peer, subject, bound, at_most=False)


def _overloads(section: Section) -> Iterator[Goal]:
    for row in OVERLOADS:
        yield _ratio(f"f(…) {row.name} / {NANOBIND}", section, row.name, ITSELF, NANOBIND, 1.0)


def _generated(section: Section) -> Iterator[Goal]:
    for row in GENERATED:
        what = f"generated f.builtin {row.signature} / hand-written METH_FASTCALL"
        yield _ratio(what, section, row.signature, BUILTIN, C_BUILTIN, 1.1)
    for peer, bound in ((CFFI_POINTER, 8.0), (CTYPES, 10.0)):
        for signature in SCALARS:
            for subject, call in ((ITSELF, "f(…)"), (BUILTIN, "f.builtin(…)")):
                what = f"{peer} / generated {call} {signature}"
                yield _ratio(what, section, signature, peer, subject, bound, at_most=False)
    for name, bound in (("compiled", 2.0), ("from the disk cache", 0.3)):
        found = section.figures.get(f"first call {name}, ms")
        what = f"first call of a new signature, {name}"
        if found is None:
            yield Goal(what, bound, "ms", True, None, "not measured")
        else:
            detail = f"median of {found['fastest']:.3g} to {found['slowest']:.3g}"
            yield Goal(what, bound, "ms", True, found["median"], detail)
    for row, peer, most in generated.GOALS:
        yield _ratio(f"{row} / {peer}", section, row, generated.OURS, peer, most)
    trampolines = section.figures.get("trampolines")
    what = "trampolines of 10,000 callables over 50 signatures"
    detail = "not measured" if trampolines is None else ""
    yield Goal(what, 50.0, "trampolines", True, trampolines, detail)


def _callbacks(section: Section) -> Iterator[Goal]:
    ours = (
        (callbacks.NEEDS_GIL, callbacks.HELD_BY_HAND, 0.35, 0.2),
        (callbacks.TAKES_GIL, callbacks.HELD_BY_HAND, 0.45, 0.25),
        (callbacks.TAKES_GIL_ANEW, callbacks.TAKEN_BY_HAND, 0.45, 0.25),
    )
    row = "d:d"
    group = section.group(row)
    for subject, by_hand, *bounds in ours:
        for peer, bound in zip((callbacks.CFUNCTYPE, callbacks.CFFI), bounds, strict=True):
            goal = _ratio(f"{subject}, {row} / {peer}", section, row, subject, peer, bound)
            both = _both(group, by_hand, peer)
            if goal.found is not None and both:
                floor = both.ratio(by_hand, peer).median
                goal = replace(goal, detail=f"{goal.detail}; C written by hand {floor:.2g}x")
            yield goal


def _thunks(section: Section) -> Iterator[Goal]:
    for adapted in thunks.ADAPTED:
        for loop in thunks.LOOPS.values():
            what = f"{adapted.name}: time over the function pointer, {loop} calls"
            group = _both(section.group(f"{adapted.name}, {loop}"), thunks.OURS, thunks.DIRECT)
            if group is None:
                yield Goal(what, 1.0, "ns", True, None, "not measured")
            else:
                summary = group.difference(thunks.OURS, thunks.DIRECT)
                floor = group.difference(thunks.HAND_WRITTEN, thunks.DIRECT).median
                detail = f"{_spread(summary)}; {thunks.HAND_WRITTEN} {floor:.2f} ns"
                yield Goal(what, 1.0, "ns", True, summary.median, detail)
    what = f"quad over a converted d:ddd / {thunks.HAND_WRITTEN}"
    yield _ratio(what, section, thunks.QUAD, thunks.OURS, thunks.HAND_WRITTEN, 1.02)


def _lookup(section: Section) -> Iterator[Goal]:
    for row in lookup.LOOPS.values():
        for subject in (OFFSET, SLOT, PACKED):
            what = f"{subject}: time over a function pointer, {row} calls"
            group = _both(section.group(row), subject, POINTER)
            if group is None:
                yield Goal(what, 0.5, "ns", True, None, "not measured")
            else:
                summary = group.difference(subject, POINTER)
                yield Goal(what, 0.5, "ns", True, summary.median, _spread(summary))
    for subject, bound in ((OFFSET, 12.0), (SLOT, 20.0), (PACKED, 20.0)):
        what = f"{subject}: instructions over a function pointer"
        group = _both(section.group(lookup.INSTRUCTIONS), subject, POINTER)
        # The start of the process, which is counted too, differs by some from run to run.
        found = round(group.difference(subject, POINTER).median, 2) if group else None
        yield Goal(what, bound, "instructions", True, found, "" if group else "not measured")
    for row in lookup.LOOPS.values():
        for first, others in FIRST.items():
            for other in others:
                what = f"{other}: time over the first entry of f, {row} calls"
                yield _fastest(what, section, row, other, first, 1.5)
    native, original = lookup.SLOT_NAMES["native"], lookup.SLOT_NAMES["metaclass"]
    for count in lookup.SLOTS:
        for loop in lookup.LOOPS.values():
            row = lookup.slots_row(count, loop)
            yield _fastest(f"{row}: {native}, over {original}", section, row, native, original, 0.0)
    for row in lookup.LOOPS.values():
        for subject in (OFFSET, SLOT, PACKED):
            yield _against_capsule(section, row, subject)


def _fastest(what: str, section: Section, row: str, subject: str, peer: str, bound: float) -> Goal:
    """Compare the fastest samples, for what is a few cycles and all else is the machine's noise."""
    group = _both(section.group(row), subject, peer)
    if group is None:
        return Goal(what, bound, "ns", True, None, "not measured")
    fastest = min(group.samples[subject]), min(group.samples[peer])
    detail = f"fastest samples: {fastest[0]:.2f} against {fastest[1]:.2f} ns"
    return Goal(what, bound, "ns", True, fastest[0] - fastest[1], detail)


_RESOLUTION = 0.02  # ns: how far the differences of two equal loops spread


def _against_capsule(section: Section, row: str, subject: str) -> Goal:
    """Compare what the lookups cost by themselves: each less the call, in the same round."""
    what = f"{CAPSULE} / {subject}: lookup alone, {row} calls"
    group = _both(section.group(row), subject, CAPSULE, POINTER)
    if group is None:
        return Goal(what, 50.0, "x", False, None, "not measured")
    capsule = group.difference(CAPSULE, POINTER).median
    native = group.difference(subject, POINTER).median
    whole = timing.ratios(group.samples[CAPSULE], group.samples[subject]).median
    detail = f"{capsule:.2f} ns against {native:.2f} ns; with the call {whole:.1f}x"
    # A difference below the resolution counts as the resolution: the ratio is then a lower bound.
    return Goal(what, 50.0, "x", False, capsule / max(native, _RESOLUTION), detail)


def _making(section: Section) -> Iterator[Goal]:
    for goal in making.GOALS:
        what = f"{goal.row}: {goal.subject} / {goal.peer}"
        if goal.less is None:
            yield _ratio(what, section, goal.row, goal.subject, goal.peer, goal.bound)
            continue
        what = f"{goal.row}: ({goal.subject} - {goal.less}) / {goal.peer}"
        group = _both(section.group(goal.row), goal.subject, goal.less, goal.peer)
        if group is None:
            yield Goal(what, goal.bound, "x", True, None, "not measured")
            continue
        columns = [group.samples[name] for name in (goal.subject, goal.less, goal.peer)]
        rounds = zip(*columns, strict=True)
        summary = timing.summarise([(whole - less) / peer for whole, less, peer in rounds])
        yield Goal(what, goal.bound, "x", True, summary.median, _spread(summary))
    for row, subject, peer, bound in libraries.GOALS:
        yield _ratio(f"{row}: {subject} / {peer}", section, row, subject, peer, bound)
    found = section.figures.get("bytes", {})
    for name, bound in making.BYTES.items():
        detail = "" if name in found else "not measured"
        yield Goal(f"memory of {name}", bound, "bytes", True, found.get(name), detail)


def _programs(section: Section) -> Iterator[Goal]:
    for program in programs.PROGRAMS:
        group = _both(section.group(program.title), programs.OURS)
        peers = [name for name in group.samples if name != programs.OURS] if group else []
        if group is None or not peers:
            what = f"{program.title}: {programs.OURS} / the fastest peer"
            yield Goal(what, 1.0, "x", True, None, "not measured")
            continue
        fastest = min(peers, key=lambda name: group.summaries()[name].median)
        what = f"{program.title}: {programs.OURS} / {fastest}"
        goal = _ratio(what, section, program.title, programs.OURS, fastest, 1.0)
        reason = "" if goal.met else programs.REASONS.get((program.name, fastest), "")
        yield replace(goal, detail=f"{goal.detail}; {reason}" if reason else goal.detail)


def _clibraries(section: Section) -> Iterator[Goal]:
    for group in section.groups:
        for peer in clibraries.WAYS[1:]:
            what = f"{group.row}: {clibraries.WAYS[0]} / {peer}"
            yield _ratio(what, section, group.row, clibraries.WAYS[0], peer, 1.0)


def _scaling(section: Section) -> Iterator[Goal]:
    for line, (_, sizes, _) in scaling.LINES.items():
        found = section.figures.get(line, {}).get("growth")
        what = f"{line}: an item of {sizes[-1]:,} / of {sizes[0]:,}"
        detail = "" if found else "not measured"
        yield Goal(what, scaling.MOST, "x", True, found, detail)


def _objects(section: Section) -> Iterator[Goal]:
    ours, cython, shared = objects.NATIVE, objects.CYTHON, objects.SHARED
    yield _ratio("New + Release / make_shared", section, "new and release", ours, shared, 1.1)
    what = "New + Release / cdef class with the GIL"
    yield _ratio(what, section, "new and release", ours, cython, 1.0)
    yield _ratio("Retain + Release / shared_ptr", section, "retain and release", ours, shared, 1.0)
    row, virtual = "method by key", objects.VIRTUAL
    group = _both(section.group(row), ours, virtual)
    what = "method by key - C++ virtual call"
    if group is None:
        yield Goal(what, 1.0, "ns", True, None, "not measured")
    else:
        summary = group.difference(ours, virtual)
        yield Goal(what, 1.0, "ns", True, summary.median, _spread(summary))
    what = "a Python method / method by key"
    yield _ratio(what, section, row, objects.PYTHON_METHOD, ours, 8.0, at_most=False)
    for row in ("read a field", "write a field"):
        yield _ratio(f"{row} / cdef class", section, row, ours, cython, 1.0)
    for row in objects.STATEMENTS:
        for peer in (NANOBIND, objects.PYBIND11):
            yield _ratio(f"{row} / {peer}", section, row, ours, peer, 1.0)
    row, one, two = "one of two threads", "one thread", "two threads"
    group = _both(section.group(row), one, two)
    what = "objects: two threads / one"
    if group is None:
        yield Goal(what, 1.8, "x", False, None, "not measured")
    else:
        summary = group.ratio(one, two)
        yield Goal(what, 1.8, "x", False, 2 * summary.median, "by processor time")


def _intern(section: Section) -> Iterator[Goal]:
    nativecall, python = interning.NATIVECALL, interning.PYTHON
    what = f"interning a known string / {python}"
    yield _ratio(what, section, "known string", nativecall, python, 0.5)
    speedup = section.figures.get("speedup")
    control = section.figures.get("control")
    detail = "not measured" if speedup is None else f"threads that share nothing: {control}x"
    yield Goal("interning: two threads / one", 1.8, "x", False, speedup, detail)


def _import(section: Section) -> Iterator[Goal]:
    name, bare = "import nativecall", importing.BARE
    group = _both(section.group("wall time"), name, bare)
    note = (
        "editable install: may include a rebuild check; "
        if group and section.figures.get("nativecall_editable")
        else ""
    )
    if group is None:
        yield Goal(f"{name}: time", 30.0, "ms", True, None, "not measured")
    else:
        summary = group.difference(name, bare)
        yield Goal(f"{name}: time", 30.0, "ms", True, summary.median, note + _spread(summary))
    resident = section.figures.get("resident_mb", {}).get(name)
    detail = "not measured" if resident is None else note.rstrip("; ")
    yield Goal(f"{name}: resident memory", 5.0, "MB", True, resident, detail)


def _build(section: Section) -> Iterator[Goal]:
    sizes = section.figures.get("sizes", [])
    largest = next((size for size in sizes if size["keys"] == 64), None)
    what = "slot table of 64 random keys: mean time to build"
    if largest is None:
        yield Goal(what, 1000.0, "ns", True, None, "not measured")
    else:
        native, original = largest["nativecall"]["mean"], largest["original"]["mean"]
        detail = f"{original / native:.1f}x faster than SEP 200's algorithm"
        yield Goal(what, 1000.0, "ns", True, native, detail)
    what = "slot tables that could not be built"
    failures = sum(size["nativecall"]["failures"] for size in sizes)
    others = sum(size["original"]["failures"] for size in sizes)
    tables = section.figures.get("tables", 0) * len(sizes)
    detail = f"of {tables:,}; SEP 200's algorithm: {others:,}" if sizes else "not measured"
    yield Goal(what, 0.0, "tables", True, float(failures) if sizes else None, detail)


def _headers(section: Section) -> Iterator[Goal]:
    rows = {row["header"]: row for row in section.figures.get("headers", [])}
    bounds = {
        "nativecall_abi.h": {"lines": 200.0, "ms": 50.0, "text": 2048.0},
        "nativecallable.h": {"lines": 900.0},
        "callback.h": {"lines": 3000.0, "ms": 300.0},
    }
    units = {"lines": "lines", "ms": "ms", "text": "bytes"}
    for header, figures in bounds.items():
        for name, bound in figures.items():
            found = rows[header][name] if header in rows else None
            detail = "" if rows else "not measured"
            yield Goal(f"{header}: {name}", bound, units[name], True, found, detail)


def _jitted(section: Section) -> Iterator[Goal]:
    for row in (jitted.ARGUMENT, jitted.CONSTANT):
        for peer in (jitted.CFUNC, jitted.ADDRESS):
            what = f"native callable in a Numba loop / {peer}, {row}"
            yield _ratio(what, section, row, jitted.OURS, peer, 1.05)


def _ufuncs(section: Section) -> Iterator[Goal]:
    for size in ufuncs.SIZES:
        row = ufuncs.row(ufuncs.KNOWN, size)
        for subject in (ufuncs.OURS, ufuncs.CFUNC):
            # Within the quartiles: from 10^6 doubles on, memory decides.
            what = f"to_ufunc ({subject}) / {ufuncs.NUMBA}, {row}, lower quartile"
            group = _both(section.group(row), subject, ufuncs.NUMBA)
            found = None if group is None else group.ratio(subject, ufuncs.NUMBA)
            detail = "not measured"
            if found is not None:
                detail = f"median {found.median:.3g}, {_spread(found)}"
            yield Goal(what, 1.0, "x", True, None if found is None else found.lower, detail)
        row = ufuncs.row(ufuncs.POINTER, size)
        what = f"to_ufunc / {ufuncs.NUMPY}, {row}"
        yield _ratio(what, section, row, ufuncs.OURS, ufuncs.NUMPY, 1.02)


JUDGES: Mapping[str, Callable[[Section], Iterator[Goal]]] = {
    "calls": _calls,
    "overloads": _overloads,
    "generated": _generated,
    "callbacks": _callbacks,
    "thunks": _thunks,
    "ufuncs": _ufuncs,
    "jitted": _jitted,
    "programs": _programs,
    "clibraries": _clibraries,
    "scaling": _scaling,
    "lookup": _lookup,
    "build": _build,
    "objects": _objects,
    "intern": _intern,
    "import": _import,
    "making": _making,
    "headers": _headers,
}


def judge(sections: Sequence[Section]) -> list[Goal]:
    """Return the goals that the sections cover."""
    return [goal for section in sections for goal in JUDGES[section.name](section)]
