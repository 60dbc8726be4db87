"""provide.h: types that offer entries and slots without bringing a runtime.

tests/ext/provides.c is built as C and as C++, and imported before any runtime and after one.
"""

from __future__ import annotations

import abc
import json
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import nativecall as nc
from support import build

TYPES = ("Open", "Final", "Heap", "Sealed", "Immutable")
JOINS = {"Final", "Sealed"} if sys.version_info >= (3, 12) else {"Final"}
FIRST, SECOND = 0x05010103, 0x05010203


@pytest.fixture(scope="module", params=["c", "c++"])
def path(request, builder, include) -> Path:
    if build.compiler(request.param) is None:
        pytest.skip(f"no {request.param} compiler")  # the README asks for one
    name = f"nc_provides_{request.param.replace('+', 'p')}"
    return builder.extension("provides.c", name, include=include, language=request.param)


@pytest.fixture(scope="module")
def provides(path):
    """The module, imported after the runtime."""
    return build.load_extension(path)


@pytest.fixture(scope="module")
def look(builder, include, tmp_path_factory):
    copied = tmp_path_factory.mktemp("copied")
    shutil.copy(include / "nativecall" / "nativecall_abi.h", copied)
    return build.load_extension(builder.extension("look.c", "look_provided", include=copied))


@pytest.mark.parametrize("name", TYPES)
def test_consumers_find_the_entries(provides, look, name):
    kind = getattr(provides, name)
    obj = kind()
    assert obj(3.0) == 1.5
    assert nc.wrap(obj).signatures == ("d:d", "f:f")
    assert nc.wrap(obj)["f:f"](3.0) == 1.5
    assert look.offers(obj) is True
    assert look.ask(obj, "d:d", 0) is not None
    assert look.ask(obj, "i:i", 0) is None
    # Only a type without subclasses has the metaclass, by which consumers find without the GIL.
    assert (type(kind) is nc.extensibletype) == (name in JOINS)
    assert look.find(obj, "d:d", 0) == (look.ask(obj, "d:d", 0) if name in JOINS else None)


@pytest.mark.parametrize("name", TYPES)
def test_the_kit_finds_no_fault(provides, path, name):
    command = [sys.executable, "-m", "nativecall.conformance", "--json"]
    code = f"import sys; sys.path.insert(0, {str(path.parent)!r}); import {provides.__name__} as m"
    helper = path.parent / f"objects_{provides.__name__}.py"
    helper.write_text(code + "\n" + "\n".join(f"{one} = m.{one}()" for one in TYPES) + "\n")
    done = subprocess.run(
        [*command, "--provider", f"{helper.stem}:{name}"],
        capture_output=True,
        text=True,
        check=False,
        cwd=path.parent,
    )
    answer = json.loads(done.stdout)
    assert [rule for rule in answer["rules"] if rule["status"] == "broken"] == []
    assert (done.returncode, answer["broken"]) == (0, 0)


@pytest.mark.parametrize("name", ["Open", "Heap", "Immutable", "Slotted"])
def test_subclasses_may_have_any_metaclass(provides, look, name):
    base = getattr(provides, name)

    class Abstract(base, abc.ABC):
        @abc.abstractmethod
        def size(self):
            """Subclasses say."""

    class Whole(Abstract):
        def size(self):
            return 3

    assert Abstract.__abstractmethods__ == {"size"}
    if name == "Slotted":
        assert provides.ask(Whole(), FIRST) == 7
        return
    assert nc.wrap(Whole())["d:d"](5.0) == 2.5

    class Overrides(Whole):
        def __call__(self, x):
            return -x

    class Removes(Whole):
        __nativecall_api__ = None

    for one in (Overrides(), Removes()):
        assert look.ask(one, "d:d", 0) is None


def test_an_assigned_call_withdraws_the_entries(provides, look):
    class Sub(provides.Heap):
        pass

    obj = Sub()
    assert look.ask(obj, "d:d", 0) is not None
    Sub.__call__ = lambda self, x: -x
    assert look.ask(obj, "d:d", 0) is None
    del Sub.__call__
    assert look.ask(obj, "d:d", 0) is not None


def test_slots_by_an_attribute(provides):
    ask = provides.ask
    assert (ask(provides.Slotted(), FIRST), ask(provides.Slotted(), SECOND)) == (7, 8)
    assert ask(provides.Slotted(), 0x05010303) is ask(object(), FIRST) is ask(int, FIRST) is None

    class Own(provides.Slotted):
        __nativecall_slots__ = provides.Slotted.__dict__["__nativecall_slots__"]

    class Removes(Own):
        __nativecall_slots__ = None

    class Wrong(Own):
        __nativecall_slots__ = 3

    assert (ask(Own(), SECOND), ask(Removes(), SECOND)) == (8, None)
    with pytest.raises(
        TypeError,
        match=r"^'__nativecall_slots__' of Wrong must be a capsule named "
        r"'nativecall_slots_v1' or None \(got 3\)$",
    ):
        ask(Wrong(), FIRST)

    class Both(metaclass=nc.extensibletype):
        __customslots__ = {FIRST: 1}
        __nativecall_slots__ = Own.__nativecall_slots__

    assert (ask(Both(), FIRST), ask(Both(), SECOND)) == (1, 8)


def test_python_code_sees_slots_by_an_attribute(provides, fails):
    base, both = provides.Slotted, (nc.Slot(FIRST, 0, 7), nc.Slot(SECOND, 0, 8))

    class Sub(base):
        pass

    class Removes(Sub):
        __nativecall_slots__ = None

    class Wrong(Sub):
        __nativecall_slots__ = base.__basicsize__

    class Named(Sub):
        __nativecall_slots__ = provides.Open.__dict__["__nativecall_api__"]

    class Own(metaclass=nc.extensibletype):
        __customslots__ = {SECOND: 1}
        __nativecall_slots__ = base.__nativecall_slots__

    for obj in (base, base(), Sub, Sub()):
        assert nc.customslots(obj) == both
    for obj in (Removes, Removes(), provides.Open(), int, 3):
        assert nc.customslots(obj) == ()
    assert nc.customslots(Own()) == nc.customslots(Own) == (nc.Slot(SECOND, 0, 1), both[0])
    for kind, found in ((Wrong, "int"), (Named, "PyCapsule")):
        with fails(
            TypeError,
            f"'__nativecall_slots__' of {kind.__name__} must be a capsule named "
            f"'nativecall_slots_v1' or None (got {found})",
        ):
            nc.customslots(kind())


def test_no_runtime_is_needed(path, provides):
    """Without one, types are ordinary; a runtime that comes later finds their entries."""
    code = f"""
import abc, sys
sys.path.insert(0, {str(path.parent)!r})
import {provides.__name__} as m
kinds = [getattr(m, name) for name in {TYPES!r}]
assert "_extensibletype" not in sys.modules and "nativecall" not in sys.modules
assert all(type(kind) is type and kind()(3.0) == 1.5 for kind in kinds)
assert m.ask(m.Slotted(), {FIRST}) == 7
class Sub(m.Open, abc.ABC): pass
sys.path.pop(0)
import nativecall as nc
for kind in [*kinds, Sub]:
    assert nc.wrap(kind()).signatures == ("d:d", "f:f")
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=path.parent)


def text_of(path: Path) -> int:
    out = subprocess.run(["size", "-A", "-d", path], capture_output=True, text=True, check=True)
    return sum(int(line.split()[1]) for line in out.stdout.splitlines() if line[:5] == ".text")


@pytest.mark.skipif(shutil.which("size") is None, reason="no 'size'")
@pytest.mark.skipif(sys.platform != "linux", reason="reads ELF sections")
def test_a_module_grows_by_three_kilobytes_at_most(builder, include):
    plain, least = (
        builder.extension(
            "provides.c", "nc_cost", include=include, defines=[define], directory=define
        )
        for define in ("PLAIN", "LEAST")
    )
    assert text_of(least) - text_of(plain) <= 3 * 1024


@pytest.mark.nightly
@pytest.mark.compiler
def test_a_module_compiles_a_tenth_of_a_second_longer_at_most(include, tmp_path):
    def seconds(define: str) -> float:
        flags = ["-std=c99", "-O2", "-c", "-DMODULE=nc_cost", define, f"-I{include}"]
        flags += ["-isystem", build.sysconfig.get_path("include"), str(build.EXT / "provides.c")]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([*build.compiler(), *flags, "-o", tmp_path / "cost.o"], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    costs = [[seconds(define) for define in ("-DPLAIN", "-DLEAST")] for _ in range(5)]
    plain, least = map(min, zip(*costs, strict=True))
    assert least - plain <= 0.1
