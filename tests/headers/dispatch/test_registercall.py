"""registercall.h and promotion.h, against what a C compiler does and against exact numbers."""

import ctypes
import itertools
import math
import platform
import random
import struct
from fractions import Fraction

import pytest

from nativecall._plan import rules
from nativecall._types.ctype import SCALARS
from support.headers import compiler
from support.randomcalls import BUFFER, C_TYPES, HALF, Case, written

# -- registercall.h and a C compiler -------------------------------------------------------------

# Complex long doubles, structs and views are refused.
CODES = [code for code in C_TYPES if code not in ("Zg", "c", "O")]
INVOKE = """
#include <nativecall/detail/registercall.h>
int invoke(const char *signature, void *function, void *result, const void *const *args);
int invoke(const char *signature, void *function, void *result, const void *const *args)
{
    NcRegisterCall how;
    const int status = nc_registercall_prepare(signature, strlen(signature), &how);
    if (status == NC_OK) nc_registercall(&how, function, result, args);
    return status;
}
"""


def random_signatures(source, count, codes):
    """Signatures that fill registers and the stack in all sorts of orders."""
    for number in range(count):
        # Of few sorts, so that a row of registers overflows while the other does not.
        some = source.sample(codes, source.randint(1, len(codes)))
        arguments = [source.choice(some) for _ in range(source.choice([*range(10), *range(24)]))]
        yield Case.of(number, f"{source.choice([*codes, 'v'])}:{''.join(arguments)}")


@pytest.mark.compiler
@pytest.mark.parametrize(("command", "level"), [("gcc", "-O0"), ("gcc", "-O2"), ("clang", "-O2")])
def test_random_signatures(builder, include, monkeypatch, command, level):
    monkeypatch.setenv("CC", compiler(command))
    codes = [*CODES]
    try:
        builder.library(f"{HALF} half one(half x); half one(half x) {{ return x; }}", "one_half")
    except AssertionError:
        codes.remove("e")
    if platform.machine() in ("aarch64", "arm64"):
        codes.remove("g")  # see the header's comment
    cases = [*random_signatures(random.Random(1000), 300, codes)]
    flags = (level, "-w", f"-I{include}")
    source = written(cases, "e" in codes) + INVOKE
    library = ctypes.CDLL(str(builder.library(source, f"oracle_{command}{level}", flags=flags)))
    log, given = [(ctypes.c_char * BUFFER).in_dll(library, name) for name in ("nc_log", "nc_given")]
    called = 0
    for case in cases:
        sent = [arg.draw(case.random)[1] for arg in case.args]
        places = [ctypes.create_string_buffer(data, 16) for data in sent]
        args = (ctypes.c_void_p * (len(places) + 1))(*map(ctypes.addressof, places))
        answer = b"" if case.result is None else case.result.draw(case.random)[1]
        given[: len(answer)] = answer
        for result in (None, ctypes.create_string_buffer(32)):
            ctypes.memset(log, 0xA5, BUFFER)
            status = library.invoke(case.text.encode(), library[case.name], result, args)
            if status == -6:  # NC_E_MISSING: it needs more of the stack than there is
                break
            assert status == 0
            assert log[: len(b"".join(sent))] == b"".join(sent), case.text
        else:
            called += 1
            assert result.raw[: len(answer)] == answer, case.text
    assert called > 270


# -- promotion.h and exact numbers ---------------------------------------------------------------

WIDENING = """
#include <float.h>
#include <nativecall/detail/promotion.h>
static NcCallType first(const char *signature)
{
    NcCallType types[NC_CALL_MAX_ARGUMENTS + 1];
    size_t count;
    memset(types, 0, sizeof types);
    (void)nc_call_types(signature, types, &count);
    return types[0];
}
int widening(const char *from, const char *to)
{
    NcCallType a = first(from);
    NcCallType b = first(to);
    return nc_call_widening(&a, &b);
}
void widen(const char *from, const void *in, const char *to, void *out)
{
    NcCallType a = first(from);
    NcCallType b = first(to);
    nc_call_widen(&a, in, &b, out);
}
int digits(void)
{
    return LDBL_MANT_DIG;
}
"""

SIZES = (("b", 1), ("h", 2), ("i", 4), ("q", 8))
# The least and the greatest number.
INTEGERS = {code: (-(2 ** (8 * size - 1)), 2 ** (8 * size - 1) - 1) for code, size in SIZES} | {
    code.upper(): (0, 2 ** (8 * size) - 1) for code, size in SIZES
}
# Bits of the mantissa, and the exponents of the largest power of 2 and of the smallest number.
FLOATS = {
    "e": (11, 15, -24),
    "f": (24, 127, -149),
    "d": (53, 1023, -1074),
    "g": (64, 16383, -16445),
}


def extremes(code):
    """Numbers of a real type that decide whether another holds all of them."""
    if code == "?":
        return [Fraction(0), Fraction(1)]
    if code in INTEGERS:
        low, high = INTEGERS[code]
        return [Fraction(x) for x in (low, low + 1, 0, 1, high - 1, high)]
    bits, top, bottom = FLOATS[code]
    largest = (2 - Fraction(2) ** (1 - bits)) * Fraction(2) ** top
    return [
        sign * x
        for sign in (1, -1)
        for x in (
            Fraction(0),
            Fraction(2) ** bottom,
            Fraction(2) ** (bottom + bits),
            1 + Fraction(2) ** (1 - bits),
            Fraction(2) ** bits - 1,
            largest,
        )
    ]


def holds(code, x):
    """Whether a real type has this number."""
    if code == "?":
        return x in (0, 1)
    if code in INTEGERS:
        return x.denominator == 1 and INTEGERS[code][0] <= x <= INTEGERS[code][1]
    bits, top, bottom = FLOATS[code]
    if x == 0:
        return True
    scaled = x / Fraction(2) ** bottom
    if scaled.denominator != 1 or abs(x) >= Fraction(2) ** (top + 1):
        return False
    mantissa = abs(scaled.numerator)
    return mantissa.bit_length() - ((mantissa & -mantissa).bit_length() - 1) <= bits


def encode(code, x):
    """The bytes of a number that a real type holds."""
    if code != "g":
        value = float(x) if code in FLOATS else bool(x) if code == "?" else int(x)
        return struct.pack(code, value)
    mantissa, exponent = abs(x), 16383
    if x == 0:
        return bytes(16)
    while mantissa >= 2:
        mantissa, exponent = mantissa / 2, exponent + 1
    while mantissa < 1 and exponent > 1:
        mantissa, exponent = mantissa * 2, exponent - 1
    if mantissa < 1:
        exponent = 0
    return struct.pack("<QHxxxxxx", int(mantissa * 2**63), exponent | (0x8000 if x < 0 else 0))


def decode(code, data):
    """The number of the bytes of a real type."""
    if code != "g":
        return Fraction(struct.unpack(code, data)[0])
    mantissa, exponent = struct.unpack("<QHxxxxxx", data)
    sign = -1 if exponent & 0x8000 else 1
    exponent = max(exponent & 0x7FFF, 1)
    return sign * mantissa * Fraction(2) ** (exponent - 16383 - 63)


def widens(source, target):
    """Whether a conversion between signatures makes one number the other without a check."""
    try:
        return rules._number(SCALARS[source], SCALARS[target]) in ("same", "widened")
    except rules.Refused:
        return False


def test_widening_keeps_every_number(builder, include):
    library = ctypes.CDLL(
        str(builder.library(WIDENING, "dispatch_widening", flags=("-O2", f"-I{include}")))
    )
    reals = ["?", *INTEGERS, "e", "f", "d"] + (["g"] if library.digits() == 64 else [])
    types = {code: (code, 1) for code in reals} | {"Zf": ("f", 2), "Zd": ("d", 2)}
    assert {code for code in types if library.widening(b"P:", f"{code}:".encode()) >= 0} == set()
    widened = 0
    for a, b in itertools.product(types, repeat=2):
        (part, parts), (wider, wider_parts) = types[a], types[b]
        numbers = extremes(part)
        expected = parts <= wider_parts and all(holds(wider, x) for x in numbers)
        # A sort never goes back: a float that holds 0 and 1 is no boolean.
        source, target = f"{a}:".encode(), f"{b}:".encode()
        assert (library.widening(source, target) >= 0) is expected, (a, b)
        # The package's rule for what needs no check is the same.
        assert widens(a, b) is expected, (a, b)
        assert (library.widening(source, target) == 0) is (a == b)
        if not expected:
            continue
        for x, y in zip(numbers, reversed(numbers), strict=True):
            data = encode(part, x) + (encode(part, y) if parts == 2 else b"")
            size = len(encode(wider, Fraction(0)))
            out = ctypes.create_string_buffer(b"\x5a" * (2 * size + 8), 2 * size + 8)
            library.widen(source, data, target, out)
            assert decode(wider, out.raw[:size]) == x, (a, b, x)
            if wider_parts == 2:
                imaginary = y if parts == 2 else 0
                assert decode(wider, out.raw[size : 2 * size]) == imaginary, (a, b, y)
            assert out.raw[size * wider_parts :] == b"\x5a" * (size * (2 - wider_parts) + 8)
            widened += 1
    assert widened > 400


def test_widening_of_what_is_no_number(builder, include):
    library = ctypes.CDLL(
        str(builder.library(WIDENING, "dispatch_widening", flags=("-O2", f"-I{include}")))
    )
    for a, b in itertools.product(["e", "f", "d", "g"], repeat=2):
        if library.widening(f"{a}:".encode(), f"{b}:".encode()) < 0 or "g" in (a, b):
            continue
        for x in (math.inf, -math.inf, math.nan, -0.0):
            out = ctypes.create_string_buffer(32)
            library.widen(f"{a}:".encode(), struct.pack(a, x), f"{b}:".encode(), out)
            got = struct.unpack_from(b, out.raw)[0]
            assert math.isnan(got) == math.isnan(x)
            assert math.copysign(1, got) == math.copysign(1, x) or math.isnan(x)
            assert got == x or math.isnan(x)
    # Pointers go to void * and back, never to one another; nothing else goes anywhere.
    others = ["P", "&d", "&i", "O", "X{d:d}", "v"]
    ways = {
        (a, b)
        for a, b in itertools.product([*others, "q", "d"], repeat=2)
        if a != b and library.widening(f"{a}:".encode(), f"{b}:".encode()) >= 0
    }
    assert ways == {("P", "&d"), ("P", "&i"), ("&d", "P"), ("&i", "P")}
