"""The C compiler is the oracle: callees of chosen and of random signatures, all in one C file.

Each callee compares every argument, member by member, with the value that the test passes, notes
which was the first to differ, and returns a value that the test knows. Each is called through its
trampoline where it has one, and through libffi.
"""

from __future__ import annotations

import ctypes
import itertools
import random
import sys
from collections.abc import Iterator

import cffi
import numpy as np
import pytest

import nativecall as nc
from nativecall._fifo import Cache
from nativecall._libffi import types as libffi
from nativecall._signature.spelling import parse
from support.modes import GENERATED

ORACLE = cffi.FFI()
SEED = 20250601
RANDOM_SIGNATURES = 120

C_TYPES = {
    "?": "_Bool", "c": "char", "b": "signed char", "B": "unsigned char", "h": "short",
    "H": "unsigned short", "i": "int", "I": "unsigned int", "l": "long", "L": "unsigned long",
    "q": "long long", "Q": "unsigned long long", "n": "ptrdiff_t", "N": "size_t",
    "e": "_Float16", "f": "float", "d": "double", "g": "long double",
    "Zf": "float _Complex", "Zd": "double _Complex", "Zg": "long double _Complex",
    "P": "void *", "&d": "double *", "&i": "int *", "X{d:d}": "Function",
}  # fmt: skip
SIZES = {"?": 1, "c": 1, "b": 1, "B": 1, "h": 2, "H": 2, "i": 4, "I": 4, "q": 8, "Q": 8}
SIZES.update({code: ctypes.sizeof(ctypes.c_long) for code in "lL"})
SIZES.update({code: ctypes.sizeof(ctypes.c_void_p) for code in "nN"})
INTEGERS = list(SIZES)
SCALARS = [*INTEGERS, "f", "d", "g", "Zf", "Zd", "Zg"]
POINTERS = ["P", "&d", "&i", "X{d:d}"]


class Scalar:
    """A scalar or pointer type, and one value of it."""

    def __init__(self, code: str) -> None:
        self.code = code
        self.c = C_TYPES[code]

    def real(self, random: random.Random) -> float:
        # Representable in every format, half included.
        return random.choice([-1, 1]) * random.randrange(1, 2000) / 8

    def value(self, random: random.Random, result: bool = False) -> tuple[object, str]:
        """A Python value, and how C writes it; for a pointer, how C writes what it points to."""
        code = self.code
        if result and code in POINTERS:
            literal = "square" if code == "X{d:d}" else f"({self.c})(uintptr_t)4096"
            return None, literal
        if code == "?":
            truth = random.random() < 0.5
            return truth, str(int(truth))
        if code in SIZES:
            bits = 8 * SIZES[code]
            # Plain char is either; the values of both are taken.
            signed = code.islower() and code != "c"
            low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
            if code == "c":
                high = 127
            number = random.choice([low, high, random.randint(low, high)])
            if number == -(2**63):
                return number, "(-9223372036854775807LL - 1)"
            return number, f"({self.c}){number}{'LL' if signed else 'ULL'}"
        if code in ("e", "f", "d", "g"):
            number = self.real(random)
            suffix = {"e": "f", "f": "f", "d": "", "g": "L"}[code]
            return number, f"({self.c}){number.hex()}{suffix}"
        if code[0] == "Z":
            number = complex(self.real(random), self.real(random))
            macro = {"f": "CMPLXF", "d": "CMPLX", "g": "CMPLXL"}[code[1]]
            suffix = {"f": "f", "d": "", "g": "L"}[code[1]]
            return number, f"{macro}({number.real.hex()}{suffix}, {number.imag.hex()}{suffix})"
        # Pointers: what they point to is checked.
        if code == "X{d:d}":
            return "square", "0"
        number = random.randrange(1, 100)
        return np.full(2, number, dtype="i4" if code == "&i" else "f8"), str(number)

    def checks(self, place: str, literal: str) -> Iterator[str]:
        if self.code == "X{d:d}":
            yield f"{place}(3.0) == 9.0"
        elif self.code == "P":
            yield f"*(double *){place} == {literal}"
        elif self.code[0] == "&":
            yield f"{place}[0] == {literal} && {place}[1] == {literal}"
        else:
            yield f"{place} == {literal}"

    def same(self, answer: object, value: object) -> bool:
        if self.code == "X{d:d}":
            return answer(3.0) == 9.0
        if self.code in POINTERS:
            return int(ORACLE.cast("uintptr_t", answer)) == 4096
        return answer == value and type(answer) is type(value)

    @property
    def code_text(self) -> str:
        return self.code


class Array:
    """An array of a fixed length, inside a struct."""

    def __init__(self, item: Scalar | Struct, length: int) -> None:
        self.item, self.length = item, length
        self.code_text = f"({length}){item.code_text}"

    def value(self, random: random.Random, result: bool = False) -> tuple[object, object]:
        pairs = [self.item.value(random, result) for _ in range(self.length)]
        return tuple(a for a, _ in pairs), [b for _, b in pairs]

    def checks(self, place: str, literals: list) -> Iterator[str]:
        for i, literal in enumerate(literals):
            yield from self.item.checks(f"{place}[{i}]", literal)

    def same(self, answer: tuple, value: tuple) -> bool:
        return len(answer) == self.length and all(map(self.item.same, answer, value))


class Struct:
    """A struct by value."""

    def __init__(self, fields: list, packed: bool = False) -> None:
        self.fields, self.packed = fields, packed
        self.code_text = (
            ("=" if packed else "") + "T{" + "".join(field.code_text for field in fields) + "}"
        )
        self.c = ""

    def value(self, random: random.Random, result: bool = False) -> tuple[object, object]:
        pairs = [field.value(random, result) for field in self.fields]
        return tuple(a for a, _ in pairs), [b for _, b in pairs]

    def checks(self, place: str, literals: list) -> Iterator[str]:
        for i, (field, literal) in enumerate(zip(self.fields, literals, strict=True)):
            yield from field.checks(f"{place}.m{i}", literal)

    def same(self, answer: tuple, value: tuple) -> bool:
        return len(answer) == len(self.fields) and all(
            field.same(a, b) for field, a, b in zip(self.fields, answer, value, strict=True)
        )

    def declare(self, out: list[str]) -> None:
        """Append the typedef, those it needs first."""
        if self.c:
            return
        lines = []
        for i, field in enumerate(self.fields):
            item = field.item if isinstance(field, Array) else field
            if isinstance(item, Struct):
                item.declare(out)
            size = f"[{field.length}]" if isinstance(field, Array) else ""
            lines.append(f"    {item.c} m{i}{size};")
        self.c = f"S{len(out)}"
        attribute = "__attribute__((packed)) " if self.packed else ""
        out.append(f"typedef struct {attribute}{{\n" + "\n".join(lines) + f"\n}} {self.c};")


def initializer(literal: object) -> str:
    if isinstance(literal, list):
        return "{" + ", ".join(map(initializer, literal)) + "}"
    return str(literal)


class Case:
    """One signature with values for its arguments and its result."""

    def __init__(self, result, args: list, random: random.Random, extra: list = ()) -> None:
        self.result, self.args, self.extra = result, args, list(extra)
        self.values = [arg.value(random) for arg in [*args, *self.extra]]
        self.answer = (None, "") if result is None else result.value(random, result=True)
        self.signature = (
            ("v" if result is None else result.code_text)
            + ":"
            + "".join(arg.code_text for arg in args)
            + ("." if extra else "")
        )

    def write(self, name: str, types: list[str]) -> str:
        """The callee in C."""
        for one in (self.result, *self.args):
            if isinstance(one, Struct):
                one.declare(types)
        result = "void" if self.result is None else self.result.c
        params = ", ".join(f"{arg.c} a{i}" for i, arg in enumerate(self.args)) or "void"
        if self.extra:
            params += ", ..."
        body = []
        if self.extra:
            body.append(f"    va_list more;\n    va_start(more, a{len(self.args) - 1});")
        for i, (arg, (_, literal)) in enumerate(
            zip([*self.args, *self.extra], self.values, strict=True)
        ):
            if i >= len(self.args):
                body.append(f"    {arg.c} a{i} = va_arg(more, {arg.c});")
            body += [f"    CHECK({i}, {check});" for check in arg.checks(f"a{i}", literal)]
        if self.extra:
            body.append("    va_end(more);")
        if self.result is not None:
            if isinstance(self.result, Struct):
                body.append(f"    {result} answer = {initializer(self.answer[1])};")
                body.append("    return answer;")
            else:
                body.append(f"    return {self.answer[1]};")
        head = f"{result} {name}({params})"
        return f"{head};\n{head}\n{{\n    differs = -1;\n" + "\n".join(body) + "\n}"


def S(*codes: object, packed: bool = False) -> Struct:
    return Struct([Scalar(one) if isinstance(one, str) else one for one in codes], packed)


def A(item: object, length: int) -> Array:
    return Array(Scalar(item) if isinstance(item, str) else item, length)


# Structs at the edges of the rules of the C ABIs: sizes around one and two registers, mixed
# classes, homogeneous floats, members of two registers each, nested and packed ones.
def chosen_structs() -> list[Struct]:
    sizes = [S(A("B", n)) for n in (*range(1, 20), 31, 32, 33, 64)]
    return sizes + [
        S("d"), S("f"), S("q"), S("?"), S("d", "d"), S("q", "d"), S("d", "q"), S("f", "f"),
        S("f", "f", "f"), S("f", "f", "f", "f"), S("f", "i"), S("i", "f", "d"), S("d", "f", "i"),
        S("d", "d", "d"), S("d", "d", "d", "d"), S("f", "f", "f", "f", "f"), S("q", "q", "q"),
        S("b", "h", "i"), S("b", "d"), S("i", "b", "h", "q"), S("g"), S("g", "b"), S("g", "g"),
        S(S(A("g", 1))),
        S("Zf"), S("Zd"), S("Zf", "f"), S("Zf", "i"), S("i", "Zd"), S("Zf", "Zf"),
        S(A("f", 3)), S(A("d", 2)), S(A("h", 5)), S(A(S("f", "f"), 2)), S("b", S("b", "d")),
        S(S("f"), S("f", S("i"))), S("b", A("b", 7), "d"), S(S(S(S("d")))),
        S("P"), S("&d", "i"), S("X{d:d}", "d"), S(A("h", 3), "B"), S("d", A("b", 1)),
        S("b", "q", "q", packed=True), S("b", "d", "d", "h", packed=True),
        S("d", "d", packed=True), S("i", "i", packed=True), S("h", A("d", 3), packed=True),
        S("d", "b", packed=True), S("g", "b", packed=True), S(S("g", "b", packed=True), "d"),
        S("b", S("d", "q", "b", packed=True), "b"), S("g", S("d", "b", packed=True)),
        S("i", S("q", "q", "q", packed=True), "?"),
    ]  # fmt: skip


def chosen() -> Iterator[Case]:
    r = random.Random(SEED)
    for code in SCALARS + POINTERS:
        if code != "Zg":
            yield Case(Scalar(code), [Scalar(code)], r)
        yield Case(Scalar("i"), [Scalar(code)] * 3, r)
    # More than the registers hold, of each kind and of both.
    long = ("i" * 12, "d" * 12, "id" * 10, "fbdh" * 5, "q" * 7 + "d" * 9 + "qd", "g" * 3 + "i")
    for word in long:
        yield Case(Scalar("d"), [Scalar(code) for code in word], r)
    yield Case(Scalar("q"), [Scalar(c) for c in "bBhHiIqQ?" * 2], r)
    yield Case(Scalar("Zd"), [Scalar("Zd")] * 6, r)
    yield Case(Scalar("Zf"), [Scalar("Zf"), Scalar("f")] * 6, r)
    yield Case(None, [], r)
    for one in chosen_structs():
        yield Case(one, [one], r)
        yield Case(Scalar("d"), [Scalar("i"), one, Scalar("d"), one], r)
        # With the registers nearly used up, a struct goes to memory whole.
        yield Case(one, [Scalar("q")] * 5 + [one] + [Scalar("d")] * 7 + [one, Scalar("i")], r)
        # The first word may take the last general register while the vector registers are in use.
        yield Case(Scalar("d"), [Scalar("d")] + [Scalar("q")] * 5 + [one, Scalar("d")], r)


def random_type(r: random.Random, depth: int) -> Scalar | Struct:
    if depth < 3 and r.random() < 0.35:
        fields: list = []
        for _ in range(r.randrange(1, 5)):
            field = random_type(r, depth + 1)
            fields.append(Array(field, r.randrange(1, 4)) if r.random() < 0.25 else field)
        # libffi cannot express every packed struct; those are refused, and tested below.
        return Struct(fields)
    return Scalar(r.choice(SCALARS + (POINTERS if r.random() < 0.2 else ["d", "i", "q", "f"])))


def drawn() -> Iterator[Case]:
    r = random.Random(SEED + 1)
    for _ in range(RANDOM_SIGNATURES):
        result = None if r.random() < 0.1 else random_type(r, 0)
        if result is not None and result.code_text == "Zg":
            result = Scalar("g")
        yield Case(result, [random_type(r, 0) for _ in range(r.randrange(0, 9))], r)


def variadic() -> Iterator[Case]:
    r = random.Random(SEED + 2)
    for length in (1, 2, 5, 9, 16):
        for _ in range(3):
            fixed = [Scalar(r.choice(["i", "d", "q", "P"])) for _ in range(r.randrange(1, 4))]
            # What Python values become by themselves.
            extra = [Scalar(r.choice(["d", "i", "&d"])) for _ in range(length)]
            yield Case(Scalar(r.choice("idq")), fixed, r, extra)


CASES = {
    **{f"chosen{i}": case for i, case in enumerate(chosen())},
    **{f"random{i}": case for i, case in enumerate(drawn())},
    **{f"variadic{i}": case for i, case in enumerate(variadic())},
}
PRELUDE = """
#include <complex.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

typedef double (*Function)(double);
double square(double x);
double square(double x) { return x * x; }
static int differs;
int first_difference(void);
int first_difference(void) { return differs; }
#define CHECK(number, condition) if (differs < 0 && !(condition)) differs = number
"""


def write_all(cases: dict[str, Case]) -> str:
    types: list[str] = []
    bodies = [case.write(name, types) for name, case in cases.items()]
    return "\n\n".join([PRELUDE, *types, *bodies])


@pytest.fixture(scope="module")
def compiled(builder):
    # Constants of the narrowest types are compared as int; that is what is meant.
    flags = ("-O1", "-Wno-conversion", "-Wno-type-limits", "-Wno-overflow", "-Wno-psabi")
    return nc.load(builder.library(write_all(CASES), "abi", flags=flags))


@pytest.fixture(scope="module")
def differs(compiled):
    return compiled.function("first_difference", "i:")


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_the_compiler(compiled, differs, name):
    case = CASES[name]
    square = compiled.function("square", "d:d")

    def real(value):
        if isinstance(value, str):
            return square
        return tuple(map(real, value)) if isinstance(value, tuple) else value

    values = [real(value) for value, _ in case.values]
    for gil in ("hold", "release"):
        answer = compiled.function(name, case.signature, gil=gil)(*values)
        said = f"of {case.signature} with gil={gil!r}"
        assert differs() == -1, f"argument {differs() + 1} {said} arrived changed"
        if case.result is None:
            assert answer is None
        else:
            assert case.result.same(answer, case.answer[0]), f"{answer} {said}: {case.answer[0]}"


def test_both_ways_were_taken():
    """The cases above cover trampolines and libffi, structs in registers and in memory."""
    ahead = [case for case in CASES.values() if nc.wrap(1, case.signature)._spec.trampoline]
    assert len(ahead) > 20
    assert len(CASES) - len(ahead) > 200
    sizes = {
        nc.wrap(1, case.signature)._spec.types[-1].size
        for case in CASES.values()
        if isinstance(case.result, Struct)
    }
    assert {1, 8, 9, 16, 17, 32} <= sizes


# -- what the oracle has no plain equal for ------------------------------------------------------

HALF = """
_Float16 half_twice(_Float16 x);
_Float16 half_twice(_Float16 x) { return x + x; }
double half_many(_Float16 a, double b, _Float16 c, int d, _Float16 e);
double half_many(_Float16 a, double b, _Float16 c, int d, _Float16 e)
{ return (double)a + 10 * b + 100 * (double)c + 1000 * d + 10000 * (double)e; }
"""


def test_half_floats(builder):
    try:
        path = builder.library(HALF, "half", flags=("-O1", "-Wno-conversion", "-Wno-pedantic"))
    except AssertionError as error:
        if "_Float16" not in str(error):
            raise
        pytest.skip("this compiler has no _Float16")
    half = nc.load(path)
    twice = half.function("half_twice", "e:e")
    for value in (0.0, 1.0, -2.5, 65504.0 / 2, 2.0**-24, float("inf")):
        assert twice(value) == value * 2
    assert twice(1 + 2**-12) == 2.0, "rounded to the nearest half"
    many = half.function("half_many", "d:edeie")
    assert many(1, 2, 3, 4, 5) == 54321.0


REFUSED = [
    ("T{ee}:i", "the struct 'T{ee}', which holds a '_Float16',"),
    ("v:T{dT{(2)e}}", "the struct 'T{dT{(2)e}}', which holds a '_Float16',"),
    ("v:=T{bq}", "the packed struct '=T{bq}'"),
    ("=T{bi}:", "the packed struct '=T{bi}'"),
]


@pytest.mark.parametrize(("signature", "what"), REFUSED)
def test_what_libffi_has_no_equal_for_is_refused(lib, fails, signature, what):
    f = nc.wrap(lib.address("called0"), signature, name="f")
    f._choose("libffi")
    arguments = [0] * len(f._spec.signature.args)
    before = lib.function("called", "q:")()
    for _ in range(2):
        with fails(
            nc.SignatureError,
            f"{what} cannot be passed through libffi; pass a pointer to it instead",
        ):
            f(*arguments)
    assert lib.function("called", "q:")() == before


def test_complex_long_double_results_are_refused(lib, fails):
    f = nc.wrap(lib.address("called0"), "Zg:", name="f")
    f._choose("libffi")
    with fails(
        nc.SignatureError,
        "the result of 'Zg:', a complex long double, cannot be returned through libffi; "
        "return it through a pointer, or let code be generated (llvmlite, NATIVECALL_JIT)",
    ):
        f()


# -- Python objects and views --------------------------------------------------------------------


def python_api(name: str) -> int:
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value


def test_python_objects_pass_as_they_are():
    add = nc.wrap(python_api("PyNumber_Add"), "O:OO", name="add", errors="python")
    assert add(2, 3) == 5
    assert add([1], [2]) == [1, 2]
    with pytest.raises(TypeError, match="unsupported operand"):
        add(1, "x")
    thing = object()
    before = sys.getrefcount(thing)
    for _ in range(100):
        nc.wrap(python_api("PyObject_Type"), "O:O")(thing)
    assert sys.getrefcount(thing) == before


def test_views_of_every_element_type(builder):
    source = "\n".join(
        f"{c} last_{i}(const void *const *view);\n"
        f"{c} last_{i}(const void *const *view) {{ const char *data = view[0];\n"
        "    const long long *words = (const long long *)(const void *)view;\n"
        f"    return *(const {c} *)(const void *)(data + (words[1] - 1) * words[2]); }}"
        for i, c in enumerate(VIEWED.values())
    )
    views = nc.load(builder.library(source, "views", flags=("-O1", "-Wno-cast-qual")))
    for i, code in enumerate(VIEWED):
        f = views.function(f"last_{i}", f"{code}:[1]{code}")
        a = np.arange(1, 9).astype({"q": "i8", "Q": "u8"}.get(code, code))
        assert f(a) == 8
        assert f(a[::2]) == 7
        assert f(a[::-1]) == 1
        assert f(memoryview(a)[1:4]) == 4


VIEWED = {code: C_TYPES[code] for code in "bBhHiIqQfd"}


# -- Python functions that C calls ---------------------------------------------------------------

CALLBACKS = """
#include <stdbool.h>
#include <stdint.h>
typedef struct { double x; int32_t n; } Pair;
double both(double (*f)(double), double (*g)(double), double x);
double both(double (*f)(double), double (*g)(double), double x) { return 10 * f(x) + g(x); }
int64_t last(int64_t (*f)(int64_t), int64_t n);
int64_t last(int64_t (*f)(int64_t), int64_t n)
{ int64_t r = 99; for (int64_t i = 0; i < n; i++) { r = f(i); } return r; }
double pointed(double (*f)(double *, const void *), double *x);
double pointed(double (*f)(double *, const void *), double *x) { return f(x, 0); }
double paired(double (*f)(Pair, bool, float, long double, int8_t));
double paired(double (*f)(Pair, bool, float, long double, int8_t))
{ Pair p = {1.5, 7}; return f(p, true, 0.5f, 2.5L, -3); }
double *passed(double *(*f)(int32_t), int32_t n);
double *passed(double *(*f)(int32_t), int32_t n) { return f(n); }
uint8_t narrow(uint8_t (*f)(void));
uint8_t narrow(uint8_t (*f)(void)) { return f(); }
static double (*kept)(double);
void keep(double (*f)(double));
void keep(double (*f)(double)) { kept = f; }
"""


@pytest.fixture(scope="module")
def callbacks(builder):
    return nc.load(builder.library(CALLBACKS, "callbacks", flags=("-O1",)))


@pytest.fixture
def unraisable(monkeypatch):
    found = []
    monkeypatch.setattr(sys, "unraisablehook", lambda hook: found.append(repr(hook.exc_value)))
    return found


@pytest.mark.parametrize("gil", ["hold", "release"])
def test_a_python_function_raises_in_the_caller(callbacks, unraisable, fails, gil):
    """Through trampolines and through libffi: C goes on with zeros, and nothing runs meanwhile."""
    f = callbacks.function("last", "q:X{q:q}q", gil=gil)
    assert f._spec.trampoline is not None
    seen = []

    def broken(i):
        seen.append(i)
        raise LookupError(f"number {i}")

    with fails(LookupError, "number 0"):
        f(broken, 3)
    assert seen == [0]
    with fails(OverflowError, "bad"):
        f(lambda i: 5 if i else (_ for _ in ()).throw(OverflowError("bad")), 2)
    with pytest.raises(KeyboardInterrupt):
        f(lambda i: (_ for _ in ()).throw(KeyboardInterrupt), 1)
    assert f(lambda i: i * i, 5) == 16
    assert f(broken, 0) == 99
    assert unraisable == []


@pytest.mark.parametrize("gil", ["hold", "release"])
def test_ctypes_never_returns_with_an_exception_set(callbacks, gil):
    """CPython makes a SystemError of that, and its debug builds end the process."""
    f = callbacks.function("last", "q:X{q:q}q", gil=gil)
    f._choose("libffi")
    error = LookupError("no")

    def broken(i):
        raise error

    kinds = set()

    def trace(frame, event, argument):
        if event == "exception":
            kinds.add(argument[0])
        return trace

    before = sys.gettrace()
    for function in (nc.callback("q:q", broken), broken):
        sys.settrace(trace)
        try:
            with pytest.raises(LookupError) as info:
                f(function, 3)
        finally:
            sys.settrace(before)
        assert info.value is error
    assert kinds == {LookupError}


@pytest.mark.parametrize("gil", ["hold", "release"])
def test_what_a_python_function_returns_is_converted(callbacks, unraisable, fails, gil):
    f = callbacks.function("last", "q:X{q:q}q", gil=gil)
    who = "the result of argument 1 of 'last'"
    for value, exception, message in (
        ("x", TypeError, f"{who} must be an integer (got str)"),
        (None, TypeError, f"{who} must be an integer (got NoneType)"),
        (1.5, TypeError, f"{who} must be an integer (got float)"),
        (2**63, OverflowError, f"{who} is out of range for 'q' ({-(2**63)} to {2**63 - 1})"),
    ):
        with fails(exception, message):
            f(lambda i, value=value: value, 1)
    assert f(lambda i: np.int8(-7), 1) == -7
    narrow = callbacks.function("narrow", "B:X{B:}", gil=gil)
    assert narrow(lambda: 255) == 255
    with fails(
        OverflowError,
        "the result of argument 1 of 'narrow' is 256, out of range for 'B' (0 to 255)",
    ):
        narrow(lambda: 256)
    both = callbacks.function("both", "d:X{d:d}X{d:d}d", gil=gil)
    assert both(abs, lambda x: x + True, -2) == 19.0
    passed = callbacks.function("passed", "&d:X{&d:i}i", gil=gil)
    a = np.array([1.5, 2.5])
    assert passed(lambda n: a, 0)[1] == 2.5
    assert passed(lambda n: None, 0) is None
    with pytest.raises(TypeError, match=r"^the result of argument 1 of 'passed' must be a buffer"):
        passed(lambda n: a.astype("f"), 0)
    assert unraisable == []


@pytest.mark.parametrize("gil", ["hold", "release"])
def test_the_first_of_several_python_functions_to_fail_wins(callbacks, unraisable, fails, gil):
    f = callbacks.function("both", "d:X{d:d}X{d:d}d", gil=gil)

    def fail(name):
        def broken(x):
            raise LookupError(name)

        return broken

    with fails(LookupError, "first"):
        f(fail("first"), fail("second"), 1.0)
    assert unraisable == ["LookupError('second')"]
    with fails(LookupError, "second"):
        f(abs, fail("second"), 1.0)
    with fails(LookupError, "first"):
        f(fail("first"), abs, 1.0)
    assert unraisable == ["LookupError('second')"]


@pytest.mark.parametrize("gil", ["hold", "release"])
def test_arguments_of_python_functions(callbacks, gil):
    a = np.array([1.5, 2.5])

    def takes(x, nothing):
        assert ORACLE.typeof(x).cname == "double *"
        assert nothing is None
        x[0] = 4.5
        return x[1]

    assert callbacks.function("pointed", "d:X{d:&dP}&d", gil=gil)(takes, a) == 2.5
    assert a[0] == 4.5
    seen = []
    f = callbacks.function("paired", "d:X{d:T{d:x:i:n:}?fgb}", gil=gil)
    assert (
        f(
            lambda *values: seen.append(values) or 1,
        )
        == 1.0
    )
    assert seen == [((1.5, 7), True, 0.5, 2.5, -3)]
    assert seen[0][0].n == 7
    assert [type(value) for value in seen[0][1:]] == [bool, float, float, int]


def test_python_functions_in_structs_raise_too(lib, fails):
    f = lib.function("run_task", "d:T{&d:x:q:n:X{d:d}:f:}")

    def broken(x):
        raise LookupError("in a struct")

    with fails(LookupError, "in a struct"):
        f((np.ones(1), 1, broken))


def test_a_python_function_wins_over_an_error_convention(callbacks, fails):
    f = callbacks.function("last", "q:X{q:q}q", errors="zero")

    def broken(i):
        raise LookupError("the cause")

    with fails(LookupError, "the cause"):
        f(broken, 1)
    with fails(nc.NativeFailure, "'last' failed: it returned 0"):
        f(lambda i: 0, 1)


def test_results_that_libffi_cannot_give_to_c_are_refused(callbacks, fails):
    for result in ("T{dd}", "Zd", "e"):
        f = callbacks.function("keep", f"v:X{{{result}:d}}")
        if GENERATED:
            f(abs)
            nc.callback(f"{result}:d", abs)
            continue
        refusal = (
            f"libffi cannot return {result!r} to C; return it through a pointer, or let code be "
            "generated (llvmlite, NATIVECALL_JIT)"
        )
        with fails(TypeError, f"argument 1 of 'keep' cannot be a Python function: {refusal}"):
            f(abs)
        with fails(nc.SignatureError, refusal):
            nc.callback(f"{result}:d", abs)


def test_a_stash_that_is_closed_reports_at_once(unraisable):
    stash = nc._lib.types.Stash()
    stash.put(LookupError("kept"))
    assert unraisable == []
    stash.put(LookupError("later"))
    assert unraisable == ["LookupError('later')"]
    del stash
    assert unraisable == ["LookupError('later')", "LookupError('kept')"]


# -- limits --------------------------------------------------------------------------------------


def test_too_many_arguments_are_refused(lib, fails):
    f = nc.wrap(lib.address("called0"), "v:" + "d" * 1025, name="f")
    message = (
        "{} arguments are more than the 1024 of a call through libffi; "
        "pass a pointer to a struct of them"
    )
    with fails(nc.SignatureError, message.format(1025)):
        f(*[1.0] * 1025)
    assert nc.wrap(lib.address("called0"), "v:" + "d" * 1024)(*[1.0] * 1024) is None
    with fails(nc.SignatureError, message.format(2001)):
        lib.function("add_all", "d:i.")(1, *[1.0] * 2000)


@pytest.mark.parametrize(
    "signature", ["v:T{(1000000000)d}", "T{(40000)d}:", "v:T{(20000)d}T{(20000)d}"]
)
def test_values_that_no_stack_holds_are_refused_at_once(lib, signature):
    f = nc.wrap(lib.address("called0"), signature, name="f")
    arguments = [([0.0],)] * len(f._spec.signature.args)
    with pytest.raises(
        nc.SignatureError, match=r"^arguments and result of \d+ bytes by value are more than"
    ):
        f(*arguments)


@pytest.mark.skipif(
    ctypes.sizeof(ctypes.c_longdouble) != 16, reason="long double has no 16 bytes here"
)
def test_structs_on_64_bit_arm(monkeypatch):
    """libffi aligns on the stack the pointer to a struct as the struct, ctypes hides arrays."""
    monkeypatch.setattr(libffi, "_AAPCS64", True)
    monkeypatch.setattr(libffi, "_SYSTEM_V", False)
    monkeypatch.setattr(libffi, "_made", {})
    one = parse("v:T{gg}").args[0]
    assert libffi.homogeneous(one) == ("g", "g")
    assert not libffi.homogeneous(parse("v:T{(5)d}").args[0])
    assert not libffi.homogeneous(parse("v:T{fd}").args[0])
    large, array, small = parse("v:T{dg}T{(3)g}T{(2)d}").args
    assert [libffi.is_referenced(each) for each in (large, array, small)] == [True, False, False]
    types = libffi._argument_types(parse("v:T{dg}T{(3)g}"), False)
    assert types[0] is libffi.RAW_POINTER
    assert types[1]._fields_ == [(f"f{i}", ctypes.c_longdouble) for i in range(3)]
    where = "it aligns the pointer to a struct on the stack as the struct"
    for text, reason in {
        "v:qqqqqqqqT{dg}": where,
        "v:qqqqqqqT{qq}T{dg}": where,
        "v:qqqqqqqT{dg}": None,
        "v:qqqqqqqqT{ddddd}": None,
        "v:ddddddddddT{dg}": None,
    }.items():
        assert libffi.gap(parse(text), flattened=True) == reason, text
    hidden = "it takes the array in a struct of long doubles for a pointer"
    assert libffi.gap(parse("v:T{(3)g}"), flattened=False) == hidden
    assert libffi.gap(parse("v:T{(3)g}"), flattened=True) is None
    assert libffi.gap(parse("v:T{ggg}"), flattened=False) is None


KEPT_TYPES = """
import ctypes, gc, itertools, sys, weakref
import nativecall as nc
from nativecall._callable import pythonfunction
from nativecall._libffi import types as libffi
libffi._callback_types.limit = pythonfunction._specs.limit = 16
cos = nc.load("m").address("cos")
kept = len(libffi._FUNCTION_TYPES)
types = []
for one in itertools.islice(itertools.product("?bhiqf", repeat=4), 200):
    letters = "".join(one)
    assert nc.callback(f"d:{letters}", lambda *_: 1.0)(*[1] * 4) == 1.0
    assert nc.wrap(cos, "d:d" + letters).bind(0.0)(*[1] * 4) == 1.0
    assert 0 < len(libffi._callback_types) <= 16
    types.append(weakref.ref(next(reversed(libffi._callback_types.values()))))
gc.collect()
assert len(libffi._FUNCTION_TYPES) == kept
# The cache has some, and so have the callbacks that ended last, which C may be about to leave.
print(sum(ref() is not None for ref in types) < 100)
"""


def test_ctypes_keeps_no_type_of_a_python_function(python, monkeypatch):
    """`ctypes.CFUNCTYPE` would keep each one for as long as the process lives."""
    monkeypatch.setenv("NATIVECALL_JIT", "0")
    assert python(KEPT_TYPES) == "True\n"


def test_types_for_people_leave_the_caches_of_ctypes_again(monkeypatch):
    monkeypatch.setattr(libffi, "_made", {})
    monkeypatch.setattr(libffi, "_shared", [])
    monkeypatch.setattr(libffi, "_prototypes", Cache(32))
    monkeypatch.setattr(libffi, "_CACHE_LIMIT", 32)
    monkeypatch.setattr(libffi, "_most", 0)
    theirs = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int16, ctypes.c_int16)
    pointers = getattr(ctypes, "_pointer_type_cache", {}) if sys.version_info < (3, 14) else {}
    before = len(libffi._FUNCTION_TYPES), len(pointers)
    for n, one in enumerate(itertools.islice(itertools.product("?bhiqf", repeat=4), 80)):
        signature = parse(f"v:X{{d:{''.join(one)}}}&T{{d:x{n}:}}X{{d:hh}}")
        f = libffi.prototype(signature, hold=True, plain=True)
        # Whatever was forgotten: a type of theirs is the one that is taken.
        assert f._argtypes_[2] is theirs
        assert len(libffi._made) <= 32
    after = len(libffi._FUNCTION_TYPES), len(pointers)
    assert after[0] - before[0] <= 32
    assert after[1] - before[1] <= 32
    libffi._withdrawn()


def test_types_that_a_program_has_stay_those_of_ctypes(monkeypatch):
    monkeypatch.setattr(libffi, "_made", {})
    monkeypatch.setattr(libffi, "_shared", [])
    monkeypatch.setattr(libffi, "_prototypes", Cache(8))
    monkeypatch.setattr(libffi, "_CACHE_LIMIT", 8)
    monkeypatch.setattr(libffi, "_most", 0)
    cos = nc.load("m").address("cos")
    f = nc.wrap(cos, "i:hbhb&&h")
    made = f.to_ctypes()
    theirs = ctypes.CFUNCTYPE(
        ctypes.c_int,
        *(ctypes.c_short, ctypes.c_byte, ctypes.c_short, ctypes.c_byte),
        ctypes.POINTER(ctypes.POINTER(ctypes.c_short)),
    )
    pointer = ctypes.POINTER(ctypes.POINTER(ctypes.c_short))
    assert isinstance(made, theirs)
    for one in itertools.islice(itertools.product("hbqf", repeat=4), 40):
        nc.wrap(cos, f"i:{''.join(one)}").to_ctypes()
    assert isinstance(f.to_ctypes(), theirs)
    assert isinstance(nc.wrap(cos, "i:hbhb&&h").to_ctypes(), theirs)
    assert ctypes.POINTER(ctypes.POINTER(ctypes.c_short)) is pointer
    assert ctypes.CFUNCTYPE(theirs._restype_, *theirs._argtypes_) is theirs
