"""`lib.types` and `lib.ffi`: types by name, how they lie in memory, and pointers with names."""

from __future__ import annotations

import copy
import gc
import pickle

import cffi
import pytest

import nativecall as nc
from nativecall._library import types as kept
from support.threads import each

SHAPES = """
typedef struct point { double x, y; } point;
typedef struct { float re, im; } pair;
typedef struct handle handle;
typedef struct other other;
struct node { int value; struct node *next; struct { short a; union { int b; float c; }; }; };
union value { int i; double d; struct point p; };
enum colour { RED, GREEN = 5, BLUE };
typedef enum { OFF = -1, ON } mode;
typedef double (*integrand)(double x, void *data);
typedef int comparison(const struct node *, const struct node *);
typedef struct { unsigned low : 3, : 2, high : 9; char tail; } bits;
typedef struct { char tag; int wide; } __attribute__((packed)) tight;
typedef long long big;
typedef double matrix[2][3];
#define LENGTH 4
handle *open_handle(int);
int close_handle(handle *);
int number_of(handle *);
int number_twice(handle **);
other *open_other(void);
double length(const point *);
double first_of(double *);
point *middle(point *, point *);
int walk(const struct node *, int (*)(const struct node *));
union value *same_value(union value *);
void *anything(void *);
colour_t unknown(int);
"""
SOURCE = """
#include <math.h>
#include <stdlib.h>
typedef struct point { double x, y; } point;
struct node { int value; struct node *next; struct { short a; union { int b; float c; }; }; };
typedef struct handle { int number; } handle;
handle *open_handle(int n) { handle *h = malloc(sizeof *h); h->number = n; return n ? h : 0; }
int close_handle(handle *h) { int n = h->number; free(h); return n; }
int number_of(handle *h) { return h ? h->number : -1; }
int number_twice(handle **h) { return 2 * (*h)->number; }
int others; void *open_other(void) { return &others; }
double length(const point *p) { return p ? hypot(p->x, p->y) : -1; }
double first_of(double *x) { return *x; }
point *middle(point *a, point *b) { a->x = (a->x + b->x) / 2; a->y = (a->y + b->y) / 2; return a; }
int walk(const struct node *n, int (*visit)(const struct node *)) {
    int sum = 0;
    for (; n; n = n->next) sum += visit(n);
    return sum;
}
void *same_value(void *v) { return v; }
void *anything(void *p) { return p; }
"""


@pytest.fixture(scope="module")
def path(builder):
    return builder.library(SOURCE, "shapes")


@pytest.fixture
def lib(path):
    return nc.load(path, SHAPES, skip=True)


# -- by name -------------------------------------------------------------------------------------


def test_complex_numbers_of_text_are_those_of_complex_h():
    """A parser that does not know the word takes it for a name: one of a double."""
    text = "struct wave { double complex z; complex float w[2]; /* complex */ };"
    lib = nc.load(None, text)
    wave = lib.new("struct wave", {"z": 1 + 2j, "w": [0, 3j]})
    assert (wave.z, wave.w[1]) == (1 + 2j, 3j)
    assert lib.new("double complex[2]", [1j, 2])[0] == 1j
    with pytest.raises(nc.SignatureError, match=r"type name 'wave' .* did you mean 'struct wave'"):
        lib.new("wave")


def test_types_have_names(lib):
    types = lib.types
    assert types.point.kind == "struct"
    assert [name for name, _ in types["point"].fields] == ["x", "y"]
    assert types["struct point"] is types.point
    assert types.pair.cname == "pair"
    assert types.value is types["union value"]
    assert (types.value.kind, types.handle.kind, types.handle.fields) == ("union", "struct", None)
    assert types.colour.elements == {0: "RED", 5: "GREEN", 6: "BLUE"}
    assert types.mode.relements == {"OFF": -1, "ON": 0}
    assert types.integrand.cname == "double(*)(double, void *)"
    assert types.comparison.cname == "int(*)(struct node *, struct node *)"
    assert types.matrix.cname == "double[2][3]"
    assert types.big.cname == "long long"
    assert types.int32_t.cname == "int32_t"
    assert {"point", "node", "value", "colour", "mode", "bits", "handle"} <= {*types}
    assert len([*types]) == len(types)
    assert {*types} == {*dir(types)}
    assert "point" in types
    assert "struct node" in types
    assert "union node" not in types
    assert "poin" not in types
    assert 3 not in types
    assert repr(types).startswith("<")


def test_recursive_and_unnamed_members(lib):
    fields = dict(lib.types.node.fields)
    assert fields["next"].type.item is lib.types.node
    assert [*fields] == ["value", "next", "a", "b", "c"]
    assert (fields["b"].offset, fields["c"].offset) == (20, 20)


def test_what_is_not_there_names_what_is_like_it(path):
    lib = nc.load(path, f"\n{SHAPES}", skip=True)  # whose ffi nobody has told more
    with pytest.raises(AttributeError, match=r"^no type 'poin' is declared; did you mean 'point'"):
        lib.types.poin
    with pytest.raises(KeyError, match="no type 'struct nod' is declared; did you mean 'node'"):
        lib.types["struct nod"]
    assert not hasattr(lib.types, "handel")
    with pytest.raises(TypeError, match=r"a name of types must be a str \(got int\)"):
        lib.types[3]
    with pytest.raises(
        nc.SignatureError, match=r"unknown type name 'pont' .*; did you mean 'point"
    ):
        lib.ffi.typeof("pont *")
    with pytest.raises(nc.SignatureError, match=r"unknown struct 'pont' .*; did you mean 'point'"):
        lib.new("struct pont *[2]")
    with pytest.raises(nc.SignatureError, match="a body cannot be declared here"):
        lib.ffi.typeof("struct point { int x; } *")


def test_the_ffi_is_cffis_and_has_the_types(lib, path):
    ffi = lib.ffi
    assert isinstance(ffi, cffi.FFI)
    assert ffi.typeof("point") is lib.types.point
    assert ffi.typeof("point *[LENGTH]").length == 4
    assert ffi.sizeof("struct node") == 24
    assert ffi.offsetof("struct node", "a") == 16
    assert ffi.new("point *", {"x": 3, "y": 4}).y == 4
    assert ffi.getctype("point", "*") == "struct point *"
    ffi.cdef("typedef struct { int more; } added_later;")
    assert ffi.new("added_later *").more == 0
    assert ffi.new("point *").x == 0
    assert nc.load(path, SHAPES, skip=True).ffi is ffi
    assert nc.load(path, SHAPES + ";", skip=True).ffi is not ffi
    assert nc.load("m").ffi.sizeof("int[3]") == 12


def test_declarations_that_are_read_strictly_have_types_too(path):
    declared = "struct p { int a : 3; struct p *next; }; typedef struct p p; int close_handle(p *);"
    lib = nc.load(path, declared)
    assert lib.ffi.sizeof("p") == 16
    assert dict(lib.types.p.fields)["next"].type.item is lib.types.p
    text = "typedef struct { double x, y; } point; double length(const point *);"
    lib = nc.load(path, text)
    assert lib.length(lib.new("point", (3, 4))) == 5
    assert lib.length.__doc__ == "double length(const point *)"


def test_types_are_kept_up_to_a_bound(path, monkeypatch):
    monkeypatch.setattr(kept, "_owners", kept.Fifo())
    kept._owners.limit = 8
    for n in range(20):
        lib = nc.load("m", f"struct s{n} {{ int a[{n + 1}]; }}; double cos(double);")
        assert lib.ffi.sizeof(f"struct s{n}") == 4 * (n + 1)
        assert len(kept._owners) <= 8
    for n in range(1100):
        assert lib.ffi.sizeof(f"int[{n}]") == 4 * n
        assert lib.function("cos", f"double (double{' ' * n})")(0) == 1
    assert len(lib._owner._types) <= 1024
    assert len(lib._owner._signatures) <= 1024
    found = kept._owners
    first = next(iter(found.values())).serial
    found.clear()
    gc.collect()
    assert first not in kept.owners or first == lib._owner.serial


# -- in later declarations -----------------------------------------------------------------------


def test_signatures_with_the_types(lib):
    assert lib.function("length", "double (const point *p)")(lib.new("point", (3, 4))) == 5
    assert lib.function("length", "double (const struct point *)").signatures == ("d:&T{dd}",)
    found = lib.function("anything", "struct node *(struct node *)")
    node = lib.new("struct node", {"value": 3})
    assert found(node).value == 3
    assert (
        nc.wrap(lib.address("length"), "double (point *)", types=lib)(lib.new("point", (3, 4))) == 5
    )
    both = nc.wrap(
        {"double (point *)": lib.address("length"), "double (double *)": lib.address("first_of")},
        types=lib.types,
    )
    assert both(lib.new("point", (3, 4))) == 5
    assert both(lib.ffi.new("double *", 7)) == 7
    with pytest.raises(nc.SignatureError, match=r"unknown type name 'pint' .* did you mean 'point"):
        lib.function("length", "double (pint *)")
    with pytest.raises(TypeError, match="'types' must be a library or its types"):
        nc.wrap(lib.address("length"), "double (point *)", types="lib")


def test_types_of_functions_are_signatures(lib):
    square = nc.callback(lib.types.integrand, lambda x, data: x * x)
    assert square.signatures == ("d:dP",)
    assert square(3, None) == 9
    assert nc.wrap(square.address(), lib.types.integrand)(3, None) == 9
    seen = []
    visit = nc.callback(lib.types.comparison, lambda a, b: seen.append((a, b)) or 1, types=lib)
    node = lib.new("struct node", {"value": 3})
    assert visit(node, None) == 1
    assert lib.ffi.typeof(seen[0][0]).item is lib.types.node
    assert seen[0][0].value == 3
    with pytest.raises(TypeError, match="must describe a function"):
        nc.callback(lib.types.point, lambda: None)


def test_names_of_types_are_signatures(lib):
    named = nc.callback("comparison", lambda a, b: a.value, types=lib)
    assert named(lib.new("struct node", {"value": 3}), None) == 3
    assert repr(named).endswith("int <lambda>(struct node *, struct node *)>")
    assert nc.callback("integrand", lambda x, data: x, types=lib).signatures == ("d:dP",)
    with pytest.raises(nc.SignatureError, match="not a function"):
        nc.callback("point", lambda: None, types=lib)
    with pytest.raises(nc.SignatureError, match="did you mean 'integrand'"):
        nc.callback("integrant", lambda: None, types=lib)


def test_callbacks_get_pointers_of_the_library(lib):
    nodes = lib.new("struct node[3]", [{"value": 1}, {"value": 2}, {"value": 4}])
    nodes[0].next, nodes[1].next = nodes + 1, nodes + 2
    assert lib.walk(nodes, lambda node: node.value) == 7
    visit = nc.callback("int (const struct node *)", lambda node: 10 * node.value, types=lib)
    assert lib.walk(nodes, visit) == 70


def test_annotations(lib):
    @nc.callback(types=lib)
    def total(p: lib.types.point, q: "point *", n: int) -> double:  # noqa: F722, F821
        return p.x + q.y + n

    assert total.signatures == ("d:T{dd}&T{dd}i",)
    assert total((1, 2), lib.new("point", (3, 4)), 5) == 10
    made = nc.callback(total.function, types=lib)
    assert made.signatures == total.signatures
    for function, message in (
        (lambda x: x, "parameter 'x' of .* has no annotation"),
        (lambda *x: x, "parameter 'x' of .* cannot be a parameter of a C function"),
    ):
        with pytest.raises(TypeError, match=message):
            nc.callback(function, types=lib)

    def other(x): ...

    other.__annotations__ = {"x": 3, "return": "int"}

    with pytest.raises(TypeError, match=r"parameter 'x' of .* must be annotated with a C type"):
        nc.callback(other, types=lib)
    with pytest.raises(TypeError, match="'signature' is missing"):
        nc.callback(total.function)


def test_types_of_another_library(lib, path):
    declared = "typedef struct { point at; handle *by; } place; double length(const point *);"
    more = nc.load(path, declared, types=lib)
    assert dict(more.types.place.fields)["at"].type is lib.types.point
    assert more.types.point is lib.types.point
    assert more.length(lib.new("point", (3, 4))) == 5
    assert more.ffi is not lib.ffi
    assert more.new("place", {"at": (1, 2)}).at.y == 2
    handle = lib.open_handle(3)
    assert more.new("place", {"by": handle}).by == handle
    assert lib.close_handle(handle) == 3
    assert "place" not in lib.types
    again = pickle.loads(pickle.dumps(more))
    assert again.length(again.new("point", (3, 4))) == 5
    with pytest.raises(nc.SignatureError, match="unknown type name 'pont'"):
        nc.load(path, "double length(const pont *);", types=lib)
    with pytest.raises(nc.SymbolError, match="no symbol 'lengths'"):
        nc.load(path, "double lengths(const point *);", types=lib)
    with pytest.raises(TypeError, match=r"'types' must be a library or its types \(got str\)"):
        nc.load(path, types="lib")
    own = nc.load(path, "struct point { int z; }; int first_of(struct point *);", types=lib)
    assert own.ffi.sizeof("struct point") == 4
    assert lib.ffi.sizeof("struct point") == 16
    bare = nc.load(path, types=lib.types)
    assert bare.function("length", "double (point *)")(lib.new("point", (3, 4))) == 5


def test_types_are_the_same_in_all_threads(path):
    def ask(lib):
        return [lib.types[f"s{i}"] for i in range(40)] + [lib.ffi, lib.types.point]

    for n in range(5):
        more = "".join(
            f"struct s{i} {{ struct s{i + 1} *next; int a[{n + 1}]; }};" for i in range(40)
        )
        libs = [nc.load(path, f"{SHAPES} {more} struct s40 {{ struct s0 *first; }};", skip=True)]
        libs += [copy.copy(libs[0])] * 3
        found = each(ask, *libs)
        for one in found[1:]:
            assert all([a is b for a, b in zip(found[0], one, strict=True)])
        assert dict(found[0][3].fields)["next"].type.item is found[0][4]


def test_types_are_not_pickled(lib):
    assert copy.copy(lib.types).point is copy.deepcopy(lib.types).point
    with pytest.raises(TypeError, match=r"cannot pickle <\d+ types> of a library"):
        pickle.dumps(lib.types)


# -- pointers have names -------------------------------------------------------------------------


def test_pointers_are_those_of_the_library(lib):
    handle = lib.open_handle(3)
    assert lib.ffi.typeof(handle) is lib.ffi.typeof("handle *")
    assert lib.number_of(handle) == 3
    assert lib.open_handle(0) is None
    cell = lib.new("handle *[1]", [handle])
    assert lib.number_twice(cell) == 6
    assert lib.number_of(cell[0]) == 3
    assert lib.number_of(lib.ffi.cast("void *", handle)) == 3
    assert lib.number_of(None) == -1
    a, b = lib.new("point[2]", [(1, 2), (3, 6)]), lib.new("point", (5, 6))
    middle = lib.middle(a, b)
    assert lib.ffi.typeof(middle) is lib.ffi.typeof("point *")
    assert (middle.x, a[0].y, middle == a) == (3, 4, True)
    value = lib.new("union value", {"d": 2.5})
    assert lib.same_value(value).d == 2.5
    assert lib.close_handle(handle) == 3


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("other", r"a 'struct other \*'"),
        ("point", r"a 'struct point \*'"),
        ("double", r"a 'double \*'"),
        ("handle *", r"a 'struct handle \* \*'"),
    ],
)
def test_another_pointer_is_refused_and_both_are_named(lib, given, message):
    wrong = lib.open_other() if given == "other" else lib.new(f"{given}[1]")
    expected = rf"^argument 1 of 'number_of' must be a 'handle \*' \(got {message}\)$"
    for _ in range(2):
        with pytest.raises(TypeError, match=expected):
            lib.number_of(wrong)


def test_names_count_behind_pointers_and_in_overloads(lib):
    with pytest.raises(TypeError, match=r"must be a 'handle \*\*' \(got a 'struct other \* \*'"):
        lib.number_twice(lib.new("other **"))
    with pytest.raises(TypeError, match=r"must be a 'const point \*' \(got a 'pair \*'\)"):
        lib.length(lib.new("pair"))
    same = cffi.FFI()
    same.cdef("struct pair2 { double x, y; }; struct point { double x, y; }; struct handle;")
    assert lib.length(same.new("struct point *", (3, 4))) == 5
    with pytest.raises(TypeError, match=r"must be a 'const point \*' \(got a 'struct pair2 \*'\)"):
        lib.length(same.new("struct pair2 *", (3, 4)))
    handle = lib.open_handle(4)
    assert lib.number_of(same.cast("struct handle *", handle)) == 4
    assert lib.close_handle(handle) == 4
    both = nc.wrap(
        {"int (handle *)": lib.address("number_of"), "double (point *)": lib.address("length")},
        types=lib,
    )
    assert both(lib.new("point", (3, 4))) == 5


def test_buffers_are_no_handles(lib):
    import ctypes

    for wrong in (
        bytearray(8),
        b"12345678",
        ctypes.create_string_buffer(8),
        ctypes.byref(ctypes.c_int()),
    ):
        with pytest.raises(TypeError, match=r"^argument 1 of 'number_of' must be a 'handle \*'"):
            lib.number_of(wrong)
    handle = lib.open_handle(5)
    assert lib.number_of(ctypes.c_void_p(int(lib.ffi.cast("intptr_t", handle)))) == 5
    assert lib.close_handle(handle) == 5
    memory = bytearray(16)
    assert lib.same_value(memory) is not None
    assert lib.length(memory * 0 or None) == -1


def test_keys_and_consumers_see_no_names(lib):
    assert lib.number_of.signatures == ("i:P",)
    assert lib.length.signatures == ("d:&T{dd}",)
    assert nc.wrap(lib.length.builtin) is lib.length
    assert lib.number_of["i:P"](None) == -1
    plain = nc.wrap(lib.address("number_of"), "i:P")
    assert plain.entries[0].trampoline == lib.number_of.entries[0].trampoline
    handle = lib.open_handle(6)
    assert plain(handle) == 6
    with pytest.raises(TypeError, match="must be a 'handle "):
        lib.number_of(lib.open_other())
    assert lib.close_handle(handle) == 6
    again = pickle.loads(pickle.dumps(lib.number_of))
    assert again.__doc__ == lib.number_of.__doc__ == "int number_of(handle *)"
    with pytest.raises(TypeError, match="must be a 'handle "):
        again(lib.open_other())


def test_bit_fields_that_no_integer_holds_are_told():
    text = "typedef struct {unsigned a : 4, b : 20, c : 3;} __attribute__((packed)) %s;"
    for options in ({"skip": True}, {}):
        lib = nc.load(None, text % "crossing", **options)
        assert lib.ffi.sizeof("crossing") == 4
        assert [name for name, _ in lib.types.crossing.fields if name] == ["a", "b", "c"]
        assert lib.skipped == {}
        lib = nc.load(None, text.replace(", c : 3", "") % "short_one", **options)
        assert lib.ffi.sizeof("short_one") == 3
        assert "20 bits" in lib.skipped["short_one.b"]


def test_cffi_has_the_addresses_of_a_library(builder):
    declared = "struct s { int a; }; extern int x; extern struct s y; int f(struct s x);"
    code = "struct s { int a; }; int x = 4; struct s y = {5}; int f(struct s x) { return x.a; }"
    lib = nc.load(builder.library(code, "addresses"), declared + "\n#define THREE 3\n")
    ffi = lib.ffi
    x, y = ffi.addressof(lib, "x"), ffi.addressof(lib, "y")
    x[0] += 1
    assert (lib.x, y.a, ffi.addressof(y, "a")[0]) == (5, 5, 5)
    assert ffi.addressof(lib, "f")(y[0]) == 5
    with pytest.raises(nc.SymbolError, match=r"'THREE' of .* is a constant, which has no address"):
        ffi.addressof(lib, "THREE")
    with pytest.raises(nc.SymbolError, match="'z'"):
        ffi.addressof(lib, "z")


def test_callbacks_that_python_cannot_implement_are_told():
    text = """
        typedef float four __attribute__((vector_size(16)));
        struct hooks { int (*plain)(int); void (*on_four)(four); };
        int abs(int); void qsort(void (*called)(four), void (*)(void *), void (*)(four));
    """
    lib = nc.load(None, text, only=["abs"])
    assert lib.skipped == {}
    assert lib.abs(-1) == 1
    for options in ({}, {"skip": False}):
        lib = nc.load(None, text, **options)
        assert lib.new("struct hooks *", {"plain": abs}).plain(-2) == 2
        assert lib.skipped == dict.fromkeys(
            ["qsort(called)", "qsort(3)", "struct hooks.on_four"],
            "Python cannot implement this function: a vector type cannot be passed",
        )
