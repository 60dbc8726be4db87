"""Calls by their plans: values of every kind, those that do not suit, and what they keep.

Conversions alone (`stored`) are the oracle of what the interpreter converts by itself.
"""

import array
import ctypes
import gc
import math
import sys
import weakref

import numpy as np
import pytest

import nativecall as nc
from nativecall._cdecl.spelling import parse
from nativecall._types.signature import Signature
from support.outcomes import broken_function, outcome, stored


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
    name = f"echo_{SCALARS[code]}"
    f = echo.function(name, f"{code}:{code}", gil=gil)
    f._unwrap()
    ctype = parse(f"v:{code}").args[0]
    for value in NUMBERS:
        expected = outcome(stored, ctype, value, name)
        assert outcome(f, value) == expected, value
        assert outcome(f.builtin, value) == expected, value


def test_what_stands_above_a_narrow_result_is_not_read(echo):
    for size, codes in ((1, "bB"), (2, "hH"), (4, "iI")):
        for code in codes:
            f, g = (echo.function("echo_i64", f"{code}:q") for _ in range(2))
            g._unwrap()
            for value in (0x5A5A5A5A5A5A5A7F, -0x5A5A5A5A5A5A5A7F):
                low = value & (256**size - 1)
                sign = code.islower() and low >> (8 * size - 1)
                assert f(value) == f.builtin(value) == g(value) == low - 256**size * sign


def test_wrong_counts_and_keywords(echo, fails):
    f, a = echo.function("first", "double (double *x, int64_t n)"), np.array([4.5])
    for values in ((), (1,), (1, 2, 3), ("x",) * 9):
        said = rf"takes exactly 2 arguments \({len(values)} given\)"
        for g in (f, f.builtin):
            with pytest.raises(TypeError, match=said):
                g(*values)
    assert f(a, n=1) == f(n=1, x=a) == 4.5
    with fails(TypeError, "'first' is missing argument 1, 'x'"):
        f(n=1)
    with fails(TypeError, "'first' got multiple values for argument 'n'"):
        f(a, 1, n=1)


MIXED = (3, 1.5, np.array([2.0]), 0.5, 7, True, 200, (1.0, 2.0))


def test_arguments_are_converted_in_their_order(echo):
    """The first argument that does not convert is the one that is named, whatever its type."""
    f = echo.function("mixed", "d:id&dfq?BT{dd}")
    expected = f(*MIXED)
    wrong = ("x", None, "x", 1e39, 2**63, 2, 256, (1.0,))
    for i in range(len(MIXED)):
        for j in range(i, len(MIXED)):
            values = [wrong[k] if k in (i, j) else MIXED[k] for k in range(len(MIXED))]
            with pytest.raises((TypeError, ValueError, OverflowError), match="mixed") as info:
                f(*values)
            assert f"argument {i + 1} of 'mixed'" in str(info.value), (i, j)
    slow = (Whole(3), Real(1.5), MIXED[2], 1, np.int8(7), np.bool_(True), np.uint8(200), [1, 2])
    for i in range(len(MIXED)):
        values = [slow[k] if k == i else MIXED[k] for k in range(len(MIXED))]
        assert f(*values) == expected + (500.0 if i == 3 else 0), i


def test_a_conversion_runs_once(echo):
    calls = []

    class Counted:
        def __float__(self):
            calls.append("float")
            return 1.0

        def __index__(self):
            calls.append("index")
            return 1

    f = echo.function("mixed", "d:id&dfq?BT{dd}")
    values = (Counted(), 1.0, None, Counted(), 1, True, 1, (1.0, 1.0))
    assert f(*values) == f(1, 1.0, None, 1.0, 1, True, 1, (1.0, 1.0))
    assert calls == ["index", "float"]


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
            f, ahead = (nc.wrap(echo.address("echo_p"), signature, name="echo") for _ in range(2))
            f._unwrap()
            taken = 0
            for value in arrays:

                def pinned(value=value, f=f):
                    return nc._ext.pin(f._cif, "echo", 0, value).address

                found = [outcome(one, value) for one in (f, ahead)]
                assert found == [outcome(pinned)] * 2, (letter, readonly, value)
                taken += found[0][0] == "int"
            assert taken > 0, (letter, readonly)


@pytest.mark.parametrize("signature", ["d:&dq", "double (const double *, int64_t)"])
def test_pointers(echo, signature):
    f = echo.function("first", signature)
    f._unwrap()
    locked = np.array([4.5])
    locked.flags.writeable = False
    for value in [*POINTERS, locked]:
        count = 0 if value is None or isinstance(value, ctypes.c_void_p) else 1

        def pinned(value=value, count=count):
            held = nc._ext.pin(f._cif, "first", 0, value)
            return ctypes.c_double.from_address(held.address).value if count else -1.0

        expected = outcome(pinned)
        assert outcome(f, value, count) == expected, value
        if expected[0] == "float":
            expected = TypeError, "argument 2 of 'first' must be an integer (got str)"
        assert outcome(f, value, "x") == expected, value


def test_buffers_are_released_on_every_path(echo):
    f = echo.function("first", "d:&dh")
    data = bytearray(8)
    view = memoryview(data).cast("d")
    before = sys.getrefcount(view)
    for count in (1, 2**20, "x", Raising()):
        outcome(f, view, count)
        assert sys.getrefcount(view) == before
    view.release()
    data.append(1)  # BufferError while anything is exported


def test_buffers_that_die_during_the_call(echo):
    """The callee's callback drops all that is known of the memory: it stays until C returns."""
    f = echo.function("mixed", "d:id&dfq?BT{dd}")
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
    f = echo.function(f"echo_{name}", f"{signature}:{signature}")
    for value in values:
        assert outcome(f, value) == outcome(stored, f._cif.types[0], value, f"echo_{name}"), value
    answer = f(values[0])
    assert f(answer) == answer
    assert not gc.is_tracked(answer)  # it keeps nothing


def test_tuples_that_are_not_what_they_hold(echo):
    class Other(tuple):
        def __iter__(self):
            return iter((7.0, 8.0))

    f = echo.function("echo_pair", "T{dd}:T{dd}")
    assert f(Other((1.0, 2.0))) == (7.0, 8.0)
    keys = nc.wrap(echo.address("echo_pair"), "T{d:keys:d:values:}:T{d:keys:d:values:}")
    answer = keys((1.0, 2.0))
    assert keys(answer) == (1.0, 2.0)


def test_padding_is_zero(echo):
    f = echo.function("bytes_of", "Q:T{bdh}")
    assert f((1, 1.0, 1)) == f([1, 1.0, 1]) == 0


def test_structs_with_pointers(echo):
    f = echo.function("total", "d:T{&d:data:q:count:}")
    a = np.arange(4.0)
    before = sys.getrefcount(a)
    assert (f((a, 4)), f((a, 0)), f((None, 0)), f({"data": a, "count": 2})) == (6.0, 0.0, 0.0, 1.0)
    for value in ((a[::2], 2), (a.astype("f"), 1), (a, "x"), {"data": a}):
        expected = outcome(stored, f._cif.types[0], value, "total")
        assert issubclass(expected[0], Exception)
        assert outcome(f, value) == expected, value
    del value
    assert sys.getrefcount(a) == before
    g = echo.function("held", "i:T{O:object:i:n:}", gil="need")
    things = [1, 2]
    before = sys.getrefcount(things)
    assert g((things, 40)) == 42
    assert sys.getrefcount(things) == before


def test_function_pointers(echo):
    f = echo.function("apply", "d:X{d:d}dT{dd}")
    cos = nc.load("m", "double cos(double);").cos
    for value in (cos, cos.builtin, math.sin, lambda x: x * 10, np.sin):
        assert f(value, 0.5, (1.0, 2.0)) == value(0.5) + 1.0
        with pytest.raises(TypeError, match=r"^argument 3 of 'apply' must be a tuple"):
            f(value, 0.5, 3)
    for value in (5, "x"):
        with pytest.raises(TypeError, match=r"^argument 1 of 'apply' must be"):
            f(value, 0.5, (1.0, 2.0))

    def broken(x):
        raise LookupError("in Python")

    assert outcome(f, broken, 0.5, (1.0, 2.0)) == (LookupError, "in Python")
    nested = outcome(f, lambda x: f(math.sin, x, (1.0, 2.0)), 0.5, (1.0, 0.0))
    assert nested[-1] == repr(math.sin(0.5) + 2)


def test_python_objects(echo):
    things = [object(), object()]
    for errors in ("none", "python", "null"):
        f = echo.function("item", "O:Oh", errors=errors)
        assert outcome(f, things, 5) == (IndexError, "list index out of range")
        failure = nc.NativeFailure if errors == "null" else SystemError
        assert outcome(f, things, -2)[0] is failure
        assert outcome(f, things, "x")[0] is TypeError
        before = sys.getrefcount(things[0]), sys.getrefcount(things)
        for _ in range(100):
            assert f(things, 0) is things[0]
        assert (sys.getrefcount(things[0]), sys.getrefcount(things)) == before
    assert echo.function("has_gil", "i:b", gil="need")(1) == 101


def test_objects_beside_what_the_core_converts(echo):
    f = echo.function("pick", "O:OT{&d:data:q:count:}O[2]dgO")
    a, b, c = [1], [2], [3]
    before = [sys.getrefcount(one) for one in (a, b, c)]
    assert f(a, (None, 1), b, None, 1.5, c) is a
    assert f(a, (None, 0), b, np.eye(2), 1.5, c) is b
    assert f(a, (None, 0), b, None, 1.5, c) is c
    assert f(a, (None, 0), b, None, 2.5, c) is None
    with pytest.raises(TypeError, match=r"^field 'count' of argument 2 of 'pick' must be"):
        f(a, (None, "x"), b, None, 1.5, c)
    with pytest.raises(TypeError, match=r"^argument 4 of 'pick' must be an array"):
        f(a, (None, 1), b, 5, 1.5, c)
    assert [sys.getrefcount(one) for one in (a, b, c)] == before


def test_objects_in_results(echo):
    thing = object()
    before = sys.getrefcount(thing)
    for name, more in (("held", ""), ("large", "(2)d:x:")):
        f = echo.function(f"give_{name}", f"T{{O:object:i:n:{more}}}:X{{d:d}}Oi")
        for n in (1, 0):
            assert tuple(f(math.sin, thing, n))[:2] == (thing if n else None, n)
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

    f = echo.function("show_held", "i:X{i:T{O:object:i:n:}}Oi")
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
        ("give_large", "T{O:object:i:n:(2)d:x:}:X{d:d}Oi", (3,)),
    ):
        if errors == "null" and more:
            continue
        f = echo.function(name, signature, errors=errors)
        before = sys.getrefcount(thing)
        for _ in range(50):
            assert outcome(f, broken_function, thing, *more) == (LookupError, "the cause")
        assert sys.getrefcount(thing) == before
