"""Generated trampolines: how they fail, follow their entries, are shared, and end."""

from __future__ import annotations

import ctypes
import errno
import gc
import itertools
import math
import os
import random
import sys
import threading
import weakref

import numpy as np
import pytest

import nativecall as nc
from nativecall import _lib
from nativecall._codegen import engine, trampoline, trampolinecode
from nativecall._signature.spelling import parse
from support.levels import sweep
from support.modes import generates
from support.trampolines import both, broken_function, outcome

pytestmark = generates


# -- whatever is asked for -----------------------------------------------------------------------

TYPES = [
    *"?bBhHiIqQefdgPO", "Zf", "Zd", "Zg", "&d", "&c", "&&d", "X{d:d}", "[1]d", "[2]i", "[3]T{di}",
    "[1]O", "T{dd}", "T{&di}", "=T{bd}", "T{X{v:}}", "T{O}", "T{(2)P}", "T{(2,2)f}", "T{ggg}",
    "T{qqqq}", "T{(3)T{bd}}", "T{ee}", "T{(16)b}", "T{(17)b}",
]  # fmt: skip


@pytest.mark.parametrize("seed", sweep(range(4), 0))
def test_all_code_is_valid(seed):
    """Signatures of every mixture of types, with every flag."""
    r = random.Random(seed)
    machine, _ = engine._start()
    for _ in range(150):
        args = [r.choice(TYPES) for _ in range(r.choice([0, 1, 1, 2, 2, 3, 4, 6, 12]))]
        result = r.choice([*[one for one in TYPES if one[0] != "["], "v"])
        signature = parse(f"{result}:{''.join(args)}")
        errors = ["none", "python", "errno"]
        if signature.result.kind in ("int", "bool"):
            errors += ["nonzero", "zero"]
        elif result in ("P", "O", "&d"):
            errors.append("null")
        flags = _lib.ERRORS[r.choice(errors)]
        flags |= r.choice([0, _lib.FLAG_NEEDS_GIL, _lib.FLAG_RELEASE_GIL])
        flags |= r.choice([0, _lib.FLAG_ERRNO])
        with machine.module(trampoline.intermediate(signature, flags), 0):
            pass


def test_code_that_is_not_valid_is_an_error(echo, monkeypatch):
    """It must not look like a signature that cannot be generated."""
    monkeypatch.setattr(trampolinecode.TrampolineCode, "text", lambda self: "nonsense")
    f = echo.function("echo_i16", "h:h", errno=True, errors="nonzero", gil="release")
    for _ in range(2):
        with pytest.raises(RuntimeError, match="LLVM IR parsing error"):
            f(1)


def test_code_that_cannot_be_loaded_is_tried_once(echo, monkeypatch):
    asked = []

    def refuse(*args):
        asked.append(args)
        raise engine.Unloadable("no memory is left")

    machine, _ = engine._start()
    monkeypatch.setattr(machine, "link", refuse)
    signature = "h:h" + "bq" * 3
    for _ in range(3):
        f = nc.wrap(echo.address("echo_i16"), signature)
        assert f(3, 0, 0, 0, 0, 0, 0) == 3
        assert f.entries[0].trampoline == "libffi"
    assert len(asked) == 1
    assert trampoline.refusal(parse(signature), 0) == "no memory is left"
    # For a test that asks for the same again.
    trampoline._refused.clear()
    assert trampoline.refusal(parse(signature), 0) == ""


def test_why_there_is_no_code():
    many = nc.wrap(4096, "v:" + "i" * 300)
    assert many.entries[0].trampoline == "libffi"
    reason = "300 arguments are more than the 255 of generated code"
    assert trampoline.refusal(parse(many.signatures[0]), 0) == reason


# -- flags ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("gil", "held"), [("hold", 1), ("release", 0), ("need", 1)])
def test_the_gil(echo, gil, held):
    for f in both(echo, "has_gil", "i:b", gil=gil):
        assert f(5) == f.builtin(5) == 5 + 100 * held


def test_exceptions_of_c_and_of_what_it_called(echo, monkeypatch):
    """The first is raised, the other reported."""
    unraisable = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: unraisable.append(repr(args.exc_value)))
    for f in both(echo, "raise_after", "i:X{d:d}h", errors="python"):
        with pytest.raises(LookupError, match="the cause") as info:
            f(broken_function, 3)
        assert info.value.__context__ is None
        assert unraisable == ["LookupError('in C')"]
        unraisable.clear()
        assert outcome(f, math.sin, 3) == (LookupError, "in C")
        assert unraisable == []


def test_the_errno_of_ctypes_stays(echo):
    for f in both(echo, "set_errno", "i:h", errno=True):
        ctypes.set_errno(77)
        assert f(5) == 0
        assert (nc.get_errno(), ctypes.get_errno()) == (5, 77)
    ctypes.set_errno(0)


@pytest.mark.parametrize("gil", ["hold", "release"])
def test_errno_is_saved_for_each_thread(echo, gil):
    for f in both(echo, "set_errno", "i:h", errno=True, gil=gil):
        assert f(7) == 0
        assert nc.get_errno() == 7
        seen = []

        def other(f=f, seen=seen):
            seen.append(nc.get_errno())
            f(9)
            seen.append(nc.get_errno())

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert seen == [0, 9]
        assert nc.get_errno() == 7
        assert f(0) == 0
        assert nc.get_errno() == 0


@pytest.mark.parametrize("errors", ["none", "python", "nonzero", "zero", "errno"])
@pytest.mark.parametrize("gil", ["hold", "release"])
def test_error_conventions(echo, errors, gil):
    if errors == "python" and gil == "release":
        return
    generated, libffi = both(echo, "fail_i8", "b:bX{d:d}", errors=errors, gil=gil)
    cases = (
        (0, None),
        (-3, None),
        (5, None),
        (200, None),
        (0, abs),
        (5, "x"),
        (0, broken_function),
    )
    for value, function in cases:
        assert outcome(generated, value, function) == outcome(libffi, value, function)
    assert outcome(generated, 0, broken_function) == (LookupError, "the cause")


def test_failures_in_full(echo):
    for f in both(echo, "set_errno", "i:h", errors="errno"):
        assert f(0) == 0
        message = f"[Errno 2] {os.strerror(2)} (from 'set_errno')"
        assert outcome(f, errno.ENOENT) == (FileNotFoundError, message)
        assert nc.get_errno() == errno.ENOENT
    for errors, value in (("nonzero", -3), ("zero", 0)):
        for f in both(echo, "fail_i8", "b:bX{d:d}", errors=errors):
            with pytest.raises(nc.NativeFailure) as failure:
                f(value, None)
            assert failure.value.value == value
    for f in both(echo, "echo_dp", "&d:&d", errors="null"):
        assert f(np.array([4.5]))[0] == 4.5
        assert outcome(f, None) == (nc.NativeFailure, "'echo_dp' failed: it returned NULL")
    for f in both(echo, "echo_bool", "?:?", errors="nonzero"):
        assert f(False) is False
        assert outcome(f, True) == (
            nc.NativeFailure,
            "'echo_bool' failed: it returned True, not 0",
        )


@pytest.mark.parametrize("options", [{"errors": "python"}, {"gil": "need"}])
def test_exceptions_that_c_sets(echo, options):
    for f in both(echo, "raise_if", "h:h", **options):
        assert f(3) == 3
        assert outcome(f, -3) == (LookupError, "below zero")


# -- changing callables --------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["generated", "libffi"])
def test_entries_that_are_replaced(echo, way):
    f = echo.function("one", "h:")
    f._choose(way)
    view = f.builtin
    assert (f(), view()) == (1, 1)
    f.add("h:", echo.address("two"), replace=True)
    assert (f(), view()) == (2, 2)


def test_an_argument_replaces_the_entry(echo):
    """What runs while arguments are converted is before the call."""

    class Replacing:
        def __float__(self):
            self.f.add("i:ddh", echo.address("replacing"), replace=True)
            return 2.0

    for f in both(echo, "replaced", "i:ddh"):
        assert f(1.0, 2.0, 3) == 7
        value = Replacing()
        value.f = f
        assert f(1.0, value, 3) == 106
        assert f(1.0, 2.0, 3) == 106


def test_a_callee_replaces_its_own_entry(echo):
    f = echo.function("apply", "d:X{d:d}dT{dd}")
    other = nc.wrap(echo.address("apply"), "d:X{d:d}dT{dd}")

    def replacing(x):
        f.add("d:X{d:d}dT{dd}", other, replace=True)
        f.add("d:d", echo.address("echo_d"))
        return x

    view = f.builtin
    assert view(replacing, 0.5, (1.0, 2.0)) == 1.5
    assert f.signatures == ("d:X{d:d}dT{dd}", "d:d")
    assert f(2.5) == view(2.5) == 2.5
    assert view(math.sin, 0.0, (1.0, 2.0)) == f(math.sin, 0.0, (1.0, 2.0)) == 1.0


def test_overloads_use_generated_code(echo):
    f = nc.wrap({"h:h": echo.address("echo_i16"), "T{dd}:T{dd}": echo.address("echo_pair")})
    assert f(3) == 3
    assert f((1.0, 2.0)) == (1.0, 2.0)
    assert [entry.trampoline for entry in f.entries] == ["generated"] * 2


def test_what_is_decided_stays(echo):
    f = echo.function("echo_i16", "h:h")
    assert f(1) == 1
    with pytest.raises(RuntimeError, match=r"^it is decided how 'echo_i16' is called$"):
        f._choose("libffi")
    assert nc.load("m", "double cos(double);").cos.entries[0].trampoline == "ahead of time"


# -- variadic functions --------------------------------------------------------------------------

VARIADIC = """
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
typedef struct { double x; int64_t n; } mixed;
/* Each letter of `form` says what follows: i I q Q d g P. */
static void put(char *out, const char *form, va_list more)
{
    for (; *form; form++) {
        switch (*form) {
        case 'i': out += sprintf(out, "%d ", va_arg(more, int)); break;
        case 'I': out += sprintf(out, "%u ", va_arg(more, unsigned)); break;
        case 'q': out += sprintf(out, "%lld ", va_arg(more, long long)); break;
        case 'Q': out += sprintf(out, "%llu ", va_arg(more, unsigned long long)); break;
        case 'd': out += sprintf(out, "%g ", va_arg(more, double)); break;
        case 'g': out += sprintf(out, "%Lg ", va_arg(more, long double)); break;
        case 's': out += sprintf(out, "%s ", va_arg(more, const char *)); break;
        default: out += sprintf(out, "%d ", va_arg(more, void *) == NULL); break;
        }
    }
}
int show(char *out, const char *form, ...);
int show(char *out, const char *form, ...)
{
    va_list more;
    va_start(more, form);
    put(out, form, more);
    va_end(more);
    return 7;
}
mixed show_mixed(mixed given, char *out, const char *form, ...);
mixed show_mixed(mixed given, char *out, const char *form, ...)
{
    va_list more;
    va_start(more, form);
    put(out, form, more);
    va_end(more);
    given.n++;
    return given;
}
int failing(int code, ...);
int failing(int code, ...) { errno = code; return code; }
"""
EXTRA = [
    (b"", ()), (b"i", (1,)), (b"iqQ", (-(2**31), 2**31, 2**63)), (b"dddddddddd", (0.5,) * 10),
    (b"iiiiiiiiii", (*range(10),)), (b"didPgid", (1.5, 2, 2.5, None, np.longdouble(3.5), 4, 5.5)),
    (b"IqQid", (np.uint32(5), np.int64(-6), np.uint64(7), np.int8(8), np.float32(0.5))),
    (b"si", (b"bytes", True)), (b"s", (bytearray(b"text\0"),)), (b"P", (ctypes.c_void_p(),)),
    (b"s", (np.frombuffer(b"array\0", "B"),)), (b"Pi", (np.zeros(3), 2)),
    (b"i", (np.bool_(True),)), (b"id", (ctypes.c_short(-3), ctypes.c_float(0.5))),
    (b"i", ("text",)), (b"i", (1j,)), (b"i", (2**64,)), (b"q", (-(2**63) - 1,)),
    (b"P", (np.zeros(4)[::2],)), (b"P", (np.zeros(2, object),)), (b"ii", (1, object())),
]  # fmt: skip


@pytest.fixture(scope="module")
def variadic(builder):
    return nc.load(builder.library(VARIADIC, "trampoline_variadic"))


@pytest.mark.parametrize("gil", ["hold", "release"])
def test_variadic_functions(variadic, gil):
    for name, signature, first in (
        ("show", "int (char *out, const char *form, ...)", ()),
        ("show_mixed", "T{dq}:T{dq}&b&b.", ((0.5, 1),)),
    ):
        generated, libffi = (
            nc.wrap(variadic.address(name), signature, name=name, gil=gil) for _ in range(2)
        )
        libffi._choose("libffi")
        assert generated.entries[0].trampoline == "generated"
        assert libffi.entries[0].trampoline == "libffi"
        for form, values in EXTRA:
            found = []
            for f in (generated, libffi, generated.builtin, libffi.builtin, generated):
                out = bytearray(200)
                found.append((outcome(f, *first, out, form, *values), bytes(out)))
            assert found == [found[1]] * 5, values
        assert outcome(generated, *first) == outcome(libffi, *first)
        assert outcome(generated, *first, 1.5, b"i", "text") == outcome(
            libffi, *first, 1.5, b"i", "text"
        )
        assert outcome(generated, *first, 1.5, b"i", 1) == outcome(libffi, *first, 1.5, b"i", 1)
    out = bytearray(200)
    f = variadic.function("show", "int (char *out, const char *form, ...)")
    assert f(form=b"", out=out) == 7
    assert f(out, b"id", 3, 0.5) == 7
    assert out.startswith(b"3 0.5 \0")


@pytest.mark.parametrize("errors", ["errno", "nonzero", "none"])
def test_variadic_functions_that_fail(variadic, errors):
    generated, libffi = (
        nc.wrap(variadic.address("failing"), "i:i.", name="failing", errors=errors, errno=True)
        for _ in range(2)
    )
    libffi._choose("libffi")
    for values in ((0,), (2,), (0, 1.5), (2, 1.5, b"x")):
        for f in (generated, generated.builtin):
            assert outcome(f, *values) == outcome(libffi, *values)
            assert nc.get_errno() == values[0]


def test_variadic_functions_with_more_than_a_trampoline_takes(variadic):
    generated = variadic.function("show", "i:&b&b.")
    out = bytearray(4000)
    assert generated(out, b"i" * 300, *range(300)) == 7
    assert out[:1100].split()[:300] == [str(i).encode() for i in range(300)]
    with pytest.raises(nc.SignatureError, match=r"^1102 arguments are more than the 1024 "):
        generated(out, b"", *range(1100))


@pytest.mark.parametrize("way", ["generated", "libffi"])
def test_functions_and_text_after_the_fixed_arguments(builder, way):
    lib = nc.load(builder.library(AFTER, "trampoline_after"))

    def made(name, **options):
        f = lib.function(name, "double (int n, ...)", **options)
        f._choose(way)
        return f

    apply, length = made("apply"), made("length")
    m = nc.load("m", "double cos(double); double fabs(double);")
    assert apply(1, m.fabs, -2.5) == apply(1, m.fabs.builtin, -2.5) == 2.5
    assert apply(1, m.fabs.to_capsule(), -3.0) == apply(1, m.fabs.to_ctypes(), -3.0) == 3.0
    assert apply(1, nc.callback("d:d", lambda x: x + 1), 2.0) == 3.0

    def fail(x):
        raise KeyError(x)

    with pytest.raises(KeyError, match=r"^2\.0$"):
        apply(1, nc.callback("d:d", fail), 2.0)
    for value, message in (
        (
            fail,
            r"^argument 2 of 'apply' is a callable of Python \(function\), .*pass nativecall",
        ),
        (abs, r"callable of Python \(builtin_function_or_method\)"),
        (
            nc.wrap({"d:d": m.cos, "d:i": m.cos.address()}),
            r"^argument 2 of 'apply' must be a function of one signature, this has 2; pass one of",
        ),
        (nc.callback("d:d", fail, gil="need"), "runs without the GIL"),
        (object(), r"^argument 2 of 'apply' has no C type of its own \(got object\)"),
    ):
        with pytest.raises(TypeError, match=message):
            apply(1, value, 2.0)
    with pytest.raises(TypeError, match=r"^argument 2 of 'length' is a str, .*s.encode\(\)"):
        length(1, "abc")
    text = made("length", encoding="utf-8")
    assert [text(1, one) for one in ("abc", "\xe4", "", b"ab")] == [3.0, 2.0, 0.0, 2.0]
    with pytest.raises(ValueError, match=r"^argument 2 of 'length' must have no null character"):
        text(1, "a\0b")
    with pytest.raises(UnicodeEncodeError):
        made("length", encoding="ascii")(1, "\xe4")


AFTER = """
#include <stdarg.h>
#include <string.h>
double apply(int n, ...);
double apply(int n, ...)
{
    va_list more;
    va_start(more, n);
    double (*f)(double) = va_arg(more, double (*)(double));
    double x = va_arg(more, double);
    va_end(more);
    return f(x);
}
double length(int n, ...);
double length(int n, ...)
{
    va_list more;
    va_start(more, n);
    double found = (double)strlen(va_arg(more, const char *));
    va_end(more);
    return found;
}
"""


def test_a_variadic_function_follows_its_entry(lib, variadic):
    f = nc.wrap(variadic.address("failing"), "i:i.")
    view = f.builtin
    assert f(5, 1.0) == view(5, 1.0) == 5
    f.add("i:i.", variadic.address("failing"), replace=True)
    assert f(6, 1.0) == view(6, 1.0) == 6
    f.add("d:d", lib.address("square"))
    assert f(7, 1, 2) == view(7, 1, 2) == 7
    assert f(3.0) == view(3.0) == 9.0


def test_one_trampoline_for_the_types_of_a_variadic_call(variadic):
    from nativecall._codegen import trampoline

    first, second = (variadic.function("failing", "i:i.") for _ in range(2))
    assert (first(1, 2.0, 3), second(4, 5.0, 6)) == (1, 4)
    made = [key for key in trampoline._made if key.startswith("i:i.di ")]
    assert len(made) == 1
    # As many tuples of types as there are; the table of each callable is bounded.
    letters = {"i": 1, "d": 0.5, "P": None, "Q": 2**63}
    for types in itertools.product(letters, repeat=4):
        assert first(9, *[letters[one] for one in types]) == 9
    kept = [one for one in gc.get_objects() if type(one) is nc.NativeCallable]
    assert sum(one.__name__ == "failing" for one in kept) < 100


# -- one for each shape --------------------------------------------------------------------------


def test_one_trampoline_for_a_shape(echo):
    f = echo.function("echo_i16", "h:h")
    g = nc.wrap(echo.address("raise_if"), "int16_t (int16_t n)", name="g")
    assert (f(1), g(n=2)) == (1, 2)
    assert f._generated is g._generated
    pointers = [
        nc.wrap(echo.address("first"), signature)
        for signature in ("d:&dh", "d:Ph", "double (const char *, short)", "d:X{d:d}h")
    ]
    assert len({id(p._generated) for p in pointers if p.builtin}) == 1
    careful = nc.wrap(echo.address("raise_if"), "h:h", errors="nonzero")
    assert careful(0) == 0
    assert careful._generated is not f._generated
    named = [nc.wrap(echo.address("echo_pair"), f"{s}:{s}") for s in ("T{d:a:d:b:}", "T{dd}")]
    assert [n((1, 2))._fields for n in named] == [("a", "b"), ("f0", "f1")]
    assert named[0]._generated is named[1]._generated


def test_10_000_callables_of_50_signatures_have_50_trampolines(echo):
    address = echo.address("one")
    signatures = ["h:" + "".join("hbBH"[i // 4**k % 4] for k in range(3)) for i in range(50)]
    callables = [nc.wrap(address, signatures[i % 50]) for i in range(10_000)]
    for f in callables:
        assert f(1, 2, 3) == 1
    assert len({id(f._generated) for f in callables}) == 50
    assert len({id(f._generated.keep) for f in callables}) == 50


def test_threads_that_race_for_the_first_call(echo):
    address = echo.address("one")
    for i in range(12):
        signature = "h:" + "bBhH"[i % 4] * (2 + i // 4) + "I"
        values = range(len(signature) - 2)
        callables = [nc.wrap(address, signature) for _ in range(4)] * 2
        start = threading.Barrier(len(callables))
        results = []

        def run(f, start=start, values=values, results=results):
            start.wait()
            results.append(f(*values))

        threads = [threading.Thread(target=run, args=(f,)) for f in callables]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == [1] * 8
        assert len({id(f._generated) for f in callables}) == 1


def test_code_dies_with_its_last_user(echo):
    from nativecall._codegen import trampoline

    f = nc.wrap(echo.address("one"), "h:HHHHHHH")
    view = f.builtin
    trampoline._recent.clear()
    gone, code = weakref.ref(f._generated), weakref.ref(f._generated.keep)
    del f
    gc.collect()
    assert gone() is not None
    assert view(*range(7)) == 1
    del view
    gc.collect()
    assert gone() is None
    assert code() is None


def test_views_survive_the_collector(echo):
    """The collector clears callables in cycles; finalisers may call views of them even so."""
    from nativecall._codegen import trampoline

    seen = []

    class Last:
        def __del__(self):
            seen.append(self.view(*range(6)))

    last = Last()
    f = nc.wrap(echo.address("one"), "h:HHHHHH", owner=last)
    last.view = f.builtin
    del f, last
    trampoline._recent.clear()
    gc.collect()
    assert seen == [1]


LEVEL = """
import gc, sys, tracemalloc
import nativecall as nc
lib = nc.load(sys.argv[1])
address = lib.address("one")
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
def round(n):
    for i in range(n):
        f = nc.wrap(address, ("h:hb", "h:bB", "h:Bhh", "h:hT{dd}")[i % 4])
        assert f(*((1, 2), (1, 2), (1, 2, 3), (1, (1.0, 2.0)))[i % 4]) == 1
round(2000)
gc.collect()
before, blocks = resident(), sys.getallocatedblocks()
round(10_000)
gc.collect()
print(resident() - before, sys.getallocatedblocks() - blocks)
"""


@pytest.mark.allocator
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc/self/statm")
def test_memory_is_level_after_10_000_callables(echo, forked):
    grown, blocks = map(int, forked(LEVEL, echo.path).split())
    assert blocks < 100
    assert grown < 2**20


def test_the_code_holds_no_addresses():
    """So that its object file serves other processes."""
    import re

    from nativecall._codegen.trampoline import intermediate
    from nativecall._signature.spelling import parse

    for text in ("d:dd", "v:P", "T{dd}:T{dd}[2]d", "q:q"):
        code = intermediate(parse(text))
        assert not [number for number in re.findall(r"\b\d{9,}\b", code) if int(number) >> 44]


def test_import_without_generated_code_imports_no_llvm(python, echo):
    code = (
        "import sys, nativecall as nc\n"
        "f = nc.load('m', 'double cos(double);').cos\n"
        "f(0.0), f.builtin, repr(f)\n"
        "print([n for n in sys.modules if n.startswith(('llvmlite', 'nativecall._codegen'))])"
    )
    assert python(code) == "[]\n"


FALLBACK = """
import sys
import nativecall as nc
lib = nc.load(sys.argv[1])
f = lib.function("echo_i16", "h:h")
print(f(7), f.builtin(8), f.entries[0].trampoline)
print([n for n in sys.modules if n.startswith("llvmlite")])
"""


def test_without_generated_code_calls_go_through_libffi(forked, echo, monkeypatch):
    monkeypatch.setenv("NATIVECALL_JIT", "0")
    assert forked(FALLBACK, echo.path) == "7 8 libffi\n[]\n"
    monkeypatch.delenv("NATIVECALL_JIT")
    assert forked(FALLBACK, echo.path).startswith("7 8 generated\n")


def test_available():
    assert engine.available()
