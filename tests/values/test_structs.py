"""Structs by value, arrays within them, and views: what is passed, what comes back, messages."""

import ctypes

import cffi
import numpy as np
import pytest

import nativecall as nc

POINT = "T{d:x:d:y:}"
MIXED = "T{b:tag:(2)T{d:x:d:y:}:at:T{f:w:h:n:}:inner:}"
# Made once: each FFI makes new types, and some stay in a cache.
FFI = cffi.FFI()
FFI.cdef("typedef struct { double x, y; } P; typedef struct { float x, y; } Q;")


def test_structs_by_value(lib, fails):
    f = lib.function("add_points", f"{POINT}:{POINT}{POINT}")
    total = f((1, 2), {"x": 3, "y": 4})
    assert total == (4.0, 6.0)
    assert (total.x, total.y) == (4.0, 6.0)
    assert type(total) is nc.Record
    assert f([1, 2], total) == (5.0, 8.0)

    class P(ctypes.Structure):
        _fields_ = [("x", ctypes.c_double), ("y", ctypes.c_double)]

    record = np.array([(7, 8)], dtype=[("x", "d"), ("y", "d")])[0]
    assert f(P(1, 2), record) == (8.0, 10.0)
    assert f(FFI.new("P *", (1, 2)), FFI.new("P *", (1, 1))[0]) == (2.0, 3.0)
    refused = [
        ({"x": 1, "y": 2, "z": 3}, "has no field 'z'; its fields are 'x', 'y'", TypeError),
        (
            5,
            "must be a tuple, a mapping or a struct of 16 bytes with the fields 'x', 'y' (got int)",
            TypeError,
        ),
        (FFI.new("Q *"), "must be a struct with the fields 'x', 'y' (got cffi's 'Q')", TypeError),
    ]
    for value, message, exception in refused:
        with fails(exception, f"argument 2 of 'add_points' {message}"):
            f((1, 2), value)
    with fails(
        TypeError, "field 'y' of argument 1 of 'add_points' must be a real number (got str)"
    ):
        f((1, "x"), (1, 2))

    class R(ctypes.Structure):
        _fields_ = [("x", ctypes.c_float), ("y", ctypes.c_float)]

    with fails(
        TypeError,
        "argument 1 of 'add_points' must be a struct with the fields 'x', 'y' (got "
        "ctypes' R, 'T{ff}')",
    ):
        f(R(), (1, 2))
    assert f((1, 2), (3, 4)) == (4.0, 6.0)


def test_records_by_value(lib, fails):
    """As bytes where the layout is the struct's, else field by field, by name."""
    f = lib.function("add_points", f"{POINT}:{POINT}{POINT}")
    swapped = np.dtype("d").newbyteorder("S")
    for dtype in (
        [("x", "d"), ("y", "d")],
        [("y", "d"), ("x", "d")],
        [("x", swapped), ("y", swapped)],
        [("x", "q"), ("y", "q")],
        [("x", "f"), ("y", "d")],
        [("x", "O"), ("y", "O")],
        np.dtype({"names": ["x", "y"], "formats": ["d", "d"], "offsets": [8, 0]}),
        np.dtype({"names": ["x", "y"], "formats": ["d", "d"], "offsets": [0, 24]}),
    ):
        array = np.zeros(2, dtype)
        array["x"], array["y"] = 3, 5
        for record in (array[0], array[1:].reshape(())):
            assert f(record, (10, 20)) == (13.0, 25.0)
        for several in (array, array[:0], array[:1]):
            with fails(
                TypeError,
                "argument 1 of 'add_points' must be a tuple, a mapping or a struct of 16 bytes "
                "with the fields 'x', 'y' (got ndarray)",
            ):
                f(several, (1, 2))
    with fails(TypeError, "argument 1 of 'add_points' lacks 'y'; its fields are 'x', 'y'"):
        f(np.zeros((), [("x", "d"), ("z", "d")])[()], (1, 2))
    with fails(
        TypeError,
        "field 'x' of argument 1 of 'add_points' must be a real number (got numpy.bytes_)",
    ):
        f(np.array((b"12345678", 1), [("x", "S8"), ("y", "d")])[()], (1, 2))


def test_nested_records_by_value(lib):
    f = lib.function("next_mixed", f"{MIXED}:{MIXED}")
    point, inner = [("x", "d"), ("y", "d")], [("w", "f"), ("n", "h")]
    big = np.dtype([("x", ">d"), ("y", "<d")])
    for dtype in (
        np.dtype([("tag", "b"), ("at", point, (2,)), ("inner", inner)], align=True),
        np.dtype([("tag", "b"), ("at", point, (2,)), ("inner", inner)]),
        np.dtype([("inner", inner), ("tag", ">i4"), ("at", big, (2,))]),
    ):
        record = np.zeros((), dtype)
        record["tag"], record["inner"] = 1, (0.5, 7)
        record["at"] = [(1, 2), (3, 4)]
        expected = (2, ((2.0, 2.0), (3.0, 6.0)), (1.0, -7))
        assert f(record) == f(record[()]) == expected


def test_structs_of_the_other_byte_order_are_refused(lib, fails):
    other = ctypes.BigEndianStructure if np.little_endian else ctypes.LittleEndianStructure
    name = "__ctype_be__" if np.little_endian else "__ctype_le__"

    class Whole(other):
        _fields_ = [("x", ctypes.c_double), ("y", ctypes.c_double)]

    class Single(ctypes.Structure):
        _fields_ = [("x", getattr(ctypes.c_double, name)), ("y", ctypes.c_double)]

    f = lib.function("add_points", f"{POINT}:{POINT}{POINT}")
    with fails(
        TypeError,
        "argument 1 of 'add_points' must be a struct with the fields 'x', 'y' (got ctypes' Whole, "
        "Whole does not have this machine's byte order)",
    ):
        f(Whole(1, 2), (1, 2))
    with fails(
        TypeError,
        "argument 1 of 'add_points' must be a struct with the fields 'x', 'y' (got ctypes' Single, "
        f"{getattr(ctypes.c_double, name).__name__} does not have this machine's byte order)",
    ):
        f(Single(1, 2), (1, 2))
    overloaded = nc.wrap({f"{POINT}:{POINT}{POINT}": f, "d:d": nc.load("m").address("cos")})
    with pytest.raises(TypeError, match="no entry of"):
        overloaded(Whole(1, 2), (1, 2))


def test_records_choose_overloads(lib):
    points = lib.function("add_points", f"{POINT}:{POINT}{POINT}")
    both = nc.wrap({"d:dd": nc.load("m").address("pow"), f"{POINT}:{POINT}{POINT}": points})
    for dtype in ([("x", "d"), ("y", "d")], [("y", "f"), ("x", ">i4")]):
        record = np.array((1, 1), dtype)[()]
        assert both(record, record) == (2.0, 2.0)


def test_arrays_in_structs_are_counted_before_they_are_read(lib, fails):
    class Endless:
        def __iter__(self):
            return iter(int, 1)

    class Short:
        def __len__(self):
            return 2

        def __iter__(self):
            return iter([(1, 2)])

    f = lib.function("next_mixed", f"{MIXED}:{MIXED}")
    field = "field 'at' of argument 1 of 'next_mixed'"
    with fails(TypeError, f"{field} must be a sequence of 2 items (got Endless)"):
        f((1, Endless(), (0.5, 7)))
    with fails(ValueError, f"{field} must have 2 items (got 1000000000000)"):
        f((1, range(10**12), (0.5, 7)))
    with fails(ValueError, f"{field} must have 2 items (got 1)"):
        f((1, Short(), (0.5, 7)))


def test_structs_with_the_wrong_number_of_fields(lib, fails):
    f = lib.function("add_points", f"{POINT}:{POINT}{POINT}")
    for value in ((), (1.0,), (1.0, 2.0, 3.0), [1.0], [1.0] * 1000, ((1.0, 2.0),)):
        with fails(
            TypeError,
            f"argument 2 of 'add_points' must have 2 fields ('x', 'y'), not {len(value)}",
        ):
            f((1.0, 2.0), value)

    class Hundred(list):
        def __iter__(self):
            return iter([1.0] * 100)

    with fails(TypeError, "argument 2 of 'add_points' must have 2 fields ('x', 'y'), not more"):
        f((1.0, 2.0), Hundred([1.0, 2.0]))
    g = lib.function("next_mixed", f"{MIXED}:{MIXED}")
    inner = "field 'inner' of argument 1 of 'next_mixed'"
    for value in ((), (0.5,), (0.5, 7, 8)):
        with fails(TypeError, f"{inner} must have 2 fields ('w', 'n'), not {len(value)}"):
            g((1, [(1, 2), (3, 4)], value))
    item = "item 1 of field 'at' of argument 1 of 'next_mixed'"
    for value in ((), (1,), (1, 2, 3)):
        with fails(TypeError, f"{item} must have 2 fields ('x', 'y'), not {len(value)}"):
            g((1, [(1, 2), value], (0.5, 7)))
    with fails(TypeError, f"{inner} lacks 'n'; its fields are 'w', 'n'"):
        g((1, [(1, 2), (3, 4)], {"w": 0.5}))
    for count in (0, 1, 3, 100):
        with fails(
            ValueError, f"field 'at' of argument 1 of 'next_mixed' must have 2 items (got {count})"
        ):
            g((1, [(1, 2)] * count, (0.5, 7)))
    assert f((1, 2), (3, 4)) == (4.0, 6.0)


def test_structs_too_large_for_a_stack_are_refused(lib):
    """Before memory is made for them, whichever way the call would go."""
    for text, count in (
        ("v:T{(300000)d}", 1),
        ("T{(300000)d}:", 0),
        ("v:T{(100000000000)T{dd}}", 1),
        ("v:" + 300 * "T{(200)d}", 300),
    ):
        f = nc.wrap(lib.address("add_points"), text)
        with pytest.raises(nc.SignatureError, match="by value are more than the 262144"):
            f(*[((0.0,) * 4,)] * count)


def test_nested_structs_and_arrays(lib, fails):
    f = lib.function("next_mixed", f"{MIXED}:{MIXED}")
    start = (1, [(1, 2), {"x": 3, "y": 4}], (0.5, 7))
    after = f(start)
    assert after == (2, ((2.0, 2.0), (3.0, 6.0)), (1.0, -7))
    assert after.inner.n == -7
    assert after.at[1].y == 6.0
    assert f(after) == (3, ((3.0, 2.0), (3.0, 8.0)), (2.0, 7))
    with fails(
        OverflowError,
        "field 'n' of field 'inner' of argument 1 of 'next_mixed' is 40000, "
        "out of range for 'short' (-32768 to 32767)",
    ):
        f((1, [(1, 2), (3, 4)], (0.5, 40000)))
    with fails(
        TypeError,
        "field 'x' of item 1 of field 'at' of argument 1 of 'next_mixed' "
        "must be a real number (got NoneType)",
    ):
        f((1, [(1, 2), (None, 4)], (0.5, 7)))
    assert f(start) == after


def test_pointers_and_functions_in_structs(lib, fails):
    f = lib.function("run_task", "d:T{&d:x:q:n:X{d:d}:f:}")
    a = np.array([1.0, 2.0, 3.0])
    square = lib.function("square", "d:d")
    assert f((a, 3, None)) == 6.0
    assert f((a, 3, square)) == f({"x": a, "n": 3, "f": square}) == 14.0
    assert f((a, 3, lambda x: -x)) == -6.0
    assert f((a.ctypes.data_as(ctypes.POINTER(ctypes.c_double)), 2, None)) == 3.0
    assert f((None, 0, None)) == 0.0
    with fails(
        TypeError,
        "field 'x' of argument 1 of 'run_task' must be a buffer that suits '&d' "
        "(got 'f' elements in numpy.ndarray); "
        "its dtype is float32, astype('float64') of it is a copy that suits",
    ):
        f((a.astype("f"), 3, None))
    with fails(
        ValueError,
        "field 'x' of argument 1 of 'run_task' must be C-contiguous, this numpy.ndarray is not; "
        "pass a contiguous copy",
    ):
        f((a[::-1], 3, None))
    assert f((a, 3, None)) == 6.0
