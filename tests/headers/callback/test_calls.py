"""callback.h: Python functions called from C: exceptions, callbacks within callbacks.

How often a failing callback is repeated is `NATIVECALL_TEST_REPEAT`, 10^4 if it is not set.
"""

import gc
import os
import sys
import traceback
import weakref

import pytest

from support.callbacks import Custom
from support.erf import (
    NATIVE,
)
from support.threads import HAS_GIL

REPEAT = int(os.environ.get("NATIVECALL_TEST_REPEAT", "10000"))

# 3.12 limits recursion through C at compile time, whatever sys.setrecursionlimit() says.
LEVELS = 200 if sys.version_info[:2] == (3, 12) else 1000


# -- exceptions ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "raised",
    [ValueError("v"), Custom(1, 2), KeyboardInterrupt(), SystemExit(3), StopIteration(4)],
    ids=lambda raised: type(raised).__name__,
)
@pytest.mark.parametrize("which", ["p", "d", "c"])
@pytest.mark.parametrize("holds", [True, False])
def test_exceptions_come_out_unchanged(c, raised, which, holds):
    calls = []

    def inner():
        raise raised

    def f(x):
        calls.append(x)
        if len(calls) == 3:
            inner()
        return 0.0

    raised.__traceback__ = None
    with pytest.raises(type(raised)) as info:
        c.integrate(f, 0, 1, 1000, which, c.HOLDS_GIL if holds else 0)
    assert info.value is raised
    assert len(calls) == 3, "nothing is called after the failure"
    names = [frame.name for frame in traceback.extract_tb(raised.__traceback__)]
    assert names[-2:] == ["f", "inner"]
    assert raised.__context__ is None
    assert raised.__cause__ is None


def test_context_and_cause(c):
    def f(x):
        try:
            raise KeyError("first")
        except KeyError as error:
            raise Custom("second") from error

    outer = LookupError("outer")

    def within():
        try:
            raise outer
        except LookupError:
            c.integrate(f)

    with pytest.raises(Custom) as info:
        within()
    assert type(info.value.__cause__) is KeyError
    assert info.value.__context__ is info.value.__cause__
    assert info.value.__context__.__context__ is outer


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.allocator
@pytest.mark.parametrize("which", ["p", "d"])
def test_exceptions_again_and_again_leak_nothing(c, which):
    raised = []

    def f(x):
        raised[:] = [Custom(x)]
        raise raised[0]

    def run(count):
        arrived = 0
        for _ in range(count):
            try:
                c.integrate(f, 0.0, 1.0, 5, which, 0)
            except Custom as error:
                frames = error.__traceback__, error.__traceback__.tb_next
                arrived += (
                    error is raised.pop()
                    and error.args == (0.1,)
                    and [frame.tb_frame.f_code for frame in frames] == codes
                    and frames[1].tb_next is None
                    and error.__context__ is error.__cause__ is None
                )
                last = weakref.ref(error)
                del frames
        assert arrived == count
        return last

    codes = [run.__code__, f.__code__]

    run(min(REPEAT, 2000))
    gc.collect()
    before = sys.getrefcount(f), sys.getrefcount(Custom), len(gc.get_objects())
    memory = resident() if sys.platform == "linux" else 0
    assert run(REPEAT)() is None
    gc.collect()
    after = sys.getrefcount(f), sys.getrefcount(Custom), len(gc.get_objects())
    assert after[0] == before[0]
    # Without the GIL, threads defer counts of classes.
    assert abs(after[1] - before[1]) < (1 if HAS_GIL else 50)
    assert abs(after[2] - before[2]) < 50
    if sys.platform == "linux":
        assert resident() - memory < 2 << 20


@pytest.mark.allocator
@pytest.mark.parametrize("name", ["native", "scipy_ctypes", "capsule"])
def test_preparing_again_and_again_leaks_nothing(c, name):
    f = NATIVE[name]()
    for _ in range(100):
        c.integrate(f, 0, 1, 1)
    gc.collect()
    objects, memory = sys.getrefcount(f), resident() if sys.platform == "linux" else 0
    for _ in range(REPEAT):
        c.integrate(f, 0, 1, 1)
    gc.collect()
    assert sys.getrefcount(f) == objects
    if sys.platform == "linux":
        assert resident() - memory < 2 << 20


def test_an_exception_of_the_c_code(c, monkeypatch):
    unraisable = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: unraisable.append(args.exc_value))
    seen = []
    # Before the call: the callback does not see it, and it is there again afterwards.
    with pytest.raises(LookupError, match=r"^raised in C$"):
        c.pending(lambda x: seen.append(sys.exc_info()) or 0.0, "before")
    assert seen == [(None, None, None)]
    with pytest.raises(LookupError, match=r"^raised in C$"):
        c.pending(lambda x: 0.0, "after")
    # C code that holds the GIL sees the callback's exception, and adds none.
    with pytest.raises(ZeroDivisionError) as info:
        c.pending(lambda x: 1 / 0, "if none is set")
    assert [frame.name for frame in traceback.extract_tb(info.tb)][1:] == ["<lambda>"]
    assert unraisable == []
    # The callback's own came first, and is the one that matters; the other is not lost.
    for when in ("before", "after"):
        with pytest.raises(ZeroDivisionError):
            c.pending(lambda x: 1 / 0, when)
    assert [str(error) for error in unraisable] == ["raised in C", "raised in C"]
    with pytest.raises(LookupError, match=r"^raised in C$"):
        c.unused()


# -- nested --------------------------------------------------------------------------------------


@pytest.mark.parametrize("holds", [True, False])
def test_a_thousand_deep(c, deep, holds):
    options = c.HOLDS_GIL if holds else 0
    order = []

    def descend(level):
        """A function of its own for each level: one that finds another's would be seen."""

        def f(x):
            order.append(level)
            if level == LEVELS:
                return 1.0
            inner = c.nested(descend(level + 1), x, options)
            order.append(-level)
            return inner + 1

        return f

    assert c.nested(descend(1), 0.0, options) == LEVELS
    assert order == [*range(1, LEVELS + 1), *range(1 - LEVELS, 0)]


def test_exceptions_through_all_levels(c, deep):
    def f(x):
        f.depth += 1
        if f.depth == 200:
            raise Custom("from the bottom")
        return c.nested(f, x)

    f.depth = 0
    with pytest.raises(Custom, match=r"^from the bottom$") as info:
        c.nested(f, 0.0)
    assert len(traceback.extract_tb(info.value.__traceback__)) == 201


def test_endless_recursion_is_a_recursion_error(c):
    def f(x):
        return c.nested(f, x)

    with pytest.raises(RecursionError):
        c.nested(f, 0.0)
    assert c.nested(lambda x: 2.0, 0.0) == 2.0


def test_the_innermost_is_found_whatever_is_released_first(c):
    assert c.two(lambda x: x + 1, lambda x: c.nested(lambda x: x + 2, x), 1.0) == (2.0, 3.0)
    with pytest.raises(ZeroDivisionError):
        c.two(lambda x: x, lambda x: 1 / 0, 1.0)
    with pytest.raises(TypeError, match="a callback must be"):
        c.two(lambda x: x, None, 1.0)
    assert c.nested(abs, -3.0) == 3.0
