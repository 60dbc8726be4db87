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
from bench.rows import first, libraries, lookup, making, values
from bench.section import Group, Section

POINTER = lookup.NAMES["plain"]
OFFSET = lookup.NAMES["offset"]
SLOT = lookup.NAMES["slot"]
CAPSULE = lookup.NAMES["capsule"]


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


def _values(section: Section) -> Iterator[Goal]:
    for row, peer, bound in values.GOALS:
        yield _ratio(f"{row}: {values.OURS} / {peer}", section, row, values.OURS, peer, bound)


def _first(section: Section) -> Iterator[Goal]:
    found = section.figures.get("first call, ms")
    what = "first call of a new signature"
    if found is None:
        yield Goal(what, 0.1, "ms", True, None, "not measured")
    else:
        detail = f"median of {found['fastest']:.3g} to {found['slowest']:.3g}"
        yield Goal(what, 0.1, "ms", True, found["median"], detail)
    for row, peer, most in first.GOALS:
        yield _ratio(f"{row} / {peer}", section, row, first.OURS, peer, most)


def _more(section: Section, row: str, subject: str, peer: str | None, bound: float) -> Goal:
    """Judge how much more than its peer, or than nothing, a subject takes."""
    group = _both(section.group(row), subject, peer or subject)
    what = f"{row}: {subject}" + (f" - {peer}" if peer else "")
    if group is None:
        return Goal(what, bound, "", True, None, "not measured")
    summary = group.difference(subject, peer) if peer else group.summaries()[subject]
    return Goal(what, bound, group.unit, True, summary.median, _spread(summary))


def _lookup(section: Section) -> Iterator[Goal]:
    for row, subject, peer, bound in lookup.MOST:
        yield _more(section, row, subject, peer, bound)
    for row in lookup.LOOPS.values():
        for subject in (OFFSET, SLOT):
            yield _against_capsule(section, row, subject)


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


JUDGES: Mapping[str, Callable[[Section], Iterator[Goal]]] = {
    "calls": _calls,
    "values": _values,
    "first": _first,
    "making": _making,
    "programs": _programs,
    "lookup": _lookup,
}


def judge(sections: Sequence[Section]) -> list[Goal]:
    """Return the goals that the sections cover."""
    return [goal for section in sections for goal in JUDGES[section.name](section)]
