"""`nativecall.native_object`: from a pointer, as native code gives one, back to the object."""

import sys
import weakref

import pytest

import nativecall as nc
from nativecall._lib import ffi

SOURCE = """
#include "nativecall/detail/objectcount.h"
void *same(void *object) { return object; }
void *twin(void *object) { return nc_object_new(nc_object_class(object)); }
void *null(void *object) { (void)object; return NULL; }
double with(double (*function)(void *), void *object) { return function(object); }
"""


@pytest.fixture(scope="module")
def lib(builder, include):
    path = builder.library(SOURCE, "objects_casts", flags=("-O1", "-pthread", "-w", f"-I{include}"))
    return nc.load(
        str(path),
        "void *same(void *); void *twin(void *); void *null(void *);"
        "double with(double (*)(void *), void *);",
    )


@pytest.fixture(scope="module")
def classes(lib):
    class Base(nc.NativeObject):
        x = nc.field("d")
        same = nc.method(lib.same, "&v:&v")
        twin = nc.method(lib.twin, "&v:&v")
        null = nc.method(lib.null, "&v:&v")

    class Derived(Base):
        y = nc.field("d")

    return Base, Derived


def test_a_result_is_the_object(ext, classes):
    base, derived = classes
    for cls in classes:
        one = cls(3.0)
        for wanted in (base, cls, nc.NativeObject):
            assert nc.native_object(one.same(), wanted) is one
        assert nc.native_object(one.same()) is one
        assert nc.native_object(ext.address(one)) is one
        assert ext.native_count(one) == 1
    assert isinstance(derived(), base)


def test_a_new_object_brings_its_reference(ext, classes):
    base, derived = classes
    ext.drop(ext.hold_new(derived))  # native code may make objects of it from now on
    one = derived(1.0)
    made = nc.native_object(one.twin(), base, owned=True)
    assert (type(made), made.x, ext.native_count(made)) == (derived, 0.0, 1)
    gone = weakref.ref(made)
    del made
    assert gone() is None


def test_a_callback_finds_its_object(ext, lib, classes):
    base, _ = classes
    one = base(4.0)

    @nc.callback("d:&v")
    def read(pointer):
        return nc.native_object(pointer, base).x

    assert lib["with"](read, ffi.cast("void *", ext.address(one))) == 4.0


def test_a_class_is_itself_alone(ext, fails, classes):
    """Whatever its metaclass says of equality."""

    class Equal(type(nc.NativeObject)):
        def __eq__(cls, other):
            return True

        def __hash__(cls):
            return 1

    class Other(nc.NativeObject, metaclass=Equal):
        y = nc.field("q")

    base, _ = classes
    other = Other(5)
    with fails(TypeError, f"there is no object of class 'Base' at {ext.address(other):#x}"):
        nc.native_object(ext.address(other), base)
    assert (
        nc.native_object(ext.address(other), Other) is nc.native_object(ext.address(other)) is other
    )


def test_classes_that_are_made_and_gone_meanwhile(ext, classes):
    """Another thread makes some at every line of the search for a name or an object."""
    base, derived = classes
    one, made = derived(1.0), []

    def trace(frame, event, _):
        if "_native_objects" in frame.f_code.co_filename or "weakref" in frame.f_code.co_filename:
            sys.settrace(None)
            made.append(type(base)(f"Made{len(made) % 3}", (base,), {}))
            del made[:-5]
            sys.settrace(trace)
        return trace

    body = {"to": nc.field("Derived"), "__module__": "elsewhere"}
    sys.settrace(trace)
    try:
        found = nc.native_object(ext.address(one), base)
        far = type(base)("Far", (nc.NativeObject,), body)
    finally:
        sys.settrace(None)
    assert found is one
    assert far(one).to is one
    assert made


def test_what_is_none_is_refused(ext, fails, classes):
    base, derived = classes
    one, memory = base(3.0), ffi.new("char[]", 256)
    place = int(ffi.cast("uintptr_t", memory)) + 127 & -16
    for address, cls, what in (
        (ext.address(one), derived, "Derived"),
        (place, base, "Base"),  # memory that holds no object
        (place, nc.NativeObject, "NativeObject"),
        (ext.address(one) + 8, base, "Base"),
        (16, base, "Base"),
    ):
        with fails(TypeError, f"there is no object of class '{what}' at {address:#x}"):
            nc.native_object(address, cls)
        with fails(TypeError, f"there is no object of class '{what}' at {address:#x}"):
            nc.native_object(ffi.cast("void *", address), cls, owned=True)
    for null in (0, ffi.NULL, one.null()):
        with fails(ValueError, "there is no native object at NULL"):
            nc.native_object(null)
    for pointer in (one, 3.5, True, ffi.cast("double *", place), "x"):
        with pytest.raises(TypeError, match=r"must be a cffi 'void \*' or an address \(got "):
            nc.native_object(pointer)
    for number in (-16, 2**64):
        with fails(OverflowError, f"an address has 64 bits (got {number})"):
            nc.native_object(number)
    for cls in (int, 3, "Base"):
        with fails(TypeError, f"{cls!r} is not a class of native objects"):
            nc.native_object(ext.address(one), cls)
