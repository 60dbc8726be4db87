"""The text stage of reading C: what has no bearing on types is blanked, without moving a column.

`CSource` takes a text of declarations and leaves plain C of the same shape for a parser: comments,
directives, `restrict`, `extern "C"` and attributes are gone, complex and half-precision types have
names that cffi accepts, brackets balance. What would change a type or a calling convention unseen
(``#if``, ``#pragma pack``, ``aligned``) is refused by name. `packed` is understood.
"""

from __future__ import annotations

from .ctype import MAX_DEPTH
from .errors import SignatureError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["INTEGER", "KEYWORDS", "CSource", "integer"]


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
    "inline __inline __inline__ restrict __restrict __restrict__ volatile __volatile__ register "
    "_Noreturn __extension__ __cdecl __stdcall WINAPI APIENTRY CALLBACK _Thread_local __thread"
)
# Attributes that change how a value is laid out or passed.
_ABI_ATTRIBUTES = _words(
    "aligned ms_abi sysv_abi stdcall fastcall thiscall vectorcall regparm vector_size mode align "
    "scalar_storage_order transparent_union pcs ms_struct gcc_struct"
)
_SYNONYMS = {"__const": "const", "__const__": "const", "__signed__": "signed"}
_HALVES = ("_Float16", "__fp16")
_COMPLEX = ("_Complex", "complex", "__complex__")
_REAL = ("float", "double", "long")
INTEGER = r"[-+]?(?:0[xX][0-9a-fA-F]+|[0-9]+)[uUlL]*"


class CSource:
    """A text of declarations: as given, and blanked to plain C without moving a column.

    Attributes
    ----------
    text : str
        As given.
    clean : str
        Of the same shape, for pycparser.
    tokens : list of (str, int)
        Tokens of `clean` with their indices.
    macros : dict of str to int
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
        self.text = text
        self.macros: dict[str, int] = {}
        self.bodies = 0
        self.packed: set[int] = set()
        self._characters = list(text)
        for match in re.finditer(
            r'"(?:\\.|[^"\\\n])*"' r"|'(?:\\.|[^'\\\n])*'" r"|/\*.*?\*/|//[^\n]*|/\*",
            text,
            re.DOTALL,
        ):
            if match.group() == "/*":
                raise self.error("a comment is never closed", match.start())
            if match.group()[0] == "/":
                self._blank(match.start(), match.end())
        text = "".join(self._characters)
        for match in re.finditer(r"^[^\S\n]*#((?:\\\n|[^\n])*)", text, re.MULTILINE):
            self._directive(match.group(1).replace("\\\n", "  "), match.start(1) - 1)
            self._blank(match.start(), match.end())
        self.tokens = self._tokens()
        self._attributes()
        self._brackets()
        self._words()
        self._finish()

    def error(self, reason: str, at: int, hint: str | None = None) -> SignatureError:
        """The error for what begins at index `at`."""
        at = min(at, len(self.text))
        column = at - self.text.rfind("\n", 0, at)
        line = self.text.count("\n", 0, at) + 1 if "\n" in self.text else None
        return SignatureError(reason, self.text, column, line, hint)

    def index(self, line: int, column: int) -> int:
        """The index of a line and column, or the text's length beyond its end."""
        start = 0
        for _ in range(line - 1):
            start = self.text.find("\n", start) + 1
            if start == 0:
                return len(self.text)
        return min(start + max(column, 1) - 1, len(self.text))

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

    def without(self, words: tuple[str, ...]) -> None:
        """Blank the outermost tokens that are among `words`."""
        for token, start in [*self.outermost()]:
            if token in words:
                self._blank(start, start + len(token))
        self._finish()

    def _finish(self) -> None:
        self.clean = "".join(self._characters)
        self.tokens = self._tokens()

    def _tokens(self) -> list[tuple[str, int]]:
        import re

        token = r'[A-Za-z_]\w*|\.?[0-9][\w.]*|\.\.\.|"(?:\\.|[^"\\\n])*"|\S'
        found = re.finditer(token, "".join(self._characters), re.ASCII)
        return [(match.group(), match.start()) for match in found]

    def _blank(self, start: int, end: int, replacement: str = "") -> None:
        for at in range(start, end):
            if self._characters[at] != "\n":
                self._characters[at] = " "
        self._characters[start : start + len(replacement)] = replacement

    def _directive(self, text: str, at: int) -> None:
        import re

        name, _, rest = text.strip().partition(" ")
        rest = rest.strip()
        if name == "define":
            match = re.fullmatch(rf"([A-Za-z_]\w*)\s+\(?\s*({INTEGER})\s*\)?", rest, re.ASCII)
            if match is None:
                macro = re.split(r"\W", rest, maxsplit=1)[0]
                raise self.error(f"macro {macro!r} is not an integer", at, "leave it out")
            self.macros[match.group(1)] = integer(match.group(2))
        elif name == "pragma" and rest.startswith("pack"):
            hint = "declare a struct with __attribute__((packed))"
            raise self.error("'#pragma pack' is not read", at, hint)
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
                if any(word in ("struct", "union") for word, _ in tokens[-2:]):
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
        for token, start in self.tokens:
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
            if token in _IGNORED:
                self._blank(start, start + len(token))
            elif token in _SYNONYMS:
                self._blank(start, start + len(token), _SYNONYMS[token])
            elif token in _HALVES:
                self._blank(start, start + len(token), "__nc_e")
            elif token == "...":
                around = [tokens[i][0] if 0 <= i < len(tokens) else "" for i in (at - 1, at + 1)]
                if around != [",", ")"]:
                    raise self.error("'...' ends the arguments of a function, after others", start)
            elif token in _COMPLEX or token in _REAL:
                end = at
                while end < len(tokens) and tokens[end][0] in _COMPLEX + _REAL:
                    end += 1
                run = [t for t, _ in tokens[at:end]]
                real = [t for t in run if t in _REAL]
                name = {
                    ("float",): "__nc_Zf",
                    ("double",): "__nc_Zd",
                    ("double", "long"): "__nc_Zg",
                }.get(tuple(sorted(real)))
                if name and len(run) == len(real) + 1:
                    last, last_start = tokens[end - 1]
                    self._blank(start, last_start + len(last), name)
                at = end
                continue
            at += 1


def integer(literal: str) -> int:
    """The value of an integer literal of C, which may have a sign."""
    sign, digits = (-1, literal[1:]) if literal[0] == "-" else (1, literal.lstrip("+"))
    digits = digits.rstrip("uUlL")
    octal = len(digits) > 1 and digits.isdigit() and digits[0] == "0"
    return sign * int(digits, 8 if octal else 0)
