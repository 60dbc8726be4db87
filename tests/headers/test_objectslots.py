"""Slots of single objects, words of flags, and IDs: composed, checked, allocated at run time.

The types and their objects are made by tests/ext/types.c, which also looks, without the GIL.
"""

import gc
import re
import sys
from types import ModuleType

import pytest

import nativecall as nc
from nativecall._cli import inspection
from support import build

CALL, PACKED, PLACE = 0x04000001, 0x04000003, 0x04000101
A, B, C, SKIP = 0x05000003, 0x05000005, 0x05000007, 1
WAYS = ("offset", "slot", "function", "function_by_slot", "next", "words")


@pytest.fixture(scope="module", params=["c", "c++"])
def c(request, builder, include):
    """The module of tests/ext/types.c, as C99 and as C++11."""
    name = {"c": "nc_objects_c", "c++": "nc_objects_cpp"}[request.param]
    return build.load_extension(
        builder.extension("types.c", name, include=include, language=request.param)
    )


@pytest.fixture(scope="module")
def cls(c):
    """A static type with call tables, a place for slots of its objects, and rows."""
    rows = [(CALL, 0, c.CALLS[0]), (PACKED, 0, c.PACKED[0]), (PLACE, 0, c.SLOTS)]
    return c.make(None, [*rows, (A, 1, 10), (B, 2, 20)], offset=c.CALLS[0], call=1)


# -- slots of single objects ---------------------------------------------------------------------


@pytest.mark.parametrize("position", [0, 1, 3, 4, 1000, -1])
def test_an_objects_row_goes_before_its_types(c, cls, position):
    obj, other = cls(), cls()
    c.set_slots(obj, [(B, 7, 70), (SKIP, 0, 0), (C, 8, 80)])
    for id, own, types in ((A, (1, 10), (1, 10)), (B, (7, 70), (2, 20)), (C, (8, 80), None)):
        assert c.find(obj, id, position) == own
        assert c.find(other, id, position) == types
    for thing in (obj, other, 5, object(), cls, c):
        for id in (0, SKIP, 0x05000009, 0x1000):
            assert c.find(thing, id, position) is None


def test_calls_do_not_look_at_them(c, cls, consumer):
    obj = cls()
    c.add(obj, 0, "d:d", 0, 16)
    before = [consumer.look(obj, way, "d:d", 0) for way in WAYS]
    c.set_slots(obj, [(A, 0, 5)])
    assert [consumer.look(obj, way, "d:d", 0) for way in WAYS] == before
    assert {entry[1] for entry in before} == {16}
    assert c.find(obj, CALL) == (0, c.CALLS[0])


def test_python_sees_them(c, cls):
    obj, other = cls(), cls()
    c.set_slots(obj, [(B, 7, 70), (SKIP, 0, 0), (C, 8, 80)])
    types = nc.customslots(cls)
    assert nc.customslots(other) == types
    assert nc.customslots(obj) == (
        nc.Slot(B, 7, 70),
        nc.Slot(SKIP, 0, 0),
        nc.Slot(C, 8, 80),
        *[slot for slot in types if slot.key != B],
    )


def test_inspect_names_the_place(cls, capsys, monkeypatch):
    module = ModuleType("nc_object_slots")
    module.obj = cls()
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(sys, "path", sys.path[:])  # the command adds to it
    assert inspection.run("nc_object_slots:obj") == 0
    shown = capsys.readouterr().out
    assert re.search(r"0x04000101 +0x0 +\d+  where objects keep their own slot table", shown)


def test_python_classes_inherit_the_place(c, cls):
    class Python(cls):
        __customslots__ = {"key": 3, C: 30}

        def __call__(self, x):
            return 5.0

    obj = Python()
    assert c.find(obj, C) == (0, 30)
    c.set_slots(obj, [(C, 0, 31)])
    assert c.find(obj, C) == (0, 31)
    assert c.find(obj, A) == (1, 10)
    assert c.find(obj, CALL) is None
    assert nc.customslots(obj)[0] == nc.Slot(C, 0, 31)


def test_a_type_without_calls(c):
    cls = c.make(None, [(PLACE, 0, c.SLOTS)])
    obj = cls()
    assert nc.customslots(obj) == (nc.Slot(PLACE, 0, c.SLOTS),)
    c.set_slots(obj, [(A, 0, n) for n in (4,)])
    assert c.find(obj, A) == (0, 4)


def test_what_cannot_be_an_objects(c, cls, fails):
    bare = c.make(None, [(A, 0, 1)])()
    name = f"{c.__name__}.Static"
    needs = "objects cannot have their own slots: their type needs a slot 0x04000101"
    for thing, type in ((bare, name), (object(), "object"), (5, "int")):
        with fails(TypeError, f"'{type}' {needs}"):
            c.set_slots(thing, [(A, 0, 1)])
    obj = cls()
    valid = (
        "must have a registrar in bits 24 to 31 and no higher bits set; an even key is an address"
    )
    for id, message in (
        (A, f"duplicate slot key {A:#x} in the slots of a '{name}' object"),
        (0, f"allocated slot key 0 {valid}"),
        (5, f"allocated slot key 0x5 {valid}"),
        (2**40 + 1, f"allocated slot key 0x10000000001 {valid}"),
        *[
            (
                id,
                f"slot key {id:#x} holds an offset into objects, so it belongs to their type, not "
                f"to a single '{name}' object",
            )
            for id in (CALL, PACKED, 0x040000FF, PLACE, 0x04000103)
        ],
    ):
        with fails(ValueError, message):
            c.set_slots(obj, [(A, 0, 1), (id, 0, 1)])
    with fails(ValueError, f"a '{name}' object cannot have 0 slots; 1 to 65536 are possible"):
        c.set_slots(obj, [])
    assert nc.customslots(obj) == nc.customslots(cls), "nothing half-done"
    c.set_slots(obj, [(A, 0, 1)])
    with fails(RuntimeError, f"this '{name}' object already has its own slots"):
        c.set_slots(obj, [(A, 0, 2)])
    assert c.find(obj, A) == (0, 1)


@pytest.mark.allocator
def test_tables_go_with_their_objects(c, cls):
    def use():
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    rows = [(2 * n + 0x1000, 0, n) for n in range(5000)]
    before = None
    for n in range(120):
        obj = cls()
        c.set_slots(obj, rows)
        assert c.find(obj, rows[-1][0]) == (0, 4999)
        del obj
        if n == 20:
            gc.collect()
            before = use()
    assert use() < before + 8000, "kilobytes"


# -- words of flags ------------------------------------------------------------------------------


def test_words_of_flags(c, cls):
    word = 2**63 | 5
    static = c.make(cls, [(C, 0, word - 2**64)], 8)

    class Python(static):
        pass

    class Other(static):
        __customslots__ = {C: 6}

    for made, expected in ((static, word), (Python, word), (Other, 6), (cls, 0), (object, 0)):
        assert c.flags(made(), C) == expected
    obj = Other()
    c.set_slots(obj, [(C, 0, 9)])
    assert c.flags(obj, C) == 9
    assert nc.customslots(static)[-1] == nc.Slot(C, 0, word)


# -- IDs -----------------------------------------------------------------------------------------


def test_composed_ids(c):
    assert c.IDS == [
        (CALL, 1),
        (PACKED, 1),
        (PLACE, 0),
        (0x01020309, 0),
        (0xFFFFFFFF, 0),
    ]


@pytest.mark.compiler
@pytest.mark.parametrize("language", ["c", "c++"])
@pytest.mark.parametrize(
    "parts",
    ["4, 1, 0", "0, 1, 0", "256, 1, 0", "-1, 1, 0", "4, 65536, 0", "4, -1, 0", "4, 1, 128"],
)
def test_ids_out_of_range_do_not_compile(include, tmp_path, language, parts):
    source = tmp_path / "id.c"
    source.write_text(
        "#include <nativecall/detail/core/slottable.h>\n"
        f"static const uintptr_t id = PYCUSTOMSLOT_ID({parts});\n"
        "int main(void) { return id == 0; }\n"
    )
    options = [f"-std={build.STANDARDS[language]}", *build.WARNINGS, "-x", language]
    command = [*build.compiler(language), *options, "-fsyntax-only", f"-I{include}", str(source)]
    assert (build.refusal(command) == "") is (parts == "4, 1, 0")


@pytest.mark.parametrize("id", [3, 5, 0x00FFFFFF, 2**32 + 0x05000003, 2**40 + 1])
def test_static_types_check_their_ids(c, fails, id):
    with fails(
        ValueError,
        f"allocated slot key {id:#x} must have a registrar in bits 24 to 31 and no higher bits "
        "set; an even key is an address",
    ):
        c.make(None, [(A, 0, 1), (id, 0, 1)])


def test_ids_allocated_at_run_time(c, fails):
    one, other = c.allocate(), c.allocate()
    ids = sys.modules["_extensibletype"].allocated_ids
    assert ids[one] == ids[other] == c.__name__
    assert (one >> 24, one & 1, other) == (0xFF, 1, one + 256)
    cls = c.make(None, [(one, 0, 4)])
    python = type("Python", (cls,), {"__customslots__": {other: 5}})
    assert [slot.key for slot in nc.customslots(python)] == [one, other]
    assert c.find(python(), other) == (0, 5)
    unknown = other + 256 * 1000
    message = (
        f"slot key {unknown:#x} is in the range for keys that are allocated at run time "
        "(PyExtensibleType_AllocateID), but was never allocated"
    )
    with fails(ValueError, message):
        c.make(None, [(unknown, 0, 4)])
    with fails(ValueError, message):
        type("Python", (cls,), {"__customslots__": {unknown: 5}})


LAST = """
import sys
sys.path.insert(0, sys.argv[1])
c = __import__(sys.argv[2])
ids = sys.modules["_extensibletype"].__dict__.setdefault("allocated_ids", {})
assert c.allocate() == 0xFF000001
ids[0xFF000101] = "somebody"
print(hex(c.allocate()))  # never one that is in use
ids.update(dict.fromkeys(range(0xFF000001, 2**32, 256), "all"))
try:
    c.allocate()
except OverflowError as error:
    print(error)
sys.modules["_extensibletype"].allocated_ids = 5
try:
    c.allocate()
except TypeError as error:
    print(error)
try:
    c.make(None, [(0xFF000001, 0, 4)])
except TypeError as error:
    print(error)
del sys.modules["_extensibletype"]
try:
    c.allocate()
except ImportError as error:
    print(error)
"""


def test_ids_that_are_in_use_are_not_allocated_again(c, python):
    assert python(LAST, c.__file__.rpartition("/")[0], c.__name__).splitlines() == [
        "0xff000201",
        "all slot keys that can be allocated at run time are in use",
        *2 * ["'allocated_ids' of the module '_extensibletype' must be a dict (got int)"],
        "sys.modules['_extensibletype'] is no longer the extensibletype runtime",
    ]
