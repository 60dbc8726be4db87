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
PASSED = 256 << 10  # bytes of a struct: no call passes more

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


def address(function: ctypes._CFunctionType) -> int:
    """Of the C function that ctypes makes of a Python function."""
    found = ctypes.cast(function, ctypes.c_void_p).value
    assert found is not None
    return found


IGNORES = ctypes.CFUNCTYPE(None)(lambda: None)
IDENT = ctypes.CFUNCTYPE(ctypes.c_size_t)(threading.get_ident)


def test_it_is_called_here_where_there_is_stack():
    assert call_with_stack(address(IDENT), 1000) == threading.get_ident()


def test_it_is_called_elsewhere_where_there_is_not():
    def run() -> tuple[int, int | None]:
        return threading.get_ident(), call_with_stack(address(IDENT), MUCH)

    mine, its = in_thread(run, SMALL)
    assert its not in (None, mine, threading.get_ident())


@pytest.mark.parametrize("bytes", [1000, MUCH], ids=["here", "elsewhere"])
@pytest.mark.parametrize("count", range(5))
def test_what_it_takes_and_returns(bytes, count):
    taken: list[tuple[int, ...]] = []

    def take(*given: int) -> int:
        taken.append(given)
        return sys.maxsize * 2 + 1

    given = (1, -1, sys.maxsize, -sys.maxsize - 1)[:count]
    function = ctypes.CFUNCTYPE(ctypes.c_size_t, *[ctypes.c_ssize_t] * count)(take)
    returned = in_thread(lambda: call_with_stack(address(function), bytes, *given), SMALL)
    assert (returned, taken) == (sys.maxsize * 2 + 1, [given])


def test_there_it_has_the_stack():
    needed: list[int] = []

    # A call needs three times the bytes of its frame.
    large = nc.wrap(address(IGNORES), f"v:T{{({PASSED})b:bytes:}}")

    def need() -> None:
        large((bytes(PASSED),))
        needed.append(MUCH)

    function = ctypes.CFUNCTYPE(None)(need)

    def run() -> object:
        with pytest.raises(RecursionError):
            need()
        return call_with_stack(address(function), MUCH)

    assert in_thread(run, SMALL) is not None
    assert needed == [MUCH]


@pytest.mark.skipif(os.name == "nt", reason="reads a pipe with the function of POSIX")
@pytest.mark.parametrize("bytes", [1000, 1 << 40], ids=["here", "elsewhere"])
def test_other_threads_go_on_meanwhile(forked, bytes):
    code = f"""
import ctypes, os, sys, threading
from nativecall import _lib
sys.setswitchinterval(1000)
read = ctypes.cast(ctypes.CDLL(None).read, ctypes.c_void_p).value
source, sink = os.pipe()
byte = ctypes.create_string_buffer(1)
begin = threading.Lock()
begin.acquire()
def write():
    with begin:
        os.write(sink, b"x")
thread = threading.Thread(target=write)
thread.start()
begin.release()
print(_lib.types.call_with_stack(read, {bytes}, source, ctypes.addressof(byte), 1), byte.value)
"""
    assert forked(code, timeout=60) == "1 b'x'\n"


def test_the_stack_that_is_set_for_other_threads_stays():
    function = ctypes.CFUNCTYPE(ctypes.c_size_t)(lambda: threading.stack_size(3 * SMALL))

    def run() -> tuple[int | None, int]:
        threading.stack_size(2 * SMALL)
        return call_with_stack(address(function), MUCH), threading.stack_size()

    try:
        assert in_thread(run, SMALL) == (2 * SMALL, 3 * SMALL)
    finally:
        threading.stack_size(0)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks Linux for its memory")
@pytest.mark.allocator
def test_where_no_thread_can_be_started_there_is_none(python):
    code = """
import ctypes, resource, threading
from nativecall import _lib
labs = ctypes.cast(ctypes.CDLL(None).labs, ctypes.c_void_p).value
def run():
    with open("/proc/self/statm") as file:
        held = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + (4 << 20), resource.RLIM_INFINITY))
    if _lib.types.has_room(8 << 20):
        print("no limit here")
    else:
        print(_lib.types.call_with_stack(labs, 4 << 20, -1))
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
    print(_lib.types.call_with_stack(labs, 4 << 20, -1))
"""
    printed = python(code + IN_SMALL_THREAD)
    found, later = printed.splitlines()
    assert later == "1"
    # qemu-user does not keep RLIMIT_AS, the one way to want of threads that root cannot pass.
    if found == "no limit here":
        pytest.skip("this system, or what emulates it, does not limit memory")
    assert found == "None"


def test_it_is_called_while_python_ends(forked):
    """When no other thread gets the GIL any more."""
    code = """
import builtins, ctypes
from nativecall import _lib
labs = ctypes.cast(ctypes.CDLL(None).labs, ctypes.c_void_p).value
class Late:
    def __del__(self, call=_lib.types.call_with_stack, labs=labs, print=print):
        print(call(labs, 1 << 40, -1), call(labs, 1000, -2))
builtins.late = Late()
"""
    assert forked(code) == "1 2\n"


@generates
@pytest.mark.parametrize("stack", [0, SMALL], ids=["usual", "small"])
def test_llvm_has_the_stack_that_it_needs(monkeypatch, stack):
    """Its code generator takes 500 KB on aarch64, its optimizer 50 everywhere."""
    seen: list[tuple[int, int]] = []

    def spy(function: int, bytes: int, *given: int) -> int | None:
        seen.append((bytes, threading.get_ident()))
        return call_with_stack(function, bytes, *given)

    monkeypatch.setattr(engine._lib.types, "call_with_stack", spy)

    def run() -> int:
        # With tables for unwinding, for which the core leaves linking to LLVM.
        text = f"define i32 @answer() {{\n  ret i32 {43 if stack else 42}\n}}\n"
        code = engine.compile(f"stack {stack}", lambda: text, {}, ["answer"], effort=2)
        assert ctypes.CFUNCTYPE(ctypes.c_int)(code.address("answer"))() == (43 if stack else 42)
        assert "answer" in engine.assembly(text)
        return threading.get_ident()

    assert engine.available()
    mine = in_thread(run, stack)
    assert seen == [(engine._STACK, mine)] * 3


@generates
def test_only_llvm_works_in_another_thread(forked):
    """Finalizers run in the caller's, which may have the locks that they take."""
    code = f"""
import threading
from nativecall._codegen import engine
lock, ran = threading.RLock(), set()
class Cycle:
    def __init__(self):
        self.me = self
    def __del__(self):
        with lock:
            ran.add(threading.get_ident())
def run():
    for n in range({50 // SCALE}):
        with lock:
            for _ in range(200):
                Cycle()
            text = engine._PROBE.replace("42", str(n))
            engine.compile(str(n), lambda: text, {{}}, ["nc_probe"])
    print(ran == {{threading.get_ident()}}, threading.active_count())
"""
    assert forked(code + IN_SMALL_THREAD) == "True 2\n"


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
def test_what_llvms_code_generator_says_where_it_makes_nothing(monkeypatch):
    machine, _ = engine._start()
    assert machine is not None
    make_text = machine.llvm.ffi.lib.LLVMPY_CreateString
    monkeypatch.setattr(make_text, "restype", ctypes.c_void_p)

    def fail(function: int, bytes: int, *given: int) -> int:
        ctypes.c_void_p.from_address(given[3]).value = make_text(b"no such file")
        return 0

    monkeypatch.setattr(engine._lib.types, "call_with_stack", fail)
    with pytest.raises(RuntimeError, match=r"^no such file$"):
        engine.compile("nothing", lambda: engine._PROBE, {}, ["nc_probe"])


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
            assert len(machine.emit(text, 0)) > size

    emit(5)
    before = resident()
    emit(30)
    assert resident() - before < 10 * size


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
def test_a_hook_of_a_fork_gets_code(forked):
    """While its thread has the locks that keep LLVM idle."""
    code = """
import os, threading, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
made = []
def make():
    return engine.compile("answer", lambda: engine._PROBE, {}, ["nc_probe"])
os.register_at_fork(before=lambda: made.append(make()))
from nativecall._codegen import engine
assert engine.available()
def run():
    child = os.fork()
    if child == 0:
        os._exit(len(made) - 1)
    print(os.waitpid(child, 0)[1], made[0].address("nc_probe") > 0)
"""
    assert forked(code + IN_SMALL_THREAD) == "0 True\n"


@generates
@pytest.mark.parametrize("lock", [0, 1], ids=["starts", "works"])
def test_a_finalizer_amid_llvms_work_gets_code(forked, lock):
    code = f"""
import threading
from nativecall._codegen import engine, idle
assert engine.available()
class Late:
    def __del__(self):
        code = engine.compile("answer", lambda: engine._PROBE, {{}}, ["nc_probe"])
        print(code.address("nc_probe") > 0)
def run():
    with idle.locks[{lock}]:
        Late()
"""
    assert forked(code + IN_SMALL_THREAD) == "True\n"
