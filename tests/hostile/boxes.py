"""Boxes sent round through every form, one into the next.

What comes back from a box of ours is what went in: the same entry, with signature, error convention
and need of the GIL, views and Python objects included. A form that cannot carry that is refused
when it is made. Values go through the last box as through the first callable.
"""

from __future__ import annotations

import array
import copy
import ctypes
import pickle
import random
from collections.abc import Callable
from typing import Any

from driver import Finding, Planned, Tools

EXPECTED = (KeyError,)
GROWTH = 12000
SOURCE = """
#include <errno.h>
typedef struct { int a; double b; } Pair;
double one(double x) { return x + 1; }
float onef(float x) { return x + 1; }
int status(int n) { return n; }
int complain(int n) { errno = n; return n ? -1 : 0; }
char *null(int n) { return n ? "text" : 0; }
double total(const double *x, long n)
{ double s = 0; for (long i = 0; i < n; i++) s += x[i]; return s; }
double last(const double *x) { return x[3]; }
Pair swap(Pair p) { Pair q = {(int)p.b, p.a}; return q; }
double apply(double (*f)(double), double x) { return f(x); }
int many(int n, ...) { return n; }
"""


def missing() -> str | None:
    return None


class Source:
    """A callable, how to make it, how to call it and what it then gives."""

    def __init__(self, make: Callable[[], Any], arguments: tuple[Any, ...], answer: Any) -> None:
        self.make, self.arguments, self.answer = make, arguments, answer


class World:
    def __init__(self, tools: Tools) -> None:
        import nativecall as nc

        self.nc = nc
        self.lib = lib = nc.load(tools.library("boxes"))
        self.numpy = self.module("numpy")
        self.cffi = self.module("cffi")
        thing = object()
        doubles = array.array("d", [1, 2, 3, 4])

        def raising(x: float) -> float:
            raise Planned("in a box")

        def function(name: str, text: str, **options: Any) -> Callable[[], Any]:
            return lambda: lib.function(name, text, **options)

        def callback(text: str, run: Any, **options: Any) -> Callable[[], Any]:
            return lambda: nc.callback(text, run, **options)

        pair = "T{i:a:d:b:}"
        self.sources = [
            Source(function("one", "d:d"), (1.0,), 2.0),
            Source(function("one", "d:d", gil="need"), (1.0,), 2.0),
            Source(function("one", "d:d", gil="release"), (1.0,), 2.0),
            Source(function("one", "d:d", errno=True), (1.0,), 2.0),
            Source(function("status", "i:i", errors="nonzero"), (0,), 0),
            Source(function("status", "i:i", errors="nonzero"), (3,), nc.NativeFailure),
            Source(function("status", "i:i", errors="zero"), (0,), nc.NativeFailure),
            Source(function("complain", "i:i", errors="errno"), (9,), OSError),
            Source(function("null", "&c:i", errors="null"), (0,), nc.NativeFailure),
            Source(function("total", "double (const double *, long)"), (doubles, 4), 10.0),
            Source(function("total", "double (const double *, long)"), (b"12345678", 0), 0.0),
            Source(function("last", "d:&(4)d"), (doubles,), 4.0),
            Source(function("swap", f"{pair}:{pair}"), ((1, 2.0),), (2, 1.0)),
            Source(function("apply", "d:X{d:d}d"), (lambda x: x * 3, 2.0), 6.0),
            Source(function("many", "i:i."), (3,), 3),
            Source(callback("d:d", lambda x: x + 1), (1.0,), 2.0),
            Source(callback("d:d", lambda x: x + 1, gil="need"), (1.0,), 2.0),
            Source(callback("d:d", raising), (1.0,), Planned),
            Source(callback("d:d", raising, errors=1.0), (1.0,), Planned),
            Source(callback("d:d", raising, errors="python"), (1.0,), Planned),
            Source(callback("i:i", lambda x: 0, errors="nonzero"), (1,), 0),
            Source(callback("O:O", lambda x: x), (thing,), thing),
            Source(callback("d:O", lambda x: 1.5), (thing,), 1.5),
            Source(callback("O:i", lambda x: thing), (1,), thing),
            Source(callback("O:O", raising, errors="python"), (thing,), Planned),
            Source(callback("d:[1]d", lambda v: float(v[1])), (doubles,), 2.0),
            Source(callback("d:&(4)d", lambda v: float(v[3])), (doubles,), 4.0),
            Source(callback("d:T{O:o:d:x:}", lambda s: s.x), ((thing, 2.5),), 2.5),
            Source(callback(f"{pair}:{pair}", lambda p: (p.a + 1, p.b)), ((1, 2.0),), (2, 2.0)),
            Source(callback("d:&d", lambda p: p[1]), (doubles,), 2.0),
            Source(callback("d:X{d:d}", lambda f: f(2.0)), (lambda x: x + 1,), 3.0),
            Source(callback("T{i:z:}:i", lambda x: (x,)), (3,), (3,)),
            Source(lambda: nc.wrap({"d:d": lib.function("one", "d:d")})["d:d"], (1.0,), 2.0),
            Source(lambda: lib.function("one", "d:d").bind(1.0), (), 2.0),
            Source(lambda: lib.function("one", "d:d").convert("d:f"), (1.0,), 2.0),
            Source(lambda: lib.function("status", "i:i", errors="nonzero").bind(2), (),
                   nc.NativeFailure),
        ]  # fmt: skip
        from nativecall import _lib

        self.flag_mask = ~(_lib.FLAG_ERRNO)

    def module(self, name: str) -> Any:
        try:
            return __import__(name)
        except ImportError:
            return None


def make(tools: Tools) -> World:
    return World(tools)


# -- forms: each takes a native callable, and gives a box or another callable ---------------------


def _scipy(world: World, r: random.Random, f: Any) -> Any:
    return f.to_scipy(f.signatures[0])


def _pickled(world: World, r: random.Random, f: Any) -> Any:
    return pickle.loads(pickle.dumps(f, r.choice([2, 5])))


def _of_mapping(world: World, r: random.Random, f: Any) -> Any:
    return world.nc.wrap({f.signatures[0]: f})[f.signatures[0]]


def _added(world: World, r: random.Random, f: Any) -> Any:
    g = world.nc.wrap({"v:dhdhdh": world.lib.address("one")})
    g.add(None, f)
    return g[f.signatures[0]]


def _specialized(world: World, r: random.Random, f: Any) -> Any:
    g = world.nc.wrap({"v:dhdhdh": world.lib.address("one")})
    g.specialize = lambda g, text: f
    return g[f.signatures[0]]


def _capsule_again(world: World, r: random.Random, f: Any) -> Any:
    return world.nc.wrap(f.to_capsule(), f.signatures[0])


FORMS: dict[str, Callable[[World, random.Random, Any], Any]] = {
    "to_ctypes": lambda w, r, f: f.to_ctypes(),
    "to_cffi": lambda w, r, f: f.to_cffi(),
    "to_capsule": lambda w, r, f: f.to_capsule(),
    "to_scipy": _scipy,
    "builtin": lambda w, r, f: f.builtin,
    "pickle": _pickled,
    "copy": lambda w, r, f: copy.copy(f),
    "deepcopy": lambda w, r, f: copy.deepcopy(f),
    "getitem": lambda w, r, f: f[f.signatures[0]],
    "mapping": _of_mapping,
    "add": _added,
    "specialize": _specialized,
    "capsule with signature": _capsule_again,
    "bind nothing": lambda w, r, f: f.bind(),
    "convert to itself": lambda w, r, f: f.convert(f.signatures[0]),
    "renamed": lambda w, r, f: w.nc.wrap(f, name="other"),
    "pickled box": lambda w, r, f: pickle.loads(pickle.dumps(f.builtin)),
    "ctypes cast": lambda w, r, f: ctypes.cast(f.to_ctypes(), type(f.to_ctypes())),
    "ctypes copy": lambda w, r, f: copy.copy(f.to_ctypes()),
    "in an array": lambda w, r, f: (type(f.to_ctypes()) * 1)(f.to_ctypes())[0],
}
# Forms that lose who made the box: what a foreign library casts is that library's.
FOREIGN = ("ctypes cast", "ctypes copy", "in an array")


def _told(world: World, f: Any) -> tuple[Any, ...]:
    """What must survive."""
    (row,) = f.entries
    flags = row.flags & world.flag_mask
    return (
        row.signature,
        flags,
        row.errors,
        row.gil,
        tuple(map(bool, f._spec.readonly))
        if (hasattr(getattr(f, "_spec", None), "readonly"))
        else (),
    )


def _call(source: Source, box: Any, path: str) -> None:
    """Call a box of ours with what its source takes."""
    try:
        answer = box(*source.arguments)
    except BaseException as error:
        if isinstance(source.answer, type) and isinstance(error, source.answer):
            return
        raise
    if isinstance(source.answer, type):
        raise Finding(f"{path}: no {source.answer.__name__}, but {answer!r}")
    if answer != source.answer:
        raise Finding(f"{path}: {answer!r}, not {source.answer!r}")


def step(world: World, r: random.Random) -> None:
    nc = world.nc
    number = r.randrange(len(world.sources))
    source = world.sources[number]
    f = source.make()
    told = _told(world, f)
    path = f"source {number} {told[0]}"
    foreign = False
    keep = [f]
    for _ in range(r.randrange(1, 6)):
        name = r.choice(list(FORMS))
        try:
            box = FORMS[name](world, r, f)
        except (nc.NativeCallError, TypeError, ValueError, ImportError):
            continue
        keep.append(box)
        path += f" -> {name}"
        _as_argument(world, r, box, told, path)
        try:
            g = nc.wrap(box)
        except (nc.NativeCallError, TypeError, ValueError):
            # Its signature is not known, so it has to be told.
            continue
        foreign = foreign or name in FOREIGN
        if g.entries == ():
            raise Finding(f"{path}: no entries")
        now = _told(world, g)
        if foreign:
            # What needs the GIL must not become what does not.
            lost = "O" in told[0] or "[" in told[0]
            if lost and now[0] != told[0]:
                raise Finding(f"signature lost in {name!r}\n{path}: {told} became {now}")
            foreign = False
            continue
        if now != told:
            what = [i for i in range(len(told)) if told[i] != now[i]]
            names = ", ".join(("signature", "flags", "errors", "gil", "readonly")[i] for i in what)
            raise Finding(f"{names} lost in {name!r}\n{path}: {told} became {now}")
        f = g
        if r.random() < 0.5:
            _call(source, f, path)
            keep.clear()
    _call(source, f, path)


def _as_argument(world: World, r: random.Random, box: Any, told: Any, path: str) -> None:
    """Give a box for a function pointer: what needs the GIL is not called without it."""
    if told[0] != "d:d":
        return
    apply = world.lib.function("apply", "d:X{d:d}d", gil="release")
    try:
        answer = apply(box, 1.0)
    except (Planned, TypeError):
        return
    if told[3] == "need" and callable(box):
        raise Finding(f"{path}: needs the GIL, and was called without it")
    if answer not in (2.0, 1.0):
        raise Finding(f"{path}: as an argument it gave {answer!r}")
