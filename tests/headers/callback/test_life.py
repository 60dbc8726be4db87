"""callback.h: callbacks that are released while they run, in threads, at exits and at the end."""

from __future__ import annotations

import _thread
import subprocess
import sys
import threading
import weakref

import pytest

from support.callbacks import FAILED, Custom, same
from support.erf import (
    box_native,
)
from support.shutdown import ended_well
from support.threads import each, turns

# -- released while it runs ----------------------------------------------------------------------


@pytest.mark.parametrize("which", ["p", "d"])
@pytest.mark.parametrize("options", [0, 1])
def test_a_callback_releases_itself(c, fails, which, options):
    class Function:
        def __call__(self, x):
            c.let_go(handle)
            return x + 1

    f = Function()
    alive = weakref.ref(f)
    before = sys.getrefcount(f)
    handle = c.hold(f, options, which)
    assert sys.getrefcount(f) > before
    del f
    assert c.call_held(handle, 1.0) == (2.0, 1), (
        "this call ends well, and the C code is told to stop"
    )
    assert alive() is None
    assert c.call_held(handle, 1.0) == (FAILED, 1), "later ones do not reach Python"
    with fails(RuntimeError, "a callback was released while it ran"):
        c.let_go(handle)
    c.let_go(handle, True)


@pytest.mark.parametrize("which", ["p", "d"])
def test_a_callback_frees_itself(c, which, monkeypatch):
    unraisable = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: unraisable.append(args.exc_value))

    def f(x):
        c.let_go(handle, True)
        return x + 1

    def fails_then(x):
        c.let_go(handle, True)
        raise Custom("too late")

    for _ in range(100):
        handle = c.hold(f, c.HOLDS_GIL, which)
        assert c.call_held(handle, 1.0) == (2.0, -1)
    handle = c.hold(fails_then, c.HOLDS_GIL, which)
    assert c.call_held(handle, 1.0) == (FAILED, -1)
    assert [str(error) for error in unraisable] == ["too late"]
    assert len(c.together([same] * c.POOL, 1.0, "p", c.HOLDS_GIL)) == 2 * c.POOL


@pytest.mark.parametrize("scoped", [False, True])
def test_a_function_is_nobody_elses_before_the_second_release(c, fails, scoped):
    """C code that calls on after its callback has released itself never calls another."""
    options = c.SCOPED if scoped else 0
    others = []

    def f(x):
        c.let_go(handle)
        others.extend(c.hold(lambda x: 999.0, options) for _ in range(c.POOL - 1))
        return 1.0

    handle = c.hold(f, options)
    assert c.call_held(handle, 0.0) == (1.0, 1)
    for _ in range(3):
        assert c.call_held(handle, 0.0) == (FAILED, 1)
        c.let_go(others.pop())
        others.append(c.hold(lambda x: 999.0, options))
    with fails(
        RuntimeError,
        "all 16 C functions for callbacks of this signature are in use at once, 1 of them by "
        "callbacks that were released while they ran; the C code gives these back with a second "
        "release",
    ):
        c.hold(same, 0)
    with fails(RuntimeError, "a callback was released while it ran"):
        c.let_go(handle)
    c.let_go(handle)  # and a third release does nothing
    others.append(c.hold(lambda x: 999.0, options))
    assert [c.call_held(other, 0.0) for other in others] == [(999.0, 0)] * c.POOL
    for other in others:
        c.let_go(other)


def test_the_pointer_of_an_inner_scoped_callback_does_not_lead_to_the_outer_one(c):
    """Both are behind one function, and the inner one is released while it runs."""
    found = []

    def inner(x):
        c.let_go(nested[0])
        return 5.0

    def outer(x):
        nested.append(c.hold(inner, c.SCOPED))
        found.append(c.call_held(nested[0], x))
        found.append(c.call_held(nested[0], x))
        with pytest.raises(RuntimeError, match=r"^a callback was released while it ran$"):
            c.let_go(nested[0])
        return 7.0

    nested = []
    held = [c.hold(outer, c.SCOPED) for _ in range(c.POOL)]
    assert c.call_held(held[0], 1.0) == (7.0, 0)
    assert found == [(5.0, 1), (FAILED, 1)]
    for handle in held:
        c.let_go(handle)
    assert len(c.together([same] * c.POOL, 1.0, "p", c.HOLDS_GIL)) == 2 * c.POOL, "no slot is lost"


def test_a_scoped_callback_that_another_one_releases_keeps_its_function(c):
    """Not itself, but a sibling that the same C code calls; that C code has not ended either."""
    found = []

    def first(x):
        c.let_go(second)
        other = c.hold(lambda x: 999.0, c.SCOPED)
        found.append(c.call_held(other, x)[0])
        c.let_go(other)
        return 1.0

    held = [c.hold(first, c.SCOPED), *(c.hold(same, c.SCOPED) for _ in range(c.POOL - 1))]
    second = held[1]
    assert c.call_held(held[0], 0.0) == (1.0, 0)
    assert c.call_held(second, 0.0) == (FAILED, 1)
    assert found == [999.0]
    with pytest.raises(RuntimeError, match=r"^a callback was released while it ran$"):
        c.let_go(second)
    for handle in held:
        c.let_go(handle)
    assert len(c.together([same] * c.POOL, 1.0, "p", c.HOLDS_GIL)) == 2 * c.POOL, "no slot is lost"


def test_the_end_of_the_callback_function_around_it_ends_a_scoped_callback(c):
    """Even without the second release no slot is lost."""

    def inner(x):
        c.let_go(nested.pop())
        return 5.0

    def outer(x):
        nested.append(c.hold(inner, c.SCOPED))
        assert c.call_held(nested[0], x)[0] == 5.0
        return 7.0

    nested = []
    for _ in range(3 * c.POOL):
        handle = c.hold(outer, c.SCOPED)
        assert c.call_held(handle, 1.0) == (7.0, 0)
        c.let_go(handle)
    c.let_go(c.hold(same, c.SCOPED))
    assert len(c.together([same] * c.POOL, 1.0, "p", c.HOLDS_GIL)) == 2 * c.POOL


def test_threads_release_their_scoped_callbacks_while_they_run(c):
    """Every thread nests, releases out of order, calls on, and must never meet another's result."""
    wrong = []

    def run(number):
        current = {}

        def start():
            def chain(level):
                def f(x):
                    if level < 20:
                        current[level + 1] = inner = c.hold(chain(level + 1), c.SCOPED)
                        value = c.call_held(inner, x)[0]
                        if value != number * 100 + level + 1:
                            wrong.append((number, level, value))
                        if (level + 1) % 3 == 0:
                            value = c.call_held(inner, x)[0]
                            if value != FAILED:
                                wrong.append((number, level, value))
                            with pytest.raises(RuntimeError, match="released while it ran"):
                                c.let_go(inner)
                        else:
                            c.let_go(inner)
                    if level % 3 == 0:
                        c.let_go(current[level])
                    return number * 100.0 + level

                return f

            current[1] = outermost = c.hold(chain(1), c.SCOPED)
            value = c.call_held(outermost, 0.0)[0]
            if value != number * 100 + 1:
                wrong.append((number, 0, value))
            c.let_go(outermost)

        for _ in range(20):
            start()

    with turns(1e-5):
        each(run, *range(8))
    assert wrong == []
    assert len(c.together([same] * c.POOL, 1.0, "p", c.HOLDS_GIL)) == 2 * c.POOL, "no slot is lost"


@pytest.mark.parametrize("options", [0, 1])
def test_the_message_of_a_failure_may_free_the_callback(c, monkeypatch, options):
    """Its text asks the function for its repr, which is Python code; another takes its memory."""
    unraisable = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: unraisable.append(str(args.exc_value)))

    class Function:
        def __call__(self, x):
            raise AssertionError("the callback function does not call it")

        def __repr__(self):
            c.let_go(handle, True)
            others.append(c.hold(lambda x: x + 0.5, options))
            return "<it>"

    others = []
    handle = c.hold(Function(), options, "s")
    assert c.call_held(handle, 1.0) == (FAILED, -1)
    assert unraisable == ["the call of <it> failed without setting an exception"]
    assert c.call_held(others[0], 1.0) == (1.5, 0), "it is not the other one that failed"
    c.let_go(others[0], True)


def test_an_exception_waits_for_release(c):
    handle = c.hold(lambda x: 1 / 0, c.HOLDS_GIL)
    assert c.call_held(handle, 1.0) == (FAILED, 1)
    assert c.call_held(handle, 1.0) == (FAILED, 1)
    with pytest.raises(ZeroDivisionError):
        c.let_go(handle)
    c.let_go(handle, True)


# -- threads -------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["p", "d", "c", "C"])
def test_threads_that_python_has_never_seen(c, which):
    f = (lambda x: x[0] + 1) if which in "cC" else (lambda x: x + 1)
    assert c.in_threads(f, 8, 500, which) == (4000, 0)
    assert c.in_threads(box_native(), 4, 10, "p")[1] == 0


@pytest.mark.parametrize("which", ["p", "d"])
def test_the_first_exception_of_several_threads_wins(c, which, monkeypatch):
    """Threads that are in the callback together; whichever fails first is the one that is kept."""
    unraisable = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: unraisable.append(args.exc_value))
    together = threading.Barrier(8, timeout=30)
    raised = []

    def f(x):
        together.wait()
        error = Custom(x)
        raised.append(error)
        raise error

    with pytest.raises(Custom) as info:
        c.in_threads(f, 8, 3, which)
    assert len(raised) == 8, "no thread calls again after the failure"
    assert len(unraisable) == 7
    assert {id(error) for error in [info.value, *unraisable]} == {id(error) for error in raised}


def test_python_threads_each_with_their_own(c, deep):
    """Scoped callbacks of several threads, nested, more than there are slots."""
    wrong = []
    options = c.SCOPED

    def run(number):
        def descend(level):
            def f(x):
                if level == 30:
                    return float(number)
                return c.integrate(descend(level + 1), 0, 1, 1, "p", options)[0]

            return f

        for _ in range(20):
            value = c.integrate(descend(1), 0, 1, 3, "p", options)[0]
            if value != number:
                wrong.append((number, value))

    with turns(1e-5):
        each(run, *range(12))
    assert wrong == []
    assert len(c.together([same] * c.POOL, 1.0, "p", c.HOLDS_GIL)) == 2 * c.POOL


# -- exits ---------------------------------------------------------------------------------------

EXITS = """
import atexit, os, sys, threading
sys.path.insert(0, sys.argv[1])
import bundled_c as c
atexit.register(lambda: print("at exit", flush=True))
way, which, options = sys.argv[2], sys.argv[3], int(sys.argv[4])
def f(x):
    print("called", flush=True)
    {"sys.exit": sys.exit, "os._exit": os._exit}[way](7)
c.integrate(f, 0, 1, 10, which, options)
print("went on")
"""


@pytest.mark.parametrize("which", ["p", "d"])
@pytest.mark.parametrize("options", [0, 1])
@pytest.mark.parametrize("way", ["sys.exit", "os._exit"])
def test_a_callback_ends_the_process(bundles, tmp_path, way, which, options):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", EXITS, str(bundles), way, which, str(options)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=60,
        check=False,
    )
    printed = {"sys.exit": "called\nat exit\n", "os._exit": "called\n"}[way]
    assert (done.returncode, done.stdout, done.stderr) == (7, printed, "")


@pytest.mark.parametrize("which", ["p", "d"])
@pytest.mark.parametrize("options", [0, 1])
def test_a_callback_ends_its_thread(c, which, options, monkeypatch):
    ended, unraisable, seen = [], [], []
    monkeypatch.setattr(threading, "excepthook", lambda args: ended.append(args.exc_type))
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)

    def f(x):
        seen.append("called")
        _thread.exit()

    def run():
        try:
            c.integrate(f, 0, 1, 10, which, options)
            seen.append("went on")
        finally:
            seen.append("unwound")

    for _ in range(2 * c.POOL):
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    assert seen == ["called", "unwound"] * 2 * c.POOL
    assert ended == [SystemExit] * 2 * c.POOL, "which the hook of threads passes over in silence"
    assert unraisable == []
    assert len(c.together([same] * c.POOL, 1.0, "p", c.HOLDS_GIL)) == 2 * c.POOL, "no slot is lost"


@pytest.mark.parametrize("which", ["p", "d"])
def test_exit_in_a_thread_that_python_has_never_seen(c, which):
    """It has nobody to end: who waits for the thread gets the SystemExit."""
    with pytest.raises(SystemExit) as info:
        c.in_threads(lambda x: sys.exit("enough"), 1, 10, which)
    assert info.value.code == "enough"


# -- the end -------------------------------------------------------------------------------------

FINALIZE = """
import sys, atexit
sys.path.insert(0, sys.argv[1])
import bundled_c as c
import builtins
print(c.integrate(lambda x: 1.0)[0])
atexit.register(lambda: print(c.integrate(lambda x: 2.0, 0, 1, 10, "p", 0)[0]))
class Late:
    def __del__(self, c=c, print=print):
        print(c.integrate(lambda x: 3.0, 0, 1, 10, "p", 0)[0])
builtins.late = Late()
"""


def test_during_shutdown(bundles, python):
    lines = python(FINALIZE, bundles).split()
    assert lines == ["1.0", "2.0", "3.0"]


THREADS = """
import sys, time
sys.path.insert(0, sys.argv[1])
import bundled_c as c
handle = c.hold(lambda x: x, 0, sys.argv[2])
for _ in range(4):
    c.start_thread(handle)
time.sleep(0.02)
"""


@pytest.mark.parametrize("which", ["p", "d"])
def test_threads_that_go_on_during_shutdown(bundles, which):
    """Threads that call without pause while the interpreter ends and after it has."""
    good = 0
    for _ in range(10):
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", THREADS, str(bundles), which],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        good += ended_well(done, "")
    assert good >= 8
