"""Modules that are built for the limited API: a consumer of every way, and providers by tier 2.

One binary is loaded by every Python that this machine has, with the runtime of a provider that is
built for that Python. With free-threaded builds it shares the source, for abi3t."""

import importlib.machinery
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import nativecall as nc
from support import build, compilecache
from support.threads import HAS_GIL

pytestmark = pytest.mark.skipif(
    not HAS_GIL and sys.version_info < (3, 15), reason="abi3t is new in Python 3.15"
)

FLAG = "Py_LIMITED_API=0x030B0000"
if not HAS_GIL:
    FLAG = "Py_TARGET_ABI3T=0x030F0000"


@pytest.fixture(scope="module")
def binary(builder, include):
    path = include / "nativecall"
    return builder.extension("limited.c", "nc_limited", include=path, defines=[FLAG])


@pytest.fixture(scope="module")
def limited(binary):
    return build.load_extension(binary)


def test_every_way_finds_entries(limited, lib):
    address = lib.address("square")
    f = nc.wrap(address, "d:d", gil="need")
    for g in (f, f.builtin):
        assert limited.offers(g) is True
        for way in (limited.find, limited.table, limited.ask):
            assert way(g, "d:d") == address
            assert way(g, "d:d", 1) is way(g, "f:f") is None
        assert limited.slot(g, 0x04000001) != limited.slot(g, 0x04000003)
        assert limited.slot(g, 0x7F000001) is None


def test_derived_metatypes_and_overrides(limited, lib):
    class Meta(nc.extensibletype):
        pass

    class Derived(nc.NativeCallable, metaclass=Meta):
        pass

    class Overrides(nc.NativeCallable):
        def __call__(self, x):
            return 2.0

    address = lib.address("square")
    assert limited.table(Derived(address, "d:d"), "d:d") == address
    Derived.__call__ = lambda self, x: 2.0
    for kind in (Derived, Overrides):
        assert limited.find(kind(address, "d:d"), "d:d") is None


def test_most_objects_offer_nothing(limited):
    api = nc.NativeCallable.__nativecall_api__
    kind = type("Kind", (), {"__call__": lambda self: 0})
    for obj in (lambda x: x, len, [].append, 1.5, None, int, Path):
        assert limited.offers(obj) is False
        assert limited.find(obj, "d:d") is None
    for _ in range(3):  # a kept answer is that of the type as it is
        assert limited.offers(kind()) is False
        kind.__nativecall_api__ = api
        assert limited.offers(kind()) is True
        assert limited.offers(type("Own", (kind,), {"__call__": len})()) is False
        kind.__nativecall_api__ = None
        assert limited.offers(kind()) is False
        del kind.__nativecall_api__


def test_answers_are_kept(limited):
    """By the version tag, which the limited API does not have: no attribute is read again."""
    reads = []

    class Meta(type):
        def __getattribute__(cls, name):
            reads.append(name)
            return super().__getattribute__(name)

    obj = Meta("Kind", (), {})()
    for _ in range(2):  # the first assigns the tag
        assert limited.ask(obj, "d:d") is None
    assert "__nativecall_api__" in reads
    reads.clear()
    assert limited.ask(obj, "d:d") is None
    if sys.version_info < (3, 16):
        assert reads == []


@pytest.mark.parametrize("name", ["Heap", "Immutable"])
def test_tier_2_offers_entries(limited, name):
    obj = getattr(limited, name)()
    address = limited.find(obj, "d:d")
    assert limited.table(obj, "d:d") is None
    assert nc.wrap(obj)(2.5) == obj(2.5) == 3.5
    assert [(e.signature, e.address) for e in nc.wrap(obj).entries] == [("d:d", address)]


def test_an_immutable_type_stays_so(limited):
    with pytest.raises(TypeError, match="immutable type"):
        limited.Immutable.__call__ = len

    class Sub(limited.Heap):
        pass

    class Takes(limited.Heap):
        __nativecall_api__ = None

    obj = Sub()
    assert limited.find(obj, "d:d")
    assert limited.find(Takes(), "d:d") is None
    Sub.__call__ = lambda self, x: 0.0
    assert limited.find(obj, "d:d") is None


@pytest.mark.parametrize("arguments", ["find", "ask --tier2"])
def test_the_kit_passes_it(limited, binary, arguments):
    command = f"-m nativecall.conformance --consumer nc_limited:{arguments}"
    done = subprocess.run(
        [sys.executable, *command.split()],
        capture_output=True,
        text=True,
        cwd=binary.parent,
        check=False,
    )
    assert done.returncode == 0, done.stdout


# -- one binary ---------------------------------------------------------------------------------

PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
import nc_limited as limited
assert limited.offers(len) is False and limited.table(len, "d:d") is None
import provider
assert provider.RUNTIME_PROVIDER != "nativecall"
obj = provider.Base()
assert limited.offers(obj)
assert limited.find(obj, "d:d") == limited.table(obj, "d:d") == provider.HALF
both = provider.Both()
both.add("d:d", 0, provider.THIRD)
assert limited.table(both, "d:d") == provider.THIRD
assert limited.slot(both, 0x04000001) and limited.slot(both, 0x04000003)
assert limited.slot(both, 0x7F000001) is None
for kind in (limited.Heap, limited.Immutable):
    assert limited.offers(kind()) and limited.ask(kind(), "d:d")
    assert limited.table(kind(), "d:d") is None
print(type.__basicsize__)
"""


def others():
    """The command of each other Python from 3.11 on."""
    for minor in range(11, 20):
        command = shutil.which(f"python3.{minor}")
        if command is not None and minor != sys.version_info.minor:
            text = "import sysconfig; print(sysconfig.get_path('include'))"
            done = subprocess.run(
                [command, "-c", text], capture_output=True, text=True, check=False
            )
            if done.returncode == 0 and Path(done.stdout.strip(), "Python.h").exists():
                yield command, done.stdout.strip()


@pytest.mark.compiler
@pytest.mark.skipif("ABI3T" in FLAG, reason="abi3 is of builds with the GIL")
def test_one_binary_on_every_python(binary, include, tmp_path):
    sizes = {}
    shutil.copy(binary, tmp_path / "nc_limited.abi3.so")
    for command, headers in [(sys.executable, sysconfig.get_path("include")), *others()]:
        arguments = [*build.compiler(), "-O0", *build.SHARED, "-DMODULE=provider", f"-I{include}"]
        arguments += ["-isystem", headers, str(build.EXT / "provider.c")]
        folder = tmp_path / Path(command).name
        folder.mkdir()
        module = folder / "provider.so"
        compilecache.compiled([*arguments, "-o", str(module)], module)
        shutil.copy(tmp_path / "nc_limited.abi3.so", folder)
        done = subprocess.run(
            [command, "-c", PROGRAM, str(folder)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (command, done.stderr)
        sizes[command] = int(done.stdout)
    assert sizes.pop(sys.executable) == type.__basicsize__
    assert ".abi3.so" in importlib.machinery.EXTENSION_SUFFIXES
