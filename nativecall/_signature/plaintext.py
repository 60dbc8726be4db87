"""Declarations given as text: without comments, and with what they take for granted: types, and
the `complex` of <complex.h>.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .cnodes import Node


_COMPLEX = r"\b(?:float|double)\s+complex\b|\bcomplex\s+(?=float\b|double\b|long\b)"


def without_comments(text: str) -> str:
    """A text without its comments, where complex numbers are those of the language."""
    import re

    from .csource import LEXICAL, SPLICE

    def replaced(match: re.Match[str]) -> str:
        found = match.group()
        if "complex" in found and found[0] not in "\"'/":
            return found.replace("complex", "_Complex")
        return found if found[0] in "\"'" else " " + "\n" * found.count("\n")

    return re.sub(f"{LEXICAL}|{_COMPLEX}", replaced, re.sub(SPLICE, "", text), flags=re.DOTALL)


_common: list[dict[str, tuple[Node, bool]]] = []


def common_types() -> dict[str, tuple[Node, bool]]:
    """The types that texts take for granted, as the typedefs of a parser."""
    if _common:
        return _common[0]
    from cffi.commontypes import COMMON_TYPES

    from .cffitype import ffi, scalar_of
    from .characters import CHARACTERS
    from .cnodes import Number
    from .cparser import Parser
    from .csyntax import KNOWN_TYPEDEFS
    from .preprocessor import tokenizer

    known = "typedef struct _IO_FILE FILE; typedef _Bool bool;"
    for name, meant in KNOWN_TYPEDEFS.items():
        known += "" if name.startswith("__nc_") else f"typedef {meant} {name};"
    first = Parser(tokenizer()(known))
    for name, meant in COMMON_TYPES.items():
        if name == meant and name.isidentifier() and not name.startswith("_cffi"):
            cname = name if name in CHARACTERS else ""
            first.typedefs[name] = Number(scalar_of(ffi().typeof(name)), cname=cname), False
    first.read()
    _common.append(first.typedefs)
    return first.typedefs
