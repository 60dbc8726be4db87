"""Callbacks: the values that Python functions get from C code and return to it.

The callers are C libraries and an extension module, built here. Random signatures are
tests/call/test_random_signatures.py's.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import os
import sys
import textwrap
import weakref
from typing import Any

import numpy as np
import pytest

import nativecall as nc
from nativecall import _lib
from nativecall._callable import arguments
from nativecall._cdecl.spelling import parse

# -- values --------------------------------------------------------------------------------------


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
        ("B:", 256, OverflowError, f"{who} is 256, out of range for 'unsigned char' (0 to 255)"),
        (
            "Q:",
            -1,
            OverflowError,
            f"{who} is -1, out of range for 'unsigned long' (0 to {2**64 - 1})",
        ),
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


def test_null_is_no_object(fails):
    g = nc.callback("O:OO", lambda a, b: [a, b], name="g")
    pointer = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object)(g.address())
    with fails(ValueError, "argument 1 of 'g' must be an object (got NULL)"):
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


def test_structs(library):
    f = nc.load(library).function("paired", "T{di}:X{T{di}:T{di}&T{di}}d")

    def swap(a, b):
        assert type(a) is nc.Record
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
    assert type(seen[0]) is nc.Record
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
    with pytest.raises(TypeError, match="a str is not a buffer"):
        nc.callback("&B:", lambda: "text")()


# -- what it is ----------------------------------------------------------------------------------


def test_a_callback_is_a_native_callable(callers, native):
    @nc.callback("double (double x)")
    def square(x):
        """Its square."""
        return x * x

    assert repr(square) == "<native callable double square(double x)>"
    assert isinstance(square, nc.NativeCallable)
    assert (square.__name__, square.__doc__) == ("square", "Its square.")
    assert square(x=3) == 9.0
    assert square.builtin(4.0) == 16.0
    assert square.function.__name__ == "square"
    assert square.entries[0].flags == _lib.FLAG_TAKES_GIL
    assert nc.callback("d:d", abs, gil="need").entries[0].gil == "need"
    assert nc.callback("d:d", abs, gil=None).entries[0].flags == _lib.FLAG_TAKES_GIL
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
            {"errors": "none"},
            ValueError,
            "'errors' must be None, a value for C, or one of 'python', 'nonzero', 'zero', 'null', "
            "'errno', 'argument' (got 'none')",
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
            "'errors' is 128, out of range for 'signed char' (-128 to 127)",
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


class _Shift:
    def __init__(self, by: float) -> None:
        self.by = by

    def added(self, x: float) -> object:
        return x + self.by if self.by else "nothing"


def test_what_is_callable_is_passed_as_a_function(native, callers):
    """Functions, methods and other callables; what has an entry is called by its pointer."""
    for by in (1.0, 2.0):
        assert native.apply(_Shift(by).added, 4.0) == 4.0 + by
        assert native.apply(functools.partial(pow, by), 4.0) == by**4
    cos = nc.load("m", "double cos(double);").cos
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arguments, "_function_argument", None)
        assert native.apply(cos, 0.0) == 1.0
        assert native.apply(cos.builtin, 0.0) == 1.0
        assert native.apply(nc.callback("d:d", lambda x: x + 1), 4.0) == 5.0


def test_messages_on_passed_functions_name_the_argument(native, fails):
    for function in (lambda x: "nothing", _Shift(0.0).added, functools.partial(str)):
        for _ in range(2):
            message = "the result of argument 1 of 'apply' must be a real number (got str)"
            with fails(TypeError, message):
                native.apply(function, 1.0)
    for function, message in (
        (nc.callback("d:d", abs, gil="need"), "must be a function 'd:d' that runs without the GIL"),
        (
            nc.load("m", "double pow(double, double);").pow,
            "must be a function 'double (*)(double)'; <native callable",
        ),
        (1.5, "must be a function (got float)"),
    ):
        with pytest.raises(TypeError) as info:
            native.apply(function, 1.0)
        assert str(info.value).startswith(f"argument 1 of 'apply' {message}")


def test_variadic_signatures_are_refused():
    with pytest.raises(nc.SignatureError, match="is variadic"):
        nc.callback("int (const char *, ...)", abs)


def test_it_is_made_once():
    g = nc.callback("d:d", abs)
    with pytest.raises(RuntimeError, match="is initialised already"):
        g.__init__("d:d", abs)


ERRNO = """
#include <errno.h>
int kept(void (*f)(void)) { errno = 33; f(); return errno; }
int fine(void (*f)(void)) { f(); return 1; }
"""


def test_errno_is_what_c_had(builder):
    """Whatever the Python function does, unless it calls `set_errno`."""
    lib = nc.load(
        builder.library(ERRNO, "errnos"),
        "int kept(void (*f)(void)); int fine(void (*f)(void));",
        errors={"fine": "errno"},
    )

    def fails():
        os.path.exists("/no/such/file")
        return 1 / 0

    def nested(number):
        def outer():
            nc.set_errno(number)
            assert lib.kept(look) == 33

        return outer

    def look():
        os.path.exists("/no/such/file")

    kept = nc.callback("v:", look)
    assert (lib.kept(look), lib.kept(kept), lib.fine(look)) == (33, 33, 1)
    with pytest.raises(ZeroDivisionError):
        lib.fine(fails)
    assert lib.kept(lambda: nc.set_errno(5)) == 5
    assert lib.kept(nested(7)) == 7
    nc.set_errno(9)  # of no callback
    with pytest.raises(OverflowError, match="errno must fit in a C int"):
        nc.set_errno(2**40)
    assert nc.get_errno() == 9
    assert lib.kept(look) == 33
    kept.close()


LOGGER = """
typedef void (*logger)(void *data, int level, const char *format, va_list more);
void set_logger(logger f, void *data);
int say(const char *format, ...);
"""
LOGS = (
    "#include <stdarg.h>\n"
    + LOGGER
    + """
static logger log_;
static void *kept;
void set_logger(logger f, void *data) { log_ = f; kept = data; }
int say(const char *format, ...)
{
    va_list more;
    va_start(more, format);
    log_(kept, 3, format, more);
    va_end(more);
    return 1;
}
"""
)
logged: list[tuple[object, ...]] = []


def log(data, level, format, more):
    """One function, so that it is kept once, however often the test runs."""
    text = bytearray(32)
    libc = nc.load(None, "int vsnprintf(char *, size_t, const char *, void *);")
    count = libc.vsnprintf(text, 32, format, more)
    logged.append((data, level, nc.string(format), text[:count].decode()))


def test_a_va_list_arrives_as_a_pointer(builder):
    lib = nc.load(builder.library(LOGS, "va_list"), LOGGER, keep="library")
    lib.set_logger(log, None)
    lib.say(b"%d and %s", 42, b"more")
    assert logged.pop() == (None, 3, b"%d and %s", "42 and more")
    # A va_list cannot be made, so what takes one is still refused.
    declared = "typedef __builtin_va_list va_list; int vprintf(const char *, va_list);"
    skipped = nc.load(None, declared, skip=True).skipped
    assert "a 'va_list' cannot be made outside C" in skipped["vprintf"]
