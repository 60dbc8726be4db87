"""Operations whose n-th allocation fails, or hundreds from the n-th on.

An operation then raises MemoryError, or works without that memory; the exception that it would have
raised may come instead. Afterwards it works as ever. Code is generated beforehand: LLVM ends the
process where it has no memory, and llvmlite disposes of things twice or too late.
"""

from __future__ import annotations

import array
import contextlib
import copy
import ctypes
import itertools
import pickle
import random
import re
import sys
from collections.abc import Callable
from typing import Any

from driver import Finding, Tools

GROWTH = 6000
# Hooks that would note it have no memory either.
MAY_PRINT = (
    r"(Exception ignored (in|on building sys\.unraisablehook arguments)[^\n]*\n"
    r"(Traceback[^\n]*\n( [^\n]*\n)*)?MemoryError:? *\n)+"
)
# Where a list in a comprehension cannot grow, CPython 3.15 drops the item at an instruction that it
# takes for one that drops nothing, so its debug build finds the frame without a stack pointer.
MAY_ABORT = r"stackpointer != NULL' failed[\s\S]*_PyList_AppendTakeRefListResize"
SOURCE = """
typedef struct { int a; double b; } Pair;
Pair swap(Pair p) { Pair q = {(int)p.b, p.a}; return q; }
double apply(double (*f)(double), double x) { return f(x); }
double sum(const double *x, long n)
{ double s = 0; for (long i = 0; i < n; i++) s += x[i]; return s; }
int fail(int n) { return n; }
double one(double x) { return x + 1; }
float onef(float x) { return x + 1; }
double view(void *v) { return **(double **)v; }
double array(double *x) { return x[0] + x[3]; }
double many(int n, ...) { return n; }
"""


def missing() -> str | None:
    if sys.version_info >= (3, 12):
        return "CPython from 3.12 on crashes in Python code of its own without memory"
    try:
        import _testcapi
    except ImportError:
        return "this Python has no _testcapi"
    return None if hasattr(_testcapi, "set_nomemory") else "_testcapi has no set_nomemory"


class World:
    def __init__(self, tools: Tools) -> None:
        import _testcapi

        import nativecall as nc

        self.nc = nc
        self.fail_from = _testcapi.set_nomemory
        self.stop = _testcapi.remove_mem_hooks
        self.unraisable = tools.unraisable
        self.path = tools.library("allocation")
        self.lib = lib = nc.load(self.path)
        self.one = lib.function("one", "d:d")
        self.address = self.one.address()
        self.apply = lib.function("apply", "d:X{d:d}d")
        self.swap = lib.function("swap", "T{i:a:d:b:}:T{i:a:d:b:}")
        self.sum = lib.function("sum", "double (const double *, long)")
        self.doubles = array.array("d", [1, 2, 3, 4])
        self.fresh = itertools.count()
        self.operations = operations(self)
        for name, (operation, right) in self.operations.items():
            _judge(self, name, operation, right)


def make(tools: Tools) -> World:
    return World(tools)


class Said(Exception):
    """What the Python functions of operations raise."""


def _raising(x: float) -> float:
    raise Said("no")


def _refused(call: Callable[[], object], *kinds: type[BaseException]) -> str:
    try:
        call()
    except kinds:
        return "refused"
    return "accepted"


def operations(world: World) -> dict[str, tuple[Callable[[], Any], Any]]:
    """Each with what it gives."""
    nc, lib, one, address = world.nc, world.lib, world.one, world.address
    lowlevel: Any = None
    with contextlib.suppress(ImportError):
        from scipy import LowLevelCallable as lowlevel
    callback = nc.callback("d:d", lambda x: x + 1)
    raising = nc.callback("d:d", _raising)
    overloaded = nc.wrap({"d:d": address, "f:f": lib.address("onef")})
    ldexp = nc.load("m").function("ldexp", "d:di")
    narrowed = ldexp.convert("d:dd")
    bound = ldexp.bind(..., 3)
    status = lib.function("fail", "i:i", errors="nonzero")
    errno = nc.load(None).function("close", "i:i", errors="errno")
    objects = nc.callback("O:O", lambda x: [x])
    strided = nc.callback("d:[1]d", lambda x: float(x[1]))
    fixed = nc.callback("d:&(4)d", lambda x: float(x[3]))
    struct = nc.callback("T{i:a:d:b:}:T{i:a:d:b:}", lambda p: (p.a + 1, p.b))
    pointer = nc.callback("d:&d", lambda p: p[0])
    box, cbox = one.to_ctypes(), one.to_cffi()
    capsule = one.to_capsule()
    variadic = lib.function("many", "d:i.")
    dumped = pickle.dumps(one)

    def add() -> Any:
        f = nc.wrap(address, "d:d")
        f.add("f:f", lib.address("onef"))
        f.add("d:d", address, replace=True)
        return f.signatures, f(1.0)

    def specialize() -> Any:
        f = nc.wrap({"f:f": lib.address("onef")})
        f.specialize = lambda f, text: address if text == "d:d" else None
        return f["d:d"](1.0)

    def close() -> Any:
        f = nc.callback("d:d", lambda x: x)
        f(1.0)
        f.close()
        return f.closed, _refused(lambda: f(1.0), RuntimeError)

    def subclass() -> Any:
        C = type(nc.NativeCallable)("C", (nc.NativeCallable,), {"__customslots__": {"k": 2}})
        c = C(address, "d:d")
        before = c(1.0)
        C.__call__ = lambda self, x: 5.0
        after = c(1.0)
        del C.__call__
        return before, after, c(1.0)

    def load() -> Any:
        with nc.load(world.path, "double one(double x); enum { A = 3 };") as found:
            return found.one(1.0), found.A

    def parse() -> Any:
        number = next(world.fresh)
        return nc.Signature.__name__, nc.wrap(address, f"double (double x{number})")(1.0)

    return {
        "call": (lambda: one(1.0), 2.0),
        "keyword": (lambda: nc.wrap(address, "double (double x)")(x=1.0), 2.0),
        "view": (lambda: one.builtin(1.0), 2.0),
        "refused call": (lambda: _refused(lambda: one("x"), TypeError), "refused"),
        "out of range": (lambda: _refused(lambda: ldexp(1.0, 2**40), OverflowError), "refused"),
        "overload": (lambda: overloaded(1.0), 2.0),
        "no overload": (lambda: _refused(lambda: overloaded("x"), TypeError), "refused"),
        "struct": (lambda: tuple(world.swap((1, 2.0))), (2, 1.0)),
        "struct by name": (lambda: tuple(world.swap({"a": 1, "b": 2.0})), (2, 1.0)),
        "buffer": (lambda: world.sum(world.doubles, 4), 10.0),
        "ctypes pointer": (lambda: world.sum(ctypes.pointer(ctypes.c_double(3)), 1), 3.0),
        "function": (lambda: world.apply(one, 1.0), 2.0),
        "ctypes function": (lambda: world.apply(box, 1.0), 2.0),
        "Python function": (lambda: world.apply(lambda x: x + 1, 1.0), 2.0),
        "raising Python function": (lambda: world.apply(_raising, 1.0), Said),
        "wrong Python function": (lambda: world.apply(lambda x: "x", 1.0), TypeError),
        "callback": (lambda: callback(1.0), 2.0),
        "callback from C": (lambda: world.apply(callback, 1.0), 2.0),
        "raising callback": (lambda: raising(1.0), Said),
        "raising callback from C": (lambda: world.apply(raising, 1.0), Said),
        "raising callback in ctypes": (lambda: raising.to_ctypes()(1.0), Said),
        "narrowed": (lambda: narrowed(1.0, 3.0), 8.0),
        "not narrowed": (lambda: narrowed(1.0, 2.5), ValueError),
        "bound": (lambda: bound(1.0), 8.0),
        "bind": (lambda: ldexp.bind(..., 3)(1.0), 8.0),
        "status": (lambda: status(3), nc.NativeFailure),
        "errno": (lambda: errno(-1), OSError),
        "object callback": (lambda: objects(5), [5]),
        "view callback": (lambda: strided(world.doubles), 2.0),
        "array callback": (lambda: fixed(world.doubles), 4.0),
        "struct callback": (lambda: tuple(struct((1, 2.0))), (2, 2.0)),
        "pointer callback": (lambda: pointer(world.doubles), 1.0),
        "new callback": (lambda: nc.callback("d:d", lambda x: x)(1.0), 1.0),
        "sentinel": (lambda: nc.callback("i:i", lambda x: x, errors=7)(1), 1),
        "closed callback": (close, (True, "refused")),
        "wrap": (lambda: nc.wrap(address, "d:d", name="n", doc="d", owner=lib)(1.0), 2.0),
        "wrap overloads": (lambda: nc.wrap({"d:d": address, "f:f": address}).signatures,
                           ("d:d", "f:f")),
        "wrap ctypes": (lambda: nc.wrap(box)(1.0), 2.0),
        "wrap cffi": (lambda: nc.wrap(cbox)(1.0), 2.0),
        "wrap capsule": (lambda: nc.wrap(capsule)(1.0), 2.0),
        "to_ctypes": (lambda: one.to_ctypes()(1.0), 2.0),
        "to_cffi": (lambda: one.to_cffi()(1.0), 2.0),
        "to_capsule": (lambda: nc.wrap(one.to_capsule())(1.0), 2.0),
        "add": (add, (("d:d", "f:f"), 2.0)),
        "specialize": (specialize, 2.0),
        "subclass": (subclass, (2.0, 5.0, 2.0)),
        "getitem": (lambda: overloaded["float (float)"](1.0), 2.0),
        "no entry": (lambda: overloaded["q:q"], nc.NoEntryError),
        "entries": (lambda: [row.signature for row in overloaded.entries], ["d:d", "f:f"]),
        "repr": (lambda: repr(one), "<native callable one 'd:d'>"),
        "pickle": (lambda: pickle.loads(pickle.dumps(one))(1.0), 2.0),
        "unpickle": (lambda: pickle.loads(dumped)(1.0), 2.0),
        "copy": (lambda: copy.deepcopy(one)(1.0), 2.0),
        "bad signature": (lambda: nc.wrap(address, "d:w"), nc.SignatureError),
        "bad declaration": (lambda: nc.wrap(address, "double (no_such)"), nc.SignatureError),
        "declaration": (parse, ("Signature", 2.0)),
        "load": (load, (2.0, 3)),
        "no symbol": (lambda: lib.function("on", "d:d"), nc.SymbolError),
        "no library": (lambda: nc.load("/no/such"), nc.LibraryError),
        "customslots": (lambda: len(nc.customslots(one)) > 0, True),
        "class with slots": (
            lambda: [
                (s.key, s.data)
                for s in nc.customslots(nc.extensibletype("T", (), {"__customslots__": {"a": 2}}))
            ],
            [(b"a", 2)],
        ),
        "variadic": (lambda: variadic(3, 1.0, 2), 3.0),
        **(
            {}
            if lowlevel is None
            else {"to_scipy": (lambda: isinstance(one.to_scipy(), lowlevel), True)}
        ),
    }  # fmt: skip


def _judge(world: World, name: str, operation: Callable[[], Any], right: Any) -> None:
    """Run an operation, and see that it does what it should."""
    raises = isinstance(right, type)
    try:
        answer = operation()
    except Exception as error:
        if raises and isinstance(error, right):
            return
        raise
    if raises:
        raise Finding(f"{name!r} did not raise {right.__name__}: {answer!r}")
    if right is not None and answer != right:
        raise Finding(f"{name!r} gave {answer!r}, not {right!r}")


_CPYTHON = (
    r"can't allocate|Can't pickle <function|error return without exception set|"
    r"<function .* returned NULL|"
    r"'\w+' failed without setting|expected str, bytes or os.PathLike object, not PosixPath"
)


def _is_for_want_of_memory(error: BaseException) -> bool:
    """Whether an exception says so, as far as the libraries below say it."""
    if isinstance(error, MemoryError):
        return True
    if isinstance(error, ctypes.ArgumentError):
        return "MemoryError" in str(error)
    # What CPython itself says: 3.11 sets nothing where it has no memory for a Python function's
    # frame, and look-ups of special methods take want of memory for want of the method. A built-in
    # of ours that forgot its exception would be named.
    return bool(re.match(_CPYTHON, str(error)))


def step(world: World, r: random.Random) -> None:
    name = r.choice(list(world.operations))
    operation, right = world.operations[name]
    first = r.choice((r.randrange(12), r.randrange(60), r.randrange(400), r.randrange(3000)))
    # Not all that follow: CPython tries for ever to note where a `finally` was left.
    last = first + r.choice((1, 1, 1, 2, 5, 500))
    try:
        world.fail_from(first, last)
        try:
            _judge(world, name, operation, right)
        finally:
            world.stop()
    except Finding as error:
        raise Finding(f"allocation {first} to {last}: {error}") from None
    except BaseException as error:
        if not _is_for_want_of_memory(error):
            raise RuntimeError(f"allocation {first} to {last} of {name!r}") from error
    # Destructors may have no memory, and no caller to say so to.
    world.unraisable[:] = [one for one in world.unraisable if one[0] is not MemoryError]
    try:
        _judge(world, name, operation, right)
    except BaseException as error:
        raise RuntimeError(f"after allocation {first} to {last} failed in {name!r}") from error
