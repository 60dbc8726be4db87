"""perf knows generated code by name, by its map."""

import sys

import pytest

from nativecall._codegen import engine, perfmap
from support.modes import generated

pytestmark = [
    generated,
    pytest.mark.skipif(sys.platform != "linux", reason="perf and ELF are Linux's"),
]

CODE = """
import ctypes, os, sys
import nativecall as nc
hypot = nc.wrap(nc.load("m").address("hypot"), "d:dd")
"""


def test_perf_has_no_names_behind_a_link(python, monkeypatch, tmp_path):
    """Another user may have planted it."""
    monkeypatch.setenv("NATIVECALL_PERF", "1")
    (tmp_path / "victim").write_text("theirs")
    code = """
os.symlink(sys.argv[1], f"/tmp/perf-{os.getpid()}.map")
try:
    hypot.convert("d:ff")
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
    hypot.convert("d:fi")
    found = told()
    for line in found.splitlines():
        start, size, name = line.split(" ", 2)
        assert int(start, 16) > 0 and int(size, 16) > 0
    assert found.count(" nativecall thunk d:fi d:dd ") == 1, found
    child = os.fork()
    if child == 0:
        try:
            hypot.convert("d:if")
            inherited = told()
            assert inherited.startswith(found), inherited
            assert " nativecall thunk d:if d:dd " in inherited
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


def test_names_of_an_object_file():
    text = "define void @one() { ret void }\ndefine i32 @two(i32 %x) { ret i32 %x }\n"
    data = engine._start()[0].emit(text, False)
    sizes = perfmap._sizes(data)
    assert sizes.keys() == {"one", "two"}
    assert all(0 < size < 64 for size in sizes.values())
    assert perfmap._sizes(b"MZ" + data) == {}
