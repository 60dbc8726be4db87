"""Calls as on processors whose C ABI is not known, where cffi makes them."""

import os

import numpy as np
import pytest

import nativecall as nc
from nativecall._callable import elsewhere

FIRST = "double (double *x, int64_t n)"


def function(echo, name, signature, **options):
    """A callable, and what would call it; the callable is what that needs to live."""
    f = echo.function(name, signature, **options)
    return f, elsewhere.function(f)


@pytest.mark.parametrize(
    ("name", "code", "values"),
    [
        ("bool", "?", (True, False)), ("i8", "b", (-128, 127)), ("u8", "B", (0, 255)),
        ("i16", "h", (-(2**15), 7)), ("u16", "H", (2**16 - 1,)), ("i32", "i", (-(2**31), 5)),
        ("u32", "I", (2**32 - 1,)), ("i64", "q", (-(2**63), 3)), ("u64", "Q", (2**64 - 1,)),
        ("f", "f", (0.5, -1.25)), ("d", "d", (0.1, -1e300)), ("g", "g", (0.1,)),
    ],
)  # fmt: skip
def test_numbers(echo, name, code, values):
    f, call = function(echo, f"echo_{name}", f"{code}:{code}")
    for value in values:
        found = call(value)
        assert (type(found), found) == (type(value), value) == (type(f(value)), f(value))


def test_what_does_not_suit_is_said_as_elsewhere(echo, fails):
    _, call = function(echo, "echo_i8", "b:b")
    said = "argument 1 of 'echo_i8' is 128, out of range for 'signed char' (-128 to 127)"
    with fails(OverflowError, said):
        call(128)
    with fails(TypeError, "argument 1 of 'echo_i8' must be an integer (got float)"):
        call(1.5)


def test_pointers_and_text(echo):
    f, call = function(echo, "first", FIRST)
    a = np.array([4.5])
    assert call(a, 1) == 4.5
    assert call(None, 0) == -1.0
    g, same = function(echo, "echo_dp", "&d:&d")
    assert same(None) is None
    assert same(a)[0] == 4.5
    del f, g
    libc = nc.load(None)
    strlen = libc.function("strlen", "size_t strlen(const char *s)", encoding="utf-8")
    assert elsewhere.function(strlen)("\xe4b") == 3


def test_functions_and_what_they_raise(builder, fails):
    lib = nc.load(
        builder.library(
            "double apply(double (*f)(double), double x);\n"
            "double apply(double (*f)(double), double x) { return f(x) + 1; }",
            "elsewhere",
        )
    )
    apply = lib.function("apply", "d:X{d:d}d")
    call = elsewhere.function(apply)
    assert call(abs, -2.0) == 3.0
    assert call(nc.load("m", "double fabs(double);").fabs, -2.0) == 3.0

    def broken(x):
        raise LookupError("the cause")

    with fails(LookupError, "the cause"):
        call(broken, 1.0)
    assert call(abs, -2.0) == 3.0


def test_errno_and_failures(echo, fails):
    f, call = function(echo, "set_errno", "i:h", errors="errno")
    assert call(0) == 0
    with pytest.raises(FileNotFoundError, match=os.strerror(2)):
        call(2)
    assert nc.get_errno() == 2
    g, failing = function(echo, "fail_i8", "b:bP", errors="nonzero")
    assert failing(0, None) == 0
    with fails(nc.NativeFailure, "'fail_i8' failed: it returned 5, not 0"):
        failing(5, None)
    del f, g


def test_an_entry_that_is_replaced(echo):
    f, call = function(echo, "one", "h:")
    assert call() == 1
    f.add("h:", echo.address("two"), replace=True)
    assert call() == 2


def test_variadic_functions():
    f = nc.load(None).function("snprintf", "int (char *, size_t, const char *, ...)")
    out = bytearray(40)
    elsewhere.function(f)(out, 40, b"%d %g %s", 7, 0.5, b"end")
    assert out.split(b"\0")[0] == b"7 0.5 end"


def test_what_cffi_cannot_call_is_refused(echo, fails):
    for name, signature, what in (
        ("echo_pair", "T{dd}:T{dd}", "T{dd}"),
        ("echo_zd", "Zd:Zd", "Zd"),
    ):
        message = f"'{what}' cannot be passed by value on this processor; call it through a C "
        message += "function of your own that takes a pointer"
        with fails(nc.SignatureError, message):
            function(echo, name, signature)
    with pytest.raises(nc.SignatureError, match="needs the GIL"):
        function(echo, "echo_o", "O:O")


@pytest.mark.parametrize("option", [{"out": "exponent"}, {"check": print}])
def test_what_plans_alone_can_do_is_refused(option, fails):
    f = nc.load("m").function("frexp", "double frexp(double x, int *exponent)", **option)
    with fails(nc.SignatureError, f"{next(iter(option))}= is not supported on this processor"):
        elsewhere.function(f)
