"""Which native objects live, and which of them only a cycle of native references keeps.

A debugging aid: with `NATIVECALL_TRACK_OBJECTS=1` in the environment when the first of native
objects is heard of, classes that are made from then on keep a list of their living objects. An
object is leaked when all its native references are fields of leaked objects: what has others, of
Python as a whole, of C code, of arrays, or can be reached from such an object, is not.
"""

from __future__ import annotations

import atexit
import sys
from collections import Counter, deque, namedtuple

from .. import _lib
from .._errors import refuse_reload

refuse_reload(globals(), "Leaks")

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

VARIABLE = "NATIVECALL_TRACK_OBJECTS"
_SHOWN = 20  # steps of a cycle, and cycles of a report
_types = _lib.types


class Leaks(namedtuple("Leaks", ["living", "leaked", "cycles"])):
    """What `leaks` found; as a text, a report.

    Attributes
    ----------
    living : dict
        The number of living objects by the names of their classes.
    leaked : dict
        The same of those that only leaked objects refer to, and so nobody will ever end.
    cycles : dict
        For each cycle of fields among these, such as ``Node.next -> Leaf.owner -> Node``, how often
        it is there. Objects that refer to each other in several ways are one cycle, the shortest.
    """

    __slots__ = ()
    living: dict[str, int]
    leaked: dict[str, int]
    cycles: dict[str, int]

    def __str__(self) -> str:
        lines = [f"native objects: {_sum(self.living)} living, {_sum(self.leaked)} leaked"]
        for name, count in self.leaked.items():
            lines.append(f"  {name}: {count} of {self.living[name]}")
        for path, count in list(self.cycles.items())[:_SHOWN]:
            lines.append(f"  cycle: {path}" + (f" ({count} times)" if count > 1 else ""))
        if len(self.cycles) > _SHOWN:
            lines.append(f"  and {len(self.cycles) - _SHOWN} other cycles")
        return "\n".join(lines)


Leaks.__module__ = "nativecall"


class _Living:
    """One living object, as it was seen."""

    __slots__ = ("count", "cycle", "links", "name", "number")

    def __init__(self, name: str, count: int) -> None:
        self.name = name
        self.count = count  # native references that no field explains
        self.links: list[tuple[str, _Living]] = []
        self.number = 0  # in the order in which the search for cycles came by
        self.cycle = 0  # the lowest number that the object leads to


def leaks() -> Leaks:
    """Count the living native objects, and find those that only a cycle of references keeps.

    The process must run with ``NATIVECALL_TRACK_OBJECTS=1`` in its environment, which costs each
    object two words and a lock; then a report of leaks is also written to stderr at exit. Threads
    that set references in the meantime may be seen halfway; those that make or end objects wait.

    Returns
    -------
    Leaks
        Named tuple (living, leaked, cycles); ``print(nativecall.leaks())`` is a report.

    Raises
    ------
    RuntimeError
        Objects are not tracked in this process.
    """
    seen = _types.living_objects()
    if seen is None:
        raise RuntimeError(
            f"native objects are not tracked in this process; start it with {VARIABLE}=1 in its "
            "environment"
        )
    found = {address: _Living(cls.__name__, count) for address, cls, count, _ in seen}
    for address, _, _, references in seen:
        for field, other in references:
            if other in found:
                found[address].links.append((field, found[other]))
                found[other].count -= 1
    leaked = _unreached(found.values())
    return Leaks(
        _counted([one.name for one in found.values()]),
        _counted([one.name for one in leaked]),
        _counted([_path(group) for group in _cycles(leaked)]),
    )


def _sum(counts: dict[str, int]) -> int:
    return sum(counts.values())


def _counted(names: list[str]) -> dict[str, int]:
    return dict(Counter(names).most_common())


def _unreached(living: Iterable[_Living]) -> list[_Living]:
    """The objects that cannot be reached from one with a reference that no field explains."""
    waiting = [one for one in living if one.count > 0]
    reached = set(waiting)
    while waiting:
        for _, other in waiting.pop().links:
            if other not in reached:
                reached.add(other)
                waiting.append(other)
    return [one for one in living if one not in reached]


def _cycles(objects: list[_Living]) -> list[list[_Living]]:
    """The groups of objects that all lead to each other (Tarjan's, without recursion)."""
    groups = []
    number = 0
    for start in objects:
        if start.number:
            continue
        path: list[_Living] = []  # of groups that are not complete
        on_path: set[_Living] = set()
        stack = [(start, 0)]
        while stack:
            one, at = stack.pop()
            if at == 0:
                number += 1
                one.number = one.cycle = number
                path.append(one)
                on_path.add(one)
            else:
                one.cycle = min(one.cycle, one.links[at - 1][1].cycle)
            while at < len(one.links):
                other = one.links[at][1]
                at += 1
                if not other.number:
                    stack += [(one, at), (other, 0)]
                    break
                if other in on_path:
                    one.cycle = min(one.cycle, other.number)
            else:
                if one.cycle == one.number:
                    group = [path.pop()]
                    while group[-1] is not one:
                        group.append(path.pop())
                    on_path.difference_update(group)
                    if len(group) > 1 or any([other is one for _, other in one.links]):
                        groups.append(group)
    return groups


def _path(group: list[_Living]) -> str:
    """The shortest way from the first object of a group back to it."""
    start = min(group, key=lambda one: one.number)
    inside = set(group)
    came: dict[_Living, tuple[str, _Living]] = {}
    waiting = deque([start])
    while start not in came:
        one = waiting.popleft()
        for field, other in one.links:
            if other in inside and other not in came:
                came[other] = (field, one)
                waiting.append(other)
    steps: list[str] = []
    one = start
    while not steps or one is not start:
        field, one = came[one]
        steps.append(f"{one.name}.{field}")
    steps.reverse()
    if len(steps) > _SHOWN:
        steps[_SHOWN:] = [f"... ({len(steps)} objects)"]
    return " -> ".join([*steps, start.name])


def _report() -> None:
    found = leaks()
    if found.leaked and sys.stderr is not None:
        print(found, file=sys.stderr)


if _types.living_objects() is not None:
    atexit.register(_report)
