"""What texts say of prototypes, against gcc, and tables that are kept on disk."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import nativecall as nc
from nativecall import SignatureError, _cache
from nativecall._cdecl import declarations as declared
from nativecall._cdecl import texts as declarations

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


parameters = st.builds("{} {}".format, st.sampled_from(WORDS), st.sampled_from(NAMES))
prototypes = st.builds(
    lambda result, name, parameters, end: f"{result} {name}({', '.join(parameters)}{end})",
    st.sampled_from(WORDS),
    st.sampled_from(["f", "g", "h", "i", "j", "k", "count", "rng"]),
    st.lists(parameters, max_size=4),
    st.sampled_from(["", "", "", ", ..."]),
)


def rows(text: str) -> Any:
    """What is kept of the functions of a text, without their declarations."""
    found = declarations.parse_declarations(text)
    return {name: row[:-1] for name, row in found.rows.items()}


@given(st.lists(prototypes, min_size=2, max_size=8), st.sampled_from(["; ", ";\n", "; /* ; */ "]))
def test_prototypes_say_the_same_together_and_alone(some, end):
    """Or what is wrong with one of them, or with their order, is said at its place."""
    text = TYPES + end.join(some) + ";"
    try:
        together = rows(text)
    except SignatureError as error:
        if error.position is None or error.text != text:
            raise AssertionError(f"{text!r} is refused without a place") from error
        return
    alone = [rows(f"{TYPES}{one};") for one in some]
    first: dict[str, object] = {}
    bare: set[str] = set()  # the functions of which '()' says nothing about the arguments
    for text, one in zip(some, alone, strict=True):
        for name, row in one.items():
            if name not in first or name in bare:
                first[name] = row
                (bare.add if text.endswith("()") else bare.discard)(name)
    assert together == first
    assert [*together] == [*first]


SOURCE = "#include <stddef.h>\n#include <stdbool.h>\n#include <stdio.h>\n#define PyObject int\n"


@pytest.mark.compiler
def test_gcc_refuses_what_is_refused_and_takes_what_is_taken(tmp_path):
    gcc = shutil.which("gcc")
    if gcc is None:
        pytest.skip("gcc is what they are compared with")
    some = [
        f"{result} f({word} {name}, int last);"
        for result in ["int", "cplx", "const rng *", "static int", "unknown *"]
        for word in WORDS
        for name in NAMES
        if "restrict" not in name  # which says nothing of a type
    ]
    path = tmp_path / "prototypes.c"
    # Each one is on a line and a name of its own.
    lines = [one.replace(" f(", f" f{at}(", 1) for at, one in enumerate(some)]
    path.write_text(SOURCE + TYPES + "\n".join(lines))
    before = (SOURCE + TYPES).count("\n")
    command = [gcc, "-w", "-fsyntax-only", "-fmax-errors=0", str(path)]
    told = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    found = re.findall(r"prototypes\.c:(\d+):\d+: error", told)
    refused = {int(line) - before - 1 for line in found}
    for at, one in enumerate(some):
        # No value of type `void` is an argument; gcc waits for a call before it says so.
        void = re.search(r"\((?:static )?void (?:x|n|count|size_t|rng)?[,)]", one)
        try:
            rows(TYPES + one)
            taken = True
        except SignatureError:
            taken = False
        if not void:
            assert taken == (at not in refused), one
    assert 100 < len(refused) < len(some) - 100


DOUBTFUL = {
    "int f(int); int g(int); int g(int a);": "",
    "int f(int); char g2(char); int g(char); int g(int);": "'g' was declared as 'int (char)'",
    "int f(int); int (g)(char); int g(int);": "'g' was declared as 'int (char)' before",
    "typedef int t; int f(int a); int g(int t); int h(t);": "",
    "int f(int); int g(int); typedef int g;": "'g' was declared as 'int (int)' before",
    "int f(int); int g(int size_t);": "",
    "int (f)(char *x); int f(const char *x);": "'f' was declared as 'int (char *)' before",
    "int f(t *); typedef int t; int g(t *);": "unknown type name 't'",
    "int f(int); int g; int g(int);": "'g' was declared as 'int' before",
    "struct s { char a[9999]; }; int f(struct s); int g(struct s, struct s);": "",
    f"int f(int); int g({', '.join(['int'] * 5000)});": "more than 16384 characters",
    "int f(int); int g(int) { } int h(int);": "",
    "int f(int); int g(int; int); int h(int);": "expected ')', found ';'",
    "int f(int); g(int);": "unknown type name 'g'",
    "int f(int); int int(int);": "C has no type 'int int'",
    "int f(int); int while(int);": "expected a name or ';', found 'while'",
    "int f(int); typedef int g(int); int h(g *); typedef int h2(int);": "",
}


@pytest.mark.parametrize("text", DOUBTFUL)
def test_doubtful(text):
    wrong = DOUBTFUL[text]
    if not wrong:
        assert "f" in rows(text)
        return
    with pytest.raises(SignatureError, match=re.escape(wrong)):
        rows(text)


def test_no_other_parser_is_needed(python):
    code = (
        "import sys, nativecall as nc\n"
        "m = nc.load('m', '#define N 3\\nextern double ldexp(double x, int); int abs(int n);')\n"
        "print(m.ldexp(0.75, m.N), m.abs(-3), m.declarations)\n"
        "print({'pycparser', 'cffi'} & {*sys.modules})\n"
    )
    assert python(code).split("\n")[:2] == [
        "6.0 3 <Declarations: 1 constants, 2 functions>",
        "set()",
    ]


OWN = {
    "char": "c", "signed char": "b", "unsigned char": "B", "short int": "h", "unsigned short": "H",
    "int": "i", "unsigned int": "I", "long": "l", "long unsigned": "L", "long long": "q",
    "unsigned long long": "Q", "float": "f", "double": "d", "long double": "g", "_Bool": "?",
    "void": "v",
}  # fmt: skip
AROUND = {"{}": "", "const {}": "", "{} const": "", "{} *": "&", "const {} *": "&",
          "{} *const": "&", "const {} **": "&&", "{} *const *": "&&",
          "const {} *const *const": "&&", "{} " + "*" * 9: "&" * 9, "extern {}": ""}  # fmt: skip
READONLY = ("const {} *", "{} *const *", "const {} *const *const")


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("own", OWN)
def test_types_of_c(own, around):
    words = around.format(own)
    text = AROUND[around] + nc._types.ctype.SCALARS.get(OWN[own], nc._types.ctype.VOID).text
    text = text.replace("&v", "P")
    assert rows(f"{words} f(void);")["f"][0] == f"{text}:"
    for parameters in (f"{words} x, int", f"int, {words}"):
        if text == "v" or around == "extern {}":
            with pytest.raises(SignatureError):
                rows(f"int f({parameters});")
            continue
        found, _, readonly, *_ = rows(f"int f({parameters});")["f"]
        assert sorted(found) == sorted(f"i:{text}i")
        assert any(readonly) == (around in READONLY)


def test_errors_are_those_of_the_text_as_given():
    text = "double f(double);\n/* … */ double g(double x);\n  double h(double x, flaot y);\n"
    with pytest.raises(SignatureError, match=r"unknown type name 'flaot' at line 3, column 22"):
        declarations.parse_declarations(text)


# -- kept on disk ---------------------------------------------------------------------------------

TEXT = TYPES + (
    "double cos(double x); double sin(double); extern int optind; extern const int stay;\n"
    "static const int nine = 9; union u;\n"
    "int printf(const char *format, ...); cplx cexp(cplx);"
)
READ = f"""
import sys
import nativecall as nc
found = nc.load(None, {TEXT!r}).declarations
print({{name: (s.text, s.names, s.readonly, s.written) for name, s in found.functions.items()}})
print(dict(found.variables), found.readonly)
print(found.opaque, found.constants, found)
print('nativecall._cdecl.parser' in sys.modules)
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
    cifs = [getattr(lib, name)._entry()[0] for name in ("abs", "isalpha", "labs", "isdigit")]
    assert cifs[0] is cifs[1]
    assert len({id(one) for one in cifs}) == 3, "names are the call interface's"
    assert lib.isdigit(ord("1")) != 0
