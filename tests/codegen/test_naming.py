"""Debuggers and profilers know generated code by name: GDB in backtraces, perf by its map."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from nativecall import _lib
from nativecall._codegen import engine, naming
from support.modes import generated

pytestmark = [
    generated,
    pytest.mark.skipif(sys.platform != "linux", reason="perf and ELF are Linux's"),
]

CODE = """
import ctypes, os, sys
import nativecall as nc
from nativecall._codegen import engine

def call(f, *arguments):
    return nc.wrap(f.address(), f.signatures[0], owner=f)(*arguments)

dies = nc.wrap(nc.load(None).address("strlen"), "q:qqfi", name="dies")
"""
#: What crashes in each, and the name of the code.
WAYS = {
    "dies(0, 1, 2, 3)": "nativecall trampoline q:qqfi 0x0",
    # One that has something left to do when the function returns.
    "dies.convert('d:qqfi')(0, 1, 2, 3)": "nativecall thunk d:qqfi q:qqfi",
    "call(nc.callback('d:df', lambda *a: ctypes.string_at(0)), 1, 2)": "nativecall callback d:df",
}


def gdb():
    found = shutil.which("gdb")
    if found is None:
        pytest.skip("needs gdb")
    return found


def test_gdb_has_the_names_in_a_backtrace(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(f"{CODE}\nexec(sys.argv[1])\n")
    core = Path(_lib.FILE).name
    command = [gdb(), "-q", "-batch", "-nx", "-iex", "set debuginfod enabled off"]
    # Symbols of what has the list of code, and of what calls between Python and the crash: those of
    # all libraries would take a second each time.
    command += ["-iex", "set auto-solib-add off", "-ex", f"catch load {core}"]
    for way in WAYS:
        steps = f'run {program} "{way}"', rf"sharedlibrary {core}\|libpython", "continue"
        steps += r"sharedlibrary _ctypes\|libffi", "bt", "kill"
        command += [word for step in steps for word in ("-ex", step)]
    done = subprocess.run(
        [*command, sys.executable],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"NATIVECALL_TRACE": "1"},
        timeout=300,
    )
    if "ptrace" in done.stderr and "not permitted" in done.stderr:
        pytest.skip("this system lets no debugger trace a process")
    assert done.stdout.count("SIGSEGV") == len(WAYS), done.stdout + done.stderr
    for name in WAYS.values():
        assert f" in {name}" in done.stdout


def test_perf_has_no_names_behind_a_link(python, monkeypatch, tmp_path):
    """Another user may have planted it."""
    monkeypatch.setenv("NATIVECALL_PERF", "1")
    (tmp_path / "victim").write_text("theirs")
    code = """
os.symlink(sys.argv[1], f"/tmp/perf-{os.getpid()}.map")
try:
    given = ctypes.cast(ctypes.pythonapi.Py_IsInitialized, ctypes.c_void_p).value
    nc.wrap(given, "i:ffb")(1, 2, 3)
finally:
    os.unlink(f"/tmp/perf-{os.getpid()}.map")
"""
    assert python(f"import sys\n{CODE}{code}", tmp_path / "victim") == ""
    assert (tmp_path / "victim").read_text() == "theirs"


def test_perf_has_the_names_of_what_was_made_and_inherited(python, monkeypatch):
    monkeypatch.setenv("NATIVECALL_PERF", "1")
    code = """
def told():
    with open(f"/tmp/perf-{os.getpid()}.map") as file:
        return file.read()

try:
    add = nc.wrap(ctypes.cast(ctypes.pythonapi.Py_IsInitialized, ctypes.c_void_p).value, "i:ffq")
    add(1, 2, 3)
    found = told()
    for line in found.splitlines():
        start, size, name = line.split(" ", 2)
        assert int(start, 16) > 0 and int(size, 16) > 0
    assert found.count(" nativecall trampoline i:ffq 0x0\\n") == 1, found
    child = os.fork()
    if child == 0:
        try:
            nc.wrap(add.address(), "i:ffi")(1, 2, 3)
            inherited = told()
            assert inherited.startswith(found), inherited
            assert " nativecall trampoline i:ffi 0x0\\n" in inherited
        except BaseException as error:
            print(error, flush=True)
        finally:
            os.unlink(f"/tmp/perf-{os.getpid()}.map")
            os._exit(0)
    os.waitpid(child, 0)
    assert told() == found
finally:
    os.unlink(f"/tmp/perf-{os.getpid()}.map")
print("done")
"""
    assert python(CODE + code) == "done\n"


def test_code_that_goes_is_taken_out(python, monkeypatch):
    """GDB's list, which begins behind a version, an action and what that was about."""
    monkeypatch.setenv("NATIVECALL_TRACE", "1")
    code = """
from nativecall import _lib
program = ctypes.CDLL(None)  # CPython 3.15 has a list itself
owner = program if hasattr(program, "__jit_debug_descriptor") else ctypes.CDLL(_lib.FILE)
first = ctypes.c_void_p.in_dll(owner, "__jit_debug_descriptor")
first = ctypes.c_void_p.from_address(ctypes.addressof(first) + 16)

def listed():
    entry, found = first.value, 0
    while entry:
        entry, found = ctypes.c_void_p.from_address(entry).value, found + 1
    return found

TEXT = "define i32 @answer() {{ ret i32 {} }}"
before = None
codes = [engine.compile(f"answer {n}", lambda: TEXT.format(n), {}, ("answer",)) for n in range(5)]
before = listed()
del codes[2], codes[0]
print(before - listed())
codes.clear()
print(before - listed())
"""
    assert python(CODE + code) == "2\n5\n"


def test_names_of_an_object_file():
    text = "define void @one() { ret void }\ndefine i32 @two(i32 %x) { ret i32 %x }\n"
    data = engine._start()[0].emit(text, 0)
    sizes = naming._sizes(data)
    assert sizes.keys() == {"one", "two"}
    assert all(0 < size < 64 for size in sizes.values())
    assert naming._sizes(b"MZ" + data) == {}
    image = naming._image(62, 0x1000, 16, "a name")
    assert struct.unpack_from("<Q", image, 64 + 48)[0]
    assert naming._sizes(image) == {"a name": 16}
