"""Members of structs that C has, or that `new` made, are assigned what initialisers take."""

import gc
import weakref

import numpy as np
import pytest

import nativecall as nc

SOURCE = """
typedef struct node node;
struct node {
    int n;
    node *next;
    int (*f)(node *, int);
    const char *name;
    unsigned char tag[4];
    int *items;
    struct { double (*g)(double); } inner;
    node *both[2];
};
typedef struct { int a; } plain;
node variable;
node *shared(void) { return &variable; }
int call(node *p, int x) { return p->f(p, x); }
int call_value(node v, int x) { return v.f(&v, x); }
double call_inner(node *p, double x) { return p->inner.g(x); }
void each(node *p, void (*f)(node *)) { for (; p; p = p->next) f(p); }
void get(node **p) { *p = &variable; }
static plain one;
plain *get_plain(void) { return &one; }
static int drops;
void drop(node *p) { (void)p; drops++; }
int dropped(void) { return drops; }
"""
DECLARED = (
    SOURCE[: SOURCE.index("node variable;")]
    + """
extern node variable; node *shared(void); int call(node *p, int x); int call_value(node v, int x);
double call_inner(node *p, double x); void each(node *p, void (*f)(node *)); void get(node **p);
plain *get_plain(void); void drop(node *p); int dropped(void);
"""
)


class Function:
    """A callable that can be watched."""

    def __call__(self, node, x):
        return node.n + x


@pytest.fixture(scope="module")
def path(builder):
    return builder.library(SOURCE, "struct_pointers")


@pytest.fixture
def lib(path):
    return nc.load(path, DECLARED, out={"get": ["p"]})


def test_functions_of_all_kinds(lib):
    node = lib.new("node *", {"n": 3})
    callback = nc.callback("int (node *, int)", Function(), types=lib)
    for function in (lambda p, x: p.n + x, Function(), Function().__call__, callback):
        node.f = function
        gc.collect()
        assert lib.call(node, 4) == lib.call_value(node[0], 4) == node.f(node, 4) == 7
    node.inner.g = nc.load("m", "double floor(double);").floor
    assert lib.call_inner(node, 2.5) == 2.0
    node.inner = {"g": lambda x: x * 3}
    assert lib.call_inner(node, 2.5) == 7.5
    node.f = None
    assert node.f == lib.ffi.NULL


def test_text_arrays_and_structs(lib):
    node = lib.new("node")
    node.name, node.tag, node.items, node.n = b"name", b"abc", [1, 2, 3], 4
    node.both = [node, lib.new("node", {"n": 5})]
    gc.collect()
    assert (nc.string(node.name), bytes(node.tag), node.items[2]) == (b"name", b"abc\0", 3)
    assert [one.n for one in node.both] == [4, 5]
    node.items = np.array([7], "i4")
    node.both[1].f = lambda p, x: p.n * x
    assert (node.items[0], node.both[1].f(node.both[1], 2)) == (7, 10)
    node[0] = {"n": 8, "f": lambda p, x: x}
    assert (node.n, lib.call(node, 6)) == (8, 6)


def test_it_is_as_cffis_pointer(lib):
    node = lib.new("node *")
    other = lib.new("node", {"next": node, "n": 1})
    assert other.next == node == node.cdata == other.next.cdata
    assert isinstance(node.cdata, lib.ffi.CData)
    assert type(node.cdata) is not type(node)
    assert hash(other.next) == hash(node.cdata)
    assert node != other
    assert not node.next
    assert (node + 2) - node == 2
    assert 1 + node - 1 == node
    assert repr(node) == repr(node.cdata)
    assert dir(node) == dir(node.cdata)
    assert isinstance(node, lib.ffi.CData)
    several = lib.new("node[2]", [{"n": 1}, {"n": 2}])
    several[1].f = lambda p, x: p.n * x
    assert (len(several), [one.n for one in several], lib.call(several + 1, 5)) == (2, [1, 2], 10)
    assert weakref.ref(node)() is node
    assert several < several + 1
    assert several + 1 >= several + 1
    with lib.new("node") as made:
        assert made.n == 0
    with pytest.raises(TypeError, match="is made by"):
        type(node)()
    for wrong in (iter, len):
        with pytest.raises(TypeError):
            wrong(node)
    with pytest.raises(AttributeError, match="has no field 'missing'"):
        node.missing = None
    with pytest.raises(AttributeError, match="has no field 'missing'"):
        _ = node.missing


def test_the_ffi_takes_it(lib):
    ffi, node = lib.ffi, lib.new("node", {"n": 3})
    assert ffi.typeof(node) is ffi.typeof("node *")
    assert ffi.sizeof(node[0]) == ffi.sizeof("node")
    assert ffi.addressof(node, "n")[0] == ffi.cast("int *", node)[0] == 3
    assert bytes(ffi.buffer(node)[:4]) == ffi.buffer(node)[:4] == np.int32(3).tobytes()
    copy = ffi.new("node *", node[0])
    ffi.memmove(copy, node, ffi.sizeof("node"))
    assert copy.n == 3
    assert ffi.new("node *[2]", [node, copy])[1] == ffi.new("node *", {"next": copy}).next == copy
    assert lib.asarray(node)["n"] == 3


def test_only_structs_with_pointers_have_it(lib):
    for plain in (lib.new("plain"), lib.get_plain(), lib.new("int *")):
        assert isinstance(plain, lib.ffi.CData)
        assert not hasattr(plain, "cdata")


@pytest.mark.parametrize("way", ["shared", "get", "variable"])
def test_memory_of_c_keeps_what_it_was_assigned(lib, way):
    find = {"variable": lambda: lib.variable}.get(way, getattr(lib, way, None))
    find().n = 1
    function = Function()
    gone = weakref.ref(function)
    find().f = function
    del function
    gc.collect()
    assert lib.call(find(), 2) == 3
    find().f = lambda p, x: x
    gc.collect()
    assert gone() is None


def test_null_has_no_members(lib, fails):
    null = lib.new("node").next
    assert (bool(null), null.cdata) == (False, lib.ffi.NULL)
    assert null.__class__ is type(null.cdata)
    with fails(AttributeError, "<cdata 'struct node *' NULL> has no member 'n'"):
        null.n
    for value in (1, None, [1]):
        with fails(AttributeError, "<cdata 'struct node *' NULL> has no member 'n'"):
            null.n = value
    with pytest.raises(RuntimeError, match="null pointer"):
        null[0]


def test_arguments_of_callbacks_have_it(lib):
    def assign(node):
        node.f = lambda p, x: p.n * x

    node = lib.new("node", {"n": 2, "next": {"n": 3}})
    lib.each(node, assign)
    gc.collect()
    assert (lib.call(node, 10), lib.call(node.next, 10)) == (20, 30)


def test_cycles_go(lib):
    function, node = Function(), lib.new("node")
    function.node, gone = node, weakref.ref(function)
    node.f, node.next = function, node
    del function, node
    gc.collect()
    assert gone() is None


COPIES = {
    "member": lambda lib, one: setattr(made := lib.new("node"), "inner", one.inner) or made,
    "item": lambda lib, one: lib.new("node[2]", [{}, one]) + 1,
    "new": lambda lib, one: lib.new("node", one[0]),
    "in a list": lambda lib, one: lib.new("node", {"inner": one.inner}),
    "memory of C's": lambda lib, one: setattr(lib.shared(), "inner", one.inner) or lib.shared(),
}


@pytest.mark.parametrize("way", COPIES)
def test_copies_of_structs_keep_what_they_copy(lib, way):
    one = lib.new("node", {"name": b"first"})
    one.inner.g = lambda x: x + 0.5
    copy = COPIES[way](lib, one)
    del one
    gc.collect()
    assert lib.call_inner(copy, 1.0) == 1.5


def test_what_is_found_in_memory_keeps_it(lib):
    inner = lib.new("node", {"inner": {"g": lambda x: x + 0.5}}).inner
    last = lib.new("node[2]", [{}, {"f": lambda p, x: x + 1}]) + 1
    gc.collect()
    assert inner.g(1.0) == 1.5
    assert lib.call(last, 1) == 2


def test_pointers_that_are_freed(path):
    lib = nc.load(path, DECLARED, free={"shared": "drop"})
    node = lib.shared()
    node.n = 3
    lib.ffi.release(node)
    assert lib.dropped() == 1
    with pytest.raises(ValueError, match="argument 1 of 'call' was already freed or closed by"):
        lib.call(node, 1)


def test_what_does_not_fit(lib):
    node = lib.new("node", {"f": lambda p, x: 5})
    for name, value, message in (
        ("f", 3, "field 'f' of 'struct node' must be a function (got int)"),
        ("items", [1.5], "item 0 of field 'items' of 'struct node': an integer is required"),
        ("inner", {"h": 1}, "field 'inner' of 'struct node' has no field 'h'"),
        ("inner", None, "field 'inner' of 'struct node' must be a mapping, a list, a tuple or"),
        ("both", None, "field 'both' of 'struct node' must be a list, a tuple or an array (got"),
        ("n", "x", "field 'n' of 'struct node': an integer is required (got str)"),
    ):
        with pytest.raises(TypeError) as caught:
            setattr(node, name, value)
        assert str(caught.value).startswith(message), caught.value
    assert lib.call(node, 1) == 5


def test_bit_fields_and_rows_of_pointers():
    declared = "typedef struct bits { unsigned low : 3; const char *names[2]; long of[]; } bits;"
    lib = nc.load(None, declared)
    made = lib.new("bits", {"low": 1, "names": (b"one",), "of": iter(range(3))})
    assert [*lib.new("int[]", iter(range(3)))] == [made.of[i] for i in range(3)] == [0, 1, 2]
    made.low = np.int64(5)
    made.names = (name for name in (b"two", b"three"))
    made.of = [7]
    gc.collect()
    assert (made.low, nc.string(made.names[0]), nc.string(made.names[1])) == (5, b"two", b"three")
    assert [made.of[i] for i in range(3)] == [7, 1, 2]
    with pytest.raises(OverflowError, match=r"^field 'low' of 'struct bits'"):
        made.low = np.int64(9)
    with pytest.raises(TypeError, match=r"^item 1 of field 'names' of 'struct bits' must be"):
        made.names = [b"four", 4]
    assert nc.string(made.names[0]) == b"two"


def test_what_is_not_given_keeps_its_value():
    declared = "struct all { const char *s; int a[3]; struct { int x, y; } in; char name[4]; "
    declared += "struct { const char *s; int n; } pair; };"
    lib = nc.load(None, declared)
    several = lib.new("struct all[2]", [{"a": [1, 2, 3], "in": (4, 5), "name": b"abc"}])
    made = several[0]
    made.a, made.name = [9], b"d"
    setattr(made, "in", {"x": 8})
    made.pair = {"s": b"kept"}
    made.pair = {"n": 1}
    gc.collect()
    several[0] = {"s": b"text"}
    assert ([*made.a], getattr(made, "in").x, getattr(made, "in").y) == ([9, 2, 3], 8, 5)
    assert (b"".join(made.name), nc.string(made.s)) == (b"d\0c\0", b"text")
    assert (nc.string(made.pair.s), made.pair.n) == (b"kept", 1)


def test_text_has_the_encoding_of_the_library():
    declared = "struct song { const char *title; char tag[4]; char *lines[2]; };"
    lib = nc.load(None, declared, encoding="latin-1")
    song = lib.new("struct song *", {"title": "né", "tag": "é", "lines": ["ä"]})
    gc.collect()
    assert [nc.string(one) for one in (song.title, song.tag, song.lines[0])] == [
        b"n\xe9",
        b"\xe9",
        b"\xe4",
    ]
    song.title, song.tag, song.lines[1] = "ö", "öö", "ü"
    gc.collect()
    assert [nc.string(one) for one in (song.title, song.tag, *song.lines)] == [
        b"\xf6",
        b"\xf6\xf6",
        b"\xe4",
        b"\xfc",
    ]
    assert lib.ffi.string(lib.new("char[]", "né")) == b"n\xe9"
    with pytest.raises(
        ValueError, match=r"^field 'title' of 'struct song' must not contain a null char"
    ):
        song.title = "a\0b"
    with pytest.raises(UnicodeEncodeError):
        song.lines[0] = "\u20ac"
    with pytest.raises(IndexError, match=r"^field 'tag' of 'struct song'"):
        song.tag = "a tag"
    assert (nc.string(song.title), nc.string(song.lines[0])) == (b"\xf6", b"\xe4")
    nc.load(None, declared, encoding="utf-8")
    with pytest.raises(TypeError, match=r"have the encodings \['iso8859-1', 'utf-8'\]"):
        song.title = "ö"


def test_items_of_arrays_of_pointers_are_assigned_and_kept(lib):
    names = lib.new("char *[3]")
    names[0], names[2] = b"one", bytearray(b"two")
    node = lib.new("node")
    node.both[1] = {"n": 7}
    functions = lib.new("int (*[1])(node *, int)")
    function = Function()
    watched = weakref.ref(function)
    functions[0] = function
    del function
    gc.collect()
    assert (nc.string(names[0]), names[1], nc.string(names[2])) == (b"one", lib.ffi.NULL, b"two")
    assert (node.both[1].n, functions[0](node, 3), len(names)) == (7, 3, 3)
    functions[0] = None
    gc.collect()
    assert watched() is None
    with pytest.raises(TypeError, match=r"^item 1 of 'char \*\[3\]' must be a 'char \*' pointer"):
        names[1] = 5
