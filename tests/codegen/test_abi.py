"""How generated code passes C's types: the compiler is the oracle.

Random signatures are compiled twice. The C compiler makes callees that hash the value of every
argument, padding excluded, and make a result of that hash; generated code calls them. It also makes
callers of generated functions, which record what arrives and return what they are told. Every byte
of every value must arrive. A nightly run has 500 signatures, or `$NATIVECALL_TEST_SIGNATURES`, and
the default level the first 200 of them.

What cannot be run on the machine is compared with tables worked out from the ABI documents.
"""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import os
import platform
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import pytest
from llvmlite import ir

from nativecall import _cache
from nativecall._cache import Cache
from nativecall._cdecl.spelling import parse, parse_type
from nativecall._codegen import abi, engine
from nativecall._errors import SignatureError
from nativecall._plan import aapcs64, sysv, win64
from nativecall._types.ctype import SCALARS, VOID, VOIDPTR, CType
from nativecall._types.derived import Array, Field, Pointer, Struct
from support.levels import sweep

BATCH = 200
COUNT = int(os.environ.get("NATIVECALL_TEST_SIGNATURES", "500"))
MOST_ARGUMENTS = 20
LARGEST = 160  # bytes of a random struct
PTR = ir.PointerType()
INT64 = ir.IntType(64)
AAPCS64 = abi.Convention(aapcs64.AAPCS64)
APPLE_ARM64 = abi.Convention(aapcs64.APPLE_ARM64)
SYSV_X86_64 = abi.Convention(sysv.SYSV_X86_64)
WIN64 = abi.Convention(win64.WIN64)
MASK = (1 << 64) - 1
GUARD = b"\xee" * 16


# --- random signatures ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """One signature, for a variadic function as it is called once."""

    result: CType
    args: tuple[CType, ...]
    fixed: int | None

    def __str__(self) -> str:
        texts = [arg.text for arg in self.args]
        if self.fixed is not None:
            texts.insert(self.fixed, ".")
        return f"{self.result.text}:{''.join(texts)}"


class Generator:
    """Random signatures in the scalar types that `codes` names."""

    INTEGERS = ("b", "B", "h", "H", "i", "I", "q", "Q", "?")
    # Fields are drawn from one of these, so that structs of one class, homogeneous ones and those
    # that mix classes in one eightbyte are all common.
    PALETTES = (
        *(("f",), ("d",), ("e",), ("f", "Zf"), ("d", "Zd"), ("e", "f"), ("f", "d"), ("g",)),
        *(("e", "h"), ("f", "i"), ("d", "q"), ("b", "?", "h"), ("b", "f"), ("b", "d", "P")),
        *(("g", "Zg"), ("b", "e", "f", "i"), INTEGERS),
    )

    def __init__(self, seed: int, codes: Sequence[str]) -> None:
        self.random = random.Random(seed)
        self.codes = [code for code in codes if code in SCALARS]
        self.palettes = [
            kept for each in self.PALETTES if (kept := [c for c in each if c in (*codes, "P")])
        ]
        self.palettes.append([*self.codes, "P"])

    def scalar(self, codes: Sequence[str]) -> CType:
        code = self.random.choice(codes)
        return VOIDPTR if code == "P" else SCALARS[code]

    def struct(self, codes: Sequence[str], depth: int = 0) -> Struct:
        fields: list[CType | tuple[None, CType, int]] = []
        for _ in range(self.random.choice((1, 1, 2, 2, 3, 4, 6))):
            field = self.scalar(codes)
            if self.random.random() < 0.15:
                field = SCALARS[self.random.choice(self.INTEGERS)]
                most = 1 if field.kind == "bool" else 8 * field.size
                fields.append((None, field, self.random.randint(0, most)))
                continue
            if depth < 3 and self.random.random() < 0.2:
                field = self.struct(codes, depth + 1)
            if self.random.random() < 0.2:
                dimensions = self.random.choice((1, 1, 1, 2))
                field = Array(field, [self.random.randint(1, 4) for _ in range(dimensions)])
            fields.append(field)
        try:
            return Struct(fields, self.random.random() < 0.3, "", self.random.random() < 0.2)
        except SignatureError:
            return self.struct(codes, depth)  # without a bit in it

    def type(self) -> CType:
        if self.random.random() < 0.5:
            while True:
                struct = self.struct(self.random.choice(self.palettes))
                if struct.size <= LARGEST and not lost_by_gcc(struct):
                    return struct
        if self.random.random() < 0.15:
            return self.random.choice((VOIDPTR, Pointer(SCALARS["d"]), parse_type("X{d:d}")))
        return self.scalar(self.codes)

    def case(self) -> Case:
        count = self.random.choice((0, 1, 2, 3, 4, 6, 8, 12, MOST_ARGUMENTS))
        args = [self.type() for _ in range(count)]
        fixed = None
        if args and self.random.random() < 0.2:
            fixed = self.random.randint(1, count)
            args[fixed:] = [promoted(arg) for arg in args[fixed:]]
        result = VOID if self.random.random() < 0.05 else self.type()
        return Case(result, tuple(args), fixed)


def lost_by_gcc(ctype: CType, offset: int = 0) -> bool:
    """Whether GCC loses part of such an object, even between its own caller and callee.

    It takes the second eightbyte of an array for one `_Float16` when the array's first element is
    a struct that lies across the end of the first eightbyte: ``T{(3)e(2)T{ee}}``.
    """
    if isinstance(ctype, Struct):
        return ctype.size <= 16 and any(
            lost_by_gcc(field.type, offset + field.offset) for field in ctype.fields
        )
    return (
        isinstance(ctype, Array)
        and ctype.length > 1
        and "e" in ctype.item.text
        and isinstance(ctype.item, Struct)
        and offset < 8 < offset + ctype.item.size
    )


def promoted(ctype: CType) -> CType:
    """What C's default promotions make of an argument."""
    if ctype.kind in ("bool", "int") and ctype.size < 4:
        return SCALARS["i"]
    return SCALARS["d"] if ctype == SCALARS["f"] else ctype


# --- their values --------------------------------------------------------------------------------


def scalars(ctype: CType, offset: int = 0) -> Iterator[tuple[CType, int, int | None]]:
    """The scalars of a type with their offsets, and their bits if they are bit-fields."""
    if isinstance(ctype, Struct):
        for field in ctype.fields:
            if field.width is None:
                yield from scalars(field.type, offset + field.offset)
            else:
                yield field.type, offset + field.offset, ((1 << field.width) - 1) << field.shift
    elif isinstance(ctype, Array):
        for index in range(ctype.length):
            yield from scalars(ctype.item, offset + index * ctype.item.size)
    elif ctype.kind == "complex":
        part = {8: "f", 16: "d", 32: "g"}[ctype.size]
        yield SCALARS[part], offset, None
        yield SCALARS[part], offset + ctype.size // 2, None
    else:
        yield ctype, offset, None


@dataclass(frozen=True)
class Run:
    """Bytes of an object that are part of its value, next to each other."""

    offset: int
    length: int
    mask: int  # the bits of each of them that are


class Layout:
    """Where the bytes of values are, for a `long double` of so many bytes without padding."""

    def __init__(self, long_double: int = 10) -> None:
        self.long_double = long_double
        self._runs: dict[str, list[Run]] = {}

    def runs(self, ctype: CType) -> list[Run]:
        found = self._runs.get(ctype.text)
        if found is None:
            used = 0  # the bits of the value
            for scalar, offset, bits in scalars(ctype) if ctype.kind != "void" else ():
                size = self.long_double if scalar.text == "g" else scalar.size
                whole = 1 if scalar.kind == "bool" else (1 << 8 * size) - 1
                used |= (whole if bits is None else bits) << 8 * offset
            masks = used.to_bytes(ctype.size, "little")
            found = self._runs[ctype.text] = []
            for mask, group in groupby(range(ctype.size), masks.__getitem__):
                offsets = [*group]
                if mask:
                    found.append(Run(offsets[0], len(offsets), mask))
        return found

    def value(self, ctype: CType, memory: bytes) -> bytes:
        """The object at the start of `memory` without its padding."""
        return bytes(
            [
                byte & run.mask
                for run in self.runs(ctype)
                for byte in memory[run.offset : run.offset + run.length]
            ]
        )

    def made(self, ctype: CType, state: int) -> bytes:
        """The value that a callee makes of the hash `state`."""
        found = bytearray()
        for run in self.runs(ctype):
            for _ in range(run.length):
                state = (state * 6364136223846793005 + 1442695040888963407) & MASK
                found.append(state >> 56 & run.mask)
        return bytes(found)


def hashed(values: Sequence[bytes]) -> int:
    state = 14695981039346656037
    for byte in b"".join(values):
        state = (state ^ byte) * 1099511628211 & MASK
    return state


# --- C -------------------------------------------------------------------------------------------

PRELUDE = """
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef WINDOWS_CONVENTION
#define CALLED_FROM_PYTHON __attribute__((sysv_abi))
#else
#define CALLED_FROM_PYTHON
#endif
#ifdef HALF
__extension__ typedef _Float16 half;
#endif

/* Of constants Clang would make the results itself, and another one of a long double that is no
 * number. */
static const volatile uint64_t begin = 14695981039346656037u;

static inline uint64_t hash(uint64_t state, const void *object, size_t offset, size_t length,
                            int mask) {
    const unsigned char *bytes = (const unsigned char *)object + offset;
    for (size_t i = 0; i < length; i++)
        state = (state ^ (bytes[i] & (unsigned)mask)) * 1099511628211u;
    return state;
}

static inline uint64_t make(uint64_t state, void *object, size_t offset, size_t length, int mask) {
    unsigned char *bytes = (unsigned char *)object + offset;
    for (size_t i = 0; i < length; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        bytes[i] = (unsigned char)((bytes[i] & ~(unsigned)mask) | (state >> 56 & (unsigned)mask));
    }
    return state;
}
"""


class Source:
    """C code of callees ``callee_<n>`` and callers ``caller_<n>`` for signatures."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.lines = [PRELUDE]
        self._structs: dict[str, str] = {}

    def spell(self, ctype: CType) -> str:
        if isinstance(ctype, Struct):
            if ctype.text not in self._structs:
                self._structs[ctype.text] = name = f"S{len(self._structs)}"
                members = "".join(
                    [self.member(field, f"m{i}") for i, field in enumerate(ctype.fields)]
                )
                packed = " __attribute__((packed))" if ctype.packed else ""
                self.lines.append(f"typedef {ctype.kind}{packed} {{ {members}}} {name};")
                self.lines.append(
                    f"_Static_assert(sizeof({name}) == {ctype.size}, {name!r});".replace("'", '"')
                )
            return self._structs[ctype.text]
        if ctype.kind in ("voidptr", "pointer", "function"):
            return "void *"
        if ctype.kind == "void":
            return "void"
        return {"e": "half"}.get(ctype.text, getattr(ctype, "c_name", ""))

    def member(self, field: Field, name: str) -> str:
        if field.width is None:
            return self.declare(field.type, name)
        return f"{self.spell(field.type)} {name if field.width else ''} : {field.width}; "

    def declare(self, ctype: CType, name: str) -> str:
        if isinstance(ctype, Array):
            dimensions = "".join([f"[{length}]" for length in ctype.shape])
            return f"{self.spell(ctype.item)} {name}{dimensions}; "
        return f"{self.spell(ctype)} {name}; "

    def add(self, number: int, case: Case) -> None:
        types = [self.spell(arg) for arg in case.args]
        result = self.spell(case.result)
        fixed = len(types) if case.fixed is None else case.fixed
        parameters = [f"{type} a{i}" for i, type in enumerate(types[:fixed])]
        if case.fixed is not None:
            parameters.append("...")
        write = self.lines.append
        write(f"{result} callee_{number}({', '.join(parameters) or 'void'}) {{")
        write("uint64_t state = begin;")
        if case.fixed is not None:
            write(f"va_list list; va_start(list, a{fixed - 1});")
        for index, (arg, type) in enumerate(zip(case.args, types, strict=True)):
            if index >= fixed:
                write(f"{type} a{index} = va_arg(list, {type});")
            for run in self.layout.runs(arg):
                write(f"state = hash(state, &a{index}, {run.offset}, {run.length}, {run.mask});")
        if case.fixed is not None:
            write("va_end(list);")
        if case.result.kind == "void":
            write("seen = state; }")
        else:
            write(f"{result} result; memset(&result, 0, sizeof result);")
            for run in self.layout.runs(case.result):
                write(f"state = make(state, &result, {run.offset}, {run.length}, {run.mask});")
            write("return result; }")
        if case.fixed is None:
            pointer = f"{result} (*function)({', '.join(types) or 'void'})"
            write(f"CALLED_FROM_PYTHON void caller_{number}({pointer},")
            write("void *const *args, void *result) {")
            given = ", ".join([f"*({type} *)args[{i}]" for i, type in enumerate(types)])
            put = "" if case.result.kind == "void" else f"*({result} *)result = "
            write(f"(void)args; (void)result; {put}function({given}); }}")

    def text(self, cases: Sequence[Case]) -> str:
        self.lines.append("uint64_t seen;")
        for number, case in enumerate(cases):
            self.add(number, case)
        return "\n".join(self.lines) + "\n"


# --- generated code ------------------------------------------------------------------------------


def generate_call(module: ir.Module, name: str, lowering: abi.Lowering, case: Case) -> None:
    """``void name(void *function, void **args, void *result)``: call it."""
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [PTR] * 3), name)
    builder = ir.IRBuilder(function.append_basic_block())
    pointer, args, result = function.args
    values = []
    for index, arg in enumerate(case.args):
        slot = builder.gep(args, [INT64(index)], source_etype=PTR)
        memory = builder.load(slot, typ=PTR)
        values.append(
            memory if abi.in_memory(arg) else builder.load(memory, typ=abi.value_type(arg))
        )
    value = lowering.emit_call(builder, pointer, values, result)
    if not abi.in_memory(case.result) and case.result.kind != "void":
        builder.store(value, result)
    builder.ret_void()


def generate_function(
    module: ir.Module, name: str, lowering: abi.Lowering, case: Case, arena: Arena
) -> None:
    """A function of the case's type: it puts its arguments into `arena` and returns its result."""
    function = lowering.define(module, name)
    builder = ir.IRBuilder(function.append_basic_block())
    entry = lowering.emit_prologue(builder, function)
    assert (entry.result_memory is not None) == abi.in_memory(case.result)
    copy = module.declare_intrinsic("llvm.memcpy", [PTR, PTR, INT64])

    def address(at: int) -> ir.Value:
        return INT64(at).inttoptr(PTR)

    for index, (arg, value) in enumerate(zip(case.args, entry.arguments, strict=True)):
        target = address(arena.received(index))
        if abi.in_memory(arg):
            builder.call(copy, [target, value, INT64(arg.size), ir.IntType(1)(0)])
        else:
            builder.store(value, target)
    source = address(arena.answer)
    if abi.in_memory(case.result):
        size = INT64(case.result.size)
        builder.call(copy, [entry.result_memory, source, size, ir.IntType(1)(0)])
        lowering.emit_return(builder, entry)
    elif case.result.kind == "void":
        lowering.emit_return(builder, entry)
    else:
        value = builder.load(source, typ=abi.value_type(case.result))
        lowering.emit_return(builder, entry, value)


class Arena:
    """Memory for the objects of one call: sent, received, the answer and the result.

    Objects begin at multiples of 16, as C may demand, and have random bytes in their padding.
    """

    SLOT = 256

    def __init__(self) -> None:
        self.buffer = ctypes.create_string_buffer((2 * MOST_ARGUMENTS + 3) * self.SLOT)
        self.start = -(-ctypes.addressof(self.buffer) // 16) * 16
        self._received = self.start + MOST_ARGUMENTS * self.SLOT
        self.answer = self._received + MOST_ARGUMENTS * self.SLOT
        self.result = self.answer + self.SLOT
        self.pointers = (ctypes.c_void_p * MOST_ARGUMENTS)(
            *[self.sent(index) for index in range(MOST_ARGUMENTS)]
        )

    def sent(self, index: int) -> int:
        return self.start + index * self.SLOT

    def received(self, index: int) -> int:
        return self._received + index * self.SLOT

    def put(self, address: int, content: bytes) -> None:
        ctypes.memmove(address, content, len(content))

    def get(self, address: int, size: int) -> bytes:
        return ctypes.string_at(address, size)


def random_object(draw: random.Random, layout: Layout, ctype: CType) -> bytes:
    content = bytearray(draw.randbytes(ctype.size))
    for run in layout.runs(ctype):
        if run.mask == 1:  # of a bool the rest is 0
            for at in range(run.offset, run.offset + run.length):
                content[at] &= 1
    return bytes(content)


def linked(module: ir.Module, names: Sequence[str]) -> tuple[engine.Code, dict[str, int]]:
    """Machine code of a module, and the addresses of its functions."""
    if not engine.available():
        pytest.skip(engine.reason())
    rows = ", ".join([f"ptr @{name}" for name in names])
    text = f"{module}\n@functions = constant [{len(names)} x ptr] [{rows}]\n"
    key = hashlib.sha256(text.encode()).hexdigest()
    code = engine.compile(key, lambda: text, "functions")
    table = (ctypes.c_void_p * len(names)).from_address(code.address)
    return code, dict(zip(names, table, strict=True))


@pytest.fixture(autouse=True)
def no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Object files are not kept."""
    monkeypatch.setattr(_cache, "_shared", Cache(None))


CALL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


def check(
    convention: abi.Convention, cases: Sequence[Case], library: Path, layout: Layout, seed: int
) -> tuple[int, int]:
    """Run `cases` against `library`; how many were called, and how many were functions."""
    lib = ctypes.CDLL(str(library))
    seen = ctypes.c_uint64.in_dll(lib, "seen")
    arena = Arena()
    module = ir.Module()
    module.triple = llvm.get_process_triple()
    exports = []
    for number, case in enumerate(cases):
        lowering = convention.lower(case.result, case.args, case.fixed)
        exports.append(f"call_{number}")
        generate_call(module, exports[-1], lowering, case)
        if case.fixed is None:
            exports.append(f"function_{number}")
            generate_function(module, exports[-1], lowering, case, arena)
    _code, addresses = linked(module, exports)
    draw = random.Random(seed)
    functions = 0
    for number, case in enumerate(cases):
        objects = [random_object(draw, layout, arg) for arg in case.args]
        for index, content in enumerate(objects):
            arena.put(arena.sent(index), content)
        values = [
            layout.value(arg, content) for arg, content in zip(case.args, objects, strict=True)
        ]
        size = case.result.size

        arena.put(arena.result, b"\xee" * size + GUARD)
        callee = ctypes.cast(getattr(lib, f"callee_{number}"), ctypes.c_void_p)
        CALL(addresses[f"call_{number}"])(callee, arena.pointers, arena.result)
        state = hashed(values)
        if case.result.kind == "void":
            assert seen.value == state, f"{case} is called with wrong arguments"
        else:
            got = layout.value(case.result, arena.get(arena.result, size))
            assert got == layout.made(case.result, state), f"{case} gives a wrong result"
        assert arena.get(arena.result + size, 16) == GUARD, f"{case} is written beyond its result"
        for index, content in enumerate(objects):
            sent = arena.get(arena.sent(index), len(content))
            assert sent == content, f"{case} changes the memory of argument {index}"

        if case.fixed is not None:
            continue
        functions += 1
        answer = random_object(draw, layout, case.result)
        arena.put(arena.answer, answer)
        for index, arg in enumerate(case.args):
            arena.put(arena.received(index), b"\xee" * arg.size)
        function = addresses[f"function_{number}"]
        CALL((f"caller_{number}", lib))(function, arena.pointers, arena.result)
        for index, arg in enumerate(case.args):
            got = layout.value(arg, arena.get(arena.received(index), arg.size))
            assert got == values[index], f"{case} receives a wrong argument {index}"
        got = layout.value(case.result, arena.get(arena.result, size))
        assert got == layout.value(case.result, answer), f"{case} returns a wrong result"
    return len(cases), functions


# --- this machine's convention -------------------------------------------------------------------


def scalar_codes(half: bool, long_double: bool) -> list[str]:
    """All scalar types once each, those that the compiler has."""
    codes = sorted({ctype.text for ctype in SCALARS.values()})
    if not half:
        codes.remove("e")
    return codes if long_double else [code for code in codes if "g" not in code]


@pytest.fixture(scope="module")
def half(builder: Any) -> bool:
    """Whether the C compiler has `_Float16`."""
    source = "__extension__ typedef _Float16 half; half one(half x); half one(half x) { return x; }"
    try:
        builder.library(source, "has_half")
    except AssertionError:
        return False
    return True


@pytest.fixture(scope="module")
def native() -> abi.Convention:
    return abi.known()


def compiled(
    builder: Any, name: str, cases: Sequence[Case], layout: Layout, flags: Sequence[str]
) -> Path:
    source = Source(layout).text(cases)
    return Path(builder.library(source, name, flags=["-O1", "-Wno-psabi", *flags]))


def this_layout() -> Layout:
    return Layout(10 if platform.machine() in ("x86_64", "AMD64") else 16)


@pytest.mark.parametrize("seed", sweep(range(-(-COUNT // BATCH)), 0))
def test_random_signatures_agree_with_the_compiler(
    seed: int, builder: Any, half: bool, native: abi.Convention
) -> None:
    layout = this_layout()
    generator = Generator(seed, scalar_codes(half, long_double=True))
    cases = [generator.case() for _ in range(min(BATCH, COUNT - seed * BATCH))]
    library = compiled(builder, f"random_{seed}", cases, layout, ["-DHALF"] if half else [])
    called, functions = check(native, cases, library, layout, seed)
    assert called == len(cases)
    assert functions > len(cases) // 2


# One signature each that an obvious implementation gets wrong.
TRAPS = [
    "i:qqqqqT{qq}qT{q}q",  # a pair that one register is left for, and what comes after it
    "i:ddddddddT{dd}T{qd}q",  # no vector register for one half of a struct
    "T{qq}:qqqqqq",
    "T{qqq}:qqqqT{qq}q",  # the hidden pointer takes a register
    "T{fi}:T{fi}T{if}",  # float and int in one eightbyte
    "T{ddb}:=T{bd}=T{db}",  # misaligned, aligned
    "=T{bd}:=T{db}=T{bhb}=T{(3)b}",
    "T{(2)=T{fb}}:T{(2)=T{fb}}T{(2)=T{bf}}",  # an array whose second element is misaligned
    "T{(3)b}:T{(3)b}T{(5)b}T{(7)b}T{(9)b}T{(15)b}",  # sizes that no register has
    "T{g}:T{g}gZgi",
    "Zg:ZgT{Zg}T{gg}",
    "Zf:ZfZfT{Zf}T{fZf}T{Zff}",
    "Zd:dddddddZdZd",
    "g:dT{bg}gd",
    "T{T{f}T{(3)f}}:T{(4)d}T{(5)f}",
    "?:?bBhH?bBhH?bBhH",  # small integers in registers and on the stack
    "b:bB",
    "B:hH",
    "h:?",
    "H:q",
    "v:T{(20)q}T{(100)b}",
    "=T{h#0b#6}:T{h#0b#6}=T{bi#0b}T{bq#0b}U{bi#0}",  # what aligns on ARM
    "v:U{(4)d?#0}T{U{ff?#0}f}T{d?#0d}",  # integers to GCC in unions alone
    "=T{iT{Q#29}}:=T{iT{Q#29}}q",  # the last eightbyte is all padding
]


def test_traps_agree_with_the_compiler(builder: Any, native: abi.Convention) -> None:
    signatures = [parse(text) for text in TRAPS]
    cases = [Case(each.result, each.args, None) for each in signatures]
    layout = this_layout()
    library = compiled(builder, "traps", cases, layout, [])
    assert check(native, cases, library, layout, 1) == (len(TRAPS), len(TRAPS))


def test_variadic_calls_agree_with_the_compiler(builder: Any, native: abi.Convention) -> None:
    # With no argument after the fixed ones, some, and more than there are registers.
    rests = ["", "d", "ddddidddddiddi", "gZgT{dd}T{qd}T{ddd}T{(3)b}", "qqqqqqT{qq}qd"]
    cases = []
    for first in ("i", "d", "T{dd}", "qqqqqq"):
        for rest in rests:
            fixed = parse(f"i:{first}").args
            cases.append(Case(SCALARS["i"], fixed + parse(f"v:{rest}").args, len(fixed)))
    layout = this_layout()
    library = compiled(builder, "variadic", cases, layout, [])
    assert check(native, cases, library, layout, 2) == (len(cases), 0)


def test_windows_convention_agrees_with_gcc(builder: Any) -> None:
    if platform.machine() != "x86_64" or platform.system() != "Linux":
        pytest.skip("GCC has the option -mabi=ms on x86-64 Linux")
    generator = Generator(1, scalar_codes(half=False, long_double=False))
    cases = [generator.case() for _ in range(60)]
    library = compiled(
        builder, "windows", cases, this_layout(), ["-mabi=ms", "-DWINDOWS_CONVENTION"]
    )
    called, functions = check(
        abi.Convention(win64.WIN64, "win64cc"), cases, library, this_layout(), 3
    )
    assert called == 60
    assert functions > 30


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mprotect"), reason="no mprotect")
def test_nothing_beyond_an_object_is_read(builder: Any, native: abi.Convention) -> None:
    texts = [f"=T{{({n}){c}}}" for n in range(1, 18) for c in "b"] + [
        "=T{fff}",
        "=T{qhb}",
        "T{eee}",
    ]
    cases = [Case(VOID, (parse_type(text),), None) for text in texts]
    module = ir.Module()
    module.triple = llvm.get_process_triple()
    source = [
        "#include <stdint.h>",
        "unsigned calls; void take(void); void take(void) { calls++; }",
    ]
    for number, case in enumerate(cases):
        generate_call(module, f"call_{number}", native.lower(VOID, case.args), case)
    lib = ctypes.CDLL(str(builder.library("\n".join(source), "take")))
    _code, addresses = linked(module, [f"call_{number}" for number in range(len(cases))])
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 2 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None)
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    assert libc.mprotect(start + page, page, 0) == 0
    function = ctypes.cast(lib.take, ctypes.c_void_p)
    for number, case in enumerate(cases):
        args = (ctypes.c_void_p * 1)(start + page - case.args[0].size)
        CALL(addresses[f"call_{number}"])(function, args, None)
    assert ctypes.c_uint.in_dll(lib, "calls").value == len(cases)


# --- conventions of other machines ---------------------------------------------------------------


def described(convention: abi.Convention, text: str, rest: str = "") -> str:
    """The C function's type in IR, with the attributes that matter."""
    signature = parse(text)
    extra = parse(f"v:{rest}").args
    fixed = len(signature.args) if rest else None
    lowering = convention.lower(signature.result, signature.args + extra, fixed)
    arguments = []
    if lowering.result.how == "reference":
        arguments.append(" ".join(["ptr", *lowering.result.attributes]))
    for passing in lowering.arguments:
        arguments += [" ".join([str(type), *passing.attributes]) for type in passing.types]
    return f"{lowering.function_type.return_type} ({', '.join(arguments)})"


HFA = "alignstack(8)"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("v:", "void ()"),
        # Small integers: the callee extends, so the caller promises nothing.
        ("b:bB?hH", "i8 (i8, i8, i8, i16, i16)"),
        ("q:qP&dX{d:d}", "i64 (i64, ptr, ptr, ptr)"),
        ("d:efdg", "double (half, float, double, fp128)"),
        # Homogeneous aggregates of 1 to 4 members, nested, in arrays, packed, complex.
        ("T{dd}:T{d}", f"[2 x double] ([1 x double] {HFA})"),
        ("T{(4)f}:T{fT{ff}}", f"[4 x float] ([3 x float] {HFA})"),
        ("T{eee}:=T{ff}", f"[3 x half] ([2 x float] {HFA})"),
        ("T{(2)T{dd}}:T{(2,2)d}", f"[4 x double] ([4 x double] {HFA})"),
        ("Zf:Zd", f"[2 x float] ([2 x double] {HFA})"),
        ("T{Zff}:T{(2)Zd}", f"[3 x float] ([4 x double] {HFA})"),
        ("g:T{ggg}", "fp128 ([3 x fp128] alignstack(16))"),
        # A packed struct has a natural alignment of 1, so 8 on the stack.
        ("Zg:=T{gg}", f"[2 x fp128] ([2 x fp128] {HFA})"),
        # Five members, mixed members, members with padding between them: not homogeneous.
        ("T{(5)f}:T{(5)f}", "void (ptr sret([20 x i8]) align 4, ptr)"),
        ("T{fd}:T{fd}", "[2 x i64] ([2 x i64])"),
        ("=T{fd}:T{ef}", "[2 x i64] (i64)"),
        ("T{fi}:T{if}", "i64 (i64)"),
        ("T{T{f}b}:T{bd}", "i64 ([2 x i64])"),
        # Others: up to 16 bytes in general registers, larger by reference.
        ("T{b}:T{(3)b}", "i64 (i64)"),
        ("T{(9)b}:T{qb}", "[2 x i64] ([2 x i64])"),
        ("T{(17)b}:T{qqb}", "void (ptr sret([17 x i8]) align 1, ptr)"),
        ("T{ddddd}:T{gb}", "void (ptr sret([40 x i8]) align 8, ptr)"),
    ],
)
def test_aapcs64(text: str, expected: str) -> None:
    assert described(AAPCS64, text) == expected


def test_aapcs64_variadic_arguments_are_passed_as_fixed_ones_are() -> None:
    found = described(AAPCS64, "i:P", "dT{dd}T{qqq}")
    assert found == f"i32 (ptr, double, [2 x double] {HFA}, ptr)"


def test_apple_extends_small_integers_and_packs_the_stack() -> None:
    found = described(APPLE_ARM64, "b:B?hT{ff}i")
    assert found == "i8 (i8 zeroext, i8 zeroext, i16 signext, [2 x float], i32)"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("b:b?f", "i8 (i8, i8, float)"),
        ("T{ff}:T{d}", "i64 (i64)"),
        ("T{bb}:T{b}", "i16 (i8)"),
        ("Zf:Zf", "i64 (i64)"),
        ("Zd:Zd", "void (ptr sret([16 x i8]) align 8, ptr)"),
        ("T{bbb}:T{dd}", "void (ptr sret([3 x i8]) align 1, ptr)"),
    ],
)
def test_win64(text: str, expected: str) -> None:
    assert described(WIN64, text) == expected


@pytest.mark.parametrize("text", ["g:", "v:g", "v:Zg", "v:T{iT{(2)g}}"])
def test_win64_has_no_wide_long_double(text: str) -> None:
    assert SCALARS["g"].size == 16, "this platform has no such type to refuse"
    signature = parse(text)
    with pytest.raises(abi.Unsupported, match="no 'long double' that is wider than 'double'"):
        WIN64.lower(signature.result, signature.args)


def test_win64_refuses_half_but_not_structs_of_it() -> None:
    with pytest.raises(abi.Unsupported, match="_Float16"):
        WIN64.lower(SCALARS["e"], [])
    assert described(WIN64, "v:T{ee}") == "void (i32)"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "b:bBhH?iq",
            "i8 (i8 signext, i8 zeroext, i16 signext, i16 zeroext, i8 zeroext, i32, i64)",
        ),
        ("T{dd}:T{fff}", "{double, double} (double, float)"),
        ("T{qd}:T{dq}", "{i64, double} (double, i64)"),
        ("T{g}:T{g}", "x86_fp80 (ptr byval([16 x i8]) align 16)"),
        ("Zg:Zg", "{x86_fp80, x86_fp80} (ptr byval([32 x i8]) align 16)"),
        ("g:g", "x86_fp80 (x86_fp80)"),
        ("T{qqb}:=T{bd}", "void (ptr sret([24 x i8]) align 8, ptr byval([9 x i8]) align 8)"),
    ],
)
def test_system_v(text: str, expected: str) -> None:
    assert described(SYSV_X86_64, text) == expected


# --- what is refused -----------------------------------------------------------------------------


def test_complex_numbers_and_halves_are_not_promoted() -> None:
    assert described(SYSV_X86_64, "v:P", "Zfe") == "void (ptr, double, half)"


def test_no_code_is_generated_for_huge_objects() -> None:
    huge = parse_type("T{(65537)b}")
    with pytest.raises(abi.Unsupported, match="65537 bytes are passed by value"):
        SYSV_X86_64.lower(VOID, [huge])
    with pytest.raises(abi.Unsupported, match="65537 bytes are passed by value"):
        AAPCS64.lower(huge, [])


def test_a_variadic_function_is_not_generated() -> None:
    lowering = SYSV_X86_64.lower(VOID, [VOIDPTR], 1)
    with pytest.raises(abi.Unsupported, match="variadic"):
        lowering.define(ir.Module(), "f")


def test_memory_is_reserved_once_though_calls_are_in_a_loop() -> None:
    struct = parse_type("T{qq}")
    lowering = AAPCS64.lower(VOID, [struct])
    module = ir.Module()
    function = lowering.define(module, "f")
    first = ir.IRBuilder(function.append_basic_block("first"))
    entry = lowering.emit_prologue(first, function)
    loop = function.append_basic_block("loop")
    first.branch(loop)
    builder = ir.IRBuilder(loop)
    copy = abi.reserve(builder, struct.size, 16)
    lowering.emit_call(builder, function, [copy], entry.result_memory)
    builder.branch(loop)
    assert str(function.basic_blocks[0]).count("alloca") == 2
    assert "alloca" not in "".join(map(str, loop.instructions))
    llvm.parse_assembly(str(module)).verify()
