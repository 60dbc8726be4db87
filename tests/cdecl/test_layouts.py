"""Random structs and unions: where compilers put what, against declarations and signature texts.

Each has bit-fields, arrays, packing, alignments that are asked for, and members without names. A C
program, built by gcc and by clang where these are, sets every member in memory of zeros and prints
the bytes: the bits that a member is. A nightly run has 2,000, or `$NATIVECALL_TEST_SIGNATURES`.
"""

from __future__ import annotations

import importlib.util
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nativecall._cdecl.nodes import Node, Record
from nativecall._cdecl.source import CSource
from nativecall._cdecl.spelling import parse_type
from nativecall._cdecl.tables import parser_of
from nativecall._cdecl.texts import parse_declarations
from nativecall._types.derived import Struct
from support import compilecache
from support.declared import type_of
from support.levels import sweep

BATCH = 200
COUNT = int(os.environ.get("NATIVECALL_TEST_SIGNATURES", "2000"))
INTEGERS = {
    "char": 8, "signed char": 8, "unsigned char": 8, "short": 16, "unsigned short": 16, "int": 32,
    "unsigned": 32, "long": 64, "unsigned long": 64, "long long": 64, "_Bool": 1, "enum e": 32,
}  # fmt: skip
OTHERS = ["float", "double", "long double", "double _Complex", "void *", "int (*)(void)"]
OTHERS += ["wide", "block", "loose"]
TYPEDEFS = """
enum e { A, B = 0x7fffffff, C = -1 };
typedef double wide[4] __attribute__((aligned(32)));
typedef __attribute__((aligned(16))) short block[8];
typedef int loose __attribute__((aligned(2)));
"""


class Generator:
    """Texts of C that declare a struct or union, with the members that have names."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = 0

    def chance(self, of: float) -> bool:
        return self.random.random() < of

    def attributes(self) -> str:
        found = ["packed"] * self.chance(0.2)
        found += [f"aligned({self.random.choice([1, 2, 4, 8, 16])})"] * self.chance(0.1)
        return f" __attribute__(({', '.join(found)}))" if found else ""

    def body(self, depth: int) -> tuple[str, list[str]]:
        lines, names = [], []
        for _ in range(self.random.choice((1, 2, 3, 4, 6))):
            self.count += 1
            name = f"m{self.count}"
            if self.chance(0.4):
                kind = self.random.choice([*INTEGERS])
                width = self.random.randint(0, INTEGERS[kind])
                if width == 0 or self.chance(0.15):
                    name = ""
                lines.append(f"{kind} {name} : {width};")
                names += [name] * bool(name)
            elif depth < 2 and self.chance(0.25):
                text, inner = self.record(depth + 1)
                if self.chance(0.5):
                    lines.append(f"{text};")
                    names += inner
                else:
                    lines.append(f"{text} {name};")
                    names += [f"{name}.{one}" for one in inner] + [name]
            else:
                kind = self.random.choice([*INTEGERS, *OTHERS])
                many = f"[{self.random.randint(1, 3)}]" if self.chance(0.2) else ""
                declared = kind.replace("(*)", f"(*{name}{many})")
                declared = declared if name in declared else f"{kind} {name}{many}"
                packed = " __attribute__((packed))" if self.chance(0.05) else ""
                lines.append(f"{declared}{packed};")
                names.append(name)
        return " ".join(lines), names

    def record(self, depth: int = 0) -> tuple[str, list[str]]:
        while True:
            body, names = self.body(depth)
            if names:
                break
        kind = self.random.choice(["struct", "struct", "union"])
        return f"{kind}{self.attributes()} {{ {body} }}", names

    def declared(self, number: int) -> tuple[str, list[str]]:
        text, names = self.record()
        text = f"typedef {text} r{number};"
        pack = self.random.choice([1, 2, 4, 8])
        if self.chance(0.15):
            text = f"#pragma pack(push, {pack})\n{text}\n#pragma pack(pop)"
        return text, names


def leaves(node: Node, start: int = 0, path: str = "") -> Iterator[tuple[str, int, int]]:
    """Of each member with a name, by a path: its first bit and how many bits it has."""
    for member in node.fields or ():
        first, name = start + member.first_bit, member.name
        if member.width is not None:
            if name:
                yield path + name, first, member.width
            continue
        if name:
            yield path + name, first, 8 * (member.type.size or 0)
        if isinstance(member.type, Record):
            yield from leaves(member.type, first, f"{path}{name}." if name else path)


def members(ctype: Struct, start: int = 0, path: str = "") -> Iterator[tuple[str, int, int]]:
    """The same of a C type."""
    for field in ctype.fields:
        first = start + 8 * field.offset + field.shift
        if field.width is not None:
            if field.name:
                yield path + field.name, first, field.width
            continue
        if field.name:
            yield path + field.name, first, 8 * field.type.size
        if isinstance(field.type, Struct):
            yield from members(field.type, first, f"{path}{field.name}." if field.name else path)


def compilers() -> list[list[str]]:
    """gcc, and clang, which may be zig's."""
    found = [[name] for name in ("gcc", "clang") if shutil.which(name)]
    if importlib.util.find_spec("ziglang") is not None:
        found.append([sys.executable, "-m", "ziglang", "cc"])
    return found


PRELUDE = f"""
#include <stdio.h>
#include <string.h>
{TYPEDEFS}
static void show(const char *name, const void *at, size_t size) {{
    printf("%s", name);
    for (size_t i = 0; i < size; i++) printf(" %02x", ((const unsigned char *)at)[i]);
    printf("\\n");
}}
"""


def program(cases: list[tuple[str, list[str]]], bits: list[set[str]]) -> str:
    """C that prints the size and the alignment of each, and the bytes of each of its members."""
    lines = [PRELUDE]
    for number, (text, names) in enumerate(cases):
        lines += [text, f"static void show_{number}(void) {{ r{number} r;"]
        lines.append(f'printf("r{number} %zu %zu\\n", sizeof r, _Alignof(r{number}));')
        for name in names:
            put = (
                f"r.{name} = -1;"
                if name in bits[number]
                else f"memset(&r.{name}, 255, sizeof r.{name});"
            )
            lines.append(f'memset(&r, 0, sizeof r); {put} show("{name}", &r, sizeof r);')
        lines.append("}")
    shown = " ".join([f"show_{number}();" for number in range(len(cases))])
    return "\n".join([*lines, f"int main(void) {{ {shown} return 0; }}", ""])


@pytest.mark.parametrize("command", compilers(), ids=lambda words: words[-1])
@pytest.mark.parametrize("seed", sweep(range(-(-COUNT // BATCH)), 0))
def test_members_lie_where_compilers_put_them(
    command: list[str], seed: int, tmp_path: Path
) -> None:
    generator = Generator(seed)
    cases = [generator.declared(number) for number in range(BATCH)]
    texts = TYPEDEFS + "\n".join([text for text, _ in cases])
    parser = parser_of(CSource(texts), strict=True)
    parser.read()
    nodes = [parser.typedefs[f"r{number}"][0] for number in range(BATCH)]
    found = [{path: (first, bits) for path, first, bits in leaves(node)} for node in nodes]
    bits = [
        {path for path in one if _is_bits(node, path)}
        for node, one in zip(nodes, found, strict=True)
    ]
    source = tmp_path / "layouts.c"
    source.write_text(program(cases, bits))
    output = tmp_path / "layouts"
    compilecache.compiled([*command, "-w", str(source), "-o", str(output)], output)
    printed = subprocess.run([output], check=True, capture_output=True, text=True).stdout
    declared = parse_declarations(texts)
    described = 0
    blocks = printed.split("\nr")
    for number, (block, node) in enumerate(zip(blocks, nodes, strict=True)):
        head, *rows = block.strip().splitlines()
        size, alignment = map(int, head.split()[1:])
        assert (node.size, node.alignment) == (size, alignment), cases[number]
        expected = {}
        for row in rows:
            name, *data = row.split()
            whole = int.from_bytes(bytes.fromhex("".join(data)), "little")
            first = (whole & -whole).bit_length() - 1
            assert whole == (1 << whole.bit_length()) - (1 << first)
            expected[name] = first, whole.bit_length() - first
        assert found[number] == expected, cases[number]
        # What a signature can say of it says the same, and is read again.
        ctype = type_of(declared, f"r{number}")
        if ctype is None or ctype.kind not in ("struct", "union"):
            continue
        assert isinstance(ctype, Struct)
        described += 1
        again = parse_type(ctype.text)
        assert (again.text, again.size, again.alignment) == (ctype.text, size, alignment)
        assert {path: (at, n) for path, at, n in members(ctype)}.items() <= expected.items()
    assert described > BATCH / 3


def _is_bits(node: Node, path: str) -> bool:
    """Whether a path leads to a bit-field."""
    first, _, rest = path.partition(".")
    for member in node.fields or ():
        if member.name == first:
            return _is_bits(member.type, rest) if rest else member.width is not None
        if (
            not member.name
            and isinstance(member.type, Record)
            and first in dict(member.type.members())
        ):
            return _is_bits(member.type, path)
    raise KeyError(path)
