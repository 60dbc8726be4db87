"""Unions and bit-fields by value: what is taken for them, and how they come back."""

import copy
import ctypes
import pickle

import cffi
import pytest

import nativecall as nc
from support.threads import each, turns

TEXT = """
union number { int i; double d; char text[8]; };
typedef struct { unsigned a : 3, : 2; int b : 9; union { int x; float y; }; char tail; } bits;
typedef struct { int kind; union number value; } tagged;
union number twice(union number one);
bits next(bits one);
int whole(const bits *one);
void fill(bits *one);
tagged tag(int kind, union number value);
union number apply(union number (*f)(union number, bits), union number one);
union many { double d; void *p; };
union many many(void *p);
"""
CODE = (
    TEXT
    + """
union number twice(union number one) { one.d *= 2; return one; }
bits next(bits one) { one.a++; one.b--; one.y *= 2; one.tail++; return one; }
int whole(const bits *one) { return one->a * 10000 + one->b * 10 + one->tail; }
void fill(bits *one) { one->a = 7; one->b = -3; one->y = 1.5f; one->tail = 1; }
tagged tag(int kind, union number value) { tagged made = {kind, value}; return made; }
union number apply(union number (*f)(union number, bits), union number one) {
    bits two = {5, -200, {3}, 4};
    return f(one, two);
}
union many many(void *p) { union many made; made.p = p; return made; }
"""
)


@pytest.fixture(scope="module")
def path(builder):
    return builder.library(CODE, "unions", flags=("-O1", "-w"))


@pytest.fixture(params=["text", "header"])
def lib(request, path, tmp_path):
    if request.param == "text":
        return nc.load(path, TEXT, out={"fill": ["one"]})
    (tmp_path / "unions.h").write_text(TEXT)
    return nc.load(path, header=tmp_path / "unions.h", out={"fill": ["one"]})


def test_a_union_has_all_its_members(lib):
    found = lib.twice({"d": 1.5})
    assert (found.d, found.i, found.text) == (3.0, 0, b"")
    assert repr(found) == "union number(i=0, d=3.0, text=b'')"
    found.text = b"ab"
    assert (found.i, found._asdict()["text"]) == (0x6261, b"ab")
    assert lib.twice((7,)).i == 14  # the first, as C's initializers have it; a tiny double
    assert lib.twice(found).d == 2 * found.d


def test_bit_fields_are_numbers(lib):
    found = lib.next({"a": 1, "b": -4, "y": 2.5, "tail": 3})
    assert (found.a, found.b, found.y, found.tail) == (2, -5, 5.0, 4)
    found.b = 255
    assert lib.whole(found) == 22554
    assert lib.next((7, -256, {"x": 0}, 0)).b == 255  # as C has it: both wrap
    filled = lib.fill()
    assert (filled.a, filled.b, filled.y, filled.tail) == (7, -3, 1.5, 1)


def test_members_without_a_name_are_reached_by_those_in_them(lib):
    found = lib.fill()
    found.x = 9
    assert (found.f3.x, found.x) == (9, 9)
    assert lib.next({"a": 0, "b": 0, "x": 0, "tail": 0}).x == 0
    assert [*found._asdict()] == ["a", "b", "f3", "tail"]


def test_unions_in_structs_and_in_callbacks(lib):
    made = lib.tag(3, {"d": 0.5})
    assert (made.kind, made.value.d) == (3, 0.5)
    made.value.i = 0
    assert made.value.d == 0.5  # the lower half was 0 before
    seen = []

    def f(one, two):
        seen.append((one.d, two.a, two.b, two.x, two.tail))
        return {"d": one.d + 1}

    assert lib.apply(f, {"d": 2.0}).d == 3.0
    assert seen == [(2.0, 5, -200, 3, 4)]


@pytest.mark.parametrize(
    ("value", "kind", "said"),
    [
        ({"a": 8, "b": 0, "x": 0, "tail": 0}, OverflowError, "field 'a' of argument 1 of 'next' is "
         "8, out of range for its 3 bits"),
        ({"a": 0, "b": -257, "x": 0, "tail": 0}, OverflowError, "is -257, out of range for its 9"),
        ({"a": 0, "b": 0, "tail": 0}, TypeError, "lacks 'f3'; its fields are 'a', 'b', 'f3'"),
        ({"a": 0, "b": 0, "z": 0, "x": 0, "tail": 0}, TypeError, "has no field 'z'"),
        ((1, 2, 3), TypeError, "must have 4 fields ('a', 'b', 'f3', 'tail'), not 3"),
        ((1.5, 0, {"x": 0}, 0), TypeError, "field 'a' of argument 1 of 'next' must be an integer"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(lib, value, kind, said):
    with pytest.raises(kind) as caught:
        lib.next(value)
    assert said in str(caught.value)


def test_a_union_takes_one_member(lib):
    for value in ({"i": 1, "d": 2.0}, {}):
        with pytest.raises(TypeError, match="argument 1 of 'twice' must have one member; its fiel"):
            lib.twice(value)
    with pytest.raises(TypeError, match="has no field 'x'; its fields are 'i', 'd', 'text'"):
        lib.twice({"x": 1})
    with pytest.raises(TypeError, match=r"must have 1 fields \('i'\), not 2"):
        lib.twice((1, 2))


def test_copies_pickles_and_buffers(lib):
    found = lib.twice({"d": 0.75})
    for one in (copy.copy(found), copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        assert (one.d, one == found) == (1.5, True)
        one.d = 4
        assert found.d == 1.5
    for record in (found, lib.fill()):
        with pytest.raises(BufferError, match="has bit-fields or unions in it, which a buffer can"):
            memoryview(record)
    with pytest.raises(TypeError, match="cannot pickle 'union many', which has pointers beside"):
        pickle.dumps(lib.many(None))


def test_those_of_ctypes_and_cffi(lib):
    class Number(ctypes.Union):
        _fields_ = (("i", ctypes.c_int), ("d", ctypes.c_double), ("text", ctypes.c_char * 8))

    class Other(ctypes.Union):
        _fields_ = (("i", ctypes.c_int), ("f", ctypes.c_float))

    assert lib.twice(Number(d=4)).d == 8
    with pytest.raises(TypeError, match=r"must be a 'union number' \(got ctypes' Other"):
        lib.twice(Other(i=1))
    assert lib.twice(lib.new("union number", {"d": 2.5})).d == 5
    assert lib.next(lib.new("bits", {"a": 1, "b": 2})).a == 2
    assert lib.whole(lib.new("bits", {"a": 1, "b": 2})) == 10020
    other = cffi.FFI()
    other.cdef("union number { int i; double d; char text[8]; };")
    assert lib.twice(other.new("union number *", {"d": 1})[0]).d == 2


def test_threads_set_bit_fields_beside_each_other(lib):
    found = lib.next({"a": 0, "b": 0, "y": 0, "tail": 0})

    def turn(name):
        for number in range(3000):
            value = number % 7
            setattr(found, name, value)
            assert getattr(found, name) == value

    with turns(1e-6):
        each(turn, "a", "b")


def test_a_field_has_the_name_of_what_a_record_has(path):
    """It is reached by its index, and takes nothing from the code that reads the others."""
    lib = nc.load(
        path,
        "typedef struct { unsigned _bits : 3, : 2; int _address : 9; "
        "union { int _kept; float _assign; }; char _layout; } bits; bits next(bits one);",
    )
    found = lib.next((1, -4, {"_kept": 0}, 3))
    assert (found[0], found[1], found[3]) == (2, -5, 4)
    found[0] = 7
    assert found[0] == 7
    assert repr(found) == "bits(_bits=7, _address=-5, f3=union(_kept=0, _assign=0.0), _layout=4)"


def test_by_signature(path):
    plain = nc.load(path)
    found = plain.function("twice", "U{i:i:d:d:}:U{i:i:d:d:}")({"d": 3})
    assert found.d == 6
    add = nc.callback("T{I#3:a:I#5:b:}:T{I#3:a:I#5:b:}", lambda one: (one.b, one.a))
    assert [*add((1, 2))] == [2, 1]
    with pytest.raises(OverflowError, match=r"field 'a' of .* is 31, out of range"):
        add((1, 31))


@pytest.mark.parametrize("text", ["v:U{Od}", "U{dO}:", "v:T{iU{T{(2)O}d}}"])
def test_an_object_in_a_union_is_refused(text):
    """Whatever it is, it would be taken for an object."""
    given = [1] * text.startswith("v")
    for make in (lambda: nc.wrap(1, text)(*given), lambda: nc.callback(text, print)):
        with pytest.raises(nc.SignatureError, match="has a Python object in a union, and nothing"):
            make()
