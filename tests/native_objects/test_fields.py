"""Fields of classes that Python makes: every kind, what they refuse, and what native code sees."""

import copy
import ctypes
import gc
import inspect
import math
import pickle
import sys

import numpy as np
import pytest

import nativecall as nc


class Point(nc.NativeObject):
    x = nc.field("d")
    y = nc.field("d", doc="upwards")
    next = nc.field("Point")


class Kinds(nc.NativeObject):
    v = nc.field("(2,3)d")
    s = nc.field("T{d:a:(2)i:b:}")
    p = nc.field("&d")
    any = nc.field(nc.NativeObject)
    z = nc.field("Zd")
    flag = nc.field("?")
    word = nc.field("g")


LIMITS = {
    "b": (-(2**7), 2**7 - 1),
    "B": (0, 2**8 - 1),
    "h": (-(2**15), 2**15 - 1),
    "H": (0, 2**16 - 1),
    "i": (-(2**31), 2**31 - 1),
    "I": (0, 2**32 - 1),
    "q": (-(2**63), 2**63 - 1),
    "Q": (0, 2**64 - 1),
}


def make(**fields):
    return type(nc.NativeObject)("Made", (nc.NativeObject,), fields)


@pytest.mark.parametrize("code", LIMITS)
def test_integers_keep_their_range(code):
    low, high = LIMITS[code]
    cls = make(before=nc.field("b"), x=nc.field(code), after=nc.field("b"))
    one = cls()
    assert (one.before, one.x, one.after) == (0, 0, 0)
    for value in (low, high, 1):
        one.x = value
        assert (one.before, one.x, one.after) == (0, value, 0)
    for value in (low - 1, high + 1):
        with pytest.raises(OverflowError, match="field 'x' of 'Made' is "):
            one.x = value
    assert one.x == 1
    with pytest.raises(TypeError, match="field 'x' of 'Made' must be an integer"):
        one.x = 1.5


@pytest.mark.parametrize("code", ["e", "f", "d", "g"])
def test_floats(code):
    one = make(x=nc.field(code))()
    for value in (0.5, -math.inf, 3):
        one.x = value
        assert one.x == value
        assert type(one.x) is float
    one.x = math.nan
    assert math.isnan(one.x)


def test_other_scalars():
    one = Kinds()
    one.z = 1 + 2j
    one.flag = True
    one.word = 0.1
    assert (one.z, one.flag, one.word) == (1 + 2j, True, 0.1)
    assert one.flag is True


def test_arrays_are_numpy_arrays_over_the_memory():
    one = Kinds()
    one.v = [[1, 2, 3], [4, 5, 6]]
    view = one.v
    assert view.tolist() == [[1, 2, 3], [4, 5, 6]]
    view[1, 2] = 9
    assert one.v[1, 2] == 9
    del one
    gc.collect()
    assert view[1, 2] == 9  # the array keeps the object
    other = Kinds()
    with pytest.raises(ValueError, match="field 'v' of 'Kinds' must have 2 items"):
        other.v = [1]
    assert not other.v.any()


def test_arrays_of_complex_numbers():
    one = make(z=nc.field("(2)Zd"), w=nc.field("(2,1)Zf"))([1j, 2], [[3], [4j]])
    assert (one.z.dtype, one.z.tolist()) == (complex, [1j, 2])
    assert (one.w.dtype, one.w.tolist()) == (np.complex64, [[3], [4j]])
    one.z[1] = 5j
    assert copy.copy(one).z.tolist() == [1j, 5j]


def test_structs_are_named_tuples():
    one = Kinds()
    one.s = (1.5, (1, 2))
    assert one.s == (1.5, (1, 2))
    assert one.s.b == (1, 2)
    one.s = {"a": 2, "b": [3, 4]}
    assert one.s == (2.0, (3, 4))
    with pytest.raises(OverflowError):
        one.s = (7, (1, 2**40))
    assert one.s == (2.0, (3, 4))  # nothing half-done


def test_pointers_are_borrowed():
    one = Kinds()
    assert one.p is None
    memory = np.array([1.5, 2.5])
    one.p = memory.ctypes.data
    assert one.p[1] == 2.5
    same = one.p
    one.p = None
    assert one.p is None
    one.p = same
    assert one.p == same
    message = (
        r"must be None, an address or a cffi pointer, which it does not keep alive \(got bytes\)"
    )
    with pytest.raises(TypeError, match=message):
        one.p = b"abc"
    with pytest.raises(OverflowError):
        one.p = -1


def test_pointers_of_cffi_s_are_of_the_field_s_type():
    ffi = nc._lib.ffi
    numbers, integers = ffi.new("double[3]"), ffi.new("int *")
    cos = nc.load("m", "double cos(double);").cos.to_cffi()
    one = make(p=nc.field("&d"), v=nc.field("P"), f=nc.field("X{d:d}"))()
    for name, value in (
        ("p", numbers),
        ("p", numbers + 1),
        ("p", ffi.cast("void *", 4096)),
        ("v", integers),
        ("f", cos),
        ("f", ffi.cast("void *", cos)),
    ):
        setattr(one, name, value)
        assert ffi.cast("void *", getattr(one, name)) == ffi.cast("void *", value)
    for name, value in (
        ("p", ffi.cast("double", 3.7)),
        ("p", ffi.cast("int", -3)),
        ("p", ffi.cast("uintptr_t", 4096)),
        ("p", integers),
        ("p", cos),
        ("v", ffi.cast("int", 3)),
        ("f", ffi.cast("double", 3.7)),
        ("f", numbers),
        ("f", ffi.cast("double (*)(int)", 4096)),
    ):
        before = getattr(one, name)
        with pytest.raises(TypeError, match=f"^field '{name}' of 'Made' must be a .*pointer"):
            setattr(one, name, value)
        assert getattr(one, name) == before


class Pointers(nc.NativeObject):
    f = nc.field("X{d:d}")
    s = nc.field("T{X{d:d}:call:&d:data:i:n:}")
    a = nc.field("(2,2)&d")
    t = nc.field("(2)T{P:p:b:b:}")
    of = nc.field("&&T{d:x:}")


def test_pointers_in_structs_and_arrays_are_borrowed_too():
    """What would have to be kept, a buffer or a Python function, is refused, not left dangling."""
    one = Pointers()
    cos = nc.load("m", "double cos(double);").cos
    memory = np.array([1.5, 2.5])
    one.f = cos.address()
    assert one.f(0.0) == 1.0
    one.s = (cos.to_cffi(), memory.ctypes.data, 2)
    assert (one.s.call(0.0), one.s.data[1], one.s.n) == (1.0, 2.5, 2)
    one.s = {"call": None, "data": one.s.data, "n": 3}
    assert (one.s.call, one.s.data[0], one.s.n) == (None, 1.5, 3)
    one.a = [[None, one.s.data], (memory.ctypes.data + 8, None)]
    assert [[p and p[0] for p in row] for row in one.a] == [[None, 1.5], [2.5, None]]
    one.t = [(16, 1), {"p": None, "b": 2}]
    assert [int(nc._lib.ffi.cast("uintptr_t", p or 0)) for p, _ in one.t] == [16, 0]
    before = one.s, one.a
    keeps = "must be None, an address or a cffi pointer, which it does not keep alive"
    for set_field, where, got in (
        (lambda: setattr(one, "f", lambda x: x), "field 'f' of 'Pointers'", "function"),
        (lambda: setattr(one, "f", cos), "field 'f' of 'Pointers'", "Callable"),
        (lambda: setattr(one, "s", (abs, None, 1)), "field 'call' of field 's' of", "builtin"),
        (lambda: setattr(one, "s", (None, memory, 1)), "field 'data' of field 's' of", "ndarray"),
        (lambda: setattr(one, "a", [[None, memory], [None, None]]), "item 1 of item 0 of", "ndarr"),
        (lambda: setattr(one, "t", [(None, 1), (b"x", 1)]), "field 'p' of item 1 of", "bytes"),
    ):
        with pytest.raises(TypeError, match=rf"{where}.*{keeps} \(got .*{got}"):
            set_field()
    for set_field, message in (
        (lambda: setattr(one, "s", (None, None)), "must have 3 fields"),
        (lambda: setattr(one, "s", {"call": None}), "lacks 'data'"),
        (lambda: setattr(one, "s", 3), "must be a tuple, a mapping or a struct"),
        (lambda: setattr(one, "a", [None]), "must have 2 items"),
        (lambda: setattr(one, "a", 3), "must be a sequence of 2 items"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            set_field()
    assert (one.s, one.a) == before


def test_structs_of_other_libraries_are_copied_with_their_pointers():
    lib = nc.load(None, "struct call { double *data; int n; };")
    made = lib.new("struct call", {"data": None, "n": 4})
    one = type(nc.NativeObject)("Made", (nc.NativeObject,), {"s": nc.field("T{&d:data:i:n:}")})()
    one.s = made
    assert one.s == (None, 4)


def test_references_are_counted(ext):
    a, b = Point(1.0), Point(2.0)
    count = ext.native_count
    a.next = b
    assert a.next is b
    assert count(b) == 2
    a.next = a.next
    assert count(b) == 2
    del b
    gc.collect()
    assert (a.next.x, a.next.next) == (2.0, None)
    a.next = None
    with pytest.raises(TypeError, match=r"must be an object of Point or None \(got Kinds\)"):
        a.next = Kinds()
    one = Kinds()
    one.any = a
    assert one.any is a
    with pytest.raises(TypeError, match=r"must be a native object or None \(got int\)"):
        one.any = 3


def test_a_long_chain_of_references_ends():
    first = None
    for i in range(100_000):
        first = Point(float(i), 0.0, first)
    assert first.next.next.x == 99_997.0
    del first


def test_a_reference_keeps_the_object_and_not_what_python_added():
    class Named(Point):
        pass

    holder, one = Point(), Named(5.0)
    one.name = "one"
    holder.next = one
    del one
    gc.collect()
    assert type(holder.next) is Named
    assert holder.next.x == 5.0
    assert not hasattr(holder.next, "name")


def test_construction():
    assert (Point(1.0, y=2.0).x, Point(1.0, y=2.0).y) == (1.0, 2.0)

    class Sub(Point):
        z = nc.field("d")

    one = Sub(1.0, 2.0, None, 3.0)
    assert (one.x, one.y, one.next, one.z) == (1.0, 2.0, None, 3.0)


def test_construction_goes_where_the_class_says():
    assert str(inspect.signature(Point)) == "(*values, **fields)"
    assert nc.NativeObject.__doc__.startswith("An object")
    made = []

    class Sub(Point):
        def __new__(cls, *values):
            made.append(values)
            return super().__new__(cls)

    assert (Sub(5.0).x, made) == (5.0, [(5.0,)])

    class Other(Point):
        def __init__(self, x):
            super().__init__(x, y=2 * x)

    assert (Other(2.0).x, Other(x=2.0).y) == (2.0, 4.0)
    Other.__init__ = Point.__init__
    assert Other(3.0, y=4.0).y == 4.0

    class Meta(type(nc.NativeObject)):
        def __call__(cls, *values):
            return super().__call__(*values).x

    assert Meta("Called", (Point,), {})(6.0) == 6.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Point(1, 2, None, 4),
            "Point() takes at most 3 values, one for each field (got 4)",
        ),
        (lambda: Point(z=1), "Point() has no field 'z'"),
        (lambda: Point(1, x=2), "Point() got field 'x' twice"),
        (lambda: Point("a"), "field 'x' of 'Point' must be a real number (got str)"),
    ],
)
def test_construction_refuses(fails, make, message):
    with fails(TypeError, message):
        make()


def test_repr_and_identity():
    one = Point(1.0, 2.0)
    one.next = one
    assert repr(one) == "Point(x=1.0, y=2.0, next=...)"
    one.next = None
    assert repr(one) == "Point(x=1.0, y=2.0, next=None)"
    assert one != Point(1.0, 2.0)
    assert repr(Point.x) == "<field 'x' of 'Point' objects>"
    assert Point.y.__doc__ == "upwards"
    assert Point.x.__name__ == "x"
    assert Point.x.__objclass__ is Point
    assert sys.getsizeof(one) >= 16 + 24


def test_copies():
    one = Point(1.0, 2.0, Point(3.0))
    shallow, deep = copy.copy(one), copy.deepcopy(one)
    assert shallow is not one
    assert shallow.next is one.next
    assert deep.next is not one.next
    assert deep.next.x == 3.0
    one.next = one
    deep = copy.deepcopy(one)
    assert deep.next is deep
    one.next = deep.next = None


class Extended(Point):
    z = nc.field("(2)i")


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickling(protocol):
    one = Extended(1.0, 2.0, Point(3.0), [4, 5])
    one.more = "more"
    found = pickle.loads(pickle.dumps(one, protocol))
    assert type(found) is Extended
    assert (found.x, found.next.x, found.z.tolist(), found.more) == (1.0, 3.0, [4, 5], "more")


@pytest.mark.parametrize(
    "state", [5, None, (), (None, None), ({},), (1, None), ({}, 5), ({}, ({}, 5))]
)
def test_a_state_that_is_none_is_refused(state):
    one = Point()
    with pytest.raises(TypeError, match=r"^the state of a 'Point' object must be what its") as info:
        one.__setstate__(state)
    assert str(info.value).endswith(f"(got {state!r})")


def test_pointers_are_not_pickled(fails):
    one = Kinds()
    one.p = 16
    message = (
        "cannot pickle or copy a 'Kinds' object: field 'p' of 'Kinds' is a pointer; define "
        "__getstate__() to leave it out"
    )
    with fails(TypeError, message):
        copy.copy(one)
    one.p = None
    assert repr(copy.copy(one)) == repr(one)


def test_pointers_are_told_by_types_and_values(fails):
    one = Pointers()
    other = make(s=nc.field("T{d:X:d:P:}"))((1, 2))
    assert copy.copy(other).s == (1.0, 2.0)
    one.s = (None, None, 3)
    assert copy.copy(one).s == (None, None, 3)
    for name, value in (("s", (None, 16, 3)), ("a", [[None, None], [None, 16]]), ("f", 16)):
        some = Pointers()
        setattr(some, name, value)
        with pytest.raises(TypeError, match=f"field '{name}' of 'Pointers' is a pointer"):
            copy.copy(some)


class Reduced(Point):
    def __reduce__(self):
        return Reduced, (self.x, 7.0)


class Stated(Kinds):
    """Leaves out what cannot be copied."""

    def __getstate__(self):
        return {"z": self.z, "more": 5}


class Asking(Point):
    def __new__(cls, x):
        return super().__new__(cls)

    def __getnewargs__(self):
        return (self.x,)


@pytest.mark.parametrize(
    "again",
    [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))],
    ids=["copy", "deepcopy", "pickle"],
)
def test_a_class_says_how_it_is_copied(again):
    found = again(Reduced(1.0, 2.0))
    assert (type(found), found.x, found.y) == (Reduced, 1.0, 7.0)
    one = Stated(p=16, z=2j)
    found = again(one)
    assert (type(found), found.p, found.z, found.more) == (Stated, None, 2j, 5)
    found = again(Asking(3.0))
    assert (type(found), found.x, found.y) == (Asking, 3.0, 0.0)


def test_native_code_sees_a_struct(ext):
    """The fields of a class are, in their order, a C struct."""

    class Mixed(nc.NativeObject):
        a = nc.field("b")
        b = nc.field("d")
        c = nc.field("h")
        d = nc.field("(3)f")

    class Struct(ctypes.Structure):
        _fields_ = [
            ("a", ctypes.c_byte),
            ("b", ctypes.c_double),
            ("c", ctypes.c_short),
            ("d", ctypes.c_float * 3),
        ]

    one = Mixed(1, 2.0, 3, [4, 5, 6])
    struct = Struct.from_address(ext.address(one) + ext.place(one, Mixed))
    assert (struct.a, struct.b, struct.c, list(struct.d)) == (1, 2.0, 3, [4, 5, 6])
    struct.b = 7
    assert one.b == 7
    assert ext.address(one) + Mixed.b.offset == ctypes.addressof(struct) + Struct.b.offset


def test_a_subclass_of_a_c_class_and_its_fields(ext):
    class Sub(ext.Point):
        z = nc.field("d")

    one = Sub(1.0, 2.0, None, 3.0)
    assert (one.x, one.y, one.next, one.z) == (1.0, 2.0, None, 3.0)
    assert ext.call(one, "sum", "d:&v") == 3.0
    made = ext.point(5, 6)
    one.next = made
    assert one.next is made
    assert one.next.y == 6.0
    one.move(10, 20)
    assert (one.x, one.norm(), one.sum()) == (11.0, 11.0**2 + 22.0**2, 33.0)


@pytest.mark.parametrize(
    ("make", "exception", "message"),
    [
        (lambda: nc.field("w w"), nc.SignatureError, "unknown type 'w' at column 1"),
        (lambda: nc.field("O"), TypeError, "a field cannot be 'O'"),
        (lambda: nc.field("double"), TypeError, r"a C type.* did you mean 'd'\?$"),
        (lambda: nc.field("v"), (TypeError, nc.SignatureError), "void|'v'"),
        (lambda: nc.field("[1]d"), TypeError, "a field cannot be"),
        (lambda: nc.field(3), TypeError, "'type' must be a type's code, a class of native objects"),
        (lambda: nc.field(int), TypeError, "'type' must be a type's code"),
        (lambda: nc.field("(3)d", atomic=True), TypeError, "cannot be atomic"),
        (lambda: nc.field("g", atomic=True), TypeError, "cannot be atomic"),
        (lambda: nc.field("&d", atomic=True), TypeError, "cannot be atomic; numbers of 1 to 8"),
        (lambda: nc.field("Point", atomic=True), TypeError, "a reference cannot be atomic"),
        (lambda: make(x=nc.field("NoSuch")), TypeError, "none has that name"),
    ],
)
def test_fields_that_cannot_be(make, exception, message):
    with pytest.raises(exception, match=message):
        make()


def test_fields_are_not_deleted_or_replaced(fails):
    one = Point()
    with fails(AttributeError, "field 'x' of 'Point' cannot be deleted"):
        del one.x
    message = "'x' of class 'Point' is a native field and cannot be assigned to; make a subclass"
    with fails(TypeError, message):
        Point.x = 1
    with fails(TypeError, message):
        del Point.x
    with fails(TypeError, "field 'x' of 'Point' objects does not apply to a 'Kinds' object"):
        Point.x.__get__(Kinds())
    with fails(TypeError, "field 'x' of 'Point' objects does not apply to a 'int' object"):
        Point.x.__set__(3, 1.0)


def test_names_conflict(fails):
    other = make(x=nc.field("d"))
    rule = "; a name must be one field, or one method with one signature"
    with fails(TypeError, "class 'Both': 'x' is a field in 'Point', and a field in 'Made'" + rule):
        type(Point)("Both", (Point, other), {})
    with fails(TypeError, "class 'Sub': 'x' is a field in 'Sub', and a field in 'Point'" + rule):
        type(Point)("Sub", (Point,), {"x": nc.field("d")})
    with fails(TypeError, "class 'Sub': 'x' is a field of a base class and must stay one"):
        type(Point)("Sub", (Point,), {"x": 1})


@pytest.mark.parametrize("given", [nc.field("d"), nc.method(None, "d:&v")])
def test_a_class_is_complete_when_it_is_made(fails, given):
    message = (
        "'z' of class 'Point': nativecall.field and nativecall.method work only in class bodies; "
        "the layout of this class is fixed, so make a subclass"
    )
    with fails(TypeError, message):
        Point.z = given
    assert not hasattr(Point, "z")
    with pytest.raises(TypeError):
        type(Point).__setattr__(Point, 5, given)


def test_a_class_whose_name_is_a_type_s_code(fails):
    """A field of that name would be a number where a reference is meant."""
    message = (
        "class 'N': its name is also a type code, so field('N') has that type and is not a "
        "reference; rename the class, or write field(nativecall.NativeObject), a reference to any "
        "native object"
    )
    with fails(TypeError, message):
        type(nc.NativeObject)("N", (nc.NativeObject,), {"next": nc.field("N")})
    cls = type(nc.NativeObject)("N", (nc.NativeObject,), {"x": nc.field("d")})
    assert cls(1.0).x == 1.0


def test_names_are_identifiers_of_any_script(fails):
    base = make(größe=nc.field("d"), η=nc.field("(2)d"), größer=nc.method(None, "d:&v"))

    class Sub(base):
        def größer(self):
            return self.größe + 1

    assert repr(Sub(1.5)) == "Sub(größe=1.5, η=array([0., 0.]))"
    assert Sub(größe=2.0).größer() == 3.0
    assert nc.ObjectArray(Sub, 2)["η"].shape == (2, 2)
    for name in ("a\0b", "a b", "", "3", "\ud800"):
        for given in (nc.field("d"), nc.method(None, "d:&v")):
            with fails(
                TypeError, f"class 'Made': a native name must be an identifier (got {name!r})"
            ):
                make(**{name: given})
    with fails(TypeError, "class 'Made': a native name must be an identifier (got 1)"):
        type(base)("Made", (nc.NativeObject,), {1: nc.field("d")})


def test_a_name_does_not_end_at_a_nul(fails):
    with fails(TypeError, "Point() has no field 'x\0y'"):
        Point(**{"x\0y": 5.0})
    with pytest.raises(KeyError, match="has no field"):
        nc.ObjectArray(Point, 1)["x\0y"]
    made = make(x=nc.field("d"))
    setattr(made, "x\0y", 5)
    assert getattr(made, "x\0y") == 5


def test_a_name_is_the_class_that_python_would_find(fails):
    """That of the statement's own place, and the last one where a function makes it again."""

    def build():
        class Point(nc.NativeObject):
            pass

        class Holder(nc.NativeObject):
            point = nc.field("Point")

        return Point, Holder

    made = [build(), build()]
    for mine, holder in made:
        holder().point = mine()
        holder(mine())
    with fails(
        TypeError, "field 'point' of 'Holder' must be an object of Point or None (got Point)"
    ):
        made[1][1](made[0][0]())
    make(n=nc.field("Kinds"))(Kinds())
    where = f"{__name__}.test_a_name_is_the_class_that_python_would_find.<locals>.build.<locals>"
    with fails(
        TypeError,
        "'Holder' is neither a type's code nor one class of native objects: several have that "
        f"name: {where}.Holder, {where}.Holder; give the class itself",
    ):
        make(n=nc.field("Holder"))
    with fails(
        TypeError,
        "'Later' is neither a type's code nor one class of native objects: none has that name yet; "
        "use nativecall.NativeObject for any",
    ):
        make(n=nc.field("Later"))


def test_classes_come_and_go():
    """References and memory are level when classes are made and dropped."""

    def round():
        class Made(nc.NativeObject):
            x = nc.field("d")
            next = nc.field("Made")

            @nc.method("d:&v")
            def double(self):
                return 2 * self.x

        one = Made(2.0)
        one.next = Made(3.0, one)
        assert one.double() == 4.0
        one.next = None
        return Made

    round()
    gc.collect()
    before = len(nc.NativeObject.__subclasses__())
    for _ in range(20):
        round()
    gc.collect()
    assert len(nc.NativeObject.__subclasses__()) == before


@pytest.mark.parametrize(
    "forged",
    [("x", "@", 8), ("x", "d", 800), ("x", "f", 8), ("x", "", 0), ("none", "d", 8)],
)
def test_descriptors_are_made_of_fields_that_are_there(fails, forged):
    name, letter, size = forged
    with fails(TypeError, f"class 'Point' has no field '{name}' of this type"):
        type(Point.x)(Point, name, letter, size, False, None, None, None)
