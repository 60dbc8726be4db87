"""csrc/platform/stub.c: more pointers than the extension has room for, in processes that lost its
file, their descriptors, or the right to make memory executable.

Each runs with a copy of the package, whose file it can change.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

import nativecall as nc
from support import build

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="regions of a file are Linux's"),
    pytest.mark.compiler,
]

BEGIN = """
import ctypes, os, pathlib, resource, sys
sys.path.insert(0, sys.argv[1])
import nativecall as nc
from nativecall import _lib
file = pathlib.Path(_lib.FILE)
assert file.is_relative_to(sys.argv[1])
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
hardened = ctypes.CDLL(sys.argv[2])
kind = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)

def forbid(what):
    if not hardened.forbid(what):
        print("no filter here")
        sys.exit()

def made(n):
    return nc.callback("d:d", lambda x: x + n)

def right(callbacks):
    return all(kind(g.address())(0.5) == n + 0.5 for n, g in callbacks.items())

def executable(part):
    "How many executable mappings of memory have this in their names, or none."
    with open("/proc/self/maps") as maps:
        names = [line.split(maxsplit=5)[5:] for line in maps if " r-xp " in line]
    return sum(part in name[0] if part and name else not part and not name for name in names)
"""

#: A first callback comes before each, and room for 10,000 is wanted after it.
WORLDS = {
    "nothing happens": ("", "file"),
    "the file is deleted": ("file.unlink()", "memfd"),
    "another file is there": (
        "data = file.read_bytes(); file.unlink(); file.write_bytes(bytes(len(data)))",
        "memfd",
    ),
    "a newer one is there": (
        "data = file.read_bytes(); file.unlink(); file.write_bytes(data[:4096] + data)",
        "memfd",
    ),
    "an empty file is there": ("file.unlink(); file.touch()", "memfd"),
    "a directory is there": ("file.unlink(); file.mkdir()", "memfd"),
    "the same file is there again": (
        "data = file.read_bytes(); file.unlink(); file.write_bytes(data)",
        "file",
    ),
    "another directory is the current one": ("os.chdir('/')", "file"),
    "written memory stays data": ("forbid(0)", "file"),
    "the file is deleted, and written memory stays data": ("file.unlink(); forbid(0)", "memfd"),
    "there are no descriptors left": (
        "resource.setrlimit(resource.RLIMIT_NOFILE, (3, most))",
        "written",
    ),
}


@pytest.fixture
def run(builder, python, tmp_path):
    """Run code with a copy of the package; what it printed."""
    hardened = builder.library(build.EXT / "hardened.c", "hardened")

    def run(code: str) -> str:
        leave = shutil.ignore_patterns("include", "share", "__pycache__")
        here = Path(nc.__file__).parent
        shutil.copytree(here, tmp_path / "copy" / "nativecall", ignore=leave)
        printed: str = python(BEGIN + code, tmp_path / "copy", hardened)
        if printed == "no filter here\n":
            pytest.skip("this kernel has no filters of system calls")
        return printed

    return run


@pytest.mark.parametrize("world", WORLDS)
def test_more_room_is_found(run, world):
    happens, source = WORLDS[world]
    code = f"""
first = {{0: made(0)}}
{happens}
alive = first | {{n: made(n) for n in range(1, 10_000)}}
print(len({{g.address() for g in alive.values()}}), right(alive))
resource.setrlimit(resource.RLIMIT_NOFILE, (256, most))
print(executable("memfd:nativecall") > 0, executable("") > 0)
for n in range(0, 10_000, 2):
    del alive[n]
alive |= {{n: made(n) for n in range(20_000, 24_000)}}
print(right(alive))
"""
    told = {"file": "False False", "memfd": "True False", "written": "False True"}[source]
    assert run(code) == f"10000 True\n{told}\nTrue\n"


@pytest.mark.parametrize("refuse", ["forbid(1)", "hardened.forbid_mapping()"])
def test_where_no_memory_becomes_executable_the_extension_has_room_for_some(run, refuse):
    code = f"""
first = made(0)
{refuse}
alive = {{0: first}}
try:
    for n in range(1, 10_000):
        alive[n] = made(n)
except RuntimeError as error:
    print(len(alive) >= 2000, right(alive), error)
del alive[1]
gone = {{2: made(2)}}
print(right(gone))
"""
    assert run(code) == (
        "True True this system refuses more executable memory, and all C function pointers that "
        "fit in the existing memory are in use: close callbacks that C no longer calls\nTrue\n"
    )


def test_what_threads_have_freed_is_there_for_others(run):
    code = """
import threading
first = made(0)
forbid(1)
counts = []
def hold():
    held = []
    try:
        while len(held) < 600:
            held.append(made(len(held)))
    except RuntimeError:
        pass
    counts.append(len(held))
for _ in range(10):
    thread = threading.Thread(target=hold)
    thread.start()
    thread.join()
print(counts == [600] * 10)
"""
    assert run(code) == "True\n"


def test_pointers_are_named_however_many_ended(run):
    code = """
def many():
    return [nc.callback("d:d", abs, name=f"number {n}") for n in range(20_000)]

addresses = [g.address() for g in many()]
before = executable("_core")
print(len({g.address() for g in many()}), executable("_core") == before)
del many
os.dup2(1, 2)
for n in (0, 7_000, 13_000, 19_999):
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        kind(addresses[n])(1.0)
    os.waitpid(child, 0)
"""
    gone = "a C function pointer made by nativecall was called after its Python object"
    printed = run(code).splitlines()
    assert printed[0] == "20000 True"
    assert len(printed) == 5
    assert all(line.startswith(f"Fatal error: {gone} was freed: 'number ") for line in printed[1:])


def test_want_of_memory_is_no_refusal(run):
    """It does not last."""
    code = """
alive = {}
while executable("_core") < 2 and len(alive) < 5_000:
    n = len(alive)
    alive[n] = made(n)
full = len(alive)
none, most = (1 << 20, resource.RLIM_INFINITY), (resource.RLIM_INFINITY,) * 2

def fill():
    # Short: where a handler is far in a frame, CPython 3.11 needs memory to get there, and tries
    # for ever.
    try:
        for n in range(full, full + 5_000):
            alive[n] = made(n)
    except MemoryError:
        return True

resource.setrlimit(resource.RLIMIT_AS, none)
ended = fill()
resource.setrlimit(resource.RLIMIT_AS, most)
print("MemoryError" if ended else "no end")
alive |= {n: made(n) for n in range(len(alive), len(alive) + 5_000)}
print(right(alive))
"""
    assert run(code) == "MemoryError\nTrue\n"


def test_a_fork_shares_no_slots(run):
    code = """
alive = {n: made(n) for n in range(5_000)}
child = os.fork()
if child == 0:
    more = {n: made(n) for n in range(6_000, 12_000)}
    good = right(alive) and right(more)
    alive.clear()
    os._exit(0 if good and right(more) else 1)
status = os.waitpid(child, 0)[1]
print(status, right(alive))
"""
    assert run(code) == "0 True\n"
