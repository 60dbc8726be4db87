"""The text stage of reading C: what has no bearing on types is blanked, and no place is lost.

`CSource` takes a text of declarations and leaves plain C for a parser: lines that a backslash
continues are one, comments are spaces, digraphs are what they stand for; directives, `restrict`,
`extern "C"` and attributes are gone; basic types are spelled in one way, however their words are
ordered, complex types and those that C lacks have names that cffi accepts, brackets balance. What
would change a type or a calling convention unseen (``#if``, ``#pragma pack``, ``aligned``) is
refused by name. `packed` is understood.
"""

from __future__ import annotations

from .._errors import SignatureError
from .ctype import MAX_DEPTH, SCALARS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

Integer = tuple[int, int, bool]  # a value, the bits of its type, whether that has a sign


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


KEYWORDS = _words(
    "auto break case char const continue default do double else enum extern float for goto if "
    "inline int long register restrict return short signed sizeof static struct switch typedef "
    "union unsigned void volatile while _Alignas _Alignof _Atomic _Bool _Complex _Generic "
    "_Imaginary _Noreturn _Static_assert _Thread_local bool complex"
)
# Words without bearing on a type, as far as a caller can tell.
_IGNORED = _words(
    "inline __inline __inline__ restrict __restrict __restrict__ volatile __volatile __volatile__ "
    "_Noreturn __extension__ __cdecl __stdcall WINAPI APIENTRY CALLBACK _Thread_local __thread"
)
# Attributes that change how a value is laid out or passed.
_ABI_ATTRIBUTES = _words(
    "aligned ms_abi sysv_abi stdcall fastcall thiscall vectorcall regparm vector_size mode align "
    "scalar_storage_order transparent_union pcs ms_struct gcc_struct"
)
_SYNONYMS = {
    "__const": "const",
    "__const__": "const",
    "__signed": "signed",
    "__signed__": "signed",
    "complex": "_Complex",
    "__complex": "_Complex",
    "__complex__": "_Complex",
}
_FOREIGN = {one.c_name: f"__nc_{one.text}" for one in SCALARS.values() if not one.native}
_FOREIGN["__fp16"] = "__nc_e"
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
}
BASIC = _words("void char short int long float double signed unsigned _Bool _Complex")
_STORAGE = _words("typedef extern static register auto")
_NESTING = frozenset("*[(!~+-/%?&|^<>")  # tokens that nest without closing
_MAX_OPERATORS = 256  # in one expression
_COMPLEX_NAMES = {"float": "__nc_Zf", "double": "__nc_Zd", "long double": "__nc_Zg"}
_SUFFIX = r"(?:[uU](?:ll|LL|[lL])?|(?:ll|LL|[lL])[uU]?)?"
INTEGER = rf"[-+]?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|0[0-7]*|[1-9][0-9]*){_SUFFIX}"
# What translation phases 2 and 3 take away or spell otherwise, and what hides it.
SPLICE = r"\\[ \t\f\v]*\r?(?:\n|\Z)"
LEXICAL = (
    r'"(?:\\.|[^"\\\n])*"'
    r"|'(?:\\.|[^'\\\n])*'"
    r"|/\*.*?\*/|//[^\n]*|/\*|<:|:>|<%|%>|%:|[\f\v]|\r(?=\n)"
)
_DIGRAPHS = {"<:": "[", ":>": "]", "<%": "{", "%>": "}", "%:": "#"}


def basic_type(words: list[str]) -> str | None:
    """The usual spelling of the type that words in any order name; None where C has none.

    Never longer than the words are.

    >>> basic_type(["long", "unsigned", "int", "long"]), basic_type(["short", "double"])
    ('unsigned long long', None)
    """
    count = {word: words.count(word) for word in words}
    long = count.pop("long", 0)
    if long > 2 or any([n > 1 for n in count.values()]):
        return None
    left = set(count)
    if "_Complex" in left:
        real = basic_type([word for word in words if word != "_Complex"])
        return _COMPLEX_NAMES.get(real or "")
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


class CSource:
    """A text of declarations: as given, and as plain C.

    Indices are those of the plain C. `error` tells the place in the text as given.

    Attributes
    ----------
    text : str
        As given.
    clean : str
        For pycparser.
    tokens : list of (str, int)
        Tokens of `clean` with their indices.
    macros : dict of str to Integer
        ``#define``\\ d integers.
    bodies : int
        How many bodies of structs and unions there are.
    packed : set of int
        Ordinals of those that are declared packed.
    """

    def __init__(self, text: str) -> None:
        import re

        if not isinstance(text, str):
            raise TypeError(f"C declarations must be str (got {type(text).__name__})")
        # A subclass may answer wrongly about its length and characters.
        self.text = text = str.__str__(text)
        self.macros: dict[str, Integer] = {}
        self.bodies = 0
        self.packed: set[int] = set()
        self._lines: list[int] = []  # where the lines of `clean` begin, once it is asked
        self._spliced = re.sub(SPLICE, "", text)
        self._places: list[int] | None = None  # in `text`, where it is another one
        if len(self._spliced) != len(text):
            gone = {at for match in re.finditer(SPLICE, text) for at in range(*match.span())}
            self._places = [at for at in range(len(text)) if at not in gone]
        self._characters = list(self._spliced)
        for match in re.finditer(LEXICAL, self._spliced, re.DOTALL):
            found = match.group()
            if found == "/*":
                raise self.error("a comment is never closed", match.start())
            if found[0] not in "\"'":
                self._blank(*match.span(), _DIGRAPHS.get(found, ""))
        for match in re.finditer(r"^[^\S\n]*#([^\n]*)", "".join(self._characters), re.MULTILINE):
            self._directive(match.group(1), match.start(1) - 1)
            self._blank(*match.span())
        self.tokens = self._tokens()
        self._attributes()
        self._brackets()
        self._words()
        self._finish()

    def error(self, reason: str, at: int, hint: str | None = None) -> SignatureError:
        """The error for what begins at index `at`."""
        if self._places is not None:
            at = self._places[at] if at < len(self._places) else len(self.text)
        at = min(at, len(self.text))
        column = at - self.text.rfind("\n", 0, at)
        line = self.text.count("\n", 0, at) + 1 if "\n" in self.text else None
        return SignatureError(reason, self.text, column, line, hint)

    def index(self, line: int, column: int) -> int:
        """The index of a line and column of `clean`, or its length beyond its end."""
        if not self._lines:
            ends = [at for at, character in enumerate(self.clean) if character == "\n"]
            self._lines = [0, *[end + 1 for end in ends]]
        if line > len(self._lines):
            return len(self.clean)
        return min(self._lines[line - 1] + max(column, 1) - 1, len(self.clean))

    def end(self) -> int:
        """The index where the text ends, but for white space."""
        return len(self._spliced.rstrip())

    def first(self) -> int:
        """The index where the declarations begin."""
        return self.tokens[0][1] if self.tokens else 0

    def outermost(self) -> Iterator[tuple[str, int]]:
        """The tokens outside all brackets."""
        depth = 0
        for token, start in self.tokens:
            if token in ("(", "[", "{"):
                depth += 1
            elif token in (")", "]", "}"):
                depth -= 1
            elif depth == 0:
                yield token, start

    def leave_out(self, places: list[tuple[int, int]]) -> None:
        """Blank what stands at `places`, each from an index to another."""
        for start, end in places:
            self._blank(start, end)
        self._finish()

    def without(self, words: tuple[str, ...]) -> None:
        """Blank the outermost tokens that are among `words`."""
        for token, start in [*self.outermost()]:
            if token in words:
                self._blank(start, start + len(token))
        self._finish()

    def _finish(self) -> None:
        self.clean = "".join(self._characters)
        self._lines = []
        self.tokens = self._tokens()

    def _tokens(self) -> list[tuple[str, int]]:
        import re

        token = r'[A-Za-z_]\w*|\.?[0-9][\w.]*|\.\.\.|"(?:\\.|[^"\\\n])*"|\S'
        found = re.finditer(token, "".join(self._characters), re.ASCII)
        return [(match.group(), match.start()) for match in found]

    def _blank(self, start: int, end: int, replacement: str = "") -> None:
        self._characters[start:end] = replacement.ljust(end - start)

    def _directive(self, text: str, at: int) -> None:
        import re

        words = " ".join(text.split())
        name = re.match(r"\w*", words).group()  # type: ignore[union-attr]  # the pattern always matches
        rest = words[len(name) :].lstrip()
        if name == "define":
            match = re.fullmatch(rf"([A-Za-z_]\w*)\s+\(?\s*({INTEGER})\s*\)?", rest, re.ASCII)
            if match is None:
                macro = re.split(r"\W", rest, maxsplit=1)[0]
                raise self.error(f"macro {macro!r} is not an integer", at, "leave it out")
            try:
                macro, value = match.group(1), integer(match.group(2))
            except OverflowError as error:
                raise self.error(str(error), at) from None
            if self.macros.setdefault(macro, value) != value:
                raise self.error(f"macro {macro!r} has another value before", at)
        elif name == "pragma" and rest.startswith("pack"):
            hint = "declare a struct with __attribute__((packed))"
            raise self.error("'#pragma pack' is not read", at, hint)
        elif name == "undef" and rest in self.macros:
            raise self.error(f"macro {rest!r} has a value before", at, "give it one value")
        elif name not in ("", "include", "pragma", "line", "undef") and not name.isdigit():
            raise self.error(f"'#{name}' is not evaluated", at, "leave in what it selects")

    def _attributes(self) -> None:
        """Blank attributes and linkage, note packed structs, refuse what changes the ABI."""
        tokens: list[tuple[str, int]] = []
        # The braces that are open: a struct's ordinal, `None` for an enum, or extern "C".
        opened: list[int | str | None] = []
        closed: int | str | None = None  # the one that has just ended
        pending = False  # packed was said between 'struct' and its body
        at = 0
        while at < len(self.tokens):
            token, start = self.tokens[at]
            if token in ("__attribute__", "__attribute", "__declspec", "_Alignas", "alignas"):
                end = self._balanced(at + 1)
                words = {t.strip("_") for t, _ in self.tokens[at + 1 : end]}
                changes = sorted(words & _ABI_ATTRIBUTES)
                if changes or "lignas" in token:
                    name = changes[0] if changes else token
                    raise self.error(f"attribute {name!r} changes how values are passed", start)
                if "packed" in words:
                    if isinstance(closed, int):
                        self.packed.add(closed)
                    elif tokens and tokens[-1][0] in ("struct", "union"):
                        pending = True
                    else:
                        hint = "it is read after 'struct' and after a struct's '}'"
                        raise self.error("attribute 'packed' is out of place", start, hint)
                self._blank(start, self.tokens[end - 1][1] + 1)
                at = end
                continue
            following = self.tokens[at + 1][0] if at + 1 < len(self.tokens) else ""
            if token in ("asm", "__asm", "__asm__"):
                raise self.error("a renamed symbol is not read", start, f"leave out {token!r}")
            if token == "extern" and following in ('"C"', '"C++"'):
                quoted = self.tokens[at + 1][1]
                self._blank(quoted, quoted + len(following))
                at += 2
                if at < len(self.tokens) and self.tokens[at][0] == "{":
                    self._blank(start, self.tokens[at][1] + 1)
                    opened.append("linkage")
                    at += 1
                else:
                    tokens.append((token, start))
                continue
            if token[0] in "\"'":
                raise self.error("a declaration has no string literals", start)
            if token == "#":
                # The parser would take it for a line marker, which is no declaration.
                hint = "a directive stands at the beginning of a line"
                raise self.error("unexpected '#'", start, hint)
            if token == "{":
                if any([word in ("struct", "union") for word, _ in tokens[-2:]]):
                    if pending:
                        self.packed.add(self.bodies)
                    opened.append(self.bodies)
                    self.bodies += 1
                else:
                    opened.append(None)
                pending = False
            closed = opened.pop() if token == "}" and opened else None
            if closed == "linkage":
                self._blank(start, start + 1)
                at += 1
                continue
            if token == ";":
                pending = False
            tokens.append((token, start))
            at += 1
        self.tokens = tokens

    def _balanced(self, at: int) -> int:
        """The index after the token that closes the parenthesis which token `at` opens."""
        depth = 0
        for index in range(at, len(self.tokens)):
            depth += {"(": 1, ")": -1}.get(self.tokens[index][0], 0)
            if depth == 0 and index > at:
                return index + 1
            if depth == 0:
                break
        raise self.error("expected '(…)' after an attribute", self.tokens[at - 1][1])

    def _brackets(self) -> None:
        pairs = {")": "(", "]": "[", "}": "{"}
        opened: list[tuple[str, int]] = []
        # What nests without closing: the stars and the dimensions of a declarator, the operators of
        # an expression. Parsers take time that grows with their square, so they are counted here,
        # for every bracket that is open: what has been seen since the last separator, and whether
        # that is an expression.
        levels: list[tuple[dict[str, int], bool]] = [({}, False)]
        for token, start in self.tokens:
            seen, expression = levels[-1]
            if token in (",", ";"):
                levels[-1] = {}, expression and len(levels) > 1 and opened[-1][0] != "{"
            elif token == "=":
                levels[-1] = {}, True
            elif token in _NESTING:
                kind = token if token in ("*", "[") and not expression else ""
                seen[kind] = seen.get(kind, 0) + 1
                if kind and seen[kind] > MAX_DEPTH:
                    raise self.error(f"nested more than {MAX_DEPTH} levels deep", start)
                if seen[kind] > _MAX_OPERATORS:
                    raise self.error(f"more than {_MAX_OPERATORS} operators in a row", start)
            if token in ("(", "[", "{"):
                levels.append(({}, token == "[" or (token == "(" and expression)))
            elif token in (")", "]", "}") and len(levels) > 1:
                levels.pop()
            if token in ("(", "[", "{"):
                opened.append((token, start))
                if len(opened) > MAX_DEPTH:
                    raise self.error(f"nested more than {MAX_DEPTH} levels deep", start)
            elif token in pairs and (not opened or opened.pop()[0] != pairs[token]):
                raise self.error(f"unexpected {token!r}", start)
        if opened:
            token, start = opened[-1]
            raise self.error(f"{token!r} is never closed", start)

    def _words(self) -> None:
        """Blank words without meaning here and spell types in the way that cffi reads."""
        tokens = self.tokens
        at = 0
        while at < len(tokens):
            token, start = tokens[at]
            if token in _FOREIGN:
                self._blank(start, start + len(token), _FOREIGN[token])
            elif token == "...":
                around = [tokens[i][0] if 0 <= i < len(tokens) else "" for i in (at - 1, at + 1)]
                if around != [",", ")"]:
                    raise self.error("'...' ends the arguments of a function, after others", start)
            end = at
            while end < len(tokens) and _is_specifier(tokens[end][0]):
                end += 1
            if end > at:
                self._specifiers(tokens[at:end])
                at = end
            else:
                at += 1

    def _specifiers(self, run: list[tuple[str, int]]) -> None:
        """Write words that specify a type, in the order that all compilers write them in."""
        words = [_SYNONYMS.get(token, token) for token, _ in run]
        storage = [word for word in words if word in _STORAGE]
        basic = [word for word in words if word in BASIC]
        (_, start), (last, last_start) = run[0], run[-1]
        if len(storage) > 1:
            second = [at for word, (_, at) in zip(words, run, strict=True) if word in _STORAGE][1]
            raise self.error(f"'{storage[0]} {storage[1]}' cannot be said of one thing", second)
        kept = [word for word in storage if word in ("typedef", "extern", "static")]
        kept += ["const"] * ("const" in words)
        if basic:
            name = basic_type(basic)
            if name is None:
                first = min([at for word, (_, at) in zip(words, run, strict=True) if word in BASIC])
                raise self.error(f"C has no type {' '.join(basic)!r}", first)
            kept.append(name)
        self._blank(start, last_start + len(last), " ".join(kept))


def _is_specifier(token: str) -> bool:
    token = _SYNONYMS.get(token, token)
    return token in BASIC or token in _STORAGE or token in _IGNORED or token == "const"


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
