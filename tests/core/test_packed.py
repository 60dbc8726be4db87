"""Packed signatures: Python against the C headers, and literals that C folds to constants.

The headers are compiled into a small shared library. Thousands of random signatures, written in
every spelling that the grammar has, and as many damaged ones, must read, fail, pack and unpack
alike on both sides, down to the position of an error.
"""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nativecall._cdecl.spelling import parse
from nativecall._errors import SignatureError
from nativecall._types.ctype import MAX_DEPTH, MAX_TEXT
from support import build, compilecache, packed
from support.packed import pack
from support.spellings import Maker, python_side
from support.vectors import Core

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = ROOT / "csrc" / "include"
WARNINGS = ["-Wall", "-Wextra", "-Wconversion", "-Wpedantic", "-Werror"]

needs_c = pytest.mark.skipif(
    sys.platform == "win32" or not any(map(shutil.which, ("cc", "gcc", "clang"))),
    reason="needs a cc-style compiler driver",
)


def compilers(names: tuple[str, ...]) -> list[str]:
    """Those of the compilers that are here; clang also under the name of a version."""
    found = []
    for name in names:
        versions = [name, *[f"{name}-{n}" for n in range(30, 11, -1) if "clang" in name]]
        path = next(filter(None, map(shutil.which, versions)), None)
        if path is not None:
            found.append(path)
    return found


C_COMPILERS = compilers(("gcc", "clang"))
CXX_COMPILERS = compilers(("g++", "clang++"))


def command(compiler: str, source: Path, *options: str) -> list[str]:
    return [compiler, *WARNINGS, f"-I{INCLUDE}", *options, str(source)]


def compile_c(compiler: str, source: Path, output: Path, *options: str) -> None:
    words = command(compiler, source, *options, "-o", str(output), "-pthread")
    compilecache.compiled(words, output)


class CSide:
    """What the C headers make of texts and words."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.pack = core.pack

    def canonical(self, text: str) -> str | int:
        """The canonical form, or the 1-based column of an error."""
        status, found = self.core.canonical(text)
        assert status in (0, -4, -5)
        return found if isinstance(found, str) else found + 1

    def unpack(self, words: tuple[int, ...]) -> tuple[str, int] | None:
        status, *found = self.core.unpack(words)
        assert status in (0, -5)
        return (found[0], found[1]) if status == 0 else None


@pytest.fixture(scope="module")
def c(builder, include) -> CSide:
    return CSide(Core(builder, include))


@needs_c
def test_canonical_form_is_the_same_in_c(c: CSide) -> None:
    maker = Maker(1)
    lengths = set()
    for _ in range(1500):
        text = maker.text()
        expected = python_side(text)
        assert c.canonical(text) == expected, text
        if isinstance(expected, str):
            lengths.add(len(expected))
    assert len(lengths) > 50


@needs_c
def test_damaged_text_fails_at_the_same_place_in_c(c: CSide) -> None:
    maker = Maker(2)
    choose = maker.random
    failed = 0
    for _ in range(2500):
        text = maker.text()
        for _ in range(choose.randint(1, 2)):
            at = choose.randrange(len(text) + 1)
            piece = choose.choice(["", "", choose.choice("dvPXTUZ{}()[]:=,.&#0x !wF\0")])
            text = text[:at] + piece + text[at + choose.randint(0, 2) :]
        if not text.strip():
            continue
        expected = python_side(text)
        failed += isinstance(expected, int)
        assert c.canonical(text) == expected, text
    assert failed > 800


@needs_c
@pytest.mark.parametrize(
    "text",
    [
        "d:" + "d" * (MAX_TEXT - 2),
        "d:" + "&" * (MAX_DEPTH - 1) + "d",
        "d:" + "&" * MAX_DEPTH + "d",
        "d:" + "X{d:" * (MAX_DEPTH - 1) + "}" * (MAX_DEPTH - 1),
        "d:" + "X{d:" * MAX_DEPTH + "}" * MAX_DEPTH,
        "d:&" + "(2)" * 62 + "b",
        "d:&" + "(1)" * 63 + "b",
        "d:&(" + ",".join("1" * 64) + ")b",
        "d:&(" + ",".join("1" * 65) + ")b",
        "d:[64]d[65]d",
        "d:&(9223372036854775807)b",
        "d:&(999999999999999999,9)b",
        "d:&(999999999999999999,10)b",
        "d:&(999999999999999999)Zd",
        "d:T{(999999999999999999)q(999999999999999999)b}",
        "d:T{(999999999999999999)q(999999999999999999)q}",
        "d:T{a:x:b:y:d:x:}",
        "d:T{d:x:T{d:x:}:y:X{d:T{d:y:}}:x:}",
        "d:T{I#33}",
        "d:T{?#2}",
        "d:T{d#2}",
        "d:T{I#0:a:}",
        "d:T{I #33 :a b:}",
        "d:T{(999999999999999999)qI#3I#0}",
        "d:T{(1152921504606846975)qI#3I#1}",
        "d:T{(1152921504606846975)qI#3Q#64}",
        "d:U{(1152921504606846975)qQ#63:a:}",
    ],
)
def test_limits_are_the_same_in_c(c: CSide, text: str) -> None:
    assert c.canonical(text) == python_side(text)


SPACE = " \t\n\v\f\r"


@needs_c
@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        (f"{SPACE}d{SPACE}:{SPACE}d{SPACE}", "d:d"),
        (f"{SPACE}v:i.{SPACE}", "v:i."),
        (f"{SPACE}X {{ v : }}{SPACE}:{SPACE}", "X{v:}:"),
        # `v` behind `&` is no level: 64 of them go, but not a type behind the last.
        ("d:" + "&" * MAX_DEPTH + "v", "d:" + "&" * (MAX_DEPTH - 1) + "P"),
        ("d:" + "& " * MAX_DEPTH + "v", "d:" + "&" * (MAX_DEPTH - 1) + "P"),
        ("d:" + "&" * MAX_DEPTH + "P", None),
        ("d:" + "&" * MAX_DEPTH + "b", None),
        ("d:" + "X{v:" * (MAX_DEPTH - 1) + "&v" + "}" * (MAX_DEPTH - 1), ...),
        ("d:" + "X{v:" * MAX_DEPTH + "}" * MAX_DEPTH, None),
        # The lists of nested arrays share the 64 dimensions, and are a level each.
        ("d:&(" + "1," * 31 + "1)(" + "1," * 31 + "1)b", "d:&(" + "1," * 63 + "1)b"),
        ("d:&(" + "1," * 31 + "1)(" + "1," * 32 + "1)b", None),
        ("d:&(" + "1," * 62 + "1)(1)b", "d:&(" + "1," * 63 + "1)b"),
        ("d:&(" + "1," * 63 + "1)(1)b", None),
        ("d:&" + "(1)" * (MAX_DEPTH - 2) + "b", "d:&(" + "1," * (MAX_DEPTH - 3) + "1)b"),
        ("d:&" + "(1)" * (MAX_DEPTH - 1) + "b", None),
        # A pointer between them parts them.
        ("d:&(" + "1," * 63 + "1)&(" + "1," * 63 + "1)b", ...),
    ],
)
def test_what_the_grammar_leaves_to_be_said(c: CSide, text: str, canonical: object) -> None:
    """None: malformed; an ellipsis: the text itself."""
    found = python_side(text)
    assert c.canonical(text) == found
    if canonical is None:
        assert isinstance(found, int)
    else:
        assert found == (text.replace("&v", "P") if canonical is ... else canonical)


@needs_c
def test_packed_words_are_the_same_in_c(c: CSide) -> None:
    maker = Maker(3)
    seen: dict[tuple[int, ...], str] = {}
    counts = set()
    for _ in range(1500):
        try:
            signature = parse(maker.text(), hint="native")
        except SignatureError:
            continue  # larger than the address space
        flags = maker.random.randrange(128)
        words = pack(signature, flags)
        assert tuple(c.pack(signature.text, flags)) == words
        assert tuple(c.pack(signature.written, flags)) == words
        assert c.unpack(words) == (signature.text, flags)
        assert words[0] & packed.START
        assert all(word >> 60 == 0b0100 for word in words[1:])
        assert seen.setdefault(pack(signature), signature.text) == signature.text
        counts.add(len(words))
    assert len(seen) > 800
    assert {1, 3, 5} <= counts
    assert all(count % 2 for count in counts)


@needs_c
def test_damaged_words_are_refused_or_those_of_another_signature(c: CSide) -> None:
    maker = Maker(4, spaces=0, names=False)
    choose = maker.random
    refused = 0
    for _ in range(1500):
        try:
            words = list(pack(maker.text(), choose.randrange(128)))
        except SignatureError:
            continue
        words[choose.randrange(len(words))] ^= 1 << choose.randrange(64)
        if choose.random() < 0.1:
            words = words[: choose.randint(1, len(words))]
        found = c.unpack(tuple(words))
        refused += found is None
        assert found is None or pack(*found) == tuple(words)
    assert refused > 250


def test_no_signature_is_the_beginning_of_another() -> None:
    maker = Maker(5, spaces=0, names=False)
    packings = set()
    for _ in range(1000):
        try:
            packings.add(pack(maker.text()))
        except SignatureError:
            continue
    for words in packings:
        for end in range(1, len(words)):
            assert words[:end] not in packings
        # A scan in steps of two words meets words 2, 4, ...: no start, and no end of a table.
        assert all(word and not word & packed.START for word in words[2::2])


def test_symbols_are_those_of_the_standard() -> None:
    page = (ROOT / "docs" / "abi" / "signatures.md").read_text(encoding="utf-8")
    nibbles = {}
    for first, last, characters in re.findall(r"^- (\w+) to (\w+): ``(\S+)``$", page, re.M):
        codes = range(int(first, 16), int(last, 16) + 1)
        for code, character in zip(codes, characters, strict=True):
            nibbles[character] = tuple(int(digit, 16) for digit in f"{code:X}")
    assert nibbles == packed._NIBBLES
    header = (INCLUDE / "nativecall" / "detail" / "core" / "packedlookup.h").read_text(
        encoding="utf-8"
    )
    assert f'#define NC_PACKED_COMMON "{packed._COMMON}"' in header
    assert f'#define NC_PACKED_RARE "{packed._RARE}"' in header


# ---- literals --------------------------------------------------------------------------------

LITERALS = ["v:", "d:d", "d:dd", "i:d&f", "Zg:g", "l:nN", "c:LcO", "X{v:}:?", "&(5)f:h"]
LITERALS += ["v:[2]d", "v:&(1,2)d", "v:bHqQlNZd", "i:qqIIIII", "&Zd:dd"]
LITERALS += ["v:&(60)d", "v:&(8,9)d", "v:[45]d", "v:[7]d", "d:U{id}", "T{I#3}:"]
LITERALS += ["d:T{bH}", "v:=T{eI}", "i:&c.", "d:dddddddddddd", "&&&&&&&&&&&&d:"]
REFUSED = [
    "",
    ":",
    "dd",
    "d",
    "d:w",
    "dd:d",
    "d:d:d",
    "d:d d",
    "d:ddddddddddddd",
    "i:&d&d&d&d&d&d&d",
]
REFUSED += ["i:&d&d&d&d&d&d&d", "d:" + "d" * 40]
REFUSED += ["d:!", "Zd", "Z:d", "d:T{" + "i" * 9 + "}"]
REFUSED += ["d:&", "d:Z", "d:(", "d:T{", "d:X", "d:2", "d:=", "O:,", "d:}", "T{d:d", "d:T{d}}"]
REFUSED += ["v:v", "d:vd", "v:&v", "&v:d"]
# Malformed, and more than a literal is checked for: words that no signature has.
UNCHECKED = ["d:Zi", "d:=d", "[0]d:", "(2)d:d", "d:.d", "d:.", "d:T{&v}", "d:(2)d", "d:T{}"]


def expected_words() -> str:
    """A table of C with the word of each literal as Python packs it."""
    return ", ".join(f"UINT64_C({pack(text)[0]:#x})" for text in LITERALS)


def in_use() -> str:
    """C and C++ in which every literal stands where only a constant may."""
    checks = "\n".join(
        f"typedef char check_{i}"
        f'[NATIVECALL_SIG("{text}") == UINT64_C({pack(text)[0]:#x}) ? 1 : -1];'
        f"\nextern const check_{i} used_{i};"
        for i, text in enumerate(LITERALS)
    )
    cases = "\n".join(
        f'    case NATIVECALL_SIG("{text}"): return {i + 1};' for i, text in enumerate(LITERALS)
    )
    return f"""#include "nativecall/signature.h"
{checks}
int dispatch(uint64_t word)
{{
    switch (word & ~NC_PACKED_FLAGS_MASK) {{
{cases}
    default: return 0;
    }}
}}
static const uint64_t words[] = {{{", ".join(f'NATIVECALL_SIG("{t}")' for t in LITERALS)}}};
static const uint64_t expected[] = {{{expected_words()}}};
int main(void)
{{
    size_t i;
    for (i = 0; i < sizeof words / sizeof *words; i++) {{
        if (words[i] != expected[i] || dispatch(words[i]) != (int)i + 1) {{
            return 1;
        }}
    }}
    return dispatch(NATIVECALL_SIG("d:ddd")) != 0;
}}
"""


@needs_c
@pytest.mark.parametrize("optimisation", ["-O0", "-O2"])
@pytest.mark.parametrize(
    ("compiler", "standard"),
    [
        *[(compiler, standard) for compiler in C_COMPILERS for standard in ("c99", "c11")],
        *[(compiler, standard) for compiler in CXX_COMPILERS for standard in ("c++11", "c++20")],
    ],
)
def test_literals_are_constants(
    compiler: str, standard: str, optimisation: str, tmp_path: Path
) -> None:
    cxx = compiler in CXX_COMPILERS
    source = tmp_path / ("use.cpp" if cxx else "use.c")
    source.write_text(in_use(), encoding="utf-8")
    program = tmp_path / "use"
    compile_c(compiler, source, program, f"-std={standard}", optimisation)
    assert subprocess.run([str(program)], check=False).returncode == 0


@pytest.mark.compiler
@needs_c
@pytest.mark.parametrize("compiler", [*C_COMPILERS, *CXX_COMPILERS])
def test_literals_that_are_no_single_word_do_not_compile(compiler: str, tmp_path: Path) -> None:
    cxx = compiler in CXX_COMPILERS
    options = ["-std=c++11" if cxx else "-std=c99", "-fsyntax-only"]
    source = tmp_path / ("refused.cpp" if cxx else "refused.c")
    body = '#include "nativecall/signature.h"\nuint64_t f(void);\nuint64_t f(void)\n'
    source.write_text(body + '{ return NATIVECALL_SIG("d:d"); }\n', encoding="utf-8")
    assert build.refusal(command(compiler, source, *options)) == ""
    for text in REFUSED:
        source.write_text(body + f'{{ return NATIVECALL_SIG("{text}"); }}\n', encoding="utf-8")
        bad = build.refusal(command(compiler, source, *options))
        assert "malformed_or_longer_than_one_word" in bad, text


@pytest.mark.compiler
@needs_c
@pytest.mark.parametrize("compiler", [*C_COMPILERS, *CXX_COMPILERS])
def test_malformed_literals_that_compile_are_no_signature(
    c: CSide, compiler: str, tmp_path: Path
) -> None:
    cxx = compiler in CXX_COMPILERS
    source = tmp_path / ("unchecked.cpp" if cxx else "unchecked.c")
    table = "".join(f'    NATIVECALL_SIG("{text}"),\n' for text in [*UNCHECKED, "T{dd:}d"])
    source.write_text(
        f"""#include <stdio.h>
#include "nativecall/signature.h"
static const uint64_t words[] = {{
{table}}};
int main(void)
{{
    size_t i;
    for (i = 0; i < sizeof words / sizeof *words; i++)
        printf("%llx\\n", (unsigned long long)words[i]);
    return 0;
}}
""",
        encoding="utf-8",
    )
    program = tmp_path / "unchecked"
    compile_c(compiler, source, program, f"-std={'c++11' if cxx else 'c99'}")
    printed = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout
    *words, misplaced = [int(line, 16) for line in printed.split()]
    assert len(words) == len(UNCHECKED)
    assert [text for text, word in zip(UNCHECKED, words, strict=True) if c.unpack((word,))] == []
    assert c.unpack((misplaced,)) == ("T{dd}:d", 0)


@needs_c
@pytest.mark.parametrize("text", ["dd)d", ")P", "dd->d", "double (double)", "double f(double)"])
def test_the_headers_read_the_grammar_and_no_other_spelling(c: CSide, text: str) -> None:
    assert pack(text) == pack(parse(text).text)
    assert isinstance(c.canonical(text), int)
    assert c.canonical(parse(text).text) == parse(text).text


@pytest.mark.compiler
@needs_c
@pytest.mark.parametrize("text", ["d:dd", "i:d&f", "l:nPPc"])
@pytest.mark.parametrize("compiler", [*C_COMPILERS, *CXX_COMPILERS])
def test_a_literal_is_one_number_in_the_code(compiler: str, text: str, tmp_path: Path) -> None:
    """The function that returns it loads one immediate and returns; no call, no other memory."""
    cxx = compiler in CXX_COMPILERS
    source = tmp_path / ("folded.cpp" if cxx else "folded.c")
    source.write_text(
        '#include "nativecall/signature.h"\n'
        'extern "C" uint64_t folded(void);\nextern "C" uint64_t folded(void)\n'.replace(
            'extern "C" ', 'extern "C" ' if cxx else ""
        )
        + f'{{ return NATIVECALL_SIG("{text}"); }}\n',
        encoding="utf-8",
    )
    assembly = tmp_path / "folded.s"
    compile_c(
        compiler,
        source,
        assembly,
        "-std=c++11" if cxx else "-std=c99",
        "-O2",
        "-S",
        "-fcf-protection=none" if "86" in machine(compiler) else "-fno-ident",
        "-fno-asynchronous-unwind-tables",
    )
    lines = assembly.read_text(encoding="utf-8").splitlines()
    start = next(i for i, line in enumerate(lines) if re.match(r"_?folded:", line))
    code = [
        line.split("#")[0].strip()
        for line in lines[start + 1 :]
        if re.match(r"\s+[a-z]", line) and not line.strip().startswith(".")
    ]
    end = next(i for i, line in enumerate(code) if line.startswith("ret"))
    body = code[:end]
    word = pack(text)[0]
    if "86" in machine(compiler):
        assert len(body) == 1, body
        match = re.fullmatch(r"movabsq\s+\$(-?\w+), %rax", body[0])
        assert match is not None, body
        assert int(match[1], 0) % (1 << 64) == word
    else:
        # Elsewhere a 64-bit number takes a few moves, and nothing but moves.
        assert all(re.match(r"(mov|lis?|ori?s?|ldr|adrp|lu|addi|slli)", line) for line in body)


@functools.cache
def machine(compiler: str) -> str:
    done = subprocess.run([compiler, "-dumpmachine"], capture_output=True, text=True, check=True)
    return done.stdout
