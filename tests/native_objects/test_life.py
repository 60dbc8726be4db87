"""Objects of both worlds live and end as they must: what the seed asks, each point a test.

The classes are C's, of tests/ext/objects.c. Points that Python has no part in are also tested in
tests/c/test_nativeobject.c, under sanitizers. Threads do 160,000 operations on objects that they
share, or `$NATIVECALL_TEST_OBJECTS`.
"""

import gc
import os
import sys
import weakref

import pytest

import nativecall as nc
from support.threads import HAS_GIL, each, together

NORM = ("norm", "d:&d")
SUM = ("sum", "d:&v")
# Of eight native threads together; a hundredth as many casts of two Python threads at least.
OPERATIONS = int(os.environ.get("NATIVECALL_TEST_OBJECTS", "160000"))
CASTS = max(40_000, OPERATIONS // 100)


@pytest.fixture(autouse=True)
def ended(ext):
    """Every point that a test makes natively ends, once."""
    gc.collect()
    before = balance(ext)
    yield
    gc.collect()
    assert balance(ext) == before


def balance(ext):
    made, gone = ext.counts()
    return made - gone


# -- what the seed asks ----------------------------------------------------------------------------


def test_1_objects_are_made_counted_called_and_ended_without_the_gil(ext):
    ext.begin()
    assert ext.run(8, OPERATIONS // 8) == 0
    assert ext.finish() == [1] * 8


def test_1_while_somebody_else_has_the_gil(ext, forked):
    """The threads come to their end although Python waits for them with the GIL."""
    code = """
ext.begin()
print(ext.run(4, 5000, True), ext.finish())
"""
    assert forked(LOADED + code, ext.__file__) == f"0 {[1] * 8}\n"


def test_2_both_counts_are_used_at_once(ext):
    """Native threads and Python threads count the same objects."""
    ext.begin()
    works = [lambda seed=seed: ext.churn(CASTS // 2, seed) for seed in range(2)]
    wrong = together(*works, lambda: ext.run(8, OPERATIONS // 8))
    assert wrong == [0, 0, 0]
    assert ext.finish() == [1] * 8


def test_3_fields_are_plain_loads_and_methods_are_found_by_key(ext):
    point = ext.point(3, 4)
    assert ext.call(point, *NORM) == 25
    assert ext.call(point, *SUM) == 7
    assert ext.call(point, "norm", "f:&d") is None


def test_4_an_object_is_usable_wherever_cpython_takes_one(ext):
    point = ext.point(1, 2)
    assert isinstance(point, ext.Point)
    assert issubclass(ext.Point, ext.NativeObject)
    assert type(point).__mro__ == (ext.Point, ext.NativeObject, object)
    assert {point: 1}[point] == 1
    assert point == point
    assert point != ext.point(1, 2)
    assert sys.getsizeof(point) > object.__sizeof__(point)
    assert repr(point) == "Point(x=1.0, y=2.0, next=None)"


def test_4_methods_have_wrappers_and_fields_descriptors(ext):
    point = ext.point(3, 4)
    assert [type(vars(ext.Point)[name]).__name__ for name in ("x", "y", "next")] == ["Field"] * 3
    assert type(vars(ext.Point)["norm"]).__name__ == "Method"
    assert (ext.Point.x.__get__(point), point.norm(), ext.Point.norm(point)) == (3.0, 25.0, 25.0)
    point.x = 0
    assert (ext.call(point, *NORM), point.y) == (16.0, 4.0)


def test_4_each_object_has_a_python_count_of_its_own(ext):
    one, other = ext.point(1, 2), ext.point(3, 4)
    before = sys.getrefcount(one), sys.getrefcount(other)
    kept = [one] * 100
    assert (sys.getrefcount(one) - before[0], sys.getrefcount(other) - before[1]) == (100, 0)
    assert (ext.native_count(one), ext.native_count(other)) == (1, 1)
    del kept
    assert sys.getrefcount(one) == before[0]


def test_5_an_object_that_began_natively_is_cast_at_any_time(ext):
    number = ext.hold_new(ext.Point)
    assert ext.held_count(number) == 1
    point = ext.cast(number)
    assert (type(point), point.x, ext.held_count(number)) == (ext.Point, 0.0, 2)
    assert ext.cast(number) is point
    again = ext.hold(point, ext.Point)
    assert ext.held_count(again) == 3
    ext.drop(number)
    ext.drop(again)
    assert ext.native_count(point) == 1


def test_5_the_cast_back_is_checked(ext, fails):
    point = ext.point(1, 2)
    number = ext.hold(point, ext.Point)
    assert ext.cast(number) is point
    ext.drop(number)
    with fails(TypeError, "expected a native object (got int)"):
        ext.hold(3)
    with fails(TypeError, "expected a native object of class Point (got NativeObject)"):
        ext.hold(ext.NativeObject(), ext.Point)
    with fails(TypeError, "<class 'int'> is not a class of native objects"):
        ext.hold(point, int)


def test_6_casts_to_any_base_find_the_same_method(ext):
    left = ext.derive("Left", (ext.Point,))
    right = ext.derive("Right", (ext.Point,))

    class Both(left, right):
        pass

    both = Both()
    places = [ext.place(both, base) for base in (ext.Point, left, right, Both)]
    assert len(set(places[:3])) == 3
    assert max(places) < 0
    assert ext.call(both, *NORM) == 0.0
    assert ext.call(both, *SUM) == 0.0


def test_7_the_native_order_is_the_mro(ext, fails):
    a, b = ext.derive("A", (ext.NativeObject,)), ext.derive("B", (ext.NativeObject,))
    ab, ba = ext.derive("AB", (a, b)), ext.derive("BA", (b, a))
    assert ext.order(ab) == [*ab.__mro__][:-1]
    assert ext.order(ba) == [*ba.__mro__][:-1]
    with pytest.raises(TypeError, match=r"\(MRO\) for bases AB?, BA?"):
        ext.derive("Both", (ab, ba))
    with fails(TypeError, "duplicate base class A"):
        ext.derive("Twice", (a, a))


def test_8_cpython_sees_bare_objects_so_layouts_never_conflict(ext):
    assert ext.Point.__basicsize__ == object.__basicsize__
    other = ext.derive("Other", (ext.NativeObject,))

    class Both(ext.Point, other):
        __slots__ = ()

    assert Both.__basicsize__ == object.__basicsize__
    assert ext.place(Both(), ext.Point) != ext.place(Both(), other)


def test_9_the_native_count_alone_decides(ext):
    before = balance(ext)
    point = ext.point(5, 6)
    assert ext.native_count(point) == 1  # Python's, as a whole
    same = point
    assert ext.native_count(same) == 1
    number = ext.hold(point)
    assert ext.native_count(point) == 2
    for _ in range(3):  # 0 -> 1 -> 0 -> 1
        del point, same
        assert ext.held_count(number) == 1
        assert ext.values(number) == (5, 6)
        point = same = ext.cast(number)
        assert ext.held_count(number) == 2
    ext.drop(number)
    assert balance(ext) == before + 1
    del point, same
    assert balance(ext) == before


def test_9_from_several_threads(ext):
    ext.begin()
    assert each(lambda seed: ext.churn(CASTS // 2, seed), *range(4)) == [0] * 4
    assert ext.finish() == [1] * 8


# -- the traps -------------------------------------------------------------------------------------


@pytest.mark.parametrize("slots", [None, (), ("a",), ("__weakref__",), ("__dict__", "a")])
def test_what_a_subclass_adds_lies_over_no_field(ext, slots):
    body = {} if slots is None else {"__slots__": slots}
    sub = type(ext.Point)("Sub", (ext.Point,), body)
    point = sub()
    number = ext.hold(point)
    references = []
    if slots is None or "__weakref__" in slots:
        references.append(weakref.ref(point))
    if slots != () and slots != ("__weakref__",):
        point.a = [1]
    assert ext.values(number) == (0, 0)
    assert ext.call(point, *SUM) == 0
    if slots == ():
        with pytest.raises(AttributeError):
            point.a = 1
    del point
    gc.collect()
    assert all(reference() is None for reference in references)
    assert ext.values(number) == (0, 0)
    again = ext.cast(number)
    assert type(again) is sub
    assert not hasattr(again, "a")
    del again
    ext.drop(number)


@pytest.mark.parametrize("other", [int, list, dict, Exception, str, tuple, type])
def test_a_class_with_a_layout_of_its_own_is_no_base(ext, other):
    for bases in ((ext.Point, other), (other, ext.Point)):
        with pytest.raises(TypeError, match=r"layout|conflict"):
            type(ext.Point)("R", bases, {})


def test_plain_classes_are_bases_on_either_side(ext):
    class Mixin:
        def double(self):
            return 2 * ext.call(self, *SUM)

    class Slotted:
        __slots__ = ("kept",)

    class First(Mixin, ext.Point):
        pass

    class Last(ext.Point, Slotted, Mixin):
        pass

    for cls in (First, Last):
        point = cls()
        assert point.double() == 0
        point.kept = point
        assert ext.order(cls) == [cls, ext.Point, ext.NativeObject]
        del point
    gc.collect()


def test_what_python_added_ends_with_the_python_side(ext):
    class Sub(ext.Point):
        pass

    point = Sub()
    number = ext.hold(point)
    dead = []
    kept = weakref.ref(point, dead.append)
    point.value = [1]
    value = weakref.ref(type("Value", (), {})())
    del point
    assert kept() is None
    assert dead == [kept]
    assert value() is None
    again = ext.cast(number)
    assert again.__dict__ == {}
    again.value = 2
    assert again.value == 2
    assert weakref.ref(again)() is again
    del again
    ext.drop(number)


@pytest.mark.parametrize("kind", ["slots", "a list between", "with __del__"])
def test_a_long_chain_of_attributes_ends_without_deep_recursion(ext, kind):
    gone = []

    class Node(ext.Point):
        __slots__ = ("link",)
        if kind == "with __del__":

            def __del__(self):
                gone.append(ext.native_count(self))

    last = None
    for _ in range(100_000):
        node = Node()
        node.link = [last] if kind == "a list between" else last
        last = node
    number = ext.hold(last)
    del last, node
    assert ext.held_count(number) == 1
    assert not hasattr(ext.cast(number), "link")
    ext.drop(number)
    assert len(gone) in (0, 100_001)  # that one is cast once more
    assert set(gone) <= {1, 2}


def test_del_runs_each_time_that_the_python_side_ends(ext):
    seen = []

    class Sub(ext.Point):
        def __del__(self):
            seen.append(type(self))

    number = ext.hold(Sub())
    assert len(seen) == 1
    ext.cast(number)
    assert len(seen) == 2
    ext.drop(number)
    assert len(seen) == 2


def test_del_may_keep_the_object(ext):
    kept = []

    class Sub(ext.Point):
        def __del__(self):
            kept.append(self)

    Sub().value = 1
    assert kept[0].value == 1
    assert ext.native_count(kept[0]) == 1
    kept.clear()


@pytest.mark.parametrize("where", ["weak reference", "attribute"])
def test_a_cast_while_the_python_side_is_taken_down(ext, where):
    """Code that runs meanwhile may cast the object again: it lives on, without what it lost."""
    found = []

    class Sub(ext.Point):
        pass

    class Value:
        def __del__(self):
            found.append(ext.cast(number))
            ext.cast(number)  # and drops one at once

    point = Sub()
    number = ext.hold(point)
    if where == "attribute":
        point.value = Value()
        reference = None
    else:
        value = Value()
        reference = weakref.ref(point, lambda _: value.__del__())
    del point
    assert len(found) == 1
    assert type(found[0]) is Sub
    assert found[0].__dict__ == {}
    assert ext.held_count(number) == 2
    found[0].new = 1
    assert found[0].new == 1
    if reference is not None:
        assert reference() is None
        Value.__del__ = lambda self: None
    found.clear()
    assert ext.held_count(number) == 1
    ext.drop(number)


def test_a_class_lives_as_long_as_its_objects(ext):
    """An object that ends without the GIL gives its type back when somebody has the GIL."""

    def make():
        class Sub(ext.Point):
            pass

        return weakref.ref(Sub), ext.hold(Sub())

    kept, number = make()
    gc.collect()
    assert kept() is not None
    point = ext.cast(number)
    assert type(point) is kept()
    del point
    ext.release_elsewhere(number)
    ext.NativeObject()
    gc.collect()
    assert kept() is None


@pytest.mark.parametrize("slots", ["dict", "slots", "a class between", "a slotted base"])
def test_the_collector_leaves_the_class_of_an_object_that_native_code_has(ext, slots):
    """Also where all of Python's references are a cycle."""

    class Slotted:
        __slots__ = ("me",)

    def make(held):
        class Sub(nc.NativeObject):
            __slots__ = ("me",) if slots == "slots" else ()
            x = nc.field("d")

            @nc.method("d:&v")
            def twice(self):
                return 2 * self.x

        if slots == "dict":

            class Sub(Sub):
                pass

        elif slots == "a class between":

            class Sub(type("Between", (Sub,), {})):
                pass

        elif slots == "a slotted base":

            class Sub(Slotted, Sub):
                __slots__ = ()

        one = Sub(3.0)
        one.me = one
        return weakref.ref(Sub), (ext.hold(one) if held else None)

    kept, number = make(held=True)
    for _ in range(2):
        gc.collect()
        assert kept().__mro__
        one = ext.cast(number)
        assert (one.x, one.twice(), ext.call(one, "twice", "d:&v")) == (3.0, 6.0, 6.0)
        one.me = one
        del one
    ext.drop(number)
    kept_too, _ = make(held=False)
    for _ in range(3):
        gc.collect()
    lasts = slots == "a slotted base"
    # Without the GIL, the collector leaves an object that native code has got.
    assert ((kept() is None), (kept_too() is None)) == (HAS_GIL and not lasts, not lasts)


@pytest.mark.parametrize("slots", [(), ("me",), None])
def test_so_many_objects_are_a_reason_to_collect(ext, slots):
    """Cycles of native objects alone, which CPython's own counter knows nothing of."""
    gone = []

    class Node(ext.Point):
        if slots is not None:
            __slots__ = slots

        def __del__(self):
            gone.append(1)

    def make(count):
        for _ in range(count):
            node = Node()
            if slots != ():
                node.me = node

    threshold = gc.get_threshold()
    gc.collect()
    try:
        # Without the GIL, CPython also waits for memory to grow, unless the second is 0.
        gc.set_threshold(1000, 10 if HAS_GIL else 0, 10)
        make(10_000)
        assert len(gone) >= 8000
        gc.disable()
        gc.collect()
        gone.clear()
        make(5000)
        assert len(gone) == (0 if slots != () else 5000)
    finally:
        gc.enable()
        gc.set_threshold(*threshold)
    gc.collect()


def test_cycles_through_attributes_are_collected(ext):
    class Sub(ext.Point):
        pass

    point = Sub()
    point.self = point
    number = ext.hold(point)
    del point
    gc.collect()
    if not HAS_GIL:  # the collector leaves an object that native code has got
        assert ext.held_count(number) == 2
        ext.cast(number).self = None
    assert ext.held_count(number) == 1
    ext.drop(number)


def test_cycles_of_python_s_own_objects_are_collected(ext):
    class Sub(ext.Point):
        pass

    point = Sub()
    point.self = Sub
    Sub.point = point
    kept = weakref.ref(Sub)
    del point, Sub
    for _ in range(3):
        gc.collect()
    assert kept() is None


def test_the_name_that_native_code_has_stays(ext, fails):
    """Python may give the class another; the old one's text is gone then."""
    one = ext.derive("".join(["First", "Name"]), (ext.NativeObject,))
    one.__name__ = one.__qualname__ = "Second"
    classes = [one]
    for field in (None, nc.field("d")):
        body = {} if field is None else {"x": field}
        cls = type(ext.Point)("".join(["First", "Name"]), (ext.NativeObject,), body)
        cls.__name__ = cls.__qualname__ = "Second"
        classes.append(cls)
    for cls in classes:
        assert repr(cls).endswith("Second'>")
        with fails(TypeError, "expected a native object of class FirstName (got Point)"):
            ext.hold(ext.point(1, 2), cls)


def test_objects_are_made_where_nothing_can_be_collected(monkeypatch):
    """As when Python shuts down, and nothing can be imported any more."""

    class Attributes(nc.NativeObject):
        x = nc.field("d")

    monkeypatch.setitem(sys.modules, "gc", None)
    assert len([Attributes() for _ in range(3000)]) == 3000


def test_classes_cannot_change_under_their_objects(ext, fails):
    class Sub(ext.Point):
        pass

    point = Sub()
    for one, other in ((point, ext.Point), (ext.Point(), Sub)):
        with pytest.raises(TypeError, match="deallocator differs from"):
            one.__class__ = other
    message = (
        "the bases of 'Sub', a class of native objects, cannot be changed: its memory layout is "
        "fixed"
    )
    with fails(TypeError, message):
        Sub.__bases__ = (ext.Point,)
    message = "'norm' of class 'Sub' is a native method and cannot be assigned to; make a subclass"
    with fails(TypeError, message):
        Sub.norm = 1
    Sub.other = 1
    assert point.other == 1


def test_a_class_that_is_being_made_has_no_objects(ext):
    class Base(ext.Point):
        def __init_subclass__(cls):
            cls()

    with pytest.raises(
        TypeError, match="class 'Sub' cannot be instantiated yet: it is still being created"
    ):

        class Sub(Base):
            pass


def test_metaclasses_that_do_not_go_together_are_refused(ext):
    class Meta(type):
        pass

    class Other(metaclass=Meta):
        pass

    with pytest.raises(TypeError, match="metaclass conflict"):

        class Both(ext.Point, Other):
            pass

    message = "class 'Alone' needs a base class of native objects"
    with pytest.raises(TypeError, match=message):
        type(ext.Point)("Alone", (), {})


def test_deletion_in_any_order(ext):
    objects = [ext.point(i, i) for i in range(6)]
    numbers = [ext.hold(one) for one in objects]
    del objects[3]
    for i in (5, 0, 2, 4, 1, 3):
        ext.drop(numbers[i])
    del objects


LOADED = """
import sys, importlib.util
spec = importlib.util.spec_from_file_location("nc_objects_ext", sys.argv[1])
ext = importlib.util.module_from_spec(spec)
spec.loader.exec_module(ext)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_fork_keeps_the_objects(ext, forked):
    """In a fork without threads, which other tests leave: CPython would warn of them."""
    code = f"""
import os

point = ext.point(1, 2)
number = ext.hold(point)
child = os.fork()
if child == 0:
    good = ext.values(number) == (1, 2) and ext.native_count(point) == 2
    del point
    good = good and ext.held_count(number) == 1 and ext.call(ext.cast(number), *{SUM}) == 3
    ext.drop(number)
    os._exit(0 if good else 1)
_, status = os.waitpid(child, 0)
assert status == 0
assert ext.native_count(point) == 2
ext.drop(number)
del point
made, gone = ext.counts()
print(made - gone)
"""
    assert forked(LOADED + code, ext.__file__) == "0\n"


def test_interpreter_exit_with_objects_everywhere(ext, forked):
    code = """

class Sub(ext.Point):
    def __del__(self):
        ext.release_elsewhere(self.number) if hasattr(self, "number") else None

point = Sub()
point.self = point
point.number = ext.hold(point)
kept = Sub()
ext.hold(kept)
ext.hold(ext.point(1, 2))
print("good")
"""
    assert forked(LOADED + code, ext.__file__) == "good\n"


def test_releases_after_python_s_end(ext, forked):
    """By threads, of objects of C classes and Python classes, some of which Python still had."""
    code = """
class Sub(ext.Point):
    pass

def holds():
    ext.hold(Sub())
    ext.hold(ext.point(1, 2))

holds()
alive = [ext.point(3, 4), Sub()]
alive[1].cycle = alive
for one in alive:
    ext.hold(one)
ext.release_after_python()
"""
    # What Python still had, if it was not collected, keeps the reference that Python has.
    found = forked(LOADED + code, ext.__file__)
    assert found in [f"Python is gone, 4 released, {ended} of 3 points ended\n" for ended in (2, 3)]


def test_a_thread_of_python_s_at_exit(ext, forked):
    """A daemon thread that makes, casts and ends objects while the interpreter is finalized."""
    code = """
import threading
ext.begin()
ready = threading.Event()

def run():
    ready.set()
    while True:
        ext.churn(100, 3)

threading.Thread(target=run, daemon=True).start()
ready.wait()
kept = [ext.point(1, 2) for _ in range(100)]
print("good")
"""
    for _ in range(3):
        assert forked(LOADED + code, ext.__file__) == "good\n"
