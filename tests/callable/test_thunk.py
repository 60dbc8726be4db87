"""C functions made of others: `f.convert` and `f.bind`, one case at a time, and their life."""

from __future__ import annotations

import array
import contextlib
import ctypes
import errno
import gc
import math
import pickle
import struct
import sys
import textwrap
import weakref
from typing import Any

import pytest

import nativecall as nc
from nativecall import _lib
from nativecall._callable import hooks
from nativecall._cdecl.spelling import parse
from nativecall._codegen import engine
from nativecall._plan import conversion, rules, steps
from nativecall._plan.aapcs64 import AAPCS64
from nativecall._plan.sysv import SYSV_X86_64
from nativecall._plan.win64 import WIN64
from support.modes import SCALE, assembly, generated
from support.threads import each

ABIS = {"SYSV_X86_64": SYSV_X86_64, "AAPCS64": AAPCS64, "WIN64": WIN64}

# -- conversions, one by one ---------------------------------------------------------------------

SOURCE = """
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
typedef struct { double x, y; } Point;
int32_t twice(int32_t n) { return 2 * n; }
int64_t large(void) { return (int64_t)1 << 53 | 1; }
double sum3(double a, double b, double c) { return a + 10 * b + 100 * c; }
double sum(int n, double *x) { double s = 0; for (int i = 0; i < n; i++) s += x[i]; return s; }
double norm(Point p) { return p.x * p.x + p.y * p.y; }
Point mirrored(Point p) { return (Point){p.y, p.x}; }
void root(double *x, double *result) { *result = *x / 2; *x = -1; }
int half(double x, double *result) { if (x < 0) return 7; *result = x / 2; return 0; }
int checked(int x) { if (x < 0) errno = EDOM; return x; }
char *find(char *text) { return *text ? text : NULL; }
double scale(double x, const double *data, int n) { return x * data[n]; }
double apply(double (*f)(double), double x) { return f(x); }
int add(int count, ...)
{
    va_list rest;
    double s = 0;
    va_start(rest, count);
    for (int i = 0; i < count; i++) s += i % 2 ? va_arg(rest, double) : va_arg(rest, int);
    va_end(rest);
    return (int)s;
}
"""
DECLARATIONS = """
typedef struct { double x, y; } Point;
int32_t twice(int32_t n); int64_t large(void); double sum3(double a, double b, double c);
double sum(int n, double *x); double norm(Point p); Point mirrored(Point p);
void root(double *x, double *result); int half(double x, double *result); int checked(int x);
char *find(char *text); double scale(double x, const double *data, int n);
double apply(double (*f)(double), double x); int add(int count, ...);
"""


@pytest.fixture(scope="module")
def library(builder):
    path = builder.library(SOURCE, "thunks", flags=("-O1", "-w"))
    return nc.load(path, DECLARATIONS)


@pytest.fixture
def c(library, carrier):
    """The library, whose functions are converted either way."""
    return library


def doubles(*numbers: float) -> array.array:
    return array.array("d", numbers)


def test_the_same_signature_is_the_function_itself(c):
    assert c.sum3.convert("double (double, double, double)") is c.sum3
    assert c.sum3.convert("d:ddd", errors="none") is c.sum3
    both = nc.wrap({"d:ddd": c.sum3, "i:i": c.twice})
    assert both.convert("i:i") is both["i:i"]
    named = c.sum3.convert("d:ddd", name="other")
    assert (named.__name__, named(1, 2, 3)) == ("other", 321.0)


def test_arrays_and_numbers(c):
    assert c.sum3.convert("d:i&d")(3, doubles(1, 2, 3)) == 321
    assert c.sum3.convert("d:&f")(array.array("f", [1, 2, 3])) == 321
    assert c.sum.convert("d:ddddd")(1, 2, 3, 4, 5) == 15
    assert c.sum.convert("d:f")(1.5) == 1.5
    shown = r"'double \(int, double \*\)'"
    with pytest.raises(ValueError, match=f"argument 1 of {shown} is 2, but 'sum3' has 3 items"):
        c.sum3.convert("d:i&d")(2, doubles(1, 2, 3))
    with pytest.raises(ValueError, match=f"argument 2 of {shown} is NULL, but 'sum3' needs it"):
        c.sum3.convert("d:i&d")(3, None)


def test_an_argument_that_takes_the_result_is_the_result(c):
    assert c.root.convert("d:d")(5.0) == 2.5
    half = nc.wrap(c.half, errors="nonzero").convert("d:d")
    assert half(5.0) == 2.5
    with pytest.raises(nc.NativeFailure, match="'half' failed: it returned 7, not 0"):
        half(-1.0)
    place = doubles(0)
    assert c.sum3.convert("v:ddd&d")(1, 2, 3, place) is None
    assert place[0] == 321
    status = c.sum3.convert("i:ddd&d")
    assert status.entries[0].errors == "nonzero"
    assert status(3, 2, 1, place) == 0
    assert place[0] == 123


def test_what_does_not_fit_is_raised_and_c_gets_the_sentinel(c):
    thunk = c.twice.convert("d:d")
    assert thunk(21.0) == 42.0
    for value, error, message in (
        (0.5, ValueError, "argument 1 of 'twice' is 0.5, not an integer"),
        (math.nan, ValueError, "argument 1 of 'twice' is nan, not an integer"),
        (2.0**31, OverflowError, "argument 1 of 'twice' is 2147483648.0, out of range for 'int'"),
        (-math.inf, OverflowError, "argument 1 of 'twice' is -inf, out of range for 'int'"),
    ):
        with pytest.raises(error) as caught:
            thunk(value)
        assert str(caught.value).startswith(message)
    with pytest.raises(
        OverflowError, match="the result of 'large' is 9007199254740993, which 'dou"
    ):
        c.large.convert("d:")()


@pytest.mark.parametrize("jit", ["1", "0"])
def test_a_double_that_no_float_holds(python, monkeypatch, jit):
    """Code that is generated refuses it, and so do plans."""
    monkeypatch.setenv("NATIVECALL_JIT", jit)
    code = """
import nativecall as nc
f = nc.load("m").function("fabsf", "f:f").convert("d:d")
print(f(-1.5), f(float("inf")), f(3.4028235e38) == 3.4028234663852886e38)
try:
    f(-1e39)
except OverflowError as error:
    print(error)
"""
    message = "argument 1 of 'fabsf' is out of range for 'float' (-3.4028235e+38 to 3.4028235e+38)"
    assert python(code) == f"1.5 inf True\n{message}\n"


def test_a_rule_of_single_values_stands_in_one_place(c, monkeypatch):
    """What the plan says of a conversion is done, by generated code and by the core, and told."""
    rule = rules._number

    def stricter(source, target):
        return {"rounded": "exact"}.get(rule(source, target), rule(source, target))

    monkeypatch.setattr(rules, "_number", stricter)
    hooks._thunk_specs.clear()
    narrow = c.sum3.convert("f:ddd")
    assert narrow(0.5, 0, 0) == 0.5
    assert narrow(math.inf, 0, 0) == math.inf
    assert math.isnan(narrow(math.nan, 0, 0))
    half = nc.wrap(c.sum3.address(), "v:e", name="half").convert("v:d")
    assert half(0.5) is None
    for thunk, values, message in (
        (narrow, (0.1, 0, 0), "the result of 'sum3' is 0.1, which 'float' does not hold exactly"),
        (narrow, (1e300, 0, 0), "the result of 'sum3' is out of range for 'float'"),
        (half, (0.1,), "argument 1 of 'half' is 0.1, which '_Float16' does not hold exactly"),
    ):
        with pytest.raises(OverflowError) as caught:
            thunk(*values)
        assert str(caught.value).startswith(message)
    hooks._thunk_specs.clear()


THROWING = """
extern "C" double halved(double x, int n, double y) { if (n != 1) throw n; return (x + y) / 2; }
extern "C" int caught(double (*f)(double, double, double), int n)
{
    try { return f(1, n, 3) == 2 ? 0 : -1; } catch (int found) { return found; }
}
"""


@pytest.mark.compiler
def test_exceptions_of_cpp_pass_through(builder, carrier):
    path = builder.library(THROWING, "thrown", language="c++")
    lib = nc.load(path, "double halved(double, int, double);")
    caught = lib.function("caught", "i:X{d:ddd}i")
    thunk = lib.halved.convert("d:ddd")
    assert [caught(thunk, n) for n in (1, 2, 3) * 20] == [0, 2, 3] * 20


JUMPING = """
#include <setjmp.h>
static jmp_buf there;
double halved(double x, int n, double y) { if (n != 1) longjmp(there, n); return (x + y) / 2; }
int caught(double (*f)(double, double, double), int n)
{
    volatile int jumps = 0;
    int found = setjmp(there);
    if (found) return found + jumps;
    jumps++;
    return f(1, n, 3) == 2 ? 0 : -1;
}
"""


def test_longjmp_passes_through(builder, carrier):
    lib = nc.load(builder.library(JUMPING, "jumping", flags=("-w",)))
    halved = lib.function("halved", "d:did")
    caught = lib.function("caught", "i:X{d:ddd}i")
    thunk = halved.convert("d:ddd")
    assert [caught(thunk, n) for n in (1, 2, 3) * 20] == [0, 3, 4] * 20
    bound = lib.function("caught", "i:X{d:ddd}i").bind(thunk)
    assert [bound(n) for n in (1, 2)] == [0, 3]


@pytest.mark.skipif(sys.platform == "win32", reason="makes a POSIX thread")
def test_a_failure_in_a_thread_of_c_is_reported(c, builder, monkeypatch):
    """No call from Python waits there."""
    reported: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", reported.append)
    source = """
        #include <pthread.h>
        typedef double (*Function)(double);
        static double got;
        static void *run(void *function) { got = ((Function)function)(0.5); return 0; }
        double elsewhere(Function function)
        {
            pthread_t thread;
            pthread_create(&thread, 0, run, (void *)function);
            pthread_join(thread, 0);
            return got;
        }
    """
    path = builder.library(source, "elsewhere", flags=("-w", "-pthread"))
    elsewhere = nc.load(path).function("elsewhere", "d:X{d:d}", gil="release")
    thunk = c.twice.convert("d:d")
    assert math.isnan(elsewhere(thunk))
    assert [str(one.exc_value) for one in reported] == [
        "argument 1 of 'twice' is 0.5, not an integer"
    ]

    # A failure that follows from an exception that was reported is none of its own.
    def fails(*_):
        if answers:
            return answers.pop()
        raise KeyError("once")

    answers: list[float] = []
    status = nc.callback("i:d&d", fails, errors="nonzero").convert("d:d")
    number = nc.callback("d:d", fails, name="number").convert("i:d").convert("d:d")
    for thunk in (status, number, number, status):
        reported.clear()
        elsewhere(thunk)
        assert [str(one.exc_value) for one in reported] == ["'once'"]
    reported.clear()
    answers += [0.5, 7.0]
    assert elsewhere(number) == 7.0
    elsewhere(number)
    assert [str(one.exc_value) for one in reported] == [
        "the result of 'number' is 0.5, not an integer"
    ]


def test_errno_and_null(c):
    checked = nc.wrap(c.checked, errors="errno").convert("d:d")
    assert checked(3.0) == 3.0
    with pytest.raises(OSError, match=r"\(from 'checked'\)") as caught:
        checked(-3.0)
    assert caught.value.errno == errno.EDOM
    find = nc.wrap(c.find, errors="null").convert("P:P", errors="errno")
    with pytest.raises(OSError, match="Input/output error"):
        find(bytearray(1))
    # One that fails in the conversion has errno, too; the exception is the conversion's.
    thunk = c.twice.convert("i:d", errors="errno")
    with pytest.raises(ValueError, match="not an integer"):
        thunk(0.5)


def test_variadic_functions(c):
    assert c.add.convert("i:iif")(2, 40, 2.5) == 42
    assert c.add.convert("i:ib")(1, -5) == -5
    with pytest.raises(nc.SignatureError, match="it takes at least 1 argument, not 0"):
        c.add.convert("i:")
    with pytest.raises(nc.SignatureError, match="variadic; convert"):
        c.add.bind(1)


def test_thunks_of_thunks(c):
    thunk = c.sum3.convert("d:i&d").bind(3).convert("f:fff")
    assert thunk(1, 2, 3) == 321
    assert thunk.bind(1).bind(..., 3)(2) == 321
    deep = c.twice
    for step in range(20):
        deep = deep.convert("d:d" if step % 2 == 0 else "i:i")
    assert deep(4) == 8
    with pytest.raises(OverflowError, match=r"argument 1 of 'twice' is 4294967296.0, out of range"):
        c.twice.convert("d:d").convert("q:q")(2**32)


def test_overloads_take_the_first_that_converts(c):
    both = nc.wrap({"d:ddd": c.sum3, "i:i": c.twice}, name="both")
    assert both.convert("f:f")(4) == 8
    assert both.convert("d:fff")(1, 2, 3) == 321
    with pytest.raises(nc.SignatureError) as caught:
        both.convert("d:Zd")
    assert "from 'd:ddd' to 'd:Zd'" in str(caught.value)
    assert "from 'i:i' to 'd:Zd'" in str(caught.value)
    with pytest.raises(TypeError, match="'both' has entries 'd:ddd', 'i:i'; 'signature' must name"):
        both.bind(1)
    assert both["i:i"].bind(4)() == 8


def test_a_subclass_that_overrides_calls_has_nothing_to_convert(c):
    class Loud(nc.NativeCallable):
        def __call__(self, *args):
            return "loud"

    class Quiet(nc.NativeCallable):
        pass

    with pytest.raises(nc.NoEntryError, match="has no entries"):
        Loud(c.twice).convert("d:d")
    with pytest.raises(nc.NoEntryError, match="has no entries"):
        Loud(c.twice).bind(1)
    thunk = Quiet(c.twice).convert("d:d")
    assert type(thunk) is nc.NativeCallable
    assert thunk(2) == 4
    assert thunk.builtin(3) == 6


def test_callbacks_are_converted_and_bound():
    @nc.callback("d:dd")
    def weighted(x, y):
        if x < 0:
            raise KeyError("negative")
        return x + 10 * y

    thunk = weighted.convert("d:i&d")
    assert thunk(2, doubles(1, 2)) == 21
    assert thunk.entries[0].flags & _lib.FLAG_TAKES_GIL
    assert weighted.bind(..., 4)(2) == 42
    with pytest.raises(KeyError, match="negative"):
        thunk(2, doubles(-1, 2))
    weighted.close()
    with pytest.raises(RuntimeError, match="callback 'weighted' is closed"):
        thunk(2, doubles(1, 2))


@pytest.mark.parametrize("gil", ["hold", "release"])
def test_exceptions_of_callbacks_come_through_thunks(gil):
    @nc.callback("d:d")
    def fails(x):
        raise KeyError(x)

    function = nc.wrap(fails.address(), "d:d", owner=fails, gil=gil)
    for thunk in (function.convert("f:f"), function.convert("f:f").convert("d:d")):
        with pytest.raises(KeyError, match=r"1\.0"):
            thunk(1.0)


@pytest.mark.parametrize(
    ("signature", "errors", "shown"),
    [
        ("f:O", None, "python"),
        ("f:O", "none", "none"),
        ("i:O&d", "nonzero", "nonzero"),
        ("d:O", "errno", "errno"),
        ("v:O", None, "python"),
    ],
)
def test_functions_that_raise_python_exceptions(signature, errors, shown):
    number = nc.wrap(ctypes.pythonapi.PyFloat_AsDouble, "d:O", errors="python", gil="need")
    thunk = number.convert(signature, errors=errors)
    assert (thunk.entries[0].errors, thunk.entries[0].gil) == (shown, "need")
    place = doubles(0)
    rest = (place,) if "&" in signature else ()
    result = thunk(2.5, *rest)
    assert {"v": result is None, "i": place[0] == 2.5}.get(signature[0], result == 2.5)
    with pytest.raises(TypeError, match="must be real number, not str"):
        thunk("x", *rest)


def test_gil_flags_are_carried_over(c):
    released = nc.wrap(c.twice, gil="release").convert("d:d")
    assert released.entries[0].gil == "release"
    assert released(4) == 8
    with pytest.raises(ValueError, match="not an integer"):
        released(0.5)
    needs = nc.wrap(c.twice, gil="need").bind(4)
    assert (needs.entries[0].gil, needs()) == ("need", 8)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"signature": "d:w"}, nc.SignatureError, "unknown type 'w'"),
        ({"signature": 3}, TypeError, "a signature must be str"),
        (
            {"signature": "d:d", "errors": "nonzero"},
            ValueError,
            "errors='nonzero' needs an integer",
        ),
        ({"signature": "d:d", "errors": "loud"}, ValueError, "'errors' must be one of"),
        ({"signature": "d:d", "name": 3}, TypeError, "'name' must be a str or None"),
    ],
)
def test_wrong_options(c, options, error, message):
    with pytest.raises(error, match=message):
        c.twice.convert(**options)


# -- binding -------------------------------------------------------------------------------------


def test_leading_named_and_open_arguments(c):
    assert c.sum3.bind(1)(2, 3) == 321
    assert c.sum3.bind(1, 2)(3) == 321
    assert c.sum3.bind(1, 2, 3)() == 321
    assert c.sum3.bind(..., 2)(1, 3) == 321
    assert c.sum3.bind(b=2)(1, 3) == 321
    assert c.sum3.bind(1, c=3)(2) == 321
    assert c.sum3.bind() is c.sum3
    assert c.sum3.bind(..., ..., ...) is c.sum3
    left = c.sum3.bind(b=2)
    assert left(a=1, c=3) == 321
    assert left.signatures == ("d:dd",)


@pytest.mark.parametrize(
    ("values", "named", "error", "message"),
    [
        ((1, 2, 3, 4), {}, TypeError, "'sum3' takes 3 arguments, 4 values cannot be bound"),
        ((1,), {"a": 2}, TypeError, "argument 'a' of 'sum3' is bound twice"),
        ((), {"z": 2}, TypeError, "'sum3' has no argument 'z'; its arguments are 'a', 'b', 'c'"),
        (("1",), {}, TypeError, r"argument 1 of 'sum3' must be a real number \(got str\)"),
        ((1, None), {}, TypeError, "argument 2 of 'sum3' must be a real number"),
        ((10**400,), {}, OverflowError, "argument 1 of 'sum3' is an int too large for a double"),
    ],
)
def test_wrong_values(c, values, named, error, message):
    with pytest.raises(error, match=message):
        c.sum3.bind(*values, **named)


def test_ranges_and_names(c):
    with pytest.raises(OverflowError, match="argument 1 of 'twice' is 4294967296, out of range"):
        c.twice.bind(2**32)
    nameless = nc.wrap(c.sum3.address(), "d:ddd", name="nameless")
    with pytest.raises(TypeError, match="'nameless' has no argument 'x'; its arguments have no"):
        nameless.bind(x=1)


def test_structs_and_arrays_are_bound(c):
    assert c.norm.bind((3, 4))() == 25
    assert tuple(c.mirrored.bind((3, 4))()) == (4, 3)
    data = doubles(1, 2, 3)
    total = c.sum.bind(3, data)
    assert total() == 6
    data[0] = 11
    assert total() == 16
    # Exported as long as it may be read.
    with pytest.raises(BufferError):
        data.append(4)
    del total
    gc.collect()
    data.append(4)
    with pytest.raises(ValueError, match="argument 2 of 'sum' must be writable"):
        c.sum.bind(3, memoryview(bytes(24)).cast("d"))


def test_a_promise_not_to_write_is_kept(c):
    frozen = memoryview(struct.pack("3d", 1, 2, 3)).cast("d")
    assert c.scale.bind(data=frozen)(10, 2) == 30


def test_functions_are_bound(c):
    assert c.apply.bind(c.twice.convert("d:d"))(4) == 8
    with pytest.raises(
        TypeError, match=r"must be a function that stays alive \(got function\); pass a nativecall"
    ):
        c.apply.bind(lambda x: x)

    @nc.callback("d:d")
    def square(x):
        return x * x

    assert c.apply.bind(square)(5) == 25


def test_many_thunks_share_their_code(c):
    before = len(engine._codes)
    thunks = [c.sum3.bind(k, 1) for k in range(2_000)]
    assert [thunk(0) for thunk in thunks] == [k + 10 for k in range(len(thunks))]
    assert len({thunk.address() for thunk in thunks}) == len(thunks)
    assert len(engine._codes) <= before + 1


# -- life ----------------------------------------------------------------------------------------


def test_a_thunk_keeps_what_it_calls(c):
    class Owner:
        pass

    owner = Owner()
    gone = weakref.ref(owner)
    thunk = nc.wrap(c.twice.address(), "i:i", owner=owner).convert("d:d").bind(4)
    pointer = thunk.to_ctypes()
    del owner, thunk
    gc.collect()
    assert gone() is not None
    assert pointer() == 8
    del pointer
    gc.collect()
    assert gone() is None


def test_cycles_through_a_bound_callback_are_collected(c):
    class Node:
        bound: Any

    node = Node()
    gone = weakref.ref(node)
    node.bound = c.apply.bind(nc.callback("d:d", lambda x, node=node: x + 1))
    assert node.bound(1.0) == 2.0
    del node
    gc.collect()
    assert gone() is None


def test_pickling(c):
    thunk = c.sum3.convert("d:i&d", name="packed")
    again = pickle.loads(pickle.dumps(thunk))
    assert (again.__name__, again(3, doubles(1, 2, 3))) == ("packed", 321)
    bound = pickle.loads(pickle.dumps(c.sum3.bind(..., 2)))
    assert bound(1, 3) == 321
    assert pickle.loads(pickle.dumps(c.sum3.bind(1).convert("f:ff")))(2, 3) == 321
    with pytest.raises(TypeError, match="cannot pickle"):
        pickle.dumps(nc.wrap(c.twice.address(), "i:i", name="t").convert("d:d"))
    with pytest.raises((TypeError, pickle.PicklingError)):
        pickle.dumps(c.apply.bind(nc.callback("d:d", lambda x: x)))


def test_threads(c):
    thunk = c.twice.convert("d:d")

    def work(number: int) -> None:
        for value in range(number * 1000, number * 1000 + 300):
            assert thunk(value) == 2 * value
            with pytest.raises(ValueError, match=f"is {value + 0.5!r}, not an integer"):
                thunk(value + 0.5)

    each(work, *range(8))


@generated
def test_the_usual_way_has_no_frame_and_calls_nothing():
    from nativecall._codegen.conversioncode import thunk

    plans = [
        rules.convert("f", parse("d:ddd"), 0, parse("d:i&d")),
        rules.convert("f", parse("d:i"), 0, parse("d:d")),
        rules.bind(parse("d:ddd"), 0, [True, False, False]),
    ]
    for plan in plans:
        text = assembly(thunk(conversion.conversion(plan), "thunk"))
        code = text.partition("thunk:")[2].partition("\nfailed:")[0]
        for word in ("push", "call", "sub\t", "subq", "stp"):
            assert f"\t{word}" not in code, code


@pytest.mark.parametrize(
    ("own", "wanted", "errors", "conventions"),
    [
        ("d:d", "d:dP", "none", "SYSV_X86_64 AAPCS64 WIN64"),
        ("d:d", "v:d", "none", "SYSV_X86_64 AAPCS64 WIN64"),
        ("v:qdqd", "v:qdqdP", "none", "SYSV_X86_64 AAPCS64 WIN64"),
        ("d:dddddddd", "d:ddddddddP", "none", "SYSV_X86_64 AAPCS64"),
        ("q:qqqqqqq", "q:qqqqqqqP", "none", "AAPCS64"),
        ("d:ddddddddd", "d:dddddddddP", "none", ""),
        ("d:f", "d:fP", "none", "SYSV_X86_64 AAPCS64 WIN64"),
        ("d:f", "d:d", "none", ""),
        ("d:dP", "d:d", "none", ""),
        ("g:d", "v:d", "none", "AAPCS64"),
        ("d:g", "d:gP", "none", ""),
        ("T{d}:d", "T{d}:dP", "none", "SYSV_X86_64 AAPCS64 WIN64"),
        ("d:T{d}", "d:T{d}P", "none", ""),
        ("d:d", "d:dP", "python", "SYSV_X86_64 AAPCS64 WIN64"),
        ("i:d", "i:dP", "errno", "SYSV_X86_64 AAPCS64 WIN64"),
        ("d:i.", "d:i", "none", ""),
    ],
)
def test_a_thunk_that_would_only_jump_is_the_function(
    monkeypatch, own, wanted, errors, conventions
):
    plan = rules.convert("f", parse(own), _lib.ERRORS[errors], parse(wanted))
    found = []
    for name in ABIS:
        monkeypatch.setattr(steps, "ABI", ABIS[name])
        with contextlib.suppress(nc.SignatureError):
            if conversion.conversion(plan).changes_nothing:
                found.append(name)
    assert found == conventions.split()


def test_the_pointer_of_a_function_in_another_signature(c):
    dropping = c.twice.convert("i:iP")
    assert dropping.address() == c.twice.address()
    assert dropping.signatures == ("i:iP",)
    assert dropping(21, None) == 42
    assert c.twice.convert("i:iP", errors="python").address() == c.twice.address()
    failing = nc.wrap(c.twice.address(), "i:i", errors="errno").convert("i:iP", errors="nonzero")
    assert failing.address() != c.twice.address()


def test_a_thunk_that_dies_in_its_own_call_fails_as_others_do():
    held = {}

    def function(x):
        held.clear()
        gc.collect()
        [bytearray(64) for _ in range(1000)]  # over what was freed
        if x < 0:
            raise LookupError("below")
        return 1e300

    for x, error in ((1.0, OverflowError), (-1.0, LookupError)):
        held["thunk"] = nc.callback("d:d", function).convert("i:d")
        call = nc.wrap(held["thunk"].address(), "i:d")
        with pytest.raises(error):
            call(x)


def test_what_bind_raises_keeps_nothing_exported():
    """The traceback has the frame that had the memory of all arguments."""
    numbers, block = array.array("d", [1.0]), (ctypes.c_double * 4)()

    class Moves:
        def __float__(self):
            ctypes.resize(block, 1 << 16)
            return 1.0

    f = nc.wrap(nc.load("m").address("cos"), "d:&d&dd")
    with pytest.raises(BufferError, match="was moved") as info:
        f.bind(numbers, block, Moves())
    numbers.append(2.0)
    assert info.value.__traceback__ is not None


@pytest.mark.parametrize("kib", [0, 128])
def test_a_chain_of_thunks_ends_before_the_c_stack_does(forked, kib):
    """They call one another without a look at the stack, so there are never too many."""
    code = """
        import sys, threading, nativecall as nc
        threading.stack_size(int(sys.argv[1]) << 10)
        f = nc.wrap(nc.load("m").address("cos"), "d:d")
        def run():
            thin = f
            try:
                for made in range(5000):
                    thin = thin.convert("d:&d").convert("d:d")
            except ValueError as error:
                assert "already has too many nested thunks" in str(error)
                print(10 < made < 1000)
            print(thin(0.0))
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    """
    assert forked(textwrap.dedent(code), kib * SCALE) == "True\n1.0\n"


SHAPES = """
import gc, itertools
import nativecall as nc
from nativecall._fifo import Fifo
Fifo.limit = 16  # code that stays when nobody uses it
def resident():
    for _ in range(256):  # the last thunks that ended keep their code, too
        usual.bind(1)
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4
address = nc.load("m").address("cos")
usual = nc.wrap(address, "d:dd")
used = []
for n, letters in enumerate(itertools.islice(itertools.product("bhiqfd", repeat=4), 120)):
    f = nc.wrap(address, "d:" + "".join(letters))
    if n % 2:
        f.convert("d:dddd")
    else:
        f.bind(1)
    if n % 20 == 19:
        used.append(resident())
print((used[5] - used[1]) // 80)
"""


@pytest.mark.allocator
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks Linux for its memory")
def test_shapes_that_come_and_go_leave_little(forked):
    """KB for each shape, once LLVM has what it needs; the passes of its optimizer would be 50."""
    assert int(forked(SHAPES)) < 20


def test_of_several_entries_the_one_that_loses_least_is_converted():
    m = nc.load("m", "float hypotf(float, float); double hypot(double, double);")
    several = nc.wrap({"f:ff": m.hypotf, "d:dd": m.hypot}, name="hypot")
    exact = m.hypot(1 / 3, 2.0)
    assert several.convert("d:di")(1 / 3, 2) == exact
    assert several.convert("d:df")(1 / 3, 2.0) == exact
    assert several.convert("f:ff")(3.0, 4.0) == 5.0
    halves = nc.wrap({"e:e": 4096, "f:f": 4096, "d:d": m.hypot.bind(0.0)}, name="f")
    assert halves.convert("d:q")(1 << 50) == 1 << 50, "no type has all, and double most"
    lost = [rules.losses(parse(one), parse("d:di")) for one in ("f:ff", "d:dd")]
    assert lost == [(2, 29 + 7), (0, 0)]
