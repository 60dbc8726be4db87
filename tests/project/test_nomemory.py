"""Failed allocations, one or three, at every point of an operation: what was raised comes out, or
MemoryError.

A result is right or there is none, nothing is reported that a call from Python could raise, and
afterwards the operation works as before.
"""

from __future__ import annotations

import ctypes
import gc
import itertools
import os
import re
import sys
from collections.abc import Callable

import numpy as np
import pytest

import nativecall as nc

_testcapi = pytest.importorskip("_testcapi")
if not hasattr(_testcapi, "set_nomemory"):
    pytest.skip("this Python cannot fail allocations", allow_module_level=True)
if sys.version_info >= (3, 12):
    # Nothing of the core is on the stack of those crashes, so no test here could pass.
    reason = "without memory CPython 3.13.0 ends the process in Python code of its own"
    pytest.skip(reason, allow_module_level=True)
MOST = 400  # allocations of an operation that fail, one in each run
ENOUGH = 40  # runs one after the other that need no allocation any more


def alone(work: Callable[[], str]) -> str:
    """What `work` says in a child process, where no other thread allocates meanwhile, such as that
    by which a worker hears of its tests.
    """
    source, sink = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(sink, work().encode()[:4096])
        finally:
            os._exit(0)
    os.close(sink)
    with open(source, encoding="utf-8") as said:
        text = said.read()
    os.waitpid(child, 0)
    return text


def failing(run: Callable[[], object], n: int, more: int = 1) -> object:
    """What an operation answers, or its exception, when allocations from the n-th on fail, or
    none for -1."""
    if n >= 0:
        _testcapi.set_nomemory(n, n + more)
    try:
        return run()
    except BaseException as error:
        return error
    finally:
        _testcapi.remove_mem_hooks()


# -- what CPython does by itself -----------------------------------------------------------------


def _lost() -> bool:
    """Whether CPython loses exceptions in Python code that has nothing to do with us."""

    def raises(*values: object) -> None:
        raise LookupError

    def call(values: tuple[object, ...], keep: list[object]) -> None:
        raised: BaseException | None = None
        try:
            raises(*keep)
        except BaseException as error:
            raised = error
        try:
            if raised is not None:
                raise raised
        finally:
            raised = None

    def invoke(*values: object) -> None:
        keep: list[object] = []
        try:
            call(values, keep)
        finally:
            keep.clear()

    answers = [failing(lambda: invoke(1, 2), n) for n in range(50)]
    return any([isinstance(answer, SystemError) for answer in answers])


LOSES = _lost()
_LOST = re.compile(r"error return without exception set|<function .* returned NULL without .*")


def kind(answer: object) -> object:
    """An answer to compare: the class of an exception."""
    if not isinstance(answer, BaseException):
        return answer
    if LOSES and isinstance(answer, SystemError) and _LOST.fullmatch(str(answer)):
        return MemoryError
    if str(answer) == "argument 1: MemoryError: ":  # what ctypes makes of it
        return MemoryError
    return type(answer)


# -- operations ----------------------------------------------------------------------------------


def raising(x, y=None):
    raise LookupError("the function's own")


def ndim(array):
    return array.ndim


def calls() -> dict[str, tuple[Callable[[], object], object]]:
    """What is run, and its result; the exception's class where it raises."""
    ldexp = nc.load("m").function("ldexp", "d:di")
    thunk = ldexp.convert("d:dd")
    raises, inner = nc.callback("d:d", raising), nc.callback("i:[1]d", ndim)
    fixed = nc.callback("i:&(3)d", ndim)
    sort = nc.load("c").function("qsort", "v:&dQQX{i:PP}")
    numbers = np.arange(3.0)
    found = nc.callback("X{d:d}:i", lambda i: raising)
    converted = nc.callback("d:d", lambda x: thunk(1.0, 2.5))
    overloaded = nc.wrap({"d:di": ldexp.address(), "f:fi": nc.load("m").address("ldexpf")})
    div = nc.load("c").function("div", "T{i:quot:i:rem:}:ii")
    length = nc.load("c").function("strlen", "size_t (const char *)")
    near = nc.load("c").function("close", "i:i", errors="errno")
    objects, plus = nc.callback("O:O", lambda x: [x]), nc.callback("i:ii", lambda a, b: a + b)
    pair = nc.callback("T{i:a:d:b:}:T{i:a:d:b:}", lambda p: (p.a + 1, p.b))
    pointed = nc.callback("d:&d", lambda p: p[0])
    variadic = nc.load("c").function("snprintf", "i:&cQ&c.")
    frexp, exponent = nc.load("m").function("frexp", "d:d&i"), ctypes.byref(ctypes.c_int())
    return {
        "call": (lambda: ldexp(1.5, 1), 3.0),
        "view of a callable": (lambda: ldexp.builtin(1.5, 1), 3.0),
        "overload": (lambda: overloaded(1.5, 1), 3.0),
        "refused": (lambda: ldexp("x", 1), TypeError),
        "out of range": (lambda: ldexp(1.5, 2**40), OverflowError),
        "named tuple": (lambda: div(7, 2).rem, 1),
        "byref": (lambda: frexp(8.0, exponent), 0.5),
        "memoryview": (lambda: length(memoryview(b"four\0")), 4),
        "callback": (lambda: raises(1.0), LookupError),
        "convert": (lambda: thunk(1.0, 2.5), ValueError),
        "callback of a thunk": (lambda: converted(1.0), ValueError),
        "Python function": (lambda: sort(numbers, 3, 8, raising), LookupError),
        "view": (lambda: inner(numbers), 1),
        "array": (lambda: fixed(numbers), 1),
        "returned function": (lambda: found(1) is None, False),
        "no overload": (lambda: overloaded("x", 1), TypeError),
        "struct": (lambda: tuple(pair((1, 2.0))), (2, 2.0)),
        "errno": (lambda: near(-1), OSError),
        "status": (lambda: plus.convert("i:ii")(1, 2), 3),
        "objects": (lambda: objects(5), [5]),
        "pointer": (lambda: pointed(numbers), 0.0),
        "wrong result": (lambda: sort(numbers, 3, 8, lambda x, y: "x"), TypeError),
        "raising callback in ctypes": (lambda: raises.to_ctypes()(1.0), LookupError),
        "variadic": (lambda: variadic(None, 0, b"%d", 12), 2),
    }


def makings() -> dict[str, tuple[Callable[[], object], object]]:
    """The same of what makes something."""
    libm = nc.load("m")
    ldexp = libm.function("ldexp", "d:di")
    address, capsule, box = ldexp.address(), ldexp.to_capsule(), ldexp.to_ctypes()
    single = libm.address("ldexpf")  # to look up a symbol lets other threads run
    cdata, cos = ldexp.to_cffi(), libm.function("cos", "d:d")
    fresh = itertools.count()

    def specialize() -> object:
        f = nc.wrap({"f:fi": single})
        f.specialize = lambda f, text: address if text == "d:di" else None
        return f["d:di"](1.5, 1)

    def slots() -> object:
        made = nc.extensibletype("T", (), {"__customslots__": {"a": 2}})
        return [(slot.key, slot.data) for slot in nc.customslots(made)]

    def add() -> object:
        f = nc.wrap(address, "d:di")
        f.add("f:fi", single)
        f.add("d:di", address, replace=True)
        return f.signatures

    def closed() -> object:
        f = nc.callback("d:d", abs)
        f(1.0)
        f.close()
        return f(1.0)

    def subclass() -> object:
        made = type(nc.NativeCallable)("C", (nc.NativeCallable,), {"__customslots__": {"k": 2}})
        obj = made(address, "d:di")
        made.__call__ = lambda self, x, n: 5.0
        after = obj(1.5, 1)
        del made.__call__
        return after, obj(1.5, 1)

    def declared() -> object:
        return nc.wrap(address, f"double (double x{next(fresh)}, int n)")(1.5, 1)

    return {
        "wrap": (lambda: nc.wrap(address, "d:di")(1.5, 1), 3.0),
        "wrap overloads": (lambda: nc.wrap({"d:di": address}).signatures, ("d:di",)),
        "wrap a capsule": (lambda: nc.wrap(capsule)(1.5, 1), 3.0),
        "wrap ctypes": (lambda: nc.wrap(box)(1.5, 1), 3.0),
        "wrap cffi": (lambda: nc.wrap(cdata)(1.5, 1), 3.0),
        "wrap a declaration": (declared, 3.0),
        "bind": (lambda: ldexp.bind(1.5)(1), 3.0),
        "convert anew": (lambda: ldexp.convert("d:dd")(1.5, 1.0), 3.0),
        "callback anew": (lambda: nc.callback("d:d", raising)(1.0), LookupError),
        "load": (lambda: nc.load("m", "double ldexp(double, int);").ldexp(1.5, 1), 3.0),
        "specialize": (specialize, 3.0),
        "to_capsule": (lambda: nc.wrap(ldexp.to_capsule())(1.5, 1), 3.0),
        "to_ctypes": (lambda: nc.wrap(ldexp.to_ctypes())(1.5, 1), 3.0),
        "to_cffi": (lambda: ldexp.to_cffi()(1.5, 1), 3.0),
        "slots of a class": (slots, [(b"a", 2)]),
        "add": (add, ("d:di", "f:fi")),
        "closed callback": (closed, RuntimeError),
        "sentinel": (lambda: nc.callback("i:i", lambda x: x, errors=7)(1), 1),
        "subclass": (subclass, (5.0, 3.0)),
        "no entry": (lambda: ldexp["q:q"], nc.NoEntryError),
        "entries": (lambda: [row.signature for row in ldexp.entries], ["d:di"]),
        "repr": (lambda: repr(ldexp), "<native callable ldexp 'd:di'>"),
        "reduce": (lambda: callable(ldexp.__reduce__()[0]), True),
        "bad signature": (lambda: nc.wrap(address, "d:w"), nc.SignatureError),
        "bad declaration": (lambda: nc.wrap(address, "double (nothing)"), nc.SignatureError),
        "no library": (lambda: nc.load("/no/such"), nc.LibraryError),
        "to_scipy": (lambda: len(cos.to_scipy()), 3),
    }


OPERATIONS = {**calls(), **makings()}


@pytest.mark.parametrize("more", [1, 3])
@pytest.mark.parametrize("name", OPERATIONS)
def test_failed_allocations(name, more, monkeypatch, request):
    run, expected = OPERATIONS[name]
    reported: list[str] = []
    # What other tests or earlier runs left would end without memory, whenever a collection begins.
    gc.collect()
    monkeypatch.setattr(sys, "unraisablehook", lambda hook: reported.append(repr(hook.exc_value)))
    gc.disable()
    request.addfinalizer(gc.enable)

    def wrong() -> str:
        found, n, calm = [], -1, 0
        while calm < ENOUGH and n < MOST:
            n += 1
            answer = failing(run, n, more)
            calm = calm + 1 if kind(answer) == expected else 0
            after = failing(run, -1)
            if more > 1:  # destructors may have no memory, and no caller to say so to
                reported[:] = [one for one in reported if one != "MemoryError()"]
            if kind(answer) not in (expected, MemoryError) or reported or kind(after) != expected:
                found.append((n, answer, after, reported.copy()))
                reported.clear()
        return repr(found)

    assert kind(failing(run, -1)) == expected
    assert alone(wrong) == "[]"
