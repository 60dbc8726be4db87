"""Leak checks on a debug build of CPython: no test file may leave more references or memory.

They apply to the files of `LEVELLED`, which test ownership, references and conversions. Those tests
run once, to fill the caches that they use, and then again. From one pass to the next, two numbers
must not grow: the sum of the reference counts of all objects reachable from those that the
collector tracks, and the number of allocated blocks. A leaked reference shows in the first number
if its object is still reachable; otherwise the object shows in the second.

`sys.gettotalrefcount` is not used here. NumPy's wheels are compiled for the release build, whose
`Py_INCREF` does not update that total, so it drifts with every use of NumPy. The child processes of
`test_leaks` do not use NumPy, and do check it.

A file that grows gets more passes, because some caches fill slowly; it fails if it grew in each of
the `PASSES`.

All other files run once. For them the debug build adds the interpreter's own assertions, which
abort the process.
"""

from __future__ import annotations

import gc
import os
import sys
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from _pytest.warnings import catch_warnings_for_item

import nativecall as nc
from support import compilecache

PASSES = int(os.environ.get("NATIVECALL_TEST_PASSES", "10"))
# More than the callbacks ever alive at once in one process of these tests.
PLACES = 20_000
# CPython's immortal objects (PEP 683) have meaningless counts above this.
IMMORTAL = 1 << 28
# Growth per pass of pytest, hypothesis and warning registries: a pass over forty empty tests grows
# by 13 references and 6 blocks. A single leak of one test may be smaller, so tests of leaks repeat
# their operations.
ALLOWED = 40
ALLOWED_A_TEST = 1 / 3


def tracked() -> list[Any]:
    """Return all objects that the collector tracks, including those frozen between tests."""
    gc.unfreeze()
    found = gc.get_objects()
    gc.freeze()
    return found


def measure() -> tuple[int, int]:
    """Count the references to all reachable objects, and the allocated blocks."""
    compilecache.forget()
    # The slot of a finished callback keeps its name until it is reused.
    callbacks = [nc.callback("v:", measure) for _ in range(PLACES)]
    del callbacks
    gc.unfreeze()
    for _ in range(3):
        gc.collect()
    blocks = sys.getallocatedblocks()
    found = tracked()
    found += gc.get_referents(*found)
    once = dict(zip(map(id, found), found, strict=True)).values()
    return sum(count for count in map(sys.getrefcount, once) if count < IMMORTAL), blocks


# Not listed are tests that:
# - compile with Numba, which keeps some seventy references and twenty blocks of each function, even
#   without this package;
# - create new names of classes and attributes in each pass, which CPython interns forever;
# - fill the caches of headers, ctypes, cffi and SciPy for many passes (the files below make the
#   structs of cffi once in a module, since the types of each new FFI fill a cache);
# - load new files, which stay loaded;
# - run in child processes, which leave nothing here;
# - concern only text, plans and code, without a Python object to keep.
TESTS = Path(__file__).parents[1]
LEVELLED = {
    "library/test_library.py",
    "plan/test_rules.py",
    "callback/test_exceptions.py",
    "callback/test_life.py",
    "callback/test_processes.py",
    "callback/test_values.py",
    "callable/test_callable.py",
    "callable/test_overloads.py",
    "call/test_call.py",
    "call/test_flags.py",
    "call/test_values.py",
    "core/test_class_changes.py",
    "values/test_pointers.py",
    "values/test_record.py",
    "values/test_scalars.py",
    "values/test_structs.py",
    "values/test_views.py",
}
_lost = [name for name in LEVELLED if not (TESTS / name).exists()]
assert not _lost, _lost


# Fixtures that run the test's subject in a child process.
OWN_PROCESS = {"python", "process"}


class Levels:
    """The plugin."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.grown = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if session.testsfailed or session.config.option.collectonly:
            return None
        files = [list(items) for _, items in groupby(session.items, lambda item: item.path)]
        for items, following in zip(files, [*files[1:], [None]], strict=True):
            self.run(session, items, following[0])
        session.testsfailed += self.grown
        return True

    def run(
        self, session: pytest.Session, items: list[pytest.Item], following: pytest.Item | None
    ) -> None:
        """Run the tests of one file pass after pass; `following` is the first test after them."""
        again = []
        if items[0].path.relative_to(TESTS).as_posix() in LEVELLED:
            # Child processes leave nothing in this one.
            again = [
                one for one in items if OWN_PROCESS.isdisjoint(getattr(one, "fixturenames", ()))
            ]
        first = again[0] if again else following
        for item, next_one in zip(items, [*items[1:], first], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=next_one)
            stop(session)
        if not again:
            return
        finalizers = kept_finalizers()
        growth: list[tuple[int, int]] = []
        allowed = ALLOWED + ALLOWED_A_TEST * len(again)
        before = measure()
        while len(growth) < PASSES:
            for item, next_one in zip(again, [*again[1:], first], strict=True):
                repeat(item, next_one)
                stop(session)
            for kept, count in finalizers:
                del kept[count:]
            after = measure()
            growth.append((after[0] - before[0], after[1] - before[1]))
            before = after
            if max(growth[-1]) <= allowed:
                break
        grew = min(max(one) for one in growth) > allowed
        self.grown += grew
        levels = ", ".join(f"{references:+}/{blocks:+}" for references, blocks in growth)
        self.lines.append(f"{items[0].path.name}: {levels}{' GREW' if grew else ''}")
        # The fixtures of the file.
        session._setupstate.teardown_exact(following)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        terminalreporter.section("references/blocks from each pass to the next")
        for line in self.lines:
            terminalreporter.write_line(line)


def repeat(item: pytest.Item, following: pytest.Item | None) -> None:
    """Run a test once more, under its warning filters.

    Only failures are reported, so that no report is kept.
    """
    with catch_warnings_for_item(item.config, item.ihook, when="runtest", item=item):
        reports = runtestprotocol(item, log=False, nextitem=following)
    for report in reports:
        if report.failed:
            item.ihook.pytest_runtest_logreport(report=report)


def kept_finalizers() -> list[tuple[list[Any], int]]:
    """Return the lists to which a lasting fixture appends an entry for each test that uses it.

    Between the tests of two files they return to their state after the first pass.
    """
    fixtures = [one for one in tracked() if issubclass(type(one), pytest.FixtureDef)]
    return [(one._finalizers, len(one._finalizers)) for one in fixtures]


def stop(session: pytest.Session) -> None:
    """Do what pytest's own loop does between two tests."""
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    if session.shouldstop:
        raise session.Interrupted(session.shouldstop)
