"""Random signatures in every spelling of the grammar, and how Python parses them."""

from __future__ import annotations

import random
from collections.abc import Iterator

from nativecall._cdecl.spelling import parse
from nativecall._errors import SignatureError

#: Maximum width of a type's bit-field on every platform.
WIDTHS = {"?": 1, "b": 8, "h": 16, "i": 32, "l": 32, "q": 64}


class Maker:
    """Generator of random signatures in random spellings of the grammar."""

    SCALARS = [*"?cbBhHiIlLqQnNefdgPO", "Zf", "Zd", "Zg", "&v", "d", "d", "i", "f"]

    def __init__(self, seed: int, spaces: float = 0.1, names: bool = True) -> None:
        self.random = random.Random(seed)
        self.spaces = spaces
        self.names = names

    def type(self, place: str, depth: int) -> Iterator[str]:
        choose = self.random
        if depth > 4 or choose.random() < 0.7:
            yield from choose.choice(self.SCALARS)
            return
        kind = choose.choice("&XTTUA")
        if kind == "&":
            yield "&"
            yield from self.type("pointee", depth + 1)
        elif kind == "X":
            yield from "X{"
            yield from self.function(depth + 1)
            yield "}"
        elif kind in "TU":
            yield from choose.choice([[kind, "{"], [kind, "{"], ["=", kind, "{"]])
            for index in range(choose.randint(1, 4)):
                if choose.random() < 0.25:
                    code = choose.choice("?bBhHiIlLqQ")
                    bits = choose.randint(0, WIDTHS[code.lower()])
                    yield from (code, "#", str(bits))
                else:
                    yield from self.type("field", depth + 1)
                if self.names and choose.random() < 0.4:
                    yield from (":", choose.choice("xyz") + f"_{index}", ":")
            yield "}"
        elif place in ("field", "pointee", "array"):
            yield "("
            for index in range(choose.randint(1, 3)):
                if index:
                    yield ","
                yield "0" * choose.choice([0, 0, 0, 2]) + str(choose.randint(1, 400))
            yield ")"
            yield from self.type("array", depth + 1)
        elif place == "argument":
            yield from ("[", str(choose.randint(1, 64)), "]")
            yield from self.type("view", depth + 1)
        else:
            yield "d"

    def function(self, depth: int = 1) -> Iterator[str]:
        choose = self.random
        yield from ["v"] if choose.random() < 0.2 else self.type("result", depth)
        yield ":"
        count = choose.randint(0, 10 if depth == 1 else 3)
        for _ in range(count):
            yield from self.type("argument", depth)
        if count and choose.random() < 0.1:
            yield "."

    def text(self) -> str:
        tokens = []
        for token in self.function():
            if self.random.random() < self.spaces:
                tokens.append(self.random.choice([" ", "\t", "\n", "  ", "\r\f\v"]))
            tokens.append(token)
        return "".join(tokens)


def python_side(text: str) -> str | int:
    """Return the canonical form, or the 1-based column of an error, counting line ends."""
    try:
        return parse(text, hint="native").text
    except SignatureError as raised:
        error = raised
    assert error.position is not None
    if error.line is None:
        return error.position
    return sum(len(line) + 1 for line in text.split("\n")[: error.line - 1]) + error.position
