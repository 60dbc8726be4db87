"""Object files that are kept are found and loaded without LLVM, by what another process noted."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from nativecall import _cache, _ext, _lib
from nativecall._cache import Cache
from nativecall._codegen import engine, identity
from support.modes import GENERATED, generates

CALLS = """
import sys
import numpy as np
import nativecall as nc
def used():
    return sorted({name.partition('.')[0] for name in sys.modules} & {'llvmlite'})
print(nc.wrap(np.hypot)['d:dd'](3, 4), used())
"""
# Whatever llvmlite makes code for; a large struct is copied.
CONVERSIONS = (
    CALLS
    + """
m = nc.load("m", "double pow(double, double); double hypot(double, double);")
print(m.pow.bind(2.0)(3), m.hypot.convert("float (int, float *)")(2, np.array([3, 4], "f")))
print(nc.wrap(m.address("cos"), "v:T{(40)d}i").convert("v:&T{(40)d}d").signatures)
print(m.hypot.to_ufunc()([3.0, 6.0], [4.0, 8.0]), np.add.reduce(m.pow.bind(2.0).to_ufunc()([1, 2])))
print(nc.ufunc_loop(np.hypot, "dd->d").signatures, used())
"""
)
ANOTHER = """
import nativecall as nc
nc._ext.processor = lambda: {told!r}
"""
WITH = "5.0 ['llvmlite']\n"
WITHOUT = "5.0 []\n"

pytestmark = [
    generates,
    pytest.mark.skipif(not GENERATED, reason="no generated code"),
    pytest.mark.skipif(
        sys.platform != "linux" or not _ext.processor(),
        reason="the processor is not told, or object files are linked",
    ),
]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache directory of the processes that a test starts."""
    found = tmp_path / "cache"
    monkeypatch.setenv("NATIVECALL_CACHE_DIR", str(found))
    return found


def test_what_is_kept_needs_no_llvm(forked, place):
    assert forked(CALLS) == WITH
    assert forked(CALLS) == WITHOUT
    more = "print(nc.wrap(np.sqrt)['d:d'](25), used())\n"
    assert forked(CALLS + more) == WITHOUT + WITH, "and goes on with it"


def test_conversions_and_ufuncs_that_are_kept_need_no_llvm(forked, place):
    first, second = forked(CONVERSIONS), forked(CONVERSIONS)
    assert first.count("['llvmlite']") == 2
    assert second == first.replace("['llvmlite']", "[]")
    assert second.splitlines()[1:] == [
        "8.0 5.0",
        "('v:&T{(40)d}d',)",
        "[ 5. 10.] 6.0",
        "('d:dd', 'v:&&b&q&q') []",
    ]


def test_without_a_directory_llvm_is_asked_every_time(forked, place, monkeypatch):
    monkeypatch.setenv("NATIVECALL_CACHE_DIR", "")
    assert forked(CALLS) == forked(CALLS) == WITH


def test_code_that_is_forbidden_is_not_loaded(forked, place, monkeypatch):
    assert forked(CALLS) == WITH
    monkeypatch.setenv("NATIVECALL_JIT", "0")
    assert forked(CALLS) == WITHOUT


@pytest.mark.parametrize("told", [b"another", b""])
def test_another_processor_has_notes_of_its_own(forked, place, told):
    """A directory may be shared by machines."""
    assert forked(CALLS) == WITH
    assert forked(ANOTHER.format(told=told) + CALLS) == WITH
    assert forked(CALLS) == WITHOUT


def test_another_edition_of_the_package_has_notes_of_its_own(forked, place):
    assert forked(CALLS) == WITH
    another = "from nativecall._codegen import identity\nidentity._edition = lambda: 'another'\n"
    assert forked(another + CALLS) == WITH
    assert forked(another + CALLS) == WITHOUT


def test_all_that_writes_code_is_part_of_the_edition():
    names = {name.replace("\\", "/") for name, _, _ in identity._edition()}
    package = Path(identity.__file__).parents[1]
    for folder in ("_codegen", "_plan", "_cdecl", "_types", "_values"):
        here = {f"{folder}/{path.name}" for path in (package / folder).glob("*.py")}
        assert here
        assert here <= names
    assert Path(_lib.FILE).name in names
    assert "_lib.py" in names


def test_a_damaged_file_is_made_again(forked, place):
    assert forked(CALLS) == WITH
    for path in place.iterdir():
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
    assert forked(CALLS) == WITH
    assert forked(CALLS) == WITHOUT


def test_what_llvm_told_is_noted_once(tmp_path, monkeypatch):
    kept = Cache(str(tmp_path))
    monkeypatch.setattr(_cache, "_shared", kept)
    assert identity.noted() is None
    for told in ("one", "one", "another"):
        identity.note(told)
        assert kept.usage().files == 1
        kept.forget()
        assert identity.noted() == told


def test_a_started_llvm_is_used():
    assert engine.available()
    assert engine.kept("ufunc scalar 1 dd", "scalar") is None


def test_the_processor_is_the_same_on_every_core():
    import os

    allowed = os.sched_getaffinity(0)
    try:
        told = set()
        for core in allowed:
            os.sched_setaffinity(0, {core})
            told.add(_ext.processor())
    finally:
        os.sched_setaffinity(0, allowed)
    assert len(told) == 1
