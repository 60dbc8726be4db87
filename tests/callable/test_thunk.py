"""C functions made of others: `f.convert` and `f.bind`, called from C and from Python.

The matrix is generated. For each of some hundred pairs of signatures the C compiler makes a
function of the one, which records what it gets and returns what it is told, and a wrapper of the
other, written by the generator as a C programmer would by hand. Thunk and wrapper are called by the
same C code with the same random values; the record, the result, what is written through pointers,
and whether the call failed must be equal.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import errno
import gc
import math
import os
import pickle
import random
import struct
import sys
import textwrap
import threading
import weakref
from dataclasses import dataclass, field
from typing import Any

import pytest

import nativecall as nc
from nativecall import _lib
from nativecall._codegen import engine
from nativecall._signature.spelling import parse, parse_type

# A debug build of CPython needs more of the C stack.
SCALE = 2 if hasattr(sys, "gettotalrefcount") else 1
GENERATED = engine.available() and not _lib.types.stubs_refused()
generated_only = pytest.mark.skipif(not GENERATED, reason=f"no generated code: {engine.reason()}")

# -- the matrix -----------------------------------------------------------------------------------

PAIRS = int(os.environ.get("NATIVECALL_TEST_PAIRS", "160"))
CALLS = 24
INTEGERS = "?bBhHiIqQ"
FLOATS = ("f", "d", "g")
COMPLEX = ("Zf", "Zd", "Zg")
STRUCTS = {"T{dq}": "Pair", "T{ff}": "Floats", "T{ddd}": "Triple", "T{bi}": "Padded"}
SPELT = {
    "v": "void", "?": "_Bool", "b": "int8_t", "B": "uint8_t", "h": "int16_t", "H": "uint16_t",
    "i": "int32_t", "I": "uint32_t", "q": "int64_t", "Q": "uint64_t", "e": "_Float16",
    "f": "float", "d": "double", "g": "long double", "Zf": "float _Complex",
    "Zd": "double _Complex", "Zg": "long double _Complex", "P": "void *", **STRUCTS,
}  # fmt: skip
LIMITS = {
    "?": ("0", "1"), "b": ("INT8_MIN", "INT8_MAX"), "B": ("0", "UINT8_MAX"),
    "h": ("INT16_MIN", "INT16_MAX"), "H": ("0", "UINT16_MAX"), "i": ("INT32_MIN", "INT32_MAX"),
    "I": ("0", "UINT32_MAX"), "q": ("INT64_MIN", "INT64_MAX"), "Q": ("0", "UINT64_MAX"),
}  # fmt: skip
PRELUDE = """
#include <complex.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
__extension__ typedef __int128 wide;
typedef struct { double x; int64_t n; } Pair;
typedef struct { float x, y; } Floats;
typedef struct { double x, y, z; } Triple;
typedef struct { int8_t tag; int32_t n; } Padded;
/* What the last callee got; what it is to return, to write and to leave in errno; whether a wrapper
 * failed; errno after the call. */
_Alignas(32) unsigned char record[2048], answer[64], written[64];
int calls, wrong, code, after;
#define FAIL do { wrong++; goto fail; } while (0)
#define IN_RANGE(low, value, high) if ((wide)(value) < (low) || (wide)(value) > (high)) FAIL
#define WHOLE(low, value, high) \\
    if (!((long double)(value) >= (low) && (long double)(value) <= (high)) \\
        || (long double)(value) != truncl((long double)(value))) FAIL
#define EXACT(type, value) \\
    if (!isfinite((long double)(type)(value)) \\
        || (long double)(type)(value) != (long double)(value)) FAIL
#define FINITE(type, value) if (isinf((type)(value)) && !isinf(value)) FAIL
"""


def spelt(text: str) -> str:
    return SPELT[text[1:]] + " *" if text[0] == "&" else SPELT[text]


def kind(text: str) -> str:
    return parse_type(text).kind


def part(text: str) -> str:
    return text[1:] if text[0] == "Z" else text


def checked(source: str, value: str, target: str) -> tuple[str, str]:
    """A C statement that checks a number, and the expression that converts it."""
    if source == target:
        return "", value
    converted = f"(({SPELT[target]}){value})"
    if kind(target) in ("bool", "int"):
        low, high = LIMITS[target]
        check = "IN_RANGE" if kind(source) in ("bool", "int") else "WHOLE"
        return f"{check}({low}, {value}, {high});", converted
    real = SPELT[part(target)]
    if kind(source) in ("bool", "int"):
        return f"EXACT({real}, {value});", converted
    if kind(source) == "complex":
        return f"FINITE({real}, creall({value})); FINITE({real}, cimagl({value}));", converted
    return f"FINITE({real}, {value});", converted


SLOT = 128  # bytes of each argument, in memory that holds them


@dataclass
class Case:
    """A pair of signatures, and the wrapper that a C programmer writes for it."""

    own: list[str] = field(default_factory=list)  # types of the callee's arguments
    read: list[int] = field(default_factory=list)  # how many items it reads through each pointer
    wanted: list[str] = field(default_factory=list)  # types of the wrapper's arguments
    checks: list[str] = field(default_factory=list)
    passed: list[str] = field(default_factory=list)  # expressions
    counts: dict[int, int] = field(default_factory=dict)  # arguments that must be so many
    result: str = "v"
    wanted_result: str = "v"
    before: str = "none"
    after: str = "none"
    room: str = ""  # the type that the callee writes through its last pointer
    store: bool = False  # whether the wrapper's last pointer takes the result
    status: bool = False  # whether the wrapper's result is a status that says no more

    def give(
        self, text: str, target: str, value: str = "", *, own: str = "", read: int = 1
    ) -> None:
        """One more argument of each; `value` is made of the new one, b."""
        check, expression = checked(text.lstrip("&"), value or f"b{len(self.wanted)}", target)
        self.checks.append(check)
        self.wanted.append(text)
        self.take(own or target, f"&({SPELT[target]}){{{expression}}}" if own else expression, read)

    def take(self, own: str, expression: str, read: int = 1) -> None:
        """One more argument of the callee."""
        self.own.append(own)
        self.read.append(read if own[0] == "&" else 0)
        self.passed.append(expression)

    @property
    def signatures(self) -> tuple[str, str]:
        return (
            f"{self.result}:{''.join(self.own)}",
            f"{self.wanted_result}:{''.join(self.wanted)}",
        )

    def code(self, k: int) -> str:
        """The callee, the wrapper, and what calls either."""
        own = ", ".join([f"{spelt(one)} a{i}" for i, one in enumerate(self.own)]) or "void"
        lines = [f"{SPELT[self.result]} callee{k}({own}) {{", "calls++; errno = code;"]
        for i, one in enumerate(self.own):
            target = one.lstrip("&")
            if one[0] != "&":
                lines.append(f"*({SPELT[one]} *)(record + {SLOT * i}) = a{i};")
            elif self.read[i] == 0:
                lines.append(f"*a{i} = *({SPELT[target]} *)written;")
            for item in range(self.read[i]):
                lines.append(f"(({SPELT[target]} *)(record + {SLOT * i}))[{item}] = a{i}[{item}];")
        if self.result != "v":
            lines.append(f"return *({SPELT[self.result]} *)answer;")
        wanted = ", ".join([f"{spelt(one)} b{i}" for i, one in enumerate(self.wanted)]) or "void"
        lines += ["}", f"{SPELT[self.wanted_result]} wrapper{k}({wanted}) {{", *self.body(k), "}"]
        given = [
            f"({spelt(one)})(args + {SLOT * i})"
            if one[0] == "&"
            else f"*({spelt(one)} *)(args + {SLOT * i})"
            for i, one in enumerate(self.wanted)
        ]
        call = f"function({', '.join(given)});"
        if self.wanted_result != "v":
            call = f"*({SPELT[self.wanted_result]} *)result = {call}"
        lines += [
            f"void drive{k}({SPELT[self.wanted_result]} (*function)({wanted}),",
            f"char *args, char *result) {{ errno = 0; {call} after = errno; }}",
        ]
        return "\n".join(lines)

    def body(self, k: int) -> list[str]:
        """The wrapper's."""
        lines = []
        value, source = "r", self.result
        if self.room:
            lines.append(f"{SPELT[self.room]} room; memset(&room, 0, sizeof room);")
            value, source = "room", self.room
        if self.result != "v":
            lines.append(f"{SPELT[self.result]} r;")
        lines += [f"if (b{i} != {count}) FAIL;" for i, count in self.counts.items()]
        lines += [check for check in self.checks if check]
        if self.before == "errno" != self.after:
            lines.append("errno = 0;")
        call = f"callee{k}({', '.join(self.passed)});"
        lines.append(call if self.result == "v" else f"r = {call}")
        failed = {"nonzero": "r != 0", "zero": "r == 0", "null": "r == NULL", "errno": "errno"}
        quietly = "if (!errno) errno = EIO; goto failed;" if self.after == "errno" else "goto fail;"
        loudly = "wrong++; goto fail;"
        if self.before != "none" and (self.before != self.after or self.room or self.store):
            what = loudly if self.after == "none" else quietly
            lines.append(f"if ({failed[self.before]}) {{ {what} }}")
        elif self.before == self.after == "errno":
            lines.append("if (errno) goto failed;")
        target = self.wanted[self.place].lstrip("&") if self.store else self.wanted_result
        if target != "v" and not (self.status and not self.store):
            check, expression = checked(source, value, target)
            lines.append(check)
            value = expression
        if self.store:
            lines.append(f"*b{self.place} = {value};")
        if self.after == "errno" != self.before:
            lines.append("errno = 0;")
        success = int(self.after == "zero")
        lines.append(
            "return;"
            if self.wanted_result == "v"
            else f"return {success if self.status else value};"
        )
        lines.append("fail: __attribute__((unused));")
        if self.after == "errno":
            lines.append("errno = ERANGE;")
        lines.append("failed: __attribute__((unused));")
        nan = {"float": "NAN", "complex": "CMPLXL(NAN, NAN)"}.get(kind(self.wanted_result))
        sentinel = nan or str(int(self.after == "nonzero"))
        if self.wanted_result == "v":
            lines.append("return;")
        elif kind(self.wanted_result) == "struct":
            lines.append(f"return ({SPELT[self.wanted_result]}){{0}};")
        else:
            lines.append(f"return {sentinel};")
        return lines

    @property
    def place(self) -> int:
        """The wrapper's last pointer that is no user data."""
        return max(i for i, one in enumerate(self.wanted) if one[0] == "&")


class Generator:
    """Random pairs that can be converted."""

    def __init__(self, seed: int, halves: bool) -> None:
        self.random = random.Random(seed)
        self.real = [*INTEGERS, *FLOATS] + ["e"] * halves

    def number(self) -> str:
        return self.random.choice(self.real + list(COMPLEX) * (self.random.random() < 0.2))

    def becomes(self, source: str) -> str:
        """A type that numbers of another may become."""
        if self.random.random() < 0.3:
            return source
        if kind(source) == "complex":
            return self.random.choice(COMPLEX)
        return self.number()

    def case(self) -> Case:
        case = Case()
        rule = self.random.choice(("each", "each", "unpacked", "packed"))
        getattr(self, rule)(case)
        users = self.random.choice(("", "", "both", "own", "wanted"))
        self.ending(case)
        if users and any("&" in types[-1] for types in (case.own, case.wanted) if types):
            users = "both"  # void * on one side alone would stand for that pointer
        if users in ("both", "wanted"):
            case.wanted.append("P")
        if users in ("both", "own"):
            case.take("P", f"b{len(case.wanted) - 1}" if users == "both" else "NULL")
        return case

    def each(self, case: Case) -> None:
        # Two arguments with references among them might be an array and its length.
        count = self.random.choice((0, 1, 3, 4, 6))
        # Both in one signature might be another order of the arguments.
        reference = self.random.choice(("address", "load"))
        for index in range(count):
            how = self.random.choice(("value", "value", reference))
            if self.random.random() < 0.2:
                text = self.random.choice([*STRUCTS, "P"])
                how = "value" if text == "P" else how
                source = target = text
            else:
                source = self.number()
                target = self.becomes(source)
            if how == "value":
                case.give(source, target)
            elif how == "load":
                case.give("&" + source, target, f"(*b{index})")
            elif source == target:
                case.wanted.append(source)
                case.take("&" + target, f"&b{index}")
            else:
                case.give(source, target, own="&" + target)

    def unpacked(self, case: Case) -> None:
        count = self.random.randint(1, 4)
        source = self.number()
        target = self.becomes(source)
        at = self.length(case, count)
        referred = count > 1 and kind(target) in ("float", "complex") and self.random.random() < 0.4
        for item in range(count):
            check, expression = checked(source, f"b{at}[{item}]", target)
            case.checks.append(check)
            if referred:
                case.take("&" + target, f"({SPELT[target]}[]){{{expression}}}", 1)
            else:
                case.take(target, expression)
        case.wanted[at] = "&" + source

    def length(self, case: Case, count: int) -> int:
        """Have the wrapper take an array, perhaps with its length; where."""
        n = self.random.choice(INTEGERS[1:])
        order = self.random.choice(("nx", "xn", "x"))
        case.wanted += [n if one == "n" else "x" for one in order]
        if "n" in order:
            case.counts[order.index("n")] = count
        return order.index("x")

    def packed(self, case: Case) -> None:
        count = self.random.randint(1, 4)
        source = self.number()
        target = self.becomes(source)
        items = []
        referred = count > 1 and kind(source) in ("float", "complex") and self.random.random() < 0.4
        for item in range(count):
            check, expression = checked(source, f"(*b{item})" if referred else f"b{item}", target)
            case.checks.append(check)
            case.wanted.append("&" + source if referred else source)
            items.append(expression)
        array = f"({SPELT[target]}[]){{{', '.join(items)}}}"
        for one in self.random.choice(("nx", "xn", "x")):
            if one == "n":
                case.take(self.random.choice(INTEGERS[1:]), str(count))
            else:
                case.take("&" + target, array, count)

    def ending(self, case: Case) -> None:
        """The result, and how failure shows."""
        result = self.number()
        case.result, case.wanted_result = result, self.becomes(result)
        match self.random.choice(("pass", "pass", "same", "room", "store", "drop", "status")):
            case "pass":
                before = self.random.choice(("none", "none", "errno", "zero", "nonzero"))
                if before in ("zero", "nonzero") and kind(result) not in ("int", "bool"):
                    before = "errno"
                case.before = before
                case.after = self.random.choice((before, "none", "errno"))
                if before in ("zero", "nonzero"):
                    # As it is: a checked one that is refused would be looked at first.
                    case.wanted_result, case.after = result, before
                elif before == "none":
                    case.after = self.random.choice(("none", "errno"))
            case "same":
                case.result = case.wanted_result = self.random.choice(["v", "P", *STRUCTS])
                if case.result == "P":
                    case.before = self.random.choice(("none", "null"))
                    case.after = self.random.choice((case.before, "none"))
            case "room":
                case.room = result
                case.result = self.random.choice(("v", "v", "i", "b", "Q"))
                if case.result != "v":
                    case.before = self.random.choice(("nonzero", "zero"))
                    if len(case.own) == 1 or any("&" in one for one in case.own):
                        # One that is zero may be a value, and the last pointer an argument then.
                        case.before = "nonzero"
                    case.wanted_result = self.random.choice(("f", "d", "g"))
                    case.room = self.random.choice(self.real)
                case.take("&" + case.room, "&room", 0)
            case "store":
                case.before = self.random.choice(("none", "errno"))
                case.wanted.append("&" + case.wanted_result)
                case.store = True
                # An integer beside an integer is not taken for the float of the pointer.
                whole = ("int", "bool")
                beside = kind(result) not in whole or kind(case.wanted_result) in whole
                case.wanted_result = self.random.choice("viq" if beside else "v")
                if case.wanted_result != "v":
                    case.status, case.after = True, self.random.choice(("nonzero", "zero"))
                else:
                    case.after = case.before
            case "drop" | "status" if "&" in "".join(case.wanted[-1:]):
                pass  # that pointer would take the result
            case "drop":
                case.wanted_result = "v"
                if kind(result) in ("int", "bool"):
                    case.before = self.random.choice(("none", "zero", "nonzero"))
            case "status":
                case.result = self.random.choice(("v", "i", "q"))
                case.before = (
                    "none"
                    if case.result == "v"
                    else self.random.choice(("nonzero", "zero", "errno"))
                )
                case.wanted_result = self.random.choice(("i", "b", "Q"))
                others = [one for one in ("nonzero", "zero") if one != case.before]
                case.status, case.after = True, self.random.choice(others)


def significant(text: str) -> list[int]:
    """The bytes of a value that are no padding."""
    ctype = parse_type(text)
    if text in ("g", "Zg") and ctype.size % 16 == 0 and sys.maxsize > 2**32 and X87:
        return [16 * half + i for half in range(ctype.size // 16) for i in range(10)]
    if ctype.kind == "struct":
        return [field.offset + i for field in ctype.fields for i in range(field.type.size)]
    return [*range(ctype.size)]


X87 = nc._signature.spelling.parse_type("g").size == 16 and os.uname().machine in (
    "x86_64",
    "amd64",
)


def values(chosen: random.Random, text: str) -> bytes:
    """A value of a type, usually a small one, else one at some edge."""
    import numpy as np

    ctype = parse_type(text)
    if ctype.kind == "struct":
        made = bytearray(ctype.size)
        for one in ctype.fields:
            made[one.offset : one.offset + one.type.size] = values(chosen, one.type.text)
        return bytes(made)
    if ctype.kind == "complex":
        return values(chosen, part(text)) + values(chosen, part(text))
    plain = chosen.random() < 0.75
    if ctype.kind == "voidptr":
        return chosen.choice((0, 1, 2**40 + 8)).to_bytes(8, sys.byteorder)
    if ctype.kind in ("bool", "int"):
        bits = 8 * ctype.size
        edges = [
            0,
            1,
            *[(1 << k) + d for k in (7, 8, 11, 15, 16, 24, 31, 32, 53, 63, 64) for d in (-1, 0, 1)],
        ]
        number = chosen.randint(0, 1) if plain else chosen.choice(edges + [-one for one in edges])
        number = number & 1 if text == "?" else number & ((1 << bits) - 1)
        return number.to_bytes(ctype.size, sys.byteorder)
    edges = [0.0, 1.0, 0.5, 1e-320, 2.0**-25, 65504.0, 65519.0, 65520.0, 3.4028235e38, 3.4028236e38]
    edges += [1e300, math.inf, math.nan, 1.7976931348623157e308]
    edges += [2.0**k + d for k in (7, 8, 15, 16, 24, 31, 32, 53, 63, 64) for d in (-1, -0.5, 0, 1)]
    number = float(chosen.randint(0, 1)) if plain else chosen.choice(edges)
    number = math.copysign(number, chosen.choice((1, 1, -1)))
    if text == "g":
        with np.errstate(all="ignore"):
            wide = np.longdouble(number)
            if chosen.random() < 0.3:
                wide = np.nextafter(wide, np.longdouble(chosen.choice((-np.inf, np.inf))))
        return wide.tobytes()
    with np.errstate(all="ignore"):
        return np.dtype({"e": "f2", "f": "f4", "d": "f8"}[text]).type(number).tobytes()


class Driver:
    """The compiled cases, and memory to call them with."""

    def __init__(self, builder: Any, cases: list[Case]) -> None:
        source = PRELUDE + "\n".join([case.code(k) for k, case in enumerate(cases)])
        self.path = builder.library(source, f"pairs{len(cases)}", flags=("-O1", "-w", "-lm"))
        # One that looks for exceptions after every call.
        self.dll = ctypes.PyDLL(str(self.path))
        self.record = (ctypes.c_char * 2048).in_dll(self.dll, "record")
        self.answer = (ctypes.c_char * 64).in_dll(self.dll, "answer")
        self.written = (ctypes.c_char * 64).in_dll(self.dll, "written")
        self.calls, self.wrong, self.code, self.after = [
            ctypes.c_int.in_dll(self.dll, name) for name in ("calls", "wrong", "code", "after")
        ]
        block = ctypes.create_string_buffer(64 * SLOT + 64)
        self.block = block
        self.args = (ctypes.addressof(block) + 31) & ~31
        self.result = self.args + 32 * SLOT

    def address(self, name: str) -> int:
        return ctypes.cast(self.dll[name], ctypes.c_void_p).value or 0

    def call(self, case: Case, k: int, function: int, args: bytes) -> tuple[object, ...]:
        """All that comes of one call."""
        ctypes.memmove(self.args, args, len(args))
        ctypes.memset(self.result, 0, 64)
        ctypes.memset(self.record, 0, 2048)
        self.calls.value = self.wrong.value = 0
        raised = ""
        drive = self.dll[f"drive{k}"]
        try:
            drive(
                ctypes.c_void_p(function), ctypes.c_void_p(self.args), ctypes.c_void_p(self.result)
            )
        except (OverflowError, ValueError, nc.NativeFailure, OSError) as error:
            raised = type(error).__name__
        kept = self.record.raw
        record = [
            bytes(kept[SLOT * i + item * size + at] for at in significant(text))
            for i, (one, read) in enumerate(zip(case.own, case.read, strict=True))
            for text in [one.lstrip("&")]
            for size in [parse_type(text).size]
            for item in range(max(read, one[0] != "&"))
        ]
        result = ctypes.string_at(self.result, 64)
        seen = [] if case.wanted_result == "v" else significant(case.wanted_result)
        stored = b""
        if case.store:
            memory = ctypes.string_at(self.args + SLOT * case.place, SLOT)
            stored = bytes(memory[at] for at in significant(case.wanted[case.place][1:]))
        failed = bool(raised) or self.wrong.value > 0
        code = self.after.value if case.after == "errno" else 0
        # With errno set, C does not look at the result.
        shown = b"" if code else bytes(result[at] for at in seen)
        return failed, self.calls.value, record, shown, stored, code


@pytest.fixture(scope="module")
def halves(builder) -> bool:
    """Whether the compiler has halves."""
    try:
        builder.library(
            "_Float16 half; _Float16 f(_Float16 x) { return x + half; }", "half", flags=("-w",)
        )
    except AssertionError:
        return False
    return True


def test_matrix_of_conversions(builder, halves):
    generator = Generator(20261121, halves)
    cases = [generator.case() for _ in range(PAIRS)]
    driver = Driver(builder, cases)
    chosen = random.Random(5)
    good = done = 0
    for k, case in enumerate(cases):
        before, after = case.signatures
        own = nc.wrap(driver.address(f"callee{k}"), before, errors=case.before, name=f"callee{k}")
        try:
            thunk = own.convert(after, errors=case.after)
        except nc.SignatureError as error:
            if GENERATED or "libffi" not in str(error):
                raise
            continue
        taken = bool(thunk.entries[0].flags & _lib.FLAG_TAKES_GIL)
        assert taken == (not GENERATED and thunk is not own)
        wrapper = driver.address(f"wrapper{k}")
        for _ in range(CALLS):
            args = bytearray(SLOT * len(case.wanted))
            for i, one in enumerate(case.wanted):
                text = one.lstrip("&")
                item = parse_type(text).size
                for place in range(4 if one[0] == "&" else 1):
                    at = SLOT * i + item * place
                    args[at : at + item] = values(chosen, text)
                if i in case.counts and chosen.random() < 0.9:
                    args[SLOT * i : SLOT * i + item] = case.counts[i].to_bytes(item, sys.byteorder)
            for memory, text in ((driver.answer, case.result), (driver.written, case.room or "d")):
                if text != "v":
                    made = values(chosen, text)
                    memory[: len(made)] = made
            if case.before in ("nonzero", "zero") and chosen.random() < 0.5:
                size = parse_type(case.result).size
                driver.answer[:size] = int(case.before == "zero").to_bytes(size, sys.byteorder)
            driver.code.value = chosen.choice((0, 0, errno.EPERM))
            expected = driver.call(case, k, wrapper, bytes(args))
            found = driver.call(case, k, thunk.address(), bytes(args))
            assert found == expected, (
                k,
                before,
                after,
                case,
                args.hex(),
                bytes(driver.answer).hex(),
            )
            good += not expected[0]
            done += 1
    # Of both there are many.
    assert 0.2 < good / done < 0.8


# -- conversions, one by one ----------------------------------------------------------------------

SOURCE = """
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
typedef struct { double x, y; } Point;
int32_t twice(int32_t n) { return 2 * n; }
int64_t large(void) { return (int64_t)1 << 53 | 1; }
double sum3(double a, double b, double c) { return a + 10 * b + 100 * c; }
double sum(int n, double *x) { double s = 0; for (int i = 0; i < n; i++) s += x[i]; return s; }
double norm(Point p) { return p.x * p.x + p.y * p.y; }
Point mirrored(Point p) { return (Point){p.y, p.x}; }
void root(double *x, double *result) { *result = *x / 2; *x = -1; }
int half(double x, double *result) { if (x < 0) return 7; *result = x / 2; return 0; }
int checked(int x) { if (x < 0) errno = EDOM; return x; }
char *find(char *text) { return *text ? text : NULL; }
double scale(double x, const double *data, int n) { return x * data[n]; }
double apply(double (*f)(double), double x) { return f(x); }
int add(int count, ...)
{
    va_list rest;
    double s = 0;
    va_start(rest, count);
    for (int i = 0; i < count; i++) s += i % 2 ? va_arg(rest, double) : va_arg(rest, int);
    va_end(rest);
    return (int)s;
}
double (*kept)(double);
void keep(double (*f)(double)) { kept = f; }
double call_kept(double x) { return kept(x); }
"""
DECLARATIONS = """
typedef struct { double x, y; } Point;
int32_t twice(int32_t n); int64_t large(void); double sum3(double a, double b, double c);
double sum(int n, double *x); double norm(Point p); Point mirrored(Point p);
void root(double *x, double *result); int half(double x, double *result); int checked(int x);
char *find(char *text); double scale(double x, const double *data, int n);
double apply(double (*f)(double), double x); int add(int count, ...); double call_kept(double x);
void keep(double (*f)(double));
"""


@pytest.fixture(scope="module")
def c(builder):
    path = builder.library(SOURCE, "thunks", flags=("-O1", "-w"))
    return nc.load(path, DECLARATIONS)


def doubles(*numbers: float) -> array.array:
    return array.array("d", numbers)


def test_the_same_signature_is_the_function_itself(c):
    assert c.sum3.convert("double (double, double, double)") is c.sum3
    assert c.sum3.convert("d:ddd", errors="none") is c.sum3
    both = nc.wrap({"d:ddd": c.sum3, "i:i": c.twice})
    assert both.convert("i:i") is both["i:i"]
    named = c.sum3.convert("d:ddd", name="other")
    assert (named.__name__, named(1, 2, 3)) == ("other", 321.0)


def test_arrays_and_numbers(c):
    assert c.sum3.convert("d:i&d")(3, doubles(1, 2, 3)) == 321
    assert c.sum3.convert("d:&f")(array.array("f", [1, 2, 3])) == 321
    assert c.sum.convert("d:ddddd")(1, 2, 3, 4, 5) == 15
    assert c.sum.convert("d:f")(1.5) == 1.5
    with pytest.raises(ValueError, match="argument 1 of 'd:i&d' is 2, but 'sum3' has 3 items"):
        c.sum3.convert("d:i&d")(2, doubles(1, 2, 3))
    with pytest.raises(ValueError, match="argument 2 of 'd:i&d' is NULL, but 'sum3' needs it"):
        c.sum3.convert("d:i&d")(3, None)


def test_structs_by_value_and_by_reference(c):
    thunk = c.norm.convert("d:&T{dd}").to_ctypes()
    memory = thunk.argtypes[0]._type_(3, 4)
    assert thunk(ctypes.pointer(memory)) == 25


def test_an_argument_that_takes_the_result_is_the_result(c):
    assert c.root.convert("d:d")(5.0) == 2.5
    half = nc.wrap(c.half, errors="nonzero").convert("d:d")
    assert half(5.0) == 2.5
    with pytest.raises(nc.NativeFailure, match="'half' failed: it returned 7, not 0"):
        half(-1.0)
    place = doubles(0)
    assert c.sum3.convert("v:ddd&d")(1, 2, 3, place) is None
    assert place[0] == 321
    status = c.sum3.convert("i:ddd&d")
    assert status.entries[0].errors == "nonzero"
    assert status(3, 2, 1, place) == 0
    assert place[0] == 123


def test_what_does_not_fit_is_raised_and_c_gets_the_sentinel(c):
    thunk = c.twice.convert("d:d")
    assert thunk(21.0) == 42.0
    for value, error, message in (
        (0.5, ValueError, "argument 1 of 'twice' is 0.5, not an integer"),
        (math.nan, ValueError, "argument 1 of 'twice' is nan, not an integer"),
        (2.0**31, OverflowError, "argument 1 of 'twice' is 2147483648.0, out of range for 'i'"),
        (-math.inf, OverflowError, "argument 1 of 'twice' is -inf, out of range for 'i'"),
    ):
        with pytest.raises(error) as caught:
            thunk(value)
        assert str(caught.value).startswith(message)
    with pytest.raises(OverflowError, match="the result of 'large' is 9007199254740993, which 'd'"):
        c.large.convert("d:")()


@pytest.mark.skipif(sys.platform == "win32", reason="makes a POSIX thread")
def test_a_failure_in_a_thread_of_c_is_reported(c, builder, monkeypatch):
    """No call from Python waits there."""
    reported: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", reported.append)
    source = """
        #include <pthread.h>
        typedef double (*Function)(double);
        static double got;
        static void *run(void *function) { got = ((Function)function)(0.5); return 0; }
        double elsewhere(Function function)
        {
            pthread_t thread;
            pthread_create(&thread, 0, run, (void *)function);
            pthread_join(thread, 0);
            return got;
        }
    """
    path = builder.library(source, "elsewhere", flags=("-w", "-pthread"))
    elsewhere = nc.load(path).function("elsewhere", "d:X{d:d}", gil="release")
    thunk = c.twice.convert("d:d")
    assert math.isnan(elsewhere(thunk))
    assert [str(one.exc_value) for one in reported] == [
        "argument 1 of 'twice' is 0.5, not an integer"
    ]

    # A failure that follows from an exception that was reported is none of its own.
    def fails(*_):
        if answers:
            return answers.pop()
        raise KeyError("once")

    answers: list[float] = []
    status = nc.callback("i:d&d", fails, errors="nonzero").convert("d:d")
    number = nc.callback("d:d", fails, name="number").convert("i:d").convert("d:d")
    for thunk in (status, number, number, status):
        reported.clear()
        elsewhere(thunk)
        assert [str(one.exc_value) for one in reported] == ["'once'"]
    reported.clear()
    answers += [0.5, 7.0]
    assert elsewhere(number) == 7.0
    elsewhere(number)
    assert [str(one.exc_value) for one in reported] == [
        "the result of 'number' is 0.5, not an integer"
    ]


@pytest.mark.parametrize(
    ("before", "errors", "good", "bad"),
    [("errno", "nonzero", (3, 0), (-3, 1)), ("errno", "zero", (3, 1), (-3, 0))],
)
def test_error_conventions_one_to_another(c, before, errors, good, bad):
    thunk = nc.wrap(c.checked, errors=before).convert("i:i", errors=errors)
    assert thunk.entries[0].errors == errors
    plain = nc.wrap(thunk.address(), "i:i", owner=thunk)
    assert (plain(good[0]), plain(bad[0])) == (good[1], bad[1])
    with pytest.raises(nc.NativeFailure):
        thunk(bad[0])


def test_errno_and_null(c):
    checked = nc.wrap(c.checked, errors="errno").convert("d:d")
    assert checked(3.0) == 3.0
    with pytest.raises(OSError, match=r"\(from 'checked'\)") as caught:
        checked(-3.0)
    assert caught.value.errno == errno.EDOM
    find = nc.wrap(c.find, errors="null").convert("P:P", errors="errno")
    with pytest.raises(OSError, match="Input/output error"):
        find(bytearray(1))
    # One that fails in the conversion has errno, too; the exception is the conversion's.
    thunk = c.twice.convert("i:d", errors="errno")
    with pytest.raises(ValueError, match="not an integer"):
        thunk(0.5)


def test_variadic_functions(c):
    assert c.add.convert("i:iif")(2, 40, 2.5) == 42
    assert c.add.convert("i:ib")(1, -5) == -5
    with pytest.raises(nc.SignatureError, match="it takes at least 1 argument, not 0"):
        c.add.convert("i:")
    with pytest.raises(nc.SignatureError, match="variadic; convert"):
        c.add.bind(1)


def test_thunks_of_thunks(c):
    thunk = c.sum3.convert("d:i&d").bind(3).convert("f:fff")
    assert thunk(1, 2, 3) == 321
    assert thunk.bind(1).bind(..., 3)(2) == 321
    deep = c.twice
    for step in range(20):
        deep = deep.convert("d:d" if step % 2 == 0 else "i:i")
    assert deep(4) == 8
    with pytest.raises(OverflowError, match=r"argument 1 of 'twice' is 4294967296.0, out of range"):
        c.twice.convert("d:d").convert("q:q")(2**32)


def test_overloads_take_the_first_that_converts(c):
    both = nc.wrap({"d:ddd": c.sum3, "i:i": c.twice}, name="both")
    assert both.convert("f:f")(4) == 8
    assert both.convert("d:fff")(1, 2, 3) == 321
    with pytest.raises(nc.SignatureError) as caught:
        both.convert("d:Zd")
    assert "from 'd:ddd' to 'd:Zd'" in str(caught.value)
    assert "from 'i:i' to 'd:Zd'" in str(caught.value)
    with pytest.raises(TypeError, match="'both' has entries 'd:ddd', 'i:i'; 'signature' must name"):
        both.bind(1)
    assert both["i:i"].bind(4)() == 8


def test_a_subclass_that_overrides_calls_has_nothing_to_convert(c):
    class Loud(nc.NativeCallable):
        def __call__(self, *args):
            return "loud"

    class Quiet(nc.NativeCallable):
        pass

    with pytest.raises(nc.NoEntryError, match="has no entries"):
        Loud(c.twice).convert("d:d")
    with pytest.raises(nc.NoEntryError, match="has no entries"):
        Loud(c.twice).bind(1)
    thunk = Quiet(c.twice).convert("d:d")
    assert type(thunk) is nc.NativeCallable
    assert thunk(2) == 4
    assert thunk.builtin(3) == 6


def test_callbacks_are_converted_and_bound():
    @nc.callback("d:dd")
    def weighted(x, y):
        if x < 0:
            raise KeyError("negative")
        return x + 10 * y

    thunk = weighted.convert("d:i&d")
    assert thunk(2, doubles(1, 2)) == 21
    assert thunk.entries[0].flags & _lib.FLAG_TAKES_GIL
    assert weighted.bind(..., 4)(2) == 42
    with pytest.raises(KeyError, match="negative"):
        thunk(2, doubles(-1, 2))
    weighted.close()
    with pytest.raises(RuntimeError, match="callback 'weighted' is closed"):
        thunk(2, doubles(1, 2))


@pytest.mark.parametrize("gil", ["hold", "release"])
def test_exceptions_of_callbacks_come_through_thunks(gil):
    @nc.callback("d:d")
    def fails(x):
        raise KeyError(x)

    function = nc.wrap(fails.address(), "d:d", owner=fails, gil=gil)
    for thunk in (function.convert("f:f"), function.convert("f:f").convert("d:d")):
        with pytest.raises(KeyError, match=r"1\.0"):
            thunk(1.0)


@pytest.mark.parametrize(
    ("signature", "errors", "shown"),
    [
        ("f:O", None, "python"),
        ("f:O", "none", "none"),
        ("i:O&d", "nonzero", "nonzero"),
        ("d:O", "errno", "errno"),
        ("v:O", None, "python"),
    ],
)
def test_functions_that_raise_python_exceptions(signature, errors, shown):
    number = nc.wrap(ctypes.pythonapi.PyFloat_AsDouble, "d:O", errors="python", gil="need")
    thunk = number.convert(signature, errors=errors)
    assert (thunk.entries[0].errors, thunk.entries[0].gil) == (shown, "need")
    place = doubles(0)
    rest = (place,) if "&" in signature else ()
    result = thunk(2.5, *rest)
    assert {"v": result is None, "i": place[0] == 2.5}.get(signature[0], result == 2.5)
    with pytest.raises(TypeError, match="must be real number, not str"):
        thunk("x", *rest)


def test_a_thunk_as_a_function_pointer_argument(c):
    assert c.apply(c.twice.convert("d:d"), 21.0) == 42.0
    with pytest.raises(ValueError, match=r"argument 1 of 'twice' is 0.5, not an integer"):
        c.apply(c.twice.convert("d:d"), 0.5)


def test_gil_flags_are_carried_over(c):
    released = nc.wrap(c.twice, gil="release").convert("d:d")
    assert released.entries[0].gil == "release"
    assert released(4) == 8
    with pytest.raises(ValueError, match="not an integer"):
        released(0.5)
    needs = nc.wrap(c.twice, gil="need").bind(4)
    assert (needs.entries[0].gil, needs()) == ("need", 8)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"signature": "d:w"}, nc.SignatureError, "unknown type 'w'"),
        ({"signature": 3}, TypeError, "a signature must be str"),
        (
            {"signature": "d:d", "errors": "nonzero"},
            ValueError,
            "errors='nonzero' needs an integer",
        ),
        ({"signature": "d:d", "errors": "loud"}, ValueError, "'errors' must be one of"),
        ({"signature": "d:d", "name": 3}, TypeError, "'name' must be a str or None"),
    ],
)
def test_wrong_options(c, options, error, message):
    with pytest.raises(error, match=message):
        c.twice.convert(**options)


# -- binding --------------------------------------------------------------------------------------


def test_leading_named_and_open_arguments(c):
    assert c.sum3.bind(1)(2, 3) == 321
    assert c.sum3.bind(1, 2)(3) == 321
    assert c.sum3.bind(1, 2, 3)() == 321
    assert c.sum3.bind(..., 2)(1, 3) == 321
    assert c.sum3.bind(b=2)(1, 3) == 321
    assert c.sum3.bind(1, c=3)(2) == 321
    assert c.sum3.bind() is c.sum3
    assert c.sum3.bind(..., ..., ...) is c.sum3
    left = c.sum3.bind(b=2)
    assert left(a=1, c=3) == 321
    assert left.signatures == ("d:dd",)


@pytest.mark.parametrize(
    ("values", "named", "error", "message"),
    [
        ((1, 2, 3, 4), {}, TypeError, "'sum3' takes 3 arguments, 4 values cannot be bound to them"),
        ((1,), {"a": 2}, TypeError, "argument 'a' of 'sum3' is bound twice"),
        ((), {"z": 2}, TypeError, "'sum3' has no argument 'z'; its arguments are 'a', 'b', 'c'"),
        (("1",), {}, TypeError, r"argument 1 of 'sum3' must be a real number \(got str\)"),
        ((1, None), {}, TypeError, "argument 2 of 'sum3' must be a real number"),
        ((10**400,), {}, OverflowError, "argument 1 of 'sum3' is an int too large for a double"),
    ],
)
def test_wrong_values(c, values, named, error, message):
    with pytest.raises(error, match=message):
        c.sum3.bind(*values, **named)


def test_ranges_and_names(c):
    with pytest.raises(OverflowError, match="argument 1 of 'twice' is 4294967296, out of range"):
        c.twice.bind(2**32)
    nameless = nc.wrap(c.sum3.address(), "d:ddd", name="nameless")
    with pytest.raises(TypeError, match="'nameless' has no argument 'x'; its arguments have no"):
        nameless.bind(x=1)


def test_structs_and_arrays_are_bound(c):
    assert c.norm.bind((3, 4))() == 25
    if GENERATED:
        assert tuple(c.mirrored.bind((3, 4))()) == (4, 3)
    else:
        with pytest.raises(nc.SignatureError, match="libffi cannot return"):
            c.mirrored.bind((3, 4))
    data = doubles(1, 2, 3)
    total = c.sum.bind(3, data)
    assert total() == 6
    data[0] = 11
    assert total() == 16
    # Exported as long as it may be read.
    with pytest.raises(BufferError):
        data.append(4)
    del total
    gc.collect()
    data.append(4)
    with pytest.raises(ValueError, match="argument 2 of 'sum' must be writable"):
        c.sum.bind(3, memoryview(bytes(24)).cast("d"))


def test_a_promise_not_to_write_is_kept(c):
    frozen = memoryview(struct.pack("3d", 1, 2, 3)).cast("d")
    assert c.scale.bind(data=frozen)(10, 2) == 30


def test_functions_are_bound(c):
    assert c.apply.bind(c.twice.convert("d:d"))(4) == 8
    with pytest.raises(
        TypeError, match=r"must be a function that stays \(got function\); pass a nativecall"
    ):
        c.apply.bind(lambda x: x)

    @nc.callback("d:d")
    def square(x):
        return x * x

    assert c.apply.bind(square)(5) == 25


def test_many_thunks_share_their_code(c):
    before = len(engine._codes) if GENERATED else 0
    thunks = [c.sum3.bind(k, 1) for k in range(10_000 if GENERATED else 200)]
    assert [thunk(0) for thunk in thunks] == [k + 10 for k in range(len(thunks))]
    assert len({thunk.address() for thunk in thunks}) == len(thunks)
    if GENERATED:
        assert len(engine._codes) <= before + 1


# -- life -----------------------------------------------------------------------------------------


def test_a_thunk_keeps_what_it_calls(c):
    class Owner:
        pass

    owner = Owner()
    gone = weakref.ref(owner)
    thunk = nc.wrap(c.twice.address(), "i:i", owner=owner).convert("d:d").bind(4)
    pointer = thunk.to_ctypes()
    del owner, thunk
    gc.collect()
    assert gone() is not None
    assert pointer() == 8
    del pointer
    gc.collect()
    assert gone() is None


def test_cycles_through_a_bound_callback_are_collected(c):
    class Node:
        bound: Any

    node = Node()
    gone = weakref.ref(node)
    node.bound = c.apply.bind(nc.callback("d:d", lambda x, node=node: x + 1))
    assert node.bound(1.0) == 2.0
    del node
    gc.collect()
    assert gone() is None


def test_memory_is_level(c):
    resource = pytest.importorskip("resource")

    def used() -> int:
        gc.collect()
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def work(count: int) -> None:
        thunk = c.twice.convert("d:d")
        for k in range(count):
            assert c.sum3.bind(k)(0, 0) == k
            assert c.sum3.convert("d:&d")(doubles(k, 0, 0)) == k
            with pytest.raises(ValueError, match="not an integer"):
                thunk(k + 0.5)

    work(300)
    before = used()
    work(1000)
    assert used() - before < 1500


def test_pickling(c):
    thunk = c.sum3.convert("d:i&d", name="packed")
    again = pickle.loads(pickle.dumps(thunk))
    assert (again.__name__, again(3, doubles(1, 2, 3))) == ("packed", 321)
    bound = pickle.loads(pickle.dumps(c.sum3.bind(..., 2)))
    assert bound(1, 3) == 321
    with pytest.raises(TypeError, match="cannot pickle"):
        pickle.dumps(nc.wrap(c.twice.address(), "i:i", name="t").convert("d:d"))
    with pytest.raises((TypeError, pickle.PicklingError)):
        pickle.dumps(c.apply.bind(nc.callback("d:d", lambda x: x)))


def test_threads(c):
    thunk = c.twice.convert("d:d")
    wrong: list[object] = []

    def work(number: int) -> None:
        for k in range(300):
            value = number * 1000 + k
            try:
                if thunk(value) != 2 * value:
                    wrong.append(value)
                thunk(value + 0.5)
            except ValueError as error:
                if str(error) != f"argument 1 of 'twice' is {value + 0.5!r}, not an integer":
                    wrong.append(error)
            else:
                wrong.append(value)

    workers = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert wrong == []


@generated_only
def test_the_usual_way_has_no_frame_and_calls_nothing():
    from nativecall._adapt import rules as conversion
    from nativecall._codegen import thunk as jit

    plans = [
        conversion.convert("f", parse("d:ddd"), 0, parse("d:i&d")),
        conversion.convert("f", parse("d:i"), 0, parse("d:d")),
        conversion.bind(parse("d:ddd"), 0, [True, False, False]),
    ]
    for plan in plans:
        text = jit.intermediate(plan)
        assert text is not None
        code = engine.assembly(text, 2).partition("thunk:")[2].partition("\nfailed:")[0]
        for word in ("push", "call", "sub\t", "subq", "stp"):
            assert f"\t{word}" not in code, code


@generated_only
@pytest.mark.parametrize(
    ("own", "wanted", "errors", "conventions"),
    [
        ("d:d", "d:dP", "none", "SYSV_X86_64 AAPCS64 WIN64"),
        ("d:d", "v:d", "none", "SYSV_X86_64 AAPCS64 WIN64"),
        ("v:qdqd", "v:qdqdP", "none", "SYSV_X86_64 AAPCS64 WIN64"),
        ("d:dddddddd", "d:ddddddddP", "none", "SYSV_X86_64 AAPCS64"),
        ("q:qqqqqqq", "q:qqqqqqqP", "none", "AAPCS64"),
        ("d:ddddddddd", "d:dddddddddP", "none", ""),
        ("d:f", "d:fP", "none", "SYSV_X86_64 AAPCS64 WIN64"),
        ("d:f", "d:d", "none", ""),
        ("d:dP", "d:d", "none", ""),
        ("g:d", "v:d", "none", ""),
        ("d:g", "d:gP", "none", ""),
        ("T{d}:d", "T{d}:dP", "none", ""),
        ("d:T{d}", "d:T{d}P", "none", ""),
        ("d:d", "d:dP", "python", "SYSV_X86_64 AAPCS64 WIN64"),
        ("i:d", "i:dP", "errno", "SYSV_X86_64 AAPCS64 WIN64"),
        ("d:i.", "d:i", "none", ""),
    ],
)
def test_a_thunk_that_would_only_jump_is_the_function(own, wanted, errors, conventions):
    from nativecall._adapt import rules as conversion
    from nativecall._codegen import abi
    from nativecall._codegen import thunk as jit

    plan = conversion.convert("f", parse(own), _lib.ERRORS[errors], parse(wanted))
    found = []
    for name in ("SYSV_X86_64", "AAPCS64", "WIN64"):
        with contextlib.suppress(abi.Unsupported):
            if jit.changes_nothing(plan, getattr(abi, name)):
                found.append(name)
    assert found == conventions.split()


@generated_only
def test_the_pointer_of_a_function_in_another_signature(c):
    dropping = c.twice.convert("i:iP")
    assert dropping.address() == c.twice.address()
    assert dropping.signatures == ("i:iP",)
    assert dropping(21, None) == 42
    assert c.twice.convert("i:iP", errors="python").address() == c.twice.address()
    failing = nc.wrap(c.twice.address(), "i:i", errors="errno").convert("i:iP", errors="nonzero")
    assert failing.address() != c.twice.address()


@generated_only
@pytest.mark.parametrize("convention", ["SYSV_X86_64", "AAPCS64", "APPLE_ARM64", "WIN64"])
def test_code_for_every_convention_is_valid(convention):
    import llvmlite.binding as llvm

    from nativecall._adapt import rules as conversion
    from nativecall._codegen import abi
    from nativecall._codegen import thunk as jit

    # Windows has no long double of its own, and compilers there do not agree on halves.
    generator = Generator(7, halves=False)
    known = [one for one in generator.real if one != "g" or convention != "WIN64"]
    generator.real = known
    written = 0
    for _ in range(60):
        case = generator.case()
        before, after = map(parse, case.signatures)
        flags = _lib.ERRORS[case.before]
        plan = conversion.convert("f", before, flags, after, case.after)
        try:
            text = jit.intermediate(plan, getattr(abi, convention))
        except abi.Unsupported:
            continue
        if text is not None:
            llvm.parse_assembly(text).verify()
            written += 1
    assert written > 30


def test_a_thunk_that_dies_in_its_own_call_fails_as_others_do():
    held = {}

    def function(x):
        held.clear()
        gc.collect()
        [bytearray(64) for _ in range(1000)]  # over what was freed
        if x < 0:
            raise LookupError("below")
        return 1e300

    for x, error in ((1.0, OverflowError), (-1.0, LookupError)):
        held["thunk"] = nc.callback("d:d", function).convert("i:d")
        call = nc.wrap(held["thunk"].address(), "i:d")
        with pytest.raises(error):
            call(x)


def test_what_bind_raises_keeps_nothing_exported():
    """The traceback has the frame that had the memory of all arguments."""
    numbers, block = array.array("d", [1.0]), (ctypes.c_double * 4)()

    class Moves:
        def __float__(self):
            ctypes.resize(block, 1 << 16)
            return 1.0

    f = nc.wrap(nc.load("m").address("cos"), "d:&d&dd")
    with pytest.raises(BufferError, match="was moved") as info:
        f.bind(numbers, block, Moves())
    numbers.append(2.0)
    assert info.value.__traceback__ is not None


@pytest.mark.parametrize("kib", [0, 128])
def test_a_chain_of_thunks_ends_before_the_c_stack_does(python, kib):
    """They call one another without a look at the stack, so there are never too many."""
    code = """
        import sys, threading, nativecall as nc
        threading.stack_size(int(sys.argv[1]) << 10)
        f = nc.wrap(nc.load("m").address("cos"), "d:d")
        def run():
            thin = f
            try:
                for made in range(5000):
                    thin = thin.convert("d:&d").convert("d:d")
            except ValueError as error:
                assert "is made of too many thunks" in str(error)
                print(10 < made < 1000, thin(0.0))
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    """
    assert python(textwrap.dedent(code), kib * SCALE) == "True 1.0\n"


SHAPES = """
import gc, itertools
import nativecall as nc
from nativecall._recent import Recent
Recent.limit = 16  # code that stays when nobody uses it
def resident():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4
address = nc.load("m").address("cos")
used = []
for n, letters in enumerate(itertools.islice(itertools.product("bhiqfd", repeat=4), 500)):
    f = nc.wrap(address, "d:" + "".join(letters))
    if n % 2:
        f.convert("d:dddd")
    else:
        f.bind(1)
    if n in (299, 499):
        used.append(resident())
print((used[1] - used[0]) // 200)
"""


@pytest.mark.allocator
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks Linux for its memory")
def test_shapes_that_come_and_go_leave_little(python):
    """KB for each shape, once LLVM has what it needs; the passes of its optimizer would be 50."""
    assert int(python(SHAPES, timeout=600)) < 20
