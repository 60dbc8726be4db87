"""Who has LLVM, and what becomes of that while Python ends or something is half imported."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from nativecall._codegen import engine, idle
from support.modes import generates

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


@generates
@pytest.mark.parametrize("which", [0, 1], ids=["starts", "works"])
def test_llvm_is_idle_but_for_the_thread_that_has_it(which):
    assert engine.available()
    with idle.locks[which]:
        assert idle.is_idle()
        assert from_another_thread(idle.is_idle) is False
    assert from_another_thread(idle.is_idle) is True


@generates
def test_while_a_process_forks_llvm_is_kept_idle():
    assert engine.available()
    idle.hold()
    assert from_another_thread(idle.is_idle) is False
    idle.release()
    assert from_another_thread(idle.is_idle) is True


@generates
def test_python_ends_with_a_thread_that_has_llvm(python):
    code = """
assert engine.available()
end_with(1)
print("ends")
"""
    assert python(ENDED + code, timeout=60) == "ends\n"


@generates
def test_python_ends_where_llvmlite_was_imported_at_the_end(python):
    """Which registers for the end too late, and would wait for LLVM to dispose of what it has."""
    code = """
import atexit, sys
@atexit.register
def late():
    assert "llvmlite" not in sys.modules
    assert engine.available()
    end_with(1)
    print("ends")
"""
    assert python(ENDED + code, timeout=60) == "ends\n"


@generates
@pytest.mark.parametrize("which", [0, 1], ids=["starts", "works"])
def test_code_at_the_end_is_refused_where_a_thread_has_ended_with_llvm(python, which):
    code = f"""
import builtins
assert engine.available()
class Late:
    def __del__(self, engine=engine, print=print):
        try:
            engine.compile("late", lambda: engine._PROBE, {{}}, ["nc_probe"])
        except engine.NoRoom as error:
            print(error)
builtins.late = Late()
end_with({which})
"""
    expected = "Python ends, and has ended a thread in which LLVM was at work\n"
    assert python(ENDED + code, timeout=60) == expected


@generates
def test_code_at_the_end_waits_for_no_thread_that_has_ended(python):
    code = """
import builtins, threading, time
from nativecall._codegen import engine, flights
assert engine.available()
begun = threading.Event()
def never():
    begun.set()
    time.sleep(1000)
def make(module):
    return engine.compile("late", module, {}, ["nc_probe"])
threading.Thread(target=make, args=(never,), daemon=True).start()
begun.wait()
class Late:
    def __del__(self, make=make, engine=engine, print=print):
        print(make(lambda: engine._PROBE).address("nc_probe") > 0)
builtins.late = Late()
"""
    assert python(code, timeout=60) == "True\n"


@generates
@pytest.mark.parametrize(
    ("module", "found"),
    [
        ("llvmlite.binding", "True True "),
        ("llvmlite.binding.ffi", "False False this thread is in the middle of importing llvmlite"),
        ("llvmlite.binding.orcjit", "True True "),
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
            print(engine.available(), engine.lasts(), engine.reason())
sys.meta_path.insert(0, Amid())
print(engine.available(), engine.reason())
"""
    assert python(code) == f"{found}\nTrue \n"
