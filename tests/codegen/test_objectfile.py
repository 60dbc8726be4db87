"""Object files that refer to nothing outside are loaded by the core; LLVM links all others."""

from __future__ import annotations

import ctypes
import os
import platform
import sys

import pytest

from nativecall import _ext
from nativecall._codegen import engine
from support.modes import generates

HERE = sys.platform == "linux" and platform.machine() == "x86_64"
pytestmark = [
    generates,
    pytest.mark.skipif(not HERE, reason="it loads ELF files of x86-64"),
]

#: Two functions, one of which reads a constant by an index and calls the other.
TABLE = """
@table = private constant [4 x i64] [i64 3, i64 5, i64 7, i64 11]
define i64 @more(i64 %n) nounwind noinline {
  %m = add i64 %n, 100
  ret i64 %m
}
define i64 @answer(i64 %n) nounwind {
  %at = getelementptr [4 x i64], ptr @table, i64 0, i64 %n
  %found = load i64, ptr %at
  %more = call i64 @more(i64 %found)
  ret i64 %more
}
"""


def emitted(text: str, optimized: bool = False) -> bytes:
    machine, reason = engine._start()
    assert machine is not None, reason
    return machine.emit(text, optimized)


def load(data: bytes, name: str) -> tuple[object, int] | None:
    return _ext.load_object(data, name)


@pytest.mark.parametrize("optimized", [False, True])
def test_functions_and_what_they_refer_to(optimized):
    answer, more = [load(emitted(TABLE, optimized), name) for name in ("answer", "more")]
    assert answer is not None
    assert more is not None
    prototype = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
    assert [prototype(answer[1])(n) for n in range(4)] == [103, 105, 107, 111]
    assert prototype(more[1])(1) == 101


def test_code_can_be_run_and_not_be_written():
    loaded = load(emitted(TABLE), "answer")
    assert loaded is not None
    _kept, address = loaded
    with open("/proc/self/maps") as maps:
        for line in maps:
            low, high = (int(part, 16) for part in line.split()[0].split("-"))
            if low <= address < high:
                assert line.split()[1] == "r-xp"
                return
    raise AssertionError("the code is nowhere")


@pytest.mark.parametrize(
    "text",
    [
        "declare i32 @abs(i32)\ndefine i32 @answer(i32 %n) nounwind {\n"
        "  %m = call i32 @abs(i32 %n)\n  ret i32 %m\n}\n",
        "@n = external global i32\ndefine i32 @answer() nounwind {\n"
        "  %m = load i32, ptr @n\n  ret i32 %m\n}\n",
        "@n = global i32 3\ndefine i32 @answer() nounwind {\n"
        "  %m = load i32, ptr @n\n  ret i32 %m\n}\n",
        "@n = thread_local global i32 3\ndefine i32 @answer() nounwind {\n"
        "  %m = load i32, ptr @n\n  ret i32 %m\n}\n",
        "@n = constant ptr @answer\ndefine ptr @answer() nounwind {\n  ret ptr @n\n}\n",
        "define i32 @other() nounwind {\n  ret i32 3\n}\n",
        "define internal i32 @answer() noinline nounwind {\n  ret i32 3\n}\n"
        "define i32 @other() nounwind {\n  %n = call i32 @answer()\n  ret i32 %n\n}\n",
    ],
    ids=[
        "another's function",
        "another's variable",
        "a variable",
        "a thread's variable",
        "an address",
        "missing",
        "its own",
    ],
)
def test_what_is_left_to_llvm(text):
    assert load(emitted(text), "answer") is None


def test_code_that_exceptions_may_pass_through_is_loaded_and_freed():
    data = emitted("declare i32 @abs(i32)\ndefine i32 @answer() {\n  ret i32 3\n}\n")
    assert b".eh_frame" in data
    for _ in range(100):
        loaded = load(data, "answer")
        assert loaded is not None
        assert ctypes.CFUNCTYPE(ctypes.c_int)(loaded[1])() == 3


def test_what_is_no_object_file():
    assert load(b"", "answer") is None
    assert load(b"no object file" * 100, "answer") is None
    data = bytearray(emitted(TABLE))
    for at, value in ((4, 1), (5, 2), (16, 2), (18, 183)):
        # 32 bits, big-endian, an executable, a processor of ARM's
        kept, data[at] = data[at], value
        assert load(bytes(data), "answer") is None
        data[at] = kept
    assert load(bytes(data), "answer") is not None


def test_a_file_that_was_cut():
    data = emitted(TABLE)
    for size in range(len(data)):
        assert load(data[:size], "answer") is None


def test_a_file_that_was_changed():
    """Any byte: what it says is checked before it is used. Only the SHA-256 of a kept file tells
    that the code itself is another.
    """
    data = bytearray(emitted(TABLE))
    for at, byte in enumerate(data):
        for value in {0, 0x7F, 0xFF, byte ^ 1, byte ^ 0x80} - {byte}:
            data[at] = value
            for name in ("answer", "more"):
                loaded = load(bytes(data), name)
                assert loaded is None or loaded[1] > 0
        data[at] = byte


def test_arguments():
    with pytest.raises(TypeError):
        load("text", "answer")
    with pytest.raises(TypeError):
        _ext.load_object(emitted(TABLE), ["answer"])
    with pytest.raises(ValueError, match="null"):
        _ext.load_object(emitted(TABLE), "ans\0wer")


def test_room():
    assert _ext.has_room(1 << 20)
    assert not _ext.has_room(1 << 62)
    with pytest.raises(OverflowError):
        _ext.has_room(-1)


def test_loops_of_ufuncs_need_no_linker(forked):
    """The code that calls them refers to nothing outside."""
    code = (
        "import numpy as np\n"
        "import nativecall as nc\n"
        "from nativecall._codegen import engine\n"
        "print(nc.wrap(np.hypot)['d:dd'](3, 4), engine._start()[0]._linker)\n"
    )
    assert forked(code) == "5.0 None\n"
    assert os.environ.get("NATIVECALL_JIT") != "0"
