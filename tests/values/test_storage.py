"""Values: what Python objects become in C and what comes back, with ranges, buffers and messages.

Every scalar is tried through its trampoline or through libffi, whichever the signature has; the
random signatures of libffi/test_call.py hold the two against each other.
"""

from __future__ import annotations

import array
import ctypes
import decimal
import fractions
import math
import sys

import cffi
import numpy as np
import pytest

import nativecall as nc
from nativecall import _lib
from nativecall._callable import arguments
from nativecall._codegen import engine
from nativecall._signature.ctype import SCALARS, scalar
from nativecall._signature.signature import Signature
from nativecall._signature.spelling import parse_type
from nativecall._values import callspec, storage

CHAR = scalar("c").text
INTEGERS = {
    "b": ("same_i8", -(2**7), 2**7 - 1),
    "B": ("same_u8", 0, 2**8 - 1),
    "h": ("same_i16", -(2**15), 2**15 - 1),
    "H": ("same_u16", 0, 2**16 - 1),
    "i": ("same_i32", -(2**31), 2**31 - 1),
    "I": ("same_u32", 0, 2**32 - 1),
    "q": ("same_i64", -(2**63), 2**63 - 1),
    "Q": ("same_u64", 0, 2**64 - 1),
}
REALS = {"f": "same_f32", "d": "same_f64", "g": "same_f80"}
COMPLEXES = {"Zf": "same_c64", "Zd": "same_c128"}


class Index:
    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value


class Float:
    def __init__(self, value):
        self.value = value

    def __float__(self):
        return self.value


class Raising:
    """Each conversion raises an error of its own."""

    def __index__(self):
        raise LookupError("my own error")

    def __float__(self):
        raise LookupError("my own error")

    def __complex__(self):
        raise LookupError("my own error")


# -- integers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", INTEGERS)
def test_integers_come_back_over_their_whole_range(lib, code):
    symbol, low, high = INTEGERS[code]
    f = lib.function(symbol, f"{code}:{code}")
    for value in (low, low + 1, -1 if low else 1, 0, 1, 2**7 - 1, high - 1, high):
        assert f(value) == value
        assert type(f(value)) is int


@pytest.mark.parametrize("code", INTEGERS)
def test_integers_out_of_range_name_argument_value_and_range(lib, fails, code):
    symbol, low, high = INTEGERS[code]
    f = lib.function(symbol, f"{code}:{code}")
    for value in (low - 1, high + 1):
        shown = f"is {value}, out" if -(2**63) <= value < 2**63 else "is out"
        message = f"argument 1 of '{symbol}' {shown} of range for '{code}' ({low} to {high})"
        with fails(OverflowError, message):
            f(value)
        with fails(OverflowError, message):
            f.builtin(value)
    for value in (2**64, -(2**64), 2**1000):
        message = f"argument 1 of '{symbol}' is out of range for '{code}' ({low} to {high})"
        with fails(OverflowError, message):
            f(value)
    assert f(high) == high


@pytest.mark.parametrize("code", INTEGERS)
def test_integers_take_index_and_nothing_else(lib, fails, code):
    symbol, _, high = INTEGERS[code]
    f = lib.function(symbol, f"{code}:{code}")
    assert f(Index(5)) == f(True) + 4 == f(np.int8(5)) == f(np.uint64(5)) == 5
    assert f(np.True_) + f(np.False_) == 1
    assert f(Index(high)) == high
    for value in (1.0, 1.5, "1", b"1", None, [1], 1j, decimal.Decimal(1), np.float64(1)):
        with fails(
            TypeError,
            f"argument 1 of '{symbol}' must be an integer (got {type(value).__qualname__})"
            if type(value).__module__ == "builtins"
            else f"argument 1 of '{symbol}' must be an integer "
            f"(got {type(value).__module__}.{type(value).__name__})",
        ):
            f(value)
    with fails(LookupError, "my own error"):
        f(Raising())
    assert f(7) == 7


def test_bool(lib, fails):
    f = lib.function("same_bool", "?:?")
    assert f(True) is f(1) is f(np.True_) is True
    assert f(False) is f(0) is f(np.False_) is False
    with fails(OverflowError, "argument 1 of 'same_bool' is 2, out of range for '?' (0 to 1)"):
        f(2)
    with fails(OverflowError, "argument 1 of 'same_bool' is -1, out of range for '?' (0 to 1)"):
        f(-1)
    for value in (0.0, "", None):
        with pytest.raises(TypeError, match=r"^argument 1 of 'same_bool' must be an integer"):
            f(value)
    assert f(1) is True


# -- floats --------------------------------------------------------------------------------------

SPECIAL = [0.0, -0.0, 1.5, -2.25, 2.0**100, 2.0**-100, math.inf, -math.inf, math.nan]


def same_float(a, b):
    return type(a) is type(b) is float and (
        (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    )


@pytest.mark.parametrize("code", REALS)
def test_floats_come_back(lib, code):
    f = lib.function(REALS[code], f"{code}:{code}")
    for value in SPECIAL:
        assert same_float(f(value), value)
    assert f(0.1) == ctypes.c_float(0.1).value if code == "f" else f(0.1) == 0.1
    if code != "f":
        assert f(1e300) == 1e300


@pytest.mark.skipif(np.finfo("g").max == np.finfo("d").max, reason="long double is double here")
@pytest.mark.parametrize("gil", ["hold", "release"])
def test_long_doubles_that_no_float_holds_are_refused(gil):
    """A result that would become infinite, and an argument of a callback."""
    m = nc.load("m")
    huge, most = np.longdouble("1e4000"), np.longdouble(sys.float_info.max)
    for name, signature, given in (
        ("fabsl", "g:g", (huge,)),
        ("fmal", "g:ggg", (huge, 1, 0)),
        ("conjl", "Zg:Zg", (huge,)),
    ):
        f = m.function(name, signature, gil=gil)
        with pytest.raises(OverflowError, match="out of range for a Python float"):
            f(*given)
    assert m.function("fabsl", "g:g", gil=gil)(most) == sys.float_info.max
    assert m.function("fabsl", "g:g", gil=gil)(np.longdouble("-inf")) == math.inf
    echo = nc.callback("g:g", lambda x: x)
    with pytest.raises(OverflowError, match="out of range for a Python float"):
        echo(huge)


FLOAT_MAX = float(np.finfo("f").max)


@pytest.mark.parametrize("gil", ["hold", "release"])
def test_floats_are_range_checked(lib, fails, gil):
    """Through trampolines and through libffi; what rounds to the greatest float is one."""
    f = lib.function("same_f32", "f:f", gil=gil)
    z = lib.function("same_c64", "Zf:Zf", gil=gil)
    limits = "out of range for 'f' (-3.4028235e+38 to 3.4028235e+38)"
    for value in (1e39, -1e300, FLOAT_MAX * (1 + 2.0**-24), 10**39, np.float64(1e300)):
        with fails(OverflowError, f"argument 1 of 'same_f32' is {limits}"):
            f(value)
        for part in (complex(value, 0), complex(0, value)):
            with fails(OverflowError, f"argument 1 of 'same_c64' is {limits}"):
                z(part)
    for value in (FLOAT_MAX, -FLOAT_MAX, math.inf, -math.inf):
        assert f(value) == value
        assert z(complex(0, value)).imag == value
    assert f(FLOAT_MAX * (1 + 2.0**-26)) == FLOAT_MAX
    assert math.isnan(f(math.nan))
    assert f(1e-300) == 0.0


@pytest.mark.parametrize("code", REALS)
def test_floats_take_what_has_a_float(lib, fails, code):
    symbol = REALS[code]
    f = lib.function(symbol, f"{code}:{code}")
    half = (
        0.5,
        Float(0.5),
        fractions.Fraction(1, 2),
        decimal.Decimal("0.5"),
        np.float32(0.5),
        np.float64(0.5),
        np.array(0.5),
    )
    assert [f(value) for value in half] == [0.5] * len(half)
    assert [f(value) for value in (2, True + 1, Index(2), np.int16(2), 2**60)][:4] == [2.0] * 4
    for value in ("0.5", None, 1j, [0.5], b"0.5"):
        for callable in (f, f.builtin):
            with fails(
                TypeError,
                f"argument 1 of '{symbol}' must be a real number (got {type(value).__name__})",
            ):
                callable(value)
    with fails(OverflowError, f"argument 1 of '{symbol}' is an int too large for a double"):
        f(10**400)
    with fails(LookupError, "my own error"):
        f(Raising())
    with pytest.raises(TypeError, match=r"returned non-float|must return a float"):
        f(Float("x"))
    assert f(0.5) == 0.5


@pytest.mark.parametrize("code", COMPLEXES)
def test_complex_numbers_come_back(lib, fails, code):
    symbol = COMPLEXES[code]
    f = lib.function(symbol, f"{code}:{code}")
    for re in SPECIAL:
        for im in SPECIAL:
            z = f(complex(re, im))
            assert same_float(z.real, re)
            assert same_float(z.imag, im)
    assert f(2) == f(2.0) == f(np.complex64(2)) == f(np.complex128(2)) == f(Index(2)) == 2 + 0j
    for value in ("1j", None, [1j]):
        with fails(
            TypeError,
            f"argument 1 of '{symbol}' must be a complex number (got {type(value).__name__})",
        ):
            f(value)
    with fails(OverflowError, f"argument 1 of '{symbol}' is an int too large for a double"):
        f(10**400)
    with fails(LookupError, "my own error"):
        f(Raising())
    assert f(1j) == 1j


LONG = """
#include <complex.h>
#include <string.h>
void keep(char *out, long double x); void keep(char *out, long double x) { memcpy(out, &x, 10); }
void keep2(char *out, long double _Complex z, short also);
void keep2(char *out, long double _Complex z, short also)
{ long double parts[2] = {creall(z), cimagl(z)}; (void)also;
  memcpy(out, parts, 10); memcpy(out + 10, parts + 1, 10); }
int is_finite(double x); int is_finite(double x) { return x - x == 0; }
float narrow(float x); float narrow(float x) { return x; }
double _Complex both(double _Complex z); double _Complex both(double _Complex z) { return z; }
"""


@pytest.mark.skipif(np.finfo("g").nmant != 63, reason="looks at x87's long double")
@pytest.mark.parametrize("way", ["generated", "libffi"])
def test_long_doubles_arrive_in_full(builder, way):
    if way == "generated" and not engine.available():
        pytest.skip(engine.reason())
    lib = nc.load(builder.library(LONG, "long_doubles", flags=("-O1",)))
    keep, keep2 = lib.function("keep", "v:&cg"), lib.function("keep2", "v:&cZgh")
    for f in (keep, keep2):
        f._choose(way)
    out = bytearray(20)
    for number in ("1e4000", "0.1", "-1e-4900", "inf", "2.5"):
        value = np.longdouble(number)
        for given in (value, np.array(value)):
            keep(out, given)
            assert out[:10] == value.tobytes()[:10], number
        keep2(out, value, 1)
        assert out == value.tobytes()[:10] + bytes(10)
        keep2(out, np.array([1, value], "g").view("G")[0], 1)
        assert out == np.longdouble(1).tobytes()[:10] + value.tobytes()[:10]
    keep(out, 0.1)
    assert out[:10] == np.longdouble(0.1).tobytes()[:10]
    text = nc.load(None).function("snprintf", "int (char *, size_t, const char *, ...)")
    out = bytearray(100)
    assert out[: text(out, 100, b"%.2Le", np.longdouble("1e4000"))] == b"1.00e+4000"


@pytest.mark.skipif(np.finfo("g").maxexp == 1024, reason="here long doubles are doubles")
def test_long_doubles_that_are_too_large(builder, fails):
    lib = nc.load(builder.library(LONG, "long_doubles", flags=("-O1",)))
    ways = ["hold", "release"]
    for name, text in (("is_finite", "i:d"), ("narrow", "f:f"), ("both", "Zd:Zd")):
        for f in [lib.function(name, text, gil=gil) for gil in ways]:
            with fails(
                OverflowError, f"argument 1 of {name!r} is a long double too large for a double"
            ):
                f(np.longdouble("1e4000"))
            f(np.longdouble(2.5))
    assert lib.function("is_finite", "i:d")(np.longdouble("inf")) == 0
    assert lib.function("narrow", "f:f")(np.longdouble("-inf")) == -math.inf


def test_a_list_that_changes_while_it_is_converted(lib):
    class Clearing:
        def __float__(self):
            given.clear()
            return 1.0

    f = lib.function("add_points", "T{d:x:d:y:}:T{d:x:d:y:}T{d:x:d:y:}")
    given = [Clearing(), 2.0]
    assert f(given, (0.0, 0.0)) == (1.0, 2.0)
    assert given == []


def test_complex_long_double_through_a_pointer(lib):
    f = lib.function("twice_c256", "v:Zg&Zg")
    out = np.zeros(1, dtype=np.clongdouble)
    assert f(1 - 2j, out) is None
    assert out[0] == 2 - 4j


def test_half_floats_are_range_checked(fails):
    # No conversion reaches C: the address is never called.
    f = nc.wrap(nc.load("m").address("cos"), "d:e", name="half")
    message = "argument 1 of 'half' is out of range for 'e' (-65504 to 65504)"
    for value in (65520.0, -1e10):
        with fails(OverflowError, message):
            f(value)
    with fails(TypeError, "argument 1 of 'half' must be a real number (got str)"):
        f("x")


# -- pointers from buffers -----------------------------------------------------------------------


def test_buffers_pass_without_a_copy(lib):
    f = lib.function("address_of", "N:P")
    a = np.arange(5.0)
    assert f(a) == a.ctypes.data
    assert f(a[2:]) == a.ctypes.data + 16
    b = bytearray(b"abc")
    assert f(b) == ctypes.addressof(ctypes.c_char.from_buffer(b))
    c = array.array("d", [1, 2])
    assert f(c) == f(memoryview(c)) == c.buffer_info()[0]
    assert f(memoryview(c)[1:]) == c.buffer_info()[0] + 8
    d = (ctypes.c_int * 3)()
    assert f(d) == ctypes.addressof(d)
    assert f(None) == 0
    assert f(bytearray()) != 0


def test_callees_write_into_the_callers_memory(lib):
    f = lib.function("fill", "v:&dqd")
    a = np.zeros((2, 3))
    assert f(a, 6, 2.5) is None
    assert (a == 2.5).all()
    b = array.array("d", [0, 0])
    f(b, 2, 1.5)
    assert list(b) == [1.5, 1.5]
    f(memoryview(b)[1:], 1, 3.0)
    assert list(b) == [1.5, 3.0]
    f(None, 0, 1.0)
    c = (ctypes.c_double * 2)()
    f(c, 2, 4.0)
    assert list(c) == [4.0, 4.0]


NATIVE = {
    "b": "int8", "B": "uint8", "h": "int16", "H": "uint16", "i": "int32", "I": "uint32",
    "q": "int64", "Q": "uint64", "f": "float32", "d": "float64", "g": "longdouble",
    "Zf": "complex64", "Zd": "complex128", "Zg": "clongdouble", "e": "float16", "?": "bool",
}  # fmt: skip


@pytest.mark.parametrize("wanted", NATIVE)
def test_element_types_must_match(lib, fails, wanted):
    """Every pair of element types: the equal ones pass, and bytes pass as bytes."""
    f = lib.function("address_of", f"N:&{wanted}")
    for given, dtype in NATIVE.items():
        a = np.zeros(2, dtype=dtype)
        same = given == wanted or (wanted in "bB" and given in "?bB")
        if same:
            assert f(a) == a.ctypes.data
        else:
            with fails(
                TypeError,
                f"argument 1 of 'address_of' must be a buffer that suits '&{wanted}' "
                f"(got '{memoryview(a).format}' elements in numpy.ndarray)",
            ):
                f(a)
    assert f(None) == 0


def test_integers_match_by_width_not_by_letter(lib):
    for code in "lqn" if ctypes.sizeof(ctypes.c_long) == 8 else "qn":
        f = lib.function("address_of", f"N:&{code}")
        for other in "lqn" if ctypes.sizeof(ctypes.c_long) == 8 else "qn":
            assert f(memoryview(bytearray(16)).cast(other)) != 0


def test_byte_order_must_be_the_machines(lib, fails):
    f = lib.function("address_of", "N:&d")
    a = np.zeros(2, dtype=np.dtype("d").newbyteorder("S"))
    with fails(
        TypeError,
        "argument 1 of 'address_of' must be a buffer that suits '&d' "
        f"(got '{memoryview(a).format}' elements in numpy.ndarray)",
    ):
        f(a)
    assert f(np.zeros(2, dtype=np.dtype("d").newbyteorder("="))) != 0


def test_buffers_must_be_contiguous(lib, fails):
    f = lib.function("sum", "d:&dq")
    a = np.arange(12.0).reshape(3, 4)
    for bad in (a[:, ::2], a.T, a[::-1]):
        with fails(
            ValueError,
            "argument 1 of 'sum' must be C-contiguous, this numpy.ndarray is not; "
            "pass a contiguous copy",
        ):
            f(bad, 3)
    with fails(
        ValueError,
        "argument 1 of 'sum' must be C-contiguous, this memoryview is not; pass a contiguous copy",
    ):
        f(memoryview(array.array("d", [1, 2, 3]))[::2], 2)
    assert f(np.ascontiguousarray(a.T), 12) == 66
    assert f(a, 12) == 66


def test_read_only_buffers_need_const(lib, fails):
    a = np.arange(3.0)
    a.flags.writeable = False
    f = lib.function("sum", "double (double *, ptrdiff_t)")
    message = (
        "argument 1 of '{}' must be writable, this {} is read-only; "
        "a C declaration with const makes the argument read-only"
    )
    with fails(ValueError, message.format("sum", "numpy.ndarray")):
        f(a, 3)
    with fails(ValueError, message.format("sum", "memoryview")):
        f(memoryview(array.array("d", [1])).toreadonly(), 1)
    g = lib.function("sum", "double (const double *, ptrdiff_t)")
    assert g(a, 3) == 3.0
    assert f(np.arange(3.0), 3) == 3.0
    h = lib.function("increment", "v:&B")
    with fails(ValueError, message.format("increment", "numpy.ndarray")):
        h(np.frombuffer(b"abcd", dtype="B"))


def test_text(lib, fails):
    f = lib.function("length", "ptrdiff_t (const char *)")
    assert f(b"four") == f(bytearray(b"four\0 and more")) == f(memoryview(b"four")) == 4
    assert f("naïve".encode()) == 6
    assert lib.function("length", "q:&c")(b"bytes pass as char * too") == 24
    message = (
        f"argument 1 of 'length' must be a '&{CHAR}' pointer: a buffer, a ctypes or cffi pointer, "
        "or None (got str); a str has no bytes of its own, pass s.encode()"
    )
    with fails(TypeError, message):
        f("four")
    assert f(b"") == 0


@pytest.mark.parametrize("value", [5, 1.5, [1.0, 2.0], (1.0,), object(), {1: 2}])
def test_what_is_no_pointer_is_refused(lib, fails, value):
    f = lib.function("sum", "d:&dq")
    message = (
        "argument 1 of 'sum' must be a '&d' pointer: a buffer, a ctypes or cffi pointer, or None "
        f"(got {type(value).__name__})"
    )
    with fails(TypeError, message):
        f(value, 1)
    assert f(np.ones(2), 2) == 2.0


def test_an_integer_is_no_address(lib, fails):
    f = lib.function("address_of", "N:P")
    with fails(
        TypeError,
        "argument 1 of 'address_of' must be a 'P' pointer: a buffer, a ctypes or cffi pointer, "
        "or None (got int)",
    ):
        f(4096)
    assert f(None) == 0


def test_null_pointers_come_back_as_none(lib):
    f = lib.function("same_pointer", "P:P")
    assert f(None) is None
    a = np.zeros(2)
    assert int(cffi.FFI().cast("uintptr_t", f(a))) == a.ctypes.data


def test_buffers_are_released_after_the_call(lib, fails):
    f = lib.function("fill", "v:&dqd")
    g = lib.function("sum", "d:&dq")
    b = bytearray(16)
    view = memoryview(b).cast("d")
    f(view, 2, 1.0)
    with pytest.raises(OverflowError):
        f(view, 2**70, 1.0)
    with fails(TypeError, "argument 3 of 'fill' must be a real number (got str)"):
        f(view, 2, "x")
    assert g(view, 2) == 2.0
    view.release()
    b.append(1)  # BufferError while anything still exports it


def test_buffers_of_structs(lib, fails):
    f = lib.function("scale_points", "v:&T{d:x:d:y:}id")
    a = np.array([(1, 2), (3, 4)], dtype=[("x", "d"), ("y", "d")])
    f(a, 2, 2.0)
    assert a.tolist() == [(2, 4), (6, 8)]
    raw = bytearray(np.array([1.0, 2.0]).tobytes())
    f(raw, 1, 3.0)
    assert np.frombuffer(raw).tolist() == [3.0, 6.0]
    with fails(
        TypeError,
        "argument 1 of 'scale_points' must be a buffer that suits '&T{dd}' "
        "(got 'B' elements in bytearray)",
    ):
        f(bytearray(15), 1, 2.0)

    class P(ctypes.Structure):
        _fields_ = [("x", ctypes.c_double), ("y", ctypes.c_double)]

    p = P(1, 2)
    f(p, 1, 2.0)
    f(ctypes.pointer(p), 1, 2.0)
    f(ctypes.byref(p), 1, 2.0)
    assert (p.x, p.y) == (8.0, 16.0)
    ps = (P * 2)(P(1, 1), P(2, 2))
    f(ps, 2, 3.0)
    assert (ps[0].x, ps[1].y) == (3.0, 6.0)


OTHER_STRUCTS = {
    "an object pair": [("x", "O"), ("y", "O")],
    "the other byte order": [("x", np.dtype("d").newbyteorder("S")), ("y", "d")],
    "text": "S16",
    "integers": [("x", "q"), ("y", "q")],
    "three fields": [("x", "d"), ("y", "f"), ("z", "f")],
    "nested": [("p", [("x", "d")]), ("y", "d")],
    "an array": [("x", "d", (2,))],
    "complex": "Zd",
    "untyped": "V16",
    "bytes of another size": "V15",
}


@pytest.mark.parametrize("what", OTHER_STRUCTS)
def test_structs_of_the_same_size_are_told_apart(lib, fails, what):
    f = lib.function("scale_points", "v:&T{d:x:d:y:}id")
    a = np.zeros(2, dtype="D" if what == "complex" else OTHER_STRUCTS[what])
    with fails(
        TypeError,
        "argument 1 of 'scale_points' must be a buffer that suits '&T{dd}' "
        f"(got '{memoryview(a).format}' elements in numpy.ndarray)",
    ):
        f(a, 2, 2.0)
    both = nc.wrap({"v:&T{dd}id": f, "d:d": nc.load("m").address("cos")})
    with pytest.raises(TypeError, match=r"^no entry of '\w+' takes \(numpy.ndarray, int, float\)"):
        both(a, 2, 2.0)


def test_struct_buffers_of_every_kind(lib, fails):
    """Nested structs, arrays and padding as NumPy and ctypes have them."""
    f = lib.function("address_of", "N:&T{b(2)T{dd}T{fh}}")
    point = [("x", "d"), ("y", "d")]
    dtype = np.dtype(
        [("t", "b"), ("at", point, (2,)), ("inner", [("w", "f"), ("n", "h")])], align=True
    )
    a = np.zeros(3, dtype)
    assert f(a) == f(memoryview(a)) == f(a.view("B")) == f(a.view("b")) == a.ctypes.data
    with pytest.raises(TypeError, match=r"^argument 1 of 'address_of' must be a buffer that suits"):
        f(np.zeros(3, np.dtype(dtype.descr)[["t", "at"]]))

    class Point(ctypes.Structure):
        _fields_ = [("x", ctypes.c_double), ("y", ctypes.c_double)]

    class Inner(ctypes.Structure):
        _fields_ = [("w", ctypes.c_float), ("n", ctypes.c_short)]

    class Mixed(ctypes.Structure):
        _fields_ = [("t", ctypes.c_byte), ("at", Point * 2), ("inner", Inner)]

    class Union(ctypes.Union):
        _fields_ = [("mixed", Mixed)]

    class Packed(ctypes.Structure):
        _pack_ = 1
        _layout_ = "ms"
        _fields_ = [("t", ctypes.c_byte), ("d", ctypes.c_double)]

    class Swapped(ctypes.BigEndianStructure if np.little_endian else ctypes.LittleEndianStructure):
        _fields_ = [("x", ctypes.c_double), ("y", ctypes.c_double)]

    for value in (Mixed(), (Mixed * 2)(), (Mixed * 2 * 2)()):
        assert f(value) == f(memoryview(value)) == ctypes.addressof(value)
    packed = Packed()
    assert lib.function("address_of", "N:&=T{bd}")(packed) == ctypes.addressof(packed)
    for signature, value in (
        ("N:&T{b(2)T{dd}T{fh}}", Union()),
        ("N:&T{b(2)T{dd}T{fh}}", (Point * 3)()),
        ("N:&T{dd}", Swapped()),
        ("N:&=T{bq}", packed),
    ):
        with pytest.raises(TypeError, match=r"^argument 1 of 'address_of' must be a buffer that"):
            lib.function("address_of", signature)(value)


def test_buffers_of_python_objects_are_refused(lib, fails):
    f = lib.function("address_of", "N:P")

    class Holder(ctypes.Structure):
        _fields_ = [("o", ctypes.py_object)]

    class Pointing(ctypes.Structure):
        _fields_ = [("o", ctypes.POINTER(ctypes.py_object))]

    for value in (
        np.zeros(2, object),
        np.zeros(2, [("a", "d"), ("b", "O")]),
        (ctypes.py_object * 2)(),
        Holder(),
    ):
        with fails(
            TypeError,
            "argument 1 of 'address_of' must be a buffer that suits 'P' "
            f"(got '{memoryview(value).format}' elements in "
            f"{'numpy.ndarray' if isinstance(value, np.ndarray) else type(value).__name__})",
        ):
            f(value)
    # The letter in a field's name is no object, and a pointer to one is a pointer.
    named = np.zeros(2, [("O", "d"), ("aOb", "d")])
    assert f(named) == named.ctypes.data
    pointing = Pointing()
    assert f(pointing) == ctypes.addressof(pointing)


# -- pointers from other boxes -------------------------------------------------------------------


def test_ctypes_pointers(lib, fails):
    f = lib.function("increment", "v:&i")
    x = ctypes.c_int(1)
    f(x)
    f(ctypes.pointer(x))
    f(ctypes.byref(x))
    f(ctypes.cast(ctypes.pointer(x), ctypes.c_void_p))
    assert x.value == 5
    xs = (ctypes.c_int * 3)(1, 1, 1)
    f(ctypes.byref(xs, 4))
    f(ctypes.cast(xs, ctypes.POINTER(ctypes.c_int)))
    assert list(xs) == [2, 2, 1]
    y = ctypes.c_double(1)
    with fails(
        TypeError,
        "argument 1 of 'increment' must be a pointer '&i' (got '&d' from LP_c_double)",
    ):
        f(ctypes.pointer(y))
    with fails(
        TypeError, "argument 1 of 'increment' must be a pointer '&i' (got '&d' from CArgObject)"
    ):
        f(ctypes.byref(y))
    assert y.value == 1.0
    assert f(x) is None


def test_ctypes_pointers_pass_the_address_they_hold(lib):
    """ctypes exports the pointer's own memory as a buffer; that is not what is meant."""
    f = lib.function("address_of", "N:P")
    x = ctypes.c_double(1)
    for p in (
        ctypes.pointer(x),
        ctypes.byref(x),
        ctypes.cast(ctypes.pointer(x), ctypes.c_void_p),
        ctypes.cast(ctypes.pointer(x), ctypes.c_char_p),
    ):
        assert f(p) == ctypes.addressof(x)
    assert f(ctypes.c_void_p()) == f(ctypes.c_char_p()) == f(ctypes.POINTER(ctypes.c_int)()) == 0
    text = ctypes.c_char_p(b"abc")
    assert lib.function("length", "q:&c")(text) == 3
    square = ctypes.CDLL(lib.path).square
    assert f(square) == ctypes.cast(square, ctypes.c_void_p).value


def test_arrays_of_pointers(lib):
    f = lib.function("total_length", "i:&&ci")
    texts = (ctypes.c_char_p * 2)(b"abc", b"defg")
    assert f(texts, 2) == 7
    ffi = cffi.FFI()
    kept = [ffi.new("char[]", b"abc"), ffi.new("char[]", b"d")]
    assert f(ffi.new("char *[]", kept), 2) == 4


@pytest.mark.parametrize(
    ("signature", "count", "item", "make"),
    [
        ("&(3)d", 3, "d", lambda n: array.array("d", bytes(8 * n))),
        ("&(2,3)i", 6, "i", lambda n: np.zeros(n, "i")),
        ("&(3)d", 3, "d", lambda n: (ctypes.c_double * n)()),
        ("&(5)c", 5, CHAR, bytes),
        ("&(5)c", 5, CHAR, bytearray),
        ("&(2)T{d:x:d:y:}", 2, "T{dd}", lambda n: np.zeros(n, [("x", "d"), ("y", "d")])),
        ("&(2)T{d:x:d:y:}", 2, "T{dd}", lambda n: bytearray(16 * n)),
        ("&(2)Zd", 2, "Zd", lambda n: np.zeros(n, "D")),
    ],
)
def test_pointers_to_arrays_take_no_shorter_ones(lib, fails, signature, count, item, make):
    f = lib.function("address_of", f"N:{signature}")
    for n in (count, count + 1):
        assert f(make(n)) != 0
    assert f(None) == 0
    short = make(count - 1)
    text = f"must be a buffer of at least {count} items of {item!r} (got {count - 1})"
    for _ in range(2):
        with fails(ValueError, f"argument 1 of 'address_of' {text}"):
            f(short)
        with fails(ValueError, f"argument 1 of 'address_of' {text}"):
            f.bind(short)
    g = nc.callback(f"q:{signature}", lambda given: -1)
    with fails(ValueError, f"argument 1 of '<lambda>' {text}"):
        g(short)


def test_a_buffer_that_is_too_short_is_released(lib):
    short = bytearray(4)
    with pytest.raises(ValueError, match="at least 5 items"):
        lib.function("address_of", "N:&(5)c")(short)
    short.append(0)  # which an exported one refuses


def test_no_traceback_keeps_a_buffer_exported(lib):
    """What was converted before the value that is refused is released, though the error is kept."""
    given = array.array("i", [0])
    f = nc.wrap(lib.address("fill"), "v:&iT{d:x:}")
    with pytest.raises(TypeError) as bound:
        f.bind(given, ("x",))
    given.append(0)
    with pytest.raises(TypeError) as called:
        f(given, ("x",))
    given.append(0)
    kept = [bound.value, called.value]
    if engine.available():  # libffi returns no structs to C
        with pytest.raises(TypeError) as sentinel:
            nc.callback("T{&i:p:d:x:}:i", lambda i: None, errors=(given, "x"))
        given.append(0)
        with pytest.raises(TypeError) as result:
            nc.callback("T{&i:p:d:x:}:i", lambda i: (given, "x"))(1)
        given.append(0)
        kept += [sentinel.value, result.value]
    assert all(error.__traceback__ is not None for error in kept)


def test_pointers_to_arrays_of_other_libraries_have_their_length(lib, fails):
    f = lib.function("address_of", "N:&(3)d")
    three, two = (ctypes.c_double * 3)(), (ctypes.c_double * 2)()
    assert f(ctypes.pointer(three)) == f(ctypes.byref(three)) == ctypes.addressof(three)
    message = "argument 1 of 'address_of' must be a pointer '&(3)d' (got '&(2)d' from {})"
    with fails(TypeError, message.format("LP_c_double_Array_2")):
        f(ctypes.pointer(two))
    with fails(TypeError, message.format("CArgObject")):
        f(ctypes.byref(two))
    ffi = cffi.FFI()
    assert f(ffi.new("double(*)[3]")) != 0
    with fails(TypeError, message.format("__CDataOwn")):
        f(ffi.new("double(*)[2]"))


def test_cffi_pointers(lib, fails):
    ffi = cffi.FFI()
    f = lib.function("increment", "v:&i")
    x = ffi.new("int *", 1)
    xs = ffi.new("int[2]")
    f(x)
    f(ffi.cast("void *", x))
    f(xs)
    f(xs + 1)
    assert (x[0], list(xs)) == (3, [1, 1])
    with fails(
        TypeError, "argument 1 of 'increment' must be a pointer '&i' (got '&d' from __CDataOwn)"
    ):
        f(ffi.new("double *"))
    f(x)
    g = lib.function("address_of", "N:P")
    assert g(ffi.NULL) == 0
    assert g(x) == int(ffi.cast("uintptr_t", x))


def test_pointer_results_are_cffi_pointers(lib):
    f = lib.function("same_pointer", "&d:&d")
    a = np.array([1.5, 2.5])
    p = f(a)
    assert (p[0], p[1]) == (1.5, 2.5)
    p[0] = 7
    assert a[0] == 7
    assert cffi.FFI().typeof(p).cname == "double *"
    assert cffi.FFI().string(lib.function("null_unless", "const char *(_Bool)")(True)) == b"found"


# -- pointer variables of ctypes -----------------------------------------------------------------


def test_a_void_pointer_of_ctypes_is_passed_by_reference():
    process = nc.load(None)
    allocate = process.function("posix_memalign", "int (void **, size_t, size_t)")
    free = process.function("free", "void (void *)")
    variable = ctypes.c_void_p()
    assert allocate(variable, 64, 100) == 0
    assert variable.value % 64 == 0
    free(variable)
    variable.value = None
    bound = allocate.bind(variable)
    assert bound(64, 100) == 0
    assert variable.value
    free(variable)
    also = ctypes.c_void_p(1)
    assert allocate(ctypes.byref(also), 64, 100) == allocate(ctypes.pointer(variable), 64, 1) == 0
    free(also)
    free(variable)
    choose = nc.wrap({"i:&P": process.address("abs"), "i:d": process.address("abs")})
    assert nc._lib.types.match(choose["i:&P"]._spec, variable) == 0


@pytest.mark.parametrize("make", [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_wchar_p])
@pytest.mark.parametrize("type", ["&d", "&c", "&&d", "X{d:d}", "O", "P"])
def test_other_pointer_variables_of_ctypes_are_not_passed_by_value(lib, make, type):
    """Their value, NULL for a new one, is not where the function is to put a pointer."""
    if make is ctypes.c_void_p and type == "P":
        return  # by reference, above
    place = lib.address("called0")
    one = nc.wrap(place, f"v:&{type}", name="f")
    text = one.signatures[0][2:]
    message = (
        f"must be a pointer {text!r} to a variable of {text[1:]!r} (got {make.__name__}); "
        "pass ctypes.byref() of one"
    )
    for call in (
        lambda: one(make()),
        lambda: nc.wrap(place, f"v:T{{&{type}}}", name="f")((make(),)),
        lambda: nc.wrap(place, f"v:&{type}i", name="f").bind(make()),
        nc.callback(f"&{type}:", make, errors="python"),
    ):
        with pytest.raises(TypeError) as info:
            call()
        assert str(info.value).endswith(message)


# -- function pointers ---------------------------------------------------------------------------


def test_function_pointer_arguments(lib, fails):
    apply = lib.function("apply", "d:X{d:d}d")
    square = lib.function("square", "d:d")
    cdll = ctypes.CDLL(lib.path)
    cdll.square.argtypes, cdll.square.restype = [ctypes.c_double], ctypes.c_double
    assert apply(square, 3.0) == apply(square.builtin, 3.0) == apply(cdll.square, 3.0) == 9.0
    assert apply(square.to_cffi(), 3.0) == apply(square.to_capsule(), 3.0) == 9.0
    assert apply(lambda x: x + 1, 3.0) == apply(math.sqrt, 16.0) == 4.0
    assert apply(None, 3.0) == -1
    overloaded = nc.wrap({"f:f": nc.load("m").function("sqrtf", "f:f"), "d:d": square})
    assert apply(overloaded, 3.0) == 9.0
    message = (
        "argument 1 of 'apply' must be a function 'd:d'; <native callable sqrtf 'f:f'> offers 'f:f'"
    )
    with fails(TypeError, message):
        apply(nc.load("m").function("sqrtf", "f:f"), 3.0)
    cdll.apply.argtypes, cdll.apply.restype = [ctypes.c_float], ctypes.c_float
    with fails(
        TypeError, "argument 1 of 'apply' must be a function 'd:d' (got 'f:f' from _FuncPtr)"
    ):
        apply(cdll.apply, 3.0)
    with fails(TypeError, "argument 1 of 'apply' must be a function (got int)"):
        apply(5, 3.0)
    assert apply(square, 3.0) == 9.0


def test_a_subclass_that_overrides_call_is_a_python_function_to_c(lib):
    class Plus(nc.NativeCallable):
        def __call__(self, x):
            return super().__call__(x) + 1

    apply = lib.function("apply", "d:X{d:d}d")
    assert apply(Plus(lib.function("square", "d:d"), name="plus"), 3.0) == 10.0


def test_function_pointer_results(lib):
    f = lib.function("get_square", "X{d:d}:")
    assert f()(3.0) == 9.0
    assert nc.wrap(f())(3.0) == 9.0


# -- structs, arrays, views ----------------------------------------------------------------------

POINT = "T{d:x:d:y:}"
MIXED = "T{b:tag:(2)T{d:x:d:y:}:at:T{f:w:h:n:}:inner:}"


def test_structs_by_value(lib, fails):
    f = lib.function("add_points", f"{POINT}:{POINT}{POINT}")
    total = f((1, 2), {"x": 3, "y": 4})
    assert total == (4.0, 6.0)
    assert (total.x, total.y) == (4.0, 6.0)
    assert type(total).__name__ == "Struct"
    assert f([1, 2], total) == (5.0, 8.0)

    class P(ctypes.Structure):
        _fields_ = [("x", ctypes.c_double), ("y", ctypes.c_double)]

    ffi = cffi.FFI()
    ffi.cdef("typedef struct { double x, y; } P; typedef struct { float x, y; } Q;")
    record = np.array([(7, 8)], dtype=[("x", "d"), ("y", "d")])[0]
    assert f(P(1, 2), record) == (8.0, 10.0)
    assert f(ffi.new("P *", (1, 2)), ffi.new("P *", (1, 1))[0]) == (2.0, 3.0)
    refused = [
        ((1,), "must have 2 fields ('x', 'y'), not 1", TypeError),
        ({"x": 1}, "lacks 'y'; its fields are 'x', 'y'", TypeError),
        ({"x": 1, "y": 2, "z": 3}, "has no field 'z'; its fields are 'x', 'y'", TypeError),
        (
            5,
            "must be a tuple, a mapping or a struct of 16 bytes with the fields 'x', 'y' (got int)",
            TypeError,
        ),
        (ffi.new("Q *"), "must be a struct 'T{dd}' (got cffi's 'Q')", TypeError),
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
        "argument 1 of 'add_points' must be a struct 'T{dd}' (got ctypes' R, 'T{ff}')",
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
        "argument 1 of 'add_points' must be a struct 'T{dd}' "
        "(got ctypes' Whole, Whole has the byte order of another machine)",
    ):
        f(Whole(1, 2), (1, 2))
    with fails(
        TypeError,
        "argument 1 of 'add_points' must be a struct 'T{dd}' "
        f"(got ctypes' Single, {getattr(ctypes.c_double, name).__name__} has the byte order of "
        "another machine)",
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


@pytest.mark.parametrize("way", ["generated", "libffi"])
def test_structs_with_the_wrong_number_of_fields(lib, fails, way):
    if way == "generated" and not engine.available():
        pytest.skip(engine.reason())
    f = lib.function("add_points", f"{POINT}:{POINT}{POINT}")
    f._choose(way)
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
    g._choose(way)
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
    with fails(ValueError, "field 'at' of argument 1 of 'next_mixed' must have 2 items (got 1)"):
        f((1, [(1, 2)], (0.5, 7)))
    with fails(
        TypeError,
        "field 'at' of argument 1 of 'next_mixed' must be a sequence of 2 items (got int)",
    ):
        f((1, 5, (0.5, 7)))
    with fails(
        OverflowError,
        "field 'n' of field 'inner' of argument 1 of 'next_mixed' is 40000, "
        "out of range for 'h' (-32768 to 32767)",
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
        "(got 'f' elements in numpy.ndarray)",
    ):
        f((a.astype("f"), 3, None))
    with fails(
        ValueError,
        "field 'x' of argument 1 of 'run_task' must be C-contiguous, this numpy.ndarray is not; "
        "pass a contiguous copy",
    ):
        f((a[::-1], 3, None))
    assert f((a, 3, None)) == 6.0


def weighted(a):
    return float((np.asarray(a) * (1 + np.arange(np.size(a)).reshape(np.shape(a)))).sum())


def test_strided_views(lib, fails):
    f = lib.function("sum_view", "d:[2]d")
    a = np.arange(24.0).reshape(4, 6)
    for view in (a, a.T, a[::2, ::-1], a[1:3, 2:3], a[::-1], np.asfortranarray(a), a[:0]):
        assert f(view) == weighted(view)
    assert f(memoryview(bytearray(a.tobytes())).cast("d", (4, 6))) == weighted(a)
    with fails(ValueError, "argument 1 of 'sum_view' must have 2 dimensions (got 1)"):
        f(a[0])
    with fails(TypeError, "argument 1 of 'sum_view' must have 'd' elements (got 'f')"):
        f(a.astype("f"))
    with fails(
        TypeError,
        "argument 1 of 'sum_view' must be an array or another object with a buffer (got list)",
    ):
        f([[1.0]])
    a.flags.writeable = False
    with fails(
        ValueError,
        "argument 1 of 'sum_view' must be writable, this ndarray is read-only; pass a copy, or a "
        "Signature with 'readonly' if the callee does not write",
    ):
        f(a)
    assert f(a.copy()) == weighted(a)


def test_views_find_their_memory_in_the_buffer(lib):
    """Of every exporter with strides, whatever else the object says of itself."""

    class Lying(np.ndarray):
        __array_interface__ = {"data": (8, False), "shape": (1,), "typestr": "<f8", "version": 3}

    f = lib.function("sum_view", "d:[2]d")
    a = np.arange(24.0).reshape(4, 6)
    assert f(a.view(Lying)) == f(memoryview(a)) == weighted(a)
    for view in (a.T, a[::2, ::-1], a[::-1, 1::3]):
        assert f(memoryview(view)) == weighted(view)
    rows = (ctypes.c_double * 3 * 2)((1, 2, 3), (4, 5, 6))
    assert f(rows) == weighted(np.array(rows))
    assert f(memoryview(bytearray(48)).cast("d", (3, 2))) == 0.0


def test_views_of_structs(builder, fails):
    source = """
    typedef struct { double x; long long n; } Pair;
    typedef struct { const Pair *data; long long shape, stride; } View;
    double last(const View *view);
    double last(const View *view)
    { const void *at = (const char *)view->data + (view->shape - 1) * view->stride;
      return ((const Pair *)at)->x; }
    """
    lib = nc.load(builder.library(source, "pairs", flags=("-O1",)))
    f = lib.function("last", "d:[1]T{dq}")
    a = np.array([(1, 1), (2, 2), (3, 3)], [("x", "d"), ("n", "q")])
    assert (f(a), f(a[::-1]), f(a[:2])) == (3.0, 1.0, 2.0)
    with fails(TypeError, "argument 1 of 'last' must have 'T{dq}' elements (got 'T{d:x:d:n:}')"):
        f(a.astype([("x", "d"), ("n", "d")]))


# -- variadic ------------------------------------------------------------------------------------


def test_variadic_values(lib, fails):
    f = nc.load(None).function("snprintf", "int (char *, size_t, const char *, ...)")

    def shown(form, *values):
        out = bytearray(200)
        n = f(out, 200, form, *values)
        return out[:n].decode()

    assert shown(b"%d %d", 1, -(2**31)) == "1 -2147483648"
    assert shown(b"%lld %llu", 2**40, 2**64 - 1) == "1099511627776 18446744073709551615"
    assert shown(b"%g %g %g", 0.5, np.float32(0.25), Float(4.0)) == "0.5 0.25 4"
    assert shown(b"%d %d", np.int64(5), Index(6)) == "5 6"
    assert shown(b"%s|%s|%s", b"x", bytearray(b"y\0"), np.frombuffer(b"z\0", "B")) == "x|y|z"
    assert shown(b"%s %d", ctypes.c_char_p(b"ct"), ctypes.c_short(-3)) == "ct -3"
    assert shown(b"%g", ctypes.c_float(0.5)) == "0.5"
    assert shown(b"%.1Lf", ctypes.c_longdouble(1.5)) == "1.5"
    assert shown(b"%s", cffi.FFI().new("char[]", b"cffi")) == "cffi"
    assert shown(b"%p", None) == shown(b"%p", ctypes.c_void_p())
    assert shown(b"no more") == "no more"
    assert shown(b"%d%d%d%d%d%d%d%d %g%g%g%g%g%g%g%g%g%g", *range(8), *[1.0] * 10) == (
        "01234567 1111111111"
    )
    with fails(
        TypeError,
        "argument 4 of 'snprintf' has no C type of its own (got str); pass an int, a float, "
        "bytes, a buffer, or a ctypes or cffi value",
    ):
        shown(b"%s", "text")
    for value in (2**64, -(2**63) - 1):
        with pytest.raises(OverflowError, match=r"^argument 4 of 'snprintf' .* out of range"):
            shown(b"%d", value)
    assert shown(b"%d", 7) == "7"
    assert lib.function("add_all", "d:i.")(3, 1.0, 2.0, 3.0) == 6.0


def test_variadic_numbers_keep_their_own_types(fails):
    f = nc.load(None).function("snprintf", "int (char *, size_t, const char *, ...)")
    ffi = cffi.FFI()

    def shown(form, *values):
        out = bytearray(200)
        return out[: f(out, 200, form, *values)].decode()

    # After so many that the rest is on the stack, where the size of each matters.
    numbers = [np.bool_(True), np.int64(-3), np.array(7), np.uint64(2**64 - 1), np.int8(-1)]
    many = (*numbers, *numbers)
    assert shown(b"%d %lld %lld %llu %d " * 2, *many) == "1 -3 7 18446744073709551615 -1 " * 2
    floats = [np.float16(0.5), np.float32(0.25), np.array(1.5), np.array(2.5, "f")]
    assert shown(b"%g %g %g %g " * 3, *floats * 3) == "0.5 0.25 1.5 2.5 " * 3
    assert shown(b"%Lg %g", np.longdouble(1.5), 2.0) == "1.5 2"
    assert shown(b"%c%c", ctypes.c_char(b"x"), ctypes.c_bool(True)) == "x\x01"
    assert shown(b"%ls", ctypes.c_wchar_p("wide")) == "wide"
    assert shown(b"%lld %llu", ctypes.c_longlong(-9), ctypes.c_ulonglong(2**64 - 1)) == (
        "-9 18446744073709551615"
    )
    assert shown(b"%d %c", ffi.cast("short", -5), ffi.cast("char", b"y")) == "-5 y"
    assert shown(b"%lld", ffi.cast("long long", 2**40)) == str(2**40)
    assert shown(b"%g %g", ffi.cast("float", 0.5), ffi.cast("double", 1.5)) == "0.5 1.5"
    assert shown(b"%Lg", ffi.cast("long double", 1.5)) == "1.5"

    class Itself:
        def __index__(self):
            return self

    with pytest.raises(TypeError, match=r"__index__(\(\))? (returned non-int|must return an int)"):
        shown(b"%d", Itself())

    class Point(ctypes.Structure):
        _fields_ = [("x", ctypes.c_int)]

    for value in (ctypes.py_object(f), ctypes.c_wchar("x"), 1j, np.complex128(1j), Point()):
        with fails(
            TypeError,
            "argument 4 of 'snprintf' has no C type of its own "
            f"(got {type(value).__name__}); pass an int, a float, bytes, a buffer, or a ctypes or "
            "cffi value",
        ):
            shown(b"%p", value)
    with fails(
        TypeError,
        "argument 4 of 'snprintf' must be a buffer that suits 'P' "
        "(got 'O' elements in numpy.ndarray)",
    ):
        shown(b"%p", np.zeros(2, object))
    with fails(
        ValueError,
        "argument 4 of 'snprintf' must be C-contiguous, this numpy.ndarray is not; "
        "pass a contiguous copy",
    ):
        shown(b"%p", np.zeros(4)[::2])


# -- what is kept of signatures ------------------------------------------------------------------


def _filled(cache, limit, make):
    """Fill a cache past its bound, which it never exceeds, with `make` of other numbers."""
    cache.clear()
    first = make(0)
    (kept,) = cache
    for number in range(1, limit):
        make(number)
    assert len(cache) == limit
    assert kept in cache
    made = make(limit)
    assert (len(cache), kept in cache) == (1, False)
    return first, made


def test_call_specs_are_kept_up_to_a_bound():
    """Then all are dropped; callables keep theirs, and others get new ones."""
    hypot = nc.load("m").address("hypot")

    def make(number):
        return callspec.of(Signature(SCALARS["d"], [SCALARS["d"]] * 2, names=[f"x{number}", "y"]))

    before = nc.wrap(hypot, Signature(SCALARS["d"], [SCALARS["d"]] * 2, names=["x0", "y"]))
    first, _ = _filled(callspec._made, callspec._LIMIT, make)
    assert make(0) is not first
    after = nc.wrap(hypot, Signature(SCALARS["d"], [SCALARS["d"]] * 2, names=["x0", "y"]))
    for f in (before, after):
        assert f(y=4, x0=3) == 5.0


def test_plans_of_single_types_are_kept_up_to_a_bound():
    def make(number):
        return callspec.of_argument(parse_type(f"&T{{d:x{number}:}}"))

    first, _ = _filled(callspec._of_arguments, callspec._LIMIT, make)
    callspec._made.clear()
    assert make(0) is not first
    memory = np.array([2.5]).view([("x0", "d")])
    for plan in (first, make(0)):
        with pytest.raises(TypeError, match=r"^argument 1 of 'f' must be a '&T\{d\}' pointer"):
            _lib.types.pin(plan, "f", 0, "x")
        assert _lib.types.pin(plan, "f", 0, memory).address == memory.ctypes.data


def test_classes_of_structs_are_kept_up_to_a_bound():
    """Then all are dropped; results come back with the same fields."""
    div = nc.load("c").address("div")
    before = nc.wrap(div, "T{i:x0:i:rem:}:ii")
    old = before(7, 2)

    def make(number):
        return storage.named_tuple(parse_type(f"T{{i:x{number}:i:rem:}}"))

    first, _ = _filled(storage._named_tuples, storage._NAMED_LIMIT, make)
    new = make(0)
    assert new is not first
    assert before(9, 2).x0 == 4
    callspec._made.clear()
    after = nc.wrap(div, "T{i:x0:i:rem:}:ii")(7, 2)
    assert (old, old.x0, after, after.x0, type(after)) == ((3, 1), 3, (3, 1), 3, new)


def test_signatures_of_passed_functions_are_kept_up_to_a_bound(monkeypatch):
    """Then all are dropped; the functions are called as before."""
    monkeypatch.setattr(arguments, "_CALLEE_LIMIT", 8)
    sort = nc.load("c").function("qsort", "v:&dQQX{i:PP}").address()

    def make(number):
        numbers = array.array("d", [2.0, 1.0])
        seen = []
        compare = f"X{{i:&T{{d:x{number}:}}&T{{d:x{number}:}}}}"
        nc.wrap(sort, f"v:&dQQ{compare}")(
            numbers, 2, 8, lambda a, b: seen.append(getattr(a, f"x{number}")) or -1
        )
        assert sorted(seen) in ([1.0], [2.0])

    _filled(arguments._callees, 8, make)
    make(0)
    assert len(arguments._callees) == 2
