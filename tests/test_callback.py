"""Callbacks: Python functions that C code calls.

The callers are C libraries and an extension module, built here. Everything is run both with
generated code and, with NATIVECALL_JIT=0, through ctypes.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import math
import os
import random
import re
import subprocess
import sys
import textwrap
import threading
import warnings
import weakref
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import nativecall as nc
from nativecall import _lib
from nativecall._callable import pythonfunction
from nativecall._codegen import callback as callbackcode
from nativecall._codegen import engine
from nativecall._signature.spelling import parse
from support import build

types = _lib.types
GENERATED = engine.available() and not types.stubs_refused()
# A debug build of CPython: it needs more of the C stack, and it ends the process where C code that
# did not look returns with an exception set.
DEBUG = hasattr(sys, "gettotalrefcount")
SCALE = 2 if DEBUG else 1
REFUSED = f"no generated code: {engine.reason() or types.stubs_refused()}"
REPEAT = int(os.environ.get("NATIVECALL_TEST_REPEAT", "1000"))
NAN = float("nan")

overlooked = pytest.mark.skipif(DEBUG, reason="debug builds end where C code overlooks exceptions")
generated = pytest.mark.skipif(not GENERATED, reason="libffi cannot return this to C")
# What a callback of ctypes leaves for a caller that is not ours (csrc/ground/exceptions.c).
deferred = pytest.mark.skipif(
    DEBUG and not GENERATED,
    reason="on debug builds an exception of a callback through libffi is raised late: they end "
    "where a deallocator sets one",
)

CALLERS = """
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
typedef double (*F)(double);
double apply(F f, double x);
double apply(F f, double x) { return f(x); }
double twice(F f, double x);
double twice(F f, double x) { double first = f(x); return first + f(x + 1); }

static F kept;
void keep(F f);
void keep(F f) { kept = f; }
double call_kept(double x);
double call_kept(double x) { return kept(x); }

typedef struct { F f; long count; long first; double sum; long sentinels; } Job;
static void *work(void *data)
{
    Job *job = data;
    for (long i = 0; i < job->count; i++) {
        double y = job->f((double)(job->first + i));
        if (y != y) job->sentinels++; else job->sum += y;
    }
    return NULL;
}
/* The number of sentinels; -1 when a thread could not be made. */
long in_threads(F f, int threads, long count, double *sum);
long in_threads(F f, int threads, long count, double *sum)
{
    pthread_t ids[64];
    Job jobs[64];
    long sentinels = 0;
    for (int i = 0; i < threads; i++) {
        jobs[i] = (Job){f, count, i * count, 0, 0};
        if (pthread_create(&ids[i], NULL, work, &jobs[i]) != 0) return -1;
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(ids[i], NULL);
        *sum += jobs[i].sum;
        sentinels += jobs[i].sentinels;
    }
    return sentinels;
}

/* Threads that call for ever, and a call when the process ends. */
static void *call_on(void *data)
{
    (void)data;
    for (;;) (void)kept(1.0);
    return NULL;
}
int start(F f, int threads);
int start(F f, int threads)
{
    kept = f;
    for (int i = 0; i < threads; i++) {
        pthread_t id;
        if (pthread_create(&id, NULL, call_on, NULL) != 0) return -1;
        pthread_detach(id);
    }
    return 0;
}
/* A call with an eighth of a thread's stack left. */
static void *call_deep(void *data)
{
    volatile char room[(2 << 20) - (160 << 10)];
    room[0] = room[sizeof(room) - 1] = 0;
    *(double *)data = kept(1.0 + room[0]);
    return NULL;
}
double deep_in_a_thread(F f);
double deep_in_a_thread(F f)
{
    pthread_attr_t attributes;
    pthread_t id;
    double result = -1.0;
    void *stack = aligned_alloc(1 << 16, 2 << 20); /* the system would lend a larger one */
    kept = f;
    if (stack == NULL || pthread_attr_init(&attributes) != 0 ||
        pthread_attr_setstack(&attributes, stack, 2 << 20) != 0 ||
        pthread_create(&id, &attributes, call_deep, &result) != 0 ||
        pthread_join(id, NULL) != 0) return -2.0;
    free(stack);
    return result;
}

static void at_end(void) { double y = kept(1.0); if (y == y && y != 4.0) abort(); }
int call_at_end(F f);
int call_at_end(F f) { kept = f; return atexit(at_end); }

struct wide { double numbers[512]; };
double hand_over(double (*f)(struct wide), struct wide s);
double hand_over(double (*f)(struct wide), struct wide s) { return f(s); }
double second(double x, struct wide s);
double second(double x, struct wide s) { return x + s.numbers[1]; }
typedef struct { F f; double x; } Task;
double run_task(Task task);
double run_task(Task task) { return task.f(task.x) + task.f(task.x + 1); }
double run_made(Task (*make)(int), int n);
double run_made(Task (*make)(int), int n) { return run_task(make(n)); }
double run_found(F (*find)(int), int n);
double run_found(F (*find)(int), int n) { F f = find(n); return f(1.0) + f(2.0); }

typedef struct { F (*find)(int); F found; } Search;
static void *search(void *data) { Search *s = data; s->found = s->find(1); return NULL; }
F find_in_thread(F (*find)(int));
F find_in_thread(F (*find)(int))
{
    Search s = {find, NULL};
    pthread_t id;
    if (pthread_create(&id, NULL, search, &s) == 0) pthread_join(id, NULL);
    return s.found;
}

typedef struct { intptr_t place; intptr_t shape[2]; intptr_t strides[2]; } View2;
double viewed(double (*f)(const View2 *), const View2 *view);
double viewed(double (*f)(const View2 *), const View2 *view) { return f(view); }
typedef struct { double x; int32_t n; } Pair;
Pair paired(Pair (*f)(Pair, const Pair *), double x);
Pair paired(Pair (*f)(Pair, const Pair *), double x)
{
    Pair a = {x, 3}, b = {-x, 4};
    return f(a, &b);
}
double *passed(double *(*f)(int32_t), int32_t n);
double *passed(double *(*f)(int32_t), int32_t n) { return f(n); }
"""


@pytest.fixture(scope="module")
def library(builder):
    return builder.library(CALLERS, "callback_callers", flags=("-O1", "-pthread"))


@pytest.fixture(scope="module")
def callers(library):
    """Through ctypes, which drops the GIL."""
    found: Any = ctypes.CDLL(str(library))
    for name in ("apply", "twice"):
        getattr(found, name).restype = ctypes.c_double
        getattr(found, name).argtypes = [ctypes.c_void_p, ctypes.c_double]
    found.call_kept.restype = ctypes.c_double
    found.call_kept.argtypes = [ctypes.c_double]
    found.keep.restype = None
    found.keep.argtypes = [ctypes.c_void_p]
    found.in_threads.restype = ctypes.c_long
    found.in_threads.argtypes = [
        ctypes.c_void_p,
        ctypes.c_int,
        ctypes.c_long,
        ctypes.POINTER(ctypes.c_double),
    ]
    return found


@pytest.fixture(scope="module")
def native(library):
    """Through trampolines."""
    return nc.load(library, "double apply(double (*f)(double), double x);")


@pytest.fixture(scope="module")
def handed(library):
    """What takes functions from functions and in structs."""
    lib = nc.load(library)
    return SimpleNamespace(
        apply=lib.function("apply", "d:X{d:d}d"),
        run_task=lib.function("run_task", "d:T{X{d:d}d}"),
        run_made=lib.function("run_made", "d:X{T{X{d:d}d}:i}i"),
        run_found=lib.function("run_found", "d:X{X{d:d}:i}i"),
        find_in_thread=lib.function("find_in_thread", "X{d:d}:X{X{d:d}:i}", gil="release"),
    )


@pytest.fixture(scope="module")
def consumer(builder, include):
    """The extension module of tests/ext/pointer_consumer.c."""
    path = builder.extension("pointer_consumer.c", "nc_pointer_consumer", include=include)
    return build.load_extension(path)


@pytest.fixture
def unraisable(monkeypatch):
    found: list[Any] = []

    def hook(args):
        found.append((type(args.exc_value), str(args.exc_value), args.object))

    monkeypatch.setattr(sys, "unraisablehook", hook)
    return found


def raising(x):
    raise LookupError(f"for {x:g}")


def threads_left() -> int:
    """How many threads a Python function left an exception in."""
    return types.code_symbols()["left"]


# -- values --------------------------------------------------------------------------------------

EDGES = {
    "?": [True, False],
    "b": [-128, 127, 0],
    "B": [0, 255],
    "h": [-(2**15), 2**15 - 1],
    "H": [2**16 - 1, 0],
    "i": [-(2**31), 2**31 - 1, 0, -1],
    "I": [2**32 - 1, 0, 2**30],
    "q": [-(2**63), 2**63 - 1, 2**30, -(2**30), 0],
    "Q": [2**64 - 1, 2**63, 0, 1],
    "f": [0.5, -math.inf, 2.0**127],
    "d": [0.1, -0.0, math.inf, 5e-324],
    "g": [0.5, -1.25],
}
C_TYPES = {
    "?": "_Bool", "b": "int8_t", "B": "uint8_t", "h": "int16_t", "H": "uint16_t", "i": "int32_t",
    "I": "uint32_t", "q": "int64_t", "Q": "uint64_t", "f": "float", "d": "double",
    "g": "long double", "Zf": "float _Complex", "Zd": "double _Complex", "e": "_Float16",
    "T{di}": "struct { double a; int32_t b; }", "T{ff}": "struct { float a, b; }",
    "T{qqq}": "struct { int64_t a, b, c; }", "T{bd}": "struct { int8_t a; double b; }",
}  # fmt: skip
SIMPLE = list(EDGES)


@pytest.mark.parametrize("code", SIMPLE)
def test_numbers_come_and_go_unchanged(code):
    seen = []
    g = nc.callback(f"{code}:{code}", lambda x: seen.append(x) or x)
    kind = type(EDGES[code][0])
    for value in EDGES[code]:
        answer = g(value)
        assert (answer, type(answer)) == (value, kind)
        assert math.copysign(1, answer) == math.copysign(1, value)
    assert seen == EDGES[code]
    assert all(type(one) is kind for one in seen)


def _random_value(chosen: random.Random, code: str) -> Any:
    if code.startswith("T"):
        return tuple(_random_value(chosen, part) for part in code[2:-1])
    if code.startswith("Z"):
        return complex(chosen.randrange(-99, 99) / 4, chosen.randrange(-99, 99) / 8)
    if code == "e":
        return chosen.randrange(-99, 99) / 4
    return chosen.choice(EDGES[code])


@pytest.fixture(scope="module")
def random_cases(builder):
    """(signature of a caller, types, result type, address): callers that gcc compiled."""
    chosen = random.Random(20261122)
    codes = list(C_TYPES) if GENERATED else SIMPLE
    cases, source = [], ["#include <stdint.h>"]
    names = {code: f"T{index}" for index, code in enumerate(C_TYPES)}
    source += [f"typedef {text} {names[code]};" for code, text in C_TYPES.items()]
    for number in range(60):
        args = [chosen.choice(codes) for _ in range(chosen.randrange(0, 12))]
        result = chosen.choice(codes)
        declared = "".join(f", {names[arg]} a{i}" for i, arg in enumerate(args))
        passed = ", ".join(f"a{i}" for i in range(len(args)))
        kinds = ", ".join(names[arg] for arg in args) or "void"
        head = f"{names[result]} call{number}({names[result]} (*f)({kinds}){declared})"
        source.append(f"{head};\n{head} {{ return f({passed}); }}")
        cases.append((number, args, result))
    library = nc.load(builder.library("\n".join(source), "callback_random", flags=("-O1", "-w")))
    return chosen, cases, library


def test_random_signatures(random_cases):
    """Every argument arrives and every result returns, as a C compiler passes them."""
    chosen, cases, library = random_cases
    for number, args, result in cases:
        inner = f"{result}:{''.join(args)}"
        f = library.function(f"call{number}", f"{result}:X{{{inner}}}{''.join(args)}")
        values = [_random_value(chosen, arg) for arg in args]
        answer = _random_value(chosen, result)
        seen: list[Any] = []

        def function(*given, seen=seen, answer=answer):
            seen.append(given)
            return answer

        held = nc.callback(inner, function)
        assert f(function, *values) == answer, inner
        assert f(held, *values) == answer, inner
        assert seen == [tuple(values)] * 2, inner


def test_other_results_are_converted(fails):
    assert nc.callback("d:", lambda: 3)() == 3.0
    assert nc.callback("d:", lambda: np.float32(0.5))() == 0.5
    assert nc.callback("f:", lambda: 1)() == 1.0
    assert nc.callback("i:", lambda: np.int8(-7))() == -7
    assert nc.callback("i:", lambda: True)() == 1
    assert nc.callback("q:", lambda: -(2**62))() == -(2**62)
    assert nc.callback("v:", lambda: "anything")() is None
    who = "the result of 'g'"
    for signature, value, exception, message in (
        ("i:", 1.5, TypeError, f"{who} must be an integer (got float)"),
        ("i:", None, TypeError, f"{who} must be an integer (got NoneType)"),
        ("d:", "1", TypeError, f"{who} must be a real number (got str)"),
        ("B:", 256, OverflowError, f"{who} is 256, out of range for 'B' (0 to 255)"),
        ("Q:", -1, OverflowError, f"{who} is -1, out of range for 'Q' (0 to {2**64 - 1})"),
    ):
        with fails(exception, message):
            nc.callback(signature, lambda value=value: value, name="g")()
    with pytest.raises(OverflowError):
        nc.callback("f:", lambda: 1e300)()


def test_objects():
    given: list[Any] = []
    g = nc.callback("O:OO", lambda a, b: [a, b], name="g")
    assert g.entries[0].gil == "need"
    assert g(given, 2) == [given, 2]
    before = sys.getrefcount(given)
    for _ in range(100):
        g(given, given)
    assert sys.getrefcount(given) == before


@deferred
def test_null_is_no_object(fails):
    g = nc.callback("O:OO", lambda a, b: [a, b], name="g")
    pointer = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object)(g.address())
    with fails(ValueError, "argument 1 of 'g' is NULL, which is no object"):
        pointer(None, 1)


def test_pointers(callers):
    seen: list[Any] = []

    def look(numbers, anything):
        seen.append((str(numbers), anything))
        numbers[0] += 1
        return numbers[1]

    g = nc.callback("d:&dP", look)
    a = np.array([1.5, 2.5])
    assert g(a, None) == 2.5
    assert a[0] == 2.5
    assert seen[0][0].startswith("<cdata 'double *'")
    assert seen[0][1] is None


def test_pointers_of_known_length_are_arrays():
    a = np.arange(6.0)
    seen: list[Any] = []

    def look(x):
        seen.append((x.shape, x.dtype, x.flags.writeable, x.ctypes.data))
        if x.flags.writeable:
            x[-1] = -7
        return x.sum()

    assert nc.callback("d:&(2,3)d", lambda x: x[1, 0])(a.reshape(2, 3)) == a[3]
    a = np.arange(6.0)
    assert nc.callback("d:&(6)d", look)(a) == 3.0
    assert a[-1] == -7
    promised = nc.Signature(parse("d:").result, parse("d:&(6)d").args, readonly=(True,))
    assert nc.callback(promised, look)(a) == 3.0
    assert [one[2] for one in seen[-2:]] == [True, False]
    assert {one[3] for one in seen[-2:]} == {a.ctypes.data}
    assert nc.callback("?:&(6)d", lambda x: x is None)(None) is True


def test_views_are_arrays():
    a = np.arange(24.0).reshape(4, 6)
    for one in (a, a[::-1, ::2], a.T, a[1:1], np.broadcast_to(a[:1], (3, 6)).copy()[:, 3:]):
        seen: list[Any] = []
        g = nc.callback("v:[2]d", seen.append)
        g(one)
        assert seen[0].shape == one.shape
        assert seen[0].size == 0 or seen[0].strides == one.strides
        assert seen[0].size == 0 or seen[0].ctypes.data == one.ctypes.data
        assert (seen[0] == one).all()
    record = np.zeros(3, dtype=[("x", "f8"), ("n", "i4"), ("rest", "i4")])
    record["n"] = [1, 2, 3]
    assert nc.callback("q:[1]T{d:x:i:n:i:rest:}", lambda x: x["n"].sum())(record) == 6


def test_without_numpy_there_are_memoryviews(python):
    code = """
        import sys
        sys.modules["numpy"] = None
        import array, nativecall as nc
        a = array.array("d", [1.0, 2.0, 3.0])
        g = nc.callback("d:&(3)d", lambda x: x[2] if type(x) is memoryview else 0.0)
        h = nc.callback("d:[1]d", lambda x: x[1] + len(x))
        print(g(a), h(a))
    """
    assert python(textwrap.dedent(code)) == "3.0 5.0\n"


@generated
def test_structs(library):
    f = nc.load(library).function("paired", "T{di}:X{T{di}:T{di}&T{di}}d")

    def swap(a, b):
        assert type(a).__name__ == "Struct"
        assert (b[0].f0, b[0].f1) == (-1.5, 4)
        return (a.f0 * 2, a.f1)

    assert f(swap, 1.5) == (3.0, 3)
    g = nc.callback("T{d:x:i:n:}:T{d:x:i:n:}&T{d:x:i:n:}", lambda a, b: {"x": a.x, "n": 9})
    assert f(g, 0.5) == (0.5, 9)
    bad = nc.callback("T{d:x:i:n:}:T{d:x:i:n:}&T{d:x:i:n:}", lambda a, b: (1, 2, 3), name="g")
    with pytest.raises(TypeError, match=r"^the result of 'g' must have 2 fields"):
        f(bad, 0.5)


class Inner(ctypes.Structure):
    _fields_ = [("i", ctypes.c_int32), ("f", ctypes.c_float)]


class Outer(ctypes.Structure):
    _fields_ = [
        ("d", ctypes.c_double),
        ("inner", Inner),
        ("rows", (ctypes.c_int16 * 3) * 2),
        ("truth", ctypes.c_bool),
    ]


OUTER = "T{dT{if}(2,3)h?}"
NUMBERS = (0.5, (-7, 0.25), ((1, 2, 3), (4, 5, 6)), True)


@generated
def test_structs_within_structs():
    """Numbers, structs and arrays of them, as tuples both ways, and whatever else is a struct."""
    seen: list[Any] = []
    given_back: list[Any] = [None]

    def answer(given):
        seen.append(given)
        return given_back[0]

    f = nc.callback(f"{OUTER}:{OUTER}", answer, name="f")
    call = ctypes.PYFUNCTYPE(Outer, Outer)(f.address())
    given = Outer(0.5, Inner(-7, 0.25), ((1, 2, 3), (4, 5, 6)), True)
    for given_back[0] in (
        NUMBERS,
        [*NUMBERS],
        {"f0": 0.5, "f1": {"f0": -7, "f1": 0.25}, "f2": np.array(NUMBERS[2]), "f3": 1},
        (np.float64(0.5), [-7, 0.25], NUMBERS[2], True),
    ):
        made = call(given)
        assert bytes(made.rows) == bytes(given.rows)
        assert (made.d, made.inner.i, made.inner.f, made.truth) == (0.5, -7, 0.25, True)
        assert seen.pop() == NUMBERS
    for given_back[0], message in (
        ((0.5, (2**31, 0.25), NUMBERS[2], True), "field 'f0' of field 'f1' of the result of 'f'"),
        ((0.5, (1, 1e300), NUMBERS[2], True), "field 'f1' of field 'f1' of the result of 'f'"),
        ((0.5, (1, 1.0), ((1, 2, 3),), True), "must have 2 items"),
        ((0.5, (1, 1.0)), "the result of 'f' must have 4 fields"),
        (NUMBERS[:3] + ("yes",), "field 'f3' of the result of 'f'"),
    ):
        with pytest.raises((TypeError, ValueError, OverflowError), match=message):
            call(given)
    assert type(seen[0]).__name__ == "Struct"
    assert seen[0].f1.f1 == 0.25


def test_what_a_pointer_result_points_to_is_kept(library):
    f = nc.load(library).function("passed", "&d:X{&d:i}i")
    freed = []

    def make(n):
        made = np.full(3, float(n))
        weakref.finalize(made, freed.append, n)
        return made

    g = nc.callback("&d:i", make)
    assert f(g, 1)[2] == 1.0
    assert freed == []
    assert f(g, 2)[2] == 2.0
    gc.collect()
    assert freed == [1]
    g.close()
    gc.collect()
    assert freed == [1, 2]
    assert nc.callback("&d:i", lambda n: None)(1) is None
    text = nc.Signature(parse("&B:").result, ())
    h = nc.callback(text, lambda: b"".join([b"dies", b"!"]))
    with pytest.raises(TypeError, match=r"^the result of 'g' must be a buffer that suits '&i'"):
        nc.callback("&i:", lambda: bytes(8), name="g")()
    with pytest.raises(ValueError, match="must be writable, this memoryview is read-only"):
        nc.callback("&B:", lambda: memoryview(bytes(8)), name="g")()
    answer = h()
    assert bytes(ctypes.string_at(int(nc._lib.ffi.cast("uintptr_t", answer)))) == b"dies!"
    with pytest.raises(TypeError, match="a str has no bytes of its own"):
        nc.callback("&B:", lambda: "text")()


# -- what it is ----------------------------------------------------------------------------------


def test_a_callback_is_a_native_callable(callers, native):
    @nc.callback("double (double x)")
    def square(x):
        """Its square."""
        return x * x

    assert repr(square) == "<native callable square 'd:d'>"
    assert isinstance(square, nc.NativeCallable)
    assert (square.__name__, square.__doc__) == ("square", "Its square.")
    assert square(x=3) == 9.0
    assert square.builtin(4.0) == 16.0
    assert square.function.__name__ == "square"
    assert square.entries[0].flags == _lib.FLAG_TAKES_GIL
    assert nc.callback("d:d", abs, gil="need").entries[0].gil == "need"
    assert callers.apply(square.address(), 5.0) == 25.0
    assert native.apply(square, 6.0) == 36.0
    named = nc.callback("d:d", square.function, name="other", doc="Text")
    assert (named.__name__, named.__doc__) == ("other", "Text")
    assert nc.callback("d:d", lambda x: x).__doc__ is None
    with pytest.raises(TypeError, match=r"^cannot pickle"):
        square.__reduce__()


@pytest.mark.parametrize(
    ("arguments", "options", "exception", "message"),
    [
        (("d:d", 3), {}, TypeError, "'function' must be callable (got int)"),
        (("d:d", abs), {"gil": "hold"}, ValueError, "'gil' must be 'take' or 'need' (got 'hold')"),
        (
            ("d:d", abs),
            {"errors": "errno"},
            ValueError,
            "'errors' must be None, a value for C, or one of 'nonzero', 'zero', 'null', 'python' "
            "(got 'errno')",
        ),
        (
            ("d:d", abs),
            {"errors": "nonzero"},
            ValueError,
            "errors='nonzero' needs an integer as the result, but the signature is 'd:d'",
        ),
        (
            ("b:d", abs),
            {"errors": 128},
            OverflowError,
            "'errors' is 128, out of range for 'b' (-128 to 127)",
        ),
        (("d:d", abs), {"errors": b"1"}, TypeError, "'errors' must be a real number (got bytes)"),
        (
            ("v:d", abs),
            {"errors": 1},
            ValueError,
            "'errors' cannot be a value for 'v:d', which returns nothing to C",
        ),
        (("d:d", abs), {"name": "a\0b"}, ValueError, "'name' must not contain a null character"),
        (("d:d", abs), {"doc": 3}, TypeError, "'doc' must be a str or None (got int)"),
    ],
)
def test_wrong_options(fails, arguments, options, exception, message):
    with fails(exception, message):
        nc.callback(*arguments, **options)


def test_variadic_signatures_are_refused():
    with pytest.raises(nc.SignatureError, match="is variadic"):
        nc.callback("int (const char *, ...)", abs)


def test_it_is_made_once():
    g = nc.callback("d:d", abs)
    with pytest.raises(RuntimeError, match="is initialised already"):
        g.__init__("d:d", abs)


# -- exceptions ----------------------------------------------------------------------------------


def test_it_is_raised_by_trampolines(native, unraisable, fails):
    g = nc.callback("d:d", raising)
    for call in (lambda: native.apply(g, 2.0), lambda: g(2.0), lambda: g.builtin(2.0)):
        with fails(LookupError, "for 2") as info:
            call()
        assert info.traceback[-1].name == "raising"
        assert threads_left() == 0
    assert native.apply(abs, -2.0) == 2.0
    assert unraisable == []


@pytest.mark.parametrize("way", ["generated", "libffi"])
def test_it_is_raised_by_every_way_of_a_call(library, fails, way):
    if way == "generated" and not GENERATED:
        pytest.skip(REFUSED)
    for gil in ("hold", "release"):
        apply = nc.load(library).function("apply", "d:X{d:d}d", gil=gil)
        apply._choose(way)
        with fails(LookupError, "for 2"):
            apply(nc.callback("d:d", raising), 2.0)
        assert apply(nc.callback("d:d", lambda x: x + 1), 2.0) == 3.0


@deferred
@pytest.mark.parametrize("options", [0, 1])  # NC_CALLBACK_HOLDS_GIL
def test_it_is_raised_by_consumers_of_callback_h(builder, include, fails, options):
    path = builder.extension("callback_consumer.c", "callback_c", include=include)
    integrate = build.load_extension(path).integrate
    good = nc.callback("d:d", lambda x: 2 * x)
    value, native, _ = integrate(good, 0.0, 1.0, 10, "pd", options)
    assert (round(value, 12), native) == (1.0, True)
    seen = []

    def function(x):
        seen.append(x)
        raise LookupError("the first")

    with fails(LookupError, "the first"):
        integrate(nc.callback("d:d", function), 0.0, 1.0, 10, "pd", options)
    assert len(seen) == 1
    assert nc.callback("d:d", abs)(-1.0) == 1.0
    assert threads_left() == 0


@pytest.mark.parametrize(
    "exception",
    [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), MemoryError(), StopIteration()],
)
def test_any_exception_is_raised(native, exception):
    def function(x):
        raise exception

    with pytest.raises(type(exception)) as info:
        native.apply(nc.callback("d:d", function), 1.0)
    assert info.value is exception


def test_it_stays_set_for_code_that_looks(consumer, fails):
    g = nc.callback("d:d", raising)
    with fails(LookupError, "for 1"):
        consumer.checking(g.address())
    with fails(LookupError, "for 1"):
        consumer.without_gil(g.address())
    with fails(LookupError, "for 2"):
        g(2.0)
    assert threads_left() == 0


@overlooked
def test_it_is_the_cause_for_code_that_does_not(consumer):
    g = nc.callback("d:d", raising)
    for call in (consumer.ignoring, consumer.ignoring_o):
        with pytest.raises((LookupError, SystemError)) as info:
            call(g.address())
        assert LookupError in (type(info.value), type(info.value.__cause__))


@overlooked
@pytest.mark.parametrize("where", ["main", "other"])
def test_specialised_calls_lose_nothing(consumer, where):
    """CPython's own fast calls of METH_O functions do not look for exceptions."""
    if where == "other" and sys.version_info < (3, 12):
        pytest.skip("Python 3.11 can be asked to look in the main thread only")
    if where == "main":
        specialised_calls(consumer)
        return
    failures: list[BaseException] = []

    def work():
        try:
            specialised_calls(consumer)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert failures == []


def specialised_calls(consumer):
    callbacks = nc.callback("d:d", raising), nc.callback("d:d", lambda x: x)
    address, good = (one.address() for one in callbacks)
    ignoring = consumer.ignoring_o

    def loop(which):
        for i in range(200):
            ignoring(which[i])
        return "nothing was raised"

    assert loop([good] * 200) == "nothing was raised"
    for place in (0, 100, 199):
        which = [good] * 200
        which[place] = address
        with pytest.raises((LookupError, SystemError)) as info:
            loop(which)
        assert LookupError in (type(info.value), type(info.value.__cause__))
    assert loop([good] * 200) == "nothing was raised"


def test_further_calls_do_not_run(consumer, fails, unraisable):
    seen = []

    def function(x):
        seen.append(x)
        if x >= 2:
            raise LookupError(f"for {x:g}")
        return x

    g = nc.callback("d:d", function)
    with fails(LookupError, "for 2"):
        consumer.repeating(g.address(), 10)
    assert seen == [0.0, 1.0, 2.0]
    assert unraisable == []
    good = nc.callback("d:d", abs)
    assert consumer.repeating(good.address(), 3) == 3.0


@deferred
def test_a_dropped_exception_is_forgotten(consumer):
    """C code may decide that a failure is none."""
    g = nc.callback("d:d", raising, errors=-1.0)
    good = nc.callback("d:d", lambda x: x + 1)
    for _ in range(3):
        assert consumer.clearing(g.address()) == -1.0
        assert good(1.0) == 2.0
        assert threads_left() == 0
    assert consumer.clearing(g.address()) == -1.0
    assert consumer.repeating(good.address(), 2) == 3.0


@deferred
def test_the_callers_own_exception_is_put_aside(consumer, unraisable):
    good = nc.callback("d:d", lambda x: x + 1)
    assert consumer.with_exception(good.address()) == (2.0, 1)
    bad = nc.callback("d:d", raising, errors=-1.0)
    assert consumer.with_exception(bad.address()) == (-1.0, 1)
    assert unraisable == [(LookupError, "for 1", raising)]


@pytest.mark.parametrize(
    ("signature", "errors"),
    [("i:", "nonzero"), ("?:", "zero"), ("P:", "null"), ("O:", "null"), ("d:", "python")],
)
def test_native_callers_are_told_the_convention(fails, signature, errors):
    g = nc.callback(signature, lambda: 1 / 0, errors=errors)
    assert g.entries[0].errors == errors
    with fails(ZeroDivisionError, "division by zero"):
        g()


@pytest.mark.parametrize(
    ("signature", "errors", "expected"),
    [
        ("i:", None, 0), ("i:", "nonzero", 1), ("?:", "nonzero", True), ("q:", -(2**63), -(2**63)),
        ("H:", 2**16 - 1, 2**16 - 1), ("i:", "zero", 0), ("d:", None, NAN), ("f:", None, NAN),
        ("f:", 0.5, 0.5), ("P:", None, None), ("P:", "null", None), ("v:", None, None),
    ],
)  # fmt: skip
def test_sentinels(builder, signature, errors, expected):
    """Seen by C code, which notes them for a call that succeeds."""
    kinds = {"i": "int32_t", "?": "_Bool", "q": "int64_t", "H": "uint16_t", "d": "double",
             "f": "float", "P": "void *", "v": "int32_t"}  # fmt: skip
    code = signature[0]
    call = "((void (*)(void))f)(); note = 0;" if code == "v" else "note = f();"
    kind = kinds[code]
    source = f"""
    #include <stdint.h>
    static {kind} note;
    void take({kind} (*f)(void));
    void take({kind} (*f)(void)) {{ {call} }}
    {kind} noted(void);
    {kind} noted(void) {{ return note; }}
    """
    name = "bool" if code == "?" else code
    lib = nc.load(builder.library(source, f"callback_sentinel_{name}", flags=("-O1", "-w")))
    g = nc.callback(signature, lambda: 1 / 0, errors=errors)
    with pytest.raises(ZeroDivisionError):
        lib.function("take", f"v:X{{{signature}}}")(g)
    noted = lib.function("noted", f"{'i' if code == 'v' else code}:")()
    if code == "v":
        assert noted == 0
    else:
        assert noted == expected or (expected != expected and noted != noted)


@generated
@pytest.mark.parametrize("code", ["Zd", "T{diq}", "g", "e", "T{(3)d}"])
def test_sentinels_in_memory(builder, code):
    """The same where a result is passed in memory or in several registers."""
    kinds = {
        "Zd": "double _Complex", "g": "long double", "e": "_Float16",
        "T{diq}": "struct { double a; int32_t b; int64_t c; }",
        "T{(3)d}": "struct { double a[3]; }",
    }  # fmt: skip
    source = f"""
    #include <stdint.h>
    typedef {kinds[code]} R;
    static R note;
    void take(R (*f)(void));
    void take(R (*f)(void)) {{ note = f(); }}
    R noted(void);
    R noted(void) {{ return note; }}
    """
    name = "".join(filter(str.isalnum, code))
    lib = nc.load(builder.library(source, f"callback_memory_{name}", flags=("-O1", "-w")))
    g = nc.callback(f"{code}:", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        lib.function("take", f"v:X{{{code}:}}")(g)
    noted = lib.function("noted", f"{code}:")()
    if code[0] == "T":
        assert noted in ((0.0, 0, 0), ((0.0, 0.0, 0.0),))
    elif code == "Zd":
        assert math.isnan(noted.real)
        assert math.isnan(noted.imag)
    else:
        assert math.isnan(noted)


def test_nested_failures_are_the_python_functions_business(native, unraisable, fails):
    inner = nc.callback("d:d", raising)

    def catches(x):
        try:
            return native.apply(inner, x)
        except LookupError:
            return -1.0

    assert native.apply(nc.callback("d:d", catches), 1.0) == -1.0
    passes = nc.callback("d:d", lambda x: native.apply(inner, x))
    with fails(LookupError, "for 4"):
        native.apply(passes, 4.0)
    assert unraisable == []
    assert threads_left() == 0


def test_recursion(native):
    def down(x):
        return 0.0 if x == 0 else 1 + native.apply(g, x - 1)

    g = nc.callback("d:d", down)
    assert native.apply(g, 60.0) == 60.0
    with pytest.raises(RecursionError):
        native.apply(nc.callback("d:d", lambda x: native.apply(g, 1e6)), 1.0)


# -- Python functions that are passed, kept and returned -----------------------------------------

SORT = "void (void *, size_t, size_t, int (*)(const void *, const void *))"


@pytest.mark.parametrize("gil", ["hold", "release"])
@pytest.mark.parametrize("kind", ["function", "callback"])
def test_what_raised_is_not_called_on(unraisable, fails, kind, gil):
    """The one traceback is raised; C goes on with the sentinel alone."""
    sort = nc.load("c").function("qsort", SORT, gil=gil)
    seen = []

    def compare(a, b):
        seen.append(a)
        if len(seen) == 3:
            raise LookupError("the third")
        return 0

    given: Any = compare if kind == "function" else nc.callback("i:PP", compare)
    numbers = np.arange(15.0)
    for _ in range(2):
        with fails(LookupError, "the third") as info:
            sort(numbers, 15, 8, given)
        assert [entry.name for entry in info.traceback].count("compare") == 1
        assert (len(seen), unraisable, threads_left()) == (3, [], 0)
        seen.clear()
    assert sorted(numbers) == list(range(15))


def test_what_raised_in_a_thread_of_c_is_not_called_on(library, unraisable, fails):
    """No Python code waits there: the call that the function was passed to raises."""
    run = nc.load(library).function("in_threads", "l:X{d:d}il&d", gil="release")
    seen = []

    def function(x):
        seen.append(x)
        raise LookupError("in a thread")

    with fails(LookupError, "in a thread"):
        run(function, 1, 10, np.zeros(1))
    assert (seen, unraisable) == ([0.0], [])
    total = np.zeros(1)
    assert run(lambda x: x, 4, 10, total) == 0
    assert total[0] == sum(range(40))


def test_the_call_that_met_it_raises_what_a_returned_function_raised(
    handed, callers, unraisable, fails
):
    make = nc.callback("X{d:d}:i", lambda i: raising)
    found = make(1)
    for _ in range(2):
        with fails(LookupError, "for 2"):
            handed.apply(found, 2.0)
    for given in (make, lambda i: raising):
        with fails(LookupError, "for 1"):
            handed.run_found(given, 1)
    assert handed.run_found(lambda i: abs, 1) == 3.0
    assert (unraisable, threads_left()) == ([], 0)
    # Where no Python code waits it is told of at once, not when the function goes.
    address = int(make._made.kept.address)
    assert callers.in_threads(address, 1, 1, ctypes.byref(ctypes.c_double(0))) == 0
    assert unraisable == [(LookupError, "for 0", raising)]


def test_the_call_that_met_it_raises_what_a_sentinel_raised(handed, unraisable, fails):
    """`errors=` is a Python function."""
    make = nc.callback("X{d:d}:i", lambda i: 1 // 0, errors=raising)
    with pytest.raises(ZeroDivisionError):
        handed.run_found(make, 1)
    assert unraisable == []
    found = handed.find_in_thread(make)
    assert [kind for kind, _, _ in unraisable] == [ZeroDivisionError]
    for _ in range(2):
        with fails(LookupError, "for 2"):
            handed.apply(found, 2.0)
    del found, make
    gc.collect()
    assert (len(unraisable), threads_left()) == (1, 0)


def test_the_call_that_met_it_raises_what_a_function_in_a_struct_raised(handed, unraisable, fails):
    with fails(LookupError, "for 2"):
        handed.run_task((raising, 2.0))
    bound = handed.run_task.bind((raising, 3.0))
    for _ in range(2):
        with fails(LookupError, "for 3"):
            bound()
    if GENERATED:  # libffi returns no structs to C
        make = nc.callback("T{X{d:d}d}:i", lambda i: (raising, 4.0))
        with fails(LookupError, "for 4"):
            handed.run_made(make, 1)
        with fails(LookupError, "for 5"):
            handed.apply(make(1)[0], 5.0)
    del bound
    gc.collect()
    assert (unraisable, threads_left()) == ([], 0)


# -- the C stack ---------------------------------------------------------------------------------

# Without the collector: CPython uses a dict that it has freed where several subclasses of one class
# die near the end of the stack (remove_subclass in Objects/typeobject.c, in the middle of which the
# trashcan destroys what it had put off), and a debug build then ends. llvmlite makes such classes
# for each compilation, and only the collector frees them.
DEEP = """
    import gc
    gc.disable()
    import sys, threading, nativecall as nc
    library, form, kib = nc.load(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    wide = (range(512),)
    depth = 0

    def counted(f):
        def counts(*given):
            global depth
            depth += 1
            return f(*given)
        return counts

    if form == "callback":
        f = nc.callback("d:T{(512)d}", counted(lambda s: f(s)))
        start = lambda: f(wide)
    elif form == "function":
        over = library.function("hand_over", "d:X{d:T{(512)d}}T{(512)d}")
        f = counted(lambda s: over(f, s))
        start = lambda: over(f, wide)
    elif form == "bound":
        f = nc.callback("d:dT{(512)d}", counted(lambda x, s: g(s)))
        g = f.bind(1.0)
        start = lambda: g(wide)
    elif form == "converted":
        f = nc.callback("d:d", counted(lambda x: g(1)))
        g = f.convert("d:i")
        start = lambda: g(1)
    elif form == "result":
        f = nc.callback("T{(512)d}:d", counted(lambda x: f(x)))
        start = lambda: f(1.0)
    elif form == "native":
        f = nc.callback("d:d", library.function("call_kept", "d:d"))
        library.function("keep", "v:X{d:d}")(f)
        start = lambda: f(1.0)

    def run():
        try:
            start()
        except RecursionError as error:
            print("RecursionError")

    if kib:
        # No limit of levels: what counts is the stack.
        sys.setrecursionlimit(10**6)
        threading.stack_size(kib << 10)
        for _ in range(2):
            thread = threading.Thread(target=run)
            thread.start()
            thread.join()
    else:
        run()
        run()
"""


@pytest.mark.parametrize("kib", [0, 128, 1024])
@pytest.mark.parametrize(
    "form",
    [
        "callback",
        "function",
        "bound",
        "converted",
        pytest.param("result", marks=generated),
        "native",
    ],
)
def test_recursion_ends_before_the_c_stack_does(library, process, form, kib):
    """Every level takes some kilobytes of the stack, or the stack is small: RecursionError."""
    done = process(DEEP, library, form, kib * SCALE)
    assert (done.returncode, done.stdout, done.stderr) == (0, "RecursionError\n" * 2, "")


def test_the_report_of_too_deep_a_call_may_end_the_callback(callers, monkeypatch):
    """C gets the sentinel, which went with the callback."""
    reported: list[str] = []

    def hook(args: Any) -> None:
        reported.append(str(args.exc_value))
        held.clear()

    monkeypatch.setattr(sys, "unraisablehook", hook)
    held = [nc.callback("d:d", lambda x: x, errors=2.5, name="deep")]
    last = weakref.ref(held[0])
    callers.deep_in_a_thread.restype = ctypes.c_double
    answer = callers.deep_in_a_thread(ctypes.c_void_p(held[0].address()))
    assert answer == 2.5
    assert reported == ["callback 'deep' is nested too deeply for the C stack of this thread"]
    assert last() is None


def test_a_struct_that_the_stack_has_no_room_for_is_refused(builder, process):
    """In both ways of a call; what has room is passed."""
    stack = SCALE << 16
    # Three of them take all that the margin (csrc/stack.c) leaves of the stack.
    count = (stack - (16 << 10)) // 3 // 8
    source = (
        f"#define COUNT {count}\n"
        + """
        typedef struct { double numbers[COUNT]; } Large;
        double first(Large s);
        double first(Large s) { return s.numbers[0] + s.numbers[COUNT - 1]; }
        Large made(double x);
        Large made(double x) { Large s = {{x}}; return s; }
    """
    )
    path = builder.library(source, "large_by_value", flags=("-O1",))
    script = """
        import sys, threading, nativecall as nc
        lib, count, stack = nc.load(sys.argv[1]), int(sys.argv[3]), int(sys.argv[4])
        large = f"T{{({count})d}}"
        lib = [lib.function("first", f"d:{large}"), lib.function("made", f"{large}:d")]
        for way in ("libffi", "generated")[:1 + int(sys.argv[2])]:
            for f, given in zip(lib, ((range(count),), 2.5)):
                f = nc.wrap(f.address(), f.signatures[0])
                f._choose(way)
                def run():
                    try:
                        result = f(given)
                        print(result if isinstance(result, float) else result[0][0])
                    except RecursionError as error:
                        print(error)
                run()
                threading.stack_size(stack)
                thread = threading.Thread(target=run)
                thread.start()
                thread.join()
    """
    done = process(script, path, int(GENERATED), count, stack)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[::2] == [f"{count - 1}.0", "2.5"] * (1 + GENERATED)
    refused = re.compile(
        r"'\w+' needs (\d+) bytes of this thread's C stack for what it takes and returns by value, "
        r"\d+ are left"
    )
    for line in lines[1::2]:
        found = refused.fullmatch(line)
        assert found, line
        assert 0 <= int(found[1]) - 3 * 8 * count < 256


# -- threads -------------------------------------------------------------------------------------


def test_floats_that_somebody_keeps_stay_as_they_are():
    """The memory of a float is used again only when nobody else holds it."""
    kept: list[float] = []
    answers: list[float] = []

    def add(a: float, b: float, c: float) -> float:
        kept.extend([a, c])
        answers.append(a + b + c)
        return answers[-1]

    f = nc.callback("d:ddd", add)
    call = ctypes.CFUNCTYPE(*[ctypes.c_double] * 4)(f.address())
    given = [(i + 0.25, i * 0.5, -i / 3) for i in range(100)]
    assert [call(*one) for one in given] == [sum(one) for one in given] == answers
    assert kept == [number for one in given for number in (one[0], one[2])]

    inner = nc.callback("d:d", lambda x: x)

    def nested(x: float) -> float:
        return x if x < 1 else inner_c(x / 2) + outer_c(x - 1) + x

    outer = nc.callback("d:d", nested)
    one = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)
    inner_c, outer_c = one(inner.address()), one(outer.address())
    assert outer_c(20.5) == 0.5 + sum(1.5 * (i + 0.5) for i in range(1, 21))


def test_threads_that_python_has_never_seen(callers, monkeypatch):
    """Eight at once; a third of the calls raises: none is lost, and what succeeds is right."""

    def function(x):
        if x % 3 == 0:
            raise LookupError(x)
        return x

    def hook(args):
        assert args.object is function
        reported[int(args.exc_value.args[0])] += 1

    monkeypatch.setattr(sys, "unraisablehook", hook)
    g = nc.callback("d:d", function)
    for count in (100, REPEAT):
        reported = bytearray(8 * count)
        total = ctypes.c_double(0)
        gc.collect()
        before = sys.getallocatedblocks()
        sentinels = callers.in_threads(g.address(), 8, count, ctypes.byref(total))
        gc.collect()
        after = sys.getallocatedblocks()
        expected = sum(range(0, 8 * count, 3))
        assert sentinels == len(range(0, 8 * count, 3))
        assert total.value == sum(range(8 * count)) - expected
        assert reported == bytes(x % 3 == 0 for x in range(8 * count))
    assert after - before < 100
    assert threads_left() == 0


def test_threads_of_python(native, unraisable):
    """Each gets its own exceptions."""
    g = nc.callback("d:d", raising)
    good = nc.callback("d:d", lambda x: x)
    wrong: list[Any] = []

    def run(number):
        for i in range(200):
            x = float(number * 1000 + i)
            try:
                if native.apply(good if i % 2 else g, x) != x or i % 2 == 0:
                    wrong.append(x)
            except LookupError as error:
                if i % 2 or str(error) != f"for {x:g}":
                    wrong.append(error)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(1, 5)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert (wrong, unraisable, threads_left()) == ([], [], 0)


def test_a_thread_that_blocks_holds_nobody_up(callers):
    entered, leave = threading.Event(), threading.Event()

    def block(x):
        entered.set()
        assert leave.wait(60)
        return x

    g = nc.callback("d:d", block)
    total = ctypes.c_double(0)
    worker = threading.Thread(
        target=callers.in_threads, args=(g.address(), 1, 2, ctypes.byref(total))
    )
    worker.start()
    assert entered.wait(60)
    assert nc.callback("d:d", lambda x: x + 1)(1.0) == 2.0
    leave.set()
    worker.join()
    assert total.value == 1.0


@deferred
def test_marks_end_with_their_threads(consumer):
    """A thread that ends while it is left with an exception counts no more."""
    g = nc.callback("d:d", raising)

    def run():
        consumer.clearing(g.address())

    for _ in range(5):
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    assert threads_left() == 0


# -- life ----------------------------------------------------------------------------------------


@deferred
def test_a_closed_callback(native, callers, consumer, fails, unraisable):
    with nc.callback("d:d", lambda x: x, errors=-2.0, name="g") as g:
        assert not g.closed
        assert native.apply(g, 1.0) == 1.0
    assert g.closed
    assert g.function is None
    g.close()
    for call in (lambda: native.apply(g, 1.0), lambda: g(1.0)):
        with fails(RuntimeError, "callback 'g' is closed"):
            call()
    assert consumer.clearing(g.address()) == -2.0
    total = ctypes.c_double(0)
    assert callers.in_threads(g.address(), 1, 3, ctypes.byref(total)) == 0
    assert total.value == -6.0
    assert unraisable == [(RuntimeError, "callback 'g' is closed", "g")] * 3


def test_it_may_close_itself(native, fails):
    def function(x):
        g.close()
        return x + 1

    g = nc.callback("d:d", function, name="g")
    assert native.apply(g, 1.0) == 2.0
    with fails(RuntimeError, "callback 'g' is closed"):
        native.apply(g, 1.0)


def test_it_may_delete_itself(callers, consumer, fails):
    held: dict[str, Any] = {}

    def function(x):
        held.clear()
        gc.collect()
        if x == 3:
            raise LookupError("gone")
        return x + 1

    for _ in range(20):
        held["g"] = nc.callback("d:d", function)
        watched = weakref.ref(held["g"])
        assert callers.apply(held["g"].address(), 1.0) == 2.0
        assert watched() is None
    held["g"] = nc.callback("d:d", function)
    address = held["g"].address()
    if not DEBUG:  # ctypes overlooks what a PyDLL's function leaves
        with pytest.raises((LookupError, SystemError)):
            callers.apply(address, 3.0)


@generated
def test_its_code_outlives_the_call_that_it_dies_in():
    signature = "d:" + "bBhHd" * 5  # no other test's
    held: list[Any] = []

    def function(*values):
        held.clear()
        return 1.5

    def run():
        g = nc.callback(signature, function)
        code = weakref.ref(callbackcode.code(parse(signature))[1])
        held.append(g)
        pointer = ctypes.CFUNCTYPE(
            ctypes.c_double,
            *[
                {"b": ctypes.c_int8, "B": ctypes.c_uint8, "h": ctypes.c_int16,
                 "H": ctypes.c_uint16, "d": ctypes.c_double}[letter]
                for letter in signature[2:]
            ],
        )(g.address())  # fmt: skip
        del g
        callbackcode._recent.clear()
        return pointer(*[1] * 25), code

    answer, code = run()
    assert answer == 1.5
    gc.collect()
    assert code() is not None
    again, same = run()
    assert (again, same()) == (1.5, code())


@generated
def test_code_stays_whatever_the_end_of_its_function_runs():
    """Another callback that dies in its own call, and code of many other shapes."""
    pointer_type = ctypes.PYFUNCTYPE(ctypes.c_double, ctypes.c_double)
    held: list[Any] = []

    class Function:
        def __call__(self, x):
            held.clear()
            return x

        def __del__(self):
            self.end()

    def end():
        inner = Function()
        inner.end = int
        held.append(nc.callback("d:d", inner))
        del inner
        assert pointer_type(held[0].address())(2.0) == 2.0
        callbackcode._recent.clear()

    outer = Function()
    outer.end = end
    signature = "d:dd"
    held.append(nc.callback(signature, lambda x, y, run=outer: run(x)))
    del outer
    pointer = ctypes.PYFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_double)
    assert pointer(held[0].address())(3.0, 1.0) == 3.0
    gc.collect()


def test_a_callback_that_dies_stays_while_many_others_end():
    held: list[Any] = []

    def function(x):
        held.clear()
        for _ in range(100):
            nc.callback("d:d", float)
        gc.collect()
        return x

    held.append(nc.callback("d:d", function))
    pointer = ctypes.PYFUNCTYPE(ctypes.c_double, ctypes.c_double)(held[0].address())
    assert pointer(1.5) == 1.5


def test_ended_threads_keep_nothing():
    held: dict[int, Any] = {}
    kept = []

    def run(number):
        value = np.zeros(4)
        kept.append(weakref.ref(value))
        held[number] = nc.callback("&d:d", lambda x: held.pop(number) and None, errors=value)
        ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_double)(held[number].address())(1.0)

    for number in range(3):
        thread = threading.Thread(target=run, args=(number,))
        thread.start()
        thread.join()
    gc.collect()
    if engine.available():  # ctypes keeps the last ones that ended
        assert [one() for one in kept] == [None] * 3


def test_cycles_through_memory_are_collected():
    class Array(np.ndarray):
        pass

    bound, returned = np.zeros(3).view(Array), np.zeros(3).view(Array)
    bound.function = nc.callback("d:&d", lambda pointer: 1.0).bind(bound)
    watched = weakref.ref(returned)
    returned.function = nc.callback("&d:", watched)
    returned.function()
    dead = weakref.ref(bound), weakref.ref(returned)
    del bound, returned
    gc.collect()
    assert [one() for one in dead] == [None, None]


def test_recursion_without_an_end_is_raised():
    def recurse(x):
        return function(x + 1)

    function = nc.callback("d:d", recurse)
    for _ in range(3):
        with pytest.raises(RecursionError):
            function(0.0)


@pytest.mark.parametrize("form", ["native", "partial"])
def test_recursion_without_a_function_of_pythons_is_raised(library, callers, form):
    """C code, a native callable, C code, and so on: no frame of Python's counts the depth."""
    function: Any = nc.load(library).function("call_kept", "d:d")
    endless = nc.callback("d:d", functools.partial(function) if form == "partial" else function)
    callers.keep(ctypes.c_void_p(endless.address()))
    with pytest.raises(RecursionError):
        endless(1.0)


def test_cycles_are_collected():
    class Holder:
        pass

    def make():
        holder = Holder()
        holder.g = nc.callback("d:d", lambda x: holder)
        return weakref.ref(holder), weakref.ref(holder.g)

    watched = make()
    gc.collect()
    assert [one() for one in watched] == [None, None]


def test_boxes_keep_it():
    function = nc.callback("d:d", lambda x: x + 1).to_ctypes()
    gc.collect()
    assert function(1.0) == 2.0
    function = nc.callback("d:d", lambda x: x + 2).to_cffi()
    gc.collect()
    assert function(1.0) == 3.0


@deferred
def test_memory_is_level(native, consumer):
    """Calls that succeed, that raise, and callbacks that come and go."""
    good = nc.callback("d:d", lambda x: x)
    bad = nc.callback("d:d", raising)
    passed = nc.callback("&d:i", lambda n: np.ones(3))

    def once():
        native.apply(good, 1.0)
        consumer.clearing(bad.address())
        with contextlib.suppress(LookupError):
            native.apply(bad, 1.0)
        passed(1)
        nc.callback("d:d", lambda x: x)(1.0)
        native.apply(lambda x: x, 1.0)

    for _ in range(100):
        once()
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(REPEAT):
        once()
    gc.collect()
    assert sys.getallocatedblocks() - before < 50


@pytest.mark.skipif(not GENERATED, reason=REFUSED)
def test_stubs_of_one_shape_share_their_code():
    code = callbackcode.code(parse("d:d&d"))[1]
    assert callbackcode.code(parse("double (double, const char *)"))[1] is code
    g, h = (nc.callback("d:d&d", lambda x, p, n=n: x + n) for n in (1, 2))
    assert (g(1.0, None), h(1.0, None)) == (2.0, 3.0)
    assert g.address() != h.address()


# -- processes -----------------------------------------------------------------------------------


@pytest.fixture
def process(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a script in a Python of its own: how it ended, and what it printed."""

    def process(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            timeout=60,
        )

    return process


@generated
@pytest.mark.parametrize("kept", [True, False])
def test_calls_while_python_ends(library, process, kept):
    """Threads that never stop calling neither hang nor crash the end of the process.

    Not even where the callback goes with its module.
    """
    script = f"""
        import ctypes, sys, time, nativecall as nc
        lib = ctypes.CDLL(sys.argv[1])
        g = nc.callback("d:d", lambda x: x)
        if {kept}:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(g))
        lib.start.argtypes = [ctypes.c_void_p, ctypes.c_int]
        assert lib.start(g.address(), 3) == 0
        time.sleep(0.05)
        print("done")
    """
    for _ in range(3):
        done = process(script, library)
        assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


ENDS = {
    "callback": 'nc.callback("d:d", lambda x: x)',
    "bound callback": 'nc.callback("d:id", lambda n, x: x).bind(2)',
    "bound": 'nc.load("m", "double ldexp(double, int);").ldexp.bind(..., 2)',
    "converted": 'nc.load("m", "float ldexpf(float, int);").ldexpf.bind(..., 2).convert("d:d")',
}


@generated
@pytest.mark.parametrize("what", ENDS)
def test_threads_go_on_calling_thunks_while_python_ends(library, process, what):
    script = f"""
        import ctypes, sys, time, nativecall as nc
        lib = ctypes.CDLL(sys.argv[1])
        g = {ENDS[what]}
        lib.start.argtypes = [ctypes.c_void_p, ctypes.c_int]
        assert lib.start(g.address(), 3) == 0
        time.sleep(0.05)
        print("done")
    """
    done = process(script, library)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


@generated
@pytest.mark.parametrize("what", ENDS)
@pytest.mark.parametrize("kept", [True, False])
def test_a_call_after_python_has_ended(library, process, kept, what):
    script = f"""
        import ctypes, sys, nativecall as nc
        lib = ctypes.CDLL(sys.argv[1])
        g = {ENDS[what]}
        if {kept}:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(g))
        lib.call_at_end.argtypes = [ctypes.c_void_p]
        assert lib.call_at_end(g.address()) == 0
        print("done")
    """
    done = process(script, library)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_after_a_fork(callers, native):
    g = nc.callback("d:d", lambda x: x + 1)
    bad = nc.callback("d:d", raising)
    assert native.apply(g, 1.0) == 2.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = os.fork()
    if child == 0:
        status = 1
        with contextlib.suppress(BaseException):
            total = ctypes.c_double(0)
            callers.in_threads(g.address(), 2, 5, ctypes.byref(total))
            right = total.value == sum(range(10)) + 10 and native.apply(g, 2.0) == 3.0
            try:
                native.apply(bad, 1.0)
            except LookupError:
                status = 0 if right and nc.callback("d:", lambda: 1)() == 1.0 else 2
        os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@generated
@pytest.mark.skipif(sys.version_info < (3, 12), reason="PyGILState of 3.11 waits for ever there")
def test_another_interpreter_is_refused(process):
    script = """
        import sys, nativecall as nc
        try:
            import _interpreters as interpreters
        except ImportError:
            import _xxsubinterpreters as interpreters
        g = nc.callback("d:d", lambda x: x)
        code = "\\n".join([
            "import ctypes",
            "call = ctypes.PYFUNCTYPE(ctypes.c_double, ctypes.c_double)(%d)" % g.address(),
            "try: call(1.0)",
            "except RuntimeError as error: print(error, flush=True)",
        ])
        new = sys.version_info >= (3, 13)
        one = interpreters.create(*["legacy"] if new else [], **{} if new else {"isolated": False})
        interpreters.run_string(one, code)
        print(g(2.0), flush=True)
        interpreters.destroy(one)
    """
    done = process(script)
    text = "a Python function was called by C code in another interpreter than its own\n2.0\n"
    assert (done.stdout, done.stderr) == (text, "")


# -- what is kept of signatures ------------------------------------------------------------------


def test_what_callbacks_of_a_signature_share_is_kept_up_to_a_bound():
    """Then all is dropped; callbacks keep it, and others of the signature get it anew."""

    def text(number: int) -> str:
        return f"d:&T{{d:x{number}:}}d"

    def function(pointer: Any, factor: float) -> float:
        return pointer.x0 * factor

    kept, limit = pythonfunction._specs, pythonfunction._LIMIT
    kept.clear()
    before = nc.callback(text(0), function)
    (key,) = kept
    for number in range(1, limit):
        pythonfunction._spec(parse(text(number)))
    assert (len(kept), key in kept) == (limit, True)
    pythonfunction._spec(parse(text(limit)))
    assert (len(kept), key in kept) == (1, False)
    after = nc.callback(text(0), function)
    assert (len(kept), key in kept) == (2, True)
    for g in (before, after):
        assert g(np.array([2.5]).view([("x0", "d")]), 4.0) == 10.0
