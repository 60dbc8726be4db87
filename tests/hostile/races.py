"""Several threads at one callable, which is called, extended, converted, bound and closed at once.

A call gives the answer of an entry that was there, or a clear error of a callable that is closed.
The interpreter switches threads as often as it can; some threads are C's own and know no Python.
"""

from __future__ import annotations

import contextlib
import gc
import random
import sys
import sysconfig
import threading
from collections.abc import Callable
from typing import Any

from driver import Finding, Planned, Tools

GROWTH = 200_000
HAS_GIL = not sysconfig.get_config_var("Py_GIL_DISABLED")
SOURCE = """
#include <pthread.h>
double one(double x) { return x + 1; }
double two(double x) { return x + 2; }
float onef(float x) { return x + 1; }
long onel(long x) { return x + 1; }
double add(double x, double y) { return x + y; }
double apply(double (*f)(double), double x) { return f(x); }
typedef struct { double (*f)(double); int n; double last; } Job;
static void *work(void *data)
{
    Job *job = data;
    for (int i = 0; i < job->n; i++) job->last = job->f(1.0);
    return 0;
}
/* Calls from n threads that Python does not know; the sum of their last results. */
double in_threads(double (*f)(double), int n, int calls)
{
    pthread_t threads[16];
    Job jobs[16];
    double sum = 0;
    for (int i = 0; i < n; i++) {
        jobs[i].f = f;
        jobs[i].n = calls;
        pthread_create(&threads[i], 0, work, &jobs[i]);
    }
    for (int i = 0; i < n; i++) pthread_join(threads[i], 0);
    for (int i = 0; i < n; i++) sum += jobs[i].last;
    return sum;
}
"""
LETTERS = "bhiqfdBHIQ"


def missing() -> str | None:
    return None


class World:
    def __init__(self, tools: Tools) -> None:
        import nativecall as nc

        self.nc = nc
        self.lib = nc.load(tools.library("races"))
        address = self.lib.address
        self.one, self.two = address("one"), address("two")
        self.onef, self.onel, self.add = address("onef"), address("onel"), address("add")
        self.apply = self.lib.function("apply", "d:X{d:d}d")
        self.apply_free = self.lib.function("apply", "d:X{d:d}d", gil="release")
        self.threads = self.lib.function("in_threads", "d:X{d:d}ii", gil="release")
        sys.setswitchinterval(1e-6)


def make(tools: Tools) -> World:
    return World(tools)


class Closed(Exception):
    """A callback was closed meanwhile."""


def _right(answer: Any, *allowed: Any) -> None:
    if answer not in allowed:
        raise Finding(f"{answer!r} is none of {allowed}")


def _shape(r: random.Random) -> str:
    return "".join(r.choice(LETTERS) for _ in range(r.randrange(1, 7)))


def _tasks(world: World, r: random.Random) -> list[Callable[[random.Random], None]]:
    """What the threads of a step may do to what they share."""
    nc = world.nc
    f = nc.wrap(world.one, "d:d", name="f")
    overloaded = nc.wrap({"d:d": world.one, "f:f": world.onef}, name="g")
    asked: list[str] = []

    def hook(f: Any, text: str) -> Any:
        asked.append(text)
        if text == "d:dq":
            raise Planned(text)
        return {"d:dd": world.add, "q:q": world.onel}.get(text)

    special = nc.wrap({"f:f": world.onef}, name="s")
    special.specialize = hook
    callback = nc.callback("d:d", lambda x: x + 1)
    raising = nc.callback("d:d", _raise)
    closing = nc.callback("d:d", lambda x: x + 1)
    shared = _shape(r)
    Sub = type(nc.NativeCallable)("Sub", (nc.NativeCallable,), {})
    sub = Sub(world.one, "d:d")
    # Two threads that set a special method of a class block each other there (cpython#155400).
    is_fixed = HAS_GIL or not (3, 15) <= sys.version_info < (3, 15, 0, "final")
    one_setter = contextlib.nullcontext() if is_fixed else threading.Lock()

    def call(r: random.Random) -> None:
        _right(f(1.0), 2.0, 3.0)
        _right(f.builtin(1.0), 2.0, 3.0)

    def overload(r: random.Random) -> None:
        _right(overloaded(1.0), 2.0, 3.0)
        _right(overloaded(1), 2, 2.0, 3.0)

    def add(r: random.Random) -> None:
        with contextlib.suppress(ValueError):
            f.add("d:" + _shape(r) + "P", world.one)
        with contextlib.suppress(ValueError):
            overloaded.add("q:q", world.onel)

    def replace(r: random.Random) -> None:
        for one in (f, overloaded):
            one.add("d:d", r.choice([world.one, world.two]), replace=True)

    def getitem(r: random.Random) -> None:
        _right(f["d:d"](1.0), 2.0, 3.0)
        _right(special["d:dd"](1.0, 2.0), 3.0)
        _right(special["q:q"](1), 2)
        with contextlib.suppress(Planned):
            special["d:dq"]
            raise Finding("the hook's exception was lost")
        try:
            special["d:ddd"]
            raise Finding("an entry from nowhere")
        except nc.NoEntryError:
            pass

    def convert(r: random.Random) -> None:
        _right(f.convert("f:f")(1.0), 2.0, 3.0)
        _right(special.convert("d:f")(1.0), 2.0)
        _right(overloaded.convert("d:&d")(__import__("array").array("d", [1.0])), 2.0, 3.0)

    def bind(r: random.Random) -> None:
        _right(f["d:d"].bind(1.0)(), 2.0, 3.0)
        g = nc.wrap(world.add, "d:dd")
        _right(g.bind(r.randrange(9), ...)(1.0) >= 1, True)

    def new_shape(r: random.Random) -> None:
        text = "d:d" + shared
        nc.wrap(world.one, text)(1.0, *[1] * len(shared))
        g = nc.callback(text, lambda *args: 5.0)
        _right(g(1.0, *[1] * len(shared)), 5.0)

    def boxes(r: random.Random) -> None:
        g = r.choice([f, callback])
        box = r.choice([g.to_ctypes, g.to_capsule])("d:d")
        _right(nc.wrap(box, "d:d")(1.0), 2.0, 3.0)

    def apply(r: random.Random) -> None:
        used = r.choice([world.apply, world.apply_free])
        one = r.choice([f, callback, lambda x: x + 1, overloaded, f.builtin])
        _right(used(one, 1.0), 2.0, 3.0)

    def native(r: random.Random) -> None:
        n = r.randrange(1, 4)
        answer = world.threads(r.choice([callback, f]), n, r.randrange(1, 20))
        if not 2.0 * n <= answer <= 3.0 * n:
            raise Finding(f"{answer} of {n} native threads")

    def raises(r: random.Random) -> None:
        with contextlib.suppress(Planned):
            answer = r.choice([raising, lambda x: world.apply_free(raising, x)])(1.0)
            raise Finding(f"no exception but {answer}")

    def close(r: random.Random) -> None:
        g = nc.callback("d:d", lambda x: x + 1)
        box = g.to_ctypes()
        thread = threading.Thread(target=g.close)
        thread.start()
        for one in (g, box):
            with contextlib.suppress(RuntimeError):
                _right(one(1.0), 2.0)
        thread.join()
        with contextlib.suppress(RuntimeError):
            _right(closing(1.0), 2.0)
        if r.random() < 0.1:
            closing.close()

    def override(r: random.Random) -> None:
        with one_setter, contextlib.suppress(AttributeError):
            if r.random() < 0.5:
                Sub.__call__ = lambda self, x: 5.0
            else:
                del Sub.__call__
        _right(sub(1.0), 2.0, 5.0)

    def loaded(r: random.Random) -> None:
        with nc.load(world.lib.path, "double one(double x); double two(double x);") as lib:
            g = lib.one
        _right(g(1.0), 2.0)

    def look(r: random.Random) -> None:
        for one in (f, overloaded, special):
            if len(one.entries) > len(one.signatures):
                raise Finding("more entries than signatures")
            repr(one)
            "d:d" in one  # noqa: B015  # races with add
            one.signatures

    def collect(r: random.Random) -> None:
        gc.collect(r.randrange(3))

    def specialized(r: random.Random) -> None:
        if r.random() < 0.3:
            special.specialize = hook

    return [
        call, overload, add, replace, getitem, convert, bind, new_shape, boxes, apply, native,
        raises, close, override, loaded, look, collect, specialized,
    ]  # fmt: skip


def _raise(x: float) -> float:
    raise Planned("in a race")


def step(world: World, r: random.Random) -> None:
    tasks = _tasks(world, r)
    problems: list[BaseException] = []
    barrier = threading.Barrier(n := r.randrange(2, 6))

    def work(seed: int, chosen: list[Callable[[random.Random], None]]) -> None:
        own = random.Random(seed)
        barrier.wait()
        try:
            for _ in range(30):
                own.choice(chosen)(own)
                if problems:
                    return
        except BaseException as error:
            problems.append(error)

    few = r.sample(tasks, r.randrange(2, 6))
    threads = [
        threading.Thread(target=work, args=(r.random(), r.choice([tasks, few, few])))
        for _ in range(n)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        names = ", ".join(task.__name__ for task in few)
        raise RuntimeError(f"in {n} threads, among {names}") from problems[0]
