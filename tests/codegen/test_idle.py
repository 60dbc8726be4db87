"""Who has LLVM, and what becomes of that while Python ends or something is half imported."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable

import pytest

from nativecall._codegen import engine, idle
from support.modes import generates

# What LLVM links, for its variable.
VARIABLE = (
    "@n = global i32 3\ndefine i32 @nc_probe() nounwind {\n"
    "  %m = load i32, ptr @n\n  ret i32 %m\n}\n"
)
# The beginning of programs: a thread that Python ends while it has a lock of `idle`.
ENDED = """
import threading, time
from nativecall._codegen import engine, idle
def end_with(which):
    begun = threading.Event()
    def run():
        with idle.locks[which]:
            begun.set()
            time.sleep(1000)
    threading.Thread(target=run, daemon=True).start()
    begun.wait()
"""


def from_another_thread(function: Callable[[], object]) -> object:
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


def can_take() -> list[bool]:
    """Of each lock of `idle`, whether this thread can have it now."""
    taken = [lock.acquire(blocking=False) for lock in idle.locks]
    for lock, got in zip(idle.locks, taken, strict=True):
        if got:
            lock.release()
    return taken


@generates
def test_while_a_process_forks_llvm_is_kept_idle():
    assert engine.available()
    idle._hold()
    assert from_another_thread(can_take) == [False, False]
    idle._release()
    assert from_another_thread(can_take) == [True, True]


@generates
@pytest.mark.parametrize("which", [0, 1], ids=["starts", "works"])
def test_llvm_is_not_taken_from_the_thread_that_has_it(forked, which):
    code = f"""
assert engine.available()
end_with({which})
print(idle.keep_for_good())
"""
    assert forked(ENDED + code, timeout=60) == "False\n"


@generates
def test_python_ends_with_a_thread_that_has_llvm(forked):
    code = """
assert engine.available()
end_with(1)
print("ends")
"""
    assert forked(ENDED + code, timeout=60) == "ends\n"


@generates
def test_python_ends_where_llvmlite_was_imported_at_the_end(forked):
    """Which registers for the end too late, and would wait for LLVM to dispose of what it has."""
    code = """
import atexit, sys
# Python 3.12 starts no thread in functions that run at the end.
available, begun = threading.Event(), threading.Event()
def run():
    available.wait()
    with idle.locks[1]:
        begun.set()
        time.sleep(1000)
threading.Thread(target=run, daemon=True).start()
@atexit.register
def late():
    assert "llvmlite" not in sys.modules
    assert engine.available()
    available.set()
    begun.wait()
    print("ends")
"""
    assert forked(ENDED + code, timeout=60) == "ends\n"


@generates
@pytest.mark.parametrize("kept", [False, True], ids=["made", "kept"])
@pytest.mark.parametrize("which", [0, 1], ids=["starts", "works"])
def test_code_at_the_end_is_refused_where_a_thread_has_ended_with_llvm(forked, which, kept):
    """Also where its object file is kept: for a variable, LLVM is to link it."""
    code = f"""
import builtins
assert engine.available()
text = {VARIABLE!r}
if {kept}:
    engine.compile("late", lambda: text, "nc_probe")
class Late:
    def __del__(self, engine=engine, text=text, print=print):
        try:
            engine.compile("late", lambda: text, "nc_probe")
        except engine.NoRoom as error:
            print(error)
builtins.late = Late()
end_with({which})
"""
    expected = "Python is exiting, and has ended a thread that was using LLVM\n"
    assert forked(ENDED + code, timeout=60) == expected


@generates
@pytest.mark.parametrize("kept", [False, True], ids=["made", "kept"])
def test_code_that_llvm_links_is_made_at_the_end(forked, kept):
    """When nothing can be imported any more."""
    code = f"""
import builtins
from nativecall._codegen import engine
assert engine.available()
text = {VARIABLE!r}
if {kept}:
    engine.compile("late", lambda: text, "nc_probe")
class Late:
    def __del__(self, engine=engine, text=text, print=print):
        print(engine.compile("late", lambda: text, "nc_probe").address > 0)
builtins.late = Late()
"""
    assert forked(code, timeout=60) == "True\n"


@generates
def test_at_the_end_no_thread_gets_llvm_amid_the_work(forked):
    """One that waited for it when Python ended it would get it where it is let go of."""
    code = """
import builtins
assert engine.available()
class Late:
    def __del__(self, engine=engine, lock=idle.locks[1], sleep=time.sleep, print=print):
        def module():
            lock.release()
            sleep(0.2)
            return engine._PROBE
        code = engine.compile("late", module, "nc_probe")
        print(code.address > 0)
idle.locks[1].acquire()
def wait():
    begun.set()
    with idle.locks[1]:
        pass
begun = threading.Event()
threading.Thread(target=wait, daemon=True).start()
begun.wait()
time.sleep(0.2)
builtins.late = Late()
"""
    assert forked(ENDED + code, timeout=60) == "True\n"


#: The end of programs: a finalizer forks, at the end and while there still are modules.
FORKS_AT_THE_END = """
import gc, os
class Late:
    def __init__(self):
        self.me = self
    def __del__(self, os=os):
        child = os.fork()
        if child == 0:
            os._exit(7)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
gc.disable()
Late()
gc.enable()
"""
forks_at_the_end = pytest.mark.skipif(
    not hasattr(os, "fork") or sys.version_info >= (3, 12), reason="no fork while Python ends"
)


@generates
@forks_at_the_end
@pytest.mark.parametrize("which", [0, 1], ids=["starts", "works"])
def test_a_fork_at_the_end_waits_for_no_thread_that_has_ended(forked, which):
    code = f"""
assert engine.available()
end_with({which})
"""
    assert forked(ENDED + code + FORKS_AT_THE_END, timeout=60) == "7\n"


@generates
def test_code_at_the_end_waits_for_no_thread_that_has_ended(forked):
    code = """
import builtins, threading, time
from nativecall import _singleflight as flights
from nativecall._codegen import engine
assert engine.available()
begun = threading.Event()
def never():
    begun.set()
    time.sleep(1000)
def make(module):
    return engine.compile("late", module, "nc_probe")
threading.Thread(target=make, args=(never,), daemon=True).start()
begun.wait()
class Late:
    def __del__(self, make=make, engine=engine, print=print):
        print(make(lambda: engine._PROBE).address > 0)
builtins.late = Late()
"""
    assert forked(code, timeout=60) == "True\n"


@generates
@pytest.mark.parametrize(
    ("module", "found"),
    [
        ("llvmlite.binding", "True"),
        ("llvmlite.binding.ffi", "while llvmlite.binding is being imported"),
        # What llvmlite imports may be half imported, too.
        ("ctypes._endian", "while ctypes is being imported"),
    ],
)
def test_what_is_half_imported_is_not_judged(python, module, found):
    """By a finalizer, say, that the collector runs amid the import."""
    code = f"""
import sys
from nativecall._codegen import engine
class Amid:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            print(engine.available() or engine.reason().partition(":")[0])
sys.meta_path.insert(0, Amid())
print(engine.available(), engine.reason())
"""
    assert python(code) == f"{found}\nTrue \n"
