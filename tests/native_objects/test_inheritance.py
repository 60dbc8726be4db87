"""Inheritance of native classes is Python's: the order, the methods, what is refused.

Random graphs of classes, plain ones among them: a run has 150, or `$NATIVECALL_TEST_GRAPHS`.
"""

from __future__ import annotations

import abc
import os
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nativecall as nc
from nativecall import _ext

GRAPHS = int(os.environ.get("NATIVECALL_TEST_GRAPHS", "150"))
WHICH = ("which", "d:&v")
MOST = 10


@pytest.fixture(scope="module")
def numbers(builder):
    """Functions that say which one they are, as native callables."""
    text = "".join(
        [f"double n{i}(void *self) {{ (void)self; return {i}; }}\n" for i in range(MOST)]
    )
    path = builder.library(text, "objects_numbers")
    return nc.load(str(path), "".join([f"double n{i}(void *);" for i in range(MOST)]))


#: For each class its bases, by their numbers, whether it defines the method, and whether it is
#: plain, where none of its bases is native.
graphs = st.lists(
    st.tuples(st.lists(st.integers(0, MOST - 1), max_size=3), st.booleans(), st.booleans()),
    min_size=1,
    max_size=MOST,
)


@settings(
    max_examples=GRAPHS,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(graph=graphs)
def test_random_graphs_are_python_s(ext, numbers, graph):
    """The same graphs are refused, the order is the same, and so is every method."""
    root = type("NativeObject", (), {})  # of the classes that are like the native ones
    like: list[type | None] = []
    real: list[type | None] = []
    meta = type(nc.NativeObject)
    for i, (numbers_of_bases, defines, plain) in enumerate(graph):
        chosen = [n for n in numbers_of_bases if n < i and like[n] is not None]
        bases = [real[n] for n in chosen]
        same = [like[n] for n in chosen]
        native = any(isinstance(base, meta) for base in bases)
        if not native and not plain:
            bases, same, native = [*bases, nc.NativeObject], [*same, root], True
        body = {"which": lambda self, i=i: float(i)} if defines and native else {}
        space = {f"f{i}": nc.field("q"), "__slots__": ()} if native else {}
        if body:
            space["which"] = nc.method(numbers[f"n{i}"], "d:&v")
        like.append(made(type, f"C{i}", same, body))
        real.append(made(meta if native else type, f"C{i}", bases, space))
        assert (like[i] is None) == (real[i] is None)
        if like[i] is None or not native:
            continue
        order = [cls.__name__ for cls in real[i].__mro__]
        assert order == [cls.__name__ for cls in like[i].__mro__]
        assert _ext.native_order(real[i]) == tuple(
            [cls for cls in real[i].__mro__ if isinstance(cls, meta)]
        )
        check_object(ext, real[i], like[i])


def made(meta, name, bases, space):
    """The class, or None where the order of its bases refuses it."""
    try:
        return meta(name, tuple(bases), space)
    except TypeError as error:
        if not re.search("MRO|twice|duplicate", str(error)):
            raise
        return None


def check_object(ext, native, like):
    one, other = native(), like()
    parts = _ext.native_order(native)
    names = [cls.__name__ for cls in parts[:-1]]
    for name in names:
        setattr(one, f"f{name[1:]}", int(name[1:]) + 100)
    for name in names:
        assert getattr(one, f"f{name[1:]}") == int(name[1:]) + 100
    found = getattr(other, "which", lambda: None)()
    assert ext.call(one, *WHICH) == found
    assert getattr(one, "which", lambda: None)() == found
    for cls, same in zip(native.__mro__, like.__mro__, strict=True):
        if cls in parts:
            behind = getattr(super(same, other), "which", lambda: None)()
            assert ext.call(one, *WHICH, cls) == behind
            assert ext.place(one, cls) < 0


def test_a_plain_base_may_reorder_native_ones():
    """Python's order, which is another one than without the plain class."""

    class Plain:
        pass

    class A(nc.NativeObject):
        a = nc.field("q")

    class B(Plain, nc.NativeObject):
        b = nc.field("q")

    class PlainA(Plain, A):
        pass

    class Both(PlainA, B):
        both = nc.field("q")

    assert Both.__mro__[1:5] == (PlainA, B, Plain, A)
    assert _ext.native_order(Both) == (Both, PlainA, B, A, nc.NativeObject)
    assert repr(Both(1, 2, 3)) == "Both(a=1, b=2, both=3)"


def test_an_order_of_a_metaclass_s_own_is_refused(fails):
    class Meta(type(nc.NativeObject)):
        def mro(cls):
            first, *bases, root, last = super().mro()
            return [first, *reversed(bases), root, last]

    class A(nc.NativeObject):
        pass

    class B(nc.NativeObject):
        pass

    with fails(
        TypeError,
        "class 'Both': its metaclass's mro() moves 'B' out of the order that native code uses; do "
        "not override mro()",
    ):
        Meta("Both", (A, B), {})


def test_structural_typing_is_one_lookup_each(ext, numbers):
    class Duck(nc.NativeObject):
        which = nc.method(numbers.n1, "d:&v")
        swim = nc.method(None, "v:&vd")

    class Bird(Duck):
        swim = nc.method(numbers.n2.address(), "v:&vd")

    assert ext.has(Bird, "which", "d:&v")
    assert ext.has(Bird, "swim", "v:&vd")
    assert not ext.has(Bird, "swim", "v:&v")
    assert not ext.has(Duck, "swim", "v:&vd")  # abstract
    assert not ext.has(nc.NativeObject, "which", "d:&v")


def test_abstract_methods(ext, fails, numbers):
    class Shape(nc.NativeObject):
        area = nc.method(None, "d:&v")

    class Named(Shape):
        pass

    class Square(Named):
        side = nc.field("d")

        def area(self):
            return self.side**2

    for cls in (Shape, Named):
        with fails(
            TypeError,
            f"class '{cls.__name__}' cannot be instantiated: its method 'area d:P' is abstract",
        ):
            cls()
        with pytest.raises(MemoryError):
            ext.hold_new(cls)
    square = Square(3.0)
    assert square.area() == 9.0
    assert ext.call(square, "area", "d:&v") == 9.0
    with fails(TypeError, "method 'area' of 'Shape' is abstract"):
        Shape.area(square)


def test_a_function_of_the_fields_takes_the_place_of_one_of_the_object(ext, numbers):
    """And the other way: only self differs, of which the class's row says what it is."""

    @nc.callback("d:&d")
    def square(side):
        return side[0] ** 2

    @nc.callback("d:&v")
    def one(self):
        return 1.0

    class Shape(nc.NativeObject):
        area = nc.method(None, "d:&v")
        edge = nc.method(None, "d:&d")

    class Colored(Shape):
        color = nc.field("i")

    class Square(Colored):
        side = nc.field("d")
        area = nc.method(square)
        edge = nc.method(one)

    class Cube(Square):
        depth = nc.field("d")

        def area(self):
            return 6 * super().area()

    for made, area in ((Square(1, 3.0), 9.0), (Cube(1, 3.0, 4.0), 54.0)):
        assert made.area() == ext.call(made, "area", "d:&v") == area
        assert made.edge() == ext.call(made, "edge", "d:&d") == 1.0
    with pytest.raises(
        TypeError, match="a name must be one field, or one method with one signature"
    ):
        type(Shape)("Wrong", (Shape,), {"area": nc.method(None, "d:&vd")})


def test_super_in_python_and_in_native_code(ext, numbers):
    class A(nc.NativeObject):
        which = nc.method(numbers.n1, "d:&v")

    class B(A):
        def which(self):
            return super().which() + 10

    class C(A):
        which = nc.method(numbers.n3, "d:&v")

    class D(B, C):
        pass

    one = D()
    assert one.which() == 13.0
    assert ext.call(one, *WHICH) == 13.0
    assert ext.call(one, *WHICH, D) == 13.0
    assert ext.call(one, *WHICH, B) == 3.0
    assert ext.call(one, *WHICH, C) == 1.0
    assert ext.call(one, *WHICH, A) is None
    assert A.which(one) == 1.0


def test_a_class_made_in_c_derives_from_python_s(ext):
    class Base(nc.NativeObject):
        x = nc.field("d")

        @nc.method("d:&v")
        def double(self):
            return 2 * self.x

    made = ext.derive("Made", (Base,))
    one = made(4.0)
    assert one.double() == 8.0
    assert ext.call(one, "double", "d:&v") == 8.0
    number = ext.hold_new(made)
    natively = ext.cast(number)
    natively.x = 3.0
    assert ext.call(natively, "double", "d:&v") == 6.0
    del natively
    ext.drop(number)


def test_what_python_would_hide_alone_is_refused(fails, numbers):
    class Base(nc.NativeObject):
        which = nc.method(numbers.n1, "d:&v")

    class Mixin:
        def which(self):
            return 2.0

    message = (
        "class 'First': 'which' is native, but 'Mixin' is not a class of native objects and would "
        "hide it from Python only; list it after the native bases, or derive it from "
        "nativecall.NativeObject"
    )
    with fails(TypeError, message):

        class First(Mixin, Base):
            pass

    class Last(Base, Mixin):
        pass

    assert Last().which() == 1.0


@pytest.mark.parametrize("name", ["x", "which"])
def test_slots_do_not_hide_native_names(fails, numbers, name):
    class Base(nc.NativeObject):
        __slots__ = ()
        x = nc.field("d")
        which = nc.method(numbers.n1, "d:&v")

    message = (
        f"class 'Sub': '{name}' is native in a base, but an attribute of that name, from __slots__ "
        "or from code that ran while the class was created, would hide it from Python only; use "
        "another name"
    )
    with fails(TypeError, message):
        type(Base)("Sub", (Base,), {"__slots__": (name,)})

    class Setter:
        def __set_name__(self, owner, _):
            setattr(owner, name, 1)

    with fails(TypeError, message):
        type(Base)("Sub", (Base,), {"setter": Setter()})
    assert type(Base)("Sub", (Base,), {"__slots__": ("y",)})(2.0).x == 2.0


def test_a_class_that_failed_has_no_objects(fails):
    """Who kept it, as __init_subclass__ can, has a class without its descriptors."""
    kept = []

    class Base(nc.NativeObject):
        def __init_subclass__(cls):
            kept.append(cls)
            cls.y = 5

    with pytest.raises(TypeError, match="'y' is native, but an attribute of that name"):
        type(Base)("Failed", (Base,), {"y": nc.field("(4)d")})
    message = "class 'Failed' cannot be instantiated: its class statement failed"
    for make in (kept[0], lambda: nc.ObjectArray(kept[0], 1)):
        with fails(TypeError, message):
            make()
    message = f"class 'Sub' cannot derive from {kept[0]!r}: its class statement failed"
    with fails(TypeError, message):
        type(Base)("Sub", (kept[0],), {})


def test_an_order_with_a_class_twice_is_refused():
    """A plain base's metaclass can say one."""

    class Meta(type):
        def mro(cls):
            return [cls, plain, plain] if cls.__name__ == "Twice" else super().mro()

    plain = type("Plain", (), {})
    twice = Meta("Twice", (plain,), {})
    both = type("Both", (Meta, type(nc.NativeObject)), {})
    with pytest.raises(TypeError, match=r"\(MRO\) for bases Plain"):
        both("Sub", (twice, nc.NativeObject), {})


def test_a_class_does_not_hide_its_own_native_names(fails, numbers):
    """By __slots__, or by what a base does to each class below."""
    message = (
        "class 'Sub': '{}' is native, but an attribute of that name, from __slots__ or from code "
        "that ran while the class was created, would hide it from Python only; use another name"
    )
    parts = {"x": nc.field("d"), "which": nc.method(numbers.n1, "d:&v")}
    parts["double"] = nc.method("d:&v")(lambda self: 2 * self.x)
    for name in ("x", "which"):
        with fails(TypeError, message.format(name)):
            type(nc.NativeObject)("Sub", (nc.NativeObject,), {"__slots__": (name,), **parts})
    for name in parts:

        class Base(nc.NativeObject):
            def __init_subclass__(cls, name=name):
                setattr(cls, name, lambda self: 1.0)

        with fails(TypeError, message.format(name)):
            type(Base)("Sub", (Base,), parts)


@pytest.mark.parametrize("given", [nc.field("d"), nc.method(None, "d:&v")])
def test_declarations_in_a_plain_base_are_refused(fails, given):
    what = "field" if isinstance(given, type(nc.field("d"))) else "method"
    message = (
        f"class 'Sub': 'y' of its base 'Mixin' is a native {what}, but 'Mixin' is not a class of "
        "native objects; derive it from nativecall.NativeObject"
    )
    mixin = type("Mixin", (), {"y": given})
    for bases in ((mixin, nc.NativeObject), (nc.NativeObject, mixin)):
        with fails(TypeError, message):
            type(nc.NativeObject)("Sub", bases, {})


@pytest.mark.parametrize("given", [5, object()])
def test_a_forged_class_is_refused(fails, given):
    message = (
        "class 'Sub': '__nativeclass__' is reserved for nc_class_define (got "
        f"{type(given).__name__}); leave it out"
    )
    with fails(TypeError, message):
        type(nc.NativeObject)("Sub", (nc.NativeObject,), {"__nativeclass__": given})


def test_other_metaclasses_cooperate(ext):
    class Meta(abc.ABCMeta, type(nc.NativeObject)):
        pass

    class Base(nc.NativeObject, metaclass=Meta):
        x = nc.field("d")

        @abc.abstractmethod
        def value(self): ...

    class Made(Base):
        def value(self):
            return self.x

    with pytest.raises(TypeError, match="abstract"):
        Base()
    assert Made(2.0).value() == 2.0
    assert isinstance(Made(), Base)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            3,
            "class 'Sub': 'which' is a native method of a base, with the signature 'd:P'; override "
            "it with a function or nativecall.method (got int)",
        ),
        (
            nc.method(None, "f:&v"),
            "class 'Sub': 'which' is method f:P in 'Sub', and method d:P in 'Base'; a name must "
            "be one field, or one method with one signature",
        ),
        (
            nc.field("d"),
            "class 'Sub': 'which' is a field in 'Sub', and method d:P in 'Base'; a name must be "
            "one field, or one method with one signature",
        ),
    ],
)
def test_what_cannot_take_a_method_s_place(fails, numbers, value, message):
    base = type(nc.NativeObject)(
        "Base", (nc.NativeObject,), {"which": nc.method(numbers.n1, "d:&v")}
    )
    with fails(TypeError, message):
        type(base)("Sub", (base,), {"which": value})
