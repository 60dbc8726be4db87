"""LLVM and the C stack: where it has too little, it is asked for nothing and plans do the work."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable

import pytest

import nativecall as nc
from nativecall._codegen import engine
from support.modes import SCALE, generates

SMALL = 256 * SCALE << 10

# The end of programs: their `run` in a thread.
IN_A_THREAD = """
thread = threading.Thread(target=run)
thread.start()
thread.join()
"""


def in_small_thread(run: Callable[[], object]) -> object:
    """What `run` returns in a thread with a small stack."""
    returned: list[object] = []
    before = threading.stack_size(SMALL)
    try:
        thread = threading.Thread(target=lambda: returned.append(run()))
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    return returned[0]


@generates
def test_llvm_is_asked_only_where_it_has_the_stack():
    def run() -> str:
        with pytest.raises(engine.NoRoom) as caught:
            engine.compile("stack", lambda: engine._PROBE, "nc_probe")
        return str(caught.value)

    assert engine.available()
    refused = "LLVM needs 1024 KB of C stack, but this thread has less left"
    assert in_small_thread(run) == refused
    assert engine.compile("stack", lambda: engine._PROBE, "nc_probe")


@generates
def test_what_was_converted_there_gets_code_elsewhere():
    f = nc.load("m", "double fabs(double);").fabs
    by_core = in_small_thread(lambda: f.convert("f:f"))
    assert by_core(-1) == f.convert("f:f")(-1) == 1


@generates
def test_threads_with_small_stacks_convert():
    """Each converts by shapes that others have, and by some of its own."""
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
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks Linux for its memory")
@pytest.mark.allocator
def test_of_what_llvm_emits_nothing_stays():
    machine, _ = engine._start()
    assert machine is not None
    size = 1 << 20
    text = f'@text = constant [{size} x i8] c"{"x" * size}"\n'

    def resident() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")

    def emit(times: int) -> None:
        for _ in range(times):
            assert len(machine.emit(text, False)) > size

    emit(5)
    before = resident()
    emit(30)
    assert resident() - before < 10 * size


@generates
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="sets the stack by Linux's limit")
def test_a_main_thread_with_a_small_stack(python):
    """It converts by plans; threads with more of a stack get code."""
    code = """
import nativecall, threading
from nativecall._codegen import engine
f = nativecall.load("m", "double fabs(double);").fabs
if nativecall._ext.stack_left() >= 1 << 20:
    print("no limit here")
    raise SystemExit
print(engine.available(), engine.reason())
print(f.convert("f:f")(-2))
threading.stack_size(8 << 20)
thread = threading.Thread(target=lambda: print(engine.available()))
thread.start()
thread.join()
"""
    begin = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_STACK, (900 << 10, resource.getrlimit(resource.RLIMIT_STACK)[1]))
os.execv(sys.executable, [sys.executable, "-W", "error", "-c", sys.argv[1]])
"""
    refused = "LLVM needs 1024 KB of C stack, but this thread has less left"
    printed = python(begin, code)
    if printed == "no limit here\n":
        pytest.skip("this system, or what emulates it, does not limit the stack")
    assert printed == f"False {refused}\n2.0\nTrue\n"


@generates
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_hook_of_a_fork_gets_code(forked):
    """While its thread has the locks that keep LLVM idle."""
    code = """
import os, threading, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
made = []
def make():
    return engine.compile("answer", lambda: engine._PROBE, "nc_probe")
os.register_at_fork(before=lambda: made.append(make()))
from nativecall._codegen import engine
assert engine.available()
def run():
    child = os.fork()
    if child == 0:
        os._exit(len(made) - 1)
    print(os.waitpid(child, 0)[1], made[0].address > 0)
"""
    assert forked(code + IN_A_THREAD) == "0 True\n"


@generates
@pytest.mark.parametrize("lock", [0, 1], ids=["starts", "works"])
def test_a_finalizer_amid_llvms_work_gets_code(forked, lock):
    code = f"""
import threading
from nativecall._codegen import engine, idle
assert engine.available()
class Late:
    def __del__(self):
        code = engine.compile("answer", lambda: engine._PROBE, "nc_probe")
        print(code.address > 0)
def run():
    with idle.locks[{lock}]:
        Late()
"""
    assert forked(code + IN_A_THREAD) == "True\n"
