"""C types: layout against the C compiler, ctypes and cffi; identity; what C forbids."""

from __future__ import annotations

import copy
import ctypes
import pickle
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nativecall._cdecl.cffitype import to_ffi
from nativecall._cdecl.spelling import parse_type
from nativecall._cdecl.texts import parse_function
from nativecall._errors import SignatureError
from nativecall._lib import ffi
from nativecall._types import ctype as ct
from nativecall._types import derived
from support import compilecache

CTYPES = {
    "?": ctypes.c_bool,
    "c": ctypes.c_char,
    "b": ctypes.c_byte,
    "B": ctypes.c_ubyte,
    "h": ctypes.c_short,
    "H": ctypes.c_ushort,
    "i": ctypes.c_int,
    "I": ctypes.c_uint,
    "l": ctypes.c_long,
    "L": ctypes.c_ulong,
    "q": ctypes.c_longlong,
    "Q": ctypes.c_ulonglong,
    "n": ctypes.c_ssize_t,
    "N": ctypes.c_size_t,
    "f": ctypes.c_float,
    "d": ctypes.c_double,
    "g": ctypes.c_longdouble,
}

scalars = st.sampled_from(sorted(ct.SCALARS)).map(ct.scalar)
simple = st.one_of(scalars, st.just(ct.VOIDPTR), st.just(ct.PY_OBJECT))
names = st.from_regex(r"[a-z]_[a-z0-9_]{0,5}", fullmatch=True)


def _structs(types: st.SearchStrategy[ct.CType]) -> st.SearchStrategy[ct.CType]:
    members = types.filter(lambda t: t.kind not in ("void", "view"))
    unnamed = st.lists(members, min_size=1, max_size=4)
    named = st.lists(st.tuples(names, members), min_size=1, max_size=4, unique_by=lambda f: f[0])
    return st.builds(derived.Struct, st.one_of(unnamed, named), st.booleans())


def _arrays(types: st.SearchStrategy[ct.CType]) -> st.SearchStrategy[ct.CType]:
    shapes = st.lists(st.integers(1, 4), min_size=1, max_size=2)
    return st.builds(derived.Array, types.filter(lambda t: t.kind != "view"), shapes)


def _functions(types: st.SearchStrategy[ct.CType]) -> st.SearchStrategy[ct.CType]:
    results = types.filter(lambda t: t.kind not in ("array", "view")) | st.just(ct.VOID)
    args = st.lists(types.filter(lambda t: t.kind != "array"), min_size=1, max_size=3)
    return st.builds(derived.FunctionPointer, results, args, st.booleans())


def _views(types: st.SearchStrategy[ct.CType]) -> st.SearchStrategy[ct.CType]:
    items = types.filter(lambda t: t.kind not in ("array", "view"))
    return st.builds(derived.View, items, st.integers(1, 5))


types = st.recursive(
    simple,
    lambda inner: st.one_of(
        inner.filter(lambda t: t.kind != "view").map(derived.pointer),
        _structs(inner),
        _arrays(inner),
        _functions(inner),
        _views(inner),
    ),
    max_leaves=8,
)


@pytest.mark.parametrize("code", sorted(CTYPES))
def test_scalars_have_the_size_and_alignment_that_ctypes_says(code: str) -> None:
    assert ct.scalar(code).size == ctypes.sizeof(CTYPES[code])
    assert ct.scalar(code).alignment == ctypes.alignment(CTYPES[code])


@pytest.mark.parametrize("code", sorted(set(CTYPES) - set("?fdgc")))
def test_integers_have_the_sign_that_ctypes_says(code: str) -> None:
    assert ct.scalar(code).signed == (CTYPES[code](-1).value < 0)


def test_pointers_have_the_size_that_ctypes_says() -> None:
    for text in ("P", "O", "&d", "X{d:d}", "[3]d"):
        assert parse_type(text).size == ctypes.sizeof(ctypes.c_void_p)
        assert parse_type(text).alignment == ctypes.alignment(ctypes.c_void_p)


def test_complex_is_two_reals() -> None:
    for code in "fdg":
        real, both = ct.scalar(code), ct.scalar("Z" + code)
        assert (both.size, both.alignment) == (2 * real.size, real.alignment)
    assert (ct.scalar("e").size, ct.scalar("e").alignment) == (2, 2)


def test_layout_agrees_with_the_c_compiler(tmp_path) -> None:
    texts = [
        "T{bd}",
        "=T{bd}",
        "T{b(3)he}",
        "T{b=T{hi}?}",
        "T{bT{Zfb}g}",
        "=T{bT{bd}Zg}",
        "T{cZdB}",
    ]
    lines = ["#include <stddef.h>", "#include <stdint.h>", "#include <stdio.h>"]
    lines += ["#include <stdbool.h>", '#define P(x) printf("%zu ", (size_t)(x))']
    lines += ["int main(void) {", "    P((char)-1 < 0);"]
    expected = [int(ct.scalar("c").signed)]
    for number, text in enumerate(texts):
        struct = parse_type(text)
        assert isinstance(struct, derived.Struct)
        spelled = struct.c_declaration(f"t{number}").replace("_Float16", "uint16_t")
        lines += [f"typedef {spelled};", f"P(sizeof(t{number})); P(_Alignof(t{number}));"]
        lines += [f"P(offsetof(t{number}, {name}));" for name in struct.field_names]
        expected += [struct.size, struct.alignment, *[field.offset for field in struct.fields]]
    source = tmp_path / "layout.c"
    source.write_text("\n".join([*lines, "return 0; }"]))
    program = tmp_path / "layout"
    compilecache.compiled(["cc", "-std=gnu11", "-o", str(program), str(source)], program)
    printed = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    assert [int(number) for number in printed.split()] == expected


@settings(max_examples=60)
@given(types)
def test_any_type(ctype: ct.CType) -> None:
    """It lies as in cffi; its text, its C and its pickle are read back; copies are itself."""
    for text in (ctype.text, ctype.named):
        again = parse_type(text)
        assert (again, hash(again), again.text) == (ctype, hash(ctype), ctype.text)
        assert again.named == text or text == ctype.text
    pickled = pickle.loads(pickle.dumps(ctype))
    assert (pickled, pickled.named) == (ctype, ctype.named)
    assert copy.deepcopy(ctype) is ctype is copy.copy(ctype)
    there = to_ffi(ctype)
    assert ffi.sizeof(there) == ctype.size
    if ctype.kind != "array":
        assert ffi.alignof(there) == ctype.alignment
    if isinstance(ctype, derived.Struct):
        assert [field.offset for _, field in there.fields] == [f.offset for f in ctype.fields]
    if "[" not in ctype.text:  # C has no strided views
        if ctype.kind == "array":
            ctype = derived.pointer(ctype)
        parsed = parse_function(f"void ({ctype.c_declaration('x')})")
        # Of C, structs are packed only where that makes a difference.
        (read,) = parsed.args
        assert (read.text.replace("=", ""), read.size) == (ctype.text.replace("=", ""), ctype.size)
        assert parsed.names == ("x",)
        assert read == ctype or "=" in ctype.text


def test_codes_of_one_width_are_one_type() -> None:
    word = "q" if sys.maxsize > 2**32 else "i"
    assert ct.scalar("n") is ct.scalar(word)
    assert ct.scalar("N") is ct.scalar(word.upper())
    assert ct.scalar("l").text == {4: "i", 8: "q"}[ctypes.sizeof(ctypes.c_long)]
    assert ct.scalar("c") is ct.scalar("b" if ct.scalar("c").signed else "B")
    assert derived.pointer(ct.scalar("l")) == derived.pointer(ct.scalar(ct.scalar("l").text))


def test_field_names_are_kept_and_no_part_of_the_identity() -> None:
    named, other = parse_type("T{d:x:d:y:}"), parse_type("T{d:re:d:im:}")
    assert named == other == parse_type("T{dd}")
    assert hash(named) == hash(other)
    assert named.named == "T{d:x:d:y:}"
    assert named.field_names == ("x", "y")
    assert parse_type("T{dd}").field_names == ("f0", "f1")
    assert parse_type("T{dd:f0:}").field_names == ("f0_", "f0")
    assert parse_type("T{dd}") != parse_type("=T{dd}")


def test_nested_arrays_are_one_array() -> None:
    array = derived.Array(derived.Array(ct.scalar("d"), (3, 4)), (2,))
    assert (array.text, array.shape, array.length) == ("(2,3,4)d", (2, 3, 4), 24)
    assert array.item is ct.scalar("d")


def test_a_pointer_to_void_is_voidptr() -> None:
    assert derived.pointer(ct.VOID) is ct.VOIDPTR
    with pytest.raises(SignatureError, match="a pointer to void is 'P'"):
        derived.Pointer(ct.VOID)


def test_a_view_is_passed_as_a_pointer_to_its_descriptor() -> None:
    view = parse_type("[2]f")
    assert (view.ndim, view.item.text) == (2, "f")
    word = ct.scalar("n").text
    assert view.descriptor.text == f"T{{&f(2){word}(2){word}}}"
    assert view.descriptor.field_names == ("data", "shape", "strides")


@pytest.mark.parametrize(
    ("text", "declaration"),
    [
        ("&d", "double *x"),
        ("&(2,3)d", "double (*x)[2][3]"),
        ("(2)&d", "double *x[2]"),
        ("X{v:}", "void (*x)(void)"),
        ("X{X{d:i}:&H.}", "double (*(*x)(uint16_t *, ...))(int32_t)"),
        ("T{b:a:Zd:z:}", "struct { int8_t a; double _Complex z; } x"),
        ("O", "PyObject *x"),
        ("P", "void *x"),
        ("&&O", "PyObject ***x"),
    ],
)
def test_declarations_read_like_c(text: str, declaration: str) -> None:
    assert parse_type(text).c_declaration("x") == declaration


def test_types_are_immutable() -> None:
    struct = parse_type("T{d:x:}")
    for target, name in ((struct, "text"), (struct, "new"), (struct.fields[0], "offset")):
        with pytest.raises(AttributeError, match=r"immutable|can't set"):
            setattr(target, name, 1)
    with pytest.raises(AttributeError, match="immutable"):
        del struct.text
    assert struct.text == "T{d}"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: derived.Array(ct.scalar("d"), (0,)), "at least one element"),
        (lambda: derived.Array(ct.scalar("d"), ()), "1 to 64 dimensions"),
        (lambda: derived.Array(ct.scalar("d"), (2**62, 2**62)), "address space"),
        (lambda: derived.Array(ct.scalar("d"), (2**61,)), "address space"),
        (lambda: derived.Array(ct.VOID, (1,)), "result of a function"),
        (lambda: derived.View(ct.scalar("d"), 0), "1 to 64 dimensions"),
        (lambda: derived.View(derived.View(ct.scalar("d"), 1), 1), "cannot be an element"),
        (lambda: derived.Struct([]), "at least one field"),
        (lambda: derived.Struct([ct.VOID]), "result of a function"),
        (lambda: derived.Struct([("a b", ct.VOIDPTR)]), "'a b' is not a valid name"),
        (lambda: derived.Struct([("a", ct.VOIDPTR), ("a", ct.VOIDPTR)]), "two fields called 'a'"),
        (lambda: derived.FunctionPointer(ct.VOID, [ct.VOID]), "'v' cannot be an argument"),
        (lambda: derived.FunctionPointer(ct.VOID, [], True), "at least one argument"),
        (lambda: derived.FunctionPointer(derived.Array(ct.VOIDPTR, (1,))), "cannot be a result"),
        (lambda: ct.scalar("w"), "unknown scalar code 'w'"),
    ],
)
def test_what_c_forbids_cannot_be_made(make, message: str) -> None:
    with pytest.raises(SignatureError, match=message):
        make()


def test_texts_are_not_made_longer_than_their_bound() -> None:
    part = derived.Struct([ct.scalar("d")] * 4000)
    taken = 0

    def parts():
        nonlocal taken
        while taken < 10**6:
            taken += 1
            yield part

    with pytest.raises(SignatureError, match="more than 4096 characters"):
        derived.Struct(parts())
    assert taken == 2


def test_depth_and_length_are_bounded() -> None:
    ctype = ct.scalar("d")
    for _ in range(ct.MAX_DEPTH):
        ctype = derived.pointer(ctype)
    with pytest.raises(SignatureError, match="64 levels"):
        derived.pointer(ctype)
    wide = derived.Struct([ct.scalar("d")] * 2000)
    with pytest.raises(SignatureError, match="4096 characters"):
        derived.Struct([wide, wide, wide])


def test_a_wrong_python_type_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="must be a CType"):
        derived.Pointer("d")
    with pytest.raises(TypeError, match="must be a CType"):
        derived.Struct([("x", "d")])


def test_interning_forgets_but_equality_stays() -> None:
    before = parse_type("T{ddd:keep:}")
    for length in range(1, 9000):
        derived.Array(ct.scalar("b"), (length,))
    assert parse_type("T{ddd:keep:}") == before
    assert len(ct._interned) <= ct._interned.limit
