"""callback.h: Python functions called from C: numbers, exceptions, callbacks within callbacks.

How often a failing callback is repeated is `NATIVECALL_TEST_REPEAT`, 10^4 if it is not set.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import threading
import traceback
import weakref

import pytest

from support.callbacks import FAILED, Custom, same
from support.erf import (
    NATIVE,
)

REPEAT = int(os.environ.get("NATIVECALL_TEST_REPEAT", "10000"))

# 3.12 limits recursion through C at compile time, whatever sys.setrecursionlimit() says.
LEVELS = 200 if sys.version_info[:2] == (3, 12) else 1000


# -- numbers -------------------------------------------------------------------------------------

BITS = {"char": 8, "short": 16, "int": 32, "long": 8 * ctypes.sizeof(ctypes.c_long)}
SIGNED = {
    "schar": 8,
    "short": 16,
    "int": 32,
    "long": BITS["long"],
    "longlong": 64,
    "ssize": 64,
    "int8": 8,
    "int16": 16,
    "int32": 32,
    "int64": 64,
}
UNSIGNED = {
    "uchar": 8,
    "ushort": 16,
    "unsigned": 32,
    "ulong": BITS["long"],
    "ulonglong": 64,
    "size": 64,
    "uint8": 8,
    "uint16": 16,
    "uint32": 32,
    "uint64": 64,
}
CODES = {8: "b", 16: "h", 32: "i", 64: "q"}


@pytest.mark.parametrize("word", [*SIGNED, *UNSIGNED])
def test_integers(c, word):
    bits = SIGNED.get(word) or UNSIGNED[word]
    code = CODES[bits] if word in SIGNED else CODES[bits].upper()
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if word in SIGNED else (0, (1 << bits) - 1)
    got = []
    for value in (0, 1, low, high, high - 1, low + 1):
        known = c.round_trip(word, lambda x: got.append(x) or x, value % (1 << 64))
        assert known == (f"{code}:{code}", True)
        assert got.pop() == value
    for value in (low - 1, high + 1, 1 << 80, -(1 << 80)):
        with pytest.raises(OverflowError, match=rf"^the result {value} does not fit in '"):
            c.round_trip(word, lambda x, value=value: value, 0)
    for value in (1.0, "1", None):
        with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
            c.round_trip(word, lambda x, value=value: value, 0)

    class Index:
        def __index__(self):
            return 5

    assert c.round_trip(word, lambda x: Index(), 5)[1]


@pytest.mark.parametrize(("word", "code"), [("double", "d"), ("float", "f"), ("longdouble", "g")])
def test_floats(c, word, code):
    assert c.round_trip(word, same, 12345) == (f"{code}:{code}", True)
    assert c.round_trip(word, int, 12345)[1]
    with pytest.raises(TypeError, match=r"^must be real number, not str$"):
        c.round_trip(word, str, 1)


def test_other_types(c):
    assert c.round_trip("boolean", same, 1) == ("?:?", True)
    assert c.round_trip("boolean", lambda x: [x], 1)[1]
    assert c.round_trip("boolean", lambda x: [], 0)[1]
    assert c.round_trip("pointer", same, 1 << 20) == ("P:P", True)
    assert c.round_trip("pointer", lambda x: x is None and x, 0)[1]
    if "cpp" not in c.__name__:
        assert c.round_trip("complex64", same, 3) == ("Zf:Zf", True)
        assert c.round_trip("complex128", same, 3) == ("Zd:Zd", True)
        with pytest.raises(TypeError):
            c.round_trip("complex128", str, 3)
    got = []
    assert c.observe(lambda *args: got.append(args) or "ignored") is None
    assert got == [(0.5, sys.maxsize * 2 + 1)]
    with pytest.raises(ZeroDivisionError):
        c.observe(lambda x, n: 1 // 0)


# -- exceptions ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "raised",
    [ValueError("v"), Custom(1, 2), KeyboardInterrupt(), SystemExit(3), StopIteration(4)],
    ids=lambda raised: type(raised).__name__,
)
@pytest.mark.parametrize("which", ["p", "d", "c", "C"])
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
    assert after[:2] == before[:2]
    assert abs(after[2] - before[2]) < 50
    if sys.platform == "linux":
        assert resident() - memory < 2 << 20


@pytest.mark.allocator
@pytest.mark.parametrize("name", ["ctypes", "native", "cffi_api", "scipy_ctypes", "capsule"])
def test_preparing_again_and_again_leaks_nothing(c, name):
    f = NATIVE[name]()
    for _ in range(100):
        c.integrate(f, 0, 1, 1)
    gc.collect()
    objects, memory = sys.getrefcount(f), resident() if sys.platform == "linux" else 0
    # SciPy is asked in Python for each, which takes a millisecond.
    for _ in range(REPEAT // 10 if name == "scipy_ctypes" else REPEAT):
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
        c.pending(lambda x: seen.append(sys.exc_info()) or 0.0, True)
    assert seen == [(None, None, None)]
    with pytest.raises(LookupError, match=r"^raised in C$"):
        c.pending(lambda x: 0.0, False)
    assert unraisable == []
    # The callback's own came first, and is the one that matters; the other is not lost.
    for before in (True, False):
        with pytest.raises(ZeroDivisionError):
            c.pending(lambda x: 1 / 0, before)
    assert [str(error) for error in unraisable] == ["raised in C", "raised in C"]


# -- nested --------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["p", "d", "pd"])
@pytest.mark.parametrize("holds", [True, False])
def test_a_thousand_deep(c, deep, which, holds):
    options = c.SCOPED | (c.HOLDS_GIL if holds else 0)
    order = []

    def descend(level):
        """A function of its own for each level: one that finds another's would be seen."""

        def f(x):
            order.append(level)
            if level == LEVELS:
                return 1.0
            inner = c.integrate(descend(level + 1), 0, 1, 1, which, options)[0]
            order.append(-level)
            return inner + 1

        return f

    assert c.integrate(descend(1), 0, 1, 2, which, options)[0] == LEVELS
    once = [*range(1, LEVELS + 1), *range(1 - LEVELS, 0)]
    assert order == once * 2


def test_every_level_calls_several_callbacks(c, deep):
    """Those that share a slot with outer ones, called in turn with siblings that do so as well."""
    options = c.HOLDS_GIL | c.SCOPED

    def level(depth):
        deeper = [True]

        def first(x):
            if depth == 60 or not deeper:
                return 0.0
            deeper.clear()
            return level(depth + 1)

        def second(x):
            return depth

        def third(x):
            return 2.0 * depth

        values = c.together([second, first, third], 0.0, "p", options)
        assert values[0] == values[5] == depth
        assert values[2] == values[3] == 2 * depth
        return values[1] + 1

    assert level(1) == 60.0


def test_exceptions_through_all_levels(c, deep):
    def f(x):
        f.depth += 1
        if f.depth == 200:
            raise Custom("from the bottom")
        return c.integrate(f, 0, 1, 1, "p")[0]

    f.depth = 0
    with pytest.raises(Custom, match=r"^from the bottom$") as info:
        c.integrate(f, 0, 1, 1, "p")
    assert len(traceback.extract_tb(info.value.__traceback__)) == 201


@pytest.mark.parametrize("which", ["p", "d"])
def test_endless_recursion_is_a_recursion_error(c, which):
    def f(x):
        return c.integrate(f, 0, 1, 1, which)[0]

    with pytest.raises(RecursionError):
        c.integrate(f, 0, 1, 1, which)
    assert c.integrate(lambda x: 2.0, 0, 1, 1, which)[0] == 2.0
    assert len(c.together([same] * c.POOL, 1.0, "p", c.HOLDS_GIL)) == 2 * c.POOL, "no slot is lost"


def test_the_pool(c, fails):
    functions = [lambda x, i=i: x + i for i in range(c.POOL + 1)]
    there = [float(i) for i in range(c.POOL)]
    message = (
        "all 16 C functions for callbacks of this signature are in use at once; the C code can "
        "lift that limit with a signature that has user_data, or with NC_CALLBACK_SCOPED"
    )
    for options in (c.HOLDS_GIL, c.HOLDS_GIL | c.SCOPED):
        assert c.together(functions[:-1], 0.0, "p", options) == there + there[::-1]
        # Siblings are all called by one function, so not even scoped ones can share.
        with fails(RuntimeError, message):
            c.together(functions, 0.0, "p", options)
    many = [lambda x, i=i: x + i for i in range(300)]
    there = [float(i) for i in range(300)]
    assert c.together(many, 0.0, "d", c.HOLDS_GIL) == there + there[::-1]

    def f(x):
        """Recursion without NC_CALLBACK_SCOPED ends at the pool's size."""
        f.depth += 1
        return c.integrate(f, 0, 1, 1, "p", c.HOLDS_GIL)[0]

    f.depth = 0
    with fails(RuntimeError, message):
        c.integrate(f, 0, 1, 1, "p", c.HOLDS_GIL)
    assert f.depth == c.POOL
    assert c.together(functions[:-1], 0.0, "p", c.HOLDS_GIL), "all slots are free again"


def test_a_kept_callback_keeps_its_function(c, deep):
    """What is not scoped is never shared, however deep others nest."""
    handle = c.hold(lambda x: x + 0.5, c.HOLDS_GIL)
    found = []

    def f(x):
        f.depth += 1
        found.append(c.call_held(handle, x)[0] - x)
        return x if f.depth == 100 else c.integrate(f, 0, 1, 1, "p")[0]

    f.depth = 0
    c.integrate(f, 0, 1, 1, "p")
    c.let_go(handle, True)
    assert found == [0.5] * 100


def test_no_slot_of_another_is_claimed_when_its_owner_has_gone(c, fails):
    """A scoped callback shares the slot of another thread's, which is released meanwhile."""
    full, running, released, done = (threading.Event() for _ in range(4))

    def other():
        held = [c.hold(lambda x: 1.0, c.SCOPED) for _ in range(c.POOL)]
        full.set()
        assert running.wait(30)
        for handle in held[1:]:
            assert c.call_held(handle, 0.0) == (1.0, 0)
        c.let_go(held[0])
        again = c.hold(lambda x: 2.0, c.SCOPED)
        assert c.call_held(again, 0.0) == (2.0, 0), "a scoped one of this thread may share it, too"
        c.let_go(again)
        released.set()
        assert done.wait(30)
        for handle in held[1:]:
            c.let_go(handle)

    thread = threading.Thread(target=other)
    thread.start()
    assert full.wait(30)
    values = []

    def f(x):
        if not values:
            values.append(111.0)
            running.set()
            assert released.wait(30)
            # The slot is f's alone now, but f's nevertheless.
            with fails(
                RuntimeError,
                "all 16 C functions for callbacks of this signature are in use at once; the C code "
                "can lift that limit with a signature that has user_data, or with "
                "NC_CALLBACK_SCOPED",
            ):
                c.hold(lambda x: 222.0, 0)
            inner = c.hold(lambda x: 222.0, c.SCOPED)
            values.append(c.call_held(inner, x)[0])
            c.let_go(inner)
            values.append(c.call_held(shared, x)[0])
        return 111.0

    shared = c.hold(f, c.SCOPED)
    try:
        assert c.call_held(shared, 0.5) == (111.0, 0)
        assert values == [111.0, 222.0, 111.0]
    finally:
        running.set()
        c.let_go(shared)
        done.set()
        thread.join()
    assert len(c.together([same] * c.POOL, 1.0, "p", c.HOLDS_GIL)) == 2 * c.POOL, "no slot is lost"


def test_the_outer_of_two_that_share_a_slot_is_released_first(c):
    found = []

    def outer(x):
        inner = c.hold(shares, c.SCOPED)
        found.append(c.call_held(inner, x)[0])
        found.append(c.call_held(held[0], x)[0])
        c.let_go(inner)
        found.append(c.call_held(inner, x)[0])
        return 0.0

    def shares(x):
        if found:
            return 111.0
        c.let_go(held[0])
        for number in (222.0, 333.0):
            following = c.hold(lambda x, number=number: number, c.SCOPED)
            found.append(c.call_held(following, x)[0])
            c.let_go(following)
        return 111.0

    held = [c.hold(outer, c.SCOPED) for _ in range(c.POOL)]
    assert c.call_held(held[0], 1.0) == (0.0, 1)
    # The inner one's function is the outer one's as well, which is stopped: so the sentinel.
    assert found == [222.0, 333.0, 111.0, 111.0, FAILED]
    assert c.call_held(held[0], 1.0) == (FAILED, 1)
    with pytest.raises(RuntimeError, match=r"^a callback was released while it ran$"):
        c.let_go(held[0])
    for handle in held[1:]:
        c.let_go(handle)
    assert len(c.together([same] * c.POOL, 1.0, "p", c.HOLDS_GIL)) == 2 * c.POOL, "no slot is lost"
