"""Generated trampolines: the same values and the same exceptions as through libffi.

Nearly every test here makes a callable twice, once through generated code and once through libffi,
gives both the same values and compares what comes of it: result and its type, or exception and its
message.
"""

from __future__ import annotations

import array
import ctypes
import gc
import math
import sys
import weakref

import numpy as np
import pytest

import nativecall as nc
from nativecall._codegen import trampoline
from nativecall._signature.signature import Signature
from nativecall._signature.spelling import parse
from support.modes import generates
from support.trampolines import both, broken_function, outcome

pytestmark = generates


class Number:
    """Converts to any number."""

    def __float__(self):
        return 2.5

    def __complex__(self):
        return 2.5j

    def __index__(self):
        return 7


class Raising:
    def __float__(self):
        raise LookupError("no float")

    __index__ = __complex__ = __float__


class Real(float):
    pass


class Whole(int):
    pass


NUMBERS = [
    0, 1, -1, True, False, 2**7, -(2**7), 2**7 - 1, 2**8 - 1, 2**8, 2**15, -(2**15) - 1, 2**16 - 1,
    2**16, 2**30 - 1, 2**30, -(2**30), 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**32 - 1, 2**32,
    2**60, 2**62, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64 - 1, 2**64, 10**400,
    0.0, -0.0, 1.5, math.inf, -math.inf, math.nan, 1e39, -1e300, 5e-324, 3.4028235e38, 65504.0,
    65520, 1j, 1.5 - 2j, complex(math.inf, -0.0), complex(0, 1e39), None, "x", b"x", [],
    (1,), object, np.float32(1.5), np.float64(2.5), np.int8(-3), np.uint64(2**64 - 1),
    np.bool_(True), np.array(3), np.complex64(1 + 2j), Number(), Raising(), Real(3.5), Whole(9),
    Whole(2**70),
]  # fmt: skip
SCALARS = {
    "?": "bool", "b": "i8", "B": "u8", "h": "i16", "H": "u16", "i": "i32", "I": "u32", "q": "i64",
    "Q": "u64", "f": "f", "d": "d", "g": "g", "Zf": "zf", "Zd": "zd",
}  # fmt: skip


@pytest.mark.parametrize("code", SCALARS)
@pytest.mark.parametrize("gil", ["hold", "release"])
def test_scalars(echo, code, gil):
    generated, libffi = both(echo, f"echo_{SCALARS[code]}", f"{code}:{code}", gil=gil)
    for value in NUMBERS:
        expected = outcome(libffi, value)
        assert outcome(generated, value) == expected, value
        assert outcome(generated.builtin, value) == expected, value


@pytest.mark.parametrize("way", ["generated", "libffi"])
def test_results_of_every_width_arrive_whole(echo, way):
    for code, name in SCALARS.items():
        f = echo.function(f"echo_{name}", f"{code}:{code}")
        f._choose(way)
        size = f._spec.types[0].size
        if code in "bhiq":
            ends = (-(2 ** (8 * size - 1)), 2 ** (8 * size - 1) - 1)
        elif code in "BHIQ":
            ends = (0, 2 ** (8 * size) - 1)
        else:
            ends = (False, True) if code == "?" else (-1.5, 0.25)
        for end in ends:
            assert f(end) == end


def test_complex_long_double_results(echo):
    """What libffi cannot return."""
    f = echo.function("echo_zg", "Zg:Zg")
    if f._trampoline_kind() == "generated":
        assert f(1.5 - 2j) == 1.5 - 2j
        assert math.copysign(1, f(complex(0.0, -0.0)).imag) == -1


MIXED = (3, 1.5, np.array([2.0]), 0.5, 7, True, 200, (1.0, 2.0))


def test_arguments_are_converted_in_their_order(echo):
    """The first argument that does not convert is the one that is named, whatever its type."""
    generated, libffi = both(echo, "mixed", "d:id&dfq?BT{dd}")
    assert outcome(generated, *MIXED) == outcome(libffi, *MIXED)
    wrong = ("x", None, "x", 1e39, 2**63, 2, 256, (1.0,))
    for i in range(len(MIXED)):
        for j in range(i, len(MIXED)):
            values = [wrong[k] if k in (i, j) else MIXED[k] for k in range(len(MIXED))]
            assert outcome(generated, *values) == outcome(libffi, *values), (i, j)
    slow = (Whole(3), Real(1.5), MIXED[2], 1, np.int8(7), np.bool_(True), np.uint8(200), [1, 2])
    for i in range(len(MIXED)):
        values = [slow[k] if k == i else MIXED[k] for k in range(len(MIXED))]
        assert generated(*values) == generated(*MIXED) + (500.0 if i == 3 else 0)
        assert outcome(generated, *values) == outcome(libffi, *values), i


def test_a_conversion_runs_once(echo):
    calls = []

    class Counted:
        def __float__(self):
            calls.append("float")
            return 1.0

        def __index__(self):
            calls.append("index")
            return 1

    generated, libffi = both(echo, "mixed", "d:id&dfq?BT{dd}")
    values = (Counted(), 1.0, None, Counted(), 1, True, 1, (1.0, 1.0))
    assert generated(*values) == libffi(*values)
    assert calls == ["index", "float"] * 2


def test_wrong_counts_and_keywords(echo):
    plain = both(echo, "first", "double (double *x, int64_t n)")
    nothing = both(echo, "one", "h:")
    for generated, libffi in (plain, nothing):
        for values in ((), (1,), (1, 2, 3), ("x",) * 9):
            if len(values) != len(generated._spec.signature.args):
                assert outcome(generated, *values) == outcome(libffi, *values)
                assert outcome(generated.builtin, *values) == outcome(libffi.builtin, *values)
        for names in ({"n": 1}, {"y": 1}, {"x": 1, "n": 1, "z": 1}):
            assert outcome(lambda f=generated, names=names: f(**names)) == outcome(
                lambda f=libffi, names=names: f(**names)
            )
    a = np.array([4.5])
    for f in plain:
        assert f(a, n=1) == f(n=1, x=a) == 4.5


POINTERS = [
    None, np.array([4.5]), np.array([4.5])[::1], np.array([1.0, 2, 3, 4])[::2],
    np.array([4.5], "f"), np.array([1]), array.array("d", [4.5]), array.array("f", [4.5]),
    bytes(8), bytearray(8),
    memoryview(array.array("d", [4.5])), np.zeros((2, 2)).T, np.array(4.5),
    (ctypes.c_double * 1)(4.5),
    ctypes.pointer(ctypes.c_double(4.5)), ctypes.c_void_p(), "text", 5, 4.5, [4.5], object(),
    np.array([object()]), np.array([4.5], ">f8"),
]  # fmt: skip


def test_elements_of_every_type(echo):
    letters = "?bBhHiIqQefdg"
    arrays = [np.zeros(3, code) for code in letters + "lLFDGO"]
    arrays += [one.byteswap().view(one.dtype.newbyteorder()) for one in arrays[3:12]]
    arrays += [memoryview(one) for one in arrays[:13]]
    arrays += [array.array(code, [0]) for code in "bBhHiIlLqQfd"]
    arrays += [(getattr(ctypes, f"c_{name}") * 2)() for name in ("bool", "int", "long", "double")]
    arrays += [
        b"bytes",
        bytes(16),
        bytearray(16),
        memoryview(b"bytes"),
        memoryview(bytearray(8)).cast("q"),
    ]
    for one in [*arrays[:13]]:
        locked = one.copy()
        locked.flags.writeable = False
        arrays.append(locked)
    for letter in [*letters, "Zf", "Zd", "T{dd}"]:
        for readonly in (False, True):
            signature = Signature(
                parse("q:q").result, parse(f"v:&{letter}").args, readonly=(readonly,)
            )
            generated, libffi, compiled = (
                nc.wrap(echo.address("echo_p"), signature, name="echo") for _ in range(3)
            )
            generated._choose("generated")
            libffi._choose("libffi")
            taken = 0
            for value in arrays:
                found = [outcome(f, value) for f in (generated, libffi, compiled)]
                assert found == [found[1]] * 3, (letter, readonly, value)
                taken += found[0][0] == "int"
            assert taken > 0, (letter, readonly)


@pytest.mark.parametrize("signature", ["d:&dq", "double (const double *, int64_t)"])
def test_pointers(echo, signature):
    generated, libffi = both(echo, "first", signature)
    locked = np.array([4.5])
    locked.flags.writeable = False
    for value in [*POINTERS, locked]:
        count = 0 if value is None or isinstance(value, ctypes.c_void_p) else 1
        assert outcome(generated, value, count) == outcome(libffi, value, count), value
        assert outcome(generated, value, "x") == outcome(libffi, value, "x"), value


def test_pointer_results(echo):
    a = np.array([4.5])
    for f in both(echo, "echo_dp", "&d:&d"):
        assert f(None) is None
        assert f(a)[0] == 4.5
    for f in both(echo, "echo_p", "P:P"):
        assert f(None) is None
        assert int(nc._lib.ffi.cast("uintptr_t", f(a))) == a.ctypes.data


@pytest.mark.parametrize("way", ["generated", "libffi"])
def test_buffers_are_released_on_every_path(echo, way):
    f = echo.function("first", "d:&dh")
    f._choose(way)
    data = bytearray(8)
    view = memoryview(data).cast("d")
    before = sys.getrefcount(view)
    for count in (1, 2**20, "x", Raising()):
        outcome(f, view, count)
        assert sys.getrefcount(view) == before
    view.release()
    data.append(1)  # BufferError while anything is exported


@pytest.mark.parametrize("way", ["generated", "libffi"])
def test_buffers_that_die_during_the_call(echo, way):
    """The callee's callback drops all that is known of the memory: it stays until C returns."""
    f = echo.function("mixed", "d:id&dfq?BT{dd}")
    f._choose(way)
    box = [np.array([2.0])]

    class Dropping:
        def __index__(self):
            box.clear()
            gc.collect()
            return 7

    values = [*MIXED]
    values[2:5] = [box[0], 0.5, Dropping()]
    gone = weakref.ref(box[0])
    expected = f(*MIXED)
    assert f(*values) == expected
    del values
    assert box == []
    assert gone() is None


STRUCTS = {
    "T{dd}": ("pair", [(1.5, 2.5), (1, 2), [1.5, 2.5], (1.5,), (1.5, 2, 3), {"f0": 1, "f1": 2},
                       {"f0": 1}, {"x": 1}, "xy", 5, None, (1.5, "x"), (Raising(), 1),
                       (Real(1), 1)]),
    "T{d:x:d:y:}": ("pair", [(1.5, 2.5), {"x": 1.5, "y": 2.5}, {"x": 1.5}, {"z": 1}, (1.5, "x"),
                             np.array([(1.5, 2.5)], [("x", "d"), ("y", "d")])[0]]),
    "T{b:tag:d:x:h:n:}": ("padded", [(1, 2.5, 3), (128, 2.5, 3), (1, 2, 2**15), (-128, -0.0, -1),
                                     (True, 2.5, 3), (1.0, 2.5, 3), (2**40, 1.0, 1)]),
    "T{(2)T{dd}(3)i}": ("nested", [
        (((1.0, 2.0), (3.0, 4.0)), (5, 6, 7)), ([(1, 2), [3, 4]], np.arange(3)),
        (((1.0, 2.0),), (5, 6, 7)), (((1.0, 2.0), (3.0, 4.0)), (5, 6)),
        (((1.0, 2.0), (3.0, "x")), (5, 6, 7)), (((1.0, 2.0), 3.0), (5, 6, 7))]),
}  # fmt: skip


@pytest.mark.parametrize("signature", STRUCTS)
def test_structs(echo, signature):
    name, values = STRUCTS[signature]
    generated, libffi = both(echo, f"echo_{name}", f"{signature}:{signature}")
    for value in values:
        assert outcome(generated, value) == outcome(libffi, value), value
    answer = generated(values[0])
    assert generated(answer) == answer
    assert type(answer) is type(libffi(values[0]))
    assert not gc.is_tracked(answer)  # it keeps nothing


def test_small_packed_structs(echo):
    """What libffi takes apart by other rules than C."""
    f = echo.function("echo_packed", "=T{b:tag:i:n:}:=T{b:tag:i:n:}")
    if f._trampoline_kind() == "generated":
        assert f((-3, 2**31 - 1)) == (-3, 2**31 - 1)
        assert f({"tag": 5, "n": -7})._asdict() == {"tag": 5, "n": -7}


def test_tuples_that_are_not_what_they_hold(echo):
    class Other(tuple):
        def __iter__(self):
            return iter((7.0, 8.0))

    generated, libffi = both(echo, "echo_pair", "T{dd}:T{dd}")
    assert outcome(generated, Other((1.0, 2.0))) == outcome(libffi, Other((1.0, 2.0)))
    assert generated(Other((1.0, 2.0))) == (7.0, 8.0)
    keys = nc.wrap(echo.address("echo_pair"), "T{d:keys:d:values:}:T{d:keys:d:values:}")
    answer = keys((1.0, 2.0))
    assert keys(answer) == (1.0, 2.0)


def test_padding_is_zero(echo):
    for f in both(echo, "bytes_of", "Q:T{bdh}"):
        assert f((1, 1.0, 1)) == f([1, 1.0, 1]) == 0


def test_structs_with_pointers(echo):
    generated, libffi = both(echo, "total", "d:T{&d:data:q:count:}")
    a = np.arange(4.0)
    for value in (
        (a, 4),
        (a, 0),
        (None, 0),
        (a[::2], 2),
        (a.astype("f"), 1),
        (a, "x"),
        {"data": a},
    ):
        before = sys.getrefcount(a)
        assert outcome(generated, value) == outcome(libffi, value), value
        assert sys.getrefcount(a) == before
    for f in both(echo, "held", "i:T{O:object:i:n:}", gil="need"):
        things = [1, 2]
        before = sys.getrefcount(things)
        assert f((things, 40)) == 42
        assert sys.getrefcount(things) == before


VIEWS = [
    None, np.eye(3), np.eye(3)[::-1], np.arange(12.0).reshape(3, 4)[:, ::2], np.arange(3.0),
    np.eye(3, dtype="f"), np.eye(3, dtype=">f8"), memoryview(np.eye(2)), bytes(8), "x", 5,
    np.zeros((0, 2)),
]  # fmt: skip


def test_views(echo):
    generated, libffi = both(echo, "trace", "d:[2]d")
    locked = np.eye(2)
    locked.flags.writeable = False
    for value in [*VIEWS, locked]:
        before = sys.getrefcount(value)
        assert outcome(generated, value) == outcome(libffi, value), value
        assert value is None or sys.getrefcount(value) == before
    assert generated(np.arange(9.0).reshape(3, 3).T) == 12.0


def test_function_pointers(echo):
    generated, libffi = both(echo, "apply", "d:X{d:d}dT{dd}")
    square = nc.load("m", "double cos(double);").cos
    for value in (square, square.builtin, math.sin, lambda x: x * 10, None, 5, np.sin, "x"):
        if value is None:
            continue
        assert outcome(generated, value, 0.5, (1.0, 2.0)) == outcome(libffi, value, 0.5, (1.0, 2.0))
        assert outcome(generated, value, 0.5, 3) == outcome(libffi, value, 0.5, 3)

    def broken(x):
        raise LookupError("in Python")

    for f in (generated, libffi):
        assert outcome(f, broken, 0.5, (1.0, 2.0)) == (LookupError, "in Python")
        nested = outcome(f, lambda x, f=f: f(math.sin, x, (1.0, 2.0)), 0.5, (1.0, 0.0))
        assert nested[-1] == repr(math.sin(0.5) + 2)


def test_python_objects(echo):
    things = [object(), object()]
    for errors in ("none", "python", "null"):
        generated, libffi = both(echo, "item", "O:Oh", errors=errors)
        for index in (0, 1, 5, -1, -2, "x"):
            assert outcome(generated, things, index) == outcome(libffi, things, index)
        before = sys.getrefcount(things[0]), sys.getrefcount(things)
        for _ in range(100):
            assert generated(things, 0) is libffi(things, 0) is things[0]
        assert (sys.getrefcount(things[0]), sys.getrefcount(things)) == before
    same = both(echo, "has_gil", "i:b", gil="need")
    assert same[0](1) == same[1](1) == 101


def test_objects_beside_what_the_core_converts(echo):
    generated, libffi = both(echo, "pick", "O:OT{&d:data:q:count:}O[2]dgO")
    a, b, c = [1], [2], [3]
    for f in (generated, libffi):
        before = [sys.getrefcount(one) for one in (a, b, c)]
        assert f(a, (None, 1), b, None, 1.5, c) is a
        assert f(a, (None, 0), b, np.eye(2), 1.5, c) is b
        assert f(a, (None, 0), b, None, 1.5, c) is c
        assert f(a, (None, 0), b, None, 2.5, c) is None
        assert [sys.getrefcount(one) for one in (a, b, c)] == before
    for bad in ((a, (None, "x"), b, None, 1.5, c), (a, (None, 1), b, 5, 1.5, c)):
        assert outcome(generated, *bad) == outcome(libffi, *bad)


def test_objects_in_results(echo):
    thing = object()
    for f in both(echo, "give_held", "T{O:object:i:n:}:X{d:d}Oi"):
        before = sys.getrefcount(thing)
        for n in (1, 0):
            assert f(math.sin, thing, n) == (thing if n else None, n)
        answer = f(math.sin, thing, 5)
        assert answer.object is thing
        assert sys.getrefcount(thing) == before + 1
        del answer
        assert sys.getrefcount(thing) == before


def test_objects_in_structs_that_python_functions_get(echo):
    """C keeps its references."""
    thing, seen = object(), []

    def keep(held):
        seen.append(held)
        return 5

    for f in both(echo, "show_held", "i:X{i:T{O:object:i:n:}}Oi"):
        before = sys.getrefcount(thing)
        assert f(keep, thing, 3) == f(keep, thing, 0) == 5
        assert seen == [(thing, 3), (None, 0)]
        assert sys.getrefcount(thing) == before + 1
        seen.clear()
        assert sys.getrefcount(thing) == before


@pytest.mark.parametrize("errors", ["none", "python", "null", "errno"])
def test_objects_in_results_that_nobody_gets(echo, errors):
    """A Python function that C called has raised, so the result is given up, not lost."""
    thing = object()
    for name, signature, more in (
        ("give", "O:X{d:d}O", ()),
        ("give_held", "T{O:object:i:n:}:X{d:d}Oi", (3,)),
    ):
        if errors == "null" and more:
            continue
        for f in both(echo, name, signature, errors=errors):
            before = sys.getrefcount(thing)
            for _ in range(50):
                assert outcome(f, broken_function, thing, *more) == (LookupError, "the cause")
            assert sys.getrefcount(thing) == before


def test_many_numbers(echo):
    """More than are converted inline, which takes LLVM its time; the others by the core."""
    types, values, total = "", [], 0.0
    for i in range(15):
        types += "hdT{dd}"
        values += [i - 7, i / 4, (0.5 * i, -1.5)]
        weights = [(i - 7), i / 4, 0.5 * i, -1.5]
        total += sum((4 * i + 1 + k) * weight for k, weight in enumerate(weights))
    generated, libffi = both(echo, "weigh", f"d:{types}h")
    for f in (generated, libffi):
        assert f(*values, 9) == total + 9
        assert f(*values[:-1], {"f0": 7, "f1": -1.5}, Whole(9)) == total + 9
    seen = []

    class Seen(Number):
        def __init__(self, name):
            self.name = name

        def __float__(self):
            seen.append(self.name)
            return 0.0

        __index__ = None

    given = [*values]
    given[1], given[4], given[-2] = Seen("first"), Seen("second"), Seen("last")
    for f in (generated, libffi):
        seen.clear()
        f(*given, 9)
        assert seen == ["first", "second", "last"], "once each, in order"
        for wrong in range(len(given)):
            bad = [*values]
            bad[wrong] = "x"
            assert outcome(f, *bad, 9) == outcome(generated, *bad, 9)
    signature = parse("d:" + "h" * 255)
    few = trampoline.intermediate(parse("d:" + "h" * 40)).count("trunc i64")
    assert trampoline.intermediate(signature).count("trunc i64") == few
