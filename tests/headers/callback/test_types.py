"""callback.h: types with ``__nativecall_api__``, good and wrong, and the cache of their offers."""

import gc
import sys

import pytest

from support.capsules import capsule


def make_type(api, **more):
    members = {"__nativecall_api__": api, "__call__": lambda self, x: 7.0, **more}
    return type("Offers", (), members)


CUBE = pytest.approx(0.25, abs=1e-4)


def test_a_type_offers_entries(c):
    made = make_type(c.api(0))
    assert c.integrate(made()) == (CUBE, True, 0)
    # The class itself is an object of type `type`, and an attribute of an object is not its type's.
    assert c.integrate(lambda x: 7.0) == (7.0, False, 0)
    plain = make_type(None)()
    plain.__nativecall_api__ = c.api(0)
    assert c.integrate(plain) == (7.0, False, 0)
    # Flags are looked at even where the provider does not.
    assert c.integrate(made(), 0, 1, 1, "c", 0)[1] is False
    # A later version of the same struct will do.
    assert c.integrate(make_type(c.api(2))(), 0, 1, 100)[:2] == (0.25, True)


def test_a_consumer_may_prefer_python(c):
    """For example if it has more arguments than the C function takes."""
    offers = make_type(c.api(0))()
    assert c.integrate(offers) == (CUBE, True, 0)
    assert c.by_python(offers, 0.5) == 7.0


def test_a_subclass_inherits_unless_it_overrides_call(c):
    base = make_type(c.api(0))
    assert c.integrate(type("Sub", (base,), {})()) == (CUBE, True, 0)
    assert c.integrate(type("Sub", (base,), {"__call__": lambda self, x: 8.0})()) == (8.0, False, 0)
    assert c.integrate(type("Sub", (base,), {"__nativecall_api__": None})()) == (7.0, False, 0)
    mixin = type("Mixin", (), {"__call__": lambda self, x: 9.0})
    assert c.integrate(type("Sub", (mixin, base), {})()) == (9.0, False, 0)
    assert c.integrate(type("Sub", (base, mixin), {})()) == (CUBE, True, 0)
    assert c.integrate(type("Sub", (c.StaticType,), {})()) == (CUBE, True, 0)


def test_the_cache_sees_every_change(c):
    made = make_type(c.api(0))
    obj, sub = made(), type("Sub", (made,), {})()
    for _ in range(3):
        assert c.integrate(obj) == c.integrate(sub) == (CUBE, True, 0)
    made.__nativecall_api__ = c.api(1)
    assert c.integrate(obj) == c.integrate(sub) == (0.25, True, 0)
    del made.__nativecall_api__
    assert c.integrate(obj) == c.integrate(sub) == (7.0, False, 0)
    made.__nativecall_api__ = c.api(0)
    assert c.integrate(sub) == c.integrate(obj) == (CUBE, True, 0)
    sub.__class__ = make_type(c.api(1))
    assert c.integrate(sub) == (0.25, True, 0)


def test_a_type_is_asked_once(c):
    """Twice if it has no version tag, as on CPython 3.11 until somebody looks for an attribute."""
    asked = []

    class Key(str):  # stands where the attribute is looked for
        def __hash__(self):
            return hash("__nativecall_api__")

        def __eq__(self, other):
            asked.append(other)
            return False

    for api, expected in ((c.api(0), (CUBE, True, 0)), (None, (7.0, False, 0))):
        made = type("Offers", (), {Key("key"): 0, "__call__": lambda self, x: 7.0})
        type.__setattr__(made, "__nativecall_api__", api)
        obj = object.__new__(made)
        asked.clear()
        assert c.integrate(obj) == expected
        assert "__nativecall_api__" in asked
        assert c.integrate(obj) == expected
        asked.clear()
        for _ in range(3):
            assert c.integrate(obj) == expected
        assert asked == []
        type.__setattr__(made, "__nativecall_api__", c.api(1))
        assert c.integrate(obj)[1] is True
        assert "__nativecall_api__" in asked


@pytest.mark.allocator
def test_types_die_and_addresses_are_used_again(c):
    seen = set()
    again = 0
    gc.collect()
    gc.freeze()  # what lives already would take most of the time
    try:
        for i in range(3000):
            made = make_type(c.api(i % 2) if i % 3 else None)
            again += id(made) in seen
            seen.add(id(made))
            expected = (CUBE if i % 2 == 0 else 0.25, True) if i % 3 else (7.0, False)
            assert c.integrate(made(), 0, 1, 100)[:2] == expected
            del made
            if i % 50 == 0:
                gc.collect()
    finally:
        gc.unfreeze()
    gc.collect()
    assert again > 0, "no address came twice, so nothing was tried"


def test_wrong_kinds_of_api(c, fails):
    for value in (c.api(0, False), 7, capsule(b"double (double)")):
        with fails(
            TypeError,
            "'__nativecall_api__' of Offers must be a capsule named 'nativecall_api_v1' or None "
            f"(got {value!r})",
        ):
            c.integrate(make_type(value)())
    wrong = (
        r"must have size \d+ or more, the name NC_NATIVEAPI_NAME, and a 'find' that is not NULL$"
    )
    for kind in (3, 4, 5):
        with pytest.raises(TypeError, match=wrong):
            c.integrate(make_type(c.api(kind))())


def test_the_attribute_is_taken_as_it_stands(c, fails):
    """Neither descriptors nor metaclasses are asked, only the dictionary of the class."""
    asked = []

    class Descriptor:
        def __get__(self, obj, owner):
            asked.append(owner)
            raise LookupError("of the descriptor")

        def __repr__(self):
            return "<a descriptor>"

    class Meta(type):
        def __getattribute__(cls, name):
            asked.append(name)
            raise LookupError("of the metaclass")

    with fails(
        TypeError,
        "'__nativecall_api__' of Offers must be a capsule named 'nativecall_api_v1' or None "
        "(got <a descriptor>)",
    ):
        c.integrate(make_type(Descriptor())())
    obj = object.__new__(Meta("Offers", (), {"__nativecall_api__": c.api(0)}))
    asked.clear()
    assert c.integrate(obj) == (CUBE, True, 0)
    assert asked == []


def test_a_wrong_api_that_cannot_be_shown(c, fails):
    class Unshown:
        def __repr__(self):
            raise LookupError("of the repr")

    f = make_type(Unshown())()
    before = sys.getrefcount(f), sys.getrefcount(type(f)), sys.getrefcount(Unshown)
    for _ in range(100):
        with fails(LookupError, "of the repr"):
            c.integrate(f)
    assert (sys.getrefcount(f), sys.getrefcount(type(f)), sys.getrefcount(Unshown)) == before
