"""Classes that C code defines wrongly: refused with what is wrong, before an object is made."""

import gc

import pytest

import nativecall as nc

ROOT = (nc.NativeObject,)
NUMBERS = [("x", "d", 0), ("y", "i", 8), ("z", "(2)h", 12)]


def test_fields_are_where_the_class_says(ext):
    cls = ext.define("Made", ROOT, 24, 8, [*NUMBERS, ("next", None, 16)])
    one = cls(1.0, 2, [3, 4], cls())
    assert repr(one).startswith("Made(x=1.0, y=2, z=array([3, 4], dtype=int16), next=Made(x=0.0,")
    union = ext.define("Union", ROOT, 8, 8, [("x", "d", 0), ("n", "q", 0)])
    assert union(1.0, n=0x4000000000000000).x == 2.0


def test_a_reference_to_objects_of_the_class_itself(ext, fails):
    cls = ext.define("Node", ROOT, 16, 8, [("any", None, 0), ("next", None, 8, True)])
    one = cls(nc.NativeObject(), cls())
    for wrong in (nc.NativeObject(), 3):
        found = type(wrong).__name__
        message = f"field 'next' of 'Node' must be an object of Node or None (got {found})"
        with fails(TypeError, message):
            one.next = wrong

    class Derived(cls):
        pass

    one.next = Derived()
    assert type(one.next) is Derived


@pytest.mark.parametrize(
    ("size", "alignment", "fields", "message"),
    [
        (8, 8, [("x", "w w", 0)], "unknown type 'w' at column 1 in 'w w'"),
        (8, 8, [("x", "", 0)], "expected a type, found the end at column 1 in ''"),
        (8, 8, [("x", "O", 0)], "a field cannot be 'O'"),
        (8, 8, [("x", "v", 0)], "a field cannot be 'v'"),
        (8, 8, [("x", "d", 8)], "'Made': field 'x' lies outside the 8 bytes of the class's fields"),
        (8, 8, [("x", "d", 1000)], "field 'x' lies outside the 8 bytes"),
        (8, 8, [("x", "d", -8)], "field 'x' lies outside the 8 bytes"),
        (0, 8, [("x", "d", 0)], "field 'x' lies outside the 0 bytes"),
        (16, 8, [("x", "d", 0), ("y", None, 12)], "field 'y' lies outside the 16 bytes"),
        (16, 8, [("y", None, 4)], "field 'y' lies outside the 16 bytes"),
        (16, 4, [("y", None, 0)], "field 'y' lies outside the 16 bytes"),
        (16, 8, [("x", "d", 4)], "at offset 4, which is not a multiple of 8, the alignment of 'd'"),
        (
            8,
            8,
            [("x", "(100)d", 0)],
            "takes 800 bytes at offset 0, but the fields of the class",
        ),
        (8, 8, [("x", "q", 0), ("y", "i", 4), ("z", "q", 4)], "field 'z' of 'Made' lies at"),
        (
            8,
            4,
            [("x", "d", 0)],
            "needs an alignment of 8, but the fields of the class are aligned to 4",
        ),
        (8, 8, [("x", "d", 0), ("x", "d", 0)], "'x' is a field in 'Made', and a field in 'Made'"),
        *[
            (
                16,
                8,
                fields,
                f"class 'Made': fields '{one}' and '{other}' overlap; a reference must not share "
                "its bytes",
            )
            for fields, one, other in [
                ([("x", None, 0), ("y", None, 0)], "x", "y"),
                ([("x", None, 0), ("y", "q", 0)], "x", "y"),
                ([("x", "i", 4), ("y", None, 0)], "x", "y"),
                ([("x", "(2)d", 0), ("y", None, 8)], "x", "y"),
            ]
        ],
        (8, 3, [], "class 'Made': the alignment of the fields is not a power of two up to 16"),
        (8, 64, [], "class 'Made': the alignment of the fields is not a power of two up to 16"),
        (-8, 8, [], "or the fields, including inherited ones, exceed a gigabyte"),
        (2**62, 8, [], "or the fields, including inherited ones, exceed a gigabyte"),
    ],
)
def test_fields_that_cannot_be(ext, size, alignment, fields, message):
    gc.collect()  # classes of other tests
    before = len(nc.NativeObject.__subclasses__())
    with pytest.raises((TypeError, nc.SignatureError)) as info:
        ext.define("Made", ROOT, size, alignment, fields)
    assert message in str(info.value)
    if "Made" not in str(info.value) and fields:
        assert info.value.__notes__ == ["This is field 'x' of 'Made'."]
    del info
    gc.collect()
    assert len(nc.NativeObject.__subclasses__()) == before


def test_names_of_c_s_are_identifiers(ext, fails):
    for name in ("not a name", "", "1"):
        message = f"class 'Made': a native name must be an identifier (got {name!r})"
        with fails(TypeError, message):
            ext.define("Made", ROOT, 8, 8, [(name, "d", 0)])
        with fails(ValueError, f"the name of a method must be an identifier (got {name!r})"):
            ext.define("Made", ROOT, 0, 1, [], (name, "d:&v"))
    with fails(TypeError, "a class of native objects needs a name (got an empty one)"):
        ext.define("", ROOT, 0, 1, [])


def test_an_abstract_method_has_self(ext):
    assert ext.define("Made", ROOT, 0, 1, [], ("area", "d:&v")).area.signature == "d:P"
    with pytest.raises(TypeError, match="a method's first argument is the object, a pointer"):
        ext.define("Made", ROOT, 0, 1, [], ("area", "q:i"))


def test_a_descriptor_is_of_its_field_s_class(ext, fails):
    """Who makes one by hand could have a reference to what is none of the class."""
    made = ext.define("Made", ROOT, 16, 8, [("any", None, 0), ("next", None, 8, True)])
    descriptor = type(made.next)(made, "next", "@", 8, False, None, None, None)
    one = made()
    assert descriptor.__get__(one) is None
    with fails(TypeError, "field 'next' of 'Made' must be an object of Made or None (got Point)"):
        descriptor.__set__(one, ext.Point())


def test_what_the_fields_of_all_bases_may_take(ext):
    """Offsets to methods' fields are 32 bits."""
    half = 2**29 + 1024
    one, other = (ext.define(name, ROOT, half, 8, []) for name in ("One", "Other"))
    message = (
        "not a power of two up to 16, or the fields, including inherited ones, exceed a gigabyte"
    )
    with pytest.raises(TypeError, match=message):
        type(nc.NativeObject)("Both", (one, other), {})


@pytest.mark.parametrize("bases", [(), (int,), (3,), (object,)])
def test_bases_that_are_none(ext, bases):
    with pytest.raises(TypeError, match="class 'Made' needs a base class of native obj"):
        ext.define("Made", bases, 8, 8, [])


def test_a_name_of_a_base_s(ext, fails):
    base = ext.define("Base", ROOT, 24, 8, NUMBERS)
    message = (
        "class 'Made': 'y' is a field in 'Made', and a field in 'Base'; a name must be one field, "
        "or one method with one signature"
    )
    with fails(TypeError, message):
        ext.define("Made", (base,), 8, 8, [("y", "i", 0)])


def test_the_root_cannot_be_changed():
    """It is the base of all classes of the process, those of C modules too."""
    for name in ("added", "__repr__", "__init__"):
        with pytest.raises(TypeError, match="immutable type 'NativeObject'"):
            setattr(nc.NativeObject, name, None)

    class Changed(nc.NativeObject):
        x = nc.field("d")

        def __init_subclass__(cls, **more):
            cls.more = more

    class Below(Changed, given=1):
        y = nc.field("d")

    Changed.added = 2
    Below.__repr__ = lambda self: "other"
    assert (Below.more, Below(1.0, 2.0).added) == ({"given": 1}, 2)
    assert (repr(Below(1.0, 2.0)), repr(Changed(1.0))) == ("other", "Changed(x=1.0)")
    assert super(Below, Below(1.0, 2.0)).__repr__() == "Below(x=1.0, y=2.0)"


def test_a_long_chain_of_classes_has_the_parts_of_all():
    """Beside it a second base, whose fields lie elsewhere."""
    meta, base = type(nc.NativeObject), nc.NativeObject
    other = meta("Other", (nc.NativeObject,), {"other": nc.field("d")})
    for at in range(200):
        base = meta(f"C{at}", (base,), {f"f{at}": nc.field("i")})
    both = meta("Both", (base, other), {"own": nc.field("i")})
    made = both()
    names = [*[f"f{at}" for at in range(200)], "own", "other"]
    for value, name in enumerate(names):
        setattr(made, name, value)
    assert [getattr(made, name) for name in names] == [*range(202)]
    with pytest.raises(TypeError, match="f0"):
        meta("Again", (both,), {"f0": nc.field("i")})
