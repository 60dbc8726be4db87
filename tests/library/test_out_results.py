"""What out-parameters become that are no numbers: text, structs that only cffi knows."""

import gc
import inspect
import pickle

import numpy as np
import pytest

import nativecall as nc

DECLARED = """
typedef union { int i; float f; } number;
typedef struct { int kind; number value; } tagged;
struct bits { unsigned low : 3, high : 9; char tail; };
typedef struct { int kind; struct { double x; }; } nested;
typedef struct { char name[8]; signed char code[2]; } named;
struct hidden;
int make(tagged *made);
int make_bits(struct bits *made);
int make_both(nested *one, number *other);
void make_many(int n, tagged *made);
void make_three(tagged made[3]);
int kind_of(const tagged *one);
void make_named(named *made);
void make_hidden(struct hidden *made);
int name_of(int n, const char **name, const wchar_t **wide);
void names(const char *found[3]);
typedef const char *text;
void text_of(int n, text *found);
void copy_of(const char *given, const char **copy);
void pointer_of(char **found);
void text_free(void *text);
int freed(void);
"""
SOURCE = r"""
#include <stdlib.h>
#include <string.h>
#include <wchar.h>
typedef union { int i; float f; } number;
typedef struct { int kind; number value; } tagged;
struct bits { unsigned low : 3, high : 9; char tail; };
typedef struct { int kind; struct { double x; }; } nested;
typedef struct { char name[8]; signed char code[2]; } named;
struct wide { _Alignas(64) char text[64]; union { int i; double d; } u; };
int make(tagged *p) { p->kind = 1; p->value.f = 2.5f; return 7; }
int make_bits(struct bits *p) { p->low = 5; p->high = 300; p->tail = 'x'; return 0; }
int make_both(nested *p, number *n) { p->kind = 3; p->x = 1.5; n->i = 9; return 0; }
void make_many(int n, tagged *p) { for (int i = 0; i < n; i++) p[i].kind = i; }
void make_three(tagged p[3]) { make_many(3, p); }
int kind_of(const tagged *p) { return p->kind; }
int make_wide(struct wide *p) { p->u.i = 4; return (long)p % 64; }
void make_named(named *p) { strcpy(p->name, "n\xe4me"); p->code[0] = -1; }
void make_hidden(void *p) { (void)p; }
static const char *const all[] = {"first", "s\xc3\xa9" "cond", NULL};
int name_of(int n, const char **name, const wchar_t **wide)
{ *name = all[n]; *wide = n == 2 ? NULL : L"wide"; return n; }
void names(const char *found[3]) { memcpy(found, all, sizeof all); }
void text_of(int n, const char **found) { *found = all[n]; }
static char changed[] = "changed";
void pointer_of(char **found) { *found = changed; }
static int count;
void copy_of(const char *given, const char **copy) { *copy = strdup(given); }
void text_free(void *text) { count++; free(text); }
int freed(void) { return count; }
"""
OUT = {
    "make": ["made"],
    "make_bits": ["made"],
    "make_both": ["one", "other"],
    "make_many": {"made": "n"},
    "make_three": ["made"],
    "make_named": ["made"],
    "name_of": ["name", "wide"],
    "names": ["found"],
    "text_of": ["found"],
    "copy_of": ["copy"],
    "pointer_of": ["found"],
}


@pytest.fixture(scope="module")
def path(builder):
    return builder.library(SOURCE, "out_results", flags=("-O1", "-w"))


@pytest.fixture(params=["text", "header"])
def load(request, path, tmp_path):
    """The same declarations, read by both parsers."""
    if request.param == "text":
        return lambda **options: nc.load(path, DECLARED, **{"out": OUT, **options})
    (tmp_path / "declared.h").write_text(f"#include <wchar.h>\n{DECLARED}")
    header = tmp_path / "declared.h"
    return lambda **options: nc.load(path, header=header, **{"out": OUT, **options})


# -- structs ---------------------------------------------------------------------------------------


def test_unions_bit_fields_and_members_without_names(load):
    lib = load()
    result, made = lib.make()
    assert (result, made.kind, made.value.f) == (7, 1, 2.5)
    assert type(made) is nc.Record
    assert lib.kind_of(made) == 1
    _, bits = lib.make_bits()
    _, one, other = lib.make_both()
    assert (bits.low, bits.high, bits.tail) == (5, 300, ord("x"))
    assert (one.kind, one.x, other.i) == (3, 1.5, 9)
    assert inspect.signature(lib.make).return_annotation == tuple[int, nc.Record]
    assert pickle.loads(pickle.dumps(lib)).make()[1].kind == 1


def test_arrays_of_such_structs_are_lists(load):
    lib = load()
    assert [one.kind for one in lib.make_many(4)] == [0, 1, 2, 3]
    made = lib.make_three()[2]
    gc.collect()
    assert made.kind == 2


def test_memory_is_aligned_as_the_struct_asks(path, tmp_path):
    header = tmp_path / "wide.h"
    header.write_text(
        "struct wide { _Alignas(64) char text[64]; union { int i; double d; } u; };"
        "int make_wide(struct wide *p);"
    )
    lib = nc.load(path, header=header, out={"make_wide": "p"})
    for _ in range(10):
        offset, made = lib.make_wide()
        assert (offset, made.u.i) == (0, 4)


def test_memory_is_aligned_as_typedefs_ask(builder):
    text = """
        typedef __attribute__((aligned(16))) float row[4];
        typedef __attribute__((aligned(32))) row mat[4];
        typedef double wide __attribute__((aligned(64)));
        typedef struct point { double x, y, z; } point;
        typedef point far __attribute__((aligned(128)));
        typedef int loose __attribute__((aligned(1)));
        typedef struct { char c; wide w; loose i; wide *p; } holder;
        typedef double lane[8] __attribute__((aligned(64)));
        typedef lane line[1];
        typedef struct later soon __attribute__((aligned(32)));
        struct later { int i; };
        struct sooner { char c; soon s; };
        int line_at(line *p);
        int eye(mat m);
        int one(wide *w);
        int several(int n, wide *w);
        int place(far *p);
        double add(int a, far p, double b, wide w, double c, double d, double e, double f, double g,
                   double h, wide i, far q);
        int sum(const loose *p);
        int held(holder *h);
        wide *same(wide *w);
        point made(void);
    """
    source = """
        typedef double wide __attribute__((aligned(64)));
        typedef struct point { double x, y, z; } point;
        typedef point far __attribute__((aligned(128)));
        typedef struct { char c; wide w; int i __attribute__((packed)); double *p; } holder;
        static int offset(const void *p, int of) { return (int)((long)p % of); }
        int eye(float (*m)[4]) { m[3][3] = 1; return offset(m, 32); }
        int one(double *w) { *w = 2; return offset(w, 64); }
        int several(int n, double *w)
        { for (int i = 0; i < n; i++) w[i] = i; return offset(w, 64); }
        int place(point *p) { p->z = 3; return offset(p, 128); }
        double add(int a, far p, double b, wide w, double c, double d, double e, double f, double g,
                   double h, wide i, far q)
        { return a + p.z + 10 * w + 100 * h + 1000 * i + 10000 * q.y + b + c + d + e + f + g; }
        int sum(const char *p) { return p[0] + p[4]; }
        int held(holder *h) { h->i = 7; return offset(h, 64) + offset(h->p, 64); }
        double *same(double *w) { return w; }
        point made(void) { return (point){1, 2, 3}; }
        int line_at(double (*p)[8]) { p[0][7] = 5; return offset(p, 64); }
    """
    path = builder.library(source, "typedefs")
    lib = nc.load(path, text)
    plain = nc.load(
        path,
        text,
        out={"eye": "m", "one": "w", "several": {"w": "n"}, "place": "p", "line_at": "p"},
    )
    kept = []
    for _ in range(8):
        offset, m = plain.eye()
        assert (offset, m[3, 3], m.sum()) == (0, 1, 1)
        assert plain.one() == (0, 2)
        offset, many = plain.several(3)
        assert (offset, [*many]) == (0, [0, 1, 2])
        offset, far = plain.place()
        assert (offset, far.z) == (0, 3)
        offset, line = plain.line_at()
        assert (offset, line[0, 7], line.sum()) == (0, 5, 5)
        for text, alignment in {
            "mat": 32, "mat *": 32, "row": 16, "wide": 64, "wide *": 64, "wide[1]": 64,
            "far": 128, "far *": 128, "holder": 64, "const wide *": 64,
            "line": 64, "line *": 64, "soon": 32, "struct sooner": 32,
        }.items():  # fmt: skip
            made = lib.new(text)
            assert int(lib.ffi.cast("uintptr_t", made)) % alignment == 0, text
            kept += [m, many, far, line, made]
    held = lib.new("holder", {"p": lib.new("wide *", 4)})
    assert (lib.held(held), held.i, held.p[0]) == (0, 7, 4)
    assert (lib.ffi.sizeof("holder"), lib.ffi.sizeof("struct sooner")) == (128, 64)
    assert lib.add(1, (0, 0, 2), 0, 3, 0, 0, 0, 0, 0, 4, 5, (0, 6, 0)) == 65433
    memory = np.zeros(65, "f4")
    memory = memory[-memory.ctypes.data // 4 % 16 :][:16].reshape(4, 4)
    lib.eye(memory)
    assert memory[3, 3] == 1
    with pytest.raises(ValueError, match="multiples of 32 bytes"):
        lib.eye(memory.reshape(-1)[4:].reshape(3, 4))
    records = [lib.made() for _ in range(16)]
    elsewhere = [one for one in records if np.asarray(memoryview(one)).ctypes.data % 128]
    with pytest.raises(ValueError, match=r"multiples of 128 bytes.* made by the library.s .new."):
        lib.place(elsewhere[0])
    data = b"x" + np.array([3, 4], "i4").tobytes()
    assert lib.sum(np.frombuffer(data, "i4", 2, 1)) == 7
    again = pickle.loads(pickle.dumps(plain.declarations.functions["several"]))
    assert again.args[1].pointee.alignment == 64
    assert (again, again.text) == (plain.declarations.functions["several"], "i:i&d")


def test_structs_that_cannot_be(load):
    lib = load()
    with pytest.raises(TypeError, match="argument 1 of 'make' lacks 'value'; its fields are 'kind"):
        lib.function("make", out={"made": "inout"})({"kind": 1})
    with pytest.raises(ValueError, match="does not point to a type of known size"):
        lib.function("make_hidden", out=["made"])
    with pytest.raises(ValueError, match="which C declares const"):
        lib.function("kind_of", out=["one"])


def test_characters_in_structs_are_text(load):
    made = load().make_named()
    assert made.name == b"n\xe4me"
    assert (made.code, nc.string(made.code)) == ((-1, 0), b"\xff")


# -- text ------------------------------------------------------------------------------------------


def test_pointers_to_const_characters_are_text(load):
    lib = load()
    assert lib.name_of(0) == (0, b"first", "wide")
    assert lib.name_of(2) == (2, None, None)
    assert lib.names() == [b"first", b"s\xc3\xa9cond", None]
    assert lib.text_of(1) == b"s\xc3\xa9cond"
    encoded = load(encoding="utf-8")
    assert encoded.name_of(1) == (1, "sécond", "wide")
    assert encoded.names() == ["first", "sécond", None]
    assert inspect.signature(encoded.text_of).return_annotation == str | None
    with pytest.raises(UnicodeDecodeError):
        load(encoding="ascii").text_of(1)


def test_text_of_a_call_that_failed_stays_a_pointer(load):
    """C may have written anything there."""
    for out in (["name", "wide"], {"name": 1, "wide": None}):  # by generated code, and by Python's
        lib = load(out={"name_of": out}, errors={"name_of": "nonzero"}, encoding="utf-8")
        with pytest.raises(nc.NativeFailure) as caught:
            lib.name_of(1)
        name = caught.value.out[0]
        name = name[0] if isinstance(name, list) else name
        assert nc.string(name, "utf-8") == "sécond"
