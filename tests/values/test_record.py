"""Records: their fields, views, buffers and copies, where they are taken, and what keeps what."""

import copy
import ctypes
import gc
import operator
import pickle
import sys
import sysconfig
import weakref

import cffi
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nativecall as nc
from nativecall._cdecl.spelling import parse_type
from nativecall._values import storage
from support.declared import type_of
from support.threads import HAS_GIL, each

TEXT = """
struct inner { short n; double x; };
typedef struct { char name[8]; int id; struct inner in; double v[3]; struct inner many[2]; } item;
typedef struct { double *p; int n; double (*f)(double); } lead;
struct point { double x, y; };
typedef struct { char names[2][4]; unsigned char raw[3]; _Bool on; } words;
item make_item(void);
item change(item one);
item made_after(double (*f)(double));
int length(item one);
void rename_item(item *one);
double sum(lead one);
lead same(lead one);
double call(lead one, double x);
struct point swap(struct point one);
void move(struct point *one, double by);
void split(double x, struct point *one);
struct point apply(struct point (*f)(struct point, item), struct point one);
int named(int (*f)(item));
words make_words(void);
double sum_of(int count, ...);
"""
CODE = (
    "#include <stdarg.h>\n#include <string.h>\n"
    + TEXT
    + """
item make_item(void) {
    item one = {"abc", 7, {3, 0.5}, {1, 2, 3}, {{1, 1.5}, {2, 2.5}}};
    return one;
}
item change(item one) { one.id++; one.in.n = -one.in.n; one.many[1].x *= 2; return one; }
item made_after(double (*f)(double)) { f(1); return make_item(); }
int length(item one) { return (int)strnlen(one.name, 8); }
void rename_item(item *one) { memcpy(one->name, "longname", 8); }
double sum(lead one) { double s = 0; for (int i = 0; i < one.n; i++) s += one.p[i]; return s; }
lead same(lead one) { return one; }
double call(lead one, double x) { return one.f(x); }
struct point swap(struct point one) { struct point two = {one.y, one.x}; return two; }
void move(struct point *one, double by) { one->x += by; one->y += by; }
void split(double x, struct point *one) { one->x = (int)x; one->y = x - (int)x; }
struct point apply(struct point (*f)(struct point, item), struct point one) {
    return f(one, make_item());
}
int named(int (*f)(item)) { return f(make_item()); }
double sum_of(int count, ...) {
    va_list rest;
    double sum = 0;
    va_start(rest, count);
    for (int i = 0; i < count; i++) {
        struct point one = va_arg(rest, struct point);
        sum += one.x + 100 * one.y;
    }
    double *v = va_arg(rest, double *);
    va_end(rest);
    return sum + 10000 * v[2];
}
words make_words(void) { words one = {{"ab", {'w', 'x', 'y', 'z'}}, {1, 0, 255}, 1}; return one; }
"""
)

# Made once: each FFI makes new types, and some stay in a cache.
FFI = cffi.FFI()
FFI.cdef("struct point { double x, y; };")


@pytest.fixture(scope="module")
def records(builder):
    path = builder.library(CODE, "records")
    return nc.load(path, TEXT)


@pytest.fixture
def item(records):
    return records.make_item()


def test_a_result_has_c_s_name_and_fields(item):
    assert type(item) is nc.Record
    assert repr(item.__class__) == "<class 'nativecall.Record'>"
    assert repr(item) == (
        "item(name=b'abc', id=7, in=struct inner(n=3, x=0.5), v=[1.0, 2.0, 3.0], "
        "many=[struct inner(n=1, x=1.5), struct inner(n=2, x=2.5)])"
    )
    assert item._fields == ("name", "id", "in", "v", "many")
    assert repr(nc.wrap(nc.load("c").address("div"), "T{ii}:ii")(7, 2)) == "struct(f0=3, f1=1)"
    assert set(item._fields) < set(dir(item)) > {"_replace", "_asdict"}


def test_variadic_functions_take_records_by_value_and_arrays_as_pointers(records, item):
    point = records.swap((2, 1))
    assert records.sum_of(2, point, records.swap((2, 1)), item.v) == 30402
    assert records.sum_of(1, records.new("struct point *", (1, 2))[0], item.v) == 30201


def test_fields_by_name_and_by_index(item):
    assert (item.name, item.id, getattr(item, "in").n) == (b"abc", 7, 3)
    assert (item[0], item[-4], len(item)) == (b"abc", 7, 5)
    assert [*item.v] == [1.0, 2.0, 3.0]
    assert (item.v[-1], len(item.many)) == (3.0, 2)
    item.id = item[1] + 1
    item[-4] += 1
    item.v[0] = 9
    item.v = (7, *[*item.v][1:])
    item.name = b"12345678"
    assert (item.id, item.v, item.name) == (9, (7.0, 2.0, 3.0), b"12345678")
    _, number, inner, *_ = item
    assert (number, inner) == (9, (3, 0.5))


def test_what_does_not_fit_is_refused(item, fails):
    for name, value, exception, message in (
        ("id", "a", TypeError, "field 'id' of 'item' must be an integer (got str)"),
        ("name", "a", TypeError, "field 'name' of 'item' must be bytes (got str); give the "
         "function or the library an encoding"),
        ("name", b"123456789", ValueError,
         "field 'name' of 'item' must have at most 8 bytes (got 9)"),
        ("in", (1,), TypeError, "field 'in' of 'item' must have 2 fields ('n', 'x'), not 1"),
        ("in", (40000, 1), OverflowError, "field 'n' of field 'in' of 'item' is 40000, out of "
         "range for 'short' (-32768 to 32767)"),
        ("v", [1, 2], ValueError, "field 'v' of 'item' must have 3 items (got 2)"),
        ("ids", 1, AttributeError, "'item' has no field 'ids'; its fields are 'name', 'id', 'in', "
         "'v', 'many'"),
    ):  # fmt: skip
        before = item._asdict()
        with fails(exception, message):
            setattr(item, name, value)
        assert item._asdict() == before  # nothing half-done
    with fails(TypeError, "an item of 'double [3]' must be a real number (got str)"):
        item.v[0] = "x"
    with fails(OverflowError, "field 'n' of 'struct inner' is 32768, out of range for 'short' "
               "(-32768 to 32767)"):  # fmt: skip
        item.many[0].n = 2**15
    with fails(AttributeError, "'struct inner' has no field 'y'; its fields are 'n', 'x'"):
        item.many[0].y
    with fails(TypeError, "field 'id' of 'item' cannot be deleted"):
        del item.id
    with fails(IndexError, "index out of range"):
        item[5]
    with fails(IndexError, "index out of range"):
        item.v[3] = 1
    with fails(AttributeError, "'double [3]' has no field 'x'; it is an array"):
        item.v.x = 1
    with pytest.raises(TypeError, match="unhashable"):
        hash(item)
    with pytest.raises(TypeError, match="cannot create"):
        nc.Record()


def test_structs_and_arrays_in_a_record_share_its_memory(item):
    inner, many = getattr(item, "in"), item.many
    inner.x = 8
    many[1].n = 5
    many[0] = inner
    assert item[2] == (3, 8.0)
    assert item.many == ((3, 8.0), (5, 2.5))
    alone = copy.copy(inner)
    inner.n = 0
    assert (alone.n, item[2].n) == (3, 0)
    del item
    gc.collect()
    assert (inner.x, many[1].x) == (8.0, 2.5)


def test_equality_is_by_fields(records, item):
    other = records.make_item()
    assert item == other == item._replace()
    assert not operator.ne(item, other)
    assert item != records.change(item)
    assert item == tuple(item)
    assert item == [*item]
    assert tuple(item) == item
    assert item != tuple(item)[1:]
    assert item.v == [1, 2, 3]
    assert item.v == other.v
    assert item.v != item.many
    point = records.swap((2, 1))
    assert point == (1, 2)
    assert point != {"x": 1, "y": 2}
    assert point != 1
    named_otherwise = nc.wrap(records.swap.address(), "T{d:a:d:b:}:T{dd}")((2, 1))
    same_names = nc.wrap(records.swap.address(), "T{d:x:d:y:}:T{dd}")((2, 1))
    assert point != named_otherwise
    assert point == same_names
    assert records.swap((float("nan"), 1)) != records.swap((float("nan"), 1))
    with pytest.raises(TypeError):
        operator.lt(point, point)


def test_replace_and_asdict(item):
    changed = item._replace(id=1, name=b"z")
    assert (changed.id, changed.name, item.id) == (1, b"z", 7)
    assert changed._asdict() == {**item._asdict(), "id": 1, "name": b"z"}
    with pytest.raises(AttributeError, match="'item' has no field 'nome'"):
        item._replace(nome=b"z")


def test_a_record_is_taken_wherever_the_struct_is(records, item, fails):
    assert records.change(item).id == 8
    assert records.length(item) == 3
    records.rename_item(item)
    assert item.name == b"longname"
    assert records.length(item) == 8
    point = records.swap((2, 1))
    assert records.swap(point) == (2, 1)
    records.move(point, 0.5)
    assert point == (1.5, 2.5)
    made = records.new("item *", item)
    assert records.ffi.string(made.name) == b"longname"
    assert made.many[1].x == 2.5
    assert records.length(made[0]) == 8
    made = records.new("item[2]", [item, item._replace(id=3)])
    assert (made[0].id, made[1].id) == (7, 3)
    assert nc.load("c", "void *memset(void *, int, size_t);").memset(point, 0, 8)
    assert point == (0, 2.5)
    with fails(TypeError, "argument 1 of 'swap' must be a 'struct point' (got 'struct inner')"):
        records.swap(getattr(item, "in"))
    with fails(
        TypeError,
        "argument 1 of 'swap' must be a tuple, a mapping or a 'struct point' with the fields 'x', "
        "'y' (got int)",
    ):
        records.swap(1)
    with fails(TypeError, "argument 1 of 'move' must be a 'struct point *' (got a 'item')"):
        records.move(item, 1)
    inner = getattr(item, "in")
    assert (inner.n, inner.x) == (3, 0.5)


def test_what_a_function_gives_it_takes(records):
    f = records.function("change", "item (item)")
    item = f(f(records.make_item()))
    assert type(item) is nc.Record
    assert (item.id, item.many[1].x, item.name) == (9, 10.0, b"abc")


def test_records_choose_overloads(records, item):
    both = nc.wrap({"d:dd": nc.load("m").address("pow"), "T{dd}:T{dd}": records.swap})
    assert both(records.swap((1, 2))) == (1, 2)
    with pytest.raises(TypeError, match="no entry"):
        both(item)


def test_out_parameters_and_callbacks(records):
    split = records.function("split", out=["one"])
    assert repr(split(2.5)) == "struct point(x=2.0, y=0.5)"
    seen = []

    def f(point, item):
        seen.append((point, item))
        return point._replace(x=item.id)

    assert records.apply(f, (1, 2)) == (7.0, 2.0)
    ((point, item),) = seen
    assert (repr(point), item.name) == ("struct point(x=1.0, y=2.0)", b"abc")
    point.x = 5  # its own memory
    assert records.apply(lambda point, item: (point.y, item.id), point) == (2.0, 7.0)


def test_text(records, builder, fails):
    assert records.length((b"ab\0c", 1, (0, 0), (1, 2, 3), ((1, 2), (3, 4)))) == 2
    decoded = nc.load(builder.library(CODE, "records"), TEXT, encoding="utf-8")
    item = decoded.make_item()
    assert item.name == "abc"
    item.name = "grün"
    assert (item.name, decoded.length(item)) == ("grün", 5)
    assert decoded.length(item._replace(name="x")) == 1
    assert decoded.length({**item._asdict(), "name": "xy"}) == 2
    assert decoded.named(lambda item: len(item.name) if item.name == "abc" else -1) == 3
    with fails(ValueError, "field 'name' of 'item' must have at most 8 bytes (got 9)"):
        item.name = "grüne Häuser"[:7] + "!"
    words = records.make_words()
    assert repr(words) == "words(names=[b'ab', b'wxyz'], raw=[1, 0, 255], on=True)"
    words.names[0] = b"cd"
    words.raw = b"\1\2"
    assert (words.names, words.raw) == ((b"cd", b"wxyz"), (1, 2, 0))


def test_buffers(records, item):
    array = np.asarray(item)
    assert array.shape == ()
    assert array.dtype.names == item._fields
    assert array.dtype["name"] == "S8"
    assert (array["name"], array["id"], array["many"]["x"].tolist()) == (b"abc", 7, [1.5, 2.5])
    array["id"] = 12
    array["v"][1] = 6
    assert (item.id, item.v[1]) == (12, 6.0)
    view = np.asarray(item.v)
    many = np.asarray(item.many)
    view[2] = 4
    many["n"] = 8
    assert (view.shape, view.dtype, item.v[2], item.many[1].n) == ((3,), float, 4.0, 8)
    names = np.asarray(records.make_words().names)
    assert (names.dtype, names.tolist()) == ("S4", [b"ab", b"wxyz"])
    assert memoryview(item).nbytes == len(bytes(item)) == array.itemsize
    assert records.length(array[()]) == 3
    del item
    gc.collect()
    assert (array["id"], view[2], many["n"].tolist()) == (12, 4.0, [8, 8])


def test_python_objects_have_no_buffer(fails):
    layout = storage.layout(parse_type("T{Oi}"))
    with fails(BufferError, "'struct' has Python objects in it, which a buffer cannot hold"):
        memoryview(layout(0))


def test_pointers_in_a_record_keep_what_they_were_set_to(records, fails):
    numbers = np.array([1.0, 2.0, 4.0])
    lead = records.same((None, 0, None))
    assert (lead.p, lead.n, lead.f) == (None, 0, None)
    alive = weakref.ref(numbers)
    lead.p = numbers
    lead.n = 3
    del numbers
    gc.collect()
    assert alive() is not None
    assert (lead.p[2], records.sum(lead)) == (4.0, 7.0)
    copied = lead._replace(n=2)
    lead.p = np.array([5.0, 5.0, 5.0])
    gc.collect()
    assert (records.sum(copied), records.sum(lead)) == (3.0, 15.0)
    lead.f = lambda x: -x
    assert records.call(lead, 2.0) == -2.0
    del copied
    lead.p = None
    gc.collect()
    assert alive() is None
    with fails(TypeError, "field 'p' of 'lead' must be a buffer that suits 'double *' (got 'f' "
               "elements in numpy.ndarray); its dtype is float32, astype('float64') of it is a "
               "copy that suits"):  # fmt: skip
        lead.p = np.zeros(2, "f")
    assert lead.p is None


def test_a_record_in_a_cycle_is_collected(records):
    class Marker:
        pass

    def make():
        lead, marker = records.same((None, 0, None)), Marker()
        others = lead._replace(), marker
        lead.f = lambda x: (lead, others)
        return weakref.ref(marker)

    gone = make()
    gc.collect()
    assert gone() is None


def test_python_objects_in_a_record(builder):
    source = """#include <Python.h>
    typedef struct { PyObject *o; int n; } R;
    R both(PyObject *o) { Py_INCREF(o); R r = {o, 1}; return r; }"""
    flags = ("-O1", f"-I{sysconfig.get_path('include')}")
    path = builder.library(source, "record_objects", flags=flags)
    f = nc.wrap(nc.load(path).address("both"), "T{O:o:i:n:}:O")
    thing = [1]
    before = sys.getrefcount(thing)
    record = f(thing)
    assert record.o is thing
    copied = copy.copy(record)
    record.o = None
    assert (record.o, copied.o) == (None, thing)
    del record
    assert copied.o is thing
    del copied
    gc.collect()
    assert sys.getrefcount(thing) == before


def test_copies_and_pickles(records, item, fails):
    for made in (copy.copy(item), copy.deepcopy(item), pickle.loads(pickle.dumps(item))):
        assert (made, repr(made)) == (item, repr(item))
        made.id += 1
        assert made.id == item.id + 1
    view = item.many[1]
    assert pickle.loads(pickle.dumps(view)) == view == copy.copy(view)
    assert pickle.loads(pickle.dumps(item.v)) == [1, 2, 3]
    lead = records.same((None, 3, None))
    assert pickle.loads(pickle.dumps(lead)) == (None, 3, None)
    lead.p = np.zeros(3)
    with fails(TypeError, "cannot pickle 'p' of 'lead', a pointer, which is invalid in "
               "another process; set it to None before"):  # fmt: skip
        pickle.dumps(lead)
    assert copy.copy(lead).p == lead.p


def test_a_record_of_ctypes_and_of_cffi_is_taken_as_before(records):
    class Point(ctypes.Structure):
        _fields_ = (("x", ctypes.c_double), ("y", ctypes.c_double))

    function = ctypes.CDLL(records.path).swap
    function.argtypes, function.restype = [Point], Point
    assert repr(nc.wrap(function)(Point(1, 2))) == "Point(x=2.0, y=1.0)"
    assert records.swap(FFI.new("struct point *", (1, 2))[0]) == (2, 1)
    assert records.swap(np.array((1, 2), [("x", "d"), ("y", "d")])[()]) == (2, 1)


@given(st.lists(st.sampled_from(["b", "H", "i", "q", "f", "d", "?", "Zd", "g", "e"]), min_size=1))
def test_numbers_come_back(letters):
    struct = parse_type(f"T{{{''.join(letters)}}}")
    record = storage.layout(struct)(0)
    values = [True if letter == "?" else 1 for letter in letters]
    for place, value in enumerate(values):
        record[place] = value
    assert record == values
    assert bytes(np.asarray(record)) == bytes(record)


def test_threads_racing_on_a_record(records):
    lead = records.same((None, 3, None))

    def race(number):
        for _ in range(2000):
            lead.p = np.full(3, float(number))  # which the record alone keeps
            lead.n = 3
            assert records.sum(lead) in {0.0, 3.0, 6.0, 9.0}
            assert records.sum(copy.copy(lead)) in {0.0, 3.0, 6.0, 9.0}

    each(race, *range(4))


def test_nothing_leaks(records):
    def use():
        item = records.make_item()
        item.many[0].x = 1
        item.v = [1, 2, 3]
        with pytest.raises(TypeError):
            item.id = "x"
        records.change(item)
        np.asarray(item.v)
        lead = records.same((None, 0, None))
        lead.p = np.zeros(3)
        pickle.loads(pickle.dumps(copy.copy(item)))
        repr(item)

    layout = storage.layout(type_of(records.declarations, "item"))
    for _ in range(10):
        use()
    gc.collect()
    before = sys.getrefcount(layout), len(gc.get_objects())
    for _ in range(100):
        use()
    gc.collect()
    assert sys.getrefcount(layout) - before[0] < 5
    assert len(gc.get_objects()) - before[1] < 50


def test_records_that_ended_are_used_again(records):
    """At most eight of a struct, and as many views of it: they know nothing of what they were."""
    for _ in range(3):
        points = [records.swap((n, -n)) for n in range(20)]
        assert points == [(-n, n) for n in range(20)]
    items = [records.make_item() for _ in range(20)]
    for number, item in enumerate(items):
        item.many[1].x = number
    views = [item.many[1] for item in items]
    held = weakref.ref(array := np.zeros(3))
    lead = records.same((None, 0, None))
    lead.p = array
    del items, item, lead, array
    assert held() is None
    assert [view.x for view in views] == [*range(20)]
    assert [records.same((None, n, None)) for n in range(20)] == [
        (None, n, None) for n in range(20)
    ]
    assert records.same((None, 0, None))._held is None


@pytest.mark.parametrize(("text", "most"), [("d:x:T{i:n:}:y:", 8), ("T{(17)d:x:}:y:d:z:", 0)])
def test_a_layout_frees_the_records_that_ended(text, most):
    """Large ones do not stay even with it."""
    struct = parse_type(f"T{{{text}}}")
    for _ in range(3):  # the layout of the member, which is cached, keeps views of it
        before = sys.getallocatedblocks()
        layout = storage._layout(struct, None)
        made = sys.getallocatedblocks()
        many = [layout(0) for _ in range(100)]
        views = [one.y for one in many]
        del many, views
        kept = sys.getallocatedblocks() - made
        del layout
        left = sys.getallocatedblocks() - before
    # Without the GIL, the thread keeps the layout with its references (csrc/platform/references.h).
    layouts = 4 if HAS_GIL else 16
    assert (kept <= most + 4, left <= layouts) == (True, True), (kept, left)


def test_a_large_result_ends_with_the_call_that_raised(records, fails):
    def broken(x):
        raise LookupError(x)

    layout = storage.layout(type_of(records.declarations, "item"))
    before = sys.getrefcount(layout)
    for _ in range(50):
        with fails(LookupError, "1.0"):
            records.made_after(broken)
    assert sys.getrefcount(layout) - before < 5


def test_a_record_of_more_than_16_items_is_shown_in_part():
    record = storage.layout(parse_type("T{(20)i:v:}"))(0)
    assert repr(record) == f"struct(v=[{', '.join(['0'] * 16)}, ...])"
    assert operator.length_hint(record.v) == 20
