"""`nativecall.load(…, header=…)`: what headers declare, what is left out, and what is kept."""

from __future__ import annotations

import os
import pickle
import re
import shutil
import struct
import time

import numpy as np
import pytest

import nativecall as nc
from nativecall import _cache
from nativecall._cdecl import header, preprocessor, searched

COMPILER = preprocessor.compiler()
pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")

HEADER = r"""
#ifndef BOX_H
#define BOX_H
#include <stdarg.h>
#include <stddef.h>
#ifdef __cplusplus
extern "C" {
#endif
#define BOX_API __attribute__((visibility("default"), noinline))
#define BOX_LIMIT (1u << 4 | 1)
#define BOX_RATIO 2.5f
#define BOX_NAME "bo" "x\n"
#define BOX_LETTER 'A'
#define BOX_LAST (BOX_BLUE + sizeof(box_point))
#define BOX_NONE ((void *)0)
#define BOX_ALL ((box_hook)-1)
#define BOX_TWICE(x) ((x) * 2)
#define BOX_FOUR BOX_TWICE(2)
#define BOX_NO_CONSTANT { 1, 2 }
#define box_negative box_negated
typedef struct box_point { double x, y; } box_point;
typedef struct { unsigned low : 3, : 2, high : 9; char tail; }
    __attribute__((aligned(16))) box_bits;
typedef struct box_hidden box_hidden;
typedef int (*box_hook)(box_hidden *, void *);
enum { BOX_RED, BOX_GREEN = 5, BOX_BLUE };

/* The square of a number.
 *
 * It is exact. */
BOX_API extern double box_square(double __x) __attribute__((__nothrow__, __const__));
__extension__ extern int box_plain(int, ...) __asm__("box_" "renamed");
int box_negated(int x);
BOX_API box_point box_add(box_point a, const box_point *b);
int box_print(const char *format, va_list arguments);
box_bits box_make(void);
_Float128 box_wide(_Float128);
int box_gone(int);
int close(int);
extern int box_counter;
#ifdef BOX_ODD
box_unknown_t box_odd(int);
#endif
_Static_assert(sizeof(box_point) == 16, "a ; { string");
static inline int box_inline(int x) { return ({ int y = x; y + box_negated(1); }); }
static __inline__ __attribute__((always_inline)) int box_broken(void) { return box_gone(1); }
#ifdef __cplusplus
}
#endif
#endif
"""
SOURCE = r"""
typedef struct box_point { double x, y; } box_point;
double box_square(double x) { return x * x; }
int box_renamed(int x, ...) { return x + 1; }
int box_negated(int x) { return -x; }
box_point box_add(box_point a, const box_point *b) { return (box_point){a.x + b->x, a.y + b->y}; }
int box_counter = 3;
int close(int x) { return x + 100; }
"""


@pytest.fixture(scope="module")
def path(builder):
    return builder.library(SOURCE, "box")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the header, and a cache of its own."""
    (tmp_path / "cache").mkdir(0o700)  # at once: the folder's own time is part of what is kept
    kept = _cache.Cache(str(tmp_path / "cache"))
    monkeypatch.setattr(_cache, "shared", lambda: kept)
    (tmp_path / "box.h").write_text(HEADER)
    return tmp_path


def without_any(monkeypatch):
    """Have no compiler."""
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", "")


@pytest.fixture
def box(path, folder):
    return nc.load(path, header="box.h", include=folder)


@pytest.fixture
def odd(path, folder):
    """With what no compiler takes."""
    return nc.load(path, header="box.h", include=folder, define={"BOX_ODD": None})


def test_functions_variables_and_constants(box):
    assert box.box_square(3) == 9.0
    other = struct.pack("dd", 3, 4)
    assert box.box_add((1, 2), other) == (4.0, 6.0)
    assert box.box_counter == 3
    assert (box.BOX_RED, box.BOX_GREEN, box.BOX_BLUE) == (0, 5, 6)
    assert (box.BOX_LIMIT, box.BOX_RATIO, box.BOX_NAME, box.BOX_LETTER) == (17, 2.5, b"box\n", 65)
    assert (box.BOX_LAST, box.BOX_FOUR, box.BOX_NONE) == (22, 4, None)
    assert int(nc._lib.ffi.cast("uintptr_t", box.BOX_ALL)) == 2**64 - 1


def test_other_names_of_functions(box):
    assert box.box_plain(3) == 4  # by its __asm__ name
    assert box.box_negative(3) == -3  # a macro
    assert box["close"](1) == 101
    assert box["box_square"] is box.box_square
    assert callable(box.close)
    assert box.close() is None
    with pytest.raises(nc.LibraryError, match="is closed"):
        box["box_add"]


def test_the_comment_of_the_header_is_the_doc(box):
    declared = "double box_square(double __x)"
    assert box.box_square.__doc__ == f"{declared}\n\nThe square of a number.\n\nIt is exact."
    assert box.box_negated.__doc__ == "int box_negated(int x)"


COMMENTED = """
/* Copyright */

int bare(int x);
/** The license of all. */

int licensed(int x);
/* Before it. */
int before(int x);  /* Behind it. */
int after_behind(int x);
int of_doxygen(int x,
               int y); /**< Adds:
                        *   both. */
int after_doxygen(int x);
/** Doxygen's.
 */

int apart(int x);
// Two
/// lines.
int lines(int x);
// Apart.

int lines_apart(int x);
#ifdef NOTHING
#endif /* NOTHING */
int guarded(int x);
int slashes(int x); ///< Behind
                    ///< it.
/** @name a section */

int section(int x);
"""
COMMENTS = {
    "before": "Before it.",
    "of_doxygen": "Adds:\n  both.",
    "apart": "Doxygen's.",
    "lines": "Two\nlines.",
    "slashes": "Behind\nit.",
}


def test_only_a_comment_of_its_own_is_the_doc(tmp_path):
    file = tmp_path / "commented.h"
    file.write_text(COMMENTED)
    places = nc.load(None, header=file).declarations.places
    found = {name: header.doc(file, line) for name, (_, line) in places.items()}
    assert len(found) == 12
    assert {name: text for name, text in found.items() if text} == COMMENTS


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("box_print", "a 'va_list' cannot be made outside C"),
        ("box_make", "struct 'box_bits' has a layout that no signature describes"),
        ("box_wide", "type '_Float128' is not supported"),
        ("box_odd", "unknown type name 'box_unknown_t'"),
        ("BOX_TWICE", "a macro with parameters is not a function"),
        ("BOX_NO_CONSTANT", "a macro that is not a constant: '{' is not a constant expression"),
    ],
)
def test_what_is_left_out_has_its_reason(odd, name, reason):
    with pytest.raises(nc.SymbolError, match=f"'{name}' of library .* is skipped: {reason}"):
        getattr(odd, name)
    assert not hasattr(odd, name)
    assert name in odd.skipped
    assert name not in dir(odd)


def test_a_library_that_is_older_than_its_header(box):
    with pytest.raises(nc.SymbolError, match="no symbol 'box_gone'"):
        box.box_gone
    assert box.box_square(2) == 4.0


def test_inline_functions_are_compiled(box, monkeypatch):
    assert box.box_inline(3) == 2
    with pytest.raises(nc.SymbolError, match=r"'box_broken' is an inline function.*box_gone"):
        box.box_broken
    with pytest.raises(TypeError, match="cannot pickle 'box_inline'"):
        pickle.dumps(box.box_inline)
    reason = "an inline function: the loader rejects it: undefined symbol: box_gone"
    assert box.skipped["box_broken"] == reason
    assert "box_inline" not in box.skipped


@pytest.mark.parametrize(("command", "status"), [("false", 1), ("true", 0)])
def test_a_compiler_that_says_nothing_of_inline_functions(folder, monkeypatch, command, status):
    text = f"/* {command} */ static inline int two(void) {{ return 2; }}\n"
    (folder / f"{command}.h").write_text(text)
    lib = nc.load(None, header=f"{command}.h", include=folder)
    monkeypatch.setenv("CC", command)
    with pytest.raises(
        nc.SymbolError, match=f"/{command}' exited with status {status} and no message"
    ):
        lib.two


def test_inline_functions_share_static_variables(folder):
    """Also where other ones of the header cannot be had."""
    (folder / "state.h").write_text(
        "static int state;\nint state_gone(void);\n"
        "static inline void state_set(int x) { state = x; }\n"
        "static inline int state_missing(void) { return state_gone(); }\n"
        "static inline int state_get(void) { return state; }\n"
    )
    lib = nc.load(None, header="state.h", include=folder)
    lib.state_set(5)
    with pytest.raises(nc.SymbolError, match=r"'state_missing' is .* undefined symbol: state_gone"):
        lib.state_missing
    assert lib.state_get() == 5


def test_inline_functions_use_a_library_wherever_it_is(builder, folder, monkeypatch):
    """By its path, also one from where this process was, by its folder, and what it needs."""
    needed = builder.library("int box_needed(void) { return 5; }", "needed")
    made = builder.library(SOURCE, "libboxed", flags=[f"-Wl,--no-as-needed,{needed}"])
    (folder / "more.h").write_text(
        "int box_negated(int); int box_needed(void);\n"
        "static inline int box_twice(int x) { return 2 * box_negated(x); }\n"
        "static inline int box_further(void) { return box_needed(); }\n"
    )
    monkeypatch.chdir(os.path.dirname(made))
    name = os.path.basename(made)
    copied = folder / "libmoved.so"
    shutil.copyfile(made, copied)
    for given, folders in ((made, ()), (f"./{name}", ()), ("moved", [folder])):
        lib = nc.load(given, header="more.h", include=folder, folders=folders)
        assert os.path.isabs(lib.path)
        with monkeypatch.context() as elsewhere:
            elsewhere.chdir("/")
            assert (lib.box_twice(3), lib.box_further()) == (-6, 5)
            assert lib.skipped == {}


def test_an_inline_function_without_a_compiler(path, folder, monkeypatch):
    box = nc.load(path, header="box.h", include=[folder])
    without_any(monkeypatch)
    with pytest.raises(nc.SymbolError, match="an inline function needs a C compiler"):
        box.box_inline
    assert "needs a C compiler" in box.skipped["box_inline"]


def test_libraries_and_their_functions_are_pickled(box):
    again = pickle.loads(pickle.dumps(box))
    assert again.box_plain(1) == 2
    assert pickle.loads(pickle.dumps(box.box_plain))(1) == 2


def test_only_names_and_patterns(path, folder):
    box = nc.load(path, header="box.h", include=folder, only=["box_s*", "BOX_RED"])
    assert (box.box_square(2), box.BOX_RED) == (4.0, 0)
    with pytest.raises(nc.SymbolError, match=r"'BOX_GREEN' .* among the names that only= selects"):
        box.BOX_GREEN
    assert box.skipped == {}
    with pytest.raises(nc.SymbolError, match=r"no symbol 'box_sqare'.*did you mean 'box_square'"):
        nc.load(path, header="box.h", include=folder, only="box_sqare")
    with pytest.raises(
        nc.SignatureError, match=r"'only' has 'boxes_\*', which matches no declaration"
    ):
        nc.load(path, header="box.h", include=folder, only=["boxes_*"])


def test_strict_headers_and_lenient_texts(path, folder):
    with pytest.raises(nc.SignatureError, match="'box_make' cannot be offered: struct 'box_bits'"):
        nc.load(path, header="box.h", include=folder, skip=False, only=["box_make", "box_square"])
    assert nc.load(path, header="box.h", include=folder, skip=False, only="box_sq*").box_square(1)
    text = "#define TWO 2 /* two */\nsize_t box_negated(foo x); int box_negated(int \\\n x); x y z;"
    lenient = nc.load(path, text, skip=True)
    assert (lenient.TWO, lenient.box_negated(2)) == (2, -2)
    assert "z" in lenient.skipped
    with pytest.raises(nc.SignatureError):
        nc.load(path, text)


@pytest.fixture
def settled(monkeypatch):
    """Files that were written just now are no reason not to keep what they say."""
    monkeypatch.setattr(header, "_TICK", -(10**12))


@pytest.mark.usefixtures("settled")
def test_what_was_read_is_kept_until_a_file_changes(path, folder, monkeypatch):
    (folder / "inner.h").write_text("#define INNER 1\n")
    (folder / "outer.h").write_text('#include "inner.h"\n#ifdef MORE\nint box_gone(int);\n#endif\n')

    def outer(**options):
        return nc.load(path, header=folder / "outer.h", **options)

    assert outer().INNER == 1
    with monkeypatch.context() as patch:
        patch.setattr(preprocessor, "preprocess", None)
        assert outer().INNER == 1
        with pytest.raises(TypeError):
            outer(define={"MORE": None})
    assert "box_gone" in dir(outer(define={"MORE": None}))
    assert "box_gone" not in dir(outer())
    (folder / "inner.h").write_text("#define INNER 22\n")
    assert outer().INNER == 22


@pytest.mark.usefixtures("settled")
def test_a_header_that_comes_before_another_is_read(folder, monkeypatch):
    first, second, beside = folder / "first", folder / "second", folder / "beside"
    for one in (first / "sub", second / "sub", beside):
        one.mkdir(parents=True)
    for name in ("x.h", "y.h", "sub/x.h"):
        (second / name).write_text("enum { FOUND = 1 };\n")
    (beside / "main.h").write_text('#include "y.h"\n')
    asks = '#if __has_include("z.h")\nenum { FOUND = 2 };\n#else\nenum { FOUND = 1 };\n#endif\n'
    (beside / "asks.h").write_text(asks)
    monkeypatch.setenv("CPATH", f"{first}{os.pathsep}{second}")
    for options, added in (
        ({"header": "x.h"}, first / "x.h"),
        ({"header": "sub/x.h"}, first / "sub" / "x.h"),
        ({"header": beside / "main.h", "include": second}, beside / "y.h"),
        ({"header": beside / "asks.h"}, beside / "z.h"),
    ):
        assert nc.load(None, **options).FOUND == 1
        with monkeypatch.context() as patch:
            patch.setattr(preprocessor, "preprocess", None)
            assert nc.load(None, **options).FOUND == 1
        added.write_text("enum { FOUND = 2 };\n")
        assert nc.load(None, **options).FOUND == 2, added


def test_where_headers_are_looked_for_however_they_are_named(folder, monkeypatch):
    lines = (
        b'#include "%s/a.h"',
        b" \t#\t include_next <%s/a.h>",
        b"#import<%s/a.h> // include",
        b"#if 1 && __has_include ( <%s/a.h> )\r",
        b"# elif __has_include_next(<%s/a.h>) || defined(import)",
        b'#include /* c *//**/"%s/a.h"',
        b'/* c */ %%:/**/include "%s/a.h"',
        b'#\\\n include\\\n "%s/a.h"',
    )
    names = [f"named{at}" for at in range(len(lines))]
    for name in (*names, "comment"):
        (folder / name).mkdir()
    file = folder / "x.h"
    file.write_bytes(
        b"/* \xff see #include <comment/a.h> */ int include, import;\n"
        + b"\n".join([line % name.encode() for line, name in zip(lines, names, strict=True)])
    )
    monkeypatch.setattr(searched, "_SYSTEM", ())
    found = searched.folders([str(file)], header.wanted(file, folder, {}))
    assert {*found} == {str(folder / name) for name in names} | {str(folder)}


@pytest.mark.usefixtures("settled")
def test_a_header_that_was_only_asked_for_goes(folder):
    (folder / "opt.h").touch()
    (folder / "asks.h").write_text('#if __has_include("opt.h")\nint abs(int);\n#endif\n')
    assert "abs" in dir(nc.load(None, header=folder / "asks.h"))
    (folder / "opt.h").unlink()
    assert "abs" not in dir(nc.load(None, header=folder / "asks.h"))


def test_other_places_that_headers_are_looked_for_in(folder, monkeypatch):
    for name in ("told", "quoted", "second"):
        (folder / name).mkdir()
    (folder / "second" / "opt.h").touch()
    (folder / "asks.h").write_text("#if __has_include(<opt.h>)\n#endif\n")
    (folder / "told" / "link.h").symlink_to(folder / "other" / "target.h")
    (folder / "linked").symlink_to(folder / "other")
    options = f"-I {folder / 'told'} -O2 -iquote{folder / 'quoted'}"
    monkeypatch.setenv("CC", f"{COMPILER[0]} {options} -I")
    wanted = header.wanted("link.h", (folder / "second", folder / "linked"), {})
    found = searched.folders([str(folder / "asks.h")], wanted)
    # Of a link that leads nowhere nothing is kept.
    places = ("told", "quoted", "second", "linked", "told/link.h", "second/opt.h")
    assert {*found} == {str(folder / name) for name in places}
    assert header._changed_since(0, {name: header.stamp(name) for name in found})


@pytest.mark.usefixtures("settled")
def test_a_header_of_the_same_size_and_time_is_another(folder, monkeypatch):
    for name, value in (("a", 1), ("b", 2)):
        (folder / name).mkdir()
        (folder / name / "x.h").write_text(f"enum {{ VALUE = {value} }};\n")
        os.utime(folder / name / "x.h", ns=(10**18, 10**18))
    for name, value in (("a", 1), ("b", 2)):
        monkeypatch.chdir(folder / name)
        found = nc.load(None, header="./x.h")
        assert value == found.VALUE
    assert nc.load(None, header=folder / "a" / "x.h").VALUE == 1
    os.replace(folder / "b" / "x.h", folder / "a" / "x.h")
    assert nc.load(None, header=folder / "a" / "x.h").VALUE == 2


def test_a_header_that_changes_while_it_is_read_is_not_kept(folder, monkeypatch):
    file = folder / "x.h"
    file.write_text("enum { VALUE = 1 };\n")
    read = preprocessor.preprocess

    def preprocess(*given):
        found = read(*given)
        file.write_text("enum { VALUE = 2 };\n")
        return found

    with monkeypatch.context() as patch:
        patch.setattr(preprocessor, "preprocess", preprocess)
        assert nc.load(None, header=file).VALUE == 1
    assert nc.load(None, header=file).VALUE == 2


def test_a_changed_header_has_its_own_types(folder):
    file = folder / "x.h"
    file.write_text("struct q { int x; }; typedef int number; enum { N = 4 };\n")
    before = nc.load("m", header=file)
    assert before.ffi.sizeof("struct q") == 4
    file.write_text("struct q { int x[4000]; }; typedef double number; enum { N = 5 };\n")
    after = nc.load("m", header=file)
    assert after.ffi.sizeof("struct q") == 16000
    assert after.function("fabs", "number (number)")(-0.5) == 0.5
    assert (len(before.new("int[N]")), len(after.new("int[N]"))) == (4, 5)


def test_a_restriction_to_names_leaves_the_types(folder):
    file = folder / "x.h"
    text = "enum e { N = 4 }; struct q { int x[N]; }; double cos(double); double sin(double);\n"
    file.write_text(text)
    some = nc.load("m", header=file, only="cos")
    others = nc.load("m", header=file, only="sin")
    whole = nc.load("m", header=file)
    assert some.types.q is others.types.q is whole.types.q
    for one in (some, others, whole):
        assert len(one.new("int[N]")) == 4
    assert [hasattr(one, "N") for one in (some, others, whole)] == [False, False, True]


def test_headers_that_are_not_found(path, folder, monkeypatch):
    with pytest.raises(nc.LibraryError, match=r"header '.*' is a folder; name the file in it"):
        nc.load("m", header=folder)
    with pytest.raises(nc.LibraryError, match=r"header 'no_such.h' is not found; install"):
        nc.load(path, header="no_such.h")
    (folder / "outer.h").write_text("\n#include <no_such.h>\n")
    with pytest.raises(
        nc.LibraryError, match=r"'no_such.h' is not found, which .*outer.h' .*line 2"
    ):
        nc.load(path, header="outer.h", include=folder)
    monkeypatch.chdir(folder)
    with pytest.raises(nc.LibraryError, match=r"in the current folder write './outer.h'"):
        nc.load(path, header="outer.h")
    assert nc.load(path, header="./box.h").box_square(2) == 4.0


def test_headers_that_include_each_other(path, folder):
    (folder / "a.h").write_text('#include "b.h"\n')
    (folder / "b.h").write_text('#include "a.h"\n')
    with pytest.raises(nc.SignatureError, match="headers include each other without end"):
        nc.load(path, header=folder / "a.h")


def test_headers_that_need_defines(path, folder):
    (folder / "needs.h").write_text(
        "#ifndef WIDTH\n#error define WIDTH\n#endif\nint box_negated(int);"
    )
    with pytest.raises(
        nc.SignatureError,
        match=r"define WIDTH, at line 2, column 2 of .*needs.h'; "
        r"pass macros that a header needs in 'define'",
    ):
        nc.load(path, header=folder / "needs.h")
    assert nc.load(path, header=folder / "needs.h", define={"WIDTH": 8}).box_negated(8) == -8


@pytest.mark.parametrize(
    ("text", "bracket", "line"),
    [
        ("int box_negated(int);\nint box_hidden(int;\nint box_later(long);\n", "(", 2),
        ("struct half { int a;\nint box_negated(int);\n", "{", 1),
        ("int box_negated(int);\nint table[3;\n", "[", 2),
    ],
)
def test_brackets_that_are_never_closed(path, folder, text, bracket, line):
    (folder / "open.h").write_text(text)
    for only in (None, "box_negated"):
        with pytest.raises(nc.SignatureError) as info:
            nc.load(path, header=folder / "open.h", only=only)
        where = f"at line {line} of {str(folder / 'open.h')!r}"
        assert str(info.value) == f"{bracket!r} is never closed, {where}"


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"header": 3}, TypeError, "'header' must be a str, a path or several"),
        ({"header": []}, ValueError, "'header' must name at least one header"),
        ({"header": 'a"\n.h'}, ValueError, "'header' must be the name or path of a header"),
        ({"header": "a.h", "include": 3}, TypeError, "'include' must be a str"),
        ({"header": "a.h", "define": {"a b": 1}}, ValueError, "'define' must name macros"),
        ({"header": "a.h", "define": 3}, TypeError, r"'define' must be a mapping \(got int\)"),
        ({"header": "a.h", "define": {"A": 2.5}}, TypeError, r"None \(got float for 'A'\)"),
        ({"header": "stddef.h", "only": [3]}, TypeError, "'only' must be names or patterns"),
        ({"header": "stddef.h", "only": 3}, TypeError, r"names or patterns \(got int\)"),
        (
            {"header": "a.h", "declarations": "int f(void);"},
            TypeError,
            "one of 'declarations', 'header'",
        ),
        ({"skip": True}, TypeError, "one of 'declarations', 'header'"),
    ],
)
def test_options_that_make_no_sense(path, options, error, message):
    with pytest.raises(error, match=message):
        nc.load(path, **options)


@pytest.fixture
def without_compiler(monkeypatch):
    without_any(monkeypatch)


PACKED = (
    *("#pragma pack(1)", "# pragma pack(1)", "#\tpragma pack(1)", "  #pragma\tpack(1)"),
    *('_Pragma("pack(1)")', "#pragma \\\n pack(1)", "#pragma pack(0x1)"),
    "#pragma pack(push, a, 1u)",
    *('#define P _Pragma("pack(1)")\nP', '#pragma pack(1)\n#pragma\n_Pragma("GCC poison x")'),
)


def test_pragmas_of_texts_are_read_as_they_may_be_written(without_compiler):
    lines = [
        f"{pragma}\nstruct packed{at} {{ char c; int i; }};\n#pragma pack()\n"
        for at, pragma in enumerate(PACKED)
    ]
    text = "".join(lines) + "struct plain { char c; int i; };\n"
    for found in (nc.load(None, text), nc.load(None, text, skip=True)):
        sizes = [found.ffi.sizeof(f"struct packed{at}") for at in range(len(PACKED))]
        assert sizes == [5] * len(PACKED)
        assert found.ffi.sizeof("struct plain") == 8


def test_directives_of_a_text_as_they_may_be_written(without_compiler):
    text = '# 3 "foo"\n#warning B\n%:define A 3\n  #\tdefine\tB\t4\n#pragma\nint abs(int);\n'
    found = nc.load(None, text, skip=True)
    assert (found.A, found.B, found.abs(-2)) == (3, 4, 2)
    packed = "# pragma pack(push, 1)\nstruct packed { char c; int i; };\n#pragma pack(pop)"
    found = nc.load(None, packed + "\nstruct plain { char c; int i; };", skip=True)
    assert (found.ffi.sizeof("struct packed"), found.ffi.sizeof("struct plain")) == (5, 8)


def test_a_header_needs_a_compiler(path, without_compiler):
    with pytest.raises(nc.LibraryError, match=r"needs a C compiler.* need none"):
        nc.load(path, header="stddef.h", define={"OTHER": 1})


#: Texts and what is asked of them: a text, one with `skip`, and a header say the same.
ALIKE = {
    "#define N 10\nenum { A = N };\n#define N 11\nenum { B = N };": {"(lib.A, lib.B)": (10, 11)},
    "#ifdef N M\n#else\n#define N\n#undef N M\n#ifndef N M\nint abs(int);\n#endif\n#endif": {
        "lib.abs(-2)": 2
    },
    "int abs [[gnu::const]] (int) [[gnu::pure]];": {"lib.abs(-2)": 2},
    "int abs(); int abs(int); int abs();": {"lib.abs(-2)": 2},
    "int abs(int x), abs(int y); typedef int a; typedef int a;": {"lib.abs(-2)": 2},
    "extern int a[]; extern int a[4]; extern int a[]; enum { X = sizeof(__typeof__(a)) };": {
        "lib.X": 16
    },
    "extern const int x; const int x = 3; extern const int x;": {"lib.x": 3},
    "typedef __int128 big; struct s { big a; }; int abs(int);": {"lib.abs(-2)": 2},
    '_Static_assert(sizeof(long) == 8, "long"); struct s { int a; _Static_assert(1); int b; };': {
        "lib.ffi.sizeof('struct s')": 8
    },
    "enum e : unsigned char { A = 255 }; enum { B = 2147483647, C };": {
        "(lib.A, lib.C, lib.ffi.sizeof('enum e'))": (255, 2**31, 1)
    },
    "bool abs(int8_t, size_t *, FILE *);": {"len(lib.declarations.rows)": 1},
    "int abs(int (*)[*], int (*f)(int f));": {"len(lib.declarations.rows)": 1},
    "#define N 10\nstruct s { int a[N]; };": {"lib.ffi.sizeof('struct s')": 40},
    '#define A 1\n#define B (A + 2)\n#define S "x" "y"\nenum { C = B, D };': {
        "lib.B": 3,
        "lib.S": b"xy",
        "lib.D": 4,
    },
    "#define F 0x1p-1f\n#define BIG 18446744073709551615u\nstatic const float X = 12.5;": {
        "lib.F": 0.5,
        "lib.BIG": 2**64 - 1,
        "lib.X": 12.5,
    },
    "#define API extern\n#define NOTHING\nAPI int NOTHING abs(int)\n;": {"lib.abs(-2)": 2},
    "#define INT LONG\n#define LONG long\nstruct s { INT a; };": {"lib.ffi.sizeof('struct s')": 8},
    "#define abs abs\n#define other abs\nint abs(int);": {"lib.abs(-2)": 2, "lib.other(-3)": 3},
    "#define A 1\n#undef A\n#define A 2\nenum { B = A };": {"lib.A": 2, "lib.B": 2},
    "#define SHIFT(x) (1 << (x))\n#define N 3\nint abs(int);": {"lib.N": 3, "lib.abs(-1)": 1},
    "#define N 08\n#define HUGE 0x10000000000000000\nint abs(int);": {"lib.abs(-1)": 1},
    "#if defined(__linux__) || defined __APPLE__\nenum { U = 1 };\n#elif defined(_WIN32)\n"
    "enum { U = 2 };\n#else\nenum { U = 3 };\n#endif": {"lib.U": 1},
    "#define V 30200\n#if V >= 30000 && V % 100 == 0 && !defined(W)\nenum { U = 1 };\n#else\n"
    "#error no\n#endif\n#ifndef V\n#if 0\n#else\n'\"#\n#endif\n#endif": {"lib.U": 1},
    '#ifdef __cplusplus\nextern "C" {\n#endif\nint abs(int);\n#ifdef __cplusplus\n}\n#endif': {
        "lib.abs(-2)": 2
    },
    "#if 0xFFFFFFFF + 1 > 0 && -1 < 0u == 0 && __SIZEOF_POINTER__ == 8 && NAME == 0\n"
    "enum { U = 1 };\n#endif": {"lib.U": 1},
    "#if 1 ? 2 : 1/0\nenum { U = sizeof(long) };\n#endif /* a\n#if */": {"lib.U": 8},
    "struct s { char a; int b __attribute__((packed)); };": {"lib.ffi.sizeof('struct s')": 5},
    "struct s { char a; } __attribute__((aligned(16)));": {"lib.ffi.sizeof('struct s')": 16},
    "struct s { char a; _Alignas(8) char b; };": {"lib.ffi.sizeof('struct s')": 16},
    "enum e { A } __attribute__((packed));": {"lib.ffi.sizeof('enum e')": 1},
    'int minus(int) __asm__("abs");': {"lib.minus(-2)": 2},
    "static inline int one(int x) { return x + 1; }": {"lib.one(2)": 3},
    "int two(int x) { return x + 2; }\nint abs(int);": {"lib.two(2)": 4, "lib.abs(-1)": 1},
    "#pragma pack(1)\nstruct s { char c; int i;\n#pragma pack(2)\n};": {
        "lib.ffi.sizeof('struct s')": 6
    },
    "#pragma pack(1)\n#pragma pack(push, a, 0)\nstruct s { char c; int i; };\n"
    "#pragma pack(pop, a)\n#pragma pack(1 + 1)\n#pragma pack(pop, 4)\n#pragma pack(show)\n"
    "struct t { char c; int i; };": {
        "lib.ffi.sizeof('struct s')": 8,
        "lib.ffi.sizeof('struct t')": 5,
    },
    "typedef void (*any)(); struct s { any f; }; int abs(int);": {
        "lib.new('struct s *', {'f': lib.abs}).f == lib.ffi.cast('void *', lib.abs.address())": True
    },
}


@pytest.mark.parametrize("text", ALIKE)
def test_a_text_and_a_header_say_the_same(folder, text):
    (folder / "alike.h").write_text(text)
    for lib in (
        nc.load(None, text),
        nc.load(None, text, define={"OTHER": 1}),
        nc.load(None, text, skip=True),
        nc.load(None, header=folder / "alike.h"),
    ):
        assert {ask: eval(ask, {"lib": lib}) for ask in ALIKE[text]} == ALIKE[text]


#: Texts with a fault, and a part of what is said of it.
FAULTS = {
    "int abs(int)": "expected ';', found the end",
    "int abs int;": "expected ';', found 'int'",
    "int abs(int) int labs(long);": "expected ';', found 'int'",
    "int abs(int) nogil;": "expected ';', found 'nogil'",
    "int abs(int)@;": "expected ';', found '@'",
    "int abs(int) , ;": "expected a name or ';', found ';'",
    "int abs(int));": "found '[)]'|unexpected '[)]'",
    "int abs(int) = 3;": "expected ';', found '='",
    "typedef int a b;": "expected ';', found 'b'",
    "int abs(int); int abs(long);": "'abs' was declared as 'int (int)' before",
    "int abs(int); void abs(int); int abs(int);": "'abs' was declared as 'int (int)' before",
    "int abs(int); int labs(int), abs(long);": "'abs' was declared as 'int (int)' before",
    "int abs(); int abs(long); int abs(int);": "'abs' was declared as 'int (long)' before",
    "int abs(int (*)(char *)); int abs(int (*)(const char *));": "'abs' was declared as",
    "extern int x; extern long x;": "'x' was declared as 'int' before",
    "extern const int x; extern int x;": "'x' was declared as 'const int' before",
    "extern int a[3]; extern int a[4];": "'a' was declared as 'int [3]' before",
    "extern int a[]; extern int a[4]; extern int a[3];": "'a' was declared as 'int [4]' before",
    "typedef int a; typedef long a; a abs(a);": "'a' was declared as 'int' before",
    "typedef int *p; typedef const int *p;": "'p' was declared as 'int *' before",
    "typedef struct { int a; } s; typedef struct { int a; } s;": "'s' was declared as",
    "typedef int abs; int abs(int);": "'abs' was declared as 'int' before",
    "int abs(int); extern int abs;": "'abs' was declared as 'int (int)' before",
    "enum { abs }; int abs(int);": "'abs' is already declared as a constant",
    "int abs(int); enum { abs };": "'abs' is already declared",
    "enum { A }; enum { A };": "'A' is already declared",
    "enum e { A }; enum e { B };": "'enum e' is already declared with a body",
    "struct s { int a; }; struct s { int b; };": "struct 's' is already declared with a body",
    "struct s { int a; }; union s { int b; };": "struct 's' is already declared",
    "struct s; enum s { A };": "struct 's' is already declared",
    "struct;": "expected a name or '{', found ';'",
    "enum e { };": "expected an enumerator, found '}'",
    "enum e : unsigned char { A = 255, B };": "256 is out of range for the type of the enum",
    "enum e : signed char { A = -129 };": "-129 is out of range for the type of the enum",
    "enum e { A = 9223372036854775807, B };": "9223372036854775808 is out of range for the type "
    "of the enum",
    "enum e : float { A };": "the type of an enum must be an integer",
    "_Static_assert(0);": "a static assertion fails",
    '_Static_assert(sizeof(long) == 4, "no " "long");': 'a static assertion fails: "no "',
    "_Static_assert;": "expected '(', found ';'",
    'struct s { int a; _Static_assert(sizeof(int) == 5, "x"); };': 'a static assertion fails: "x"',
    "struct s { int a __attribute__((aligned(1 << 29))); };": "a power of two, at most 2**28",
    "extern int x[2][];": "an array's elements have no known size",
    "int abs(int x[][]);": "an array's elements have no known size",
    "int abs(static int a);": "'static' does not apply to a parameter",
    "int abs(int a, int a);": "there is already a parameter 'a'",
    "int abs(...);": "'...' must come last in a function's arguments, after others",
    "int abs(unknown x);": "unknown type name 'unknown'",
    "int abs(__int128 x);": "type '__int128' is not supported",
    "typedef int v __attribute__((mode(XX))); int kept(int);": "mode 'XX' is not supported",
    "int abs(int); int labs(long;": "is never closed",
    'extern "C" { int abs(int);': "'{' is never closed",
    "#define 3": "must name a macro|must be identifiers",
    "#ifdef\n#endif": "must name a macro|no macro name",
    "#if 1\n#else\n#else\n#endif": "#else'? after '?#else",
    "#unknown": "is not a directive|invalid preprocessing directive",
    "#if 1 +\n#endif": "cannot be computed|no right operand",
}


@pytest.mark.compiler
@pytest.mark.parametrize("text", FAULTS)
def test_a_fault_is_raised_or_skipped_by_every_reader(folder, text):
    (folder / "faulty.h").write_text(text + "\n")
    faults = []
    for reader in (
        lambda: nc.load(None, text),
        lambda: nc.load(None, text, define={"OTHER": 1}),
        lambda: nc.load(None, text, skip=True),
        lambda: nc.load(None, header=folder / "faulty.h"),
    ):
        try:
            found = reader()
        except nc.SignatureError as error:
            faults.append(str(error))
        else:
            assert len(faults) >= 2  # both texts without `skip` raise
            faults.append(" ".join(found.skipped.values()))
            rows = found.declarations.rows
            offered = {*rows, *found.declarations.variables, *found.declarations.constants}
            assert not offered & {"abs", "x", "a", "B"}
    for fault in faults:
        assert FAULTS[text] in fault or re.search(FAULTS[text], fault)
    assert faults[0] == faults[1]


@pytest.mark.compiler
def test_what_a_text_leaves_to_a_compiler_is_said(folder):
    text = "#define A(x) x\n#define B A\nint abs(B (int) y);\nint labs(A(long));\nint A(int);"
    with pytest.raises(
        nc.SignatureError, match=r"macro 'A' has parameters and .* line 3, column 9"
    ):
        nc.load(None, text)
    skipped = nc.load(None, text, skip=True).skipped
    reason = "macro 'A' has parameters and is not expanded in declarations given as text"
    assert skipped["abs"] == skipped["labs"] == reason
    (folder / "left.h").write_text(text)
    assert nc.load(None, header=folder / "left.h").abs(-2) == 2


def _doubling(of: str) -> str:
    lines = [f"#define A{at} A{at - 1} A{at - 1}\n" for at in range(1, 40)]
    return f"#define A0 {of}\n{''.join(lines)}"


def test_macros_that_double_have_a_bound():
    begun = time.process_time()
    for skip in (None, True):
        assert nc.load(None, _doubling("x") + "int abs(int);", skip=skip).abs(-2) == 2
        assert nc.load(None, _doubling("") + "A39 int abs(int);", skip=skip).abs(-2) == 2
        assert nc.load(None, _doubling("") + "#if A39 1\nint abs(int);\n#endif").abs(-2) == 2
        for of in ("x", "A39"):
            for use in ("A39 int abs(int);", "#if A39 1\n#endif"):
                where = "macro 'A39' expands to too much at line 41, column 1"
                with pytest.raises(nc.SignatureError, match=where):
                    nc.load(None, _doubling(of) + use, skip=skip)
    assert time.process_time() - begun < 20


def test_macros_that_double_have_the_compiler_s_bound(folder, monkeypatch):
    (folder / "cc").write_text(
        "#!/bin/sh\necho 'cc1: out of memory allocating 9 bytes' >&2\nexit 1"
    )
    (folder / "cc").chmod(0o755)
    monkeypatch.setenv("CC", str(folder / "cc"))
    reason = r"cannot read the headers: cc1: out of memory .*do macros expand exponentially\?"
    with pytest.raises(nc.SignatureError, match=reason):
        nc.load(None, header=folder / "double.h")


def test_macros_in_a_long_chain():
    text = "#define A0 1\n" + "".join(f"#define A{n} A{n - 1}\n" for n in range(1, 3001))
    found = nc.load(None, text + "#if A3000\nenum { X = A3000 };\n#endif")
    assert found.X == 1


def test_what_a_header_cannot_offer_is_said_with_its_place(folder):
    lines = {
        "int abs(int);\n\nint labs(unknown x);\n": "unknown type name 'unknown', at line 3 of",
        "extern __int128 wide;": "type '__int128' is not supported, at line 1 of",
        "struct s;\nint f(\nstruct s x);": "takes a pointer, at line 2 of",
        "\n#if 1 +\n#endif": "no right operand, at line 2, column 8 of",
    }
    for at, (text, said) in enumerate(lines.items()):
        path = folder / f"place{at}.h"
        path.write_text(text)
        with pytest.raises(nc.SignatureError, match=f"{said} '{path}'"):
            nc.load(None, header=path, skip=False)


def test_what_ends_too_early_is_said(folder):
    for text in ('int abs(int) __asm__("abs', "int a[__builtin_offsetof(int"):
        (folder / "early.h").write_text(text)
        with pytest.raises(nc.SignatureError, match=r"is never closed|unexpected end"):
            nc.load(None, header=folder / "early.h")
        with pytest.raises(nc.SignatureError, match=r"is never closed|unexpected end"):
            nc.load(None, text)


def test_a_text_with_defines():
    text = "#ifdef WIDE\nenum { N = WIDTH };\n#endif"
    for skip in (None, True):
        assert nc.load(None, text, skip=skip, define={"WIDE": None, "WIDTH": 7}).N == 7


def test_enumerators_as_far_as_they_are_known(folder):
    (folder / "some.h").write_text(
        "enum big { B_ONE = 1, B_TOP = 0xffffffff00000000ULL, B_NEXT,"
        " B_MINUS = (unsigned long)-32 };\n"
        "enum { L_LEAST = -9223372036854775807LL - 1, L_SIZE = sizeof(L_LEAST) };\n"
        "typedef enum { E_FIRST = 7, E_ODD = __builtin_ctz(f(8, 9)), E_AFTER, E_GIVEN = 3, E_LAST }"
        " some;\nint abs(some);\nlong labs(enum big);\nint toupper(int);\n"
    )
    found = nc.load(None, header=folder / "some.h")
    big = (found.B_ONE, found.B_TOP, found.B_NEXT, found.B_MINUS)
    assert big == (1, 2**64 - 2**32, 2**64 - 2**32 + 1, 2**64 - 32)
    assert (found.L_LEAST, found.L_SIZE) == (-(2**63), 8)
    assert found.ffi.sizeof("enum big") == 8
    assert (found.E_FIRST, found.E_GIVEN, found.E_LAST, found.toupper(97)) == (7, 3, 4, 65)
    for name, reason in (
        ("E_ODD", "'__builtin_ctz' is not a constant"),
        ("E_AFTER", "follows 'E_ODD'"),
        (
            "abs",
            "the value of its enumerator 'E_ODD' is not known: '__builtin_ctz' is not a constant",
        ),
    ):
        with pytest.raises(nc.SymbolError, match=reason):
            found[name]


def test_a_typedef_with_an_alignment_names_a_struct_without_a_tag(folder):
    (folder / "aligned.h").write_text(
        "typedef struct { char c; int i; } wide __attribute__((aligned(32)));\n"
        "struct holder { char x; wide y; };\nint abs(wide *);\nextern wide environ;\n"
        "typedef enum { W_ONE = 1 } one __attribute__((aligned(8)));\n"
        "struct ones { char x; one y; };\nint toupper(one);\n"
    )
    found = nc.load(None, header=folder / "aligned.h")
    assert (found.ffi.sizeof("wide"), found.ffi.alignof("wide")) == (8, 32)
    assert found.ffi.sizeof("struct holder") == 64
    assert found.ffi.typeof(found.environ).item is found.types.wide
    assert found.new("struct holder", {"y": {"i": 3}}).y.i == 3
    assert (found.ffi.sizeof("struct ones"), found.toupper(found.W_ONE)) == (16, 1)
    assert found.types.one.elements == {1: "W_ONE"}


def test_macros_of_what_compilers_compute(folder):
    (folder / "values.h").write_text(
        "#define M_HUGE 1e400\n#define M_FLOAT -1e40f\n#define M_TINY 1e-400\n"
        "#define M_MINUS (1 / -0.0)\n#define M_NAN (0.0 / 0.0)\n#define M_LONG 1e400L\n"
        '#define M_CHAR ("ab" "c")[0] == 97\n#define M_B "ab"[1]\n#define M_END "ab"[2]\n'
        '#define M_BEYOND "ab"[3]\n#define M_HIGH "\\xff"[0]\n#define M_HALF 1.5f16\n'
    )
    found = nc.load(None, header=folder / "values.h")
    inf = float("inf")
    values = [found.M_HUGE, found.M_FLOAT, found.M_TINY, found.M_MINUS]
    assert values == [inf, -inf, 0, -inf]
    assert found.M_NAN != found.M_NAN
    assert (found.M_CHAR, found.M_B, found.M_END, found.M_HIGH & 255) == (1, 98, 0, 255)
    assert {name: text.rpartition(": ")[2] for name, text in found.skipped.items()} == {
        "M_LONG": "'1e400L' is out of range for a double",
        "M_BEYOND": "an index is past the end of its string",
        "M_HALF": "'1.5f16' has an unsupported type",
    }


def test_a_struct_with_a_member_twice_has_no_layout():
    found = nc.load(None, "struct twice { int a; int a; }; int abs(int);", skip=True)
    with pytest.raises(
        TypeError, match="'struct twice' is not known: there is already a member 'a'"
    ):
        found.new("struct twice", {"a": 1})


def test_headers_declare_text():
    libc = nc.load(None, header=["wchar.h", "string.h"], only=["wcslen", "str*"], encoding="utf-8")
    assert libc.wcslen("a\u20acb") == 3
    assert libc.strlen("\u20ac") == 3
    assert libc.strerror(0) is not None  # char *: it stays a pointer
    assert nc.string(libc.strstr("a=b", "=")) == b"=b"
    row = libc.declarations.rows["wcslen"]
    assert row[3] == ("wchar_t", "")


def test_infinities_of_all_floats_are_constants():
    m = nc.load("m", header="math.h", only=["HUGE_VAL*"])
    assert m.HUGE_VAL == m.HUGE_VALF == m.HUGE_VALL == float("inf")


def test_an_inline_function_of_a_header_that_has_changed(folder):
    header = folder / "changing.h"
    header.write_text("static inline int one(int x) { return x + 1; }\n")
    lib = nc.load(None, header=str(header))
    header.write_text("static inline int one(int *x) { return *x + 100; }\n")
    with pytest.raises(nc.SymbolError, match="has changed since it was read; load the library"):
        lib.one


@pytest.mark.usefixtures("settled")
def test_a_header_that_is_kept_needs_no_compiler(path, folder, monkeypatch):
    nc.load(path, header="box.h", include=folder)
    for command in ("", "/no/such/compiler"):
        monkeypatch.setenv("CC", command)
        monkeypatch.setenv("PATH", "")
        assert nc.load(path, header="box.h", include=folder).box_square(3) == 9.0
    with pytest.raises(nc.LibraryError, match="CC is '/no/such/compiler', but there is no such"):
        nc.load(path, header="box.h", include=folder, define={"OTHER": 1})


@pytest.mark.parametrize("command", ["true", "false"])
def test_a_compiler_that_says_nothing_is_named(folder, monkeypatch, command):
    monkeypatch.setenv("CC", command)
    with pytest.raises(nc.NativeCallError, match=f"{command}' (is not a C|cannot read the head)"):
        nc.load(None, header="box.h", include=folder)


@pytest.mark.parametrize("in_text", [False, True])
@pytest.mark.parametrize(
    ("first", "next_"),
    [("#define A0 1", "(A{0}+A{0})"), ("#define A0", "A{0} A{0}"), ("#define A0 1", "A{0}")],
)
def test_macros_without_end(folder, first, next_, in_text):
    count = 2000 if next_ == "A{0}" else 40
    lines = [f"#define A{at} {next_.format(at - 1)}" for at in range(1, count)]
    text = "\n".join([first, *lines, "int abs(int);\n"])
    (folder / "macros.h").write_text(text)
    lib = (
        nc.load(None, text, skip=True)
        if in_text
        else nc.load(None, header="macros.h", include=folder)
    )
    assert lib.abs(-1) == 1
    if next_ == "A{0}":
        assert lib.A1999 == 1
    elif "+" in next_:
        assert lib.A3 == 8
        reason = "a macro that is not a constant: macro 'A39' expands to too much"
        assert lib.skipped["A39"] == reason


def test_packing_that_no_compiler_takes_is_ignored(folder):
    text = "#pragma pack(push, 3)\nstruct s { char c; int i; };\n"
    text += "#pragma pack(2)\nstruct t { char c; int i; };\n"
    (folder / "odd.h").write_text(text)
    lib = nc.load(None, header="odd.h", include=folder)
    assert (lib.ffi.sizeof("struct s"), lib.ffi.sizeof("struct t")) == (8, 6)


def test_a_header_with_character_types_of_its_own(folder):
    text = "typedef unsigned short wchar_t; typedef long char16_t; "
    text += "struct s { wchar_t a; char16_t b; };"
    (folder / "own.h").write_text(text)
    for lib in (nc.load(None, header="own.h", include=folder), nc.load(None, text)):
        made = lib.new("struct s *", {"a": 0x41, "b": -1})
        assert (made.a, made.b, lib.ffi.sizeof("struct s")) == (0x41, -1, 16)


WRITTEN = """
int one(); int *made(); typedef void (*generic)(); int has(generic g); generic same(generic g);
int größe(int ä); struct ß <% int ä; %>; int first(struct ß s); enum { ÄB = 3 };
extern int numbers<:2:>;
double trace(int n, double a[n][n]); double behind(int n, double (*a)[n]);
double cube(int n, double a[n][2][3]);
"""
WRITTEN_IN_C = """
static int x = 5;
int one() { return 1; }
int *made() { return &x; }
int has(void (*g)()) { return g != 0; }
void *same(void *g) { return g; }
int gr\\u00f6\\u00dfe(int x) { return x; }
struct s { int a; };
int first(struct s s) { return s.a; }
int numbers[2] = {1, 2};
double trace(int n, double *a) { return a[0] + a[n + 1]; }
double behind(int n, double *a) { return a[n]; }
double cube(int n, double *a) { return a[n * 6 - 1]; }
"""


@pytest.mark.parametrize("reader", ["header", "text", "lenient text"])
def test_every_reader_reads_what_c_allows(builder, folder, reader):
    flags = ("-O1", "-Wno-pedantic", "-Wno-missing-prototypes")
    path = builder.library(WRITTEN_IN_C.replace("\\\\", "\\"), "written", flags=flags)
    (folder / "written.h").write_text(WRITTEN, encoding="utf-8")
    lib = {
        "header": lambda: nc.load(path, header="written.h", include=folder),
        "text": lambda: nc.load(path, WRITTEN),
        "lenient text": lambda: nc.load(path, WRITTEN, skip=True),
    }[reader]()
    assert (lib.one(), lib.made()[0], lib.has(None)) == (1, 5, 0)
    assert (lib.größe(ä=2), lib.first((4,)), lib.ÄB, [*lib.numbers]) == (2, 4, 3, [1, 2])
    square = np.arange(4.0).reshape(2, 2)
    assert (lib.trace(2, square), lib.behind(2, square)) == (3.0, 2.0)
    assert lib.cube(2, np.arange(12.0).reshape(2, 2, 3)) == 11.0
    assert lib.same.signatures == ("P:P",)
    with pytest.raises(TypeError, match=r"takes (exactly 0|no) arguments"):
        lib.one(1)


def test_packing_without_effect_is_none(builder):
    text = "#pragma pack(1)\ntypedef struct { unsigned char r, g, b; } rgb;\n#pragma pack()\n"
    text += "int sum(rgb);"
    body = "int sum(rgb x) { return x.r + x.g + x.b; }"
    lib = nc.load(builder.library(f"{text}\n{body}", "rgb"), text)
    assert lib.sum.signatures == ("i:T{BBB}",)
    assert lib.sum((1, 2, 3)) == lib.sum(lib.new("rgb *", (1, 2, 3))[0]) == 6


def test_bytes_for_an_array_of_characters(builder):
    text = "typedef struct { char name[8]; int n; } who; int length(who w);"
    body = "int length(who w) { return (int)strlen(w.name) + w.n; }"
    lib = nc.load(builder.library(f"#include <string.h>\n{text}\n{body}", "who"), text)
    assert lib.length((b"abc", 10)) == lib.length({"name": bytearray(b"ab"), "n": 11}) == 13
    assert lib.length((b"", 1)) == 1
    with pytest.raises(ValueError, match=r"must have at most 8 bytes \(got 9\)"):
        lib.length((b"123456789", 0))
