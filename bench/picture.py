"""A picture of the whole programs: bars, as an SVG that suits light and dark pages.

    python -m bench --only programs --picture docs/programs.svg
    python -m bench --picture docs/programs.svg --of REPORT.json

The second draws what an earlier run reported. Each program has a scale of its own. Beside
nativecall's bar stands its median, beside a peer's how many times as long that one takes, as the
tables and goals say it (the median of the rounds' ratios), and below it why a peer is faster.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping
from typing import Any

from bench import svg
from bench.programs import OURS, PEERS, PROGRAMS, REASONS

TITLE, GAP = 24, 12
CHARACTERS = 118  # in a line of quiet text, in the widest of the usual fonts


def _time(ms: float) -> str:
    return f"{ms / 1000:.1f} s" if ms >= 1000 else f"{ms:.0f} ms" if ms >= 10 else f"{ms:.1f} ms"


def _ratio(times: float) -> str:
    return f"{times:.0f}×" if times >= 10 else f"{times:.2f}×"  # noqa: RUF001


def draw(report: Mapping[str, Any]) -> str:
    """Return the picture of a report, as `bench.report.to_json` makes it.

    Raises
    ------
    ValueError
        Where the report has no programs, or none of nativecall's.
    """
    section = next((one for one in report["sections"] if one["name"] == "programs"), None)
    groups = [] if section is None else section["groups"]
    rows = {group["row"]: group["subjects"] for group in groups if OURS in group["subjects"]}
    if not rows:
        raise ValueError("the report has no programs; make one with --only programs")
    parts: list[str] = []
    y = 0.0
    for program in PROGRAMS:
        subjects = rows.get(program.title)
        if subjects is None:
            continue
        y += TITLE
        parts.append(svg.text(0, y, program.title, "title"))
        times = {name: subjects[name]["ratio"]["median"] for name in PEERS if name in subjects}
        longest, shortest = max(times.values()), min(times.values())
        for name, ratio in sorted(times.items(), key=lambda item: item[1]):
            y += svg.LINE
            said = _time(subjects[name]["median"]) if name == OURS else _ratio(ratio)
            share = _share(ratio, shortest, longest)
            parts += svg.bar(y, name, share, said, ours=name == OURS)
        faster = [name for name, ratio in times.items() if ratio < 1]
        for name in faster:
            reason = REASONS.get((program.name, name))
            if reason is not None:
                for line in textwrap.wrap(f"{name}: {reason}", CHARACTERS):
                    y += svg.LINE
                    parts.append(svg.text(12, y, line, "quiet"))
        y += GAP
    versions = report["machine"]["versions"]
    used = ", ".join(f"{name} {versions[name]}" for name in ("cffi", "numba", "Cython"))
    machine = f"{report['machine']['python']}, {used}, {report['machine']['cpu']}"
    command = "python -m bench --only programs" + (" --quick" if report["quick"] else "")
    for note in (
        "Processor time: nativecall's median, and how many times that the others take. Each with a "
        "scale of its own, logarithmic where one takes over 20 times as long as another.",
        f"{machine}, {report['date'][:10]}: {command} --picture FILE",
    ):
        for line in textwrap.wrap(note, CHARACTERS):
            y += svg.LINE
            parts.append(svg.text(0, y, line, "quiet"))
    return svg.picture("Whole programs with nativecall and its peers", parts, y + GAP)


def _share(value: float, shortest: float, longest: float) -> float:
    """How long a bar is, of the longest one; logarithmic where they differ much."""
    if longest <= 20 * shortest:
        return value / longest
    least = shortest / 2
    return math.log(value / least) / math.log(longest / least)
