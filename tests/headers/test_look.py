"""nativecall_abi.h: one copied file finds what objects offer.

The consumers are built with a directory that holds this file and nothing else of ours. That they
keep all rules of consumers is asked by the kit (tests/conformance/test_kit.py), and by the vectors
which runtimes suit (tests/core/test_vectors.py).
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
from nativecall.conformance import _abi
from support import build
from support.capsules import capsule, get_pointer
from support.threads import each

LANGUAGES = ["c", "c++"]
CALL_ID, PACKED_ID = 0x04000001, 0x04000003


@pytest.fixture(scope="session")
def copied(include, tmp_path_factory) -> Path:
    """A directory with one file, as a project that only looks has it."""
    directory = tmp_path_factory.mktemp("copied")
    shutil.copy(include / "nativecall" / "nativecall_abi.h", directory)
    return directory


@pytest.fixture(scope="session")
def modules(builder, copied) -> Path:
    """A directory of two consumers, in C and C++."""
    for language in LANGUAGES:
        if build.compiler(language) is None:
            pytest.skip(f"no {language} compiler")
        name = f"look_{language.replace('+', 'p')}"
        path = builder.extension(
            "look.c", name, include=copied, language=language, directory="look"
        )
    return path.parent


@pytest.fixture(scope="session", params=["look_c", "look_cpp"])
def look(request, modules):
    (path,) = modules.glob(f"{request.param}.*")
    return build.load_extension(path)


def test_it_is_one_short_file(copied):
    text = (copied / "nativecall_abi.h").read_text()
    assert len(text.splitlines()) <= 230
    headers = {"<Python.h>", "<stddef.h>", "<stdint.h>", '"nativecall_abi3.h"'}
    assert set(re.findall(r"#include (\S+)", text)) == headers


def test_most_objects_offer_nothing(look, lib):
    f = lib.function("square", "d:d")
    for obj in (f, f.builtin):
        assert look.offers(obj) is True
    for obj in (lambda x: x, len, [].append, 1.5, None, int, Path):
        assert look.offers(obj) is False
    api = nc.NativeCallable.__nativecall_api__
    kind = type("Kind", (), {"__call__": lambda self: 0})
    for _ in range(3):
        assert look.offers(kind()) is False
        kind.__nativecall_api__ = api
        assert look.offers(kind()) is True
        assert look.offers(type("Sub", (kind,), {})()) is True
        assert look.offers(type("Own", (kind,), {"__call__": len})()) is False
        kind.__nativecall_api__ = None
        assert look.offers(kind()) is False
        del kind.__nativecall_api__


def test_threads_look_while_a_class_changes(look, lib):
    """Capsules end with their assignment to the class; the interface in them lives on."""
    f = lib.function("square", "d:d")
    name = b"nativecall_api_v1"
    address = get_pointer(nc.NativeCallable.__nativecall_api__, name)
    kind = type("Kind", (), {"__call__": lambda self: 0})
    one = kind()
    quiet = threading.Barrier(4)

    def race(number):
        for turn in range(300):
            if number == 0:
                kind.__nativecall_api__ = capsule(name, address) if turn % 2 else None
            assert look.offers(one) in (True, False)
            assert look.find(f, "d:d")[1] == lib.address("square")
        quiet.wait()
        return look.offers(one)

    assert each(race, *range(4)) == [True] * 4


def test_every_entry_is_found(look, lib):
    f = nc.wrap({"d:d": lib.address("square"), "f:f": lib.address("same_f32")})
    f.add("q:q", lib.address("same_i64"), gil="need")
    f.add("i:i", lib.address("same_i32"), errors="nonzero")
    rows = [(entry.signature, entry.flags, entry.address) for entry in f.entries]
    for g in (f, f.builtin):
        assert look.entries(g) == rows
        for signature, flags, address in rows:
            assert look.find(g, signature) == (flags, address)
            for refuse in (0x1, 0xF0, 0xF1):
                suits = not flags & refuse
                assert look.find(g, signature, refuse) == ((flags, address) if suits else None)
        assert look.find(g, "d:dd") is None
        assert look.find_null(g) is None


def test_slots_that_are_no_call_tables_do_not_depend_on_calls(look, lib):
    """find.md, Step 2: where a class overrides `__call__`, the others are as they were."""

    class Meta(nc.extensibletype):
        __setattr__ = type.__setattr__  # they go past the runtime's
        __delattr__ = type.__delattr__

    named, unknown, objects = _abi.intern(b"look"), 0x7F000001, 0x04000101
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
