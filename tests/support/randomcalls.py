"""Random signatures: C callees that log their arguments, random values, and expected results."""

from __future__ import annotations

import ctypes
import random
import struct
from collections.abc import Sequence
from typing import TypeAlias

import cffi
import numpy as np

import nativecall as nc
from nativecall._cdecl.spelling import parse, parse_type
from nativecall._codegen.abi import MAX_BY_VALUE
from nativecall._types import derived
from nativecall._types.ctype import CType

ORACLE = cffi.FFI()
ROUNDS = 2  # sets of values for each signature
BUFFER = 1 << 16

C_TYPES = {
    "?": "_Bool", "c": "char", "b": "int8_t", "B": "uint8_t", "h": "int16_t", "H": "uint16_t",
    "i": "int32_t", "I": "uint32_t", "q": "int64_t", "Q": "uint64_t", "e": "half",
    "f": "float", "d": "double", "g": "long double", "Zf": "float _Complex",
    "Zd": "double _Complex", "Zg": "long double _Complex", "P": "void *", "&d": "double *",
    "O": "void *", "X{d:d}": "function",
}  # fmt: skip
INTEGERS = "bBhHiIqQ"
POINTERS = {
    "P": ctypes.c_void_p,
    "&d": ctypes.POINTER(ctypes.c_double),
    "X{d:d}": ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double),
}

# The parts of a complex number are logged in turn, long doubles without padding.
LONG_DOUBLE_BYTES = 10 if np.finfo(np.longdouble).nmant == 63 else np.dtype("g").itemsize


class Scalar:
    """A scalar or pointer type."""

    def __init__(self, code: str) -> None:
        self.text, self.c = code, C_TYPES[code]

    def draw(self, r: random.Random) -> tuple[object, bytes]:
        """Return a value as Python passes it, and its bytes in C."""
        code = self.text
        if code == "?":
            truth = r.random() < 0.5
            return truth, bytes([truth])
        if code == "c":  # signed or unsigned
            number = r.randrange(1, 128)  # NUL ends a text
            return number, bytes([number])
        if code in INTEGERS:
            size = struct.calcsize(code)
            data = r.choice([r.randbytes(size), b"\xff" * size, b"\x80".rjust(size, b"\0")])
            return struct.unpack("=" + code, data)[0], data
        if code[0] == "Z":
            (re, first), (im, second) = (Scalar(code[1]).draw(r) for _ in range(2))
            return complex(re, im), first + second
        if code in POINTERS:
            address = r.getrandbits(47)
            return ctypes.cast(address, POINTERS[code]), struct.pack("N", address)
        if code == "O":
            thing = [r.random()]
            return thing, struct.pack("N", id(thing))
        # The narrowest format on the way limits the value.
        kept = "d" if code == "g" else code
        while True:
            data = r.randbytes(struct.calcsize(kept))
            number = struct.unpack("=" + kept, data)[0]
            if number == number:
                break
        if code == "g":
            return number, np.longdouble(number).tobytes()[:LONG_DOUBLE_BYTES]
        return number, data

    def copies(self, place: str, function: str) -> list[str]:
        """Return C that copies the bytes at `place` to or from a buffer."""
        if self.text[0] == "Z":
            part = C_TYPES[self.text[1]]
            size = Scalar(self.text[1]).size
            return [f"{function}(({part} *)&{place} + {i}, {size});" for i in range(2)]
        return [f"{function}(&{place}, {self.size});"]

    @property
    def size(self) -> str:
        return str(LONG_DOUBLE_BYTES) if self.text == "g" else f"sizeof({self.c})"

    def same(self, answer: object, value: object) -> bool:
        if self.text in POINTERS:
            return address_in(answer) == ctypes.cast(value, ctypes.c_void_p).value
        if self.text == "O":
            return answer is value
        # repr distinguishes -0.0 from 0.0.
        return type(answer) is type(value) and repr(answer) == repr(value)


def address_in(pointer: object) -> int | None:
    """Return the address in a pointer result."""
    return None if pointer is None else int(ORACLE.cast("uintptr_t", pointer))


class Array:
    """An array in a struct; its item is an array if it has several dimensions."""

    def __init__(self, item: Scalar | Struct | Array, length: int) -> None:
        self.item, self.length = item, length
        self.shape: list[int] = [length, *(item.shape if isinstance(item, Array) else [])]
        self.innermost: Scalar | Struct = item.innermost if isinstance(item, Array) else item
        self.text = f"({','.join(map(str, self.shape))}){self.innermost.text}"

    def draw(self, r: random.Random) -> tuple[object, bytes]:
        pairs = [self.item.draw(r) for _ in range(self.length)]
        return tuple(value for value, _ in pairs), b"".join(data for _, data in pairs)

    def copies(self, place: str, function: str) -> list[str]:
        items = range(self.length)
        return [line for i in items for line in self.item.copies(f"{place}[{i}]", function)]

    def same(self, answer: tuple, value: tuple) -> bool:
        return len(answer) == len(value) and all(map(self.item.same, answer, value))


class View:
    """A strided view of doubles as an argument: C gets its descriptor."""

    def __init__(self, ndim: int) -> None:
        self.ndim = ndim
        self.text, self.c = f"[{ndim}]d", "intptr_t *"

    def draw(self, r: random.Random) -> tuple[object, bytes]:
        array = np.zeros([r.randrange(1, 4) for _ in range(self.ndim)])
        array = array.transpose(r.sample(range(self.ndim), self.ndim))[:: r.choice([1, 2, -1])]
        seen = memoryview(array)
        words = (array.ctypes.data, *seen.shape, *seen.strides)
        return array, struct.pack(f"{len(words)}n", *words)

    def copies(self, place: str, function: str) -> list[str]:
        return [f"{function}({place}, {1 + 2 * self.ndim} * sizeof(intptr_t));"]

    def same(self, answer: np.ndarray, value: np.ndarray) -> bool:
        # Strides along a dimension of length 1 do not matter.
        steps = [
            [step for step, length in zip(one.strides, one.shape, strict=True) if length > 1]
            for one in (answer, value)
        ]
        alike = answer.shape == value.shape and answer.ctypes.data == value.ctypes.data
        return alike and steps[0] == steps[1]


class Bits:
    """A bit-field; one of 0 bits has no value and no name."""

    def __init__(self, item: Scalar, width: int) -> None:
        self.item, self.width = item, width
        self.text = f"{item.text}#{width}"

    def draw(self, r: random.Random) -> tuple[object, bytes]:
        size = parse_type(self.item.text).size
        if self.item.text == "?":
            return self.item.draw(r)
        signed = self.item.text.islower()
        number = r.getrandbits(self.width) - (signed << self.width - 1)
        return number, number.to_bytes(size, "little", signed=signed)

    def copies(self, place: str, function: str) -> list[str]:
        whole = f"{self.item.c} bits = {place}; {function}(&bits, sizeof bits);"
        return [f"{{ {whole} {place} = bits; }}"]

    def same(self, answer: object, value: object) -> bool:
        return self.item.same(answer, value)


Member: TypeAlias = "Scalar | Array | Bits | Struct"


class Struct:
    """A struct by value, or a union, of which one member has a value."""

    def __init__(self, fields: list[Member], packed: bool, chosen: int | None = None) -> None:
        self.fields, self.packed, self.chosen = fields, packed, chosen
        self.members = [
            (f"f{i}", field)
            for i, field in enumerate(fields)
            if (chosen is None or i == chosen) and getattr(field, "width", 1)
        ]
        texts = [
            f"{field.text}:f{i}:" if getattr(field, "width", 0) else field.text
            for i, field in enumerate(fields)
        ]
        letter = "T" if chosen is None else "U"
        self.text = f"{'=' * packed}{letter}{{{''.join(texts)}}}"
        self.c = ""

    def draw(self, r: random.Random) -> tuple[object, bytes]:
        drawn = {name: field.draw(r) for name, field in self.members}
        values = {name: value for name, (value, _) in drawn.items()}
        value = tuple(values.values()) if self.chosen is None else values
        return value, b"".join(data for _, data in drawn.values())

    def copies(self, place: str, function: str) -> list[str]:
        return [
            line
            for name, field in self.members
            for line in field.copies(f"{place}.{name}", function)
        ]

    def same(self, answer: tuple, value: tuple | dict[str, object]) -> bool:
        if isinstance(value, dict):
            return all(
                field.same(getattr(answer, name), value[name]) for name, field in self.members
            )
        pairs = zip(self.members, answer, value, strict=True)
        return all(field.same(a, b) for (_, field), a, b in pairs)

    def declare(self, known: dict[str, tuple[str, str]]) -> None:
        """Add name and definition to `known`, after those of nested structs."""
        members = []
        for i, field in enumerate(self.fields):
            item = field.innermost if isinstance(field, Array) else field
            item = item.item if isinstance(item, Bits) else item
            if isinstance(item, Struct):
                item.declare(known)
            name = f"f{i}" if getattr(field, "width", 1) else ""
            if isinstance(field, Array):
                name += "".join(f"[{length}]" for length in field.shape)
            elif isinstance(field, Bits):
                name += f" : {field.width}"
            members.append(f"{item.c} {name};")
        if self.text not in known:
            packed = " __attribute__((packed))" if self.packed else ""
            name = f"S{len(known)}"
            word = "struct" if self.chosen is None else "union"
            known[self.text] = name, f"typedef {word}{packed} {{ {' '.join(members)} }} {name};"
        self.c = known[self.text][0]


def of_type(ctype: CType) -> Scalar | Array | Struct | View:
    """Return a generator of a type's values."""
    if isinstance(ctype, derived.Struct):
        fields = [
            of_type(field.type) if field.width is None else Bits(of_type(field.type), field.width)
            for field in ctype.fields
        ]
        return Struct(fields, ctype.packed, 0 if ctype.kind == "union" else None)
    if isinstance(ctype, derived.Array):
        return Array(of_type(ctype.item), ctype.length)
    return View(ctype.ndim) if isinstance(ctype, derived.View) else Scalar(ctype.text)


def _bytes(arg: Scalar | Struct | View) -> int:
    return int(parse(f"v:{arg.text}").args[0].size)


class Case:
    """A random signature."""

    def __init__(self, seed: int, codes: list[str]) -> None:
        self.seed = seed
        r = self.random = random.Random(seed)
        self.codes = codes
        self.variadic = r.random() < 0.1
        self.result = None if r.random() < 0.1 else self.type(0)
        while self.result is not None and _bytes(self.result) > MAX_BY_VALUE:
            self.result = self.type(0)
        # Few arguments are the most common; many use up the registers.
        count = r.randrange(41) if r.random() < 0.3 else r.randrange(6)
        if self.variadic:
            count = max(count, 2)
        fixed = r.randrange(1, count) if self.variadic else count
        self.args = [
            View(r.randrange(1, 4)) if r.random() < 0.05 else self.type(0) for _ in range(fixed)
        ]
        # Limit the stack.
        while sum(_bytes(one) for one in self.args) > MAX_BY_VALUE:
            self.args.remove(max(self.args, key=_bytes))
        # Variadic arguments have types that values determine.
        self.extra = [
            Scalar(r.choice(["i", "I", "q", "Q", "d", "P"])) for _ in range(count - fixed)
        ]
        result = "v" if self.result is None else self.result.text
        self.text = f"{result}:{''.join(one.text for one in self.args)}{'.' * self.variadic}"
        self.gil = "hold" if "O" in self.text else r.choice(["hold", "release"])

    @classmethod
    def of(cls, number: int, text: str, extra: str = "") -> Case:
        """Return a chosen signature; `extra` has codes for variadic arguments."""
        case = cls.__new__(cls)
        signature = parse(text)
        case.seed, case.random, case.text = number, random.Random(number), text
        case.variadic = signature.variadic
        case.result = None if signature.result.kind == "void" else of_type(signature.result)
        case.args = [of_type(arg) for arg in signature.args]
        case.extra = [of_type(arg) for arg in parse(f"v:{extra}").args]
        case.gil = "release" if number % 2 and "O" not in text else "hold"
        return case

    def type(self, depth: int) -> Scalar | Struct:
        r = self.random
        if depth == 3 or r.random() > (0.3, 0.25, 0.15)[depth]:
            code = r.choice(self.codes)
            return Scalar(code)
        union = r.random() < 0.15
        codes = self.codes
        if union:  # a union has no objects
            self.codes = [code for code in codes if code != "O"]
        alike = self.type(3) if r.random() < 0.3 else None
        fields: list[Member] = []
        for _ in range(r.randrange(1, 6)):
            if not alike and r.random() < 0.15:
                whole = Scalar(r.choice("?" + INTEGERS))
                most = 1 if whole.text == "?" else 8 * parse_type(whole.text).size
                fields.append(Bits(whole, r.randint(union or not fields, most)))
                continue
            item = alike or self.type(depth + 1)
            while (isinstance(item, Array) and r.random() < 0.3) or r.random() < 0.2:
                item = Array(item, r.randrange(1, 4))
            fields.append(item)
        self.codes = codes
        return Struct(fields, r.random() < 0.05, r.randrange(len(fields)) if union else None)

    @property
    def name(self) -> str:
        return f"f{self.seed}"

    def write(self, known: dict[str, tuple[str, str]]) -> str:
        """Return the callee in C."""
        for one in (self.result, *self.args, *self.extra):
            if isinstance(one, Struct):
                one.declare(known)
        parameters = [f"{arg.c} a{i}" for i, arg in enumerate(self.args)]
        body = ["at = 0;"]
        for i, arg in enumerate(self.args):
            body += arg.copies(f"a{i}", "note")
        if self.variadic:
            parameters.append("...")
            body.append(f"va_list more; va_start(more, a{len(self.args) - 1});")
            for i, arg in enumerate(self.extra):
                body += [f"{arg.c} b{i} = va_arg(more, {arg.c});", *arg.copies(f"b{i}", "note")]
            body.append("va_end(more);")
        if self.result is not None:
            body += [f"{self.result.c} answer;", "memset(&answer, 0, sizeof answer);"]
            body += [
                "from = nc_answer_at;",
                *self.result.copies("answer", "take"),
                "return answer;",
            ]
        head = f"{self.result.c if self.result else 'void'} {self.name}"
        head += f"({', '.join(parameters) or 'void'})"
        functions = {head: body, **self.caller()}
        return "".join(
            f"{head};\n{head}\n{{\n    " + "\n    ".join(body) + "\n}\n"
            for head, body in functions.items()
        )

    def caller(self) -> dict[str, list[str]]:
        """Return C that calls such a function without "...", and logs the result."""
        args = [*self.args, *self.extra]
        body = ["at = from = 0;"]
        for i, arg in enumerate(args):
            words = f"[{1 + 2 * arg.ndim}]" if isinstance(arg, View) else ""
            c = "intptr_t" if words else arg.c
            body.append(f"{c} a{i}{words}; memset(&a{i}, 0, sizeof a{i});")
            body += arg.copies(f"a{i}", "take")
        types = ", ".join(arg.c for arg in args) or "void"
        result = self.result.c if self.result else "void"
        call = f"f({', '.join(f'a{i}' for i in range(len(args)))});"
        if self.result:
            body += [f"{result} answer = {call}", *self.result.copies("answer", "note")]
        else:
            body.append(call)
        return {f"FROM_PYTHON void call_{self.name}({result} (*f)({types}))": body}

    def draw_extra(self, arg: Scalar) -> tuple[object, bytes]:
        """Return a variadic argument, which determines its type."""
        value, data = arg.draw(self.random)
        if arg.text in "iIqQ":
            value = {"i": np.int32, "I": np.uint32, "q": np.int64, "Q": np.uint64}[arg.text](value)
        return value, data


PRELUDE = f"""
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#ifndef FROM_PYTHON
#define FROM_PYTHON
#endif
HALF
typedef double (*function)(double);
char nc_log[{BUFFER}];
char nc_given[{BUFFER}];
size_t nc_answer_at; /* where in nc_given the result lies */
static size_t at, from;
static void note(const void *value, size_t size) {{ memcpy(nc_log + at, value, size); at += size; }}
static void take(void *value, size_t size)
{{ memcpy(value, nc_given + from, size); from += size; }}
"""
HALF = "__extension__ typedef _Float16 half;"


def written(cases: Sequence[Case], half: bool) -> str:
    """Return the C file of some cases."""
    known: dict[str, tuple[str, str]] = {}
    bodies = [case.write(known) for case in cases]
    types = [definition for _, definition in known.values()]
    return "\n".join([PRELUDE.replace("HALF", HALF if half else ""), *types, *bodies])


def own(value: object) -> None:
    """Give C the references that it returns."""
    if isinstance(value, tuple):
        for item in value:
            own(item)
    elif isinstance(value, list):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))


#: How a function is called: directly, perhaps ahead of time; by its plan; as a built-in; or by a C
#: function with some arguments bound.
WAYS = ("own", "plan", "builtin", "bound")


def check(case: Case, way: str, address: int, log: ctypes.Array, given: ctypes.Array) -> None:
    """Call in one way, with new values."""
    if way == "bound" and case.variadic:
        return
    f = nc.wrap(address, case.text, name=case.name, gil=case.gil)
    if way != "own":
        f._unwrap()
    case.random.seed(f"values {case.seed}")
    for _ in range(ROUNDS):
        pairs = [arg.draw(case.random) for arg in case.args]
        pairs += [case.draw_extra(arg) for arg in case.extra]
        expected = b"".join(data for _, data in pairs)
        answer, data = (None, b"") if case.result is None else case.result.draw(case.random)
        own(answer)
        given[: len(data)] = data
        ctypes.memset(log, 0xA5, len(expected) + 1)
        values = [value for value, _ in pairs]
        call = f.builtin if way == "builtin" else f
        if way == "bound":
            count = case.random.randint(0, len(values))
            bound = f.bind(*values[:count])
            rest = case.text.partition(":")[0] if case.result is None else case.result.text
            rest += ":" + "".join(arg.text for arg in case.args[count:])
            call = nc.wrap(bound.address(), rest, owner=bound, gil=case.gil)
            values = values[count:]
        got = call(*values)
        assert log[: len(expected)] == expected, f"{way}: arguments of {case.text!r}: {values}"
        right = got is None if case.result is None else case.result.same(got, answer)
        assert right, f"{way}: result of {case.text!r}: {got!r}, not {answer!r}"


def check_callback(case: Case, path: str, log: ctypes.Array, given: ctypes.Array) -> None:
    """Let C call a Python function, with new values."""
    arrived: list[object] = []

    def function(*got: object) -> object:
        pairs = zip(case.args, got, (value for value, _ in sent), strict=True)
        arrived.append([got for arg, got, value in pairs if not arg.same(got, value)])
        return answer

    callback = nc.callback(case.text, function)
    library = (ctypes.PyDLL if "O" in case.text else ctypes.CDLL)(path)
    case.random.seed(f"callback {case.seed}")
    for _ in range(ROUNDS):
        sent = [arg.draw(case.random) for arg in case.args]
        answer, data = (None, b"") if case.result is None else case.result.draw(case.random)
        values = b"".join(data for _, data in sent)
        given[: len(values)] = values
        ctypes.memset(log, 0xA5, len(data) + 1)
        library[f"call_{case.name}"](ctypes.c_void_p(callback.address()))
        assert arrived == [[]], f"arguments of a callback {case.text!r}: {arrived}"
        assert log[: len(data)] == data, f"result of a callback {case.text!r}: {answer!r}"
        arrived.clear()
