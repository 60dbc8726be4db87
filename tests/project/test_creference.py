"""The C reference has every public name of the C headers, with what the header says of it."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEADERS = ROOT / "csrc" / "include" / "nativecall"
PAGE = (ROOT / "docs" / "creference.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"^```{c-names} (\S+)$", PAGE, re.MULTILINE)


@pytest.fixture(scope="module")
def names():
    """What the reference has of a header."""
    place = ROOT / "docs" / "_extensions" / "cheaders.py"
    spec = importlib.util.spec_from_file_location("cheaders", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.names


def test_every_public_header_is_there_once():
    public = sorted(one.name for one in HEADERS.glob("*.h"))
    assert re.findall(r"^### (\w+\.h)$", PAGE, re.MULTILINE) == re.findall(
        r"^```{literalinclude} \.\./csrc/include/nativecall/(\w+\.h)$", PAGE, re.MULTILINE
    )
    assert sorted([*(one for one in SHOWN if "/" not in one), "signature.h"]) == public
    inner = re.findall(r'#include "(.*)"', (HEADERS / "signature.h").read_text())
    assert {*inner} <= {*SHOWN}
    assert len(SHOWN) == len({*SHOWN})


@pytest.mark.parametrize("header", [one for one in SHOWN if "/" not in one])
def test_every_name_of_a_header_is_there(names, header):
    """Compilers see more than the extension's patterns: all that begins at a line's start."""
    text = re.sub(r"/\*.*?\*/", "", (HEADERS / header).read_text(), flags=re.S)
    starts = re.findall(r"^(?:NC_\w+|static inline|typedef|struct|enum)\b[^;{#]*[;{]", text, re.M)
    functions = [
        re.search(r"\b(\w+)\([^()]*(?:\([^()]*\)[^()]*)*\)\s*[{;]\Z", one) for one in starts
    ]
    wanted = {one[1] for one in functions if one and one[1] != "typedef"}
    wanted |= set(re.findall(r"^#define (?!\w+_H$)(\w*[a-zA-Z0-9])\b", text, re.M))
    wanted |= set(re.findall(r"^\} (\w+);", text, re.M))
    wanted |= {
        name
        for body in re.findall(r"^enum {(.*?)}", text, re.M | re.S)
        for name in re.findall(r"\bNC_\w+", body)
    }
    found = {name for one in names(header) for name in one.names}
    assert wanted - found == set()
    assert found


def test_every_name_for_cython_is_there(names):
    text = re.sub(r"#.*", "", (ROOT / "nativecall" / "__init__.pxd").read_text())
    wanted = set(re.findall(r"\b(?:nc_|Nc[A-Z]|NC_|PYCUSTOMSLOT_)\w+", text))
    assert len(wanted) > 100
    assert (
        wanted - {name for header in SHOWN for one in names(header) for name in one.names} == set()
    )


def test_the_names_of_c_plus_plus_are_there(names):
    found = {name: one.text for one in names("nativeobject.h") for name in one.names}
    for name in ("Ref", "define", "make", "cast"):
        assert re.match(r"/\*.*\*/\ntemplate <", found[name], re.DOTALL)
    assert "Creator" not in found


def test_comments_come_with_their_declarations(names):
    found = {name: one.text for one in names("view.h") for name in one.names}
    assert found["nc_view_size"].startswith("/* Return the number of elements. */\nNC_STATIC")
    assert found["nc_view_size"].endswith("(const intptr_t *shape, int ndim);")
    assert found["NcView"].endswith("} NcView;")
