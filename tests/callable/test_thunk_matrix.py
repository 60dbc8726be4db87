"""C functions made of others, for hundreds of pairs of signatures, against a C compiler.

For each pair the C compiler makes a function of the one, which records what it gets and returns
what it is told, and a wrapper of the other, written by the generator as a C programmer would by
hand. Thunk and wrapper are called by the same C code with the same random values; the record, the
result, what is written through pointers, and whether the call failed must be equal.
"""

from __future__ import annotations

import ctypes
import errno
import math
import os
import random
import sys
from dataclasses import dataclass, field
from typing import Any

import pytest

import nativecall as nc
from nativecall import _lib
from nativecall._cdecl.spelling import parse, parse_type
from nativecall._plan.aapcs64 import AAPCS64, APPLE_ARM64
from nativecall._plan.sysv import SYSV_X86_64
from nativecall._plan.win64 import WIN64
from support.levels import sweep
from support.modes import generated

FEW, MANY = 60, 1000  # pairs of signatures
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
                # A pointer at the end would be user data, beside two that might be such a pair.
                text = self.random.choice([*STRUCTS, *["P"] * (index < count - 1)])
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


X87 = nc._cdecl.spelling.parse_type("g").size == 16 and os.uname().machine in (
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


@pytest.mark.parametrize("pairs", sweep([FEW, MANY], FEW))
def test_matrix_of_conversions(builder, halves, carrier, pairs):
    generator = Generator(20261121, halves)
    cases = [generator.case() for _ in range(pairs)]
    driver = Driver(builder, cases)
    chosen = random.Random(5)
    good = done = 0
    for k, case in enumerate(cases):
        before, after = case.signatures
        own = nc.wrap(driver.address(f"callee{k}"), before, errors=case.before, name=f"callee{k}")
        thunk = own.convert(after, errors=case.after)
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


@generated
@pytest.mark.parametrize("convention", [SYSV_X86_64, AAPCS64, APPLE_ARM64, WIN64])
def test_code_for_every_convention_is_valid(monkeypatch, convention):
    import llvmlite.binding as llvm

    from nativecall._codegen import abi
    from nativecall._codegen.conversioncode import thunk
    from nativecall._plan import rules, steps
    from nativecall._plan.conversion import conversion

    monkeypatch.setattr(steps, "ABI", convention)

    # Windows has no long double of its own, and compilers there do not agree on halves.
    generator = Generator(7, halves=False)
    known = [one for one in generator.real if one != "g" or convention is not WIN64]
    generator.real = known
    valid = 0
    for _ in range(60):
        case = generator.case()
        before, after = map(parse, case.signatures)
        flags = _lib.ERRORS[case.before]
        plan = rules.convert("f", before, flags, after, case.after)
        try:
            text = thunk(conversion(plan), "thunk")
        except (abi.Unsupported, nc.SignatureError):
            continue
        llvm.parse_assembly(text).verify()
        valid += 1
    assert valid > 30
