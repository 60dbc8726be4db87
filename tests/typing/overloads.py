"""Writes the overloads of `wrap` and `Library.function` by signature as written, in the stubs
nativecall/_public.pyi and nativecall/_public_library.pyi.

    python tests/typing/overloads.py && ruff format nativecall

A literal signature of one to three arguments of ``d``, ``q`` and ``i``, with one of these, ``?`` or
nothing as its result, tells a type checker what the callable takes and gives. Signatures that are
the same to Python share an overload. For all that take the same there is a class: such a callable
is a ``NativeCallable[[float], float]``, whose calls take what has ``__float__`` or ``__index__``.
"""

from __future__ import annotations

import itertools
import re
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[2] / "nativecall"
PUBLIC, LIBRARY = _PACKAGE / "_public.pyi", _PACKAGE / "_public_library.pyi"
TYPES = {"float": "d", "int": "qi"}
TAKEN = {"float": "Real", "int": "Integer"}
RESULTS = {"float": "d", "int": "qi", "bool": "?", "None": "v"}
SHAPES = [shape for count in (1, 2, 3) for shape in itertools.product(TYPES, repeat=count)]


def _class(arguments: tuple[str, ...]) -> str:
    return f"_Takes_{''.join([TYPES[one][0] for one in arguments])}"


def classes() -> str:
    """A class for all callables that take the same."""
    written = []
    for shape in SHAPES:
        taken = [TAKEN[one] for one in shape]
        named = ", ".join([f"x{at}: {one}" for at, one in enumerate(taken)])
        written.append(
            f"class {_class(shape)}(NativeCallable[[{', '.join(shape)}], _R]):\n"
            f"    def __call__(self, {named}, /) -> _R: ...\n"
            "    @property\n"
            f"    def builtin(self) -> Callable[[{', '.join(taken)}], _R]: ...\n"
        )
    return "".join(written)


def overloads(before: str, module: str = "") -> str:
    """The overloads of a function, whose first parameters are given."""
    indent = " " * (len(before) - len(before.lstrip()))
    written = []
    for shape in SHAPES:
        for result, codes in RESULTS.items():
            spelled = [
                f'"{code}:{"".join(passed)}"'
                for code in codes
                for passed in itertools.product(*[TYPES[one] for one in shape])
            ]
            literal = f"Literal[{', '.join(spelled)}]"
            written.append(
                f"{indent}@overload\n"
                f"{before}signature: {literal}, **options: Unpack[_Plain])"
                f" -> {module}{_class(shape)}[{result}]: ...\n"
            )
    return "".join(written)


def _replaced(text: str, begin: str, end: str, block: str) -> str:
    found = re.compile(rf"(?<=# ---- {begin}\n).*?(?=^ *# ---- {end})", re.DOTALL | re.MULTILINE)
    return found.sub(lambda _: block, text)


def with_overloads(stub: Path) -> str:
    """A stub with these blocks in their places."""
    text = stub.read_text(encoding="utf-8")
    if stub == PUBLIC:
        text = _replaced(text, "by arguments", "by signature", classes())
        block = overloads("def wrap(target: object, ")
    else:
        block = overloads("    def function(self, symbol: str, ", "_public.")
    return _replaced(text, "by signature", "otherwise", block)


if __name__ == "__main__":
    for one in (PUBLIC, LIBRARY):
        one.write_text(with_overloads(one), encoding="utf-8")
