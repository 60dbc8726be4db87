"""What the package's C headers declare, for the site's C reference (cnames.py).

`names` reads a header in the style of this project: what it finds is each function, macro, type,
enumerator and variable that is meant for others, in the header's order, with its declaration and
the comment right before it. Steps of macros (``NC_VIEW_SUM_1_``), guards, and what a configuration
chooses are left out. Of an inner header there is what Cython's declarations have, too, or else
macros of the package's own name, which Cython cannot have.
It needs nothing of Sphinx, so that tests ask it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
HEADERS = ROOT / "csrc" / "include" / "nativecall"
CYTHON = ROOT / "nativecall" / "__init__.pxd"

_LINKAGE = r"(?:NC_(?:STATIC|STATIC_INLINE|HOT_INLINE|NOINLINE|COLD|ABI_COLD)|static inline)\s"
_COMMENT = r"(?P<comment>^/\*(?:(?!\*/)[\s\S])*\*/\n)?"
_KINDS = {
    "function": rf"^{_LINKAGE}[\w\s*]*?\b(?P<name>\w+)\([^{{;]*\)(?=\s*[{{;]| /\*)",
    "class": r"^template <[^\n>]*> class (?P<name>\w+)",
    "template": r"^template <[^\n>]*>\s[^(){};]*?\b(?P<name>\w+)\([^{;]*\)(?=\s*\{)",
    "macro": r"^#define (?P<name>\w*[A-Za-z0-9])(?:\([^)]*\)|(?=[ \n]))(?P<value>.*)$",
    "type": r"^typedef (?:struct|union|enum)[ \w]*\{[^}]*(?:\}[^}]*)*?^\} (?P<name>\w+);",
    "tag": r"^(?:struct|union) (?P<name>\w+)\s*\{[\s\S]*?^\};",
    "short": r"^typedef [^{;]*?\b(?P<name>\w+)(?:\)\([^;]*\))?;",
    "constants": r"^enum(?: \w+)? \{(?:[^}\n]*|[\s\S]*?^)\};",
    "variable": r"^NC_SHARED_VARIABLE [^=;]*\b(?P<name>\w+)\b",
}


class Declared(NamedTuple):
    """What a header declares: the names, several of an enum, and the text of the header."""

    names: tuple[str, ...]
    text: str


def names(header: str) -> list[Declared]:
    """What a header, named from the folder of the public ones, declares."""
    text = (HEADERS / header).read_text(encoding="utf-8")
    found: dict[tuple[str, ...], tuple[int, str]] = {}
    for kind, pattern in _KINDS.items():
        for match in re.finditer(_COMMENT + pattern, text, re.MULTILINE):
            text_of = match.group().removeprefix(match["comment"] or "")
            if kind == "constants":
                bare = re.sub(r"/\*[\s\S]*?\*/", "", text_of)
                named = tuple(re.findall(r"[{,]\s*(\w+)", bare))
            else:
                named = (match["name"],)
            if kind == "template" and match["comment"] is None:
                continue  # a step of others
            if kind == "macro" and (match["name"].endswith("_H") or "\n" in text_of):
                continue
            shown = (match["comment"] or "") + text_of
            shown += ";" if kind in ("class", "function", "template", "variable") else ""
            known = found.get(named)
            if named and (known is None or (match["comment"] and "/*" not in known[1])):
                found[named] = (match.start(), re.sub(r"[ \t]*\\$", " ...", shown))
    declared = [Declared(named, shown) for named, (_, shown) in sorted(found.items(), key=_place)]
    if not header.startswith("detail/"):
        return declared
    told = set(re.findall(r"\w+", CYTHON.read_text(encoding="utf-8")))
    shared = [one for one in declared if told & {*one.names}]
    return shared or [one for one in declared if one.names[0].startswith("NATIVECALL_")]


def _place(one: tuple[object, tuple[int, str]]) -> int:
    return one[1][0]
