"""Callbacks that raise: what C code gets, and who raises the exception."""

from __future__ import annotations

import ctypes
import gc
import sys
from typing import Any

import numpy as np
import pytest

import nativecall as nc
from support.callbacks import overlooked, raising, threads_left
from support.threads import each

NAN = float("nan")


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


def test_it_is_raised_by_every_way_of_a_call(library, fails):
    for gil in ("hold", "release"):
        apply = nc.load(library).function("apply", "d:X{d:d}d", gil=gil)
        with fails(LookupError, "for 2"):
            apply(nc.callback("d:d", raising), 2.0)
        assert apply(nc.callback("d:d", lambda x: x + 1), 2.0) == 3.0


@pytest.mark.parametrize("options", [0, 1])  # NC_CALLBACK_HOLDS_GIL
def test_it_is_raised_by_consumers_of_callback_h(integrating, fails, options):
    integrate = integrating.integrate
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
    exception.__traceback__ = None  # it stays, and with it all that it came through


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
    each(specialised_calls, consumer)


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


KINDS = {
    "i": "int32_t", "?": "_Bool", "q": "int64_t", "H": "uint16_t", "d": "double", "f": "float",
    "P": "void *", "v": "int32_t", "Zd": "double _Complex", "g": "long double", "e": "_Float16",
    "T{diq}": "struct { double a; int32_t b; int64_t c; }", "T{(3)d}": "struct { double a[3]; }",
}  # fmt: skip


@pytest.mark.parametrize(
    ("code", "errors", "expected"),
    [
        ("i", None, 0), ("i", "nonzero", 1), ("?", "nonzero", True), ("q", -(2**63), -(2**63)),
        ("H", 2**16 - 1, 2**16 - 1), ("i", "zero", 0), ("d", None, NAN), ("f", None, NAN),
        ("f", 0.5, 0.5), ("P", None, None), ("P", "null", None), ("v", None, 0),
        # In memory, or several registers.
        ("Zd", None, complex(NAN, NAN)), ("g", None, NAN), ("e", None, NAN),
        ("T{diq}", None, (0.0, 0, 0)), ("T{(3)d}", None, ([0.0, 0.0, 0.0],)),
    ],
)  # fmt: skip
def test_sentinels(builder, code, errors, expected):
    """Seen by C code, which notes them for a call that succeeds."""
    call = "((void (*)(void))f)();" if code == "v" else "note = f();"
    source = f"""
    #include <stdint.h>
    typedef {KINDS[code]} R;
    static R note;
    void take(R (*f)(void)) {{ {call} }}
    R noted(void) {{ return note; }}
    """
    name = "bool" if code == "?" else "".join(filter(str.isalnum, code))
    lib = nc.load(builder.library(source, f"callback_sentinel_{name}", flags=("-O1", "-w")))
    g = nc.callback(f"{code}:", lambda: 1 / 0, errors=errors)
    with pytest.raises(ZeroDivisionError):
        lib.function("take", f"v:X{{{code}:}}")(g)
    noted = lib.function("noted", f"{'i' if code == 'v' else code}:")()
    assert repr(tuple(noted) if code[0] == "T" else noted) == repr(expected)


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
    make = nc.callback("T{X{d:d}d}:i", lambda i: (raising, 4.0))
    with fails(LookupError, "for 4"):
        handed.run_made(make, 1)
    with fails(LookupError, "for 5"):
        handed.apply(make(1)[0], 5.0)
    del bound
    gc.collect()
    assert (unraisable, threads_left()) == ([], 0)
