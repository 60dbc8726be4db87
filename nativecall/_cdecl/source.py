"""Convert a text of declarations to tokens: the first stage of parsing.

This stage joins continued lines, removes comments, replaces digraphs, expands macros without
parameters, evaluates conditions and checks that brackets balance. Positions are preserved: `error`
gives the line and column of a token in the original text. No compiler runs. Features that need a
real preprocessor raise an error that names them.
"""

from __future__ import annotations

import os
import re
import sys
from itertools import pairwise

from .._errors import TYPE_CHECKING, SignatureError
from .._types.ctype import MAX_DEPTH, SCALARS, WORD
from .._types.grammar import shown
from .lexer import (
    CODES,
    SPLICE,
    TOKEN,
    Macro,
    Unexpanded,
    macro,
    tokenizer,
    with_complex,
    with_pragmas,
    without_comments,
)
from .parser import Unknown, condition, fault

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_MOST_TOKENS = 4096  # per expanded macro
_MOST_STEPS = 1 << 20
#: Directives that have no effect here.
_READ_OVER = ("", "pragma", "include", "include_next", "import", "warning", "line", "ident", "sccs")
_CONVENTIONS = r"\b(?:WINAPI|APIENTRY|CALLBACK)\b"  # calling conventions: empty macros on 64-bit
_COMPILER = "put the declarations into a header: with header= a C compiler reads them"


class CSource:
    """A text of declarations: the original and its tokens.

    This class evaluates conditions and expands macros without parameters. Pragmas for packing
    remain as tokens. ``#include`` and other pragmas are ignored. ``#error`` and unknown directives
    raise an error. A use of a macro with parameters becomes an `Unexpanded` token, which the parser
    rejects.

    Attributes
    ----------
    text : str
        The original.
    tokens : list of str
        The tokens after macro expansion; ``#pragma pack`` is one token.
    macros : dict of str to Macro
        The final definitions; predefined macros have file -1.
    files : list of str
    """

    files: list[str] = ["declarations"]

    def __init__(self, text: str, define: Iterable[tuple[str, str | None]] = ()) -> None:
        if not isinstance(text, str):
            raise TypeError(f"C declarations must be str (got {type(text).__name__})")
        # A subclass of str may override its methods.
        self.text = text = str.__str__(text)
        self.macros: dict[str, Macro] = {}
        self._included: int | None = None  # position of the first #include
        self._starts: list[int] = []
        self._clean = clean = without_comments(text)
        if "/*" in clean:
            raise self._error("a comment is never closed", clean.index("/*"))
        self._clean = re.sub(_CONVENTIONS, lambda found: " " * len(found[0]), clean)
        if "#" in clean or "__" in clean or "_Pragma" in clean or define:
            self.macros = predefined()
            for name, value in define:
                self.macros[name] = Macro("1" if value is None else value, None, -1, 0)
            self._expansion = Expansion(self.macros)
            self._preprocess()
        else:
            self.tokens = tokenizer()(self._clean)
        self.tokens = with_complex(self.tokens)
        if not self.tokens and self._included is not None:
            reason = "nothing is declared: #include is ignored in declarations given as text"
            raise self._error(reason, self._included, "name the header, as in header='math.h'")

    def error(self, reason: str, token: int, hint: str | None = None) -> SignatureError:
        """Return the error at the token with this index; an index past the last means the end."""
        return self._error(reason, self._start(token), hint)

    def placed(self, error: Exception, token: int, hint: str | None = None) -> SignatureError:
        """Return the error for a parser's exception, at the token `error.at` or else at `token`."""
        reason, at = fault(error, self.tokens, token)
        if at < len(self.tokens) and isinstance(self.tokens[at], Unexpanded):
            hint = _COMPILER
        return self.error(reason, at, hint or getattr(error, "hint", None))

    def place(self, token: int) -> tuple[int, int]:
        """Return the file index and the line of a token."""
        return 0, self.text.count("\n", 0, self._given(self._start(token))) + 1

    def _start(self, token: int) -> int:
        """Return the position of a token in the text without comments."""
        if not self._starts:
            self._starts = [match.start() for match in re.finditer(TOKEN, self._clean)]
        return self._starts[token] if token < len(self._starts) else len(self._clean.rstrip())

    def _given(self, at: int) -> int:
        """Return the original position for an index into the text without comments."""
        text = self.text
        if len(text) == len(self._clean):
            return at
        gone = {i for match in re.finditer(SPLICE, text) for i in range(*match.span())}
        places = [i for i in range(len(text)) if i not in gone]
        return places[at] if at < len(places) else len(text)

    def _error(self, reason: str, at: int, hint: str | None = None) -> SignatureError:
        """Return the error for an index into the text without comments."""
        text, at = self.text, self._given(at)
        column = at - text.rfind("\n", 0, at)
        line = text.count("\n", 0, at) + 1 if "\n" in text else None
        return SignatureError(reason, text, column, line, hint)

    # -- directives --------------------------------------------------------------------------------

    def _preprocess(self) -> None:
        """Execute the directives of a text, and expand its macros."""
        found: list[tuple[str, int]] = []
        #: For each open #if: its position, whether the current branch is read, whether a branch was
        #: taken, and whether the current branch is '#else'.
        self._conditions: list[tuple[int, bool, bool, bool]] = []
        begun = 0
        for match in re.finditer(r"^[^\S\n]*#([^\n]*)\n?", self._clean, re.MULTILINE):
            found += self._segment(begun, match.start())
            begun = match.end()
            directive = self._directive(match.group(1), match.start(1) - 1)
            if directive:
                found.append((directive, match.start(1) - 1))
        found += self._segment(begun, len(self._clean))
        if self._conditions:
            raise self._error("'#if' is never closed", self._conditions[-1][0], "write #endif")
        self.tokens = [token for token, _ in found]
        self._starts = [at for _, at in found]

    def _segment(self, start: int, end: int) -> list[tuple[str, int]]:
        """Return the tokens of the lines between directives, with macros expanded."""
        if self._conditions and not self._conditions[-1][1]:
            return []
        found = [
            (match.group(), match.start() + start)
            for match in re.finditer(TOKEN, self._clean[start:end])
        ]
        for token, at in found:
            if token == "#":
                raise self._error("unexpected '#'", at, "a directive must begin a line")
        made = self._expanded(found)
        if any([token == "_Pragma" for token, _ in made]):
            return [(one, made[at][1]) for at, one in with_pragmas([one for one, _ in made])]
        return made

    def _expanded(self, tokens: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
        try:
            return self._expansion.of(tokens)
        except Unknown as error:
            raise self._error(error.reason, error.at or 0) from None

    def _directive(self, text: str, at: int) -> str:
        """Execute a directive; return it if it remains as a token, otherwise ``""``."""
        name, rest = re.match(r"\s*(\w*)\s*(.*?)\s*$", text).groups()  # type: ignore[union-attr]  # the pattern always matches
        conditions = self._conditions
        outer = not conditions or conditions[-1][1]  # whether this line is read
        if name in ("if", "ifdef", "ifndef"):
            chosen = outer and self._holds(name, rest, at)
            conditions.append((at, chosen, chosen or not outer, False))
        elif name in ("elif", "elifdef", "elifndef", "else", "endif"):
            if not conditions:
                raise self._error(f"'#{name}' without '#if'", at)
            began, _, done, is_last = conditions.pop()
            if is_last and name != "endif":
                raise self._error(f"'#{name}' after '#else'", at)
            if name != "endif":
                chosen = not done and (name == "else" or self._holds(name[2:], rest, at))
                conditions.append((began, chosen, done or chosen, name == "else"))
        elif not outer:
            return ""
        elif name == "define":
            named, found = self._named(name, rest, at)
            self.macros[named] = found
            self._expansion.done.clear()
        elif name == "undef":
            self.macros.pop(self._named(name, rest, at)[0], None)
            self._expansion.done.clear()
        elif name == "error":
            raise self._error(f"#error {rest}", at, "pass macros that it needs in 'define'")
        elif name == "pragma" and rest.startswith("pack"):
            return f"#pragma {rest}"
        elif name == "include" and self._included is None:
            self._included = at
        elif name not in _READ_OVER and not name.isdecimal():
            raise self._error(f"'#{name}' is not a directive", at)
        return ""

    def _named(self, directive: str, text: str, at: int) -> tuple[str, Macro]:
        """Return the name and the definition of the macro in a directive."""
        found = macro(text, 0, 0)
        if found is None:
            raise self._error(f"'#{directive}' must name a macro (found {shown(text[:60])})", at)
        return found

    def _holds(self, name: str, text: str, at: int) -> bool:
        """Return whether a condition is true."""
        if name in ("ifdef", "ifndef"):
            return (self._named(name, text, at)[0] in self.macros) == (name == "ifdef")
        told = re.sub(
            r"\bdefined(?![\w$])\s*(?:\(\s*([\w$]+)\s*\)|([\w$]+))",
            lambda asked: str(int((asked[1] or asked[2]) in self.macros)),
            text,
        )
        tokens = [(word, at) for word in tokenizer()(told)]
        try:
            return condition([token for token, _ in self._expanded(tokens)])
        except (Unknown, RecursionError) as error:
            hint = _COMPILER if "used as a function" in str(error) else None
            reason = f"'#{name} {text[:60]}' cannot be computed: {error}"
            raise self._error(reason, at, hint) from None

    def check_brackets(self) -> None:
        """Reject unbalanced brackets, and brackets nested too deeply."""
        pairs = {")": "(", "]": "[", "}": "{"}
        opened: list[tuple[str, int]] = []
        for at, found in enumerate(self.tokens):
            if found in pairs:
                if not opened or opened.pop()[0] != pairs[found]:
                    raise self.error(f"unexpected {found!r}", at)
            elif found in ("(", "[", "{"):
                opened.append((found, at))
                if len(opened) > MAX_DEPTH:
                    raise self.error(f"nested more than {MAX_DEPTH} levels deep", at)
        if opened:
            found, at = opened[-1]
            raise self.error(f"{found!r} is never closed", at)


class Expansion:
    """Expands macros without parameters.

    Each ``#define`` can double the expansion of the previous one. So the length of each expansion
    and the total are limited.
    """

    def __init__(self, macros: Mapping[str, Macro]) -> None:
        self.macros = macros
        self.done: dict[str, list[str]] = {}  # complete expansions: no macro names are left
        self._left = _MOST_STEPS

    def of(self, tokens: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
        """Expand macros in tokens with positions.

        A macro is not expanded within itself. Uses of macros with parameters become `Unexpanded`.

        Raises
        ------
        Unknown
            If a macro's expansion is too long.
        """
        split, macros = tokenizer(), self.macros
        made: list[tuple[str, int]] = []
        open_: dict[str, tuple[Iterator[tuple[str, int]], int]] = {"": (iter(tokens), 0)}
        while open_:
            reading, begun = next(reversed(open_.values()))
            found = next(reading, None)
            if found is None:
                name, _ = open_.popitem()
                if name and not any([one in macros for one, _ in made[begun:]]):
                    self.done[name] = [one for one, _ in made[begun:]]
                continue
            token, at = found
            macro = macros.get(token)
            if macro is None or token in open_ or macro.parameters is not None:
                made.append(found)
                continue
            words = self.done.get(token)
            if words is None:
                words = split(macro.text)
                open_[token] = iter([(word, at) for word in words]), len(made)
            else:
                made += [(word, at) for word in words]
            self._left -= 1 + len(words)
            if self._left < 0 or (len(made) - begun > _MOST_TOKENS and len(open_) > 1):
                raise Unknown(f"macro {[*open_, token][1]!r} expands to too much", at)
        for index, ((token, at), (following, _)) in enumerate(pairwise(made)):
            if following == "(" and token in macros and macros[token].parameters is not None:
                made[index] = Unexpanded(f"{token} "), at  # the space keeps it unequal to keywords
        return made


def predefined() -> dict[str, Macro]:
    """Return the compiler's predefined macros that declarations use, for C17 on this machine."""
    system = {
        "linux": "__linux__ __unix__ __ELF__",
        "darwin": "__APPLE__ __MACH__",
        "win32": "_WIN32 _WIN64" if WORD == 8 else "_WIN32",
    }
    machine = os.uname().machine if hasattr(os, "uname") else "x86_64"
    names = f"{system.get(sys.platform, '__unix__')} __STDC__ __STDC_HOSTED__ __{machine}__"
    found = dict.fromkeys(names.split(), "1")
    if WORD == 8 and sys.platform != "win32":
        found |= {"__LP64__": "1", "_LP64": "1"}
    found |= {
        "__STDC_VERSION__": "201710L",
        "__GNUC__": "9",
        "__GNUC_MINOR__": "0",
        "__CHAR_BIT__": "8",
        "__ORDER_LITTLE_ENDIAN__": "1234",
        "__ORDER_BIG_ENDIAN__": "4321",
        "__BYTE_ORDER__": "1234" if sys.byteorder == "little" else "4321",
        "__SIZEOF_POINTER__": str(WORD),
        "__SIZEOF_SIZE_T__": str(WORD),
        "__SIZEOF_WCHAR_T__": "2" if sys.platform == "win32" else "4",
    }
    for name in ("short", "int", "long", "long long", "float", "double", "long double"):
        scalar = SCALARS[CODES[name]]
        spelled = name.upper().replace(" ", "_")
        found[f"__SIZEOF_{spelled}__"] = str(scalar.size)
        if scalar.kind == "int":
            suffix = "L" * name.count("long")
            found[f"__{spelled}_MAX__"] = f"{2 ** (8 * scalar.size - 1) - 1}{suffix}"
    return {name: Macro(text, None, -1, 0) for name, text in found.items()}
