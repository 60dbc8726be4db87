"""The words of C, its basic types and integers, and the text stage of reading declarations.

`CSource` takes a text of declarations and gives its tokens: lines that a backslash continues are
one, comments are gone, digraphs are what they stand for, integer macros are known, brackets
balance. No place is lost: `error` tells the line and column of a token in the text as given. What
would change a type unseen (``#if``, ``#pragma pack``) is refused by name.
"""

from __future__ import annotations

from .._errors import SignatureError
from .ctype import MAX_DEPTH, SCALARS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from re import Match

Integer = tuple[int, int, bool]  # a value, the bits of its type, whether that has a sign


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


KEYWORDS = _words(
    "auto break case char const continue default do double else enum extern float for goto if "
    "inline int long register restrict return short signed sizeof static struct switch typedef "
    "union unsigned void volatile while _Alignas _Alignof _Atomic _Bool _Complex _Generic "
    "_Imaginary _Noreturn _Static_assert _Thread_local bool complex"
)
#: The codes of C's own numbers, by their words as `basic_type` has them.
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
BASIC = _words("void char short int long float double signed unsigned _Bool _Complex")
_SUFFIX = r"(?:[uU](?:ll|LL|[lL])?|(?:ll|LL|[lL])[uU]?)?"
_INTEGER = rf"[-+]?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|0[0-7]*|[1-9][0-9]*){_SUFFIX}"
TOKEN = (
    r"(?:[^\W\d]|\$)[\w$]*|\.?[0-9](?:[eEpP][-+]|[\w.'])*|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'"
    r"|\.\.\.|<<|>>|->|<=|>=|==|!=|&&|\|\||##|\S"
)
# What translation phases 2 and 3 take away or spell otherwise, and what hides it.
_SPLICE = r"\\[ \t\f\v]*\r?(?:\n|\Z)"
_LEXICAL = (
    r'"(?:\\.|[^"\\\n])*"'
    r"|'(?:\\.|[^'\\\n])*'"
    r"|/\*.*?\*/|//[^\n]*|<:|:>|<%|%>|%:|\f|\v|\r(?=\n)"
)
_MARKS = ('"', "'", "/", "<", ":", "%", "\f", "\v", "\r")  # with which these begin
_DIGRAPHS = {"<:": "[ ", ":>": "] ", "<%": "{ ", "%>": "} ", "%:": "# "}
_BRACKETS = r"\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|[()\[\]{}]"
_CONVENTIONS = r"\b(?:WINAPI|APIENTRY|CALLBACK)\b"  # macros, which are nothing on 64 bits


def basic_type(words: list[str]) -> str | None:
    """The usual spelling of the type that words in any order name; None where C has none.

    >>> basic_type(["long", "unsigned", "int", "long"]), basic_type(["short", "double"])
    ('unsigned long long', None)
    """
    if len(words) == 1 and words[0] in _ALONE:
        return _ALONE[words[0]]
    count = {word: words.count(word) for word in words}
    long = count.pop("long", 0)
    if long > 2 or any([n > 1 for n in count.values()]):
        return None
    left = set(count)
    if "_Complex" in left:
        real = basic_type([word for word in words if word != "_Complex"])
        return f"{real} _Complex" if f"{real} _Complex" in CODES else None
    if left & {"void", "_Bool", "float"}:
        return words[0] if len(words) == 1 else None
    if "double" in left:
        return {0: "double", 1: "long double"}.get(long) if len(left) == 1 else None
    if {"signed", "unsigned"} <= left or ("short" in left and long):
        return None
    sign = "unsigned " if "unsigned" in left else ""
    if "char" in left:
        plain = left <= {"char", "signed", "unsigned"} and not long
        return ("signed " if "signed" in left else sign) + "char" if plain else None
    if "short" in left:
        return sign + "short"
    return sign + ("long", "long long")[long - 1] if long else sign.strip() or "int"


_ALONE = {word: word for word in BASIC - {"signed", "_Complex"}} | {"signed": "int"}


def tokenizer() -> Callable[[str], list[str]]:
    """What gives the tokens of a text."""
    import re

    return re.compile(TOKEN).findall


def without_comments(text: str, lines: bool = False) -> str:
    """A text without its comments and digraphs, of the same length but for lines that continue;
    with `lines`, those that comments take remain.
    """
    import re

    if "\\" in text:
        text = re.sub(_SPLICE, "", text)
    if any([mark in text for mark in _MARKS]):

        def replaced(match: Match[str]) -> str:
            found = match.group()
            if found[0] in "\"'":
                return found
            blank = _DIGRAPHS.get(found) or " " * len(found)
            return blank + "\n" * found.count("\n") if lines else blank

        text = re.sub(_LEXICAL, replaced, text, flags=re.DOTALL)
    return text


def without_digraphs(line: str) -> str:
    """A line without comments, with the brackets that its digraphs stand for."""
    has = "<:" in line or ":>" in line or "<%" in line or "%>" in line
    return without_comments(line) if has else line


def with_complex(tokens: list[str]) -> list[str]:
    """Tokens in which the `complex` of <complex.h> is the language's."""
    if "complex" in tokens:
        real = {"float", "double", "long"}
        around = zip(["", *tokens], tokens, [*tokens[1:], ""], strict=False)
        tokens = [
            "_Complex" if token == "complex" and real & {before, after} else token
            for before, token, after in around
        ]
    return tokens


class CSource:
    """A text of declarations: as given, and its tokens.

    Attributes
    ----------
    text : str
        As given.
    tokens : list of str
    macros : dict of str to Integer
        ``#define``\\ d integers.
    """

    def __init__(self, text: str) -> None:
        import re

        if not isinstance(text, str):
            raise TypeError(f"C declarations must be str (got {type(text).__name__})")
        # A subclass may answer wrongly about its length and characters.
        self.text = text = str.__str__(text)
        self.macros: dict[str, Integer] = {}
        self._included: int | None = None  # where the first #include is
        self._clean = clean = without_comments(text)
        if "/*" in clean:
            raise self._error("a comment is never closed", clean.index("/*"))
        if "#" in clean:
            for match in re.finditer(r"^[^\S\n]*#([^\n]*)", clean, re.MULTILINE):
                self._directive(match.group(1), match.start(1) - 1)
                start, end = match.span()
                self._clean = self._clean[:start] + " " * (end - start) + self._clean[end:]
            if "#" in self._clean:
                hint = "a directive stands at the beginning of a line"
                raise self._error("unexpected '#'", self._clean.index("#"), hint)
        self._clean = re.sub(_CONVENTIONS, lambda found: " " * len(found[0]), self._clean)
        self._check_brackets()
        self.tokens = with_complex(tokenizer()(self._clean))
        if not self.tokens and self._included is not None:
            reason = "nothing is declared: #include is read over in a text"
            raise self._error(reason, self._included, "name the header, as in header='math.h'")

    def error(self, reason: str, token: int, hint: str | None = None) -> SignatureError:
        """The error for a token by its index; the end's is the number of tokens."""
        import re

        starts = [match.start() for match in re.finditer(TOKEN, self._clean)]
        at = starts[token] if token < len(starts) else len(self._clean.rstrip())
        return self._error(reason, at, hint)

    def placed(self, error: Exception, token: int, hint: str | None = None) -> SignatureError:
        """The error of a parser, about the token that it names, or else about `token`."""
        hint = hint or getattr(error, "hint", None)
        if isinstance(error, RecursionError):
            return self.error("nested too deeply", token)
        at = getattr(error, "at", None)
        reason = error.reason if isinstance(error, SignatureError) else str(error)
        return self.error(reason, token if at is None else at, hint)

    def _error(self, reason: str, at: int, hint: str | None = None) -> SignatureError:
        """The error for what begins at an index of the text without comments."""
        import re

        text = self.text
        if len(text) != len(self._clean):
            gone = {i for match in re.finditer(_SPLICE, text) for i in range(*match.span())}
            places = [i for i in range(len(text)) if i not in gone]
            at = places[at] if at < len(places) else len(text)
        column = at - text.rfind("\n", 0, at)
        line = text.count("\n", 0, at) + 1 if "\n" in text else None
        return SignatureError(reason, text, column, line, hint)

    def outermost(self) -> Iterator[tuple[str, int]]:
        """The tokens outside all brackets, with their indices."""
        depth = 0
        for index, token in enumerate(self.tokens):
            if token in ("(", "[", "{"):
                depth += 1
            elif token in (")", "]", "}"):
                depth -= 1
            elif depth == 0:
                yield token, index

    def _directive(self, text: str, at: int) -> None:
        import re

        words = " ".join(text.split())
        name = re.match(r"\w*", words).group()  # type: ignore[union-attr]  # the pattern always matches
        rest = words[len(name) :].lstrip()
        if name == "define":
            match = re.fullmatch(rf"([^\W\d]\w*)\s+\(?\s*({_INTEGER})\s*\)?", rest)
            if match is None:
                macro = re.split(r"\W", rest, maxsplit=1)[0]
                raise self._error(f"macro {macro!r} is not an integer", at, "leave it out")
            try:
                macro, value = match.group(1), integer(match.group(2))
            except OverflowError as error:
                raise self._error(str(error), at) from None
            if self.macros.setdefault(macro, value) != value:
                raise self._error(f"macro {macro!r} has another value before", at)
        elif name == "pragma" and rest.startswith("pack"):
            hint = "declare a struct with __attribute__((packed))"
            raise self._error("'#pragma pack' is not read", at, hint)
        elif name == "undef" and rest in self.macros:
            raise self._error(f"macro {rest!r} has a value before", at, "give it one value")
        elif name == "include" and self._included is None:
            self._included = at
        elif name not in ("", "include", "pragma", "line", "undef") and not name.isdigit():
            raise self._error(f"'#{name}' is not evaluated", at, "leave in what it selects")

    def _check_brackets(self) -> None:
        import re

        pairs = {")": "(", "]": "[", "}": "{"}
        opened: list[tuple[str, int]] = []
        for match in re.finditer(_BRACKETS, self._clean):
            found, start = match.group(), match.start()
            if found in pairs:
                if not opened or opened.pop()[0] != pairs[found]:
                    raise self._error(f"unexpected {found!r}", start)
            elif found[0] not in "\"'":
                opened.append((found, start))
                if len(opened) > MAX_DEPTH:
                    raise self._error(f"nested more than {MAX_DEPTH} levels deep", start)
        if opened:
            found, start = opened[-1]
            raise self._error(f"{found!r} is never closed", start)


def integer(literal: str) -> Integer:
    """The value of an integer literal of C, which may have a sign, and its type.

    >>> [integer(text)[0] for text in ("-3", "-1U", "0x10", "010", "0b11")]
    [-3, 4294967295, 16, 8, 3]
    """
    value, bits, signed = typed_integer(literal.lstrip("+-"))
    return fit(-value, bits, signed) if literal[0] == "-" else value, bits, signed


def typed_integer(literal: str) -> Integer:
    """The value of an integer literal without a sign, and its type; OverflowError where no type of
    C has it.
    """
    suffix = literal[len(literal.rstrip("uUlL")) :] if literal[-1] in "uUlL" else ""
    digits = literal[: len(literal) - len(suffix)].lower()
    base = 16 if digits[:2] == "0x" else 2 if digits[:2] == "0b" else 8 if digits[0] == "0" else 10
    if len(digits) > 100:  # Python refuses to read thousands
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
    """What is left of `value` in an integer of so many bits."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> (bits - 1) else value
