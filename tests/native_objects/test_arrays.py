"""Arrays of native objects: one block, each object counted by itself, fields as NumPy arrays."""

import abc
import gc
import pickle
import weakref

import numpy as np
import pytest

import nativecall as nc
from support.threads import each


class Base(nc.NativeObject):
    weight = nc.field("f")


class Body(nc.NativeObject):
    __slots__ = ()
    x = nc.field("d")
    place = nc.field("T{b:kind:(2)h:at:d:height:}")
    matrix = nc.field("(2,3)i")
    z = nc.field("Zd")
    pointer = nc.field("&d")
    next = nc.field("Body")
    hits = nc.field("q", atomic=True)


class Heavy(Body, Base):
    """Its second base's fields lie elsewhere than in objects of that base."""


def made():
    array = nc.ObjectArray(Body, 5)
    array["x"][:] = range(5)
    return array


@pytest.fixture
def bodies():
    return made()


def test_it_is_a_sequence_of_objects(ext, bodies, fails):
    assert len(bodies) == 5
    assert [one.x for one in bodies] == [0, 1, 2, 3, 4]
    assert bodies[-1] is bodies[4]
    assert type(bodies[0]) is Body
    assert repr(bodies) == "<array of 5 'Body' objects>"
    assert bodies.type is Body
    assert [ext.address(one) - bodies.address for one in bodies] == [
        bodies.stride * i for i in range(5)
    ]
    for index in (5, -6):
        with fails(IndexError, "index out of range for an array of 5 'Body' objects"):
            bodies[index]
    message = "an array of native objects is indexed by an int or the name of a field (got slice)"
    with fails(TypeError, message):
        bodies[1:]


def test_fields_are_views_of_the_memory(bodies):
    x = bodies["x"]
    assert x.strides == (bodies.stride,)
    assert x.tolist() == [0, 1, 2, 3, 4]
    x *= 2
    bodies[1].x = 7
    assert x.tolist() == [0, 7, 4, 6, 8]
    bodies["matrix"][2] = [[1, 2, 3], [4, 5, 6]]
    assert bodies["matrix"].shape == (5, 2, 3)
    assert bodies[2].matrix.tolist() == [[1, 2, 3], [4, 5, 6]]
    bodies["place"]["at"][3] = (8, 9)
    bodies["place"]["height"] = 0.5
    assert bodies[3].place == (0, (8, 9), 0.5)
    bodies["z"][4] = 1 + 2j
    assert bodies[4].z == 1 + 2j
    bodies["pointer"][0] = 16
    assert int(nc._lib.ffi.cast("uintptr_t", bodies[0].pointer)) == 16


def test_fields_of_every_base_are_found():
    heavy = nc.ObjectArray(Heavy, 3)
    heavy["weight"][:] = [1, 2, 3]
    heavy["x"][:] = [4, 5, 6]
    assert [(one.weight, one.x) for one in heavy] == [(1, 4), (2, 5), (3, 6)]


SCALARS = "?cbBhHiIlLqQnNefdg"


@pytest.mark.parametrize("code", [*SCALARS, "Zf", "Zd", "Zg", "P", "&d"])
def test_every_number_has_a_type_of_numpy_s(code):
    cls = type(nc.NativeObject)("Made", (nc.NativeObject,), {"v": nc.field(code)})
    objects = nc.ObjectArray(cls, 2)
    view = objects["v"]
    assert (view.shape, view.dtype.itemsize) == ((2,), cls.v.size)
    view[1] = 1
    if code in ("P", "&d"):
        assert int(nc._lib.ffi.cast("uintptr_t", objects[1].v)) == 1
    else:
        assert objects[1].v == view[1] == 1
        objects[0].v = 1
        assert view[0] == 1


def test_a_view_keeps_the_objects():
    view = made()["x"]
    gc.collect()
    assert view.tolist() == [0, 1, 2, 3, 4]


def test_objects_outlive_the_array_and_one_another(ext):
    bodies = made()
    last = bodies[4]
    assert ext.native_count(last) == 2  # the array's, and Python's as a whole
    last.next = bodies[0]
    del bodies
    gc.collect()
    assert ext.native_count(last) == 1
    assert (last.x, last.next.x) == (4, 0)
    first = last.next
    del last
    gc.collect()
    assert first.x == 0


def test_objects_of_python_classes_keep_the_class():
    class Named(Body):
        __slots__ = ("__dict__", "__weakref__")

    kept = weakref.ref(Named)
    objects = nc.ObjectArray(Named, 3)
    objects[1].name = "one"
    assert not hasattr(objects[1], "name")  # its Python side ended
    one = objects[1]
    one.name = "one"
    reference = weakref.ref(one)
    assert objects[1].name == "one"
    del Named, objects
    gc.collect()
    assert (one.name, type(one)) == ("one", kept())
    del one
    gc.collect()
    assert reference() is None
    assert kept() is None


@pytest.mark.parametrize("slots", [(), ("__dict__", "__weakref__")])
def test_a_class_that_has_an_array_of_its_objects_is_collected(slots):
    class Pooled(Body):
        __slots__ = slots

    Pooled.pool = nc.ObjectArray(Pooled, 100)
    Pooled.pool["x"][5] = 2.0
    one = Pooled.pool[5]
    kept = weakref.ref(Pooled)
    del Pooled
    gc.collect()
    assert [len(kept().pool), kept().pool[5] is one] == [100, True]
    del one
    gc.collect()
    assert kept() is None


def test_create_and_destroy_run_for_each(ext):
    made, gone = ext.counts()
    objects = nc.ObjectArray(ext.Point, 4)
    objects["x"][:] = 3
    assert [ext.call(one, "sum", "d:&v") for one in objects] == [3.0] * 4
    number = ext.hold(objects[2])
    del objects
    ext.drop(number)
    assert ext.counts() == (made, gone)  # the class counts those that C made


def test_natively_made_blocks_end_in_any_thread_and_order(ext):
    """C makes the block, gives every other object to Python, and releases the rest elsewhere."""
    before = ext.counts()
    kept = ext.block(100)
    assert [one.x for one in kept] == [float(i) for i in range(0, 100, 2)]
    each(kept.__delitem__, *[0] * 30)
    assert [one.x for one in kept] == [float(i) for i in range(60, 100, 2)]
    kept.clear()
    gc.collect()
    made, gone = ext.counts()
    assert (made - before[0], gone - before[1]) == (100, 100)


def test_an_empty_array():
    none = nc.ObjectArray(Body, 0)
    assert list(none) == []
    assert none.address == 0
    assert none["matrix"].shape == (0, 2, 3)
    with pytest.raises(IndexError):
        none[0]


def test_what_cannot_be_a_view(bodies, fails):
    advice = "read it from single objects"
    message = f"field 'next' of 'Body' is a reference, which NumPy does not support; {advice}"
    with fails(TypeError, message):
        bodies["next"]
    message = f"field 'hits' of 'Body' is atomic, but NumPy's accesses are not; {advice}"
    with fails(TypeError, message):
        bodies["hits"]
    with pytest.raises(KeyError, match="class 'Body' has no field 'y'"):
        bodies["y"]


class Abstract(nc.NativeObject):
    area = nc.method(None, "d:&v")


@pytest.mark.parametrize(
    ("given", "exception", "message"),
    [
        ((int, 3), TypeError, "<class 'int'> is not a class of native objects"),
        ((Body, -1), ValueError, "'count' must be 0 or more (got -1)"),
        (
            (Abstract, 1),
            TypeError,
            "class 'Abstract' cannot be instantiated: its method 'area d:P' is abstract",
        ),
        ((Body, 2**62), MemoryError, ""),
        ((Body, 2**45), MemoryError, ""),
    ],
)
def test_arrays_that_cannot_be(fails, given, exception, message):
    with fails(exception, message):
        nc.ObjectArray(*given)


def test_abstract_methods_of_python_s_make_no_objects(fails):
    class Meta(abc.ABCMeta, type(nc.NativeObject)):
        pass

    class Base(nc.NativeObject, metaclass=Meta):
        @abc.abstractmethod
        def value(self): ...

    message = "class 'Base' cannot be instantiated: it has __abstractmethods__"
    with fails(TypeError, message):
        nc.ObjectArray(Base, 1)


def test_it_is_neither_copied_nor_pickled(bodies):
    with pytest.raises(TypeError, match=r"cannot pickle 'nativecall\.ObjectArray' object"):
        pickle.dumps(bodies)
    found = pickle.loads(pickle.dumps(bodies["x"]))
    assert np.array_equal(found, bodies["x"])
