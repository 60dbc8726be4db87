"""Writes the overloads of `nativecall.wrap` in nativecall/_public.pyi, by signature as written.

    python tests/typing/overloads.py

A literal signature of one to three arguments of ``d``, ``q`` and ``i``, with one of these, ``?`` or
nothing as its result, tells a type checker what the callable takes and gives. Signatures that are
the same to Python share an overload.
"""

from __future__ import annotations

import itertools
import re
from pathlib import Path

STUB = Path(__file__).resolve().parents[2] / "nativecall" / "_public.pyi"
BEGIN, END = "# ---- by signature", "# ---- otherwise"
TYPES = {"float": "d", "int": "qi"}
RESULTS = {"float": "d", "int": "qi", "bool": "?", "None": "v"}


def overloads() -> str:
    """The block between the two marks."""
    written = []
    for count in (1, 2, 3):
        for arguments in itertools.product(TYPES, repeat=count):
            for result, codes in RESULTS.items():
                spelled = [
                    f'"{code}:{"".join(passed)}"'
                    for code in codes
                    for passed in itertools.product(*[TYPES[one] for one in arguments])
                ]
                literal = f"Literal[{', '.join(spelled)}]"
                made = f"NativeCallable[[{', '.join(arguments)}], {result}]"
                written.append(
                    "@overload\n"
                    f"def wrap(target: object, signature: {literal}, **options: Unpack[_Plain])"
                    f" -> {made}: ...\n"
                )
    return "".join(written)


def with_overloads(stub: str) -> str:
    """The stub with this block in its place."""
    return re.sub(rf"(?<={BEGIN}\n).*?(?={END})", lambda found: overloads(), stub, flags=re.DOTALL)


if __name__ == "__main__":
    STUB.write_text(with_overloads(STUB.read_text(encoding="utf-8")), encoding="utf-8")
