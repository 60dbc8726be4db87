"""`lib.new` and `lib.asarray`: memory of a library's types, what it keeps, and how it lies."""

from __future__ import annotations

import array
import gc
import re
import shutil
import sys
import weakref

import cffi
import pytest

import nativecall as nc

DECLARED = """
typedef struct point { double x, y; } point;
typedef struct { point from, to; const char *name; double weights[3]; } edge;
typedef struct { double (*function)(double x, void *data); void *data; } integrand;
typedef struct { unsigned low : 3, : 2, high : 9; int sign : 4; char tail; } bits;
typedef union { int i; double d; point p; } value;
typedef struct { int kind; union { int i; double d; }; } variant;
typedef struct { int n; double items[]; } open;
typedef struct { int n; char *names[]; } named;
typedef struct __attribute__((aligned(64))) { double lanes[8]; } lanes;
typedef struct node { int value; struct node *next; } node;
typedef struct hidden hidden;
typedef int (*visitor)(const node *);
enum colour { RED, GREEN = 5 };
typedef struct { enum colour colour; _Bool on; char code; wchar_t wide; } look;
double integrate(const integrand *f, int n);
double total(const point *points, int n);
double along(const edge *e);
int values(const node *n);
int texts(const char **texts);
"""
SOURCE = """
typedef struct point { double x, y; } point;
typedef struct { point from, to; const char *name; double weights[3]; } edge;
typedef struct { double (*function)(double x, void *data); void *data; } integrand;
typedef struct node { int value; struct node *next; } node;
double integrate(const integrand *f, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += f->function((i + 0.5) / n, f->data) / n;
    return sum;
}
double total(const point *points, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += points[i].x * points[i].y;
    return sum;
}
double along(const edge *e) { return e->to.x - e->from.x + e->weights[2] + e->name[0]; }
int values(const node *n) { int sum = 0; for (; n; n = n->next) sum += n->value; return sum; }
int texts(const char **t) { int n = 0; for (; *t; t++) n = 10 * n + **t - '0'; return n; }
"""


@pytest.fixture(scope="module")
def path(builder):
    return builder.library(SOURCE, "memory")


@pytest.fixture
def lib(path):
    return nc.load(path, DECLARED, skip=True)


# -- what can be made ----------------------------------------------------------------------------


def test_members_are_the_first_of_cffi_in_the_process(python):
    out = python(
        """
import nativecall as nc
lib = nc.load(None, "typedef struct { double (*f)(double); } holder;")
made = lib.new("holder", {"f": lambda x: x + 1})
print(made.f(1.0))
"""
    )
    assert out == "2.0\n"


def test_numbers_and_arrays(lib):
    assert [*lib.new("double[3]")] == [0, 0, 0]
    assert [*lib.new("int[]", [1, 2])] == [1, 2]
    assert len(lib.new("int[]", 5)) == 5
    assert lib.new("double")[0] == 0
    assert lib.new("double *", 2.5)[0] == 2.5
    assert lib.new("enum colour", lib.GREEN)[0] == 5
    assert lib.ffi.string(lib.new("char[]", b"text")) == b"text"
    assert lib.new("int[2][3]", [[1, 2], [3, 4, 5]])[1][2] == 5
    assert lib.new(lib.types.point).x == 0
    assert lib.new("node *[1]")[0] == lib.ffi.NULL
    assert isinstance(lib.new("point"), cffi.FFI.CData)


def test_structs(lib):
    for made in (lib.new("point", {"x": 1, "y": 2}), lib.new("point *", (1, 2))):
        assert lib.ffi.typeof(made) is lib.ffi.typeof("point *")
        assert (made.x, made[0].y) == (1, 2)
    edge = lib.new("edge", {"from": (1, 2), "to": {"x": 5}, "name": b"\1", "weights": [0, 0, 4]})
    assert (getattr(edge, "from").y, edge.to.x, edge.to.y, edge.weights[2]) == (2, 5, 0, 4)
    assert lib.along(edge) == 9
    parted, copied = lib.new("edge", {"to": edge.to}), lib.new("edge", edge[0])
    assert (parted.to.x, copied.weights[2]) == (5, 4)
    assert lib.new("point", lib.asarray(made)[()].item()).y == 2
    assert lib.new("look", {"colour": lib.GREEN, "on": True, "code": b"c", "wide": "é"}).wide == "é"


def test_bit_fields_unions_and_open_arrays(lib):
    bits = lib.new("bits", {"low": 7, "high": 300, "sign": -8, "tail": b"t"})
    assert (bits.low, bits.high, bits.sign, bits.tail) == (7, 300, -8, b"t")
    bits.high = 1
    assert (bits.low, bits.high, bits.sign) == (7, 1, -8)
    with pytest.raises(OverflowError, match=r"field 'low' of 'bits': .*8"):
        lib.new("bits", {"low": 8})
    assert lib.new("value", {"d": 2.5}).d == 2.5
    assert lib.new("value", [7]).i == 7
    with pytest.raises(TypeError, match=r"'value' has 1 fields \('i'\), got 2 values"):
        lib.new("value", [1, 2])
    with pytest.raises(TypeError, match=r"field 'colour' of 'look'"):
        lib.new("look", {"colour": "GREEN"})
    assert lib.new("variant", {"kind": 1, "d": 2.5}).d == 2.5
    assert lib.new("variant", (1, 3)).i == 3
    made = lib.new("open", {"n": 3, "items": [1, 2, 3]})
    assert [made.items[i] for i in range(3)] == [1, 2, 3]
    assert lib.ffi.sizeof(made[0]) == 32
    for items in (4, range(4), iter([1, 2, 3, 4])):
        assert lib.ffi.sizeof(lib.new("open", {"items": items})[0]) == 40
    for init in ({"names": 2}, (0, 2), [0, 2]):
        named = lib.new("named", init)
        assert (lib.ffi.sizeof(named[0]), len(named[0].names)) == (24, 2)


def test_memory_is_aligned(lib):
    for _ in range(8):
        lanes = lib.new("lanes[3]")
        assert int(lib.ffi.cast("uintptr_t", lanes)) % 64 == 0
        lanes[2].lanes[7] = 3
        assert lanes[2].lanes[7] == 3
    assert lib.ffi.sizeof("lanes") == lib.ffi.alignof("lanes") == 64


def test_pointers_to_what_is_made_with_them(lib):
    chain = lib.new("node", {"value": 1, "next": {"value": 2, "next": (4, None)}})
    gc.collect()
    assert lib.values(chain) == 7
    many = lib.new("node[2]", [{"value": 1}, {"value": 2, "next": [{"value": 4}, {"value": 8}]}])
    assert (lib.values(many + 1), many[1].next[1].value) == (6, 8)
    texts = lib.new("char *[]", [b"1", b"23", b"4", None])
    gc.collect()
    assert lib.texts(texts) == 124
    assert lib.ffi.string(texts[1]) == b"23"
    first = lib.new("node", {"value": 5})
    kept = lib.new("node *[2]", [first, None])
    address = weakref.ref(first)
    del first
    gc.collect()
    assert (kept[0].value, kept[1], address() is None) == (5, lib.ffi.NULL, False)
    del kept
    gc.collect()
    assert address() is None


def test_functions_live_as_long_as_the_memory(lib):
    seen = []

    def square(x, data):
        seen.append(data)
        return x * x

    made = lib.new("integrand", {"function": square})
    alive = weakref.ref(square)
    del square
    gc.collect()
    assert lib.integrate(made, 1000) == pytest.approx(1 / 3)
    assert seen[0] is None
    inner = made[0]
    del made
    gc.collect()
    assert lib.integrate(lib.ffi.addressof(inner), 10) == pytest.approx(1 / 3, 1e-2)
    del inner
    gc.collect()
    assert alive() is None


def test_functions_of_all_kinds(lib, path):
    import ctypes

    cube = nc.callback("d:dP", lambda x, data: x**3)
    box = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_void_p)(lambda x, data: x)
    for function, expected in (
        (cube, 1 / 4),
        (cube.builtin, 1 / 4),
        (cube.to_cffi(), 1 / 4),
        (box, 1 / 2),
        (lambda x, data: 1, 1),
    ):
        made = lib.new("integrand", {"function": function})
        gc.collect()
        assert lib.integrate(made, 1000) == pytest.approx(expected, 1e-5)
    assert lib.new("integrand").function == lib.ffi.NULL
    several = lib.new("integrand[2]", [(lambda x, data: 1,), (lambda x, data: 2,)])
    assert [lib.integrate(several + i, 3) for i in range(2)] == pytest.approx([1, 2])
    with pytest.raises(ZeroDivisionError):
        lib.integrate(lib.new("integrand", {"function": lambda x, data: 1 / 0}), 1)
    table = lib.new("visitor[2]", [lambda node: node.value, None])
    assert table[0](lib.new("node", {"value": 3})) == 3


def test_data_for_functions(lib):
    handle = lib.ffi.new_handle({"factor": 3})
    made = lib.new(
        "integrand",
        {"function": lambda x, data: lib.ffi.from_handle(data)["factor"], "data": handle},
    )
    assert lib.integrate(made, 4) == pytest.approx(3)
    numbers = array.array("d", [5.0])
    made = lib.new(
        "integrand",
        {"function": lambda x, data: lib.ffi.cast("double *", data)[0], "data": numbers},
    )
    with pytest.raises(BufferError):
        numbers.append(1.0)
    numbers[0] = 6
    assert lib.integrate(made, 4) == pytest.approx(6)
    del made
    gc.collect()
    numbers.append(1.0)


def test_memory_in_a_cycle_is_collected(lib):
    class Square:
        def value(self, x, data):
            return self.made.params and x

    one = Square()
    # The collector does not look into cffi's pointers to structs, but into these.
    one.made = lib.new("integrand[1]", [{"function": one.value}])
    alive = weakref.ref(one)
    del one
    gc.collect()
    assert alive() is None


def test_structs_in_arrays_and_arrays_in_structs_lead_on(path):
    lib = nc.load(
        path,
        """
        typedef struct node { int value; struct node *next; } node;
        typedef struct { int : 3; char flag; node first; node *rest[2]; const char *names[2]; } all;
        int values(const node *n);
        """,
    )
    for _ in range(2):  # the types are known the second time
        made = lib.new(
            "all[2]", [{}, (b"f", {"value": 1, "next": (2, None)}, [None, {"value": 5}])]
        )
        made[0] = lib.new("all", {"names": [b"one", None], "first": made[1].first})[0]
        gc.collect()
        assert lib.values(lib.ffi.addressof(made[1].first)) == 3
        assert (made[1].flag, lib.values(made[1].rest[1]), bool(made[1].rest[0])) == (
            b"f",
            5,
            False,
        )
        assert lib.values(lib.ffi.addressof(made[0].first)) == 3
    with pytest.raises(IndexError, match=r"^field 'rest' of item 0 of 'all\[\]' has 2 items"):
        lib.new("all[]", [{"rest": [None] * 3}])
    with pytest.raises(TypeError, match=r"^item 1 of field 'names' of 'all' must be"):
        lib.new("all", {"names": [b"", 3]})


def test_arrays_of_pointers_of_all_kinds(lib):
    first = lib.new("node", {"value": 5})
    many = lib.new("node *[]", [first, None, {"value": 6}, [(7,), (8,)], *[first] * 1000])
    del first
    gc.collect()
    assert [many[0].value, many[2].value, many[3][1].value, many[1003].value] == [5, 6, 8, 5]
    assert (len(many), many[1]) == (1004, lib.ffi.NULL)
    with pytest.raises(TypeError, match=r"^field 'value' of field 'next' of item 1 of 'struct"):
        lib.new("node *[]", [{"value": 1}, {"next": {"value": "a"}}])
    with pytest.raises(
        TypeError, match=r"^item 1 of 'struct node[^:]*': .*not cdata 'struct point"
    ):
        lib.new("node *[2]", [many[0], lib.new("point")])


def test_memory_of_a_wide_alignment_keeps_what_it_leads_to():
    lib = nc.load(
        None,
        "typedef struct __attribute__((aligned(64))) { const char *name; double *numbers; } wide;",
    )
    made = lib.new("wide[2]", [(b"one", array.array("d", [2.5])), {"name": b"two"}])
    gc.collect()
    assert int(lib.ffi.cast("uintptr_t", made)) % 64 == 0
    assert (nc.string(made[0].name), made[0].numbers[0], nc.string(made[1].name)) == (
        b"one",
        2.5,
        b"two",
    )


def test_memory_of_a_record_keeps_what_that_kept(builder):
    declared = "typedef struct { double *numbers; int n; } row; row same(row r);"
    source = "typedef struct { double *numbers; int n; } row; row same(row r) { return r; }"
    lib = nc.load(builder.library(source, "rows"), declared)
    record = lib.same((None, 2))
    record.numbers = array.array("d", [2.5, 3.5])
    made = lib.new("row", record)
    del record
    gc.collect()
    assert [made.numbers[0], made.numbers[1], made.n] == [2.5, 3.5, 2]


def test_a_conversion_that_raises(lib):
    class Never:
        def __float__(self):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lib.new("point", {"x": Never()})
    with pytest.raises(KeyboardInterrupt):
        lib.new("edge", {"name": b"", "weights": [Never()]})


def test_the_ffi_takes_types_as_any_other(lib):
    ffi = lib.ffi
    for _ in range(2):
        assert ffi.sizeof("point") == ffi.sizeof(cdecl="point") == ffi.sizeof(lib.types.point) == 16
        assert ffi.alignof("lanes") == 64
        assert ffi.new("int *", 3)[0] == ffi.new(cdecl="int *", init=3)[0] == 3
        assert int(ffi.cast("char", 300)) == 44
        assert ffi.from_buffer("int[]", bytearray(8))[1] == 0
        assert len(ffi.from_buffer(b"four")) == 4
        with pytest.raises(BufferError):
            ffi.from_buffer("char[]", b"four", require_writable=True)
        with pytest.raises(nc.SignatureError, match="pont"):
            ffi.sizeof("pont")
        with pytest.raises(TypeError):
            ffi.sizeof()
    assert "Return the size" in ffi.sizeof.__doc__
    assert "as cffi's `ffi.new` does" in lib.new.__doc__


# -- what does not fit ---------------------------------------------------------------------------


WRONG = nc.callback("d:ddddd", lambda *values: 0.0)


@pytest.mark.parametrize(
    ("ctype", "init", "error", "message"),
    [
        ("point", {"z": 1}, TypeError, "^'struct point' has no field 'z'; its fields are 'x', 'y'"),
        ("edge", {"wieghts": 1}, TypeError, "has no field 'wieghts'; did you mean 'weights'"),
        ("point", (1, 2, 3), TypeError, r"has 2 fields \('x', 'y'\), got 3 values"),
        ("point", 5, TypeError, r"must be a mapping, a list, a tuple or such a struct \(got int\)"),
        ("point", {"x": "a"}, TypeError, "^field 'x' of 'struct point': "),
        ("edge", {"to": {"y": "a"}}, TypeError, "^field 'y' of field 'to' of 'edge': "),
        ("edge", {"weights": [1] * 4}, IndexError, r"^field 'weights' of 'edge' has 3 items"),
        ("edge", {"weights": 3}, TypeError, "must be a list, a tuple or an array"),
        ("edge", {"weights": [1, "a"]}, TypeError, "^item 1 of field 'weights' of 'edge': "),
        ("int[2]", [1, 2, 3], IndexError, r"has 2 items \(got 3\)"),
        ("int[2]", [1, 2**40], OverflowError, r"^item 1 of 'int\[2\]': "),
        ("int", 2**40, OverflowError, "^'int': "),
        ("int", "5", TypeError, r"^'int': an integer is required \(got str\)$"),
        ("char *", b"abc", TypeError, r"^'char': a character must be bytes of length 1 \(got 3\)"),
        ("int[]", -1, ValueError, r"^'int\[\]' must have a length of 0 or more \(got -1\)$"),
        ("integrand", {"function": 5}, TypeError, "^field 'function' of 'integrand' must be"),
        ("integrand", {"function": WRONG}, TypeError, r"a function .double \(\*\)\(double, void"),
        ("node", {"next": "text"}, TypeError, "^field 'next' of 'struct node' must be"),
        ("char *[1]", ["text"], TypeError, r"^item 0 of 'char \*\[1\]' is a str, which is not a"),
        ("hidden", None, TypeError, r"'struct hidden' is incomplete: it is not"),
        ("hidden[2]", None, nc.SignatureError, "'struct hidden' is incomplete: it is not declared"),
        ("hidden[]", 2, nc.SignatureError, "'struct hidden' is incomplete: it is not declared"),
        ("void", None, TypeError, "'void' has no size"),
        ("void *", None, TypeError, "'void' has no size"),
        ("char[]", None, TypeError, "needs a length or items"),
        ("int[-1]", None, nc.SignatureError, "an array cannot have -1 elements"),
        ("pont", None, nc.SignatureError, "unknown type name 'pont'.*did you mean 'point'"),
        (5, None, TypeError, r"'ctype' must be a C type or a cffi type \(got int\)"),
    ],
)  # fmt: skip
def test_what_does_not_fit_names_its_place(lib, ctype, init, error, message):
    with pytest.raises(error, match=message):
        lib.new(ctype, init)


def test_pointers_of_other_names_are_no_members(lib):
    with pytest.raises(TypeError, match=r"^field .next. of .struct node.: "):
        lib.new("node", {"next": lib.new("point")})
    other = cffi.FFI()
    other.cdef("typedef struct node { int value; struct node *next; } node;")
    inner = other.new("node *", {"value": 5})
    assert lib.values(lib.new("node", {"value": 1, "next": inner})) == 6


def test_types_beyond_two_gigabytes(lib):
    assert lib.ffi.sizeof("char[3000000000]") == 3_000_000_000
    huge = nc.load(None, "typedef struct { char room[3000000000]; int last; } huge;", skip=True)
    assert huge.ffi.offsetof("huge", "last") == 3_000_000_000
    assert huge.ffi.sizeof("huge *") == huge.ffi.sizeof("void *")


MOST = sys.maxsize


@pytest.mark.parametrize(
    ("ctype", "init", "error", "message"),
    [
        (f"char[{MOST}]", None, MemoryError, "there is not enough memory for 'char[%d]'"),
        ("char[]", MOST, MemoryError, "there is not enough memory for 'char[]'"),
        ("struct huge", None, MemoryError, "there is not enough memory for 'struct huge'"),
        ("node[]", MOST // 16, MemoryError, "there is not enough memory for 'struct node[]'"),
        (f"char[{MOST + 1}]", None, nc.SignatureError, "integer %d is too large"),
        (f"int[{MOST}]", None, nc.SignatureError, "'int [%d]' has %d bytes, more than"),
        ("int[]", MOST, OverflowError, "'int[]' of %d items has %d bytes, more than fit in memory"),
    ],
)
@pytest.mark.allocator
def test_sizes_that_memory_does_not_have_are_told(ctype, init, error, message):
    lib = nc.load(
        None,
        "typedef struct node { int value; struct node *next; } node;"
        f"struct huge {{ char room[{MOST}]; }};",
    )
    with pytest.raises(error) as info:
        lib.new(ctype, init)
    assert re.sub("[0-9]{10,}", "%d", str(info.value)).startswith(message.replace(str(MOST), "%d"))


# -- NumPy ---------------------------------------------------------------------------------------


def test_arrays_are_views(lib):
    np = pytest.importorskip("numpy")
    memory = lib.new("double[4]", [1, 2, 3, 4])
    view = lib.asarray(memory)
    view[1] = 20
    assert (memory[1], view.dtype, view.shape) == (20, np.float64, (4,))
    assert lib.asarray(lib.new("int[2][3]", [[1, 2, 3], [4, 5, 6]])).tolist() == [
        [1, 2, 3],
        [4, 5, 6],
    ]
    assert lib.asarray(memory, (2, 2))[1].tolist() == [3, 4]
    assert lib.asarray(memory + 1, 2).tolist() == [20, 3]
    points = lib.asarray(lib.new("point[2]", [(1, 2), (3, 4)]))
    gc.collect()
    assert points["y"].tolist() == [2, 4]
    assert points.dtype == np.dtype([("x", "f8"), ("y", "f8")])
    assert lib.total(points, 2) == 14
    one = lib.new("edge", {"weights": [1, 2, 3]})
    assert lib.asarray(one).shape == ()
    assert lib.asarray(one)["weights"].tolist() == [1, 2, 3]
    lib.asarray(one)["to"]["x"] = 7
    assert one.to.x == 7
    values = lib.asarray(lib.new("value[2]", [{"d": 2.5}, {"i": 3}]))
    assert (values["d"][0], values["i"][1], values.dtype.itemsize) == (2.5, 3, 16)
    assert "low" not in lib.asarray(lib.new("bits")).dtype.names
    assert lib.asarray(lib.new("node *[2]")).dtype == np.uintp
    assert lib.asarray(lib.new("int[0]")).shape == (0,)
    assert lib.asarray(lib.new("look", {"wide": "é"}))["wide"] == ord("é")


def test_what_is_no_array(lib):
    pytest.importorskip("numpy")
    for value, error, message in (
        (5, TypeError, r"must be a cffi pointer or array \(got int\)"),
        (lib.new("point")[0], TypeError, "ffi.addressof"),
        (lib.ffi.NULL, (TypeError, ValueError), "NULL|void"),
        (lib.ffi.cast("double *", 0), ValueError, "that is NULL"),
        (lib.ffi.cast("hidden *", 8), TypeError, "not declared in full"),
    ):
        with pytest.raises(error, match=message):
            lib.asarray(value)
    with pytest.raises(ValueError, match=r"'shape' is \(5,\), but 'double\[4\]' has 4 items"):
        lib.asarray(lib.new("double[4]"), 5)
    with pytest.raises(ValueError, match="'shape' must contain lengths"):
        lib.asarray(lib.new("double[4]"), -1)


def test_buffers_become_arrays(lib):
    np = pytest.importorskip("numpy")
    assert [*lib.new("double[3]", np.arange(3.0))] == [0, 1, 2]
    assert [*lib.new("double[]", array.array("d", [1, 2]))] == [1, 2]
    made = lib.new("point[]", np.array([(1, 2), (3, 4)], [("x", "f8"), ("y", "f8")]))
    assert (made[1].x, len(made)) == (3, 2)
    assert lib.new("int[2][2]", np.array([[1, 2], [3, 4]], np.int32))[1][0] == 3
    ragged = lib.new("int[][2]", np.arange(1, 4, dtype=np.int32))
    assert (len(ragged), [*ragged[1]]) == (2, [3, 0])
    with pytest.raises(TypeError):
        lib.new("double[3]", np.arange(3))
    with pytest.raises(IndexError, match=r"has 2 items \(got 3\)"):
        lib.new("double[2]", np.arange(3.0))
    rows = np.zeros(2, [("x", "f8"), ("y", "f8")])
    seen = lib.ffi.from_buffer("point[]", rows)
    seen[1].y = 5
    assert rows["y"][1] == 5
    coefficients = np.array([1.0, 2.0, 3.0])
    cell = lib.new("double *[1]", [coefficients])
    coefficients[1] = 7
    assert cell[0][1] == 7


# -- constants -----------------------------------------------------------------------------------


def test_constants_are_not_written(path):
    lib = nc.load(path, "#define LIMIT 3\nenum { TWO = 2 };", skip=True)
    for name in ("LIMIT", "TWO"):
        with pytest.raises(AttributeError, match=f"'{name}' is a constant of library"):
            setattr(lib, name, 4)
    with pytest.raises(AttributeError, match="'types' of a Library cannot be set"):
        lib.types = 3


# -- as gcc has it -------------------------------------------------------------------------------


def measured(builder, includes, types, name):
    """What gcc says of types: sizes, alignments, and of members the offsets or the bits."""
    lines = ["#include <stddef.h>", "#include <string.h>", includes]
    for at, (ctype, members) in enumerate(types):
        lines.append(
            f"long size{at}(void) {{ return sizeof({ctype}) * 1000L + _Alignof({ctype}); }}"
        )
        for number, (member, is_bits) in enumerate(members):
            if is_bits:
                lines.append(f"void at{at}_{number}(void *p) {{ (({ctype} *)p)->{member} = -1; }}")
            else:
                lines.append(
                    f"long at{at}_{number}(void) {{ return offsetof({ctype}, {member}); }}"
                )
    return nc.load(builder.library("\n".join(lines), name, flags=["-w"]))


def compare(lib, builder, includes, names, name):
    """How many members of types lie as gcc has them, all of them or the test fails."""
    types = []
    layouts = lib.declarations.layouts.values()
    # cffi does not know of those that are as wide as their type.
    bits = {member[0] for layout in layouts for member in layout[3] if member[3] is not None}
    for one in names:
        found = lib.ffi.typeof(one)
        if found.kind in ("struct", "union") and found.fields is not None:
            types.append((one, [(member, member in bits) for member, field in found.fields]))
    gcc = measured(builder, includes, types, name)
    count = 0
    for at, (one, members) in enumerate(types):
        size = lib.ffi.sizeof(one) * 1000 + lib.ffi.alignof(one)
        assert gcc.function(f"size{at}", "l:")() == size, one
        fields = dict(lib.ffi.typeof(one).fields)
        for number, (member, is_bits) in enumerate(members):
            count += 1
            where = f"{one}.{member}"
            if not is_bits:
                offset = gcc.function(f"at{at}_{number}", "l:")()
                assert fields[member].offset == offset, where
                continue
            size = lib.ffi.sizeof(one)
            expected = bytearray(size)
            gcc.function(f"at{at}_{number}", "v:P")(expected)
            memory = lib.ffi.new(f"{one} *")
            width = fields[member].bitsize
            if width < 0:
                width = 8 * lib.ffi.sizeof(fields[member].type)
            signed = int(lib.ffi.cast(fields[member].type, -1)) < 0
            setattr(memory, member, -1 if signed else 2**width - 1)
            assert bytes(lib.ffi.buffer(memory)) == expected, where
            assert getattr(memory, member) == (-1 if signed else 2**width - 1), where
    return count


needs_gcc = pytest.mark.skipif(
    shutil.which("gcc") is None, reason="gcc is what it is compared with"
)


@needs_gcc
@pytest.mark.parametrize(
    ("headers", "least"),
    [
        (["sqlite3.h", "zlib.h", "fftw3.h"], 100),
        (["stdio.h", "stdlib.h", "time.h", "math.h"], 20),
        (["gsl/gsl_integration.h", "gsl/gsl_odeiv2.h", "gsl/gsl_multimin.h"], 100),
        (["netdb.h", "netinet/in.h", "signal.h", "sys/stat.h"], 60),
    ],
)
def test_structs_of_headers_lie_as_in_gcc(builder, headers, least):
    try:
        lib = nc.load(None, header=headers)
    except nc.LibraryError as error:
        pytest.skip(str(error))
    known = lib.declarations.layouts
    names = [name for name in known if "__nc_" not in name]
    includes = "\n".join(f"#include <{one}>" for one in headers)
    found = compare(lib, builder, includes, names, f"header{abs(hash(tuple(headers)))}")
    assert found >= least


@needs_gcc
@pytest.mark.skipif(sys.byteorder != "little", reason="the text is of a little-endian machine")
def test_a_bit_field_that_cffi_cannot_read_at_once_is_left_out():
    lib = nc.load(
        None,
        "struct wide { unsigned long a : 7, b : 62, c : 3; } __attribute__((packed));"
        "struct fits { int a : 7, b : 30; char c; } __attribute__((packed));",
        skip=True,
    )
    assert lib.ffi.sizeof("struct wide") == 9
    assert [name for name, _ in lib.types.wide.fields] == ["a", "c"]
    made = lib.new("struct wide", {"a": 127, "c": 7})
    assert bytes(lib.ffi.buffer(made)) == b"\x7f" + bytes(7) + b"\xe0"
    made = lib.new("struct wide", {"c": 5})
    assert (made.a, made.c) == (0, 5)


WIDE = """
typedef struct { long long a : 64; int b : 3; unsigned long c : 64; } wide;
typedef struct __attribute__((packed)) { char x; long long a : 64; int b : 3; int c : 32; } tight;
"""


@pytest.mark.parametrize("value", [-(2**63), -1, 0, 0x1234567890ABCDEF, 2**63 - 1])
def test_bit_fields_may_be_as_wide_as_their_type(builder, value):
    """cffi would shift by 64 bits."""
    source = "void set_wide(wide *w, long long v) { w->a = v; w->b = -1; w->c = (unsigned long)v; }"
    source += "void set_tight(tight *t, long long v) { t->a = v; t->b = 2; t->c = (int)v; }"
    declared = "void set_wide(wide *w, long long v); void set_tight(tight *t, long long v);"
    lib = nc.load(builder.library(WIDE + source, "widebits"), WIDE + declared, skip=True)
    wide, tight = lib.new("wide"), lib.new("tight")
    lib.set_wide(wide, value)
    lib.set_tight(tight, value)
    low = int.from_bytes((value % 2**32).to_bytes(4, "little"), "little", signed=True)
    assert (wide.a, wide.b, wide.c) == (value, -1, value % 2**64)
    assert (tight.a, tight.b, tight.c) == (value, 2, low)
    again = lib.new("wide", {"a": value, "b": -1, "c": value % 2**64})
    assert bytes(lib.ffi.buffer(again)) == bytes(lib.ffi.buffer(wide))
    with pytest.raises(OverflowError, match=r"field 'a' of 'wide'"):
        lib.new("wide", {"a": 2**63})


@pytest.mark.parametrize(
    ("items", "error", "message"),
    [
        (-5, ValueError, "field 'items' of 'open' must have a length of 0 or more (got -5)"),
        ("abc", TypeError, "field 'items' of 'open' must be a list, a tuple or an array (got str)"),
        (MOST // 8, OverflowError, "field 'items' of 'open' of %d items has %d bytes, more"),
        (MOST // 8 - 9, MemoryError, "there is not enough memory for 'open'"),
    ],
)
@pytest.mark.allocator
def test_lengths_of_a_last_member_are_checked(lib, items, error, message):
    with pytest.raises(error) as info:
        lib.new("open", {"n": 1, "items": items})
    assert re.sub("[0-9]{10,}", "%d", str(info.value)).startswith(message)


def test_text_without_an_encoding_is_refused(lib):
    with pytest.raises(TypeError, match=r"^'char\[8\]' is a str, which is not a buffer"):
        lib.new("char[8]", "abc")
    with pytest.raises(TypeError, match=r"^'int\[\]': initializer for ctype"):
        lib.new("int[]", "abc")


def test_what_leads_to_itself_is_refused_and_what_leads_far_is_freed(lib):
    node: dict[str, object] = {"value": 1}
    node["next"] = node
    with pytest.raises(RecursionError):
        lib.new("node", node)
    chain = None
    for _ in range(60_000):  # each keeps the one before
        chain = lib.new("node", {"next": chain})
    assert chain.next.next.value == 0
    del chain


def test_a_pointer_to_a_struct_stands_for_it(lib):
    point = lib.new("point", (1, 2))
    assert lib.new("point", point).y == 2
    edge, points = lib.new("edge", {"to": point}), lib.new("point[2]", [point, point[0]])
    assert (edge.to.x, points[1].y) == (1, 2)
    with pytest.raises(TypeError, match=r"not cdata 'struct node [*]'$"):
        lib.new("point", lib.new("node"))
    with pytest.raises(TypeError, match=r"not cdata 'struct point [*]'$"):
        lib.new("point", lib.ffi.cast("point *", 0))
    with pytest.raises(TypeError, match=r"got cffi's 'edge'[)]; ffi.addressof[(][)] gives"):
        lib.along(lib.new("edge")[0])


def test_shapes_that_are_none(lib, fails):
    three = lib.new("int[3]")
    with fails(TypeError, "'shape' must be an integer or several (got str)"):
        lib.asarray(three, "ab")
    with fails(TypeError, "'shape' must be an integer or several (got float)"):
        lib.asarray(three, 1.5)
    with pytest.raises(OverflowError, match=r"^'shape' is .* bytes, more than fit in memory$"):
        lib.asarray(three + 0, 2**62)
    assert lib.asarray(three, [3, 1]).shape == (3, 1)


def test_what_has_no_length_is_refused(fails):
    lib = nc.load(None, "typedef char T[]; typedef int R[][2];")
    with fails(TypeError, "'char[]' has no length; allocate 'char[n]' instead"):
        lib.new("T *")
    with fails(TypeError, "'int[][2]' has no length; allocate 'int[n][2]' instead"):
        lib.new("R *")


def test_text_for_what_is_no_text_is_refused():
    lib = nc.load(None, "struct part { int n; int (*f)(int); }; struct one { struct part in; };")
    for kind, name in (("struct part", "f"), ("struct one", "in")):
        with pytest.raises(TypeError, match=r"^field .* must be a .*\(got str\)$"):
            setattr(lib.new(kind), name, "text")
        with pytest.raises(TypeError, match=r" must be a mapping.*\(got str\)$"):
            lib.new(kind, "text")
