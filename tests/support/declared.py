"""Types of signatures, by their names in declarations."""

from __future__ import annotations

from nativecall._cdecl.declarations import Declarations
from nativecall._cdecl.nodes import Converter
from nativecall._cdecl.typenames import TypeNames
from nativecall._errors import SignatureError
from nativecall._types.ctype import CType


def type_of(declared: Declarations, name: str) -> CType | None:
    """Return the type of a typedef or a tag; a pointer for a function.

    Return None if it is not a type of signatures.
    """
    node = TypeNames(declared).find(name)
    assert node is not None, name
    try:
        return Converter().type(node.pointer() if node.kind == "function" else node)
    except SignatureError:
        return None
