"""Native threads without the GIL find and call what Python threads add and replace at once.

Eight threads that Python does not know look into a callable in every way that nativecallable.h
has, and call what they find. Meanwhile one Python thread adds many entries, those first
that a native thread has looked for in vain, and another one replaces functions. Each function says
which entry it belongs to (tests/ext/race.c).

The number of lookups is a hundred times `NATIVECALL_TEST_REPEAT`, 10^5 if it is not set. There are
512 entries, and 2048 where that is 10^6 or more.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import nativecall as nc
from nativecall import _lib
from support import build
from support.threads import each, turns

REPEAT = int(os.environ.get("NATIVECALL_TEST_REPEAT", "1000"))
LOOKUPS = 100 * REPEAT
NEEDS_GIL = _lib.FLAG_NEEDS_GIL


class Planned(NamedTuple):
    """An entry to be: its signature, the options it is added with, and the flags they mean."""

    signature: str
    options: dict[str, Any]
    flags: int


def planned(i: int) -> Planned:
    """Entry `i`: every third one needs the GIL; packed signatures have 1, 3 or 5 words."""
    gil, flags = [("hold", 0), ("need", NEEDS_GIL), ("release", _lib.FLAG_RELEASE_GIL)][i % 3]
    errno = i % 5 == 4
    pointers = "&" * (33 if i % 8 == 7 else 1)
    return Planned(
        f"q:q{pointers}({2 * i + 1})b",
        {"gil": gil, "errno": errno},
        flags | (_lib.FLAG_ERRNO if errno else 0),
    )


@pytest.fixture(scope="module")
def race(builder: Any, include: Path) -> Any:
    """The extension module of tests/ext/race.c."""
    return build.load_extension(builder.extension("race.c", "nc_race", include=include))


def address(race: Any, entry: int, generation: int = 0) -> int:
    """The function of an entry, or the one that may replace it."""
    return race.address(race.GENERATIONS * entry + generation)


def declare(race: Any, entries: list[Planned]) -> None:
    """Tell the extension the signatures, and the flags that their entries have."""
    race.declare([(entry.signature, entry.flags) for entry in entries])


class Writers:
    """The Python threads of the race.

    Parameters
    ----------
    race : module
        The extension, which has declared `entries`.
    f : NativeCallable
        With the first entry.
    entries : list of Planned
        The others are added in the order in which the native threads wish for them.
    """

    def __init__(self, race: Any, f: nc.NativeCallable, entries: list[Planned]) -> None:
        self.race = race
        self.f = f
        self.entries = entries
        self.order = [0]
        self.wishes = 0
        self.replaced = 0
        self.failed = False

    def add(self) -> None:
        """Add all entries."""
        missing = list(range(1, len(self.entries)))
        while missing and not self.failed:
            wish = self.race.wish()
            if wish in missing:
                self.wishes += 1
                missing.remove(wish)
                i = wish
            else:
                i = missing.pop(random.randrange(len(missing)))
            entry = self.entries[i]
            self.f.add(entry.signature, address(self.race, i), **entry.options)
            self.order.append(i)
        self.race.stop()

    def replace(self) -> None:
        """Put the other function into some entry, again and again."""
        while self.race.alive() and not self.failed:
            i = random.choice(self.order)
            entry = self.entries[i]
            other = address(self.race, i, self.replaced & 1)
            self.f.add(entry.signature, other, replace=True, **entry.options)
            self.replaced += 1

    def run(self) -> None:
        """Run both until the native threads have ended."""
        try:
            with turns(1e-4):
                each(self._guard, self.add, self.replace)
        finally:
            self.race.stop()
            while self.race.alive():
                time.sleep(0.001)

    def _guard(self, task: Any) -> None:
        try:
            task()
        except BaseException:
            self.failed = True
            raise


def test_native_threads_race_with_python_writers(race):
    entries = [planned(i) for i in range(race.ENTRIES if REPEAT >= 10_000 else 512)]
    declare(race, entries)
    lookups = 0
    while lookups < LOOKUPS:
        # A new callable each time, so that there is always something to add.
        f = nc.wrap(address(race, 0), entries[0].signature, **entries[0].options)
        writers = Writers(race, f, entries)
        race.start(f, f.builtin, min(LOOKUPS - lookups, 1_000_000))
        writers.run()
        total = race.result()
        assert (total["wrong"], total["lost"]) == (0, 0)
        for name in ("calls", "first", "misses", "refused", "passes"):
            assert total[name] > 0, name
        assert writers.wishes > 0
        assert writers.replaced > 0
        assert f.signatures == tuple(entries[i].signature for i in writers.order)
        for row, i in zip(f.entries, writers.order, strict=True):
            assert row.flags == entries[i].flags
            assert row.address in (address(race, i), address(race, i, 1))
        lookups += total["lookups"]


@pytest.mark.parametrize("first", [0, 1, 2, 7], ids=["holds", "needs", "releases", "five words"])
@pytest.mark.parametrize("of", ["callable", "view"])
def test_every_lookup_passes_over_flags_that_are_refused(race, first, of):
    order = [first, *(i for i in range(0, 600, 7) if i != first)]
    entries = [planned(i) for i in range(600)]
    declare(race, entries)
    f = nc.wrap(address(race, first), entries[first].signature, **entries[first].options)
    for i in order[1:]:
        f.add(entries[i].signature, address(race, i), **entries[i].options)
    target = f if of == "callable" else f.builtin
    for refuse in (0, NEEDS_GIL, _lib.FLAG_RELEASE_GIL | _lib.FLAG_ERRNO):
        for i in range(600):
            there = i in order and not entries[i].flags & refuse
            found = race.lookups(target, i, refuse)
            assert len(found) == 6
            assert set(found.values()) == {address(race, i) if there else None}, found
