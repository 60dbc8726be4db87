"""Split the text of a C declaration for display. This is not a parser and never raises an error."""

from __future__ import annotations

import re


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


KEYWORDS = _words(
    "auto break case char const continue default do double else enum extern float for goto if "
    "inline int long register restrict return short signed sizeof static struct switch typedef "
    "union unsigned void volatile while _Alignas _Alignof _Atomic _Bool _Complex _Generic "
    "_Imaginary _Noreturn _Static_assert _Thread_local bool complex"
)
#: Words of a declaration that are neither types nor names.
_AROUND = _words(
    "const volatile restrict __restrict struct union enum extern static inline __inline "
    "__extension__ register _Noreturn _Alignas alignas __attribute__ __attribute __declspec "
    "__asm__ asm"
)
#: Words of a declaration that take an argument in parentheses.
_WITH_MORE = _words(
    "_Alignas alignas __attribute__ __attribute __declspec __asm__ asm typeof __typeof__ _Atomic "
    "_BitInt"
)


#: If one of these tokens follows a "(", the parentheses enclose a declarator, not parameters.
_NESTED = ("*", "(", "__attribute__", "__cdecl")


def around_name(written: str) -> tuple[str, str] | None:
    """Split a function's declaration around the function's name, or around ``(*name)``.

    Return the text before the name and the text after it; the second begins with the parameters.
    Return None if no parameters are found. Comments are removed.
    """
    text = " ".join(re.sub(r"/\*.*?\*/|//[^\n]*", " ", written, flags=re.DOTALL).split())
    tokens = [(found[0], *found.span()) for found in re.finditer(r"\w+|\S", text)]
    words = [token for token, *_ in tokens] + [""] * 3

    def search(at: int, typed: bool) -> tuple[int, int] | None:
        """Return the start and end of the name in a declarator that begins at token `at`.

        The name precedes the parameters. `typed`: whether a type precedes the declarator.
        """
        name: tuple[int, int] | None = None
        while words[at] not in (")", ""):
            token, start, end = tokens[at]
            if token in ("(", "[", "{"):
                close = _closing(words, at)
                if token == "(" and (at == 0 or words[at - 1] not in _WITH_MORE):
                    ahead, alone = words[at + 1], words[at + 2 : at + 4] == [")", "("]
                    nests = ahead == "*" or (name is None and (ahead in _NESTED or alone))
                    found = search(at + 1, True) if nests else name or (start, start)
                    if found is not None:
                        return found
                    name = start, tokens[min(close, len(tokens) - 1)][2]
                typed = typed or token == "{"
                at = close + 1
                continue
            if token not in _AROUND:
                is_name = typed and token.isidentifier() and token not in KEYWORDS
                name = (start, end) if is_name else None
                typed = True
            at += 1
        return None

    found = search(0, False)
    return None if found is None else (text[: found[0]], text[found[1] :])


def _closing(words: list[str], at: int) -> int:
    """Return the index of the token that closes the bracket at token `at`."""
    depth = 0
    while words[at]:
        depth += (words[at] in ("(", "[", "{")) - (words[at] in (")", "]", "}"))
        if depth == 0:
            break
        at += 1
    return at
