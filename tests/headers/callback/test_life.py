"""callback.h: callbacks in threads, at exits and at the end."""

import _thread
import subprocess
import sys
import threading

import pytest

from support.callbacks import Custom
from support.erf import (
    box_native,
)
from support.shutdown import ended_well
from support.threads import each, turns

# -- threads -------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["p", "d"])
def test_threads_that_python_has_never_seen(c, which):
    assert c.in_threads(lambda x: x + 1, 8, 500, which) == (4000, 0)
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


def test_python_threads_each_with_their_own(c):
    wrong = []

    def run(number):
        def descend(level):
            def f(x):
                return float(number) if level == 30 else c.nested(descend(level + 1), x, 0)

            return f

        for _ in range(20):
            value = c.nested(descend(1), 0.0, 0)
            if value != number:
                wrong.append((number, value))

    with turns(1e-5):
        each(run, *range(12))
    assert wrong == []


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

    for _ in range(32):
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    assert seen == ["called", "unwound"] * 32
    assert ended == [SystemExit] * 32, "which the hook of threads passes over in silence"
    assert unraisable == []


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
for _ in range(4):
    c.start_thread(lambda x: x)
time.sleep(0.02)
"""


def test_threads_that_go_on_during_shutdown(bundles):
    """Threads that call without pause while the interpreter ends and after it has."""
    good = 0
    for _ in range(10):
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", THREADS, str(bundles)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        good += ended_well(done, "")
    assert good >= 8
