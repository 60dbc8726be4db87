"""Threads of Python and of C that take, cast, change and drop the same objects.

Each thread can have the last reference, native or Python's. Without the GIL, these threads run at
the same time. `$NATIVECALL_TEST_OBJECTS` is the number of operations.
"""

import gc
import os
import threading
import weakref

import pytest

import nativecall as nc
from support.threads import HAS_GIL, together

OPERATIONS = int(os.environ.get("NATIVECALL_TEST_OBJECTS", "160000"))
PLACES = 8


@pytest.fixture(autouse=True)
def ended(ext):
    """Every point that a test makes natively ends, once, and so does every Python object."""
    gc.collect()
    made, gone = ext.counts()
    yield
    for place in range(PLACES):
        ext.put(place, None)
    for _ in range(3):
        gc.collect()
    assert ext.counts()[0] - ext.counts()[1] == made - gone


def test_a_cast_while_others_drop_the_last_reference(ext):
    works = [lambda seed=seed: ext.pass_on(OPERATIONS // 8, seed) for seed in range(4)]
    natively = [lambda: ext.pass_on_in_threads(4, OPERATIONS // 8)]
    assert together(*works, *natively) == [0] * 5


def repeat(task):
    """A task that stops soon, so that a test takes as long with the GIL."""

    def run():
        for i in range(max(50, OPERATIONS // 400)):
            task(i)

    return run


def test_objects_of_python_classes_end_in_any_thread(ext):
    """With attributes, weak references, __del__ and, where they are collected, cycles."""
    made, gone = [], []

    def race():
        class Sub(ext.Point):
            def __init__(self, *values):
                super().__init__(*values)
                made.append(1)
                self.value = [self] if HAS_GIL and len(made) % 2 else weakref.ref(self)

            def __del__(self):
                gone.append(1)

        def take(i):
            one = ext.take(i)
            assert one.sum() == 7
            if type(one) is Sub:
                one.value = weakref.ref(one)
                assert one.value() is one

        together(
            repeat(lambda i: ext.put(i, Sub(3.0, 4.0))),
            repeat(take),
            repeat(take),
            repeat(lambda i: ext.pass_on(20, i)),
            repeat(lambda i: i % 20 or gc.collect()),
        )
        return weakref.ref(Sub)

    kept = race()
    for place in range(PLACES):
        ext.put(place, None)
    for _ in range(3):
        ext.NativeObject()  # releases the classes of objects that ended in native threads
        gc.collect()
    assert len(gone) >= len(made)  # again for each object that Python got again
    assert kept() is None


def test_references_in_fields_are_set_and_read(ext):
    class Node(nc.NativeObject):
        number = nc.field("q", atomic=True)
        next = nc.field("Node")

    nodes = [Node(i) for i in range(PLACES)]

    def link(i):
        nodes[i % 3].next = Node(i) if i % 2 else nodes[3 + i % 5]

    def read(i):
        found = nodes[i % 3].next
        assert found is None or found.number >= 0
        Node.number.add(nodes[i % PLACES], 1)

    together(*[repeat(work) for work in (link, link, read, read)])
    assert sum(node.number for node in nodes) == sum(range(PLACES)) + 2 * max(50, OPERATIONS // 400)


def test_the_collector_runs_while_objects_of_an_array_are_cast():
    def race():
        class Body(nc.NativeObject):
            mass = nc.field("d")

        bodies = nc.ObjectArray(Body, PLACES)
        stop = threading.Event()

        def cast(i):
            one = bodies[i % PLACES]
            one.me = one if HAS_GIL else [i]
            assert bodies[i % PLACES] is one

        def casts():
            repeat(cast)()
            stop.set()

        def collect():
            while not stop.is_set():
                gc.collect()

        together(casts, casts, collect)
        return weakref.ref(Body)

    kept = race()
    for _ in range(3):
        gc.collect()
    assert kept() is None


def test_classes_are_made_and_changed_while_objects_are_used(ext):
    class Base(nc.NativeObject):
        x = nc.field("d")

        @nc.method("d:&v")
        def twice(self):
            return 2 * self.x

    def derive(i):
        class Sub(Base):
            y = nc.field("d")

            def twice(self):
                return 3 * self.x

        one = Sub(1.0, 2.0)
        assert ext.call(one, "twice", "d:&v") == 3.0
        assert nc.native_object(ext.address(one), Base) is one

    def change(i):
        Base.note = i
        with pytest.raises(TypeError):
            Base.twice = None
        with pytest.raises(TypeError):
            Base(1.0).__class__ = nc.NativeObject

    def use(i):
        one = Base(2.0)
        assert (one.twice(), ext.call(one, "twice", "d:&v"), one.note) >= (4.0, 4.0, 0)

    Base.note = 0
    together(*[repeat(work) for work in (derive, derive, change, use)])
