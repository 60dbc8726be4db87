"""Signatures: callees in C that log what they get, random values, and what must come back."""

from __future__ import annotations

import ctypes
import random
import struct

import cffi
import numpy as np

import nativecall as nc
from nativecall._codegen.abi.lowering import MAX_BY_VALUE
from nativecall._signature import derived
from nativecall._signature.ctype import CType
from nativecall._signature.spelling import parse

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

# The parts of a complex number are logged one after the other, long doubles without their padding.
LONG_DOUBLE_BYTES = 10 if np.finfo(np.longdouble).nmant == 63 else np.dtype("g").itemsize


class Scalar:
    """A scalar or pointer type."""

    def __init__(self, code: str) -> None:
        self.text, self.c = code, C_TYPES[code]

    def draw(self, r: random.Random) -> tuple[object, bytes]:
        """A value, as Python passes it, and its bytes in C."""
        code = self.text
        if code == "?":
            truth = r.random() < 0.5
            return truth, bytes([truth])
        if code == "c":  # has a sign or none
            number = r.randrange(128)
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
        # What the narrowest of the formats on the way holds.
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
        """C that copies the bytes of what is at `place`, to or from a buffer."""
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
        # repr tells -0.0 from 0.0.
        return type(answer) is type(value) and repr(answer) == repr(value)


def address_in(pointer: object) -> int | None:
    """The address that a pointer result holds."""
    return None if pointer is None else int(ORACLE.cast("uintptr_t", pointer))


class Array:
    """Items one after the other, in a struct; of several dimensions when the item is an array."""

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
    """A strided view of doubles, an argument: its descriptor is what C gets."""

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


class Struct:
    """A struct by value."""

    def __init__(self, fields: list[Scalar | Array | Struct], packed: bool) -> None:
        self.fields, self.packed = fields, packed
        self.text = ("=" if packed else "") + f"T{{{''.join(one.text for one in fields)}}}"
        self.c = ""

    def draw(self, r: random.Random) -> tuple[object, bytes]:
        pairs = [field.draw(r) for field in self.fields]
        return tuple(value for value, _ in pairs), b"".join(data for _, data in pairs)

    def copies(self, place: str, function: str) -> list[str]:
        return [
            line
            for i, field in enumerate(self.fields)
            for line in field.copies(f"{place}.m{i}", function)
        ]

    def same(self, answer: tuple, value: tuple) -> bool:
        pairs = zip(self.fields, answer, value, strict=True)
        return all(field.same(a, b) for field, a, b in pairs)

    def declare(self, known: dict[str, tuple[str, str]]) -> None:
        """Add name and definition to `known`, after those of the structs in it."""
        members = []
        for i, field in enumerate(self.fields):
            item = field.innermost if isinstance(field, Array) else field
            if isinstance(item, Struct):
                item.declare(known)
            shape = field.shape if isinstance(field, Array) else []
            members.append(f"{item.c} m{i}{''.join(f'[{length}]' for length in shape)};")
        if self.text not in known:
            packed = " __attribute__((packed))" if self.packed else ""
            name = f"S{len(known)}"
            known[self.text] = name, f"typedef struct{packed} {{ {' '.join(members)} }} {name};"
        self.c = known[self.text][0]


def of_type(ctype: CType) -> Scalar | Array | Struct | View:
    """What draws values of a type."""
    if isinstance(ctype, derived.Struct):
        return Struct([of_type(field.type) for field in ctype.fields], ctype.packed)
    if isinstance(ctype, derived.Array):
        return Array(of_type(ctype.item), ctype.length)
    return View(ctype.ndim) if isinstance(ctype, derived.View) else Scalar(ctype.text)


def _bytes(arg: Scalar | Struct | View) -> int:
    return int(parse(f"v:{arg.text}").args[0].size)


class Case:
    """One signature, a random one."""

    def __init__(self, seed: int, codes: list[str]) -> None:
        self.seed = seed
        r = self.random = random.Random(seed)
        self.codes = codes
        self.variadic = r.random() < 0.1
        self.result = None if r.random() < 0.1 else self.type(0)
        while self.result is not None and _bytes(self.result) > MAX_BY_VALUE:
            self.result = self.type(0)
        # Few arguments are the commonest, many are what uses registers up.
        count = r.randrange(41) if r.random() < 0.3 else r.randrange(6)
        if self.variadic:
            count = max(count, 2)
        fixed = r.randrange(1, count) if self.variadic else count
        self.args = [
            View(r.randrange(1, 4)) if r.random() < 0.05 else self.type(0) for _ in range(fixed)
        ]
        # What a stack need not have.
        while sum(_bytes(one) for one in self.args) > MAX_BY_VALUE:
            self.args.remove(max(self.args, key=_bytes))
        # Arguments after the fixed ones have types that values bring along.
        self.extra = [
            Scalar(r.choice(["i", "I", "q", "Q", "d", "P"])) for _ in range(count - fixed)
        ]
        result = "v" if self.result is None else self.result.text
        self.text = f"{result}:{''.join(one.text for one in self.args)}{'.' * self.variadic}"
        self.gil = "hold" if "O" in self.text else r.choice(["hold", "release"])

    @classmethod
    def of(cls, number: int, text: str, extra: str = "") -> Case:
        """A chosen signature; for a variadic function, with letters of the arguments after it."""
        case = cls.__new__(cls)
        signature = parse(text)
        case.seed, case.random, case.text = number, random.Random(number), text
        case.variadic = signature.variadic
        case.result = None if signature.result.kind == "void" else of_type(signature.result)
        case.args = [of_type(arg) for arg in signature.args]
        case.extra = [Scalar(code) for code in extra]
        case.gil = "release" if number % 2 and "O" not in text else "hold"
        return case

    def type(self, depth: int) -> Scalar | Struct:
        r = self.random
        if depth == 3 or r.random() > (0.3, 0.25, 0.15)[depth]:
            code = r.choice(self.codes)
            return Scalar(code)
        alike = self.type(3) if r.random() < 0.3 else None
        fields: list[Scalar | Array | Struct] = []
        for _ in range(r.randrange(1, 6)):
            item = alike or self.type(depth + 1)
            while (isinstance(item, Array) and r.random() < 0.3) or r.random() < 0.2:
                item = Array(item, r.randrange(1, 4))
            fields.append(item)
        return Struct(fields, packed=r.random() < 0.05)

    @property
    def name(self) -> str:
        return f"f{self.seed}"

    def write(self, known: dict[str, tuple[str, str]]) -> str:
        """The callee in C."""
        for one in (self.result, *self.args):
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
            body += ["from = 0;", *self.result.copies("answer", "take"), "return answer;"]
        head = f"{self.result.c if self.result else 'void'} {self.name}"
        head += f"({', '.join(parameters) or 'void'})"
        return f"{head};\n{head}\n{{\n    " + "\n    ".join(body) + "\n}\n"

    def draw_extra(self, arg: Scalar) -> tuple[object, bytes]:
        """A value after the fixed ones, that says its type."""
        value, data = arg.draw(self.random)
        if arg.text in "iIqQ":
            value = {"i": np.int32, "I": np.uint32, "q": np.int64, "Q": np.uint64}[arg.text](value)
        return value, data


PRELUDE = f"""
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

HALF
typedef double (*function)(double);
char nc_log[{BUFFER}];
char nc_given[{BUFFER}];
static size_t at, from;
static void note(const void *value, size_t size) {{ memcpy(nc_log + at, value, size); at += size; }}
static void take(void *value, size_t size)
{{ memcpy(value, nc_given + from, size); from += size; }}
"""
HALF = "__extension__ typedef _Float16 half;"


def own(value: object) -> None:
    """Give C the references that it returns."""
    if isinstance(value, tuple):
        for item in value:
            own(item)
    elif isinstance(value, list):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))


#: How a function is called: as it is, which may be ahead of time, by its plan, or as a built-in.
WAYS = ("own", "plan", "builtin")


def check(case: Case, way: str, address: int, log: ctypes.Array, given: ctypes.Array) -> None:
    """Call through one way, with values drawn anew."""
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
        got = f.builtin(*values) if way == "builtin" else f(*values)
        assert log[: len(expected)] == expected, f"{way}: arguments of {case.text!r}: {values}"
        right = got is None if case.result is None else case.result.same(got, answer)
        assert right, f"{way}: result of {case.text!r}: {got!r}, not {answer!r}"
