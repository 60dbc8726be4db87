"""registercall.h and promotion.h, against what a C compiler does and against exact numbers."""

from __future__ import annotations

import ctypes
import itertools
import math
import platform
import random
import struct
import subprocess
from fractions import Fraction

import pytest

from nativecall._adapt import rules
from nativecall._types.ctype import SCALARS
from support import compilecache
from support.headers import compiler

# -- registercall.h and a C compiler -------------------------------------------------------------

# Code: C type, a value by a random source. Values are C expressions, exact in the type.
INTEGERS = {
    "b": ("int8_t", -(2**7), 2**7 - 1),
    "B": ("uint8_t", 0, 2**8 - 1),
    "h": ("int16_t", -(2**15), 2**15 - 1),
    "H": ("uint16_t", 0, 2**16 - 1),
    "i": ("int32_t", -(2**31), 2**31 - 1),
    "I": ("uint32_t", 0, 2**32 - 1),
    "q": ("int64_t", -(2**63), 2**63 - 1),
    "Q": ("uint64_t", 0, 2**64 - 1),
}
OTHERS = {
    "?": "_Bool",
    "f": "float",
    "d": "double",
    "g": "long double",
    "Zf": "float _Complex",
    "Zd": "double _Complex",
    "P": "void *",
    "&d": "double *",
}


def c_value(code, source):
    """A C expression of a type, often one of the extremes."""
    if code in INTEGERS:
        kind, low, high = INTEGERS[code]
        value = source.choice(
            [low, high, -1 % 2**64 if low == 0 else -1, source.randint(low, high)]
        )
        return f"({kind}){value % 2**64}ULL"
    if code == "?":
        return str(source.randint(0, 1))
    if code in ("P", "&d"):
        return f"({OTHERS[code]})(uintptr_t){source.getrandbits(64)}ULL"
    if code == "e":
        return f"(_Float16){source.randint(-2000, 2000)}"
    if code in ("Zf", "Zd"):
        real, imaginary = source.randint(-(2**20), 2**20), source.randint(-(2**20), 2**20)
        return f"{real} + {imaginary} * 1.0iF"
    return repr(source.randint(-(2**24), 2**24) / 8.0)


def random_signatures(source, count, codes):
    """Signatures that fill registers and the stack in all sorts of orders."""
    signatures = []
    while len(signatures) < count:
        # Of few sorts, so that a row of registers overflows while the other does not.
        some = source.sample(codes, source.randint(1, len(codes)))
        arguments = [source.choice(some) for _ in range(source.choice([*range(10), *range(24)]))]
        signatures.append((source.choice([*codes, "v"]), arguments))
    return signatures


def oracle(signatures, types, source):
    """A C program that calls functions by registercall.h and checks both ends."""
    text = [
        "#include <complex.h>\n#include <stdio.h>\n#include <nativecall/detail/registercall.h>\n",
        "static int wrong;\n",
    ]
    cases = []
    for n, (result, arguments) in enumerate(signatures):
        for k, code in enumerate(arguments):
            text.append(f"static const {types[code]} v{n}_{k} = {c_value(code, source)};\n")
        parameters = ", ".join(f"{types[code]} a{k}" for k, code in enumerate(arguments))
        checks = "".join(f"    wrong |= a{k} != v{n}_{k};\n" for k in range(len(arguments)))
        gives = "" if result == "v" else f"    return r{n};\n"
        if result != "v":
            text.append(f"static const {types[result]} r{n} = {c_value(result, source)};\n")
        text.append(
            f"__attribute__((noinline)) static {types.get(result, 'void')} "
            f"f{n}({parameters or 'void'})\n{{\n"
            f"    wrong |= (uintptr_t)__builtin_frame_address(0) % 16 != 0;\n{checks}{gives}}}\n"
        )
        pointers = ", ".join(f"&v{n}_{k}" for k in range(len(arguments)))
        place = f"    {types[result]} result = 0;\n" if result != "v" else ""
        text.append(
            f"static int run{n}(const NcRegisterCall *how)\n{{\n"
            f"    const void *args[] = {{{pointers or 'NULL'}}};\n{place}"
            "    wrong = 0;\n"
            f"    nc_registercall(how, (void *)(uintptr_t)f{n}, NULL, args);\n"
            f"    nc_registercall(how, (void *)(uintptr_t)f{n}, "
            f"{'&result' if place else 'NULL'}, args);\n"
            f"    return wrong{f' || result != r{n}' if place else ''};\n}}\n"
        )
        cases.append(f'    {{"{result}:{"".join(arguments)}", run{n}}},\n')
    text.append(
        "static const struct {\n    const char *signature;\n"
        "    int (*run)(const NcRegisterCall *);\n} cases[] = {\n" + "".join(cases) + "};\n"
        "int main(void)\n{\n    size_t i, called = 0;\n    NcRegisterCall how;\n"
        "    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {\n"
        "        const char *s = cases[i].signature;\n"
        "        const int status = nc_registercall_prepare(s, strlen(s), &how);\n"
        "        if (status == NC_E_MISSING) continue;\n"
        '        if (status != NC_OK || cases[i].run(&how)) printf("wrong: %s\\n", s);\n'
        "        called++;\n    }\n"
        '    printf("%zu called\\n", called);\n    return 0;\n}\n'
    )
    return "".join(text)


@pytest.mark.compiler
@pytest.mark.parametrize(("command", "level"), [("gcc", "-O0"), ("gcc", "-O2"), ("clang", "-O2")])
def test_random_signatures(include, tmp_path, command, level):
    name = compiler(command)
    types = {code: kind for code, (kind, _, _) in INTEGERS.items()} | OTHERS
    probe = subprocess.run(
        [name, "-x", "c", "-fsyntax-only", "-"],
        input="_Float16 f(_Float16 x) { return x; }",
        capture_output=True,
        text=True,
        check=False,
    )
    if probe.returncode == 0:
        types["e"] = "_Float16"
    if platform.machine() in ("aarch64", "arm64"):
        del types["g"]  # see the header's comment
    source = random.Random(1000)
    signatures = random_signatures(source, 300, list(types))
    program = tmp_path / "oracle"
    path = tmp_path / "oracle.c"
    path.write_text(oracle(signatures, types, source))
    options = ["-std=gnu11", level, "-w", f"-I{include}"]
    compilecache.compiled([name, *options, str(path), "-o", str(program)], program)
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    last = done.stdout.splitlines()[-1] if done.stdout else ""
    assert done.stdout == f"{last}\n", done.stdout
    # All but the few that need more of the stack than there is.
    assert int(last.split()[0]) > 270


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
        _, low, high = INTEGERS[code]
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
        return x.denominator == 1 and INTEGERS[code][1] <= x <= INTEGERS[code][2]
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
