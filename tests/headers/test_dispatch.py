"""dispatch.h and dynamiccall.h: the three ways of CEP 1000 to call, in real extension modules.

The module of tests/ext/dispatch.c is built as C99 against the installed headers and as C++11
against a vendored copy; that one also runs where the package is absent. registercall.h and
promotion.h are compared with what a C compiler does for random signatures, and with exact numbers.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import gc
import importlib
import itertools
import math
import operator
import os
import random
import shutil
import struct
import subprocess
import sys
import sysconfig
import threading
import weakref
from fractions import Fraction

import pytest

import nativecall as nc
from support import build

REFUSED = "the GIL is not held"  # the text of NC_E_GIL
REPEAT = 10_000

FUNCTIONS = r"""
#include <errno.h>
#include <math.h>
#include <stdint.h>
int PyGILState_Check(void);
double d_d(double x) { return x + 1; }
double d_di(double x, int n) { return 10 * x + n; }
double d_dd(double x, double y) { return 100 * x + y; }
float f_fq(float x, int64_t n) { return 1000 * x + (float)n; }
double d_qd(int64_t n, double x) { return (double)n + x; }
double d_q(int64_t n) { return (double)n; }
float f_d(double x) { return (float)x + 2; }
int8_t b_i(int n) { return (int8_t)n; }
double d_8(double a, double b, double c, double d, double e, double f, double g, double h)
{
    return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h;
}
static double seen;
void v_f(float x) { seen = x; }
void v_d(double x) { seen = -x; }
void v_(void) { seen++; }
double take(void) { double last = seen; seen = 0; return last; }
double five(void) { return 5; }
double through(double (*f)(double)) { return f(2); }
double five_d(double x) { (void)x; return 5; }
float half(void) { return 0.5F; }
double holds(double x) { return PyGILState_Check() ? x : -x; }
int same_i(int x) { return x; }
void *same_P(void *x) { return x; }
int sets_errno(int x) { errno = x; return 0; }
void *null_object(void *x) { return x ? (void *)0 : x; }
double norm(struct { double x, y; } p);
"""
FUNCTIONS = FUNCTIONS.replace(
    "double norm(struct { double x, y; } p);",
    """struct point { double x, y; };
double norm(struct point p) { return p.x * p.x + p.y * p.y; }
struct point turn(double x) { struct point p; p.x = -x; p.y = 2 * x; return p; }
_Complex double Zd_Zd(_Complex double z) { return 2 * z; }
double many(double a, int b, double c, int d, double e, int f, double g, int h, double i, int j,
            double k, int l, double m, int n, double o, int p, double q, int r, double s, int t)
{
    return a + b * 2 + c * 3 + d * 4 + e * 5 + f * 6 + g * 7 + h * 8 + i * 9 + j * 10 + k * 11
        + l * 12 + m * 13 + n * 14 + o * 15 + p * 16 + q * 17 + r * 18 + s * 19 + t * 20;
}
""",
)


@pytest.fixture(scope="session")
def functions(builder):
    """The library of FUNCTIONS."""
    return nc.load(builder.library(FUNCTIONS, "dispatch_functions"))


@pytest.fixture(scope="session")
def vendored(include, tmp_path_factory):
    """A copy of the headers."""
    copy = tmp_path_factory.mktemp("dispatch_bundle")
    shutil.copytree(include / "nativecall", copy / "nativecall")
    return copy


def extension(builder, include, vendored, standard):
    return builder.extension(
        "dispatch.c",
        {"c99": "dispatch_c", "c++11": "dispatch_cpp"}[standard],
        include={"c99": include, "c++11": vendored}[standard],
        language={"c99": "c", "c++11": "c++"}[standard],
    )


@pytest.fixture(scope="session", params=["c99", "c++11"])
def c(request, builder, include, vendored):
    """The module of tests/ext/dispatch.c."""
    return build.load_extension(extension(builder, include, vendored, request.param))


@pytest.fixture(scope="session")
def tier2(builder, include):
    """A provider whose type has ``__nativecall_api__``."""
    return build.load_extension(
        builder.extension("conformance_tier2.c", "dispatch_tier2", include=include)
    )


def d(x):
    return struct.pack("d", x)


def i(n):
    return struct.pack("i", n)


def q(n):
    return struct.pack("q", n)


def p(address):
    return struct.pack("P", address)


def f4(x):
    return struct.pack("f", x)


def events(work):
    """How many events a profiler sees: one for each call of Python or into C, and each return."""
    seen = []
    sys.setprofile(lambda frame, event, argument: seen.append(event))
    try:
        work()
    finally:
        sys.setprofile(None)
    return len(seen)


def ask(c, f, signature, *values, **options):
    """The way of a call, and its result."""
    prepared = c.prepare(f, signature)
    return c.way(prepared), c.call(prepared, values, *options.values())


# -- the headers ---------------------------------------------------------------------------------


def compiler(command):
    names = {"gcc": ["gcc"], "clang": ["clang", "clang-14"]}[command]
    found = next((name for name in names if shutil.which(name)), None)
    if found is None:
        pytest.skip(f"no {command}")
    return found


def compiled(include, folder, command, standard, flags, sources):
    """What a compiler says of each of several sources."""
    language = "c++" if standard.startswith("c++") else "c"
    words = [compiler(command), f"-std={standard}", "-x", language, *build.WARNINGS]
    words += [f"-I{include}", "-isystem", sysconfig.get_path("include"), *flags]
    paths = [folder / f"source{n}.c" for n in range(len(sources))]
    for path, source in zip(paths, sources, strict=True):
        path.write_text(source)
    return build.side_by_side([*words, str(path)] for path in paths)


@pytest.mark.parametrize("standard", ["c99", "c11", "c++11"])
@pytest.mark.parametrize("command", ["gcc", "clang"])
def test_every_header_alone_and_twice(include, tmp_path, command, standard):
    inner = ("detail/registercall.h", "detail/promotion.h", "detail/values.h")
    headers = ("dispatch.h", "dynamiccall.h", *inner)
    lines = [f"#include <nativecall/{header}>\n" for header in headers]
    all_done = compiled(
        include, tmp_path, command, standard, ["-fsyntax-only"], [line * 2 for line in lines]
    )
    for header, done in zip(headers, all_done, strict=True):
        assert done.returncode == 0, f"{header}: {done.stderr}"
        lines = (include / "nativecall" / header).read_text().splitlines()
        assert len(lines) < 500, header


GOOD = [
    "NC_DISPATCH(f, double, (nothing));",
    "NC_DISPATCH(f, nothing, (double));",
    "NC_DISPATCH(f, double, (double, user_data));",
    # 13 nibbles are one word.
    "NC_DISPATCH(f, int8, (short, short, short, short, short, short));",
    "NC_DISPATCH_PROMOTED(f, double, (float), NC_PROMOTED(double, (double)));",
    "NC_DISPATCH_PROMOTED(f, double, (nothing), NC_PROMOTED(float, (nothing)));",
    "NC_DISPATCH_PROMOTED(f, nothing, (float), NC_PROMOTED(nothing, (double)));",
    "NC_CALLBACK_DECLARE(f, double, (nothing), 0);",
]
BAD = [
    "NC_DISPATCH(f, int8, (short, short, short, short, short, short, float));",
    "NC_DISPATCH(f, double, (double, nothing));",
    "NC_DISPATCH(f, double, (nothing, nothing));",
    "NC_DISPATCH(f, double, (quadruple));",
    "NC_DISPATCH(f, double, (double))",
    "NC_DISPATCH_PROMOTED(f, double, (float), NC_PROMOTED(double, (double, double)));",
    "NC_DISPATCH_PROMOTED(f, double, (float, float), NC_PROMOTED(double, (double)));",
    "NC_DISPATCH_PROMOTED(f, double, (float), NC_PROMOTED(double, (nothing)));",
    "NC_DISPATCH_PROMOTED(f, double, (nothing), NC_PROMOTED(double, (double)));",
    "NC_DISPATCH_PROMOTED(f, double, (float), NC_PROMOTED(nothing, (double)));",
    "NC_DISPATCH_PROMOTED(f, nothing, (float), NC_PROMOTED(double, (double)));",
    # A promotion that loses something is -Wconversion's to tell.
    "NC_DISPATCH_PROMOTED(f, double, (double), NC_PROMOTED(double, (float)));",
    "NC_DISPATCH_PROMOTED(f, float, (float), NC_PROMOTED(double, (float)));",
    "NC_CALLBACK_DECLARE_WITH_DATA(f, double, (nothing), 0);",
]


@pytest.mark.compiler
@pytest.mark.parametrize("standard", ["c99", "c++11"])
@pytest.mark.parametrize("command", ["gcc", "clang"])
def test_what_does_not_compile(include, tmp_path, command, standard):
    renamed = [line.replace("(f,", f"(f{n},") for n, line in enumerate(GOOD)]
    lines = ["\n".join(renamed), *BAD]
    sources = [
        f"#include <nativecall/callback.h>\n#include <nativecall/dispatch.h>\n{line}\n"
        "extern int last;\n"
        for line in lines
    ]
    all_done = compiled(include, tmp_path, command, standard, ["-fsyntax-only"], sources)
    for line, done in zip(lines, all_done, strict=True):
        assert (done.returncode == 0) is (line not in BAD), f"{line}\n{done.stderr}"


# One type, in memory of its own, as every argument and result; each call stands here once, so that
# the compiler may inline it and compare its branches with that memory. What opens boxes and makes
# the metaclass knows nothing of that type, and takes most of the time to compile: once is enough.
INSTANTIATED = r"""
#ifdef ELSEWHERE
#include <nativecall/detail/boxes.h>
#include <nativecall/nativecallable.h>
int opened_elsewhere(PyObject *obj, NcBox *box);
int imported_elsewhere(void);
int interned_elsewhere(const char *signature, const char **out);
#define nc_box_open opened_elsewhere
#define PyCustomSlots_Import imported_elsewhere
#define nc_signature_intern interned_elsewhere
#endif
#include <nativecall/callback.h>
#include <nativecall/dispatch.h>
#include <nativecall/dynamiccall.h>
#include <nativecall/detail/registercall.h>
NC_DISPATCH(exact, WORD, (WORD));
NC_DISPATCH_PROMOTED(wider, WORD, (WORD, float), NC_PROMOTED(WORD, (WORD, double)));
NC_CALLBACK_DECLARE(thunk, WORD, (WORD, double), 0);
NC_CALLBACK_DECLARE_WITH_DATA(thunk_with_data, WORD, (WORD, user_data), 0);
typedef NC_OF(TYPE, WORD) Type;
#define TEXT NC_SIGNATURE(WORD, (WORD))
#ifdef GLOBAL
static Type x, y;
#endif
int all(PyObject *f, void *function, Type given);
int all(PyObject *f, void *function, Type given)
{
    static NcCallbackSignature accepted[] = {NC_CALLBACK_ACCEPT(thunk),
                                             NC_CALLBACK_ACCEPT(thunk_with_data),
                                             NC_CALLBACK_ACCEPT_NATIVE(TEXT, -1)};
    NcCallback callback;
    NcRegisterCall how;
    NcCall call;
    const void *args[1];
    int status;
#ifndef GLOBAL
    Type x, y;
#endif
    x = given;
    args[0] = &x;
    status = exact(f, &y, x) | exact_nogil(f, &y, y);
    status |= wider(f, &y, x, 1.0F) | wider_nogil(f, &y, y, 1.0F);
    if (status != NC_OK || nc_call_prepare(&call, f, TEXT) < 0) {
        return -1;
    }
    status = nc_call(&call, &y, args);
    status |= nc_call_nogil(&call, &y, args);
    nc_call_release(&call);
    if (nc_registercall_prepare(TEXT, strlen(TEXT), &how) == NC_OK) {
        nc_registercall(&how, function, &y, args);
    }
    if (nc_callback_prepare(&callback, f, accepted, 3, NC_CALLBACK_HOLDS_GIL) < 0) {
        return -1;
    }
    if (!nc_callback_failed(&callback)) {
        y = NC_CALLBACK_FUNCTION(&callback, Type (*)(Type, double))(y, 1.0);
    }
    return nc_callback_release(&callback) | status | (y == x);
}
"""


@pytest.mark.compiler
@pytest.mark.parametrize(
    ("command", "standard", "words"),
    [
        ("gcc", "c99", "float int8 boolean uint16 longdouble complex64"),
        ("gcc", "c++20", "float uint32 int8"),
        ("gcc", "c++11", "boolean pointer"),
        ("clang", "c11", "float int16 complex64"),
        ("clang", "c++20", "uint8 double"),
    ],
)
def test_no_warnings_where_everything_is_inlined(include, tmp_path, command, standard, words):
    # Clang warns before it optimises.
    flags = ["-O3", "-S", "-o", os.devnull] if command == "gcc" else ["-fsyntax-only"]
    cases = list(itertools.product(words.split(), ("", "#define GLOBAL\n")))
    sources = [place + INSTANTIATED.replace("WORD", word) for word, place in cases]
    sources[1:] = ["#define ELSEWHERE\n" + source for source in sources[1:]]
    all_done = compiled(include, tmp_path, command, standard, flags, sources)
    for case, done in zip(cases, all_done, strict=True):
        assert done.returncode == 0, f"{case}\n{done.stderr}"


# -- signatures in the source --------------------------------------------------------------------


def test_the_exact_way_is_first(c, functions):
    f = functions.function("d_d", "d:d")
    for g in (f, f.builtin):
        for nogil in (False, True):
            assert c.dispatch("one", nogil, g, 0.5) == 1.5
    few = events(lambda: c.dispatch("one", False, f, 0.5))
    assert few == events(lambda: c.dispatch("one", True, f.builtin, 0.5))
    assert few < events(lambda: c.dispatch("one", False, lambda x: x, 0.5))


def test_promotions_are_tried_in_order(c, functions):
    def overloaded(*names):
        every = {"d:di": "d_di", "f:fq": "f_fq", "d:dd": "d_dd"}
        return nc.wrap({s: functions.address(every[s]) for s in names})

    for nogil in (False, True):
        # The order in the table is not the order of preference.
        assert c.dispatch("wider", nogil, overloaded("d:dd", "f:fq", "d:di"), 0.5, 3) == 8.0
        assert c.dispatch("wider", nogil, overloaded("d:dd", "f:fq"), 0.5, 3) == 503.0
        assert c.dispatch("wider", nogil, overloaded("d:dd"), 0.5, 3) == 53.0
        assert c.dispatch("wider", nogil, overloaded("d:dd").builtin, 0.5, 3) == 53.0
    other = functions.function("d_qd", "d:qd")
    assert c.dispatch("wider", True, other, 2.0, 3) == REFUSED
    assert c.dispatch("wider", False, lambda x, n: (x * n, type(n))[0], 2.0, 3) == 6.0


def test_what_gives_nothing(c, functions):
    take = functions.function("take", "d:")
    both = nc.wrap({"v:d": functions.address("v_d"), "v:f": functions.address("v_f")})
    for nogil in (False, True):
        assert c.dispatch("notify", nogil, both, 0.5) is None
        assert take() == 0.5
        assert c.dispatch("notify", nogil, functions.function("v_d", "v:d"), 0.5) is None
        assert take() == -0.5
        assert c.dispatch("no_more", nogil, functions.function("v_", "v:")) is None
        assert take() == 1.0
    seen = []
    assert c.dispatch("notify", False, seen.append, 0.5) is None
    assert c.dispatch("no_more", False, lambda: seen.append(2)) is None
    assert seen == [0.5, 2]
    # A result that nobody asked for is no mistake.
    assert c.dispatch("no_more", False, lambda: "text") is None


def test_no_arguments(c, functions):
    for nogil in (False, True):
        assert c.dispatch("none", nogil, functions.function("five", "d:")) == 5.0
        assert c.dispatch("none", nogil, functions.function("half", "f:")) == 0.5
        assert c.dispatch("none", nogil, functions.function("half", "f:").builtin) == 0.5
    assert c.dispatch("none", False, lambda: 7) == 7.0
    with pytest.raises(TypeError, match=r"positional argument"):
        c.dispatch("none", False, lambda x: x)


def test_eight_arguments(c, functions):
    f = functions.function("d_8", "d:dddddddd")
    expected = sum((k + 1) * (0.5 + k) for k in range(8))
    for nogil in (False, True):
        assert c.dispatch("eight", nogil, f, 0.5) == expected
    assert c.dispatch("eight", False, lambda *x: math.fsum(x), 0.5) == sum(
        0.5 + k for k in range(8)
    )


def test_words_of_the_consumer(c, functions):
    for nogil in (False, True):
        assert c.dispatch("norm", nogil, functions.function("norm", "d:T{dd}"), 3.0, 4) == 25.0
        assert c.dispatch("turn", nogil, functions.function("turn", "T{dd}:d"), 3.0) == (-3.0, 6.0)
    assert c.dispatch("norm", False, lambda p: p[0] - p[1], 3.0, 4) == -1.0
    assert c.dispatch("turn", False, lambda x: (x, x + 1), 3.0) == (3.0, 4.0)
    with pytest.raises((TypeError, SystemError)):
        c.dispatch("turn", False, lambda x: "no tuple", 3.0)


def raises(*arguments):
    raise LookupError("from Python")


def test_the_boxed_way_checks_results_and_raises(c, fails):
    assert c.dispatch("narrow", False, lambda n: n, 0.0, 127) == 127
    with fails(OverflowError, "the result 128 does not fit in 'int8_t'"):
        c.dispatch("narrow", False, lambda n: n, 0.0, 128)
    with fails(TypeError, "'float' object cannot be interpreted as an integer"):
        c.dispatch("narrow", False, float, 0.0, 1)
    with fails(LookupError, "from Python"):
        c.dispatch("narrow", False, raises, 0.0, 1)
    with fails(TypeError, "must be real number, not str"):
        c.dispatch("one", False, str, 1.0)
    with fails(TypeError, "'int' object is not callable"):
        c.dispatch("one", False, 3, 1.0)
    # An argument that cannot be boxed: nothing is called.
    assert c.dispatch("same", False, lambda x: x, 0.0, 0, "text") == "text"


def test_without_the_gil_what_needs_it_is_refused(c, functions):
    calls = []
    holds = functions.address("holds")
    assert c.dispatch("one", True, calls.append, 1.0) == REFUSED
    assert calls == []
    need = nc.wrap(holds, "d:d", gil="need")
    assert c.dispatch("one", True, need, 1.0) == REFUSED
    assert c.dispatch("one", False, need, 1.0) == 1.0
    # Called without the GIL already, or by Python, which drops it.
    release = nc.wrap(holds, "d:d", gil="release")
    assert c.dispatch("one", True, release, 1.0) == -1.0
    assert c.dispatch("one", False, release, 1.0) == -1.0
    hold = nc.wrap(holds, "d:d")
    assert c.dispatch("one", True, hold, 1.0) == -1.0
    assert c.dispatch("one", False, hold, 1.0) == 1.0


def test_error_conventions_go_through_python(c, functions, fails):
    failing = functions.function("b_i", "b:i", errors="nonzero")
    assert c.dispatch("narrow", True, failing, 0.0, 0) == REFUSED
    with pytest.raises(nc.NativeFailure):
        c.dispatch("narrow", False, failing, 0.0, 3)
    assert c.dispatch("narrow", False, functions.function("b_i", "b:i", errors="zero"), 0.0, 3) == 3


def test_objects_stay_level(c):
    address = ctypes.cast(ctypes.pythonapi.PyObject_Repr, ctypes.c_void_p).value
    f = nc.wrap(address, "O:O", errors="python")
    obj = ["unique", object]
    for g in (f, repr, lambda x: x):
        counts = [sys.getrefcount(obj)]
        for _ in range(REPEAT):
            result = c.dispatch("same", False, g, 0.0, 0, obj)
        del result
        counts.append(sys.getrefcount(obj))
        assert counts[0] == counts[1]


# -- signatures at run time ----------------------------------------------------------------------


def test_exact_promoted_and_boxed(c, functions):
    f = functions.function("d_qd", "d:qd")
    assert ask(c, f, "d:qd", q(-(2**40)), d(0.5)) == ("exact", d(0.5 - 2**40))
    assert ask(c, f.builtin, "d:qd", q(3), d(0.5)) == ("exact", d(3.5))
    # An entry of int64 is there for int32, unsigned and boolean alike.
    assert ask(c, f, "d:id", i(-3), d(0.5)) == ("promoted", d(-2.5))
    assert ask(c, f, "d:Id", struct.pack("I", 2**32 - 1), d(0.5)) == ("promoted", d(2**32 - 0.5))
    assert ask(c, f, "d:?f", b"\1", f4(0.25)) == ("promoted", d(1.25))
    assert ask(c, f, "Zd:bd", struct.pack("b", -3), d(0.5)) == ("promoted", d(-2.5) + d(0.0))
    # int64 is no double, uint64 no int64, and a double no float.
    assert ask(c, functions.function("d_d", "d:d"), "d:q", q(3)) == ("boxed", d(4.0))
    assert ask(c, f, "d:Qd", struct.pack("Q", 3), d(0.5)) == ("boxed", d(3.5))
    assert ask(c, f, "f:qd", q(3), d(0.5)) == ("boxed", f4(3.5))
    assert ask(c, functions.function("d_d", "d:d"), "d:i", i(3)) == ("promoted", d(4.0))
    # Any spelling of a signature.
    long = "q" if ctypes.sizeof(ctypes.c_long) == 8 else "i"
    assert ask(c, f, " d : l d ", struct.pack(long, 3), d(0.5))[0] in ("exact", "promoted")


def test_the_nearest_entry_counts_then_the_first(c, functions):
    address = functions.address

    def way(signature, *entries):
        table = nc.wrap({s: address(name) for s, name in entries})
        values = [bytes(struct.calcsize(code)) for code in signature.partition(":")[2]]
        prepared = c.prepare(table, signature)
        return c.way(prepared), c.call(prepared, tuple(values))

    one = ("d:q", "d_q"), ("d:d", "d_d")
    # An integer is nearer to an integer, however wide; 0 tells d_q from d_d.
    assert way("d:i", *one) == ("promoted", d(0.0))
    assert way("d:i", *reversed(one)) == ("promoted", d(0.0))
    assert way("d:f", *one) == ("promoted", d(1.0))
    # d:d and f:d are exact for the argument; the first result that fits, d, is the same type.
    two = ("f:d", "f_d"), ("d:d", "d_d")
    assert way("d:d", *two) == ("exact", d(1.0))
    assert way("d:d", two[0]) == ("promoted", d(2.0))
    assert way("Zd:d", *two)[1] == d(1.0) + d(0.0)
    assert way("f:d", *two) == ("exact", f4(2.0))


def test_void_takes_any_result_but_an_object(c, functions):
    take = functions.function("take", "d:")
    assert ask(c, functions.function("v_d", "v:d"), "v:d", d(2.0)) == ("exact", None)
    assert take() == -2.0
    assert ask(c, functions.function("v_d", "v:d"), "v:f", f4(2.0)) == ("promoted", None)
    assert take() == -2.0
    assert ask(c, functions.function("d_d", "d:d"), "v:d", d(2.0)) == ("promoted", None)
    assert ask(c, take, "v:") == ("promoted", None)
    assert ask(c, lambda x: "text", "v:d", d(2.0)) == ("boxed", None)
    address = ctypes.cast(ctypes.pythonapi.PyObject_Repr, ctypes.c_void_p).value
    assert ask(c, nc.wrap(address, "O:O", errors="python"), "v:O", 3) == ("boxed", None)
    # Who wants a result gets none from a function without one.
    f = functions.function("v_d", "v:d")
    assert c.way(c.prepare(f, "d:d")) == "boxed"


def test_many_arguments(c, functions):
    f = functions.function("many", "d:" + 10 * "di")
    values = [d(k + 0.5) if k % 2 == 0 else i(-k) for k in range(20)]
    expected = sum((k + 1) * (k + 0.5 if k % 2 == 0 else -k) for k in range(20))
    assert ask(c, f, "d:" + 10 * "di", *values) == ("exact", d(expected))
    narrow = [f4(k + 0.5) if k % 2 == 0 else struct.pack("h", -k) for k in range(20)]
    assert ask(c, f, "d:" + 10 * "fh", *narrow) == ("promoted", d(expected))
    assert ask(c, lambda *x: len(x), "i:" + 32 * "b", *(32 * [b"\0"])) == ("boxed", i(32))


# Every box with a function "d:d", 2 * x - 1 or so, and where it is made.
def boxes(functions):
    address = functions.address("d_d")
    kind = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)
    cffi = importlib.import_module("cffi").FFI()
    scipy = importlib.import_module("scipy")
    native = functions.function("d_d", "d:d")
    numba = importlib.import_module("numba")
    return {
        "native": native,
        "view": native.builtin,
        "overloaded": nc.wrap({"f:fq": functions.address("f_fq"), "d:d": address}),
        "ctypes": kind(address),
        "cffi": cffi.cast("double (*)(double)", address),
        "capsule": native.to_capsule("d:d"),
        "scipy": scipy.LowLevelCallable(kind(address)),
        "numba": numba.cfunc("float64(float64)")(lambda x: x + 1),
    }


@pytest.fixture(scope="session")
def boxed(functions):
    return boxes(functions)


NAMES = ["native", "view", "overloaded", "ctypes", "cffi", "capsule", "scipy", "numba"]


@pytest.mark.parametrize("name", NAMES)
def test_every_native_box_without_a_python_call(c, boxed, name):
    f = boxed[name]
    for signature, value, way in (("d:d", d(0.5), "exact"), ("d:f", f4(0.5), "promoted")):
        prepared = c.prepare(f, signature)
        assert c.way(prepared) == way
        few = events(lambda: c.call(prepared, (value,)))
        assert events(lambda: c.call(prepared, (value,), False, True, 1000)) == few
        for nogil in (False, True):
            assert c.call(prepared, (value,), nogil) == d(1.5)
            assert c.call(prepared, (value,), nogil, False) is None
    assert ask(c, f, "v:d", d(0.5)) == ("promoted", None)


def test_cython_capsules(c):
    special = importlib.import_module("scipy.special.cython_special")
    capsule = special.__pyx_capi__["__pyx_fuse_1erf"]
    assert ask(c, capsule, "d:d", d(0.5)) == (
        "exact",
        d(importlib.import_module("scipy").special.erf(0.5)),
    )


def test_cffi_api_mode_and_the_rest_of_python(c, boxed):
    numpy = importlib.import_module("numpy")

    def python(x):
        return x + 1

    for f in (python, functools.partial(python), numpy.vectorize(python), numpy.exp, math.exp):
        prepared = c.prepare(f, "d:d")
        assert c.way(prepared) == "boxed"
        assert c.call(prepared, (d(0.0),)) == d(1.0)
        assert c.call(prepared, (d(0.0),), True) == REFUSED
        assert c.call(prepared, (d(0.0),), False, False) is None
    assert ask(c, operator.add, "q:ii", i(2), i(-5)) == ("boxed", q(-3))
    few = events(lambda: c.call(prepared, (d(0.0),)))
    prepared = c.prepare(python, "d:d")
    assert events(lambda: c.call(prepared, (d(0.0),), False, True, 100)) >= few + 100


def test_a_low_level_callable_with_user_data_does_not_fit(c, functions, fails):
    scipy = importlib.import_module("scipy")
    kind = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)
    made = scipy.LowLevelCallable(kind(functions.address("d_d")), ctypes.c_void_p(1234))
    with fails(TypeError, f"no function for 'd:d' in {made!r}, and Python cannot call it"):
        c.prepare(made, "d:d")


def test_types_with_nativecall_api(c, tier2, fails):
    f = tier2.Function()
    assert ask(c, f, "d:d", d(3.0)) == ("exact", d(9.0))
    assert ask(c, f, "d:i", i(3)) == ("promoted", d(9.0))
    assert ask(c, f, "d:" + 16 * "d", *(16 * [d(0.5)])) == ("exact", d(8.0))
    assert ask(c, f, "q:q", q(3)) == ("exact", q(-3))
    assert c.call(c.prepare(f, "q:q"), (q(3),), True) == REFUSED
    # An entry that reports failures is Python's to call, and Python squares.
    prepared = c.prepare(f, "i:i")
    assert c.way(prepared) == "boxed"
    with fails(TypeError, "'float' object cannot be interpreted as an integer"):
        c.call(prepared, (i(3),))
    # Of entries that are not enumerated, the exact one is found.
    names = ["size", "name", "release", "find", "entry"]
    kinds = [ctypes.c_size_t, ctypes.c_uint64] + 3 * [ctypes.c_void_p]
    api = type("Api", (ctypes.Structure,), {"_fields_": list(zip(names, kinds, strict=True))})
    get = ctypes.pythonapi.PyCapsule_GetPointer
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ctypes.cast(get, ctypes.c_void_p).value
    )
    new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
        ctypes.cast(ctypes.pythonapi.PyCapsule_New, ctypes.c_void_p).value
    )
    silent = api.from_buffer_copy(api.from_address(pointer(tier2.CAPSULE, b"nativecall_api_v1")))
    silent.entry = None
    silent_type = type(
        "Silent",
        (),
        {"__nativecall_api__": new(ctypes.addressof(silent), b"nativecall_api_v1", None)},
    )
    assert ask(c, silent_type(), "d:d", d(3.0)) == ("exact", d(9.0))
    with pytest.raises(
        TypeError, match=r"^no function for 'd:i' in .*, and Python cannot call it$"
    ):
        c.prepare(silent_type(), "d:i")
    del silent_type.__nativecall_api__
    gc.collect()
    bad = type("Bad", (), {"__nativecall_api__": 3})
    with pytest.raises(TypeError, match=r"^'__nativecall_api__' of Bad must be a capsule"):
        c.prepare(bad(), "d:d")


def test_flags(c, functions, fails):
    address = functions.address
    need = c.prepare(nc.wrap(address("holds"), "d:d", gil="need"), "d:d")
    assert c.way(need) == "exact"
    assert c.call(need, (d(1.0),)) == d(1.0)
    assert c.call(need, (d(1.0),), True) == REFUSED
    # Dropped around the call, exact and promoted alike.
    for signature, value in (("d:d", d(1.0)), ("d:f", f4(1.0))):
        release = c.prepare(nc.wrap(address("holds"), "d:d", gil="release"), signature)
        assert c.way(release) != "boxed"
        assert c.call(release, (value,)) == d(-1.0)
        assert c.call(release, (value,), True) == d(-1.0)
    hold = c.prepare(nc.wrap(address("holds"), "d:d"), "d:d")
    assert (c.call(hold, (d(1.0),)), c.call(hold, (d(1.0),), True)) == (d(1.0), d(-1.0))


@pytest.mark.parametrize(
    ("name", "signature", "errors", "good", "bad", "exception"),
    [
        ("same_i", "i:i", "nonzero", i(0), i(3), nc.NativeFailure),
        ("same_i", "i:i", "zero", i(3), i(0), nc.NativeFailure),
        ("sets_errno", "i:i", "errno", i(0), i(2), FileNotFoundError),
    ],
)
def test_error_conventions(c, functions, name, signature, errors, good, bad, exception):
    prepared = c.prepare(nc.wrap(functions.address(name), signature, errors=errors), signature)
    assert c.way(prepared) == "boxed"
    assert c.call(prepared, (good,), True) == REFUSED
    assert c.call(prepared, (good,)) == good
    with pytest.raises(exception):
        c.call(prepared, (bad,))
    with pytest.raises(exception):
        c.call(prepared, (bad,), False, False)


def test_null_results(c, functions, fails):
    prepared = c.prepare(nc.wrap(functions.address("same_P"), "P:q", errors="null"), "P:q")
    assert c.way(prepared) == "boxed"
    with pytest.raises(nc.NativeFailure):
        c.call(prepared, (q(0),))
    # The package's own pointers are cffi's, not integers.
    with fails(TypeError, "an integer is required"):
        c.call(prepared, (q(8),))
    assert c.call(prepared, (q(8),), False, False) is None


def python_address(name):
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value


def test_exceptions_that_an_entry_sets(c, fails):
    as_long = nc.wrap(python_address("PyLong_AsLongLong"), "q:O", errors="python")
    prepared = c.prepare(as_long, "q:O")
    assert c.way(prepared) == "exact"
    assert c.call(prepared, (-7,)) == q(-7)
    assert c.call(prepared, (-1,)) == q(-1)
    assert c.call(prepared, (-7,), True) == REFUSED
    for wanted in (True, False):
        with pytest.raises(OverflowError):
            c.call(prepared, (2**70,), False, wanted)
    assert ask(c, as_long, "g:O", -7)[0] == "promoted"

    class Fails:
        def __repr__(self):
            raise LookupError("from the callee")

    shows = c.prepare(nc.wrap(python_address("PyObject_Repr"), "O:O", errors="python"), "O:O")
    assert c.way(shows) == "exact"
    for wanted in (True, False):
        with fails(LookupError, "from the callee"):
            c.call(shows, (Fails(),), False, wanted)


def test_an_object_that_is_null(c, functions):
    f = nc.wrap(functions.address("null_object"), "O:O")
    prepared = c.prepare(f, "O:O")
    assert c.way(prepared) == "exact"
    message = rf"the function of {f!r} returned NULL for an object without setting an exception"
    for wanted in (True, False):
        with pytest.raises(SystemError) as info:
            c.call(prepared, (3,), False, wanted)
        assert str(info.value) == message
    # What sets one without saying so is believed all the same.
    f = nc.wrap(python_address("PyObject_Length"), "q:O")
    shows = c.prepare(nc.wrap(python_address("PyNumber_Negative"), "O:O"), "O:O")
    with pytest.raises(TypeError, match=r"^bad operand type for unary -: 'str'$"):
        c.call(shows, ("text",))
    # A NULL argument cannot become a Python object.
    with pytest.raises(ValueError, match=r"^a NULL object cannot be an argument$"):
        c.call(c.prepare(repr, "O:O"), (...,))


def test_references_stay_level(c, functions):
    shows = nc.wrap(python_address("PyNumber_Positive"), "O:O", errors="python")
    obj = [2**100]
    number = obj[0]
    for f in (shows, operator.pos, lambda x: x):
        for wanted in (True, False):
            before = sys.getrefcount(number), sys.getrefcount(f)
            prepared = c.prepare(f, "O:O")
            result = c.call(prepared, (number,), False, wanted, REPEAT)
            assert (result is number) is wanted
            del result, prepared
            assert (sys.getrefcount(number), sys.getrefcount(f)) == before
    f = functions.function("d_d", "d:d")
    for g in (f, lambda x: x, ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(lambda x: x)):
        before = sys.getrefcount(g)
        for _ in range(REPEAT // 10):
            c.prepare(g, "d:f")
        assert sys.getrefcount(g) == before


def test_a_prepared_call_keeps_its_callable(c):
    def python(x):
        return x

    alive = weakref.ref(python)
    prepared = c.prepare(python, "d:d")
    del python
    gc.collect()
    assert alive() is not None
    assert c.call(prepared, (d(2.0),)) == d(2.0)
    del prepared
    gc.collect()
    assert alive() is None


def test_a_call_that_is_released_while_it_runs_keeps_its_callable(c, functions):
    """Until it returns; what comes after that is refused, in what ends the callable as well."""
    alive, refused, calls = [], [], []

    class Owner:
        def __del__(self):
            try:
                c.call(calls[-1], (p(0),))
            except RuntimeError as error:
                refused.append(str(error))

    def release(x):
        c.release(calls[-1])
        alive.append(last() is not None)
        return x + 1

    kind = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)
    pointer = kind(release)
    address = p(ctypes.cast(pointer, ctypes.c_void_p).value)
    f = nc.wrap(functions.function("through", "d:P").address(), "d:P", owner=Owner())
    last = weakref.ref(f)
    calls.append(c.prepare(f, "d:P"))
    assert c.way(calls[-1]) == "exact"
    del f
    assert c.call(calls[-1], (address,)) == d(3.0)
    assert (alive, last()) == ([True], None)
    assert refused == ["a prepared call was used after its release"]
    # The boxed way, of an object that Python calls through a method without a reference to it.
    made = [functools.partial(release)]
    last = weakref.ref(made[0])
    calls.append(c.prepare(made.pop(), "d:d"))
    assert c.way(calls[-1]) == "boxed"
    assert c.call(calls[-1], (d(2.0),)) == d(3.0)
    assert (alive, last()) == ([True, True], None)
    with pytest.raises(RuntimeError, match=r"^a prepared call was used after its release$"):
        c.call(calls[-1], (d(2.0),))


@pytest.mark.parametrize("gil", ["take", "need"])
def test_what_python_code_behind_an_entry_raises_is_the_calls(c, gil):
    """The entry does not say that it reports failures: it gives C its sentinel."""

    def raising(x):
        raise LookupError(f"for {x:g}")

    prepared = c.prepare(nc.callback("d:d", raising, gil=gil), "d:d")
    assert c.way(prepared) == "exact"
    with pytest.raises(LookupError, match=r"^for 2$"):
        c.call(prepared, (d(2.0),))


def test_an_integer_of_many_digits_does_not_fit(c):
    """Python refuses to write it into a message."""
    many = 10**5000
    for code in "iQ":
        with pytest.raises(OverflowError, match=rf"^the result does not fit in '{code}'$"):
            c.call(c.prepare(lambda: many, f"{code}:"), ())


@pytest.mark.parametrize(
    ("code", "good", "bad"),
    [
        ("b", (-128, 127), (-129, 128)),
        ("B", (0, 255), (-1, 256)),
        ("h", (-(2**15), 2**15 - 1), (-(2**15) - 1, 2**15)),
        ("H", (0, 2**16 - 1), (-1, 2**16)),
        ("i", (-(2**31), 2**31 - 1), (-(2**31) - 1, 2**31)),
        ("I", (0, 2**32 - 1), (-1, 2**32)),
        ("q", (-(2**63), 2**63 - 1), (-(2**63) - 1, 2**63)),
        ("Q", (0, 2**64 - 1), (-1, 2**64)),
    ],
)
def test_integers_through_python(c, code, good, bad):
    prepared = c.prepare(lambda x: x, f"{code}:{code}")
    for value in good:
        packed = struct.pack(code, value)
        assert c.call(prepared, (packed,)) == packed
    for value in bad:
        prepared = c.prepare(lambda value=value: value, f"{code}:")
        with pytest.raises(OverflowError, match=rf"^the result {value} does not fit in '{code}'$"):
            c.call(prepared, ())
        assert c.call(prepared, (), False, False) is None
    with pytest.raises(TypeError, match=r"^'float' object cannot be interpreted as an integer$"):
        c.call(c.prepare(lambda: 1.0, f"{code}:"), ())


def test_other_values_through_python(c):
    def same(x):
        return x

    for code, value in (
        ("e", struct.pack("e", -0.333)),
        ("e", struct.pack("e", 6e-8)),
        ("e", struct.pack("e", math.inf)),
        ("f", f4(0.1)),
        ("d", d(0.1)),
        ("g", bytes(ctypes.c_longdouble(0.1))),
        ("Zf", f4(1.5) + f4(-2.5)),
        ("Zd", d(1.5) + d(-2.5)),
        ("?", b"\1"),
        ("?", b"\0"),
        ("P", struct.pack("P", 0)),
        ("P", struct.pack("P", 2**63 + 8)),
        ("&d", struct.pack("P", 8)),
        ("X{d:d}", struct.pack("P", 8)),
    ):
        way, result = ask(c, same, f"{code}:{code}", value)
        assert way == "boxed"
        # 10 bytes of a long double on x86 count.
        assert result[:10] == value[:10], code
    assert ask(c, lambda x: x is None, "?:P", struct.pack("P", 0))[1] == b"\1"
    assert ask(c, list, "?:")[1] == b"\0"
    assert ask(c, lambda: 3, "Zd:")[1] == d(3.0) + d(0.0)
    for code in ("f", "d", "g", "e"):
        with pytest.raises(TypeError, match=r"^must be real number, not str$"):
            c.call(c.prepare(lambda: "text", f"{code}:"), ())
    with pytest.raises(OverflowError):
        c.call(c.prepare(lambda: 1e6, "e:"), ())
    with pytest.raises(TypeError):
        c.call(c.prepare(lambda: "text", "P:"), ())
    with pytest.raises(TypeError):
        c.call(c.prepare(lambda: "text", "Zd:"), ())


def test_what_cannot_be_prepared(c, functions, fails):
    f = functions.function("d_d", "d:d")
    before = sys.getrefcount(f)
    for _ in range(100):
        with fails(ValueError, "'d:' is no signature: malformed input".replace("d:", "d")):
            c.prepare(f, "d")
        for signature in ("d:T{dd}", "v:[1]d", "i:P.", "T{dd}:d"):
            with fails(
                ValueError,
                f"'{signature}' has a struct, a view, a complex long double or a variable number "
                "of arguments, which a call that is built at run time cannot pass; pass a pointer",
            ):
                c.prepare(f, signature)
        long = "d:" + 33 * "d"
        with fails(ValueError, f"'{long}' has more than 32 arguments"):
            c.prepare(f, long)
    assert sys.getrefcount(f) == before
    with fails(TypeError, "no function for 'd:d' in 3, and Python cannot call it"):
        c.prepare(3, "d:d")
    with fails(SystemError, "nc_call_prepare was given NULL for an object"):
        c.prepare_null()
    null = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)()
    with fails(ValueError, f"{null!r} is a ctypes function pointer that is NULL"):
        c.prepare(null, "d:d")
    capsule = f.to_capsule("d:d")
    with fails(TypeError, f"no function for 'f:f' in {capsule!r}, and Python cannot call it"):
        c.prepare(capsule, "f:f")


def test_prepare_beside_a_struct_entry(c, functions):
    table = nc.wrap({"d:T{dd}": functions.address("norm"), "d:d": functions.address("d_d")})
    assert ask(c, table, "d:d", d(1.0)) == ("exact", d(2.0))
    assert ask(c, functions.function("Zd_Zd", "Zd:Zd"), "Zd:d", d(1.5)) == (
        "promoted",
        d(3.0) + d(0.0),
    )


def test_a_call_keeps_the_function_it_was_prepared_with(c, functions):
    f = nc.wrap(functions.address("d_d"), "d:d")
    prepared = c.prepare(f, "d:d")
    f.add("f:f", functions.address("half"))
    assert c.call(prepared, (d(1.0),)) == d(2.0)


def test_threads_share_a_call(c, functions):
    f = functions.function("d_di", "d:di")
    for signature, first in (("d:di", d(0.5)), ("d:fi", f4(0.5))):
        prepared = c.prepare(f, signature)
        assert c.in_threads(prepared, (first, i(3)), 20_000, 8.0) == 8 * 20_000
    assert c.in_threads(c.prepare(lambda x: x, "d:d"), (d(0.5),), 100, 0.5) == 0
    # With the GIL, Python's own threads: natively, with the GIL dropped, and boxed.
    for g in (
        functions.function("d_d", "d:d"),
        nc.wrap(functions.address("d_d"), "d:d", gil="release"),
        lambda x: x + 1,
    ):
        prepared = c.prepare(g, "d:d")
        results = []

        def work(prepared=prepared, results=results):
            for n in range(300):
                results.append(c.call(prepared, (d(n),)) == d(n + 1))

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(results) == 8 * 300
        assert all(results)


# -- providers that are wrong, and entries that differ in flags only -------------------------------


class Entry(ctypes.Structure):
    """PyNativeCallableEntry."""

    _fields_ = (
        ("signature", ctypes.c_char_p),
        ("flags", ctypes.c_size_t),
        ("funcptr", ctypes.c_void_p),
    )


FIND = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p, ctypes.c_size_t)
TELL = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_size_t)


class Api(ctypes.Structure):
    """NcNativeApi."""

    _fields_ = (
        ("size", ctypes.c_size_t),
        ("name", ctypes.c_uint64),
        ("release", ctypes.c_void_p),
        ("find", FIND),
        ("entry", TELL),
    )


NEEDS_GIL = 1
NONZERO = 0x20


class Provider:
    """Makes an object whose type has ``__nativecall_api__``, and keeps what it consists of."""

    def __init__(self, told, found=None, endless=False):
        def address(rows, n):
            return ctypes.addressof(rows) + n * ctypes.sizeof(Entry)

        def find(_obj, signature, refuse):
            for n, row in enumerate(self.found):
                if found is not None or (row.signature == signature and not row.flags & refuse):
                    return address(self.found, n)
            return None

        def tell(_obj, position):
            self.asked.append(position)
            return (
                address(self.told, 0 if endless else position)
                if (endless or position < len(told))
                else None
            )

        self.asked = []
        self.told = (Entry * len(told))(*told)
        self.found = self.told if found is None else (Entry * len(found))(*found)
        self.api = Api(ctypes.sizeof(Api), 0x6E635F6170690001, None, FIND(find), TELL(tell))
        new = ctypes.PYFUNCTYPE(
            ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
        )(python_address("PyCapsule_New"))
        capsule = new(ctypes.addressof(self.api), b"nativecall_api_v1", None)
        members = {"__nativecall_api__": capsule, "__call__": lambda self, x: 7.0}
        self.obj = type("Made", (), members)()


def test_entries_that_cannot_be_used_are_passed_over(c, functions):
    good = (b"d:d", 0, functions.address("d_d"))
    for bad in (
        (None, 0, good[2]),
        (b"d:d", 0, None),
        (b"d:d", 1 << 24, good[2]),
        (b"d:d", NONZERO, good[2]),
        (b"d", 0, good[2]),
    ):
        for told, found in (([bad], None), ([bad], [bad]), ([], [bad])):
            made = Provider(told, found)
            assert ask(c, made.obj, "d:d", d(1.0)) == ("boxed", d(7.0)), (bad, told, found)
        # The next one counts.
        made = Provider([bad, good])
        assert ask(c, made.obj, "d:d", d(1.0)) == ("exact", d(2.0))
        assert ask(c, made.obj, "d:f", f4(1.0)) == ("promoted", d(2.0))
    # What find() gives is of the signature that was asked for.
    made = Provider([], [(b"f:d", 0, functions.address("f_d"))])
    assert ask(c, made.obj, "d:d", d(1.0)) == ("boxed", d(7.0))


def test_a_provider_that_never_ends(c, functions):
    made = Provider([(b"d:d", 0, functions.address("d_d"))], endless=True)
    assert ask(c, made.obj, "d:f", f4(1.0)) == ("promoted", d(2.0))
    assert ask(c, made.obj, "f:d", d(1.0)) == ("boxed", f4(7.0))
    assert made.asked == 2 * list(range(64))
    # What stands behind the last that is asked for is found by its signature.
    others = 64 * [(b"q:q", 0, functions.address("d_q"))]
    made = Provider([*others, (b"d:d", 0, functions.address("d_d"))])
    assert ask(c, made.obj, "d:d", d(1.0)) == ("exact", d(2.0))
    assert ask(c, made.obj, "d:f", f4(1.0)) == ("boxed", d(7.0))


@pytest.fixture(scope="session")
def raw(builder, include):
    """Makes an object with these rows of a call table: the same signature may stand twice."""
    module = build.load_extension(
        builder.extension("conformance_badinput.c", "dispatch_raw", include=include)
    )
    return lambda *rows: module.raw(list(rows), [], len(rows))


def test_calls_with_the_gil_and_without_take_different_entries(c, functions, raw):
    plus_one, fails = functions.address("d_d"), functions.address("holds")
    fives, wide = functions.address("five_d"), functions.address("d_q")

    three = d(3.0)

    def both(rows, signature="d:d", value=three):
        """What calls with the GIL and without give, by both sorts of provider."""
        results = set()
        for obj in (
            raw(*rows),
            (provider := Provider([(s.encode(), *row) for s, *row in rows])).obj,
        ):
            prepared = c.prepare(obj, signature)
            results.add((c.call(prepared, (value,)), c.call(prepared, (value,), True)))
            ways = c.way(prepared), c.nogil_way(prepared)
            assert (c.call(prepared, (value,), True) == REFUSED) is (ways[1] == "boxed")
        del provider
        assert len(results) == 1
        return *results.pop(), *ways

    need, free = ("d:d", NEEDS_GIL, plus_one), ("d:d", 0, fives)
    assert both([need, free]) == (d(4.0), d(5.0), "exact", "exact")
    assert both([free, need]) == (d(5.0), d(5.0), "exact", "exact")
    # Exact with the GIL, promoted without; the nearest of each counts.
    rows = [("d:q", NEEDS_GIL, wide), ("d:d", 0, fives), ("d:i", NEEDS_GIL, fives)]
    assert both(rows[:2], "d:q", q(3)) == (d(3.0), REFUSED, "exact", "boxed")
    assert both(rows[:2], "d:i", i(3)) == (d(3.0), d(5.0), "promoted", "promoted")
    assert both([*rows[:2], rows[2]], "d:i", i(3)) == (d(5.0), d(5.0), "exact", "promoted")
    # What sets exceptions is for calls with the GIL.
    assert both([("d:d", 0x10, plus_one), free]) == (d(4.0), d(5.0), "exact", "exact")
    assert both([("d:d", 0x10, plus_one)]) == (d(4.0), REFUSED, "exact", "boxed")
    assert both([("d:d", NONZERO, fails), free]) == (d(5.0), d(5.0), "exact", "exact")


def test_dispatch_finds_entries_of_a_call_table_alone(builder, include, c, functions):
    """A packed table is not required of a provider, and none of these types has one."""
    provider = build.load_extension(
        builder.extension("provider.c", "dispatch_provider", include=include)
    )
    obj = provider.Base()
    packed = functions.function("d_d", "d:d")
    few = events(lambda: c.dispatch("one", False, packed, 3.0))
    for nogil in (False, True):
        assert c.dispatch("one", nogil, obj, 3.0) == 1.5
        assert events(lambda: c.dispatch("one", nogil, obj, 3.0)) == few
        assert c.call(c.prepare(obj, "d:d"), (d(3.0),), nogil) == d(1.5)
    obj.add("d:dd", NEEDS_GIL, functions.address("d_dd"))
    assert c.dispatch("wider", False, obj, 0.5, 3) == 53.0
    assert c.dispatch("wider", True, obj, 0.5, 3) == REFUSED
    obj.add("d:dd", 0, functions.address("d_dd"))
    assert c.dispatch("wider", True, obj, 0.5, 3) == 53.0


@pytest.mark.parametrize("value", [1e300, -1e300, 3.4028236e38])
def test_floats_that_do_not_fit_are_no_infinities(c, value, fails):
    with fails(OverflowError, f"the result {value!r} does not fit in 'float'"):
        c.dispatch("single", False, lambda x: value, 1.0)
    for code in ("f", "e"):
        with fails(OverflowError, f"the result {value!r} does not fit in '{code}'"):
            c.call(c.prepare(lambda: value, f"{code}:"), ())
    for result in (complex(value, 1), complex(1, value)):
        with fails(OverflowError, f"the result {result!r} does not fit in 'Zf'"):
            c.call(c.prepare(lambda: result, "Zf:"), ())
        if hasattr(c, "complex_single"):
            with fails(OverflowError, f"the result {result!r} does not fit in 'float _Complex'"):
                c.complex_single(lambda: result)
        assert ask(c, lambda: result, "Zd:")[1] == d(result.real) + d(result.imag)
    assert ask(c, lambda: value, "d:")[1] == d(value)


def test_what_fits_a_float(c):
    assert hasattr(c, "complex_single") is (c.__name__ == "dispatch_c")
    for value in (math.inf, -math.inf, 0.1, 3.4028234663852886e38, -3.4028235e38, 1e-300, -0.0):
        narrow = struct.unpack("f", f4(value))[0]
        for got in (
            c.dispatch("single", False, lambda x: value, 1.0),
            struct.unpack("f", ask(c, lambda: value, "f:")[1])[0],
        ):
            assert (got, math.copysign(1, got)) == (narrow, math.copysign(1, value))
        pair = ask(c, lambda: complex(value, 1), "Zf:")[1]
        assert pair == f4(value) + f4(1)
        if hasattr(c, "complex_single"):
            assert c.complex_single(lambda: complex(1, value)) == complex(1, narrow)
    assert math.isnan(c.dispatch("single", False, lambda x: math.nan, 1.0))


def test_long_signatures_are_shortened_in_messages(c, fails):
    start = "d:" + 198 * "d"
    with fails(ValueError, f"'{start}...' has more than 32 arguments"):
        c.prepare(abs, "d:" + 400 * "d")
    with fails(ValueError, f"'{start}' has more than 32 arguments"):
        c.prepare(abs, start)
    for text in ("d:" + 5000 * "d", "d:" + 400 * "d" + "!"):
        with pytest.raises(ValueError, match=r"^'d:d{198}\.\.\.' is no signature: [a-z ]+$"):
            c.prepare(abs, text)
    pointer = "d:" + 20 * "X{d:dddddddd}"
    with fails(TypeError, f"no function for '{pointer[:200]}...' in 3, and Python cannot call it"):
        c.prepare(3, pointer)


# -- callbacks without arguments -----------------------------------------------------------------


def test_callbacks_without_arguments(c, functions, fails):
    assert c.sum(functions.function("five", "d:"), 10) == (50.0, True)
    assert c.sum(ctypes.CFUNCTYPE(ctypes.c_double)(functions.address("five")), 10) == (50.0, True)
    numbers = iter(range(100))
    assert c.sum(lambda: next(numbers), 10) == (45.0, False)
    take = functions.function("take", "d:")
    take()
    # The second accepted signature is v:.
    assert c.sum(functions.function("v_", "v:"), 10) == (0.0, True)
    assert take() == 10.0
    seen = []
    c.watch(lambda: seen.append(1), 7)
    assert len(seen) == 7
    with fails(StopIteration, ""):
        c.sum(functools.partial(next, iter([1.0])), 10)
    with pytest.raises(ZeroDivisionError):
        c.watch(lambda: 1 // 0, 5)
    with pytest.raises(TypeError, match=r"missing 1 required positional argument"):
        c.sum(lambda x: x, 1)


# -- vendored, with the package absent -----------------------------------------------------------

ALONE = """
import ctypes, math, struct, sys
sys.path.insert(0, sys.argv[1])
import dispatch_cpp as c
assert "nativecall" not in sys.modules
kind = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)
address = ctypes.cast(ctypes.CDLL(sys.argv[2]).d_d, ctypes.c_void_p).value
half = struct.pack("d", 0.5)
for f, way in ((kind(address), "exact"), (lambda x: x + 1, "boxed")):
    prepared = c.prepare(f, "d:d")
    assert c.way(prepared) == way
    assert c.call(prepared, (half,)) == struct.pack("d", 1.5)
assert c.dispatch("one", False, math.sqrt, 4.0) == 2.0
assert c.dispatch("one", True, math.sqrt, 4.0) == "the GIL is not held"
assert c.dispatch("none", False, lambda: 3) == 3.0
assert c.sum(lambda: 2.0, 3) == (6.0, False)
try:
    import nativecall
except ImportError:
    print("alone")
"""


def test_with_the_package_absent(builder, include, vendored, functions, tmp_path):
    module = extension(builder, include, vendored, "c++11")
    library = builder.library(FUNCTIONS, "dispatch_functions")
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-W", "error", "-c", ALONE, str(module.parent), str(library)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "alone\n")


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
    source = random.Random(1000)
    signatures = random_signatures(source, 300, list(types))
    program = tmp_path / "oracle"
    path = tmp_path / "oracle.c"
    path.write_text(oracle(signatures, types, source))
    built = subprocess.run(
        [name, "-std=gnu11", level, "-w", f"-I{include}", str(path), "-o", str(program)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
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
int widening(const char *from, const char *to);
int widening(const char *from, const char *to)
{
    NcCallType a = first(from);
    NcCallType b = first(to);
    return nc_call_widening(&a, &b);
}
void widen(const char *from, const void *in, const char *to, void *out);
void widen(const char *from, const void *in, const char *to, void *out)
{
    NcCallType a = first(from);
    NcCallType b = first(to);
    nc_call_widen(&a, in, &b, out);
}
int digits(void);
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
    assert widened > 500


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
