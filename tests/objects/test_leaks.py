"""The report of leaks: which objects only a cycle of native references keeps, and which cycle."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import nativecall as nc

CLASSES = """
import gc, sys
import nativecall as nc

class Node(nc.NativeObject):
    next = nc.field("Node")
    other = nc.field("Node")
    value = nc.field("d")

class Leaf(nc.NativeObject):
    owner = nc.field(nc.NativeObject)

class Owner(nc.NativeObject):
    leaf = nc.field(Leaf)

def pair():
    one = Owner(Leaf())
    one.leaf.owner = one
"""


def without_report(code):
    """The same, with an end that writes no report at exit."""
    return code + "\nimport os\nsys.stdout.flush()\nos._exit(0)\n"


@pytest.fixture
def tracked(python, monkeypatch):
    monkeypatch.setenv("NATIVECALL_TRACK_OBJECTS", "1")
    return lambda code, *args: python(CLASSES + code, *args)


def test_without_tracking_there_is_no_report(fails):
    assert os.environ.get("NATIVECALL_TRACK_OBJECTS") is None
    message = (
        "native objects are not tracked in this process; start it with NATIVECALL_TRACK_OBJECTS=1 "
        "in its environment"
    )
    with fails(RuntimeError, message):
        nc.leaks()


def test_living_objects_are_no_leaks(tracked):
    code = """
kept = [Node() for _ in range(3)]
kept[0].next = kept[1]
kept[1].next = kept[0]                          # a cycle, but Python has it
array = nc.ObjectArray(Node, 4)
array[0].next = array[0]
chain = Owner(Leaf())
found = nc.leaks()
print(found.living == {"Node": 7, "Owner": 1, "Leaf": 1}, found.leaked, found.cycles)
del kept, array, chain
found = nc.leaks()
print(found.living, found.leaked)
print(found)
"""
    *lines, first, second = tracked(without_report(code)).splitlines()
    assert lines == [
        "True {} {}",
        "{'Node': 3} {'Node': 3}",
        "native objects: 3 living, 3 leaked",
        "  Node: 3 of 3",
    ]
    assert {first, second} == {
        "  cycle: Node.next -> Node.next -> Node",
        "  cycle: Node.next -> Node",
    }


def test_cycles_are_named_with_their_fields(tracked):
    code = """
for _ in range(2):
    pair()
ring = [Node() for _ in range(30)]
for i, one in enumerate(ring):
    one.next = ring[(i + 1) % 30]
ring[5].other = Node(other=Node())              # hangs on the ring, and is no cycle
del ring, one
found = nc.leaks()
print(found.leaked)
for path, count in found.cycles.items():
    print(count, path)
"""
    first, *paths = tracked(without_report(code)).splitlines()
    assert first == "{'Node': 32, 'Owner': 2, 'Leaf': 2}"
    assert paths[0] in (
        "2 Owner.leaf -> Leaf.owner -> Owner",
        "2 Leaf.owner -> Owner.leaf -> Leaf",
    )
    assert paths[1] == "1 " + "Node.next -> " * 20 + "... (30 objects) -> Node"
    assert len(paths) == 2


def test_the_shortest_of_several_cycles(tracked):
    code = """
ring = [Node() for _ in range(1000)]
for i, one in enumerate(ring):
    one.next = ring[(i + 1) % 1000]
    one.other = ring[i - 1]                     # a list that is linked both ways
del ring, one
print(nc.leaks().cycles, sum(nc.leaks().leaked.values()))
"""
    found = tracked(without_report(code))
    assert found in [
        f"{{'Node.{a} -> Node.{b} -> Node': 1}} 1000\n"
        for a, b in (("next", "other"), ("other", "next"))
    ]


def test_a_cycle_that_is_broken_is_gone(tracked):
    code = """
one = Owner(Leaf())
one.leaf.owner = one
leaf = one.leaf
del one
print(nc.leaks().leaked)
leaf.owner = None
print(nc.leaks().living)
"""
    assert tracked(code) == "{}\n{'Leaf': 1}\n"


def test_a_report_is_written_at_exit(tmp_path, monkeypatch):
    code = CLASSES + "pair()\nkept = Node()\n"
    for value, report in (
        (
            "1",
            "native objects: 3 living, 2 leaked\n"
            "  {}: 1 of 1\n  {}: 1 of 1\n  cycle: {}.{} -> {}.{} -> {}\n",
        ),
        ("0", ""),
        ("", ""),
    ):
        monkeypatch.setenv("NATIVECALL_TRACK_OBJECTS", value)
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
        )
        names = ("Owner", "leaf", "Leaf", "owner")
        ways = [names, names[2:] + names[:2]]
        reports = [
            report.format(*classes, a, x, b, y, a)
            for a, x, b, y in ways
            for classes in (("Owner", "Leaf"), ("Leaf", "Owner"))
        ]
        assert done.stderr in reports
        assert done.stdout == ""


def test_objects_of_c_and_other_threads_are_tracked(tracked, ext):
    code = """
import importlib.util
spec = importlib.util.spec_from_file_location("nc_objects_ext", sys.argv[1])
ext = importlib.util.module_from_spec(spec)
spec.loader.exec_module(ext)
ext.begin()
print(ext.run(4, 5000))
print(nc.leaks().living)
print(ext.finish())
number = ext.hold(ext.point(1, 2))
print(nc.leaks()[:2])
point = ext.cast(number)
ext.drop(number)
point.next = point
del point
print(nc.leaks().cycles)
"""
    assert tracked(without_report(code), ext.__file__).splitlines() == [
        "0",
        "{'Point': 8}",
        "[1, 1, 1, 1, 1, 1, 1, 1]",
        "({'Point': 1}, {})",
        "{'Point.next -> Point': 1}",
    ]


# The locks of AddressSanitizer's allocator stay locked in a child, where another thread had one.
@pytest.mark.allocator
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_fork_waits_for_the_list_of_objects(tracked, ext):
    """While native threads make and end objects: a child makes some, and lists those there are."""
    code = """
import importlib.util, os, signal, threading, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads
spec = importlib.util.spec_from_file_location("nc_objects_ext", sys.argv[1])
ext = importlib.util.module_from_spec(spec)
spec.loader.exec_module(ext)
ext.begin()
over = threading.Event()

def work():
    while not over.is_set():
        ext.run(4, 5000)

working = threading.Thread(target=work, daemon=True)
working.start()
for _ in range(50):
    child = os.fork()
    if child == 0:
        signal.alarm(20)                        # for one that waits for a thread which is not there
        kept = Node(value=len(nc.leaks().living))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
over.set()
working.join()
print(ext.finish())
"""
    assert tracked(without_report(code), ext.__file__) == "[1, 1, 1, 1, 1, 1, 1, 1]\n"


@pytest.mark.nightly
def test_everything_else_works_as_ever(monkeypatch):
    """The tests of life and fields, in a process that tracks."""
    here = Path(__file__).parent
    monkeypatch.setenv("NATIVECALL_TRACK_OBJECTS", "1")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        + [str(here / f"test_{name}.py") for name in ("life", "fields", "arrays")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
