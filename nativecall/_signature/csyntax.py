"""The syntax of C declarations: a text to pycparser's tree, and its complaints in our words.

`syntax_tree` knows the names that C code for Python takes for granted, and gives nodes whose places
are those of the text. Nothing of pycparser's own errors gets through: all is `SignatureError` with
a line and a column of the text that was given. pycparser and cffi are imported when needed.
"""

from __future__ import annotations

from .._errors import SignatureError
from .cffitype import STAND_INS
from .csource import BASIC, KEYWORDS, CSource
from .ctype import SCALARS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    from .._types import Foreign

    #: A node of pycparser's. What it has depends on its class; types came with pycparser 3.
    Node: TypeAlias = Foreign

# What the words that stand for other types mean.
SPELLINGS = {
    f"__nc_{code}": one.c_name
    for code, one in SCALARS.items()
    if one.kind == "complex" or not one.native
}
# Names that C code for Python takes for granted, beyond <stdint.h>, <stddef.h> and <stdio.h>.
KNOWN_TYPEDEFS = {
    "PyObject": "struct _object",
    "Py_ssize_t": "ssize_t",
    "npy_intp": "intptr_t",
    "npy_uintp": "uintptr_t",
    "char8_t": "unsigned char",
    "_Float32": "float",
    "_Float64": "double",
    **SPELLINGS,
    **{name: struct for name, (_, struct) in STAND_INS.items()},
}


def known_names(source: CSource) -> list[str]:
    """The names in `source` that are types without being declared there."""
    from cffi.commontypes import COMMON_TYPES

    words = {token for token, _ in source.tokens}
    known = (COMMON_TYPES.keys() | KNOWN_TYPEDEFS.keys()) - KEYWORDS | {"bool"}
    return sorted(words & known)


def syntax_tree(source: CSource, before: str = "", after: str = "") -> list[Node]:
    """pycparser's nodes for `before` + `source` + `after`, without those of known names."""
    import pycparser

    known = known_names(source)
    _require_types(source, known)
    lines = [f"typedef int {name};" for name in known]
    lines += [f'{before}\n# 1 "c"', f"{source.clean}\n{after}\n"]
    try:
        tree = pycparser.CParser().parse("\n".join(lines), "before")
    except (RecursionError, MemoryError):
        raise
    except Exception as error:
        # Whatever another parser raises on a malformed text, the text is at fault.
        raise _syntax_error(source, str(error), known) from None
    return list(tree.ext[len(known) :])


# What may stand before a type, and what is an int to old C where none follows.
_BEFORE_TYPES = frozenset(["const", "register", "static", "extern", "auto"])


def _require_types(source: CSource, known: Sequence[str]) -> None:
    """Refuse ``const foo`` where `foo` is no type: old C, and pycparser, read an int named so."""
    tokens = source.tokens
    begins = True  # where specifiers may
    for index, (token, start) in enumerate(tokens):
        if token not in _BEFORE_TYPES:
            begins = token in (";", "(", ",", "{", "}")
            continue
        after, at = tokens[index + 1] if index + 1 < len(tokens) else ("", start)
        if not begins or after in _BEFORE_TYPES:
            continue
        if after in (",", ")", ""):
            raise source.error(f"expected a type after {token!r}", start)
        following = tokens[index + 2][0] if index + 2 < len(tokens) else ""
        if not _is_name(after) or after in KEYWORDS or after in known or after == "__int128":
            continue
        if following in (",", ")", ";", "(", "[", "=", "") and not _is_declared(
            tokens, index, after
        ):
            raise unknown_type(source, after, at)


def _is_declared(tokens: Sequence[tuple[str, int]], before: int, name: str) -> bool:
    """Whether a name is declared before a place, as far as its end tells."""
    ends = (";", ",", ")", "[", "(")
    return any([tokens[i][0] == name and tokens[i + 1][0] in ends for i in range(before)])


def _syntax_error(source: CSource, message: str, known: Sequence[str]) -> SignatureError:
    """pycparser's complaint in our words, at its place in the source."""
    import re

    tokens = source.tokens
    match = re.match(r"c:(\d+):(\d+): ", message)
    if match is not None:
        at = source.index(int(match.group(1)), int(match.group(2)))
        index = max([i for i, (_, start) in enumerate(tokens) if start <= at], default=0)
        if tokens and at <= tokens[-1][1]:
            for i in (index - 1, index):
                if i >= 0 and _looks_unknown(source, i, known):
                    return unknown_type(source, *tokens[i])
            found, start = tokens[index]
            alone = alone_in_parentheses(source, known)
            if alone is not None and alone[1] < start and found in BASIC:
                return unknown_type(source, *alone)
            return source.error(f"unexpected {SPELLINGS.get(found, found)!r}", start)
    elif "end of input" not in message.lower():
        # pycparser does not say where, so the commonest mistakes are looked for.
        for i in range(len(tokens)):
            if _looks_unknown(source, i, known):
                return unknown_type(source, *tokens[i])
            if tokens[i][0] == "," and (i == 0 or tokens[i - 1][0] in ("(", ",", "{", ";")):
                return source.error("unexpected ','", tokens[i][1])
        alone = alone_in_parentheses(source, known)
        if alone is not None:
            return unknown_type(source, *alone)
        return source.error("not a C declaration", source.first())
    return source.error("unexpected end of the declaration", source.end())


def alone_in_parentheses(source: CSource, known: Sequence[str] = ()) -> tuple[str, int] | None:
    """The first parameter that is one word, no type, and where: old C takes it for a name."""
    tokens = source.tokens
    depth = 0
    for index, (token, start) in enumerate(tokens[:-1]):
        depth += (token == "(") - (token == ")")
        if depth and _is_name(token) and token not in KEYWORDS and token not in known:
            before, after = tokens[index - 1][0], tokens[index + 1][0]
            is_alone = before in ("(", ",") and after in (",", ")")
            if is_alone and not _is_declared(tokens, index, token):
                return token, start
    return None


def _looks_unknown(source: CSource, index: int, known: Sequence[str]) -> bool:
    """Whether a token stands like the name of a type that nothing before it declares."""
    tokens = source.tokens
    word = tokens[index][0]
    before = tokens[index - 1][0] if index else ";"
    after = tokens[index + 1][0] if index + 1 < len(tokens) else ""
    if not _is_name(word) or word in KEYWORDS or word in known:
        return False
    if before not in (";", "(", ",", "{", "}", "const", "extern", "static", "typedef"):
        return False
    if after != "*" and not _is_name(after):
        return False
    return not _is_declared(tokens, index, word)


def _is_name(token: str) -> bool:
    return token[:1].isalpha() or token[:1] == "_"


def unknown_type(source: CSource, name: str, at: int) -> SignatureError:
    return source.error(f"unknown type name {name!r}", at, "declare it with typedef first")
