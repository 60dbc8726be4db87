"""Random and damaged texts of types: every reader of them says the same, and none says nonsense.

Signatures are read in Python and by the C headers, packed and unpacked by both, written as C
declarations and read again. C declarations are held against the C compiler: size, alignment and
offsets. What is damaged is refused with a place, or means what its own canonical form means.
"""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
from typing import Any

from driver import Finding, Tools

GROWTH = 40_000  # cffi keeps the types that it has met
SOURCE = """
#include "nativecall/signature.h"
int canonical(const char *t, size_t n, char *o, size_t s, size_t *w)
{ return nc_signature_canonical(t, n, o, s, w); }
int pack(const char *t, size_t n, size_t f, uint64_t *o, size_t s, size_t *c)
{ return nc_signature_pack(t, n, (uintptr_t)f, o, s, c); }
int unpack(const uint64_t *i, size_t c, char *o, size_t s, size_t *w, uintptr_t *f)
{ return nc_signature_unpack(i, c, o, s, w, f); }
"""
SPELLINGS = [
    "int", "unsigned", "int unsigned", "unsigned int", "long int long", "long long int unsigned",
    "short", "short int unsigned", "signed char", "char signed", "unsigned char", "char", "long",
    "int long", "double", "float", "long double", "double long", "_Bool", "int8_t", "uint16_t",
    "int32_t", "int64_t", "size_t", "ptrdiff_t", "intptr_t", "uint64_t", "void *", "const char *",
    "double *", "signed", "signed long", "unsigned long long", "float _Complex",
    "double _Complex", "_Complex double",
]  # fmt: skip
DAMAGE = "dvPXTZ{}()[]:=,.&0x !wF\0*/\\\n\"'#-><intlong structé\udcff"


def missing() -> str | None:
    return None


class World:
    def __init__(self, tools: Tools) -> None:
        import nativecall as nc
        from nativecall._signature import declarations as cdecl
        from nativecall._signature import spelling
        from support import packed, spellings

        self.nc, self.packed, self.spelling, self.cdecl = nc, packed, spelling, cdecl
        self.spellings = spellings
        self.c = spellings.CSide(tools.library("grammar"))
        self.folder = tools.folder
        self.address = nc.load("m").address("cos")


def make(tools: Tools) -> World:
    return World(tools)


def _damaged(r: random.Random, text: str) -> str:
    for _ in range(r.randrange(1, 4)):
        at = r.randrange(len(text) + 1)
        piece = r.choice(["", "", r.choice(DAMAGE), r.choice(DAMAGE), text[: r.randrange(9)]])
        text = text[:at] + piece + text[at + r.randrange(3) :]
    return text


def step(world: World, r: random.Random) -> None:
    which = r.randrange(20)
    if which < 9:
        _signature(world, r)
    elif which < 13:
        _other_styles(world, r)
    elif which < 19:
        _damaged_declaration(world, r)
    else:
        _layouts(world, r)


def _signature(world: World, r: random.Random) -> None:
    """Python's reader, the headers', packed words, and C declarations."""
    SignatureError = world.nc.SignatureError
    text = world.spellings.Maker(r.randrange(1 << 60), spaces=r.choice([0, 0.1, 0.4])).text()
    if r.random() < 0.5:
        text = _damaged(r, text)
    if not text.strip():
        return
    try:
        data = text.encode()
    except UnicodeEncodeError:
        data = None
    expected = world.spellings.python_side(text)
    if data is not None and data.isascii() and world.c.canonical(text) != expected:
        raise Finding(f"{text!r} is {expected!r} in Python, {world.c.canonical(text)!r} in C")
    if not isinstance(expected, str):
        return
    signature = world.spelling.parse(text, hint="native")
    if world.spelling.parse(signature.text, hint="native") != signature:
        raise Finding(f"{text!r}: {signature.text!r} is another signature")
    flags = r.randrange(128)
    words = world.packed.pack(signature, flags)
    if world.c.pack(signature.text, flags) != words:
        raise Finding(f"{text!r} is packed otherwise in C")
    if world.c.unpack(words) != (signature.text, flags):
        raise Finding(f"{text!r} is unpacked otherwise in C")
    if world.packed.unpack(words) != (signature, flags):
        raise Finding(f"{text!r} is not unpacked as it was packed")
    bad = [word ^ (1 << r.randrange(64)) if r.random() < 0.5 else word for word in words]
    theirs = world.c.unpack(tuple(bad))
    try:
        ours: Any = world.packed.unpack(bad)
        ours = ours[0].text, ours[1]
    except SignatureError:
        ours = None
    except ValueError:
        ours = None
    if theirs != ours:
        raise Finding(f"words {bad} are {ours!r} in Python, {theirs!r} in C")
    if "O" not in signature.text and "[" not in signature.text:
        _declared(world, signature)


def _declared(world: World, signature: Any) -> None:
    """The declaration of a signature reads as that signature."""
    try:
        text = signature.function.declare_function("f")
        found = world.spelling.parse(text.replace(" f(", " (", 1), hint="c")
    except world.nc.SignatureError:
        return
    if found.text != signature.text and "v" not in signature.text[1:]:
        raise Finding(f"{signature.text!r} is declared {text!r}, which reads as {found.text!r}")


def _other_styles(world: World, r: random.Random) -> None:
    """NumPy's and CEP 1000's style, wrapped and damaged."""
    letters = "".join(r.choice("?bBhHiIlLqQefdgFDGPO") for _ in range(r.randrange(5)))
    text = r.choice([f"{letters}->d", f"{letters})d", f"d({letters})", f"{letters}:{letters}"])
    if r.random() < 0.6:
        text = _damaged(r, text)
    try:
        f = world.nc.wrap(world.address, text)
    except (world.nc.SignatureError, TypeError):
        return
    (found,) = f.signatures
    if world.nc.wrap(world.address, found).signatures != (found,):
        raise Finding(f"{text!r} gave {found!r}, which reads otherwise")


def _declaration(r: random.Random, depth: int = 0) -> str:
    """Members of a struct."""
    lines = []
    for i in range(r.randrange(1, 6)):
        spelling = r.choice(SPELLINGS)
        shape = r.choice(["", "", "", "[3]", "[2][2]", f"[{r.randrange(1, 5)} + 1]", "[1 << 2]"])
        comment = r.choice(["", "", "", " /* char x; */ ", " // int y;\n", " // \\\n int z;\n"])
        splice = r.choice(["", "", "", "\\\n", " "])
        if depth < 2 and r.random() < 0.15:
            inner = _declaration(r, depth + 1)
            lines.append(f"struct {{ {inner} }} m{depth}_{i}{shape};{comment}")
        elif r.random() < 0.1:
            lines.append(f"{spelling} m{depth}_{i}, n{depth}_{i}{shape};{comment}")
        elif r.random() < 0.1:
            lines.append(f"double (*m{depth}_{i})(int, {spelling});{comment}")
        else:
            lines.append(f"{spelling} {splice}m{depth}_{i}{shape};{comment}")
    return " ".join(lines)


def _layouts(world: World, r: random.Random) -> None:
    """Structs as C declares them against the compiler."""
    asserts = ["#include <stddef.h>", "#include <stdint.h>", "#include <stdbool.h>"]
    for number in range(12):
        packed = r.choice(["", "", "", " __attribute__((packed))"])
        tag = f"S{number}"
        text = f"struct{packed} {tag} {{ {_declaration(r)} }};"
        try:
            declared = world.cdecl.parse_declarations(text)
        except world.nc.SignatureError:
            continue
        struct = declared.structs[tag]
        asserts.append(text)
        asserts.append(f"_Static_assert(sizeof(struct {tag}) == {struct.size}, {_quoted(text)});")
        asserts.append(
            f"_Static_assert(_Alignof(struct {tag}) == {struct.alignment}, {_quoted(text)});"
        )
        for field in struct.fields:
            asserts.append(
                f"_Static_assert(offsetof(struct {tag}, {field.name}) == {field.offset}, "
                f"{_quoted(text)});"
            )
    clean = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
    done = subprocess.run(
        [*os.environ.get("CC", "cc").split(), "-std=gnu11", "-w", "-fsyntax-only", "-xc", "-"],
        input="\n".join(asserts) + "\n",
        capture_output=True,
        text=True,
        check=False,
        env=clean,
    )
    if done.returncode:
        raise Finding("the compiler lays out otherwise\n" + done.stderr[:2000])


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"') + '"'


def _damaged_declaration(world: World, r: random.Random) -> None:
    """What is damaged is refused with a place, or read."""
    text = f"struct S {{ {_declaration(r)} }}; enum e {{ A = 1 << 3, B }};\n"
    depth = r.choice([0, 0, 0, 3, 12, 60])
    text += "".join(
        f"struct D{i + 1} {{ struct {f'D{i}' if i else 'S'} a, b; }};" for i in range(depth)
    )
    text += f"int d(struct D{depth} x, char huge[{1 << r.randrange(60)}]);\n" if depth else ""
    text += f"{r.choice(SPELLINGS)} f({r.choice(SPELLINGS)}, {r.choice(SPELLINGS)} x, ...);\n"
    text += "#define N 12\ntypedef struct S T; T *g(const T *x, double (*h)(T)); double k();\n"
    if r.random() < 0.4:
        text = _damaged(r, f"double ({r.choice(SPELLINGS)}, {r.choice(SPELLINGS)} *)")
        with contextlib.suppress(world.nc.SignatureError, TypeError):
            world.nc.wrap(world.address, text)
        return
    for _ in range(r.randrange(3)):
        text = _damaged(r, text)
    try:
        found = world.cdecl.parse_declarations(text)
    except world.nc.SignatureError as error:
        if error.position is not None and error.position < 1:
            raise Finding(f"{error} is at column {error.position}") from None
        return
    repr(found)
