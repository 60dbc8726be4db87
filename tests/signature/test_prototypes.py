"""Prototypes that the parser does not see: what is known of them is what it would have said.

The whole text, read by the parser, is the oracle.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import nativecall as nc
from nativecall import SignatureError, _cache
from nativecall._signature import declarations, declared
from nativecall._signature.csource import CSource
from nativecall._signature.prototypes import abridge

TYPES = (
    "typedef struct { double re, im; } cplx; typedef struct rng rng; struct s { int a[9]; };\n"
    "enum e { A, B = 3 }; typedef unsigned long count; typedef double (*fn)(double);\n"
)
WORDS = [
    "int",
    "unsigned",
    "const char *",
    "double *",
    "cplx",
    "rng *",
    "const rng *",
    "struct s",
    "const struct s *",
    "enum e",
    "count",
    "size_t",
    "bool",
    "fn",
    "long double",
    "double _Complex",
    "void *",
    "PyObject *",
    "char * const *",
    "rng const *",
    "unknown *",
    "static int",
    "void",
]
NAMES = ["", "x", "n", "count", "size_t", "rng", "int", "x[]", "x[2]", "x[A][3]", "restrict p"]


def outcome(read: Any, text: str) -> object:
    try:
        table = read(text)
    except SignatureError as error:
        return str(error)
    for name, row in table["functions"].items():
        assert f" {name}(" in row[-1] or f"*{name}(" in row[-1], "white space and order may differ"
    functions = {name: row[:-1] for name, row in table["functions"].items()}
    return {**table, "functions": functions}, [*functions]


def whole(text: str) -> Any:
    return declarations._read(CSource(text))


def left_out(text: str) -> list[str]:
    return [one.name for one in abridge(CSource(text))[1]]


parameters = st.builds("{} {}".format, st.sampled_from(WORDS), st.sampled_from(NAMES))
prototypes = st.builds(
    lambda result, name, parameters, end: f"{result} {name}({', '.join(parameters)}{end})",
    st.sampled_from(WORDS),
    st.sampled_from(["f", "g", "h", "i", "j", "k", "count", "rng"]),
    st.lists(parameters, max_size=4),
    st.sampled_from(["", "", "", ", ..."]),
)


@given(st.lists(prototypes, min_size=2, max_size=8), st.sampled_from(["; ", ";\n", "; /* ; */ "]))
def test_what_is_left_out_is_known_as_the_parser_would_know_it(some, end):
    text = TYPES + end.join(some) + ";"
    assert outcome(declarations._table, text) == outcome(whole, text)


def good(words: str) -> bool:
    return words not in ("unknown *", "static int", "void")


@given(
    st.lists(
        st.tuples(st.sampled_from([*filter(good, WORDS)]), st.lists(st.sampled_from(WORDS[:16]))),
        min_size=8,
        max_size=30,
    )
)
def test_good_prototypes(some):
    text = TYPES
    for number, (result, arguments) in enumerate(some):
        inside = ", ".join([f"{one} a{at}" for at, one in enumerate(arguments)]) or "void"
        text += f"{result} f{number}({inside});\n"
    made = outcome(declarations._table, text)
    assert not isinstance(made, str), made
    assert made == outcome(whole, text)


def test_what_has_no_new_part_is_left_out():
    text = (
        "double f(double x, const char *s); double g(const char *s, double, double y);\n"
        "const char *h(double); double i(void); double j(double (*)(double)); double k(void);\n"
        "typedef double l(double); struct s { double (*m)(double); }; extern double n(double);\n"
        "double o(double, ...); double p(double, ...); extern double q(double z); double r();"
    )
    assert left_out(text) == ["f", "g", "h", "i", "k", "n", "o", "p", "q"]
    assert outcome(declarations._table, text) == outcome(whole, text), "'()' is refused"


DOUBTFUL = {
    "declared again": "int f(int); int g(int); int g(int a);",
    "declared otherwise": "int f(int); char f2(char); int g(char); int g(int);",
    "declared otherwise, in other words": "int f(int); int (g)(char); int g(int);",
    "a name that is a type's": "typedef int t; int f(int a); int g(int t); int h(t);",
    "a name that becomes a type": "int f(int); int g(int); typedef int g;",
    "a name that is known": "int f(int); int g(int size_t);",
    "read-only in one of two": "int (f)(char *x); int f(const char *x); int g(const char *);",
    "before its type": "int f(t *); typedef int t; int g(t *);",
    "a variable": "int f(int); int g; int g(int);",
    "too many by value": "struct s { char a[9999]; }; int f(struct s); int g(struct s, struct s);",
    "one too many by value": "struct s { char a[16384]; }; int f(struct s); int g(struct s, int);",
    "many": f"int f(int); int g({', '.join(['int'] * 5000)});",
    "a body": "int f(int); int g(int) { } int h(int);",
    "a semicolon in parentheses": "int f(int); int g(int; int); int h(int);",
    "no types": "int f(int); g(int);",
    "a keyword": "int f(int); int int(int); int while(int);",
    "typedef": "int f(int); typedef int g(int); int h(g *); typedef int h2(int);",
}


@pytest.mark.parametrize("text", DOUBTFUL.values(), ids=DOUBTFUL)
def test_doubtful(text):
    assert outcome(declarations._table, text) == outcome(whole, text)


def test_no_parser_is_needed_for_types_of_c_alone(python):
    code = (
        "import sys, nativecall as nc\n"
        "m = nc.load('m', '#define N 3\\nextern double ldexp(double x, int); int abs(int n);')\n"
        "print(m.ldexp(0.75, m.N), m.abs(-3), m.declarations, 'pycparser' in sys.modules)\n"
    )
    assert python(code).strip() == "6.0 3 <Declarations: 1 constants, 2 functions> False"


OWN = [
    "char", "signed char", "unsigned char", "short int", "unsigned short", "int", "unsigned int",
    "long", "long unsigned", "long long", "unsigned long long", "float", "double", "long double",
    "_Bool", "void",
]  # fmt: skip
AROUND = ["{}", "const {}", "{} const", "{} *", "const {} *", "{} *const", "const {} **",
          "{} *const *", "const {} *const *const", "{} " + "*" * 9, "extern {}"]  # fmt: skip


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("own", OWN)
def test_types_of_c(own, around):
    words = around.format(own)
    for text in (f"{words} f(void);", f"int f({words} x, int);", f"int f(int, {words});"):
        assert outcome(declarations._table, text) == outcome(whole, text)


def test_errors_are_those_of_the_text_as_given():
    text = "double f(double);\n/* … */ double g(double x);\n  double h(double x, flaot y);\n"
    with pytest.raises(SignatureError, match=r"unknown type name 'flaot' at line 3, column 22"):
        declarations.parse_declarations(text)


# -- kept on disk ---------------------------------------------------------------------------------

TEXT = TYPES + (
    "double cos(double x); double sin(double); extern int optind; extern const int stay;\n"
    "static const int nine = 9; union u; struct big { char a[20000]; }; void far(struct big);\n"
    "int printf(const char *format, ...); cplx cexp(cplx);"
)
READ = f"""
import sys
import nativecall as nc
found = nc.load(None, {TEXT!r}).declarations
print({{name: (s.text, s.names, s.readonly, s.written) for name, s in found.functions.items()}})
print(dict(found.variables), found.readonly, dict(found.typedefs), dict(found.structs))
print(found.opaque, found.constants, {{name: str(e) for name, e in found.refused.items()}}, found)
print('pycparser' in sys.modules)
"""


def files(where: Path) -> list[Path]:
    return sorted(where.iterdir())


def test_the_same_text_is_read_once(python, tmp_path, monkeypatch):
    monkeypatch.setenv("NATIVECALL_CACHE_DIR", str(tmp_path))
    first = python(READ).splitlines()
    kept = files(tmp_path)
    again = python(READ).splitlines()
    assert len(kept) == 1
    assert files(tmp_path) == kept
    assert again[:-1] == first[:-1]
    assert (first[-1], again[-1]) == ("True", "False")
    assert "'far'" not in first[0]
    assert "too many scalars by value" in first[2]
    python(READ.replace("cexp", "cpow"))
    assert len(files(tmp_path)) == 2, "another text"


@pytest.mark.parametrize("cut", ["short", "empty", "changed", "other"])
def test_a_file_that_is_not_what_was_written(python, tmp_path, monkeypatch, cut):
    monkeypatch.setenv("NATIVECALL_CACHE_DIR", str(tmp_path))
    first = python(READ)
    (file,) = files(tmp_path)
    content = file.read_bytes()
    damaged = {
        "short": content[:-1],
        "empty": b"",
        "changed": content[:-9] + bytes([content[-9] ^ 1]) + content[-8:],
        "other": content[:8] + bytes(32) + content[40:],
    }
    file.write_bytes(damaged[cut])
    assert python(READ) == first, "read anew"
    assert file.read_bytes() == content


def test_what_cannot_be_loaded_is_read_anew(tmp_path, monkeypatch):
    kept = _cache.Cache(str(tmp_path))
    monkeypatch.setattr(_cache, "shared", lambda: kept)
    nc.load(None, "int abs(int);")
    (file,) = files(tmp_path)
    key = bytes.fromhex(file.stem)
    for nonsense in (b"", b"nonsense", b"N"):
        kept.put(key, nonsense)
        assert nc.load(None, "int abs(int);").abs(-3) == 3


def test_a_wrong_text_is_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(_cache, "shared", lambda: _cache.Cache(str(tmp_path)))
    for _ in range(2):
        with pytest.raises(SignatureError, match="unknown type name 'flaot'"):
            nc.load(None, "int f(flaot x);")
    assert files(tmp_path) == []


def test_tables_count_for_the_bound(tmp_path, monkeypatch):
    kept = _cache.Cache(str(tmp_path), bound=20_000)
    monkeypatch.setattr(_cache, "shared", lambda: kept)
    for number in range(1, 200):
        nc.load(None, f"int abs(int); typedef struct {{ double {'d' * number}; }} s;")
    assert 0 < sum([file.stat().st_size for file in files(tmp_path)]) <= 20_000 * 17 // 16


def test_an_edition_is_told_by_what_reads_declarations(monkeypatch, tmp_path):
    kept = _cache.Cache(str(tmp_path))
    monkeypatch.setattr(_cache, "shared", lambda: kept)
    nc.load(None, "int abs(int);")
    for index, part in enumerate(declared.edition()):
        other = [*declared.edition()]
        other[index] = f"not {part}"
        monkeypatch.setattr(declared, "_editions", [tuple(other)])
        nc.load(None, "int abs(int);")
        assert len(files(tmp_path)) == index + 2, part
        monkeypatch.undo()
        monkeypatch.setattr(_cache, "shared", lambda: kept)


def test_functions_of_equal_shape_share_what_calls_need():
    lib = nc.load(None, "int abs(int n); long labs(long n); int isalpha(int n); int isdigit(int);")
    specs = [getattr(lib, name)._entry()[0] for name in ("abs", "isalpha", "labs", "isdigit")]
    assert specs[0] is specs[1]
    assert len({id(one) for one in specs}) == 3, "names are the spec's"
    assert lib.isdigit(ord("1")) != 0
