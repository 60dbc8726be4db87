"""Generated trampolines: the same values and the same exceptions as through libffi, and their life.

Nearly every test here makes a callable twice, once through generated code and once through libffi,
gives both the same values and compares what comes of it: result and its type, or exception and its
message.
"""

from __future__ import annotations

import array
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
from nativecall._codegen import engine, trampoline
from nativecall._signature.signature import Signature
from nativecall._signature.spelling import parse

pytestmark = pytest.mark.skipif(
    os.environ.get("NATIVECALL_JIT") == "0",
    reason="generates code, which NATIVECALL_JIT=0 forbids",
)

SOURCE = """
#include <Python.h>
#include <complex.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
typedef struct { double x, y; } Pair;
typedef struct { int8_t tag; double x; int16_t n; } Padded;
typedef struct __attribute__((packed)) { int8_t tag; int32_t n; } Packed;
typedef struct { Pair at[2]; int32_t n[3]; } Nested;
typedef struct { double *data; int64_t count; } Span;
typedef struct { PyObject *object; int32_t n; } Held;
typedef struct { double *data; intptr_t shape[2], strides[2]; } Matrix;
#define MANY(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#define PARAMETERS(i) int16_t h##i, double d##i, Pair p##i,
#define TERMS(i) h##i * (4 * i + 1) + d##i * (4 * i + 2) \\
                 + p##i.x * (4 * i + 3) + p##i.y * (4 * i + 4) +
#define ECHO(name, type) type name(type x); type name(type x) { return x; }
ECHO(echo_bool, bool)
ECHO(echo_i8, int8_t) ECHO(echo_i16, int16_t) ECHO(echo_i32, int32_t) ECHO(echo_i64, int64_t)
ECHO(echo_u8, uint8_t) ECHO(echo_u16, uint16_t) ECHO(echo_u32, uint32_t) ECHO(echo_u64, uint64_t)
ECHO(echo_f, float) ECHO(echo_d, double) ECHO(echo_g, long double)
ECHO(echo_zf, float _Complex) ECHO(echo_zd, double _Complex) ECHO(echo_zg, long double _Complex)
ECHO(echo_p, void *) ECHO(echo_dp, double *) ECHO(echo_o, PyObject *)
ECHO(echo_pair, Pair) ECHO(echo_padded, Padded) ECHO(echo_packed, Packed) ECHO(echo_nested, Nested)
double mixed(int32_t i, double d, double *p, float f, int64_t q, bool b, uint8_t u, Pair s);
double mixed(int32_t i, double d, double *p, float f, int64_t q, bool b, uint8_t u, Pair s)
{ return i + 10 * d + 100 * (p ? *p : 0) + 1000 * f + (double)q * 1e4 + b * 1e5 + u * 1e6
         + s.x * 1e7 + s.y * 1e8; }
double total(Span s);
double total(Span s)
{ double t = 0; for (int64_t i = 0; i < s.count; i++) { t += s.data[i]; } return t; }
double first(double *x, int64_t n);
double first(double *x, int64_t n) { return n ? *x : -1; }
double trace(Matrix *m);
double trace(Matrix *m)
{
    double t = 0;
    if (m == NULL) { return -1; }
    for (intptr_t i = 0; i < m->shape[0] && i < m->shape[1]; i++) {
        t += *(double *)(void *)((char *)m->data + i * (m->strides[0] + m->strides[1]));
    }
    return t;
}
double apply(double (*f)(double), double x, Pair p);
double apply(double (*f)(double), double x, Pair p) { return f(x) + p.x; }
int8_t fail_i8(int8_t x, double (*f)(double));
int8_t fail_i8(int8_t x, double (*f)(double)) { if (f) { f(1.0); } return x; }
int32_t set_errno(int16_t code);
int32_t set_errno(int16_t code) { int before = errno; errno = code; return before; }
int16_t raise_if(int16_t x);
int16_t raise_if(int16_t x)
{ if (x < 0) { PyErr_SetString(PyExc_LookupError, "below zero"); } return x; }
PyObject *item(PyObject *list, int16_t i);
PyObject *item(PyObject *list, int16_t i)
{ return i < -1 ? NULL : Py_XNewRef(PyList_GetItem(list, i)); }
int32_t has_gil(int8_t x);
int32_t has_gil(int8_t x) { return x + 100 * PyGILState_Check(); }
int held(Held h); int held(Held h) { return h.n + (int)PyList_Size(h.object); }
uint64_t bytes_of(Padded p);
uint64_t bytes_of(Padded p)
{ uint64_t sum = 0; unsigned char raw[sizeof p]; memcpy(raw, &p, sizeof p);
  for (size_t i = 1; i < 8; i++) { sum += raw[i]; } return sum; }
PyObject *give(double (*f)(double), PyObject *o);
PyObject *give(double (*f)(double), PyObject *o) { if (f) { f(1.0); } return Py_NewRef(o); }
Held give_held(double (*f)(double), PyObject *o, int32_t n);
Held give_held(double (*f)(double), PyObject *o, int32_t n)
{ Held h = {n ? Py_NewRef(o) : NULL, n}; if (f) { f(1.0); } return h; }
int32_t show_held(int32_t (*f)(Held), PyObject *o, int32_t n);
int32_t show_held(int32_t (*f)(Held), PyObject *o, int32_t n)
{ Held h = {n ? o : NULL, n}; return f(h); }
int32_t raise_after(double (*f)(double), int16_t x);
int32_t raise_after(double (*f)(double), int16_t x)
{ f(1.0); PyErr_SetString(PyExc_LookupError, "in C"); return x; }
PyObject *pick(PyObject *a, Span s, PyObject *b, Matrix *m, long double g, PyObject *c);
PyObject *pick(PyObject *a, Span s, PyObject *b, Matrix *m, long double g, PyObject *c)
{ return Py_NewRef(s.count ? a : m ? b : g == 1.5L ? c : Py_None); }
double weigh(MANY(PARAMETERS) int16_t last);
double weigh(MANY(PARAMETERS) int16_t last) { return MANY(TERMS) last; }
int32_t replaced(double a, double b, int16_t c);
int32_t replaced(double a, double b, int16_t c) { return 1 + (int)a + (int)b + c; }
int32_t replacing(double a, double b, int16_t c);
int32_t replacing(double a, double b, int16_t c) { return 100 + (int)a + (int)b + c; }
int16_t one(void); int16_t one(void) { return 1; }
int16_t two(void); int16_t two(void) { return 2; }
"""


@pytest.fixture(scope="module")
def echo(builder):
    import sysconfig

    flags = ("-O1", f"-I{sysconfig.get_path('include')}", "-Wno-pedantic", "-Wno-conversion")
    return nc.load(builder.library(SOURCE, "trampolines", flags=flags))


def both(lib, name, signature, **options):
    """A function through generated code, and through libffi."""
    made = []
    for way in ("generated", "libffi"):
        f = lib.function(name, signature, **options)
        f._choose(way)
        assert f._way() == way == f.entries[0].trampoline
        made.append(f)
    return made


def outcome(call, *values):
    """What comes of a call, in a form that compares."""
    try:
        found = call(*values)
    except Exception as error:
        return type(error), str(error)
    return type(found).__name__, getattr(found, "_fields", None), repr(found)


class Number:
    """Converts to any number."""

    def __float__(self):
        return 2.5

    def __complex__(self):
        return 2.5j

    def __index__(self):
        return 7


class Raising:
    def __float__(self):
        raise LookupError("no float")

    __index__ = __complex__ = __float__


class Real(float):
    pass


class Whole(int):
    pass


NUMBERS = [
    0, 1, -1, True, False, 2**7, -(2**7), 2**7 - 1, 2**8 - 1, 2**8, 2**15, -(2**15) - 1, 2**16 - 1,
    2**16, 2**30 - 1, 2**30, -(2**30), 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**32 - 1, 2**32,
    2**60, 2**62, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64 - 1, 2**64, 10**400,
    0.0, -0.0, 1.5, math.inf, -math.inf, math.nan, 1e39, -1e300, 5e-324, 3.4028235e38, 65504.0,
    65520, 1j, 1.5 - 2j, complex(math.inf, -0.0), complex(0, 1e39), None, "x", b"x", [],
    (1,), object, np.float32(1.5), np.float64(2.5), np.int8(-3), np.uint64(2**64 - 1),
    np.bool_(True), np.array(3), np.complex64(1 + 2j), Number(), Raising(), Real(3.5), Whole(9),
    Whole(2**70),
]  # fmt: skip
SCALARS = {
    "?": "bool", "b": "i8", "B": "u8", "h": "i16", "H": "u16", "i": "i32", "I": "u32", "q": "i64",
    "Q": "u64", "f": "f", "d": "d", "g": "g", "Zf": "zf", "Zd": "zd",
}  # fmt: skip


@pytest.mark.parametrize("code", SCALARS)
@pytest.mark.parametrize("gil", ["hold", "release"])
def test_scalars(echo, code, gil):
    generated, libffi = both(echo, f"echo_{SCALARS[code]}", f"{code}:{code}", gil=gil)
    for value in NUMBERS:
        expected = outcome(libffi, value)
        assert outcome(generated, value) == expected, value
        assert outcome(generated.builtin, value) == expected, value


@pytest.mark.parametrize("way", ["generated", "libffi"])
def test_results_of_every_width_arrive_whole(echo, way):
    for code, name in SCALARS.items():
        f = echo.function(f"echo_{name}", f"{code}:{code}")
        f._choose(way)
        size = f._spec.types[0].size
        if code in "bhiq":
            ends = (-(2 ** (8 * size - 1)), 2 ** (8 * size - 1) - 1)
        elif code in "BHIQ":
            ends = (0, 2 ** (8 * size) - 1)
        else:
            ends = (False, True) if code == "?" else (-1.5, 0.25)
        for end in ends:
            assert f(end) == end


def test_complex_long_double_results(echo):
    """What libffi cannot return."""
    f = echo.function("echo_zg", "Zg:Zg")
    if f._way() == "generated":
        assert f(1.5 - 2j) == 1.5 - 2j
        assert math.copysign(1, f(complex(0.0, -0.0)).imag) == -1


MIXED = (3, 1.5, np.array([2.0]), 0.5, 7, True, 200, (1.0, 2.0))


def test_arguments_are_converted_in_their_order(echo):
    """The first argument that does not convert is the one that is named, whatever its type."""
    generated, libffi = both(echo, "mixed", "d:id&dfq?BT{dd}")
    assert outcome(generated, *MIXED) == outcome(libffi, *MIXED)
    wrong = ("x", None, "x", 1e39, 2**63, 2, 256, (1.0,))
    for i in range(len(MIXED)):
        for j in range(i, len(MIXED)):
            values = [wrong[k] if k in (i, j) else MIXED[k] for k in range(len(MIXED))]
            assert outcome(generated, *values) == outcome(libffi, *values), (i, j)
    slow = (Whole(3), Real(1.5), MIXED[2], 1, np.int8(7), np.bool_(True), np.uint8(200), [1, 2])
    for i in range(len(MIXED)):
        values = [slow[k] if k == i else MIXED[k] for k in range(len(MIXED))]
        assert generated(*values) == generated(*MIXED) + (500.0 if i == 3 else 0)
        assert outcome(generated, *values) == outcome(libffi, *values), i


def test_a_conversion_runs_once(echo):
    calls = []

    class Counted:
        def __float__(self):
            calls.append("float")
            return 1.0

        def __index__(self):
            calls.append("index")
            return 1

    generated, libffi = both(echo, "mixed", "d:id&dfq?BT{dd}")
    values = (Counted(), 1.0, None, Counted(), 1, True, 1, (1.0, 1.0))
    assert generated(*values) == libffi(*values)
    assert calls == ["index", "float"] * 2


def test_wrong_counts_and_keywords(echo):
    plain = both(echo, "first", "double (double *x, int64_t n)")
    nothing = both(echo, "one", "h:")
    for generated, libffi in (plain, nothing):
        for values in ((), (1,), (1, 2, 3), ("x",) * 9):
            if len(values) != len(generated._spec.signature.args):
                assert outcome(generated, *values) == outcome(libffi, *values)
                assert outcome(generated.builtin, *values) == outcome(libffi.builtin, *values)
        for names in ({"n": 1}, {"y": 1}, {"x": 1, "n": 1, "z": 1}):
            assert outcome(lambda f=generated, names=names: f(**names)) == outcome(
                lambda f=libffi, names=names: f(**names)
            )
    a = np.array([4.5])
    for f in plain:
        assert f(a, n=1) == f(n=1, x=a) == 4.5


POINTERS = [
    None, np.array([4.5]), np.array([4.5])[::1], np.array([1.0, 2, 3, 4])[::2],
    np.array([4.5], "f"), np.array([1]), array.array("d", [4.5]), array.array("f", [4.5]),
    bytes(8), bytearray(8),
    memoryview(array.array("d", [4.5])), np.zeros((2, 2)).T, np.array(4.5),
    (ctypes.c_double * 1)(4.5),
    ctypes.pointer(ctypes.c_double(4.5)), ctypes.c_void_p(), "text", 5, 4.5, [4.5], object(),
    np.array([object()]), np.array([4.5], ">f8"),
]  # fmt: skip


def test_elements_of_every_type(echo):
    letters = "?bBhHiIqQefdg"
    arrays = [np.zeros(3, code) for code in letters + "lLFDGO"]
    arrays += [one.byteswap().view(one.dtype.newbyteorder()) for one in arrays[3:12]]
    arrays += [memoryview(one) for one in arrays[:13]]
    arrays += [array.array(code, [0]) for code in "bBhHiIlLqQfd"]
    arrays += [(getattr(ctypes, f"c_{name}") * 2)() for name in ("bool", "int", "long", "double")]
    arrays += [
        b"bytes",
        bytes(16),
        bytearray(16),
        memoryview(b"bytes"),
        memoryview(bytearray(8)).cast("q"),
    ]
    for one in [*arrays[:13]]:
        locked = one.copy()
        locked.flags.writeable = False
        arrays.append(locked)
    for letter in [*letters, "Zf", "Zd", "T{dd}"]:
        for readonly in (False, True):
            signature = Signature(
                parse("q:q").result, parse(f"v:&{letter}").args, readonly=(readonly,)
            )
            generated, libffi, compiled = (
                nc.wrap(echo.address("echo_p"), signature, name="echo") for _ in range(3)
            )
            generated._choose("generated")
            libffi._choose("libffi")
            taken = 0
            for value in arrays:
                found = [outcome(f, value) for f in (generated, libffi, compiled)]
                assert found == [found[1]] * 3, (letter, readonly, value)
                taken += found[0][0] == "int"
            assert taken > 0, (letter, readonly)


@pytest.mark.parametrize("signature", ["d:&dq", "double (const double *, int64_t)"])
def test_pointers(echo, signature):
    generated, libffi = both(echo, "first", signature)
    locked = np.array([4.5])
    locked.flags.writeable = False
    for value in [*POINTERS, locked]:
        count = 0 if value is None or isinstance(value, ctypes.c_void_p) else 1
        assert outcome(generated, value, count) == outcome(libffi, value, count), value
        assert outcome(generated, value, "x") == outcome(libffi, value, "x"), value


def test_pointer_results(echo):
    a = np.array([4.5])
    for f in both(echo, "echo_dp", "&d:&d"):
        assert f(None) is None
        assert f(a)[0] == 4.5
    for f in both(echo, "echo_p", "P:P"):
        assert f(None) is None
        assert int(nc._lib.ffi.cast("uintptr_t", f(a))) == a.ctypes.data


@pytest.mark.parametrize("way", ["generated", "libffi"])
def test_buffers_are_released_on_every_path(echo, way):
    f = echo.function("first", "d:&dh")
    f._choose(way)
    data = bytearray(8)
    view = memoryview(data).cast("d")
    before = sys.getrefcount(view)
    for count in (1, 2**20, "x", Raising()):
        outcome(f, view, count)
        assert sys.getrefcount(view) == before
    view.release()
    data.append(1)  # BufferError while anything is exported


@pytest.mark.parametrize("way", ["generated", "libffi"])
def test_buffers_that_die_during_the_call(echo, way):
    """The callee's callback drops all that is known of the memory: it stays until C returns."""
    f = echo.function("mixed", "d:id&dfq?BT{dd}")
    f._choose(way)
    box = [np.array([2.0])]

    class Dropping:
        def __index__(self):
            box.clear()
            gc.collect()
            return 7

    values = [*MIXED]
    values[2:5] = [box[0], 0.5, Dropping()]
    gone = weakref.ref(box[0])
    expected = f(*MIXED)
    assert f(*values) == expected
    del values
    assert box == []
    assert gone() is None


STRUCTS = {
    "T{dd}": ("pair", [(1.5, 2.5), (1, 2), [1.5, 2.5], (1.5,), (1.5, 2, 3), {"f0": 1, "f1": 2},
                       {"f0": 1}, {"x": 1}, "xy", 5, None, (1.5, "x"), (Raising(), 1),
                       (Real(1), 1)]),
    "T{d:x:d:y:}": ("pair", [(1.5, 2.5), {"x": 1.5, "y": 2.5}, {"x": 1.5}, {"z": 1}, (1.5, "x"),
                             np.array([(1.5, 2.5)], [("x", "d"), ("y", "d")])[0]]),
    "T{b:tag:d:x:h:n:}": ("padded", [(1, 2.5, 3), (128, 2.5, 3), (1, 2, 2**15), (-128, -0.0, -1),
                                     (True, 2.5, 3), (1.0, 2.5, 3), (2**40, 1.0, 1)]),
    "T{(2)T{dd}(3)i}": ("nested", [
        (((1.0, 2.0), (3.0, 4.0)), (5, 6, 7)), ([(1, 2), [3, 4]], np.arange(3)),
        (((1.0, 2.0),), (5, 6, 7)), (((1.0, 2.0), (3.0, 4.0)), (5, 6)),
        (((1.0, 2.0), (3.0, "x")), (5, 6, 7)), (((1.0, 2.0), 3.0), (5, 6, 7))]),
}  # fmt: skip


@pytest.mark.parametrize("signature", STRUCTS)
def test_structs(echo, signature):
    name, values = STRUCTS[signature]
    generated, libffi = both(echo, f"echo_{name}", f"{signature}:{signature}")
    for value in values:
        assert outcome(generated, value) == outcome(libffi, value), value
    answer = generated(values[0])
    assert generated(answer) == answer
    assert type(answer) is type(libffi(values[0]))
    assert hash(answer) == hash(libffi(values[0]))
    assert gc.is_tracked(answer)


def test_small_packed_structs(echo):
    """What libffi takes apart by other rules than C."""
    f = echo.function("echo_packed", "=T{b:tag:i:n:}:=T{b:tag:i:n:}")
    if f._way() == "generated":
        assert f((-3, 2**31 - 1)) == (-3, 2**31 - 1)
        assert f({"tag": 5, "n": -7})._asdict() == {"tag": 5, "n": -7}


def test_tuples_that_are_not_what_they_hold(echo):
    class Other(tuple):
        def __iter__(self):
            return iter((7.0, 8.0))

    generated, libffi = both(echo, "echo_pair", "T{dd}:T{dd}")
    assert outcome(generated, Other((1.0, 2.0))) == outcome(libffi, Other((1.0, 2.0)))
    assert generated(Other((1.0, 2.0))) == (7.0, 8.0)
    keys = nc.wrap(echo.address("echo_pair"), "T{d:keys:d:values:}:T{d:keys:d:values:}")
    answer = keys((1.0, 2.0))
    assert keys(answer) == (1.0, 2.0)


def test_padding_is_zero(echo):
    for f in both(echo, "bytes_of", "Q:T{bdh}"):
        assert f((1, 1.0, 1)) == f([1, 1.0, 1]) == 0


def test_structs_with_pointers(echo):
    generated, libffi = both(echo, "total", "d:T{&d:data:q:count:}")
    a = np.arange(4.0)
    for value in (
        (a, 4),
        (a, 0),
        (None, 0),
        (a[::2], 2),
        (a.astype("f"), 1),
        (a, "x"),
        {"data": a},
    ):
        before = sys.getrefcount(a)
        assert outcome(generated, value) == outcome(libffi, value), value
        assert sys.getrefcount(a) == before
    for f in both(echo, "held", "i:T{O:object:i:n:}", gil="need"):
        things = [1, 2]
        before = sys.getrefcount(things)
        assert f((things, 40)) == 42
        assert sys.getrefcount(things) == before


VIEWS = [
    None, np.eye(3), np.eye(3)[::-1], np.arange(12.0).reshape(3, 4)[:, ::2], np.arange(3.0),
    np.eye(3, dtype="f"), np.eye(3, dtype=">f8"), memoryview(np.eye(2)), bytes(8), "x", 5,
    np.zeros((0, 2)),
]  # fmt: skip


def test_views(echo):
    generated, libffi = both(echo, "trace", "d:[2]d")
    locked = np.eye(2)
    locked.flags.writeable = False
    for value in [*VIEWS, locked]:
        before = sys.getrefcount(value)
        assert outcome(generated, value) == outcome(libffi, value), value
        assert value is None or sys.getrefcount(value) == before
    assert generated(np.arange(9.0).reshape(3, 3).T) == 12.0


def test_function_pointers(echo):
    generated, libffi = both(echo, "apply", "d:X{d:d}dT{dd}")
    square = nc.load("m", "double cos(double);").cos
    for value in (square, square.builtin, math.sin, lambda x: x * 10, None, 5, np.sin, "x"):
        if value is None:
            continue
        assert outcome(generated, value, 0.5, (1.0, 2.0)) == outcome(libffi, value, 0.5, (1.0, 2.0))
        assert outcome(generated, value, 0.5, 3) == outcome(libffi, value, 0.5, 3)

    def broken(x):
        raise LookupError("in Python")

    for f in (generated, libffi):
        assert outcome(f, broken, 0.5, (1.0, 2.0)) == (LookupError, "in Python")
        nested = outcome(f, lambda x, f=f: f(math.sin, x, (1.0, 2.0)), 0.5, (1.0, 0.0))
        assert nested[-1] == repr(math.sin(0.5) + 2)


def test_python_objects(echo):
    things = [object(), object()]
    for errors in ("none", "python", "null"):
        generated, libffi = both(echo, "item", "O:Oh", errors=errors)
        for index in (0, 1, 5, -1, -2, "x"):
            assert outcome(generated, things, index) == outcome(libffi, things, index)
        before = sys.getrefcount(things[0]), sys.getrefcount(things)
        for _ in range(100):
            assert generated(things, 0) is libffi(things, 0) is things[0]
        assert (sys.getrefcount(things[0]), sys.getrefcount(things)) == before
    same = both(echo, "has_gil", "i:b", gil="need")
    assert same[0](1) == same[1](1) == 101


def test_objects_beside_what_the_core_converts(echo):
    generated, libffi = both(echo, "pick", "O:OT{&d:data:q:count:}O[2]dgO")
    a, b, c = [1], [2], [3]
    for f in (generated, libffi):
        before = [sys.getrefcount(one) for one in (a, b, c)]
        assert f(a, (None, 1), b, None, 1.5, c) is a
        assert f(a, (None, 0), b, np.eye(2), 1.5, c) is b
        assert f(a, (None, 0), b, None, 1.5, c) is c
        assert f(a, (None, 0), b, None, 2.5, c) is None
        assert [sys.getrefcount(one) for one in (a, b, c)] == before
    for bad in ((a, (None, "x"), b, None, 1.5, c), (a, (None, 1), b, 5, 1.5, c)):
        assert outcome(generated, *bad) == outcome(libffi, *bad)


def test_objects_in_results(echo):
    thing = object()
    for f in both(echo, "give_held", "T{O:object:i:n:}:X{d:d}Oi"):
        before = sys.getrefcount(thing)
        for n in (1, 0):
            assert f(math.sin, thing, n) == (thing if n else None, n)
        answer = f(math.sin, thing, 5)
        assert answer.object is thing
        assert sys.getrefcount(thing) == before + 1
        del answer
        assert sys.getrefcount(thing) == before


def test_objects_in_structs_that_python_functions_get(echo):
    """C keeps its references."""
    thing, seen = object(), []

    def keep(held):
        seen.append(held)
        return 5

    for f in both(echo, "show_held", "i:X{i:T{O:object:i:n:}}Oi"):
        before = sys.getrefcount(thing)
        assert f(keep, thing, 3) == f(keep, thing, 0) == 5
        assert seen == [(thing, 3), (None, 0)]
        assert sys.getrefcount(thing) == before + 1
        seen.clear()
        assert sys.getrefcount(thing) == before


@pytest.mark.parametrize("errors", ["none", "python", "null", "errno"])
def test_objects_in_results_that_nobody_gets(echo, errors):
    """A Python function that C called has raised, so the result is given up, not lost."""
    thing = object()
    for name, signature, more in (
        ("give", "O:X{d:d}O", ()),
        ("give_held", "T{O:object:i:n:}:X{d:d}Oi", (3,)),
    ):
        if errors == "null" and more:
            continue
        for f in both(echo, name, signature, errors=errors):
            before = sys.getrefcount(thing)
            for _ in range(50):
                assert outcome(f, broken_function, thing, *more) == (LookupError, "the cause")
            assert sys.getrefcount(thing) == before


def test_many_numbers(echo):
    """More than are converted inline, which takes LLVM its time; the others by the core."""
    types, values, total = "", [], 0.0
    for i in range(15):
        types += "hdT{dd}"
        values += [i - 7, i / 4, (0.5 * i, -1.5)]
        weights = [(i - 7), i / 4, 0.5 * i, -1.5]
        total += sum((4 * i + 1 + k) * weight for k, weight in enumerate(weights))
    generated, libffi = both(echo, "weigh", f"d:{types}h")
    for f in (generated, libffi):
        assert f(*values, 9) == total + 9
        assert f(*values[:-1], {"f0": 7, "f1": -1.5}, Whole(9)) == total + 9
    seen = []

    class Seen(Number):
        def __init__(self, name):
            self.name = name

        def __float__(self):
            seen.append(self.name)
            return 0.0

        __index__ = None

    given = [*values]
    given[1], given[4], given[-2] = Seen("first"), Seen("second"), Seen("last")
    for f in (generated, libffi):
        seen.clear()
        f(*given, 9)
        assert seen == ["first", "second", "last"], "once each, in order"
        for wrong in range(len(given)):
            bad = [*values]
            bad[wrong] = "x"
            assert outcome(f, *bad, 9) == outcome(generated, *bad, 9)
    signature = parse("d:" + "h" * 255)
    few = trampoline.intermediate(parse("d:" + "h" * 40)).count("trunc i64")
    assert trampoline.intermediate(signature).count("trunc i64") == few


# -- whatever is asked for -----------------------------------------------------------------------

TYPES = [
    *"?bBhHiIqQefdgPO", "Zf", "Zd", "Zg", "&d", "&c", "&&d", "X{d:d}", "[1]d", "[2]i", "[3]T{di}",
    "[1]O", "T{dd}", "T{&di}", "=T{bd}", "T{X{v:}}", "T{O}", "T{(2)P}", "T{(2,2)f}", "T{ggg}",
    "T{qqqq}", "T{(3)T{bd}}", "T{ee}", "T{(16)b}", "T{(17)b}",
]  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
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
    monkeypatch.setattr(trampoline._Trampoline, "text", lambda self: "nonsense")
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


def broken_function(x):
    raise LookupError("the cause")


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
def test_memory_is_level_after_10_000_callables(echo, python):
    grown, blocks = map(int, python(LEVEL, echo.path).split())
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


def test_without_generated_code_calls_go_through_libffi(python, echo, monkeypatch):
    monkeypatch.setenv("NATIVECALL_JIT", "0")
    assert python(FALLBACK, echo.path) == "7 8 libffi\n[]\n"
    monkeypatch.delenv("NATIVECALL_JIT")
    assert python(FALLBACK, echo.path).startswith("7 8 generated\n")


def test_available():
    assert engine.available()
