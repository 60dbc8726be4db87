"""The structs of the ABI's documents lie in memory as their comments say, for the C compiler.

A comment begins with the bytes of a struct, or with the offset of a member, of which "H +" is the
size of PyHeapTypeObject. What each member is for the other tests of the ABI see.
"""

from __future__ import annotations

import re
import sysconfig
from pathlib import Path

import pytest

from support import build

PAGES = Path(__file__).resolve().parents[2] / "docs" / "abi"
BLOCKS = [
    (path.stem, code)
    for path in sorted(PAGES.glob("*.md"))
    for code in re.findall(r"^```c\n(.*?)^```$", path.read_text("utf-8"), re.DOTALL | re.MULTILINE)
]
STRUCT = re.compile(
    r"^typedef (?:struct|union) ?\w* ?\{ +/\* (?P<size>[^\n]*) \*/\n"
    r"(?P<body>.*?)^\} (?P<name>\w+);$",
    re.DOTALL | re.MULTILINE,
)
MEMBER = re.compile(
    r"(?:\(\*(?P<function>\w+)\)\([^;]*\)|(?P<name>\w+)(?:\[\d+\])?);\s*/\* (?P<at>H \+ \d+|\d+)\b"
)
NAMES = {name for _, code in BLOCKS for name in re.findall(r"^\} (\w+);$", code, re.MULTILINE)}


def asserted(code: str) -> list[str]:
    """What the comments of a block say, for the compiler."""
    said = []
    for struct in STRUCT.finditer(code):
        name, size = struct["name"], re.match(r"(H \+ )?\d+(?= bytes)", struct["size"])
        if size is not None:
            said.append(f"sizeof({name}) == {size[0]}")
        for member in MEMBER.finditer(struct["body"]):
            field = member["function"] or member["name"]
            said.append(f"offsetof({name}, {field}) == {member['at']}")
    return said


@pytest.mark.skipif(build.compiler() is None, reason="no C compiler")
@pytest.mark.parametrize(
    ("page", "code"), BLOCKS, ids=[f"{page}-{number}" for number, (page, _) in enumerate(BLOCKS)]
)
def test_structs_lie_as_the_page_says(page, code, tmp_path):
    said = asserted(code)
    assert len(said) >= len(re.findall(r";\s*/\* (?:H \+ )?\d", code)), said
    elsewhere = [
        declared
        for name in sorted(NAMES)
        if f"}} {name};" not in code and (declared := f"typedef struct {name} {name};") not in code
    ]
    source = tmp_path / f"{page}.c"
    source.write_text(
        "\n".join(
            [
                "#include <stddef.h>\n#include <Python.h>",
                *elsewhere,
                code,
                "#define H sizeof(PyHeapTypeObject)",
                *[f'_Static_assert({one}, "{one}");' for one in said],
            ]
        ),
        encoding="utf-8",
    )
    include = f"-I{sysconfig.get_path('include')}"
    words = [*build.compiler(), "-std=c11", "-fsyntax-only", include, str(source)]
    assert build.refusal(words) == ""


def test_what_comments_say_is_read():
    code = (
        "typedef struct { /* 8 bytes */\n    int a; /* 0: one */\n    int b; /* 8: two */\n} Two;\n"
    )
    assert asserted(code) == ["sizeof(Two) == 8", "offsetof(Two, a) == 0", "offsetof(Two, b) == 8"]
