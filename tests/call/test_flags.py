"""Calls by their plans: flags of entries, entries that change, variadic functions, and ends."""

import ctypes
import errno
import gc
import itertools
import math
import os
import sys
import threading

import numpy as np
import pytest

import nativecall as nc
from support.outcomes import broken_function, outcome

# -- flags ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("gil", "held"), [("hold", 1), ("release", 0), ("need", 1)])
def test_the_gil(echo, gil, held):
    f = echo.function("has_gil", "i:b", gil=gil)
    assert f(5) == f.builtin(5) == 5 + 100 * held


def test_exceptions_of_c_and_of_what_it_called(echo, monkeypatch):
    """The first is raised, the other reported."""
    unraisable = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: unraisable.append(repr(args.exc_value)))
    f = echo.function("raise_after", "i:X{d:d}h", errors="python")
    with pytest.raises(LookupError, match="the cause") as info:
        f(broken_function, 3)
    assert info.value.__context__ is None
    assert unraisable == ["LookupError('in C')"]
    unraisable.clear()
    assert outcome(f, math.sin, 3) == (LookupError, "in C")
    assert unraisable == []


def test_the_errno_of_ctypes_stays(echo):
    f = echo.function("set_errno", "i:h", errno=True)
    ctypes.set_errno(77)
    assert f(5) == 0
    assert (nc.get_errno(), ctypes.get_errno()) == (5, 77)
    ctypes.set_errno(0)


@pytest.mark.parametrize("gil", ["hold", "release"])
def test_errno_is_saved_for_each_thread(echo, gil):
    f = echo.function("set_errno", "i:h", errno=True, gil=gil)
    assert f(7) == 0
    assert nc.get_errno() == 7
    seen = []

    def other():
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
    f = echo.function("fail_i8", "b:bX{d:d}", errors=errors, gil=gil)
    for value in (0, -3, 5):
        failed = (errors == "nonzero" and value != 0) or (errors == "zero" and value == 0)
        told = f"'fail_i8' failed: it returned {value}" + (", not 0" if value else "")
        right = (nc.NativeFailure, told) if failed else ("int", None, str(value))
        assert outcome(f, value, None) == outcome(f, value, math.sin) == right
    assert outcome(f, 200, None)[0] is OverflowError
    assert outcome(f, 5, "x")[0] is TypeError
    assert outcome(f, 0, broken_function) == (LookupError, "the cause")


def test_failures_in_full(echo):
    f = echo.function("set_errno", "i:h", errors="errno")
    assert f(0) == 0
    message = f"[Errno 2] {os.strerror(2)} (from 'set_errno')"
    assert outcome(f, errno.ENOENT) == (FileNotFoundError, message)
    assert nc.get_errno() == errno.ENOENT
    for errors, value in (("nonzero", -3), ("zero", 0)):
        f = echo.function("fail_i8", "b:bX{d:d}", errors=errors)
        with pytest.raises(nc.NativeFailure) as failure:
            f(value, None)
        assert failure.value.value == value
    f = echo.function("echo_dp", "&d:&d", errors="null")
    number = np.array([4.5])
    assert f(number)[0] == 4.5
    assert outcome(f, None) == (nc.NativeFailure, "'echo_dp' failed: it returned NULL")
    f = echo.function("echo_bool", "?:?", errors="nonzero")
    assert f(False) is False
    assert outcome(f, True) == (nc.NativeFailure, "'echo_bool' failed: it returned True, not 0")


@pytest.mark.parametrize("options", [{"errors": "python"}, {"gil": "need"}])
def test_exceptions_that_c_sets(echo, options):
    f = echo.function("raise_if", "h:h", **options)
    assert f(3) == 3
    assert outcome(f, -3) == (LookupError, "below zero")


# -- changing callables --------------------------------------------------------------------------


def test_entries_that_are_replaced(echo):
    f = echo.function("one", "h:")
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

    f = echo.function("replaced", "i:ddh")
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


def test_overloads(echo):
    f = nc.wrap({"h:h": echo.address("echo_i16"), "T{dd}:T{dd}": echo.address("echo_pair")})
    assert f(3) == 3
    assert f((1.0, 2.0)) == (1.0, 2.0)
    assert [entry.trampoline for entry in f.entries] == ["plan"] * 2


def test_what_a_view_calls_stays(echo):
    f = echo.function("echo_i16", "h:h")
    assert f.builtin(1) == 1
    with pytest.raises(
        RuntimeError, match=r"^only a callable with one entry and no view can be unwrapped$"
    ):
        f._unwrap()
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
#: What is printed of what.
EXTRA = [
    (b"", (), ""), (b"i", (1,), "1"),
    (b"iqQ", (-(2**31), 2**31, 2**63), f"{-(2**31)} {2**31} {2**63}"),
    (b"dddddddddd", (0.5,) * 10, " ".join(["0.5"] * 10)),
    (b"iiiiiiiiii", (*range(10),), " ".join(map(str, range(10)))),
    (b"didPgid", (1.5, 2, 2.5, None, np.longdouble(3.5), 4, 5.5), "1.5 2 2.5 1 3.5 4 5.5"),
    (b"IqQid", (np.uint32(5), np.int64(-6), np.uint64(7), np.int8(8), np.float32(0.5)),
     "5 -6 7 8 0.5"),
    (b"si", (b"bytes", True), "bytes 1"), (b"s", (bytearray(b"text\0"),), "text"),
    (b"P", (ctypes.c_void_p(),), "1"), (b"s", (np.frombuffer(b"array\0", "B"),), "array"),
    (b"Pi", (np.zeros(3), 2), "0 2"), (b"i", (np.bool_(True),), "1"),
    (b"id", (ctypes.c_short(-3), ctypes.c_float(0.5)), "-3 0.5"),
]  # fmt: skip
REFUSED = [
    ("text", r"^argument \d of '\w+' is a str"), (1j, "has no default C type"),
    (2**64, "is out of range for 'unsigned long'"), (-(2**63) - 1, "is out of range for 'long'"),
    (np.zeros(4)[::2], "contiguous"), (np.zeros(2, object), "'O'|object"),
    (object(), "has no default C type"),
]  # fmt: skip


@pytest.fixture(scope="module")
def variadic(builder):
    return nc.load(builder.library(VARIADIC, "trampoline_variadic"))


@pytest.mark.parametrize("gil", ["hold", "release"])
def test_variadic_functions(variadic, gil):
    for name, signature, first, answer in (
        ("show", "int (char *out, const char *form, ...)", (), 7),
        ("show_mixed", "T{dq}:T{dq}&b&b.", ((0.5, 1),), (0.5, 2)),
    ):
        f = nc.wrap(variadic.address(name), signature, name=name, gil=gil)
        assert f.entries[0].trampoline == "plan"
        for form, values, printed in EXTRA:
            for call in (f, f.builtin, f):
                out = bytearray(200)
                assert call(*first, out, form, *values) == answer, values
                assert out.split(b"\0")[0].decode().strip() == printed, values
        for value, message in REFUSED:
            with pytest.raises((TypeError, ValueError, OverflowError), match=message):
                f(*first, bytearray(200), b"P", value)
        assert outcome(f, *first)[0] is TypeError
        assert outcome(f, *first, 1.5, b"i", 1)[0] is TypeError
    out = bytearray(200)
    f = variadic.function("show", "int (char *out, const char *form, ...)")
    assert f(form=b"", out=out) == 7
    assert f(out, b"id", 3, 0.5) == 7
    assert out.startswith(b"3 0.5 \0")


@pytest.mark.parametrize("errors", ["errno", "nonzero", "none"])
def test_variadic_functions_that_fail(variadic, errors):
    f = nc.wrap(variadic.address("failing"), "i:i.", name="failing", errors=errors, errno=True)
    failure = {"errno": FileNotFoundError, "nonzero": nc.NativeFailure}.get(errors)
    for values in ((0,), (2,), (0, 1.5), (2, 1.5, b"x")):
        for call in (f, f.builtin):
            found = outcome(call, *values)
            assert found[0] == (failure if failure and values[0] else "int")
            assert nc.get_errno() == values[0]


def test_many_arguments_after_the_fixed_ones(variadic):
    f = variadic.function("show", "i:&b&b.")
    out = bytearray(4000)
    assert f(out, b"i" * 300, *range(300)) == 7
    assert out[:1100].split()[:300] == [str(i).encode() for i in range(300)]


def test_structs_after_the_fixed_arguments(builder):
    lib = nc.load(
        builder.library(
            "#include <stdarg.h>\ntypedef struct { int a; double b; } one;\n"
            "typedef struct { long a[4]; } four;\ndouble sum(int n, ...);\n"
            "double sum(int n, ...) { va_list l; va_start(l, n); one x = va_arg(l, one);"
            " four y = va_arg(l, four); int z = va_arg(l, int); va_end(l);"
            " return n + x.a + x.b + (double)(y.a[0] + y.a[3]) + z; }",
            "trampoline_structs",
        ),
        "typedef struct { int a; double b; } one; typedef struct { long a[4]; } four;"
        "double sum(int n, ...);",
    )
    one, four = lib.new("one *", (1, 0.5))[0], lib.new("four *", ([10, 0, 0, 20],))[0]
    assert lib.sum(100, one, four, 1000) == 1131.5


def test_functions_and_text_after_the_fixed_arguments(builder):
    lib = nc.load(builder.library(AFTER, "trampoline_after"))

    def made(name, **options):
        return lib.function(name, "double (int n, ...)", **options)

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
            r"^argument 2 of 'apply' is a Python callable \(function\), .*pass nativecall",
        ),
        (abs, r"Python callable \(builtin_function_or_method\)"),
        (
            nc.wrap({"d:d": m.cos, "d:i": m.cos.address()}),
            r"^argument 2 of 'apply' must be a function of one signature, but this has 2; pass one "
            r"of",
        ),
        (nc.callback("d:d", fail, gil="need"), "runs without the GIL"),
        (object(), r"^argument 2 of 'apply' has no default C type \(got object\)"),
    ):
        with pytest.raises(TypeError, match=message):
            apply(1, value, 2.0)
    with pytest.raises(TypeError, match=r"^argument 2 of 'length' is a str, .*s.encode\(\)"):
        length(1, "abc")
    text = made("length", encoding="utf-8")
    assert [text(1, one) for one in ("abc", "\xe4", "", b"ab")] == [3.0, 2.0, 0.0, 2.0]
    with pytest.raises(
        ValueError, match=r"^argument 2 of 'length' must not contain a null character"
    ):
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


def test_the_types_of_variadic_calls_are_bounded(variadic):
    first, second = (variadic.function("failing", "i:i.") for _ in range(2))
    assert (first(1, 2.0, 3), second(4, 5.0, 6)) == (1, 4)
    letters = {"i": 1, "d": 0.5, "P": None, "Q": 2**63}
    for types in itertools.product(letters, repeat=4):
        assert first(9, *[letters[one] for one in types]) == 9
    assert 0 < len(first._cif.ways) <= 64


# -- plans ---------------------------------------------------------------------------------------


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


def test_views_survive_the_collector(echo):
    """The collector clears callables in cycles; finalisers may call views of them even so."""
    seen = []

    class Last:
        def __del__(self):
            seen.append(self.view(*range(6)))

    last = Last()
    f = nc.wrap(echo.address("one"), "h:HHHHHH", owner=last)
    last.view = f.builtin
    del f, last
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
round(10_000)
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


def test_calls_import_no_llvm(python, echo):
    code = (
        "import sys, nativecall as nc\n"
        "f = nc.load('m', 'double cos(double);').cos\n"
        "f(0.0), f.builtin, repr(f)\n"
        f"g = nc.load({str(echo.path)!r}).function('echo_i16', 'h:h')\n"
        "print(g(7), g.builtin(8), g.entries[0].trampoline)\n"
        "print([n for n in sys.modules if n.startswith(('llvmlite', 'nativecall._codegen'))])"
    )
    assert python(code) == "7 8 plan\n[]\n"
