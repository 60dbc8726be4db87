"""Split C text into tokens, remove comments, replace digraphs, and read types and integers."""

from __future__ import annotations

from collections import namedtuple

from .._errors import TYPE_CHECKING
from .._types.ctype import SCALARS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from re import Match

#: The text and the position of a macro. `parameters` is None for an object-like macro.
Macro = namedtuple("Macro", ["text", "parameters", "file", "line"])


class Unexpanded(str):
    """The token for a use of a macro with parameters; it does not count as an identifier."""

    __slots__ = ()

    def isidentifier(self) -> bool:
        return False


Integer = tuple[int, int, bool]  # a value, the bits of its type, whether the type is signed


#: The codes of C's basic types, by the spelling that `basic_type` returns.
CODES = {
    "_Bool": "?",
    "char": "c",
    "signed char": "b",
    "unsigned char": "B",
    "short": "h",
    "unsigned short": "H",
    "int": "i",
    "unsigned": "I",
    "unsigned int": "I",
    "long": "l",
    "unsigned long": "L",
    "long long": "q",
    "unsigned long long": "Q",
    "float": "f",
    "double": "d",
    "long double": "g",
    "float _Complex": "Zf",
    "double _Complex": "Zd",
    "long double _Complex": "Zg",
}
#: The inverse of `CODES`. For a code with two names, it has the longer name.
NAMES = {code: name for name, code in CODES.items()}
BASIC = frozenset(("signed", *[word for name in ("void", *CODES) for word in name.split()]))
TOKEN = (
    r"(?:[^\W\d]|\$)[\w$]*|\.?[0-9](?:[eEpP][-+]|[\w.'])*|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'"
    r"|\.\.\.|<<|>>|->|<=|>=|==|!=|&&|\|\||##|\S"
)
# Text that C's translation phases 2 and 3 remove or replace. Literals match, too, so that their
# contents are kept.
SPLICE = r"\\[ \t\f\v]*\r?(?:\n|\Z)"
_LEXICAL = (
    r'"(?:\\.|[^"\\\n])*"'
    r"|'(?:\\.|[^'\\\n])*'|\\u[0-9a-fA-F]{4}|\\U000[0-9a-fA-F]{5}"
    r"|/\*.*?\*/|//[^\n]*|<:|:>|<%|%>|%:|\f|\v|\r(?=\n)"
)
#: Digraphs, and the brackets and '#' that they stand for.
DIGRAPHS = {"<:": "[ ", ":>": "] ", "<%": "{ ", "%>": "} ", "%:": "# "}


def _spellings() -> dict[tuple[str, ...], str]:
    """Return a map from the sorted words of each allowed spelling to the usual spelling."""
    found: dict[tuple[str, ...], str] = {("signed",): "int"}
    for name in ("void", *[one for one in CODES if one != "unsigned int"]):
        words = name.split()
        spelled = [words]
        if not {*words} & {"void", "_Bool", "char", "float", "double"}:
            spelled += [[*words, "int"]] if "int" not in words else []
            if "unsigned" not in words:
                spelled += [[*one, "signed"] for one in spelled]
        found |= {tuple(sorted(one)): name for one in spelled}
    return found


_SPELLINGS = _spellings()


def basic_type(words: list[str]) -> str | None:
    """Return the usual spelling of a basic type from words in any order; None if there is none.

    >>> basic_type(["long", "unsigned", "int", "long"]), basic_type(["short", "double"])
    ('unsigned long long', None)
    """
    return _SPELLINGS.get(tuple(sorted(words)))


def tokenizer() -> Callable[[str], list[str]]:
    """Return a function that splits a text into tokens."""
    import re

    return re.compile(TOKEN).findall


def without_comments(text: str) -> str:
    """Return a text with comments and digraphs replaced, and continued lines joined.

    Joined lines and universal character names shorten the text; other replacements keep its length.
    """
    import re

    def replaced(match: Match[str]) -> str:
        found = match.group()
        if found[0] == "\\":
            return chr(int(found[2:], 16))
        return found if found[0] in "\"'" else DIGRAPHS.get(found) or " " * len(found)

    return re.sub(_LEXICAL, replaced, re.sub(SPLICE, "", text), flags=re.DOTALL)


def with_complex(tokens: list[str]) -> list[str]:
    """Return the tokens with <complex.h>'s `complex` replaced by `_Complex`."""
    if "complex" in tokens:
        real = {"float", "double", "long"}
        around = zip(["", *tokens], tokens, [*tokens[1:], ""], strict=False)
        tokens = [
            "_Complex" if token == "complex" and real & {before, after} else token
            for before, token, after in around
        ]
    return tokens


def macro(text: str, file: int, line: int) -> tuple[str, Macro] | None:
    """Return the name and the content of a macro from the text after ``#define``."""
    import re

    match = re.match(r"((?:[^\W\d]|\$)[\w$]*)(\([^)]*\))?", text)
    if match is None:
        return None
    return match[1], Macro(text[match.end() :].strip(), match[2], file, line)


def with_pragmas(tokens: list[str]) -> Iterator[tuple[int, str]]:
    """Yield tokens with their indices, without ``_Pragma``.

    ``_Pragma("pack(...)")`` becomes the token ``#pragma pack(...)``; other pragmas are dropped.
    """
    at = 0
    while at < len(tokens):
        if tokens[at] == "_Pragma" and tokens[at + 1 : at + 4 : 2] == ["(", ")"]:
            said = tokens[at + 2][1:-1].lstrip()
            if said[:4] == "pack":
                yield at, f"#pragma {said}"
            at += 4
        else:
            yield at, tokens[at]
            at += 1


def typed_integer(literal: str) -> Integer:
    """Return the value and the type of an integer literal, which has no sign.

    Raise OverflowError if no C type can hold the value.
    """
    suffix = literal[len(literal.rstrip("uUlL")) :] if literal[-1] in "uUlL" else ""
    digits = literal[: len(literal) - len(suffix)].lower()
    base = 16 if digits[:2] == "0x" else 2 if digits[:2] == "0b" else 8 if digits[0] == "0" else 10
    if len(digits) > 100:  # Python refuses to parse thousands of digits
        raise OverflowError(f"integer {digits[:8]}… is too large")
    value = int(digits, base)
    suffix = suffix.lower()
    widths = [8 * SCALARS[code].size for code in "ilq"][suffix.count("l") :]
    for bits in widths:
        if "u" not in suffix and value < 2 ** (bits - 1):
            return value, bits, True
        if ("u" in suffix or base != 10) and value < 2**bits:
            return value, bits, False
    raise OverflowError(f"integer {literal} is too large")


def fit(value: int, bits: int, signed: bool) -> int:
    """Return `value` truncated to an integer of `bits` bits."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> (bits - 1) else value
