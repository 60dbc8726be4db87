"""C declarations: what is read, what is refused and where, and the way to cffi and back."""

from __future__ import annotations

import gc
import itertools
import random
import re
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cffi
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import nativecall as nc
from nativecall._cdecl import cffitype as ffitype
from nativecall._cdecl.cffitype import from_ffi, to_ffi
from nativecall._cdecl.spelling import parse, parse_type
from nativecall._cdecl.texts import parse_declarations, parse_function
from nativecall._errors import SignatureError
from nativecall._fifo import Cache
from nativecall._lib import ffi
from nativecall._types.ctype import scalar
from nativecall._types.derived import Struct, pointer
from nativecall._types.signature import Signature
from support import build, compilecache
from support.declared import type_of
from support.threads import each

CHAR = scalar("c").text
WORD = scalar("n").text
LONG = scalar("l").text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("double (double, float *)", "d:d&f"),
        ("double f(double x, const float *y);", "d:d&f"),
        ("extern double cos(double)", "d:d"),
        ("static inline double cos(double);", "d:d"),
        ("void f(void)", "v:"),
        ("double (*)(int)", "d:i"),
        ("double (*f)(int)", "d:i"),
        ("int printf(const char *restrict format, ...)", f"i:&{CHAR}."),
        ("unsigned f(long unsigned int, short int, unsigned char, signed char)", None),
        ("size_t f(ssize_t, intptr_t, uint8_t, int_least16_t)", None),
        ("bool f(_Bool)", "?:?"),
        ("float complex f(double _Complex, _Complex float *)", "Zf:Zd&Zf"),
        ("long double complex f(complex long double)", "Zg:Zg"),
        ("_Float16 f(__fp16 *)", "e:&e"),
        ("void f(double a[3], int b[static 2], char c[])", f"v:&d&i&{CHAR}"),
        ("void f(int n, double a[n], double b[][4])", "v:i&d&(4)d"),
        ("void f(FILE *, PyObject *, struct opaque *, struct opaque **)", "v:POP&P"),
        ("int (*signal(int sig, int (*func)(int)))(int)", "X{i:i}:iX{i:i}"),
        ("void qsort(void *, size_t, size_t, int (*)(const void *, const void *))", None),
        ("enum e { A = -1, B } f(enum e, enum { C = 5 } *)", "i:i&I"),
        ("struct { double x; } f(struct { float re, im; } z)", "T{d}:T{ff}"),
        ("typedef struct { double x, y; } p; p f(const p *, p);", "T{dd}:&T{dd}T{dd}"),
        ("/* one: */ double f(double) // two", "d:d"),
        ("double f(double) __attribute__((pure, nonnull(1)))", "d:d"),
        ('extern "C" double f(double);', "d:d"),
        ('extern "C" { double f(double); }', "d:d"),
        ("__declspec(dllexport) double __cdecl f(double)", "d:d"),
        ("typedef int fn(int); fn *f(fn g);", "X{i:i}:X{i:i}"),
        ("int f(union u *, volatile int *)", "i:P&i"),
        ("union u { int i; double d; }; union u f(union u *, union u [2]);", "U{id}:&U{id}&U{id}"),
        ("struct s { int n; union { int i; float f; }; }; int f(struct s);", "i:T{iU{if}}"),
        (
            "typedef struct { unsigned a : 3, : 9, b : 4; long : 0; char c; } s; s f(void);",
            f"T{{I#3B#5B#4I#4{LONG}#0{CHAR}}}:",
        ),
        ("struct s { char a; int : 9; char b; }; int f(struct s x);", f"i:T{{{CHAR}B#8B#1{CHAR}}}"),
        ("long __const f(__signed__ int)", f"{LONG}:i"),
        ("int f(\n  int a, /* a\n b */ int b)", "i:ii"),
    ],
)
def test_functions(text: str, expected: str | None) -> None:
    expected = (
        expected
        or {
            "unsigned": f"I:{LONG.upper()}hBb",
            "size_t f": f"{WORD.upper()}:{WORD}{WORD}Bh",
            "void qso": f"v:P{WORD.upper()}{WORD.upper()}X{{i:PP}}",
        }[text[:8]]
    )
    expected = parse(expected).text
    assert parse_function(text).text == expected
    assert parse(text, hint="c").text == expected


def test_names_and_const_come_along() -> None:
    parsed = parse_function(
        "void f(const double *x, double *const y, const char *const *argv, const char **v,"
        " const int a[2], const void *, int const n)"
    )
    assert parsed.names == ("x", "y", "argv", "v", "a", None, "n")
    assert parsed.readonly == (True, False, True, False, True, True, False)


def test_const_is_seen_through_typedefs() -> None:
    parsed = parse_function(
        "typedef const double cd; typedef cd *pcd; typedef double *pd; typedef double v[3];"
        "void f(pcd a, const pd b, cd *c, const v d, v e);"
    )
    assert parsed.readonly == (True, False, True, True, False)


DECLARATIONS = """
/* A header: with everything. */
#include <stdint.h>
#pragma once
#define N 0x10
#define M (-3)
#define OCTAL 010UL
extern "C" {
typedef struct point { double x, y; } point_t, *point_p;
typedef int (*compare_t)(const void *, const void *);
typedef int unary(int);
enum color { RED = 1, GREEN, BLUE = N };
enum { NEGATIVE = -5, NEXT };
struct buffer {
    char name[N];
    double m[2][3];
    struct { int a; };
    union { int u; float v; } *either;
    struct buffer *next;
    struct other *other;
};
struct other { struct buffer b; compare_t compare; };
struct forward;
union value { int a; };
typedef union value value_t;
typedef struct forward *handle_t;
static const int K = 7;
extern const double table[3];
int counter;
unary first, second;
extern unary *third;
double norm(int n, const double *restrict x), distance(point_t a, const point_p b);
double norm(int n, const double *x);
void take(struct buffer *b, enum color c, handle_t h, value_t *v);
}
"""


def test_declarations() -> None:
    declared = parse_declarations(DECLARATIONS)
    buffer = f"T{{(16){CHAR}(2,3)di&U{{if}}PP}}"
    assert {name: s.text for name, s in declared.functions.items()} == {
        "first": "i:i",
        "second": "i:i",
        "norm": "d:i&d",
        "distance": "d:T{dd}&T{dd}",
        "take": f"v:&{buffer}IP&U{{i}}",
    }
    assert list(declared.functions) == ["first", "second", "norm", "distance", "take"]
    assert declared.functions["norm"].names == ("n", "x")
    assert declared.functions["norm"].readonly == (False, True)
    assert "norm(int n" in declared.functions["norm"].written
    assert declared.constants == {
        "N": 16,
        "M": -3,
        "OCTAL": 8,
        "K": 7,
        "RED": 1,
        "GREEN": 2,
        "BLUE": 16,
        "NEGATIVE": -5,
        "NEXT": -4,
    }
    assert list(declared.constants)[-6:] == ["NEGATIVE", "NEXT", "K", "N", "M", "OCTAL"]
    types = {
        "point_t": "T{dd}",
        "point_p": "&T{dd}",
        "compare_t": "X{i:PP}",
        "unary": "X{i:i}",
        "handle_t": "P",
        "value_t": "U{i}",
        "struct buffer": buffer,
        "struct other": f"T{{{buffer}X{{i:PP}}}}",
    }
    assert {name: type_of(declared, name).text for name in types} == types
    assert type_of(declared, "struct point").field_names == ("x", "y")
    assert declared.opaque == ("struct forward",)
    assert {name: t.text for name, t in declared.variables.items()} == {
        "table": "(3)d",
        "counter": "i",
        "third": "X{i:i}",
    }
    assert repr(declared).startswith("<Declarations: 9 constants, 2 enums, 5 functions")


def test_no_declarations_are_no_error() -> None:
    assert repr(parse_declarations("  /* nothing */ ;")) == "<Declarations: none>"


@pytest.mark.parametrize(
    "text",
    [
        "struct s { char c; int a; // old \\\n char hidden;\n};",
        "struct s { char c; int a; // old \\ \t\r\n char hidden;\r\n};",
        "struct s { char c; in\\\nt a; };",
        "struct s { char c; /\\\n* int b; *\\\n/ int a; };",
        "#def\\\nine N \\\n 1\nstruct s { char c; int a[N * 1]; };",
        "#define N /* of\nints */ 1\nstruct s { char c; int/**/a[N]; };",
        "struct s <% char c;\f\v int a<:1:>; %>;",
        "%:define N 1\nstruct s { char c; int a[N]; };",
        "struct s { char c; int a; // ??/\n};",
        "struct s { char c; int \\u00e4b; };",
        "struct s { char c; int b\\U000000e4; };",
        "struct s { char c; int a; };\\",
    ],
)
def test_lines_comments_and_tokens_are_those_of_c(text: str) -> None:
    assert type_of(parse_declarations(text), "s").text in (f"T{{{CHAR}i}}", f"T{{{CHAR}(1)i}}")


@pytest.mark.parametrize(
    "text",
    [
        "#define __attribute__(x)\nstruct s { char c; int a; } __attribute__((packed));",
        "#define _Alignas(n)\nstruct s { _Alignas(16) int a; };",
        "#define __typeof__(x) char\nstruct s { __typeof__(int) a; };",
    ],
)
def test_macros_with_the_names_of_keywords_are_no_keywords(text: str) -> None:
    with pytest.raises(
        SignatureError, match="has parameters and is not expanded in declarations given as text"
    ):
        parse_declarations(text)


def test_const_variables_are_told() -> None:
    declared = parse_declarations(
        "typedef const double cd; extern const int k; extern int *const p; extern const int *q;"
        "extern cd r; extern const char s[6]; int x; extern int const volatile y[2][3];"
    )
    assert declared.readonly == {"k", "p", "r", "s", "y"}


_BASIC_WORDS = {
    *("void", "char", "short", "int", "long", "float", "double", "signed", "unsigned"),
    *("_Bool", "_Complex"),
}
_ALL_WORDS = sorted(_BASIC_WORDS) + ["const", "volatile", "static", "extern", "inline"]


def _wordings() -> list[str]:
    """Every choice of up to four words in some order, and longer ones by chance."""
    found = [words for count in (1, 2) for words in itertools.product(_ALL_WORDS, repeat=count)]
    chance = random.Random(11)
    for count in (3, 4, 5, 6, 7):
        found += [tuple(chance.choices(_ALL_WORDS, k=count)) for _ in range(40)]
    # Those that C takes, shuffled.
    for basic in ("unsigned long long int", "signed char", "long double _Complex", "short int"):
        for _ in range(20):
            words = [*basic.split(), *chance.choices(["const", "volatile", "extern"], k=2)]
            chance.shuffle(words)
            found.append(tuple(words))
    return [" ".join(words) for words in found if _BASIC_WORDS & set(words)]


def printed(program: Path) -> str:
    """What a program prints."""
    command, binary = build.compiler(), program.with_suffix("")
    if command is None:
        pytest.skip("no C compiler")
    words = [*command, "-w", "-std=gnu17", str(program), "-o", str(binary)]
    compilecache.compiled(words, binary)
    return subprocess.run([binary], capture_output=True, text=True, check=True).stdout


def _is_extension(words: set[str]) -> bool:
    """Whether GNU C may take what no standard does: complex integers."""
    return "_Complex" in words and not words & {"float", "double"}


@pytest.mark.compiler
def test_words_in_any_order_are_what_a_compiler_takes_them_for(tmp_path: Path) -> None:
    command = build.compiler()
    if command is None:
        pytest.skip("no C compiler")
    wordings = _wordings()
    names = "_Bool,c,signed char,unsigned char,short,unsigned short,int,unsigned,long"
    codes = dict(zip(names.split(","), "?cbBhHiIl", strict=True))
    codes |= {"unsigned long": "L", "long long": "q", "unsigned long long": "Q", "float": "f"}
    codes |= {"double": "d", "long double": "g", "float _Complex": "Zf", "double _Complex": "Zd"}
    codes |= {"long double _Complex": "Zg", "char": "c"}
    del codes["c"]
    cases = " ".join(f'{name}*: "{code}",' for name, code in codes.items())
    # Diagnostics have the line of each declaration; those that are taken are then asked for.
    source = tmp_path / "words.c"
    source.write_text("".join(f"{text} *f{i}(int);\n" for i, text in enumerate(wordings)))
    flags = ["-std=gnu17", "-fmax-errors=0", "-fsyntax-only", "-w"]
    asked = [*command, *flags, source]
    told = subprocess.run(asked, capture_output=True, text=True, check=False).stderr
    refused = {int(at) - 1 for at in re.findall(r"words\.c:(\d+):\d+: error", told)}
    taken = [i for i in range(len(wordings)) if i not in refused]
    lines = [
        f'printf("%d %s\\n", {i}, _Generic(f{i}(0), '
        f'{cases} void*: "v", const void*: "v", volatile void*: "v", const volatile void*: "v"));'
        for i in taken
    ]
    program = tmp_path / "taken.c"
    strip = re.compile(r"\b(?:const|volatile|static|extern|inline)\b")
    declared = "".join(
        f"static {strip.sub('', wordings[i])} *f{i}(int x) {{ (void)x; return 0; }}\n"
        for i in taken
        if not _is_extension(set(wordings[i].split()))
    )
    kept = [
        line
        for i, line in zip(taken, lines, strict=True)
        if not _is_extension(set(wordings[i].split()))
    ]
    program.write_text(
        f"#include <stdio.h>\n{declared}int main(void) {{ {chr(10).join(kept)} return 0; }}\n"
    )
    output = printed(program)
    expected = {int(i): code for i, code in (line.split() for line in output.splitlines())}
    assert len(expected) > 100
    assert len(refused) > 150
    for i, text in enumerate(wordings):
        if i in expected:
            assert parse_function(f"{text} *f(int);") == parse(
                "P:i" if expected[i] == "v" else f"&{expected[i]}:i"
            ), text
        elif i in refused:
            with pytest.raises(SignatureError):
                parse_function(f"{text} *f(int);")


def _expression(chance: random.Random, depth: int, names: list[str]) -> str:
    if depth == 0 or chance.random() < 0.2:
        numbers = ["0", "1", "7", "010", "0x1F", "3u", "0xFFFFFFFF", "2147483647", "5L", "0b101"]
        return chance.choice([*numbers, *names, "1ull", "0x80000000"])
    a, b = (_expression(chance, depth - 1, names) for _ in range(2))
    op = chance.choice(["+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^", "==", "<", "&&", "?"])
    if op == "?":
        return f"({a} ? {b} : {_expression(chance, depth - 1, names)})"
    if op in ("<<", ">>"):
        return f"(({a}) {op} {chance.randrange(31)})"
    prefix = chance.choice(["", "", "-", "~", "!"])
    return f"{prefix}({a} {op} {b})"


@pytest.mark.compiler
def test_constant_expressions_have_the_values_that_a_compiler_gives_them(tmp_path: Path) -> None:
    chance = random.Random(12)
    # One enum each; what C refuses is left out.
    kept: dict[str, str] = {}
    values: dict[str, int] = {}
    for i in range(200):
        text = _expression(chance, 3, [*kept][-3:])
        used = sorted(set(re.findall(r"E\d+", text)))
        source = "".join(f"enum {{ {name} = {values[name]} }};" for name in used)
        try:
            declared = parse_declarations(f"{source} enum {{ E{i} = {text} }};")
        except SignatureError:
            continue
        # Enumerators that do not fit an int are an extension whose type compilers differ on.
        if -(2**31) <= declared.constants[f"E{i}"] < 2**31:
            kept[f"E{i}"], values[f"E{i}"] = text, declared.constants[f"E{i}"]
    assert len(kept) > 80
    lines = "".join(f"enum {{ {name} = {text} }};\n" for name, text in kept.items())
    shown = "".join(f'printf("{name} %lld\\n", (long long){name});' for name in kept)
    program = tmp_path / "constants.c"
    program.write_text(f"#include <stdio.h>\n{lines}int main(void) {{ {shown} return 0; }}\n")
    output = printed(program)
    assert {name: int(value) for name, value in map(str.split, output.splitlines())} == values


def _member(chance: random.Random, index: int) -> tuple[str, list[str]]:
    """A declaration of members in odd spelling, and their names."""
    basic = chance.choice(
        ["char", "int unsigned", "long int long", "double const long", "short signed", "float"]
    )
    gap = chance.choice([" ", "/**/", "\\\n ", " // a \\\n b\n", "\t\f", "\r\n", "/* ;\n*/"])
    basic = basic.replace(" ", gap)
    names = [f"m{index}_{i}" for i in range(chance.randint(1, 3))]
    shapes = ["{}", "{}[2 + 1]", "*{}", "(*{})(int)", "({})", "{}<:2:>", "*const {}[2]", "{}[2][3]"]
    declarators = ", ".join(chance.choice(shapes).format(name) for name in names)
    return f"{basic}{gap}{declarators};", names


@pytest.mark.compiler
def test_odd_spellings_have_the_layout_that_a_compiler_gives_them(tmp_path: Path) -> None:
    chance = random.Random(13)
    texts, members = [], []
    for i in range(60):
        lines = [_member(chance, index) for index in range(chance.randint(1, 5))]
        texts.append(f"struct s{i} {{ {' '.join(line for line, _ in lines)} }};\n")
        members.append([name for _, names in lines for name in names])
    shown = "".join(
        f'printf("%zu {" ".join(["%zu"] * len(names))}\\n", sizeof(struct s{i}), '
        + ", ".join(f"offsetof(struct s{i}, {name})" for name in names)
        + ");\n"
        for i, names in enumerate(members)
    )
    program = tmp_path / "layouts.c"
    head = "#include <stdio.h>\n#include <stddef.h>\n"
    program.write_bytes(f"{head}{''.join(texts)}int main(void) {{\n{shown}}}\n".encode())
    output = printed(program)
    declared = parse_declarations("".join(texts))
    for i, line in enumerate(output.splitlines()):
        struct = type_of(declared, f"s{i}")
        assert [struct.size, *[field.offset for field in struct.fields]] == [
            int(number) for number in line.split()
        ], texts[i]


def test_packed_structs() -> None:
    for text in (
        "struct __attribute__((packed)) s { char c; double d; }; void f(struct s);",
        "struct s { char c; double d; } __attribute__((__packed__)); void f(struct s);",
        "typedef struct { char c; double d; } __attribute__((packed)) s; void f(s);",
        "typedef struct t { char c; double d; } __attribute__((packed)) s; void f(struct t);",
        "void f(struct { char c; double d; } __attribute__((packed)));",
    ):
        assert parse_function(text).text == f"v:=T{{{CHAR}d}}"
    result = "{ char c; double d; } __attribute__((packed))"
    both = parse_function(f"struct {result} (*f(struct {{ char c; double d; }}))(struct {result})")
    assert both.text == f"X{{=T{{{CHAR}d}}:=T{{{CHAR}d}}}}:T{{{CHAR}d}}"
    text = (
        "struct p { char c; double d; } __attribute__((packed));"
        "struct n { char c; struct p p; double d; }; void f(struct n);"
    )
    assert parse_function(text).args[0].size == 24
    assert parse_function(text).text == f"v:T{{{CHAR}=T{{{CHAR}d}}d}}"


def test_recursive_structs_end_in_void_pointers() -> None:
    declared = parse_declarations(
        "struct node { int v; struct node *next; int (*compare)(struct node *); };"
        "struct a { struct b *b; }; struct b { struct a a; int x; }; struct c { struct a *a; };"
        "void f(struct node *, struct a *, struct b *, struct c *);"
    )
    assert declared.functions["f"].text == "v:&T{iPX{i:P}}&T{P}&T{T{P}i}&T{&T{P}}"


def test_a_type_does_not_depend_on_what_is_declared_around_it() -> None:
    structs = "struct a { struct b *b; int x; }; struct b { struct a a; int y; };"
    for order in ("void f(struct a *, struct b *);", "void f(struct b *, struct a *);"):
        declared = parse_declarations(structs + order)
        assert {arg.text for arg in declared.functions["f"].args} == {"&T{Pi}", "&T{T{Pi}i}"}


def test_a_web_of_structs_is_read_in_reasonable_time() -> None:
    count = 40
    members = " ".join(f"struct s{i} *p{i};" for i in range(count))
    text = "".join(f"struct s{i} {{ int x{i}; {members} }};" for i in range(count))
    declared = parse_declarations(text + "void f(struct s0 *);")
    assert declared.functions["f"].text == f"v:&T{{i{'P' * count}}}"


def test_a_long_chain_of_structs_is_no_deep_recursion() -> None:
    count = 300
    text = "struct s0 { int x; };"
    text += "".join(f"struct s{i} {{ struct s{i - 1} *p; }};" for i in range(1, count))
    declared = parse_declarations(text + f"void f(struct s{count - 1} *, struct s3 *);")
    assert declared.functions["f"].args[1].text == "&T{&T{&T{&T{i}}}}"
    assert type_of(declared, "s3").text == "T{&T{&T{&T{i}}}}"


def test_structs_too_large_to_write_are_opaque() -> None:
    text = "struct s0 { int x, y; };"
    text += "".join(f"struct s{i} {{ struct s{i - 1} a, b; }};" for i in range(1, 40))
    declared = parse_declarations(text + "void f(struct s39 *, struct s1 *);")
    assert declared.functions["f"].text == "v:P&T{T{ii}T{ii}}"
    assert type_of(declared, "struct s39") is None
    with pytest.raises(SignatureError, match="more than 4096 characters"):
        parse_declarations(
            "struct s { struct { long double "
            + ",".join(f"x{i}" for i in range(5000))
            + "; } a; }; void f(struct s);"
        )


@pytest.mark.parametrize(
    ("text", "signature"),
    [
        ("typedef double vec[3]; double f(const vec);", "d:&d"),
        ("typedef int fn(int); int f(const fn);", "i:X{i:i}"),
        ("typedef int (*fn)(int); int f(const fn, const fn x);", "i:X{i:i}X{i:i}"),
        ("typedef int a, *b; int f(const a, const b);", "i:i&i"),
        ("typedef int (a); int f(register const a);", "i:i"),
        ("static inline int f(const bool, const int8_t)", "i:?b"),
        ("double (const float complex, double const x, char *const)", "d:Zfd&b"),
        ("int f(int (foo), const unsigned)", "i:iI"),
    ],
)
def test_qualifiers_before_types_that_are_known(text: str, signature: str) -> None:
    assert parse_function(text).text == signature


def doubled(n: int) -> str:
    """Structs of two structs each: the last one has more scalars than there is memory for."""
    pairs = [f"struct s{i} {{ struct s{i - 1} a, b; }};" for i in range(1, n)]
    return " ".join(["struct s0 { int a; };", *pairs])


def shared(n: int) -> str:
    """Typedefs of functions that take two of the typedef before."""
    pairs = [f"typedef void (*f{i})(f{i - 1}, f{i - 1});" for i in range(1, n)]
    return " ".join(["typedef void (*f0)(int);", *pairs])


def chained(n: int) -> str:
    return " ".join(["typedef int t0;", *[f"typedef t{i - 1} *t{i};" for i in range(1, n)]])


@pytest.mark.parametrize(
    ("text", "line", "position", "message"),
    [
        ("double f(double x", None, 9, "'(' is never closed"),
        ("double f(double))", None, 17, "unexpected ')'"),
        ("double f(double]", None, 16, "unexpected ']'"),
        ("double f(double,, int)", None, 17, "expected a type, found ','"),
        ("double f(,double)", None, 10, "expected a type, found ','"),
        ("foo_t f(double)", None, 1, "unknown type name 'foo_t'"),
        ("double f(foo_t)", None, 10, "declare it with typedef first"),
        ("double f(int n, foo_t *x)", None, 17, "unknown type name 'foo_t'"),
        ("double f(int,\n  foo_t x)", 2, 3, "unknown type name 'foo_t'"),
        ("/* two\nlines */ double f(foo_t)", 2, 19, "unknown type name 'foo_t'"),
        ("int f(a, b)", None, 7, "unknown type name 'a'"),
        # Old C has names of parameters where these have none, and an int where a type is missing.
        ("int f(int, time_t)", None, 12, "unknown type name 'time_t'"),
        ("int f(time_t, int)", None, 7, "unknown type name 'time_t'"),
        ("int f(int (*g)(int, foo_t))", None, 21, "unknown type name 'foo_t'"),
        ("double (foo_t)", None, 9, "unknown type name 'foo_t'"),
        ("int f(const time_t)", None, 13, "unknown type name 'time_t'"),
        ("int f(int, const time_t, int)", None, 18, "unknown type name 'time_t'"),
        ("int f(volatile time_t, int)", None, 16, "unknown type name 'time_t'"),
        ("int f(int (*)(register foo_t))", None, 24, "unknown type name 'foo_t'"),
        ("int f(const foo_t x[3])", None, 13, "unknown type name 'foo_t'"),
        ("int f(const foo_t[3])", None, 13, "unknown type name 'foo_t'"),
        ("const foo_t (int)", None, 7, "unknown type name 'foo_t'"),
        ("int f(const)", None, 7, "expected a type after 'const'"),
        ("int f(register const, int)", None, 7, "expected a type after 'const'"),
        ("double f(const __int128)", None, 10, "type '__int128' is not supported"),
        ("double", None, 1, "not a function"),
        ("int *f", None, 1, "not a function"),
        ("int f(int), g(int)", None, 1, "expected one function, found 2"),
        ("int f(int); int g(int);", None, 1, "expected one function, found 2"),
        ("typedef int a; typedef int b;", None, 1, "expected one function, found 0"),
        ("", None, 1, "no declaration found"),
        (";", None, 1, "no declaration found"),
        ("@", None, 1, "expected a type, found '@'"),
        ("int f(int x = 3)", None, 13, "expected ')', found '='"),
        ("int f(...)", None, 7, "'...' must come last in a function's arguments"),
        ("int f(int, ..., int)", None, 12, "'...' must come last in a function's arguments"),
        ("int f(int[...])", None, 11, "unexpected '...'"),
        ("int f(int[@])", None, 11, "unexpected '@'"),
        ("int f(int[3 4])", None, 13, "expected ']', found '4'"),
        ("int f(void x[3])", None, 13, "elements have no known size"),
        ("int f(int)(int)", None, 16, "a function cannot return a function"),
        ("int while(int)", None, 5, "unexpected 'while'"),
        ("double (foo_t *)", None, 9, "unknown type name 'foo_t'"),
        ("typedef int f(int)", None, 1, "a typedef is not a function"),
        ("__int128 f(int)", None, 10, "type '__int128' is not supported"),
        ("_Float16 int f(int)", None, 1, "C has no type '_Float16 int'"),
        ("int f(struct s x)", None, 16, "'s' is not declared in full"),
        ("int f(int, union u x)", None, 20, "'u' is not declared in full"),
        ("union u { int a; } __attribute__((aligned(16))); union u f(int);", None, 58, "a layout"),
        ("typedef struct { int a[]; } s; int f(s x);", None, 40, "array of unknown length"),
        ("struct s { union { int a[0]; } u; }; int f(struct s x);", None, 53, "its field 'u.a'"),
        ("struct s { int n; char a[0]; }; int f(struct s);", None, 39, "at least one element"),
        (f"{doubled(100)} int f(struct s99 x);", None, 3288, "4096 characters to write"),
        (f"{shared(40)} int f(int);", None, 276, "16384 characters with its typedefs written"),
        (f"{chained(70)} int f(t9);", None, 1162, "more than 64 levels deep, with typedefs"),
        ("int f(int) __attribute__((ms_abi))", None, 12, "attribute 'ms_abi' is not supported"),
        ("int f(int) __attribute__", None, 12, "expected '(…)' after an attribute"),
        ('int f("x")', None, 7, "expected a type, found"),
        ("int f(int) /* open", None, 12, "a comment is never closed"),
        ("int f(i\\\nnt, foo_t x)", 2, 5, "unknown type name 'foo_t'"),
        ("int f(int) /\\\n* open", 1, 12, "a comment is never closed"),
        ("long long long f(int)", None, 1, "C has no type 'long long long'"),
        ("int f(unsigned const float x)", None, 7, "C has no type 'unsigned float'"),
        ("static int extern f(int)", None, 12, "'static extern' cannot be combined"),
        ("#define 3\nint f(int);", 1, 1, "'#define' must name a macro (found '3')"),
        ("#ifdef\n#endif", 1, 1, "'#ifdef' must name a macro (found the end)"),
        ("int f(int);\n# unknown", 2, 1, "'#unknown' is not a directive"),
        ("#if 1\n#else\n#elif 1\n#endif", 3, 1, "'#elif' after '#else'"),
        ("#if 1\n#else\n#else\n#endif", 3, 1, "'#else' after '#else'"),
        ("int f(int x[3 / 0]); struct s { int x[3 / 0]; };", None, 39, "divided by zero"),
        ("enum e { A = 1 << 40 }; int f(enum e);", None, 14, "shifted by more than its width"),
        ("#if 1\nint f(int);\n", 1, 1, "'#if' is never closed"),
        ("#if 0\n#else\n#endif\n#else\nint f(int);", 4, 1, "'#else' without '#if'"),
        ("int f(int);\n#if F(1)\n#endif", 2, 1, "'F' is used as a function"),
        ("#if 1 / 0\n#endif", 1, 1, "divided by zero"),
        ("#if " + "(" * 5000 + "\n#endif", 1, 1, "'#if " + "(" * 60 + "' cannot be computed"),
        ("int f(" + "a" * 5000 + " x);", None, 7, "unknown type name 'aaaa"),
        ("#ifdef NO\n#error not read\n#endif\n# error no width\n", 4, 1, "#error no width"),
        (
            "#include <math.h>",
            None,
            1,
            "nothing is declared: #include is ignored in declarations given as text",
        ),
        ("/* */\n #  include <a.h>\n#include <b.h>\n", 2, 2, "header='math.h'"),
        ("extern # 3", None, 8, "'#' at column 8 in 'extern # 3'; a directive must begin a line"),
        ("__attribute__((pure)) # 3", None, 23, "unexpected '#'"),
        ('int f(int # 9 "x"\n, foo_t)', 1, 11, "unexpected '#'"),
        ("double f(double) # pragma once", None, 18, "unexpected '#'"),
        ("#define F(x) x\nint f(int);\nF (int g);", 3, 1, "macro 'F' has parameters"),
        ("int f(" + "(" * 70 + ")" * 70 + ");", None, 70, "nested more than 64 levels deep"),
        ("int " + "*" * 5000 + "f(int);", None, 69, "nested more than 64 levels deep"),
        ("int f(int x" + "[2]" * 5000 + ");", None, 204, "nested more than 64 levels deep"),
        ("#define N " + "1" * 5000 + "\nenum { A = N };", 2, 12, "integer 11111111… is too large"),
    ],
)
def test_errors_name_the_place_and_what_is_wrong(
    text: str, line: int | None, position: int, message: str
) -> None:
    with pytest.raises(SignatureError) as caught:
        parse_function(text)
    assert message in str(caught.value)
    assert (caught.value.line, caught.value.position) == (line, position)
    assert caught.value.text == text
    assert len(str(caught.value)) < 1300
    _without_noise(str(caught.value))


@pytest.mark.parametrize(
    ("text", "line", "position", "message"),
    [
        ("int f(int)", None, 11, "expected ';', found the end"),
        ("typedef foo bar;", None, 9, "unknown type name 'foo'"),
        ("float complex", None, 14, "expected a name or ';', found the end"),
        ("double f(double);\nint f(int);", 2, 5, "'f' was declared as 'double (double)' before"),
        ("typedef int a; typedef long a;", None, 29, "'a' was declared as 'int' before"),
        (
            "struct a { int x; }; struct a { int y; };",
            None,
            29,
            "struct 'a' is already declared with a body",
        ),
        ("enum { A, B, A };", None, 14, "'A' is already declared"),
        (
            "struct s { struct s x; };",
            None,
            8,
            "no known size: it contains itself",
        ),
        (
            "int ok(int);\nstruct s { struct t x; };",
            2,
            8,
            "its member 'x' has no known size",
        ),
        ("struct e {};int f(struct e);", None, 19, "at least one field"),
        ("int f(int); int f;", None, 17, "'f' was declared as 'int (int)' before"),
        ("enum e { A }; enum e { B };", None, 20, "'enum e' is already declared with a body"),
        ("enum { A }; int A;", None, 17, "'A' is already declared as a constant"),
        ("struct s { double x : 2; };", None, 24, "a bit-field must be an integer"),
        ("struct s { _Bool b : 2; };", None, 23, "the bit-field 'b' has 2 bits"),
        ("struct s { int x : 0; };", None, 21, "the bit-field 'x' has 0 bits"),
        ("struct s { static int x; };", None, 12, "'static' does not apply to a member"),
        (
            "struct s { int n; int d[]; int e; };",
            None,
            28,
            "of unknown length must be the last member of a struct",
        ),
        ("struct s { _Alignas(3) int x; };", None, 21, "a power of two, at most 2**28 (found 3)"),
        ("struct s { int x; } __attribute__((aligned(-8)));", None, 44, "a power of two"),
        ("struct s { int a, *a; };", None, 20, "there is already a member 'a'"),
        (
            "struct s { int a; union { int b; int a; }; };",
            None,
            19,
            "there is already a member 'a'",
        ),
        ("struct s { struct { int : 3; int a; }; int a; };", None, 44, "already a member 'a'"),
    ],
)
def test_errors_in_declarations_name_the_place(
    text: str, line: int | None, position: int, message: str
) -> None:
    with pytest.raises(SignatureError) as caught:
        parse_declarations(text)
    assert message in str(caught.value)
    assert (caught.value.line, caught.value.position) == (line, position)
    _without_noise(str(caught.value))


def test_expressions_are_as_long_as_they_are() -> None:
    assert parse_function("int f(int x[" + "1+" * 5000 + "1]);").lengths == (5001,)
    with pytest.raises(SignatureError, match="nested too deeply") as caught:
        parse_function("int f(int x[" + "(int)" * 5000 + "1]);")
    assert caught.value.position is not None


def _without_noise(message: str) -> None:
    for noise in ("cdef", "cffi", "pycparser", "__nc", "dotdotdot", "http"):
        assert noise not in message, message


@pytest.mark.parametrize("text", [b"int f(int)", None, 3])
def test_what_is_not_text_is_a_type_error(text: object) -> None:
    with pytest.raises(TypeError, match="must be str"):
        parse_function(text)
    with pytest.raises(TypeError, match="must be str"):
        parse_declarations(text)


WORDS = """
int double char void const struct union enum typedef unsigned long complex bool foo x y f g ( ) {
} [ ] * , ; : = ... 3 0x10 " ' # /* */ // static extern @ __attribute__ ((packed)) size_t restrict
#define N float ~ - +
"""
tokens = st.sampled_from(["\n", *WORDS.split()])


@settings(max_examples=2 * settings().max_examples)
@given(st.lists(tokens, max_size=14))
@example(["struct", "struct", "{", "int", "x", ";", "}", ";"])
@example(["extern", "#", "3"])
@example(["#define", "N", "3", "\n", "int", "f", "(", "int", "[", "N", "]", ")"])
def test_any_run_of_tokens_is_read_or_refused(words: list[str]) -> None:
    text = " ".join(words)
    for read in (parse_function, parse_declarations):
        try:
            read(text)
        except SignatureError as error:
            if error.position is None or error.text != text:
                raise AssertionError(f"{text!r} is refused without a place") from error
            _without_noise(str(error))


def test_from_ffi_gives_signatures_for_functions() -> None:
    made = cffi.FFI()
    made.cdef("struct s { char c; double d; }; enum e { A, B };")
    assert from_ffi(made.typeof("double(*)(int, struct s *, ...)")) == parse("d:i&T{cd}.")
    assert isinstance(from_ffi(made.typeof("void(*)(void)")), Signature)
    assert from_ffi(made.typeof("enum e")).text == "I"
    assert from_ffi(made.typeof("int(**)(int)")).text == "&X{i:i}"
    assert from_ffi(made.typeof("struct unknown *")).text == "P"
    assert from_ffi(made.typeof("struct s")).named == f"T<struct s>{{{CHAR}:c:d:d:}}"


def test_from_ffi_does_not_take_complex_functions_for_variadic() -> None:
    made = cffi.FFI()
    one = made.typeof("double _Complex(*)(float _Complex)")
    assert one.ellipsis  # what makes this test necessary
    assert from_ffi(one).text == "Zd:Zf"
    other = made.typeof("double _Complex(*(*)(float _Complex))(float _Complex, ...)")
    assert from_ffi(other).text == "X{Zd:Zf.}:Zf"


def test_from_ffi_sees_packed_structs() -> None:
    made = cffi.FFI()
    made.cdef("struct s { char c; double d; };", packed=True)
    assert from_ffi(made.typeof("struct s")).text == f"=T{{{CHAR}d}}"
    other = cffi.FFI()
    other.cdef("struct s { char c; double d; };", pack=2)
    with pytest.raises(SignatureError, match="struct 's' has a layout that no signature"):
        from_ffi(other.typeof("struct s"))


def test_from_ffi_refuses_what_has_no_type_here() -> None:
    made = cffi.FFI()
    made.cdef("struct s;")
    for text in ("struct s", "int[]"):
        with pytest.raises(SignatureError):
            from_ffi(made.typeof(text))


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("d", "double"),
        ("&d", "double *"),
        ("&(2,3)f", "float(*)[2][3]"),
        ("X{i:&d.}", "int32_t(*)(double *, ...)"),
        ("?", "_Bool"),
        ("e", "uint16_t"),
        ("O", "void *"),
        ("&O", "void * *"),
        ("[2]d", "void *"),
        ("v", "void"),
    ],
)
def test_to_ffi(text: str, spelled: str) -> None:
    assert to_ffi(parse_type(text)).cname == spelled
    assert to_ffi(parse_type(text)) is to_ffi(parse_type(text))


def test_to_ffi_makes_structs_that_work() -> None:
    struct = parse_type("T{d:x:T{i(2)b}=T{bd}:int:}")
    assert isinstance(struct, Struct)
    made = ffi.new(to_ffi(pointer(struct)), {"x": 1.5, "f1": (3, [4, 5])})
    made.int.f1 = 2.5  # a keyword in C
    assert (made.x, made.f1.f0, made.f1.f1[1], made.int.f1) == (1.5, 3, 5, 2.5)
    assert ffi.sizeof(to_ffi(struct)) == struct.size
    assert to_ffi(parse_type("T{d:x:}")) is not to_ffi(parse_type("T{d:y:}"))


def test_to_ffi_of_a_signature_is_a_pointer_to_a_function() -> None:
    subtract = ffi.callback(to_ffi(parse("i:ii")), lambda a, b: a - b)
    address = int(ffi.cast("intptr_t", subtract))
    assert ffi.cast(to_ffi(parse("i:ii").function), address)(7, 3) == 4


@pytest.mark.parametrize(
    "text", ["d:d", "T{d:x:}:&T{(2)i}X{v:P.}", "v:&&(2)d?", "=T{bd}:Zf", f"{CHAR}:hHiIqQg"]
)
def test_signatures_go_to_cffi_and_back(text: str) -> None:
    assert from_ffi(to_ffi(parse(text))) == parse(text)


def test_types_of_cffi_that_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limited number is kept; objects of a type need no more than that."""
    monkeypatch.setattr(ffitype, "_nodes", Cache(16))
    seen = []
    for n in range(100):
        struct = parse_type(f"T{{d:x{n}:T{{i:y{n}:}}:at:}}")
        there = to_ffi(pointer(struct))
        assert there is to_ffi(pointer(struct))
        assert from_ffi(there.item) == struct
        assert len(ffitype._nodes) <= 16
        seen.append(weakref.ref(there))
        del there
    gc.collect()
    assert sum(one() is not None for one in seen) < 8


def test_pointers_of_a_struct_that_was_made_twice_are_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken = nc.callback("d:&T{d:x:}", lambda p: p.x)
    struct = parse_type("T{d:x:}")
    by_value = nc.callback("d:T{d:x:}", lambda s: s.x)
    old = ffi.new(to_ffi(pointer(struct)), (2.5,))
    before = to_ffi(parse("d:&T{d:x:}"))
    monkeypatch.setattr(ffitype, "_nodes", Cache(16))
    new = ffi.new(to_ffi(pointer(struct)), (3.5,))
    assert ffi.typeof(old) is not ffi.typeof(new)
    assert [taken(old), taken(new), by_value(old), by_value(new[0])] == [2.5, 3.5, 2.5, 3.5]
    for there in (before, to_ffi(parse("d:&T{d:x:}"))):
        function = ffi.cast(there, taken.address())
        assert nc.wrap(function)(old) == 2.5
        assert nc.wrap(function)(new) == 3.5
    # Memory of one as memory of the other.
    assert ffi.cast(ffi.typeof(new), old).x == 2.5


def test_threads_make_types_that_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ffitype, "_nodes", Cache(2))

    def declare(k: int) -> None:
        for n in range(40):
            struct = parse_type(f"T{{d:x{k}:(2)T{{i:y{n}:&T{{h:z{n % 3}:}}:p:}}:at:}}")
            assert from_ffi(to_ffi(struct)) == struct

    each(declare, *range(4))


def test_ffi_types_are_one_object_in_all_threads() -> None:
    text = "T{d:made_in_threads:(7)i}"
    found = each(lambda text: to_ffi(parse_type(text)), *[text] * 8)
    assert len(set(map(id, found))) == 1


@pytest.fixture
def no_collection() -> Iterator[None]:
    """Callbacks of the collector would miss their memory, and be reported."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="CPython's own code crashes without memory")
@pytest.mark.usefixtures("no_collection")
def test_want_of_memory_is_no_fault_of_the_text():
    testcapi = pytest.importorskip("_testcapi")
    parse_function("double (double x)")
    failed = 0
    # Each of the later ones, of which cffi makes its own use.
    for allocation in (*range(0, 600, 11), *range(600, 1500)):
        # A name that no text had before, for what was read is kept.
        text = f"double (double x{allocation})"
        testcapi.set_nomemory(allocation, allocation + 1)
        try:
            parse_function(text)
        except MemoryError:
            failed += 1
        finally:
            testcapi.remove_mem_hooks()
    assert failed > 10


def test_what_makes_a_struct_unusable_is_said_once():
    text = "struct s0 { union { int i; int a[0]; } u; };"
    text += "".join(f"struct s{i} {{ struct s{i - 1} in[2]; }};" for i in range(1, 20))
    with pytest.raises(SignatureError) as caught:
        parse_function(text.split("struct s3 ")[0] + "void f(struct s2);")
    assert caught.value.reason == (
        "struct 's2' cannot be passed by value: its field 'in.in.u.a': an array must have at least "
        "one element (got 0)"
    )
    with pytest.raises(SignatureError) as caught:
        from_ffi(_other_ffi(text).typeof("struct s19"))
    assert caught.value.reason == (
        "struct 's19' cannot be passed by value: its field 'in.in.in.in.….in.u.a': an array must "
        "have at least one element (got 0)"
    )


def _other_ffi(text: str) -> Any:
    import cffi

    made = cffi.FFI()
    made.cdef(text)
    return made


@pytest.mark.parametrize("count", [16385, 10**9, 10**17])
def test_cffi_lists_no_more_scalars_than_the_limit(count: int) -> None:
    by_value = f"T{{({count})b}}"
    for text in (f"{by_value}:", f"v:&X{{v:{by_value}}}", f"v:&T{{X{{v:{by_value}}}}}"):
        with pytest.raises(SignatureError, match="at most 16384"):
            to_ffi(parse(text))
    assert to_ffi(parse(f"v:&T{{({count})b}}")).kind == "function"
