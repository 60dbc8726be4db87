"""Python threads that add, replace, call and look up at once; and calls without the GIL."""

from __future__ import annotations

import _thread
import contextlib
import contextvars
import gc
import itertools
import os
import sys
import threading
import time

import pytest

import nativecall as nc
from support.threads import HAS_GIL, each, together, turns

#: Of each race.
SECONDS = float(os.environ.get("NATIVECALL_TEST_SECONDS", "0.1"))


@pytest.fixture(autouse=True)
def often():
    """Threads take turns as often as they can."""
    with turns(1e-6):
        yield


def race(*tasks):
    """Run each task again and again in a thread of its own, at least once."""
    stop = time.monotonic() + SECONDS

    def run(task):
        # On a busy machine a thread may wait longer than that for its first turn.
        task()
        while time.monotonic() < stop:
            task()

    each(run, *tasks)


@pytest.mark.parametrize(
    ("signature", "one", "other"),
    [("d:d", "square", "same_f64"), ("h:h", "same_i16", "which_none")],
    ids=["trampoline", "plan"],
)
def test_replacing_races_with_calls(lib, signature, one, other):
    if signature == "h:h":
        second, results = nc.load(None).address("abs"), {-3, 3}
    else:
        second, results = lib.address(other), {9.0, -3.0}
    first = lib.address(one)
    f = nc.wrap(first, signature)
    view = f.builtin

    def replace():
        f.add(signature, second, replace=True)
        f.add(signature, first, replace=True)

    def call():
        assert f(-3) in results
        assert view(-3) in results

    def look():
        assert f.address() in (first, second)
        assert f.entries[0].address in (first, second)

    race(replace, call, call, look)
    assert f(-3) == nc.wrap(first, signature)(-3), "the last one in place is the one called"
    f.add(signature, second, replace=True)
    assert f(-3) == nc.wrap(second, signature)(-3)


def test_adding_races_with_calls_and_lookups(lib, consumer):
    square = lib.address("square")
    made = []

    def add():
        f = nc.wrap(square, "d:d", name="f")
        made.append(f)
        view = f.builtin
        for n in range(2, 12):
            f.add("d:" + "i" * n, square)
            assert view(3.0) == 9.0
        assert len(f.signatures) == len(f.entries) == 11
        if len(made) > 20:
            del made[:10]

    def call():
        if made:
            f = made[-1]
            assert f(3.0) == 9.0
            assert f["d:d"](3.0) == 9.0
            rows = f.entries
            assert rows[0][:2] == ("d:d", square)
            assert len(f.entries) >= len(rows)

    def look():
        if made:
            assert consumer.total(made[-1], 1.0, 50)[1] == "native"
            assert consumer.entry(made[-1], "d:d", 0, True) == (0, square)

    race(add, call, call, look)


def test_lookups_without_the_gil_race_with_writers(lib, consumer):
    one, other = lib.address("square"), lib.address("same_f64")
    f = nc.wrap(one, "d:d")
    n = 0

    def write():
        nonlocal n
        f.add("d:d", other, replace=True)
        f.add("d:d", one, replace=True)
        if n < 400:
            n += 1
            f.add("d:" + "d" * (n % 20 + 2) + "i" * (n // 20), one)

    def read():
        assert consumer.lookups(f, 20_000, one, other) == 20_000

    race(write, read, read)


def test_two_writers(lib):
    square = lib.address("square")
    f = nc.wrap(square, "d:d")
    names = iter(range(10**9))

    def add():
        while (i := next(names)) < 150:
            f.add("d:T{" + "d" * (i % 100 + 1) + "}" + "d" * (i // 100), square)

    together(add, add, add)
    assert len(f.signatures) == len(set(f.signatures)) == len(f.entries) == 151
    assert f(3.0) == 9.0


def test_one_of_two_equal_entries_is_refused(lib):
    square = lib.address("square")
    targets = []

    def add():
        if not targets or len(targets[-1][1]) == 2:
            targets.append((nc.wrap(square, "d:d"), []))
        f, done = targets[-1]
        try:
            f.add("d:dd", square)
        except ValueError:
            done.append("refused")
        else:
            done.append("added")

    race(add, add, add)
    for f, done in targets:
        assert done.count("added") == 1
        assert f.signatures == ("d:d", "d:dd")


USES = {
    "convert": lambda f: f.convert("d:dP"),
    "bind": lambda f: f.bind(1.0),
    "address": lambda f: f.address(),
    "to_ctypes": lambda f: f.to_ctypes(),
    "to_cffi": lambda f: f.to_cffi(),
    "to_capsule": lambda f: f.to_capsule(),
    "wrap": lambda f: nc.wrap(f, name="other"),
}


@contextlib.contextmanager
def _must_name_one():
    try:
        yield
    except TypeError as error:
        if "must name one" not in str(error):
            raise


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize("when", range(4))
def test_an_entry_that_is_added_while_others_are_looked_at(lib, monkeypatch, use, when):
    """The second entry comes after each look at the table: what is decided is decided by one."""
    added = []

    class Watched(nc.NativeCallable):
        def _entries(self):
            rows = super()._entries()
            looks.append(rows)
            if len(looks) == when + 1 and not added:
                added.append(True)
                super().add("f:f", lib.address("same_f32"))
            return rows

    looks: list[object] = []
    f = Watched(lib.address("square"), "d:d")
    # The first look had one entry, so none has to be named.
    use(f)


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_adding_races_with_other_uses_of_the_only_entry(lib, use):
    square, other = lib.address("square"), lib.address("same_f32")
    use(nc.wrap(square, "d:d"))  # what is made once for all is made

    # All but convert() may find two entries when they look, and ask which one is meant.
    named = contextlib.nullcontext if use is USES["convert"] else _must_name_one

    def look():
        with named():
            use(f)

    for _ in range(200):
        f = nc.wrap(square, "d:d")
        together(lambda: f.add("f:f", other), look)


def test_replacing_races_with_conversions(lib):
    """A conversion takes function and promises of one moment: the old ones or the new ones."""
    fill, total = lib.address("fill"), lib.address("sum")
    old, new = "double (double *x, int64_t n)", "double (const double *x, int64_t n)"
    f = nc.wrap(fill, old)
    stop = threading.Event()
    seen = set()

    def replace():
        for n in range(2000):
            f.add(*((new, total), (old, fill))[n % 2], replace=True)
        stop.set()

    def look():
        while not stop.is_set():
            found, address, _ = f._chosen(None)
            seen.add((found.signature.readonly[0], address))

    together(replace, look, look)
    assert seen <= {(False, fill), (True, total)}


def test_restricted_callables_are_made_once(lib):
    """Without the GIL, once for each thread, so that they do not contend for its count."""
    square = lib.address("square")
    made = [nc.wrap(square, "d:d")]
    seen = {}

    def restrict():
        f = made[-1]
        seen.setdefault((f, HAS_GIL or threading.get_ident()), set()).add(f["d:d"])

    def renew():
        made.append(nc.wrap(square, "d:d"))

    race(renew, restrict, restrict, restrict)
    assert all(len(parts) == 1 for parts in seen.values())


def test_classes_are_made_and_changed_in_threads(consumer):
    class Base(nc.NativeCallable):
        pass

    cos = nc.load("m").function("cos", "d:d")

    def make():
        cls = nc.extensibletype("T", (), {"__customslots__": {"a": 1, "b": 2}})
        assert len(nc.customslots(cls)) == 2

    def change():
        Base.__call__ = lambda self, x: 2.0
        del Base.__call__

    def use():
        f = Base(cos, name="f")
        assert f(0.0) in (1.0, 2.0)
        assert consumer.total(f, 0.0, 1)[0] in (1.0, 2.0)

    race(make, change, use)
    assert Base(cos, name="f")(0.0) == 1.0


BLOCKING = """
#include <stdatomic.h>
#include <stdint.h>
static atomic_int arrived;
/* Returns 1 when two threads are inside at once, 0 when the other did not come. */
int32_t meet(int64_t spins)
{
    atomic_fetch_add(&arrived, 1);
    for (int64_t i = 0; i < spins; i++) {
        if (atomic_load(&arrived) >= 2) { return 1; }
    }
    return 0;
}
void reset(void) { atomic_store(&arrived, 0); }
"""


@pytest.mark.parametrize(("gil", "together"), [("release", True), ("hold", False)])
def test_gil_release_lets_threads_run_together(builder, gil, together):
    library = nc.load(builder.library(BLOCKING, "blocking"))
    library.function("reset", "v:")()
    meet = library.function("meet", "i:q", gil=gil)
    together = together or not HAS_GIL
    # Long enough for the other thread to come where it can.
    spins = 10**9 if together else 10**7
    # With the GIL held, the first call waits in vain.
    assert sorted(each(meet, spins, spins)) == ([1, 1] if together else [0, 1])


def test_callables_are_made_and_dropped_in_threads(lib):
    address = lib.address("square")

    def make():
        f = nc.wrap({"d:d": address, "f:f": lib.address("same_f32")})
        assert f(3.0) == 9.0
        assert f["f:f"](0.5) == 0.5
        g = nc.wrap(f.builtin)
        assert g is f
        assert f.to_ctypes("d:d")(2.0) == 4.0

    race(make, make, make)


def test_a_hook_that_is_replaced_stays_alive_for_those_who_read_it():
    f = nc.wrap({"d:d": nc.load("m", "double cos(double);").cos}, name="f")
    f.specialize = lambda *_: None

    def replace():
        f.specialize = lambda *_: None

    def read():
        assert callable(f.specialize)
        with contextlib.suppress(TypeError, KeyError):
            f["i:i"]

    race(replace, replace, read, read)


def test_threads_that_open_a_file_get_one_library():
    def same():
        one = nc._ext.open_library(None, 0)
        assert nc._ext.open_library(None, 0) is one

    race(same, same, same, same)


def test_a_callback_may_be_made_while_the_name_of_another_is_freed():
    class Name(str):
        def __del__(self):
            if len(made) < 10:
                made.append(nc.callback("d:d", float))

    def function(x):
        return x

    made = []
    function.__name__ = Name("function")
    nc.callback("d:d", function).close()
    function.__name__ = "other"
    for _ in range(10**6):  # until the slot is used again, after all others that were ever in use
        nc.callback("d:d", float)
        if made:
            break
    assert made


def test_each_thread_sees_a_replaced_entry(lib):
    """Without the GIL, f[signature] is another object in each thread."""
    m = nc.load("m")
    f = nc.wrap(lib.address("square"), "d:d")
    parts = each(lambda _: f["d:d"], *range(4))
    f.add("f:f", m.address("cosf"))
    parts += each(lambda _: f["d:d"], *range(4))
    f.add("f:f", m.address("sinf"), replace=True)
    f.add("d:d", m.address("fabs"), replace=True)
    assert [part(-2.0) for part in (f, *parts)] == [2.0] * 9
    assert {part.address() for part in parts} == {m.address("fabs")}


def test_a_thread_keeps_its_entry_when_another_adds_one(lib):
    f = nc.wrap(lib.address("square"), "d:d")
    shown, seen = threading.Event(), threading.Event()

    def add():
        assert f["d:d"] is f["d:d"]
        shown.set()
        assert seen.wait(60)
        f.add("q:q", lib.address("square"))

    thread = threading.Thread(target=add)
    thread.start()
    assert shown.wait(60)
    entry = f["d:d"]
    seen.set()
    thread.join()
    assert f["d:d"] is entry


def test_what_ends_after_a_threads_dict_leaves_nothing():
    """CPython clears a thread's dict before its context, whose objects may call functions."""
    div = nc.load(None, "typedef struct { int quot, rem; } div_t; div_t div(int, int);").div
    variable = contextvars.ContextVar("variable")
    ended = []

    class Last:
        def __del__(self):
            ended.append(div(7, 2).quot)

    def work():
        div(7, 2)
        variable.set(Last())

    def blocks():
        del ended[:]
        for n in range(50):
            _thread.start_new_thread(work, ())
            while len(ended) <= n:
                time.sleep(0)
        gc.collect()
        return sys.getallocatedblocks()

    found = [blocks() for _ in range(5)]
    assert min(after - before for before, after in itertools.pairwise(found)) < 40


def test_threads_leave_nothing(lib):
    """What a thread remembers of signatures and callbacks ends with it."""
    square = lib.address("square")

    def function():  # freed pointers keep its name until they are used again; that of abs is new
        pass

    def work(_):
        for signature in ("d:d", "d:&d", "q:q", "d:dd", "v:"):
            assert nc.wrap(square, signature).signatures == (signature,)
            nc.callback(signature, function).close()

    def blocks():
        for _ in range(10):
            each(work, *range(4))
        gc.collect()
        return sys.getallocatedblocks()

    found = [blocks() for _ in range(5)]
    assert min(after - before for before, after in itertools.pairwise(found)) < 40
