"""Which pointers lead to text: to characters that C declares `const`; for nodes (nodes.py).

Also which arguments of a function that is an argument lead to arrays that it must not write to.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .._ext import FFIType

#: The types whose characters make text, behind pointers to const ones.
CHARACTERS = ("char", "wchar_t", "char16_t", "char32_t")
#: DeclSpecifiers in their place of a pointer to a const array.
CONST = "const"


def characters(ctype: FFIType, const: bool) -> str:
    """Which characters a pointer leads to, to const ones or not; ``""`` where it is no text."""
    text = const and ctype.kind == "pointer" and ctype.item.kind == "primitive"
    return str(ctype.item.cname) if text and ctype.item.cname in CHARACTERS else ""


def _characters_behind(ctype: FFIType) -> str:
    """Which characters a pointer leads to by pointers to const ones, after ``*``."""
    if ctype.kind != "pointer" or ctype.item.kind != "pointer":
        return ""
    found = characters(ctype.item, ctype.item.const)
    return f"*{found}" if found else ""


def texts(args: Sequence[FFIType], readonly: Sequence[bool], result: FFIType) -> tuple[str, ...]:
    """Which characters each argument of a node's function leads to, and the result at the end; ()
    where there is no text. Of an argument that is a function, those of its own arguments and of its
    result, in parentheses, ``"(char,,)"``, with ``const`` for a pointer to a const array; of a
    pointer to pointers ``"*char"``.
    """
    found = []
    for arg, const in zip(args, readonly, strict=True):
        text = characters(arg, const) or _characters_behind(arg)
        if arg.kind == "pointer" and arg.item.kind == "function":
            inner = zip(arg.item.args, arg.item.readonly, strict=True)
            text = _together([*[_given(*one) for one in inner], _returned(arg.item.result)])
        found.append(text)
    found.append(_returned(result))
    return tuple(found) if any(found) else ()


def _given(arg: FFIType, const: bool) -> str:
    """What is said of an argument of a function that is an argument."""
    is_array = const and arg.kind == "pointer" and arg.item.kind == "array"
    return CONST if is_array else characters(arg, const)


def _returned(result: FFIType) -> str:
    return characters(result, getattr(result, "const", False))


def _together(found: Sequence[str]) -> str:
    """What is said of a function's arguments and result in one text; ``""`` for nothing."""
    return f"({','.join(found)})" if any(found) else ""
