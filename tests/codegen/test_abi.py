"""How generated code passes C's types: the compiler is the oracle.

For each random signature LLVM makes a function that passes its arguments on to a C function and
returns what that gives; C calls it. Every byte of every value must arrive, both ways. A nightly run
has 500 signatures, or `$NATIVECALL_TEST_SIGNATURES`, and the default level the first 200 of them.

What cannot be run on the machine is compared with tables worked out from the ABI documents.
"""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import os
import platform
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import llvmlite.binding as llvm
import pytest
from llvmlite import ir

from nativecall import _cache
from nativecall._cache import Cache
from nativecall._cdecl.spelling import parse, parse_type
from nativecall._codegen import abi, engine
from nativecall._plan import aapcs64, sysv, win64
from nativecall._types.ctype import SCALARS, VOID, VOIDPTR, CType
from support.levels import sweep
from support.randomcalls import BUFFER, C_TYPES, HALF, Case, written

BATCH = 200
COUNT = int(os.environ.get("NATIVECALL_TEST_SIGNATURES", "500"))
PTR = ir.PointerType()
INT64 = ir.IntType(64)
Lower = Callable[..., abi.Lowering]
AAPCS64 = partial(abi.lower, abi=aapcs64.AAPCS64)
APPLE_ARM64 = partial(abi.lower, abi=aapcs64.APPLE_ARM64)
SYSV_X86_64 = partial(abi.lower, abi=sysv.SYSV_X86_64)
WIN64 = partial(abi.lower, abi=win64.WIN64)


# --- generated code ------------------------------------------------------------------------------


def types_of(case: Case) -> tuple[CType, list[CType]]:
    """The result and all arguments."""
    result = VOID if case.result is None else parse_type(case.result.text)
    return result, [parse(f"v:{one.text}").args[0] for one in (*case.args, *case.extra)]


def generate_forwarder(module: ir.Module, convention: Lower, case: Case, address: int) -> None:
    """A function of the case's type, without "...", that calls the one at `address`."""
    result, args = types_of(case)
    function = convention(result, args).define(module, case.name)
    builder = ir.IRBuilder(function.append_basic_block())
    own = convention(result, args)
    passed, memory = own.emit_prologue(builder, function)
    called = convention(result, args, len(case.args) if case.variadic else None)
    pointer = builder.inttoptr(INT64(address), PTR)
    value = called.emit_call(builder, pointer, passed, memory)
    if abi.in_memory(result) or case.result is None:
        own.emit_return(builder, memory)
    else:
        own.emit_return(builder, memory, value)


def generate_call(module: ir.Module, case: Case, convention: Lower, address: int) -> None:
    """``void name(void *object)``: call the function at `address` with a struct and put the one
    that it returns in the same place."""
    result, (arg,) = types_of(case)
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [PTR]), case.name)
    builder = ir.IRBuilder(function.append_basic_block())
    pointer = builder.inttoptr(INT64(address), PTR)
    convention(result, [arg]).emit_call(builder, pointer, function.args, function.args[0])
    builder.ret_void()


def linked(
    module: ir.Module, names: Sequence[str]
) -> tuple[engine.Code, dict[str, ctypes.c_void_p]]:
    """Machine code of a module, and the addresses of its functions."""
    if not engine.available():
        pytest.skip(engine.reason())
    module.triple = llvm.get_process_triple()
    rows = ", ".join([f"ptr @{name}" for name in names])
    text = f"{module}\n@functions = constant [{len(names)} x ptr] [{rows}]\n"
    key = hashlib.sha256(text.encode()).hexdigest()
    code = engine.compile(key, lambda: text, "functions")
    table = (ctypes.c_void_p * len(names)).from_address(code.address)
    return code, dict(zip(names, map(ctypes.c_void_p, table), strict=True))


@pytest.fixture(autouse=True)
def no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Object files are not kept."""
    monkeypatch.setattr(_cache, "_shared", Cache(None))


class Callees:
    """The compiled functions of some cases, what they log and what they are given."""

    def __init__(
        self, builder: Any, name: str, cases: Sequence[Case], *flags: str, half: bool = True
    ) -> None:
        path = builder.library(written(cases, half), name, flags=("-O1", "-w", *flags))
        self.library = ctypes.CDLL(str(path))
        self.log, self.given = [
            (ctypes.c_char * BUFFER).in_dll(self.library, name) for name in ("nc_log", "nc_given")
        ]
        self.answer_at = ctypes.c_size_t.in_dll(self.library, "nc_answer_at")

    def address(self, case: Case) -> int:
        return ctypes.cast(self.library[case.name], ctypes.c_void_p).value or 0


def check(convention: Lower, cases: Sequence[Case], callees: Callees) -> None:
    """Have C call generated functions that call C."""
    module = ir.Module()
    for case in cases:
        generate_forwarder(module, convention, case, callees.address(case))
    _code, addresses = linked(module, [case.name for case in cases])
    for case in cases:
        pairs = [arg.draw(case.random) for arg in (*case.args, *case.extra)]
        sent = b"".join([data for _, data in pairs])
        answer = b"" if case.result is None else case.result.draw(case.random)[1]
        whole = sent + answer
        callees.given[: len(whole)] = whole
        callees.answer_at.value = len(sent)
        ctypes.memset(callees.log, 0xA5, len(whole) + 1)
        callees.library[f"call_{case.name}"](addresses[case.name])
        assert callees.log[: len(sent)] == sent, f"{case.text} gets wrong arguments"
        assert callees.log[len(sent) : len(whole)] == answer, f"{case.text} gives a wrong result"


# --- this machine's convention -------------------------------------------------------------------


@pytest.fixture(scope="module")
def half(builder: Any) -> bool:
    """Whether the C compiler has `_Float16`."""
    try:
        builder.library(f"{HALF} half one(half x); half one(half x) {{ return x; }}", "has_half")
    except AssertionError:
        return False
    return True


@pytest.fixture(scope="module")
def native() -> Lower:
    return abi.lower


@pytest.mark.parametrize("seed", sweep(range(0, COUNT, BATCH), 0))
def test_random_signatures_agree_with_the_compiler(
    seed: int, builder: Any, half: bool, native: Lower
) -> None:
    codes = [code for code in C_TYPES if half or code != "e"]
    # Others than those of test_random_signatures.py, which `bind` passes on.
    numbers = range(100_000 + seed, 100_000 + min(seed + BATCH, COUNT))
    cases = [Case(number, codes) for number in numbers]
    check(native, cases, Callees(builder, f"random_{seed}", cases, half=half))


# One signature each that an obvious implementation gets wrong.
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


def test_traps_agree_with_the_compiler(builder: Any, native: Lower) -> None:
    cases = [Case.of(number, text) for number, text in enumerate(TRAPS)]
    check(native, cases, Callees(builder, "traps", cases))


def test_variadic_calls_agree_with_the_compiler(builder: Any, native: Lower) -> None:
    # With no argument after the fixed ones, some, and more than there are registers.
    rests = ["", "d", "ddddidddddiddi", "gZgT{dd}T{qd}T{ddd}T{(3)b}", "qqqqqqT{qq}qd"]
    cases = []
    for first in ("i", "d", "T{dd}", "qqqqqq"):
        cases += [Case.of(len(cases) + n, f"i:{first}.", rest) for n, rest in enumerate(rests)]
    check(native, cases, Callees(builder, "variadic", cases))


def test_windows_convention_agrees_with_gcc(builder: Any) -> None:
    if platform.machine() != "x86_64" or platform.system() != "Linux":
        pytest.skip("GCC has the option -mabi=ms on x86-64 Linux")
    codes = [code for code in C_TYPES if code not in ("e", "g", "Zg")]
    cases = [case for case in [Case(number, codes) for number in range(30)] if not case.variadic]
    callees = Callees(
        builder,
        "windows",
        cases,
        "-mabi=ms",
        "-minline-all-stringops",
        "-DFROM_PYTHON=__attribute__((sysv_abi))",
    )
    check(partial(abi.lower, abi=win64.WIN64, keyword="win64cc"), cases, callees)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mprotect"), reason="no mprotect")
def test_nothing_beyond_an_object_is_read_or_written(builder: Any, native: Lower) -> None:
    texts = [f"=T{{({n})b}}" for n in range(1, 18)] + ["=T{fff}", "=T{qhb}", "T{eee}"]
    cases = [Case.of(number, f"{text}:{text}") for number, text in enumerate(texts)]
    callees = Callees(builder, "beyond", cases)
    module = ir.Module()
    for case in cases:
        generate_call(module, case, native, callees.address(case))
    _code, addresses = linked(module, [case.name for case in cases])
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 2 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None)
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    assert libc.mprotect(start + page, page, 0) == 0
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    for case in cases:
        _, sent = case.args[0].draw(case.random)
        _, answer = case.result.draw(case.random)
        place = start + page - len(sent)
        ctypes.memmove(place, sent, len(sent))
        callees.given[: len(answer)] = answer
        call(addresses[case.name].value)(place)
        assert callees.log[: len(sent)] == sent
        assert ctypes.string_at(place, len(answer)) == answer


# --- conventions of other machines ---------------------------------------------------------------


def described(convention: Lower, text: str, rest: str = "") -> str:
    """The C function's type in IR, with the attributes that matter."""
    signature = parse(text)
    extra = parse(f"v:{rest}").args
    fixed = len(signature.args) if rest else None
    lowering = convention(signature.result, signature.args + extra, fixed)
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
        WIN64(signature.result, signature.args)


def test_win64_refuses_half_but_not_structs_of_it() -> None:
    with pytest.raises(abi.Unsupported, match="_Float16"):
        WIN64(SCALARS["e"], [])
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
        SYSV_X86_64(VOID, [huge])
    with pytest.raises(abi.Unsupported, match="65537 bytes are passed by value"):
        AAPCS64(huge, [])


def test_a_variadic_function_is_not_generated() -> None:
    lowering = SYSV_X86_64(VOID, [VOIDPTR], 1)
    with pytest.raises(abi.Unsupported, match="variadic"):
        lowering.define(ir.Module(), "f")


def test_memory_is_reserved_once_though_calls_are_in_a_loop() -> None:
    struct = parse_type("T{qq}")
    lowering = AAPCS64(VOID, [struct])
    module = ir.Module()
    function = lowering.define(module, "f")
    first = ir.IRBuilder(function.append_basic_block("first"))
    _, memory = lowering.emit_prologue(first, function)
    loop = function.append_basic_block("loop")
    first.branch(loop)
    builder = ir.IRBuilder(loop)
    copy = abi.reserve(builder, struct.size, 16)
    lowering.emit_call(builder, function, [copy], memory)
    builder.branch(loop)
    assert str(function.basic_blocks[0]).count("alloca") == 2
    assert "alloca" not in "".join(map(str, loop.instructions))
    llvm.parse_assembly(str(module)).verify()
