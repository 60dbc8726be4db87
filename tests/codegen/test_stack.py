"""Calls that need more of the C stack than the caller's thread has: LLVM's work, first of all."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable

import pytest

import nativecall as nc
from nativecall import _lib
from nativecall._codegen import engine
from support.modes import SCALE, generates

call_with_stack = _lib.types.call_with_stack
MUCH = 4 << 20
SMALL = 256 * SCALE << 10

# The end of programs: their `run` in a thread with a small stack.
IN_SMALL_THREAD = f"""
threading.stack_size({SMALL})
thread = threading.Thread(target=run)
thread.start()
thread.join()
"""


def in_thread(run: Callable[[], object], stack: int) -> object:
    """What `run` returns in a thread with a stack of so many bytes, 0 for the usual."""
    returned: list[object] = []
    begin = threading.Event()

    def wait_and_run() -> None:
        begin.wait()
        returned.append(run())

    thread = threading.Thread(target=wait_and_run)
    before = threading.stack_size(stack)
    try:
        thread.start()
    finally:
        threading.stack_size(before)
    begin.set()
    thread.join()
    return returned[0]


def test_it_is_called_here_where_there_is_stack():
    assert call_with_stack(threading.get_ident, 1000) == threading.get_ident()


def test_it_is_called_elsewhere_where_there_is_not():
    def run() -> tuple[int, int | None]:
        return threading.get_ident(), call_with_stack(threading.get_ident, MUCH)

    mine, its = in_thread(run, SMALL)
    assert its not in (None, mine, threading.get_ident())


def test_it_is_not_called_elsewhere_where_that_is_not_wanted():
    def run() -> tuple[object, object]:
        return call_with_stack(lambda: 1, MUCH, False), call_with_stack(lambda: 2, 1000, False)

    assert in_thread(run, SMALL) == (None, 2)


def test_there_it_has_the_stack():
    def needs() -> bool:
        _lib.types.stack_require("f", MUCH)
        return True

    def run() -> object:
        with pytest.raises(RecursionError):
            needs()
        return call_with_stack(needs, MUCH)

    assert in_thread(run, SMALL) is True


@pytest.mark.parametrize("error", [ValueError("why"), MemoryError(), KeyboardInterrupt("why")])
def test_what_it_raises_is_the_callers(error):
    def fails() -> None:
        raise error

    def run() -> object:
        with pytest.raises(type(error)) as info:
            call_with_stack(fails, MUCH)
        assert info.value is error
        return [frame.name for frame in info.traceback]

    assert in_thread(run, SMALL) == ["run", "fails"]


def test_the_stack_that_is_set_for_other_threads_stays():
    def run() -> tuple[int | None, int]:
        threading.stack_size(2 * SMALL)
        there = call_with_stack(lambda: threading.stack_size(3 * SMALL), MUCH)
        return there, threading.stack_size()

    try:
        assert in_thread(run, SMALL) == (2 * SMALL, 3 * SMALL)
    finally:
        threading.stack_size(0)


def test_an_object_is_neither_lost_nor_kept():
    class One:
        pass

    one = One()
    before = sys.getrefcount(one)
    assert in_thread(lambda: call_with_stack(lambda: one, MUCH), SMALL) is one
    assert sys.getrefcount(one) == before


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks Linux for its memory")
@pytest.mark.allocator
def test_where_no_thread_can_be_started_there_is_none(python):
    code = """
import resource, threading
from nativecall import _lib
def run():
    with open("/proc/self/statm") as file:
        held = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + (4 << 20), resource.RLIM_INFINITY))
    if _lib.types.has_room(8 << 20):
        print("no limit here")
    else:
        print(_lib.types.call_with_stack(threading.get_ident, 4 << 20))
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
    print(_lib.types.call_with_stack(threading.get_ident, 4 << 20) is not None)
"""
    printed = python(code + IN_SMALL_THREAD)
    found, later = printed.splitlines()
    assert later == "True"
    # qemu-user does not keep RLIMIT_AS, the one way to want of threads that root cannot pass.
    if found == "no limit here":
        pytest.skip("this system, or what emulates it, does not limit memory")
    assert found == "None"


def test_while_python_ends_there_is_none(python):
    """No other thread would get the GIL, and the caller would wait for ever."""
    code = """
import builtins
from nativecall import _lib
class Late:
    def __del__(self, call=_lib.types.call_with_stack, print=print):
        print(call(lambda: 1, 1 << 40), call(lambda: 2, 1000))
builtins.late = Late()
"""
    assert python(code) == "None 2\n"


@generates
@pytest.mark.parametrize("stack", [0, SMALL], ids=["usual", "small"])
def test_llvm_works_where_there_is_stack(monkeypatch, stack):
    """The least function takes 500 KB on aarch64."""
    seen: list[tuple[str, int]] = []
    for name in ("module", "_load"):
        work = getattr(engine._Machine, name)

        def spy(*given: object, name: str = name, work: Callable[..., object] = work) -> object:
            seen.append((name, threading.get_ident()))
            _lib.types.stack_require(name, engine._STACK)
            return work(*given)

        monkeypatch.setattr(engine._Machine, name, spy)

    def run() -> int:
        # With tables for unwinding, for which the core leaves it to LLVM.
        text = f"define i32 @answer() {{\n  ret i32 {43 if stack else 42}\n}}\n"
        code = engine.compile(f"stack {stack}", lambda: text, {}, ["answer"], effort=0)
        assert ctypes.CFUNCTYPE(ctypes.c_int)(code.address("answer"))() == (43 if stack else 42)
        assert "answer" in engine.assembly(text)
        return threading.get_ident()

    mine = in_thread(run, stack)
    assert [name for name, _ in seen] == ["module", "_load", "module"]
    assert {ident == mine for _, ident in seen} == {stack == 0}


@generates
def test_threads_with_small_stacks_race_for_code():
    """Each makes shapes that others make, and some of its own."""
    address = nc.load("m").address("fabs")
    letters = "bhiqfd"

    def run() -> list[float]:
        found = []
        for n, letter in enumerate(letters * 2):
            other = letters[(n + threading.get_ident()) % len(letters)]
            f = nc.wrap(address, f"d:d{letter}{other}".replace("f", "d"), name="fabs")
            found.append(f.convert("d:fdd")(-n, 1, 2))
        return found

    results: list[object] = []
    before = threading.stack_size(SMALL)
    try:
        threads = [threading.Thread(target=lambda: results.append(run())) for _ in range(6)]
        for thread in threads:
            thread.start()
    finally:
        threading.stack_size(before)
    for thread in threads:
        thread.join()
    assert results == [[float(n) for n in range(12)]] * 6


@generates
def test_where_there_is_neither_stack_nor_thread_code_waits(monkeypatch):
    """The next who asks may have more."""
    monkeypatch.setattr(engine._lib.types, "call_with_stack", lambda *given: None)
    with pytest.raises(engine.NoRoom, match="1024 KB of the C stack"):
        engine.compile("no room", lambda: engine._PROBE, {}, ["nc_probe"])
    monkeypatch.undo()
    assert engine.compile("no room", lambda: engine._PROBE, {}, ["nc_probe"])


@generates
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="sets the stack by Linux's limit")
def test_a_main_thread_with_a_small_stack_stays_the_main_thread(python):
    """The threading module takes the thread that imports it first for the main one."""
    code = """
import nativecall
from nativecall._codegen import engine
assert engine.available(), engine.reason()
import sys, threading
assert "llvmlite" in sys.modules
print(threading.current_thread() is threading.main_thread(), threading.main_thread().is_alive())
"""
    begin = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_STACK, (900 << 10, resource.getrlimit(resource.RLIMIT_STACK)[1]))
os.execv(sys.executable, [sys.executable, "-W", "error", "-c", sys.argv[1]])
"""
    assert python(begin, code) == "True True\n"


@generates
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_thread_that_forks_waits_for_no_other(python):
    """The other would wait for it: while it forks it keeps LLVM idle."""
    code = """
import os, threading, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
made = []
os.register_at_fork(before=lambda: made.append(nc.callback("d:dqfi", lambda a, b, c, d: a + d)))
import nativecall as nc
from nativecall._codegen import engine
assert engine.available()
def run():
    child = os.fork()
    if child == 0:
        os._exit(len(made) - 1)
    print(os.waitpid(child, 0)[1], nc.wrap(made[0])(1.5, 0, 0.0, 2))
"""
    assert python(code + IN_SMALL_THREAD) == "0 3.5\n"


@generates
@pytest.mark.parametrize("lock", [0, 1], ids=["starts", "works"])
def test_a_finalizer_amid_llvms_work_starts_no_thread(python, lock):
    """That would wait for the lock that the finalizer's thread has."""
    code = f"""
import threading
from nativecall._codegen import engine
assert engine.available()
def make():
    return engine.compile("answer", lambda: engine._PROBE, {{}}, ["nc_probe"])
class Late:
    def __del__(self):
        try:
            make()
        except engine.NoRoom as error:
            print("no other thread can do its work" in str(error))
def run():
    with engine._locks[{lock}]:
        Late()
    print(make().address("nc_probe") > 0)
"""
    assert python(code + IN_SMALL_THREAD) == "True\nTrue\n"


@generates
def test_llvm_that_starts_here_has_the_stack_to_work_here(monkeypatch):
    """What it compiles at once lies deeper in the stack, with the lock that is for starting it."""
    assert engine.available()

    def has(bytes: int) -> bool:
        try:
            _lib.types.stack_require("f", bytes)
        except RecursionError:
            return False
        return True

    def run() -> set[str]:
        left, step = 0, 1 << 24
        while step := step >> 1:
            left += step * has(left + step)
        reasons = set()
        for other in range(0, 8 << 10, 128):
            monkeypatch.setattr(engine, "_STACK", left - other)
            reasons.add(engine._probe()[1])
        return reasons

    assert in_thread(run, 2 << 20) == {""}
