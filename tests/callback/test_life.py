"""Callbacks in threads, and their life: closing, recursion, memory, what is kept of signatures."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import os
import sys
import sysconfig
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import nativecall as nc
from nativecall import _callback
from nativecall._callable import pythonfunction
from nativecall._cdecl.spelling import parse
from support.callbacks import raising, threads_left
from support.modes import DEBUG
from support.threads import HAS_GIL, each

REPEAT = int(os.environ.get("NATIVECALL_TEST_REPEAT", "1000"))


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


def test_marks_end_with_their_threads(consumer):
    """A thread that ends while it is left with an exception counts no more."""
    g = nc.callback("d:d", raising)

    for _ in range(5):
        each(consumer.clearing, g.address())
    assert threads_left() == 0


# -- life ----------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("how", ["closed", "dropped"])
@pytest.mark.parametrize("threads", [1, 4])
def test_it_ends_while_threads_run_it(callers, unraisable, how, threads):
    """The calls in progress return what they should; then the function is released."""

    class Function:
        def __call__(self, x):
            entered.wait()
            ended.wait()
            return x

    entered, ended = threading.Barrier(threads + 1), threading.Event()
    made = [nc.callback("d:d", function := Function(), errors=-2.0, name="g")]
    address, gone = made[0].address(), weakref.ref(function)
    del function
    total = ctypes.c_double(0)
    run = threading.Thread(
        target=callers.in_threads, args=(address, threads, 1, ctypes.byref(total))
    )
    run.start()
    entered.wait()
    if how == "closed":
        made[0].close()
        late = ctypes.c_double(0)
        assert callers.in_threads(address, 1, 1, ctypes.byref(late)) == 0
        assert late.value == -2.0
        assert unraisable == [(RuntimeError, "callback 'g' is closed", "g")]
    else:
        made.clear()
    ended.set()
    run.join()
    assert total.value == sum(range(threads))
    assert gone() is None


LAZY = """
#include <Python.h>

double lazily(PyObject *type, double (*f)(double));

double lazily(PyObject *type, double (*f)(double))
{
    PyErr_SetNone(type);
    double result = f(1.0);
    PyErr_Clear();
    return result;
}
"""


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="exceptions are made where they are set")
def test_an_exception_that_is_set_may_delete_it(python, builder, monkeypatch):
    """To put the exception aside, it is made, which runs its class."""
    path = builder.library(LAZY, "lazily", flags=(f"-I{sysconfig.get_path('include')}",))
    code = """
import ctypes, sys
import nativecall as nc

class Error(Exception):
    def __init__(self):
        del held[:]

held = [nc.callback("d:d", lambda x: x + 1)]
lazily = ctypes.PyDLL(sys.argv[1]).lazily
lazily.argtypes, lazily.restype = [ctypes.py_object, ctypes.c_void_p], ctypes.c_double
print(lazily(Error, held[0].address()), held)
"""
    # What is freed is overwritten.
    monkeypatch.setenv("PYTHONMALLOC", "debug")
    assert python(code, path) == "2.0 []\n"


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


def test_the_end_of_a_function_may_run_another_callback():
    """One that dies in its own call as well."""
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
        each(run, number)
    gc.collect()
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


def test_recursion_without_a_function_of_pythons_is_raised(library, callers):
    """C code, a native callable, C code, and so on: no frame of Python's counts the depth."""
    function: Any = nc.load(library).function("call_kept", "d:d")
    endless = nc.callback("d:d", functools.partial(function))
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

    # Each place of a callback that ended says whose it was until it is used again, which is the
    # longer the more there have been.
    for _ in range(50):
        gc.collect()
        before = sys.getallocatedblocks()
        for _ in range(REPEAT):
            once()
        gc.collect()
        grown = sys.getallocatedblocks() - before
        if grown < 50:
            break
    assert grown < 50


# -- what is kept of signatures ------------------------------------------------------------------


def test_what_callbacks_of_a_signature_share_is_kept_up_to_a_bound():
    """The last ones are; callbacks keep theirs, and others of the signature get it anew."""

    def text(number: int) -> str:
        return f"d:&T{{d:x{number}:}}d"

    def function(pointer: Any, factor: float) -> float:
        return pointer.x0 * factor

    kept, limit = pythonfunction._specs, pythonfunction._specs.limit
    kept.clear()
    before = nc.callback(text(0), function)
    (key,) = kept
    for number in range(1, limit):
        pythonfunction.spec_of(parse(text(number)), bytes(8))
    assert (len(kept), key in kept) == (limit, True)
    pythonfunction.spec_of(parse(text(limit)), bytes(8))
    assert (len(kept), key in kept) == (limit, False)
    _callback._plans.clear()  # which know what callbacks of these texts share
    after = nc.callback(text(0), function)
    assert (len(kept), key in kept) == (limit, True)
    for g in (before, after):
        assert g(np.array([2.5]).view([("x0", "d")]), 4.0) == 10.0


def test_what_is_known_of_texts_is_kept_up_to_a_bound():
    """A callback that is made of what is known is as one that was made anew."""

    class Odd:
        __name__ = 3

        def __call__(self, x: float) -> float:
            return -x

    def told(x: float) -> float:
        """What it does."""
        return -x

    def unnamed(x):
        return -x

    unnamed.__name__ = "a\0b"
    plans = _callback._plans
    plans.clear()
    for _ in range(2):
        for function, name, doc in (
            (told, "told", "What it does."),
            (told.__get__(2.0, float), "told", "What it does."),
            (lambda x: -x, "<lambda>", None),
            (abs, "abs", abs.__doc__),
            (functools.partial(pow, 2.0), "function", functools.partial.__doc__),
            (unnamed, "function", None),
            (Odd(), "function", None),
        ):
            g = nc.callback("d:d" if name != "told" or function is told else "d:", function)
            assert type(g) is nc.Callback
            assert (g.__name__, g.__doc__, g.function) == (name, doc, function)
            assert (g.entries[0].gil, g.entries[0].errors) == ("hold", "none")
            g.close()
            assert g.closed
    # Without the GIL, a thread remembers what it found before.
    assert {*plans, *([] if HAS_GIL else ["d:d"])} == {"d:d", "d:"}
    for number in range(plans.limit):
        nc.callback(f"d:&T{{d:x{number}:}}", abs)
    assert len(plans) == plans.limit
    assert "d:d" not in plans
    assert nc.callback("d:d", abs)(-2.0) == 2.0
    with pytest.raises(TypeError, match="'function' must be callable"):
        nc.callback("d:d", 3)
