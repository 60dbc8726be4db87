"""Callbacks in processes of their own: near the end of the C stack, at exits, after forks."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import re
import sys
import textwrap
import warnings
import weakref
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

import nativecall as nc
from support import forkserver
from support.callbacks import raising
from support.levels import where
from support.modes import SCALE
from support.shutdown import ended_well

# -- the C stack ---------------------------------------------------------------------------------

# Without the collector: CPython uses a dict that it has freed where several subclasses of one class
# die near the end of the stack (remove_subclass in Objects/typeobject.c, in the middle of which the
# trashcan destroys what it had put off), and a debug build then ends. llvmlite makes such classes
# for each compilation, and only the collector frees them.
DEEP = """
    import gc
    gc.disable()
    import sys, threading, nativecall as nc
    library, form, kib = nc.load(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    wide = (range(512),)
    depth = 0

    def counted(f):
        def counts(*given):
            global depth
            depth += 1
            return f(*given)
        return counts

    if form == "callback":
        f = nc.callback("d:T{(512)d}", counted(lambda s: f(s)))
        start = lambda: f(wide)
    elif form == "function":
        over = library.function("hand_over", "d:X{d:T{(512)d}}T{(512)d}")
        f = counted(lambda s: over(f, s))
        start = lambda: over(f, wide)
    elif form == "bound":
        f = nc.callback("d:dT{(512)d}", counted(lambda x, s: g(s)))
        g = f.bind(1.0)
        start = lambda: g(wide)
    elif form == "converted":
        f = nc.callback("d:d", counted(lambda x: g(1)))
        g = f.convert("d:i")
        start = lambda: g(1)
    elif form == "result":
        f = nc.callback("T{(512)d}:d", counted(lambda x: f(x)))
        start = lambda: f(1.0)
    elif form == "native":
        f = nc.callback("d:d", library.function("call_kept", "d:d"))
        library.function("keep", "v:X{d:d}")(f)
        start = lambda: f(1.0)

    def run():
        try:
            start()
        except RecursionError as error:
            print("RecursionError")

    if kib:
        # No limit of levels: what counts is the stack.
        sys.setrecursionlimit(10**6)
        threading.stack_size(kib << 10)
        for _ in range(2):
            thread = threading.Thread(target=run)
            thread.start()
            thread.join()
    else:
        run()
        run()
"""


FORMS = ("callback", "function", "bound", "converted", "result", "native")


@pytest.mark.parametrize(
    ("form", "kib"),
    where(
        itertools.product(FORMS, (0, 128, 1024)),
        lambda row: row[1] == 128 or row in (("converted", 0), ("native", 0), ("callback", 1024)),
    ),
)
def test_recursion_ends_before_the_c_stack_does(library, process, form, kib):
    """Every level takes some kilobytes of the stack, or the stack is small: RecursionError."""
    done = process(DEEP, library, form, kib * SCALE)
    assert (done.returncode, done.stdout, done.stderr) == (0, "RecursionError\n" * 2, "")


def test_the_report_of_too_deep_a_call_may_end_the_callback(callers, monkeypatch):
    """C gets the sentinel, which went with the callback."""
    reported: list[str] = []

    def hook(args: Any) -> None:
        reported.append(str(args.exc_value))
        held.clear()

    monkeypatch.setattr(sys, "unraisablehook", hook)
    held = [nc.callback("d:d", lambda x: x, errors=2.5, name="deep")]
    last = weakref.ref(held[0])
    callers.deep_in_a_thread.restype = ctypes.c_double
    answer = callers.deep_in_a_thread(ctypes.c_void_p(held[0].address()))
    assert answer == 2.5
    assert reported == ["callback 'deep' is nested too deeply for the C stack of this thread"]
    assert last() is None


def test_a_struct_that_the_stack_has_no_room_for_is_refused(builder, process):
    """As an argument and as a result; what has room is passed."""
    stack = SCALE << 16
    # Four of them take all that the margin (csrc/platform/stack.c) leaves of the stack.
    count = (stack - (16 << 10)) // 4 // 8
    source = (
        f"#define COUNT {count}\n"
        + """
        typedef struct { double numbers[COUNT]; } Large;
        double first(Large s) { return s.numbers[0] + s.numbers[COUNT - 1]; }
        Large made(double x) { Large s = {{x}}; return s; }
    """
    )
    path = builder.library(source, "large_by_value", flags=("-O1",))
    script = """
        import sys, threading, nativecall as nc
        lib, count, stack = nc.load(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
        large = f"T{{({count})d}}"
        lib = [lib.function("first", f"d:{large}"), lib.function("made", f"{large}:d")]
        for f, given in zip(lib, ((range(count),), 2.5)):
            def run():
                try:
                    result = f(given)
                    print(result if isinstance(result, float) else result[0][0])
                except RecursionError as error:
                    print(error)
            run()
            threading.stack_size(stack)
            thread = threading.Thread(target=run)
            thread.start()
            thread.join()
    """
    done = process(script, path, count, stack)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[::2] == [f"{count - 1}.0", "2.5"]
    refused = re.compile(
        r"'\w+' passes structs by value that need (\d+) bytes of C stack, but this thread has only "
        r"\d+ bytes left"
    )
    for line in lines[1::2]:
        found = refused.fullmatch(line)
        assert found, line
        assert 0 <= int(found[1]) - 4 * 8 * count < 2048


# -- processes -----------------------------------------------------------------------------------


@pytest.fixture
def process(tmp_path: Path) -> Callable[..., CompletedProcess[str]]:
    """Run a script in a Python of its own: how it ended, and what it printed."""

    def process(script: str, *arguments: object) -> CompletedProcess[str]:
        words = [*map(str, arguments)]
        return forkserver.shared().run(textwrap.dedent(script), words, tmp_path, 60)

    return process


ENDS = {
    "callback": 'nc.callback("d:d", lambda x: x)',
    "bound callback": 'nc.callback("d:id", lambda n, x: x).bind(2)',
    "bound": 'nc.load("m", "double ldexp(double, int);").ldexp.bind(..., 2)',
    "converted": 'nc.load("m", "float ldexpf(float, int);").ldexpf.bind(..., 2).convert("d:d")',
}
ENDING = """
    import ctypes, sys, time, nativecall as nc
    lib = ctypes.CDLL(sys.argv[1])
    g = {made}
    if {kept}:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(g))
    lib.start.argtypes = [ctypes.c_void_p, ctypes.c_int]
    lib.call_at_end.argtypes = [ctypes.c_void_p]
    assert lib.{call} == 0
    time.sleep(0.02)
    print("done")
"""


@pytest.mark.parametrize(("what", "kept"), [("callback", True), *[(what, False) for what in ENDS]])
def test_threads_go_on_calling_while_python_ends(library, process, what, kept):
    """They neither hang nor crash the end of the process, nor where the callback goes."""
    script = ENDING.format(made=ENDS[what], kept=kept, call="start(g.address(), 3)")
    assert any(ended_well(process(script, library), "done\n") for _ in range(2))


@pytest.mark.parametrize("what", ENDS)
@pytest.mark.parametrize("kept", [True, False])
def test_a_call_after_python_has_ended(library, process, kept, what):
    script = ENDING.format(made=ENDS[what], kept=kept, call="call_at_end(g.address())")
    done = process(script, library)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_after_a_fork(callers, native):
    g = nc.callback("d:d", lambda x: x + 1)
    bad = nc.callback("d:d", raising)
    assert native.apply(g, 1.0) == 2.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = os.fork()
    if child == 0:
        status = 1
        with contextlib.suppress(BaseException):
            total = ctypes.c_double(0)
            callers.in_threads(g.address(), 2, 5, ctypes.byref(total))
            right = total.value == sum(range(10)) + 10 and native.apply(g, 2.0) == 3.0
            try:
                native.apply(bad, 1.0)
            except LookupError:
                status = 0 if right and nc.callback("d:", lambda: 1)() == 1.0 else 2
        os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_has_no_states_of_others(library, forked):
    code = """
import array, os, sys, warnings
import nativecall as nc
warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads
in_threads = nc.load(sys.argv[1]).function("in_threads", "l:X{d:d}il&d", gil="release")
total = array.array("d", [0])
in_threads(lambda x: x, 2, 3, total)  # their states are still to be deleted
child = os.fork()
in_threads(lambda x: x, 2, 3, total)
if child == 0:
    os._exit(int(total[0]))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), total[0])
"""
    assert forked(code, library) == "30 30.0\n"


@pytest.mark.parametrize(
    "kind",
    [
        "PYFUNCTYPE",
        pytest.param(
            "CFUNCTYPE",
            marks=pytest.mark.skipif(
                hasattr(sys, "gettotalrefcount"), reason="ends debug builds of CPython"
            ),
        ),
    ],
)
@pytest.mark.parametrize(
    "made",
    [
        pytest.param('g = nc.callback("d:d", lambda x: x)', id="callback"),
        pytest.param(
            # 1e12 is no int, which the thunk's Python code would say.
            'g = nc.load("m", "long lround(double);").lround.convert("int (double)")'
            '.convert("double (double)")',
            id="thunk",
        ),
    ],
)
def test_another_interpreter_is_refused(process, made, kind):
    """Python functions run in the main interpreter alone, those that say why a thunk failed too.

    C code looks for the exception, with the GIL or without it.
    """
    script = """
        import sys, nativecall as nc
        try:
            import _interpreters as interpreters
        except ImportError:
            import _xxsubinterpreters as interpreters
        MADE
        code = "\\n".join([
            "import ctypes, sys, threading",
            "sys.unraisablehook = lambda report: print(report.exc_value, flush=True)",
            "call = ctypes.KIND(ctypes.c_double, ctypes.c_double)(%d)" % g.address(),
            "def run():",
            "    try: print(call(1e12), flush=True)",
            "    except RuntimeError as error: print(error, flush=True)",
            "    except SystemError as error: print(error.__cause__, flush=True)",
            RUN
        ])
        new = sys.version_info >= (3, 13)
        one = interpreters.create(*["legacy"] if new else [], **{} if new else {"isolated": False})
        failure = interpreters.run_string(one, code)
        assert failure is None, failure
        print(g(2.0), flush=True)
        interpreters.destroy(one)
    """
    in_thread = "thread = threading.Thread(target=run); thread.start(); thread.join()"
    run = "run()" if kind == "PYFUNCTYPE" else in_thread  # a state of its own on 3.11, too
    script = script.replace("MADE", made).replace("KIND", kind).replace("RUN", repr(run))
    done = process(script)
    lines = ["C code called a Python function in a different interpreter"]
    assert (done.stdout.splitlines(), done.stderr) == ([*lines, "2.0"], "")
