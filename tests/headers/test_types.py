"""C types that bring call tables: every way of finding leads to the same function.

The types are made by tests/ext/types.c as a test asks: static ones and heap types, with rows that
agree and rows that do not. What is found is what tests/ext/consumer.c finds.
"""

import sys
from types import ModuleType

import pytest

import nativecall as nc
from nativecall._cli import inspection
from nativecall.conformance._hostile import make_type
from support import build
from support.modes import at_full_size

CALL, PACKED, OTHER = 0x04000001, 0x04000003, 0x05000003
SKIP = 1
BY_TEXT = ("offset", "slot", "function", "function_by_slot", "next")
WAYS = (*BY_TEXT, "words")
IMMUTABLE = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE

from_metaclass = pytest.mark.skipif(
    sys.version_info < (3, 12), reason="PyType_FromMetaclass came with Python 3.12"
)


@pytest.fixture(scope="module")
def c(builder, include):
    """The module of tests/ext/types.c."""
    return build.load_extension(builder.extension("types.c", "nc_types", include=include))


@pytest.fixture
def found(consumer):
    """What all ways find: one address, or None."""

    def found(obj, signature="d:d", refuse=0):
        entries = {way: consumer.look(obj, way, signature, refuse) for way in WAYS}
        addresses = {way: entry and entry[1] for way, entry in entries.items()}
        assert len(set(addresses.values())) == 1, addresses
        return addresses["offset"]

    return found


def pair(c, which, *, packed=True):
    """The rows of a pair of tables."""
    rows = [(CALL, 0, c.CALLS[which])]
    return [*rows, (PACKED, 0, c.PACKED[which])] if packed else rows


def ids(cls):
    return [slot.key for slot in nc.customslots(cls)]


def filled(c, cls):
    """An object whose pairs of tables have other functions for the same signature."""
    obj = cls()
    c.add(obj, 0, "d:d", 0, 16)
    c.add(obj, 1, "d:d", 0, 32)
    return obj


# -- two kinds of table --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def base(c):
    """A static type with both tables, and a row behind them."""
    return c.make(None, [*pair(c, 0), (OTHER, 0, 7)], offset=c.CALLS[0], call=1)


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("call", [0, 2])
def test_a_subtype_with_a_call_table_of_its_own(c, base, found, direct, packed, call):
    """It has the tables that it brings, and none of its base's."""
    offset = c.CALLS[1] if direct else 0
    sub = c.make(base, pair(c, 1, packed=packed), 8, offset, call)
    assert ids(sub) == [CALL, PACKED if packed else SKIP, OTHER]
    below = c.make(sub, [], 0)

    class Python(sub):
        __customslots__ = {"key": 1}

    for cls in (sub, below, Python, type("Mixed", (Python,), {})):
        assert ids(cls)[:3] == ids(sub)
        assert found(filled(c, cls)) == 32
    assert found(filled(c, base)) == 16


def test_the_tables_of_two_bases_do_not_mix(c, base, found):
    """The first class in the MRO that brings a call table brings all that there is."""
    root = c.make(None, [], 0, call=1)
    one = c.make(root, pair(c, 0, packed=False), 4)
    other = c.make(root, pair(c, 1), 4)
    for bases, expected, keys in (
        ((one, other), 16, [CALL, SKIP]),
        ((other, one), 32, [CALL, PACKED]),
    ):
        both = type("Both", bases, {})
        assert ids(both) == keys
        assert found(filled(c, both)) == expected


def test_an_override_behind_a_type_that_inherits_its_call(c, found):
    """A plain class behind the type that brings the table comes before the one with the call."""
    loud = c.plain(1)
    made = c.make(loud, pair(c, 0), 2, c.CALLS[0])

    class Plain(loud):
        pass

    class Between(made, Plain):
        pass

    class Behind(made):
        pass

    assert found(filled(c, Behind)) == found(filled(c, made)) == 16
    for _ in range(2):
        assert found(filled(c, Between)) is None
        Plain.__call__ = lambda self, x: 5.0
        assert filled(c, Between)(0.0) == 5.0
    # Nor does one get there past the metaclass.
    with pytest.raises(TypeError, match="cannot be changed without its metaclass"):
        type.__dict__["__bases__"].__set__(Behind, (made, Plain))
    assert found(filled(c, Behind)) == 16
    Behind.__bases__ = (made, Plain)
    assert found(filled(c, Behind)) is None


@from_metaclass
def test_a_call_that_a_plain_class_has(c, found):
    """A heap type may inherit its call from a class that can be given another one unnoticed."""

    class Loud(c.plain(0)):
        def __call__(self, x):
            return 1.0

    heap = c.make(Loud, pair(c, 0), 2, c.CALLS[0], 0, nc.extensibletype)
    Loud.__call__ = lambda self, x: 5.0
    obj = filled(c, heap)
    assert obj(0.0) == 5.0
    assert found(obj) is None


WRONG = [
    (
        lambda c: ([(OTHER, 0, 7)], c.CALLS[0]),
        "type 'nc_types.Static' has its call table at offset {calls[0]} and must repeat this "
        "offset in slot 0x04000001, which is missing",
    ),
    (
        lambda c: (pair(c, 1), c.CALLS[0]),
        "type 'nc_types.Static' has its call table at offset {calls[0]} and must repeat this "
        "offset in slot 0x04000001, which differs",
    ),
    (
        lambda c: (pair(c, 0)[1:], 0),
        "type 'nc_types.Static' has a packed table (slot 0x04000003) but no call table (slot "
        "0x04000001), which every provider needs",
    ),
]


def test_a_table_that_is_hidden_stays_hidden_below(c, base, found):
    class Hides(base):
        def __call__(self, x):
            return 3.0

    assert ids(Hides) == [SKIP, SKIP, OTHER]
    for cls in (Hides, type("Below", (Hides,), {})):
        assert found(filled(c, cls)) is None


@pytest.mark.parametrize(("how", "message"), WRONG, ids=range(len(WRONG)))
def test_ways_that_do_not_agree_are_refused(c, fails, how, message):
    rows, offset = how(c)
    with fails(ValueError, message.format(calls=c.CALLS)):
        c.make(None, rows, offset=offset)


def test_a_mutable_class_at_the_end_of_an_mro_hides_tables(c, found):
    """Without a call of the type's own, what comes last in the MRO could bring one unnoticed."""

    class Plain:
        pass

    class Meta(nc.extensibletype):
        last = object

        def mro(cls):
            return [*super().mro()[:-1], cls.last]

    silent = c.make(None, pair(c, 0), offset=c.CALLS[0])
    assert found(filled(c, Meta("Before", (silent,), {}))) == 16
    Meta.last = Plain
    assert found(filled(c, Meta("After", (silent,), {}))) is None


# -- heap types ----------------------------------------------------------------------------------


@from_metaclass
@pytest.mark.parametrize("flags", [0, IMMUTABLE])
def test_a_heap_type(c, base, found, flags):
    heap = c.make(None, [*pair(c, 0), (OTHER, 0, 7)], 3, c.CALLS[0], 1, nc.extensibletype, flags)
    assert ids(heap) == [CALL, PACKED, OTHER]
    assert found(filled(c, heap)) == 16
    for parent in (base, heap):
        below = c.make(parent, [], 0, 0, 0, nc.extensibletype, flags)
        own = c.make(parent, pair(c, 1), 3, c.CALLS[1], 2, nc.extensibletype, flags)
        python = type("Python", (below,), {})
        assert ids(below) == ids(own) == ids(python) == ids(heap)
        assert found(filled(c, below)) == found(filled(c, python)) == 16
        assert found(filled(c, own)) == 32


@from_metaclass
def test_a_call_that_is_assigned_to_a_heap_type_takes_its_table(c, found):
    heap = c.make(None, [*pair(c, 0), (OTHER, 0, 7)], 3, c.CALLS[0], 1, nc.extensibletype)
    native = heap.__dict__["__call__"]
    below = c.make(heap, [], 0, 0, 0, nc.extensibletype)
    python = type("Python", (below,), {})
    objects = [filled(c, cls) for cls in (heap, below, python)]

    def check(result, address):
        for obj in objects:
            assert obj(0.0) == result
            assert found(obj) == address
            rows = [CALL, PACKED] if address else [SKIP, SKIP]  # nothing moves
            assert ids(type(obj)) == [*rows, OTHER]

    check(1.0, 16)
    heap.__call__ = lambda self, x: 5.0
    check(5.0, None)
    heap.__call__ = native
    check(1.0, 16)
    del heap.__call__
    assert [found(obj) for obj in objects] == [None, None, None]
    assert not callable(objects[0])
    same = c.make(heap, [], 0, 0, 1, nc.extensibletype)  # it has heap's first call again
    assert found(filled(c, same)) is None
    assert ids(same) == [SKIP, SKIP, OTHER]
    heap.__call__ = native
    assert found(filled(c, same)) == 16
    assert ids(same) == [CALL, PACKED, OTHER]


@from_metaclass
def test_an_immutable_heap_type_keeps_its_call(c, found):
    heap = c.make(None, pair(c, 0), 2, c.CALLS[0], 1, nc.extensibletype, IMMUTABLE)
    with pytest.raises(TypeError, match="immutable"):
        heap.__call__ = lambda self, x: 5.0
    assert found(filled(c, heap)) == 16


@from_metaclass
@pytest.mark.parametrize("flags", [0, IMMUTABLE])
def test_a_heap_type_below_another_metaclass(c, found, flags):
    """Which class may have been given a call unnoticed, only an immutable type can tell."""

    class Meta(nc.extensibletype):
        pass

    heap = c.make(None, pair(c, 0), 2, c.CALLS[0], 1, Meta, flags)
    assert type(heap) is Meta
    python = Meta("Python", (heap,), {})
    expected = 16 if flags else None
    assert found(filled(c, heap)) == found(filled(c, python)) == expected


@from_metaclass
def test_inspect_says_why_a_mutable_heap_type_is_not_read(c, capsys, monkeypatch):
    class Meta(nc.extensibletype):
        pass

    module = ModuleType("nc_heap_types")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(sys, "path", sys.path[:])  # the command adds to it

    def made(metaclass, flags):
        return filled(c, c.make(None, pair(c, 0), 2, c.CALLS[0], 1, metaclass, flags))

    def inspected(obj):
        module.obj = obj
        inspection.run("nc_heap_types:obj")
        return capsys.readouterr().out

    mutable, *others = made(Meta, 0), made(Meta, IMMUTABLE), made(nc.extensibletype, 0)
    passed = "ignores its call tables: Heap is mutable and its metaclass is Meta"
    for given in (mutable, type(mutable)):
        shown = " ".join(inspected(given).split())
        assert passed in shown
        assert "make it with Py_TPFLAGS_IMMUTABLETYPE, or with the" in shown
    for other in others:
        assert "ignores" not in inspected(other)


@from_metaclass
def test_a_heap_type_that_becomes_ready_late(c, found):
    """What derives from it by then has its rows, too."""
    made = []

    def before(heap):
        assert ids(heap) == []
        made.append(type("Python", (heap,), {"__customslots__": {"key": 1}}))
        assert ids(made[0]) == [b"key"]
        assert found(filled(c, made[0])) is None

    heap = c.make(None, pair(c, 0), 2, c.CALLS[0], 1, nc.extensibletype, 0, before)
    assert ids(made[0]) == [*ids(heap), b"key"]
    assert found(filled(c, made[0])) == 16


@pytest.mark.nightly
@from_metaclass
@at_full_size
def test_subclasses_of_a_type_that_is_refused_are_as_they_were(c, found):
    """One of them cannot have its rows: none has."""
    many = {2 * n: 1 for n in range(1, 65537)}
    made = []

    class Large(metaclass=nc.extensibletype):
        __customslots__ = many

    def before(heap):
        made.append(type("Small", (heap,), {"__customslots__": {"key": 1}}))
        made.append(type("Full", (heap, Large), {}))
        made.append(type("Last", (heap,), {}))

    with pytest.raises(ValueError, match="65538 slots"):
        c.make(None, pair(c, 0), 2, c.CALLS[0], 1, nc.extensibletype, 0, before)
    assert [len(ids(cls)) for cls in made] == [1, 65536, 0]
    for cls in (made[0], made[2]):
        assert found(filled(c, cls)) is None


def test_a_class_statement_that_fails_leaves_its_subclasses_as_they_were(fails):
    """__init_subclass__ has made one, and another of too many rows."""
    made = []
    wide = make_type("Wide", [(SKIP, 0, 0)] * 65000)  # of rows that no other one is compared with

    class Others(metaclass=nc.extensibletype):
        __customslots__ = {2 * n: 1 for n in range(1, 537)}

    class Base(wide):
        def __init_subclass__(cls):
            if not made:
                made.append(cls)
                made.append(type("Small", (cls,), {"__customslots__": {"key": 1}}))
                made.append(type("Full", (cls, Others), {}))

    with fails(ValueError, "type 'Full' has 65537 slots; a table holds at most 65536"):

        class Broken(Base):
            __customslots__ = {"own": 1}

    assert [len(ids(cls)) for cls in made] == [0, 65001, 65536]


@from_metaclass
@pytest.mark.parametrize("rows", [[(OTHER, 0, 7)] * 2, [(OTHER, 0, 7)]], ids=["twice", "alone"])
def test_a_heap_type_that_is_refused_has_no_table(c, found, rows):
    """Its array of rows is not one that readers can go by."""
    made = []
    with pytest.raises(ValueError, match=r"duplicate slot key|must repeat this offset in slot"):
        c.make(None, rows, 2, c.CALLS[0], 1, nc.extensibletype, 0, made.append)
    assert ids(made[0]) == []
    assert found(made[0]()) is None


@from_metaclass
def test_a_heap_type_without_room_for_slots(c, fails):
    with fails(
        TypeError,
        "type 'nc_types.Heap' is a heap type whose metaclass 'type' has no room for slots; "
        "create it with PyType_FromMetaclass and the metaclass 'nativecall.extensibletype'",
    ):
        c.make(None, [], 0, 0, 1, type)
