"""nativecall_abi.h: one copied file finds what objects offer.

The consumers are built with a directory that holds this file and nothing else of ours. The kit
asks them about runtimes that come late (tests/conformance/test_kit.py), and the vectors about
runtimes that do not suit (tests/core/test_vectors.py).
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import pytest

import nativecall as nc
from nativecall import _lib
from support import build, packed

LANGUAGES = ["c", "c++"]
CALL_ID, PACKED_ID = 0x04000001, 0x04000003


@pytest.fixture(scope="session")
def copied(include, tmp_path_factory) -> Path:
    """A directory with one file, as a project that only looks has it."""
    directory = tmp_path_factory.mktemp("copied")
    shutil.copy(include / "nativecall" / "nativecall_abi.h", directory)
    return directory


@pytest.fixture(scope="session")
def modules(builder, copied, vendored) -> Path:
    """A directory of two consumers, in C and C++, and a provider that bundles all headers."""
    for language in LANGUAGES:
        if build.compiler(language) is None:
            pytest.skip(f"no {language} compiler")
        name = f"look_{language.replace('+', 'p')}"
        path = builder.extension(
            "look.c", name, include=copied, language=language, directory="look"
        )
    builder.extension("provider.c", "look_provider", include=vendored, directory="look")
    return path.parent


@pytest.fixture(scope="session", params=["look_c", "look_cpp"])
def look(request, modules):
    (path,) = modules.glob(f"{request.param}.*")
    return build.load_extension(path)


def word(signature: str) -> int:
    (found,) = packed.pack(signature)
    return found


def test_it_is_one_file_of_two_hundred_lines(copied):
    text = (copied / "nativecall_abi.h").read_text()
    assert len(text.splitlines()) <= 200
    assert set(re.findall(r"#include (\S+)", text)) == {"<Python.h>", "<stddef.h>", "<stdint.h>"}


def test_every_entry_is_found(look, lib):
    f = nc.wrap({"d:d": lib.address("square"), "f:f": lib.address("same_f32")})
    f.add("q:q", lib.address("same_i64"), gil="need")
    f.add("i:i", lib.address("same_i32"), errors="nonzero")
    rows = [(entry.signature, entry.flags, entry.address) for entry in f.entries]
    for g in (f, f.builtin):
        assert look.entries(g) == rows
        for signature, flags, address in rows:
            assert look.find(g, signature) == (flags, address)
            assert look.word(g, word(signature)) == address
            for refuse in (0x1, 0xF0, 0xF1):
                suits = not flags & refuse
                assert look.find(g, signature, refuse) == ((flags, address) if suits else None)
                assert look.word(g, word(signature), refuse) == (address if suits else None)
        assert look.find(g, "d:dd") is None
        assert look.word(g, word("d:dd")) is None
        assert look.find_null(g) is None
    assert look.total(f, 1.0, 3) == 14.0


def test_what_offers_nothing(look, lib):
    square = lib.function("square", "d:d")
    for other in (None, 1, object(), print, [].append, type, nc.NativeCallable, square.address):
        assert look.find(other, "d:d") is None
        assert look.word(other, word("d:d")) is None
        assert look.word(other, 0) is None
        assert look.entries(other) == []
        assert look.ask(other, "d:d") is None
        assert look.total(other, 1.0, 1) is None
    empty = nc.NativeCallable.__new__(nc.NativeCallable)
    assert (look.entries(empty), look.find_null(empty)) == ([], None)


def test_a_provider_without_a_packed_table(look, modules, lib):
    (path,) = modules.glob("look_provider.*")
    base = build.load_extension(path).Base()
    assert look.word(base, word("d:d")) is None, "is to be asked by the text"
    assert look.total(base, 1.0, 2) == 1.5
    assert [row[:2] for row in look.entries(base)] == [("d:d", 0)]


def test_entries_of_a_later_abi_are_not_found(look, bad, lib):
    square = lib.address("square")
    for bit in (24, 40, 62):
        later = ("d:d", 1 << bit, 8)
        assert look.find(bad.raw([later], [], 1), "d:d") is None
        both = bad.raw([later, ("d:d", 0, square)], [], 2)
        assert look.find(both, "d:d") == (0, square)
        assert look.entries(both) == [("d:d", 0, square)]
    # An ignorable flag is ignored.
    assert look.find(bad.raw([("d:d", 1 << 20, square)], [], 1), "d:d") == (1 << 20, square)


def test_overridden_calls_are_not_found(look, lib):
    class Same(nc.NativeCallable):
        pass

    class Other(nc.NativeCallable):
        def __call__(self, x):
            return 2.0

    class Meta(nc.extensibletype):
        __setattr__ = type.__setattr__  # they go past the runtime's
        __delattr__ = type.__delattr__

    class Derived(nc.NativeCallable, metaclass=Meta):
        pass

    args = (lib.address("square"), "d:d")
    assert look.total(Same(*args), 3.0, 1) == 9.0
    assert look.total(Other(*args), 3.0, 1) is None
    derived = Derived(*args)
    assert look.total(derived, 3.0, 1) == 9.0
    Derived.__call__ = lambda self, x: 2.0
    assert look.total(derived, 3.0, 1) is None
    assert look.word(derived, word("d:d")) is None


def test_slots_that_are_no_call_tables_do_not_depend_on_calls(look, lib):
    """find.md, Step 2: where a class overrides `__call__`, the others are as they were."""

    class Meta(nc.extensibletype):
        __setattr__ = type.__setattr__  # they go past the runtime's
        __delattr__ = type.__delattr__

    named, unknown, objects = _lib.intern(b"look"), 0x7F000001, 0x04000101
    ob_type = object.__basicsize__ - 8  # the last field of PyObject
    rows = dict.fromkeys((named, unknown), (0, ob_type))

    class Derived(nc.NativeCallable, metaclass=Meta):
        __customslots__ = rows

    derived = Derived(lib.address("square"), "d:d")
    for _ in range(2):
        for key in rows:
            assert look.slot(derived, key) == id(Derived)
        Derived.__call__ = lambda self, x: 2.0
    assert look.slot(derived, CALL_ID) is look.slot(derived, PACKED_ID) is None
    assert look.slot(derived, named + 8) is look.slot(derived, objects) is None
    assert look.slot(object(), named) is None


def test_tier_2(look, bad, lib):
    square = lib.address("square")

    class Offers:
        __nativecall_api__ = bad.api([("f:f", 0, 8), ("d:d", 1, square)])

    class Same(Offers):
        pass

    class Overrides(Offers):
        def __call__(self, x):
            return x

    class Takes(Offers):
        __nativecall_api__ = None

    class Wrong:
        __nativecall_api__ = "no capsule"

    for kind in (Offers, Same):
        assert look.ask(kind(), "d:d") == (1, square)
        assert look.ask(kind(), "d:d", 1) is None
        assert look.ask(kind(), "q:q") is None
        assert look.find(kind(), "d:d") is None
    for kind in (Overrides, Takes, Wrong):
        assert look.ask(kind(), "d:d") is None
    for entry in (("d:d", 1 << 30, 8), ("d:d", 0, 0), (None, 0, 8)):
        kind = type("Offers", (), {"__nativecall_api__": bad.api([entry])})
        assert look.ask(kind(), "d:d") is None


def test_a_builtin_base_overrides_tier_2(look, bad, lib):
    """CPython keeps dictionaries of its static types elsewhere than in tp_dict, from 3.12 on."""

    class Offers:
        __nativecall_api__ = bad.api([("d:d", 0, lib.address("square"))])

    class Called(weakref.ref, Offers):
        __slots__ = ()

    class Offered(Offers, weakref.ref):
        __slots__ = ()

    assert "__call__" in vars(weakref.ref)
    assert look.ask(Called(Offers), "d:d") is None
    assert look.ask(Offered(Offers), "d:d") == (0, lib.address("square"))


def test_a_view_of_what_offers_by_tier_2(look, foreign):
    folder = foreign("provider", "look_foreign")
    offered = build.load_extension(next(folder.glob("look_foreign.*.so"))).tier2
    assert look.find(offered.view, "d:d") is None
    found = look.ask(offered, "d:d")
    assert found is not None
    assert look.ask(offered.view, "d:d") == found


def test_an_entry_made_on_demand(look, lib):
    f = nc.wrap(lib.address("square"), "d:d")
    f.specialize = lambda f, signature: lib.address("same_f32") if signature == "f:f" else None
    assert look.find(f, "f:f") is None
    assert look.ask(f, "f:f") == (0, lib.address("same_f32"))
    assert look.find(f, "f:f") == (0, lib.address("same_f32"))

    def fails(f, signature):
        raise LookupError(signature)

    f.specialize = fails
    with pytest.raises(LookupError, match="q:q"):
        look.ask(f, "q:q")


def test_entries_appear_while_others_read(look, lib):
    f = nc.wrap(lib.address("square"), "d:d")
    ended = threading.Event()
    counts = []

    def read():
        while not ended.is_set():
            counts.append(look.lookups(f, "d:d", 2000))

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for i in range(1, 60):
        f.add("d:" + "d" * (i + 1), lib.address("same_f64"))
        f.add("d:d", lib.address(("same_f64", "square")[i % 2]), replace=True)
    ended.set()
    for thread in threads:
        thread.join()
    assert set(counts) == {2000}
    assert len(look.entries(f)) == 60


@pytest.mark.parametrize("language", LANGUAGES)
def test_from_cython(builder, copied, lib, language):
    name = f"look_cython_{language.replace('+', 'p')}"
    source = shutil.copy(build.EXT / "look_cython.pyx", copied / f"{name}.pyx")
    path = builder.cython(Path(source), name, include=copied, language=language)
    total = build.load_extension(path).total
    square = lib.function("square", "d:d")
    assert total(square, 1.0, 3) == total(square.builtin, 1.0, 3) == 14.0
    assert total(abs, 1.0, 3) is None


# -- an older runtime ---------------------------------------------------------------------------

SMALLER = """
import ctypes, mmap, struct, sys, types
page = mmap.PAGESIZE
memory = mmap.mmap(-1, 2 * page)
start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
name = ctypes.create_string_buffer(b"an older module")
# The first 24 bytes, which every version has; behind them nothing can be read.
memory[page - 24 : page] = struct.pack("=IIIIQ", 1, 24, 1000, 24, ctypes.addressof(name))
protect = ctypes.CDLL(None).mprotect
protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
assert protect(start + page, page, 0) == 0
new = ctypes.pythonapi.PyCapsule_New
new.restype, new.argtypes = ctypes.py_object, [ctypes.c_size_t, ctypes.c_char_p, ctypes.c_void_p]
capsule_name = b"_extensibletype.runtime_v1"
module = sys.modules["_extensibletype"] = types.ModuleType("_extensibletype")
module.runtime_v1 = new(start + page - 24, capsule_name, None)
sys.path.insert(0, sys.argv[1])
import look_c
assert not look_c.find(object(), "d:d", 0)
import importlib
try:
    importlib.import_module("nativecall")
except ImportError as error:
    assert "was built for extensibletype ABI 1" in str(error), error
    print("refused", flush=True)
import os
os._exit(0)
"""


@pytest.mark.skipif(sys.maxsize < 2**32 or sys.platform == "win32", reason="needs mprotect")
def test_a_runtime_of_24_bytes_is_not_read_behind_them(modules):
    done = subprocess.run(
        [sys.executable, "-P", "-c", SMALLER, str(modules)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "refused"), done.stderr
