"""Numbers: what Python objects become in C and what comes back; what is kept of signatures.

Every scalar is tried through its trampoline or by its plan, whichever the signature has; the
random signatures of call/test_random_signatures.py hold the two against each other.
"""

import ctypes
import decimal
import fractions
import itertools
import math
import sys

import cffi
import numpy as np
import pytest

import nativecall as nc
from nativecall import _ext
from nativecall._cdecl.spelling import parse_type
from nativecall._types.ctype import SCALARS
from nativecall._types.signature import Signature
from nativecall._values import callinterface, storage

#: What C calls the integers itself.
OWN = {
    "b": "signed char",
    "B": "unsigned char",
    "h": "short",
    "H": "unsigned short",
    "i": "int",
    "I": "unsigned int",
    "q": "long",
    "Q": "unsigned long",
}
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
def test_integers_out_of_range_name_argument_value_and_range(lib, fails, code):
    symbol, low, high = INTEGERS[code]
    f = lib.function(symbol, f"{code}:{code}")
    for value in (low - 1, high + 1):
        shown = f"is {value}, out" if -(2**63) <= value < 2**63 else "is out"
        message = f"argument 1 of '{symbol}' {shown} of range for '{OWN[code]}' ({low} to {high})"
        with fails(OverflowError, message):
            f(value)
        with fails(OverflowError, message):
            f.builtin(value)
    for value in (2**64, -(2**64), 2**1000):
        message = f"argument 1 of '{symbol}' is out of range for '{OWN[code]}' ({low} to {high})"
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
    for value in (1.0, 1.5, "1", b"1", None, [1], 1j, fractions.Fraction(1), np.float64(1)):
        given = "numpy.float64" if type(value) is np.float64 else type(value).__name__
        wanted = "an integer"
        if code in "bB" and isinstance(value, (str, bytes)):
            wanted += ", such as ord() returns for a character"
        with fails(TypeError, f"argument 1 of '{symbol}' must be {wanted} (got {given})"):
            f(value)
    with fails(LookupError, "my own error"):
        f(Raising())
    assert f(7) == 7


def test_integers_of_ctypes_and_cffi_are_integers(lib):
    """Their floats, characters and pointers are not: int() would take them, and cut them off."""
    f = lib.function("same_i32", "i:i")
    cffi = nc.load(None, "enum e { A = 3 };").ffi
    given = [ctypes.c_int(-4), ctypes.c_uint64(4), ctypes.c_bool(True), cffi.cast("enum e", 3)]
    given += [cffi.cast(ctype, 4) for ctype in ("int", "unsigned char", "long", "int8_t")]
    assert [f(value) for value in given] == [-4, 4, 1, 3, 4, 4, 4, 4]
    refused = [ctypes.c_double(1.5), ctypes.c_void_p(5), cffi.cast("double", 1.5)]
    refused += [cffi.cast("char", b"x"), cffi.cast("wchar_t", "x"), cffi.new("int *")]
    for value in refused:
        with pytest.raises(TypeError, match="must be an integer"):
            f(value)
    with pytest.raises(OverflowError, match="out of range for 'int'"):
        f(cffi.cast("long long", 2**40))


def test_bool(lib, fails):
    f = lib.function("same_bool", "?:?")
    assert f(True) is f(1) is f(np.True_) is True
    assert f(False) is f(0) is f(np.False_) is False
    with fails(OverflowError, "argument 1 of 'same_bool' is 2, out of range for '_Bool' (0 to 1)"):
        f(2)
    with fails(OverflowError, "argument 1 of 'same_bool' is -1, out of range for '_Bool' (0 to 1)"):
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
    """Through trampolines and by plans; what rounds to the greatest float is one."""
    f = lib.function("same_f32", "f:f", gil=gil)
    z = lib.function("same_c64", "Zf:Zf", gil=gil)
    limits = "out of range for 'float' (-3.4028235e+38 to 3.4028235e+38)"
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
void keep(char *out, long double x) { memcpy(out, &x, 10); }
void keep2(char *out, long double _Complex z, short also)
{ long double parts[2] = {creall(z), cimagl(z)}; (void)also;
  memcpy(out, parts, 10); memcpy(out + 10, parts + 1, 10); }
int is_finite(double x) { return x - x == 0; }
float narrow(float x) { return x; }
double _Complex both(double _Complex z) { return z; }
"""


@pytest.mark.skipif(np.finfo("g").nmant != 63, reason="looks at x87's long double")
def test_long_doubles_arrive_in_full(builder):
    lib = nc.load(builder.library(LONG, "long_doubles", flags=("-O1",)))
    keep, keep2 = lib.function("keep", "v:&cg"), lib.function("keep2", "v:&cZgh")
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
    ffi = cffi.FFI()
    held = ffi.new("long double *")
    ffi.buffer(held)[:10] = np.longdouble("0.1").tobytes()[:10]
    keep(out, held[0])
    assert out[:10] == np.longdouble("0.1").tobytes()[:10]
    keep(out, ffi.cast("float", 0.5))
    assert out[:10] == np.longdouble(0.5).tobytes()[:10]
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


def test_complex_long_double_through_a_pointer(lib):
    f = lib.function("twice_c256", "v:Zg&Zg")
    out = np.zeros(1, dtype=np.clongdouble)
    assert f(1 - 2j, out) is None
    assert out[0] == 2 - 4j


def test_half_floats_are_range_checked(fails):
    # No conversion reaches C: the address is never called.
    f = nc.wrap(nc.load("m").address("cos"), "d:e", name="half")
    message = "argument 1 of 'half' is out of range for '_Float16' (-65504 to 65504)"
    for value in (65520.0, -1e10):
        with fails(OverflowError, message):
            f(value)
    with fails(TypeError, "argument 1 of 'half' must be a real number (got str)"):
        f("x")


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
        "argument 4 of 'snprintf' is a str, which is not a buffer; pass s.encode(), or "
        'load the function with an encoding, such as encoding="utf-8"',
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

    for value in (ctypes.py_object(f), ctypes.c_wchar("x"), 1j, np.complex128(1j)):
        with fails(
            TypeError,
            f"argument 4 of 'snprintf' has no default C type (got {type(value).__name__}); pass an "
            "int, a float, bytes, a buffer, a native callable, or a ctypes or cffi value",
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


def test_call_interfaces_are_kept_up_to_a_bound():
    """Then all are dropped; callables keep theirs, and others get new ones."""
    hypot = nc.load("m").address("hypot")

    def make(number):
        return callinterface.of(
            Signature(SCALARS["d"], [SCALARS["d"]] * 2, names=[f"x{number}", "y"])
        )

    before = nc.wrap(hypot, Signature(SCALARS["d"], [SCALARS["d"]] * 2, names=["x0", "y"]))
    first, _ = _filled(callinterface._made, callinterface._made.limit, make)
    assert make(0) is not first
    after = nc.wrap(hypot, Signature(SCALARS["d"], [SCALARS["d"]] * 2, names=["x0", "y"]))
    for f in (before, after):
        assert f(y=4, x0=3) == 5.0


def test_plans_of_single_types_are_kept_up_to_a_bound():
    def make(number):
        return callinterface.of_argument(parse_type(f"&T{{d:x{number}:}}"))

    first, _ = _filled(callinterface._of_arguments, callinterface._of_arguments.limit, make)
    callinterface._made.clear()
    assert make(0) is not first
    memory = np.array([2.5]).view([("x0", "d")])
    for plan in (first, make(0)):
        with pytest.raises(TypeError, match=r"^argument 1 of 'f' must be a '&T\{d\}' pointer"):
            _ext.pin(plan, "f", 0, "x")
        assert _ext.pin(plan, "f", 0, memory).address == memory.ctypes.data


_runs = itertools.count()  # what an earlier run of a test made is known by its text


def test_layouts_are_kept_up_to_a_bound():
    """Then all are dropped; results that were made before keep theirs."""
    div = nc.load("c").address("div")
    name = f"x{next(_runs)}_"
    before = nc.wrap(div, f"T{{i:{name}0:i:rem:}}:ii")
    old = before(7, 2)

    def make(number):
        return storage.layout(parse_type(f"T{{i:{name}{number}:i:rem:}}"))

    first, _ = _filled(storage._layouts, storage._layouts.limit, make)
    assert make(0) is not first
    assert getattr(before(9, 2), f"{name}0") == 4
    callinterface._made.clear()
    after = nc.wrap(div, f"T{{i:{name}0:i:rem:}}: ii")(7, 2)
    assert (old, old[0]) == (after, getattr(after, f"{name}0")) == ((3, 1), 3)
